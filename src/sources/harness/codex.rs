//! Codex CLI: `$CODEX_HOME`, else `~/.codex`. It prunes nothing by itself.

use std::path::Path;

use super::{Area, Harness, Home, area, parts, variable_or_home};
use crate::env::Env;
use crate::sources::usage::FileUse;

pub(super) struct Codex;

impl Harness for Codex {
    fn homes(&self, env: &Env) -> Vec<Home> {
        variable_or_home(env, "CODEX_HOME", ".codex")
    }

    fn areas(&self) -> &'static [Area] {
        const AREAS: &[Area] = &[area("sessions", true), area("archived_sessions", false)];
        AREAS
    }

    fn usage(&self, rel: &Path) -> Option<FileUse> {
        match parts(rel).as_slice() {
            [b"sessions" | b"archived_sessions", .., name] => {
                let is_log = name.ends_with(b".jsonl") || name.ends_with(b".jsonl.zst");
                let is_index = matches!(*name, b"history.jsonl" | b"session_index.jsonl");
                (is_log && !is_index).then_some(FileUse::Session)
            }
            [b"history.jsonl" | b"session_index.jsonl"] => Some(FileUse::Evidence),
            [name] => (name.starts_with(b"state_") && name.ends_with(b".sqlite"))
                .then_some(FileUse::Evidence),
            _ => None,
        }
    }

    fn resume(&self, native: &str, _root: &Path) -> Option<Vec<String>> {
        Some(vec!["codex".into(), "resume".into(), native.into()])
    }
}
