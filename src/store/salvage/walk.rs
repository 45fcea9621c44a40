//! The walk over every page of the database and every frame of the WAL.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;
use rusqlite::types::ValueRef;

use super::book::Book;
use super::cell::{Cell, varint};
use super::found::{Age, Found, Place, Run, Seen, State};
use super::index::has_texts;
use super::medium::Medium;
use super::overflow::{Budget, Near, follow};
use super::page::{Kind, Page, be16, be32};
use super::reader::views;
use super::record::{COLUMNS_MAX, HASH_TYPES, Header, Look};
use super::wal::{FRAME, Log, Standing};
use super::{PAGE_SIZES, Tables};

/// Bytes that one thread holds of the file: what its cache holds, too.
const CHUNK: usize = 256 << 10;
/// Bytes of each place that is looked at to find the page size.
const SAMPLE: u64 = 64 << 10;
/// Places.
const SAMPLES: u64 = 8;

/// One page, wherever it lies.
#[derive(Clone, Copy)]
struct Slot<'a> {
    bytes: &'a [u8],
    /// Where it begins in its file.
    at: u64,
    number: u32,
    frame: Option<usize>,
    age: Age,
    is_newest: bool,
    near: Near<'a>,
}

impl Slot<'_> {
    fn place(&self, age: Age, at: usize) -> Place {
        Place::new(age, self.frame.is_some(), self.at + at as u64)
    }
}

/// What one thread keeps from page to page.
struct Worker<S> {
    hasher: S,
    header: Header,
    payload: Vec<u8>,
    /// Begin and end of each cell of a leaf that is a row.
    live: Vec<(usize, usize)>,
    /// Those rows, with their tables.
    rows: Vec<(usize, Run)>,
    seen: Seen,
}

struct Walk<'a, T> {
    book: &'a Book,
    tables: &'a T,
    budget: Budget,
    free: HashSet<u32>,
    /// Pages that interior pages may still name.
    children: AtomicU64,
    /// Whether cells that no pointer names are looked for: not while the page size is, because in
    /// pages of twice the size every other page would be found like that.
    with_remnants: bool,
}

/// Finds every row of the tables in a database and its WAL. The page size is the one under which
/// most rows agree with their hashes.
pub fn find<T: Tables>(db: Medium, log: Log, tables: &T) -> (Book, Found) {
    let said = said_size(&db);
    let mut book = Book::new(db, log, 4096, 0);
    // The one that is said first: of equal ones the first is taken.
    let mut sizes: Vec<(usize, usize)> = Vec::new();
    if let Some((size, reserved)) = said {
        sizes.push((size, 0));
        sizes.extend((reserved > 0).then_some((size, reserved)));
    }
    sizes.extend(book.log.said_size().map(|size| (size, 0)));
    for size in PAGE_SIZES {
        if !sizes.contains(&(size, 0)) {
            sizes.push((size, 0));
        }
    }
    let size = best_size(&mut book, tables, &sizes, true)
        .or_else(|| best_size(&mut book, tables, &sizes, false));
    let (size, reserved) = size.or(said).unwrap_or((4096, 0));
    book.set_size(size, reserved);
    let seen = Walk::new(&book, tables).run();
    let found = Found::of(&book, seen);
    (book, found)
}

/// The size under which most rows are found, in samples or in all of the file; of equal ones the
/// first. `None` when none are.
fn best_size<T: Tables>(
    book: &mut Book,
    tables: &T,
    sizes: &[(usize, usize)],
    sampled: bool,
) -> Option<(usize, usize)> {
    let mut best = (0, None);
    for (size, reserved) in sizes {
        book.set_size(*size, *reserved);
        let walk = Walk {
            with_remnants: false,
            ..Walk::new(book, tables)
        };
        let rows = if sampled {
            walk.sample()
        } else {
            walk.run().rows
        };
        if rows > best.0 {
            best = (rows, Some((*size, *reserved)));
        }
    }
    best.1
}

/// Page size and reserved bytes, as the file's header says.
fn said_size(db: &Medium) -> Option<(usize, usize)> {
    let mut head = [0u8; 100];
    db.read(0, &mut head);
    let size = match be16(&head, 16)? {
        1 => 65536,
        n => n,
    };
    let sound = head.starts_with(b"SQLite format 3\0")
        && size.is_power_of_two()
        && (512..=65536).contains(&size);
    sound.then(|| (size, usize::from(head[20]).min(size.saturating_sub(480))))
}

impl<'a, T: Tables> Walk<'a, T> {
    fn new(book: &'a Book, tables: &'a T) -> Self {
        Walk {
            budget: Budget::of(book),
            free: book.free(),
            // Each page lies below one other; a WAL holds many states of a page.
            children: AtomicU64::new(book.slots().saturating_mul(2)),
            with_remnants: true,
            book,
            tables,
        }
    }

    fn worker(&self) -> Worker<T::Scratch> {
        Worker {
            hasher: T::Scratch::default(),
            header: Header::default(),
            payload: Vec::new(),
            live: Vec::new(),
            rows: Vec::new(),
            seen: Seen::of(self.tables.count()),
        }
    }

    /// Rows in some places of the database, or in all of a short one.
    fn sample(&self) -> usize {
        let len = self.book.db.len();
        let mut worker = self.worker();
        let mut buf = Vec::new();
        let places = if len <= SAMPLE * SAMPLES {
            len.div_ceil(SAMPLE)
        } else {
            SAMPLES
        };
        for i in 0..places {
            let at = len / places.max(1) * i / SAMPLE * SAMPLE;
            self.chunk(at, SAMPLE, &mut buf, &mut worker);
        }
        if len == 0 {
            self.frames(0, 64, &mut buf, &mut worker);
        }
        worker.seen.rows
    }

    fn run(&self) -> Seen {
        let chunks = self.book.db.len().div_ceil(CHUNK as u64);
        let step = (CHUNK / self.book.stride()).max(1);
        let runs = self.book.log.frames.len().div_ceil(step);
        let all = Mutex::new(Seen::of(self.tables.count()));
        let init = || (Vec::new(), self.worker());
        let take = |worker: &mut Worker<T::Scratch>| {
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            all.append(&mut worker.seen);
        };
        (0..chunks)
            .into_par_iter()
            .for_each_init(init, |(buf, worker), i| {
                self.chunk(i * CHUNK as u64, CHUNK as u64, buf, worker);
                take(worker);
            });
        (0..runs)
            .into_par_iter()
            .for_each_init(init, |(buf, worker), i| {
                self.frames(i * step, step, buf, worker);
                take(worker);
            });
        all.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pages of `len` bytes of the database from `at` on.
    fn chunk(&self, at: u64, len: u64, buf: &mut Vec<u8>, worker: &mut Worker<T::Scratch>) {
        let size = self.book.page_size();
        let left = self.book.db.len().saturating_sub(at).min(len);
        let pages = usize::try_from(left.div_ceil(size as u64)).unwrap_or(0);
        buf.resize(pages * size, 0);
        self.book.db.read(at, buf);
        let buf: &[u8] = buf;
        let has_log = !self.book.log.frames.is_empty();
        for (i, bytes) in buf.chunks_exact(size).enumerate() {
            let at = at + (i * size) as u64;
            let number = u32::try_from(at / size as u64 + 1).unwrap_or(0);
            let is_free = self.free.contains(&number);
            let slot = Slot {
                bytes: &bytes[..self.book.usable()],
                at,
                number,
                frame: None,
                age: if is_free { Age::Freed } else { Age::Database },
                is_newest: !(is_free || has_log && self.book.log.counts(number)),
                near: Near {
                    at: at - (i * size) as u64,
                    bytes: buf,
                },
            };
            self.slot(slot, worker);
        }
    }

    /// Frames `first` to `first + count` of the WAL.
    fn frames(
        &self,
        first: usize,
        count: usize,
        buf: &mut Vec<u8>,
        worker: &mut Worker<T::Scratch>,
    ) {
        let log = &self.book.log;
        let count = count.min(log.frames.len().saturating_sub(first));
        buf.resize(count * self.book.stride(), 0);
        log.medium
            .read(log.content(first).saturating_sub(FRAME as u64), buf);
        for (i, bytes) in buf.chunks_exact(self.book.stride()).enumerate() {
            let n = first + i;
            let Some(frame) = log.frames.get(n) else {
                return;
            };
            let age = match frame.standing {
                Standing::Stale => Age::Freed,
                Standing::Tail => Age::Tail,
                Standing::Counted => Age::Counted,
            };
            let slot = Slot {
                bytes: &bytes[FRAME..FRAME + self.book.usable()],
                at: log.content(n),
                number: frame.page,
                frame: Some(n),
                age,
                is_newest: log.last_counted(frame.page) == Some(n),
                near: Near::default(),
            };
            self.slot(slot, worker);
        }
    }

    fn slot(&self, slot: Slot<'_>, worker: &mut Worker<T::Scratch>) {
        let page = Page::new(slot.bytes);
        match page.kind() {
            Some(Kind::TableLeaf) => self.leaf(slot, page, worker),
            Some(Kind::TableInterior) if slot.is_newest => {
                self.interior(slot, page, &mut worker.seen);
            }
            Some(Kind::IndexLeaf | Kind::IndexInterior)
                if self.with_remnants && has_texts(page, &mut worker.header) =>
            {
                worker.seen.texts.push(slot.place(slot.age, 0));
            }
            _ => {}
        }
    }

    fn interior(&self, slot: Slot<'_>, page: Page<'_>, seen: &mut Seen) {
        let below = || {
            page.cells()
                .filter_map(|at| be32(slot.bytes, at?))
                .chain(page.right_most())
        };
        let n = below().count() as u64;
        let room = self
            .children
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(n)
            });
        if room.is_ok() {
            seen.interiors.push(slot.number, below());
        }
    }

    fn leaf(&self, slot: Slot<'_>, page: Page<'_>, worker: &mut Worker<T::Scratch>) {
        worker.live.clear();
        worker.rows.clear();
        let mut is_whole = !page.is_overfull();
        // Cells don't overlap, so that a page holds no more bytes of rows than it has.
        let mut room = slot.bytes.len();
        for at in page.cells() {
            let row = at.and_then(|at| self.row(slot, at, slot.age, &mut room, worker));
            match (at, row) {
                (Some(at), Some(end)) => worker.live.push((at, end)),
                _ => is_whole = false,
            }
        }
        if !is_whole && slot.is_newest {
            worker.seen.broken.push(slot.number);
        } else if slot.is_newest && worker.live.is_empty() {
            worker.seen.empty.push(slot.number);
        }
        Self::keep(slot, is_whole, worker);
        if !self.with_remnants {
            return;
        }
        worker.live.sort_unstable();
        let mut at = page.body();
        let mut room = slot.bytes.len();
        for i in 0..=worker.live.len() {
            let (begin, end) = worker.live.get(i).copied().unwrap_or((slot.bytes.len(), 0));
            if at < begin {
                self.remnants(slot, (at, begin), &mut room, worker);
            }
            at = at.max(end);
        }
        worker.rows.clear();
    }

    /// Keeps the rows of a leaf: as one run where every cell is a row of one table, in order.
    fn keep(slot: Slot<'_>, is_whole: bool, worker: &mut Worker<T::Scratch>) {
        let Worker {
            rows, live, seen, ..
        } = worker;
        let is_run = is_whole
            && slot.age >= Age::Database
            && rows.len() == live.len()
            && rows
                .windows(2)
                .all(|p| p[0].0 == p[1].0 && p[0].1.last < p[1].1.first);
        match (rows.first(), rows.last()) {
            (Some((table, first)), Some((_, last))) if is_run && rows.len() > 1 => {
                if let Some(runs) = seen.runs.get_mut(*table) {
                    runs.push(Run {
                        first: first.first,
                        last: last.last,
                        place: slot.place(slot.age, 0),
                    });
                }
            }
            _ => {
                for (table, run) in rows.iter() {
                    if let Some(runs) = seen.runs.get_mut(*table) {
                        runs.push(*run);
                    }
                }
            }
        }
        rows.clear();
    }

    /// Looks for cells that no pointer names any more: of rows that were freed, or whose pointer is
    /// damaged.
    fn remnants(
        &self,
        slot: Slot<'_>,
        (begin, end): (usize, usize),
        room: &mut usize,
        worker: &mut Worker<T::Scratch>,
    ) {
        let bytes = slot.bytes;
        let Some(region) = bytes.get(begin..end) else {
            return;
        };
        // What was never used is zero, and most of it is that.
        let used = region.chunks(32).take_while(|c| is_zero(c)).count() * 32;
        let Some(used) = region.get(used..) else {
            return;
        };
        let skipped = region.len() - used.len();
        // The type of the row id is nothing, the one before it is the header's length, and the
        // header ends in the type of the hash.
        for zero in memchr::memchr_iter(0, used) {
            let Some(header) = (begin + skipped + zero)
                .checked_sub(1)
                .filter(|h| *h >= begin)
            else {
                continue;
            };
            let len = usize::from(bytes[header]);
            let ends_in_hash = |last: &u8| HASH_TYPES.contains(last);
            let is_like =
                (5..0x80).contains(&len) && bytes.get(header + len - 1).is_some_and(ends_in_hash);
            if !is_like {
                continue;
            }
            for back in 2..=18 {
                let Some(at) = header.checked_sub(back).filter(|at| *at >= begin) else {
                    break;
                };
                let mut behind = at;
                let fits = varint(bytes, &mut behind).is_some()
                    && varint(bytes, &mut behind).is_some()
                    && behind == header;
                if fits && self.row(slot, at, Age::Freed, room, worker).is_some() {
                    break;
                }
            }
        }
        Self::keep(slot, false, worker);
    }

    /// The row whose cell begins at `at`, if it agrees with its hash. Its cell's end.
    fn row(
        &self,
        slot: Slot<'_>,
        at: usize,
        age: Age,
        room: &mut usize,
        worker: &mut Worker<T::Scratch>,
    ) -> Option<usize> {
        let Worker {
            hasher,
            header,
            payload,
            rows,
            seen,
            ..
        } = worker;
        let cell = Cell::of_table(slot.bytes, at)?;
        let local = slot.bytes.get(cell.local.0..cell.local.1)?;
        let looks = self.look(header, local, cell.payload);
        if looks == Look::No {
            return None;
        }
        *room = room.checked_sub(local.len())?;
        let mut found = None;
        if let Some(first) = cell.overflow {
            let want = cell.payload - local.len();
            for view in views(self.book, slot.frame).into_iter().flatten() {
                payload.clear();
                payload.extend_from_slice(local);
                let (near, budget) = (slot.near, &self.budget);
                if !follow(self.book, view, near, first, want, budget, payload)
                    || self.look(header, payload, cell.payload) != Look::Fits
                {
                    continue;
                }
                found = self.identify(header, payload, cell.rowid, hasher);
                if found.is_some() {
                    break;
                }
            }
        } else if looks == Look::Fits {
            found = self.identify(header, local, cell.rowid, hasher);
        }
        let (table, version) = found?;
        let (id, place) = (cell.rowid, slot.place(age, at));
        seen.rows += 1;
        match version {
            Some(version) => seen.states.push(State {
                table,
                id,
                place,
                version,
            }),
            None => rows.push((table, Run::of_row(id, place))),
        }
        Some(cell.end())
    }

    /// Looks at a record's header alone: a row id column that is stored as nothing, a width that
    /// some table has, a hash at the end, and values that fill the payload exactly.
    fn look(&self, header: &mut Header, start: &[u8], payload: usize) -> Look {
        match header.read(start, payload) {
            Look::Fits if !header.is_of_row() || !self.tables.has_width(header.columns()) => {
                Look::No
            }
            look => look,
        }
    }

    /// The table that a payload is a row of, and its version where rows are updated.
    fn identify(
        &self,
        header: &Header,
        payload: &[u8],
        rowid: i64,
        hasher: &mut T::Scratch,
    ) -> Option<(usize, Option<(i64, i64)>)> {
        let mut values = [ValueRef::Null; COLUMNS_MAX];
        let columns = header.values(payload, rowid, &mut values)?;
        let table = self.tables.table_of(columns, hasher)?;
        let version = self
            .tables
            .is_updated(table)
            .then(|| self.tables.version(table, columns));
        Some((table, version))
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().fold(0, |all, b| all | b) == 0
}
