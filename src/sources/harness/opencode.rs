//! OpenCode: `$XDG_DATA_HOME/opencode`, else `~/.local/share/opencode`, on every system. A database
//! that `$OPENCODE_DB` names may lie elsewhere.

use std::path::{Path, PathBuf};

use super::{Area, Harness, Home, area, parts, with_id, xdg_data};
use crate::env::Env;
use crate::sources::usage::FileUse;

pub(super) struct OpenCode;

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

    fn resume(&self, native: &str, _root: &Path) -> Option<Vec<String>> {
        with_id(&["opencode", "--session"], native)
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
