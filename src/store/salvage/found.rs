//! Where the rows lie that were found, and which may be lost.
//!
//! A leaf whose every cell is a row, in the order of their ids, is held as one run. So an archive
//! costs a few bytes a page however many rows it has; only where runs overlap are rows held one by
//! one.

use std::cmp::Reverse;
use std::collections::HashSet;

use rayon::prelude::*;

use super::book::Book;
use super::cell::Cell;
use super::edges::{Edges, Interiors};
use super::page::Page;

/// How new what lies somewhere is; greater is newer. Among frames that count, the later one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Age {
    Freed = 0,
    Tail = 1,
    Database = 2,
    Counted = 3,
}

/// A place in the database or the WAL, greater the newer: age in the two highest bits, then whether
/// it lies in the WAL, then the byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(u64);

const IN_LOG: u64 = 1 << 61;

impl Place {
    pub(super) fn new(age: Age, in_log: bool, at: u64) -> Place {
        let log = if in_log { IN_LOG } else { 0 };
        Place(((age as u64) << 62) | log | (at & (IN_LOG - 1)))
    }

    pub(super) fn is(self, age: Age) -> bool {
        self.0 >> 62 == age as u64
    }

    /// Whether it is a part of the tables as they are, and not of what was left behind.
    fn is_live(self) -> bool {
        self.0 >> 62 >= Age::Database as u64
    }

    pub(super) fn in_log(self) -> bool {
        self.0 & IN_LOG != 0
    }

    pub(super) fn offset(self) -> u64 {
        self.0 & (IN_LOG - 1)
    }
}

/// Rows of one table that agree with their hashes: one of them, or all of a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The lowest row id.
    pub first: i64,
    /// The highest.
    pub last: i64,
    /// Where the cell begins; of a whole leaf, where its page does.
    pub(super) place: Place,
}

impl Run {
    pub(super) fn of_row(id: i64, place: Place) -> Run {
        Run {
            first: id,
            last: id,
            place,
        }
    }
}

/// Every row that was found, and what is known of those that were not.
#[derive(Debug)]
pub struct Found {
    /// By table; ids ascending, each once.
    pub runs: Vec<Vec<Run>>,
    /// Pages of indexes over one column of texts.
    pub texts: Vec<Place>,
    /// By table: ids among which rows may be lost, both ends included.
    gaps: Vec<Vec<(i64, i64)>>,
}

/// A state of a row of a table whose rows are updated.
#[derive(Debug, Clone, Copy)]
pub(super) struct State {
    pub table: usize,
    pub id: i64,
    pub place: Place,
    pub version: (i64, i64),
}

impl State {
    /// Frames that count are ordered by their place, all else by what the row itself says.
    fn order(&self) -> (u64, (i64, i64), Place) {
        let version = if self.place.is(Age::Counted) {
            (0, 0)
        } else {
            self.version
        };
        (self.place.0 >> 62, version, self.place)
    }
}

/// What was seen on some pages.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub runs: Vec<Vec<Run>>,
    pub states: Vec<State>,
    pub interiors: Interiors,
    /// Leaves of which a cell is lost.
    pub broken: Vec<u32>,
    /// Leaves without a cell.
    pub empty: Vec<u32>,
    pub texts: Vec<Place>,
    pub rows: usize,
}

impl Seen {
    pub fn of(tables: usize) -> Seen {
        Seen {
            runs: vec![Vec::new(); tables],
            ..Seen::default()
        }
    }

    /// Takes over what another thread saw, and leaves it empty.
    pub fn append(&mut self, other: &mut Seen) {
        for (all, some) in self.runs.iter_mut().zip(&mut other.runs) {
            all.append(some);
        }
        self.states.append(&mut other.states);
        self.interiors.append(&mut other.interiors);
        self.broken.append(&mut other.broken);
        self.empty.append(&mut other.empty);
        self.texts.append(&mut other.texts);
        self.rows += std::mem::take(&mut other.rows);
    }
}

impl Found {
    pub(super) fn of(book: &Book, mut seen: Seen) -> Found {
        // The newest state of each row comes first.
        seen.states
            .sort_unstable_by_key(|s| (s.table, s.id, Reverse(s.order())));
        seen.states.dedup_by_key(|s| (s.table, s.id));
        for state in &seen.states {
            if let Some(runs) = seen.runs.get_mut(state.table) {
                runs.push(Run::of_row(state.id, state.place));
            }
        }
        let broken: HashSet<u32> = seen.broken.into_iter().collect();
        let mut runs = seen.runs;
        for runs in &mut runs {
            settle(book, &broken, runs);
        }
        let edges = Edges::of(seen.interiors);
        // Whether each table without a row has an empty leaf that is a tree of its own.
        let empty: HashSet<u32> = seen.empty.into_iter().collect();
        let roots = empty.iter().filter(|n| edges.span(**n, **n)).count();
        let empty_are_empty = roots >= runs.iter().filter(|r| r.is_empty()).count();
        let gaps = runs
            .iter()
            .map(|runs| gaps(book, &edges, &broken, runs, empty_are_empty))
            .collect();
        seen.texts.sort_unstable();
        Found {
            runs,
            texts: seen.texts,
            gaps,
        }
    }

    /// Calls `f` with each range of ids from `from` to `to` in which rows may be lost, both ends
    /// included; an open end is `None`. Ids count from 1.
    pub fn gaps(&self, table: usize, (from, to): (i64, i64), f: &mut dyn FnMut(i64, Option<i64>)) {
        let gaps = self.gaps.get(table).map_or(&[][..], Vec::as_slice);
        let begin = gaps.partition_point(|(_, last)| *last < from);
        for (first, last) in gaps.iter().skip(begin) {
            let (a, b) = ((*first).max(from), (*last).min(to));
            if a > b {
                return;
            }
            f(a, (b != i64::MAX).then_some(b));
        }
    }
}

/// Puts runs in order. Where some overlap, of each id the newest row stays.
fn settle(book: &Book, broken: &HashSet<u32>, runs: &mut Vec<Run>) {
    let by_id = |r: &Run| (r.first, Reverse(r.place));
    runs.par_sort_unstable_by_key(by_id);
    let mut single: Vec<Run> = Vec::new();
    let mut page = Vec::new();
    let (mut kept, mut begin) = (0, 0);
    while let Some(run) = runs.get(begin).copied() {
        let mut last = run.last;
        let mut end = begin + 1;
        while let Some(next) = runs.get(end).filter(|r| r.first <= last) {
            last = last.max(next.last);
            end += 1;
        }
        let is_alone = end == begin + 1
            && (run.first == run.last || !broken.contains(&book.number_of(run.place)));
        if is_alone {
            runs[kept] = run;
            kept += 1;
        } else {
            let from = single.len();
            for run in &runs[begin..end] {
                book.rows_of(*run, &mut page, &mut |row| single.push(row));
            }
            single[from..].sort_unstable_by_key(by_id);
            let mut to = from;
            for i in from..single.len() {
                if to == from || single[to - 1].first != single[i].first {
                    single[to] = single[i];
                    to += 1;
                }
            }
            single.truncate(to);
        }
        begin = end;
    }
    runs.truncate(kept);
    if !single.is_empty() {
        runs.append(&mut single);
        runs.par_sort_unstable_by_key(by_id);
    }
}

fn gaps(
    book: &Book,
    edges: &Edges,
    broken: &HashSet<u32>,
    runs: &[Run],
    empty_are_empty: bool,
) -> Vec<(i64, i64)> {
    let mut out = Vec::new();
    let (Some(first), Some(last)) = (runs.first(), runs.last()) else {
        if !empty_are_empty {
            out.push((1, i64::MAX));
        }
        return out;
    };
    let (head, tail) = (book.number_of(first.place), book.number_of(last.place));
    let is_whole = edges.span(head, tail) && !broken.contains(&head) && !broken.contains(&tail);
    let mut gap = |a: i64, b: i64| {
        let a = a.max(1);
        if a <= b {
            out.push((a, b));
        }
    };
    if !is_whole {
        gap(1, first.first.saturating_sub(1));
    }
    for pair in runs.windows(2) {
        let (a, b) = (pair[0], pair[1]);
        if b.first - 1 <= a.last {
            continue;
        }
        // Whether no row can have lain between them.
        let (x, y) = (book.number_of(a.place), book.number_of(b.place));
        let adjoin = a.place.is_live()
            && b.place.is_live()
            && !broken.contains(&x)
            && !broken.contains(&y)
            && (x == y || edges.adjoin(x, y));
        if !adjoin {
            gap(a.last.saturating_add(1), b.first - 1);
        }
    }
    if !is_whole && last.last < i64::MAX {
        gap(last.last.saturating_add(1), i64::MAX);
    }
    out
}

impl Book {
    /// The page that lies at a place.
    pub(super) fn number_of(&self, place: Place) -> u32 {
        if place.in_log() {
            let frame = self.log.frame_at(place.offset());
            return self.log.frames.get(frame).map_or(0, |f| f.page);
        }
        u32::try_from(place.offset() / self.page_size() as u64 + 1).unwrap_or(0)
    }

    /// Where the page of a place begins, and the place in it.
    pub(super) fn within(&self, place: Place) -> (u64, usize) {
        let at = place.offset();
        let begin = if place.in_log() {
            self.log.content(self.log.frame_at(at))
        } else {
            at - at % self.page_size() as u64
        };
        let cell = usize::try_from(at.saturating_sub(begin)).unwrap_or(usize::MAX);
        (begin, cell)
    }

    /// Reads the page that a place lies in.
    pub(super) fn read_page(&self, place: Place, buf: &mut Vec<u8>) {
        buf.resize(self.page_size(), 0);
        let medium = if place.in_log() {
            &self.log.medium
        } else {
            &self.db
        };
        medium.read(self.within(place).0, buf);
    }

    /// The rows of a run, one by one.
    fn rows_of(&self, run: Run, buf: &mut Vec<u8>, f: &mut dyn FnMut(Run)) {
        if self.within(run.place).1 > 0 {
            f(run);
            return;
        }
        self.read_page(run.place, buf);
        let Some(bytes) = buf.get(..self.usable()) else {
            return;
        };
        for at in Page::new(bytes).cells().flatten() {
            if let Some(cell) = Cell::of_table(bytes, at) {
                f(Run::of_row(cell.rowid, Place(run.place.0 + at as u64)));
            }
        }
    }
}
