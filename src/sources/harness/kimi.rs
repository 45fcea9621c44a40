//! Kimi: kimi-cli in `$KIMI_SHARE_DIR`, else `~/.kimi`; kimi-code in `~/.kimi-code`.

use std::path::Path;

use super::{
    Area, Harness, Home, area, below_home, beside_or_named, parts, variable_or_home, with_id,
};
use crate::env::Env;
use crate::sources::usage::FileUse;

pub(super) struct Kimi;

impl Harness for Kimi {
    fn homes(&self, env: &Env) -> Vec<Home> {
        let mut homes = variable_or_home(env, "KIMI_SHARE_DIR", ".kimi");
        for home in below_home(env, ".kimi-code") {
            if homes.iter().all(|h| h.path != home.path) {
                homes.push(home);
            }
        }
        homes
    }

    fn areas(&self) -> &'static [Area] {
        const AREAS: &[Area] = &[area("sessions", true), area("user-history", false)];
        AREAS
    }

    fn belongs(&self, rel: &Path, native: &str, own: &Path) -> bool {
        let (of, all) = (parts(own), parts(rel));
        match of.as_slice() {
            // Agents bear the same names in every session. The state names an agent's parent.
            [a, b, c, d, agent, _] if *agent != b"main" => {
                all.starts_with(&[a, b, c, d, agent]) || all == [*a, b, c, b"state.json"]
            }
            [a, b, c, _, ..] => all.starts_with(&[a, b, c]),
            _ => beside_or_named(rel, native, own),
        }
    }

    fn goes_with(&self, rel: &Path, own: &Path) -> bool {
        rel.parent() == own.parent() && parts(own).len() > 3
    }

    fn serves_many(&self, rel: &Path, _own: &Path) -> bool {
        matches!(
            parts(rel).as_slice(),
            [b"kimi.json" | b"session_index.jsonl"]
        )
    }

    fn rank(&self, rel: &Path) -> u64 {
        u64::from(rel.ends_with("wire.jsonl"))
    }

    fn resume(&self, native: &str, _root: &Path) -> Option<Vec<String>> {
        with_id(&["kimi", "--session"], native)
    }

    fn usage(&self, rel: &Path) -> Option<FileUse> {
        match parts(rel).as_slice() {
            [b"kimi.json" | b"session_index.jsonl"] | [b"user-history", _, ..] => {
                Some(FileUse::Evidence)
            }
            // Before there were folders.
            [b"sessions", _, name] if name.ends_with(b".jsonl") => Some(FileUse::Session),
            [b"sessions", _, _, b"agents" | b"subagents", _, name] | [b"sessions", _, _, name] => {
                log_or_evidence(name)
            }
            [b"sessions", _, _, _, ..] => Some(FileUse::Evidence),
            _ => None,
        }
    }
}

fn log_or_evidence(name: &[u8]) -> Option<FileUse> {
    let is_log = name == b"wire.jsonl" || name.starts_with(b"context") && name.ends_with(b".jsonl");
    if is_log {
        Some(FileUse::Session)
    } else {
        [&b".json"[..], b".jsonl", b".md", b".txt"]
            .iter()
            .any(|end| name.ends_with(end))
            .then_some(FileUse::Evidence)
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
            ("sessions/wd_p_1/session_u/agents/main/wire.jsonl", SESSION),
            (
                "sessions/wd_p_1/session_u/agents/agent-0/wire.jsonl",
                SESSION,
            ),
            ("sessions/wd_p_1/session_u/state.json", EVIDENCE),
            ("sessions/wd_p_1/session_u/agents/main/plans/x.md", EVIDENCE),
            ("sessions/0a1b/u/wire.jsonl", SESSION),
            ("sessions/0a1b/u/context.jsonl", SESSION),
            ("sessions/0a1b/u/context_1.jsonl", SESSION),
            ("sessions/0a1b/u/subagents/x/context.jsonl", SESSION),
            ("sessions/0a1b/u.jsonl", SESSION),
            ("sessions/0a1b/u/.lock", None),
            ("kimi.json", EVIDENCE),
            ("session_index.jsonl", EVIDENCE),
            ("config.toml", None),
        ] {
            assert_eq!(Kimi.usage(Path::new(rel)), want, "{rel}");
        }
    }
}
