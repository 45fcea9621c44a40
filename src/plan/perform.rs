//! The interpreter: one action after the other, each told to the event log when it is done.

use std::collections::BTreeSet;

use super::loss::accept;
use super::sealed::Plan;
use super::session_log::Logs;
use super::stage::{Staged, givers, outgoing, stage};
use crate::disk::{Capture, Root};
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::model::plan::{Action, Coverage, DerivedAsset, FORCE_REBUILD, PlanKind, Recipe};
use crate::model::watch::Watch;
use crate::store::archive::ArchiveWriter;
use crate::store::backup::{self, Making};
use crate::store::derived::{Derived, Lexical};
use crate::store::generation::{self, GenerationId, Live};
use crate::store::layout;
use crate::store::mirror::MirrorWriter;
use crate::store::run::{
    self, ActionOutcome, Attempt, Completed, EventLog, Failure, Intent, Moved, OutcomeWord,
    Purpose, Receipt, RunId, RunStatus, Target,
};

/// How performing ended, once the intent was written.
pub(super) enum Performed {
    /// Everything was done.
    Done(Box<Receipt>),
    /// Something failed, or was taken back.
    Failed {
        error: Error,
        receipt: Option<Box<Receipt>>,
        context: Option<String>,
    },
}

/// What a run has done so far.
struct Run<'r> {
    env: &'r Env,
    cap: Capture<'r>,
    watch: Watch<'r>,
    plan: &'r Plan,
    intent: Intent,
    log: EventLog,
    staged: Option<Staged>,
    completed: Option<Completed>,
    moved: Vec<Moved>,
    outcomes: Vec<ActionOutcome>,
    backup_id: Option<String>,
    /// What is wrong with a candidate that did not verify.
    findings: Vec<String>,
}

/// Carries out a plan that was approved and whose gates are open.
///
/// # Errors
/// What keeps the intent from being written: nothing has changed then.
pub(super) fn perform(
    env: &Env,
    cap: Capture<'_>,
    plan: &Plan,
    watch: Watch<'_>,
) -> Result<Performed> {
    let intent = intent_of(env, cap, plan)?;
    let mut log = EventLog::open(cap)?;
    let before = run::coverage_of(cap.root());
    run::write_intent(cap, &intent)?;
    log.add(
        &intent.run_id,
        env.now_ms(),
        "begun",
        plan.fingerprint().as_str(),
    )?;
    let mut run = Run {
        env,
        cap,
        watch,
        plan,
        intent,
        log,
        staged: None,
        completed: None,
        moved: Vec::new(),
        outcomes: Vec::new(),
        backup_id: None,
        findings: Vec::new(),
    };
    for action in &plan.body().actions {
        let done = watch.interrupt.check().and_then(|()| run.act(action));
        match done {
            Ok(detail) => {
                let told = run
                    .log
                    .add(&run.intent.run_id, env.now_ms(), action.word(), &detail);
                run.outcome(action, OutcomeWord::Done, detail);
                if let Err(e) = told {
                    return Ok(run.fail(action, e, before));
                }
            }
            Err(e) => {
                run.outcome(action, OutcomeWord::Failed, e.message().to_owned());
                return Ok(run.fail(action, e, before));
            }
        }
    }
    let receipt = run.receipt(RunStatus::Applied, before, None);
    match run::write_receipt(cap, &mut run.log, &receipt) {
        Ok(_) => Ok(Performed::Done(Box::new(receipt))),
        // All of it took effect; who next takes the lock writes the receipt.
        Err(error) => Ok(Performed::Failed {
            error,
            receipt: None,
            context: None,
        }),
    }
}

/// The id behind every generation that is there or was ever live.
pub(super) fn fresh_generation(cap: Capture<'_>) -> Result<GenerationId> {
    let mut next = generation::next_id(cap.root())?;
    crate::store::coverage::for_each(
        cap.root(),
        &mut |_, line| {
            next = next.clone().max(line.promise().0.next());
            Ok(())
        },
        &mut |_| Ok(()),
    )?;
    Ok(next)
}

fn intent_of(env: &Env, cap: Capture<'_>, plan: &Plan) -> Result<Intent> {
    let body = plan.body();
    let purpose = match body.kind {
        PlanKind::Undo => Purpose::Undo,
        PlanKind::BackupRestore => Purpose::Restore,
        PlanKind::Migrate => Purpose::Migrate,
        _ => Purpose::Repair,
    };
    let mut target = None;
    for action in &body.actions {
        match action {
            Action::StageCandidate { .. } => {
                target = Some(Target {
                    generation: fresh_generation(cap)?,
                    purpose,
                    made_here: true,
                });
            }
            Action::RePoint { generation, .. } => {
                let generation = GenerationId::parse(generation).ok_or_else(|| {
                    Error::new(ErrorKind::Internal, "a plan re-points to no generation")
                })?;
                target = Some(Target {
                    generation,
                    purpose: if purpose == Purpose::Undo {
                        purpose
                    } else {
                        Purpose::RePoint
                    },
                    made_here: false,
                });
            }
            _ => {}
        }
    }
    let undoes = body.options.get("run").and_then(|r| RunId::parse(r));
    let before = generation::current_or_none(cap.root())?;
    let keeps = match before {
        Some(_) => Vec::new(),
        None => keeps(cap.root(), plan)?,
    };
    Ok(Intent {
        format: run::INTENT_FORMAT,
        run_id: RunId::fresh(),
        kind: body.kind,
        fingerprint: plan.fingerprint().as_str().to_owned(),
        begun_ms: env.now_ms(),
        cass_version: env!("CARGO_PKG_VERSION").to_owned(),
        actions: body.actions.clone(),
        before,
        keeps,
        target,
        undoes: undoes.filter(|_| body.kind == PlanKind::Undo),
    })
}

/// What is left of the old archive is kept even if `CURRENT` does not name it: some day more of it may
/// be readable.
fn keeps(root: &Root, plan: &Plan) -> Result<Vec<GenerationId>> {
    let recipes = plan.body().actions.iter().filter_map(|a| match a {
        Action::StageCandidate { recipe } => Some(recipe),
        _ => None,
    });
    let mut gave: BTreeSet<GenerationId> = recipes
        .flat_map(givers)
        .filter_map(GenerationId::parse)
        .collect();
    gave.extend(outgoing(root, plan)?);
    Ok(gave.into_iter().collect())
}

impl Run<'_> {
    fn act(&mut self, action: &Action) -> Result<String> {
        let (cap, now) = (self.cap, self.env.now_ms());
        match action {
            Action::FinishInterrupted { run_id } => self.finish(run_id),
            Action::StageCandidate { recipe } => {
                let id = self.target()?.generation.clone();
                let staged =
                    stage(self.env, cap, self.plan, recipe, &id, self.watch).map_err(|failed| {
                        self.findings = failed.findings;
                        failed.error
                    })?;
                let detail = staged.detail.clone();
                self.staged = Some(staged);
                Ok(detail)
            }
            Action::PromoteCandidate => {
                let Some(staged) = &self.staged else {
                    return Err(Error::new(
                        ErrorKind::Internal,
                        "a plan promotes what it did not stage",
                    ));
                };
                self.log
                    .add(&self.intent.run_id, now, "verified", &staged.digest)?;
                let id = staged.generation.id.clone();
                generation::set_current(cap, &id)?;
                self.complete()
            }
            Action::RePoint { generation, .. } => {
                let id = self.target()?.generation.clone();
                generation::set_current(cap, &id)?;
                self.complete()?;
                Ok(format!("{generation} is live"))
            }
            Action::RenewLedger { .. } => {
                let moved = run::put_aside(cap, &self.intent.run_id, layout::COVERAGE)?;
                self.moved.push(moved);
                if self.staged.is_some() {
                    return Ok("the ledger begins anew with the promotion".to_owned());
                }
                // Every commit of the verified archive gets its line again.
                match generation::locate(cap.root())? {
                    Live::Present(live) => drop(ArchiveWriter::open(cap, live)?),
                    Live::Never { .. } => {}
                }
                Ok("the ledger was written again from the archive".to_owned())
            }
            Action::AcceptLoss { .. } => {
                accept(cap, self.plan, &self.intent, self.staged.as_ref(), now)
            }
            // What is in force follows from the receipts.
            Action::WithdrawAcceptance { run_id } => Ok(format!(
                "what {run_id} put on record as lost is promised again"
            )),
            Action::RebuildDerived { asset } => self.rebuild_derived(*asset, now),
            Action::CreateBackup { label, .. } => self.create_backup(label.as_deref()),
            Action::ReclaimOrphan { generation, .. } => {
                let rel = format!("{}/{generation}", layout::GENERATIONS);
                let moved = run::put_aside(cap, &self.intent.run_id, &rel)?;
                let detail = format!("{} is now {}", moved.from, moved.to);
                self.moved.push(moved);
                Ok(detail)
            }
            Action::ClearMarker { marker } => {
                let moved = run::clear_marker(cap, &self.intent.run_id, marker)?;
                let detail = format!("{} is now {}", moved.from, moved.to);
                self.moved.push(moved);
                Ok(detail)
            }
            Action::PutBack { run_id } => {
                let run = RunId::parse(run_id)
                    .ok_or_else(|| Error::new(ErrorKind::Internal, "a plan names no run"))?;
                let mut count = 0u64;
                for moved in run::moved_by(cap.root(), &run)? {
                    self.moved.push(run::put_back(cap, &moved)?);
                    count += 1;
                }
                Ok(format!("{count} moved back"))
            }
            Action::WriteSessionLog { log } => self.logs().write(log),
            Action::PutBackSessionLog { log, capture } => self.logs().put_back(log, capture),
        }
    }

    fn logs(&self) -> Logs<'_> {
        Logs {
            env: self.env,
            cap: self.cap,
            run: &self.intent.run_id,
            close_turn: self.plan.body().options.contains_key("close_turn"),
            watch: self.watch,
        }
    }

    fn target(&self) -> Result<&Target> {
        self.intent.target.as_ref().ok_or_else(|| {
            Error::new(
                ErrorKind::Internal,
                "a plan promotes and names no generation",
            )
        })
    }

    fn complete(&mut self) -> Result<String> {
        let plan = self.plan;
        let done = run::complete_promotion(
            self.cap,
            &mut self.log,
            &self.intent,
            plan.notes().sole_copies > 0 || !plan.body().missing.is_empty() || begins(plan),
            Attempt::First,
            self.env.now_ms(),
        )?;
        self.backup_id.clone_from(&done.backup_id);
        let failed = done.probes.iter().find(|p| !p.ok).cloned();
        let rolled_back = done.rolled_back;
        self.completed = Some(done);
        match failed {
            None => Ok(format!(
                "{} is live; {} is sealed",
                self.target()?.generation,
                self.backup_id.as_deref().unwrap_or("nothing")
            )),
            Some(probe) if rolled_back => Err(Error::new(
                ErrorKind::RolledBack,
                format!(
                    "the {} probe failed after the promotion, and the old generation is live again: {}",
                    probe.name, probe.detail
                ),
            )
            .with_hint("Nothing is lost. The failure context says what was tried.")),
            Some(probe) => Err(Error::new(
                ErrorKind::RepairFailed,
                format!(
                    "the {} probe failed after the promotion, and there is no older generation to \
                     go back to: {}",
                    probe.name, probe.detail
                ),
            )),
        }
    }

    fn finish(&mut self, run_id: &str) -> Result<String> {
        let run = RunId::parse(run_id)
            .ok_or_else(|| Error::new(ErrorKind::Internal, "a plan names no run"))?;
        let found = run::open_intents(self.cap.root())?
            .into_iter()
            .find(|(id, _)| *id == run);
        match found {
            Some((_, Some(intent))) => {
                let done = run::close(self.cap, &mut self.log, &intent, self.env.now_ms())?;
                Ok(format!("{run}: {}, {}", done.status.word(), done.receipt))
            }
            // Nothing tells what it was about; CURRENT was replaced or not, and both are whole.
            Some((_, None)) => {
                let rel = format!("{}/{run}.json", layout::INTENTS);
                let moved = run::put_aside(self.cap, &self.intent.run_id, &rel)?;
                let detail = format!("its intent is damaged and is now {}", moved.to);
                self.moved.push(moved);
                Ok(detail)
            }
            None => Ok("it was finished already".to_owned()),
        }
    }

    fn rebuild_derived(&mut self, asset: DerivedAsset, now: i64) -> Result<String> {
        match asset {
            DerivedAsset::LexicalIndex => {
                let (progress, interrupt) = (self.watch.progress, self.watch.interrupt);
                let done = if self.plan.body().options.contains_key(FORCE_REBUILD) {
                    Lexical.renew(self.cap, progress, interrupt)?
                } else {
                    Lexical.refresh(self.cap, true, progress, interrupt)?
                };
                Ok(if done.is_some() {
                    "the lexical index serves every message".to_owned()
                } else {
                    "there is no archive to index".to_owned()
                })
            }
            DerivedAsset::MirrorIndex => {
                MirrorWriter::renew_index(self.cap, now)?;
                Ok("the mirror's index was made again from packs and ledgers".to_owned())
            }
        }
    }

    fn create_backup(&mut self, label: Option<&str>) -> Result<String> {
        let Live::Present(live) = generation::locate(self.cap.root())? else {
            return Err(Error::new(
                ErrorKind::NotInitialized,
                "there is no archive to back up",
            ));
        };
        let made = backup::create(
            self.cap,
            &Making {
                generation: &live,
                label,
                run_id: Some(self.intent.run_id.as_str()),
                now_ms: self.env.now_ms(),
            },
            self.watch.interrupt,
        )?;
        let detail = format!("{} is made and verified", made.backup_id);
        self.backup_id = Some(made.backup_id.to_string());
        Ok(detail)
    }

    fn outcome(&mut self, action: &Action, outcome: OutcomeWord, detail: String) {
        self.outcomes.push(ActionOutcome {
            action: action.word().to_owned(),
            outcome,
            detail,
        });
    }

    /// Takes back what has no effect yet, and leaves the context of the failure.
    fn fail(mut self, action: &Action, error: Error, before: Option<Coverage>) -> Performed {
        let (cap, now) = (self.cap, self.env.now_ms());
        let target = self.intent.target.clone();
        let live = crate::store::generation::current_or_none(cap.root())
            .ok()
            .flatten();
        if let Some(target) = target {
            if live.as_ref() == Some(&target.generation)
                && self.intent.before.as_ref() != Some(&target.generation)
                && self.completed.is_none()
            {
                // It has taken effect: who next takes the lock finishes it. No receipt says less.
                return Performed::Failed {
                    error: Error::new(
                        ErrorKind::RepairFailed,
                        format!(
                            "the archive of the plan is live, but what follows failed: {}",
                            error.message()
                        ),
                    )
                    .with_hint("The next command that writes finishes it.")
                    .with_hint_argv(["cass", "index"])
                    .with_source(error),
                    receipt: None,
                    context: None,
                };
            }
            if target.made_here && live.as_ref() != Some(&target.generation) {
                // Worth nothing, and the next try would need its room.
                let _ = cap.remove_candidate(target.generation.as_str());
            }
        }
        if action.is_of_log() && run::was_written(&self.intent) {
            return Performed::Failed {
                error: Error::new(
                    ErrorKind::RepairFailed,
                    format!(
                        "the log of the plan is in its place, but what follows failed: {}",
                        error.message()
                    ),
                )
                .with_hint("The next command that writes finishes it.")
                .with_hint_argv(["cass", "index"])
                .with_source(error),
                receipt: None,
                context: None,
            };
        }
        if self.intent.target.is_some() && self.completed.is_none() {
            for moved in std::mem::take(&mut self.moved) {
                // What can't go back now is put back by who closes the run.
                let _ = run::put_back(cap, &moved);
            }
        }
        let status = if error.kind() == ErrorKind::RolledBack {
            RunStatus::RolledBack
        } else {
            RunStatus::Failed
        };
        // What was wrong with the circumstances is no reason to keep anybody from trying again.
        let passing = matches!(
            error.kind(),
            ErrorKind::Interrupted
                | ErrorKind::Terminated
                | ErrorKind::LockBusy
                | ErrorKind::NoSpace
                | ErrorKind::PermissionDenied
                | ErrorKind::PlanMismatch
        );
        // A marker keeps the archive from being repaired, which a log has nothing to do with.
        let of_log = action.is_of_log();
        let context = if passing || of_log {
            None
        } else {
            run::record_failure(
                cap,
                &Failure {
                    format: run::FAILURE_FORMAT,
                    run_id: self.intent.run_id.clone(),
                    kind: self.intent.kind,
                    fingerprint: self.intent.fingerprint.clone(),
                    at_ms: now,
                    action: Some(action.clone()),
                    error_kind: error.kind(),
                    message: error.message().to_owned(),
                    findings: std::mem::take(&mut self.findings),
                },
            )
            .ok()
        };
        let receipt = self.receipt(status, before, Some(error.message().to_owned()));
        let written = run::write_receipt(cap, &mut self.log, &receipt).is_ok();
        Performed::Failed {
            error: if passing || status == RunStatus::RolledBack {
                error
            } else if of_log {
                Error::new(
                    ErrorKind::RepairFailed,
                    format!("{}; the log is as it was", error.message()),
                )
                .with_hint("The run's receipt says how far it came.")
                .with_source(error)
            } else {
                as_failure(error)
            },
            receipt: written.then(|| Box::new(receipt)),
            context,
        }
    }

    fn receipt(
        &self,
        status: RunStatus,
        before: Option<Coverage>,
        error: Option<String>,
    ) -> Receipt {
        let root = self.cap.root();
        let completed = self.completed.as_ref();
        Receipt {
            format: run::RECEIPT_FORMAT,
            run_id: self.intent.run_id.clone(),
            kind: self.intent.kind,
            fingerprint: self.intent.fingerprint.clone(),
            status,
            begun_ms: self.intent.begun_ms,
            ended_ms: self.env.now_ms(),
            cass_version: env!("CARGO_PKG_VERSION").to_owned(),
            actions: self.outcomes.clone(),
            before: self.intent.before.clone(),
            after: crate::store::generation::current_or_none(root)
                .ok()
                .flatten(),
            backup_id: self.backup_id.clone(),
            moved: self.moved.clone(),
            coverage_before: before,
            coverage_after: completed
                .and_then(|c| c.coverage)
                .or_else(|| run::coverage_of(root)),
            probes: completed.map_or_else(Vec::new, |c| c.probes.clone()),
            replaced_log: status == RunStatus::Applied && self.intent.replaces_log(),
            missing: self.plan.body().missing.total.0,
            undoes: self.intent.undoes.clone(),
            error,
            closed_by_later_run: false,
        }
    }
}

/// Whether the plan begins a new archive.
fn begins(plan: &Plan) -> bool {
    let begin = |a: &Action| {
        matches!(
            a,
            Action::StageCandidate {
                recipe: Recipe::Begin { .. }
            }
        )
    };
    plan.body().actions.iter().any(begin)
}

/// Every failure behind the intent is one of the repair; what caused it stays in the message.
fn as_failure(error: Error) -> Error {
    if error.kind() == ErrorKind::RepairFailed {
        return error;
    }
    Error::new(
        ErrorKind::RepairFailed,
        format!("{}; the archive is as it was", error.message()),
    )
    .with_hint(
        "Nothing is lost. The failure context says what was tried; a repeat needs \
         --allow-repeated-repair in the dry run.",
    )
    .with_source(error)
}
