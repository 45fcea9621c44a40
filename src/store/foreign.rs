//! A copy of another program's database, read row by row. Nothing in it is trusted.
//!
//! The copy is ours and thrown away, so SQLite may finish what its WAL or journal holds. Triggers,
//! views and functions of its schema never run; a row that can't be read costs itself alone.

use std::path::{Path, PathBuf};

use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, params_from_iter};

use super::sqlite;
use crate::error::{Error, ErrorKind, Result};
use crate::model::row::{Row, Value};

/// Bytes of the longest value or row that is read.
pub const MAX_VALUE: i32 = 64 << 20;

/// What reading one row by its row id gave.
#[derive(Debug, Clone, PartialEq)]
pub enum RowRead {
    /// The row.
    Row(Row),
    /// It is longer than [`MAX_VALUE`].
    TooLong,
    /// It can't be read.
    Damaged(String),
    /// It is not there.
    Gone,
}

/// A database that another program made, open.
#[derive(Debug)]
pub struct ForeignDb {
    conn: Connection,
    path: PathBuf,
}

impl ForeignDb {
    /// Opens the copy at `path`, with its sidecars beside it.
    ///
    /// # Errors
    /// `source-damaged` when it is no database or its schema can't be read; `io`, `no-space`.
    pub fn open(path: &Path) -> Result<ForeignDb> {
        ForeignDb::limited(sqlite::open_copy(path).map_err(as_source)?, path)
    }

    /// Opens an image in memory, its WAL already folded in (see [`super::wal::fold`]); `path` names
    /// it in errors.
    ///
    /// # Errors
    /// `source-damaged` when it is no database or its schema can't be read.
    pub fn from_image(image: &[u8], path: &Path) -> Result<ForeignDb> {
        ForeignDb::limited(sqlite::open_image(image, path).map_err(as_source)?, path)
    }

    fn limited(conn: Connection, path: &Path) -> Result<ForeignDb> {
        let limits = [
            (Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE),
            (Limit::SQLITE_LIMIT_SQL_LENGTH, 1 << 20),
            (Limit::SQLITE_LIMIT_ATTACHED, 0),
            (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
        ];
        for (limit, value) in limits {
            conn.set_limit(limit, value)
                .map_err(|e| as_source(sqlite::failed("open", path, e)))?;
        }
        let db = ForeignDb {
            conn,
            path: path.to_owned(),
        };
        db.conn
            .query_row("SELECT count(*) FROM sqlite_schema", [], |r| {
                r.get::<_, i64>(0)
            })
            .map_err(|e| db.failed(e))?;
        Ok(db)
    }

    /// Whether there is an ordinary table of this name whose rows have row ids.
    #[must_use]
    pub fn has(&self, table: &str) -> bool {
        self.conn
            .query_row(
                "SELECT 1 FROM pragma_table_list WHERE schema='main' AND name=?1 AND type='table' \
                 AND wr=0",
                [table],
                |_| Ok(()),
            )
            .is_ok()
    }

    /// Whether a table has a column.
    #[must_use]
    pub fn has_column(&self, table: &str, column: &str) -> bool {
        self.conn
            .query_row(
                "SELECT 1 FROM pragma_table_xinfo(?1) WHERE name=?2",
                [table, column],
                |_| Ok(()),
            )
            .is_ok()
    }

    /// The first column of every row of a query, as text. Rows where it is NULL are left out.
    ///
    /// # Errors
    /// `source-damaged` when the query can't be run to its end; then `out` holds what came before.
    pub fn keys(&self, sql: &str, params: &[&str], out: &mut Vec<String>) -> Result<()> {
        let mut run = || -> rusqlite::Result<()> {
            let mut statement = self.conn.prepare_cached(sql)?;
            let mut rows = statement.query(params_from_iter(params))?;
            while let Some(row) = rows.next()? {
                match row.get_ref(0)? {
                    ValueRef::Text(t) => out.push(String::from_utf8_lossy(t).into_owned()),
                    ValueRef::Integer(n) => out.push(n.to_string()),
                    ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_) => {}
                }
            }
            Ok(())
        };
        run().map_err(|e| self.failed(e))
    }

    /// Row ids of the rows of `table` that `rest` (`WHERE ... ORDER BY ...`) selects, in that order.
    ///
    /// # Errors
    /// As [`ForeignDb::keys`].
    pub fn row_ids(
        &self,
        table: &str,
        rest: &str,
        params: &[&str],
        out: &mut Vec<i64>,
    ) -> Result<()> {
        let mut run = || -> rusqlite::Result<()> {
            let sql = format!("SELECT _rowid_ FROM {} {rest}", quoted(table));
            let mut statement = self.conn.prepare_cached(&sql)?;
            let mut rows = statement.query(params_from_iter(params))?;
            while let Some(row) = rows.next()? {
                out.push(row.get(0)?);
            }
            Ok(())
        };
        run().map_err(|e| self.failed(e))
    }

    /// The next row id of `table` above `after` of a row for which the condition `only` holds,
    /// without the help of any index but the table's own order; `None` behind the last.
    ///
    /// # Errors
    /// As [`ForeignDb::keys`].
    pub fn next_row_id(&self, table: &str, after: Option<i64>, only: &str) -> Result<Option<i64>> {
        let sql = format!(
            "SELECT min(_rowid_) FROM {} NOT INDEXED WHERE (?1 IS NULL OR _rowid_>?1) AND ({only})",
            quoted(table)
        );
        let bounded = format!(
            "SELECT _rowid_ FROM {} NOT INDEXED WHERE _rowid_>?1 AND ({only}) ORDER BY _rowid_ \
             LIMIT 1",
            quoted(table)
        );
        let run = || -> rusqlite::Result<Option<i64>> {
            match after {
                None => self
                    .conn
                    .prepare_cached(&sql)?
                    .query_row([None::<i64>], |r| r.get(0)),
                Some(after) => {
                    let mut statement = self.conn.prepare_cached(&bounded)?;
                    let mut rows = statement.query([after])?;
                    rows.next()?.map(|r| r.get(0)).transpose()
                }
            }
        };
        run().map_err(|e| self.failed(e))
    }

    /// Reads one row.
    ///
    /// # Errors
    /// `io` or `no-space`; damage of the row is a [`RowRead`].
    pub fn row(&self, table: &str, id: i64) -> Result<RowRead> {
        let sql = format!("SELECT * FROM {} WHERE _rowid_=?1", quoted(table));
        let prepared = self.conn.prepare_cached(&sql).map_err(|e| self.failed(e));
        let mut statement = match prepared {
            Ok(statement) => statement,
            // A column may be computed by a function that only its program has. That is about this
            // database, and no reason not to read the others.
            Err(e) if e.kind() == ErrorKind::SourcesFailed => {
                return Ok(RowRead::Damaged(e.message().to_owned()));
            }
            Err(e) => return Err(e),
        };
        let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let mut run = || -> rusqlite::Result<RowRead> {
            let mut rows = statement.query([id])?;
            let Some(row) = rows.next()? else {
                return Ok(RowRead::Gone);
            };
            let mut columns = Vec::with_capacity(names.len());
            let mut bytes = 0usize;
            for (n, name) in names.iter().enumerate() {
                let value = match row.get_ref(n)? {
                    ValueRef::Null => Value::Null,
                    ValueRef::Integer(n) => Value::Integer(n),
                    ValueRef::Real(x) => Value::Real(x),
                    ValueRef::Text(t) => Value::Text(t.to_vec()),
                    ValueRef::Blob(b) => Value::Blob(b.to_vec()),
                };
                bytes += match &value {
                    Value::Text(b) | Value::Blob(b) => b.len(),
                    Value::Null | Value::Integer(_) | Value::Real(_) => 8,
                };
                columns.push((name.clone(), value));
            }
            if i32::try_from(bytes).map_or(true, |n| n > MAX_VALUE) {
                return Ok(RowRead::TooLong);
            }
            Ok(RowRead::Row(Row::new(columns)))
        };
        Ok(match run() {
            Ok(read) => read,
            Err(e) if e.sqlite_error_code() == Some(rusqlite::ErrorCode::TooBig) => {
                RowRead::TooLong
            }
            Err(e) => RowRead::Damaged(e.to_string()),
        })
    }

    fn failed(&self, e: rusqlite::Error) -> Error {
        as_source(sqlite::failed("read", &self.path, e))
    }
}

/// What is corrupt here is a harness's database, not the archive.
fn as_source(e: Error) -> Error {
    match e.kind() {
        ErrorKind::NoSpace | ErrorKind::Io => e,
        _ => Error::new(ErrorKind::SourcesFailed, e.message().to_owned()).with_source(e),
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
