//! The two locks. Held means alive: the kernel drops a lock with its process, so there is none to
//! remove by hand, and no age or pid is ever believed. The info file beside is for messages.

use std::fs::{File, TryLockError};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::root::{DIR_MODE, FILE_MODE, Root};
use crate::error::{Error, ErrorKind, Result};

const DIR: &str = "locks";
const WRITER: &str = "locks/writer.lock";
const WRITER_INFO: &str = "locks/writer.info";
const ARCHIVE: &str = "locks/archive.lock";

/// Who said to hold the writer lock, from the info file: true only while the lock is held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockOwner {
    /// Process id.
    pub pid: u32,
    /// The command, without arguments.
    pub command: String,
    /// When it took the lock, milliseconds since the Unix epoch.
    pub since_ms: i64,
}

/// The exclusive lock of everything that writes. Dropped with the value.
#[derive(Debug)]
pub struct WriterLock {
    root: Root,
    _file: File,
}

impl WriterLock {
    /// Takes the lock, making `locks/` when missing; never waits.
    ///
    /// # Errors
    /// `lock-busy` with owner and age when another process holds it; `permission-denied`,
    /// `no-space` or `io`.
    pub fn acquire(root: Root, command: &str, now_ms: i64) -> Result<WriterLock> {
        match root
            .fd()
            .and_then(|fd| rustix::fs::mkdirat(fd, DIR, DIR_MODE))
        {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(e) => return Err(root.failed("create", DIR, e)),
        }
        let create = |rel: &str| -> Result<File> {
            let flags = OFlags::RDWR | OFlags::CREATE;
            root.open_at(rel, flags, FILE_MODE)
                .map(File::from)
                .map_err(|e| root.failed("open lock", rel, e))
        };
        let file = create(WRITER)?;
        // Readers open this one and never make it.
        create(ARCHIVE)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(busy(&root, now_ms)),
            Err(TryLockError::Error(e)) => return Err(Error::io("lock", &root.full(WRITER), e)),
        }
        let owner = LockOwner {
            pid: std::process::id(),
            command: command.to_owned(),
            since_ms: now_ms,
        };
        let lock = WriterLock { root, _file: file };
        lock.say(&owner)?;
        Ok(lock)
    }

    fn say(&self, owner: &LockOwner) -> Result<()> {
        let text = serde_json::to_vec(owner).map_err(|e| {
            Error::new(ErrorKind::Internal, "the lock's owner can't be written").with_source(e)
        })?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        let fd = self
            .root
            .open_at(WRITER_INFO, flags, FILE_MODE)
            .map_err(|e| self.root.failed("write", WRITER_INFO, e))?;
        // Only for messages: a torn info file is read as "unknown owner".
        std::io::Write::write_all(&mut File::from(fd), &text)
            .map_err(|e| Error::io("write", &self.root.full(WRITER_INFO), e))
    }

    /// The data directory that the lock is for.
    #[must_use]
    pub fn root(&self) -> &Root {
        &self.root
    }
}

/// The owner of the writer lock, when it is held by another process right now. Takes nothing and
/// leaves nothing: the lock is tried on a read-only descriptor and dropped at once.
///
/// # Errors
/// `io` or `permission-denied` when the lock file can't be looked at.
pub fn writer_owner(root: &Root) -> Result<Option<LockOwner>> {
    let Some(file) = root.open_file(WRITER)? else {
        return Ok(None);
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => Ok(Some(read_owner(root))),
        Err(TryLockError::Error(e)) => Err(Error::io("look at lock", &root.full(WRITER), e)),
    }
}

fn read_owner(root: &Root) -> LockOwner {
    root.read(WRITER_INFO, 4096)
        .ok()
        .flatten()
        .and_then(|b| serde_json::from_slice(&b).ok())
        .unwrap_or(LockOwner {
            pid: 0,
            command: "unknown".to_owned(),
            since_ms: 0,
        })
}

fn busy(root: &Root, now_ms: i64) -> Error {
    let owner = read_owner(root);
    let age_ms = now_ms.saturating_sub(owner.since_ms).max(0);
    let who = if owner.pid == 0 {
        "another process".to_owned()
    } else {
        format!(
            "cass {} (pid {}) for {} s",
            owner.command,
            owner.pid,
            age_ms / 1000
        )
    };
    Error::new(
        ErrorKind::LockBusy,
        format!("the writer lock is held by {who}"),
    )
    .with_hint("Wait for it to end and run the command again; the lock goes with its process.")
    .with_retry_after_ms(1000)
    .with_context("owner_pid", owner.pid.to_string())
    .with_context("owner_command", owner.command)
    .with_context("owner_since_ms", owner.since_ms.to_string())
    .with_context("held_for_ms", age_ms.to_string())
    .with_context("lock", WRITER)
}

/// The shared lock of readers: while it is held no checkpoint runs and nothing is reclaimed.
#[derive(Debug)]
pub struct ArchiveShared {
    _file: Option<File>,
}

impl ArchiveShared {
    /// Takes the lock shared. Where no writer ever made the lock file there is nothing to wait
    /// for, and none is made: a reader leaves no trace.
    ///
    /// # Errors
    /// `lock-busy` when a checkpoint holds it for longer than `patience`; `io`.
    pub fn acquire(root: &Root, patience: Duration) -> Result<ArchiveShared> {
        let Some(file) = root.open_file(ARCHIVE)? else {
            return Ok(ArchiveShared { _file: None });
        };
        let begun = Instant::now();
        loop {
            match file.try_lock_shared() {
                Ok(()) => return Ok(ArchiveShared { _file: Some(file) }),
                Err(TryLockError::WouldBlock) if begun.elapsed() < patience => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(Error::new(
                        ErrorKind::LockBusy,
                        "the archive is being checkpointed by another process",
                    )
                    .with_hint("Run the command again in a moment.")
                    .with_retry_after_ms(500));
                }
                Err(TryLockError::Error(e)) => {
                    return Err(Error::io("lock", &root.full(ARCHIVE), e));
                }
            }
        }
    }
}

/// The archive lock, held exclusively: no reader is in any archive file.
#[derive(Debug)]
pub struct ArchiveExclusive {
    _file: File,
}

impl ArchiveExclusive {
    /// Takes the lock if no reader holds it; never waits, so a reader delays a checkpoint and
    /// never blocks a writer. Needs the writer lock.
    ///
    /// # Errors
    /// `io`.
    pub fn try_acquire(lock: &WriterLock) -> Result<Option<ArchiveExclusive>> {
        let root = lock.root();
        let fd = root
            .open_at(
                ARCHIVE,
                OFlags::RDWR | OFlags::CREATE,
                FILE_MODE | Mode::empty(),
            )
            .map_err(|e| root.failed("open lock", ARCHIVE, e))?;
        let file = File::from(fd);
        match file.try_lock() {
            Ok(()) => Ok(Some(ArchiveExclusive { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(Error::io("lock", &root.full(ARCHIVE), e)),
        }
    }
}
