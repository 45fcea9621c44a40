//! GitHub Copilot CLI: one event a line, appended; the session is named by its `session.start`.
//!
//! A tool call stands in the message that asks for it and in the event that starts it; reasoning
//! may stand in a message and in an event of its own. Each is one message.

use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

use super::recent::Recent;
use super::{
    LogReader, RawRecord, Reading, Start, blocks, is_uuid, json_text, known, message, push_text,
    session_of_file, stem,
};
use crate::ingest::parse::json::{self, Element, raw_object};
use crate::ingest::parse::line::Line;
use crate::ingest::parse::payload;
use crate::model::record::{Disposition, Facts, Message, MessageKind, Role};

raw_object! {
    struct Event {
        kind = "type",
        data = "data",
        id = "id",
        timestamp = "timestamp",
        parent = "parentId",
    }
}

raw_object! {
    struct Data {
        session_id = "sessionId",
        version = "copilotVersion",
        start_time = "startTime",
        context = "context",
        cwd = "cwd",
        title = "title",
        content = "content",
        transformed = "transformedContent",
        source = "source",
        attachments = "attachments",
        model = "model",
        requests = "toolRequests",
        reasoning = "reasoningText",
        call_id = "toolCallId",
        parent_call = "parentToolCallId",
        tool_name = "toolName",
        arguments = "arguments",
        success = "success",
        result = "result",
        error = "error",
        message = "message",
        summary = "summary",
        summary_content = "summaryContent",
    }
}

raw_object! {
    struct Context { cwd = "cwd" }
}

raw_object! {
    struct Request { id = "toolCallId", name = "name", arguments = "arguments" }
}

raw_object! {
    struct Outcome { content = "content", detailed = "detailedContent", message = "message" }
}

raw_object! {
    struct Attachment {
        path = "path",
        file_path = "filePath",
        name = "displayName",
        text = "text",
        data = "data",
        mime_type = "mimeType",
        url = "url",
        title = "title",
    }
}

/// Keys that a record may begin with.
const FIRST_KEYS: &[&str] = &["type", "data", "id", "timestamp", "parentId"];

/// Events without a text that no other event has.
const SILENT: &[&str] = &[
    "abort",
    "assistant.intent",
    "assistant.message_delta",
    "assistant.reasoning_delta",
    "assistant.turn_end",
    "assistant.turn_start",
    "assistant.usage",
    "session.auto_mode_resolved",
    "session.compaction_start",
    "session.context_changed",
    "session.idle",
    "session.mode_changed",
    "session.model_change",
    "session.permissions_changed",
    "session.plan_changed",
    "session.resume",
    "session.shutdown",
    "session.snapshot_rewind",
    "session.start",
    "session.title_changed",
    "session.truncation",
    "session.usage_checkpoint",
    "session.usage_info",
    "session.workspace_file_changed",
    "tool.execution_partial_result",
    "tool.execution_progress",
];

/// Families of events that hold what others say, for hooks, dialogues and agents.
const SILENT_FAMILIES: &[&str] = &["hook.", "permission.", "subagent."];

/// Reads the events of one file.
#[derive(Debug)]
pub(super) struct CopilotReader {
    session: String,
    /// Title and folder by the file beside the events. The title may come late, so every record
    /// tells it; the folder counts until an event names one.
    beside: Facts,
    placed: bool,
    /// Calls and reasoning that were told and have not come again.
    told: Recent,
}

impl CopilotReader {
    pub(super) fn new(start: Start<'_>, state: Option<serde_json::Value>) -> Self {
        let begun = || {
            start
                .first_objects()
                .filter_map(|(_, text)| serde_json::from_str::<Event<'_>>(text).ok())
                .filter(|e| json::text(e.kind).is_some_and(|k| k == "session.start"))
                .find_map(|e| json::owned(json::object::<Data<'_>>(e.data)?.session_id))
        };
        let (kept, placed, told) = state
            .and_then(|s| serde_json::from_value::<(Option<String>, bool, Recent)>(s).ok())
            .unwrap_or_default();
        let beside = workspace_file(start.path)
            .and_then(|path| start.siblings.get(&path))
            .map(|bytes| described(bytes))
            .unwrap_or_default();
        CopilotReader {
            session: kept.unwrap_or_else(|| session_of_file(by_place(start.path), begun)),
            beside,
            placed,
            told,
        }
    }

    fn disposition(
        &mut self,
        kind: &str,
        data: &Data<'_>,
        offset: u64,
        out: &mut Vec<Message>,
    ) -> Disposition {
        match kind {
            "user.message" => user(data, out),
            "assistant.message" => self.assistant(data, offset, out),
            "assistant.reasoning" => {
                let text = json::text(data.content).unwrap_or_default();
                if let Some(first) = self.told.take(&in_message(&text)) {
                    return Disposition::DuplicateOf { offset: first };
                }
                if !text.is_empty() {
                    self.told.add(&in_event(&text), offset);
                }
                push_text(out, Role::Assistant, MessageKind::Reasoning, data.content);
            }
            "tool.execution_start" | "tool.user_requested" => {
                let call_id = json::owned(data.call_id);
                let asked_by_person = kind == "tool.user_requested";
                // Some models use the same ids for the calls of every turn, so one request stands
                // for one start.
                if let Some(id) = &call_id {
                    if asked_by_person {
                        self.told.add(id, offset);
                    } else if let Some(first) = self.told.take(id) {
                        return Disposition::DuplicateOf { offset: first };
                    }
                }
                let role = if asked_by_person {
                    Role::User
                } else {
                    Role::Assistant
                };
                out.push(Message {
                    tool_name: json::owned(data.tool_name),
                    call_id,
                    ..message(role, MessageKind::ToolCall, arguments(data.arguments))
                });
            }
            "tool.execution_complete" => out.push(outcome(data)),
            "session.info" | "session.warning" | "session.error" => {
                push_text(out, Role::System, MessageKind::Text, data.message);
                for message in out {
                    message.is_error = (kind == "session.error").then_some(true);
                }
                return Disposition::Known;
            }
            "session.compaction_complete" => {
                push_text(out, Role::Meta, MessageKind::Summary, data.summary_content);
            }
            "session.handoff" | "session.task_complete" => {
                push_text(out, Role::Meta, MessageKind::Summary, data.summary);
            }
            "system.message" => push_text(out, Role::System, MessageKind::Text, data.content),
            "system.notification" | "skill.invoked" => {
                push_text(out, Role::Meta, MessageKind::Text, data.content);
            }
            _ if SILENT.contains(&kind) || SILENT_FAMILIES.iter().any(|f| kind.starts_with(f)) => {}
            _ => return Disposition::Unknown,
        }
        Disposition::Known
    }

    fn assistant(&mut self, data: &Data<'_>, offset: u64, out: &mut Vec<Message>) {
        if let Some(text) = json::text(data.reasoning)
            && !text.is_empty()
            && self.told.take(&in_event(&text)).is_none()
        {
            self.told.add(&in_message(&text), offset);
            push_text(out, Role::Assistant, MessageKind::Reasoning, data.reasoning);
        }
        push_text(out, Role::Assistant, MessageKind::Text, data.content);
        for element in json::elements::<Request<'_>>(data.requests) {
            let Element::Object(request) = element else {
                continue;
            };
            let call_id = json::owned(request.id);
            if let Some(id) = &call_id {
                self.told.add(id, offset);
            }
            out.push(Message {
                tool_name: json::owned(request.name),
                call_id,
                ..message(
                    Role::Assistant,
                    MessageKind::ToolCall,
                    arguments(request.arguments),
                )
            });
        }
        let model = json::owned(data.model);
        for message in out {
            message.model.clone_from(&model);
        }
    }
}

/// How reasoning that a message told is remembered, until an event says it again.
fn in_message(text: &str) -> String {
    format!("message {text}")
}

/// How reasoning that an event told is remembered, until a message says it again.
fn in_event(text: &str) -> String {
    format!("event {text}")
}

/// A call's input: JSON, or JSON in a string.
fn arguments(raw: Option<&RawValue>) -> String {
    match json::text(raw) {
        Some(text) => payload::described_in(text),
        None => json::present(raw).map(json_text).unwrap_or_default(),
    }
}

fn user(data: &Data<'_>, out: &mut Vec<Message>) {
    // What the person typed; `transformedContent` is the same with the harness's words around it.
    let typed = json::text(data.content).filter(|t| !t.is_empty());
    match typed {
        Some(text) => {
            let injected = json::text(data.source).is_some_and(|s| !s.is_empty() && s != "user");
            let (said_by, kind) = blocks::speaker(&text);
            let role = if injected { Role::Meta } else { said_by };
            out.push(message(role, kind, payload::described_in(text)));
        }
        None => push_text(out, Role::Meta, MessageKind::Text, data.transformed),
    }
    for element in json::elements::<Attachment<'_>>(data.attachments) {
        if let Element::Object(attached) = element {
            out.push(message(
                Role::User,
                MessageKind::Attachment,
                attachment(&attached),
            ));
        }
    }
}

fn attachment(attached: &Attachment<'_>) -> String {
    if let Some(data) = json::text(attached.data) {
        let media_type = json::text(attached.mime_type).unwrap_or_default();
        return payload::describe(&media_type, &data);
    }
    let place = [
        attached.path,
        attached.file_path,
        attached.url,
        attached.title,
        attached.name,
    ]
    .into_iter()
    .find_map(json::owned)
    .unwrap_or_default();
    let mut line = payload::describe_url("file", &place);
    // What was selected in a file.
    if let Some(text) = json::text(attached.text) {
        line.push('\n');
        line.push_str(&payload::described_in(text));
    }
    line
}

fn outcome(data: &Data<'_>) -> Message {
    let result = json::object::<Outcome<'_>>(data.result).unwrap_or_default();
    let error = json::object::<Outcome<'_>>(data.error).unwrap_or_default();
    let text = [
        result.content,
        result.detailed,
        error.message,
        data.result,
        data.error,
    ]
    .into_iter()
    .find_map(|raw| json::text(raw).filter(|t| !t.is_empty()))
    .map_or_else(String::new, payload::described_in);
    Message {
        call_id: json::owned(data.call_id),
        tool_name: json::owned(data.tool_name),
        is_error: json::boolean(data.success).map(|ok| !ok),
        ..message(Role::Tool, MessageKind::ToolResult, text)
    }
}

/// The session by the file's place: its folder in the newer layout, its name in the older one.
fn by_place(path: &Path) -> String {
    let name = stem(path);
    if name != "events" {
        return name;
    }
    path.parent()
        .and_then(Path::file_name)
        .map_or(name, |folder| folder.to_string_lossy().into_owned())
}

/// The file beside the events that describes the session.
pub(super) fn workspace_file(path: &Path) -> Option<PathBuf> {
    (stem(path) == "events").then(|| path.with_file_name("workspace.yaml"))
}

/// Title and folder in `workspace.yaml`, which holds plain `key: value` lines.
fn described(bytes: &[u8]) -> Facts {
    let text = String::from_utf8_lossy(bytes);
    let value = |key: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
            .map(str::trim)
            .map(|v| {
                let quote = v.chars().next().filter(|c| matches!(c, '"' | '\''));
                quote
                    .and_then(|q| v.strip_prefix(q)?.strip_suffix(q))
                    .unwrap_or(v)
            })
            // Block scalars and references are YAML that is not read here.
            .filter(|v| !v.is_empty() && !v.starts_with(['|', '>', '&', '*']) && *v != "null")
            .map(str::to_owned)
    };
    Facts {
        title: value("name").or_else(|| value("summary")),
        workspace: value("cwd"),
        ..Facts::default()
    }
}

impl LogReader for CopilotReader {
    fn state(&self) -> Option<serde_json::Value> {
        serde_json::to_value((Some(&self.session), self.placed, &self.told)).ok()
    }

    fn first_keys(&self) -> &'static [&'static str] {
        FIRST_KEYS
    }

    fn is_record(&self, line: &Line<'_>) -> bool {
        line.data.is_some()
            && json::text(line.kind).is_some_and(|kind| kind.contains('.') || kind == "abort")
    }

    fn read(&mut self, record: RawRecord<'_>) -> Reading {
        let event: Event<'_> = serde_json::from_str(record.text).unwrap_or_default();
        let data: Data<'_> = json::object(event.data).unwrap_or_default();
        let kind = json::owned(event.kind).unwrap_or_default();
        let mut facts = Facts::default();
        if kind == "session.start" {
            // Records of another session may stand in a file.
            if let Some(session) = json::owned(data.session_id) {
                self.session = session;
            }
            facts.harness_version = json::owned(data.version);
        }
        match &*kind {
            "session.start" | "session.resume" => {
                let context = json::object::<Context<'_>>(data.context).unwrap_or_default();
                facts.workspace = json::owned(context.cwd);
            }
            "session.context_changed" => facts.workspace = json::owned(data.cwd),
            "session.title_changed" => facts.title = json::owned(data.title),
            _ => {}
        }
        self.placed |= facts.workspace.is_some();
        if !self.placed {
            facts.workspace.clone_from(&self.beside.workspace);
        }
        let mut session = self.session.clone();
        // What an agent says and does bears the call that started it.
        if let Some(call) = json::owned(data.parent_call) {
            let own = format!("{session}/{call}");
            facts.parent_session = Some(std::mem::replace(&mut session, own));
        } else {
            facts.title = facts.title.or_else(|| self.beside.title.clone());
        }
        let mut out = Vec::new();
        let disposition = match self.disposition(&kind, &data, record.offset, &mut out) {
            Disposition::Known => known(out),
            other => other,
        };
        Reading {
            session,
            native_id: json::owned(event.id),
            native_parent: json::owned(event.parent),
            record_type: kind,
            time_ms: json::time_ms(event.timestamp).or_else(|| json::time_ms(data.start_time)),
            disposition,
            facts,
        }
    }
}

/// The session of an older one-document file, by its name `session_<id>_<time>.json`.
pub(super) fn session_in_name(path: &Path) -> String {
    let name = stem(path);
    name.split('_')
        .find(|part| is_uuid(part))
        .map_or_else(|| name.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_beside_the_events_is_read_line_by_line() {
        let facts = described(b"id: x\ncwd: /src/a b\nname: \"Fix: it\"\nsummary: 'other'\n");
        assert_eq!(facts.title.as_deref(), Some("Fix: it"));
        assert_eq!(facts.workspace.as_deref(), Some("/src/a b"));
        for none in [
            "",
            "name: |-\n  x",
            "name:",
            "name: null",
            "\u{0}\u{0}",
            "name: '",
        ] {
            let title = described(none.as_bytes()).title;
            assert!(title.is_none() || title.as_deref() == Some("'"), "{none}");
        }
        assert_eq!(described(b"summary: it's\n").title.as_deref(), Some("it's"));
    }

    #[test]
    fn the_place_names_the_session_where_no_record_does() {
        assert_eq!(by_place(Path::new("/s/abc/events.jsonl")), "abc");
        assert_eq!(by_place(Path::new("/s/abc.jsonl")), "abc");
        let id = "0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f";
        let old = format!("/h/session_{id}_1760000000000.json");
        assert_eq!(session_in_name(Path::new(&old)), id);
        assert_eq!(session_in_name(Path::new("/h/other.json")), "other");
    }
}
