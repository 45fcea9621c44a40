//! What killed and failed runs left, and what each needs: every leftover has a plan.

use std::collections::BTreeSet;

use crate::disk::Root;
use crate::error::Result;
use crate::model::plan::Action;
use crate::model::watch::Watch;
use crate::store::file_state::archive_files;
use crate::store::generation::{self, GenerationId};
use crate::store::run::{self, MarkerState};
use crate::store::{layout, seal};

/// Runs that were killed and neither finished nor closed.
///
/// # Errors
/// `io` or `permission-denied`.
pub(super) fn interrupted(root: &Root) -> Result<Vec<Action>> {
    Ok(run::open_intents(root)?
        .into_iter()
        .map(|(run_id, _)| Action::FinishInterrupted {
            run_id: run_id.to_string(),
        })
        .collect())
}

/// Generations that nothing names: neither `CURRENT`, nor a seal, nor `kept`, nor the ledger's end.
///
/// # Errors
/// `io`, `interrupted`.
pub(super) fn orphans(
    root: &Root,
    kept: &BTreeSet<GenerationId>,
    watch: Watch<'_>,
) -> Result<Vec<Action>> {
    let mut actions = Vec::new();
    for id in generation::folders(root)? {
        if kept.contains(&id) || seal::is_sealed(root, &id)? {
            continue;
        }
        actions.push(Action::ReclaimOrphan {
            generation: id.to_string(),
            files: archive_files(root, &id, watch.interrupt)?,
        });
    }
    Ok(actions)
}

/// The marker of a failed run.
///
/// # Errors
/// `io` or `permission-denied`.
pub(in crate::doctor) fn marker(root: &Root) -> Result<MarkerState> {
    // Something else of that name is as good as a marker that can't be read, but has no bytes.
    if !root.exists(layout::MARKER)? {
        return Ok(MarkerState::Absent);
    }
    run::marker(root)
}
