//! What a parser makes of the bytes of a source: records, and what lies between them.
//!
//! Every byte of a source belongs to exactly one [`Piece`], in file order and without gaps.

use serde::{Deserialize, Serialize};

use crate::model::digest::Digest;

/// A range of bytes in a source (decoded bytes, where the source is compressed).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Span {
    /// First byte, counted from 0.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
}

impl Span {
    /// The first byte behind the span.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }
}

/// The id of a record that carries none and whose source is written anew as a whole: where it is.
/// `place` counts the records of the source at `path`.
#[must_use]
pub fn id_by_place(path: &std::path::Path, place: u64) -> String {
    let hex = Digest::of(path.as_os_str().as_encoded_bytes()).to_hex();
    let short = hex.get(..16).unwrap_or(&hex);
    format!("{BY_PLACE}{short}:{place}")
}

/// Whether an id says nothing but where its record is.
#[must_use]
pub fn is_by_place(id: &str) -> bool {
    id.starts_with(BY_PLACE)
}

/// What ids by place begin with.
const BY_PLACE: char = '@';

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The person.
    User,
    /// The model.
    Assistant,
    /// The result of a tool.
    Tool,
    /// The harness's own prompt or notice.
    System,
    /// Text that the harness put into the user's mouth: reminders, environment, command wrappers.
    Meta,
}

/// What a message holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MessageKind {
    /// Plain text.
    Text,
    /// The model's reasoning, where it is readable.
    Reasoning,
    /// A tool call: `text` is its input as JSON text.
    ToolCall,
    /// A tool's result.
    ToolResult,
    /// A summary that stands for earlier messages.
    Summary,
    /// A picture or document; `text` is a one-line description, never the payload.
    Attachment,
}

/// One message of a record. A record may hold several, numbered from 0 by position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What it is.
    pub kind: MessageKind,
    /// The text, UTF-8; invalid bytes of the source appear as U+FFFD.
    pub text: String,
    /// Tool name, for calls (and results that name it).
    pub tool_name: Option<String>,
    /// The id that pairs a call with its result.
    pub call_id: Option<String>,
    /// The model's name.
    pub model: Option<String>,
    /// Whether a tool result says that it failed.
    pub is_error: Option<bool>,
}

/// What a record is to its conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disposition {
    /// It holds these messages (at least one).
    Messages(Vec<Message>),
    /// A known record without a message of its own (snapshots, token counts, titles).
    Known,
    /// JSON of a type or shape this parser does not know; kept.
    Unknown,
    /// It has no message of its own and takes back what the conversation said before it.
    TakesBack(TakenBack),
    /// Says again what the record at `offset` of the same source said.
    DuplicateOf {
        /// Offset of the record that holds the messages.
        offset: u64,
    },
}

/// What of a conversation a record takes back: it stays in the archive and no longer stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakenBack {
    /// Everything before the record.
    All,
    /// The message with this native id and everything behind it; everything where none stands
    /// under that id.
    From(String),
}

/// Which step of the ladder made the record readable.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Recovery {
    /// Nothing: it was well formed.
    Clean,
    /// NUL bytes around it were left out (D01, D02).
    NulTrimmed,
    /// Invalid UTF-8 was read as U+FFFD (D07).
    InvalidUtf8,
    /// Lone surrogate escapes were read as U+FFFD (D09).
    LoneSurrogate,
    /// One of several records on one line (D04).
    Glued,
    /// Several lines joined: a raw newline inside a string (D05).
    Multiline,
    /// Nested too deep to read; kept raw (D11).
    TooDeep,
    /// Too large to parse; kept raw (D10).
    Oversized,
}

/// Why bytes hold no record.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum SkipReason {
    /// A run of NUL bytes (D01, D02).
    NulBlock,
    /// A line, or a part of one, that is not JSON by any step of the ladder (D03, D04, D07).
    Fragment,
    /// The unfinished last line: looked at again when the source grows (D03).
    TornTail,
    /// A line longer than the parser takes: mirrored, not parsed (D10).
    Oversized,
}

/// What a record says about its conversation as a whole; the newest value wins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Title, summary or custom name.
    pub title: Option<String>,
    /// Working directory.
    pub workspace: Option<String>,
    /// Native id of the conversation this one was spawned by or forked from.
    pub parent_session: Option<String>,
    /// Version of the harness.
    pub harness_version: Option<String>,
}

/// One raw record, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedRecord {
    /// Where its raw bytes lie.
    pub span: Span,
    /// Line of its first byte, counted from 1.
    pub line: u64,
    /// BLAKE3 of its exact raw bytes (the span).
    pub hash: Digest,
    /// How it was read.
    pub recovery: Recovery,
    /// Native id of the conversation it belongs to.
    pub session: String,
    /// Its own id in the harness's terms, when it has one.
    pub native_id: Option<String>,
    /// The native id of the record before it in the conversation's graph.
    pub native_parent: Option<String>,
    /// The harness's type, with the subtype behind a slash; empty when it has none.
    pub record_type: String,
    /// Its time stamp, milliseconds since the Unix epoch.
    pub time_ms: Option<i64>,
    /// What it is.
    pub disposition: Disposition,
    /// What it says about the conversation.
    pub facts: Facts,
}

/// One piece of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A record.
    Record(Box<ParsedRecord>),
    /// Line ends, white space, a byte-order mark.
    Separator(Span),
    /// Bytes that hold no record.
    Skipped {
        /// Where.
        span: Span,
        /// Line of the first byte, counted from 1.
        line: u64,
        /// Why.
        reason: SkipReason,
    },
}

/// Where parsing goes on when the source has grown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResumePoint {
    /// First byte not yet consumed; a torn tail is not consumed.
    pub offset: u64,
    /// Line of that byte, counted from 1.
    pub line: u64,
    /// What the parser must remember, opaque to others; small.
    pub state: Vec<u8>,
}
