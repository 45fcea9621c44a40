//! The data directory as one open descriptor; reading below it.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::error::{Error, ErrorKind, Result};

/// Folders are for their owner alone.
pub(super) const DIR_MODE: Mode = Mode::RWXU;
/// Files are for their owner alone.
pub(super) const FILE_MODE: Mode = Mode::from_raw_mode(0o600);

/// An open data directory. Paths given to its methods are relative, with `/` between parts, and
/// never hold `..`.
#[derive(Debug)]
pub struct Root {
    /// None where nothing was made yet: then nothing is found below it.
    fd: Option<OwnedFd>,
    path: PathBuf,
}

/// What a folder entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Dir,
    /// Anything else: link, FIFO, socket, device.
    Other,
}

/// One entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name; names that are not UTF-8 are shown with U+FFFD and are never ours.
    pub name: String,
    /// What it is, without following links.
    pub kind: EntryKind,
}

impl Root {
    /// Opens the data directory, or `None` when nothing is there.
    ///
    /// # Errors
    /// `permission-denied` or `io`; `unsafe-target` when the path is no folder.
    pub fn open(path: &Path) -> Result<Option<Root>> {
        let canonical = match std::fs::canonicalize(path) {
            Ok(p) => p,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return match std::fs::symlink_metadata(path) {
                    Ok(_) => Err(no_folder(path, "is a link to nothing")),
                    Err(_) => Ok(None),
                };
            }
            Err(e) => return Err(unusable(path, e)),
        };
        match rustix::fs::open(
            &canonical,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        ) {
            Ok(fd) => Ok(Some(Root {
                fd: Some(fd),
                path: canonical,
            })),
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(unusable(path, e.into())),
        }
    }

    /// Opens the data directory and makes it, and the folders above it, when missing.
    ///
    /// # Errors
    /// As [`Root::open`]; `permission-denied` or `no-space` when it can't be made.
    pub fn open_or_create(path: &Path) -> Result<Root> {
        if let Some(root) = Root::open(path)? {
            // Who made it may have been killed before its entry was synced.
            if root.is_empty_folder("")? {
                sync_entry(&root.path)?;
            }
            return Ok(root);
        }
        let made: Vec<&Path> = path
            .ancestors()
            .take_while(|at| !at.as_os_str().is_empty() && !at.exists())
            .collect();
        #[allow(clippy::disallowed_types)] // the door itself
        {
            use std::os::unix::fs::DirBuilderExt;
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(path)
                .map_err(|e| match e.kind() {
                    // A folder above it is a link to nothing or no folder.
                    std::io::ErrorKind::AlreadyExists => {
                        no_folder(path, "leads through a link to nothing or no folder")
                    }
                    _ => unusable(path, e),
                })?;
        }
        made.into_iter().rev().try_for_each(sync_entry)?;
        Root::open(path)?.ok_or_else(|| {
            Error::new(
                ErrorKind::Io,
                format!(
                    "the data directory {} vanished while it was made",
                    path.display()
                ),
            )
        })
    }

    /// The data directory at `path` as it is before it is made: nothing is in it, and nothing can be
    /// put there.
    #[must_use]
    pub fn absent(path: &Path) -> Root {
        Root {
            fd: None,
            path: path.to_owned(),
        }
    }

    /// The canonical path of the data directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The absolute path of `rel`, for messages and for SQLite.
    #[must_use]
    pub fn full(&self, rel: &str) -> PathBuf {
        self.path.join(rel)
    }

    pub(super) fn fd(&self) -> rustix::io::Result<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd).ok_or(Errno::NOENT)
    }

    /// Opens `rel` without following any link below the root.
    pub(super) fn open_at(
        &self,
        rel: &str,
        flags: OFlags,
        mode: Mode,
    ) -> rustix::io::Result<OwnedFd> {
        debug_assert!(!rel.starts_with('/') && rel.split('/').all(|p| p != ".."));
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::ResolveFlags;
            let resolve =
                ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            let rel = if rel.is_empty() { "." } else { rel };
            match rustix::fs::openat2(self.fd()?, rel, flags | OFlags::CLOEXEC, mode, resolve) {
                Err(Errno::NOSYS) => {}
                other => return other,
            }
        }
        self.open_by_parts(rel, flags, mode)
    }

    fn open_by_parts(&self, rel: &str, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
        let dir = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut at = rustix::io::dup(self.fd()?)?;
        let mut parts = rel
            .split('/')
            .filter(|p| !p.is_empty() && *p != ".")
            .peekable();
        while let Some(part) = parts.next() {
            if part == ".." {
                return Err(Errno::XDEV);
            }
            at = if parts.peek().is_some() {
                rustix::fs::openat(&at, part, dir, Mode::empty())?
            } else {
                let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                rustix::fs::openat(&at, part, flags, mode)?
            };
        }
        Ok(at)
    }

    /// The folder that holds `rel`, opened, and the last part of `rel`.
    pub(super) fn parent<'r>(&self, rel: &'r str) -> rustix::io::Result<(OwnedFd, &'r str)> {
        let (dir, name) = rel.rsplit_once('/').unwrap_or(("", rel));
        if name.is_empty() || name == "." || name == ".." {
            return Err(Errno::INVAL);
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        Ok((self.open_at(dir, flags, Mode::empty())?, name))
    }

    /// Opens a regular file for reading; `None` when nothing is there.
    ///
    /// # Errors
    /// `io` or `permission-denied`; `unsafe-target` when it is no regular file.
    pub fn open_file(&self, rel: &str) -> Result<Option<File>> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let fd = match self.open_at(rel, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(Errno::LOOP) => {
                let above = rel.rsplit_once('/').map_or("", |(above, _)| above);
                self.require_folder(above)?;
                return Err(self.not_a_file(rel));
            }
            Err(e) => return Err(self.failed("open", rel, e)),
        };
        let stat = rustix::fs::fstat(&fd).map_err(|e| self.failed("stat", rel, e))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(self.not_a_file(rel));
        }
        Ok(Some(File::from(fd)))
    }

    /// The bytes of a small file; `None` when nothing is there.
    ///
    /// # Errors
    /// As [`Root::open_file`]; `io` when the file is longer than `limit` bytes.
    pub fn read(&self, rel: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        let Some(file) = self.open_file(rel)? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        file.take(limit.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|e| Error::io("read", &self.full(rel), e))?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit {
            return Err(Error::new(
                ErrorKind::Io,
                format!("{} is longer than {limit} bytes", self.full(rel).display()),
            ));
        }
        Ok(Some(bytes))
    }

    /// The length of a regular file; `None` when nothing is there.
    ///
    /// # Errors
    /// As [`Root::open_file`].
    pub fn file_len(&self, rel: &str) -> Result<Option<u64>> {
        let Some(file) = self.open_file(rel)? else {
            return Ok(None);
        };
        let meta = file
            .metadata()
            .map_err(|e| Error::io("stat", &self.full(rel), e))?;
        Ok(Some(meta.len()))
    }

    /// Whether anything, of any kind, has this name.
    ///
    /// # Errors
    /// `io` or `permission-denied`.
    pub fn exists(&self, rel: &str) -> Result<bool> {
        Ok(self.kind(rel)?.is_some())
    }

    /// What has this name, without following a link; `None` when nothing has it.
    ///
    /// # Errors
    /// As [`Root::exists`].
    pub fn kind(&self, rel: &str) -> Result<Option<EntryKind>> {
        let (dir, name) = match self.parent(rel) {
            Ok(found) => found,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(e) => return Err(self.failed("look up", rel, e)),
        };
        match rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(s) => Ok(Some(entry_kind(FileType::from_raw_mode(s.st_mode)))),
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(self.failed("look up", rel, e)),
        }
    }

    /// Fails where something else has the place of the folder `rel` or of one above it. That
    /// nothing is there is fine.
    ///
    /// # Errors
    /// `unsafe-target`, which names what is in the way; `io` or `permission-denied`.
    pub fn require_folder(&self, rel: &str) -> Result<()> {
        let ends = rel.match_indices('/').map(|(at, _)| at).chain([rel.len()]);
        for part in ends
            .filter_map(|at| rel.get(..at))
            .filter(|p| !p.is_empty())
        {
            let found = self
                .parent(part)
                .and_then(|(dir, name)| rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW));
            match found.map(|s| FileType::from_raw_mode(s.st_mode)) {
                Ok(FileType::Directory) => {}
                Ok(kind) => return Err(self.in_the_way(part, kind)),
                Err(Errno::NOENT) => return Ok(()),
                Err(e) => return Err(Error::io("look up", &self.full(part), e.into())),
            }
        }
        Ok(())
    }

    fn in_the_way(&self, rel: &str, kind: FileType) -> Error {
        let full = self.full(rel);
        let (what, hint) = match kind {
            FileType::Symlink => (
                "a link",
                "Put the folder itself there: no link below the data directory is followed. To use \
                 another disk, move the whole data directory and name it with --data-dir.",
            ),
            FileType::RegularFile => ("a file", "Move it away by hand; nothing was written to it."),
            _ => (
                "no folder",
                "Move it away by hand; nothing was written to it.",
            ),
        };
        Error::new(
            ErrorKind::UnsafeTarget,
            format!(
                "{} is {what}, and cass keeps a folder there",
                full.display()
            ),
        )
        .with_hint(hint)
        .with_context("path", full.display().to_string())
    }

    /// The entries of a folder, sorted by name; `None` when nothing is there.
    ///
    /// # Errors
    /// `io` or `permission-denied`.
    pub fn list(&self, rel: &str) -> Result<Option<Vec<Entry>>> {
        let mut entries = Vec::new();
        if !self.for_each_entry(rel, &mut |entry| entries.push(entry))? {
            return Ok(None);
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Some(entries))
    }

    /// The entries of a folder in no order, one at a time: a folder may hold one file a source.
    /// `false` when nothing is there.
    ///
    /// # Errors
    /// `io` or `permission-denied`.
    pub fn for_each_entry(&self, rel: &str, each: &mut dyn FnMut(Entry)) -> Result<bool> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = match self.open_at(rel, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(false),
            Err(e) => return Err(self.failed("list", rel, e)),
        };
        let dir = rustix::fs::Dir::read_from(&fd).map_err(|e| self.failed("list", rel, e))?;
        for entry in dir {
            let entry = entry.map_err(|e| self.failed("list", rel, e))?;
            let name = entry.file_name();
            if name.to_bytes() == b"." || name.to_bytes() == b".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => rustix::fs::statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW)
                    .map(|s| FileType::from_raw_mode(s.st_mode))
                    .unwrap_or(FileType::Unknown),
                known => known,
            };
            each(Entry {
                name: std::ffi::OsStr::from_bytes(name.to_bytes())
                    .to_string_lossy()
                    .into_owned(),
                kind: entry_kind(kind),
            });
        }
        Ok(true)
    }

    /// Whether a folder is there and holds nothing. Of a full one no more is read than tells.
    pub(super) fn is_empty_folder(&self, rel: &str) -> Result<bool> {
        let failed = |e| self.failed("list", rel, e);
        let fd = self
            .open_at(rel, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
            .map_err(failed)?;
        for entry in rustix::fs::Dir::read_from(&fd).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Bytes free for this user on the data directory's file system; where it is not there yet, on the
    /// one that it is made on.
    ///
    /// # Errors
    /// `io` when the file system does not answer.
    pub fn free_bytes(&self) -> Result<u64> {
        let found = match &self.fd {
            Some(fd) => rustix::fs::fstatvfs(fd),
            None => {
                let above = self.path.ancestors().find(|at| at.exists());
                rustix::fs::statvfs(above.unwrap_or(&self.path))
            }
        };
        let v = found.map_err(|e| Error::io("ask for free space of", &self.path, e.into()))?;
        Ok(v.f_bavail.saturating_mul(v.f_frsize))
    }

    pub(super) fn failed(&self, doing: &str, rel: &str, e: Errno) -> Error {
        if matches!(e, Errno::NOTDIR | Errno::LOOP)
            && let Err(in_the_way) = self.require_folder(rel)
        {
            return in_the_way;
        }
        Error::io(doing, &self.full(rel), e.into())
    }

    fn not_a_file(&self, rel: &str) -> Error {
        Error::new(
            ErrorKind::UnsafeTarget,
            format!("{} is not a regular file", self.full(rel).display()),
        )
        .with_hint("Something else put it there; move it away by hand.")
    }
}

fn entry_kind(kind: FileType) -> EntryKind {
    match kind {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Dir,
        _ => EntryKind::Other,
    }
}

/// Makes the name of a folder durable. A folder above it that this user may not read can't be synced
/// by this user either.
fn sync_entry(path: &Path) -> Result<()> {
    let above = match path.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        _ => Path::new("."),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::open(above, flags, Mode::empty()) {
        Ok(fd) => rustix::fs::fsync(&fd).map_err(|e| Error::io("sync", above, e.into())),
        Err(Errno::ACCESS) => Ok(()),
        Err(e) => Err(Error::io("open", above, e.into())),
    }
}

/// Why the data directory can't be used. What another name puts right is not called an I/O error.
fn unusable(path: &Path, e: std::io::Error) -> Error {
    match Errno::from_io_error(&e) {
        Some(Errno::NOTDIR) => no_folder(path, "is not a folder"),
        Some(Errno::LOOP) => no_folder(path, "leads through a loop of links"),
        Some(Errno::NAMETOOLONG) => no_folder(path, "is too long a name"),
        _ => Error::io("open data directory", path, e),
    }
}

fn no_folder(path: &Path, what: &str) -> Error {
    Error::new(
        ErrorKind::UnsafeTarget,
        format!("the data directory {} {what}", path.display()),
    )
    .with_hint("Name a folder with --data-dir or CASS_DATA_DIR.")
}
