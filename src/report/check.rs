//! The document of `doctor check`.

use schemars::JsonSchema;
use serde::Serialize;

use super::envelope::Body;
use crate::model::finding::{CheckId, Severity, SkipReason, UnknownReason};
use crate::model::next::NextId;
use crate::model::provider::Provider;
use crate::model::verdict::{
    AuthorityLevel, CoverageRisk, MirrorState, RemoteSync, RepairMarker, SourceState,
    StoragePressure,
};

/// What is safe and what is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CheckBody {
    /// The archive.
    pub archive: ArchiveBlock,
    /// Who holds what.
    pub coverage_risk: CoverageBlock,
    /// What would be believed, if a repair were planned now.
    pub source_authority: AuthorityBlock,
    /// The raw mirror.
    pub raw_mirror: MirrorBlock,
    /// The sources of each harness.
    pub source_inventory: InventoryBlock,
    /// Remote machines.
    pub remote_source_sync: RemoteBlock,
    /// Room.
    pub storage_pressure: StorageBlock,
    /// What a failed repair left.
    pub repair_failure_marker: MarkerBlock,
    /// Who writes now, and what may be done.
    pub operation_state: OperationBlock,
    /// How many checks ended how.
    pub checks_summary: ChecksSummary,
    /// Every check, in the order of the contract's list.
    pub checks: Vec<CheckEntry>,
    /// The worst findings first, then in the order of the checks, code and subject.
    pub findings: Vec<FindingEntry>,
    /// How many findings there are.
    pub findings_total: u64,
    /// The same by severity.
    pub findings_summary: FindingsSummary,
    /// Whether `findings` leaves some out; `detail.argv` shows them all.
    pub findings_truncated: bool,
    /// Where the rest is.
    pub detail: DetailBlock,
    /// Time.
    pub budget: BudgetBlock,
    /// What was asked for.
    pub check_scope: ScopeBlock,
    /// The newest recorded deep check; null when there is none.
    pub last_attestation: Option<AttestationBlock>,
    /// The attestation that this run recorded, relative to the data directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<String>,
}

impl Body for CheckBody {
    const NAME: &'static str = "doctor-check";
}

/// The archive, as far as it was readable. Absent fields were not read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ArchiveBlock {
    /// The generation that `CURRENT` names.
    pub generation: Option<String>,
    /// Its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive_id: Option<String>,
    /// Schema version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema_version: Option<u32>,
    /// Number of the last commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<u64>,
    /// Chain head of the last commit, hex.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// Conversations, rows of a pending WAL included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversations: Option<u64>,
    /// Messages, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<u64>,
    /// Raw records, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records: Option<u64>,
    /// Bytes of the WAL that no checkpoint has moved yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wal_bytes: Option<u64>,
}

/// Who holds what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CoverageBlock {
    /// The verdict.
    pub status: CoverageRisk,
    /// Conversations looked at; null when none could be.
    pub conversations: Option<u64>,
    /// Conversations whose source is gone upstream; normal.
    pub source_pruned: u64,
    /// Conversations held by archive rows alone.
    pub archive_only: u64,
    /// Conversations whose only readable holder is a damaged archive.
    pub sole_copy: u64,
    /// Conversations with a promise that no readable holder keeps.
    pub loss_suspected: u64,
    /// Days until a harness prunes the first source that is not captured; null when not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub days_until_first_loss: Option<u64>,
}

/// What would be believed. Both names hold the same value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AuthorityBlock {
    /// The best readable holder.
    pub authority_level: AuthorityLevel,
    /// The same.
    pub decision: AuthorityLevel,
    /// Why.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// The raw mirror. Absent fields were not looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MirrorBlock {
    /// The verdict.
    pub status: MirrorState,
    /// Captured sources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sources: Option<u64>,
    /// Captures of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub captures: Option<u64>,
    /// Packs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packs: Option<u64>,
    /// Bytes of the packs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored_bytes: Option<u64>,
    /// When every object was last verified, RFC 3339; null when never.
    pub last_verified: Option<String>,
}

impl MirrorBlock {
    /// A verdict alone.
    #[must_use]
    pub fn new(status: MirrorState) -> Self {
        MirrorBlock {
            status,
            sources: None,
            captures: None,
            packs: None,
            stored_bytes: None,
            last_verified: None,
        }
    }
}

/// The sources of each harness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InventoryBlock {
    /// Sources that exist now.
    pub sources: u64,
    /// Sources that are gone now.
    pub pruned: u64,
    /// The harnesses that are installed or whose sources were captured, in the order of the id.
    pub providers: Vec<ProviderBlock>,
    /// The others: `provider-not-installed`.
    pub not_installed: Vec<Provider>,
}

/// The sources of one harness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ProviderBlock {
    /// The harness.
    pub provider: Provider,
    /// The worst state of its sources, or why there are none.
    pub state: SourceState,
    /// Sources that exist now.
    pub sources: u64,
    /// Of these, the ones that are newer than the archive or unknown to it.
    pub newer: u64,
    /// Sources that are gone now.
    pub pruned: u64,
    /// Sources that can't be read.
    pub unreadable: u64,
    /// Days for which the harness keeps a session after its last change; absent when it is not
    /// installed or never prunes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_days: Option<u64>,
}

/// Remote machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RemoteBlock {
    /// The verdict. No network is used to find it.
    pub status: RemoteSync,
}

/// Room. Absent fields were not looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StorageBlock {
    /// The verdict; `unknown` in a deterministic document, because it follows free space.
    pub status: StoragePressure,
    /// Free bytes for this user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_bytes: Option<u64>,
    /// Free bytes that should be there.
    pub min_recommended_free_bytes: u64,
    /// Bytes of the archive and its WAL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive_bytes: Option<u64>,
    /// Bytes of the mirror.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mirror_bytes: Option<u64>,
}

/// What a failed repair left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MarkerBlock {
    /// The verdict.
    pub status: RepairMarker,
    /// Whether there is a marker.
    pub found: bool,
    /// Whether it could be read.
    pub parse_status: ParseStatus,
}

/// Whether a marker could be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ParseStatus {
    /// There is none.
    Absent,
    /// It was read.
    Ok,
    /// It can't be read.
    Corrupt,
}

impl MarkerBlock {
    /// All spellings of one state.
    #[must_use]
    pub fn new(status: RepairMarker) -> Self {
        MarkerBlock {
            status,
            found: status != RepairMarker::Absent,
            parse_status: match status {
                RepairMarker::Absent => ParseStatus::Absent,
                RepairMarker::PreviousFailure => ParseStatus::Ok,
                RepairMarker::Corrupt => ParseStatus::Corrupt,
            },
        }
    }
}

/// Who writes now, and what may be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OperationBlock {
    /// Whether a writer is at work.
    pub writer_active: bool,
    /// The writer; null when none is at work.
    pub owner: Option<OwnerBlock>,
    /// Always true: checking needs no lock of the writers.
    pub read_only_check_allowed: bool,
    /// Whether a mutating command could begin now.
    pub mutating_doctor_allowed: bool,
    /// Why not; null when it could.
    pub mutation_blocked_reason: Option<BlockedReason>,
    /// Operations that began and did not end.
    pub interrupted_state_count: u64,
}

/// Why a mutating command could not begin now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BlockedReason {
    /// Another process holds the writer lock.
    LockBusy,
    /// A failed repair left a marker.
    RepairFailureMarker,
    /// Too little room.
    StoragePressure,
}

/// The process that writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OwnerBlock {
    /// Process id; 0 when not known.
    pub pid: u32,
    /// The command, without arguments.
    pub command: String,
    /// For how long, milliseconds.
    pub held_for_ms: u64,
}

/// Findings by severity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FindingsSummary {
    /// Something is lost, damaged or not protected.
    pub error: u64,
    /// Safe now; look at it.
    pub warn: u64,
    /// Normal, worth knowing.
    pub info: u64,
}

/// How many checks ended how.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChecksSummary {
    /// All.
    pub total: u64,
    /// Ran; information at most.
    pub ok: u64,
    /// Ran; a warning at least.
    pub warn: u64,
    /// Ran; an error at least.
    pub error: u64,
    /// Ran and could not tell.
    pub unknown: u64,
    /// Did not run.
    pub skipped: u64,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CheckEntry {
    /// The check.
    pub id: CheckId,
    /// How it ended.
    pub status: CheckStatus,
    /// Why it did not run or has no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<CheckReason>,
    /// When it last ran and found nothing bad, RFC 3339; present where it did not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_verified: Option<String>,
    /// Milliseconds it took; with `--detail full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elapsed_ms: Option<u64>,
}

/// How one check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CheckStatus {
    /// Ran; information at most.
    Ok,
    /// Ran; a warning at least.
    Warn,
    /// Ran; an error at least.
    Error,
    /// Ran and could not tell.
    Unknown,
    /// Did not run.
    Skipped,
}

/// Why a check did not run or has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum CheckReason {
    /// Did not run.
    Skipped(SkipReason),
    /// Has no answer.
    Unknown(UnknownReason),
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FindingEntry {
    /// The check.
    pub id: CheckId,
    /// What it is, kebab-case and stable.
    pub code: String,
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subject: String,
    /// One sentence for people.
    pub message: String,
    /// How many such things there are.
    pub count: u64,
    /// `recommended_commands[].id` of what to run next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<NextId>,
}

/// Where the rest is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DetailBlock {
    /// The command that shows everything; null when this document does, or when the data
    /// directory's name can't be written in an argument vector.
    pub argv: Option<Vec<String>>,
}

/// Time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BudgetBlock {
    /// Milliseconds allowed; null without a limit.
    pub budget_ms: Option<u64>,
    /// Milliseconds used; absent in a deterministic document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elapsed_ms: Option<u64>,
    /// Whether it ran out.
    pub timed_out: bool,
    /// Whether a signal came before the end.
    pub interrupted: bool,
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ScopeBlock {
    /// Whether everything was read.
    pub deep: bool,
    /// Whether all lists are complete.
    pub detail: DetailLevel,
    /// Whether what follows time and free space is left out.
    pub deterministic: bool,
    /// The severity from which on the exit is `health-failure`.
    pub fail_on: FailOnLevel,
}

/// How long lists may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DetailLevel {
    /// The document stays below 6 KiB.
    Brief,
    /// All lists are complete.
    Full,
}

/// From which severity on the exit is `health-failure`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FailOnLevel {
    /// Any finding.
    Info,
    /// Warnings and errors.
    Warn,
    /// Errors.
    Error,
    /// No finding.
    Never,
}

/// A recorded deep check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AttestationBlock {
    /// When, RFC 3339.
    pub at: Option<String>,
    /// Where, relative to the data directory.
    pub path: String,
    /// Whether it found no error.
    pub clean: bool,
}
