//! The document of `health`: cheap facts at any size.

use schemars::JsonSchema;
use serde::Serialize;

use super::check::OwnerBlock;
use super::envelope::{Body, OperationOutcome, OutcomeKind, Report, Site, Status};
use crate::exit::ExitCodeKind;
use crate::model::finding::RiskLevel;
use crate::model::next::Next;

/// The state in a few fields. Says nothing about content: `doctor check` does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HealthBody {
    /// Whether nothing that was looked at is wrong.
    pub healthy: bool,
    /// The data directory.
    pub data_dir: DataDirState,
    /// The generation that `CURRENT` names; null when none is named.
    pub generation: Option<String>,
    /// The archive.
    pub archive: ArchiveHealth,
    /// The archive's last commit against the coverage ledger's last line.
    pub commits: CommitsHealth,
    /// The mirror's layout.
    pub mirror: MirrorHealth,
    /// Whether a writer is at work.
    pub writer_active: bool,
    /// The writer; null when none is at work.
    pub owner: Option<OwnerBlock>,
}

impl Body for HealthBody {
    const NAME: &'static str = "health";
}

/// The data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DataDirState {
    /// Nothing is there.
    Absent,
    /// There, and nothing was ever indexed into it.
    Empty,
    /// In use.
    Present,
    /// It belongs to another program.
    Foreign,
    /// It can't be read.
    Unreadable,
}

/// The archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ArchiveHealth {
    /// None was ever made.
    Absent,
    /// It opens.
    Opens,
    /// One existed and is gone.
    Missing,
    /// It can't be opened.
    Unreadable,
    /// Its schema is newer than this program.
    TooNew,
    /// Not known.
    Unknown,
}

/// The archive's last commit against the coverage ledger's last line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CommitsHealth {
    /// There are none.
    None,
    /// The same.
    Equal,
    /// The ledger is behind, as a crash leaves it; the next `index` writes the missing lines.
    LedgerBehind,
    /// The archive has lost commits.
    Lost,
    /// Not known.
    Unknown,
}

/// The mirror's layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MirrorHealth {
    /// There is none.
    Absent,
    /// Its layout is known.
    Present,
    /// Its layout is newer than this program.
    TooNew,
    /// Its `FORMAT` can't be read.
    Unreadable,
}

/// The document, from what was seen.
#[must_use]
pub fn health_report(mut body: HealthBody, site: &Site) -> Report<HealthBody> {
    let incompatible = body.data_dir == DataDirState::Foreign
        || body.archive == ArchiveHealth::TooNew
        || body.mirror == MirrorHealth::TooNew;
    let broken = body.data_dir == DataDirState::Unreadable
        || matches!(
            body.archive,
            ArchiveHealth::Missing | ArchiveHealth::Unreadable
        )
        || body.commits == CommitsHealth::Lost
        || body.mirror == MirrorHealth::Unreadable;
    let unknown = body.archive == ArchiveHealth::Unknown || body.commits == CommitsHealth::Unknown;
    let fresh = matches!(body.data_dir, DataDirState::Absent | DataDirState::Empty);
    body.healthy = !(incompatible || broken || unknown || fresh);
    let (status, risk, kind, exit, next) = if incompatible {
        let kind = OutcomeKind::RepairRefused;
        (
            Status::Error,
            RiskLevel::Unknown,
            kind,
            ExitCodeKind::Incompatible,
            None,
        )
    } else if broken {
        let kind = OutcomeKind::OkReadOnlyDiagnosed;
        (
            Status::Error,
            RiskLevel::High,
            kind,
            ExitCodeKind::HealthFailure,
            Some(Next::Check),
        )
    } else if fresh {
        let kind = OutcomeKind::OkNoActionNeeded;
        (
            Status::NotInitialized,
            RiskLevel::None,
            kind,
            ExitCodeKind::Success,
            Some(Next::Index),
        )
    } else if unknown {
        let kind = OutcomeKind::Incomplete;
        (
            Status::Unknown,
            RiskLevel::Unknown,
            kind,
            ExitCodeKind::Incomplete,
            Some(Next::Check),
        )
    } else {
        let kind = OutcomeKind::OkNoActionNeeded;
        (
            Status::Ok,
            RiskLevel::None,
            kind,
            ExitCodeKind::Success,
            None,
        )
    };
    let next: Vec<Next> = next.into_iter().collect();
    let mut report =
        Report::new(status, OperationOutcome::new(kind, exit), body).recommending(&next, site);
    report.risk_level = risk;
    report
}
