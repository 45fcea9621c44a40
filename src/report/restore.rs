//! The document of `sessions restore`.

use schemars::JsonSchema;
use serde::Serialize;

use super::envelope::Body;
use crate::model::path::PathText;
use crate::model::provider::Provider;

/// What was put back, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RestoreBody {
    /// Id of the session.
    pub id: String,
    /// Id of the harness.
    pub native_id: String,
    /// The harness.
    pub provider: Provider,
    /// What was asked for.
    pub target: RestoreTarget,
    /// The folder into which the files go.
    pub root: PathText,
    /// The links below it that were followed: a project folder may be one.
    pub links: Vec<FollowedLink>,
    /// The files, the session's own first, then by path; at most 100.
    pub files: Vec<RestoredFile>,
    /// How many files there are.
    pub files_total: u64,
    /// How many of them were written.
    pub written: u64,
    /// Bytes of all files.
    pub bytes_total: u64,
    /// Present when the harness would remove the session again the next time it starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pruned_again: Option<PrunedAgain>,
    /// How the harness goes on with the session; null where that is not known.
    pub resume: Option<Resume>,
}

impl Body for RestoreBody {
    const NAME: &'static str = "sessions-restore";
}

/// Where files were to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RestoreTarget {
    /// Nowhere: this says what `--into-harness` would do.
    Plan,
    /// Into a folder that was named.
    Folder,
    /// Into the harness's own folder.
    Harness,
}

/// A link that leads to where files are or go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FollowedLink {
    /// The link.
    pub link: PathText,
    /// The folder that it leads to.
    pub leads_to: PathText,
}

/// Why a harness removes a session that was put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PrunedAgain {
    /// Days that it keeps a session after its last record, which is older.
    pub retention_days: u64,
    /// The setting that has it keep sessions longer, or all.
    pub setting: String,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RestoredFile {
    /// Where it is or would be.
    #[serde(flatten)]
    pub path: PathText,
    /// What became of it.
    pub state: RestoreState,
    /// Whether it holds the session; the others belong to it.
    pub main: bool,
    /// Whether it serves other sessions too: it comes back only where there is none.
    pub shared: bool,
    /// Bytes.
    pub bytes: u64,
    /// BLAKE3 of the content, hex; compared with what is on disk after writing.
    pub blake3: String,
    /// Key of the source it was captured from.
    pub source: String,
    /// Number of the captured version.
    pub version: u64,
    /// When that was captured, RFC 3339.
    pub captured_at: Option<String>,
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RestoreState {
    /// It is missing and would be written.
    Missing,
    /// It was written, and its bytes were read again and compared.
    Written,
    /// It is there with the same bytes.
    AlreadyThere,
    /// It, or another part of a database, is there with other bytes and was left alone: a file
    /// beside the session's own.
    LeftAlone,
    /// It is there with other bytes, which keeps the session from being put back.
    InTheWay,
}

/// How a harness goes on with a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Resume {
    /// Argument vector of the harness; run it without a shell.
    pub argv: Vec<String>,
    /// The folder to run it in, where the session knows one.
    pub workspace: Option<String>,
}
