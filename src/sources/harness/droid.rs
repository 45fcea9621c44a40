//! Factory Droid: `~/.factory`.

use std::path::Path;

use super::{Area, Harness, Home, area, below_home, beside_or_named, parts, with_id};
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

    fn belongs(&self, rel: &Path, native: &str, own: &Path) -> bool {
        beside_or_named(rel, native, own)
    }

    fn resume(&self, native: &str, _root: &Path) -> Option<Vec<String>> {
        with_id(&["droid", "--resume"], native)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_by_their_place_below_the_root() {
        const SESSION: Option<FileUse> = Some(FileUse::Session);
        const EVIDENCE: Option<FileUse> = Some(FileUse::Evidence);
        for (rel, want) in [
            ("sessions/-w/u.jsonl", SESSION),
            ("sessions/u.jsonl", SESSION),
            ("sessions/-w/u.settings.json", EVIDENCE),
            ("sessions", None),
            ("settings.json", None),
            ("x/u.jsonl", None),
        ] {
            assert_eq!(Droid.usage(Path::new(rel)), want, "{rel}");
        }
    }
}
