//! The documents of planned commands: the plan, or what applying it did.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::envelope::Body;
use crate::model::plan::{
    Action, ArchiveState, Body as Covered, CaptureName, Coverage, FileState, GateResult, Listed,
    Lost, Missing, PlanKind, PromiseState, Rung,
};
use crate::model::verdict::AuthorityLevel;
use crate::store::run::{ActionOutcome, Moved, Probe, RunStatus};

/// Whether a plan was shown or applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Nothing was written.
    DryRun,
    /// A plan was applied, or would have been.
    Apply,
    /// A candidate was built, verified and removed; a receipt says so.
    Rehearsal,
}

/// The plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlanView {
    /// Names exactly this plan for exactly this state.
    pub plan_fingerprint: String,
    /// The command that applies it, for a shell; null when a gate is shut or there is nothing to do.
    pub apply_command: Option<String>,
    /// The same as an argument vector.
    pub apply_argv: Option<Vec<String>>,
    /// The command that it belongs to.
    pub kind: PlanKind,
    /// What is done, in order.
    pub actions: Vec<Action>,
    /// What was found that the plan answers.
    pub reasons: Vec<String>,
    /// The ladder of repairs, cheapest first; empty where there is none.
    pub rungs: Vec<Rung>,
    /// Bytes that must be free.
    pub required_bytes: u64,
    /// Bytes that are read, at least.
    pub read_bytes: u64,
    /// How long it takes, by the bytes; left out with `--deterministic`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated_seconds: Option<u64>,
    /// Promised captures that the mirror can't give; at most 20 without `--detail full`.
    pub unreadable_captures: Vec<CaptureName>,
    /// How many there are.
    pub unreadable_captures_total: u64,
    /// Everything that the fingerprint covers. Left out of an apply without `--detail full`: it is
    /// that of the plan that was approved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub covered: Option<CoveredView>,
}

/// What the fingerprint covers, as documents have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CoveredView {
    /// Version of this form.
    pub format: u32,
    /// The command.
    pub kind: PlanKind,
    /// Options that change the outcome.
    pub options: BTreeMap<String, String>,
    /// The archive.
    pub archive: ArchiveState,
    /// What the coverage ledger promises; null when there is none.
    pub promises: Option<PromiseState>,
    /// Digest of the marker that an earlier failure left, hex; null when there is none.
    pub marker: Option<String>,
    /// Files that are read beside the archive and the mirror.
    pub inputs: Vec<FileState>,
    /// What will not be there afterwards, by conversation.
    pub missing: Listed<Missing>,
    /// The same by record, with messages that are lost from records that are kept; left out where
    /// there is none.
    #[serde(skip_serializing_if = "Listed::is_empty")]
    pub lost: Listed<Lost>,
    /// What is done, in order. Without `--detail full` it stands beside this object only, and is
    /// covered all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actions: Option<Vec<Action>>,
}

impl CoveredView {
    /// The view of a body, with or without its actions.
    #[must_use]
    pub fn of(body: &Covered, with_actions: bool) -> Self {
        // Field by field, so that one that is added to the body is not forgotten here.
        let Covered {
            format,
            kind,
            options,
            archive,
            promises,
            marker,
            inputs,
            missing,
            lost,
            actions,
        } = body.clone();
        CoveredView {
            format,
            kind,
            options,
            archive,
            promises,
            marker,
            inputs,
            missing,
            lost,
            actions: Some(actions).filter(|_| with_actions),
        }
    }
}

/// The candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CandidateStaging {
    /// `planned`, `promoted`, `removed` or `none`.
    pub status: String,
    /// Where it is or was built, relative to the data directory; null when there is none, or when
    /// its number is given only at apply.
    pub path: Option<String>,
    /// Its generation, once there is one.
    pub generation: Option<String>,
}

/// What is held before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CoverageSummary {
    /// What the live archive held; null when it could not be read.
    pub before: Option<Coverage>,
    /// What it holds now; null in a dry run.
    pub after: Option<Coverage>,
    /// Records that are gained, where that was counted.
    pub gained_records: Option<u64>,
    /// Conversations of which records can't be brought back.
    pub missing_conversations: u64,
    /// Those records, at most.
    pub missing_records: u64,
    /// By conversation; at most 20 without `--detail full`.
    pub missing: Vec<Missing>,
    /// The same by record, as exactly as it is known, with messages that are lost from records that are
    /// held, and captures of which no row was made; at most 20 without `--detail full`.
    pub lost: Vec<Lost>,
    /// How many entries there are.
    pub lost_total: u64,
    /// BLAKE3 over all of them, hex, which the fingerprint covers; null when there are none.
    pub lost_digest: Option<String>,
    /// The command that lists all of it; null when nothing was left out.
    pub detail_argv: Option<Vec<String>>,
}

/// What is built from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SourceAuthority {
    /// The best one.
    pub authority_level: AuthorityLevel,
    /// How many captures (mirror) or conversations (others) are taken from each class.
    pub authorities: BTreeMap<String, u64>,
}

/// The receipt of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReceiptView {
    /// Where it is, relative to the data directory.
    pub path: String,
    /// The run.
    pub run_id: String,
    /// Its command.
    pub kind: PlanKind,
    /// How it ended.
    pub status: RunStatus,
    /// The plan.
    pub plan_fingerprint: String,
    /// When it began and ended, RFC 3339.
    pub begun_at: Option<String>,
    /// When it ended, RFC 3339.
    pub ended_at: Option<String>,
    /// One outcome an action.
    pub actions: Vec<ActionOutcome>,
    /// The live generation before.
    pub generation_before: Option<String>,
    /// The live generation after.
    pub generation_after: Option<String>,
    /// The backup or sealed generation that holds the state before.
    pub backup_id: Option<String>,
    /// What was moved within the data directory.
    pub moved: Vec<Moved>,
    /// What the archive held before.
    pub coverage_before: Option<Coverage>,
    /// What it held after.
    pub coverage_after: Option<Coverage>,
    /// What was tried on the live archive afterwards.
    pub probes: Vec<Probe>,
    /// Conversations of which the plan listed records as not to be brought back.
    pub missing_conversations: u64,
    /// The run that it undid.
    pub undoes: Option<String>,
    /// The run that undid it.
    pub undone_by: Option<String>,
    /// Why it failed.
    pub error: Option<String>,
    /// Whether a later run finished or closed it.
    pub closed_by_later_run: bool,
}

/// How to go back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Rollback {
    /// The run that would be undone.
    pub run_id: String,
    /// The command that plans it; null where the run can't be undone.
    pub argv: Option<Vec<String>>,
    /// What holds the state before.
    pub backup_id: Option<String>,
}

/// Where an operator finds everything about the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ForensicBundle {
    /// The seal with the hashes of the outgoing generation, relative to the data directory; planned
    /// in a dry run, null when nothing is sealed.
    pub artifact_manifest_path: Option<String>,
}

/// What every planned command says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Mutation {
    /// Whether a plan was shown or applied.
    pub mode: Mode,
    /// The candidate.
    pub candidate_staging: CandidateStaging,
    /// What is held before and after.
    pub coverage_summary: CoverageSummary,
    /// What is built from.
    pub source_authority: SourceAuthority,
    /// What each gate says.
    pub safety_gates: Vec<GateResult>,
    /// The receipt; null in a dry run.
    pub receipt: Option<ReceiptView>,
    /// What was tried on the live archive afterwards.
    pub post_repair_probes: Vec<Probe>,
    /// How to go back.
    pub rollback: Option<Rollback>,
    /// The seal of what was replaced.
    pub forensic_bundle: ForensicBundle,
    /// Where the context of a failure is, relative to the data directory.
    pub failure_context_path: Option<String>,
    /// Runs of killed processes that were finished or closed first.
    pub finished_runs: Vec<String>,
}

/// `doctor repair` without `--yes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RepairDryRunBody {
    /// The plan.
    pub repair_plan: PlanView,
    /// What it would do.
    #[serde(flatten)]
    pub mutation: Mutation,
}

impl Body for RepairDryRunBody {
    const NAME: &'static str = "doctor-reconstruct-dry-run";
}

/// `doctor repair --yes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RepairBody {
    /// The plan that was applied.
    pub repair_plan: PlanView,
    /// What it did.
    #[serde(flatten)]
    pub mutation: Mutation,
}

impl Body for RepairBody {
    const NAME: &'static str = "doctor-repair";
}

/// `doctor --fix`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FixBody {
    /// Whether anything may be done without an operator.
    pub safe_auto_eligibility: bool,
    /// Why not.
    pub refusals: Vec<String>,
    /// Receipts of what was done.
    pub receipts: Vec<String>,
    /// The plan.
    pub fix_plan: PlanView,
    /// What it did.
    #[serde(flatten)]
    pub mutation: Mutation,
}

impl Body for FixBody {
    const NAME: &'static str = "doctor-fix";
}

/// `doctor backups create`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BackupCreateBody {
    /// The backup that was made; null in a dry run.
    pub backup_id: Option<String>,
    /// The plan.
    pub backup_plan: PlanView,
    /// What it did.
    #[serde(flatten)]
    pub mutation: Mutation,
}

impl Body for BackupCreateBody {
    const NAME: &'static str = "doctor-backups-create";
}

/// What a rehearsal found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RestoreRehearsal {
    /// `verified`, `failed`, or `not-run` when the plan is applied.
    pub status: String,
    /// Records that the candidate has and the live archive has not, and the other way round.
    pub gained_records: u64,
    /// Records that the live archive has and the candidate has not.
    pub lost_records: u64,
    /// Why it failed.
    pub error: Option<String>,
}

/// `doctor backups restore`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RestoreArchiveBody {
    /// The backup or sealed generation.
    pub backup_id: String,
    /// The plan.
    pub restore_plan: PlanView,
    /// The rehearsal.
    pub restore_rehearsal: RestoreRehearsal,
    /// Where the receipt of the rehearsal is, relative to the data directory.
    pub rehearsal_receipt: Option<String>,
    /// Whether the plan may be applied now.
    pub restore_apply_allowed: bool,
    /// The sealed generation that holds what was live before; null before an apply.
    pub pre_restore_backup_id: Option<String>,
    /// What it did.
    #[serde(flatten)]
    pub mutation: Mutation,
}

impl Body for RestoreArchiveBody {
    const NAME: &'static str = "doctor-backups-restore";
}

/// `doctor runs undo`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UndoBody {
    /// The run that is undone.
    pub undoes: String,
    /// The plan.
    pub undo_plan: PlanView,
    /// What it did.
    #[serde(flatten)]
    pub mutation: Mutation,
}

impl Body for UndoBody {
    const NAME: &'static str = "doctor-runs-undo";
}

/// One run in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RunRow {
    /// The run.
    pub run_id: String,
    /// Its command; null when its receipt or intent is damaged.
    pub kind: Option<PlanKind>,
    /// How it ended; null when it has no readable receipt: it was killed, or runs now.
    pub status: Option<RunStatus>,
    /// When it ended, RFC 3339.
    pub ended_at: Option<String>,
    /// The plan.
    pub plan_fingerprint: Option<String>,
    /// The run that undid it.
    pub undone_by: Option<String>,
    /// Whether its receipt or intent can't be read.
    pub damaged: bool,
}

/// `doctor runs list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RunsListBody {
    /// The newest first.
    pub runs: Vec<RunRow>,
    /// How many there are.
    pub runs_total: u64,
    /// Lines of the event log that are damaged or don't follow the line before.
    pub damaged_events: u64,
}

impl Body for RunsListBody {
    const NAME: &'static str = "doctor-runs-list";
}

/// One step of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EventRow {
    /// When, RFC 3339.
    pub at: Option<String>,
    /// What happened.
    pub what: String,
    /// More about it.
    pub detail: String,
}

/// `doctor runs show`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RunsShowBody {
    /// The run.
    pub run_id: String,
    /// Its receipt; null when it was killed, or runs now.
    pub receipt: Option<ReceiptView>,
    /// What it did, step by step.
    pub events: Vec<EventRow>,
    /// How to go back.
    pub rollback: Option<Rollback>,
    /// Where the context of its failure is.
    pub failure_context_path: Option<String>,
    /// The error that its failure context tells.
    pub failure: Option<String>,
    /// What was found wrong with its candidate.
    pub failure_findings: Vec<String>,
}

impl Body for RunsShowBody {
    const NAME: &'static str = "doctor-runs-show";
}
