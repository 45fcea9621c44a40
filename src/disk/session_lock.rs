//! The lock of one session of a harness: a file of ours that is named by the session, and the lock
//! file that the harness itself takes beside its log.
//!
//! Ours comes first and lies above folder and name, so a session whose folder moved, or whose log
//! is packed by one writer and not by the other, still has one lock. Held means alive, as with our
//! other locks; neither file is ever removed.

use std::fs::{File, TryLockError};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, OFlags};
use rustix::io::Errno;

use super::root::{DIR_MODE, FILE_MODE, Root};
use crate::error::{Error, ErrorKind, Result};

const DIR: &str = "locks/sessions";
/// The harness's own name for its lock.
const BESIDE: &str = "session.lock";
/// What is looked at in a lock that names its owner.
const MAX_OWNER: u64 = 64;

/// The lock of one session. Dropped with the value.
#[derive(Debug)]
pub struct SessionLock {
    _ours: File,
    _beside: Option<File>,
}

impl SessionLock {
    /// Takes our lock for a session below the data directory `data`: named by its sessions root
    /// and by `session`, its folder's name there, whatever project it lies in. Waits for
    /// `patience` at most. A lock of the other kind that names the session is refused.
    ///
    /// # Errors
    /// `lock-busy` when another process holds it longer; `unsafe-target` when something else has
    /// its name; `permission-denied`, `no-space` or `io`.
    pub fn acquire(
        data: &Root,
        sessions: &Root,
        session: &str,
        patience: Duration,
    ) -> Result<SessionLock> {
        for dir in ["locks", DIR] {
            let made = data
                .fd()
                .and_then(|fd| rustix::fs::mkdirat(fd, dir, DIR_MODE));
            match made {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(e) => return Err(data.failed("create", dir, e)),
            }
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(sessions.path().as_os_str().as_bytes());
        hasher.update(&[0]);
        hasher.update(session.as_bytes());
        let rel = format!("{DIR}/{}.lock", hasher.finalize().to_hex());
        let lock = SessionLock {
            _ours: take(data, &rel, patience)?,
            _beside: None,
        };
        refuse_owned(sessions, session)?;
        Ok(lock)
    }

    /// Takes the harness's lock too, in the session's folder below its sessions root.
    ///
    /// # Errors
    /// As [`SessionLock::acquire`].
    pub fn beside(&mut self, sessions: &Root, folder: &str, patience: Duration) -> Result<()> {
        let rel = format!("{folder}/{BESIDE}");
        self._beside = Some(take(sessions, &rel, patience)?);
        Ok(())
    }
}

/// A lock of the other kind lies directly below the sessions root: made exclusively, with the
/// owner's pid in it. It is never taken away, by nobody but its owner.
fn refuse_owned(sessions: &Root, session: &str) -> Result<()> {
    let rel = format!("{session}.lock");
    let Some(file) = sessions.open_file(&rel)? else {
        return Ok(());
    };
    let mut text = String::new();
    // Bytes that are no text name nobody, and hold all the same.
    let _ = file.take(MAX_OWNER).read_to_string(&mut text);
    let who = match text.trim().parse::<u32>() {
        Ok(pid) => format!("process {pid}"),
        Err(_) => "a process that it does not name".to_owned(),
    };
    let path = sessions.full(&rel);
    Err(Error::new(
        ErrorKind::LockBusy,
        format!("{} says that {who} writes the session", path.display()),
    )
    .with_hint(
        "End that process. If it is gone, its lock stays until you remove it yourself; nothing \
         else may.",
    )
    .with_context("lock", path.display().to_string())
    .with_context("owner_pid", text.trim()))
}

fn take(root: &Root, rel: &str, patience: Duration) -> Result<File> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NONBLOCK | OFlags::NOFOLLOW;
        let fd = root.open_at(rel, flags, FILE_MODE).map_err(|e| match e {
            Errno::LOOP => odd(&root.full(rel)),
            e => root.failed("open lock", rel, e),
        })?;
        let file = File::from(fd);
        let full = root.full(rel);
        let meta = file.metadata().map_err(|e| Error::io("lock", &full, e))?;
        if !meta.is_file() {
            return Err(odd(&full));
        }
        match file.try_lock() {
            Ok(()) => {
                // Who removed the file meanwhile has left us with a lock that nobody else sees.
                let (dir, name) = root
                    .parent(rel)
                    .map_err(|e| root.failed("open lock", rel, e))?;
                match rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(s) if (s.st_dev, s.st_ino) == (meta.dev(), meta.ino()) => return Ok(file),
                    Ok(_) | Err(Errno::NOENT) => {}
                    Err(e) => return Err(root.failed("look at lock", rel, e)),
                }
            }
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(e)) => return Err(Error::io("lock", &full, e)),
        }
        if start.elapsed() >= patience {
            return Err(busy(full));
        }
        std::thread::sleep(pause.min(patience.saturating_sub(start.elapsed())));
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

fn busy(path: PathBuf) -> Error {
    Error::new(
        ErrorKind::LockBusy,
        format!(
            "another process has the session: it holds {}",
            path.display()
        ),
    )
    .with_hint("End the harness that has it, or wait until it has ended, and try again.")
    .with_retry_after_ms(1000)
    .with_context("lock", path.display().to_string())
}

fn odd(path: &std::path::Path) -> Error {
    Error::new(
        ErrorKind::UnsafeTarget,
        format!("{} is no file, so it can't be a lock", path.display()),
    )
    .with_hint("Move what has its name away.")
}
