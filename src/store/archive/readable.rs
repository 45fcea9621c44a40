//! Rows of a file that may be damaged, through SQLite: in the order of their ids, going on behind
//! what can't be read.

use std::path::{Path, PathBuf};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode};

use super::rescue::is_null;
use super::schema::{Table, text_version};
use super::writer::refuse_newer_header;
use crate::disk::Root;
use crate::error::{Error, ErrorKind, Result};
use crate::model::digest::Digest;
use crate::store::salvage::{Log, Medium};
use crate::store::sqlite;

/// Rows out of order, which only a damaged tree has, before a scan is given up.
const STRAYS_MAX: u64 = 10_000;
/// Ranges of one scan that can't be read before what is behind them is given up.
const RANGES_MAX: usize = 10_000;

/// The columns of a row, `row_hash` last. What is of another kind than asked for is `None`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns<'a>(pub &'a [ValueRef<'a>]);

impl<'a> Columns<'a> {
    pub fn int(&self, i: usize) -> Option<i64> {
        match self.0.get(i) {
            Some(ValueRef::Integer(n)) => Some(*n),
            _ => None,
        }
    }

    pub fn count(&self, i: usize) -> Option<u64> {
        self.int(i).and_then(|n| u64::try_from(n).ok())
    }

    pub fn text(&self, i: usize) -> Option<&'a str> {
        match self.0.get(i) {
            Some(ValueRef::Text(bytes)) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    pub fn bytes(&self, i: usize) -> Option<&'a [u8]> {
        match self.0.get(i) {
            Some(ValueRef::Blob(bytes)) => Some(bytes),
            _ => None,
        }
    }

    pub fn digest(&self, i: usize) -> Option<Digest> {
        self.bytes(i)
            .and_then(|b| <[u8; 32]>::try_from(b).ok())
            .map(Digest)
    }

    pub fn opt_int(&self, i: usize) -> Option<Option<i64>> {
        self.or_null(i, Self::int)
    }

    pub fn opt_count(&self, i: usize) -> Option<Option<u64>> {
        self.or_null(i, Self::count)
    }

    pub fn opt_text(&self, i: usize) -> Option<Option<&'a str>> {
        self.or_null(i, Self::text)
    }

    pub fn opt_digest(&self, i: usize) -> Option<Option<Digest>> {
        self.or_null(i, Self::digest)
    }

    fn or_null<T>(&self, i: usize, get: impl Fn(&Self, usize) -> Option<T>) -> Option<Option<T>> {
        if is_null(self.0.get(i)) {
            Some(None)
        } else {
            get(self, i).map(Some)
        }
    }
}

/// Ranges of ids that can't be read, both ends included; an open end is `None`.
#[derive(Debug, Default)]
pub(super) struct Unread {
    pub ranges: Vec<(i64, Option<i64>)>,
}

/// Whoever can read the rows of an archive's tables.
pub(super) trait Rows {
    /// Calls `f` with all columns and `row_hash` of every row that can be read whose id is from
    /// `from` to `to`, ids ascending, until it says false. Nothing is said about whether a row is
    /// sound.
    fn scan(
        &self,
        table: &'static Table,
        from: i64,
        to: i64,
        f: &mut dyn FnMut(&[ValueRef<'_>]) -> Result<bool>,
    ) -> Result<Unread>;
}

/// A database file, opened by SQLite.
#[derive(Debug)]
pub(super) struct SqliteRows {
    conn: Connection,
    path: PathBuf,
}

/// How one pass over a range ended.
enum Pass {
    End,
    /// Behind this id, or before the first row when there is none, something can't be read.
    Broken(Option<i64>),
}

impl SqliteRows {
    /// `None` when there is no file or SQLite can't read all of it: header, schema or pages are
    /// damaged, or the WAL holds more than SQLite takes. No connection is open then.
    pub fn open(root: &Root, db: &str) -> Result<Option<SqliteRows>> {
        let path = root.full(db);
        if let Some(wal) = root.open_file(&format!("{db}-wal"))? {
            let wal = Medium::of(wal).map_err(|e| Error::io("read", &path, e))?;
            if Log::of(wal).has_more() {
                return Ok(None);
            }
        }
        let conn = match sqlite::open_read(&path) {
            Ok(Some(conn)) => conn,
            Ok(None) => return Ok(None),
            Err(e) if e.kind() == ErrorKind::PermissionDenied => return Err(e),
            Err(_) => return Ok(None),
        };
        refuse_newer_header(&conn)?;
        // One state for all that is read. Trees may be sound and yet have lost pages: an empty page
        // in the place of a root reads as an empty table, and the check finds its pages unused. A
        // schema that is none of ours is not asked for a row: what it computes may have no end.
        let is_sound = || -> rusqlite::Result<bool> {
            conn.execute_batch("BEGIN")?;
            if text_version(&conn)?.is_none() {
                return Ok(false);
            }
            let first: String = conn.query_row("PRAGMA quick_check(1)", [], |r| r.get(0))?;
            Ok(first == "ok")
        };
        Ok(is_sound()
            .unwrap_or(false)
            .then_some(SqliteRows { conn, path }))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Id, public id and native id of conversations that both indexes name, as they say; nothing
    /// where an index can't be read.
    pub fn index_names(&self, wanted: &dyn Fn(i64) -> bool) -> Vec<(i64, String, String)> {
        let conn = &self.conn;
        let read = |index: &str, column: &str| {
            let mut found = std::collections::BTreeMap::new();
            // Only columns of the index: the table itself is not read.
            let sql = format!(
                "SELECT id, {column} FROM conversations INDEXED BY {index} WHERE {column}>=''"
            );
            let mut run = || -> rusqlite::Result<()> {
                let mut statement = conn.prepare(&sql)?;
                let mut rows = statement.query([])?;
                while let Some(row) = rows.next()? {
                    if let (ValueRef::Integer(id), ValueRef::Text(text)) =
                        (row.get_ref(0)?, row.get_ref(1)?)
                        && wanted(id)
                        && let Ok(text) = std::str::from_utf8(text)
                    {
                        found.insert(id, text.to_owned());
                    }
                }
                Ok(())
            };
            // What was read before an error stands: it is proven or not used.
            let _ = run();
            found
        };
        let mut native = read("conversations_native", "native_id");
        read("sqlite_autoindex_conversations_1", "public_id")
            .into_iter()
            .filter_map(|(id, public)| native.remove(&id).map(|n| (id, public, n)))
            .collect()
    }

    fn pass(
        conn: &Connection,
        sql: &str,
        (from, to): (i64, i64),
        f: &mut dyn FnMut(&[ValueRef<'_>]) -> Result<bool>,
    ) -> Result<Pass> {
        let mut last = None;
        let mut strays = 0u64;
        let mut failed: Option<Error> = None;
        let mut run = || -> rusqlite::Result<bool> {
            let mut statement = conn.prepare_cached(sql)?;
            let columns = statement.column_count();
            let mut rows = statement.query((from, to))?;
            while let Some(row) = rows.next()? {
                let mut values = Vec::with_capacity(columns);
                for i in 0..columns {
                    values.push(row.get_ref(i)?);
                }
                let id = match values.first() {
                    Some(ValueRef::Integer(id)) => *id,
                    _ => continue,
                };
                if id < from || id > to || last.is_some_and(|l| id <= l) {
                    strays += 1;
                    if strays > STRAYS_MAX {
                        return Ok(false);
                    }
                    continue;
                }
                last = Some(id);
                match f(&values) {
                    Ok(true) => {}
                    Ok(false) => return Ok(true),
                    Err(e) => {
                        failed = Some(e);
                        return Ok(true);
                    }
                }
            }
            Ok(true)
        };
        let ran = run();
        if let Some(e) = failed {
            return Err(e);
        }
        match ran {
            Ok(true) => Ok(Pass::End),
            Err(e) if e.sqlite_error_code() == Some(ErrorCode::OutOfMemory) => {
                Err(Error::new(ErrorKind::Io, format!("out of memory: {e}")))
            }
            Ok(false) | Err(_) => Ok(Pass::Broken(last)),
        }
    }

    /// The first id from `from` on from which a row, or the end, can be read: the distance is
    /// doubled until one is found, and then halved.
    fn next_readable(conn: &Connection, sql: &str, from: i64, to: i64) -> Option<i64> {
        let readable = |id: i64| -> bool {
            let run = || -> rusqlite::Result<()> {
                let mut statement = conn.prepare_cached(sql)?;
                let columns = statement.column_count();
                let mut rows = statement.query((id, to))?;
                if let Some(row) = rows.next()? {
                    for i in 0..columns {
                        row.get_ref(i)?;
                    }
                }
                Ok(())
            };
            run().is_ok()
        };
        let (mut bad, mut step) = (from, 1i64);
        let mut good = loop {
            let at = from.saturating_add(step);
            if at > to || at == i64::MAX {
                return None;
            }
            if readable(at) {
                break at;
            }
            bad = at;
            step = step.saturating_mul(2);
        };
        while good - bad > 1 {
            let middle = bad + (good - bad) / 2;
            if readable(middle) {
                good = middle;
            } else {
                bad = middle;
            }
        }
        Some(good)
    }
}

impl Rows for SqliteRows {
    fn scan(
        &self,
        table: &'static Table,
        from: i64,
        to: i64,
        f: &mut dyn FnMut(&[ValueRef<'_>]) -> Result<bool>,
    ) -> Result<Unread> {
        let mut unread = Unread::default();
        let open_end = |to: i64| (to != i64::MAX).then_some(to);
        let conn = &self.conn;
        let sql = format!(
            "SELECT {},row_hash FROM {} NOT INDEXED WHERE id BETWEEN ?1 AND ?2 ORDER BY id",
            table.columns_sql(),
            table.name
        );
        let mut from = from;
        loop {
            let last = match Self::pass(conn, &sql, (from, to), f)? {
                Pass::End => return Ok(unread),
                Pass::Broken(last) => last,
            };
            // Ids count from 1; whoever asks for less asks for all.
            let begin = match last {
                Some(last) if last >= to => return Ok(unread),
                Some(last) => last.saturating_add(1),
                None => from.max(1),
            };
            let next = Self::next_readable(conn, &sql, begin, to)
                .filter(|_| unread.ranges.len() < RANGES_MAX);
            let Some(next) = next else {
                unread.ranges.push((begin, open_end(to)));
                return Ok(unread);
            };
            unread.ranges.push((begin, Some(next - 1)));
            from = next;
        }
    }
}
