//! Factory Droid: `~/.factory`.

use std::path::Path;

use super::{Area, Harness, Home, area, below_home, parts};
use crate::env::Env;
use crate::sources::usage::FileUse;

pub(super) struct Droid;

impl Harness for Droid {
    fn homes(&self, env: &Env) -> Vec<Home> {
        below_home(env, ".factory")
    }

    fn areas(&self) -> &'static [Area] {
        const AREAS: &[Area] = &[area("sessions", true)];
        AREAS
    }

    fn usage(&self, rel: &Path) -> Option<FileUse> {
        match parts(rel).as_slice() {
            [b"history.json" | b"history.jsonl"] => Some(FileUse::Evidence),
            [b"sessions", .., name] => {
                if name.ends_with(b".jsonl") {
                    Some(FileUse::Session)
                } else {
                    name.ends_with(b".json").then_some(FileUse::Evidence)
                }
            }
            _ => None,
        }
    }
}
