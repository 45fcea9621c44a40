//! The document of `stats`. Tokens are not in it: the archive does not keep them.

use schemars::JsonSchema;
use serde::Serialize;

use super::envelope::Body;
use crate::model::record::{MessageKind, Role};

/// What the archive holds, in figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StatsBody {
    /// Sessions, branches included.
    pub sessions: u64,
    /// Of them branches.
    pub branches: u64,
    /// Distinct raw records.
    pub records: u64,
    /// Messages, superseded versions included, as everywhere in this document.
    pub messages: u64,
    /// Time of the first record, RFC 3339.
    pub oldest: Option<String>,
    /// Time of the last record, RFC 3339.
    pub newest: Option<String>,
    /// Files that hold these sessions.
    pub sources: u64,
    /// Bytes of the newest captured version of each.
    pub source_bytes: u64,
    /// All that was captured; null where a part of the sessions was asked for.
    pub mirror: Option<MirrorFigures>,
    /// By harness, the most sessions first.
    pub by_agent: Vec<StatsGroup>,
    /// By workspace, the most sessions first; at most 20.
    pub by_workspace: Vec<StatsGroup>,
    /// How many workspaces there are.
    pub workspaces_total: u64,
    /// What the groups of `by_time` are.
    pub period: Period,
    /// By the day or month in which a session began (UTC), the newest first; at most 100.
    pub by_time: Vec<StatsGroup>,
    /// By speaker and kind.
    pub by_role: Vec<RoleFigures>,
    /// The tools that were called most; at most as many as asked for.
    pub tools: Vec<ToolFigures>,
    /// How many tools there are.
    pub tools_total: u64,
    /// Calls of all tools.
    pub tool_calls: u64,
}

impl Body for StatsBody {
    const NAME: &'static str = "stats";
}

/// Sessions that share something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StatsGroup {
    /// What they share; null for those that have no such thing.
    pub name: Option<String>,
    /// Sessions.
    pub sessions: u64,
    /// Messages.
    pub messages: u64,
}

/// All captured files, those that hold no session included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MirrorFigures {
    /// Files.
    pub sources: u64,
    /// Captured versions.
    pub captures: u64,
    /// Bytes of the newest version of each file.
    pub newest_bytes: u64,
    /// Bytes that all versions take on disk.
    pub stored_bytes: u64,
}

/// A length of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Period {
    /// A day.
    Day,
    /// A month.
    Month,
}

/// Messages of one kind from one speaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RoleFigures {
    /// Who speaks.
    pub role: Role,
    /// What it is.
    pub kind: MessageKind,
    /// How many.
    pub messages: u64,
}

/// One tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ToolFigures {
    /// Its name.
    pub name: String,
    /// How often it was called.
    pub calls: u64,
}
