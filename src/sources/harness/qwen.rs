//! Qwen Code: `$QWEN_HOME`, else `~/.qwen`; what it writes at run time may lie below
//! `$QWEN_RUNTIME_DIR`.

use std::path::{Path, PathBuf};

use super::{Area, Harness, Home, area, beside_or_named, parts, variable_or_home, with_id};
use crate::env::Env;
use crate::sources::usage::FileUse;

pub(super) struct Qwen;

impl Harness for Qwen {
    fn homes(&self, env: &Env) -> Vec<Home> {
        let mut homes = variable_or_home(env, "QWEN_HOME", ".qwen");
        if let Some(dir) = env.var("QWEN_RUNTIME_DIR").map(PathBuf::from)
            && homes.iter().all(|h| h.path != dir)
        {
            homes.push(Home::named(dir));
        }
        homes
    }

    fn areas(&self) -> &'static [Area] {
        const AREAS: &[Area] = &[area("projects", true), area("tmp", true)];
        AREAS
    }

    fn belongs(&self, rel: &Path, native: &str, own: &Path) -> bool {
        beside_or_named(rel, native, own)
    }

    fn resume(&self, native: &str, _root: &Path) -> Option<Vec<String>> {
        with_id(&["qwen", "--resume"], native)
    }

    fn usage(&self, rel: &Path) -> Option<FileUse> {
        match parts(rel).as_slice() {
            [b"usage_record.jsonl"] => Some(FileUse::Evidence),
            [b"projects", _, b"chats" | b"subagents", .., name] => {
                if name.ends_with(b".jsonl") {
                    Some(FileUse::Session)
                } else {
                    name.ends_with(b".json").then_some(FileUse::Evidence)
                }
            }
            // As Gemini CLI, of which it is a fork.
            [b"tmp", _, b"chats", .., name] => {
                (name.ends_with(b".json") || name.ends_with(b".jsonl")).then_some(FileUse::Session)
            }
            [b"tmp", _, b"logs.json"] | [b"tmp", _, b"checkpoints", _, ..] => {
                Some(FileUse::Evidence)
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
            ("projects/-p/chats/u.jsonl", SESSION),
            ("projects/-p/subagents/u/agent-1.jsonl", SESSION),
            ("projects/-p/chats/u.meta.json", EVIDENCE),
            ("projects/-p/u.jsonl", None),
            ("tmp/abc/chats/session-1.json", SESSION),
            ("tmp/abc/chats/session-1.jsonl", SESSION),
            ("tmp/abc/logs.json", EVIDENCE),
            ("usage_record.jsonl", EVIDENCE),
            ("settings.json", None),
        ] {
            assert_eq!(Qwen.usage(Path::new(rel)), want, "{rel}");
        }
    }
}
