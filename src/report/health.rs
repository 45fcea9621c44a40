//! The document of `health`: cheap facts at any size.

use schemars::JsonSchema;
use serde::Serialize;

use super::check::OwnerBlock;
use super::envelope::{Body, OperationOutcome, OutcomeKind, Report, Site, Status};
use crate::error::Error;
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
    /// The settings.
    pub config: ConfigHealth,
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
    /// None was made yet, and a writer is at work: the first index.
    Building,
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
    /// The archive was made of one, and it or a part of it is gone.
    Missing,
}

/// The settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ConfigHealth {
    /// There are none, or they can be used.
    Ok,
    /// They can't be used: nothing is captured until that is settled.
    Invalid,
}

/// What the fields say together, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judged {
    /// Another program's, or a later version's.
    Incompatible,
    Broken,
    Fresh,
    /// The first index is at work.
    Building,
    Unknown,
    /// Captured, and no archive was made of it yet.
    NotBuilt,
    Healthy,
}

fn judge(body: &HealthBody) -> Judged {
    if body.data_dir == DataDirState::Foreign
        || body.archive == ArchiveHealth::TooNew
        || body.mirror == MirrorHealth::TooNew
    {
        Judged::Incompatible
    } else if matches!(
        body.archive,
        ArchiveHealth::Missing | ArchiveHealth::Unreadable
    ) || body.commits == CommitsHealth::Lost
        || matches!(
            body.mirror,
            MirrorHealth::Unreadable | MirrorHealth::Missing
        )
        || body.config == ConfigHealth::Invalid
    {
        Judged::Broken
    } else if body.archive == ArchiveHealth::Building {
        Judged::Building
    } else if matches!(body.data_dir, DataDirState::Absent | DataDirState::Empty) {
        Judged::Fresh
    } else if body.data_dir == DataDirState::Unreadable
        || body.archive == ArchiveHealth::Unknown
        || body.commits == CommitsHealth::Unknown
    {
        Judged::Unknown
    } else if body.archive == ArchiveHealth::Absent {
        Judged::NotBuilt
    } else {
        Judged::Healthy
    }
}

/// The document, from what was seen. `failed`: why the data directory could not be looked at.
#[must_use]
pub fn health_report(
    mut body: HealthBody,
    failed: Option<&Error>,
    site: &Site,
) -> Report<HealthBody> {
    use {ExitCodeKind as Exit, OutcomeKind as Kind};
    let judged = judge(&body);
    body.healthy = matches!(judged, Judged::Healthy | Judged::NotBuilt);
    let (status, risk, kind, exit, next) = match judged {
        Judged::Incompatible => (
            Status::Error,
            RiskLevel::Unknown,
            Kind::RepairRefused,
            Exit::Incompatible,
            None,
        ),
        Judged::Broken => (
            Status::Error,
            RiskLevel::High,
            Kind::OkReadOnlyDiagnosed,
            Exit::HealthFailure,
            Some(Next::Check),
        ),
        Judged::Fresh => (
            Status::NotInitialized,
            RiskLevel::None,
            Kind::OkNoActionNeeded,
            Exit::Success,
            Some(Next::Index),
        ),
        Judged::Building => (
            Status::NotInitialized,
            RiskLevel::None,
            Kind::OkNoActionNeeded,
            Exit::Success,
            None,
        ),
        Judged::Unknown => (
            Status::Unknown,
            RiskLevel::Unknown,
            Kind::Incomplete,
            Exit::Incomplete,
            Some(Next::Check),
        ),
        Judged::NotBuilt => (
            Status::Warn,
            RiskLevel::Low,
            Kind::OkReadOnlyDiagnosed,
            Exit::Success,
            Some(Next::Index),
        ),
        Judged::Healthy => (
            Status::Ok,
            RiskLevel::None,
            Kind::OkNoActionNeeded,
            Exit::Success,
            None,
        ),
    };
    let next: Vec<Next> = next.into_iter().collect();
    let mut report =
        Report::new(status, OperationOutcome::new(kind, exit), body).recommending(&next, site);
    report.risk_level = risk;
    match failed {
        Some(error) => report.failing(error, false, site).not_known(),
        None => report,
    }
}
