//! What the model saw: response items, bare or in an envelope, and compactions.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{Found, Payload};
use crate::ingest::parse::json::{self, raw_object};
use crate::ingest::parse::payload;
use crate::ingest::provider::{json_text, message, wrapper};
use crate::model::record::{Message, MessageKind, Role};

/// Kinds of items that hold nothing to read.
const SILENT: &[&str] = &[
    "compaction",
    "compaction_summary",
    "compaction_trigger",
    "ghost_snapshot",
    "other",
];

raw_object! {
    struct Part {
        kind = "type",
        text = "text",
        image_url = "image_url",
        data = "data",
        mime_type = "mimeType",
        title = "title",
        snippet = "snippet",
    }
}

raw_object! {
    struct Url { url = "url" }
}

raw_object! {
    struct Output { content = "content", success = "success" }
}

/// The messages of an item.
pub(super) fn read(kind: &str, item: &Payload<'_>) -> Found {
    let mut out = Vec::new();
    match kind {
        "message" => spoken(item, &mut out),
        // Some writers leave the kind of a message out.
        "" if item.role.is_some() => spoken(item, &mut out),
        "agent_message" => parts(item.content, Role::Assistant, &mut out),
        "reasoning" => {
            reasoning(item.summary, &mut out);
            reasoning(item.content, &mut out);
        }
        "function_call" => call(item, item.name, item.arguments, None, &mut out),
        "custom_tool_call" => call(item, item.name, item.input, None, &mut out),
        "local_shell_call" => call(item, None, item.action, Some("local_shell"), &mut out),
        "web_search_call" => {
            out.push(web_search(item.action));
        }
        "tool_search_call" => call(item, None, item.arguments, Some("tool_search"), &mut out),
        "image_generation_call" => picture(item, item.id, &mut out),
        "function_call_output" | "custom_tool_call_output" | "local_shell_call_output" => {
            output(item, &mut out);
        }
        "tool_search_output" => out.push(Message {
            call_id: json::owned(item.call_id),
            ..message(
                Role::Tool,
                MessageKind::ToolResult,
                item.tools.map(json_text).unwrap_or_default(),
            )
        }),
        kind if SILENT.contains(&kind) => return Found::Silent,
        _ => return Found::Unknown,
    }
    Found::Messages(out)
}

/// The summary of a compaction; the history that it repeats is held by the records it repeats.
pub(super) fn compacted(payload: &Payload<'_>) -> Found {
    let mut out = Vec::new();
    push(
        &mut out,
        Role::System,
        MessageKind::Summary,
        payload.message,
    );
    Found::Messages(out)
}

fn spoken(item: &Payload<'_>, out: &mut Vec<Message>) {
    let role = match json::text(item.role).as_deref() {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool") => Role::Tool,
        _ => Role::System,
    };
    parts(item.content, role, out);
}

/// The messages of a content: a string, or parts.
pub(super) fn parts(content: Option<&RawValue>, role: Role, out: &mut Vec<Message>) {
    push(out, role, MessageKind::Text, content);
    for raw in json::items(content).unwrap_or_default() {
        let Some(part) = json::object::<Part<'_>>(Some(raw)) else {
            push(out, role, MessageKind::Text, Some(raw));
            continue;
        };
        match json::text(part.kind).as_deref() {
            Some("input_image" | "image" | "local_image") => {
                out.push(message(role, MessageKind::Attachment, image(&part)));
            }
            // Encrypted content has no text.
            _ => push(out, role, MessageKind::Text, part.text),
        }
    }
}

fn image(part: &Part<'_>) -> String {
    if let Some(data) = json::text(part.data) {
        let media_type = json::text(part.mime_type).unwrap_or(Cow::Borrowed("image"));
        return payload::describe(&media_type, &data);
    }
    let inner = json::object::<Url<'_>>(part.image_url).and_then(|u| json::text(u.url));
    let url = json::text(part.image_url).or(inner).unwrap_or_default();
    payload::describe_url("image", &url)
}

/// Adds the text in `raw`, if there is any.
pub(super) fn push(out: &mut Vec<Message>, role: Role, kind: MessageKind, raw: Option<&RawValue>) {
    let Some(text) = json::text(raw).filter(|t| !t.is_empty()) else {
        return;
    };
    let role = if role == Role::User && wrapper::only_injected(&text) {
        Role::Meta
    } else {
        role
    };
    out.push(message(role, kind, payload::described_in(text)));
}

/// The readable parts of a reasoning: texts, or objects that hold one.
pub(super) fn reasoning(raw: Option<&RawValue>, out: &mut Vec<Message>) {
    for raw in json::items(raw).unwrap_or_default() {
        let text = json::object::<Part<'_>>(Some(raw)).map_or(Some(raw), |part| part.text);
        push(out, Role::Assistant, MessageKind::Reasoning, text);
    }
}

fn call(
    item: &Payload<'_>,
    name: Option<&RawValue>,
    input: Option<&RawValue>,
    fixed_name: Option<&str>,
    out: &mut Vec<Message>,
) {
    out.push(Message {
        tool_name: json::owned(name).or_else(|| fixed_name.map(str::to_owned)),
        call_id: call_id(item),
        ..message(Role::Assistant, MessageKind::ToolCall, input_text(input))
    });
}

/// The input of a call: JSON, or a text that is JSON.
pub(super) fn input_text(raw: Option<&RawValue>) -> String {
    match json::text(raw) {
        Some(text) => payload::described_in(text),
        None => json::present(raw).map(json_text).unwrap_or_default(),
    }
}

/// The id that pairs a call with its result.
pub(super) fn call_id(item: &Payload<'_>) -> Option<String> {
    json::owned(item.call_id).or_else(|| json::owned(item.call_id_camel))
}

/// A search that the model's host ran. No id pairs the two records that tell of it.
pub(super) fn web_search(action: Option<&RawValue>) -> Message {
    Message {
        tool_name: Some("web_search".to_owned()),
        ..message(Role::Assistant, MessageKind::ToolCall, input_text(action))
    }
}

/// A picture that was made: what was asked for, and what it is.
pub(super) fn picture(item: &Payload<'_>, id: Option<&RawValue>, out: &mut Vec<Message>) {
    let call_id = json::owned(id);
    out.push(Message {
        tool_name: Some("image_generation".to_owned()),
        call_id: call_id.clone(),
        ..message(
            Role::Assistant,
            MessageKind::ToolCall,
            input_text(item.revised_prompt),
        )
    });
    if let Some(data) = json::text(item.result).filter(|d| !d.is_empty()) {
        out.push(Message {
            call_id,
            ..message(
                Role::Tool,
                MessageKind::Attachment,
                payload::describe("image", &data),
            )
        });
    }
}

fn output(item: &Payload<'_>, out: &mut Vec<Message>) {
    let wrapped = json::object::<Output<'_>>(item.output);
    let content = wrapped.map_or(item.output, |w| w.content.or(item.output));
    result(
        call_id(item),
        content,
        wrapped.and_then(|w| json::boolean(w.success)).map(|ok| !ok),
        out,
    );
}

/// A tool's result and the pictures in it.
pub(super) fn result(
    call_id: Option<String>,
    content: Option<&RawValue>,
    is_error: Option<bool>,
    out: &mut Vec<Message>,
) {
    let at = out.len();
    out.push(Message {
        call_id: call_id.clone(),
        is_error,
        ..message(Role::Tool, MessageKind::ToolResult, String::new())
    });
    let mut text = match json::items(content) {
        Some(_) => String::new(),
        None => input_text(content),
    };
    for raw in json::items(content).unwrap_or_default() {
        let part = json::object::<Part<'_>>(Some(raw)).unwrap_or_default();
        let kind = json::text(part.kind).unwrap_or_default();
        if matches!(&*kind, "image" | "input_image" | "inputImage") {
            out.push(Message {
                call_id: call_id.clone(),
                ..message(Role::Tool, MessageKind::Attachment, image(&part))
            });
            continue;
        }
        for field in [
            json::text(Some(raw)),
            json::text(part.title),
            json::text(part.snippet),
            json::text(part.text),
        ] {
            add_line(&mut text, field);
        }
    }
    if let Some(message) = out.get_mut(at) {
        message.text = text;
    }
}

pub(super) fn add_line(text: &mut String, line: Option<Cow<'_, str>>) {
    let Some(line) = line.filter(|l| !l.is_empty()) else {
        return;
    };
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&payload::described_in(line));
}
