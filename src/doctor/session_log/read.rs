//! A log or a store, read where it lies.

use std::fs::File;
use std::path::Path;

use rusqlite::Connection;

use crate::error::{Error, ErrorKind, Result};
use crate::session_log::{self, Checked, Entry, Evidence, Kind, ReadAt};
use crate::sources::database::member_path;
use crate::sources::file::Base;
use crate::store::foreign;

/// Bytes of the largest log that is held whole.
pub(super) use crate::store::foreign::MAX_IMAGE;

/// What was examined.
#[derive(Debug)]
pub struct Examined {
    /// One log, or the sessions of a store.
    pub sessions: Vec<Checked>,
    /// What the file was.
    pub evidence: Evidence,
    /// The image of a store that is small enough for one, what its WAL has committed folded in.
    pub image: Option<Vec<u8>>,
}

/// Opens a file as a regular one; its folder may be reached through links.
///
/// # Errors
/// `not-found`, `unsupported` when it is no regular file; `permission-denied`, `io`.
pub fn open(path: &Path) -> Result<File> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let name = path.file_name().unwrap_or_default();
    Base::open(folder)?.open_regular(Path::new(name))
}

/// Examines what lies at an entry. `stop` is asked between reads whether to end.
///
/// # Errors
/// As [`open`]; `unsupported` for a large store with changes in its WAL; `source-damaged` for one
/// that is no database.
pub fn examine(entry: &Entry, stop: &dyn Fn() -> bool) -> Result<Examined> {
    let file = open(&entry.path)?;
    let failed = |e| Error::io("read", &entry.path, e);
    if entry.kind == Kind::Store {
        let (conn, image) = store(&entry.path, &file)?;
        let (sessions, evidence) = session_log::check_store(&file, &conn, stop).map_err(failed)?;
        drop(conn);
        return Ok(Examined {
            sessions,
            evidence,
            image,
        });
    }
    let (checked, evidence) = session_log::check(entry, &file, stop).map_err(failed)?;
    Ok(Examined {
        sessions: vec![checked],
        evidence,
        image: None,
    })
}

/// A store, open, and its image where it is small enough for one.
fn store(path: &Path, file: &File) -> Result<(Connection, Option<Vec<u8>>)> {
    let log = match open(&member_path(path, "-wal")) {
        Ok(log) => Some(log),
        Err(e) if e.kind() == ErrorKind::NotFound => None,
        Err(e) => return Err(e),
    };
    Ok(match foreign::image(path, file, log.as_ref())? {
        Some(image) => (foreign::open_image(&image, path)?, Some(image)),
        None => (foreign::open_still(path)?, None),
    })
}

/// All bytes of a file that is held.
pub(super) fn whole(path: &Path, file: &File) -> Result<Vec<u8>> {
    let failed = |e| Error::io("read", path, e);
    let len = file.metadata().map_err(failed)?.len();
    if len > MAX_IMAGE {
        let limit = MAX_IMAGE >> 20;
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!("{} has more than {limit} MiB", path.display()),
        ));
    }
    let mut out = vec![0; usize::try_from(len).unwrap_or(0)];
    let mut done = 0;
    while let Some(rest) = out.get_mut(done..).filter(|r| !r.is_empty()) {
        match ReadAt::read_at(file, rest, done as u64).map_err(failed)? {
            0 => break,
            n => done += n,
        }
    }
    out.truncate(done);
    Ok(out)
}
