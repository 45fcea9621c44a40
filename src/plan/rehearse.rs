//! A rehearsal: everything up to the promotion, then the candidate is removed and a receipt says how
//! it went. The live archive is not touched.

use super::ground::{Ground, Planner, nothing_there, refuse_unsafe};
use super::perform::fresh_generation;
use super::sealed::Plan;
use super::stage::stage;
use crate::disk::{Capture, Root, WriterLock};
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::model::plan::{Action, Coverage};
use crate::model::watch::Watch;
use crate::store::generation::Generation;
use crate::store::run::{
    self, ActionOutcome, EventLog, Intent, OutcomeWord, Purpose, Receipt, RunId, RunStatus, Target,
};

/// How a rehearsal went.
#[derive(Debug)]
pub struct Rehearsal {
    /// The plan that was rehearsed.
    pub plan: Plan,
    /// Its receipt.
    pub receipt: Receipt,
    /// Records that the candidate has and the live archive has not.
    pub gained: u64,
    /// Records that the live archive has or that were promised, and the candidate has not.
    pub lost: u64,
    /// Why it failed.
    pub error: Option<Error>,
}

/// Builds and verifies the candidate of a plan, and removes it.
///
/// # Errors
/// `not-found` without a data directory, `lock-busy`, `no-space`, what planning says. A candidate
/// that can't be built or does not verify is told in the rehearsal.
pub fn rehearse(env: &Env, planner: &dyn Planner, watch: Watch<'_>) -> Result<Rehearsal> {
    let root = Root::open(env.data_dir())?.ok_or_else(|| nothing_there(env))?;
    refuse_unsafe(&root)?;
    crate::store::version::refuse_newer(&root)?;
    // Nothing of another program's, and nothing for a plan that can't be made, is ever written.
    Plan::make(planner, &Ground::under(env, &root, watch))?;
    let lock = WriterLock::acquire(root, planner.kind().command(), env.now_ms())?;
    let cap = Capture::new(&lock);
    super::room::to_finish(cap.root())?;
    run::finish_interrupted(cap, env.now_ms(), watch.interrupt)?;
    let plan = Plan::make(planner, &Ground::under(env, cap.root(), watch))?;
    let Some(Action::StageCandidate { recipe }) = plan.body().actions.first().cloned() else {
        return Err(Error::new(
            ErrorKind::Internal,
            "a plan without a candidate can't be rehearsed",
        ));
    };
    super::room::for_plan(cap.root(), &plan)?;
    let id = fresh_generation(cap)?;
    let begun = env.now_ms();
    let intent = Intent {
        format: run::INTENT_FORMAT,
        run_id: RunId::fresh(),
        kind: planner.kind(),
        fingerprint: plan.fingerprint().as_str().to_owned(),
        begun_ms: begun,
        cass_version: env!("CARGO_PKG_VERSION").to_owned(),
        actions: vec![Action::StageCandidate {
            recipe: recipe.clone(),
        }],
        before: crate::store::generation::current_or_none(cap.root())?,
        keeps: Vec::new(),
        target: Some(Target {
            generation: id.clone(),
            purpose: Purpose::Restore,
            made_here: true,
        }),
        undoes: None,
    };
    let mut log = EventLog::open(cap)?;
    run::write_intent(cap, &intent)?;
    log.add(
        &intent.run_id,
        begun,
        "rehearsal-begun",
        plan.fingerprint().as_str(),
    )?;
    let staged = stage(env, cap, &plan, &recipe, &id, watch);
    let mut gained = plan.notes().gained.unwrap_or(0);
    let lost = plan.notes().missing.iter().map(|m| m.records.0).sum();
    let (outcome, error, after) = match staged {
        Ok(staged) => {
            let after = held(&staged.generation, cap.root());
            if let (Some(after), Some(before)) = (after, plan.notes().coverage) {
                gained = gained.max(after.records.saturating_sub(before.records));
            }
            (
                ActionOutcome {
                    action: "stage-candidate".to_owned(),
                    outcome: OutcomeWord::Done,
                    detail: staged.detail,
                },
                None,
                after,
            )
        }
        Err(failed) => (
            ActionOutcome {
                action: "stage-candidate".to_owned(),
                outcome: OutcomeWord::Failed,
                detail: failed.error.message().to_owned(),
            },
            Some(failed.error),
            None,
        ),
    };
    cap.remove_candidate(id.as_str())?;
    let receipt = Receipt {
        format: run::RECEIPT_FORMAT,
        run_id: intent.run_id.clone(),
        kind: intent.kind,
        fingerprint: intent.fingerprint.clone(),
        status: if error.is_none() {
            RunStatus::Rehearsed
        } else {
            RunStatus::Failed
        },
        begun_ms: begun,
        ended_ms: env.now_ms(),
        cass_version: env!("CARGO_PKG_VERSION").to_owned(),
        actions: vec![outcome],
        before: intent.before.clone(),
        after: intent.before.clone(),
        backup_id: None,
        moved: Vec::new(),
        coverage_before: plan.notes().coverage,
        coverage_after: after,
        probes: Vec::new(),
        replaced_log: false,
        missing: plan.body().missing.total.0,
        undoes: None,
        error: error.as_ref().map(|e| e.message().to_owned()),
        closed_by_later_run: false,
    };
    run::write_receipt(cap, &mut log, &receipt)?;
    Ok(Rehearsal {
        plan,
        receipt,
        gained,
        lost,
        error,
    })
}

/// What a candidate holds.
fn held(generation: &Generation, root: &Root) -> Option<Coverage> {
    run::coverage_in(root, generation)
}
