//! What the holder of the writer lock may do below the data directory.

use std::fs::File;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::append::AppendFile;
use super::lock::WriterLock;
use super::publish::{create_dir, publish};
use super::root::{EntryKind, FILE_MODE, Root};
use crate::error::{Error, ErrorKind, Result};

/// Where all that is derived lies.
const DERIVED: [&str; 2] = ["derived/", "raw-mirror/index"];

/// The right to add to the data directory: make folders, append to ledgers and packs, publish
/// small files whole. It can't change or remove what was published, apart from derived files and
/// torn tails.
#[derive(Debug, Clone, Copy)]
pub struct Capture<'lock> {
    lock: &'lock WriterLock,
}

impl<'lock> Capture<'lock> {
    /// The right that comes with the writer lock.
    #[must_use]
    pub fn new(lock: &'lock WriterLock) -> Self {
        Capture { lock }
    }

    /// The data directory.
    #[must_use]
    pub fn root(&self) -> &'lock Root {
        self.lock.root()
    }

    /// The writer lock this right came from.
    #[must_use]
    pub fn lock(&self) -> &'lock WriterLock {
        self.lock
    }

    /// Makes a folder (mode 0700) and those above it; each new entry is synced in its parent.
    ///
    /// # Errors
    /// `no-space`, `permission-denied` or `io`.
    pub fn create_dir(&self, rel: &str) -> Result<()> {
        create_dir(self.root(), rel)
    }

    /// Publishes `bytes` under `rel`, replacing what was there: whole or not at all, durable when
    /// this returns.
    ///
    /// # Errors
    /// `no-space`, `permission-denied` or `io`; the old file is then still there.
    pub fn replace(&self, rel: &str, bytes: &[u8]) -> Result<()> {
        publish(self.root(), rel, bytes, true)
    }

    /// Publishes `bytes` under a name that nothing has yet: whole or not at all, durable when
    /// this returns.
    ///
    /// # Errors
    /// `target-exists` when something has the name; else as [`Capture::replace`].
    pub fn create_new(&self, rel: &str, bytes: &[u8]) -> Result<()> {
        publish(self.root(), rel, bytes, false)
    }

    /// Opens `rel` for appending and makes it when missing (mode 0600). The new name is durable
    /// after [`Capture::sync_dir`] of its folder. Returns whether it was made.
    ///
    /// # Errors
    /// `no-space`, `permission-denied` or `io`; `unsafe-target` when it is no regular file.
    pub fn append(&self, rel: &str) -> Result<(AppendFile, bool)> {
        let root = self.root();
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK;
        let (fd, made) = match root.open_at(rel, flags, Mode::empty()) {
            Ok(fd) => (fd, false),
            Err(Errno::NOENT) => {
                let flags = flags | OFlags::CREATE | OFlags::EXCL;
                let fd = root
                    .open_at(rel, flags, FILE_MODE)
                    .map_err(|e| root.failed("create", rel, e))?;
                (fd, true)
            }
            Err(e) => return Err(root.failed("open for appending", rel, e)),
        };
        let file = File::from(fd);
        let full = root.full(rel);
        let meta = file.metadata().map_err(|e| Error::io("stat", &full, e))?;
        if !meta.is_file() {
            return Err(Error::new(
                ErrorKind::UnsafeTarget,
                format!("{} is not a regular file", full.display()),
            ));
        }
        Ok((AppendFile::new(file, full, meta.len()), made))
    }

    /// Makes the names in a folder durable.
    ///
    /// # Errors
    /// `io`.
    pub fn sync_dir(&self, rel: &str) -> Result<()> {
        let root = self.root();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = root
            .open_at(rel, flags, Mode::empty())
            .map_err(|e| root.failed("open", rel, e))?;
        rustix::fs::fsync(&fd).map_err(|e| root.failed("sync", rel, e))
    }

    /// Cuts `rel` to `len` bytes and syncs it. Only for a tail that nothing promises.
    ///
    /// # Errors
    /// `io` or `permission-denied`.
    pub fn drop_torn_tail(&self, rel: &str, len: u64) -> Result<()> {
        let root = self.root();
        let fd = root
            .open_at(rel, OFlags::WRONLY, Mode::empty())
            .map_err(|e| root.failed("open", rel, e))?;
        rustix::fs::ftruncate(&fd, len).map_err(|e| root.failed("cut", rel, e))?;
        rustix::fs::fsync(&fd).map_err(|e| root.failed("sync", rel, e))
    }

    /// Removes one file that can be made again from evidence, or that nothing was ever put in.
    /// Gone already is fine.
    ///
    /// # Errors
    /// `io` or `permission-denied`.
    pub fn remove_derived(&self, rel: &str) -> Result<()> {
        let root = self.root();
        let (dir, name) = match root.parent(rel) {
            Ok(found) => found,
            // What lies behind a link is not ours.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            Err(e) => return Err(root.failed("remove", rel, e)),
        };
        match rustix::fs::unlinkat(&dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(root.failed("remove", rel, e)),
        }
    }

    /// Makes a folder for derived files. A file or a link that has its name or that of a folder
    /// above it makes way: nothing of ours is in it. What a link leads to is left alone.
    ///
    /// # Errors
    /// `unsafe-target` where nothing derived lies; `io`, `permission-denied` or `no-space`.
    pub fn make_derived_folder(&self, rel: &str) -> Result<()> {
        let root = self.root();
        self.is_derived(rel)?;
        let ends = rel.match_indices('/').map(|(at, _)| at).chain([rel.len()]);
        for folder in ends.filter_map(|at| rel.get(..at)) {
            let (dir, name) = root
                .parent(folder)
                .map_err(|e| root.failed("open", folder, e))?;
            match rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(s) if FileType::from_raw_mode(s.st_mode) == FileType::Directory => {}
                Ok(_) => {
                    self.remove_derived(folder)?;
                    break;
                }
                Err(Errno::NOENT) => break,
                Err(e) => return Err(root.failed("look up", folder, e)),
            }
        }
        self.create_dir(rel)
    }

    fn is_derived(&self, rel: &str) -> Result<()> {
        if DERIVED.iter().any(|above| rel.starts_with(above)) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::UnsafeTarget,
            format!("{} holds no derived files", self.root().full(rel).display()),
        ))
    }

    /// Removes a folder of derived files with all that is in it. Gone already is fine.
    ///
    /// # Errors
    /// `unsafe-target` where nothing derived lies; `io` or `permission-denied`.
    pub fn remove_derived_folder(&self, rel: &str) -> Result<()> {
        let root = self.root();
        self.is_derived(rel)?;
        let (dir, name) = match root.parent(rel) {
            Ok(found) => found,
            // What lies behind a link is not ours.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            Err(e) => return Err(root.failed("remove", rel, e)),
        };
        // A link goes alone: what it leads to is not ours.
        match rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(s) if FileType::from_raw_mode(s.st_mode) == FileType::Directory => {}
            Ok(_) => return self.remove_derived(rel),
            Err(Errno::NOENT) => return Ok(()),
            Err(e) => return Err(root.failed("remove", rel, e)),
        }
        for entry in root.list(rel)?.unwrap_or_default() {
            let inner = format!("{rel}/{}", entry.name);
            if entry.kind == EntryKind::Dir {
                self.remove_derived_folder(&inner)?;
            } else {
                self.remove_derived(&inner)?;
            }
        }
        match rustix::fs::unlinkat(&dir, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(Errno::NOTDIR) => self.remove_derived(rel),
            Err(e) => Err(root.failed("remove", rel, e)),
        }
    }

    /// Gives what has the place of a derived file or folder another name beside it, and returns
    /// that: `<name>.set-aside-<n>`. Nothing of it is opened or lost.
    ///
    /// # Errors
    /// `unsafe-target` where nothing derived lies; `io`, `permission-denied`.
    pub fn set_aside(&self, rel: &str) -> Result<String> {
        let root = self.root();
        self.is_derived(rel)?;
        let (dir, name) = root
            .parent(rel)
            .map_err(|e| root.failed("open folder of", rel, e))?;
        let mut n = 1u32;
        loop {
            let aside = format!("{name}.set-aside-{n}");
            match rustix::fs::statat(&dir, aside.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => n = n.saturating_add(1),
                // The name is free, and only the lock's holder makes names here.
                Err(Errno::NOENT) => {
                    rustix::fs::renameat(&dir, name, &dir, aside.as_str())
                        .map_err(|e| root.failed("move aside", rel, e))?;
                    rustix::fs::fsync(&dir).map_err(|e| root.failed("sync folder of", rel, e))?;
                    return Ok(format!("{rel}.set-aside-{n}"));
                }
                Err(e) => return Err(root.failed("look up", rel, e)),
            }
        }
    }

    /// A scratch file inside the data directory that has no name: gone when it is closed, however
    /// the process ends.
    ///
    /// # Errors
    /// `no-space`, `permission-denied` or `io`.
    pub fn scratch(&self) -> Result<File> {
        let root = self.root();
        let name = format!(".scratch-{}", std::process::id());
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW;
        let folder = root.fd().map_err(|e| root.failed("create", &name, e))?;
        let fd = rustix::fs::openat(folder, name.as_str(), flags | OFlags::CLOEXEC, FILE_MODE)
            .map_err(|e| root.failed("create", &name, e))?;
        rustix::fs::unlinkat(folder, name.as_str(), AtFlags::empty())
            .map_err(|e| root.failed("unlink", &name, e))?;
        Ok(File::from(fd))
    }
}
