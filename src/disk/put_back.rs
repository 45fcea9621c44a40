//! Captured files put back below a folder that a person named: a new one, or a harness's own.
//!
//! The names come from captures, and what stands below the folder is somebody else's. So the way
//! down is walked part by part through open folders and follows no link but one that a harness's
//! layout allows, which is resolved once; a name that is taken stays taken; and all files appear or
//! what was made is taken back.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::root::{DIR_MODE, FILE_MODE};
use crate::error::{Error, ErrorKind, Result};

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// A folder into which files are put back, and what was made there so far. What was made is taken
/// back unless [`PutBack::keep`] is called.
#[derive(Debug)]
pub struct PutBack {
    path: PathBuf,
    /// `None` as long as the folder is not there.
    fd: Option<OwnedFd>,
    made_root: bool,
    /// Folders directly below which a folder may be a link.
    linked_below: Vec<PathBuf>,
    /// The links that were followed, and the folders they led to when they were: whoever turns one
    /// meanwhile turns nothing here.
    followed: RefCell<Vec<(PathBuf, OwnedFd)>>,
    files: Vec<(PathBuf, u64, u64)>,
    folders: Vec<PathBuf>,
}

/// A file being put back. It has no name of its own before [`PutBack::publish`].
#[derive(Debug)]
pub struct PutBackFile {
    dir: OwnedFd,
    file: File,
    temp: OsString,
    name: OsString,
    rel: PathBuf,
    published: bool,
}

impl PutBack {
    /// Below `path`, which may be a link to a folder and may be missing, if what is above it is
    /// there. Nothing is made yet.
    ///
    /// # Errors
    /// `unsafe-target` when it can't be a folder; `permission-denied`, `io`.
    pub fn below(path: &Path) -> Result<PutBack> {
        let fd = match rustix::fs::open(path, FOLDER, Mode::empty()) {
            Ok(fd) => Some(fd),
            Err(Errno::NOENT) => {
                let above = path.parent().filter(|p| !p.as_os_str().is_empty());
                let above = above.unwrap_or(Path::new("."));
                // A link to nothing has the name and is no folder.
                if std::fs::symlink_metadata(path).is_ok() || !above.is_dir() {
                    return Err(refused(path, "is no folder and can't be made one"));
                }
                None
            }
            Err(Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG) => {
                return Err(refused(path, "is no folder"));
            }
            Err(e) => return Err(Error::io("open", path, e.into())),
        };
        Ok(PutBack {
            path: path.to_path_buf(),
            fd,
            made_root: false,
            linked_below: Vec::new(),
            followed: RefCell::new(Vec::new()),
            files: Vec::new(),
            folders: Vec::new(),
        })
    }

    /// Lets a folder directly below one of `areas`, which are relative, be a link to a folder. A
    /// link that was followed before stays as it was then.
    #[must_use]
    pub fn with_links_below<'a>(mut self, areas: impl IntoIterator<Item = &'a str>) -> PutBack {
        self.linked_below = areas.into_iter().map(PathBuf::from).collect();
        self
    }

    /// The links that were followed so far, relative.
    #[must_use]
    pub fn followed(&self) -> Vec<PathBuf> {
        let followed = self.followed.borrow();
        followed.iter().map(|(rel, _)| rel.clone()).collect()
    }

    /// Opens the folder `rel`, whose name in the open folder `at` is `name`.
    fn step(&self, at: &OwnedFd, name: &OsStr, rel: &Path) -> rustix::io::Result<OwnedFd> {
        let opened = rustix::fs::openat(at, name, FOLDER | OFlags::NOFOLLOW, Mode::empty());
        let Err(refused @ (Errno::NOTDIR | Errno::LOOP)) = opened else {
            return opened;
        };
        let mut followed = self.followed.borrow_mut();
        if let Some((_, fd)) = followed.iter().find(|(known, _)| known == rel) {
            return rustix::io::dup(fd);
        }
        let allowed = rel
            .parent()
            .is_some_and(|above| self.linked_below.iter().any(|area| area == above));
        let stat = rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if !allowed || FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            return Err(refused);
        }
        // One that leads nowhere is no folder that could be made.
        let fd = rustix::fs::openat(at, name, FOLDER, Mode::empty()).map_err(|e| match e {
            Errno::NOENT => Errno::LOOP,
            e => e,
        })?;
        followed.push((rel.to_path_buf(), rustix::io::dup(&fd)?));
        Ok(fd)
    }

    /// The file that has the name already; `None` when the name is free.
    ///
    /// # Errors
    /// `unsafe-target` when `rel` leads out of the folder, a link is on the way, or something that
    /// is no regular file has the name; `permission-denied`, `io`.
    pub fn look(&self, rel: &Path) -> Result<Option<File>> {
        let (folders, name) = parts(&self.path, rel)?;
        let Some(root) = &self.fd else {
            return Ok(None);
        };
        let mut at = rustix::io::dup(root).map_err(|e| self.failed("open", rel, e))?;
        let mut done = PathBuf::new();
        for folder in folders {
            done.push(folder);
            at = match self.step(&at, folder, &done) {
                Ok(fd) => fd,
                Err(Errno::NOENT) => return Ok(None),
                Err(e) => return Err(self.way(rel, e)),
            };
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let stat = match rustix::fs::statat(&at, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(e) => return Err(self.way(rel, e)),
        };
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(refused(
                &self.path.join(rel),
                "is there and is no regular file",
            ));
        }
        match rustix::fs::openat(&at, name, flags, Mode::empty()) {
            Ok(fd) => Ok(Some(File::from(fd))),
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(self.way(rel, e)),
        }
    }

    /// Begins a file, and makes the folders that lead to it.
    ///
    /// # Errors
    /// As [`PutBack::look`]; `no-space`.
    pub fn begin(&mut self, rel: &Path) -> Result<PutBackFile> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        // Not made of the name, which may be as long as a name can be.
        self.begin_as(rel, &format!(".{}-{n}.cass-tmp", std::process::id()))
    }

    /// As [`PutBack::begin`], under a temporary name that is known: a run that was killed is cleaned
    /// up by it. Whatever has that name goes.
    ///
    /// # Errors
    /// As [`PutBack::begin`].
    pub fn begin_as(&mut self, rel: &Path, temp: &str) -> Result<PutBackFile> {
        let (folders, name) = parts(&self.path, rel)?;
        let mut at = self.root()?;
        let mut done = PathBuf::new();
        for folder in folders {
            done.push(folder);
            match rustix::fs::mkdirat(&at, folder, DIR_MODE) {
                Ok(()) => {
                    self.folders.push(done.clone());
                    rustix::fs::fsync(&at).map_err(|e| self.failed("sync", &done, e))?;
                }
                Err(Errno::EXIST) => {}
                Err(e) => return Err(self.failed("create folder", &done, e)),
            }
            at = self
                .step(&at, folder, &done)
                .map_err(|e| self.way(&done, e))?;
        }
        let temp = OsString::from(temp);
        let _ = rustix::fs::unlinkat(&at, &temp, AtFlags::empty());
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let fd = rustix::fs::openat(&at, &temp, flags | OFlags::CLOEXEC, FILE_MODE)
            .map_err(|e| self.failed("create", rel, e))?;
        Ok(PutBackFile {
            dir: at,
            file: File::from(fd),
            temp,
            name: name.to_owned(),
            rel: rel.to_path_buf(),
            published: false,
        })
    }

    /// Gives a file its name, durable when this returns.
    ///
    /// # Errors
    /// `target-exists` when the name is taken; `no-space`, `io`.
    pub fn publish(&mut self, mut file: PutBackFile) -> Result<()> {
        let rel = file.rel.clone();
        let full = self.path.join(&rel);
        let failed = |e| Error::io("write", &full, e);
        file.file.sync_all().map_err(failed)?;
        let meta = file.file.metadata().map_err(failed)?;
        let (dir, temp, name) = (&file.dir, &file.temp, &file.name);
        let named = match rustix::fs::renameat_with(dir, temp, dir, name, RenameFlags::NOREPLACE) {
            // Not every file system has this rename; a link fails on a taken name as well.
            Err(Errno::NOSYS | Errno::INVAL | Errno::NOTSUP) => {
                rustix::fs::linkat(dir, temp, dir, name, AtFlags::empty()).map(|()| {
                    // The file has its name; a second one that stays is untidy and no failure.
                    let _ = rustix::fs::unlinkat(dir, temp, AtFlags::empty());
                })
            }
            other => other,
        };
        match named {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(taken(&full)),
            Err(e) => return Err(self.failed("publish", &rel, e)),
        }
        file.published = true;
        self.files.push((rel.clone(), meta.dev(), meta.ino()));
        rustix::fs::fsync(&file.dir).map_err(|e| self.failed("sync folder of", &rel, e))
    }

    /// Gives a file the name of `old`, which is replaced in one step, durable when this returns. It has
    /// the mode of the old one. `still` is asked last of all whether the old one may go.
    ///
    /// # Errors
    /// What `still` says; `plan-mismatch` when the name is another file's by now; `no-space`, `io`:
    /// the old file is still there then.
    pub fn replace(
        &mut self,
        mut file: PutBackFile,
        old: &File,
        still: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let rel = file.rel.clone();
        let full = self.path.join(&rel);
        let failed = |e| Error::io("write", &full, e);
        let was = old.metadata().map_err(failed)?;
        #[allow(clippy::unnecessary_cast)] // the width differs between systems
        let mode = Mode::from_raw_mode((was.mode() & 0o777) as rustix::fs::RawMode);
        rustix::fs::fchmod(&file.file, mode).map_err(|e| self.failed("set mode of", &rel, e))?;
        file.file.sync_all().map_err(failed)?;
        still()?;
        let now = rustix::fs::statat(&file.dir, &file.name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|e| self.way(&rel, e))?;
        #[allow(clippy::unnecessary_cast)] // the width differs between systems
        if (now.st_dev as u64, now.st_ino as u64) != (was.dev(), was.ino()) {
            return Err(Error::new(
                ErrorKind::PlanMismatch,
                format!(
                    "{} is another file by now; nothing was changed",
                    full.display()
                ),
            ));
        }
        rustix::fs::renameat(&file.dir, &file.temp, &file.dir, &file.name)
            .map_err(|e| self.failed("publish", &rel, e))?;
        file.published = true;
        rustix::fs::fsync(&file.dir).map_err(|e| self.failed("sync folder of", &rel, e))
    }

    /// Removes a temporary file that a killed run left where `rel` was to be. Gone already is fine.
    ///
    /// # Errors
    /// `io`, `permission-denied`.
    pub fn remove_temp(&self, rel: &Path, temp: &str) -> Result<()> {
        let beside = rel.with_file_name(temp);
        match self.look(&beside)? {
            Some(_) if !self.unlink(&beside, AtFlags::empty()) => {
                Err(self.failed("remove", &beside, Errno::ACCESS))
            }
            _ => Ok(()),
        }
    }

    /// All files are there: nothing is taken back.
    pub fn keep(mut self) {
        self.files.clear();
        self.folders.clear();
        self.made_root = false;
    }

    /// Takes back what was made, and gives the files that could not be taken back. Each of them is
    /// complete.
    pub fn take_back(&mut self) -> Vec<PathBuf> {
        let mut left = Vec::new();
        for (rel, dev, ino) in std::mem::take(&mut self.files).into_iter().rev() {
            // What has the name now may be somebody else's.
            let ours = self
                .look(&rel)
                .ok()
                .flatten()
                .and_then(|f| f.metadata().ok());
            if ours.is_some_and(|meta| (meta.dev(), meta.ino()) == (dev, ino))
                && !self.unlink(&rel, AtFlags::empty())
            {
                left.push(self.path.join(rel));
            }
        }
        for rel in std::mem::take(&mut self.folders).into_iter().rev() {
            // One that somebody put something into stays.
            self.unlink(&rel, AtFlags::REMOVEDIR);
        }
        if std::mem::take(&mut self.made_root) {
            #[allow(clippy::disallowed_methods)] // the door itself
            let _ = std::fs::remove_dir(&self.path);
        }
        left.reverse();
        left
    }

    fn unlink(&self, rel: &Path, flags: AtFlags) -> bool {
        let Ok((folders, name)) = parts(&self.path, rel) else {
            return false;
        };
        let mut at = match self.fd.as_ref().map(rustix::io::dup) {
            Some(Ok(fd)) => fd,
            _ => return false,
        };
        let mut done = PathBuf::new();
        for folder in folders {
            done.push(folder);
            match self.step(&at, folder, &done) {
                Ok(fd) => at = fd,
                Err(_) => return false,
            }
        }
        rustix::fs::unlinkat(&at, name, flags).is_ok()
    }

    /// The folder itself, made where it is missing.
    fn root(&mut self) -> Result<OwnedFd> {
        if self.fd.is_none() {
            match rustix::fs::mkdir(&self.path, DIR_MODE) {
                Ok(()) => self.made_root = true,
                Err(Errno::EXIST) => {}
                Err(e) => return Err(Error::io("create folder", &self.path, e.into())),
            }
            let flags = FOLDER | OFlags::NOFOLLOW;
            let fd = rustix::fs::open(&self.path, flags, Mode::empty())
                .map_err(|e| Error::io("open", &self.path, e.into()))?;
            self.fd = Some(fd);
        }
        match &self.fd {
            Some(fd) => rustix::io::dup(fd).map_err(|e| Error::io("open", &self.path, e.into())),
            None => Err(refused(&self.path, "is no folder")),
        }
    }

    /// Why the way to `rel` can't be gone.
    fn way(&self, rel: &Path, e: Errno) -> Error {
        match e {
            // A link gives the one or the other.
            Errno::NOTDIR | Errno::LOOP => refused(
                &self.path.join(rel),
                "is reached through a link or through something that is no folder",
            ),
            e => self.failed("open", rel, e),
        }
    }

    fn failed(&self, doing: &str, rel: &Path, e: Errno) -> Error {
        Error::io(doing, &self.path.join(rel), e.into())
    }
}

impl Drop for PutBack {
    fn drop(&mut self) {
        self.take_back();
    }
}

impl PutBackFile {
    /// Goes back to the first byte, to read what was written.
    ///
    /// # Errors
    /// What the file system says.
    pub fn rewind(&mut self) -> std::io::Result<()> {
        self.file.sync_all()?;
        self.file.rewind()
    }

    /// Reads what was written, at any place; 0 at the end.
    ///
    /// # Errors
    /// What the file system says.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(&self.file, buf, offset)
    }
}

impl Write for PutBackFile {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.file.write(buf)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

impl Read for PutBackFile {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        self.file.read(buf)
    }
}

impl Drop for PutBackFile {
    fn drop(&mut self) {
        if !self.published {
            let _ = rustix::fs::unlinkat(&self.dir, &self.temp, AtFlags::empty());
        }
    }
}

/// The folders and the name of `rel`, each a plain name.
fn parts<'r>(root: &Path, rel: &'r Path) -> Result<(Vec<&'r OsStr>, &'r OsStr)> {
    let mut plain = Vec::new();
    for part in rel.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            _ => return Err(refused(&root.join(rel), "leads out of the folder")),
        }
    }
    let name = plain
        .pop()
        .ok_or_else(|| refused(&root.join(rel), "names no file"))?;
    Ok((plain, name))
}

fn refused(path: &Path, what: &str) -> Error {
    Error::new(
        ErrorKind::UnsafeTarget,
        format!("{} {what}", path.display()),
    )
    .with_hint("Nothing was written. Name a folder of your own.")
}

fn taken(path: &Path) -> Error {
    Error::new(
        ErrorKind::TargetExists,
        format!("{} exists already and is not overwritten", path.display()),
    )
    .with_hint("Nothing was written. Name another folder.")
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn put(back: &mut PutBack, rel: &str, text: &str) -> Result<()> {
        let mut file = back.begin(Path::new(rel))?;
        file.write_all(text.as_bytes()).unwrap();
        file.rewind().unwrap();
        let mut read = String::new();
        file.read_to_string(&mut read).unwrap();
        assert_eq!(read, text);
        back.publish(file)
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(dir)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_not_kept_is_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("new");
        let mut back = PutBack::below(&root).unwrap();
        put(&mut back, "a/b/1", "one").unwrap();
        put(&mut back, "a/2", "two").unwrap();
        // Somebody moved one away and put theirs there.
        std::fs::rename(root.join("a/2"), dir.path().join("moved")).unwrap();
        std::fs::write(root.join("a/2"), "theirs").unwrap();
        assert_eq!(back.take_back(), Vec::<PathBuf>::new());
        drop(back);
        assert_eq!(names(&root.join("a")), ["2"]);
        std::fs::remove_dir_all(&root).unwrap();

        let mut back = PutBack::below(&root).unwrap();
        put(&mut back, "a/1", "one").unwrap();
        drop(back);
        assert_eq!(names(dir.path()), ["moved"]);

        let mut back = PutBack::below(&root).unwrap();
        put(&mut back, "a/1", "one").unwrap();
        back.keep();
        assert_eq!(std::fs::read(root.join("a/1")).unwrap(), b"one");
        assert_eq!(names(&root.join("a")), ["1"]);
    }

    #[test]
    fn no_name_leads_out_and_none_is_taken_over() {
        let dir = tempfile::tempdir().unwrap();
        let (root, out) = (dir.path().join("root"), dir.path().join("out"));
        std::fs::create_dir_all(root.join("real")).unwrap();
        std::fs::create_dir(&out).unwrap();
        symlink(&out, root.join("link")).unwrap();
        symlink("nothing", root.join("dangling")).unwrap();
        std::fs::write(root.join("file"), "mine").unwrap();
        let kind = |rel: &str| {
            let mut back = PutBack::below(&root).unwrap();
            let looked = back.look(Path::new(rel)).err().map(|e| e.kind());
            (looked, put(&mut back, rel, "x").unwrap_err().kind())
        };
        use ErrorKind::{TargetExists, UnsafeTarget};
        for rel in [
            "../x",
            "a/../../x",
            "/x",
            "",
            "..",
            "link/x",
            "file/x",
            "dangling/x",
        ] {
            assert_eq!(kind(rel), (Some(UnsafeTarget), UnsafeTarget), "{rel}");
        }
        // A name that is a link is no file, whatever it leads to.
        for rel in ["link", "dangling", "real"] {
            assert_eq!(kind(rel), (Some(UnsafeTarget), TargetExists), "{rel}");
        }
        assert_eq!(kind("file"), (None, TargetExists));
        assert_eq!(names(&out), [""; 0]);
        assert_eq!(names(&root), ["dangling", "file", "link", "real"]);
        assert_eq!(std::fs::read(root.join("file")).unwrap(), b"mine");
        for bad in ["file", "dangling", "no/such"] {
            let e = PutBack::below(&root.join(bad)).unwrap_err();
            assert_eq!(e.kind(), UnsafeTarget, "{bad}");
        }
    }
}
