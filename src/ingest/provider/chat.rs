//! A message in the shape of OpenAI's chat API, which some harnesses store.

use serde_json::value::RawValue;

use super::{json_text, message, say};
use crate::ingest::parse::json::{self, Element, raw_object};
use crate::ingest::parse::payload;
use crate::model::record::{Message, MessageKind, Role};

raw_object! {
    pub(super) struct Chat {
        role = "role",
        content = "content",
        reasoning = "reasoning_content",
        calls = "tool_calls",
        camel_calls = "toolCalls",
        call_id = "tool_call_id",
        camel_call_id = "toolCallId",
        name = "name",
        is_error = "isError",
    }
}

raw_object! {
    pub(super) struct Part {
        kind = "type",
        text = "text",
        think = "think",
        image = "image_url",
        audio = "audio_url",
        video = "video_url",
        camel_image = "imageUrl",
    }
}

raw_object! {
    struct Link { url = "url" }
}

raw_object! {
    pub(super) struct Call {
        id = "id",
        call_id = "toolCallId",
        function = "function",
        name = "name",
        arguments = "arguments",
        args = "args",
    }
}

/// Adds the messages of `chat`; false when its role is not known. `spoken` is the role of a
/// person's texts.
pub(super) fn messages(chat: &Chat<'_>, spoken: Role, out: &mut Vec<Message>) -> bool {
    let role = match json::text(chat.role).as_deref() {
        Some("user") => spoken,
        Some("assistant") => Role::Assistant,
        Some("system" | "developer") => Role::System,
        Some("tool") => {
            let text = joined(chat.content);
            out.push(Message {
                tool_name: json::owned(chat.name),
                call_id: json::owned(chat.call_id).or_else(|| json::owned(chat.camel_call_id)),
                is_error: json::boolean(chat.is_error),
                ..message(Role::Tool, MessageKind::ToolResult, text)
            });
            return true;
        }
        _ => return false,
    };
    if let Some(text) = json::owned(chat.reasoning) {
        out.push(message(role, MessageKind::Reasoning, text));
    }
    content(chat.content, role, out);
    for calls in [chat.calls, chat.camel_calls] {
        for element in json::elements::<Call<'_>>(calls) {
            if let Element::Object(one) = element {
                call(&one, out);
            }
        }
    }
    true
}

/// The messages of a content: a string, a part, or parts.
pub(super) fn content(raw: Option<&RawValue>, role: Role, out: &mut Vec<Message>) {
    for one in json::parts::<Part<'_>>(raw) {
        match one {
            Element::Text(text) => say(&text, role, out),
            Element::Object(one) => part(&one, role, out),
            Element::Other => {}
        }
    }
}

/// One part of a content.
pub(super) fn part(part: &Part<'_>, role: Role, out: &mut Vec<Message>) {
    if let Some(text) = json::owned(part.think) {
        out.push(message(role, MessageKind::Reasoning, text));
    }
    if let Some(text) = json::text(part.text) {
        say(&text, role, out);
    }
    for (kind, link) in links(part) {
        out.push(message(
            role,
            MessageKind::Attachment,
            payload::describe_url(kind, &link),
        ));
    }
}

fn links(part: &Part<'_>) -> impl Iterator<Item = (&'static str, String)> {
    let all = [
        ("image", part.image),
        ("image", part.camel_image),
        ("audio", part.audio),
        ("video", part.video),
    ];
    all.into_iter().filter_map(|(kind, raw)| {
        let link = json::object::<Link<'_>>(raw)
            .and_then(|l| json::owned(l.url))
            .or_else(|| json::owned(raw))?;
        Some((kind, link))
    })
}

/// A tool call.
pub(super) fn call(call: &Call<'_>, out: &mut Vec<Message>) {
    let function = json::object::<Call<'_>>(call.function).unwrap_or(*call);
    let input = function.arguments.or(function.args).or(call.args);
    let text = match json::text(input) {
        Some(text) => payload::described_in(text),
        None => json::present(input).map(json_text).unwrap_or_default(),
    };
    out.push(Message {
        tool_name: json::owned(function.name).or_else(|| json::owned(call.name)),
        call_id: json::owned(call.call_id).or_else(|| json::owned(call.id)),
        ..message(Role::Assistant, MessageKind::ToolCall, text)
    });
}

/// The texts of a content, as one; what has none is kept as JSON.
pub(super) fn joined(raw: Option<&RawValue>) -> String {
    if let Some(text) = json::text(raw) {
        return payload::described_in(text);
    }
    let mut lines = Vec::new();
    for element in json::elements::<Part<'_>>(raw) {
        match element {
            Element::Text(text) => lines.push(payload::described_in(text)),
            Element::Object(one) => {
                lines.extend(json::text(one.text).map(payload::described_in));
                lines.extend(links(&one).map(|(kind, l)| payload::describe_url(kind, &l)));
            }
            Element::Other => {}
        }
    }
    if lines.is_empty()
        && let Some(raw) = json::present(raw).filter(|r| r.get() != "[]")
    {
        return json_text(raw);
    }
    lines.join("\n")
}
