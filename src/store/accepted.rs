//! Losses that an operator accepted: one file for each run that put some on record.
//!
//! A record is in force when the receipt of its run says that the run was applied and no later run
//! undid it. One that is damaged is in force of nothing: what it spoke of is an error again, never the
//! other way round. One of a newer format is refused: what it speaks of is not known.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::disk::{Capture, EntryKind, Root};
use crate::error::{Error, ErrorKind, Result};
use crate::model::digest::Digest;
use crate::model::plan::Lost;
use crate::model::source::SourceKey;
use crate::store::layout;
use crate::store::run::{self, RunId, RunStatus};
use crate::store::version::{self, Said};

/// Layout version of a record.
pub const FORMAT: u32 = 1;
/// A longer file is none of ours.
const LIMIT: u64 = 256 << 20;

/// What one run put on record as lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acceptance {
    /// Layout version.
    pub format: u32,
    /// The run.
    pub run_id: RunId,
    /// The plan that listed all of it and was approved.
    pub fingerprint: String,
    /// When, milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// Link hash of the coverage ledger's last line then: only lines up to it are spoken of. None
    /// where there was no ledger.
    pub link: Option<String>,
    /// The captures that can't be given back, by source.
    pub captures: BTreeMap<SourceKey, Vec<LostCapture>>,
    /// The conversations of which records are lost.
    pub conversations: Vec<LostConversation>,
    /// The same by record, as the plan listed it.
    pub lost: Vec<Lost>,
}

/// A capture that can't be given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostCapture {
    /// Its number.
    pub seq: u64,
    /// BLAKE3 of its content; none where the mirror had lost its ledger line as well. Numbers are used
    /// again by a ledger that begins anew, contents are not.
    pub hash: Option<Digest>,
    /// Whether the archive holds rows of a conversation that it was part of: then it stays promised,
    /// so that a later repair takes these rows over.
    pub rows: bool,
}

/// A conversation of which records are lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostConversation {
    /// Its public id.
    pub conversation: String,
    /// How many coverage keys the ledger promised.
    pub promised: u64,
    /// How many are held: what is promised from here on.
    pub held: u64,
    /// Their sum.
    pub sum: Digest,
}

/// The file: the record and the digest of its text.
#[derive(Debug, Serialize, Deserialize)]
struct Signed {
    accepted: Acceptance,
    digest: Digest,
}

fn bytes_of<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|e| {
        Error::new(
            ErrorKind::Internal,
            "an accepted loss can't be written as JSON",
        )
        .with_source(e)
    })
}

/// Where the record of a run lies, relative to the data directory.
#[must_use]
pub fn path_of(run: &RunId) -> String {
    format!("{}/{run}.json", layout::ACCEPTED)
}

/// Writes the record of a run, durable when this returns. In force once the run's receipt is.
///
/// # Errors
/// `target-exists` when the run has one; `no-space`, `permission-denied`, `io`.
pub fn write(cap: Capture<'_>, accepted: Acceptance) -> Result<String> {
    let rel = path_of(&accepted.run_id);
    let digest = Digest::of(&bytes_of(&accepted)?);
    let mut bytes = bytes_of(&Signed { accepted, digest })?;
    bytes.push(b'\n');
    cap.create_dir(layout::ACCEPTED)?;
    cap.create_new(&rel, &bytes)?;
    Ok(rel)
}

/// Whether the run put anything on record.
///
/// # Errors
/// `io` or `permission-denied`.
pub fn is_there(root: &Root, run: &RunId) -> Result<bool> {
    root.exists(&path_of(run))
}

/// Everything that is accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Accepted {
    /// In the order of the runs.
    pub in_force: Vec<Acceptance>,
    /// Records that can't be read, of runs that hold: where they are, relative to the data directory.
    pub damaged: Vec<String>,
}

impl Accepted {
    /// Reads what is in force.
    ///
    /// # Errors
    /// `schema-too-new`; `io` or `permission-denied`.
    pub fn read(root: &Root) -> Result<Accepted> {
        let mut out = Accepted::default();
        let mut runs: Vec<RunId> = root
            .list(layout::ACCEPTED)?
            .unwrap_or_default()
            .into_iter()
            .filter(|e| e.kind == EntryKind::File)
            .filter_map(|e| RunId::parse(e.name.strip_suffix(".json")?))
            .collect();
        if runs.is_empty() {
            return Ok(out);
        }
        runs.sort();
        let receipts = run::receipts(root)?;
        let applied = || {
            receipts
                .iter()
                .filter_map(|(_, r)| r.as_ref())
                .filter(|r| r.status == RunStatus::Applied)
        };
        let undone: BTreeSet<&RunId> = applied().filter_map(|r| r.undoes.as_ref()).collect();
        for id in runs {
            if undone.contains(&id) || !applied().any(|r| r.run_id == id) {
                continue;
            }
            match read_one(root, &id)? {
                Some(accepted) => out.in_force.push(accepted),
                None => out.damaged.push(path_of(&id)),
            }
        }
        Ok(out)
    }

    /// The run that accepted the loss of a capture whose content is `hash`, or whose ledger line is
    /// gone.
    #[must_use]
    pub fn covers(&self, key: SourceKey, seq: u64, hash: Option<Digest>) -> Option<&RunId> {
        self.in_force.iter().rev().find_map(|a| {
            let seqs = a.captures.get(&key)?;
            seqs.iter()
                .any(|c| (c.seq, c.hash) == (seq, hash))
                .then_some(&a.run_id)
        })
    }

    /// Every capture that is spoken of.
    pub fn captures(&self) -> impl Iterator<Item = (SourceKey, u64)> {
        self.in_force.iter().flat_map(|a| {
            a.captures
                .iter()
                .flat_map(|(key, seqs)| seqs.iter().map(|c| (*key, c.seq)))
        })
    }
}

impl Acceptance {
    /// How many captures are on record.
    #[must_use]
    pub fn capture_count(&self) -> u64 {
        self.captures.values().map(|seqs| seqs.len() as u64).sum()
    }

    /// How many records are.
    #[must_use]
    pub fn record_count(&self) -> u64 {
        self.conversations
            .iter()
            .map(|c| c.promised.saturating_sub(c.held))
            .sum()
    }
}

/// A record that is whole and of a format that is known.
fn read_one(root: &Root, run: &RunId) -> Result<Option<Acceptance>> {
    let Some(bytes) = root.read(&path_of(run), LIMIT)? else {
        return Ok(None);
    };
    #[derive(Deserialize)]
    struct Outer {
        accepted: Said,
    }
    let Ok(outer) = serde_json::from_slice::<Outer>(&bytes) else {
        return Ok(None);
    };
    let (rel, found) = (path_of(run), outer.accepted.format.as_ref());
    match version::require(
        root,
        &rel,
        "format",
        found,
        FORMAT.into(),
        ErrorKind::ArchiveCorrupt,
    ) {
        Err(e) if e.kind() == ErrorKind::SchemaTooNew => return Err(e),
        Err(_) => return Ok(None),
        Ok(()) => {}
    }
    let Ok(signed) = serde_json::from_slice::<Signed>(&bytes) else {
        return Ok(None);
    };
    let whole =
        &signed.accepted.run_id == run && Digest::of(&bytes_of(&signed.accepted)?) == signed.digest;
    Ok(whole.then_some(signed.accepted))
}
