//! The part of a payload that lies in other pages.

use std::sync::atomic::{AtomicU64, Ordering};

use super::book::{Book, View};
use super::page::be32;

/// How often each page may be read as a part of a chain before chains are given up: a page belongs
/// to one row, but a WAL holds many states of the page that the row begins in.
const READS: u64 = 64;
/// Reads that are always allowed.
const READS_MIN: u64 = 1 << 20;

/// What is left to be read in chains, so that a file made to have many long ones ends, too.
#[derive(Debug)]
pub(super) struct Budget(AtomicU64);

impl Budget {
    pub fn of(book: &Book) -> Budget {
        Budget(AtomicU64::new(
            book.slots().saturating_mul(READS).max(READS_MIN),
        ))
    }

    fn take(&self) -> bool {
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
            .is_ok()
    }
}

/// Pages that are in memory already: where they begin in the database, and their bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Near<'a> {
    pub at: u64,
    pub bytes: &'a [u8],
}

/// Puts `want` bytes of the chain that begins in page `first` behind `out`. False when the chain
/// ends before, leaves the file, or the budget is used up. As many pages as the length asks for are
/// read, so that a loop ends.
pub(super) fn follow(
    book: &Book,
    view: View,
    near: Near<'_>,
    first: u32,
    want: usize,
    budget: &Budget,
    out: &mut Vec<u8>,
) -> bool {
    let room = book.usable().saturating_sub(4);
    if room == 0 || (want as u64).div_ceil(room as u64) > book.slots() {
        return false;
    }
    let (mut number, mut left) = (first, want);
    let mut page = Vec::new();
    while left > 0 {
        if !budget.take() {
            return false;
        }
        let Some(bytes) = book.page(number, view, near, &mut page) else {
            return false;
        };
        let n = left.min(room);
        let (Some(next), Some(part)) = (be32(bytes, 0), bytes.get(4..4 + n)) else {
            return false;
        };
        out.extend_from_slice(part);
        (number, left) = (next, left - n);
    }
    true
}
