//! Rows of a file that SQLite can't read all of, page by page.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use rusqlite::types::ValueRef;

use super::readable::{Columns, Rows, Unread};
use super::row_hash::{RowHash, RowHasher};
use super::schema::{CONVERSATIONS, SOURCES, TABLES, Table};
use crate::disk::Root;
use crate::error::{Error, Result};
use crate::store::salvage::{self, Book, Found, Log, Medium, Reader, Tables, Wanted};

/// The archive's tables, told by their hashes.
#[derive(Debug)]
struct Hashed;

impl Tables for Hashed {
    type Scratch = RowHasher;

    fn count(&self) -> usize {
        TABLES.len()
    }

    fn has_width(&self, columns: usize) -> bool {
        TABLES.iter().any(|t| t.columns.len() + 1 == columns)
    }

    fn table_of(&self, columns: &[ValueRef<'_>], hasher: &mut RowHasher) -> Option<usize> {
        let (stored, rest) = columns.split_last()?;
        let stored = RowHash::of_column(*stored)?;
        TABLES.iter().position(|table| {
            table.columns.len() == rest.len() && hasher.agrees(table, rest, stored)
        })
    }

    fn version(&self, table: usize, columns: &[ValueRef<'_>]) -> (i64, i64) {
        let c = Columns(columns);
        let at = |i: usize| c.int(i).unwrap_or(0);
        match TABLES.get(table) {
            // Epoch and capture; revision.
            Some(t) if t.name == SOURCES.name => (at(6), at(7)),
            Some(t) if t.name == CONVERSATIONS.name => (at(14), 0),
            _ => (0, 0),
        }
    }

    fn is_updated(&self, table: usize) -> bool {
        TABLES
            .get(table)
            .is_some_and(|t| [SOURCES.name, CONVERSATIONS.name].contains(&t.name))
    }
}

/// A database file whose pages are looked at one by one.
#[derive(Debug)]
pub(super) struct PageRows {
    book: Book,
    found: Found,
    path: PathBuf,
    readers: RefCell<Vec<Reader>>,
}

impl PageRows {
    /// Looks at every page of the file at `db` and of the WAL beside it. `None` when neither is
    /// there. No connection of this process is open to it.
    pub fn open(root: &Root, db: &str) -> Result<Option<PageRows>> {
        let path = root.full(db);
        let open = |rel: &str| -> Result<Option<Medium>> {
            root.open_file(rel)?
                .map(|f| Medium::of(f).map_err(|e| Error::io("read", &root.full(rel), e)))
                .transpose()
        };
        let wal = open(&format!("{db}-wal"))?;
        let Some(db) = open(db)? else {
            return Ok(None);
        };
        let wal = wal.unwrap_or_else(|| Medium::Memory(Vec::new()));
        Ok(Some(Self::of(db, wal, path)))
    }

    fn of(db: Medium, wal: Medium, path: PathBuf) -> PageRows {
        let (book, found) = salvage::find(db, Log::of(wal), &Hashed);
        PageRows {
            book,
            found,
            path,
            readers: RefCell::default(),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// As [`super::readable::SqliteRows::index_names`].
    pub fn index_names(&self, wanted: &dyn Fn(i64) -> bool) -> Vec<(i64, String, String)> {
        let mut named: BTreeMap<i64, Vec<String>> = BTreeMap::new();
        salvage::text_entries(&self.book, &self.found.texts, &mut |id, text| {
            if wanted(id) {
                let texts = named.entry(id).or_default();
                if texts.len() < NAMES_MAX && !texts.iter().any(|t| t == text) {
                    texts.push(text.to_owned());
                }
            }
        });
        // Which is the public id and which the native one is proven by whoever asks.
        let mut out = Vec::new();
        for (id, texts) in named {
            for a in &texts {
                for b in texts.iter().filter(|b| *b != a) {
                    out.push((id, a.clone(), b.clone()));
                }
            }
        }
        out
    }

    fn number(table: &Table) -> usize {
        TABLES
            .iter()
            .position(|t| t.name == table.name)
            .unwrap_or(TABLES.len())
    }
}

/// Texts that are kept of one id: two indexes, and what older states of their pages say.
const NAMES_MAX: usize = 8;

impl Rows for PageRows {
    fn scan(
        &self,
        table: &'static Table,
        from: i64,
        to: i64,
        f: &mut dyn FnMut(&[ValueRef<'_>]) -> Result<bool>,
    ) -> Result<Unread> {
        let number = Self::number(table);
        let runs = self.found.runs.get(number).map_or(&[][..], Vec::as_slice);
        let first = runs.partition_point(|r| r.last < from);
        // A reader a table keeps its page; a scan within a scan gets its own.
        let mut reader = {
            let mut readers = self.readers.borrow_mut();
            readers.resize_with(TABLES.len() + 1, Reader::default);
            readers.get_mut(number).map(std::mem::take)
        }
        .unwrap_or_default();
        let wanted = Wanted {
            tables: &Hashed,
            table: number,
            ids: (from, to),
        };
        let mut ran = Ok(true);
        for run in runs.iter().skip(first).take_while(|r| r.first <= to) {
            let read = reader.rows(&self.book, &wanted, *run, &mut |columns| match f(columns) {
                Ok(true) => ControlFlow::Continue(()),
                other => ControlFlow::Break(other),
            });
            if let ControlFlow::Break(other) = read {
                ran = other;
                break;
            }
        }
        if let Some(slot) = self.readers.borrow_mut().get_mut(number) {
            *slot = reader;
        }
        let mut unread = Unread::default();
        if ran? {
            self.found.gaps(number, (from, to), &mut |a, b| {
                unread.ranges.push((a, b));
            });
        }
        Ok(unread)
    }
}

/// How many rows of each table can be read page by page in a database and its WAL that are in
/// memory.
#[must_use]
pub fn salvaged_counts(db: Vec<u8>, wal: Vec<u8>) -> BTreeMap<&'static str, u64> {
    let rows = PageRows::of(Medium::Memory(db), Medium::Memory(wal), PathBuf::new());
    TABLES
        .iter()
        .map(|table| {
            let mut n = 0;
            // Counted by reading them: a row that was found can be read again.
            let read = rows.scan(table, i64::MIN, i64::MAX, &mut |_| {
                n += 1;
                Ok(true)
            });
            (table.name, if read.is_ok() { n } else { 0 })
        })
        .collect()
}
