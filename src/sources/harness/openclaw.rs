//! OpenClaw: `$OPENCLAW_STATE_DIR`, else `~/.openclaw`; its relatives in folders of their own.

use std::path::Path;

use super::{Area, Harness, Home, area, below_home, parts, variable_or_home};
use crate::env::Env;
use crate::sources::usage::FileUse;

pub(super) struct OpenClaw;

/// Folders of relatives, which keep the same store.
const RELATIVES: [&str; 2] = [".qclaw", ".kimi_openclaw"];

impl Harness for OpenClaw {
    fn homes(&self, env: &Env) -> Vec<Home> {
        let mut homes = variable_or_home(env, "OPENCLAW_STATE_DIR", ".openclaw");
        for relative in RELATIVES {
            homes.extend(below_home(env, relative));
        }
        homes
    }

    fn areas(&self) -> &'static [Area] {
        const AREAS: &[Area] = &[area("agents", true)];
        AREAS
    }

    fn belongs(&self, rel: &Path, _native: &str, own: &Path) -> bool {
        is_of(rel, own)
    }

    fn goes_with(&self, rel: &Path, own: &Path) -> bool {
        is_of(rel, own)
    }

    fn serves_many(&self, rel: &Path, own: &Path) -> bool {
        rel.parent() == own.parent() && rel.ends_with("sessions.json")
    }

    fn rank(&self, rel: &Path) -> u64 {
        // A tombstone, a checkpoint and a topic of its own are not what is gone on with.
        let name = rel.file_name().unwrap_or_default().as_encoded_bytes();
        let whole = id_in(name).len() + b".jsonl".len() == name.len();
        u64::from(whole && name.ends_with(b".jsonl"))
    }

    fn usage(&self, rel: &Path) -> Option<FileUse> {
        match parts(rel).as_slice() {
            [b"agents", _, b"sessions", .., name] => sessions(name),
            _ => None,
        }
    }
}

/// The id that a file's name begins with.
fn id_in(name: &[u8]) -> &[u8] {
    let marks = [&b".jsonl"[..], b".checkpoint.", b".trajectory", b"-topic-"];
    marks.iter().fold(name, |id, mark| {
        let at = id.windows(mark.len()).position(|w| w == *mark);
        at.and_then(|at| id.get(..at)).unwrap_or(id)
    })
}

/// Whether a file lies beside a session's own and begins with the same id.
fn is_of(rel: &Path, own: &Path) -> bool {
    let id = |path: &Path| {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        id_in(name).to_vec()
    };
    rel.parent() == own.parent() && id(rel) == id(own)
}

/// What a file in a folder of sessions is.
fn sessions(name: &[u8]) -> Option<FileUse> {
    let holds = |part: &[u8]| name.windows(part.len()).any(|w| w == part);
    if name.ends_with(b".lock") || name.ends_with(b".tmp") {
        None
    } else if holds(b".trajectory") {
        // A flight recorder: it says again what the session says, and sometimes a little more.
        Some(FileUse::Evidence)
    } else if name.ends_with(b".jsonl") || holds(b".jsonl.deleted.") || holds(b".jsonl.reset.") {
        Some(FileUse::Session)
    } else if holds(b".jsonl.") || holds(b".json") {
        // The store of keys, and copies that its own repairs leave.
        Some(FileUse::Evidence)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_by_their_place_below_the_root() {
        for (name, want) in [
            ("a.jsonl", Some(FileUse::Session)),
            ("a-topic-7.jsonl", Some(FileUse::Session)),
            ("a.checkpoint.b.jsonl", Some(FileUse::Session)),
            (
                "a.jsonl.deleted.2026-01-01T00-00-00.000Z",
                Some(FileUse::Session),
            ),
            (
                "a.jsonl.reset.2026-01-01T00-00-00.000Z",
                Some(FileUse::Session),
            ),
            ("a.jsonl.bak-1-2", Some(FileUse::Evidence)),
            ("a.trajectory.jsonl", Some(FileUse::Evidence)),
            ("a.trajectory-path.json", Some(FileUse::Evidence)),
            ("a.trajectory.jsonl.deleted.2026", Some(FileUse::Evidence)),
            ("sessions.json", Some(FileUse::Evidence)),
            ("a.jsonl.lock", None),
            ("sessions.json.1.tmp", None),
            ("notes.txt", None),
        ] {
            let rel = Path::new("agents/main/sessions").join(name);
            assert_eq!(OpenClaw.usage(&rel), want, "{name}");
        }
        assert_eq!(
            OpenClaw.usage(Path::new("agents/main/agent/auth.json")),
            None
        );
        assert_eq!(OpenClaw.usage(Path::new("openclaw.json")), None);
    }
}
