//! The one place that opens SQLite databases.
//!
//! Two rules follow from how SQLite locks. A database is never read through `std::fs` while this
//! process has a connection to it: closing any descriptor of a file drops every POSIX lock of the
//! process on it. And [`open_read`] is never used in a process that writes to the same database,
//! for the same reason.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::ffi::ErrorCode;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::disk::{ArchiveExclusive, is_full};
use crate::error::{Error, ErrorKind, Result};
use crate::model::interrupt::Until;

/// Prepared statements kept per connection: more than any module has distinct statements.
const STATEMENTS: usize = 64;
/// Steps of SQLite's machine between two looks at the clock. One of them may read a page, or
/// compare a row of the search index with its words.
pub const STEPS: std::ffi::c_int = 1000;
/// Times [`STEPS`] that reading the schema of an archive may take: ten thousand times what ours
/// takes. The tree of one that is damaged may have no end.
const SCHEMA_ROUNDS: u32 = 10_000;
/// Page cache of a writer in KiB. With SQLite's 2 MiB a commit of one large source spills.
const CACHE_KIB: i64 = 32 << 10;

/// Opens a database for writing: WAL, every commit synced, foreign keys, defensive. It is never
/// checkpointed but by [`checkpoint`], so that readers without locks stay safe. With `create` a
/// missing file is made (mode 0600, which SQLite gives to the sidecars too); the caller syncs the
/// folder.
///
/// # Errors
/// `archive-missing` when nothing is there and `create` is false; `archive-corrupt` when it is no
/// database; `lock-busy`, `no-space`, `permission-denied`, `io`.
pub fn open_write(path: &Path, create: bool) -> Result<Connection> {
    if create {
        make(path)?;
    } else if !present(path)? {
        return Err(missing(path));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
        | OpenFlags::SQLITE_OPEN_URI;
    let conn = connect(&uri(path, "mode=rw"), flags, path)?;
    let set = || -> rusqlite::Result<String> {
        conn.busy_timeout(std::time::Duration::ZERO)?;
        harden(&conn)?;
        // Before the first access, so that closing never checkpoints either.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        let mode = journal_mode(&conn, "WAL")?;
        conn.pragma_update(None, "synchronous", "FULL")?;
        conn.pragma_update(None, "wal_autocheckpoint", 0)?;
        conn.pragma_update(None, "foreign_keys", true)?;
        conn.pragma_update(None, "cache_size", -CACHE_KIB)?;
        Ok(mode)
    };
    let mode = set().map_err(|e| failed("open", path, e))?;
    // In any other mode a power cut can take a commit back.
    if mode != "wal" {
        return Err(Error::new(
            ErrorKind::Io,
            format!("{} could not be switched to a WAL", path.display()),
        ));
    }
    Ok(conn)
}

/// An empty file for a database. SQLite would make it with mode 0644. The descriptor is closed
/// before SQLite has any.
fn make(path: &Path) -> Result<()> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR) {
        Ok(_) | Err(Errno::EXIST) => Ok(()),
        Err(e) => Err(Error::io("create", path, e.into())),
    }
}

/// Opens a derived database that is being built and that no reader knows of, made when missing. A
/// killed builder loses its last transaction and no more. A rollback journal, not a WAL: new pages
/// are written once. [`open_write`] switches it to a WAL before it is published.
///
/// # Errors
/// As [`open_write`].
pub fn open_aside(path: &Path) -> Result<Connection> {
    make(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
        | OpenFlags::SQLITE_OPEN_URI;
    let conn = connect(&uri(path, "mode=rw"), flags, path)?;
    let set = || -> rusqlite::Result<()> {
        conn.busy_timeout(std::time::Duration::ZERO)?;
        harden(&conn)?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        conn.pragma_update_and_check(None, "locking_mode", "EXCLUSIVE", |row| {
            row.get::<_, String>(0)
        })?;
        conn.pragma_update_and_check(None, "journal_mode", "DELETE", |row| {
            row.get::<_, String>(0)
        })?;
        conn.pragma_update(None, "synchronous", "NORMAL")?;
        conn.pragma_update(None, "temp_store", "MEMORY")?;
        conn.pragma_update(None, "cache_size", -CACHE_KIB)?;
        Ok(())
    };
    set().map_err(|e| failed("open", path, e))?;
    Ok(conn)
}

/// Opens an archive that is being staged and that no reader knows of, made when missing. What a
/// WAL beside it holds is folded in first. A rollback journal, so that new pages are written once,
/// and no syncs: it is worth nothing before [`end_staging`].
///
/// # Errors
/// As [`open_write`].
pub fn open_staged(path: &Path, create: bool) -> Result<Connection> {
    if create {
        make(path)?;
    } else if !present(path)? {
        return Err(missing(path));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
        | OpenFlags::SQLITE_OPEN_URI;
    let conn = connect(&uri(path, "mode=rw"), flags, path)?;
    let set = || -> rusqlite::Result<String> {
        conn.busy_timeout(std::time::Duration::ZERO)?;
        harden(&conn)?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        conn.pragma_update(None, "synchronous", "OFF")?;
        conn.pragma_update(None, "foreign_keys", true)?;
        conn.pragma_update(None, "cache_size", -CACHE_KIB)?;
        journal_mode(&conn, "TRUNCATE")
    };
    let mode = set().map_err(|e| failed("open", path, e))?;
    if mode != "truncate" {
        return Err(in_mode(path, &mode));
    }
    Ok(conn)
}

/// Makes a staged database durable, as [`open_write`] would leave it behind a checkpoint. Closing
/// the connection leaves no sidecar, of which [`closed_clean`] makes sure. `touch` is a statement
/// that writes any one page.
///
/// # Errors
/// `no-space`, `io`.
pub fn end_staging(conn: &Connection, touch: &str) -> Result<()> {
    let path = conn.path().map(PathBuf::from).unwrap_or_default();
    let finish = || -> rusqlite::Result<String> {
        // A commit under FULL syncs the file through the descriptor that wrote it, and so with all
        // that was written before: an error of any of these writes is told.
        conn.pragma_update(None, "synchronous", "FULL")?;
        conn.execute_batch(touch)?;
        journal_mode(conn, "DELETE")?;
        let mode = journal_mode(conn, "WAL")?;
        // The last connection takes its empty WAL with it.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
        Ok(mode)
    };
    let mode = finish().map_err(|e| failed("finish", &path, e))?;
    if mode == "wal" {
        Ok(())
    } else {
        Err(in_mode(&path, &mode))
    }
}

/// Makes sure that a database that was closed left nothing beside it.
///
/// # Errors
/// `io` when a sidecar is there.
pub fn closed_clean(path: &Path) -> Result<()> {
    for suffix in ["-wal", "-shm", "-journal"] {
        let beside = sidecar(path, suffix);
        if present(&beside)? {
            return Err(Error::new(
                ErrorKind::Io,
                format!("{} was not taken away", beside.display()),
            ));
        }
    }
    Ok(())
}

fn in_mode(path: &Path, mode: &str) -> Error {
    Error::new(
        ErrorKind::Io,
        format!("the journal of {} is in mode {mode}", path.display()),
    )
}

/// Switches the journal and returns the mode that it came to.
fn journal_mode(conn: &Connection, mode: &str) -> rusqlite::Result<String> {
    let mut statement = conn.prepare(&format!("PRAGMA journal_mode = {mode}"))?;
    let mut rows = statement.query([])?;
    let mut mode = String::new();
    // Until there are no more rows: the first row is the answer, but a new database is written
    // only after it, and whoever stops there is not told that the write or its sync failed.
    while let Some(row) = rows.next()? {
        mode = row.get(0)?;
    }
    Ok(mode)
}

/// Opens a database for reading without leaving a trace: no file is made or changed, rows in the
/// WAL are seen, and neither a writable folder nor a `-shm` file is needed. `None` when nothing is
/// there. The caller holds the archive lock shared for as long as the connection lives: only a
/// checkpoint could change what it reads, and checkpoints need that lock exclusive.
///
/// # Errors
/// `archive-corrupt` when it is no database; `archive-unreadable`, `permission-denied`, `io`.
pub fn open_read(path: &Path) -> Result<Option<Connection>> {
    if !present(path)? {
        return Ok(None);
    }
    // Without a WAL file SQLite would make one, and it opens even an empty one for writing; then
    // nothing is pending and the database file alone, which only a checkpoint changes, is the
    // whole truth.
    let query = if pending(&sidecar(path, "-wal"))? {
        "mode=ro&vfs=unix-none"
    } else {
        "mode=ro&immutable=1"
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
        | OpenFlags::SQLITE_OPEN_URI;
    let mut conn = connect(&uri(path, query), flags, path)?;
    let mut set = || -> rusqlite::Result<()> {
        let mut rounds = 0;
        let endless = move || {
            rounds += 1;
            rounds > SCHEMA_ROUNDS
        };
        conn.progress_handler(STEPS, Some(endless))?;
        conn.busy_timeout(std::time::Duration::ZERO)?;
        // Keeps the WAL's index in memory. It must come before the first read.
        conn.pragma_update_and_check(None, "locking_mode", "EXCLUSIVE", |row| {
            row.get::<_, String>(0)
        })?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        harden(&conn)?;
        conn.pragma_update(None, "query_only", true)?;
        // Opening is lazy; this is the first read.
        conn.prepare("SELECT 1 FROM sqlite_schema LIMIT 1")?
            .exists([])?;
        conn.progress_handler(0, None::<fn() -> bool>)
    };
    set().map_err(|e| match e.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => Error::new(
            ErrorKind::ArchiveCorrupt,
            format!("the schema of {} has no end", path.display()),
        ),
        _ => failed(READING, path, e),
    })?;
    Ok(Some(conn))
}

/// Opens a copy of a foreign database that nobody else has open, so that what its WAL or journal
/// holds is finished first. Its content is not trusted: no trigger, view or function of its schema
/// runs, and from the first read on `is_over` is asked now and then whether to give up. The copy and
/// its sidecars are the caller's to remove.
///
/// # Errors
/// `archive-corrupt` when it is no database; `io`, `no-space`.
pub fn open_copy(
    path: &Path,
    is_over: impl FnMut() -> bool + Send + 'static,
) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
        | OpenFlags::SQLITE_OPEN_URI;
    let mut conn = connect(&uri(path, "mode=rw"), flags, path)?;
    let set = || -> rusqlite::Result<()> {
        conn.progress_handler(STEPS, Some(is_over))?;
        conn.busy_timeout(std::time::Duration::ZERO)?;
        harden(&conn)?;
        // Alone with the copy: no shared memory file is needed beside it, and nothing is synced.
        conn.pragma_update_and_check(None, "locking_mode", "EXCLUSIVE", |row| {
            row.get::<_, String>(0)
        })?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        conn.pragma_update(None, "synchronous", "OFF")?;
        conn.pragma_update(None, "temp_store", "MEMORY")?;
        conn.pragma_update(None, "ignore_check_constraints", true)?;
        Ok(())
    };
    set().map_err(|e| failed("open", path, e))?;
    Ok(conn)
}

/// Opens a foreign database where it lies. No lock is taken and no file is made or changed; what a WAL
/// beside it holds is not seen, and who writes to it meanwhile is not waited for: the caller looks
/// whether the file moved. Its content is not trusted, as with [`open_copy`]. No part of `path` is a link.
///
/// # Errors
/// `archive-corrupt` when it is no database; `archive-unreadable`, `permission-denied`, `io`.
pub fn open_still(
    path: &Path,
    longest: i32,
    is_over: impl FnMut() -> bool + Send + 'static,
) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
        | OpenFlags::SQLITE_OPEN_URI;
    let mut conn = connect(&uri(path, "mode=ro&immutable=1"), flags, path)?;
    let set = || -> rusqlite::Result<()> {
        conn.progress_handler(STEPS, Some(is_over))?;
        conn.set_limit(Limit::SQLITE_LIMIT_LENGTH, longest)?;
        harden(&conn)?;
        conn.pragma_update(None, "temp_store", "MEMORY")?;
        conn.pragma_update(None, "ignore_check_constraints", true)?;
        conn.pragma_update(None, "query_only", true)?;
        Ok(())
    };
    set().map_err(|e| failed(READING, path, e))?;
    Ok(conn)
}

/// Opens the image of a foreign database in memory: no file is made. Its content is not trusted, as
/// with [`open_copy`], and it can't be changed. `path` names it in errors.
///
/// # Errors
/// `archive-corrupt` when it is no database.
pub fn open_image(
    image: &[u8],
    path: &Path,
    is_over: impl FnMut() -> bool + Send + 'static,
) -> Result<Connection> {
    image_of(image, path, true, is_over)
}

/// As [`open_image`], for a copy that is changed in memory and handed out by [`image_again`].
///
/// # Errors
/// As [`open_image`].
pub fn open_image_for_change(
    image: &[u8],
    path: &Path,
    is_over: impl FnMut() -> bool + Send + 'static,
) -> Result<Connection> {
    image_of(image, path, false, is_over)
}

/// The image that a connection has now.
///
/// # Errors
/// `archive-corrupt`.
pub fn image_again(conn: &mut Connection, path: &Path) -> Result<Vec<u8>> {
    let image = conn
        .serialize("main")
        .map_err(|e| failed(READING, path, e))?;
    Ok(image.to_vec())
}

fn image_of(
    image: &[u8],
    path: &Path,
    reading: bool,
    is_over: impl FnMut() -> bool + Send + 'static,
) -> Result<Connection> {
    let set = || -> rusqlite::Result<Connection> {
        let mut conn = Connection::open_in_memory()?;
        conn.progress_handler(STEPS, Some(is_over))?;
        conn.deserialize_read_exact("main", image, image.len(), reading)?;
        harden(&conn)?;
        conn.pragma_update(None, "temp_store", "MEMORY")?;
        conn.pragma_update(None, "ignore_check_constraints", true)?;
        conn.pragma_update(None, "query_only", reading)?;
        Ok(conn)
    };
    set().map_err(|e| failed(READING, path, e))
}

/// Ends long work of a connection soon after `until` is reached; its statement then fails. Whoever
/// sets this asks `until` before anything is made of that failure.
///
/// # Errors
/// `internal`.
pub fn stop_at(conn: &mut Connection, until: &Until) -> Result<()> {
    let path = conn.path().map(PathBuf::from).unwrap_or_default();
    let until = until.clone();
    conn.progress_handler(STEPS, Some(move || until.reached()))
        .map_err(|e| failed("prepare", &path, e))
}

/// Moves everything from the WAL into the database file and empties the WAL.
///
/// # Errors
/// `lock-busy` when another connection is in the database; `no-space`, `io`.
pub fn checkpoint(conn: &Connection, _lock: &ArchiveExclusive) -> Result<()> {
    let path = conn.path().map(PathBuf::from).unwrap_or_default();
    let busy = conn
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
            row.get::<_, i64>(0)
        })
        .map_err(|e| failed("checkpoint", &path, e))?;
    if busy != 0 {
        return Err(Error::new(
            ErrorKind::LockBusy,
            format!("{} is in use and was not checkpointed", path.display()),
        ));
    }
    Ok(())
}

/// What [`failed`] is told that was done where nothing would have been written.
const READING: &str = "read";

/// The error of a failed SQLite call on the database at `path`.
#[must_use]
pub fn failed(doing: &str, path: &Path, e: rusqlite::Error) -> Error {
    let kind = match e.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => ErrorKind::ArchiveCorrupt,
        Some(ErrorCode::DiskFull) => ErrorKind::NoSpace,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => ErrorKind::LockBusy,
        Some(ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => ErrorKind::PermissionDenied,
        // A log or its index that could not be made or grown: SQLite says that the disk is full
        // only where a write said so. Reading makes nothing.
        Some(ErrorCode::CannotOpen | ErrorCode::SystemIoFailure)
            if doing != READING && !is_failed_read(&e) && is_full(path) =>
        {
            ErrorKind::NoSpace
        }
        Some(ErrorCode::CannotOpen) => ErrorKind::ArchiveUnreadable,
        Some(ErrorCode::SystemIoFailure) => ErrorKind::Io,
        // A wrong type or a failed constraint where the schema promises better.
        None | Some(ErrorCode::TypeMismatch | ErrorCode::ConstraintViolation) => {
            ErrorKind::ArchiveCorrupt
        }
        Some(_) => ErrorKind::Internal,
    };
    // A failed open names the database a second time, as the address it was opened by.
    let text = e.to_string();
    let text = text.split(": file:").next().unwrap_or_default();
    Error::new(kind, format!("cannot {doing} {}: {text}", path.display()))
        .with_context("path", path.display().to_string())
        .with_source(e)
        .saying_who_may(path)
}

fn is_failed_read(e: &rusqlite::Error) -> bool {
    use rusqlite::ffi::{SQLITE_IOERR_READ, SQLITE_IOERR_SHORT_READ};
    e.sqlite_error()
        .is_some_and(|e| [SQLITE_IOERR_READ, SQLITE_IOERR_SHORT_READ].contains(&e.extended_code))
}

/// The version of the linked SQLite.
#[must_use]
pub fn version() -> &'static str {
    rusqlite::version()
}

fn harden(conn: &Connection) -> rusqlite::Result<()> {
    conn.set_prepared_statement_cache_capacity(STATEMENTS);
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    // A plan that goes by the values bound is made anew for each value: most of a small query.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    conn.pragma_update(None, "cell_size_check", true)?;
    conn.pragma_update(None, "mmap_size", 0)?;
    Ok(())
}

fn connect(uri: &str, flags: OpenFlags, path: &Path) -> Result<Connection> {
    #[allow(clippy::disallowed_methods)] // the door itself
    Connection::open_with_flags(uri, flags).map_err(|e| {
        let read_only = flags.contains(OpenFlags::SQLITE_OPEN_READ_ONLY);
        failed(if read_only { READING } else { "open" }, path, e)
    })
}

fn uri(path: &Path, query: &str) -> String {
    let mut uri = String::from("file:");
    for &b in path.as_os_str().as_bytes() {
        if b.is_ascii_alphanumeric() || b"/-._~".contains(&b) {
            uri.push(char::from(b));
        } else {
            let _ = write!(uri, "%{b:02X}");
        }
    }
    uri.push('?');
    uri.push_str(query);
    uri
}

fn sidecar(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn present(path: &Path) -> Result<bool> {
    Ok(len(path)?.is_some())
}

/// Whether a WAL is there and holds anything.
fn pending(path: &Path) -> Result<bool> {
    Ok(len(path)?.is_some_and(|len| len > 0))
}

fn len(path: &Path) -> Result<Option<u64>> {
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.is_file() => Ok(Some(meta.len())),
        Ok(_) => Err(Error::new(
            ErrorKind::UnsafeTarget,
            format!("{} is not a regular file", path.display()),
        )),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io("look up", path, e)),
    }
}

fn missing(path: &Path) -> Error {
    Error::new(
        ErrorKind::ArchiveMissing,
        format!("{} is not there", path.display()),
    )
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use crate::disk::{Root, WriterLock};

    /// Name, mode, mtime and bytes of everything below `dir`.
    fn tree(dir: &Path) -> Vec<(PathBuf, u32, i64, i64, Vec<u8>)> {
        let mut seen = Vec::new();
        for entry in walkdir::WalkDir::new(dir).sort_by_file_name() {
            let entry = entry.unwrap();
            let meta = entry.metadata().unwrap();
            let bytes = if meta.is_file() {
                std::fs::read(entry.path()).unwrap()
            } else {
                vec![]
            };
            seen.push((
                entry.path().to_path_buf(),
                meta.mode(),
                meta.mtime(),
                meta.mtime_nsec(),
                bytes,
            ));
        }
        seen
    }

    fn rows(path: &Path) -> i64 {
        let conn = open_read(path).unwrap().unwrap();
        conn.query_row("SELECT count(*) FROM t", [], |r| r.get(0))
            .unwrap()
    }

    /// Two committed rows, one of them only in the WAL, and the locks of a data directory.
    fn hot(dir: &Path) -> PathBuf {
        let root = Root::open_or_create(dir).unwrap();
        let lock = WriterLock::acquire(root, "test", 0).unwrap();
        let path = dir.join("odd name %#?é.db");
        let conn = open_write(&path, true).unwrap();
        conn.execute_batch("CREATE TABLE t(x) STRICT").unwrap_err();
        conn.execute_batch("CREATE TABLE t(x INTEGER) STRICT; INSERT INTO t VALUES (1)")
            .unwrap();
        let exclusive = ArchiveExclusive::try_acquire(&lock).unwrap().unwrap();
        checkpoint(&conn, &exclusive).unwrap();
        conn.execute_batch("INSERT INTO t VALUES (2)").unwrap();
        path
    }

    /// A query that is asked for one value after the other is planned once.
    #[test]
    fn a_statement_is_not_made_anew_for_each_value() {
        let dir = tempfile::tempdir().unwrap();
        let path = hot(dir.path());
        let conn = open_read(&path).unwrap().unwrap();
        let mut statement = conn
            .prepare("SELECT count(*) FROM t WHERE rowid BETWEEN ?1 AND ?2")
            .unwrap();
        for n in 0..3 {
            let found: i64 = statement.query_row([n, n], |r| r.get(0)).unwrap();
            assert_eq!(found, i64::from(n > 0));
        }
        let again = statement.get_status(rusqlite::StatementStatus::RePrepare);
        assert_eq!(again, 0);
    }

    #[test]
    fn files_are_for_their_owner_and_closing_does_not_checkpoint() {
        let dir = tempfile::tempdir().unwrap();
        let path = hot(dir.path());
        for suffix in ["", "-wal"] {
            let meta = std::fs::metadata(sidecar(&path, suffix)).unwrap();
            assert_eq!(meta.mode() & 0o777, 0o600, "{suffix}");
        }
        assert!(std::fs::metadata(sidecar(&path, "-wal")).unwrap().len() > 0);
    }

    #[test]
    fn reading_leaves_no_trace_and_sees_the_wal() {
        let dir = tempfile::tempdir().unwrap();
        let path = hot(dir.path());
        let wal = sidecar(&path, "-wal");
        let wal_bytes = std::fs::read(&wal).unwrap();
        for (state, expected) in [("hot", 2), ("no shm", 2), ("empty wal", 1), ("no wal", 1)] {
            let shm = sidecar(&path, "-shm");
            match state {
                "no shm" => drop(std::fs::remove_file(shm)),
                "empty wal" => std::fs::write(&wal, b"").unwrap(),
                "no wal" => std::fs::remove_file(&wal).unwrap(),
                _ => {}
            }
            let before = tree(dir.path());
            assert_eq!(rows(&path), expected, "{state}");
            assert!(
                tree(dir.path()) == before,
                "{state}: reading changed something"
            );
        }
        std::fs::write(&wal, wal_bytes).unwrap();
        assert_eq!(rows(&path), 2);
    }

    #[test]
    fn nothing_there_is_none_and_garbage_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        assert!(open_read(&path).unwrap().is_none());
        assert_eq!(
            open_write(&path, false).unwrap_err().kind(),
            ErrorKind::ArchiveMissing
        );
        std::fs::write(&path, vec![7u8; 8192]).unwrap();
        assert_eq!(
            open_read(&path).unwrap_err().kind(),
            ErrorKind::ArchiveCorrupt
        );
        assert_eq!(
            open_write(&path, false).unwrap_err().kind(),
            ErrorKind::ArchiveCorrupt
        );
    }

    #[test]
    fn an_error_names_the_file_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = hot(&dir.path().join("data"));
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("data", &link).unwrap();
        let linked = link.join(path.file_name().unwrap());
        for e in [
            open_read(&linked).unwrap_err(),
            open_write(&linked, false).unwrap_err(),
        ] {
            assert_eq!(e.message().matches("link").count(), 1, "{e}");
            assert_eq!(e.message().matches("odd").count(), 1, "{e}");
        }
    }

    #[test]
    fn a_writer_and_a_reader_without_locks_work_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = hot(dir.path());
        let writer = open_write(&path, false).unwrap();
        let reader = open_read(&path).unwrap().unwrap();
        let count = |c: &Connection| -> i64 {
            c.query_row("SELECT count(*) FROM t", [], |r| r.get(0))
                .unwrap()
        };
        reader.execute_batch("BEGIN").unwrap();
        assert_eq!(count(&reader), 2);
        writer.execute_batch("INSERT INTO t VALUES (3)").unwrap();
        assert_eq!(count(&reader), 2);
        assert_eq!(count(&writer), 3);
        assert!(reader.execute_batch("INSERT INTO t VALUES (4)").is_err());
        drop(reader);
        assert_eq!(rows(&path), 3);
    }

    /// Root may write anywhere, so as root this test runs itself again as nobody.
    #[test]
    fn a_folder_without_write_permission_can_be_read() {
        const AGAIN: &str = "CASS_TEST_READ_ONLY_DB";
        if let Some(path) = std::env::var_os(AGAIN) {
            let path = PathBuf::from(path);
            assert!(std::fs::write(path.with_extension("probe"), b"").is_err());
            assert_eq!(rows(&path), 2);
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let path = hot(&data);
        let _ = std::fs::remove_file(sidecar(&path, "-shm"));
        let mode = |p: &Path, m: u32| {
            std::fs::set_permissions(p, std::fs::Permissions::from_mode(m)).unwrap();
        };
        mode(dir.path(), 0o755);
        for entry in walkdir::WalkDir::new(&data).contents_first(true) {
            let entry = entry.unwrap();
            mode(
                entry.path(),
                if entry.file_type().is_dir() {
                    0o555
                } else {
                    0o444
                },
            );
        }
        let before = tree(&data);
        if rustix::process::geteuid().is_root() {
            let exe = dir.path().join("test-binary");
            std::fs::copy(std::env::current_exe().unwrap(), &exe).unwrap();
            mode(&exe, 0o755);
            let status = std::process::Command::new("setpriv")
                .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
                .arg(&exe)
                .args([
                    "--exact",
                    "store::sqlite::tests::a_folder_without_write_permission_can_be_read",
                ])
                .env(AGAIN, &path)
                .stdout(std::process::Stdio::null())
                .status();
            match status {
                Ok(status) => assert!(status.success()),
                Err(e) => assert_eq!(e.kind(), std::io::ErrorKind::NotFound),
            }
        } else {
            assert_eq!(rows(&path), 2);
        }
        assert!(tree(&data) == before, "reading changed something");
        mode(&data, 0o755);
        mode(&data.join("locks"), 0o755);
    }
}
