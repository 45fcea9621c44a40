//! In what state the index is, from a few rows of it and of the archive.

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::schema::{Meta, Served, Table, fts_rows};
use super::search::LexicalReader;
use crate::disk::{ArchiveShared, EntryKind, Root};
use crate::error::{Error, ErrorKind, Result};
use crate::model::interrupt::Until;
use crate::store::archive::ArchiveReader;
use crate::store::{layout, sqlite};

/// A file that is not as it was left is read whole by the check up to this size.
const READ_WHOLE: u64 = 32 << 20;

/// In what state the index is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It serves every message of the archive.
    Ready,
    /// It serves an earlier commit of this archive.
    Stale {
        /// Commits that it does not serve yet.
        commits: u64,
    },
    /// It was made by another version of the program, or of another archive.
    Outdated {
        /// What is different.
        why: &'static str,
    },
    /// There is none.
    Missing,
    /// There is none yet: one was begun and not finished.
    Building {
        /// Messages that it holds so far.
        documents: u64,
    },
    /// It holds fewer or more messages than it should.
    Hollow {
        /// Messages that it holds or knows why not.
        found: u64,
        /// Messages that there are.
        expected: u64,
    },
    /// It can't be read.
    Corrupt {
        /// What SQLite says.
        why: String,
    },
}

impl State {
    /// One word.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            State::Ready => "ready",
            State::Stale { .. } => "stale",
            State::Outdated { .. } => "outdated",
            State::Missing => "missing",
            State::Building { .. } => "building",
            State::Hollow { .. } => "hollow",
            State::Corrupt { .. } => "corrupt",
        }
    }

    /// Whether it answers for the messages that it knows of.
    #[must_use]
    pub const fn answers(&self) -> bool {
        matches!(self, State::Ready | State::Stale { .. })
    }
}

/// What a look at the index gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// In what state it is.
    pub state: State,
    /// The index that `derived/lexical/CURRENT` names.
    pub id: Option<String>,
    /// What it serves.
    pub served: Served,
    /// The commit up to which it is complete.
    pub commit: u64,
    /// Whether its database is as the last writer left it.
    pub as_left: bool,
}

impl Survey {
    pub(super) fn is(state: State, id: Option<String>) -> Survey {
        Survey {
            state,
            id,
            served: Served::default(),
            commit: 0,
            as_left: false,
        }
    }
}

/// How the database was left by its last writer. Only a hint: a copy of the data directory may
/// have other times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    len: u64,
    mtime_ns: i64,
}

impl Stamp {
    /// By metadata alone: the file may be open in SQLite.
    pub fn of(root: &Root, id: &str) -> Option<Stamp> {
        use std::os::unix::fs::MetadataExt;
        let meta = std::fs::symlink_metadata(root.full(&layout::lexical_db(id))).ok()?;
        Some(Stamp {
            len: meta.len(),
            mtime_ns: meta
                .mtime()
                .saturating_mul(1_000_000_000)
                .saturating_add(meta.mtime_nsec()),
        })
    }

    fn read(root: &Root, id: &str) -> Option<Stamp> {
        let bytes = root.read(&layout::lexical_stamp(id), 4096).ok().flatten()?;
        serde_json::from_slice(&bytes).ok()
    }
}

/// Whether `name` is the name of an index: `l` and eight digits.
pub(super) fn is_id(name: &str) -> bool {
    name.strip_prefix('l')
        .is_some_and(|d| d.len() == 8 && d.bytes().all(|b| b.is_ascii_digit()))
}

/// The index that `CURRENT` names; `None` when it names none.
pub(super) fn current(root: &Root) -> Result<Option<String>> {
    let bytes = match root.read(layout::LEXICAL_CURRENT, 64) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(None),
        // A folder, a link, a long file: it names none.
        Err(e) if matches!(e.kind(), ErrorKind::UnsafeTarget | ErrorKind::Io) => return Ok(None),
        Err(e) => return Err(e),
    };
    Ok(std::str::from_utf8(&bytes)
        .ok()
        .and_then(|t| t.strip_suffix('\n'))
        .filter(|t| is_id(t))
        .map(str::to_owned))
}

/// Names of all indexes, finished or not, in order.
pub(super) fn folders(root: &Root) -> Result<Vec<String>> {
    let entries = match root.list(layout::LEXICAL) {
        Ok(entries) => entries.unwrap_or_default(),
        // A link where the folder belongs: nothing of ours is in it.
        Err(e) if matches!(e.kind(), ErrorKind::UnsafeTarget | ErrorKind::Io) => Vec::new(),
        Err(e) => return Err(e),
    };
    Ok(entries
        .into_iter()
        .filter(|e| e.kind == EntryKind::Dir && is_id(&e.name))
        .map(|e| e.name)
        .collect())
}

/// The index and the archive, both open, and how they stand to each other.
#[derive(Debug)]
pub struct Looked {
    /// In what state the index is.
    pub survey: Survey,
    /// The index; `None` where it can't be opened.
    pub index: Option<LexicalReader>,
    /// The archive.
    pub archive: ArchiveReader,
}

/// Looks at the index: a few rows, whatever its size; all of a small one that is not as it was left.
/// `None` without an archive. The index is opened first: what a writer adds meanwhile is then in the
/// archive that is seen, and the index is behind it at most.
///
/// # Errors
/// `io`, `permission-denied`, `lock-busy`, or what the archive says. Damage of the index is a
/// [`State`].
pub fn look(root: &Root) -> Result<Option<Looked>> {
    look_until(root, &Until::default())
}

/// As [`look`]; once `until` is reached, the answer says nothing.
///
/// # Errors
/// As [`look`].
pub fn look_until(root: &Root, until: &Until) -> Result<Option<Looked>> {
    let mut opened = LexicalReader::open(root);
    if let Ok(Some(index)) = &mut opened {
        index.stop_at(until)?;
    }
    let Some(archive) = ArchiveReader::open(root)? else {
        return Ok(None);
    };
    let (survey, index) = match opened {
        Ok(Some(index)) => {
            let survey = match judge(root, &index, &archive) {
                Ok(found) => found,
                Err(e) => broken(index.id().to_owned(), e)?,
            };
            (survey, Some(index))
        }
        Ok(None) => (unfinished(root)?, None),
        Err(e) => (broken(current(root)?.unwrap_or_default(), e)?, None),
    };
    Ok(Some(Looked {
        survey,
        index,
        archive,
    }))
}

fn broken(id: String, e: Error) -> Result<Survey> {
    match e.kind() {
        ErrorKind::PermissionDenied | ErrorKind::LockBusy => Err(e),
        _ => {
            let why = e.message().to_owned();
            Ok(Survey::is(State::Corrupt { why }, Some(id)))
        }
    }
}

/// `CURRENT` names no index that is there.
fn unfinished(root: &Root) -> Result<Survey> {
    if current(root)?.is_some() {
        return Ok(Survey::is(State::Missing, None));
    }
    for id in folders(root)?.iter().rev() {
        // Nobody but its builder, who holds the writer lock, has it open: it is only looked for.
        if root
            .file_len(&layout::lexical_db(id))
            .is_ok_and(|len| len.is_some_and(|len| len > 0))
        {
            return Ok(Survey::is(State::Building { documents: 0 }, None));
        }
    }
    Ok(Survey::is(State::Missing, None))
}

fn judge(root: &Root, index: &LexicalReader, archive: &ArchiveReader) -> Result<Survey> {
    let (conn, id) = (index.connection(), index.id());
    let path = root.full(&layout::lexical_db(id));
    let sql = |e| sqlite::failed("read", &path, e);
    let Some(meta) = Meta::read(conn).map_err(sql)? else {
        return Ok(Survey::is(
            State::Corrupt {
                why: "it does not say what it serves".to_owned(),
            },
            Some(id.to_owned()),
        ));
    };
    let stamp = Stamp::of(root, id);
    let mut survey = Survey {
        state: State::Ready,
        id: Some(id.to_owned()),
        served: meta.served,
        commit: meta.commit,
        as_left: stamp.is_some() && stamp == Stamp::read(root, id),
    };
    let here = &archive.generation().manifest;
    let head = archive.head()?;
    survey.state = if !meta.is_ours() {
        State::Outdated {
            why: "another version of the program made it",
        }
    } else if meta.archive_id != here.archive_id || meta.generation != here.generation.as_str() {
        State::Outdated {
            why: "it is of another generation of the archive",
        }
    } else if !meta.complete {
        State::Building {
            documents: meta.served.documents,
        }
    } else if let Some(state) = counted(conn, &meta).map_err(sql)? {
        state
    } else if (meta.commit, meta.head) == (head.commit, head.head) {
        // The archive's own count is that of its commit, and costs a walk over all conversations.
        if meta.served.rows() == meta.messages {
            State::Ready
        } else {
            State::Hollow {
                found: meta.served.rows(),
                expected: meta.messages,
            }
        }
    } else if meta.commit == 0 || archive.holds_commit(meta.commit, meta.head)? {
        State::Stale {
            commits: head.commit.saturating_sub(meta.commit),
        }
    } else {
        State::Outdated {
            why: "it serves a commit that the archive does not hold",
        }
    };
    if survey.state.answers() {
        if let Some(why) = torn(conn, stamp.as_ref()).map_err(sql)? {
            survey.state = State::Corrupt { why };
        } else if !survey.as_left && stamp.is_some_and(|s| s.len <= READ_WHOLE) {
            // Written to by someone else, or copied: small enough to be sure.
            if let Some(why) = whole(conn, &meta).map_err(sql)? {
                survey.state = State::Corrupt { why };
            }
        }
    }
    Ok(survey)
}

/// What the tables themselves count, against what the index says; a few rows are read.
fn counted(conn: &Connection, meta: &Meta) -> rusqlite::Result<Option<State>> {
    let expected = meta.served.documents;
    let hollow = |found| Ok(Some(State::Hollow { found, expected }));
    match fts_rows(conn, Table::Message)? {
        Some(n) if n == expected => {}
        n => return hollow(n.unwrap_or(0)),
    }
    let newest = meta.newest.documents;
    match fts_rows(conn, Table::Newest)? {
        Some(n) if n == newest => {}
        // All of it may be in the other table; what a question gets of this one is not.
        n => {
            let lost = newest.saturating_sub(n.unwrap_or(0)).max(1);
            return hollow(expected.saturating_sub(lost));
        }
    }
    let (first, last): (Option<i64>, Option<i64>) = conn.query_row(
        "SELECT (SELECT min(id) FROM doc), (SELECT max(id) FROM doc)",
        [],
        |r| Ok((r.get(0)?, r.get(1)?)),
    )?;
    let (fts_first, fts_last): (Option<i64>, Option<i64>) = conn.query_row(
        "SELECT (SELECT min(id) FROM message_docsize), (SELECT max(id) FROM message_docsize)",
        [],
        |r| Ok((r.get(0)?, r.get(1)?)),
    )?;
    if (first, last) != (fts_first, fts_last) || first.is_none() != (expected == 0) {
        return hollow(0);
    }
    Ok(None)
}

/// Whether the file is shorter than it says it is.
fn torn(conn: &Connection, stamp: Option<&Stamp>) -> rusqlite::Result<Option<String>> {
    let get = |name: &str| conn.pragma_query_value(None, name, |r| r.get::<_, u32>(0));
    let pages = u64::from(get("page_count")?);
    let says = pages.saturating_mul(u64::from(get("page_size")?));
    let path = conn.path().unwrap_or_default();
    // Pages that wait in the WAL are not in the file yet.
    let pending = std::fs::symlink_metadata(format!("{path}-wal")).is_ok_and(|m| m.len() > 0);
    Ok(match stamp {
        Some(stamp) if !pending && stamp.len < says => Some(format!(
            "its database is {} bytes long and should be {says}",
            stamp.len
        )),
        _ => None,
    })
}

/// Reads everything: SQLite's own check, that of FTS5 with it, and the counts.
fn whole(conn: &Connection, meta: &Meta) -> rusqlite::Result<Option<String>> {
    let said: String = conn.query_row("PRAGMA quick_check(1)", [], |r| r.get(0))?;
    if said != "ok" {
        return Ok(Some(said.lines().next().unwrap_or_default().to_owned()));
    }
    let (all, newest) = (meta.served.documents, meta.newest);
    // Documents before its first are in the other table alone.
    let tail = format!("doc WHERE {0}>0 AND id>={0}", newest.from);
    for (table, expected) in [
        ("doc", all),
        ("message_docsize", all),
        ("newest_docsize", newest.documents),
        (&tail, newest.documents),
    ] {
        let n: i64 = conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |r| r.get(0))?;
        let expected = i64::try_from(expected).unwrap_or(i64::MAX);
        if n != expected {
            return Ok(Some(format!(
                "{table} holds {n} rows and should hold {expected}"
            )));
        }
    }
    Ok(None)
}

/// Reads the whole index that `CURRENT` names. `None` when nothing is wrong or there is none. Once
/// `until` is reached, the answer says nothing.
///
/// # Errors
/// `io`, `permission-denied`, `lock-busy`.
pub fn verify(root: &Root, until: &Until) -> Result<Option<String>> {
    let _lock = ArchiveShared::acquire(root, std::time::Duration::from_secs(5))?;
    let Some(id) = current(root)? else {
        return Ok(None);
    };
    let path = root.full(&layout::lexical_db(&id));
    let read = || -> Result<Option<String>> {
        let Some(mut conn) = sqlite::open_read(&path)? else {
            return Ok(None);
        };
        sqlite::stop_at(&mut conn, until)?;
        let checked = Meta::read(&conn).and_then(|meta| match meta {
            Some(meta) => whole(&conn, &meta),
            None => Ok(Some("it does not say what it serves".to_owned())),
        });
        checked.map_err(|e| sqlite::failed("read", &path, e))
    };
    match read() {
        Err(e) if e.kind() == ErrorKind::ArchiveCorrupt => Ok(Some(e.message().to_owned())),
        other => other,
    }
}
