//! Failures: the context of a run that failed, and the marker that keeps it from being repeated
//! unseen.

use serde::{Deserialize, Serialize};

use super::RunId;
use super::intent::{damaged, require_format, to_bytes};
use super::quarantine::put_aside;
use super::receipt::Moved;
use crate::disk::{Capture, Root};
use crate::error::{Error, ErrorKind, Result};
use crate::model::digest::Digest;
use crate::model::plan::{Action, PlanKind};
use crate::store::layout;
use crate::store::version::Said;

/// Layout version of failure contexts and markers.
pub const FORMAT: u32 = 1;
const LIMIT: u64 = 16 << 20;

/// What was going on when a run failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Layout version.
    pub format: u32,
    /// The run.
    pub run_id: RunId,
    /// Its command.
    pub kind: PlanKind,
    /// The plan.
    pub fingerprint: String,
    /// When, milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// The action that failed.
    pub action: Option<Action>,
    /// Kind of the error.
    pub error_kind: ErrorKind,
    /// Its message.
    pub message: String,
    /// What was found wrong with the candidate, as short sentences.
    pub findings: Vec<String>,
}

/// Keeps a command from being repeated before somebody looked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    /// Layout version.
    pub format: u32,
    /// The run that failed.
    pub run_id: RunId,
    /// Its command.
    pub kind: PlanKind,
    /// Its plan.
    pub fingerprint: String,
    /// When, milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// Kind of the error.
    pub error_kind: ErrorKind,
}

/// The marker, as it is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MarkerState {
    /// There is none.
    Absent,
    /// A run failed.
    Present {
        /// What it says.
        marker: Marker,
        /// Digest of its bytes.
        digest: Digest,
    },
    /// There is one that can't be read.
    Corrupt {
        /// Digest of its bytes.
        digest: Digest,
    },
}

impl MarkerState {
    /// Digest of the marker's bytes; `None` when there is none.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        match self {
            MarkerState::Absent => None,
            MarkerState::Present { digest, .. } | MarkerState::Corrupt { digest } => Some(*digest),
        }
    }
}

/// The marker.
///
/// # Errors
/// `unsafe-target` when something that is no file has its name; `schema-too-new`; `io`.
pub fn marker(root: &Root) -> Result<MarkerState> {
    let Some(bytes) = root.read(layout::MARKER, LIMIT)? else {
        return Ok(MarkerState::Absent);
    };
    let digest = Digest::of(&bytes);
    let read = || -> Result<Marker> {
        let said: Said = serde_json::from_slice(&bytes)
            .map_err(|e| damaged(root, layout::MARKER).with_source(e))?;
        require_format(root, layout::MARKER, &said, FORMAT)?;
        serde_json::from_slice(&bytes).map_err(|e| damaged(root, layout::MARKER).with_source(e))
    };
    match read() {
        Ok(marker) => Ok(MarkerState::Present { marker, digest }),
        Err(e) if e.kind() == ErrorKind::SchemaTooNew => Err(e),
        Err(_) => Ok(MarkerState::Corrupt { digest }),
    }
}

/// Keeps the context of a failure and sets the marker. Returns where the context is.
///
/// # Errors
/// `no-space`, `permission-denied`, `io`.
pub fn record_failure(cap: Capture<'_>, failure: &Failure) -> Result<String> {
    cap.create_dir(layout::FAILURES)?;
    let rel = format!("{}/{}", layout::FAILURES, failure.run_id.file());
    cap.create_new(&rel, &to_bytes(failure, "a failure context")?)?;
    let marker = Marker {
        format: FORMAT,
        run_id: failure.run_id.clone(),
        kind: failure.kind,
        fingerprint: failure.fingerprint.clone(),
        at_ms: failure.at_ms,
        error_kind: failure.error_kind,
    };
    cap.replace(layout::MARKER, &to_bytes(&marker, "a marker")?)?;
    Ok(rel)
}

/// Moves the marker to the quarantine of `run`.
///
/// # Errors
/// `archive-corrupt` when it is not the one with this digest; `io`.
pub fn clear_marker(cap: Capture<'_>, run: &RunId, expected: &str) -> Result<Moved> {
    let root = cap.root();
    match marker(root)?.digest() {
        Some(digest) if digest.to_hex() == expected => {}
        _ => return Err(damaged(root, layout::MARKER)),
    }
    put_aside(cap, run, layout::MARKER)
}

/// The context of a failed run.
///
/// # Errors
/// `archive-corrupt` when it is damaged; `schema-too-new`; `io`.
pub fn read_failure(root: &Root, run: &RunId) -> Result<Option<Failure>> {
    let rel = format!("{}/{}", layout::FAILURES, run.file());
    let Some(bytes) = root.read(&rel, LIMIT)? else {
        return Ok(None);
    };
    let unreadable = |e: serde_json::Error| -> Error { damaged(root, &rel).with_source(e) };
    let said: Said = serde_json::from_slice(&bytes).map_err(unreadable)?;
    require_format(root, &rel, &said, FORMAT)?;
    serde_json::from_slice(&bytes).map(Some).map_err(unreadable)
}
