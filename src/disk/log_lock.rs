//! The locks of one session log: ours, and the one that its harness holds while it has the session.

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::capture::Capture;
use super::root::FILE_MODE;
use crate::error::{Error, ErrorKind, Result};

/// In the session's folder; taken by the harness from version 1 on.
const THEIRS: &str = "session.lock";
/// Where ours are.
const OURS: &str = "locks/sessions";
/// How often a process looks again before it says that a log is in use.
const RETRY_MS: u64 = 5_000;

/// Both locks of a log, held. They are never removed.
#[derive(Debug)]
pub struct LogLock {
    _ours: File,
    _theirs: File,
}

impl LogLock {
    /// Takes the locks of the log in `folder`, a session's folder, and waits for neither. `name` is
    /// that of our lock.
    ///
    /// # Errors
    /// `lock-busy` when somebody has the session; `permission-denied`, `io`.
    pub fn acquire(cap: Capture<'_>, name: &str, folder: &Path) -> Result<LogLock> {
        cap.create_dir(OURS)?;
        let rel = format!("{OURS}/{name}.lock");
        let root = cap.root();
        let flags = OFlags::RDWR | OFlags::CREATE;
        let ours = root
            .open_at(&rel, flags, FILE_MODE)
            .map(File::from)
            .map_err(|e| root.failed("open lock", &rel, e))?;
        take(&ours, &root.full(&rel))?;
        let path = folder.join(THEIRS);
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let theirs = rustix::fs::open(&path, flags, FILE_MODE)
            .map(File::from)
            .map_err(|e| match e {
                Errno::LOOP | Errno::ISDIR | Errno::NXIO => Error::new(
                    ErrorKind::UnsafeTarget,
                    format!("{} is no regular file", path.display()),
                ),
                e => Error::io("open lock", &path, e.into()),
            })?;
        take(&theirs, &path)?;
        // A lock on a file that has lost its name keeps nobody out.
        let failed = |e| Error::io("stat", &path, e);
        let held = theirs.metadata().map_err(failed)?;
        let named = std::fs::symlink_metadata(&path).map_err(failed)?;
        if (held.dev(), held.ino()) != (named.dev(), named.ino()) {
            return Err(busy(&path, "was replaced while it was taken"));
        }
        Ok(LogLock {
            _ours: ours,
            _theirs: theirs,
        })
    }
}

/// The processes that have the file open beside this one, as far as the system tells: none are told
/// of where it does not, or of other users.
#[must_use]
pub fn open_elsewhere(file: &File) -> Vec<u32> {
    let Ok(meta) = file.metadata() else {
        return Vec::new();
    };
    let same = |path: std::path::PathBuf| {
        std::fs::metadata(path).is_ok_and(|m| (m.dev(), m.ino()) == (meta.dev(), meta.ino()))
    };
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut found: Vec<u32> = processes
        .filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != std::process::id())
        .filter(|pid| {
            std::fs::read_dir(format!("/proc/{pid}/fd"))
                .is_ok_and(|list| list.filter_map(Result::ok).any(|e| same(e.path())))
        })
        .collect();
    found.sort_unstable();
    found
}

fn take(file: &File, path: &Path) -> Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(busy(path, "is held: a process has the session open")),
        Err(TryLockError::Error(e)) => Err(Error::io("lock", path, e)),
    }
}

fn busy(path: &Path, what: &str) -> Error {
    Error::new(
        ErrorKind::LockBusy,
        format!("{} {what}; nothing was changed", path.display()),
    )
    .with_hint("End the harness and run the same command again.")
    .with_retry_after_ms(RETRY_MS)
}
