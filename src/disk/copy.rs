//! Whole files copied, moved aside or taken away inside the data directory.

use std::fs::File;
use std::io::{Read, Write};

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::capture::Capture;
use super::root::{EntryKind, FILE_MODE, Root};
use crate::error::{Error, ErrorKind, Result};

/// Bytes between two looks for a signal, and what is held of a file at once.
const PIECE: usize = 1 << 20;
/// Names the live generation.
const CURRENT: &str = "CURRENT";
/// Folder of the archive generations.
const GENERATIONS: &str = "generations";
/// What a generation's folder may hold before it is live, and nothing else.
const CANDIDATE_FILES: [&str; 5] = [
    "agent_search.db",
    "agent_search.db-wal",
    "agent_search.db-shm",
    "agent_search.db-journal",
    "manifest.json",
];
/// In a generation's folder: that it was live, and what its files were then.
const SEAL: &str = "seal.json";

/// A file that was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    /// Bytes.
    pub len: u64,
    /// BLAKE3 of the bytes that were read, and of those that are in the target.
    pub hash: blake3::Hash,
}

impl Capture<'_> {
    /// Copies the regular file `from_rel` of `from` byte for byte into a new file of the data
    /// directory, mode 0600, in a folder that is there; file and folder are synced. The bytes are
    /// hashed as they are read, and after the sync the target is opened again, read and hashed
    /// (from the page cache, as far as the kernel keeps it): both hashes are equal when this
    /// returns. No block is shared with the source: damage of one would be damage of both. `go_on`
    /// is asked between pieces. A target that could not be finished is removed; a killed process
    /// leaves a part of it. No connection to a database in `from_rel` may be open in this process.
    ///
    /// # Errors
    /// `no-space` with `required_bytes` and `free_bytes`; `target-exists`; `unsafe-target` when the
    /// source is no regular file; `io` when it is gone, changes, or can't be read back the same;
    /// `permission-denied`; what `go_on` says.
    pub fn copy_new(
        &self,
        from: &Root,
        from_rel: &str,
        to_rel: &str,
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<Copied> {
        let root = self.root();
        let source = from.open_file(from_rel)?.ok_or_else(|| {
            Error::new(
                ErrorKind::Io,
                format!(
                    "{} is not there to be copied",
                    from.full(from_rel).display()
                ),
            )
            .with_context("path", from_rel)
        })?;
        let expected = len_of(from, from_rel, &source)?;
        let (dir, name) = root
            .parent(to_rel)
            .map_err(|e| root.failed("open folder of", to_rel, e))?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let target = match rustix::fs::openat(&dir, name, flags | OFlags::CLOEXEC, FILE_MODE) {
            Ok(fd) => File::from(fd),
            Err(Errno::EXIST) => return Err(taken(root, to_rel)),
            Err(e) => return Err(root.failed("create", to_rel, e)),
        };
        let copied = fill(
            root, from, from_rel, to_rel, source, target, expected, go_on,
        )
        .and_then(|copied| {
            rustix::fs::fsync(&dir).map_err(|e| root.failed("sync folder of", to_rel, e))?;
            Ok(copied)
        });
        if copied.is_err() {
            let _ = rustix::fs::unlinkat(&dir, name, AtFlags::empty());
        }
        copied
    }

    /// Gives a file or folder of the data directory another name in it, in a folder that is there,
    /// never over something; the folders of both names are synced. Refuses what must stay where it
    /// is: `CURRENT` and the generation it names, the ledgers, the mirror, the locks.
    ///
    /// # Errors
    /// `target-exists`; `unsafe-target` for what must stay; `no-space`, `permission-denied`, `io`.
    pub fn move_aside(&self, rel: &str, to_rel: &str) -> Result<()> {
        let root = self.root();
        let top = rel.split('/').next().unwrap_or_default();
        let moves = ["generations", "backups", "derived", "doctor"].contains(&top) && top != rel;
        // A damaged coverage ledger makes room for a new one and is kept.
        let renewed = rel == "coverage.jsonl" && to_rel.starts_with("doctor/quarantine/");
        let live = live(root)?.map(|id| format!("{GENERATIONS}/{id}"));
        let is_live = live.is_some_and(|live| {
            rel == live || rel.strip_prefix(&live).is_some_and(|r| r.starts_with('/'))
        });
        if !(moves || renewed) || is_live {
            return Err(refused(root, rel, "is never moved"));
        }
        let failed = |e| root.failed("move aside", rel, e);
        let (from_dir, from) = root.parent(rel).map_err(failed)?;
        let (to_dir, to) = root
            .parent(to_rel)
            .map_err(|e| root.failed("open folder of", to_rel, e))?;
        let (here, there) = (&from_dir, &to_dir);
        match rustix::fs::renameat_with(here, from, there, to, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(taken(root, to_rel)),
            // Not every file system has this rename. Only the lock's holder makes names here.
            Err(Errno::NOSYS | Errno::INVAL | Errno::NOTSUP) => {
                match rustix::fs::statat(there, to, AtFlags::SYMLINK_NOFOLLOW) {
                    Err(Errno::NOENT) => {}
                    Ok(_) => return Err(taken(root, to_rel)),
                    Err(e) => return Err(root.failed("look up", to_rel, e)),
                }
                rustix::fs::renameat(here, from, there, to).map_err(failed)?;
            }
            Err(e) => return Err(failed(e)),
        }
        // The new name first: it must not be lost when the old one is.
        rustix::fs::fsync(&to_dir).map_err(|e| root.failed("sync folder of", to_rel, e))?;
        rustix::fs::fsync(&from_dir).map_err(|e| root.failed("sync folder of", rel, e))
    }

    /// Removes `generations/<id>`, a generation that was never live: its database, sidecars and
    /// manifest, and the folder. Gone already is fine. All or nothing is removed as far as what is
    /// in it is concerned: a name that is not known is a refusal, before anything is removed.
    ///
    /// # Errors
    /// `unsafe-target` when `id` is no generation's, when `CURRENT` names it or can't be read, when
    /// a seal is in it, or anything that a candidate does not have; `permission-denied`, `io`.
    pub fn remove_candidate(&self, id: &str) -> Result<()> {
        let root = self.root();
        let folder = format!("{GENERATIONS}/{id}");
        let named = id
            .strip_prefix('g')
            .is_some_and(|n| n.len() == 8 && n.bytes().all(|b| b.is_ascii_digit()));
        if !named {
            return Err(refused(root, &folder, "is no generation"));
        }
        if live(root)?.as_deref() == Some(id) {
            return Err(refused(root, &folder, "is the live generation"));
        }
        let temp = format!(".{}.tmp", CANDIDATE_FILES[4]);
        let known = |name: &str| CANDIDATE_FILES.contains(&name) || name == temp;
        self.remove_flat(&folder, &known, |name| match name {
            SEAL => "was live and is sealed",
            _ => "holds something that no candidate has",
        })
    }

    /// Removes a folder whose name begins with a dot and the files in it: what a killed writer
    /// had not finished and no reader knows of. Gone already is fine.
    ///
    /// # Errors
    /// `unsafe-target` when the name begins otherwise or a folder is in it; `permission-denied`,
    /// `io`.
    pub fn remove_unfinished(&self, rel: &str) -> Result<()> {
        let root = self.root();
        let name = rel.rsplit('/').next().unwrap_or_default();
        if !name.starts_with('.') || name.len() < 2 || name == ".." {
            return Err(refused(root, rel, "is not known to be unfinished"));
        }
        self.remove_flat(rel, &|_| true, |_| "holds a folder")
    }

    /// Removes a folder and its files, if all of them are `known` and none is a folder.
    fn remove_flat(
        &self,
        folder: &str,
        known: &dyn Fn(&str) -> bool,
        why_not: fn(&str) -> &'static str,
    ) -> Result<()> {
        let root = self.root();
        let failed = |e| root.failed("remove", folder, e);
        let (above, name) = match root.parent(folder) {
            Ok(found) => found,
            Err(Errno::NOENT) => return Ok(()),
            Err(e) => return Err(failed(e)),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let dir = match root.open_at(folder, flags, Mode::empty()) {
            Ok(dir) => dir,
            Err(Errno::NOENT) => return Ok(()),
            Err(Errno::NOTDIR | Errno::LOOP) => {
                return Err(refused(root, folder, "is no folder"));
            }
            Err(e) => return Err(failed(e)),
        };
        let entries = root.list(folder)?.unwrap_or_default();
        if let Some(other) = entries
            .iter()
            .find(|e| e.kind == EntryKind::Dir || !known(&e.name))
        {
            return Err(
                refused(root, folder, why_not(&other.name)).with_context("entry", &other.name)
            );
        }
        // The manifest first: what has none is no whole generation.
        for entry in entries.iter().rev() {
            match rustix::fs::unlinkat(&dir, entry.name.as_str(), AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(e) => return Err(failed(e)),
            }
        }
        match rustix::fs::unlinkat(&above, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(e) => return Err(failed(e)),
        }
        rustix::fs::fsync(&above).map_err(|e| root.failed("sync folder of", folder, e))
    }
}

/// The id that `CURRENT` holds; `None` when it is not there.
fn live(root: &Root) -> Result<Option<String>> {
    let Some(bytes) = root.read(CURRENT, 4096)? else {
        return Ok(None);
    };
    // What can't be read may name anything: nothing is removed then.
    std::str::from_utf8(&bytes)
        .ok()
        .and_then(|t| t.strip_suffix('\n'))
        .filter(|t| t.len() == 9 && t.starts_with('g'))
        .map(|t| Some(t.to_owned()))
        .ok_or_else(|| refused(root, CURRENT, "names no generation, so that none may go"))
}

#[allow(clippy::too_many_arguments)]
fn fill(
    root: &Root,
    from: &Root,
    from_rel: &str,
    to_rel: &str,
    mut source: File,
    mut target: File,
    expected: u64,
    go_on: &dyn Fn() -> Result<()>,
) -> Result<Copied> {
    let full = root.full(to_rel);
    let write_failed = |e: std::io::Error| {
        let error = Error::io("write", &full, e);
        if error.kind() != ErrorKind::NoSpace {
            return error;
        }
        let free = root.free_bytes().unwrap_or(0);
        Error::new(
            ErrorKind::NoSpace,
            format!(
                "{expected} bytes are needed for {}, {free} are free now",
                full.display()
            ),
        )
        .with_hint("Make room on the data directory's file system.")
        .with_context("required_bytes", expected.to_string())
        .with_context("free_bytes", free.to_string())
        .with_source(error)
    };
    let read = |e| Error::io("read", &from.full(from_rel), e);
    // One byte more tells that it grew, however fast it does.
    let mut bounded = (&mut source).take(expected.saturating_add(1));
    let (len, hash) = hashed(&mut bounded, go_on, &read, &mut |piece| {
        target.write_all(piece).map_err(write_failed)
    })?;
    target.sync_all().map_err(write_failed)?;
    drop(target);
    if len != expected || len_of(from, from_rel, &source)? != expected {
        return Err(Error::new(
            ErrorKind::Io,
            format!(
                "{} changed while it was copied",
                from.full(from_rel).display()
            ),
        )
        .with_context("path", from_rel));
    }
    let mut again = root
        .open_file(to_rel)?
        .ok_or_else(|| Error::new(ErrorKind::Io, format!("{} vanished", full.display())))?;
    let reread = |e| Error::io("read back", &full, e);
    let back = hashed(&mut again, go_on, &reread, &mut |_| Ok(()))?;
    if back != (len, hash) {
        return Err(Error::new(
            ErrorKind::Io,
            format!("{} does not read back as it was written", full.display()),
        )
        .with_context("path", to_rel));
    }
    Ok(Copied { len, hash })
}

/// Length and BLAKE3 of the rest of a file, a piece at a time.
fn hashed(
    file: &mut dyn Read,
    go_on: &dyn Fn() -> Result<()>,
    failed: &dyn Fn(std::io::Error) -> Error,
    each: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<(u64, blake3::Hash)> {
    let mut buffer = vec![0u8; PIECE];
    let mut hasher = blake3::Hasher::new();
    let mut len = 0u64;
    loop {
        go_on()?;
        let n = match file.read(&mut buffer) {
            Ok(0) => return Ok((len, hasher.finalize())),
            Ok(n) => n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(failed(e)),
        };
        let piece = &buffer[..n];
        hasher.update(piece);
        len = len.saturating_add(u64::try_from(n).unwrap_or(u64::MAX));
        each(piece)?;
    }
}

fn len_of(root: &Root, rel: &str, file: &File) -> Result<u64> {
    file.metadata()
        .map(|m| m.len())
        .map_err(|e| Error::io("stat", &root.full(rel), e))
}

fn taken(root: &Root, rel: &str) -> Error {
    Error::new(
        ErrorKind::TargetExists,
        format!("{} exists already", root.full(rel).display()),
    )
}

fn refused(root: &Root, rel: &str, why: &str) -> Error {
    Error::new(
        ErrorKind::UnsafeTarget,
        format!("{} {why}", root.full(rel).display()),
    )
    .with_context("path", rel)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;
    use crate::disk::WriterLock;
    use std::os::unix::fs::PermissionsExt;

    fn fine() -> Result<()> {
        Ok(())
    }

    fn with(f: impl FnOnce(Capture<'_>, &std::path::Path)) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path()).unwrap().unwrap();
        let lock = WriterLock::acquire(root, "test", 0).unwrap();
        f(Capture::new(&lock), dir.path());
    }

    #[test]
    fn a_copy_has_the_bytes_the_mode_and_the_hash() {
        with(|cap, dir| {
            let bytes: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
            std::fs::write(dir.join("a"), &bytes).unwrap();
            cap.create_dir("backups").unwrap();
            let got = cap.copy_new(cap.root(), "a", "backups/b", &fine).unwrap();
            assert_eq!((got.len, got.hash), (3_000_000, blake3::hash(&bytes)));
            let target = dir.join("backups/b");
            assert_eq!(std::fs::read(&target).unwrap(), bytes);
            let mode = std::fs::metadata(&target).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            let again = cap.copy_new(cap.root(), "a", "backups/b", &fine);
            assert_eq!(again.unwrap_err().kind(), ErrorKind::TargetExists);
            assert_eq!(std::fs::read(&target).unwrap(), bytes);
        });
    }

    #[test]
    fn what_ends_early_leaves_nothing_and_links_are_not_copied() {
        with(|cap, dir| {
            std::fs::write(dir.join("a"), vec![7; 5 << 20]).unwrap();
            let asked = std::cell::Cell::new(0);
            let stop = || {
                asked.set(asked.get() + 1);
                match asked.get() {
                    1..=3 => Ok(()),
                    _ => Err(Error::new(ErrorKind::Interrupted, "stop")),
                }
            };
            let e = cap.copy_new(cap.root(), "a", "b", &stop).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Interrupted);
            assert!(!dir.join("b").exists());
            std::os::unix::fs::symlink(dir.join("a"), dir.join("l")).unwrap();
            for (from, kind) in [("l", ErrorKind::UnsafeTarget), ("none", ErrorKind::Io)] {
                let e = cap.copy_new(cap.root(), from, "b", &fine).unwrap_err();
                assert_eq!(e.kind(), kind, "{from}");
                assert!(!dir.join("b").exists());
            }
            // A link with the target's name is a taken name, wherever it leads.
            let e = cap.copy_new(cap.root(), "a", "l", &fine).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::TargetExists);
        });
    }

    #[test]
    fn a_source_that_grows_meanwhile_is_no_copy() {
        with(|cap, dir| {
            std::fs::write(dir.join("a"), vec![7; 3 << 20]).unwrap();
            let grow = || {
                use std::io::Write as _;
                let mut f = std::fs::File::options()
                    .append(true)
                    .open(dir.join("a"))
                    .unwrap();
                f.write_all(b"more").unwrap();
                Ok(())
            };
            let e = cap.copy_new(cap.root(), "a", "b", &grow).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Io, "{e}");
            assert!(!dir.join("b").exists());
        });
    }

    #[test]
    fn things_are_moved_aside_never_over_something_and_not_what_must_stay() {
        with(|cap, dir| {
            for folder in [
                "generations/g00000001",
                "generations/g00000002",
                "raw-mirror/packs",
                "doctor/quarantine",
            ] {
                cap.create_dir(folder).unwrap();
            }
            std::fs::write(dir.join("CURRENT"), "g00000001\n").unwrap();
            let kind = |a: &str, b: &str| cap.move_aside(a, b).map_err(|e| e.kind());
            for stays in [
                "CURRENT",
                "locks",
                "locks/writer.lock",
                "coverage.jsonl",
                "generations",
                "generations/g00000001",
                "generations/g00000001/x",
                "raw-mirror/packs",
            ] {
                assert_eq!(
                    kind(stays, "doctor/quarantine/x"),
                    Err(ErrorKind::UnsafeTarget),
                    "{stays}"
                );
            }
            let (from, to) = ("generations/g00000002", "doctor/quarantine/g00000002");
            assert_eq!(kind(from, to), Ok(()));
            assert!(dir.join(to).is_dir() && !dir.join(from).exists());
            cap.create_dir(from).unwrap();
            assert_eq!(kind(from, to), Err(ErrorKind::TargetExists));
            assert!(dir.join(from).is_dir());
        });
    }

    #[test]
    fn only_a_candidate_is_removed_and_only_if_all_of_it_is_known() {
        with(|cap, dir| {
            let make = |id: &str, names: &[&str]| {
                let folder = dir.join("generations").join(id);
                std::fs::create_dir_all(&folder).unwrap();
                for name in names {
                    std::fs::write(folder.join(name), "x").unwrap();
                }
            };
            std::fs::write(dir.join("CURRENT"), "g00000001\n").unwrap();
            make("g00000001", &["agent_search.db", "manifest.json"]);
            make("g00000002", &CANDIDATE_FILES);
            make("g00000003", &["agent_search.db", "seal.json"]);
            make("g00000004", &["agent_search.db", "notes.txt"]);
            let kind = |id: &str| cap.remove_candidate(id).map_err(|e| e.kind());
            for id in ["g00000001", "g00000003", "g00000004", "../x", "g1", ""] {
                assert_eq!(kind(id), Err(ErrorKind::UnsafeTarget), "{id}");
            }
            for n in [1, 3, 4] {
                assert_eq!(
                    std::fs::read_dir(dir.join(format!("generations/g0000000{n}")))
                        .unwrap()
                        .count(),
                    2
                );
            }
            assert_eq!(kind("g00000002"), Ok(()));
            assert!(!dir.join("generations/g00000002").exists());
            assert_eq!(kind("g00000002"), Ok(()));
            std::os::unix::fs::symlink(
                dir.join("generations/g00000001"),
                dir.join("generations/g00000009"),
            )
            .unwrap();
            assert_eq!(kind("g00000009"), Err(ErrorKind::UnsafeTarget));
            // A CURRENT that can't be read may name any of them.
            std::fs::write(dir.join("CURRENT"), "??").unwrap();
            assert_eq!(kind("g00000004"), Err(ErrorKind::UnsafeTarget));
            assert_eq!(
                cap.remove_unfinished("generations/g00000001")
                    .map_err(|e| e.kind()),
                Err(ErrorKind::UnsafeTarget)
            );
        });
    }
}
