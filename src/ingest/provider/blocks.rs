//! The blocks of a message in the shape of Anthropic's API, which many harnesses store.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{json_text, message, push_text, wrapper};
use crate::ingest::parse::json::{self, Element, raw_object};
use crate::ingest::parse::payload;
use crate::model::record::{Message, MessageKind, Role};

raw_object! {
    struct Block {
        kind = "type",
        text = "text",
        thinking = "thinking",
        id = "id",
        name = "name",
        input = "input",
        tool_use_id = "tool_use_id",
        content = "content",
        is_error = "is_error",
        source = "source",
        title = "title",
        url = "url",
    }
}

raw_object! {
    struct Source { kind = "type", media_type = "media_type", data = "data", url = "url" }
}

/// Who says a text that stands in the user's mouth: the person, or the harness that put it there.
pub(super) fn speaker(text: &str) -> (Role, MessageKind) {
    let role = if wrapper::only_injected(text) {
        Role::Meta
    } else {
        Role::User
    };
    (role, MessageKind::Text)
}

/// The messages of a user record's content: a string, or blocks. `speak` says who says a text and
/// what it is; [`speaker`] where nothing else is known.
pub(super) fn user(
    content: Option<&RawValue>,
    speak: &dyn Fn(&str) -> (Role, MessageKind),
    out: &mut Vec<Message>,
) {
    if let Some(text) = json::text(content) {
        user_text(text, speak, out);
        return;
    }
    for element in json::elements::<Block<'_>>(content) {
        let block = match element {
            Element::Object(block) => block,
            Element::Text(text) => {
                user_text(text, speak, out);
                continue;
            }
            Element::Other => continue,
        };
        let Some(kind) = json::text(block.kind) else {
            continue;
        };
        match &*kind {
            "text" => {
                if let Some(text) = json::text(block.text) {
                    user_text(text, speak, out);
                }
            }
            "image" | "document" => attachment(&kind, &block, Role::User, out),
            _ => tool_result(&kind, &block, out),
        }
    }
}

fn user_text(
    text: Cow<'_, str>,
    speak: &dyn Fn(&str) -> (Role, MessageKind),
    out: &mut Vec<Message>,
) {
    if text.is_empty() {
        return;
    }
    let (role, kind) = speak(&text);
    out.push(message(role, kind, payload::described_in(text)));
}

/// The messages of an assistant record's content.
pub(super) fn assistant(content: Option<&RawValue>, out: &mut Vec<Message>) {
    push_text(out, Role::Assistant, MessageKind::Text, content);
    for element in json::elements::<Block<'_>>(content) {
        let block = match element {
            Element::Object(block) => block,
            Element::Text(text) if !text.is_empty() => {
                let text = payload::described_in(text);
                out.push(message(Role::Assistant, MessageKind::Text, text));
                continue;
            }
            Element::Text(_) | Element::Other => continue,
        };
        let Some(kind) = json::text(block.kind) else {
            continue;
        };
        match &*kind {
            "text" => push_text(out, Role::Assistant, MessageKind::Text, block.text),
            // Signed and empty when the model's reasoning is withheld.
            "thinking" => push_text(out, Role::Assistant, MessageKind::Reasoning, block.thinking),
            "tool_use" | "server_tool_use" | "mcp_tool_use" => out.push(Message {
                tool_name: json::owned(block.name),
                call_id: json::owned(block.id),
                ..message(
                    Role::Assistant,
                    MessageKind::ToolCall,
                    block.input.map(json_text).unwrap_or_default(),
                )
            }),
            "image" | "document" => attachment(&kind, &block, Role::Assistant, out),
            _ => tool_result(&kind, &block, out),
        }
    }
}

/// A tool's result and what is attached to it; nothing for a block of another kind.
fn tool_result(kind: &str, block: &Block<'_>, out: &mut Vec<Message>) {
    if kind != "tool_result" && !kind.ends_with("_tool_result") {
        return;
    }
    let call_id = json::owned(block.tool_use_id);
    let at = out.len();
    out.push(Message {
        call_id: call_id.clone(),
        is_error: json::boolean(block.is_error),
        ..message(Role::Tool, MessageKind::ToolResult, String::new())
    });
    let mut text = String::new();
    if let Some(whole) = json::text(block.content) {
        text = payload::described_in(whole);
    }
    for element in json::elements::<Block<'_>>(block.content) {
        let part = match element {
            Element::Object(part) => part,
            Element::Text(part) => {
                add_line(&mut text, part);
                continue;
            }
            Element::Other => continue,
        };
        match json::text(part.kind).as_deref() {
            Some(kind @ ("image" | "document")) => {
                let before = out.len();
                attachment(kind, &part, Role::Tool, out);
                for message in out.iter_mut().skip(before) {
                    message.call_id.clone_from(&call_id);
                }
            }
            _ => {
                for field in [part.title, part.url, part.text] {
                    if let Some(field) = json::text(field) {
                        add_line(&mut text, field);
                    }
                }
            }
        }
    }
    if let Some(message) = out.get_mut(at) {
        message.text = text;
    }
}

fn add_line(text: &mut String, line: Cow<'_, str>) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(&payload::described_in(line));
}

/// A picture or document: its text if it is one, else a line that describes it.
fn attachment(kind: &str, block: &Block<'_>, role: Role, out: &mut Vec<Message>) {
    let source = json::object::<Source<'_>>(block.source).unwrap_or_default();
    let media_type = json::text(source.media_type).unwrap_or(Cow::Borrowed(kind));
    let data = json::text(source.data);
    if json::text(source.kind).is_some_and(|k| k == "text")
        && let Some(text) = data
    {
        if !text.is_empty() {
            out.push(message(
                role,
                MessageKind::Text,
                payload::described_in(text),
            ));
        }
        return;
    }
    let line = match data {
        Some(data) => payload::describe(&media_type, &data),
        None => payload::describe_url(kind, &json::text(source.url).unwrap_or_default()),
    };
    out.push(message(role, MessageKind::Attachment, line));
}
