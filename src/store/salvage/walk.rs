//! The walk over every page of the database and every frame of the WAL.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use rusqlite::types::ValueRef;

use super::book::{Book, View};
use super::cell::{Cell, varint};
use super::edges::{Edges, Interior};
use super::medium::Medium;
use super::overflow::{Budget, Near, follow};
use super::page::{Kind, Page, be16, be32};
use super::record::{Look, look, values};
use super::wal::{FRAME, Log, Standing};
use super::{PAGE_SIZES, Tables};

/// Bytes that one thread holds of the file.
const CHUNK: usize = 1 << 20;
/// Bytes of each place that is looked at to find the page size.
const SAMPLE: u64 = 64 << 10;
/// Places.
const SAMPLES: u64 = 8;

/// How new what lies somewhere is; greater is newer. Among frames that count, the later one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Age {
    Freed = 0,
    Tail = 1,
    Database = 2,
    Counted = 3,
}

/// A row that agrees with its hash: its id, and where its newest state lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Its row id.
    pub id: i64,
    /// Age in the two highest bits, then whether it lies in the WAL, then the byte its cell begins at.
    at: u64,
}

const IN_LOG: u64 = 1 << 61;

impl Key {
    fn new(id: i64, age: Age, in_log: bool, at: u64) -> Key {
        let log = if in_log { IN_LOG } else { 0 };
        Key {
            id,
            at: ((age as u64) << 62) | log | (at & (IN_LOG - 1)),
        }
    }

    fn age(self) -> u64 {
        self.at >> 62
    }

    fn in_log(self) -> bool {
        self.at & IN_LOG != 0
    }

    fn offset(self) -> u64 {
        self.at & (IN_LOG - 1)
    }
}

/// Every row that was found, and what is known of those that were not.
#[derive(Debug)]
pub struct Found {
    /// By table; ids ascending, each once.
    pub keys: Vec<Vec<Key>>,
    edges: Edges,
    /// Leaves of which a cell is lost.
    broken: HashSet<u32>,
    /// Whether each table without a row has an empty leaf that is a tree of its own.
    empty_are_empty: bool,
}

/// A state of a row of a table whose rows are updated.
#[derive(Debug, Clone, Copy)]
struct State {
    table: usize,
    key: Key,
    version: (i64, i64),
}

#[derive(Debug, Default)]
struct Part {
    keys: Vec<Vec<Key>>,
    states: Vec<State>,
    interiors: Vec<Interior>,
    broken: Vec<u32>,
    /// Leaves without a cell.
    empty: Vec<u32>,
}

impl Part {
    fn rows(&self) -> usize {
        self.keys.iter().map(Vec::len).sum::<usize>() + self.states.len()
    }
}

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
    let parts = Walk::new(&book, tables).run();
    let found = merge(parts, tables.count());
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
            walk.run().iter().map(Part::rows).sum()
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

fn merge(parts: Vec<Part>, tables: usize) -> Found {
    let mut keys: Vec<Vec<Key>> = (0..tables)
        .map(|t| {
            let n = parts.iter().filter_map(|p| p.keys.get(t)).map(Vec::len);
            Vec::with_capacity(n.sum())
        })
        .collect();
    let mut newest: BTreeMap<(usize, i64), State> = BTreeMap::new();
    let mut interiors = Vec::new();
    let mut broken = HashSet::new();
    let mut empty = HashSet::new();
    for part in parts {
        for (all, some) in keys.iter_mut().zip(part.keys) {
            all.extend(some);
        }
        for state in part.states {
            newest
                .entry((state.table, state.key.id))
                .and_modify(|s| {
                    if state.order() > s.order() {
                        *s = state;
                    }
                })
                .or_insert(state);
        }
        interiors.extend(part.interiors);
        broken.extend(part.broken);
        empty.extend(part.empty);
    }
    for ((table, _), state) in newest {
        if let Some(keys) = keys.get_mut(table) {
            keys.push(state.key);
        }
    }
    for all in &mut keys {
        all.par_sort_unstable_by_key(|k| (k.id, Reverse(k.at)));
        all.dedup_by_key(|k| k.id);
    }
    let edges = Edges::of(&interiors);
    let roots = empty.iter().filter(|n| edges.span(**n, **n)).count();
    Found {
        empty_are_empty: roots >= keys.iter().filter(|k| k.is_empty()).count(),
        keys,
        edges,
        broken,
    }
}

impl State {
    /// Frames that count are ordered by their place, all else by what the row itself says.
    fn order(&self) -> (u64, (i64, i64), u64) {
        let version = if self.key.age() == Age::Counted as u64 {
            (0, 0)
        } else {
            self.version
        };
        (self.key.age(), version, self.key.at)
    }
}

impl Found {
    /// Calls `f` with each range of ids from `from` to `to` in which rows may be lost, both ends
    /// included; an open end is `None`. Ids count from 1.
    pub fn gaps(
        &self,
        book: &Book,
        table: usize,
        (from, to): (i64, i64),
        f: &mut dyn FnMut(i64, Option<i64>),
    ) {
        let keys = self.keys.get(table).map_or(&[][..], Vec::as_slice);
        let from = from.max(1);
        if from > to {
            return;
        }
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else {
            if !self.empty_are_empty {
                f(from, (to != i64::MAX).then_some(to));
            }
            return;
        };
        let is_whole = self
            .edges
            .span(book.number_of(*first), book.number_of(*last))
            && !self.is_broken(book, *first)
            && !self.is_broken(book, *last);
        let mut gap = |a: i64, b: i64| {
            let (a, b) = (a.max(from), b.min(to));
            if a <= b {
                f(a, (b != i64::MAX).then_some(b));
            }
        };
        if !is_whole {
            gap(1, first.id.saturating_sub(1));
        }
        let begin = keys.partition_point(|k| k.id < from).saturating_sub(1);
        for pair in keys[begin..].windows(2) {
            let (a, b) = (pair[0], pair[1]);
            if a.id >= to {
                break;
            }
            if b.id - 1 > a.id && !self.adjoin(book, a, b) {
                gap(a.id.saturating_add(1), b.id - 1);
            }
        }
        if !is_whole && last.id < i64::MAX {
            gap(last.id.saturating_add(1), i64::MAX);
        }
    }

    fn is_broken(&self, book: &Book, key: Key) -> bool {
        self.broken.contains(&book.number_of(key))
    }

    /// Whether no row can have lain between two that are neighbours now.
    fn adjoin(&self, book: &Book, a: Key, b: Key) -> bool {
        let live = Age::Database as u64;
        let (x, y) = (book.number_of(a), book.number_of(b));
        a.age() >= live
            && b.age() >= live
            && !self.broken.contains(&x)
            && !self.broken.contains(&y)
            && (x == y || self.edges.adjoin(x, y))
    }
}

impl Book {
    /// The page that a row lies in.
    fn number_of(&self, key: Key) -> u32 {
        if key.in_log() {
            let frame = self.log.frame_at(key.offset());
            return self.log.frames.get(frame).map_or(0, |f| f.page);
        }
        u32::try_from(key.offset() / self.page_size() as u64 + 1).unwrap_or(0)
    }

    /// Where the page begins that a row lies in, whether that is in the WAL, and the row's cell in
    /// it.
    fn place(&self, key: Key) -> (bool, u64, usize) {
        let at = key.offset();
        let begin = if key.in_log() {
            self.log.content(self.log.frame_at(at))
        } else {
            at - at % self.page_size() as u64
        };
        let cell = usize::try_from(at.saturating_sub(begin)).unwrap_or(usize::MAX);
        (key.in_log(), begin, cell)
    }
}

/// Reads rows that were found; keeps the page of the last one.
#[derive(Debug, Default)]
pub struct Reader {
    page: Vec<u8>,
    at: Option<(bool, u64)>,
    payload: Vec<u8>,
}

impl Reader {
    /// The columns of a row that was found, in `table`. `None` when the file has changed since.
    pub fn row<T: Tables, R>(
        &mut self,
        book: &Book,
        tables: &T,
        table: usize,
        key: Key,
        f: impl FnOnce(&[ValueRef<'_>]) -> R,
    ) -> Option<R> {
        let (in_log, begin, at) = book.place(key);
        if self.at != Some((in_log, begin)) {
            self.page.resize(book.page_size(), 0);
            let medium = if in_log { &book.log.medium } else { &book.db };
            medium.read(begin, &mut self.page);
            self.at = Some((in_log, begin));
        }
        let page = self.page.get(..book.usable())?;
        let cell = Cell::of_table(page, at)?;
        let local = page.get(cell.local.0..cell.local.1)?;
        let mut columns = Vec::with_capacity(32);
        let Some(first) = cell.overflow else {
            values(local, cell.rowid, &mut columns)?;
            return Some(f(&columns));
        };
        let frame = in_log.then(|| book.log.frame_at(begin));
        let views = views(book, frame);
        let budget = Budget::of(book);
        for view in views.iter().flatten() {
            self.payload.clear();
            self.payload.extend_from_slice(local);
            let want = cell.payload - local.len();
            let near = Near::default();
            if !follow(book, *view, near, first, want, &budget, &mut self.payload) {
                continue;
            }
            let mut columns = Vec::with_capacity(32);
            if values(&self.payload, cell.rowid, &mut columns).is_none() {
                continue;
            }
            let is_sure = views[1].is_none();
            if is_sure || tables.table_of(&columns, &mut T::Scratch::default()) == Some(table) {
                return Some(f(&columns));
            }
        }
        None
    }
}

/// The states of the pages behind a row that its rest may lie in: those of its own commit, the
/// newest, those of the database. Without a WAL there is one.
fn views(book: &Book, frame: Option<usize>) -> [Option<View>; 3] {
    let newest = View::UpTo(usize::MAX);
    match frame {
        _ if book.log.frames.is_empty() => [Some(View::Database), None, None],
        Some(frame) => {
            let own = View::UpTo(book.log.commit_of(frame));
            [Some(own), Some(newest), Some(View::Database)]
        }
        None => [Some(View::Database), Some(newest), None],
    }
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

    fn part(&self) -> Part {
        Part {
            keys: vec![Vec::new(); self.tables.count()],
            ..Part::default()
        }
    }

    /// Rows in some places of the database, or in all of a short one.
    fn sample(&self) -> usize {
        let len = self.book.db.len();
        let mut part = self.part();
        let mut scratch = T::Scratch::default();
        let mut buf = Vec::new();
        let places = if len <= SAMPLE * SAMPLES {
            len.div_ceil(SAMPLE)
        } else {
            SAMPLES
        };
        for i in 0..places {
            let at = len / places.max(1) * i / SAMPLE * SAMPLE;
            self.chunk(at, SAMPLE, &mut buf, &mut scratch, &mut part);
        }
        if len == 0 {
            self.frames(0, 64, &mut buf, &mut scratch, &mut part);
        }
        part.rows()
    }

    fn run(&self) -> Vec<Part> {
        let chunks = self.book.db.len().div_ceil(CHUNK as u64);
        let step = (CHUNK / self.book.stride()).max(1);
        let runs = self.book.log.frames.len().div_ceil(step);
        let init = || (Vec::new(), T::Scratch::default());
        let mut parts: Vec<Part> = (0..chunks)
            .into_par_iter()
            .map_init(init, |(buf, scratch), i| {
                let mut part = self.part();
                self.chunk(i * CHUNK as u64, CHUNK as u64, buf, scratch, &mut part);
                part
            })
            .collect();
        parts.par_extend(
            (0..runs)
                .into_par_iter()
                .map_init(init, |(buf, scratch), i| {
                    let mut part = self.part();
                    self.frames(i * step, step, buf, scratch, &mut part);
                    part
                }),
        );
        parts
    }

    /// The pages of `len` bytes of the database from `at` on.
    fn chunk(
        &self,
        at: u64,
        len: u64,
        buf: &mut Vec<u8>,
        scratch: &mut T::Scratch,
        part: &mut Part,
    ) {
        let size = self.book.page_size();
        let left = self.book.db.len().saturating_sub(at).min(len);
        let pages = usize::try_from(left.div_ceil(size as u64)).unwrap_or(0);
        buf.resize(pages * size, 0);
        self.book.db.read(at, buf);
        let buf: &[u8] = buf;
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
                is_newest: !is_free && !self.book.log.counts(number),
                near: Near {
                    at: at - (i * size) as u64,
                    bytes: buf,
                },
            };
            self.slot(slot, scratch, part);
        }
    }

    /// Frames `first` to `first + count` of the WAL.
    fn frames(
        &self,
        first: usize,
        count: usize,
        buf: &mut Vec<u8>,
        scratch: &mut T::Scratch,
        part: &mut Part,
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
            self.slot(slot, scratch, part);
        }
    }

    fn slot(&self, slot: Slot<'_>, scratch: &mut T::Scratch, part: &mut Part) {
        let page = Page::new(slot.bytes);
        match page.kind() {
            Some(Kind::TableLeaf) => self.leaf(slot, page, scratch, part),
            Some(Kind::TableInterior) if slot.is_newest => self.interior(slot, page, part),
            _ => {}
        }
    }

    fn interior(&self, slot: Slot<'_>, page: Page<'_>, part: &mut Part) {
        let mut children = Vec::new();
        for at in page.cells() {
            children.extend(at.and_then(|at| be32(slot.bytes, at)));
        }
        children.extend(page.right_most());
        let n = children.len() as u64;
        let room = self
            .children
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(n)
            });
        if room.is_ok() {
            part.interiors.push(Interior {
                number: slot.number,
                children,
            });
        }
    }

    fn leaf(&self, slot: Slot<'_>, page: Page<'_>, scratch: &mut T::Scratch, part: &mut Part) {
        let mut live: Vec<(usize, usize)> = Vec::new();
        let mut is_whole = !page.is_overfull();
        // Cells don't overlap, so that a page holds no more bytes of rows than it has.
        let mut room = slot.bytes.len();
        for at in page.cells() {
            let row = at.and_then(|at| self.row(slot, at, slot.age, &mut room, scratch, part));
            match (at, row) {
                (Some(at), Some(end)) => live.push((at, end)),
                _ => is_whole = false,
            }
        }
        if !is_whole && slot.is_newest {
            part.broken.push(slot.number);
        } else if slot.is_newest && live.is_empty() {
            part.empty.push(slot.number);
        }
        if !self.with_remnants {
            return;
        }
        live.sort_unstable();
        let mut at = page.body();
        let mut room = slot.bytes.len();
        for (begin, end) in live.into_iter().chain([(slot.bytes.len(), 0)]) {
            if at < begin {
                self.remnants(slot, (at, begin), &mut room, scratch, part);
            }
            at = at.max(end);
        }
    }

    /// Looks for cells that no pointer names any more: of rows that were freed, or whose pointer is
    /// damaged.
    fn remnants(
        &self,
        slot: Slot<'_>,
        (begin, end): (usize, usize),
        room: &mut usize,
        scratch: &mut T::Scratch,
        part: &mut Part,
    ) {
        let bytes = slot.bytes;
        let Some(region) = bytes.get(begin..end) else {
            return;
        };
        // The type of the row id is nothing, the one before it is the header's length, and the
        // header ends in the type of the hash.
        for zero in memchr::memchr_iter(0, region) {
            let Some(header) = (begin + zero).checked_sub(1).filter(|h| *h >= begin) else {
                continue;
            };
            let len = usize::from(bytes[header]);
            let is_like = (5..0x80).contains(&len) && bytes.get(header + len - 1) == Some(&76);
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
                if fits
                    && self
                        .row(slot, at, Age::Freed, room, scratch, part)
                        .is_some()
                {
                    break;
                }
            }
        }
    }

    /// The row whose cell begins at `at`, if it agrees with its hash. Its cell's end.
    fn row(
        &self,
        slot: Slot<'_>,
        at: usize,
        age: Age,
        room: &mut usize,
        scratch: &mut T::Scratch,
        part: &mut Part,
    ) -> Option<usize> {
        let cell = Cell::of_table(slot.bytes, at)?;
        let local = slot.bytes.get(cell.local.0..cell.local.1)?;
        let has_width = |n| self.tables.has_width(n);
        let looks = look(local, cell.payload, has_width);
        if looks == Look::No {
            return None;
        }
        *room = room.checked_sub(local.len())?;
        let mut found = None;
        if let Some(first) = cell.overflow {
            let want = cell.payload - local.len();
            let mut payload = Vec::new();
            for view in views(self.book, slot.frame).into_iter().flatten() {
                payload.clear();
                payload.extend_from_slice(local);
                if !follow(
                    self.book,
                    view,
                    slot.near,
                    first,
                    want,
                    &self.budget,
                    &mut payload,
                ) || look(&payload, cell.payload, has_width) != Look::Fits
                {
                    continue;
                }
                found = self.identify(&payload, cell.rowid, scratch);
                if found.is_some() {
                    break;
                }
            }
        } else if looks == Look::Fits {
            found = self.identify(local, cell.rowid, scratch);
        }
        let (table, version) = found?;
        let key = Key::new(cell.rowid, age, slot.frame.is_some(), slot.at + at as u64);
        match version {
            Some(version) => part.states.push(State {
                table,
                key,
                version,
            }),
            None => part.keys.get_mut(table)?.push(key),
        }
        Some(cell.end())
    }

    /// The table that a payload is a row of, and its version where rows are updated.
    fn identify(
        &self,
        payload: &[u8],
        rowid: i64,
        scratch: &mut T::Scratch,
    ) -> Option<(usize, Option<(i64, i64)>)> {
        let mut columns = Vec::with_capacity(32);
        values(payload, rowid, &mut columns)?;
        let table = self.tables.table_of(&columns, scratch)?;
        let version = self
            .tables
            .is_updated(table)
            .then(|| self.tables.version(table, &columns));
        Some((table, version))
    }
}
