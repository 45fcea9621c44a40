//! What a file is to its harness, by where it lies below the harness's root. Names alone decide, so
//! the answer holds for files that are gone, too.

use std::path::{Path, PathBuf};

use crate::model::provider::Provider;
use crate::sources::roots::ProviderRoot;

/// What a file is to the harness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileUse {
    /// Holds sessions: captured and parsed.
    Session,
    /// Needed for a full restore (prompt history, tool results, memory, metadata): captured only.
    Evidence,
}

/// What the file at `rel`, relative to the root of `provider`, is; `None` for one that is not
/// taken. Only the root's own layout counts: a project may bear any name, and so may the folders
/// that lead to the root.
#[must_use]
pub fn usage(provider: Provider, rel: &Path) -> Option<FileUse> {
    let mut parts = rel.iter().map(std::ffi::OsStr::as_encoded_bytes);
    let area = parts.next()?;
    let name = rel.file_name()?.as_encoded_bytes();
    let top = rel.as_os_str().len() == area.len();
    match provider {
        Provider::Claude => match area {
            b"history.jsonl" if top => Some(FileUse::Evidence),
            b"todos" | b"tasks" | b"plans" | b"file-history" if !top => Some(FileUse::Evidence),
            b"projects" if !top => {
                // projects/<project>/memory/: what the harness learned about the project.
                let in_memory =
                    parts.nth(1) == Some(b"memory".as_slice()) && parts.next().is_some();
                let in_results = rel
                    .parent()
                    .is_some_and(|p| p.file_name().is_some_and(|n| n == "tool-results"));
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
        },
        Provider::Codex => match area {
            b"sessions" | b"archived_sessions" if !top => {
                let is_log = name.ends_with(b".jsonl") || name.ends_with(b".jsonl.zst");
                let is_index = matches!(name, b"history.jsonl" | b"session_index.jsonl");
                (is_log && !is_index).then_some(FileUse::Session)
            }
            _ if !top => None,
            b"history.jsonl" | b"session_index.jsonl" => Some(FileUse::Evidence),
            _ => (name.starts_with(b"state_") && name.ends_with(b".sqlite"))
                .then_some(FileUse::Evidence),
        },
    }
}

/// Tells what captured files are, from their whole paths.
#[derive(Debug)]
pub struct Usages {
    roots: Vec<(Provider, PathBuf)>,
}

impl Usages {
    /// Knows the roots in force.
    #[must_use]
    pub fn new<'r>(roots: impl IntoIterator<Item = &'r ProviderRoot>) -> Usages {
        let mut roots: Vec<_> = roots
            .into_iter()
            .map(|r| (r.provider, r.path.clone()))
            .collect();
        // Where roots lie in one another, the innermost one is the file's.
        roots.sort_by_key(|(_, path)| std::cmp::Reverse(path.as_os_str().len()));
        Usages { roots }
    }

    /// What the file at `path` is; `None` for one that is not taken.
    ///
    /// A root that no setting names any more is guessed: any folder on the way may have been it. Of
    /// several readings one that makes the file a session counts, since evidence that is read as a
    /// session is a nuisance, and a session that is not read is missing.
    #[must_use]
    pub fn of(&self, provider: Provider, path: &Path) -> Option<FileUse> {
        let known = self
            .roots
            .iter()
            .filter(|(p, _)| *p == provider)
            .find_map(|(_, root)| path.strip_prefix(root).ok());
        if let Some(rel) = known {
            return usage(provider, rel);
        }
        path.ancestors()
            .skip(1)
            .filter_map(|root| usage(provider, path.strip_prefix(root).ok()?))
            .min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: Option<FileUse> = Some(FileUse::Session);
    const EVIDENCE: Option<FileUse> = Some(FileUse::Evidence);

    #[test]
    fn claude_files_by_their_place_below_the_root() {
        for (rel, want) in [
            ("projects/-p/a.jsonl", SESSION),
            ("projects/a.jsonl", SESSION),
            ("projects/-p/u/subagents/agent-1.jsonl", SESSION),
            ("projects/-p/u/subagents/workflows/w/agent-1.jsonl", SESSION),
            (
                "projects/-p/u/subagents/workflows/w/journal.jsonl",
                EVIDENCE,
            ),
            ("projects/-p/u/subagents/agent-1.meta.json", EVIDENCE),
            ("projects/-p/u/tool-results/x.txt", EVIDENCE),
            ("projects/-p/sessions-index.json", EVIDENCE),
            ("projects/-p/memory/MEMORY.md", EVIDENCE),
            ("projects/-p/memory/deep/er/topic.md", EVIDENCE),
            ("projects/-p/memory/log.jsonl", EVIDENCE),
            ("projects/-p/memory/.swap", None),
            ("projects/-p/memory.md", None),
            ("projects/-p/notes/memory/x.md", None),
            ("projects/memory/x.md", None),
            ("projects/memory/x.jsonl", SESSION),
            // A project may be named like an area.
            ("projects/tasks/a.jsonl", SESSION),
            ("projects/todos/a.jsonl", SESSION),
            ("projects/-p/plans/a.jsonl", SESSION),
            ("projects/projects/a.jsonl", SESSION),
            ("tasks/projects/a.jsonl", EVIDENCE),
            ("todos/1.json", EVIDENCE),
            ("plans/p.md", EVIDENCE),
            ("file-history/s/abc@v1", EVIDENCE),
            ("history.jsonl", EVIDENCE),
            ("projects", None),
            ("todos", None),
            ("settings.json", None),
            ("other/a.jsonl", None),
        ] {
            assert_eq!(usage(Provider::Claude, Path::new(rel)), want, "{rel}");
        }
    }

    #[test]
    fn codex_files_by_their_place_below_the_root() {
        for (rel, want) in [
            ("sessions/2026/01/02/rollout-a.jsonl", SESSION),
            ("sessions/2026/01/02/rollout-a.jsonl.zst", SESSION),
            ("archived_sessions/rollout-a.jsonl", SESSION),
            ("sessions/history.jsonl", None),
            ("history.jsonl", EVIDENCE),
            ("session_index.jsonl", EVIDENCE),
            ("state_5.sqlite", EVIDENCE),
            ("x/state_5.sqlite", None),
            ("log.jsonl", None),
        ] {
            assert_eq!(usage(Provider::Codex, Path::new(rel)), want, "{rel}");
        }
    }

    #[test]
    fn the_root_decides_and_without_one_every_reading_counts() {
        let root = |provider, path: &str| ProviderRoot {
            provider,
            path: path.into(),
            named: true,
        };
        let known = Usages::new(&[
            root(Provider::Claude, "/u/projects"),
            root(Provider::Claude, "/u/tasks/claude"),
        ]);
        let none = Usages::new([]);
        for (path, with, without) in [
            // The root's own name is no area of it.
            ("/u/projects/todos/a.jsonl", EVIDENCE, SESSION),
            ("/u/projects/other/a.jsonl", None, SESSION),
            ("/u/tasks/claude/projects/-p/a.jsonl", SESSION, SESSION),
            ("/u/tasks/claude/projects/tasks/a.jsonl", SESSION, SESSION),
            ("/x/projects/-p/a.jsonl", SESSION, SESSION),
            ("/x/todos/a.json", EVIDENCE, EVIDENCE),
            ("/x/a.jsonl", None, None),
        ] {
            assert_eq!(known.of(Provider::Claude, Path::new(path)), with, "{path}");
            assert_eq!(
                none.of(Provider::Claude, Path::new(path)),
                without,
                "{path}"
            );
        }
        let old = Path::new("/old/.codex/sessions/2026/rollout-a.jsonl");
        assert_eq!(known.of(Provider::Codex, old), SESSION);
    }
}
