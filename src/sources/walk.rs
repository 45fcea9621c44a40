//! What lies below a harness's root now.
//!
//! Links: the root itself, and a folder directly below its session folder (a project), may be
//! links; each is followed once, guarded by device and inode. Everything else that is a link or no
//! regular file is reported and never opened.

use std::collections::BTreeSet;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use crate::model::provider::Provider;
use crate::sources::config::Config;
use crate::sources::database::{Unread, is_database_name, unread_members};
use crate::sources::file::Stat;
use crate::sources::harness::{Area, harness};
use crate::sources::roots::ProviderRoot;
use crate::sources::usage::{FileUse, usage};

/// One file found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundFile {
    /// The harness.
    pub provider: Provider,
    /// The path as the harness names it; the source's identity.
    pub path: PathBuf,
    /// The folder below which no link is followed.
    pub base: PathBuf,
    /// What it is for.
    pub usage: FileUse,
    /// The gate.
    pub stat: Stat,
}

/// Something that was met and not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Oddity {
    /// A link that is not followed.
    Link,
    /// A link to a folder that was followed once.
    FollowedLink,
    /// A link to a folder that was seen already.
    LinkLoop,
    /// A FIFO, socket or device.
    Special,
    /// A folder or file that can't be looked at.
    Unreadable,
    /// An exclude rule matches it.
    Excluded,
    /// A `-wal` or `-journal` that is no regular file: its database is taken without it.
    Sidecar,
}

/// What a walk reports, in the order of the walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Met {
    /// A file to capture.
    File(FoundFile),
    /// Something else, with what the system said where it failed.
    Odd {
        path: PathBuf,
        kind: Oddity,
        message: Option<String>,
    },
}

/// Whether a root is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RootState {
    /// A folder that can be listed.
    Present,
    /// Nothing there: the harness is not installed, or a setting points nowhere.
    Absent,
    /// There, but not to be listed.
    Unreadable,
}

/// Walks one root and reports what it meets, in a stable order. Reads names and metadata only.
pub fn walk(root: &ProviderRoot, config: &Config, met: &mut dyn FnMut(Met)) -> RootState {
    let odd = |met: &mut dyn FnMut(Met), path: &Path, kind, message: Option<String>| {
        met(Met::Odd {
            path: path.to_path_buf(),
            kind,
            message,
        });
    };
    let entries = match std::fs::read_dir(&root.path) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return RootState::Absent,
        Err(e) => {
            odd(met, &root.path, Oddity::Unreadable, Some(e.to_string()));
            return RootState::Unreadable;
        }
    };
    let mut names: Vec<_> = entries
        .filter_map(|e| e.ok().map(|e| e.file_name()))
        .collect();
    names.sort();
    for name in names {
        if let Some(usage) = usage(root.provider, Path::new(&name)) {
            let path = root.path.join(name);
            take(root, &root.path, &path, usage, config, met);
        }
    }

    let mut seen: BTreeSet<(u64, u64)> = BTreeSet::new();
    for area in harness(root.provider).areas() {
        let top = root.path.join(area.rel);
        match std::fs::symlink_metadata(&top) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            Err(e) => {
                odd(met, &top, Oddity::Unreadable, Some(e.to_string()));
                continue;
            }
            Ok(meta) if meta.is_symlink() => odd(met, &top, Oddity::FollowedLink, None),
            Ok(_) => {}
        }
        if config.excludes(&top) {
            odd(met, &top, Oddity::Excluded, None);
            continue;
        }
        if !enter(&top, &mut seen, met) {
            continue;
        }
        let mut linked = Vec::new();
        descend(root, area, &top, &mut linked, &mut seen, config, met);
        // Links are followed after everything that is really there, so that a link into the tree
        // never takes the place of the folder itself.
        for link in linked {
            // A link to a folder that holds the root itself leads everywhere but to a project.
            if let (Ok(wide), Ok(real)) = (
                std::fs::canonicalize(&link),
                std::fs::canonicalize(&root.path),
            ) && real.starts_with(&wide)
            {
                odd(met, &link, Oddity::LinkLoop, None);
                continue;
            }
            if std::fs::canonicalize(&link).is_ok_and(|real| config.excludes(&real)) {
                odd(met, &link, Oddity::Excluded, None);
                continue;
            }
            if enter(&link, &mut seen, met) {
                odd(met, &link, Oddity::FollowedLink, None);
                descend(root, area, &link, &mut Vec::new(), &mut seen, config, met);
            }
        }
    }
    RootState::Present
}

/// Notes a folder, reached with or without a link; false when it was walked already or can't be.
fn enter(path: &Path, seen: &mut BTreeSet<(u64, u64)>, met: &mut dyn FnMut(Met)) -> bool {
    match std::fs::metadata(path) {
        Ok(m) if m.is_dir() => {
            let fresh = seen.insert((m.dev(), m.ino()));
            if !fresh {
                met(Met::Odd {
                    path: path.to_path_buf(),
                    kind: Oddity::LinkLoop,
                    message: None,
                });
            }
            fresh
        }
        Ok(_) => {
            met(Met::Odd {
                path: path.to_path_buf(),
                kind: Oddity::Unreadable,
                message: Some("it is not a folder".to_owned()),
            });
            false
        }
        Err(e) => {
            let message = Some(e.to_string());
            met(Met::Odd {
                path: path.to_path_buf(),
                kind: Oddity::Unreadable,
                message,
            });
            false
        }
    }
}

fn descend(
    root: &ProviderRoot,
    area: &Area,
    top: &Path,
    linked: &mut Vec<PathBuf>,
    seen: &mut BTreeSet<(u64, u64)>,
    config: &Config,
    met: &mut dyn FnMut(Met),
) {
    let at_area = top == root.path.join(area.rel);
    // A rule holds for the real name as well, when links or dots lead here.
    let real_top = std::fs::canonicalize(top).ok().filter(|real| real != top);
    let excluded = |path: &Path| {
        let real = real_top
            .as_ref()
            .zip(path.strip_prefix(top).ok())
            .map(|(real, rel)| real.join(rel));
        config.excludes(path) || real.is_some_and(|real| config.excludes(&real))
    };
    let mut walk = WalkDir::new(top)
        .max_depth(area.depth)
        .follow_links(false)
        .follow_root_links(true)
        // By name: what is compared lies in one folder, and a whole path needs no taking apart.
        .sort_by(|a, b| a.path().as_os_str().cmp(b.path().as_os_str()))
        .into_iter();
    while let Some(entry) = walk.next() {
        let entry = match entry {
            Ok(entry) => entry,
            // Gone between listing and looking: the harness prunes while we walk.
            Err(e)
                if e.depth() > 0
                    && e.io_error()
                        .is_some_and(|e| e.kind() == std::io::ErrorKind::NotFound) =>
            {
                continue;
            }
            Err(e) => {
                let path = e.path().unwrap_or(top).to_path_buf();
                let message = Some(e.to_string());
                met(Met::Odd {
                    path,
                    kind: Oddity::Unreadable,
                    message,
                });
                continue;
            }
        };
        if entry.depth() == 0 {
            continue;
        }
        let kind = entry.file_type();
        let path = entry.path();
        if kind.is_dir() {
            if excluded(path) {
                // A link to it is no way around the rule.
                if let Ok(m) = entry.metadata() {
                    seen.insert((m.dev(), m.ino()));
                }
                let path = path.to_path_buf();
                met(Met::Odd {
                    path,
                    kind: Oddity::Excluded,
                    message: None,
                });
                walk.skip_current_dir();
            } else if at_area
                && area.linked_projects
                && entry.depth() == 1
                && let Ok(m) = entry.metadata()
            {
                seen.insert((m.dev(), m.ino()));
            }
            continue;
        }
        if kind.is_symlink() && at_area && area.linked_projects && entry.depth() == 1 {
            match std::fs::metadata(path) {
                Ok(m) if m.is_dir() && !excluded(path) => {
                    linked.push(path.to_path_buf());
                    continue;
                }
                _ => {}
            }
        }
        let rel = path.strip_prefix(&root.path).unwrap_or(path);
        if let Some(usage) = usage(root.provider, rel) {
            if excluded(path) {
                let path = path.to_path_buf();
                met(Met::Odd {
                    path,
                    kind: Oddity::Excluded,
                    message: None,
                });
                continue;
            }
            take(root, top, path, usage, config, met);
        } else if kind.is_symlink() {
            met(Met::Odd {
                path: path.to_path_buf(),
                kind: Oddity::Link,
                message: None,
            });
        }
    }
}

fn take(
    root: &ProviderRoot,
    base: &Path,
    path: &Path,
    usage: FileUse,
    config: &Config,
    met: &mut dyn FnMut(Met),
) {
    let odd = |kind, message| Met::Odd {
        path: path.to_path_buf(),
        kind,
        message,
    };
    if config.excludes(path) {
        met(odd(Oddity::Excluded, None));
        return;
    }
    let meta = match std::fs::symlink_metadata(path) {
        Ok(meta) => meta,
        // Gone between listing and looking: the next run sees it so.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return,
        Err(e) => {
            met(odd(Oddity::Unreadable, Some(e.to_string())));
            return;
        }
    };
    let kind = meta.file_type();
    if kind.is_file() {
        if is_database_name(path) {
            for (path, why) in unread_members(path) {
                let (kind, message) = match why {
                    Unread::NotAFile => (Oddity::Sidecar, None),
                    Unread::Denied => (Oddity::Unreadable, None),
                };
                met(Met::Odd {
                    path,
                    kind,
                    message,
                });
            }
        }
        met(Met::File(FoundFile {
            provider: root.provider,
            path: path.to_path_buf(),
            base: base.to_path_buf(),
            usage,
            stat: Stat::of(&meta),
        }));
    } else if kind.is_symlink() {
        met(odd(Oddity::Link, None));
    } else if kind.is_fifo() || kind.is_socket() || kind.is_char_device() || kind.is_block_device()
    {
        met(odd(Oddity::Special, None));
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn root(path: &Path) -> ProviderRoot {
        ProviderRoot {
            provider: Provider::Claude,
            path: path.to_path_buf(),
            named: true,
        }
    }

    fn all(root: &ProviderRoot) -> (Vec<PathBuf>, Vec<(PathBuf, Oddity)>) {
        let (mut files, mut odd) = (Vec::new(), Vec::new());
        walk(root, &Config::default(), &mut |m| match m {
            Met::File(f) => files.push(f.path.strip_prefix(&root.path).unwrap().to_path_buf()),
            Met::Odd { path, kind, .. } => {
                odd.push((path.strip_prefix(&root.path).unwrap().to_path_buf(), kind));
            }
        });
        (files, odd)
    }

    #[test]
    fn links_are_followed_once_and_loops_end() {
        let dir = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let p = dir.path().join("projects");
        std::fs::create_dir_all(p.join("a")).unwrap();
        std::fs::write(p.join("a/s.jsonl"), "{}\n").unwrap();
        std::fs::write(elsewhere.path().join("t.jsonl"), "{}\n").unwrap();
        symlink(elsewhere.path(), p.join("linked")).unwrap();
        symlink(elsewhere.path(), p.join("linked-again")).unwrap();
        symlink(&p, p.join("loop")).unwrap();
        symlink(p.join("a"), p.join("a2")).unwrap();
        symlink(p.join("a/s.jsonl"), p.join("a/link.jsonl")).unwrap();
        symlink(elsewhere.path(), p.join("a/deep")).unwrap();
        let (files, odd) = all(&root(dir.path()));
        assert_eq!(
            files,
            [
                PathBuf::from("projects/a/s.jsonl"),
                PathBuf::from("projects/linked/t.jsonl")
            ]
        );
        for (name, kind) in [
            ("projects/linked", Oddity::FollowedLink),
            ("projects/linked-again", Oddity::LinkLoop),
            ("projects/loop", Oddity::LinkLoop),
            ("projects/a2", Oddity::LinkLoop),
            ("projects/a/link.jsonl", Oddity::Link),
            ("projects/a/deep", Oddity::Link),
        ] {
            assert!(
                odd.contains(&(PathBuf::from(name), kind)),
                "{name} {kind:?} in {odd:?}"
            );
        }
    }

    #[test]
    fn a_shallow_area_is_not_walked_to_its_bottom() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("globalStorage/an.extension");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(dir.path().join("globalStorage/state.vscdb"), "x").unwrap();
        std::fs::write(deep.join("f"), "x").unwrap();
        // A link down there is nobody's business.
        symlink(deep.join("f"), deep.join("link")).unwrap();
        let root = ProviderRoot {
            provider: Provider::Cursor,
            ..root(dir.path())
        };
        let (files, odd) = all(&root);
        assert_eq!(files, [PathBuf::from("globalStorage/state.vscdb")]);
        assert!(odd.is_empty(), "{odd:?}");
    }

    #[test]
    fn special_files_are_reported_and_siblings_are_evidence() {
        let dir = tempfile::tempdir().unwrap();
        let p = dir.path().join("projects/a");
        std::fs::create_dir_all(p.join("u/tool-results")).unwrap();
        std::fs::write(p.join("u/tool-results/x.txt"), "x").unwrap();
        std::fs::write(p.join("notes.md"), "x").unwrap();
        std::fs::write(dir.path().join("history.jsonl"), "{}").unwrap();
        std::fs::write(dir.path().join("settings.json"), "{}").unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            p.join("f.jsonl"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        let (files, odd) = all(&root(dir.path()));
        assert_eq!(
            files,
            [
                PathBuf::from("history.jsonl"),
                PathBuf::from("projects/a/u/tool-results/x.txt")
            ]
        );
        assert_eq!(
            odd,
            [(PathBuf::from("projects/a/f.jsonl"), Oddity::Special)]
        );
    }

    #[test]
    fn a_folder_that_goes_while_it_is_walked_is_no_failure() {
        let dir = tempfile::tempdir().unwrap();
        let p = dir.path().join("projects");
        for name in ["a", "b", "c"] {
            std::fs::create_dir_all(p.join(name).join("u")).unwrap();
            std::fs::write(p.join(name).join("s.jsonl"), "{}\n").unwrap();
        }
        let (mut files, mut odd) = (0, Vec::new());
        walk(&root(dir.path()), &Config::default(), &mut |m| match m {
            Met::File(_) => {
                files += 1;
                let _ = std::fs::remove_dir_all(p.join("b"));
            }
            Met::Odd { path, .. } => odd.push(path),
        });
        assert_eq!((files, odd), (2, Vec::new()));
    }

    #[test]
    fn a_file_where_a_folder_belongs_can_not_be_read() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("projects"), "x").unwrap();
        let (files, odd) = all(&root(dir.path()));
        assert!(files.is_empty());
        assert_eq!(odd, [(PathBuf::from("projects"), Oddity::Unreadable)]);
    }

    #[test]
    fn an_absent_root_is_told_from_an_empty_one() {
        let dir = tempfile::tempdir().unwrap();
        let c = Config::default();
        assert_eq!(walk(&root(dir.path()), &c, &mut |_| {}), RootState::Present);
        assert_eq!(
            walk(&root(&dir.path().join("no")), &c, &mut |_| {}),
            RootState::Absent
        );
    }
}
