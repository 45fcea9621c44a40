//! Goose: `$GOOSE_PATH_ROOT/data`, else `~/.local/share/goose`; its desktop program on macOS keeps
//! a folder of its own.

use std::path::{Path, PathBuf};

use super::{Area, Harness, Home, below_home, beside, parts, shallow, xdg_data};
use crate::env::Env;
use crate::sources::usage::FileUse;

pub(super) struct Goose;

impl Harness for Goose {
    fn homes(&self, env: &Env) -> Vec<Home> {
        if let Some(root) = env.var("GOOSE_PATH_ROOT") {
            return vec![Home::named(PathBuf::from(root).join("data"))];
        }
        let mut homes: Vec<Home> = xdg_data(env)
            .map(|data| Home::usual(data.join("goose")))
            .into_iter()
            .collect();
        if cfg!(target_os = "macos") {
            homes.extend(below_home(
                env,
                "Library/Application Support/Block/goose/data",
            ));
        }
        homes
    }

    fn areas(&self) -> &'static [Area] {
        const AREAS: &[Area] = &[shallow("sessions", 1)];
        AREAS
    }

    fn belongs(&self, rel: &Path, _native: &str, own: &Path) -> bool {
        beside(rel, own)
    }

    fn usage(&self, rel: &Path) -> Option<FileUse> {
        match parts(rel).as_slice() {
            [b"sessions", name] | [name] => {
                if *name == b"sessions.db" || name.ends_with(b".jsonl") {
                    Some(FileUse::Session)
                } else {
                    // What the program keeps of a file that it writes anew.
                    name.ends_with(b".jsonl.backup")
                        .then_some(FileUse::Evidence)
                }
            }
            _ => None,
        }
    }
}
