//! The pages of a database and of the WAL beside it.

use std::collections::HashSet;

use super::medium::Medium;
use super::overflow::Near;
use super::page::be32;
use super::wal::{FRAME, Log};

/// Which state of a page is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    /// The one in the database file.
    Database,
    /// The last one in the WAL up to this frame, else the one in the database file.
    UpTo(usize),
}

/// A database file and its WAL, with the size of their pages.
#[derive(Debug)]
pub struct Book {
    pub(super) db: Medium,
    pub(super) log: Log,
    page_size: usize,
    usable: usize,
}

impl Book {
    pub(super) fn new(db: Medium, log: Log, page_size: usize, reserved: usize) -> Book {
        let mut book = Book {
            db,
            log,
            page_size,
            usable: page_size,
        };
        book.set_size(page_size, reserved);
        book
    }

    pub(super) fn set_size(&mut self, page_size: usize, reserved: usize) {
        self.page_size = page_size;
        self.usable = page_size.saturating_sub(reserved).max(480);
        self.log.set_size(page_size);
    }

    /// Bytes of a page.
    #[must_use]
    pub fn page_size(&self) -> usize {
        self.page_size
    }

    pub(super) fn usable(&self) -> usize {
        self.usable
    }

    /// Pages of the database, a torn last one included.
    pub(super) fn pages(&self) -> u64 {
        self.db.len().div_ceil(self.page_size as u64)
    }

    /// Pages and frames.
    pub(super) fn slots(&self) -> u64 {
        self.pages() + self.log.frames.len() as u64
    }

    /// The page without its reserved end, from memory where it is near.
    pub(super) fn page<'a>(
        &self,
        number: u32,
        view: View,
        near: Near<'a>,
        buf: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        let size = self.page_size as u64;
        let frame = match view {
            View::Database => None,
            View::UpTo(frame) => self.log.state_of(number, frame),
        };
        if let Some(frame) = frame {
            buf.resize(self.page_size, 0);
            self.log.medium.read(self.log.content(frame), buf);
            return buf.get(..self.usable);
        }
        let at = u64::from(number).checked_sub(1)?.checked_mul(size)?;
        if at >= self.db.len() {
            return None;
        }
        let inside = at
            .checked_sub(near.at)
            .and_then(|from| usize::try_from(from).ok())
            .and_then(|from| near.bytes.get(from..from.checked_add(self.usable)?));
        if let Some(bytes) = inside {
            return Some(bytes);
        }
        buf.resize(self.page_size, 0);
        self.db.read(at, buf);
        buf.get(..self.usable)
    }

    /// The pages that the list of free pages names, as far as it can be followed.
    pub(super) fn free(&self) -> HashSet<u32> {
        let mut free = HashSet::new();
        let newest = self.log.end().map_or(View::Database, View::UpTo);
        let mut buf = Vec::new();
        let first = self
            .page(1, newest, Near::default(), &mut buf)
            .filter(|p| p.starts_with(b"SQLite format 3\0"))
            .and_then(|p| be32(p, 32));
        let mut trunk = first.unwrap_or(0);
        let pages = self.pages();
        while trunk != 0 && free.insert(trunk) {
            let mut buf = Vec::new();
            let Some(page) = self.page(trunk, newest, Near::default(), &mut buf) else {
                break;
            };
            let count = be32(page, 4).unwrap_or(0) as usize;
            for i in 0..count.min(page.len() / 4) {
                free.extend(be32(page, 8 + i * 4).filter(|n| u64::from(*n) <= pages));
            }
            trunk = be32(page, 0).unwrap_or(0);
        }
        free
    }

    /// Bytes from the begin of one frame of the WAL to the next.
    pub(super) fn stride(&self) -> usize {
        self.page_size + FRAME
    }
}
