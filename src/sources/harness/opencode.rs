//! OpenCode: `$XDG_DATA_HOME/opencode`, else `~/.local/share/opencode`, on every system. A database
//! that `$OPENCODE_DB` names may lie elsewhere.

use std::path::{Path, PathBuf};

use super::{Area, Harness, Home, area, parts, with_id, xdg_data};
use crate::env::Env;
use crate::sources::usage::FileUse;

pub(super) struct OpenCode;

const DATABASE: &str = "opencode.db";

impl Harness for OpenCode {
    fn homes(&self, env: &Env) -> Vec<Home> {
        let mut homes: Vec<Home> = xdg_data(env)
            .map(|data| Home::usual(data.join("opencode")))
            .into_iter()
            .collect();
        if let Some(db) = env.var("OPENCODE_DB").map(PathBuf::from)
            && db.is_absolute()
            && let Some(folder) = db.parent()
            && homes.iter().all(|h| h.path != folder)
        {
            homes.push(Home::named(folder));
        }
        homes
    }

    fn areas(&self) -> &'static [Area] {
        const AREAS: &[Area] = &[area("storage", false)];
        AREAS
    }

    fn resume(&self, native: &str, root: &Path) -> Option<Vec<String>> {
        // A version that keeps a database does not read the files of the ones before it, which are
        // all that is ever put back here.
        with_id(&["opencode", "--session"], native).filter(|_| !root.join(DATABASE).exists())
    }

    fn usage(&self, rel: &Path) -> Option<FileUse> {
        match parts(rel).as_slice() {
            [name] => name.ends_with(b".db").then_some(FileUse::Session),
            [b"storage", b"session" | b"message" | b"part", .., name] => {
                name.ends_with(b".json").then_some(FileUse::Session)
            }
            [b"storage", .., name] => {
                (name.ends_with(b".json") || *name == b"migration").then_some(FileUse::Evidence)
            }
            _ => None,
        }
    }

    fn is_scattered(&self) -> bool {
        true
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    #[test]
    fn a_version_with_a_database_does_not_find_files() {
        let dir = tempfile::tempdir().unwrap();
        assert!(OpenCode.resume("ses_1", dir.path()).is_some());
        std::fs::write(dir.path().join(DATABASE), "").unwrap();
        assert_eq!(OpenCode.resume("ses_1", dir.path()), None);
    }
}
