//! Files that a person asked for by name, outside the data directory.

use std::fs::{File, Metadata};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

use crate::error::{Error, ErrorKind, Result};

/// A file being handed out: written beside its target under a temporary name, published only
/// whole, and never over an existing file.
#[derive(Debug)]
pub struct HandOut {
    file: File,
    temp: PathBuf,
    target: PathBuf,
    published: bool,
}

/// How a file gets its name without taking it from another. Not every file system can do each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// A rename that fails when the name is taken.
    Rename,
    /// A hard link, which fails when the name is taken.
    Link,
    /// An empty file made under the name, which fails when it is taken; then a rename over it.
    Reserve,
}

/// The best first.
const WAYS: [Way; 3] = [Way::Rename, Way::Link, Way::Reserve];

impl HandOut {
    /// Starts a file at `target`. Its folder must exist.
    ///
    /// # Errors
    /// As [`HandOut::check`]; `permission-denied`, `no-space`, `io`.
    pub fn create(target: &Path) -> Result<HandOut> {
        HandOut::check(target)?;
        // Not made of the target's name, which may be as long as a name can be.
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let temp = target.with_file_name(format!(".{}-{n}.cass-tmp", std::process::id()));
        #[allow(clippy::disallowed_types)] // the door itself
        let file = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temp)
            .map_err(|e| Error::io("create", target, e))?;
        Ok(HandOut {
            file,
            temp,
            target: target.to_path_buf(),
            published: false,
        })
    }

    /// Whether a file may be started at `target`: nothing has the name, and its folder is there.
    ///
    /// # Errors
    /// `target-exists` when anything has the name, a link to nothing included; `unsafe-target`
    /// when it can't be the name of a file there; `permission-denied`, `io`.
    pub fn check(target: &Path) -> Result<()> {
        let no_name = || unsafe_target(target, "names no file");
        if target.file_name().is_none() {
            return Err(no_name());
        }
        let folder = folder_of(target);
        match std::fs::metadata(folder) {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => return Err(unsafe_target(folder, "is not a folder")),
            Err(e) => return Err(unusable(folder, e)),
        }
        match std::fs::symlink_metadata(target) {
            Ok(_) => Err(exists(target)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(unusable(target, e)),
        }
    }

    /// Publishes the file under its name, durable when this returns.
    ///
    /// # Errors
    /// `target-exists` when the name was taken meanwhile; `no-space`, `io`.
    pub fn publish(self) -> Result<()> {
        self.publish_by(&WAYS).map(|_| ())
    }

    /// Gives the published file's metadata.
    fn publish_by(mut self, ways: &[Way]) -> Result<Metadata> {
        let failed = |e| Error::io("write", &self.target, e);
        self.file.sync_all().map_err(failed)?;
        let meta = self.file.metadata().map_err(failed)?;
        let mut ways = ways.iter().peekable();
        while let Some(way) = ways.next() {
            match self.name_by(*way) {
                Ok(()) => break,
                Err(Errno::EXIST) => return Err(exists(&self.target)),
                Err(e) if ways.peek().is_some() && unsupported(e) => {}
                Err(e) => return Err(Error::io("publish", &self.target, e.into())),
            }
        }
        self.published = true;
        sync_folder(folder_of(&self.target))?;
        Ok(meta)
    }

    /// Gives the file its name and takes the temporary one away.
    fn name_by(&self, way: Way) -> rustix::io::Result<()> {
        let (from, to) = (&self.temp, &self.target);
        match way {
            Way::Rename => rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE),
            Way::Link => {
                rustix::fs::linkat(CWD, from, CWD, to, rustix::fs::AtFlags::empty())?;
                // The file has its name; a second one that stays is untidy and no failure.
                let _ = rustix::fs::unlink(from);
                Ok(())
            }
            Way::Reserve => {
                use rustix::fs::{Mode, OFlags};
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                drop(rustix::fs::open(to, flags, Mode::RUSR | Mode::WUSR)?);
                rustix::fs::rename(from, to).inspect_err(|_| {
                    let _ = rustix::fs::unlink(to);
                })
            }
        }
    }
}

/// Whether the file system has no such call, as opposed to a call that failed. What it answers
/// then differs: Linux says EINVAL for a flag, EPERM or ENOTSUP for links; the call itself may be
/// missing or forbidden.
fn unsupported(e: Errno) -> bool {
    [
        Errno::NOSYS,
        Errno::INVAL,
        Errno::PERM,
        Errno::ACCESS,
        Errno::NOTSUP,
        Errno::OPNOTSUPP,
        Errno::MLINK,
        Errno::XDEV,
    ]
    .contains(&e)
}

impl Write for HandOut {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.file.write(buf)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

impl Drop for HandOut {
    fn drop(&mut self) {
        if !self.published {
            #[allow(clippy::disallowed_methods)] // the door itself
            let _ = std::fs::remove_file(&self.temp);
        }
    }
}

/// Several files handed out as one: all of them, or none. What was made is taken back unless
/// [`HandOutSet::keep`] is called.
#[derive(Debug, Default)]
pub struct HandOutSet {
    /// Published, with device and inode: what has the name later may be somebody else's.
    files: Vec<(PathBuf, u64, u64)>,
    folders: Vec<PathBuf>,
}

impl HandOutSet {
    /// Makes a folder where none is. The one above it must exist.
    ///
    /// # Errors
    /// `unsafe-target` when something else has the name or the folder above is missing;
    /// `permission-denied`, `no-space`, `io`.
    pub fn create_dir(&mut self, path: &Path) -> Result<()> {
        if is_folder(path)? {
            return Ok(());
        }
        #[allow(clippy::disallowed_types)] // the door itself
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(path)
            .map_err(|e| Error::io("create folder", path, e))?;
        self.folders.push(path.to_path_buf());
        sync_folder(folder_of(path))
    }

    /// Publishes a file as one of the set.
    ///
    /// # Errors
    /// As [`HandOut::publish`].
    pub fn publish(&mut self, file: HandOut) -> Result<()> {
        let target = file.target.clone();
        let meta = file.publish_by(&WAYS)?;
        self.files.push((target, meta.dev(), meta.ino()));
        Ok(())
    }

    /// The set is complete: nothing is taken back.
    pub fn keep(mut self) {
        self.files.clear();
        self.folders.clear();
    }

    /// Takes back what was made, and gives the files that could not be taken back. Each of them
    /// is complete.
    pub fn take_back(&mut self) -> Vec<PathBuf> {
        let mut left = Vec::new();
        for (path, dev, ino) in self.files.drain(..).rev() {
            let ours = std::fs::symlink_metadata(&path)
                .is_ok_and(|meta| (meta.dev(), meta.ino()) == (dev, ino));
            #[allow(clippy::disallowed_methods)] // the door itself
            if ours && std::fs::remove_file(&path).is_err() {
                left.push(path);
            }
        }
        for folder in self.folders.drain(..).rev() {
            // One that somebody put something into stays.
            #[allow(clippy::disallowed_methods)] // the door itself
            let _ = std::fs::remove_dir(folder);
        }
        left.reverse();
        left
    }
}

impl Drop for HandOutSet {
    fn drop(&mut self) {
        self.take_back();
    }
}

/// Whether `path` is a folder to hand files out into, or could be made: then nothing has the name
/// and the folder above it is there.
///
/// # Errors
/// `target-exists` when anything else has the name; `unsafe-target` when it can't be the name of
/// a folder there; `permission-denied`, `io`.
pub fn is_folder(path: &Path) -> Result<bool> {
    match std::fs::metadata(path) {
        Ok(meta) if meta.is_dir() => Ok(true),
        Ok(_) => Err(exists(path)),
        Err(_) => HandOut::check(path).map(|()| false),
    }
}

fn folder_of(target: &Path) -> &Path {
    match target.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    }
}

fn sync_folder(folder: &Path) -> Result<()> {
    File::open(folder)
        .and_then(|d| d.sync_all())
        .map_err(|e| Error::io("sync folder", folder, e))
}

/// Why a path that a person typed can't be used. What can be put right by typing another is not
/// called an I/O error.
fn unusable(path: &Path, e: std::io::Error) -> Error {
    match Errno::from_io_error(&e) {
        Some(Errno::NOENT) => unsafe_target(path, "is not there"),
        Some(Errno::NOTDIR) => unsafe_target(path, "leads through something that is not a folder"),
        Some(Errno::LOOP) => unsafe_target(path, "leads through a loop of links"),
        Some(Errno::NAMETOOLONG) => unsafe_target(path, "is too long a name"),
        _ => Error::io("look up", path, e),
    }
}

fn unsafe_target(path: &Path, what: &str) -> Error {
    Error::new(
        ErrorKind::UnsafeTarget,
        format!("{} {what}", path.display()),
    )
    .with_hint("Name a path in a folder that exists.")
}

fn exists(target: &Path) -> Error {
    Error::new(
        ErrorKind::TargetExists,
        format!("{} exists already and is not overwritten", target.display()),
    )
    .with_hint("Name a path where nothing is yet.")
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(dir)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn begun(target: &Path) -> HandOut {
        let mut out = HandOut::create(target).unwrap();
        out.write_all(b"new").unwrap();
        out
    }

    /// Each way on a real file system, with the name free and with it taken after the first look.
    fn every_way(dir: &Path) {
        let target = dir.join("f");
        for way in WAYS {
            let run = |out: HandOut| out.publish_by(&[way]);
            if let Err(e) = run(begun(&target)) {
                // A file system that has no links says so, and nothing is left.
                assert_eq!((way, names(dir)), (Way::Link, vec![]), "{e}");
                continue;
            }
            assert_eq!(std::fs::read(&target).unwrap(), b"new", "{way:?}");
            assert_eq!(names(dir), ["f"], "{way:?}");
            std::fs::remove_file(&target).unwrap();

            let out = begun(&target);
            std::fs::write(&target, b"theirs").unwrap();
            assert_eq!(
                run(out).unwrap_err().kind(),
                ErrorKind::TargetExists,
                "{way:?}"
            );
            assert_eq!(std::fs::read(&target).unwrap(), b"theirs", "{way:?}");
            assert_eq!(names(dir), ["f"], "{way:?}");
            std::fs::remove_file(&target).unwrap();
        }
        begun(&target).publish().unwrap();
        assert_eq!(names(dir), ["f"]);
    }

    #[test]
    fn a_name_that_was_taken_meanwhile_is_left_alone_in_every_way() {
        let dir = tempfile::tempdir().unwrap();
        every_way(dir.path());
        std::fs::remove_file(dir.path().join("f")).unwrap();
        // A link to nothing takes the name too.
        for way in WAYS {
            let target = dir.path().join("l");
            let out = begun(&target);
            std::os::unix::fs::symlink("nothing", &target).unwrap();
            let e = out.publish_by(&[way]).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::TargetExists, "{way:?}");
            assert_eq!(names(dir.path()), ["l"], "{way:?}");
            std::fs::remove_file(&target).unwrap();
        }
    }

    /// vfat has no hard links. Mounting it needs root and its tools; without them this says so.
    #[test]
    fn a_file_system_without_links_hands_out_too() {
        use std::process::{Command, Stdio};
        let dir = tempfile::tempdir().unwrap();
        let (image, at) = (dir.path().join("image"), dir.path().join("at"));
        std::fs::create_dir(&at).unwrap();
        std::fs::write(&image, vec![0u8; 2 << 20]).unwrap();
        let run = |program: &str, args: &[&std::ffi::OsStr]| {
            Command::new(program)
                .args(args)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|s| s.success())
        };
        let made = run("mkfs.vfat", &[image.as_os_str()])
            && run(
                "mount",
                &["-o".as_ref(), "loop".as_ref(), image.as_ref(), at.as_ref()],
            );
        if !made {
            println!("passed over: no vfat can be made and mounted here");
            return;
        }
        let result = std::panic::catch_unwind(|| every_way(&at));
        assert!(run("umount", &[at.as_os_str()]));
        if let Err(e) = result {
            std::panic::resume_unwind(e);
        }
    }

    #[test]
    fn what_can_be_typed_right_is_no_input_or_output_error() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("file"), b"x").unwrap();
        std::os::unix::fs::symlink("loop", at("loop")).unwrap();
        std::os::unix::fs::symlink("nothing", at("dangling")).unwrap();
        let long = "x".repeat(256);
        for (name, kind) in [
            ("file", ErrorKind::TargetExists),
            ("dangling", ErrorKind::TargetExists),
            ("loop", ErrorKind::TargetExists),
            ("nodir/x", ErrorKind::UnsafeTarget),
            ("file/x", ErrorKind::UnsafeTarget),
            ("file/x/y", ErrorKind::UnsafeTarget),
            ("dangling/x", ErrorKind::UnsafeTarget),
            ("loop/x", ErrorKind::UnsafeTarget),
            (long.as_str(), ErrorKind::UnsafeTarget),
        ] {
            assert_eq!(
                HandOut::create(&at(name)).unwrap_err().kind(),
                kind,
                "{name}"
            );
            assert_eq!(is_folder(&at(name)).unwrap_err().kind(), kind, "{name}");
        }
        let above = HandOut::create(&at("..")).unwrap_err();
        assert_eq!(above.kind(), ErrorKind::UnsafeTarget);
        // As long as a name can be.
        let out = begun(&at(&"x".repeat(255)));
        out.publish().unwrap();
    }

    #[test]
    fn a_set_is_taken_back_but_for_what_is_not_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, inner) = (dir.path().join("a"), dir.path().join("a/b"));
        let make = || {
            let mut set = HandOutSet::default();
            set.create_dir(&folder).unwrap();
            set.create_dir(&inner).unwrap();
            for file in [folder.join("1"), inner.join("2")] {
                set.publish(begun(&file)).unwrap();
            }
            set
        };
        drop(make());
        assert_eq!(names(dir.path()), [""; 0]);

        let mut set = make();
        // Somebody moved a file of ours away and put theirs there.
        std::fs::rename(inner.join("2"), dir.path().join("moved")).unwrap();
        std::fs::write(inner.join("2"), b"theirs").unwrap();
        assert_eq!(set.take_back(), [""; 0].map(PathBuf::from));
        assert_eq!(std::fs::read(inner.join("2")).unwrap(), b"theirs");
        assert_eq!(names(&folder), ["b"]);
        std::fs::remove_dir_all(&folder).unwrap();

        make().keep();
        assert_eq!(
            (names(&folder), names(&inner)),
            (vec!["1".into(), "b".into()], vec!["2".into()])
        );
    }
}
