//! Which session a record belongs to.

use std::path::Path;

use crate::ingest::parse::json;
use crate::ingest::parse::line::Line;
use crate::ingest::provider::{is_uuid, stem};

/// What the name and the begin of a file say about the sessions in it.
#[derive(Debug)]
pub(super) struct Identity {
    /// Session of records that name none.
    fallback: String,
    /// The file belongs to a subagent.
    agent: Option<String>,
    /// The session whose folder holds this file's `subagents` folder.
    folder: Option<String>,
    /// The file's name below `subagents`, for one that is no agent's.
    below: Option<String>,
}

impl Identity {
    pub(super) fn new<'h>(path: &Path, first: impl Iterator<Item = (usize, &'h str)>) -> Self {
        let stem = stem(path);
        let agent = stem
            .strip_prefix("agent-")
            .filter(|a| !a.is_empty())
            .map(str::to_owned);
        let parts: Vec<String> = path
            .components()
            .map(|c| c.as_os_str().to_string_lossy().into_owned())
            .collect();
        let at = parts
            .iter()
            .rposition(|part| part == "subagents")
            .filter(|at| *at > 0);
        let folder = at.and_then(|at| parts.get(at - 1)).cloned();
        let below = match at {
            Some(at) if agent.is_none() => {
                let mut names = parts.get(at + 1..).unwrap_or_default().to_vec();
                if let Some(last) = names.last_mut() {
                    last.clone_from(&stem);
                }
                Some(names.join("/"))
            }
            _ => None,
        };
        let named = || {
            first
                .filter_map(|(_, text)| serde_json::from_str::<Line<'_>>(text).ok())
                .find_map(|line| json::owned(line.session_id))
        };
        // The name of a main file is its session's id. Any other name says nothing, so records
        // that name no session go with the first that does.
        let fallback = if is_uuid(&stem) || agent.is_some() {
            stem
        } else {
            named().unwrap_or(stem)
        };
        Identity {
            fallback,
            agent,
            folder,
            below,
        }
    }

    /// The session of a record, and the one that spawned it.
    pub(super) fn session(&self, line: &Line<'_>) -> (String, Option<String>) {
        let own = json::owned(line.session_id);
        let record_agent = json::owned(line.agent_id).filter(|_| json::is_true(line.is_sidechain));
        if let Some(below) = &self.below {
            let parent = own.or_else(|| self.folder.clone()).unwrap_or_default();
            return (format!("{parent}/{below}"), Some(parent));
        }
        if let Some(agent) = &self.agent {
            // A subagent's records carry the id of its parent.
            let parent = own
                .filter(|id| !id.starts_with("agent-"))
                .or_else(|| self.folder.clone());
            return match parent {
                Some(parent) => {
                    let agent = record_agent.as_ref().unwrap_or(agent);
                    (format!("{parent}/{agent}"), Some(parent))
                }
                None => (self.fallback.clone(), None),
            };
        }
        let session = own.unwrap_or_else(|| self.fallback.clone());
        match record_agent {
            Some(agent) => (format!("{session}/{agent}"), Some(session)),
            None => (session, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(path: &str, head: &str, record: &str) -> (String, Option<String>) {
        let head = [(0, head)];
        let identity = Identity::new(Path::new(path), head.into_iter());
        identity.session(&serde_json::from_str(record).unwrap())
    }

    #[test]
    fn a_subagent_is_its_parents_and_a_session_of_its_own() {
        let id = "0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f";
        let file = format!("/p/{id}/subagents/agent-a0.jsonl");
        let own = format!(r#"{{"sessionId":"{id}","isSidechain":true,"agentId":"a0"}}"#);
        let expected = (format!("{id}/a0"), Some(id.to_owned()));
        assert_eq!(session(&file, "{}", &own), expected);
        assert_eq!(session(&file, "{}", "{}"), expected);
        assert_eq!(session("/p/agent-a0.jsonl", "{}", &own), expected);
        assert_eq!(
            session("/p/agent-a0.jsonl", "{}", "{}"),
            ("agent-a0".to_owned(), None)
        );
        let journal = format!("/p/{id}/subagents/workflows/w1/journal.jsonl");
        let expected = (format!("{id}/workflows/w1/journal"), Some(id.to_owned()));
        assert_eq!(session(&journal, "{}", "{}"), expected);
    }

    #[test]
    fn a_record_without_a_session_goes_with_its_file() {
        let id = "0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f";
        let head = r#"{"sessionId":"s"}"#;
        assert_eq!(session(&format!("/p/{id}.jsonl"), head, "{}").0, id);
        assert_eq!(session("/p/small.jsonl", head, "{}").0, "s");
        assert_eq!(session("/p/small.jsonl", "{}", "{}").0, "small");
        assert_eq!(
            session("/p/small.jsonl", head, r#"{"sessionId":"t"}"#).0,
            "t"
        );
    }

    #[test]
    fn only_a_side_chain_in_a_main_file_is_its_agents() {
        let side = r#"{"sessionId":"s","agentId":"a","isSidechain":true}"#;
        let expected = ("s/a".to_owned(), Some("s".to_owned()));
        assert_eq!(session("/p/x.jsonl", "{}", side), expected);
        for main in [
            r#"{"sessionId":"s","agentId":"a","isSidechain":false}"#,
            r#"{"sessionId":"s","agentId":"a"}"#,
            r#"{"sessionId":"s","isSidechain":true}"#,
        ] {
            assert_eq!(session("/p/x.jsonl", "{}", main), ("s".to_owned(), None));
        }
    }
}
