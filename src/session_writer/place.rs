//! A sessions root: where the log of a session is, and the lock above it.

use std::path::Path;
use std::time::Duration;

use super::error::WriteError;
use super::log::{SessionLog, publishable};
use crate::disk::{EntryKind, Root, SessionFile, SessionLock};
use crate::error::{Error, ErrorKind, Result};
use crate::session_log::{LogName, Revision, is_project_folder, project_folder, session_folder};

/// The sessions root of a harness, with the data directory in which its locks lie.
#[derive(Debug)]
pub struct Sessions {
    data: Root,
    pub(super) root: Root,
    patience: Duration,
}

/// A log that was found.
struct Found {
    project: String,
    name: LogName,
}

impl Sessions {
    /// Opens a root. `data` is the data directory of `cass`, made when missing; `patience` is how
    /// long a lock is waited for.
    ///
    /// # Errors
    /// `not-found` when there is no root; `unsafe-target`, `permission-denied`, `no-space`, `io`.
    pub fn open(data: &Path, root: &Path, patience: Duration) -> Result<Sessions> {
        let root = Root::open(root)?.ok_or_else(|| {
            Error::new(
                ErrorKind::NotFound,
                format!("there is no sessions root at {}", root.display()),
            )
        })?;
        Ok(Sessions {
            data: Root::open_or_create(data)?,
            root,
            patience,
        })
    }

    /// The log of a session: its highest generation. `None` when it has none.
    ///
    /// # Errors
    /// `ambiguous-name` when the session has logs in two projects, or one generation raw and
    /// packed; `io` or `permission-denied`.
    pub fn find(&self, id: &str) -> Result<Option<SessionLog<'_>>> {
        Ok(self.found(id)?.map(|found| SessionLog {
            sessions: self,
            id: id.to_owned(),
            folder: format!("{}/{}", found.project, session_folder(id.as_bytes())),
            name: found.name,
        }))
    }

    /// Publishes a new session: its header, a line, and its first events, which may be none. The
    /// header says where it lies.
    ///
    /// # Errors
    /// `target-exists` when there is a log of this session anywhere below the root, of any
    /// generation or packing; else as [`SessionLog::append`].
    pub fn create(
        &self,
        packed: bool,
        header: &[u8],
        batch: &[u8],
    ) -> std::result::Result<(SessionLog<'_>, Revision), WriteError> {
        let (head, bytes, revision) = publishable(packed, header, batch)?;
        let id = String::from_utf8(head.id)
            .map_err(|_| Error::new(ErrorKind::Unsupported, "the session's id is not UTF-8"))?;
        let mut lock = self.lock(&id)?;
        if let Some(there) = self.find(&id)? {
            return Err(taken(&there).into());
        }
        let project = project_folder(head.cwd.as_deref());
        let session = session_folder(id.as_bytes());
        SessionFile::make_folders(&self.root, &project, &session)?;
        let folder = format!("{project}/{session}");
        lock.beside(&self.root, &folder, self.patience)?;
        // A harness that takes only its own lock may have come first.
        if let Some(there) = self.find(&id)? {
            return Err(taken(&there).into());
        }
        let name = LogName {
            generation: head.version,
            packed,
        };
        SessionFile::publish(&self.root, &folder, &name.to_string(), &bytes, &lock)?;
        let log = SessionLog {
            sessions: self,
            id,
            folder,
            name,
        };
        Ok((log, revision))
    }

    fn lock(&self, id: &str) -> Result<SessionLock> {
        let session = session_folder(id.as_bytes());
        SessionLock::acquire(&self.data, &self.root, &session, self.patience)
    }

    /// Both locks of a session that has a folder.
    pub(super) fn lock_whole(&self, id: &str, folder: &str) -> Result<SessionLock> {
        let mut lock = self.lock(id)?;
        lock.beside(&self.root, folder, self.patience)?;
        Ok(lock)
    }

    fn found(&self, id: &str) -> Result<Option<Found>> {
        let session = session_folder(id.as_bytes());
        let mut found: Vec<Found> = Vec::new();
        let mut projects = Vec::new();
        self.root.for_each_entry("", &mut |entry| {
            if entry.kind == EntryKind::Dir && is_project_folder(&entry.name) {
                projects.push(entry.name);
            }
        })?;
        for project in projects {
            let mut names: Vec<LogName> = Vec::new();
            let folder = format!("{project}/{session}");
            if self.root.kind(&folder)? == Some(EntryKind::Dir) {
                self.root.for_each_entry(&folder, &mut |entry| {
                    names.extend(LogName::of(&entry.name));
                })?;
            }
            // The layout that the harness gave up: a session all the same.
            for flat in [format!("{session}.jsonl"), format!("{session}.jsonl.zstd")] {
                if self.root.exists(&format!("{project}/{flat}"))? {
                    return Err(two(
                        &self.root,
                        &project,
                        &flat,
                        "is of a layout that was given up",
                    ));
                }
            }
            let Some(name) = names.iter().max().copied() else {
                continue;
            };
            if names
                .iter()
                .filter(|n| n.generation == name.generation)
                .count()
                > 1
            {
                let why = "lies beside a log of the same generation";
                return Err(two(&self.root, &folder, &name.to_string(), why));
            }
            if let Some(first) = found.first() {
                let why = format!("is in a second project: {} has it too", first.project);
                return Err(two(&self.root, &folder, &name.to_string(), &why));
            }
            found.push(Found { project, name });
        }
        Ok(found.pop())
    }
}

fn taken(there: &SessionLog<'_>) -> Error {
    Error::new(
        ErrorKind::TargetExists,
        format!("the session has a log: {}", there.path().display()),
    )
    .with_hint("Find it and append to it.")
}

fn two(root: &Root, folder: &str, name: &str, why: &str) -> Error {
    let path = root.full(&format!("{folder}/{name}"));
    let message = format!("{} {why}", path.display());
    Error::new(ErrorKind::AmbiguousName, message).with_hint(
        "cass doctor session-log check on the root says which logs are in each other's way.",
    )
}
