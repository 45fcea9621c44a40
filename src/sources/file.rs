//! Opening one file of a harness: read-only, without waiting, without following links below its
//! base folder, regular files only.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::error::{Error, ErrorKind, Result};

/// What the file system says about a file: the cheap gate before reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Device.
    pub dev: u64,
    /// Inode.
    pub ino: u64,
    /// Length in bytes.
    pub size: u64,
    /// Time of the last change, nanoseconds since the Unix epoch.
    pub mtime_ns: i64,
}

impl Stat {
    /// The gate of `meta`.
    #[must_use]
    pub fn of(meta: &std::fs::Metadata) -> Stat {
        Stat {
            dev: meta.dev(),
            ino: meta.ino(),
            size: meta.len(),
            mtime_ns: meta
                .mtime()
                .saturating_mul(1_000_000_000)
                .saturating_add(meta.mtime_nsec()),
        }
    }
}

/// The text of a small file that may be anything: read without waiting, regular files only.
///
/// # Errors
/// What the system says; `InvalidInput` when it is no regular file, `InvalidData` when it is longer
/// than `limit` bytes or no UTF-8.
pub fn read_small(path: &Path, limit: u64) -> std::io::Result<String> {
    use std::io::{Error as IoError, ErrorKind as IoKind, Read};
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(IoError::new(
            IoKind::InvalidInput,
            "it is not a regular file",
        ));
    }
    let mut text = String::new();
    file.take(limit.saturating_add(1))
        .read_to_string(&mut text)?;
    if text.len() as u64 > limit {
        return Err(IoError::new(IoKind::InvalidData, "it is too long"));
    }
    Ok(text)
}

/// A folder below which files are opened without following links. The folder itself may have been
/// reached through one.
#[derive(Debug)]
pub struct Base {
    fd: OwnedFd,
    path: PathBuf,
}

impl Base {
    /// Opens `path`, following links.
    ///
    /// # Errors
    /// `not-found` when it is gone, `permission-denied` or `io`.
    pub fn open(path: &Path) -> Result<Base> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(|e| match e {
            Errno::NOENT | Errno::NOTDIR => gone(path),
            e => Error::io("open folder", path, e.into()),
        })?;
        Ok(Base {
            fd,
            path: path.to_path_buf(),
        })
    }

    /// Opens the regular file `rel` (relative, no `..`) for reading. Never blocks, never follows
    /// a link, never opens a FIFO, socket or device for data.
    ///
    /// # Errors
    /// `not-found` when it is gone, `unsupported` when it is no regular file or a link,
    /// `permission-denied` or `io`.
    pub fn open_regular(&self, rel: &Path) -> Result<File> {
        let full = self.path.join(rel);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
        let fd = match self.open_beneath(rel, flags) {
            Ok(fd) => fd,
            Err(Errno::NOENT | Errno::NOTDIR) => return Err(gone(&full)),
            Err(Errno::LOOP | Errno::XDEV | Errno::NXIO) => return Err(irregular(&full)),
            Err(e) => return Err(Error::io("open", &full, e.into())),
        };
        let stat = rustix::fs::fstat(fd.as_fd()).map_err(|e| Error::io("stat", &full, e.into()))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(irregular(&full));
        }
        Ok(File::from(fd))
    }

    fn open_beneath(&self, rel: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC;
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::ResolveFlags;
            let resolve =
                ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            match rustix::fs::openat2(&self.fd, rel, flags, Mode::empty(), resolve) {
                Err(Errno::NOSYS) => {}
                other => return other,
            }
        }
        let folder = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut at = rustix::io::dup(&self.fd)?;
        let mut parts = rel.components().peekable();
        while let Some(part) = parts.next() {
            let std::path::Component::Normal(name) = part else {
                return Err(Errno::XDEV);
            };
            let flags = if parts.peek().is_some() {
                folder
            } else {
                flags
            };
            at = rustix::fs::openat(&at, name, flags, Mode::empty())?;
        }
        Ok(at)
    }
}

fn gone(path: &Path) -> Error {
    Error::new(ErrorKind::NotFound, format!("{} is gone", path.display()))
}

fn irregular(path: &Path) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("{} is not a regular file and is not read", path.display()),
    )
}
