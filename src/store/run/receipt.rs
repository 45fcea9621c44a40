//! Receipts: what a run did, written after its last effect is durable.

use serde::{Deserialize, Serialize};

use super::RunId;
use super::event::EventLog;
use super::intent::{damaged, require_format, run_files, to_bytes};
use super::probe::Probe;
use crate::disk::{Capture, Root};
use crate::error::{ErrorKind, Result};
use crate::model::digest::Digest;
use crate::model::plan::{ACCEPT_LOSS, Coverage, PlanKind};
use crate::store::generation::GenerationId;
use crate::store::layout;
use crate::store::version::Said;

/// Layout version of a receipt.
pub const FORMAT: u32 = 1;
const LIMIT: u64 = 16 << 20;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunStatus {
    /// Everything was done.
    Applied,
    /// It failed or was killed before it could take effect as a whole.
    Failed,
    /// A probe failed after the promotion; the old generation is live again.
    RolledBack,
    /// A rehearsal: a candidate was built, verified and removed.
    Rehearsed,
}

impl RunStatus {
    /// One word, for people.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            RunStatus::Applied => "applied",
            RunStatus::Failed => "failed",
            RunStatus::RolledBack => "rolled back",
            RunStatus::Rehearsed => "rehearsed",
        }
    }
}

/// How one action ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OutcomeWord {
    /// Done.
    Done,
    /// Failed; nothing behind it was begun.
    Failed,
    /// Not known: the run was killed.
    Unknown,
}

/// One action and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ActionOutcome {
    /// The action's word.
    pub action: String,
    /// How it ended.
    pub outcome: OutcomeWord,
    /// What it did, as one sentence without text of a session.
    pub detail: String,
}

/// A file or folder that was moved within the data directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Moved {
    /// Where it was, relative to the data directory.
    pub from: String,
    /// Where it is.
    pub to: String,
}

/// What a run did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Layout version.
    pub format: u32,
    /// The run.
    pub run_id: RunId,
    /// Its command.
    pub kind: PlanKind,
    /// The plan that was approved.
    pub fingerprint: String,
    /// How it ended.
    pub status: RunStatus,
    /// When it began and ended, milliseconds since the Unix epoch.
    pub begun_ms: i64,
    /// When it ended.
    pub ended_ms: i64,
    /// Version of the program that wrote this.
    pub cass_version: String,
    /// One outcome an action, in order.
    pub actions: Vec<ActionOutcome>,
    /// The live generation before.
    pub before: Option<GenerationId>,
    /// The live generation after.
    pub after: Option<GenerationId>,
    /// The sealed generation or backup that holds the state before.
    pub backup_id: Option<String>,
    /// What was moved to the quarantine or back.
    pub moved: Vec<Moved>,
    /// What the archive held before; null when it could not be read.
    pub coverage_before: Option<Coverage>,
    /// What it holds after.
    pub coverage_after: Option<Coverage>,
    /// What was tried on the live archive afterwards.
    pub probes: Vec<Probe>,
    /// Whether it wrote over a session log, whose capture holds what was there before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replaced_log: bool,
    /// Conversations that the plan listed as not to be brought back.
    pub missing: u64,
    /// The run that it undid.
    pub undoes: Option<RunId>,
    /// Why it failed.
    pub error: Option<String>,
    /// Whether it was finished or closed by a later run.
    pub closed_by_later_run: bool,
}

impl Receipt {
    /// Whether it put something on record as lost.
    #[must_use]
    pub fn accepts_loss(&self) -> bool {
        self.actions
            .iter()
            .any(|a| a.action == ACCEPT_LOSS && a.outcome == OutcomeWord::Done)
    }
}

/// The file: the receipt and the digest of its text.
#[derive(Debug, Serialize, Deserialize)]
struct Signed {
    receipt: Receipt,
    digest: Digest,
}

fn digest_of(receipt: &Receipt) -> Result<Digest> {
    Ok(Digest::of(&to_bytes(receipt, "a receipt")?))
}

/// Writes the receipt of a run, and says so in the event log. Returns where, relative to the data
/// directory.
///
/// # Errors
/// `target-exists` when the run has one; `no-space`, `permission-denied`, `io`.
pub fn write_receipt(cap: Capture<'_>, log: &mut EventLog, receipt: &Receipt) -> Result<String> {
    let digest = digest_of(receipt)?;
    let signed = Signed {
        receipt: receipt.clone(),
        digest,
    };
    let rel = path_of(&receipt.run_id);
    // The event first: a receipt without its event would look like one that was put there.
    log.add(
        &receipt.run_id,
        receipt.ended_ms,
        "receipt",
        &digest.to_hex(),
    )?;
    cap.create_dir(layout::RECEIPTS)?;
    cap.create_new(&rel, &to_bytes(&signed, "a receipt")?)?;
    Ok(rel)
}

/// Where the receipt of a run lies, relative to the data directory.
#[must_use]
pub fn path_of(run: &RunId) -> String {
    format!("{}/{}", layout::RECEIPTS, run.file())
}

/// The receipt of a run; `None` when it has none.
///
/// # Errors
/// `archive-corrupt` when it is damaged or was changed; `schema-too-new`; `io`.
pub fn read_receipt(root: &Root, run: &RunId) -> Result<Option<Receipt>> {
    let rel = path_of(run);
    let Some(bytes) = root.read(&rel, LIMIT)? else {
        return Ok(None);
    };
    #[derive(Deserialize)]
    struct Outer {
        receipt: Said,
    }
    let outer: Outer =
        serde_json::from_slice(&bytes).map_err(|e| damaged(root, &rel).with_source(e))?;
    require_format(root, &rel, &outer.receipt, FORMAT)?;
    let signed: Signed =
        serde_json::from_slice(&bytes).map_err(|e| damaged(root, &rel).with_source(e))?;
    if digest_of(&signed.receipt)? != signed.digest || &signed.receipt.run_id != run {
        return Err(damaged(root, &rel));
    }
    Ok(Some(signed.receipt))
}

/// The runs that have a receipt, oldest first, whatever is in it.
///
/// # Errors
/// `io` or `permission-denied`.
pub fn with_receipt(root: &Root) -> Result<Vec<RunId>> {
    run_files(root, layout::RECEIPTS)
}

/// Every receipt, oldest first; a damaged one as `None`.
///
/// # Errors
/// `schema-too-new`; `io` or `permission-denied`.
pub fn receipts(root: &Root) -> Result<Vec<(RunId, Option<Receipt>)>> {
    let mut all = Vec::new();
    for run in with_receipt(root)? {
        // A damaged receipt takes nothing from the others; what a newer one undid is not known.
        let receipt = match read_receipt(root, &run) {
            Err(e) if e.kind() == ErrorKind::SchemaTooNew => return Err(e),
            read => read.ok().flatten(),
        };
        all.push((run, receipt));
    }
    Ok(all)
}

/// The first receipt of an apply of this plan that still holds: none that was undone since.
///
/// # Errors
/// `io` or `permission-denied`.
pub fn receipt_of(root: &Root, fingerprint: &str) -> Result<Option<Receipt>> {
    let all: Vec<Receipt> = receipts(root)?.into_iter().filter_map(|r| r.1).collect();
    let applied = |r: &&Receipt| r.status == RunStatus::Applied;
    let undone = |run: &RunId| {
        all.iter()
            .filter(applied)
            .any(|r| r.undoes.as_ref() == Some(run))
    };
    Ok(all
        .iter()
        .filter(applied)
        .find(|r| r.fingerprint == fingerprint && !undone(&r.run_id))
        .cloned())
}

/// Whether a rehearsal of this plan went well.
///
/// # Errors
/// `io` or `permission-denied`.
pub fn was_rehearsed(root: &Root, fingerprint: &str) -> Result<bool> {
    Ok(receipts(root)?
        .into_iter()
        .filter_map(|(_, r)| r)
        .any(|r| r.status == RunStatus::Rehearsed && r.fingerprint == fingerprint))
}
