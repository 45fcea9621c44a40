//! Which session and agent a file belongs to, by its folders.

use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

use super::beside;
use crate::ingest::parse::json::{self, raw_object};
use crate::ingest::provider::{Start, stem};
use crate::model::record::Facts;

raw_object! {
    struct State {
        title = "title",
        custom_title = "custom_title",
        work_dir = "workDir",
        work_dir_path = "work_dir",
        agents = "agents",
    }
}

raw_object! {
    struct Agent { parent = "parentAgentId" }
}

/// The title of a session that has none yet.
const UNTITLED: &[&str] = &["New Session", "Untitled"];

/// Where a file lies.
#[derive(Debug)]
pub(super) struct Place {
    /// The session's folder.
    folder: Option<PathBuf>,
    name: String,
    /// The agent's folder, for one that is not the main agent's.
    agent: Option<String>,
    /// The file is a context log.
    pub(super) is_context: bool,
    /// It is one that was put aside.
    pub(super) is_old: bool,
}

impl Place {
    pub(super) fn of(path: &Path) -> Place {
        let name_of = |p: &Path| p.file_name().map(|n| n.to_string_lossy().into_owned());
        let file = stem(path);
        let is_context = file == "context" || file.starts_with("context_");
        // Before there were folders the session was a file.
        if !is_context && file != "wire" {
            return Place {
                folder: None,
                name: file,
                agent: None,
                is_context: true,
                is_old: false,
            };
        }
        let own = path.parent();
        let above = own.and_then(Path::parent);
        let in_agents = above
            .and_then(name_of)
            .is_some_and(|n| n == "agents" || n == "subagents");
        let (folder, agent) = if in_agents {
            let agent = own.and_then(name_of).filter(|a| a != "main");
            (above.and_then(Path::parent), agent)
        } else {
            (own, None)
        };
        Place {
            name: folder
                .and_then(name_of)
                .filter(|n| !n.is_empty())
                .unwrap_or_else(|| file.clone()),
            folder: folder.map(Path::to_path_buf),
            agent,
            is_context,
            is_old: is_context && file != "context",
        }
    }

    /// The session's id, with the agent's behind it.
    pub(super) fn session(&self) -> String {
        match &self.agent {
            Some(agent) => format!("{}/{agent}", self.name),
            None => self.name.clone(),
        }
    }
}

/// The files that say something about the session of the file at `path`: the state of the session,
/// and the wire log beside a context log.
pub(in super::super) fn siblings(path: &Path) -> Vec<PathBuf> {
    let place = Place::of(path);
    let mut out = Vec::new();
    if let Some(folder) = &place.folder {
        out.push(folder.join("state.json"));
        if place.is_context {
            out.push(beside(path, "wire.jsonl"));
        }
    }
    out
}

/// What the session's state says of it, and which session the agent belongs to.
pub(super) fn facts_beside(start: Start<'_>, place: &Place) -> Facts {
    let bytes = place
        .folder
        .as_ref()
        .and_then(|folder| start.siblings.get(&folder.join("state.json")));
    let state: State<'_> = bytes
        .and_then(|bytes| serde_json::from_slice(bytes).ok())
        .unwrap_or_default();
    let mut facts = Facts {
        workspace: json::owned(state.work_dir).or_else(|| json::owned(state.work_dir_path)),
        ..Facts::default()
    };
    match &place.agent {
        None => {
            facts.title = json::owned(state.custom_title)
                .or_else(|| json::owned(state.title))
                .filter(|t| !UNTITLED.contains(&t.as_str()));
        }
        Some(agent) => {
            let parent = member(state.agents, agent)
                .and_then(|raw| json::object::<Agent<'_>>(Some(raw)))
                .and_then(|a| json::owned(a.parent))
                .filter(|p| p != "main" && p != agent);
            facts.parent_session = Some(match parent {
                Some(parent) => format!("{}/{parent}", place.name),
                None => place.name.clone(),
            });
        }
    }
    facts
}

/// A member of an object whose names are not known before.
fn member<'a>(object: Option<&'a RawValue>, name: &str) -> Option<&'a RawValue> {
    let members: std::collections::BTreeMap<std::borrow::Cow<'a, str>, &'a RawValue> =
        json::object(object)?;
    members.get(name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_name_the_session_and_the_agent() {
        for (path, session) in [
            (
                "/k/sessions/wd_p_1/session_a/agents/main/wire.jsonl",
                "session_a",
            ),
            (
                "/k/sessions/wd_p_1/session_a/agents/agent-0/wire.jsonl",
                "session_a/agent-0",
            ),
            ("/k/sessions/0a1b/s1/wire.jsonl", "s1"),
            ("/k/sessions/0a1b/s1/context.jsonl", "s1"),
            ("/k/sessions/0a1b/s1/subagents/x/context.jsonl", "s1/x"),
            ("/k/sessions/0a1b/s1.jsonl", "s1"),
            ("wire.jsonl", "wire"),
        ] {
            assert_eq!(Place::of(Path::new(path)).session(), session, "{path}");
        }
        assert!(Place::of(Path::new("/s/x/context_1.jsonl")).is_old);
    }
}
