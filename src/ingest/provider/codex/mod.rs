//! Codex CLI: rollout files, one JSON object a line. The same text is written two or three times:
//! as what the model saw (`response_item`), as what the person saw (`event_msg`, in newer versions
//! its `item_completed`), and in the history that a compaction repeats.

mod events;
mod items;
mod said;

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{LogReader, RawRecord, Reading, is_uuid, stem};
use crate::ingest::parse::json::{self, raw_object};
use crate::ingest::parse::line::Line;
use crate::model::record::{Disposition, Facts};
use said::{Channel, Said};

/// Keys that a record may begin with.
const FIRST_KEYS: &[&str] = &["timestamp", "type", "payload", "ordinal"];

/// Types of records with an envelope that hold no message of their own.
const SILENT: &[&str] = &[
    "inter_agent_communication_metadata",
    "session_meta",
    "token_usage_record",
    "turn_context",
    "world_state",
];

raw_object! {
    /// The fields of a payload that any reader here looks at.
    struct Payload {
        kind = "type",
        role = "role",
        content = "content",
        id = "id",
        name = "name",
        arguments = "arguments",
        input = "input",
        action = "action",
        output = "output",
        call_id = "call_id",
        call_id_camel = "callId",
        tools = "tools",
        tool = "tool",
        summary = "summary",
        message = "message",
        text = "text",
        images = "images",
        result = "result",
        revised_prompt = "revised_prompt",
        aggregated_output = "aggregated_output",
        stdout = "stdout",
        stderr = "stderr",
        exit_code = "exit_code",
        success = "success",
        content_items = "content_items",
        query = "query",
        item = "item",
        turn_id = "turn_id",
        model = "model",
        cwd = "cwd",
        cli_version = "cli_version",
        source = "source",
        forked_from_id = "forked_from_id",
        parent_thread_id = "parent_thread_id",
        thread_name = "thread_name",
        thread_settings = "thread_settings",
    }
}

raw_object! {
    struct MetaSource { subagent = "subagent" }
}

raw_object! {
    struct Subagent { thread_spawn = "thread_spawn" }
}

raw_object! {
    struct Spawn { parent_thread_id = "parent_thread_id" }
}

/// Whether an object is a record by its type; only those in an envelope, since the bare ones of old
/// versions look like the payloads of new ones.
fn is_record(line: &Line<'_>) -> bool {
    line.payload.is_some()
        && json::text(line.kind).is_some_and(|kind| {
            SILENT.contains(&&*kind)
                || matches!(&*kind, "response_item" | "event_msg" | "compacted")
        })
}

/// Reads the records of one rollout file.
#[derive(Debug)]
pub(crate) struct CodexReader {
    state: State,
    /// A record was read: before that, what the file says of its session may still change.
    begun: bool,
}

/// What goes on from one part of a file to the next.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct State {
    session: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    said: Said,
}

impl LogReader for CodexReader {
    fn state(&self) -> Option<serde_json::Value> {
        if self.begun {
            serde_json::to_value(&self.state).ok()
        } else {
            None
        }
    }

    fn first_keys(&self) -> &'static [&'static str] {
        FIRST_KEYS
    }

    fn is_record(&self, line: &Line<'_>) -> bool {
        is_record(line)
    }

    fn read(&mut self, record: RawRecord<'_>) -> Reading {
        self.reading(record.line, record.offset)
    }
}

impl CodexReader {
    pub(super) fn new<'h>(
        path: &Path,
        first: impl Iterator<Item = (usize, &'h str)>,
        state: Option<serde_json::Value>,
    ) -> Self {
        let state = state
            .and_then(|s| serde_json::from_value::<State>(s).ok())
            .filter(|s| !s.session.is_empty());
        let begun = state.is_some();
        let state = state.unwrap_or_else(|| State {
            session: session_of(path, first),
            ..State::default()
        });
        CodexReader { state, begun }
    }

    fn reading(&mut self, line: Option<&Line<'_>>, offset: u64) -> Reading {
        self.begun = true;
        let mut reading = Reading {
            session: self.state.session.clone(),
            native_id: None,
            native_parent: None,
            record_type: String::new(),
            time_ms: None,
            disposition: Disposition::Unknown,
            facts: Facts::default(),
        };
        let Some(line) = line else { return reading };
        reading.time_ms = json::time_ms(line.timestamp);
        let kind = json::text(line.kind).unwrap_or_default();
        match line.payload {
            Some(raw) => {
                let payload = json::object::<Payload<'_>>(Some(raw)).unwrap_or_default();
                self.enveloped(&kind, &payload, offset, &mut reading);
            }
            None => self.bare(&kind, line, offset, &mut reading),
        }
        reading
    }

    fn enveloped(&mut self, kind: &str, payload: &Payload<'_>, offset: u64, reading: &mut Reading) {
        let inner = json::text(payload.kind).unwrap_or_default();
        reading.record_type = if inner.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind}/{inner}")
        };
        match kind {
            "response_item" => {
                reading.native_id = json::owned(payload.id);
                let found = items::read(&inner, payload);
                reading.disposition = self.said(found, Channel::Response, offset);
            }
            "event_msg" => {
                if matches!(&*inner, "task_started" | "turn_started") {
                    self.turn(payload);
                }
                if inner == "thread_name_updated" {
                    reading.facts.title = json::owned(payload.thread_name);
                }
                if inner == "thread_settings_applied"
                    && let Some(settings) = json::object::<Payload<'_>>(payload.thread_settings)
                {
                    reading.facts.workspace = json::owned(settings.cwd);
                }
                let found = if inner == "item_completed" {
                    let item = json::object::<Payload<'_>>(payload.item).unwrap_or_default();
                    let item_kind = json::text(item.kind).unwrap_or_default();
                    reading.record_type = format!("{kind}/{inner}/{item_kind}");
                    reading.native_id = json::owned(item.id);
                    let found = events::item(&item_kind, &item, payload.item);
                    reading.disposition = self.said(found, Channel::Item, offset);
                    return;
                } else {
                    events::event(&inner, payload)
                };
                reading.disposition = self.said(found, Channel::Event, offset);
            }
            "compacted" => {
                let found = items::compacted(payload);
                reading.disposition = self.said(found, Channel::Compacted, offset);
            }
            "session_meta" => {
                reading.disposition = Disposition::Known;
                self.meta(payload, &mut reading.facts);
            }
            "turn_context" => {
                self.turn(payload);
                if let Some(model) = json::owned(payload.model) {
                    self.state.model = Some(model);
                }
                reading.facts.workspace = json::owned(payload.cwd);
                reading.disposition = Disposition::Known;
            }
            kind if SILENT.contains(&kind) => reading.disposition = Disposition::Known,
            _ => {}
        }
    }

    /// A record of the versions before envelopes: the item itself.
    fn bare(&mut self, kind: &str, line: &Line<'_>, offset: u64, reading: &mut Reading) {
        if let Some(state) = json::text(line.record_type) {
            reading.record_type = state.into_owned();
            reading.disposition = Disposition::Known;
            return;
        }
        if kind.is_empty() {
            let is_meta = line.id.is_some() && line.timestamp.is_some();
            if is_meta {
                reading.record_type = "session_meta".to_owned();
                reading.disposition = Disposition::Known;
            }
            return;
        }
        reading.record_type = kind.to_owned();
        reading.native_id = json::owned(line.id);
        let payload = Payload {
            kind: line.kind,
            role: line.role,
            content: line.content,
            id: line.id,
            name: line.name,
            arguments: line.arguments,
            input: line.input,
            action: line.action,
            output: line.output,
            call_id: line.call_id,
            summary: line.summary,
            ..Payload::default()
        };
        let found = items::read(kind, &payload);
        reading.disposition = self.said(found, Channel::Response, offset);
    }

    /// What the first meta record of a file says; the ones behind it are those of the thread that
    /// it was forked from.
    fn meta(&self, payload: &Payload<'_>, facts: &mut Facts) {
        if json::text(payload.id).is_some_and(|id| id != self.state.session.as_str()) {
            return;
        }
        facts.workspace = json::owned(payload.cwd);
        facts.harness_version = json::owned(payload.cli_version);
        let spawned = || {
            let source = json::object::<MetaSource<'_>>(payload.source)?;
            let subagent = json::object::<Subagent<'_>>(source.subagent)?;
            json::owned(json::object::<Spawn<'_>>(subagent.thread_spawn)?.parent_thread_id)
        };
        facts.parent_session = json::owned(payload.forked_from_id)
            .or_else(|| json::owned(payload.parent_thread_id))
            .or_else(spawned);
    }

    fn turn(&mut self, payload: &Payload<'_>) {
        let turn = json::owned(payload.turn_id);
        if turn.is_some() && turn != self.state.turn {
            self.state.turn = turn;
            self.state.said.new_turn();
        }
    }

    fn said(&mut self, found: Found, channel: Channel, offset: u64) -> Disposition {
        let Found::Messages(mut messages) = found else {
            return match found {
                Found::Silent => Disposition::Known,
                _ => Disposition::Unknown,
            };
        };
        if messages.is_empty() {
            return Disposition::Known;
        }
        if let Some(first) = self.state.said.again(&mut messages, channel, offset) {
            return Disposition::DuplicateOf { offset: first };
        }
        for message in &mut messages {
            if message.role == crate::model::record::Role::Assistant {
                message.model.clone_from(&self.state.model);
            }
        }
        Disposition::Messages(messages)
    }
}

/// What a payload gave.
#[derive(Debug)]
enum Found {
    /// Messages; none when it is of a kind that may hold some and does not.
    Messages(Vec<crate::model::record::Message>),
    /// Of a known kind without messages.
    Silent,
    /// Of no known kind.
    Unknown,
}

/// The session that the begin of a file and its name say. The meta record on the first line counts;
/// one further on may be that of another thread whose history was copied, so the name comes first.
fn session_of<'h>(path: &Path, first: impl Iterator<Item = (usize, &'h str)>) -> String {
    let stem = stem(path);
    let named = stem
        .len()
        .checked_sub(36)
        .and_then(|at| stem.get(at..))
        .filter(|id| is_uuid(id))
        .map(str::to_owned);
    let mut later = None;
    for (n, text) in first {
        let Ok(line) = serde_json::from_str::<Line<'_>>(text) else {
            continue;
        };
        let meta = match line.payload {
            Some(_) if json::text(line.kind).is_some_and(|k| k == "session_meta") => {
                json::object::<Payload<'_>>(line.payload).and_then(|p| json::owned(p.id))
            }
            None if line.kind.is_none() && line.timestamp.is_some() => json::owned(line.id),
            _ => None,
        };
        match meta {
            Some(id) if n == 0 => return id,
            Some(id) => {
                later = Some(id);
                break;
            }
            None if named.is_some() => break,
            None => {}
        }
    }
    named.or(later).unwrap_or(stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01a22811-2cde-7e10-9e32-fe7e55d5b169";

    fn session(name: &str, head: &[&str]) -> String {
        session_of(Path::new(name), head.iter().copied().enumerate())
    }

    #[test]
    fn the_first_meta_names_the_session_and_the_file_name_helps_out() {
        let name = format!("/s/rollout-2026-11-29T16-09-03-{ID}.jsonl");
        let meta = r#"{"type":"session_meta","payload":{"id":"a"}}"#;
        let other = r#"{"type":"session_meta","payload":{"id":"b"}}"#;
        let event = r#"{"type":"event_msg","payload":{"type":"x"}}"#;
        assert_eq!(session(&name, &[meta, other]), "a");
        assert_eq!(session(&name, &[event, other]), ID);
        assert_eq!(session(&format!("{name}.zst"), &[]), ID);
        assert_eq!(session("/s/x.jsonl", &[event, other]), "b");
        assert_eq!(session("/s/x.jsonl", &[event]), "x");
        let bare = r#"{"id":"c","timestamp":"2025-04-16T00:00:00Z","instructions":null}"#;
        assert_eq!(session("/s/x.jsonl", &[bare]), "c");
    }
}
