//! The log of one session, written under its lock.

use std::io;
use std::path::PathBuf;

use super::error::WriteError;
use super::place::Sessions;
use crate::disk::{SessionFile, SessionLock};
use crate::error::{Error, ErrorKind, Result};
use crate::session_log::{
    self, Form, Header, LogName, Medium, Prepared, ReadAt, Refusal, Revision, read_header,
};

/// The log of a session. It holds no lock: each call takes it.
#[derive(Debug)]
pub struct SessionLog<'s> {
    pub(super) sessions: &'s Sessions,
    pub(super) id: String,
    pub(super) folder: String,
    pub(super) name: LogName,
}

/// The file, as the append rules know it.
struct OnDisk(SessionFile);

impl ReadAt for OnDisk {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        ReadAt::read_at(self.0.file(), buf, offset)
    }
}

impl Medium for OnDisk {
    fn write_at_end(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.append(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync()
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.0.truncate(len)
    }
}

impl SessionLog<'_> {
    /// The session's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Where the log is.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.sessions.root.full(&self.rel())
    }

    fn rel(&self) -> String {
        format!("{}/{}", self.folder, self.name)
    }

    /// What the log is now, read under its lock.
    ///
    /// # Errors
    /// [`Refusal::Damaged`] where it can't be continued; as [`SessionLog::append`].
    pub fn revision(&self) -> std::result::Result<Revision, WriteError> {
        let (_lock, file) = self.held()?;
        self.read(&file)
    }

    /// What came behind the events that the caller knows: each line, in order. What the log is now.
    /// The caller's own events must still be there, byte for byte, as the beginning of the log.
    ///
    /// # Errors
    /// [`Refusal::Changed`] where the log does not begin with what `seed` was; as
    /// [`SessionLog::append`].
    pub fn since(
        &self,
        seed: &Revision,
        each: &mut dyn FnMut(&[u8]),
    ) -> std::result::Result<Revision, WriteError> {
        let (_lock, file) = self.held()?;
        let now = self.read(&file)?;
        let begins = session_log::begins_with(&file, seed).map_err(WriteError::unread)?;
        if !begins {
            let (expected, found) = (Box::new(seed.clone()), Box::new(now));
            return Err(Refusal::Changed { expected, found }.into());
        }
        session_log::lines_from(&file, self.name.into(), seed.bytes, each)
            .map_err(WriteError::unread)?;
        Ok(now)
    }

    /// Adds events: lines, each with a newline or the last without. All of them or none; what is
    /// written follows the revision that the caller expects, and the new revision is given back.
    ///
    /// # Errors
    /// [`WriteError`]: `lock-busy` while another process writes the session, `not-found` when its
    /// log is gone, a [`Refusal`], or what the system says.
    pub fn append(
        &self,
        expected: &Revision,
        batch: &[u8],
    ) -> std::result::Result<Revision, WriteError> {
        let (_lock, mut file) = self.held()?;
        Ok(session_log::append(
            &mut file,
            self.name.into(),
            expected,
            batch,
        )?)
    }

    fn read(&self, file: &OnDisk) -> std::result::Result<Revision, WriteError> {
        session_log::revision(file, self.name.into())
            .map_err(WriteError::unread)?
            .map_err(|verdict| Refusal::Damaged(verdict).into())
    }

    /// The open log under both of its locks, if it is still the session's.
    fn held(&self) -> Result<(SessionLock, OnDisk)> {
        let lock = self.sessions.lock_whole(&self.id, &self.folder)?;
        let there = self.sessions.find(&self.id)?;
        let same = there.is_some_and(|t| t.rel() == self.rel());
        let file = if same {
            SessionFile::open(&self.sessions.root, &self.rel(), &lock)?
        } else {
            None
        };
        match file {
            Some(file) => Ok((lock, OnDisk(file))),
            None => Err(Error::new(
                ErrorKind::NotFound,
                format!(
                    "{} is not the session's log any more",
                    self.path().display()
                ),
            )
            .with_hint(
                "Find the session again: it was moved, removed, or written in a newer form.",
            )),
        }
    }
}

/// A new log: its header, its bytes, what it is then.
pub(super) fn publishable(
    packed: bool,
    header: &[u8],
    batch: &[u8],
) -> std::result::Result<(Header, Vec<u8>, Revision), WriteError> {
    let bad = |why: String| {
        WriteError::from(
            Error::new(
                ErrorKind::Unsupported,
                format!("the header is refused: {why}"),
            )
            .with_hint("A header is one line of JSON, as the harness writes it."),
        )
    };
    let line = header.strip_suffix(b"\n").unwrap_or(header);
    let head = read_header(line).map_err(bad)?;
    if line.contains(&b'\n') {
        return Err(bad("it has more than one line".to_owned()));
    }
    let form = Form {
        packed,
        generation: Some(head.version),
    };
    let mut bytes = session_log::first_bytes(packed, line).map_err(WriteError::unread)?;
    let start = session_log::revision(&bytes, form)
        .map_err(WriteError::unread)?
        .map_err(Refusal::Damaged)?;
    if batch.is_empty() {
        return Ok((head, bytes, start));
    }
    let Prepared { bytes: more, after } =
        session_log::prepare(&bytes, form, &start, batch).map_err(WriteError::unread)??;
    bytes.extend_from_slice(&more);
    Ok((head, bytes, after))
}
