//! Goose: a database since 1.10, one JSON object a line before.
//!
//! Old files were copied into the database once and stay. Where a message has no id of its own, its
//! role, its second and its place among those of that second stand for one, so that what is in both
//! is one message.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    LogReader, RawRecord, Reading, Start, TableReader, Visit, blocks, epoch, known, message,
    push_text, stem, text_of,
};
use crate::error::Result;
use crate::ingest::parse::json::{self, Element, raw_object};
use crate::ingest::parse::line::Line;
use crate::ingest::parse::payload;
use crate::model::record::{Disposition, Facts, Message, MessageKind, Role};
use crate::model::row::Row;

raw_object! {
    struct Entry {
        id = "id",
        role = "role",
        created = "created",
        content = "content",
        metadata = "metadata",
        description = "description",
        name = "name",
        working_dir = "working_dir",
        created_at = "created_at",
        parent = "parent_session_id",
        count = "message_count",
    }
}

raw_object! {
    struct Block {
        kind = "type",
        id = "id",
        text = "text",
        thinking = "thinking",
        msg = "msg",
        message = "message",
        call = "toolCall",
        result = "toolResult",
        tool_name = "toolName",
        arguments = "arguments",
        prompt = "prompt",
        data = "data",
        mime_type = "mimeType",
    }
}

raw_object! {
    struct Outcome {
        status = "status",
        value = "value",
        error = "error",
        name = "name",
        arguments = "arguments",
        content = "content",
        is_error = "isError",
        text = "text",
        visible = "userVisible",
    }
}

/// Ids for messages that have none: how many of each role a second has had.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
struct Second {
    at: i64,
    seen: BTreeMap<String, u32>,
}

impl Second {
    fn id(&mut self, at_ms: i64, role: &str) -> String {
        let at = at_ms.div_euclid(1000);
        if at != self.at {
            self.at = at;
            self.seen.clear();
        }
        // Roles are few; a file that is not what it seems must not fill the memory.
        if self.seen.len() > 16 {
            self.seen.clear();
        }
        let role: String = role.chars().take(32).collect();
        let n = self.seen.entry(role.clone()).or_default();
        *n += 1;
        format!("{role}@{at}#{n}")
    }
}

/// The id that the harness made up for a message that had none when it was stored.
fn is_made_up(id: &str, session: &str) -> bool {
    id.strip_prefix("msg_")
        .and_then(|rest| rest.strip_prefix(session))
        .is_some_and(|rest| rest.starts_with('_'))
}

/// Reads the database.
#[derive(Debug, Default)]
pub(super) struct GooseTables {
    second: Second,
}

impl TableReader for GooseTables {
    fn tables(&self) -> &'static [&'static str] {
        &["sessions", "messages", "usage_ledger"]
    }

    fn visit(&mut self, visit: &mut dyn Visit) -> Result<()> {
        if !visit.has("sessions") {
            return Ok(());
        }
        let order = if visit.has_column("sessions", "created_at") {
            "created_at, id"
        } else {
            "id"
        };
        for session in visit.keys(&format!("SELECT id FROM sessions ORDER BY {order}"), &[])? {
            self.second = Second::default();
            visit.rows(self, "sessions", "WHERE id=?1", &[&session])?;
            for table in ["messages", "usage_ledger"] {
                if visit.has(table) && visit.has_column(table, "session_id") {
                    let rest = "WHERE session_id=?1 ORDER BY _rowid_";
                    visit.rows(self, table, rest, &[&session])?;
                }
            }
        }
        Ok(())
    }

    fn read(&mut self, table: &'static str, row: &Row) -> Reading {
        let session = if table == "sessions" {
            "id"
        } else {
            "session_id"
        };
        let session = row.owned(session).unwrap_or_else(|| "unknown".to_owned());
        let created = row
            .owned("created_at")
            .and_then(|text| epoch::of_text(&text))
            .or_else(|| row.integer("created_at").and_then(epoch::ms));
        let mut reading = Reading {
            session: session.clone(),
            native_id: None,
            native_parent: None,
            record_type: String::new(),
            time_ms: created,
            disposition: Disposition::Known,
            facts: Facts::default(),
        };
        match table {
            "sessions" => {
                reading.native_id = Some("session".to_owned());
                reading.facts = Facts {
                    title: row.owned("name").or_else(|| row.owned("description")),
                    workspace: row.owned("working_dir"),
                    parent_session: row.owned("parent_session_id"),
                    harness_version: None,
                };
            }
            "messages" => {
                let role = row.text("role").unwrap_or_default();
                let at = row.integer("created_timestamp").and_then(epoch::ms);
                reading.time_ms = at.or_else(|| epoch::of_text(&row.text("timestamp")?));
                reading.record_type = role.clone().into_owned();
                reading.native_id = match row.owned("message_id") {
                    Some(id) if !is_made_up(&id, &session) => Some(id),
                    _ => Some(self.second.id(at.unwrap_or(-1000), &role)),
                };
                let content = row.text("content_json").unwrap_or_default();
                let metadata = row.text("metadata_json").unwrap_or_default();
                reading.disposition = match serde_json::from_str::<&RawValue>(&content) {
                    Ok(content) => said(&role, Some(content), serde_json::from_str(&metadata).ok()),
                    Err(_) => Disposition::Unknown,
                };
            }
            _ => {
                reading.native_id = row.integer("id").map(|id| format!("usage:{id}"));
            }
        }
        reading
    }
}

/// Reads a file of the older generation.
#[derive(Debug)]
pub(super) struct GooseLog {
    session: String,
    second: Second,
}

impl GooseLog {
    pub(super) fn new(start: Start<'_>, state: Option<serde_json::Value>) -> Self {
        let session = start
            .first_objects()
            .next()
            .and_then(|(_, text)| serde_json::from_str::<Entry<'_>>(text).ok())
            .filter(|first| first.role.is_none())
            .and_then(|first| json::owned(first.id));
        GooseLog {
            session: session.unwrap_or_else(|| stem(start.path)),
            second: state
                .and_then(|s| serde_json::from_value(s).ok())
                .unwrap_or_default(),
        }
    }
}

impl LogReader for GooseLog {
    fn state(&self) -> Option<serde_json::Value> {
        serde_json::to_value(&self.second).ok()
    }

    fn first_keys(&self) -> &'static [&'static str] {
        &["id", "role", "description", "working_dir"]
    }

    fn is_record(&self, line: &Line<'_>) -> bool {
        line.role.is_some() && line.content.is_some()
    }

    fn read(&mut self, record: RawRecord<'_>) -> Reading {
        let entry: Entry<'_> = serde_json::from_str(record.text).unwrap_or_default();
        let mut reading = Reading {
            session: self.session.clone(),
            native_id: json::owned(entry.id),
            native_parent: None,
            record_type: String::new(),
            time_ms: json::time_ms(entry.created),
            disposition: Disposition::Unknown,
            facts: Facts::default(),
        };
        if let Some(role) = json::owned(entry.role) {
            if reading.native_id.is_none() {
                let id = self.second.id(reading.time_ms.unwrap_or(-1000), &role);
                reading.native_id = Some(id);
            }
            reading.disposition = said(&role, entry.content, json::object(entry.metadata));
            reading.record_type = role;
        } else if entry.description.is_some()
            || entry.working_dir.is_some()
            || entry.count.is_some()
        {
            reading.native_id = Some("session".to_owned());
            reading.record_type = "session".to_owned();
            reading.time_ms = json::time_ms(entry.created_at)
                .or_else(|| epoch::of_text(&json::text(entry.created_at)?));
            reading.disposition = Disposition::Known;
            reading.facts = Facts {
                title: json::owned(entry.description).or_else(|| json::owned(entry.name)),
                workspace: json::owned(entry.working_dir),
                parent_session: json::owned(entry.parent),
                harness_version: None,
            };
        }
        reading
    }
}

/// What a message says. What the person never sees is not what the person said.
fn said(role: &str, content: Option<&RawValue>, metadata: Option<Outcome<'_>>) -> Disposition {
    let hidden = metadata.is_some_and(|m| json::boolean(m.visible) == Some(false));
    let role = match role {
        "user" if hidden => Role::Meta,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        "tool" => Role::Tool,
        _ => return Disposition::Unknown,
    };
    let mut out = Vec::new();
    let mut strange = u32::from(json::items(content).is_none() && json::text(content).is_none());
    text(content, role, &mut out);
    for element in json::elements::<Block<'_>>(content) {
        match element {
            Element::Object(one) if block(&one, role, &mut out) => {}
            _ => strange += 1,
        }
    }
    if out.is_empty() && strange > 0 {
        return Disposition::Unknown;
    }
    known(out)
}

fn text(raw: Option<&RawValue>, role: Role, out: &mut Vec<Message>) {
    if let Some(text) = json::text(raw).filter(|t| !t.is_empty()) {
        let role = match role {
            Role::User if text.trim_start().starts_with("<turn-context>") => Role::Meta,
            Role::User => blocks::speaker(&text).0,
            role => role,
        };
        let text = payload::described_in(text);
        out.push(message(role, MessageKind::Text, text));
    }
}

/// What one block says; false when its type is not known.
fn block(block: &Block<'_>, role: Role, out: &mut Vec<Message>) -> bool {
    let kind = json::text(block.kind).unwrap_or_default();
    match &*kind {
        "text" => text(block.text, role, out),
        "thinking" | "reasoning" => {
            let said = block.thinking.or(block.text);
            push_text(out, role, MessageKind::Reasoning, said);
        }
        "redactedThinking" => {}
        "toolRequest" | "frontendToolRequest" => {
            let call = json::object::<Outcome<'_>>(block.call).unwrap_or_default();
            let value = json::object::<Outcome<'_>>(call.value).unwrap_or(call);
            out.push(Message {
                tool_name: json::owned(value.name),
                call_id: json::owned(block.id),
                is_error: json::present(call.error).map(|_| true),
                ..message(
                    Role::Assistant,
                    MessageKind::ToolCall,
                    text_of(value.arguments.or(call.error)),
                )
            });
        }
        "toolConfirmationRequest" => out.push(Message {
            tool_name: json::owned(block.tool_name),
            ..message(
                Role::System,
                MessageKind::Text,
                json::owned(block.prompt).unwrap_or_else(|| text_of(block.arguments)),
            )
        }),
        "toolResponse" => out.push(result(block)),
        "image" => {
            let media_type = json::text(block.mime_type).unwrap_or_default();
            let data = json::text(block.data).unwrap_or_default();
            let line = payload::describe(&media_type, &data);
            out.push(message(role, MessageKind::Attachment, line));
        }
        "conversationCompacted"
        | "contextLengthExceeded"
        | "summarizationRequested"
        | "systemNotification"
        | "actionRequired" => {
            let said = block.msg.or(block.message);
            push_text(out, Role::System, MessageKind::Text, said);
        }
        _ => return false,
    }
    true
}

/// A tool's result: the texts in its content, or why it failed.
fn result(block: &Block<'_>) -> Message {
    let outcome = json::object::<Outcome<'_>>(block.result).unwrap_or_default();
    let value = json::object::<Outcome<'_>>(outcome.value).unwrap_or_default();
    let mut failed = json::text(outcome.status).map(|s| s == "error");
    if json::is_true(value.is_error) {
        failed = Some(true);
    }
    let mut texts: Vec<String> = Vec::new();
    let content = value.content.or(outcome.value);
    for element in json::elements::<Block<'_>>(content) {
        match element {
            Element::Text(text) => texts.push(payload::described_in(text)),
            Element::Object(part) => match json::text(part.text) {
                Some(text) => texts.push(payload::described_in(text)),
                None => {
                    if let Some(data) = json::text(part.data) {
                        let media_type = json::text(part.mime_type).unwrap_or_default();
                        texts.push(payload::describe(&media_type, &data));
                    }
                }
            },
            Element::Other => {}
        }
    }
    if texts.is_empty() {
        texts.extend(
            json::present(outcome.error)
                .or(json::present(content))
                .map(|said| text_of(Some(said))),
        );
    }
    Message {
        call_id: json::owned(block.id),
        is_error: failed,
        ..message(Role::Tool, MessageKind::ToolResult, texts.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(role: &str, content: &str) -> Vec<String> {
        let content: &RawValue = serde_json::from_str(content).unwrap();
        match said(role, Some(content), None) {
            Disposition::Messages(all) => all
                .iter()
                .map(|m| format!("{:?} {:?} {:?} {}", m.role, m.kind, m.is_error, m.text))
                .collect(),
            other => vec![format!("{other:?}")],
        }
    }

    #[test]
    fn every_type_of_block_is_read() {
        assert_eq!(
            read(
                "assistant",
                r#"[{"type":"thinking","thinking":"t"},{"type":"text","text":"x"},
                {"type":"toolRequest","id":"1","toolCall":{"status":"success","value":{"name":"ls","arguments":{"p":1}}}},
                {"type":"toolRequest","id":"2","toolCall":{"status":"error","error":"bad"}},
                {"type":"systemNotification","msg":"n"},{"type":"redactedThinking","data":"z"}]"#
            ),
            [
                "Assistant Reasoning None t",
                "Assistant Text None x",
                "Assistant ToolCall None {\"p\":1}",
                "Assistant ToolCall Some(true) bad",
                "System Text None n"
            ]
        );
        assert_eq!(
            read(
                "user",
                r#"[{"type":"toolResponse","id":"1","toolResult":{"status":"success","value":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}},
                {"type":"toolResponse","id":"2","toolResult":{"status":"success","value":{"content":[{"type":"text","text":"c"}],"isError":true}}},
                {"type":"toolResponse","id":"3","toolResult":{"status":"error","error":"no"}},
                {"type":"text","text":"<turn-context>x</turn-context>"}]"#
            ),
            [
                "Tool ToolResult Some(false) a\nb",
                "Tool ToolResult Some(true) c",
                "Tool ToolResult Some(true) no",
                "Meta Text None <turn-context>x</turn-context>"
            ]
        );
        assert_eq!(read("user", "\"plain\""), ["User Text None plain"]);
        for odd in ["{}", "7", "[7]", r#"[{"type":"later"}]"#] {
            assert_eq!(read("user", odd), ["Unknown"], "{odd}");
        }
        assert_eq!(read("user", "[]"), ["Known"]);
    }

    #[test]
    fn a_message_without_an_id_is_named_by_its_second() {
        let mut second = Second::default();
        let ids: Vec<String> = [(1_000, "user"), (1_999, "user"), (1_000, "assistant")]
            .into_iter()
            .chain([(2_000, "user")])
            .map(|(at, role)| second.id(at, role))
            .collect();
        assert_eq!(ids, ["user@1#1", "user@1#2", "assistant@1#1", "user@2#1"]);
        assert!(is_made_up("msg_20260101_1_abc", "20260101_1"));
        assert!(!is_made_up("msg_1", "20260101_1"));
    }
}
