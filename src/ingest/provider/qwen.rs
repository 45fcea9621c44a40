//! Qwen Code: one record a line, appended, a resume goes on in the same file. Contents are made of
//! the parts that Gemini's are made of.

use std::path::Path;

use serde_json::value::RawValue;

use super::{
    LogReader, RawRecord, Reading, Start, gemini, known, message, push_text, session_of_file, stem,
};
use crate::ingest::parse::json::{self, Element, raw_object};
use crate::ingest::parse::line::Line;
use crate::ingest::parse::payload;
use crate::model::record::{Disposition, Facts, Message, MessageKind, Role};

raw_object! {
    struct Entry {
        uuid = "uuid",
        parent = "parentUuid",
        session_id = "sessionId",
        timestamp = "timestamp",
        kind = "type",
        subtype = "subtype",
        provenance = "provenance",
        cwd = "cwd",
        version = "version",
        model = "model",
        message = "message",
        system = "systemPayload",
        tool = "toolCallResult",
        agent_id = "agentId",
        is_sidechain = "isSidechain",
        project_hash = "projectHash",
    }
}

raw_object! {
    struct Body { parts = "parts", content = "content" }
}

raw_object! {
    struct ToolResult { call_id = "callId", status = "status", display = "resultDisplay" }
}

raw_object! {
    struct System {
        custom_title = "customTitle",
        raw_command = "rawCommand",
        items = "outputHistoryItems",
        compressed = "compressedHistory",
        text = "text",
    }
}

/// Keys that a record may begin with.
const FIRST_KEYS: &[&str] = &["uuid", "parentUuid", "sessionId", "timestamp", "type"];

/// Subtypes of system records that say nothing of their own.
const SILENT: &[&str] = &[
    "at_command",
    "attribution_snapshot",
    "custom_title",
    "file_history_snapshot",
    "rewind",
    "session_artifact_event",
    "session_artifact_snapshot",
    "ui_telemetry",
];

/// What a hook adds to a prompt.
const HOOK: &str = "<qwen:user-prompt-submit-context>";

/// Whether the records are Gemini's, as forks of its early versions wrote them.
pub(super) fn is_gemini(start: Start<'_>) -> bool {
    start
        .first_objects()
        .filter_map(|(_, text)| serde_json::from_str::<Entry<'_>>(text).ok())
        .find_map(|entry| {
            let own = entry.uuid.is_some();
            (own || entry.project_hash.is_some()).then_some(!own)
        })
        .unwrap_or(false)
}

/// Reads the records of one file.
#[derive(Debug)]
pub(super) struct QwenReader {
    /// Session of records that name none.
    fallback: String,
}

impl QwenReader {
    pub(super) fn new<'h>(path: &Path, mut first: impl Iterator<Item = (usize, &'h str)>) -> Self {
        let fallback = session_of_file(stem(path), || {
            first.find_map(|(_, text)| {
                json::owned(serde_json::from_str::<Entry<'_>>(text).ok()?.session_id)
            })
        });
        QwenReader { fallback }
    }
}

fn user(entry: &Entry<'_>, subtype: &str, body: &Body<'_>, out: &mut Vec<Message>) {
    let typed = matches!(subtype, "" | "mid_turn_user_message")
        && json::text(entry.provenance).is_none_or(|p| p == "real_user");
    for raw in [body.parts, body.content] {
        gemini::parts(raw, Role::User, out);
    }
    for message in out {
        if message.role == Role::User && (!typed || message.text.starts_with(HOOK)) {
            message.role = Role::Meta;
        }
    }
}

fn tool_result(entry: &Entry<'_>, body: &Body<'_>, out: &mut Vec<Message>) {
    gemini::parts(body.parts, Role::Tool, out);
    let told = json::object::<ToolResult<'_>>(entry.tool).unwrap_or_default();
    let failed = json::text(told.status).map(|s| s == "error");
    let mut answered = false;
    for message in out.iter_mut() {
        if message.kind == MessageKind::ToolResult {
            answered = true;
            message.is_error = message.is_error.or(failed);
        }
    }
    if !answered && let Some(shown) = json::present(told.display) {
        let text =
            json::text(Some(shown)).map_or_else(|| super::json_text(shown), payload::described_in);
        out.push(Message {
            call_id: json::owned(told.call_id),
            is_error: failed,
            ..message(Role::Tool, MessageKind::ToolResult, text)
        });
    }
}

/// The messages of a system record; false when its subtype is not known.
fn system(subtype: &str, system: &System<'_>, body: &Body<'_>, out: &mut Vec<Message>) -> bool {
    match subtype {
        "slash_command" => {
            push_text(out, Role::Meta, MessageKind::Text, system.raw_command);
            for element in json::elements::<System<'_>>(system.items) {
                if let Element::Object(item) = element {
                    push_text(out, Role::System, MessageKind::Text, item.text);
                }
            }
        }
        // The history begins with the summary; what follows it was said before.
        "chat_compression" => {
            let first = json::items(system.compressed).unwrap_or_default();
            let first = first.first().copied();
            let first = json::object::<Body<'_>>(first).unwrap_or_default();
            gemini::parts(first.parts, Role::Meta, out);
            for message in out.iter_mut() {
                message.kind = MessageKind::Summary;
            }
        }
        subtype if SILENT.contains(&subtype) => {}
        _ => return false,
    }
    gemini::parts(body.parts, Role::System, out);
    true
}

fn body(raw: Option<&RawValue>) -> Body<'_> {
    json::object(raw).unwrap_or_default()
}

impl LogReader for QwenReader {
    fn first_keys(&self) -> &'static [&'static str] {
        FIRST_KEYS
    }

    fn is_record(&self, line: &Line<'_>) -> bool {
        line.uuid.is_some() && line.kind.is_some()
    }

    fn read(&mut self, record: RawRecord<'_>) -> Reading {
        let entry: Entry<'_> = serde_json::from_str(record.text).unwrap_or_default();
        let kind = json::text(entry.kind).unwrap_or_default();
        let subtype = json::text(entry.subtype).unwrap_or_default();
        let told = json::object::<System<'_>>(entry.system).unwrap_or_default();
        let body = body(entry.message);
        let mut facts = Facts {
            workspace: json::owned(entry.cwd),
            harness_version: json::owned(entry.version),
            ..Facts::default()
        };
        let mut out = Vec::new();
        let is_known = match &*kind {
            "user" => {
                user(&entry, &subtype, &body, &mut out);
                true
            }
            "assistant" => {
                gemini::parts(body.parts, Role::Assistant, &mut out);
                let model = json::owned(entry.model);
                for message in &mut out {
                    message.model.clone_from(&model);
                }
                true
            }
            "tool_result" => {
                tool_result(&entry, &body, &mut out);
                true
            }
            "system" => {
                // One of its own making comes only where nobody chose one on this branch.
                if subtype == "custom_title" {
                    facts.title = json::owned(told.custom_title);
                }
                system(&subtype, &told, &body, &mut out)
            }
            _ => false,
        };
        let mut session = json::owned(entry.session_id).unwrap_or_else(|| self.fallback.clone());
        let agent = json::owned(entry.agent_id).filter(|_| json::is_true(entry.is_sidechain));
        if let Some(agent) = agent {
            let own = format!("{session}/{agent}");
            facts.parent_session = Some(std::mem::replace(&mut session, own));
        }
        Reading {
            session,
            native_id: json::owned(entry.uuid),
            native_parent: json::owned(entry.parent),
            record_type: if subtype.is_empty() {
                kind.into_owned()
            } else {
                format!("{kind}/{subtype}")
            },
            time_ms: json::time_ms(entry.timestamp),
            disposition: if is_known {
                known(out)
            } else {
                Disposition::Unknown
            },
            facts,
        }
    }
}
