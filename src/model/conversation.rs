//! What the archive knows about conversations, sources and records, as plain data.

use std::path::PathBuf;

use crate::model::digest::Digest;
use crate::model::provider::Provider;
use crate::model::record::{Message, Recovery, SkipReason, Span};
use crate::model::source::SourceKey;

/// One conversation, or one linked branch of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    /// Id that people and documents use: 32 hex digits.
    pub id: String,
    /// Machine it was read from.
    pub source_id: String,
    /// Harness.
    pub provider: Provider,
    /// The harness's own id.
    pub native_id: String,
    /// Id of the conversation this one branched off, where two sources with one native id diverge.
    pub branch_of: Option<String>,
    /// Hash of the last record that the branch shares with it.
    pub branch_at: Option<Digest>,
    /// Title, summary or custom name.
    pub title: Option<String>,
    /// Working directory.
    pub workspace: Option<String>,
    /// Native id of the conversation this one was spawned by or forked from.
    pub parent_session: Option<String>,
    /// Version of the harness.
    pub harness_version: Option<String>,
    /// Earliest time stamp of a record, milliseconds since the Unix epoch.
    pub started_ms: Option<i64>,
    /// Latest time stamp of a record.
    pub ended_ms: Option<i64>,
    /// Number of commits that touched it.
    pub revision: u64,
    /// Coverage keys: distinct (record hash, occurrence).
    pub record_count: u64,
    /// Records that supersede an earlier version of themselves.
    pub version_count: u64,
    /// Messages, superseded ones included.
    pub message_count: u64,
    /// Sum modulo 2^256 over its coverage keys.
    pub coverage_sum: Digest,
}

/// One message as it is read back, with the place it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedMessage {
    /// Hash of the raw record.
    pub record_hash: Digest,
    /// Which time the hash occurs in its source, counted from 1.
    pub occurrence: u64,
    /// Position of the message inside the record.
    pub part: u64,
    /// The record's native id.
    pub native_id: Option<String>,
    /// The native id of the record before it.
    pub native_parent: Option<String>,
    /// Time stamp of the record, milliseconds since the Unix epoch.
    pub time_ms: Option<i64>,
    /// The message.
    pub message: Message,
    /// The source the record was first read from.
    pub source: SourceKey,
    /// Capture in which it was first seen.
    pub seq: u64,
    /// Where it lies.
    pub span: Span,
    /// Whether a newer version of its record is in the archive.
    pub superseded: bool,
}

/// What the archive made of a record, one word each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordClass {
    /// It holds messages.
    Messages,
    /// Known and without messages.
    Known,
    /// Of a type or shape that the parser does not know.
    Unknown,
    /// A copy of a record that the archive has, or of an earlier one in its source.
    Duplicate,
}

/// One raw record of one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedRecord {
    /// The source it lies in.
    pub source: SourceKey,
    /// Epoch of the source: begins at 1, grows by 1 when the file was rewritten.
    pub epoch: u64,
    /// Capture in which it was first seen at this place.
    pub seq: u64,
    /// Where it lies.
    pub span: Span,
    /// Line of its first byte, counted from 1.
    pub line: u64,
    /// Hash of its raw bytes.
    pub hash: Digest,
    /// Which time the hash occurs in this source's stream of the conversation, counted from 1.
    pub occurrence: u64,
    /// Whether it is the first with this hash and occurrence in its conversation.
    pub counted: bool,
    /// What it is.
    pub class: RecordClass,
    /// Whether it is a newer version of a record with the same native id.
    pub is_version: bool,
    /// How it was read.
    pub recovery: Recovery,
    /// The harness's type.
    pub record_type: String,
    /// Its own id.
    pub native_id: Option<String>,
    /// The id of the record before it.
    pub native_parent: Option<String>,
    /// Time stamp, milliseconds since the Unix epoch.
    pub time_ms: Option<i64>,
}

/// Bytes that hold no record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedSkip {
    /// Epoch of the source.
    pub epoch: u64,
    /// Capture in which they were first seen.
    pub seq: u64,
    /// Where.
    pub span: Span,
    /// Line of the first byte, counted from 1.
    pub line: u64,
    /// Why.
    pub reason: SkipReason,
}

/// Records of one class and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    /// Number of records.
    pub records: u64,
    /// Their raw bytes.
    pub bytes: u64,
}

/// What became of every byte of a source in its current epoch. The bytes of all parts sum to
/// `length`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Accounting {
    /// Decoded bytes seen.
    pub length: u64,
    /// Records with messages.
    pub messages: Share,
    /// Known records without messages.
    pub known: Share,
    /// Records that the parser does not know.
    pub unknown: Share,
    /// Copies.
    pub duplicate: Share,
    /// Bytes that hold no record, the unfinished tail left out.
    pub skipped_bytes: u64,
    /// Line ends and the like.
    pub separator_bytes: u64,
    /// The unfinished last line. One of no bytes stands where a compressed container is cut short
    /// or damaged, so that nothing behind it could be read.
    pub tail: Option<Span>,
    /// Messages read from this source, over all epochs.
    pub message_count: u64,
    /// Runs of skipped bytes, over all epochs.
    pub skip_count: u64,
}

impl Accounting {
    /// The sum of all parts; equal to `length` unless bytes were lost track of.
    #[must_use]
    pub fn accounted(&self) -> u64 {
        [
            self.messages.bytes,
            self.known.bytes,
            self.unknown.bytes,
            self.duplicate.bytes,
            self.skipped_bytes,
            self.separator_bytes,
            self.tail.map_or(0, |t| t.len),
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }
}

/// One source as the archive knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedSource {
    /// Its key.
    pub key: SourceKey,
    /// Machine.
    pub source_id: String,
    /// Harness.
    pub provider: Provider,
    /// Path as captured.
    pub path: PathBuf,
    /// Native id of the session that its first record belongs to.
    pub main_session: Option<String>,
    /// Current epoch.
    pub epoch: u64,
    /// Newest capture that was read.
    pub parsed_seq: u64,
    /// Length of that capture in bytes, as captured.
    pub captured_len: u64,
    /// BLAKE3 of that capture's content.
    pub captured_hash: Digest,
    /// What became of its bytes.
    pub accounting: Accounting,
}

impl ArchivedSource {
    /// Whether it stands for a source that a damaged archive lost: no file is or was called so, and
    /// no capture is of it.
    #[must_use]
    pub fn is_made_up(&self) -> bool {
        self.path.starts_with("unknown")
    }
}
