//! The session files at a path, and those that were there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::read::head;
use super::whose::{KnownBy, Surroundings, Whose, absolute};
use crate::error::{Error, Result};
use crate::model::provider::Provider;
use crate::model::source::{LOCAL, SourceKey};
use crate::sources::roots::real;
use crate::sources::usage::{FileUse, Usages};
use crate::sources::walk::{Met, walk};
use crate::store::mirror::MirrorReader;

/// Files in a folder that is no harness's which are looked into, by the ends of their names.
const LOOKED_INTO: &[&str] = &[
    ".jsonl",
    ".json",
    ".jsonl.zst",
    ".json.zst",
    ".db",
    ".sqlite",
    ".vscdb",
];

/// One file to be examined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Where it lies.
    pub path: PathBuf,
    /// Whose it is; `None` where that is not known.
    pub whose: Option<Whose>,
}

/// What a walk left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passed {
    /// Files that are no session's.
    pub others: u64,
}

/// The session files at `path`, a file or a folder, in the order of their paths. `skip` says which
/// are another's business. Of a file that is named the harness may stay unknown.
///
/// # Errors
/// `not-found`; why a file that is named can't be read, or a folder not listed; what `stop`
/// returns.
pub fn find(
    path: &Path,
    around: &Surroundings,
    skip: &dyn Fn(&Path) -> bool,
    stop: &dyn Fn() -> Result<()>,
) -> Result<(Vec<Found>, Passed)> {
    let meta = std::fs::metadata(path).map_err(|e| Error::io("look at", path, e))?;
    let mut passed = Passed::default();
    if !meta.is_dir() {
        let whose = around.whose(path, &head(path)?);
        return Ok((
            vec![Found {
                path: path.to_owned(),
                whose,
            }],
            passed,
        ));
    }
    let folder = real(&absolute(path));
    let mut found = Vec::new();
    let mut walked = Vec::new();
    let mut seen = BTreeSet::new();
    for (root, at) in &around.roots {
        if root.provider == Provider::Dsh || !(folder.starts_with(at) || at.starts_with(&folder)) {
            continue;
        }
        walked.push((root.clone(), at.clone()));
        walk(root, &around.config, &mut |met| {
            let Met::File(file) = met else { return };
            let full = real(&file.path);
            if file.usage != FileUse::Session || !full.starts_with(&folder) || skip(&file.path) {
                return;
            }
            if seen.insert(full) {
                found.push(Found {
                    whose: Some(Whose {
                        provider: file.provider,
                        by: KnownBy::Root,
                        usage: file.usage,
                        source: file.path.clone(),
                    }),
                    path: file.path,
                });
            }
        });
        stop()?;
    }
    // Below a known root only what the harness's own layout names is a session.
    if !walked
        .iter()
        .any(|(root, at)| folder.starts_with(at) && is_tree(root.provider))
    {
        let data_dir = &around.data_dir;
        let mut below = walkdir::WalkDir::new(path).sort_by_file_name().into_iter();
        while let Some(next) = below.next() {
            stop()?;
            let Ok(entry) = next else { continue };
            if entry.file_type().is_dir() {
                let at = real(entry.path());
                let is_root = |(r, root): &(_, PathBuf)| root_is(r, &at, root);
                if at == *data_dir || entry.file_name() == ".git" || walked.iter().any(is_root) {
                    below.skip_current_dir();
                }
                continue;
            }
            if !entry.file_type().is_file()
                || skip(entry.path())
                || seen.contains(&real(entry.path()))
            {
                continue;
            }
            match unplaced(entry.path(), around) {
                Some(whose) => found.push(Found {
                    path: entry.path().to_owned(),
                    whose: Some(whose),
                }),
                None => passed.others += 1,
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok((found, passed))
}

/// Whether all of a harness's root is the harness's: others keep files at the top of projects.
fn is_tree(provider: Provider) -> bool {
    !crate::sources::harness::harness(provider)
        .areas()
        .is_empty()
}

fn root_is(root: &crate::sources::roots::ProviderRoot, at: &Path, real: &Path) -> bool {
    at == real && is_tree(root.provider)
}

/// Whose a file is that lies in no harness's folder, if it holds a session.
fn unplaced(path: &Path, around: &Surroundings) -> Option<Whose> {
    if let Some(whose) = around.by_root(path) {
        return Some(whose).filter(|w| w.usage == FileUse::Session);
    }
    let name = path.file_name()?.as_encoded_bytes();
    let head = if LOOKED_INTO.iter().any(|end| name.ends_with(end.as_bytes())) {
        head(path).ok()?
    } else {
        Vec::new()
    };
    around
        .whose(path, &head)
        .filter(|w| w.provider != Provider::Dsh && w.usage == FileUse::Session)
}

/// Captured session files that were at or below `path` and are there no longer.
///
/// # Errors
/// Errors of the mirror as a whole.
pub fn gone(path: &Path, around: &Surroundings, mirror: &MirrorReader<'_>) -> Result<Vec<Found>> {
    let path = absolute(path);
    let is_folder = path.is_dir();
    let roots: Vec<_> = around.roots.iter().map(|(root, _)| root.clone()).collect();
    let usages = Usages::new(&roots);
    let mut found = Vec::new();
    let mut add = |provider: Provider, at: &Path| {
        let is_gone = std::fs::symlink_metadata(at).is_err_and(|e| {
            matches!(
                e.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            )
        });
        if is_gone && provider != Provider::Dsh && usages.of(provider, at) == Some(FileUse::Session)
        {
            found.push(Found {
                path: at.to_owned(),
                whose: Some(Whose {
                    provider,
                    by: KnownBy::Archive,
                    usage: FileUse::Session,
                    source: at.to_owned(),
                }),
            });
        }
    };
    if !is_folder {
        for provider in Provider::ALL {
            let key = SourceKey::derive(LOCAL, provider, &path);
            if mirror.indexed_head(key)?.is_some() {
                add(provider, &path);
            }
        }
        return Ok(found);
    }
    mirror.for_each_head(&mut |head| {
        let ident = &head.ident;
        if ident.source_id == LOCAL && ident.path.starts_with(&path) {
            add(ident.provider, &ident.path);
        }
        Ok(())
    })?;
    Ok(found)
}
