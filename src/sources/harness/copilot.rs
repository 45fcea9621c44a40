//! GitHub Copilot CLI: `$COPILOT_HOME`, else `~/.copilot`.

use std::path::Path;

use super::{Area, Harness, Home, area, parts, variable_or_home};
use crate::env::Env;
use crate::sources::usage::FileUse;

pub(super) struct Copilot;

impl Harness for Copilot {
    fn homes(&self, env: &Env) -> Vec<Home> {
        variable_or_home(env, "COPILOT_HOME", ".copilot")
    }

    fn areas(&self) -> &'static [Area] {
        const AREAS: &[Area] = &[
            area("session-state", true),
            area("history-session-state", false),
            area("command-history-state", false),
        ];
        AREAS
    }

    fn usage(&self, rel: &Path) -> Option<FileUse> {
        match parts(rel).as_slice() {
            // `session-store.db` in the root is made from these and is not needed.
            [b"session-state", _, b"events.jsonl"] => Some(FileUse::Session),
            [b"session-state" | b"history-session-state", name] => {
                (name.ends_with(b".jsonl") || name.ends_with(b".json")).then_some(FileUse::Session)
            }
            [b"session-state", _, rest @ .., name] => {
                let kept = matches!(
                    *name,
                    b"workspace.yaml" | b"plan.md" | b"session.db" | b"vscode.metadata.json"
                ) && rest.is_empty();
                let inside = matches!(
                    rest.first(),
                    Some(&b"checkpoints" | &b"files" | &b"rewind-snapshots" | &b"research")
                );
                (kept || inside).then_some(FileUse::Evidence)
            }
            [b"command-history-state", _, ..] | [b"command-history-state.json"] => {
                Some(FileUse::Evidence)
            }
            _ => None,
        }
    }
}
