//! One bubble: what the person, the model or a tool said.

use serde_json::value::RawValue;

use crate::ingest::parse::json::{self, Element, raw_object};
use crate::ingest::parse::payload;
use crate::ingest::provider::{json_text, known, message, push_text};
use crate::model::record::{Disposition, Message, MessageKind, Role};

raw_object! {
    pub(super) struct Bubble {
        bubble_id = "bubbleId",
        id = "id",
        kind = "type",
        text = "text",
        raw_text = "rawText",
        rich_text = "richText",
        init_text = "initText",
        created_at = "createdAt",
        timestamp = "timestamp",
        timing = "timingInfo",
        thinking = "thinking",
        thinking_blocks = "allThinkingBlocks",
        tool = "toolFormerData",
        model_info = "modelInfo",
        model_type = "modelType",
        images = "images",
    }
}

raw_object! {
    struct Tool {
        id = "toolCallId",
        name = "name",
        params = "params",
        raw_args = "rawArgs",
        result = "result",
        status = "status",
        error = "error",
    }
}

raw_object! {
    struct Detail {
        name = "modelName",
        text = "text",
        thinking = "thinking",
        start = "clientStartTime",
        mime_type = "mimeType",
        data = "data",
        url = "url",
    }
}

impl Bubble<'_> {
    /// Its own id, in either generation.
    pub(super) fn own_id(&self) -> Option<String> {
        json::owned(self.bubble_id).or_else(|| json::owned(self.id))
    }

    /// The type, as a name.
    pub(super) fn record_type(&self) -> String {
        match self.kind.map(RawValue::get) {
            Some("1" | "\"user\"") => "user".to_owned(),
            Some("2" | "\"ai\"") => "assistant".to_owned(),
            Some(other) => other.trim_matches('"').chars().take(64).collect(),
            None => String::new(),
        }
    }

    pub(super) fn time_ms(&self) -> Option<i64> {
        json::time_ms(self.created_at)
            .or_else(|| json::time_ms(self.timestamp))
            .or_else(|| json::time_ms(json::object::<Detail<'_>>(self.timing)?.start))
    }

    /// What it says; `model` is the one that its conversation names.
    pub(super) fn disposition(&self, model: Option<&String>) -> Disposition {
        let mut out = Vec::new();
        match self.record_type().as_str() {
            "user" => self.user(&mut out),
            "assistant" => {
                self.assistant(&mut out);
                let own = json::object::<Detail<'_>>(self.model_info)
                    .and_then(|m| json::owned(m.name))
                    .or_else(|| json::owned(self.model_type));
                let model = own.or_else(|| model.cloned());
                for message in out.iter_mut().filter(|m| m.role == Role::Assistant) {
                    message.model.clone_from(&model);
                }
            }
            _ => return Disposition::Unknown,
        }
        known(out)
    }

    fn user(&self, out: &mut Vec<Message>) {
        let text = [self.text, self.raw_text]
            .into_iter()
            .find_map(json::owned)
            .or_else(|| {
                [self.rich_text, self.init_text]
                    .into_iter()
                    .find_map(|rich| plain(&json::owned(rich)?))
            });
        if let Some(text) = text {
            super::MARKS.text(&payload::described_in(text.into()), out);
        }
        for element in json::elements::<Detail<'_>>(self.images) {
            if let Element::Object(image) = element {
                let line = match json::text(image.data) {
                    Some(data) => {
                        payload::describe(&json::text(image.mime_type).unwrap_or_default(), &data)
                    }
                    None => {
                        payload::describe_url("image", &json::text(image.url).unwrap_or_default())
                    }
                };
                out.push(message(Role::User, MessageKind::Attachment, line));
            }
        }
    }

    fn assistant(&self, out: &mut Vec<Message>) {
        let begun = out.len();
        if let Some(thinking) = json::object::<Detail<'_>>(self.thinking) {
            push_text(out, Role::Assistant, MessageKind::Reasoning, thinking.text);
        } else {
            push_text(out, Role::Assistant, MessageKind::Reasoning, self.thinking);
        }
        if out.len() == begun {
            for element in json::elements::<Detail<'_>>(self.thinking_blocks) {
                if let Element::Object(block) = element {
                    let text = block.thinking.or(block.text);
                    push_text(out, Role::Assistant, MessageKind::Reasoning, text);
                }
            }
        }
        let text = json::owned(self.text)
            .map(|_| self.text)
            .unwrap_or(self.raw_text);
        push_text(out, Role::Assistant, MessageKind::Text, text);
        if let Some(tool) = json::object::<Tool<'_>>(self.tool) {
            tool_of(&tool, out);
        }
    }
}

fn tool_of(tool: &Tool<'_>, out: &mut Vec<Message>) {
    let (name, call_id) = (json::owned(tool.name), json::owned(tool.id));
    let said = |raw: &RawValue| {
        json::text(Some(raw)).map_or_else(|| json_text(raw), payload::described_in)
    };
    let input = [tool.params, tool.raw_args]
        .into_iter()
        .filter_map(json::present)
        .map(&said)
        .find(|t| !t.is_empty());
    // Other bubbles have an object without a call in it.
    if name.is_none() && input.is_none() {
        return;
    }
    out.push(Message {
        tool_name: name.clone(),
        call_id: call_id.clone(),
        ..message(
            Role::Assistant,
            MessageKind::ToolCall,
            input.unwrap_or_default(),
        )
    });
    let failed = json::text(tool.status).map(|s| s == "error");
    let answer = [tool.result, tool.error]
        .into_iter()
        .filter_map(json::present)
        .map(said)
        .find(|t| !t.is_empty());
    if let Some(answer) = answer {
        out.push(Message {
            tool_name: name,
            call_id,
            is_error: failed,
            ..message(Role::Tool, MessageKind::ToolResult, answer)
        });
    }
}

/// The texts of an editor's document in JSON, a line a paragraph.
fn plain(document: &str) -> Option<String> {
    let document: serde_json::Value = serde_json::from_str(document).ok()?;
    let mut out = String::new();
    texts(document.get("root")?, &mut out);
    let out = out.trim().to_owned();
    (!out.is_empty()).then_some(out)
}

/// The parser's own limit bounds the depth.
fn texts(node: &serde_json::Value, out: &mut String) {
    match node.get("type").and_then(|t| t.as_str()) {
        Some("linebreak") => out.push('\n'),
        Some("paragraph") if !out.is_empty() => out.push('\n'),
        _ => {}
    }
    if let Some(text) = node.get("text").and_then(|t| t.as_str()) {
        out.push_str(text);
    }
    for child in node
        .get("children")
        .and_then(|c| c.as_array())
        .into_iter()
        .flatten()
    {
        texts(child, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<String> {
        let bubble: Bubble<'_> = serde_json::from_str(text).unwrap();
        match bubble.disposition(Some(&"m".to_owned())) {
            Disposition::Messages(all) => all
                .iter()
                .map(|m| format!("{:?} {:?} {}", m.role, m.kind, m.text))
                .collect(),
            other => vec![format!("{other:?}")],
        }
    }

    #[test]
    fn both_generations_are_read() {
        assert_eq!(read(r#"{"type":1,"text":"hi"}"#), ["User Text hi"]);
        assert_eq!(read(r#"{"type":"user","text":"hi"}"#), ["User Text hi"]);
        assert_eq!(
            read(r#"{"type":"ai","rawText":"yes"}"#),
            ["Assistant Text yes"]
        );
        assert_eq!(
            read(
                r#"{"type":2,"text":"","thinking":{"text":"hm"},"toolFormerData":{"name":"x","params":"{}","result":"r","status":"error"}}"#
            ),
            [
                "Assistant Reasoning hm",
                "Assistant ToolCall {}",
                "Tool ToolResult r"
            ]
        );
        assert_eq!(
            read(r#"{"type":2,"toolFormerData":{"additionalData":{}}}"#),
            ["Known"]
        );
        assert_eq!(read(r#"{"type":3}"#), ["Unknown"]);
        assert_eq!(read(r#"{"type":{"a":[]},"text":5}"#), ["Unknown"]);
    }

    #[test]
    fn a_text_that_is_only_a_document_is_read_from_it() {
        let rich = r#"{\"root\":{\"children\":[{\"type\":\"paragraph\",\"children\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"linebreak\"},{\"type\":\"text\",\"text\":\"b\"}]},{\"type\":\"paragraph\",\"children\":[{\"type\":\"text\",\"text\":\"c\"}]}]}}"#;
        let bubble = format!(r#"{{"type":1,"text":"","richText":"{rich}"}}"#);
        assert_eq!(read(&bubble), ["User Text a\nb\nc"]);
    }
}
