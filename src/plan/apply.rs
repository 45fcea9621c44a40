//! Applying an approved plan.
//!
//! Writer lock; finish what a killed run left; plan again; compare; gates; room; intent; actions;
//! receipt. A refusal before the intent changes nothing.

use super::fingerprint::moved;
use super::ground::{Ground, Planner, nothing_there, refuse_unsafe};
use super::perform::{Performed, perform};
use super::room;
use super::sealed::{Approval, Plan};
use crate::disk::{Capture, Root, WriterLock};
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::index::make_data_dir;
use crate::model::plan::{Action, DerivedAsset, PlanKind};
use crate::model::watch::Watch;
use crate::store::archive::verify_generation;
use crate::store::generation::{self, Live};
use crate::store::run::{self, Finished, Receipt};
use crate::store::version::refuse_newer;

/// Inputs that moved and are named in a refusal.
const MOVED_SHOWN: usize = 20;

/// How an apply ended that was not refused.
#[derive(Debug)]
pub enum Ended {
    /// There was nothing to do.
    NoOp,
    /// Done.
    Applied {
        /// What was done.
        receipt: Box<Receipt>,
    },
    /// It was done before, and nothing has undone it.
    AlreadyApplied {
        /// The first receipt.
        receipt: Box<Receipt>,
    },
    /// It began and did not come to its end, or was taken back. Nothing is lost.
    Failed {
        /// What happened.
        error: Error,
        /// The receipt, unless it could not be written.
        receipt: Option<Box<Receipt>>,
        /// Where the failure context is, relative to the data directory.
        context: Option<String>,
    },
}

/// An apply that was not refused.
#[derive(Debug)]
pub struct Applied {
    /// The plan, as it was made again under the lock.
    pub plan: Plan,
    /// How it ended.
    pub ended: Ended,
    /// Runs of killed processes that were finished or closed first.
    pub finished: Vec<Finished>,
}

/// Applies what was approved, or refuses. The data directory is made where there is none and the plan
/// begins an archive.
///
/// # Errors
/// Refusals, after which nothing has changed: `not-initialized` where there is no data directory,
/// `lock-busy`,
/// `plan-mismatch` (its context names what moved), `blocked`, `no-space`, and what planning says.
pub fn apply(
    env: &Env,
    planner: &dyn Planner,
    approval: &Approval,
    watch: Watch<'_>,
) -> Result<Applied> {
    let root = match Root::open(env.data_dir())? {
        Some(root) => root,
        None => match begin(env, planner, approval, watch)? {
            Begun::Made(root) => root,
            Begun::NoOp(plan) => {
                return Ok(Applied {
                    plan: *plan,
                    ended: Ended::NoOp,
                    finished: Vec::new(),
                });
            }
        },
    };
    refuse_unsafe(&root)?;
    refuse_newer(&root)?;
    let lock = WriterLock::acquire(root, planner.kind().command(), env.now_ms())
        .map_err(|e| room::for_lock(env.data_dir(), e))?;
    let cap = Capture::new(&lock);
    let root = cap.root();
    let ground = Ground::under(env, root, watch);
    let mut finished = Vec::new();
    let mut plan = Plan::make(planner, &ground)?;
    let is_finishing = |plan: &Plan| {
        let actions = &plan.body().actions;
        !actions.is_empty()
            && actions
                .iter()
                .all(|a| matches!(a, Action::FinishInterrupted { .. }))
    };
    // A plan to finish killed runs is about the state before they are finished; any other is about
    // the state after.
    if !(is_finishing(&plan) && approves(approval, &plan)) {
        room::to_finish(root)?;
        finished = run::finish_interrupted(cap, env.now_ms(), watch.interrupt)?;
        if !finished.is_empty() {
            plan = Plan::make(planner, &ground)?;
        }
    }
    if !approves(approval, &plan) {
        return refuse(root, approval, plan, finished);
    }
    if let Some(error) = plan.blocked() {
        return Err(telling(error, &finished));
    }
    if plan.is_empty() {
        return Ok(Applied {
            plan,
            ended: Ended::NoOp,
            finished,
        });
    }
    may_begin(root, &plan, watch).map_err(|e| telling(e, &finished))?;
    let ended = match perform(env, cap, &plan, watch)? {
        Performed::Done(receipt) => Ended::Applied { receipt },
        Performed::Failed {
            error,
            receipt,
            context,
        } => Ended::Failed {
            error,
            receipt,
            context,
        },
    };
    Ok(Applied {
        plan,
        ended,
        finished,
    })
}

/// Room, and what else has to hold before anything is written.
fn may_begin(root: &Root, plan: &Plan, watch: Watch<'_>) -> Result<()> {
    if plan.body().kind == PlanKind::BackupRestore
        && !run::was_rehearsed(root, plan.fingerprint().as_str())?
    {
        return Err(Error::new(
            ErrorKind::Blocked,
            "a safety gate is shut (rehearsal): this restore was never rehearsed",
        )
        .with_context("gate", "rehearsal")
        .with_hint(
            "Nothing was changed. Run the command without --yes: it rehearses the restore.",
        ));
    }
    room::for_plan(root, plan)?;
    check_sound(root, plan, watch)
}

/// What was finished before a refusal is told with it.
fn telling(error: Error, finished: &[Finished]) -> Error {
    if finished.is_empty() {
        return error;
    }
    let hint = error.hint().unwrap_or_default();
    let hint = hint.strip_prefix("Nothing was changed.").unwrap_or(hint);
    let first = match finished.len() {
        1 => "A run that was killed was finished first",
        _ => "Runs that were killed were finished first",
    };
    let hint = format!(
        "{first}, and nothing else was changed. {}",
        hint.trim_start()
    );
    error
        .with_hint(hint.trim_end())
        .with_context("finished_runs", finished.len().to_string())
}

/// What a plan came to where there is no data directory.
enum Begun {
    Made(Root),
    NoOp(Box<Plan>),
}

/// Makes the data directory for a plan that was approved before there was one, and for no other.
fn begin(env: &Env, planner: &dyn Planner, approval: &Approval, watch: Watch<'_>) -> Result<Begun> {
    let plan = Plan::make(planner, &Ground::nowhere(env, watch))?;
    if plan.is_empty() && !planner.begins() {
        return Err(nothing_there(env));
    }
    if !approves(approval, &plan) {
        return Err(mismatch(approval, &plan, &[]));
    }
    if let Some(error) = plan.blocked() {
        return Err(error);
    }
    if plan.is_empty() {
        return Ok(Begun::NoOp(Box::new(plan)));
    }
    room::for_plan(&Root::absent(env.data_dir()), &plan)?;
    make_data_dir(env).map(Begun::Made)
}

fn approves(approval: &Approval, plan: &Plan) -> bool {
    match approval {
        Approval::Shown { fingerprint, .. } => fingerprint == plan.fingerprint(),
        Approval::Predeclared => plan.body().actions.iter().all(is_predeclared),
    }
}

/// What an operator may let run without having seen the plan: what only makes derived data anew.
fn is_predeclared(action: &Action) -> bool {
    matches!(
        action,
        Action::RebuildDerived {
            asset: DerivedAsset::LexicalIndex | DerivedAsset::MirrorIndex
        }
    )
}

/// Migrates the live archive for a command that holds the writer lock and has finished what killed
/// runs left. Nobody is asked: the plan has one recipe, which loses nothing and can be undone.
///
/// # Errors
/// As [`apply`].
pub fn migrate(
    env: &Env,
    cap: Capture<'_>,
    planner: &dyn Planner,
    watch: Watch<'_>,
) -> Result<Receipt> {
    let root = cap.root();
    let plan = Plan::make(planner, &Ground::under(env, root, watch))?;
    if plan.body().kind != PlanKind::Migrate || plan.is_empty() {
        return Err(Error::new(
            ErrorKind::Internal,
            "a plan that nobody approved is not one of a migration",
        ));
    }
    if let Some(error) = plan.blocked() {
        return Err(error);
    }
    room::for_plan(root, &plan)?;
    match perform(env, cap, &plan, watch)? {
        Performed::Done(receipt) => Ok(*receipt),
        Performed::Failed {
            error,
            context: Some(context),
            ..
        } => Err(error
            .with_hint(format!(
                "Nothing is lost, and the archive is read as it is; {context} says what was tried. \
                 It is not tried again before its marker is cleared, which this plans:"
            ))
            .with_hint_argv(["cass", "doctor", "repair", "--allow-repeated-repair"])),
        Performed::Failed { error, .. } => Err(error),
    }
}

fn refuse(
    root: &Root,
    approval: &Approval,
    plan: Plan,
    finished: Vec<Finished>,
) -> Result<Applied> {
    if let Approval::Shown { fingerprint, .. } = approval {
        // Of this command: a fingerprint of another was never approved for this one.
        let before = run::receipt_of(root, fingerprint.as_str())?;
        if let Some(receipt) = before.filter(|r| r.kind == plan.body().kind) {
            return Ok(Applied {
                plan,
                ended: Ended::AlreadyApplied {
                    receipt: Box::new(receipt),
                },
                finished,
            });
        }
    }
    Err(mismatch(approval, &plan, &finished))
}

/// What was approved is not what would be done.
fn mismatch(approval: &Approval, plan: &Plan, finished: &[Finished]) -> Error {
    let Approval::Shown {
        fingerprint,
        covered,
    } = approval
    else {
        return Error::new(
            ErrorKind::Blocked,
            "the state moved: what is needed now is not for an automatic run",
        )
        .with_context("gate", "auto-eligibility")
        .with_hint("Nothing was changed. This plans the repair:")
        .with_hint_argv(["cass", "doctor", "repair"]);
    };
    let changed = match finished {
        [] => "; nothing was changed",
        _ => "",
    };
    let mut error = Error::new(
        ErrorKind::PlanMismatch,
        format!(
            "the plan with this fingerprint is not the plan for the state as it is now{changed}"
        ),
    )
    .with_context("approved", fingerprint.as_str())
    .with_context("current", plan.fingerprint().as_str())
    .with_hint("Run the command without --yes and read the new plan.");
    if let Some(covered) = covered {
        let now = serde_json::to_value(plan.body()).unwrap_or_default();
        let names = moved(covered, &now, MOVED_SHOWN);
        error = error.with_context("moved", names.join(" "));
    }
    telling(error, finished)
}

/// A backup is made of an archive that verifies, and of no other: told before anything is written.
fn check_sound(root: &Root, plan: &Plan, watch: Watch<'_>) -> Result<()> {
    let backs_up = |a: &Action| matches!(a, Action::CreateBackup { .. });
    if !plan.body().actions.iter().any(backs_up) {
        return Ok(());
    }
    let Live::Present(live) = generation::locate(root)? else {
        return Ok(());
    };
    watch.progress.phase("verify archive", None);
    let mut first = None;
    let stop = || watch.interrupt.pending().is_some();
    let verified = verify_generation(root, &live, &stop, &mut |finding| {
        if first.is_none() {
            first = Some(finding.what);
        }
    });
    watch.interrupt.check()?;
    let why = match verified {
        Ok(summary) if summary.complete => first,
        Ok(_) => Some("it could not be read to its end".to_owned()),
        Err(e) if e.kind() == ErrorKind::ArchiveCorrupt => Some(e.message().to_owned()),
        Err(e) => return Err(e),
    };
    match why {
        None => Ok(()),
        Some(why) => Err(Error::new(
            ErrorKind::VerifyFailed,
            format!("the archive does not verify ({why}); no backup was made"),
        )
        .with_hint("Only a sound archive is backed up. This plans its repair:")
        .with_hint_argv(["cass", "doctor", "repair"])),
    }
}
