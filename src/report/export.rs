//! The documents of `export`.

use schemars::JsonSchema;
use serde::Serialize;

use super::envelope::Body;
use crate::model::path::PathText;
use crate::model::provider::Provider;
use crate::model::record::{MessageKind, Role};

/// What was handed out into files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ExportBody {
    /// Id of the session.
    pub id: String,
    /// What the files hold.
    pub format: ExportFormat,
    /// The folder (raw) or the file (json) that was named.
    pub output: PathText,
    /// The files, by path; at most 100.
    pub files: Vec<ExportedFile>,
    /// How many files there are.
    pub files_total: u64,
    /// Bytes of all files.
    pub bytes_total: u64,
}

impl Body for ExportBody {
    const NAME: &'static str = "export";
}

/// How many files a document lists.
pub const MAX_FILES: usize = 100;

/// What an export holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ExportFormat {
    /// The harness's own files, byte for byte.
    Raw,
    /// Messages.
    Json,
    /// A page to read.
    Markdown,
    /// A page to read.
    Html,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ExportedFile {
    /// Where it was written.
    #[serde(flatten)]
    pub path: PathText,
    /// Bytes.
    pub bytes: u64,
    /// BLAKE3 of the content, hex.
    pub blake3: String,
    /// Key of the source it was captured from; absent for a page or `json`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Number of the capture; absent for `json`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
}

/// The session as messages. The document is written as it is read: `session` and `messages` come
/// first, the verdict last. `session` and `messages` hold no row id, ingest time, commit number or
/// parser run: after a rebuild they are the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ExportJsonBody {
    /// The session.
    pub session: ExportSession,
    /// Messages, in the order of the session.
    pub messages: Vec<ExportMessage>,
    /// How many messages there are.
    pub messages_total: u64,
}

impl Body for ExportJsonBody {
    const NAME: &'static str = "export-json";
}

/// The session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ExportSession {
    /// Id of this program.
    pub id: String,
    /// Id of the harness.
    pub native_id: String,
    /// The harness.
    pub provider: Provider,
    /// Machine it comes from.
    pub source_id: String,
    /// Title or summary.
    pub title: Option<String>,
    /// Working directory.
    pub workspace: Option<String>,
    /// Native id of the session that spawned this one or that it was forked from.
    pub parent_session: Option<String>,
    /// Id of the conversation that this one branches off.
    pub branch_of: Option<String>,
    /// Version of the harness.
    pub harness_version: Option<String>,
    /// Time of the first record, RFC 3339.
    pub started_at: Option<String>,
    /// Time of the last record, RFC 3339.
    pub ended_at: Option<String>,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ExportMessage {
    /// Id: from the raw record's hash, which occurrence of it, and the part of the record.
    pub id: String,
    /// BLAKE3 of the raw record, hex.
    pub record_hash: String,
    /// The how many-th record with this hash in its source, from 1.
    pub occurrence: u64,
    /// Position in the record, from 0.
    pub part: u32,
    /// Who speaks.
    pub role: Role,
    /// What it is.
    pub kind: MessageKind,
    /// The text.
    pub text: String,
    /// Time, RFC 3339.
    pub time: Option<String>,
    /// The tool, for calls and results that name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// Pairs a call with its result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether a tool's result says that it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// Native id of the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub native_id: Option<String>,
    /// Native id of the record before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub native_parent: Option<String>,
    /// Whether a later version of its record took its place.
    pub superseded: bool,
    /// Where the raw record is.
    pub locator: Locator,
}

/// Where a raw record is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Locator {
    /// Source key.
    pub source: String,
    /// Capture in which it was first seen.
    pub seq: u64,
    /// First byte, after decompression.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
}

/// What follows the messages in the document that [`ExportJsonBody`] describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ExportJsonTail {
    /// How many messages there are.
    pub messages_total: u64,
}

impl Body for ExportJsonTail {
    const NAME: &'static str = ExportJsonBody::NAME;
}
