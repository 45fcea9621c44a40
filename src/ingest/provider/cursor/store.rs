//! The database of one session of the command line agent: blobs named by their digest, and what
//! the session is.
//!
//! Messages are JSON; what keeps them in order is a tree of protocol buffers.

use serde_json::value::RawValue;

use crate::error::Result;
use crate::ingest::parse::json::{self, Element, raw_object};
use crate::ingest::parse::payload;
use crate::ingest::provider::{Reading, Start, Visit, epoch, json_text, known, message, push_text};
use crate::model::record::{Disposition, Facts, Message, MessageKind, Role};
use crate::model::row::{Row, Value};

pub(super) const META: &str = "meta";
pub(super) const BLOBS: &str = "blobs";

raw_object! {
    struct Meta {
        agent_id = "agentId",
        name = "name",
        title = "title",
        cwd = "cwd",
        created_at = "createdAt",
        model = "lastUsedModel",
        root = "latestRootBlobId",
    }
}

raw_object! {
    struct Said { role = "role", content = "content", id = "id" }
}

raw_object! {
    struct Block {
        kind = "type",
        text = "text",
        call_id = "toolCallId",
        name = "toolName",
        args = "args",
        input = "input",
        result = "result",
        output = "output",
        is_error = "isError",
        mime_type = "mimeType",
        media_type = "mediaType",
        data = "data",
        image = "image",
    }
}

/// What the rows of a session's database say.
#[derive(Debug)]
pub(super) struct Store {
    session: String,
    /// What the file beside the database says.
    title: Option<String>,
    workspace: Option<String>,
    model: Option<String>,
    root: Option<String>,
}

impl Store {
    pub(super) fn new(start: Start<'_>) -> Self {
        let folder = start.path.parent();
        let beside = folder
            .and_then(|f| start.siblings.get(&f.join("meta.json")))
            .and_then(|bytes| serde_json::from_slice::<Meta<'_>>(bytes).ok())
            .unwrap_or_default();
        Store {
            session: folder
                .and_then(std::path::Path::file_name)
                .map(|n| n.to_string_lossy().into_owned())
                .filter(|n| !n.is_empty())
                .unwrap_or_else(|| "unknown".to_owned()),
            title: json::owned(beside.title),
            workspace: json::owned(beside.cwd),
            model: None,
            root: None,
        }
    }

    /// The blobs that the newest root lists, in its order.
    pub(super) fn order(&self, visit: &mut dyn Visit) -> Result<Vec<String>> {
        let Some(root) = &self.root else {
            return Ok(Vec::new());
        };
        let sql = "SELECT hex(data) FROM blobs WHERE id=?1";
        let bytes = visit.keys(sql, &[root])?.first().and_then(|h| unhex(h));
        let mut ids = Vec::new();
        for (field, value) in fields(&bytes.unwrap_or_default()).unwrap_or_default() {
            if field == 1 && value.len() == 32 {
                ids.push(crate::model::path::hex(value));
            }
        }
        Ok(ids)
    }

    pub(super) fn read(&mut self, table: &'static str, row: &Row) -> Reading {
        if table == META {
            self.meta(row)
        } else {
            self.blob(row)
        }
    }

    fn reading(&self, native: Option<String>) -> Reading {
        Reading {
            session: self.session.clone(),
            native_id: native,
            native_parent: None,
            record_type: String::new(),
            time_ms: None,
            disposition: Disposition::Known,
            facts: Facts::default(),
        }
    }

    fn meta(&mut self, row: &Row) -> Reading {
        let key = row.text("key").unwrap_or_default();
        let native = Some(format!("meta:{key}"));
        let value = row.text("value").unwrap_or_default();
        let plain = unhex(&value)
            .and_then(|b| String::from_utf8(b).ok())
            .unwrap_or_else(|| value.clone().into_owned());
        let Ok(meta) = serde_json::from_str::<Meta<'_>>(&plain) else {
            return Reading {
                disposition: Disposition::Unknown,
                ..self.reading(native)
            };
        };
        if let Some(id) = json::owned(meta.agent_id) {
            self.session = id;
        }
        self.root = json::owned(meta.root).or(self.root.take());
        self.model = json::owned(meta.model).or(self.model.take());
        Reading {
            time_ms: json::time_ms(meta.created_at).or_else(|| {
                let text = json::text(meta.created_at)?;
                text.parse()
                    .map_or_else(|_| epoch::of_text(&text), epoch::ms)
            }),
            facts: Facts {
                title: json::owned(meta.name).or_else(|| self.title.clone()),
                workspace: json::owned(meta.cwd).or_else(|| self.workspace.clone()),
                ..Facts::default()
            },
            ..self.reading(native)
        }
    }

    fn blob(&self, row: &Row) -> Reading {
        let mut reading = self.reading(row.owned("id"));
        let bytes: &[u8] = match row.get("data") {
            Some(Value::Text(bytes) | Value::Blob(bytes)) => bytes,
            _ => &[],
        };
        if bytes.is_empty() {
            return reading;
        }
        let said = std::str::from_utf8(bytes)
            .ok()
            .and_then(|text| serde_json::from_str::<Said<'_>>(text).ok());
        let Some(said) = said else {
            let (kind, disposition) = shape(bytes);
            kind.clone_into(&mut reading.record_type);
            reading.disposition = disposition;
            return reading;
        };
        let role = json::text(said.role).unwrap_or_default();
        reading.record_type = role.clone().into_owned();
        reading.disposition = match &*role {
            "user" => {
                let mut out = Vec::new();
                parts(said.content, Role::User, &mut out);
                known(super::MARKS.apart(out))
            }
            "system" | "developer" => self.said(said.content, Role::System),
            "assistant" => self.said(said.content, Role::Assistant),
            "tool" => self.said(said.content, Role::Tool),
            _ => Disposition::Unknown,
        };
        reading
    }

    fn said(&self, content: Option<&RawValue>, role: Role) -> Disposition {
        let mut out = Vec::new();
        parts(content, role, &mut out);
        for message in out.iter_mut().filter(|m| m.role == Role::Assistant) {
            message.model.clone_from(&self.model);
        }
        known(out)
    }
}

fn parts(content: Option<&RawValue>, role: Role, out: &mut Vec<Message>) {
    let kind = if role == Role::Tool {
        MessageKind::ToolResult
    } else {
        MessageKind::Text
    };
    push_text(out, role, kind, content);
    for element in json::elements::<Block<'_>>(content) {
        let block = match element {
            Element::Object(block) => block,
            Element::Text(text) => {
                if !text.is_empty() {
                    out.push(message(role, kind, payload::described_in(text)));
                }
                continue;
            }
            Element::Other => continue,
        };
        let (tool_name, call_id) = (json::owned(block.name), json::owned(block.call_id));
        match json::text(block.kind).as_deref() {
            Some("text") => push_text(out, role, kind, block.text),
            Some("reasoning" | "thinking") => {
                push_text(out, role, MessageKind::Reasoning, block.text);
            }
            Some("tool-call") => out.push(Message {
                tool_name,
                call_id,
                ..message(
                    Role::Assistant,
                    MessageKind::ToolCall,
                    block
                        .args
                        .or(block.input)
                        .map(json_text)
                        .unwrap_or_default(),
                )
            }),
            Some("tool-result") => {
                let text = block.result.or(block.output).map(|r| {
                    json::text(Some(r)).map_or_else(|| json_text(r), payload::described_in)
                });
                out.push(Message {
                    tool_name,
                    call_id,
                    is_error: json::boolean(block.is_error),
                    ..message(
                        Role::Tool,
                        MessageKind::ToolResult,
                        text.unwrap_or_default(),
                    )
                });
            }
            Some(kind @ ("image" | "file")) => {
                let media_type = json::text(block.mime_type.or(block.media_type));
                let media_type = media_type.unwrap_or_else(|| kind.into());
                let data = json::text(block.data.or(block.image)).unwrap_or_default();
                let line = if data.contains(':') {
                    payload::describe_url(&media_type, &data)
                } else {
                    payload::describe(&media_type, &data)
                };
                out.push(message(role, MessageKind::Attachment, line));
            }
            _ => {}
        }
    }
}

/// What a blob that is no message is: a node of the tree holds ids and numbers alone.
fn shape(bytes: &[u8]) -> (&'static str, Disposition) {
    match fields(bytes) {
        Some(all) if all.iter().all(|(_, v)| v.is_empty() || v.len() == 32) => {
            ("tree", Disposition::Known)
        }
        Some(_) => ("protobuf", Disposition::Unknown),
        None => ("", Disposition::Unknown),
    }
}

/// The fields of a protocol buffer: numbers and the bytes of those that have a length (none for
/// the others); `None` when it is none.
fn fields(bytes: &[u8]) -> Option<Vec<(u64, &[u8])>> {
    let mut rest = bytes;
    let mut out = Vec::new();
    while !rest.is_empty() {
        let tag = varint(&mut rest)?;
        let value: &[u8] = match tag & 7 {
            0 => {
                varint(&mut rest)?;
                &[]
            }
            1 => {
                rest = rest.get(8..)?;
                &[]
            }
            2 => {
                let len = usize::try_from(varint(&mut rest)?).ok()?;
                let (value, behind) = rest.split_at_checked(len)?;
                rest = behind;
                value
            }
            5 => {
                rest = rest.get(4..)?;
                &[]
            }
            _ => return None,
        };
        out.push((tag >> 3, value));
    }
    Some(out)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| {
        char::from(b)
            .to_digit(16)
            .and_then(|d| u8::try_from(d).ok())
    };
    if text.is_empty() || !text.len().is_multiple_of(2) {
        return None;
    }
    text.as_bytes()
        .chunks_exact(2)
        .map(|pair| match pair {
            [a, b] => Some(digit(*a)? * 16 + digit(*b)?),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocol_buffers_are_told_from_other_bytes() {
        let mut root = vec![0x0a, 32];
        root.extend([7; 32]);
        root.extend([0x10, 0x96, 0x01]);
        let all = fields(&root).unwrap();
        assert_eq!(all, [(1, &[7u8; 32][..]), (2, &[][..])]);
        assert_eq!(shape(&root).0, "tree");
        root.extend([0x4a, 3, b'/', b'a', b'b']);
        assert_eq!(shape(&root).0, "protobuf");
        root.push(0x0a);
        assert_eq!(shape(&root).0, "");
        assert_eq!(
            fields(&[
                0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1
            ]),
            None
        );
        assert_eq!(fields(&[0xff; 20]), None);
    }

    #[test]
    fn hex_is_read_or_refused() {
        assert_eq!(unhex("7b7D"), Some(b"{}".to_vec()));
        for odd in ["", "7", "7g", "ü"] {
            assert_eq!(unhex(odd), None, "{odd}");
        }
    }
}
