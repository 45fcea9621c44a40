//! What follows once `CURRENT` was replaced, and what is done about a run that was killed.
//!
//! `CURRENT` decides. When it names the target of an intent, the run has taken effect and is
//! finished: the outgoing generation is sealed, the promotion written to the coverage ledger, the
//! archive probed, the receipt written. Otherwise it has not, and is closed: what it was building is
//! removed and the receipt says `failed`. Each step can be repeated, so a second kill costs nothing.
//! A run that others followed was not killed: its receipt was lost, and only that is made anew.

use super::RunId;
use super::event::EventLog;
use super::intent::{Intent, Purpose, open_intents};
use super::log_file;
use super::probe::{Probe, probe};
use super::quarantine::{moved_by, put_back};
use super::receipt::{self, ActionOutcome, OutcomeWord, Receipt, RunStatus, write_receipt};
use std::fs::symlink_metadata;
use std::time::Duration;

use crate::disk::{ArchiveShared, Capture, EntryKind, Root};
use crate::error::{Error, ErrorKind, Result};
use crate::model::interrupt::Interrupt;
use crate::model::plan::{Action, Coverage};
use crate::store::archive::{ArchiveReader, Head, promote_line};
use crate::store::coverage;
use crate::store::generation::{self, Generation, GenerationId, current_or_none};
use crate::store::seal::{self, Sealing};
use crate::store::{backup, layout};

const PATIENCE: Duration = Duration::from_secs(2);

/// What became of a run that was killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The run.
    pub run_id: RunId,
    /// How it ended.
    pub status: RunStatus,
    /// Where its receipt is, relative to the data directory.
    pub receipt: String,
}

/// What was done behind the replacement of `CURRENT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completed {
    /// The sealed outgoing generation.
    pub backup_id: Option<String>,
    /// What the probes found; none after an undo, which puts back what was there.
    pub probes: Vec<Probe>,
    /// Whether a probe failed and the old generation is live again.
    pub rolled_back: bool,
    /// What the archive holds now.
    pub coverage: Option<Coverage>,
}

/// Who probes a promoted archive: what a disk does to one process may be over for the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// The run itself. A write probe that the disk fails says nothing about the archive, and nothing
    /// that was written since can be relied on in this process: the next one finishes the run.
    First,
    /// A later one: whatever fails then is a reason to go back.
    Later,
}

/// Seals the outgoing generation, writes the promotion to the coverage ledger and probes the
/// archive. `CURRENT` names the intent's target by now. A failed probe makes it name the old
/// generation again.
///
/// # Errors
/// `io`, `no-space`, `permission-denied`: the run is then finished by the next one.
pub fn complete_promotion(
    cap: Capture<'_>,
    log: &mut EventLog,
    intent: &Intent,
    sole_copy: bool,
    attempt: Attempt,
    now_ms: i64,
) -> Result<Completed> {
    let root = cap.root();
    let Some(target) = &intent.target else {
        return Err(Error::new(
            ErrorKind::Internal,
            "a run without a target replaced CURRENT",
        ));
    };
    // The live generation is never sealed: it will be written to.
    seal::lift(cap, &target.generation)?;
    let outgoing = intent
        .before
        .as_ref()
        .filter(|before| **before != target.generation);
    let mut backup_id = None;
    if let Some(before) = outgoing
        && root.exists(&format!("{}/{before}", layout::GENERATIONS))?
    {
        seal::write(
            cap,
            &Sealing {
                generation: before,
                superseded_by: Some(&target.generation),
                run_id: Some(intent.run_id.as_str()),
                reason: target.purpose.word(),
                sole_copy,
                now_ms,
            },
            // What follows the replacement of CURRENT is not left half-way for a signal.
            &Interrupt::new(),
        )?;
        backup_id = Some(before.to_string());
        log.add(&intent.run_id, now_ms, "sealed", before.as_str())?;
    }
    for id in &intent.keeps {
        let folder = format!("{}/{id}", layout::GENERATIONS);
        if *id != target.generation && !seal::is_sealed(root, id)? && root.exists(&folder)? {
            let sealing = Sealing {
                generation: id,
                superseded_by: Some(&target.generation),
                run_id: Some(intent.run_id.as_str()),
                reason: target.purpose.word(),
                sole_copy: true,
                now_ms,
            };
            seal::write(cap, &sealing, &Interrupt::new())?;
        }
    }
    let undo = target.purpose == Purpose::Undo;
    let end = match live_end(root, &target.generation, undo) {
        // It was damaged since: a reason to go back, as a probe that fails is. Nothing was added to it.
        Err(e) if attempt == Attempt::Later && !undo && is_damage(&e) => Err(e),
        end => Ok(end?),
    };
    if let Ok((generation, head)) = &end {
        promote_line(
            cap,
            generation,
            *head,
            target.purpose.word(),
            Some(receipt::path_of(&intent.run_id)),
        )?;
        log.add(
            &intent.run_id,
            now_ms,
            "promoted",
            target.generation.as_str(),
        )?;
    }
    if undo {
        return Ok(Completed {
            backup_id,
            probes: Vec::new(),
            rolled_back: false,
            coverage: coverage_of(root),
        });
    }
    let (probes, error) = match end {
        Ok((generation, head)) => probe(cap, &generation, head),
        Err(e) => {
            let tried = Err(e);
            (vec![Probe::of("read", &tried)], tried.err())
        }
    };
    if let Some(error) = error
        && attempt == Attempt::First
        && matches!(
            error.kind(),
            ErrorKind::Io | ErrorKind::NoSpace | ErrorKind::PermissionDenied
        )
    {
        return Err(error);
    }
    let failed = probes.iter().any(|p| !p.ok);
    log.add(
        &intent.run_id,
        now_ms,
        "probed",
        if failed { "failed" } else { "ok" },
    )?;
    // Without an older generation there is nothing to go back to: the receipt says what is wrong.
    let rolled_back = match outgoing {
        Some(before) if failed && backup_id.is_some() => {
            roll_back(cap, log, intent, before, &target.generation, now_ms)?;
            true
        }
        _ => false,
    };
    Ok(Completed {
        backup_id,
        probes,
        rolled_back,
        coverage: coverage_of(root),
    })
}

fn is_damage(e: &Error) -> bool {
    matches!(
        e.kind(),
        ErrorKind::ArchiveCorrupt | ErrorKind::ArchiveUnreadable | ErrorKind::ArchiveMissing
    )
}

fn roll_back(
    cap: Capture<'_>,
    log: &mut EventLog,
    intent: &Intent,
    before: &GenerationId,
    target: &GenerationId,
    now_ms: i64,
) -> Result<()> {
    generation::set_current(cap, before)?;
    seal::lift(cap, before)?;
    let (generation, head) = live_end(cap.root(), before, true)?;
    promote_line(
        cap,
        &generation,
        head,
        "rolled-back",
        Some(receipt::path_of(&intent.run_id)),
    )?;
    log.add(&intent.run_id, now_ms, "rolled-back", before.as_str())?;
    if intent.target.as_ref().is_some_and(|t| t.made_here) {
        cap.remove_candidate(target.as_str())?;
    }
    Ok(())
}

/// The generation as the coverage ledger will name it. One that is put back damaged can't always
/// say its own end: then what was promised of it last counts.
fn live_end(root: &Root, id: &GenerationId, promised: bool) -> Result<(Generation, Head)> {
    let mut last = None;
    if promised {
        coverage::for_each(
            root,
            &mut |_, line| {
                let (generation, commit, head) = line.promise();
                if generation == id {
                    last = Some((line.archive().to_owned(), Head { commit, head }));
                }
                Ok(())
            },
            &mut |_| Ok(()),
        )?;
    }
    let manifest = generation::manifest(root, id);
    if let Some((archive, head)) = last {
        let manifest = match manifest {
            Ok(Some(manifest)) => manifest,
            _ => generation::Manifest::made(id, &archive, 0),
        };
        return Ok((
            Generation {
                id: id.clone(),
                manifest,
            },
            head,
        ));
    }
    let reader = ArchiveReader::open(root)?
        .ok_or_else(|| Error::new(ErrorKind::ArchiveMissing, "no archive is live"))?;
    Ok((reader.generation().clone(), reader.head()?))
}

/// What the live archive holds; `None` when it can't be told.
#[must_use]
pub fn coverage_of(root: &Root) -> Option<Coverage> {
    let counts = ArchiveReader::open(root).ok().flatten()?.counts().ok()?;
    Some(counts.into())
}

/// What the archive of a generation holds that no connection is open to; `None` when it can't be
/// told.
#[must_use]
pub fn coverage_in(root: &Root, generation: &Generation) -> Option<Coverage> {
    let _lock = ArchiveShared::acquire(root, PATIENCE).ok()?;
    let db = layout::archive_db(generation.id.as_str());
    let reader = ArchiveReader::open_aside(root, &db, &generation.manifest).ok()?;
    let counts = reader.counts().ok()?;
    Some(counts.into())
}

/// Bytes of what killed runs were building, which is removed when they are closed.
///
/// # Errors
/// As [`open_intents`].
pub fn given_back(root: &Root) -> Result<u64> {
    let current = current_or_none(root)?;
    let mut bytes = 0;
    for (_, intent) in open_intents(root)? {
        let target = intent.and_then(|i| i.target).filter(|t| t.made_here);
        let Some(target) = target.filter(|t| Some(&t.generation) != current.as_ref()) else {
            continue;
        };
        let folder = format!("{}/{}", layout::GENERATIONS, target.generation);
        for entry in root.list(&folder)?.unwrap_or_default() {
            // By metadata alone: it may be open in SQLite.
            let path = root.full(&format!("{folder}/{}", entry.name));
            bytes += symlink_metadata(path).map_or(0, |meta| meta.len());
        }
    }
    Ok(bytes)
}

/// Finishes or closes every run that was killed. Called by everyone who takes the writer lock,
/// before anything else is written. Damaged intents are left to a plan.
///
/// # Errors
/// `schema-too-new` when a newer program left one, before anything is done; `no-space`,
/// `permission-denied`, `io`; what was finished stays so.
pub fn finish_interrupted(
    cap: Capture<'_>,
    now_ms: i64,
    interrupt: &Interrupt,
) -> Result<Vec<Finished>> {
    remove_half_written(cap)?;
    let open = open_intents(cap.root())?;
    let mut done = Vec::new();
    for (_, intent) in open {
        let Some(intent) = intent else {
            continue;
        };
        interrupt.check()?;
        let mut log = EventLog::open(cap)?;
        done.push(close(cap, &mut log, &intent, now_ms)?);
    }
    Ok(done)
}

/// Records that a killed writer had not given their names yet. Those of other files have one name
/// each and are written over; these would add up.
fn remove_half_written(cap: Capture<'_>) -> Result<()> {
    for folder in [
        layout::INTENTS,
        layout::RECEIPTS,
        layout::FAILURES,
        layout::ACCEPTED,
    ] {
        for entry in cap.root().list(folder)?.unwrap_or_default() {
            let run = entry
                .name
                .strip_prefix('.')
                .and_then(|n| n.strip_suffix(".json.tmp"))
                .and_then(RunId::parse);
            if run.is_some() && entry.kind == EntryKind::File {
                cap.remove_derived(&format!("{folder}/{}", entry.name))?;
            }
        }
    }
    Ok(())
}

/// Finishes or closes one run.
///
/// # Errors
/// As [`finish_interrupted`].
pub fn close(
    cap: Capture<'_>,
    log: &mut EventLog,
    intent: &Intent,
    now_ms: i64,
) -> Result<Finished> {
    let root = cap.root();
    let past = past_of(root, intent)?;
    let took_effect = match &intent.target {
        Some(target) => {
            !matches!(past, Past::Followed(_))
                && current_or_none(root)?.as_ref() == Some(&target.generation)
        }
        None => false,
    };
    let mut receipt = Receipt {
        format: receipt::FORMAT,
        run_id: intent.run_id.clone(),
        kind: intent.kind,
        fingerprint: intent.fingerprint.clone(),
        status: RunStatus::Failed,
        begun_ms: intent.begun_ms,
        ended_ms: now_ms,
        cass_version: env!("CARGO_PKG_VERSION").to_owned(),
        actions: outcomes(
            intent,
            took_effect || past == Past::Followed(RunStatus::Applied),
        ),
        before: intent.before.clone(),
        after: None,
        backup_id: None,
        moved: moved_by(root, &intent.run_id)?,
        coverage_before: None,
        coverage_after: None,
        probes: Vec::new(),
        replaced_log: false,
        missing: 0,
        undoes: intent.undoes.clone(),
        error: None,
        closed_by_later_run: true,
    };
    if took_effect {
        let done = complete_promotion(cap, log, intent, true, Attempt::Later, now_ms)?;
        receipt.status = if done.rolled_back {
            RunStatus::RolledBack
        } else {
            RunStatus::Applied
        };
        receipt.backup_id = done.backup_id;
        receipt.probes = done.probes;
        receipt.coverage_after = done.coverage;
    } else if let (Some(target), Some(before)) = (&intent.target, &intent.before)
        && past == Past::Last
        && current_or_none(root)?.as_ref() == Some(before)
    {
        // It was killed between going back and saying so.
        roll_back(cap, log, intent, before, &target.generation, now_ms)?;
        receipt.status = RunStatus::RolledBack;
        receipt.error = Some("a probe failed after the promotion".to_owned());
    } else if let Past::Followed(status) = past {
        receipt.status = status;
        if let Some(before) = &intent.before
            && seal::is_sealed(root, before)?
        {
            receipt.backup_id = Some(before.to_string());
        }
    } else if let Some(backup) = made_by(cap, intent)? {
        receipt.status = RunStatus::Applied;
        receipt.actions = outcomes(intent, true);
        receipt.backup_id = Some(backup);
    } else if log_file::was_written(intent) {
        receipt.status = RunStatus::Applied;
        receipt.actions = outcomes(intent, true);
        receipt.replaced_log = intent.replaces_log();
    } else {
        if let Some(target) = intent.target.as_ref().filter(|t| t.made_here) {
            cap.remove_candidate(target.generation.as_str())?;
        }
        // What it put aside for a promotion that did not come is wanted again.
        if intent.target.is_some() {
            for moved in std::mem::take(&mut receipt.moved) {
                put_back(cap, &moved)?;
            }
        }
        receipt.error = Some("the run was killed before it took effect".to_owned());
    }
    receipt.after = match past {
        Past::Followed(RunStatus::Applied) => intent.target.as_ref().map(|t| t.generation.clone()),
        Past::Followed(_) => intent.before.clone(),
        Past::None | Past::Last => current_or_none(root)?,
    };
    let path = write_receipt(cap, log, &receipt)?;
    Ok(Finished {
        run_id: intent.run_id.clone(),
        status: receipt.status,
        receipt: path,
    })
}

/// What is known of a run's promotion beside `CURRENT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Past {
    /// It promoted nothing.
    None,
    /// The newest line of the ledger is its own.
    Last,
    /// Others promoted or committed since: it had a receipt, which is gone. This is how it ended.
    /// Nothing of it is finished or taken back, whatever `CURRENT` names by now.
    Followed(RunStatus),
}

/// What the ledger, or a seal on what only this run could have made live, says of a promotion.
fn past_of(root: &Root, intent: &Intent) -> Result<Past> {
    let Some(target) = &intent.target else {
        return Ok(Past::None);
    };
    let path = receipt::path_of(&intent.run_id);
    let (mut own, mut last) = (None, false);
    coverage::for_each(
        root,
        &mut |_, line| {
            // What commits finishes an open run first.
            let of_this = line.promotion_of(&path);
            last = of_this.is_some();
            if let Some(generation) = of_this {
                own = Some(if *generation == target.generation {
                    RunStatus::Applied
                } else {
                    RunStatus::RolledBack
                });
            }
            Ok(())
        },
        &mut |_| Ok(()),
    )?;
    Ok(match own {
        Some(_) if last => Past::Last,
        Some(status) => Past::Followed(status),
        None if target.made_here && seal::is_sealed(root, &target.generation)? => {
            Past::Followed(RunStatus::Applied)
        }
        None => Past::None,
    })
}

/// The backup of a run that had nothing else to do and was killed before its receipt. What it had
/// not finished copying is removed.
fn made_by(cap: Capture<'_>, intent: &Intent) -> Result<Option<String>> {
    let creates = |a: &Action| matches!(a, Action::CreateBackup { .. });
    if !intent.actions.iter().any(creates) {
        return Ok(None);
    }
    cap.remove_unfinished(layout::BACKUP_STAGING)?;
    if !intent.actions.iter().all(creates) {
        return Ok(None);
    }
    Ok(backup::list(cap.root())?
        .into_iter()
        .filter_map(|(_, b)| b.ok())
        .find(|b| b.run_id.as_deref() == Some(intent.run_id.as_str()))
        .map(|b| b.backup_id.to_string()))
}

fn outcomes(intent: &Intent, took_effect: bool) -> Vec<ActionOutcome> {
    let outcome = if took_effect {
        OutcomeWord::Done
    } else {
        OutcomeWord::Unknown
    };
    intent
        .actions
        .iter()
        .map(|action| ActionOutcome {
            action: action.word().to_owned(),
            outcome,
            detail: match took_effect {
                true => format!("{action}; the run was killed, and a later one finished it"),
                false => format!("not known: {action}; the run was killed before it took effect"),
            },
        })
        .collect()
}
