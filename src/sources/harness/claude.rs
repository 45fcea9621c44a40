//! Claude Code: `$CLAUDE_CONFIG_DIR`, else `~/.claude`.

use std::path::Path;

use serde::Deserialize;

use super::{Area, Harness, Home, area, parts, variable_or_home, with_id};
use crate::env::Env;
use crate::sources::file::read_small;
use crate::sources::retention::Retention;
use crate::sources::usage::FileUse;

pub(super) struct Claude;

/// Days a session file is kept when no setting says otherwise.
const DEFAULT_DAYS: u64 = 30;

impl Harness for Claude {
    fn homes(&self, env: &Env) -> Vec<Home> {
        variable_or_home(env, "CLAUDE_CONFIG_DIR", ".claude")
    }

    fn areas(&self) -> &'static [Area] {
        const AREAS: &[Area] = &[
            area("projects", true),
            area("todos", false),
            area("tasks", false),
            area("plans", false),
            area("file-history", false),
        ];
        AREAS
    }

    fn usage(&self, rel: &Path) -> Option<FileUse> {
        let all = parts(rel);
        let name = *all.last()?;
        match all.as_slice() {
            [b"history.jsonl"] => Some(FileUse::Evidence),
            [b"todos" | b"tasks" | b"plans" | b"file-history", _, ..] => Some(FileUse::Evidence),
            [b"projects", inside @ ..] if !inside.is_empty() => {
                // projects/<project>/memory/: what the harness learned about the project.
                let in_memory = matches!(inside, [_, b"memory", _, ..]);
                let in_results = matches!(inside, [.., b"tool-results", _]);
                if in_results || in_memory && name.ends_with(b".md") {
                    return Some(FileUse::Evidence);
                }
                if !name.ends_with(b".jsonl") {
                    return name.ends_with(b".json").then_some(FileUse::Evidence);
                }
                // A workflow's journal names its agents; their own files hold what they said.
                let beside = matches!(name, b"history.jsonl" | b"journal.jsonl") || in_memory;
                Some(if beside {
                    FileUse::Evidence
                } else {
                    FileUse::Session
                })
            }
            _ => None,
        }
    }

    fn resume(&self, native: &str, _root: &Path) -> Option<Vec<String>> {
        with_id(&["claude", "--resume"], native)
    }

    fn retention(&self, root: &Path) -> Retention {
        #[derive(Deserialize)]
        struct Settings {
            #[serde(rename = "cleanupPeriodDays")]
            days: Option<u64>,
        }
        let days = read_small(&root.join("settings.json"), 1 << 20)
            .ok()
            .and_then(|text| serde_json::from_str::<Settings>(&text).ok())
            .and_then(|s| s.days);
        Retention {
            days: Some(days.unwrap_or(DEFAULT_DAYS)),
            configured: days.is_some(),
        }
    }
}
