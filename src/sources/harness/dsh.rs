//! DSH: `$DSH_HOME`, else `~/.dsh`; its sessions are one folder each.

use std::path::Path;

use walkdir::WalkDir;

use super::{Area, Harness, Home, area, below_home, parts};
use crate::env::Env;
use crate::sources::usage::FileUse;

pub(super) struct Dsh;

impl Harness for Dsh {
    fn homes(&self, env: &Env) -> Vec<Home> {
        match env.var("DSH_HOME").filter(|dir| !dir.is_empty()) {
            Some(dir) => vec![Home::named(dir)],
            None => below_home(env, ".dsh"),
        }
    }

    fn areas(&self) -> &'static [Area] {
        const AREAS: &[Area] = &[area("sessions", true)];
        AREAS
    }

    fn belongs(&self, _rel: &Path, _native: &str, _own: &Path) -> bool {
        // A session is its logs.
        false
    }

    fn goes_with(&self, rel: &Path, own: &Path) -> bool {
        // Older generations stay beside the newest. Both encodings in one root make the harness
        // refuse all of it.
        rel.parent() == own.parent() && parts(own).len() == 4 && packed(rel) == packed(own)
    }

    fn spoils(&self, root: &Path, own: &Path) -> Option<&'static str> {
        if parts(own).len() != 4 {
            return Some(
                "DSH refuses all sessions of a folder that holds one of the retired layout",
            );
        }
        WalkDir::new(root.join("sessions"))
            .min_depth(3)
            .max_depth(3)
            .into_iter()
            .filter_map(Result::ok)
            .filter(|e| generation(e.file_name().as_encoded_bytes()).is_some())
            .any(|e| packed(e.path()) != packed(own))
            .then_some(
                "DSH refuses all sessions of a folder in which some are packed and some are not",
            )
    }

    fn rank(&self, rel: &Path) -> u64 {
        let name = rel.file_name().unwrap_or_default();
        generation(name.as_encoded_bytes()).unwrap_or(0)
    }

    fn usage(&self, rel: &Path) -> Option<FileUse> {
        match parts(rel).as_slice() {
            [b"sessions", _, _, name] => generation(name).map(|_| FileUse::Session),
            // A retired layout, which the harness itself no longer opens.
            [b"sessions", _, name] => {
                let is_log = name.ends_with(b".jsonl") || name.ends_with(b".jsonl.zstd");
                is_log.then_some(FileUse::Session)
            }
            [b"sessions", name] | [name] => name.ends_with(b".db").then_some(FileUse::Evidence),
            _ => None,
        }
    }
}

fn packed(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "zstd")
}

/// The generation that the name of a log says; `None` for every other file: locks, and first
/// writes that were never published.
fn generation(name: &[u8]) -> Option<u64> {
    let name = name.strip_suffix(b".zstd").unwrap_or(name);
    let middle = name.strip_prefix(b"session")?.strip_suffix(b".jsonl")?;
    if middle.is_empty() {
        return Some(0);
    }
    let digits = middle.strip_prefix(b".v")?;
    if digits.first() == Some(&b'0') {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_by_their_names() {
        for (name, want) in [
            ("session.jsonl", Some(0)),
            ("session.jsonl.zstd", Some(0)),
            ("session.v3.jsonl", Some(3)),
            ("session.v12.jsonl.zstd", Some(12)),
            ("session.v0.jsonl", None),
            ("session.v03.jsonl", None),
            ("SESSION.V1.JSONL", None),
            ("session.lock", None),
            ("session.jsonl.0a1b2c3d4e5f.tmp", None),
            ("session.migration.0a1b2c3d4e5f0a1b.jsonl.tmp", None),
            ("session.migration.0a1b2c3d4e5f0a1b.jsonl", None),
        ] {
            assert_eq!(generation(name.as_bytes()), want, "{name}");
        }
    }
}
