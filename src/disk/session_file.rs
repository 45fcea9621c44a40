//! The log of a session, in its harness's folder: written at its end, or published for the first
//! time. Only who holds the session's lock may.

use std::fs::File;
use std::io;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::root::{DIR_MODE, FILE_MODE, Root};
use super::session_lock::SessionLock;
use crate::error::{Error, ErrorKind, Result};

/// A log that is open for reading and for writing at its end.
#[derive(Debug)]
pub struct SessionFile {
    file: File,
}

impl SessionFile {
    /// Opens a log below a sessions root; `None` when nothing is there.
    ///
    /// # Errors
    /// `unsafe-target` when it is no file; `permission-denied` or `io`.
    pub fn open(sessions: &Root, rel: &str, _held: &SessionLock) -> Result<Option<SessionFile>> {
        // Appending: what another writer added since the end was looked at is never written over.
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::NONBLOCK;
        match sessions.open_at(rel, flags, Mode::empty()) {
            Ok(fd) => {
                let file = File::from(fd);
                let meta = file
                    .metadata()
                    .map_err(|e| Error::io("open", &sessions.full(rel), e))?;
                if meta.is_file() {
                    Ok(Some(SessionFile { file }))
                } else {
                    Err(odd(sessions, rel))
                }
            }
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(Errno::LOOP | Errno::NXIO | Errno::ISDIR) => Err(odd(sessions, rel)),
            Err(e) => Err(sessions.failed("open", rel, e)),
        }
    }

    /// Publishes a log that is not there yet: written and synced under a name that no harness
    /// reads, then linked, which fails when the name is taken. Its folders are made.
    ///
    /// # Errors
    /// `target-exists` when something has the name; `no-space`, `permission-denied` or `io`. A
    /// part that was written keeps a name that is read by nobody.
    pub fn publish(
        sessions: &Root,
        folder: &str,
        name: &str,
        bytes: &[u8],
        _held: &SessionLock,
    ) -> Result<()> {
        let rel = format!("{folder}/{name}");
        let failed = |what: &str, e: Errno| sessions.failed(what, &rel, e);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let dir = sessions
            .open_at(folder, flags, Mode::empty())
            .map_err(|e| failed("open the folder of", e))?;
        // The last digits of these are random.
        let random = uuid::Uuid::now_v7().simple().to_string();
        let hex = random.get(20..).unwrap_or_default();
        let temp = format!("session.jsonl.{hex}.tmp");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&dir, temp.as_str(), flags, FILE_MODE)
            .map_err(|e| failed("create", e))?;
        let mut file = File::from(fd);
        let linked = file
            .write_all(bytes)
            .and_then(|()| file.sync_all())
            .map_err(|e| Error::io("write", &sessions.full(&rel), e))
            .and_then(|()| {
                rustix::fs::linkat(&dir, temp.as_str(), &dir, name, AtFlags::empty()).map_err(|e| {
                    match e {
                        Errno::EXIST => taken(sessions, &rel),
                        e => failed("publish", e),
                    }
                })
            });
        // With or without its name: the second name is of no use to anybody.
        let _ = rustix::fs::unlinkat(&dir, temp.as_str(), AtFlags::empty());
        linked?;
        rustix::fs::fsync(&dir).map_err(|e| failed("sync the folder of", e))
    }

    /// Makes a project's and a session's folder, where they are missing, durably.
    ///
    /// # Errors
    /// `unsafe-target` when something else has a name; `no-space`, `permission-denied`, `io`.
    pub fn make_folders(sessions: &Root, project: &str, session: &str) -> Result<()> {
        let inner = format!("{project}/{session}");
        for (rel, above) in [(project, ""), (inner.as_str(), project)] {
            let (dir, name) = sessions
                .parent(rel)
                .map_err(|e| sessions.failed("create", rel, e))?;
            match rustix::fs::mkdirat(&dir, name, DIR_MODE) {
                Ok(()) => {}
                Err(Errno::EXIST) => sessions.require_folder(rel)?,
                Err(e) => return Err(sessions.failed("create", rel, e)),
            }
            // Who made it may have been killed before it was synced.
            rustix::fs::fsync(&dir).map_err(|e| sessions.failed("sync", above, e))?;
        }
        Ok(())
    }

    /// The open file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Whether the name still leads to this file.
    ///
    /// # Errors
    /// `permission-denied` or `io`.
    pub fn is_named(&self, sessions: &Root, rel: &str) -> Result<bool> {
        let failed = |e| sessions.failed("look at", rel, e);
        let meta = self
            .file
            .metadata()
            .map_err(|e| Error::io("look at", &sessions.full(rel), e))?;
        let (dir, name) = sessions.parent(rel).map_err(failed)?;
        match rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(s) => Ok((s.st_dev, s.st_ino) == (meta.dev(), meta.ino())),
            Err(Errno::NOENT) => Ok(false),
            Err(e) => Err(failed(e)),
        }
    }

    /// Reads from an offset.
    ///
    /// # Errors
    /// What the system says.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(&self.file, buf, offset)
    }

    /// Writes at the end, whatever the end is by then, with one call where the system takes all.
    ///
    /// # Errors
    /// What the system says; a part may be written.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// What the system says.
    pub fn sync(&mut self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// Cuts off what is behind `len`.
    ///
    /// # Errors
    /// What the system says.
    pub fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
}

fn odd(sessions: &Root, rel: &str) -> Error {
    let path = sessions.full(rel);
    Error::new(
        ErrorKind::UnsafeTarget,
        format!("{} is no file of its own", path.display()),
    )
    .with_hint("A log that is written must be a regular file, reached through no link.")
}

fn taken(sessions: &Root, rel: &str) -> Error {
    let path = sessions.full(rel);
    Error::new(
        ErrorKind::TargetExists,
        format!("{} is there already", path.display()),
    )
    .with_hint("Open the session that is there; nothing is written over it.")
}
