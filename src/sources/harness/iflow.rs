//! iFlow CLI: `~/.iflow`.

use std::path::Path;

use super::{Area, Harness, Home, area, below_home, beside_or_named, parts};
use crate::env::Env;
use crate::sources::usage::FileUse;

pub(super) struct Iflow;

impl Harness for Iflow {
    fn homes(&self, env: &Env) -> Vec<Home> {
        below_home(env, ".iflow")
    }

    fn areas(&self) -> &'static [Area] {
        const AREAS: &[Area] = &[area("projects", true), area("todos", false)];
        AREAS
    }

    fn belongs(&self, rel: &Path, native: &str, own: &Path) -> bool {
        beside_or_named(rel, native, own)
    }

    fn usage(&self, rel: &Path) -> Option<FileUse> {
        match parts(rel).as_slice() {
            [b"history.jsonl"] | [b"todos", _, ..] => Some(FileUse::Evidence),
            [b"projects", _, .., name] => {
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
            ("projects/-p/session-u.jsonl", SESSION),
            ("projects/-p/deep/u.jsonl", SESSION),
            ("projects/-p/x.json", EVIDENCE),
            ("projects/u.jsonl", None),
            ("settings.json", None),
            ("todos/1.json", EVIDENCE),
        ] {
            assert_eq!(Iflow.usage(Path::new(rel)), want, "{rel}");
        }
    }
}
