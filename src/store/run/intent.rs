//! Intents: what a run is about to do, durable before its first effect.

use serde::{Deserialize, Serialize};

use super::RunId;
use crate::disk::{Capture, EntryKind, Root};
use crate::error::{Error, ErrorKind, Result};
use crate::model::plan::{Action, LogPlace, PlanKind};
use crate::store::generation::GenerationId;
use crate::store::layout;
use crate::store::version::{self, Said};

/// Layout version of an intent.
pub const FORMAT: u32 = 1;
/// A longer file is none of ours.
const LIMIT: u64 = 16 << 20;

/// Why `CURRENT` is replaced; the reason in the `promote` line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// A repaired candidate.
    Repair,
    /// A candidate made from a backup.
    Restore,
    /// A generation that was there, after `CURRENT` was lost.
    RePoint,
    /// A sealed generation, put back as it was.
    Undo,
    /// The same archive in a newer schema.
    Migrate,
}

impl Purpose {
    /// The word in the coverage ledger.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Purpose::Repair => "repair",
            Purpose::Restore => "restore",
            Purpose::RePoint => "re-point",
            Purpose::Undo => "undo",
            Purpose::Migrate => "migrate",
        }
    }
}

/// The generation that `CURRENT` will name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Its id.
    pub generation: GenerationId,
    /// Why.
    pub purpose: Purpose,
    /// Whether this run makes it, so that it is removed when the run does not get to promote it.
    pub made_here: bool,
}

/// What a run is about to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// Layout version.
    pub format: u32,
    /// The run.
    pub run_id: RunId,
    /// Its command.
    pub kind: PlanKind,
    /// The plan that was approved.
    pub fingerprint: String,
    /// When it began, milliseconds since the Unix epoch.
    pub begun_ms: i64,
    /// Version of the program.
    pub cass_version: String,
    /// What it does, in order.
    pub actions: Vec<Action>,
    /// The live generation before it; null when none could be told.
    pub before: Option<GenerationId>,
    /// Where none could be told: what is left of the old archive, and whatever gave rows. It is sealed
    /// when `CURRENT` names the target.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keeps: Vec<GenerationId>,
    /// The generation that `CURRENT` will name; null when it does not replace it.
    pub target: Option<Target>,
    /// The run that it undoes.
    pub undoes: Option<RunId>,
}

impl Intent {
    /// Whether it writes over a session log.
    #[must_use]
    pub fn replaces_log(&self) -> bool {
        self.actions.iter().any(|a| match a {
            Action::WriteSessionLog { log } => log.place == LogPlace::InPlace,
            _ => false,
        })
    }
}

/// Makes the intent durable.
///
/// # Errors
/// `no-space`, `permission-denied`, `io`; nothing was begun then.
pub fn write(cap: Capture<'_>, intent: &Intent) -> Result<()> {
    let bytes = to_bytes(intent, "an intent")?;
    cap.create_dir(layout::INTENTS)?;
    cap.create_new(
        &format!("{}/{}", layout::INTENTS, intent.run_id.file()),
        &bytes,
    )
}

/// The intent of a run.
///
/// # Errors
/// `archive-corrupt` when it is damaged; `schema-too-new`; `io`.
pub fn read_intent(root: &Root, run: &RunId) -> Result<Option<Intent>> {
    let rel = format!("{}/{}", layout::INTENTS, run.file());
    let Some(bytes) = root.read(&rel, LIMIT)? else {
        return Ok(None);
    };
    let said: Said =
        serde_json::from_slice(&bytes).map_err(|e| damaged(root, &rel).with_source(e))?;
    require_format(root, &rel, &said, FORMAT)?;
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|e| damaged(root, &rel).with_source(e))
}

/// Compares the format of a run's file with the highest that is known.
pub(super) fn require_format(root: &Root, rel: &str, said: &Said, known: u32) -> Result<()> {
    let found = said.format.as_ref();
    version::require(
        root,
        rel,
        "format",
        found,
        known.into(),
        ErrorKind::ArchiveCorrupt,
    )
}

/// Runs that have an intent and no receipt, oldest first. One whose intent is damaged has `None`.
///
/// # Errors
/// `schema-too-new`; `io` or `permission-denied`.
pub fn open_intents(root: &Root) -> Result<Vec<(RunId, Option<Intent>)>> {
    let closed = run_files(root, layout::RECEIPTS)?;
    let mut open = Vec::new();
    for run in run_files(root, layout::INTENTS)? {
        if closed.binary_search(&run).is_err() {
            let intent = match read_intent(root, &run) {
                Ok(intent) => intent,
                Err(e) if e.kind() == ErrorKind::ArchiveCorrupt => None,
                Err(e) => return Err(e),
            };
            open.push((run, intent));
        }
    }
    Ok(open)
}

/// The runs that have a file in `folder`, sorted.
pub(super) fn run_files(root: &Root, folder: &str) -> Result<Vec<RunId>> {
    let entries = root.list(folder)?.unwrap_or_default();
    let mut runs: Vec<RunId> = entries
        .iter()
        .filter(|e| e.kind == EntryKind::File)
        .filter_map(|e| RunId::parse(e.name.strip_suffix(".json")?))
        .collect();
    runs.sort();
    Ok(runs)
}

pub(super) fn to_bytes<T: Serialize>(value: &T, what: &str) -> Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(value).map_err(|e| {
        Error::new(
            ErrorKind::Internal,
            format!("{what} can't be written as JSON"),
        )
        .with_source(e)
    })?;
    bytes.push(b'\n');
    Ok(bytes)
}

pub(super) fn damaged(root: &Root, rel: &str) -> Error {
    Error::new(
        ErrorKind::ArchiveCorrupt,
        format!("{} is damaged", root.full(rel).display()),
    )
    .with_context("path", rel)
}
