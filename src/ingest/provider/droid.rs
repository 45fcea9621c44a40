//! Factory Droid: one record a line, appended; the first one names the session.

use std::path::Path;

use super::recent::Recent;
use super::{
    LogReader, RawRecord, Reading, blocks, json_text, known, message, push_text, session_of_file,
    stem,
};
use crate::ingest::parse::json::{self, raw_object};
use crate::ingest::parse::line::Line;
use crate::ingest::parse::payload;
use crate::model::record::{Disposition, Facts, Message, MessageKind, Role};

raw_object! {
    struct Entry {
        kind = "type",
        id = "id",
        parent = "parentId",
        timestamp = "timestamp",
        message = "message",
        title = "title",
        session_title = "sessionTitle",
        cwd = "cwd",
        version = "version",
        calling_session = "callingSessionId",
        summary = "summary",
        summary_text = "summaryText",
        session_id = "session_id",
        role = "role",
        text = "text",
        call_id = "toolCallId",
        tool_name = "toolName",
        parameters = "parameters",
        value = "value",
        is_error = "isError",
        final_text = "finalText",
    }
}

raw_object! {
    struct Body { role = "role", content = "content", model = "model" }
}

/// Keys that a record may begin with.
const FIRST_KEYS: &[&str] = &["type", "id", "timestamp"];

/// Reads the records of one file.
#[derive(Debug)]
pub(super) struct DroidReader {
    session: String,
    /// What was said in a stream of `droid exec`: its end says the answer again.
    said: Recent,
}

impl DroidReader {
    pub(super) fn new<'h>(
        path: &Path,
        first: impl Iterator<Item = (usize, &'h str)>,
        state: Option<serde_json::Value>,
    ) -> Self {
        let begun = || {
            first
                .filter_map(|(_, text)| serde_json::from_str::<Entry<'_>>(text).ok())
                .find_map(|entry| session_of(&entry))
        };
        let (session, said) = state
            .and_then(|s| serde_json::from_value::<(String, Recent)>(s).ok())
            .unwrap_or_else(|| (session_of_file(stem(path), begun), Recent::default()));
        DroidReader { session, said }
    }

    /// What a record says; `None` when its type is not known.
    fn disposition(&mut self, kind: &str, entry: &Entry<'_>, offset: u64) -> Option<Disposition> {
        let mut out = Vec::new();
        match kind {
            "message" => {
                let body = json::object::<Body<'_>>(entry.message);
                let role = body.and_then(|b| b.role).or(entry.role);
                let content = body.and_then(|b| b.content).or(entry.text);
                match json::text(role).as_deref() {
                    Some("user") => blocks::user(content, &blocks::speaker, &mut out),
                    Some("assistant") => {
                        blocks::assistant(content, &mut out);
                        let model = body.and_then(|b| json::owned(b.model));
                        for message in &mut out {
                            message.model.clone_from(&model);
                        }
                    }
                    Some("system") => {
                        let speak = |_: &str| (Role::System, MessageKind::Text);
                        blocks::user(content, &speak, &mut out);
                    }
                    _ => return None,
                }
                if body.is_none()
                    && let Some(said) = out.last().filter(|m| m.role == Role::Assistant)
                {
                    self.said.add(&said.text, offset);
                }
            }
            "tool_call" => out.push(Message {
                tool_name: json::owned(entry.tool_name),
                call_id: json::owned(entry.call_id).or_else(|| json::owned(entry.id)),
                ..message(
                    Role::Assistant,
                    MessageKind::ToolCall,
                    entry.parameters.map(json_text).unwrap_or_default(),
                )
            }),
            "tool_result" => out.push(Message {
                tool_name: json::owned(entry.tool_name),
                call_id: json::owned(entry.call_id).or_else(|| json::owned(entry.id)),
                is_error: json::boolean(entry.is_error),
                ..message(
                    Role::Tool,
                    MessageKind::ToolResult,
                    match json::text(entry.value) {
                        Some(text) => payload::described_in(text),
                        None => json::present(entry.value)
                            .map(json_text)
                            .unwrap_or_default(),
                    },
                )
            }),
            "completion" => {
                let text = json::text(entry.final_text).unwrap_or_default();
                if let Some(offset) = self.said.find(&text) {
                    return Some(Disposition::DuplicateOf { offset });
                }
                push_text(
                    &mut out,
                    Role::Assistant,
                    MessageKind::Text,
                    entry.final_text,
                );
            }
            "compaction_state" => {
                let summary = entry.summary_text.or(entry.summary);
                push_text(&mut out, Role::Meta, MessageKind::Summary, summary);
            }
            // The list of a todo_state is in the tool call that made it, too.
            "session_start" | "todo_state" | "session_end" => {}
            _ => return None,
        }
        Some(known(out))
    }
}

/// The session that a record names, if it does.
fn session_of(entry: &Entry<'_>) -> Option<String> {
    if json::text(entry.kind).is_some_and(|k| k == "session_start") {
        json::owned(entry.id)
    } else {
        json::owned(entry.session_id)
    }
}

impl LogReader for DroidReader {
    fn state(&self) -> Option<serde_json::Value> {
        serde_json::to_value((&self.session, &self.said)).ok()
    }

    fn first_keys(&self) -> &'static [&'static str] {
        FIRST_KEYS
    }

    fn is_record(&self, line: &Line<'_>) -> bool {
        json::text(line.kind).is_some_and(|kind| {
            matches!(
                &*kind,
                "session_start"
                    | "message"
                    | "todo_state"
                    | "compaction_state"
                    | "session_end"
                    | "tool_call"
                    | "tool_result"
                    | "completion"
            )
        })
    }

    fn read(&mut self, record: RawRecord<'_>) -> Reading {
        let entry: Entry<'_> = serde_json::from_str(record.text).unwrap_or_default();
        let kind = json::owned(entry.kind).unwrap_or_default();
        if let Some(session) = session_of(&entry) {
            self.session = session;
        }
        let begins = kind == "session_start";
        let facts = if begins {
            Facts {
                title: json::owned(entry.session_title).or_else(|| json::owned(entry.title)),
                workspace: json::owned(entry.cwd),
                parent_session: json::owned(entry.calling_session),
                harness_version: json::owned(entry.version),
            }
        } else {
            Facts::default()
        };
        Reading {
            session: self.session.clone(),
            native_id: json::owned(entry.id),
            native_parent: json::owned(entry.parent),
            disposition: self
                .disposition(&kind, &entry, record.offset)
                .unwrap_or(Disposition::Unknown),
            record_type: kind,
            time_ms: json::time_ms(entry.timestamp),
            facts,
        }
    }
}
