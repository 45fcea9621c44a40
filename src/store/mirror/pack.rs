//! Packs: files of records, read by position or walked from end to end.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

use memchr::memmem;

use super::record::{self, COMMIT, COMMIT_MARKER, HEADER, Header, Kind, MARKER};
use crate::disk::Root;
use crate::error::{Error, ErrorKind, Result};
use crate::model::digest::Digest;
use crate::store::layout;

/// Bytes before the first record: magic 8, version u32, number of the pack u32.
pub(super) const PACK_HEADER: u64 = 16;
/// A pack that reached this length at the end of a batch is followed by a new one.
pub(super) const PACK_TARGET: u64 = 64 << 20;

const MAGIC: [u8; 8] = *b"CASSPACK";
const VERSION: u32 = 1;
/// Packs kept open at once.
const OPEN_PACKS: usize = 64;
/// Bytes read at once when a pack is walked.
const STEP: usize = 1 << 20;

/// Where an object lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Loc {
    pub pack: u32,
    pub offset: u64,
    pub stored_len: u32,
    pub plain_len: u32,
    pub kind: Kind,
}

/// The header of pack `n`.
pub(super) fn header(n: u32) -> [u8; 16] {
    let mut out = [0u8; 16];
    out[..8].copy_from_slice(&MAGIC);
    out[8..12].copy_from_slice(&VERSION.to_le_bytes());
    out[12..].copy_from_slice(&n.to_le_bytes());
    out
}

/// The number in the name of a pack.
pub(super) fn number(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".pack")?;
    let n = digits.parse().ok()?;
    (digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_digit()) && n > 0).then_some(n)
}

/// The packs of a mirror, opened as they are needed.
#[derive(Debug)]
pub(super) struct Packs<'r> {
    root: &'r Root,
    open: Mutex<BTreeMap<u32, Arc<File>>>,
}

impl<'r> Packs<'r> {
    pub(super) fn new(root: &'r Root) -> Self {
        Packs {
            root,
            open: Mutex::new(BTreeMap::new()),
        }
    }

    fn file(&self, n: u32) -> Result<Option<Arc<File>>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = open.get(&n) {
            return Ok(Some(Arc::clone(file)));
        }
        let Some(file) = self.root.open_file(&layout::pack(n))? else {
            return Ok(None);
        };
        if open.len() >= OPEN_PACKS {
            open.pop_first();
        }
        let file = Arc::new(file);
        open.insert(n, Arc::clone(&file));
        Ok(Some(file))
    }

    /// The record at `loc`, if it is the object's and undamaged as stored.
    fn record(
        &self,
        digest: &Digest,
        loc: &Loc,
    ) -> Result<std::result::Result<(Header, Vec<u8>), &'static str>> {
        let Some(file) = self.file(loc.pack)? else {
            return Ok(Err("its pack is missing"));
        };
        let stored = usize::try_from(loc.stored_len).unwrap_or(usize::MAX);
        if stored > record::MAX_PLAIN {
            return Ok(Err("the index says a length that no object has"));
        }
        let mut bytes = vec![0u8; HEADER + stored];
        match file.read_exact_at(&mut bytes, loc.offset) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                return Ok(Err("the pack ends before it"));
            }
            // A bad sector is damage of this object, not a failure of the whole run.
            Err(e) if e.raw_os_error() == Some(5) => {
                return Ok(Err("it can't be read from the disk"));
            }
            Err(e) => {
                return Err(Error::io(
                    "read",
                    &self.root.full(&layout::pack(loc.pack)),
                    e,
                ));
            }
        }
        Ok(match record::parse_header(&bytes) {
            Some(h) if h.digest == *digest && h.stored_len == loc.stored_len => Ok((h, bytes)),
            Some(_) => Err("another object lies where it should be"),
            None => Err("its header is damaged"),
        })
    }

    /// Whether the record at `loc` says it is this object; its payload is not looked at.
    pub(super) fn names(&self, digest: &Digest, loc: &Loc) -> Result<bool> {
        let mut head = [0u8; HEADER];
        let read = match self.file(loc.pack)? {
            Some(file) => file.read_exact_at(&mut head, loc.offset).is_ok(),
            None => false,
        };
        Ok(read
            && record::parse_header(&head)
                .is_some_and(|h| h.digest == *digest && h.stored_len == loc.stored_len))
    }

    /// What the header at an offset says, if anything sensible: a name for damage.
    pub(super) fn name_at(&self, n: u32, offset: u64) -> Option<Digest> {
        let mut head = [0u8; HEADER];
        self.file(n).ok()??.read_exact_at(&mut head, offset).ok()?;
        record::parse_header(&head).map(|h| h.digest)
    }

    /// Whether the object at `loc` is as it was stored. Reads it, without decompressing.
    pub(super) fn intact(&self, digest: &Digest, loc: &Loc) -> Result<bool> {
        Ok(matches!(self.record(digest, loc)?, Ok((h, bytes)) if record::intact(&h, &bytes)))
    }

    /// The plain bytes of an object, checked.
    pub(super) fn read(&self, digest: &Digest, loc: &Loc) -> Result<Vec<u8>> {
        self.record(digest, loc)?
            .and_then(|(h, bytes)| record::open(&h, &bytes))
            .map_err(|why| damaged(digest, loc, why))
    }
}

fn damaged(digest: &Digest, loc: &Loc, why: &str) -> Error {
    let pack = layout::pack(loc.pack);
    Error::new(
        ErrorKind::VerifyFailed,
        format!(
            "object {digest} in {pack} at byte {} is damaged: {why}",
            loc.offset
        ),
    )
    .with_context("object", digest.to_hex())
    .with_context("pack", pack)
    .with_context("offset", loc.offset.to_string())
}

/// The error for an object that no pack holds.
pub(super) fn missing(digest: &Digest) -> Error {
    Error::new(
        ErrorKind::VerifyFailed,
        format!("object {digest} is in no pack"),
    )
    .with_context("object", digest.to_hex())
}

/// What a walk over a pack meets, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// A record whose check matches, at this offset.
    Record(Header, u64),
    /// A commit record that ends at this offset; `whole` when it agrees with the records before it.
    Commit { end: u64, whole: bool },
    /// Bytes that are neither.
    Damage { from: u64, to: u64 },
}

/// Walks a pack from an offset at which a record or a commit record begins.
#[derive(Debug)]
pub(super) struct Walk<'f> {
    window: Window<'f>,
    at: u64,
    records: u32,
    bytes: u64,
    checks: blake3::Hasher,
    last: (usize, usize),
}

impl<'f> Walk<'f> {
    /// `len` is where the walk ends, normally the file's length.
    pub(super) fn new(file: &'f File, from: u64, len: u64) -> Self {
        Walk {
            window: Window {
                file,
                buf: Vec::new(),
                base: from,
                end: len,
            },
            at: from,
            records: 0,
            bytes: 0,
            checks: blake3::Hasher::new(),
            last: (0, 0),
        }
    }

    /// The whole record that [`Walk::next`] gave last.
    pub(super) fn record(&self) -> &[u8] {
        self.window.buf.get(self.last.0..self.last.1).unwrap_or(&[])
    }

    pub(super) fn next(&mut self) -> io::Result<Option<Event>> {
        if self.at >= self.window.end {
            return Ok(None);
        }
        if let Some(header) = self.record_at(self.at)? {
            let offset = self.at;
            self.records = self.records.saturating_add(1);
            self.bytes += header.record_len();
            self.checks.update(&header.check);
            self.at += header.record_len();
            return Ok(Some(Event::Record(header, offset)));
        }
        if let Some(commit) = self.commit_at(self.at)? {
            let agrees = commit.records == self.records
                && u64::from(commit.bytes) == self.bytes
                && record::commit_check(commit.records, commit.bytes, &self.checks) == commit.check;
            self.records = 0;
            self.bytes = 0;
            self.checks.reset();
            self.at += COMMIT as u64;
            return Ok(Some(Event::Commit {
                end: self.at,
                whole: agrees,
            }));
        }
        let from = self.at;
        self.at = self.resync(from + 1)?;
        Ok(Some(Event::Damage { from, to: self.at }))
    }

    fn record_at(&mut self, at: u64) -> io::Result<Option<Header>> {
        let Some(head) = self.window.get(at, HEADER)? else {
            return Ok(None);
        };
        let Some(header) = record::parse_header(&self.window.buf[head.0..head.1]) else {
            return Ok(None);
        };
        let len = HEADER + usize::try_from(header.stored_len).unwrap_or(0);
        let Some(whole) = self.window.get(at, len)? else {
            return Ok(None);
        };
        self.last = whole;
        Ok(record::intact(&header, &self.window.buf[whole.0..whole.1]).then_some(header))
    }

    fn commit_at(&mut self, at: u64) -> io::Result<Option<record::Commit>> {
        let Some((from, to)) = self.window.get(at, COMMIT)? else {
            return Ok(None);
        };
        Ok(record::parse_commit(&self.window.buf[from..to])
            .filter(|c| u64::from(c.bytes) <= at && (c.records == 0) == (c.bytes == 0)))
    }

    /// The next offset from `from` at which something valid begins, or the end.
    fn resync(&mut self, mut from: u64) -> io::Result<u64> {
        while from < self.window.end {
            let want = usize::try_from(self.window.end - from)
                .unwrap_or(STEP)
                .min(STEP);
            let Some((start, end)) = self.window.get(from, want)? else {
                break;
            };
            let hay = &self.window.buf[start..end];
            let first = [&MARKER[..], &COMMIT_MARKER[..]]
                .iter()
                .filter_map(|m| memmem::find(hay, m))
                .min();
            match first {
                Some(i) => {
                    let at = from + i as u64;
                    if self.record_at(at)?.is_some() || self.commit_at(at)?.is_some() {
                        return Ok(at);
                    }
                    from = at + 1;
                }
                None if from + want as u64 >= self.window.end => break,
                // A marker may lie across the border.
                None => from += (want - (COMMIT_MARKER.len() - 1)) as u64,
            }
        }
        Ok(self.window.end)
    }
}

/// A part of a file in memory.
#[derive(Debug)]
struct Window<'f> {
    file: &'f File,
    buf: Vec<u8>,
    base: u64,
    end: u64,
}

impl Window<'_> {
    /// Where in `buf` the `n` bytes at `at` are; `None` when the file ends before that.
    fn get(&mut self, at: u64, n: usize) -> io::Result<Option<(usize, usize)>> {
        if at.saturating_add(n as u64) > self.end {
            return Ok(None);
        }
        let have = self.base + self.buf.len() as u64;
        if at < self.base || at + n as u64 > have {
            if at >= self.base && at < have {
                let keep = usize::try_from(at - self.base).unwrap_or(0);
                self.buf.drain(..keep);
            } else {
                self.buf.clear();
            }
            self.base = at;
            let old = self.buf.len();
            let left = usize::try_from(self.end - at).unwrap_or(usize::MAX);
            self.buf.resize(n.max(STEP).min(left).max(old), 0);
            let read_at = at + old as u64;
            if let Err(e) = self.file.read_exact_at(&mut self.buf[old..], read_at) {
                self.buf.truncate(old);
                if e.kind() == io::ErrorKind::UnexpectedEof {
                    return Ok(None);
                }
                return Err(e);
            }
        }
        let from = usize::try_from(at - self.base).unwrap_or(0);
        Ok(Some((from, from + n)))
    }
}
