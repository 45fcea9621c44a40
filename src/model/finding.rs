//! What a check found: its id, how bad it is, and what to do next.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::next::Next;

macro_rules! check_ids {
    ($($(#[$doc:meta])* $variant:ident = $id:literal,)+) => {
        /// Every check, as one closed list. The ids are part of the contract and never reused.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
            JsonSchema,
        )]
        pub enum CheckId {
            $($(#[$doc])* #[serde(rename = $id)] $variant,)+
        }

        impl CheckId {
            /// Every check, in the order in which documents list them.
            pub const ALL: &'static [CheckId] = &[$(CheckId::$variant,)+];

            /// The id as written in documents and on the command line.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(CheckId::$variant => $id,)+
                }
            }
        }
    };
}

check_ids! {
    /// Who holds the writer lock.
    LockState = "lock.state",
    /// Whether `CURRENT` names a complete generation.
    LayoutCurrent = "layout.current",
    /// Whether the archive can be opened and read.
    ArchiveOpen = "archive.open",
    /// Schema version, schema text, migrations.
    ArchiveSchema = "archive.schema",
    /// SQLite's own integrity check.
    ArchiveIntegrity = "archive.integrity",
    /// Row hashes and conversation digests.
    ArchiveRows = "archive.rows",
    /// The commit chain against the coverage ledger.
    ArchiveCommits = "archive.commits",
    /// The capture ledgers' chains.
    MirrorLedgers = "mirror.ledgers",
    /// The mirror's objects.
    MirrorObjects = "mirror.objects",
    /// Whether every record that was promised has a readable holder.
    CoveragePromises = "coverage.promises",
    /// Conversations with one readable holder.
    CoverageSoleCopy = "coverage.sole-copy",
    /// Which sources exist, per harness.
    SourcesInventory = "sources.inventory",
    /// Sources or parts of them that no parser could read.
    SourcesParse = "sources.parse",
    /// When the harness will prune what it has not yet pruned.
    SourcesRetention = "sources.retention",
    /// Sources that are newer than the archive.
    SourcesFreshness = "sources.freshness",
    /// Damaged session logs.
    SourcesLogHealth = "sources.log-health",
    /// Remote machines.
    RemoteSync = "remote.sync",
    /// The lexical index.
    DerivedLexical = "derived.lexical",
    /// The semantic index.
    DerivedSemantic = "derived.semantic",
    /// Free space.
    StoragePressure = "storage.pressure",
    /// Whether the data directory lies where it may be lost.
    StorageLocation = "storage.location",
    /// Age and state of the newest backup.
    BackupFreshness = "backup.freshness",
    /// A marker left by a failed repair.
    RepairMarker = "repair.marker",
    /// Operations that began and did not end.
    RepairInterrupted = "repair.interrupted",
    /// Candidates that nobody promotes.
    RepairOrphans = "repair.orphans",
    /// Modes and owners of the data directory.
    SecurityPermissions = "security.permissions",
    /// The configuration files.
    ConfigParse = "config.parse",
}

impl CheckId {
    /// Whether a warning here is about the evidence itself, not about comfort.
    #[must_use]
    pub const fn is_about_evidence(self) -> bool {
        matches!(
            self,
            CheckId::LayoutCurrent
                | CheckId::ArchiveOpen
                | CheckId::ArchiveSchema
                | CheckId::ArchiveIntegrity
                | CheckId::ArchiveRows
                | CheckId::ArchiveCommits
                | CheckId::MirrorLedgers
                | CheckId::MirrorObjects
                | CheckId::CoveragePromises
                | CheckId::CoverageSoleCopy
        )
    }
}

impl fmt::Display for CheckId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that names no check.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown check {0:?}")]
pub struct UnknownCheck(pub String);

impl FromStr for CheckId {
    type Err = UnknownCheck;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        CheckId::ALL
            .iter()
            .copied()
            .find(|id| id.as_str() == s)
            .ok_or_else(|| UnknownCheck(s.to_owned()))
    }
}

/// How bad a finding is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Normal, worth knowing.
    Info,
    /// Safe now; look at it.
    Warn,
    /// Something is lost, damaged or not protected.
    Error,
}

/// How much is at stake when nothing is done.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum RiskLevel {
    /// Nothing.
    None,
    /// Comfort: slower, staler, nearly full.
    Low,
    /// Evidence has fewer holders than it should.
    Medium,
    /// Evidence is lost or damaged.
    High,
    /// Not known.
    Unknown,
}

/// One thing that a check found. Same things are one finding with a `count`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The check.
    pub id: CheckId,
    /// What it is, kebab-case and stable: callers branch on it.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What it is about: a path below the data directory, a conversation id, a source key, a
    /// table, a provider. Never text of a session. Empty when it is about the whole.
    pub subject: String,
    /// One sentence for people; never text of a session.
    pub message: String,
    /// How many such things there are; at least 1.
    pub count: u64,
    /// What to run next.
    pub next: Option<Next>,
}

impl Finding {
    /// A finding about one thing, without a next step.
    #[must_use]
    pub fn new(
        id: CheckId,
        code: &'static str,
        severity: Severity,
        subject: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Finding {
            id,
            code,
            severity,
            subject: subject.into(),
            message: message.into(),
            count: 1,
            next: None,
        }
    }

    /// How many such things there are.
    #[must_use]
    pub fn with_count(mut self, count: u64) -> Self {
        self.count = count;
        self
    }

    /// What to run next.
    #[must_use]
    pub fn with_next(mut self, next: Next) -> Self {
        self.next = Some(next);
        self
    }
}

/// Why a check did not run.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum SkipReason {
    /// Left out with `--only` or `--skip`.
    Excluded,
    /// Reads everything; runs with `--deep`.
    NeedsDeep,
    /// The budget ran out before it.
    Budget,
    /// A signal came before it.
    Interrupted,
    /// There is no archive.
    NoArchive,
    /// There is no mirror.
    NoMirror,
    /// What it looks at is not set up.
    NotConfigured,
    /// What it looks at depends on something that could not be read; that is its own finding.
    Blocked,
}

/// Why a check that ran has no answer.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum UnknownReason {
    /// The budget ran out in the middle.
    Budget,
    /// A signal came in the middle.
    Interrupted,
    /// A lock was held for too long.
    LockBusy,
    /// What it looks at could not be read.
    Unreadable,
}

/// How one check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckOutcome {
    /// It ran; information at most.
    Ok,
    /// It ran; at least one warning.
    Warn,
    /// It ran; at least one error.
    Error,
    /// It ran and could not tell.
    Unknown {
        /// Why.
        reason: UnknownReason,
    },
    /// It did not run.
    Skipped {
        /// Why.
        reason: SkipReason,
        /// When it last ran and found nothing bad, milliseconds since the Unix epoch.
        last_verified_ms: Option<i64>,
    },
}

/// One check's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckResult {
    /// The check.
    pub id: CheckId,
    /// How it ended.
    pub outcome: CheckOutcome,
    /// What it found. May be non-empty for an unknown outcome: what was found before it ended.
    pub findings: Vec<Finding>,
    /// How long it took, milliseconds.
    pub elapsed_ms: u64,
}

impl CheckResult {
    /// The result of a check that ran to its end: the outcome is the worst finding.
    #[must_use]
    pub fn ran(id: CheckId, findings: Vec<Finding>) -> Self {
        let outcome = match findings.iter().map(|f| f.severity).max() {
            None | Some(Severity::Info) => CheckOutcome::Ok,
            Some(Severity::Warn) => CheckOutcome::Warn,
            Some(Severity::Error) => CheckOutcome::Error,
        };
        CheckResult {
            id,
            outcome,
            findings,
            elapsed_ms: 0,
        }
    }

    /// The result of a check that could not tell.
    #[must_use]
    pub fn unknown(id: CheckId, reason: UnknownReason, findings: Vec<Finding>) -> Self {
        CheckResult {
            id,
            outcome: CheckOutcome::Unknown { reason },
            findings,
            elapsed_ms: 0,
        }
    }

    /// A check that did not run.
    #[must_use]
    pub fn skipped(id: CheckId, reason: SkipReason, last_verified_ms: Option<i64>) -> Self {
        CheckResult {
            id,
            outcome: CheckOutcome::Skipped {
                reason,
                last_verified_ms,
            },
            findings: Vec::new(),
            elapsed_ms: 0,
        }
    }

    /// How long it took, milliseconds.
    #[must_use]
    pub fn took(mut self, elapsed_ms: u64) -> Self {
        self.elapsed_ms = elapsed_ms;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_27_checks_and_each_id_reads_back() {
        assert_eq!(CheckId::ALL.len(), 27);
        for id in CheckId::ALL {
            assert_eq!(id.as_str().parse(), Ok(*id));
            assert_eq!(serde_json::to_value(id).unwrap(), id.as_str());
        }
        assert!("archive.Open".parse::<CheckId>().is_err());
    }

    #[test]
    fn the_outcome_is_the_worst_finding() {
        let f = |s| Finding::new(CheckId::ArchiveOpen, "x", s, "", "");
        let ran = |list| CheckResult::ran(CheckId::ArchiveOpen, list).outcome;
        assert_eq!(ran(vec![]), CheckOutcome::Ok);
        assert_eq!(ran(vec![f(Severity::Info)]), CheckOutcome::Ok);
        assert_eq!(
            ran(vec![f(Severity::Error), f(Severity::Warn)]),
            CheckOutcome::Error
        );
    }
}
