//! The documents of `sessions list` and `sessions show`.

use schemars::JsonSchema;
use serde::Serialize;

use super::envelope::Body;
use crate::model::path::PathText;
use crate::model::provider::Provider;
use crate::model::record::SkipReason;
use crate::model::verdict::SourceState;

/// Sessions, the newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SessionsListBody {
    /// By end time, the newest first, then by id.
    pub sessions: Vec<SessionRow>,
    /// How many match.
    pub total: u64,
    /// Whether `sessions` leaves some out.
    pub truncated: bool,
    /// The command that shows all; null when this document does.
    pub detail_argv: Option<Vec<String>>,
}

impl Body for SessionsListBody {
    const NAME: &'static str = "sessions-list";
}

/// One session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SessionRow {
    /// Id of this program: the same after every rebuild.
    pub id: String,
    /// Id of the harness.
    pub native_id: String,
    /// The harness.
    pub provider: Provider,
    /// Machine it comes from.
    pub source_id: String,
    /// Title or summary, when the harness keeps one.
    pub title: Option<String>,
    /// Working directory.
    pub workspace: Option<String>,
    /// Time of the first record, RFC 3339.
    pub started_at: Option<String>,
    /// Time of the last record, RFC 3339.
    pub ended_at: Option<String>,
    /// Messages, superseded versions included.
    pub messages: u64,
    /// Native id of the session that spawned this one or that it was forked from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_session: Option<String>,
    /// Id of the conversation that this one branches off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch_of: Option<String>,
}

/// One session, with where it comes from and what became of every byte.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SessionsShowBody {
    /// The session.
    pub session: SessionRow,
    /// Version of the harness that wrote it.
    pub harness_version: Option<String>,
    /// Grows with every commit that touches it.
    pub revision: u64,
    /// Raw records, duplicates included.
    pub records: u64,
    /// The sources that hold it, by path; at most 100.
    pub sources: Vec<SessionSource>,
    /// How many sources hold it.
    pub sources_total: u64,
    /// Ids of the conversations that branch off, sorted.
    pub branches: Vec<String>,
    /// Where its sources hold bytes that no parser could read; at most 100.
    pub skips: Vec<SessionSkip>,
    /// How many such places there are.
    pub skips_total: u64,
}

impl Body for SessionsShowBody {
    const NAME: &'static str = "sessions-show";
}

/// How many sources or skips a document lists.
pub const MAX_ROWS: usize = 100;

/// One source of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SessionSource {
    /// Source key.
    pub key: String,
    /// Where it is or was.
    #[serde(flatten)]
    pub path: PathText,
    /// What became of it.
    pub state: SourceState,
    /// Captured versions in the mirror.
    pub captures: u64,
    /// The newest of them, the newest first; at most 20. `sessions restore --version` takes their
    /// numbers.
    pub versions: Vec<SourceVersion>,
    /// What became of the bytes of the version that was parsed last.
    pub accounting: Accounting,
}

/// One captured version of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SourceVersion {
    /// Number of the capture, from 1.
    pub version: u64,
    /// When it was captured, RFC 3339.
    pub captured_at: Option<String>,
    /// Bytes.
    pub bytes: u64,
    /// Whether the file changed while it was read, or one beside it could not be read.
    pub moving: bool,
}

/// How many versions of a source a document lists.
pub const MAX_VERSIONS: usize = 20;

/// What became of every byte of one version of a source. The byte counts add up to `length`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Accounting {
    /// Bytes, after decompression.
    pub length: u64,
    /// In records that hold messages.
    pub message_bytes: u64,
    /// In known records without messages.
    pub known_bytes: u64,
    /// In records of a type that is not known; kept.
    pub unknown_bytes: u64,
    /// In records that say again what was known.
    pub duplicate_bytes: u64,
    /// In no record (see `skips`).
    pub skipped_bytes: u64,
    /// Line ends and white space between records.
    pub separator_bytes: u64,
    /// Unfinished last line, looked at again when the source grows.
    pub tail_bytes: u64,
}

impl Accounting {
    /// Whether every byte belongs to exactly one part.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let parts = [
            self.message_bytes,
            self.known_bytes,
            self.unknown_bytes,
            self.duplicate_bytes,
            self.skipped_bytes,
            self.separator_bytes,
            self.tail_bytes,
        ];
        parts
            .iter()
            .try_fold(0u64, |sum, part| sum.checked_add(*part))
            == Some(self.length)
    }
}

/// Bytes that no parser could read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SessionSkip {
    /// Source key.
    pub key: String,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
    /// Line of the first byte, counted from 1.
    pub line: u64,
    /// Why.
    pub reason: SkipReason,
}
