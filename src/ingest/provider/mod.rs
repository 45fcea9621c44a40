//! What each harness writes: one reader a harness.

pub mod claude;
pub mod codex;
mod wrapper;

use serde_json::value::RawValue;

use crate::ingest::parse::SourceName;
use crate::ingest::parse::line::Line;
use crate::model::digest::Digest;
use crate::model::provider::Provider;
use crate::model::record::{Disposition, Facts, Message, MessageKind, Role};

/// Where a value stands in its source.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// Nothing but white space and NUL bytes comes before it on its line.
    pub(crate) at_line_start: bool,
    /// Its segment has an end: more bytes can't change what it is.
    pub(crate) terminated: bool,
}

/// What a record says.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) session: String,
    pub(crate) native_id: Option<String>,
    pub(crate) native_parent: Option<String>,
    pub(crate) record_type: String,
    pub(crate) time_ms: Option<i64>,
    pub(crate) disposition: Disposition,
    pub(crate) facts: Facts,
}

/// Reads the records of one source.
#[derive(Debug)]
pub(crate) enum Reader {
    Claude(Box<claude::ClaudeReader>),
    Codex(Box<codex::CodexReader>),
}

impl Reader {
    /// A reader for the source `name`; `first` are the objects at its begin with the number of
    /// their lines, `state` is what a reader of an earlier part of it left.
    pub(crate) fn new<'h>(
        name: SourceName<'_>,
        first: impl Iterator<Item = (usize, &'h str)>,
        state: Option<serde_json::Value>,
    ) -> Self {
        match name.provider {
            Provider::Claude => {
                Reader::Claude(Box::new(claude::ClaudeReader::new(name.path, first, state)))
            }
            Provider::Codex => {
                Reader::Codex(Box::new(codex::CodexReader::new(name.path, first, state)))
            }
        }
    }

    /// What the next reader must know; bounded.
    pub(crate) fn state(&self) -> Option<serde_json::Value> {
        match self {
            Reader::Claude(reader) => reader.state(),
            Reader::Codex(reader) => reader.state(),
        }
    }

    /// Whether bytes that begin with `{"` may be the begin of a record, by their first key.
    pub(crate) fn may_begin_record(&self, bytes: &[u8]) -> bool {
        let keys = match self {
            Reader::Claude(_) => claude::FIRST_KEYS,
            Reader::Codex(_) => codex::FIRST_KEYS,
        };
        let Some(rest) = bytes.strip_prefix(b"{\"") else {
            return false;
        };
        keys.iter().any(|key| {
            rest.strip_prefix(key.as_bytes())
                .is_some_and(|after| after.first() == Some(&b'"'))
        })
    }

    /// Whether an object is a record by its fields.
    pub(crate) fn is_record(&self, line: &Line<'_>) -> bool {
        match self {
            Reader::Claude(_) => claude::is_record(line),
            Reader::Codex(_) => codex::is_record(line),
        }
    }

    /// What a record says whose bytes begin at `offset` and hash to `hash`; no `line` when it is
    /// JSON but no object.
    pub(crate) fn read(&mut self, line: Option<&Line<'_>>, offset: u64, hash: &Digest) -> Reading {
        match self {
            Reader::Claude(reader) => reader.read(line, offset, hash),
            Reader::Codex(reader) => reader.read(line, offset),
        }
    }
}

/// A message with nothing but its text.
fn message(role: Role, kind: MessageKind, text: String) -> Message {
    Message {
        role,
        kind,
        text,
        tool_name: None,
        call_id: None,
        model: None,
        is_error: None,
    }
}

/// The disposition of a record of a known type.
fn known(messages: Vec<Message>) -> Disposition {
    if messages.is_empty() {
        Disposition::Known
    } else {
        Disposition::Messages(messages)
    }
}

/// The text of `raw` as JSON, without payloads.
fn json_text(raw: &RawValue) -> String {
    crate::ingest::parse::payload::described_in(std::borrow::Cow::Borrowed(raw.get()))
}

/// The first 64 bits of a digest.
fn short(hash: &Digest) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = hash.0;
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

/// The file name without its extensions `.zst` and `.jsonl`.
fn stem(path: &std::path::Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".zst").unwrap_or(&name);
    name.strip_suffix(".jsonl").unwrap_or(name).to_owned()
}

/// Whether `text` has the form of a UUID.
fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(n, b)| match n {
            8 | 13 | 18 | 23 => b == b'-',
            _ => b.is_ascii_hexdigit(),
        })
}
