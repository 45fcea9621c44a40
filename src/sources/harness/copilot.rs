//! GitHub Copilot CLI: `$COPILOT_HOME`, else `~/.copilot`.

use std::path::Path;

use super::{Area, Harness, Home, area, beside_or_named, parts, variable_or_home};
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

    fn belongs(&self, rel: &Path, native: &str, own: &Path) -> bool {
        // A session has a folder of its own; in the older layout it is a file.
        match parts(own).as_slice() {
            [area, id, b"events.jsonl"] => parts(rel).starts_with(&[area, id]),
            _ => beside_or_named(rel, native, own),
        }
    }

    fn resume(&self, native: &str, _root: &Path) -> Option<Vec<String>> {
        // The id is optional there, so it has to be one word with its option.
        (!native.contains('/')).then(|| vec!["copilot".into(), format!("--resume={native}")])
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_by_their_place_below_the_root() {
        const SESSION: Option<FileUse> = Some(FileUse::Session);
        const EVIDENCE: Option<FileUse> = Some(FileUse::Evidence);
        for (rel, want) in [
            ("session-state/u/events.jsonl", SESSION),
            ("session-state/u.jsonl", SESSION),
            ("history-session-state/session_u_1.json", SESSION),
            ("session-state/u/workspace.yaml", EVIDENCE),
            ("session-state/u/session.db", EVIDENCE),
            ("session-state/u/checkpoints/1/x.md", EVIDENCE),
            ("session-state/u/events.jsonl/x", None),
            ("session-state/u/inuse.1.lock", None),
            ("session-store.db", None),
            ("config.json", None),
            ("command-history-state/x.json", EVIDENCE),
            ("session-state", None),
        ] {
            assert_eq!(Copilot.usage(Path::new(rel)), want, "{rel}");
        }
    }
}
