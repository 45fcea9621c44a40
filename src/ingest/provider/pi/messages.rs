//! The messages of an entry.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::super::{blocks, json_text, message, push_text};
use crate::ingest::parse::json::{self, Element, raw_object};
use crate::ingest::parse::payload;
use crate::model::record::{Message, MessageKind, Role};

raw_object! {
    struct Body {
        role = "role",
        content = "content",
        model = "model",
        timestamp = "timestamp",
        error_message = "errorMessage",
        tool_call_id = "toolCallId",
        tool_name = "toolName",
        is_error = "isError",
        command = "command",
        output = "output",
        exit_code = "exitCode",
        summary = "summary",
    }
}

raw_object! {
    struct Block {
        kind = "type",
        text = "text",
        thinking = "thinking",
        id = "id",
        name = "name",
        arguments = "arguments",
        input = "input",
        data = "data",
        mime_type = "mimeType",
    }
}

fn body(raw: Option<&RawValue>) -> Body<'_> {
    json::object(raw).unwrap_or_default()
}

/// Who speaks, in the harness's words.
pub(super) fn role(raw: Option<&RawValue>) -> Option<Cow<'_, str>> {
    json::text(body(raw).role)
}

/// The time inside the message.
pub(super) fn time(raw: Option<&RawValue>) -> Option<&RawValue> {
    body(raw).timestamp
}

/// The parts that no migration of the format changes.
pub(super) fn substance(raw: Option<&RawValue>) -> [Option<&RawValue>; 5] {
    let body = body(raw);
    [
        body.content,
        body.tool_call_id,
        body.command,
        body.output,
        body.summary,
    ]
}

/// Reads a message; false when it has no known role.
pub(super) fn read(raw: Option<&RawValue>, out: &mut Vec<Message>) -> bool {
    let body = body(raw);
    let Some(role) = json::text(body.role) else {
        return false;
    };
    match &*role {
        "user" => {
            content(body.content, &|text| blocks::speaker(text).0, out);
        }
        "assistant" => {
            content(body.content, &|_| Role::Assistant, out);
            let model = json::owned(body.model);
            for message in out.iter_mut() {
                message.model.clone_from(&model);
            }
            push_text(out, Role::System, MessageKind::Text, body.error_message);
        }
        "toolResult" => tool_result(&body, out),
        "bashExecution" => shell(&body, out),
        "custom" | "hookMessage" => injected(body.content, out),
        "system" | "developer" => content(body.content, &|_| Role::System, out),
        "branchSummary" | "compactionSummary" => {
            for text in [body.summary, body.content] {
                push_text(out, Role::System, MessageKind::Summary, text);
            }
        }
        _ => return false,
    }
    true
}

/// What an extension says to the model.
pub(super) fn injected(raw: Option<&RawValue>, out: &mut Vec<Message>) {
    content(raw, &|_| Role::Meta, out);
}

/// A content: a string, or blocks.
fn content(raw: Option<&RawValue>, speak: &dyn Fn(&str) -> Role, out: &mut Vec<Message>) {
    for one in json::parts::<Block<'_>>(raw) {
        let block = match one {
            Element::Object(block) => block,
            Element::Text(text) => {
                say(text, speak, out);
                continue;
            }
            Element::Other => continue,
        };
        match json::text(block.kind).as_deref() {
            Some("text") => {
                if let Some(text) = json::text(block.text) {
                    say(text, speak, out);
                }
            }
            // Signed and empty when the model's reasoning is withheld.
            Some("thinking") => {
                push_text(out, Role::Assistant, MessageKind::Reasoning, block.thinking);
            }
            Some("toolCall" | "toolUse" | "tool_use") => out.push(Message {
                tool_name: json::owned(block.name),
                call_id: json::owned(block.id),
                ..message(
                    Role::Assistant,
                    MessageKind::ToolCall,
                    block
                        .arguments
                        .or(block.input)
                        .map(json_text)
                        .unwrap_or_default(),
                )
            }),
            Some("image") => out.push(message(speak(""), MessageKind::Attachment, picture(&block))),
            _ => {}
        }
    }
}

fn say(text: Cow<'_, str>, speak: &dyn Fn(&str) -> Role, out: &mut Vec<Message>) {
    if !text.is_empty() {
        let role = speak(&text);
        let text = payload::described_in(text);
        out.push(message(role, MessageKind::Text, text));
    }
}

fn picture(block: &Block<'_>) -> String {
    payload::describe(
        &json::text(block.mime_type).unwrap_or(Cow::Borrowed("image")),
        &json::text(block.data).unwrap_or_default(),
    )
}

fn tool_result(body: &Body<'_>, out: &mut Vec<Message>) {
    let call_id = json::owned(body.tool_call_id);
    let tool_name = json::owned(body.tool_name);
    let mut text = String::new();
    let mut pictures = Vec::new();
    let mut add = |part: Cow<'_, str>| {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&payload::described_in(part));
    };
    for one in json::parts::<Block<'_>>(body.content) {
        match one {
            Element::Text(part) => add(part),
            Element::Object(block) if block.data.is_some() => pictures.push(picture(&block)),
            Element::Object(block) => {
                if let Some(part) = json::text(block.text) {
                    add(part);
                }
            }
            Element::Other => {}
        }
    }
    out.push(Message {
        tool_name: tool_name.clone(),
        call_id: call_id.clone(),
        is_error: json::boolean(body.is_error),
        ..message(Role::Tool, MessageKind::ToolResult, text)
    });
    for picture in pictures {
        out.push(Message {
            tool_name: tool_name.clone(),
            call_id: call_id.clone(),
            ..message(Role::Tool, MessageKind::Attachment, picture)
        });
    }
}

/// A command that the person ran by hand.
fn shell(body: &Body<'_>, out: &mut Vec<Message>) {
    let tool_name = Some("bash".to_owned());
    let text = |raw| json::text(raw).map(payload::described_in);
    if let Some(command) = text(body.command) {
        out.push(Message {
            tool_name: tool_name.clone(),
            ..message(Role::User, MessageKind::ToolCall, command)
        });
    }
    if let Some(output) = text(body.output) {
        out.push(Message {
            tool_name,
            is_error: json::present(body.exit_code).map(|code| code.get() != "0"),
            ..message(Role::Tool, MessageKind::ToolResult, output)
        });
    }
}
