//! The room that a plan needs: looked for before anything of it is written.

use std::fs::symlink_metadata;
use std::path::Path;

use super::sealed::Plan;
use crate::disk::Root;
use crate::error::{Error, ErrorKind, Result};
use crate::model::plan::{Action, Body, DerivedAsset};
use crate::store::generation::{self, Live};
use crate::store::layout;
use crate::store::run;

/// What every run writes beside what its plan is for: intent, events, receipt, the seal of what was
/// live, lines of the ledger, the context of a failure. Bytes.
const RECORDS: u64 = 1 << 20;
/// Bytes of a record of what is lost, for one capture or conversation.
const LOSS: u64 = 1 << 10;

/// Bytes that must be free for a plan: what the planner says that its archive takes, or what every
/// run takes, and what its other actions write. 0 for a plan that does nothing.
///
/// # Errors
/// `permission-denied`, `io`.
pub(super) fn needed(root: Option<&Root>, body: &Body, said: u64) -> Result<u64> {
    if body.actions.is_empty() {
        return Ok(0);
    }
    let mut bytes = said.max(RECORDS);
    for action in &body.actions {
        bytes = bytes.saturating_add(match (action, root) {
            (Action::RenewLedger { file }, _) => file.len.0,
            (
                Action::AcceptLoss {
                    captures,
                    conversations,
                },
                _,
            ) => (captures.total.0 + conversations.total.0).saturating_mul(LOSS),
            (Action::PutBackSessionLog { log, .. }, _) => log.source.len.0,
            (Action::RebuildDerived { asset }, Some(root)) => derived(root, *asset)?,
            _ => 0,
        });
    }
    Ok(bytes)
}

/// Bytes of derived data that is made anew beside what is there.
fn derived(root: &Root, asset: DerivedAsset) -> Result<u64> {
    match asset {
        // The index of a text is smaller than the text, which the archive holds.
        DerivedAsset::LexicalIndex => {
            let Live::Present(live) = generation::locate(root)? else {
                return Ok(0);
            };
            let db = layout::archive_db(live.id.as_str());
            Ok(len(root, &db) + len(root, &format!("{db}-wal")))
        }
        // A row of it is no longer than the line that it is made from.
        DerivedAsset::MirrorIndex => {
            let mut ledgers = 0;
            root.for_each_entry(layout::LEDGERS, &mut |entry| {
                ledgers += len(root, &format!("{}/{}", layout::LEDGERS, entry.name));
            })?;
            Ok(ledgers.max(len(root, layout::MIRROR_INDEX_DB)))
        }
    }
}

/// By metadata alone: the file may be open in SQLite.
fn len(root: &Root, rel: &str) -> u64 {
    symlink_metadata(root.full(rel)).map_or(0, |meta| meta.len())
}

/// Room for all of a plan.
///
/// # Errors
/// `no-space` with `required_bytes` and `free_bytes`; `io`.
pub(super) fn for_plan(root: &Root, plan: &Plan) -> Result<()> {
    let required = plan.notes().required_bytes;
    let free = root.free_bytes()?;
    check(root.path(), "the plan", required, free, "nothing of it")
}

/// Room to finish what killed runs left, if any did. What they were building is removed first, and
/// counts as free.
///
/// # Errors
/// As [`for_plan`].
pub(super) fn to_finish(root: &Root) -> Result<()> {
    let open = run::open_intents(root)?;
    if !open.iter().any(|(_, intent)| intent.is_some()) {
        return Ok(());
    }
    let free = root.free_bytes()?.saturating_add(run::given_back(root)?);
    let what = "to finish a run that was killed, cass";
    check(root.path(), what, RECORDS, free, "nothing")
}

/// The error of a lock that could not be taken for want of room: as that of a plan without room.
pub(super) fn for_lock(data_dir: &Path, error: Error) -> Error {
    let short = || {
        let free = Root::absent(data_dir).free_bytes()?;
        check(data_dir, "a run", RECORDS, free, "nothing")
    };
    match error.kind() {
        ErrorKind::NoSpace => short().err().unwrap_or(error),
        _ => error,
    }
}

fn check(path: &Path, who: &str, required: u64, free: u64, what: &str) -> Result<()> {
    if free >= required {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::NoSpace,
        format!(
            "{who} needs {required} bytes and {free} are free in {}; {what} was begun",
            path.display()
        ),
    )
    .with_hint("Make room and run the same command again: the plan is still good.")
    .with_context("required_bytes", required.to_string())
    .with_context("free_bytes", free.to_string()))
}
