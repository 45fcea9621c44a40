//! The folders in which each harness keeps its files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::env::Env;
use crate::model::path::normalise;
use crate::model::provider::Provider;
use crate::sources::config::Config;
use crate::sources::harness::harness;

/// One root of a harness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderRoot {
    /// The harness.
    pub provider: Provider,
    /// The folder, as named; it may be a link.
    pub path: PathBuf,
    /// Whether a setting or variable named it: a missing one is then worth a word.
    pub named: bool,
}

/// The root that `path` lies in or that lies in `path`, by real names: nothing of ours belongs
/// there, and a harness's own files would be captured as sessions or written over.
#[must_use]
pub fn overlapping(env: &Env, config: &Config, path: &Path) -> Option<PathBuf> {
    let mut names = RealNames::default();
    let path = names.of(path);
    roots(env, config)
        .into_iter()
        .find(|root| {
            // Where a harness has files at the top of its root alone, a folder in it is no part.
            let walked = !harness(root.provider).areas().is_empty();
            let root = names.of(&root.path);
            walked && path.starts_with(&root) || root.starts_with(&path)
        })
        .map(|root| root.path)
}

/// The real name of `path`, as far as it exists.
#[must_use]
pub fn real(path: &Path) -> PathBuf {
    RealNames::default().of(path)
}

/// Real names, each folder looked at once: a hundred roots lie in few.
#[derive(Default)]
struct RealNames {
    /// By absolute path; whether it exists.
    known: HashMap<PathBuf, (PathBuf, bool)>,
}

impl RealNames {
    fn of(&mut self, path: &Path) -> PathBuf {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        self.look(&normalise(&path)).0
    }

    fn look(&mut self, path: &Path) -> (PathBuf, bool) {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            let found = std::fs::canonicalize(path);
            let exists = found.is_ok();
            return (found.unwrap_or_else(|_| path.to_owned()), exists);
        };
        if let Some(known) = self.known.get(path) {
            return known.clone();
        }
        let (parent, exists) = self.look(parent);
        let full = parent.join(name);
        let meta = exists.then(|| std::fs::symlink_metadata(&full));
        let found = match meta {
            Some(Ok(m)) if m.is_symlink() => match std::fs::canonicalize(&full) {
                Ok(target) => (target, true),
                Err(_) => (full, false),
            },
            Some(Ok(_)) => (full, true),
            Some(Err(_)) | None => (full, false),
        };
        self.known.insert(path.to_owned(), found.clone());
        found
    }
}

/// The roots in force: the harness's own variable first, else its home default, then the extra
/// roots of the settings. Sorted by provider, then in that order; no path twice.
#[must_use]
pub fn roots(env: &Env, config: &Config) -> Vec<ProviderRoot> {
    let mut found: Vec<ProviderRoot> = Vec::new();
    for provider in Provider::ALL {
        let own = harness(provider)
            .homes(env)
            .into_iter()
            .map(|home| ProviderRoot {
                provider,
                path: home.path,
                named: home.named,
            });
        let extra = config
            .roots()
            .iter()
            .filter(|(p, _)| *p == provider)
            .map(|(_, path)| ProviderRoot {
                provider,
                path: path.clone(),
                named: true,
            });
        for mut root in own.into_iter().chain(extra) {
            root.path = normalise(&std::path::absolute(&root.path).unwrap_or(root.path));
            if !found
                .iter()
                .any(|f| f.provider == provider && f.path == root.path)
            {
                found.push(root);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    #[allow(clippy::disallowed_methods, clippy::disallowed_types)]
    fn a_real_name_follows_links_as_far_as_there_is_something() {
        let dir = tempfile::tempdir().unwrap();
        let top = std::fs::canonicalize(dir.path()).unwrap();
        std::fs::create_dir_all(top.join("a/b")).unwrap();
        std::fs::File::create_new(top.join("file")).unwrap();
        symlink(top.join("a"), top.join("link")).unwrap();
        symlink("link/b", top.join("relative")).unwrap();
        symlink("nowhere", top.join("dangling")).unwrap();
        let mut names = RealNames::default();
        for (named, found) in [
            ("a/b", "a/b"),
            ("link/b", "a/b"),
            ("link/new/x", "a/new/x"),
            ("relative/new", "a/b/new"),
            ("dangling/x", "dangling/x"),
            ("file/x/y", "file/x/y"),
            ("none/x", "none/x"),
        ] {
            assert_eq!(names.of(&top.join(named)), top.join(found), "{named}");
            assert_eq!(real(&top.join(named)), top.join(found), "{named}");
        }
        assert_eq!(real(Path::new("/")), Path::new("/"));
    }
}
