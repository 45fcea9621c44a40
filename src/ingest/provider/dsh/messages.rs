//! The messages of an event.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::super::{blocks, json_text, message, push_text};
use crate::ingest::parse::json::{self, Element, raw_object};
use crate::ingest::parse::payload;
use crate::model::record::{Message, MessageKind, Role};

raw_object! {
    struct Data {
        id = "id",
        message = "message",
        content = "content",
        source = "source",
        stream = "stream",
        call_id = "callId",
        name = "name",
        arguments = "arguments",
        error = "error",
        title = "title",
        summary = "summary",
        text = "text",
        is_error = "isError",
        tool_call_id = "toolCallId",
    }
}

raw_object! {
    struct Source { kind = "kind", call_id = "callId", model = "model" }
}

raw_object! {
    struct Block {
        kind = "type",
        text = "text",
        id = "id",
        name = "name",
        arguments = "arguments",
        tool_call_id = "toolCallId",
        content = "content",
        is_error = "isError",
        data = "data",
        url = "url",
        mime_type = "mimeType",
        media_type = "mediaType",
        texts = "texts",
        chunk = "chunk",
    }
}

fn data(raw: Option<&RawValue>) -> Data<'_> {
    json::object(raw).unwrap_or_default()
}

/// The message of an event: its data, or a member of them.
fn spoken<'a>(raw: Option<&'a RawValue>) -> Data<'a> {
    let whole: Data<'a> = data(raw);
    json::object(whole.message).unwrap_or(whole)
}

/// Whether what events of this type hold is a message with an id.
pub(super) fn has_id(kind: &str) -> bool {
    !matches!(
        kind,
        "tool/call" | "assistant/attempt" | "compaction/summary"
    )
}

/// The id of the message that an event holds.
pub(super) fn id(raw: Option<&RawValue>) -> Option<String> {
    json::owned(spoken(raw).id)
}

/// The id of the call that an event is about.
pub(super) fn call_id(raw: Option<&RawValue>) -> Option<String> {
    json::owned(data(raw).call_id)
}

/// The title that an event gives.
pub(super) fn title(raw: Option<&RawValue>) -> Option<String> {
    json::owned(data(raw).title)
}

/// Reads the messages of an event of this type.
pub(super) fn read(kind: &str, raw: Option<&RawValue>, out: &mut Vec<Message>) {
    let whole = data(raw);
    let body = spoken(raw);
    let source: Source<'_> = json::object(body.source).unwrap_or_default();
    match kind {
        "user/message" | "steering/message" => {
            let own = json::text(source.kind).is_none_or(|kind| kind == "user");
            let speak = |text: &str| match blocks::speaker(text).0 {
                // Put there by the harness or an extension.
                Role::User if !own => Role::Meta,
                role => role,
            };
            content(body.content, &speak, out);
        }
        "assistant/message" => {
            content(body.content, &|_| Role::Assistant, out);
            let model = json::owned(source.model);
            for message in out.iter_mut() {
                message.model.clone_from(&model);
            }
        }
        "assistant/attempt" => attempt(whole.stream, out),
        "system/message" | "developer/message" => content(body.content, &|_| Role::System, out),
        "tool/result" => result(&whole, &body, &source, out),
        "tool/call" => out.push(Message {
            tool_name: json::owned(whole.name),
            call_id: json::owned(whole.call_id),
            ..message(
                Role::Assistant,
                MessageKind::ToolCall,
                arguments(whole.arguments),
            )
        }),
        "compaction/summary" => {
            for text in [whole.summary, whole.text] {
                push_text(out, Role::System, MessageKind::Summary, text);
            }
            let begun = out.len();
            content(body.content, &|_| Role::System, out);
            for message in out.iter_mut().skip(begun) {
                message.kind = MessageKind::Summary;
            }
        }
        _ => {}
    }
}

/// The arguments of a call are JSON text inside a string.
fn arguments(raw: Option<&RawValue>) -> String {
    match json::text(raw) {
        Some(text) => payload::described_in(text),
        None => raw.map(json_text).unwrap_or_default(),
    }
}

fn content(raw: Option<&RawValue>, speak: &dyn Fn(&str) -> Role, out: &mut Vec<Message>) {
    let say = |text: Cow<'_, str>, out: &mut Vec<Message>| {
        if !text.is_empty() {
            let role = speak(&text);
            let text = payload::described_in(text);
            out.push(message(role, MessageKind::Text, text));
        }
    };
    if let Some(text) = json::text(raw) {
        say(text, out);
        return;
    }
    for element in json::elements::<Block<'_>>(raw) {
        let block = match element {
            Element::Object(block) => block,
            Element::Text(text) => {
                say(text, out);
                continue;
            }
            Element::Other => continue,
        };
        match json::text(block.kind).as_deref() {
            Some("text") => {
                if let Some(text) = json::text(block.text) {
                    say(text, out);
                }
            }
            Some("reasoning") => {
                push_text(out, Role::Assistant, MessageKind::Reasoning, block.text);
            }
            Some("tool-call") => out.push(Message {
                tool_name: json::owned(block.name),
                call_id: json::owned(block.id),
                ..message(
                    Role::Assistant,
                    MessageKind::ToolCall,
                    arguments(block.arguments),
                )
            }),
            Some("tool-result") => {
                let text = joined(block.content);
                out.push(Message {
                    call_id: json::owned(block.tool_call_id),
                    is_error: json::boolean(block.is_error),
                    ..message(Role::Tool, MessageKind::ToolResult, text)
                });
            }
            Some(kind) if block.data.is_some() || block.url.is_some() => {
                let described = attached(kind, &block);
                out.push(message(speak(""), MessageKind::Attachment, described));
            }
            _ => {}
        }
    }
}

fn attached(kind: &str, block: &Block<'_>) -> String {
    let media_type = json::text(block.mime_type)
        .or_else(|| json::text(block.media_type))
        .unwrap_or(Cow::Borrowed(kind));
    match json::text(block.data) {
        Some(data) => payload::describe(&media_type, &data),
        None => payload::describe_url(kind, &json::text(block.url).unwrap_or_default()),
    }
}

/// A result: of the role `tool` since version 4, before that the only block of a user's message.
fn result(whole: &Data<'_>, body: &Data<'_>, source: &Source<'_>, out: &mut Vec<Message>) {
    let failed = json::present(whole.error).is_some();
    let inner = json::elements::<Block<'_>>(body.content)
        .into_iter()
        .find_map(|element| match element {
            Element::Object(block) if block.tool_call_id.is_some() => Some(block),
            _ => None,
        });
    let (call_id, text, is_error) = match inner {
        Some(block) => (block.tool_call_id, block.content, block.is_error),
        None => (body.tool_call_id, body.content, body.is_error),
    };
    out.push(Message {
        call_id: json::owned(call_id).or_else(|| json::owned(source.call_id)),
        is_error: if failed {
            Some(true)
        } else {
            json::boolean(is_error)
        },
        ..message(Role::Tool, MessageKind::ToolResult, joined(text))
    });
}

/// The texts of a content, each on a line of its own.
fn joined(raw: Option<&RawValue>) -> String {
    if let Some(text) = json::text(raw) {
        return payload::described_in(text);
    }
    let mut lines = Vec::new();
    for element in json::elements::<Block<'_>>(raw) {
        match element {
            Element::Text(text) => lines.push(payload::described_in(text)),
            Element::Object(block) => match json::text(block.text) {
                Some(text) => lines.push(payload::described_in(text)),
                None if block.data.is_some() || block.url.is_some() => {
                    let kind = json::text(block.kind).unwrap_or_default();
                    lines.push(attached(&kind, &block));
                }
                None => {}
            },
            Element::Other => {}
        }
    }
    lines.join("\n")
}

/// An answer that was given up: its pieces are all there is of it.
fn attempt(stream: Option<&RawValue>, out: &mut Vec<Message>) {
    let mut reasoning = String::new();
    let mut text = String::new();
    for element in json::elements::<Block<'_>>(stream) {
        let Element::Object(part) = element else {
            continue;
        };
        let chunk: Block<'_> = json::object(part.chunk).unwrap_or_default();
        let kind = json::text(part.kind).unwrap_or_default();
        let to = match (&*kind, json::text(chunk.kind).as_deref()) {
            ("text-chunks", _) | ("chunk", Some("text-delta")) => &mut text,
            ("reasoning-chunks", _) | ("chunk", Some("reasoning-delta")) => &mut reasoning,
            _ => continue,
        };
        to.push_str(&json::text(chunk.text).unwrap_or_default());
        for piece in json::elements::<Block<'_>>(part.texts) {
            if let Element::Text(piece) = piece {
                to.push_str(&piece);
            }
        }
    }
    for (kind, text) in [
        (MessageKind::Reasoning, reasoning),
        (MessageKind::Text, text),
    ] {
        if !text.is_empty() {
            let text = payload::described_in(Cow::Owned(text));
            out.push(message(Role::Assistant, kind, text));
        }
    }
}
