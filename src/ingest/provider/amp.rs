//! Amp: one JSON document a thread, written anew with each message.

use std::path::Path;

use serde_json::value::RawValue;

use super::{
    DocumentReader, Members, RawRecord, Reading, blocks, epoch, json_text, known, message,
    push_text, stem, uri,
};
use crate::ingest::parse::json::{self, Element, raw_object};
use crate::ingest::parse::payload;
use crate::model::record::{Disposition, Facts, Message, MessageKind, Role};

raw_object! {
    struct Entry {
        id = "id",
        message_id = "messageId",
        role = "role",
        content = "content",
        meta = "meta",
        usage = "usage",
        state = "state",
    }
}

raw_object! {
    struct Detail {
        sent_at = "sentAt",
        model = "model",
        timestamp = "timestamp",
        initial = "initial",
        trees = "trees",
        uri = "uri",
        platform = "platform",
        client_version = "clientVersion",
    }
}

raw_object! {
    struct Block {
        kind = "type",
        text = "text",
        thinking = "thinking",
        id = "id",
        name = "name",
        input = "input",
        call_id = "toolUseID",
        run = "run",
        summary = "summary",
        source = "source",
        media_type = "mediaType",
        data = "data",
        url = "url",
        path = "sourcePath",
    }
}

raw_object! {
    struct Run { status = "status", result = "result", error = "error" }
}

/// Reads a thread.
#[derive(Debug)]
pub(super) struct AmpReader {
    session: String,
}

impl AmpReader {
    pub(super) fn new(path: &Path) -> Self {
        AmpReader {
            session: stem(path),
        }
    }
}

impl DocumentReader for AmpReader {
    fn record_members(&self) -> &'static [&'static str] {
        &["messages"]
    }

    fn frame(&mut self, members: &Members) -> Reading {
        if let Some(id) = members.text("id") {
            self.session = id;
        }
        let initial = members
            .get("env")
            .and_then(|env| serde_json::from_str::<Detail<'_>>(env).ok())
            .and_then(|env| json::object::<Detail<'_>>(env.initial))
            .unwrap_or_default();
        let workspace = json::elements::<Detail<'_>>(initial.trees)
            .into_iter()
            .find_map(|tree| match tree {
                Element::Object(tree) => {
                    let uri = json::text(tree.uri)?;
                    uri::file_path(&uri).or_else(|| uri.starts_with('/').then(|| uri.into_owned()))
                }
                _ => None,
            });
        Reading {
            session: self.session.clone(),
            native_id: Some("thread".to_owned()),
            native_parent: None,
            record_type: "thread".to_owned(),
            time_ms: members.number("created").and_then(epoch::ms),
            disposition: Disposition::Known,
            facts: Facts {
                title: members.text("title"),
                workspace,
                parent_session: None,
                harness_version: json::object::<Detail<'_>>(initial.platform)
                    .and_then(|p| json::owned(p.client_version)),
            },
        }
    }

    fn read(&mut self, record: RawRecord<'_>) -> Reading {
        let entry: Entry<'_> = serde_json::from_str(record.text).unwrap_or_default();
        // A thread without messages is one record.
        if let Some(id) = json::owned(entry.id)
            && entry.role.is_none()
        {
            self.session = id;
        }
        let usage = json::object::<Detail<'_>>(entry.usage).unwrap_or_default();
        let meta = json::object::<Detail<'_>>(entry.meta).unwrap_or_default();
        let role = json::text(entry.role).unwrap_or_default();
        let mut out = Vec::new();
        let is_known = match &*role {
            "user" => said(entry.content, Role::User, &mut out),
            "assistant" => said(entry.content, Role::Assistant, &mut out),
            "info" | "system" => said(entry.content, Role::System, &mut out),
            _ => false,
        };
        let model = json::owned(usage.model);
        for message in out.iter_mut().filter(|m| m.role == Role::Assistant) {
            message.model.clone_from(&model);
        }
        Reading {
            session: self.session.clone(),
            native_id: entry
                .message_id
                .map(|id| format!("message:{}", id.get().trim_matches('"')))
                .filter(|id| id.len() < 256),
            native_parent: None,
            record_type: role.into_owned(),
            time_ms: json::time_ms(meta.sent_at).or_else(|| json::time_ms(usage.timestamp)),
            disposition: if is_known {
                known(out)
            } else {
                Disposition::Unknown
            },
            facts: Facts::default(),
        }
    }
}

/// The messages of a content; false when it holds nothing but types that are not known.
fn said(content: Option<&RawValue>, role: Role, out: &mut Vec<Message>) -> bool {
    let text = |raw: Option<&RawValue>, out: &mut Vec<Message>| {
        if let Some(text) = json::text(raw).filter(|t| !t.is_empty()) {
            let role = match role {
                Role::User => blocks::speaker(&text).0,
                role => role,
            };
            let text = payload::described_in(text);
            out.push(message(role, MessageKind::Text, text));
        }
    };
    text(content, out);
    let mut strange = 0;
    for element in json::elements::<Block<'_>>(content) {
        let Element::Object(block) = element else {
            strange += 1;
            continue;
        };
        match json::text(block.kind).as_deref() {
            Some("text") => text(block.text, out),
            Some("thinking") => push_text(out, role, MessageKind::Reasoning, block.thinking),
            Some("redacted_thinking") => {}
            Some("tool_use" | "server_tool_use") => out.push(Message {
                tool_name: json::owned(block.name),
                call_id: json::owned(block.id),
                ..message(
                    Role::Assistant,
                    MessageKind::ToolCall,
                    block.input.map(json_text).unwrap_or_default(),
                )
            }),
            Some("tool_result") => out.push(result(&block)),
            Some("summary") => {
                let inner = json::object::<Block<'_>>(block.summary).unwrap_or_default();
                let summary = json::text(block.summary).or_else(|| json::text(inner.summary));
                if let Some(summary) = summary.filter(|s| !s.is_empty()) {
                    let summary = payload::described_in(summary);
                    out.push(message(role, MessageKind::Summary, summary));
                }
            }
            Some(kind @ ("image" | "file")) => {
                let source = json::object::<Block<'_>>(block.source).unwrap_or(block);
                let media_type = json::text(source.media_type).unwrap_or_else(|| kind.into());
                let line = match json::text(source.data) {
                    Some(data) => payload::describe(&media_type, &data),
                    None => {
                        let url = json::text(source.url).or_else(|| json::text(block.path));
                        payload::describe_url(kind, &url.unwrap_or_default())
                    }
                };
                out.push(message(role, MessageKind::Attachment, line));
            }
            _ => strange += 1,
        }
    }
    !out.is_empty() || strange == 0
}

fn result(block: &Block<'_>) -> Message {
    let run = json::object::<Run<'_>>(block.run).unwrap_or_default();
    let failed = json::text(run.status).map(|s| matches!(&*s, "error" | "rejected-by-user"));
    let said = json::present(run.result).or(json::present(run.error));
    let text =
        said.map(|raw| json::text(Some(raw)).map_or_else(|| json_text(raw), payload::described_in));
    Message {
        call_id: json::owned(block.call_id),
        is_error: failed,
        ..message(
            Role::Tool,
            MessageKind::ToolResult,
            text.unwrap_or_default(),
        )
    }
}
