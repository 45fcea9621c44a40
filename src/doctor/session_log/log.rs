//! The one log that a plan is about.

use std::io;
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::model::plan::{Count, FileState};
use crate::session_log::{self, Checked, Entry, Kind};
use crate::sources::database::member_path;

use super::read::{self, Examined};

/// Logs that are named when a path leads to several.
const NAMED: usize = 10;

/// A log that was examined.
pub(super) struct Log {
    pub(super) entry: Entry,
    pub(super) read: Examined,
    /// The session that decides.
    pub(super) checked: Checked,
    /// The file, by content.
    pub(super) source: FileState,
}

/// The one log that the path leads to and that there is something to say of.
pub(super) fn choose(
    path: &Path,
    close_turn: bool,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Log>> {
    let looked = session_log::look(path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => Error::new(
            ErrorKind::NotFound,
            format!("there is nothing at {}", path.display()),
        ),
        _ => Error::io("look at", path, e),
    })?;
    let (mut first, mut needy, mut unread) = (None, Vec::new(), None);
    for entry in looked.entries {
        let read = match read::examine(&entry, stop) {
            Ok(read) => read,
            // Another log may be the one that is meant.
            Err(e) => {
                unread = unread.or(Some(e));
                continue;
            }
        };
        let Some(checked) = deciding(&read.sessions, close_turn) else {
            continue;
        };
        let needs = has_work(checked, close_turn);
        let log = (entry, checked.clone(), read);
        if needs {
            needy.push(log);
        } else if first.is_none() {
            first = Some(log);
        }
    }
    if needy.len() > 1 {
        let names: Vec<String> = needy
            .iter()
            .take(NAMED)
            .map(|(e, ..)| e.path.display().to_string())
            .collect();
        return Err(Error::new(
            ErrorKind::AmbiguousName,
            format!(
                "{} logs below {} need a repair or can't have one: {}",
                needy.len(),
                path.display(),
                names.join(", ")
            ),
        )
        .with_hint("Each is repaired by a plan of its own: name one of them."));
    }
    if let (true, Some(e)) = (needy.is_empty(), unread) {
        return Err(e);
    }
    let Some((entry, checked, read)) = needy.pop().or(first) else {
        return Ok(None);
    };
    let path = &entry.path;
    if path.to_str().is_none() {
        return Err(Error::new(
            ErrorKind::Usage,
            format!(
                "{} is no UTF-8: no command can be printed with it",
                path.display()
            ),
        )
        .with_hint("Name it by a link with another name."));
    }
    let file = read::open(path)?;
    let (len, sha256, blake3) =
        session_log::digests(&file).map_err(|e| Error::io("read", path, e))?;
    if read.evidence.moved || sha256 != read.evidence.sha256 {
        return Err(Error::new(
            ErrorKind::LockBusy,
            format!(
                "{} changed while it was read: it is being written",
                path.display()
            ),
        )
        .with_hint("End the harness, or wait until the session rests."));
    }
    let source = FileState {
        name: name_of(path),
        len: Count(len),
        blake3,
    };
    Ok(Some(Log {
        entry,
        read,
        checked,
        source,
    }))
}

fn has_work(checked: &Checked, close_turn: bool) -> bool {
    let d = &checked.diagnosis;
    d.must_refuse || d.wanted(close_turn).is_some()
}

/// Of several sessions the first that can be repaired, else the first that can't.
fn deciding(sessions: &[Checked], close_turn: bool) -> Option<&Checked> {
    let wanted = |s: &&Checked| s.diagnosis.wanted(close_turn).is_some();
    let work = |s: &&Checked| has_work(s, close_turn);
    let first = sessions.iter().find(wanted);
    first
        .or_else(|| sessions.iter().find(work))
        .or(sessions.first())
}

/// The log, its siblings, and what belongs to a store.
pub(super) fn inputs(log: &Log) -> Result<Vec<FileState>> {
    let mut out = vec![log.source.clone()];
    let path = &log.entry.path;
    let siblings = log.entry.siblings.iter();
    let beside = siblings.map(|s| path.with_file_name(&s.name));
    let wal = (log.entry.kind == Kind::Store).then(|| member_path(path, "-wal"));
    for path in beside.chain(wal) {
        out.extend(state(&path)?);
    }
    Ok(out)
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// A file by its content; `None` where it is not there.
fn state(path: &Path) -> Result<Option<FileState>> {
    let file = match read::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let (len, _, blake3) = digests(&file, path)?;
    Ok(Some(FileState {
        name: name_of(path),
        len: Count(len),
        blake3,
    }))
}

pub(super) fn digests<S: session_log::ReadAt + ?Sized>(
    source: &S,
    path: &Path,
) -> Result<(u64, String, String)> {
    session_log::digests(source).map_err(|e| Error::io("read", path, e))
}
