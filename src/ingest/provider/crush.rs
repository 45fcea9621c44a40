//! Crush: a database in each project; a message's parts are JSON in one column.

use std::borrow::Cow;
use std::path::Path;

use serde_json::value::RawValue;

use super::{Reading, TableReader, Visit, blocks, epoch, known, message, push_text, text_of};
use crate::error::Result;
use crate::ingest::parse::json::{self, Element, raw_object};
use crate::ingest::parse::payload;
use crate::model::record::{Disposition, Facts, Message, MessageKind, Role};
use crate::model::row::Row;

raw_object! {
    struct Part { kind = "type", data = "data" }
}

raw_object! {
    struct Data {
        text = "text",
        thinking = "thinking",
        id = "id",
        name = "name",
        input = "input",
        call_id = "tool_call_id",
        content = "content",
        is_error = "is_error",
        reason = "reason",
        message = "message",
        details = "details",
        url = "url",
        // The harness stores these under the names of its own fields.
        path = "Path",
        mime_type = "MIMEType",
        bytes = "Data",
    }
}

/// Reads the database.
#[derive(Debug)]
pub(super) struct CrushTables {
    /// The project: the folder that the data folder lies in.
    workspace: Option<String>,
}

impl CrushTables {
    pub(super) fn new(path: &Path) -> Self {
        let workspace = path
            .parent()
            .filter(|f| f.file_name().is_some_and(|n| n == ".crush"))
            .and_then(Path::parent)
            .map(|p| p.to_string_lossy().into_owned());
        CrushTables { workspace }
    }
}

impl TableReader for CrushTables {
    fn tables(&self) -> &'static [&'static str] {
        &["sessions", "messages", "files", "read_files"]
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
            visit.rows(self, "sessions", "WHERE id=?1", &[&session])?;
            for table in ["messages", "files", "read_files"] {
                if visit.has(table) && visit.has_column(table, "session_id") {
                    let order = if visit.has_column(table, "created_at") {
                        "created_at, _rowid_"
                    } else {
                        "_rowid_"
                    };
                    let rest = format!("WHERE session_id=?1 ORDER BY {order}");
                    visit.rows(self, table, &rest, &[&session])?;
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
        let mut reading = Reading {
            session: row.owned(session).unwrap_or_else(|| "unknown".to_owned()),
            native_id: row.owned("id"),
            native_parent: None,
            record_type: String::new(),
            time_ms: row.integer("created_at").and_then(epoch::ms),
            disposition: Disposition::Known,
            facts: Facts::default(),
        };
        match table {
            "sessions" => {
                // A session that a tool began has the id of the call.
                reading.native_id = reading.native_id.map(|id| format!("session:{id}"));
                reading.facts = Facts {
                    title: row.owned("title"),
                    workspace: self.workspace.clone(),
                    parent_session: row.owned("parent_session_id"),
                    harness_version: None,
                };
            }
            "messages" => {
                let role = row.text("role").unwrap_or_default();
                reading.record_type = role.clone().into_owned();
                let parts = row.text("parts").unwrap_or_default();
                reading.disposition = said(&role, &parts, row);
            }
            "files" => {
                reading.native_id = reading.native_id.map(|id| format!("file:{id}"));
            }
            // Which files the model has seen, and when.
            _ => {
                let path = row.text("path").unwrap_or_default();
                reading.native_id = Some(format!("read:{path}"));
                reading.time_ms = row.integer("read_at").and_then(epoch::ms);
            }
        }
        reading
    }
}

fn said(role: &str, parts: &str, row: &Row) -> Disposition {
    let role = match role {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" => Role::Tool,
        "system" => Role::System,
        _ => return Disposition::Unknown,
    };
    let Ok(list) = serde_json::from_str::<&RawValue>(parts) else {
        return Disposition::Unknown;
    };
    if json::items(Some(list)).is_none() {
        return Disposition::Unknown;
    }
    let mut out = Vec::new();
    let mut strange = 0;
    for element in json::elements::<Part<'_>>(Some(list)) {
        match element {
            Element::Object(one) if part(&one, role, &mut out) => {}
            _ => strange += 1,
        }
    }
    if out.is_empty() && strange > 0 {
        return Disposition::Unknown;
    }
    let model = row.owned("model");
    let is_summary = row.integer("is_summary_message").is_some_and(|n| n != 0);
    for message in &mut out {
        if message.role == Role::Assistant {
            message.model.clone_from(&model);
        }
        if is_summary && message.kind == MessageKind::Text {
            message.kind = MessageKind::Summary;
        }
    }
    known(out)
}

/// What one part says; false when its type is not known.
fn part(part: &Part<'_>, role: Role, out: &mut Vec<Message>) -> bool {
    let data = json::object::<Data<'_>>(part.data).unwrap_or_default();
    let kind = json::text(part.kind).unwrap_or_default();
    match &*kind {
        "text" => {
            if let Some(text) = json::text(data.text).filter(|t| !t.is_empty()) {
                let role = match role {
                    Role::User => blocks::speaker(&text).0,
                    role => role,
                };
                let text = payload::described_in(text);
                out.push(message(role, MessageKind::Text, text));
            }
        }
        "reasoning" => push_text(out, role, MessageKind::Reasoning, data.thinking),
        "tool_call" => out.push(Message {
            tool_name: json::owned(data.name),
            call_id: json::owned(data.id),
            ..message(Role::Assistant, MessageKind::ToolCall, text_of(data.input))
        }),
        "tool_result" => out.push(Message {
            tool_name: json::owned(data.name),
            call_id: json::owned(data.call_id),
            is_error: json::boolean(data.is_error),
            ..message(Role::Tool, MessageKind::ToolResult, text_of(data.content))
        }),
        "finish" => {
            if json::text(data.reason).is_some_and(|r| r == "error") {
                let said: Vec<Cow<'_, str>> = [data.message, data.details]
                    .into_iter()
                    .filter_map(json::text)
                    .filter(|t| !t.is_empty())
                    .collect();
                out.push(Message {
                    is_error: Some(true),
                    ..message(Role::System, MessageKind::Text, said.join(": "))
                });
            }
        }
        "image_url" => {
            let line = payload::describe_url("image", &json::text(data.url).unwrap_or_default());
            out.push(message(role, MessageKind::Attachment, line));
        }
        "binary" => {
            let media_type = json::text(data.mime_type).unwrap_or_default();
            let bytes = json::text(data.bytes).unwrap_or_default();
            let line = payload::describe(&media_type, &bytes);
            let line = match json::owned(data.path) {
                Some(path) => format!("{path} {line}"),
                None => line,
            };
            out.push(message(role, MessageKind::Attachment, line));
        }
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::row::Value;

    fn read(role: &str, parts: &str) -> Vec<String> {
        let row = Row::new(vec![("is_summary_message".into(), Value::Integer(0))]);
        match said(role, parts, &row) {
            Disposition::Messages(all) => all
                .iter()
                .map(|m| format!("{:?} {:?} {}", m.role, m.kind, m.text))
                .collect(),
            other => vec![format!("{other:?}")],
        }
    }

    #[test]
    fn every_type_of_part_is_read() {
        let parts = r#"[{"type":"text","data":{"text":"a"}},
            {"type":"reasoning","data":{"thinking":"b"}},
            {"type":"tool_call","data":{"id":"1","name":"ls","input":"{}"}},
            {"type":"tool_result","data":{"tool_call_id":"1","content":"c","is_error":true}},
            {"type":"finish","data":{"reason":"error","message":"d","details":"e"}},
            {"type":"finish","data":{"reason":"stop"}},
            {"type":"image_url","data":{"url":"http://x"}},
            {"type":"binary","data":{"Path":"p.png","MIMEType":"image/png","Data":"aGVsbG8="}},
            {"type":"later","data":{}}, 7]"#;
        let read = read("assistant", parts);
        assert_eq!(
            read[..6],
            [
                "Assistant Text a",
                "Assistant Reasoning b",
                "Assistant ToolCall {}",
                "Tool ToolResult c",
                "System Text d: e",
                "Assistant Attachment [image http://x]",
            ]
        );
        assert!(read[6].starts_with("Assistant Attachment p.png [image/png, 5 bytes"));
        assert_eq!(read.len(), 7);
    }

    #[test]
    fn what_is_not_known_is_said_to_be() {
        for (role, parts) in [
            ("user", r#"[{"type":"later","data":{}}]"#),
            ("user", "{}"),
            ("user", "["),
            ("user", ""),
            ("robot", "[]"),
        ] {
            assert_eq!(read(role, parts), ["Unknown"], "{parts}");
        }
        assert_eq!(read("user", "[]"), ["Known"]);
    }
}
