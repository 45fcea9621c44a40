//! Transcripts of agents: one JSON object a line, without ids, times or results.

use std::path::Path;

use crate::ingest::parse::json::{self, raw_object};
use crate::ingest::parse::line::Line;
use crate::ingest::provider::{LogReader, RawRecord, Reading, blocks, known, stem};
use crate::model::record::{Disposition, Facts, Message, Role};

raw_object! {
    struct Said { content = "content" }
}

/// Reads a transcript. It says again, and with holes, what the databases hold, so it is a session of
/// its own whose parent is the conversation.
#[derive(Debug)]
pub(super) struct Transcript {
    session: String,
    parent: String,
}

impl Transcript {
    pub(super) fn new(path: &Path) -> Self {
        let (session, parent) = names(path);
        Transcript { session, parent }
    }
}

/// The session that the transcript at `path` is, and the one that it belongs to.
pub(super) fn names(path: &Path) -> (String, String) {
    let id = stem(path);
    let id = id.strip_suffix(".txt").unwrap_or(&id);
    // agent-transcripts/<conversation>/subagents/<agent>.jsonl
    let parent = path
        .parent()
        .filter(|f| f.file_name().is_some_and(|n| n == "subagents"))
        .and_then(Path::parent)
        .and_then(Path::file_name)
        .map_or_else(|| id.to_owned(), |n| n.to_string_lossy().into_owned());
    (format!("{id}/transcript"), parent)
}

impl LogReader for Transcript {
    fn first_keys(&self) -> &'static [&'static str] {
        &["role", "message"]
    }

    fn is_record(&self, line: &Line<'_>) -> bool {
        line.role.is_some() && (line.message.is_some() || line.content.is_some())
    }

    fn read(&mut self, record: RawRecord<'_>) -> Reading {
        let line = record.line.copied().unwrap_or_default();
        let said = json::object::<Said<'_>>(line.message);
        let content = said.and_then(|s| s.content).or(line.content);
        let role = json::text(line.role).unwrap_or_default();
        let mut out = Vec::new();
        let mut is_known = true;
        match &*role {
            "user" => {
                blocks::user(content, &blocks::speaker, &mut out);
                out = super::MARKS.apart(out);
            }
            "assistant" => blocks::assistant(content, &mut out),
            "system" | "tool" => {
                blocks::assistant(content, &mut out);
                for message in &mut out {
                    if message.role == Role::Assistant {
                        message.role = Role::System;
                    }
                }
            }
            _ => is_known = false,
        }
        Reading {
            session: self.session.clone(),
            native_id: None,
            native_parent: None,
            record_type: role.into_owned(),
            time_ms: json::time_ms(line.timestamp),
            facts: Facts {
                workspace: workspace(&out),
                parent_session: Some(self.parent.clone()),
                ..Facts::default()
            },
            disposition: if is_known {
                known(out)
            } else {
                Disposition::Unknown
            },
        }
    }
}

/// The folder that the harness told the model.
pub(super) fn workspace(messages: &[Message]) -> Option<String> {
    const MARK: &str = "Workspace Path:";
    messages
        .iter()
        .filter(|m| m.role == Role::Meta)
        .find_map(|m| {
            let at = m.text.find(MARK)?;
            let path = m.text.get(at + MARK.len()..)?.lines().next()?.trim();
            (!path.is_empty()).then(|| path.to_owned())
        })
}
