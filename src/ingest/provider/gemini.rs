//! Gemini CLI: one JSON document a session until spring 2026, since then one JSON object a line.
//!
//! A message is written again under its id when its tool calls arrive; `$set` patches the head of
//! the session, and with `messages` all of it; `$rewindTo` takes messages back. All of it is kept:
//! what was written later under an id supersedes what was there, and so does what takes it back.

use std::path::Path;

use serde_json::value::RawValue;

use super::{
    DocumentReader, LogReader, Members, RawRecord, Reading, json_text, known, message, push_text,
    say, stem,
};
use crate::ingest::parse::json::{self, Element, raw_object};
use crate::ingest::parse::line::Line;
use crate::ingest::parse::payload;
use crate::model::record::{Disposition, Facts, Message, MessageKind, Role, TakenBack};

raw_object! {
    struct Entry {
        session_id = "sessionId",
        start_time = "startTime",
        start = "start_time",
        last_updated = "lastUpdated",
        id = "id",
        timestamp = "timestamp",
        ts = "ts",
        kind = "type",
        role = "role",
        content = "content",
        parts = "parts",
        display = "displayContent",
        thoughts = "thoughts",
        tool_calls = "toolCalls",
        model = "model",
        summary = "summary",
        directories = "directories",
        set = "$set",
        rewind = "$rewindTo",
        messages = "messages",
    }
}

raw_object! {
    struct Part {
        text = "text",
        thought = "thought",
        call = "functionCall",
        response = "functionResponse",
        inline = "inlineData",
        file = "fileData",
        code = "executableCode",
        result = "codeExecutionResult",
    }
}

raw_object! {
    struct Inline { mime_type = "mimeType", data = "data", uri = "fileUri" }
}

raw_object! {
    struct Call {
        id = "id",
        name = "name",
        args = "args",
        result = "result",
        response = "response",
        status = "status",
        display = "resultDisplay",
        output = "output",
        error = "error",
    }
}

raw_object! {
    struct Thought { subject = "subject", description = "description" }
}

/// Where a line that replaces all messages holds them.
const CHECKPOINT: &[&str] = &["$set", "messages"];

/// Keys that a record may begin with.
const FIRST_KEYS: &[&str] = &["sessionId", "id", "$set", "$rewindTo"];

/// Reads a session file of either generation.
#[derive(Debug)]
pub(super) struct GeminiReader {
    session: String,
    /// The session that spawned this one: its folder's name.
    parent: Option<String>,
}

impl GeminiReader {
    pub(super) fn new<'h>(path: &Path, first: impl Iterator<Item = (usize, &'h str)>) -> Self {
        let session = first
            .filter_map(|(_, text)| serde_json::from_str::<Entry<'_>>(text).ok())
            .find_map(|entry| json::owned(entry.session_id))
            .unwrap_or_else(|| stem(path));
        // chats/<parent session id>/<id>.jsonl
        let folder = path.parent();
        let parent = folder
            .filter(|f| {
                f.parent()
                    .and_then(Path::file_name)
                    .is_some_and(|n| n == "chats")
            })
            .and_then(Path::file_name)
            .map(|n| n.to_string_lossy().into_owned());
        GeminiReader { session, parent }
    }

    fn entry(&self, entry: &Entry<'_>) -> Reading {
        let mut facts = Facts {
            title: json::owned(entry.summary),
            workspace: directory(entry.directories),
            ..Facts::default()
        };
        let native_id = json::owned(entry.id);
        let (record_type, disposition) = if entry.set.is_some() {
            let set = json::object::<Entry<'_>>(entry.set).unwrap_or_default();
            facts.title = json::owned(set.summary);
            facts.workspace = directory(set.directories);
            // A checkpoint: what it says in place of what was said before are records of their own.
            let disposition = match json::items(set.messages) {
                Some(_) => Disposition::TakesBack(TakenBack::All),
                None => Disposition::Known,
            };
            ("$set".to_owned(), disposition)
        } else if entry.rewind.is_some() {
            let disposition = match json::owned(entry.rewind) {
                Some(id) => Disposition::TakesBack(TakenBack::From(id)),
                None => Disposition::Unknown,
            };
            ("$rewindTo".to_owned(), disposition)
        } else {
            let kind = json::owned(entry.kind).or_else(|| json::owned(entry.role));
            let mut out = Vec::new();
            let known_kind = self.message(entry, &mut out);
            match kind {
                Some(kind) if known_kind => (kind, known(out)),
                None if entry.session_id.is_some() => {
                    facts.parent_session.clone_from(&self.parent);
                    ("session".to_owned(), Disposition::Known)
                }
                kind => (kind.unwrap_or_default(), Disposition::Unknown),
            }
        };
        Reading {
            session: self.session.clone(),
            native_id,
            native_parent: None,
            record_type,
            time_ms: json::time_ms(entry.timestamp)
                .or_else(|| json::time_ms(entry.ts))
                .or_else(|| json::time_ms(entry.start_time)),
            disposition,
            facts,
        }
    }

    /// The messages of one entry; false when its type is not known.
    fn message(&self, entry: &Entry<'_>, out: &mut Vec<Message>) -> bool {
        let kind = json::text(entry.kind).or_else(|| json::text(entry.role));
        let begun = out.len();
        match kind.as_deref() {
            Some("user") => {
                for content in [entry.content, entry.parts] {
                    parts(content, Role::User, out);
                }
            }
            Some("gemini" | "model" | "assistant") => {
                for element in json::elements::<Thought<'_>>(entry.thoughts) {
                    if let Element::Object(thought) = element {
                        let subject = json::text(thought.subject).unwrap_or_default();
                        let text = json::text(thought.description).unwrap_or_default();
                        let text = format!("{subject}\n{text}").trim().to_owned();
                        if !text.is_empty() {
                            out.push(message(Role::Assistant, MessageKind::Reasoning, text));
                        }
                    }
                }
                for content in [entry.content, entry.parts] {
                    parts(content, Role::Assistant, out);
                }
                for element in json::elements::<Call<'_>>(entry.tool_calls) {
                    if let Element::Object(call) = element {
                        tool_call(&call, out);
                    }
                }
                let model = json::owned(entry.model);
                for message in out.iter_mut().skip(begun) {
                    message.model.clone_from(&model);
                }
            }
            Some("info" | "error" | "warning" | "system") => {
                parts(entry.content, Role::System, out);
            }
            _ => return false,
        }
        true
    }
}

fn directory(raw: Option<&RawValue>) -> Option<String> {
    json::elements::<Entry<'_>>(raw)
        .into_iter()
        .find_map(|e| match e {
            Element::Text(text) if !text.is_empty() => Some(text.into_owned()),
            _ => None,
        })
}

/// The messages of a content: a string, one part, or parts.
pub(super) fn parts(content: Option<&RawValue>, role: Role, out: &mut Vec<Message>) {
    for one in json::parts::<Part<'_>>(content) {
        match one {
            Element::Text(text) => say(&text, role, out),
            Element::Object(one) => part(&one, role, out),
            Element::Other => {}
        }
    }
}

fn part(part: &Part<'_>, role: Role, out: &mut Vec<Message>) {
    if let Some(text) = json::text(part.text) {
        if json::is_true(part.thought) {
            push_text(out, role, MessageKind::Reasoning, part.text);
        } else {
            say(&text, role, out);
        }
    }
    if let Some(call) = json::object::<Call<'_>>(part.call) {
        out.push(Message {
            tool_name: json::owned(call.name),
            call_id: json::owned(call.id),
            ..message(
                Role::Assistant,
                MessageKind::ToolCall,
                call.args.map(json_text).unwrap_or_default(),
            )
        });
    }
    if let Some(call) = json::object::<Call<'_>>(part.response) {
        out.push(result(&call, call.response));
    }
    for inline in [part.inline, part.file] {
        if let Some(inline) = json::object::<Inline<'_>>(inline) {
            let media_type = json::text(inline.mime_type).unwrap_or_default();
            let line = match json::text(inline.data) {
                Some(data) => payload::describe(&media_type, &data),
                None => payload::describe_url("file", &json::text(inline.uri).unwrap_or_default()),
            };
            out.push(message(role, MessageKind::Attachment, line));
        }
    }
    for code in [part.code, part.result].into_iter().flatten() {
        out.push(message(role, MessageKind::Text, json_text(code)));
    }
}

fn tool_call(call: &Call<'_>, out: &mut Vec<Message>) {
    out.push(Message {
        tool_name: json::owned(call.name),
        call_id: json::owned(call.id),
        ..message(
            Role::Assistant,
            MessageKind::ToolCall,
            call.args.map(json_text).unwrap_or_default(),
        )
    });
    if json::present(call.result).is_some() || json::present(call.display).is_some() {
        out.push(result(call, call.result.or(call.display)));
    }
}

/// A tool's result: the texts inside its answer, or the answer as JSON.
fn result(call: &Call<'_>, answer: Option<&RawValue>) -> Message {
    let mut texts = Vec::new();
    let mut failed = json::text(call.status).map(|s| s == "error");
    let mut responses = Vec::new();
    for item in json::items(answer).unwrap_or_default() {
        if let Some(part) = json::object::<Part<'_>>(Some(item))
            && let Some(inner) = json::object::<Call<'_>>(part.response)
        {
            responses.extend(inner.response);
        }
    }
    if responses.is_empty() {
        responses.extend(answer);
    }
    for response in responses {
        let body = json::object::<Call<'_>>(Some(response)).unwrap_or_default();
        if json::present(body.error).is_some() {
            failed = Some(true);
        }
        match body.output.or(json::present(body.error)) {
            Some(said) => texts.push(
                json::text(Some(said)).map_or_else(|| json_text(said), payload::described_in),
            ),
            None => texts.push(
                json::text(Some(response))
                    .map_or_else(|| json_text(response), payload::described_in),
            ),
        }
    }
    Message {
        tool_name: json::owned(call.name),
        call_id: json::owned(call.id),
        is_error: failed,
        ..message(Role::Tool, MessageKind::ToolResult, texts.join("\n"))
    }
}

impl LogReader for GeminiReader {
    fn first_keys(&self) -> &'static [&'static str] {
        FIRST_KEYS
    }

    fn is_record(&self, line: &Line<'_>) -> bool {
        line.session_id.is_some()
            || line.set.is_some()
            || line.rewind.is_some()
            || (line.id.is_some() && line.kind.is_some())
    }

    fn records_inside(&self, line: &Line<'_>) -> Option<&'static [&'static str]> {
        line.set.map(|_| CHECKPOINT)
    }

    fn read(&mut self, record: RawRecord<'_>) -> Reading {
        self.entry(&serde_json::from_str(record.text).unwrap_or_default())
    }
}

impl DocumentReader for GeminiReader {
    fn record_members(&self) -> &'static [&'static str] {
        &["messages", "history"]
    }

    fn frame(&mut self, members: &Members) -> Reading {
        if let Some(session) = members.text("sessionId") {
            self.session = session;
        }
        let time = ["startTime", "start_time"]
            .into_iter()
            .find_map(|name| members.text(name))
            .and_then(|t| t.parse::<jiff::Timestamp>().ok());
        Reading {
            session: self.session.clone(),
            native_id: None,
            native_parent: None,
            record_type: "document".to_owned(),
            time_ms: time.map(jiff::Timestamp::as_millisecond),
            disposition: Disposition::Known,
            facts: Facts {
                title: members.text("summary"),
                parent_session: self.parent.clone(),
                ..Facts::default()
            },
        }
    }

    fn read(&mut self, record: RawRecord<'_>) -> Reading {
        self.entry(&serde_json::from_str(record.text).unwrap_or_default())
    }
}
