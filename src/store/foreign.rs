//! A copy of another program's database, read row by row. Nothing in it is trusted.
//!
//! The copy is ours and thrown away, so SQLite may finish what its WAL or journal holds. Triggers,
//! views and functions of its schema never run; a row that can't be read costs itself alone. What
//! reading may cost is bounded by the file's length: trees whose pages are named twice have more
//! rows than any disk, and columns that are computed say more than was ever written.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, params_from_iter};

use super::{sqlite, wal};
use crate::error::{Error, ErrorKind, Result};
use crate::model::row::{Row, Value};

/// Bytes of the longest value or row that is read.
pub const MAX_VALUE: i32 = 64 << 20;

/// Bytes of the largest database, and of the largest WAL, that is held as an image.
pub const MAX_IMAGE: u64 = 64 << 20;

/// Bytes of the longest value that is sorted by, where a table can't be trusted to hold no more rows
/// than its file has room for. Ids and times are shorter.
const MAX_KEY: i32 = 1 << 10;
/// Steps of SQLite's machine that reading may take, beside those for each byte of the file. A row
/// of a sound table takes a few hundred.
const STEPS: u64 = 30_000_000;
const STEPS_PER_BYTE: u64 = 100;
/// Steps of reading the schema.
const SCHEMA_STEPS: u64 = 3_000_000;
/// Steps of one query that sorts, where the table can't be trusted.
const CAREFUL_STEPS: u64 = 1_000_000;
/// Bytes of values that are read, beside twice the file's: defaults of columns are written once.
const SPARE_BYTES: u64 = 4 << 20;
/// Bytes that a key takes beside its text.
const KEY_COST: usize = 8;
/// Processor time of the reading thread: what one step costs is not the same for all. Beside a
/// second for each MiB.
const SECONDS: u64 = 2;

/// What reading a database may still cost. SQLite asks it between its steps.
#[derive(Debug, Clone)]
struct Allowance {
    /// Steps left, of all and of the query that runs.
    steps: Arc<AtomicU64>,
    query: Arc<AtomicU64>,
    /// Processor time of this thread at which it ends, nanoseconds.
    until: u64,
}

impl Allowance {
    fn of(bytes: u64) -> Allowance {
        let seconds = SECONDS.saturating_add(bytes >> 20);
        let steps = STEPS.saturating_add(bytes.saturating_mul(STEPS_PER_BYTE));
        Allowance {
            steps: Arc::new(AtomicU64::new(steps)),
            query: Arc::new(AtomicU64::new(SCHEMA_STEPS.saturating_add(bytes))),
            until: thread_time().saturating_add(seconds.saturating_mul(1_000_000_000)),
        }
    }

    /// Takes the steps of one round; whether there are none left.
    fn take(&self) -> bool {
        let round = u64::from(sqlite::STEPS.unsigned_abs());
        let take = |left: &AtomicU64| {
            let now = left.load(Ordering::Relaxed).saturating_sub(round);
            left.store(now, Ordering::Relaxed);
            now == 0
        };
        take(&self.query) | take(&self.steps) || thread_time() > self.until
    }

    fn is_spent(&self) -> bool {
        self.steps.load(Ordering::Relaxed) == 0 || thread_time() > self.until
    }
}

/// Processor time that this thread has had, nanoseconds.
fn thread_time() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let part = |n: i64| u64::try_from(n).unwrap_or(0);
    part(now.tv_sec)
        .saturating_mul(1_000_000_000)
        .saturating_add(part(now.tv_nsec))
}

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

/// The image of a database with what its WAL has committed folded in. `None` for one of more than
/// [`MAX_IMAGE`] bytes whose WAL is empty: it is read where it lies.
///
/// # Errors
/// `unsupported` where both are too much; `io`.
pub fn image(path: &Path, db: &File, wal: Option<&File>) -> Result<Option<Vec<u8>>> {
    let log = wal.map(|wal| held(path, wal)).transpose()?;
    match (held(path, db)?, log) {
        (Some(mut image), None) => {
            wal::fold(&mut image, &[]);
            Ok(Some(image))
        }
        (Some(mut image), Some(Some(log))) => {
            wal::fold(&mut image, &log);
            Ok(Some(image))
        }
        (None, None) => Ok(None),
        (None, Some(Some(log))) if log.is_empty() => Ok(None),
        (_, Some(_)) => Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "{} with its WAL, in which changes lie, has more than {} MiB",
                path.display(),
                MAX_IMAGE >> 20
            ),
        )
        .with_hint("End its program, which writes them in; an index reads it as it is.")),
    }
}

/// All bytes of a file, if they are not too many.
fn held(path: &Path, mut file: &File) -> Result<Option<Vec<u8>>> {
    let failed = |e| Error::io("read", path, e);
    if file.metadata().map_err(failed)?.len() > MAX_IMAGE {
        return Ok(None);
    }
    let mut out = Vec::new();
    file.seek(SeekFrom::Start(0))
        .and_then(|_| file.take(MAX_IMAGE).read_to_end(&mut out))
        .map_err(failed)?;
    Ok(Some(out))
}

/// Opens the image of a database that another program made, for queries of one's own: what they may
/// cost is bounded by the image's length. `path` names it in errors.
///
/// # Errors
/// `source-damaged` when it is no database.
pub fn open_image(image: &[u8], path: &Path) -> Result<Connection> {
    let left = Allowance::of(image.len() as u64);
    sqlite::open_image(image, path, move || left.take()).map_err(as_source)
}

/// Opens a database that another program made where it lies, for queries of one's own, as
/// [`open_image`] does. Only what is in the file itself is seen: it is for one whose WAL is empty.
///
/// # Errors
/// `source-damaged` when it is no database; `not-found`, `permission-denied`, `io`.
pub fn open_still(path: &Path) -> Result<Connection> {
    still(path).map(|(conn, ..)| conn)
}

/// The database, open where it lies, its length, and what reading it may cost.
fn still(path: &Path) -> Result<(Connection, u64, Allowance)> {
    let failed = |e| Error::io("open", path, e);
    // Its folder may be reached through links.
    let real = std::fs::canonicalize(path).map_err(failed)?;
    let len = std::fs::metadata(&real).map_err(failed)?.len();
    let left = Allowance::of(len);
    let asked = left.clone();
    let conn = sqlite::open_still(&real, MAX_VALUE, move || asked.take()).map_err(as_source)?;
    Ok((conn, len, left))
}

/// Changes a copy of a database that another program made, in memory, and gives the image of it. The
/// same image and change give the same bytes.
///
/// # Errors
/// `source-damaged` when it is no database or the change fails.
pub fn changed_image(
    image: &[u8],
    path: &Path,
    change: &dyn Fn(&Connection) -> rusqlite::Result<()>,
) -> Result<Vec<u8>> {
    let left = Allowance::of(image.len() as u64);
    let mut conn =
        sqlite::open_image_for_change(image, path, move || left.take()).map_err(as_source)?;
    change(&conn).map_err(|e| {
        Error::new(
            ErrorKind::Unsupported,
            format!("{} can't be changed: {e}", path.display()),
        )
    })?;
    sqlite::image_again(&mut conn, path).map_err(as_source)
}

/// A database that another program made, open.
#[derive(Debug)]
pub struct ForeignDb {
    conn: Connection,
    path: PathBuf,
    /// Bytes of the file, its WAL included.
    bytes: u64,
    left: Allowance,
    /// Bytes of values that may still be read.
    values: Cell<u64>,
    /// Tables that were asked for, and whether they are ordinary ones.
    tables: RefCell<BTreeMap<String, bool>>,
    /// Names of their columns.
    columns: RefCell<BTreeMap<String, Vec<String>>>,
    /// Whether a table's rows may be more than its file has room for.
    careful: Cell<bool>,
    /// Bytes of the longest value or row that is read.
    longest: i32,
}

impl ForeignDb {
    /// Opens the copy at `path`, with its sidecars beside it.
    ///
    /// # Errors
    /// `source-damaged` when it is no database or its schema can't be read; `io`, `no-space`.
    pub fn open(path: &Path) -> Result<ForeignDb> {
        let len = |path: &Path| std::fs::metadata(path).map_or(0, |m| m.len());
        let mut wal = path.as_os_str().to_owned();
        wal.push("-wal");
        let bytes = len(path).saturating_add(len(Path::new(&wal)));
        let left = Allowance::of(bytes);
        let asked = left.clone();
        let conn = sqlite::open_copy(path, move || asked.take()).map_err(as_source)?;
        ForeignDb::limited(conn, path, bytes, left)
    }

    /// Opens an image in memory, its WAL already folded in (see [`super::wal::fold`]); `path` names
    /// it in errors.
    ///
    /// # Errors
    /// `source-damaged` when it is no database or its schema can't be read.
    pub fn from_image(image: &[u8], path: &Path) -> Result<ForeignDb> {
        let bytes = image.len() as u64;
        let left = Allowance::of(bytes);
        let asked = left.clone();
        let conn = sqlite::open_image(image, path, move || asked.take()).map_err(as_source)?;
        ForeignDb::limited(conn, path, bytes, left)
    }

    /// Opens a database where it lies; what is in its WAL is not seen (see [`image`]).
    ///
    /// # Errors
    /// As [`ForeignDb::from_image`]; `not-found`, `permission-denied`, `io`.
    pub fn open_still(path: &Path) -> Result<ForeignDb> {
        let (conn, len, left) = still(path)?;
        ForeignDb::limited(conn, path, len, left)
    }

    fn limited(conn: Connection, path: &Path, bytes: u64, left: Allowance) -> Result<ForeignDb> {
        // No value is longer than the file it lies in, unless it is computed.
        let longest = i32::try_from(bytes.saturating_add(SPARE_BYTES))
            .unwrap_or(MAX_VALUE)
            .min(MAX_VALUE);
        let limits = [
            (Limit::SQLITE_LIMIT_LENGTH, longest),
            (Limit::SQLITE_LIMIT_SQL_LENGTH, 1 << 20),
            (Limit::SQLITE_LIMIT_EXPR_DEPTH, 100),
            (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 10),
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
            bytes,
            left,
            values: Cell::new(SPARE_BYTES.saturating_add(bytes.saturating_mul(2))),
            tables: RefCell::default(),
            columns: RefCell::default(),
            careful: Cell::new(false),
            longest,
        };
        // Not a count of them: SQLite counts a tree without asking whether to give up.
        db.conn
            .prepare("SELECT 1 FROM sqlite_schema LIMIT 1")
            .and_then(|mut statement| statement.exists([]))
            .map_err(|e| db.failed(e))?;
        db.left.query.store(u64::MAX, Ordering::Relaxed);
        Ok(db)
    }

    /// Whether there is an ordinary table of this name whose rows have row ids.
    #[must_use]
    pub fn has(&self, table: &str) -> bool {
        if let Some(known) = self.tables.borrow().get(table) {
            return *known;
        }
        let found = self
            .conn
            .query_row(
                "SELECT 1 FROM pragma_table_list WHERE schema='main' AND name=?1 AND type='table' \
                 AND wr=0",
                [table],
                |_| Ok(()),
            )
            .is_ok();
        if found && !self.is_bounded(table).unwrap_or(false) {
            self.careful.set(true);
        }
        self.tables.borrow_mut().insert(table.to_owned(), found);
        found
    }

    /// Whether the table's rows are no more and no longer than what was written: its tree is sound,
    /// nothing is computed, and no default of a column is long.
    fn is_bounded(&self, table: &str) -> rusqlite::Result<bool> {
        let odd: i64 = self.conn.query_row(
            "SELECT count(*) FROM pragma_table_xinfo(?1) \
             WHERE hidden<>0 OR length(coalesce(dflt_value,''))>256",
            [table],
            |r| r.get(0),
        )?;
        if odd > 0 {
            return Ok(false);
        }
        let mut statement = self
            .conn
            .prepare(&format!("PRAGMA quick_check({})", quoted(table)))?;
        let first: String = statement.query_row([], |r| r.get(0))?;
        Ok(first == "ok")
    }

    /// Runs a query whose rows are sorted in memory.
    fn sorted(&self, mut run: impl FnMut() -> rusqlite::Result<()>) -> Result<()> {
        if !self.careful.get() {
            return run().map_err(|e| self.failed(e));
        }
        let limit = |n| self.conn.set_limit(Limit::SQLITE_LIMIT_LENGTH, n);
        self.left
            .query
            .store(CAREFUL_STEPS.saturating_add(self.bytes), Ordering::Relaxed);
        let ran = limit(MAX_KEY).and_then(|_| run());
        self.left.query.store(u64::MAX, Ordering::Relaxed);
        let back = limit(self.longest).map(drop);
        ran.and(back).map_err(|e| self.failed(e))
    }

    /// Takes note of bytes that are handed on; whether they were too many.
    fn is_too_much(&self, bytes: usize) -> bool {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let left = self.values.get();
        self.values.set(left.saturating_sub(bytes));
        bytes > left
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
        let mut over = false;
        self.sorted(|| {
            let mut statement = self.conn.prepare_cached(sql)?;
            let mut rows = statement.query(params_from_iter(params))?;
            while let Some(row) = rows.next()? {
                let key = match row.get_ref(0)? {
                    ValueRef::Text(t) => String::from_utf8_lossy(t).into_owned(),
                    ValueRef::Integer(n) => n.to_string(),
                    ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_) => continue,
                };
                over = self.is_too_much(key.len() + KEY_COST);
                if over {
                    break;
                }
                out.push(key);
            }
            Ok(())
        })?;
        if over { Err(self.too_much()) } else { Ok(()) }
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
        // A row takes four bytes of its page at least.
        let most = usize::try_from(self.bytes / 4).unwrap_or(usize::MAX);
        let mut over = false;
        self.sorted(|| {
            let sql = format!("SELECT _rowid_ FROM {} {rest}", quoted(table));
            let mut statement = self.conn.prepare_cached(&sql)?;
            let mut rows = statement.query(params_from_iter(params))?;
            while let Some(row) = rows.next()? {
                over = out.len() >= most;
                if over {
                    break;
                }
                out.push(row.get(0)?);
            }
            Ok(())
        })?;
        if over { Err(self.too_much()) } else { Ok(()) }
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
        if self.left.is_spent() || self.values.get() == 0 {
            return Err(self.too_much());
        }
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

    /// What `SELECT *` of a table gives, by name. As values: a name may be anything, and the statement
    /// itself can be asked only for one that is UTF-8.
    fn column_names(&self, table: &str) -> rusqlite::Result<Vec<String>> {
        if let Some(known) = self.columns.borrow().get(table) {
            return Ok(known.clone());
        }
        let mut statement = self.conn.prepare_cached(
            "SELECT CAST(name AS BLOB) FROM pragma_table_xinfo(?1) WHERE hidden<>1 ORDER BY cid",
        )?;
        let mut names = Vec::new();
        let mut rows = statement.query([table])?;
        while let Some(row) = rows.next()? {
            let name: Vec<u8> = row.get(0)?;
            names.push(String::from_utf8_lossy(&name).into_owned());
        }
        let mut known = self.columns.borrow_mut();
        known.insert(table.to_owned(), names.clone());
        Ok(names)
    }

    /// Reads one row.
    ///
    /// # Errors
    /// `io` or `no-space`; damage of the row is a [`RowRead`].
    pub fn row(&self, table: &str, id: i64) -> Result<RowRead> {
        if self.values.get() == 0 {
            return Ok(RowRead::Damaged(self.too_much().message().to_owned()));
        }
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
        let names = match self.column_names(table) {
            Ok(names) if names.len() == statement.column_count() => names,
            Ok(_) => return Ok(RowRead::Damaged(format!("{table} has other columns"))),
            Err(e) => return Ok(RowRead::Damaged(e.to_string())),
        };
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
                    Value::Null | Value::Integer(_) | Value::Real(_) => 0,
                };
                // Each value has its limit; together they may be many times that.
                if i32::try_from(bytes).map_or(true, |n| n > self.longest) {
                    return Ok(RowRead::TooLong);
                }
                columns.push((name.clone(), value));
            }
            if self.is_too_much(bytes) {
                return Ok(RowRead::Damaged(self.too_much().message().to_owned()));
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
        if e.sqlite_error_code() == Some(rusqlite::ErrorCode::OperationInterrupted) {
            return self.too_much();
        }
        as_source(sqlite::failed("read", &self.path, e))
    }

    fn too_much(&self) -> Error {
        Error::new(
            ErrorKind::SourcesFailed,
            format!(
                "{} says more than a file of its length can hold; reading it was given up",
                self.path.display()
            ),
        )
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
