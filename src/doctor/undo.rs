//! `doctor runs undo`: back to what was there before a run, exactly, damage included.

use std::collections::BTreeMap;

use crate::disk::Root;
use crate::error::{Error, ErrorKind, Result};
use crate::model::plan::{
    Action, ArchiveState, AuthorityClass, Body, Count, Draft, Gate, GateResult, GateVerdict,
    Listed, Missing, MissingReason, Notes, PlanKind,
};
use crate::plan::{Ground, Planner};
use crate::store::archive::ArchiveReader;
use crate::store::coverage::{self, Line};
use crate::store::file_state::archive_files;
use crate::store::generation::GenerationId;
use crate::store::run::{self, Receipt, RunId, RunStatus};
use crate::store::version::refuse_newer;
use crate::store::{accepted, backup, layout, seal};

use super::repair::{Behind, Holder, open_state};
use super::session_log::undo as logs;

/// Which run to undo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// This one.
    Run(RunId),
    /// The last one that was applied and not undone.
    Latest,
}

/// Plans `doctor runs undo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoPlanner {
    /// Which run.
    pub which: Which,
}

impl Planner for UndoPlanner {
    fn kind(&self) -> PlanKind {
        PlanKind::Undo
    }

    fn plan(&self, ground: &Ground<'_>) -> Result<Draft> {
        let root = ground
            .root()
            .ok_or_else(|| nothing_to_undo("nothing was ever applied here"))?;
        refuse_newer(root)?;
        let (receipt, holds) = self.receipt(root)?;
        if !holds {
            return past(root, &receipt, ground);
        }
        let mut gates = Vec::new();
        let mut notes = Notes::default();
        let sealed = sealed_before(&receipt);
        let files = match &sealed {
            Some(id) => archive_files(root, id, ground.watch().interrupt)?,
            None => Vec::new(),
        };
        let mut body = Body::new(PlanKind::Undo, state(root, &receipt, ground)?);
        body.options
            .insert("run".to_owned(), receipt.run_id.to_string());
        let movable: Vec<_> = run::moved_by(root, &receipt.run_id)?
            .into_iter()
            // A ledger only grows: the one that was put aside stays where it is.
            .filter(|m| m.from != layout::COVERAGE)
            .collect();
        if let Some(id) = &sealed {
            let verified = seal::verify(root, id, ground.watch().interrupt)?;
            if !verified.is_some_and(|(_, files)| backup::may_restore(&files)) {
                return Err(Error::new(
                    ErrorKind::VerifyFailed,
                    format!("the files of {id} are not what was sealed"),
                )
                .with_hint("An undo puts back exactly what was there, or nothing."));
            }
            gates.push(nothing_since(root, &receipt, &mut notes)?);
            unreadable_after(ground, root, id, &mut notes)?;
            body.missing = Listed::of(&notes.missing);
            body.lost = Listed::of(&notes.lost);
            body.actions.push(Action::RePoint {
                generation: id.to_string(),
                files,
            });
        }
        let promoted = receipt.after != receipt.before;
        if (sealed.is_some() || !promoted) && accepted::is_there(root, &receipt.run_id)? {
            body.actions.push(Action::WithdrawAcceptance {
                run_id: receipt.run_id.to_string(),
            });
        }
        if let Some(back) = logs::action(root, &receipt)? {
            gates.push(logs::gate(&back));
            body.actions.push(back);
        }
        if !movable.is_empty() {
            body.actions.push(Action::PutBack {
                run_id: receipt.run_id.to_string(),
            });
        }
        if body.actions.is_empty() {
            return Err(Error::new(
                ErrorKind::Blocked,
                format!("{} replaced nothing that could be put back", receipt.run_id),
            )
            .with_hint(
                "Backups, derived data and logs written to a new place need no undo: nothing was taken \
                 away by making them.",
            ));
        }
        notes.reasons.push(format!(
            "{} ({}) is undone",
            receipt.run_id,
            receipt.kind.word()
        ));
        Ok(Draft { body, gates, notes })
    }
}

impl UndoPlanner {
    /// The receipt, and whether what it says still holds.
    fn receipt(&self, root: &Root) -> Result<(Receipt, bool)> {
        let all = run::receipts(root)?;
        let undone = |id: &RunId| {
            all.iter()
                .filter_map(|(_, r)| r.as_ref())
                .any(|r| r.status == RunStatus::Applied && r.undoes.as_ref() == Some(id))
        };
        match &self.which {
            Which::Run(id) => {
                let receipt = run::read_receipt(root, id)?.ok_or_else(|| {
                    Error::new(ErrorKind::NotFound, format!("there is no run {id}"))
                        .with_hint("This lists the runs:")
                        .with_hint_argv(["cass", "doctor", "runs", "list"])
                })?;
                // A killed run may have put something aside all the same.
                let took = match receipt.status {
                    RunStatus::Applied => true,
                    RunStatus::Failed => !receipt.moved.is_empty(),
                    RunStatus::RolledBack | RunStatus::Rehearsed => false,
                };
                let holds = took && !undone(id);
                Ok((receipt, holds))
            }
            Which::Latest => all
                .iter()
                .rev()
                .filter_map(|(_, r)| r.as_ref())
                .find(|r| {
                    r.status == RunStatus::Applied
                        && !undone(&r.run_id)
                        && (sealed_before(r).is_some()
                            || !r.moved.is_empty()
                            || r.accepts_loss()
                            || r.replaced_log)
                })
                .map(|r| (r.clone(), true))
                .ok_or_else(|| nothing_to_undo("there is no run that could be undone")),
        }
    }
}

fn nothing_to_undo(what: &str) -> Error {
    Error::new(ErrorKind::NotFound, what)
        .with_hint("This lists what was applied and what was undone:")
        .with_hint_argv(["cass", "doctor", "runs", "list"])
}

/// The plan to undo what does not hold any more: it is shut, and differs from the one that undid it,
/// so that a repeated apply of that one is answered with its receipt.
fn past(root: &Root, receipt: &Receipt, ground: &Ground<'_>) -> Result<Draft> {
    let mut body = Body::new(PlanKind::Undo, state(root, receipt, ground)?);
    body.options
        .insert("run".to_owned(), receipt.run_id.to_string());
    Ok(Draft {
        body,
        gates: vec![GateResult {
            gate: Gate::NothingSince,
            verdict: GateVerdict::Block,
            reason: format!(
                "{} changed nothing that still holds: it failed, was a rehearsal, or was undone",
                receipt.run_id
            ),
        }],
        notes: Notes::default(),
    })
}

/// The archive, where the run had anything to do with it.
fn state(root: &Root, receipt: &Receipt, ground: &Ground<'_>) -> Result<ArchiveState> {
    if receipt.kind == PlanKind::SessionLogRepair {
        return Ok(ArchiveState::Apart);
    }
    open_state(root, ground.watch())
}

/// The generation that the run replaced, if it did.
fn sealed_before(receipt: &Receipt) -> Option<GenerationId> {
    let before = receipt.before.clone()?;
    (receipt.after.as_ref() != Some(&before)
        && receipt.backup_id.as_deref() == Some(before.as_str()))
    .then_some(before)
}

/// Commits on top of what the run promoted would be lost by an undo.
fn nothing_since(root: &Root, receipt: &Receipt, notes: &mut Notes) -> Result<GateResult> {
    let path = run::path_of(&receipt.run_id);
    let tail = coverage::tail(root).ok().flatten();
    let untouched = crate::store::generation::current_or_none(root)? == receipt.after
        && tail.is_some_and(
            |t| matches!(&t.line, Line::Promote(p) if p.receipt.as_ref() == Some(&path)),
        );
    if untouched {
        return Ok(GateResult {
            gate: Gate::NothingSince,
            verdict: GateVerdict::Pass,
            reason: "nothing was committed since the run".to_owned(),
        });
    }
    let before = receipt.before.as_ref().map(ToString::to_string);
    notes.instead = before.map(|id| {
        [
            "cass",
            "doctor",
            "backups",
            "restore",
            "--keep-newer",
            "--",
            &id,
        ]
        .map(str::to_owned)
        .to_vec()
    });
    Ok(GateResult {
        gate: Gate::NothingSince,
        verdict: GateVerdict::Block,
        reason: "the archive moved on since the run; an undo would drop what was committed"
            .to_owned(),
    })
}

/// Lists what the live archive holds and the sealed one can't show.
fn unreadable_after(
    ground: &Ground<'_>,
    root: &Root,
    sealed: &GenerationId,
    notes: &mut Notes,
) -> Result<()> {
    let Some(reader) = ArchiveReader::open(root).ok().flatten() else {
        return Ok(());
    };
    let current = reader.generation().id.clone();
    let outgoing = layout::archive_db(current.as_str());
    let mut live: BTreeMap<String, u64> = BTreeMap::new();
    let counted = reader.each_conversation(&mut |c| _ = live.insert(c.id, c.record_count));
    drop(reader);
    let live = match counted {
        Ok(()) => live,
        // Where it is damaged, what can still be read of it.
        Err(e) if e.kind() == ErrorKind::ArchiveCorrupt => Holder::read(
            AuthorityClass::Archive,
            current.as_str(),
            root,
            &outgoing,
            ground.watch(),
        )?
        .map(|h| h.coverage)
        .unwrap_or_default(),
        Err(e) => return Err(e),
    };
    let rel = layout::archive_db(sealed.as_str());
    let incoming = Holder::read(
        AuthorityClass::Archive,
        sealed.as_str(),
        root,
        &rel,
        ground.watch(),
    )?;
    let have = |id: &String| {
        let held = incoming.as_ref().and_then(|h| h.coverage.get(id));
        held.copied().unwrap_or(0)
    };
    notes.missing = live
        .into_iter()
        .filter_map(|(conversation, count)| {
            let have = have(&conversation);
            (have < count).then(|| Missing {
                conversation,
                provider: None,
                native_id: None,
                records: Count(count - have),
                reason: MissingReason::InOutgoingArchive,
            })
        })
        .collect();
    let behind = Behind {
        root,
        outgoing: Some(&outgoing),
        incoming: incoming.as_ref(),
        reason: MissingReason::InOutgoingArchive,
        watch: ground.watch(),
    };
    notes.lost = behind.list(&mut notes.missing)?;
    Ok(())
}
