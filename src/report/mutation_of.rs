//! From a plan, an apply, a receipt to their documents.

use super::envelope::Site;
use super::mutation::{
    CandidateStaging, CoverageSummary, CoveredView, ForensicBundle, Mode, Mutation, PlanView,
    ReceiptView, Rollback, SourceAuthority,
};
use super::time::rfc3339;
use crate::model::plan::{
    Action, ArchiveState, CaptureName, GateResult, Listed, Missing, PlanKind,
};
use crate::model::verdict::AuthorityLevel;
use crate::plan::{Applied, Ended, Plan, shut};
use crate::store::layout;
use crate::store::run::{self, ActionOutcome, Probe, Receipt, RunStatus};

/// Bytes that one second reads or writes, for estimates: measured with hashing on two cores.
const BYTES_A_SECOND: u64 = 150 << 20;

/// How a plan is shown.
#[derive(Debug, Clone, Copy)]
pub struct Showing<'a> {
    /// How the program was called.
    pub site: &'a Site,
    /// The words of the command that applies the plan, without `--yes` and fingerprint.
    pub words: &'a [String],
    /// Whether lists are given in full.
    pub full: bool,
    /// Whether what depends on time is left out.
    pub deterministic: bool,
    /// How an argument vector is written for a shell.
    pub shell: fn(&[String]) -> String,
}

/// The command that applies a plan.
#[must_use]
pub fn apply_argv(showing: Showing<'_>, plan: &Plan) -> Option<Vec<String>> {
    if plan.is_empty() || shut(plan.gates()).is_some() {
        return None;
    }
    let mut argv = vec!["cass".to_owned()];
    argv.extend(showing.words.iter().cloned());
    if plan.body().kind == PlanKind::Fix {
        // It needs nobody's approval, and takes none.
        return showing.site.argv(argv);
    }
    let flags = ["--yes", "--plan-fingerprint", plan.fingerprint().as_str()].map(str::to_owned);
    // Before the separator behind which everything is a name.
    let at = argv.iter().position(|w| w == "--").unwrap_or(argv.len());
    argv.splice(at..at, flags);
    showing.site.argv(argv)
}

/// The command that shows the plan with every list in full.
fn detail_argv(showing: Showing<'_>) -> Option<Vec<String>> {
    let mut argv = vec!["cass".to_owned()];
    argv.extend(showing.words.iter().cloned());
    let at = argv.iter().position(|w| w == "--").unwrap_or(argv.len());
    argv.splice(at..at, ["--detail", "full"].map(str::to_owned));
    showing.site.argv(argv)
}

/// The plan, as documents have it.
#[must_use]
pub fn plan_view(showing: Showing<'_>, plan: &Plan) -> PlanView {
    let notes = plan.notes();
    let argv = apply_argv(showing, plan);
    let shown = |n: usize| if showing.full { usize::MAX } else { n };
    PlanView {
        plan_fingerprint: plan.fingerprint().as_str().to_owned(),
        apply_command: argv.as_deref().map(showing.shell),
        apply_argv: argv,
        kind: plan.body().kind,
        actions: plan.body().actions.clone(),
        reasons: notes
            .reasons
            .iter()
            .map(|r| showing.site.redact(r))
            .collect(),
        rungs: notes.rungs.clone(),
        required_bytes: notes.required_bytes,
        read_bytes: notes.read_bytes,
        estimated_seconds: (!showing.deterministic)
            .then(|| (notes.required_bytes + notes.read_bytes) / BYTES_A_SECOND + 1),
        unreadable_captures: notes
            .unreadable
            .iter()
            .take(shown(Listed::<CaptureName>::SHOWN))
            .cloned()
            .collect(),
        unreadable_captures_total: notes.unreadable.len() as u64,
        covered: Some(CoveredView::of(plan.body(), showing.full)),
    }
}

fn level(plan: &Plan) -> AuthorityLevel {
    match &plan.body().archive {
        ArchiveState::Verified { .. } => return AuthorityLevel::VerifiedArchive,
        ArchiveState::Never | ArchiveState::Apart => return AuthorityLevel::None,
        ArchiveState::Open { .. } | ArchiveState::Unverified { .. } => {}
    }
    let has = |class: &str| plan.notes().authorities.get(class).is_some_and(|n| *n > 0);
    if has("mirror") {
        AuthorityLevel::VerifiedMirror
    } else if has("backup") || plan.body().kind == PlanKind::BackupRestore {
        AuthorityLevel::VerifiedBackup
    } else if has("archive") || has("named") {
        AuthorityLevel::Salvage
    } else {
        AuthorityLevel::Unknown
    }
}

/// What a plan would do.
#[must_use]
pub fn planned(showing: Showing<'_>, plan: &Plan) -> Mutation {
    let notes = plan.notes();
    let stages = plan
        .body()
        .actions
        .iter()
        .any(|a| matches!(a, Action::StageCandidate { .. }));
    let limit = if showing.full {
        usize::MAX
    } else {
        Listed::<Missing>::SHOWN
    };
    let outgoing = match &plan.body().archive {
        ArchiveState::Verified { generation, .. } | ArchiveState::Open { generation, .. } => {
            Some(generation.clone())
        }
        ArchiveState::Unverified { current, .. } => current.clone(),
        ArchiveState::Never | ArchiveState::Apart => None,
    };
    Mutation {
        mode: Mode::DryRun,
        candidate_staging: CandidateStaging {
            status: if stages { "planned" } else { "none" }.to_owned(),
            path: stages.then(|| layout::GENERATIONS.to_owned()),
            generation: None,
        },
        coverage_summary: CoverageSummary {
            before: notes.coverage,
            after: None,
            gained_records: notes.gained,
            missing_conversations: notes.missing.len() as u64,
            missing_records: notes.missing.iter().map(|m| m.records.0).sum(),
            missing: notes.missing.iter().take(limit).cloned().collect(),
            lost: notes.lost.iter().take(limit).cloned().collect(),
            lost_total: notes.lost.len() as u64,
            lost_digest: (!notes.lost.is_empty()).then(|| plan.body().lost.digest.clone()),
            detail_argv: (notes.lost.len().max(notes.missing.len()) > limit)
                .then(|| detail_argv(showing))
                .flatten(),
        },
        source_authority: SourceAuthority {
            authority_level: level(plan),
            authorities: notes.authorities.clone(),
        },
        safety_gates: plan
            .gates()
            .iter()
            .map(|g| GateResult {
                reason: showing.site.redact(&g.reason),
                ..g.clone()
            })
            .collect(),
        receipt: None,
        post_repair_probes: Vec::new(),
        rollback: None,
        forensic_bundle: ForensicBundle {
            artifact_manifest_path: outgoing
                .filter(|_| stages)
                .map(|id| format!("{}/{id}/seal.json", layout::GENERATIONS)),
        },
        failure_context_path: None,
        finished_runs: Vec::new(),
    }
}

/// What applying it did.
#[must_use]
pub fn applied(showing: Showing<'_>, applied: &Applied) -> Mutation {
    let mut view = planned(showing, &applied.plan);
    view.mode = Mode::Apply;
    view.finished_runs = applied
        .finished
        .iter()
        .map(|f| f.run_id.to_string())
        .collect();
    let receipt = match &applied.ended {
        Ended::NoOp => None,
        Ended::Applied { receipt } | Ended::AlreadyApplied { receipt } => Some(receipt),
        Ended::Failed {
            receipt, context, ..
        } => {
            view.failure_context_path.clone_from(context);
            receipt.as_ref()
        }
    };
    let Some(receipt) = receipt else {
        return view;
    };
    with_receipt(showing, &mut view, receipt);
    view
}

/// Adds what a receipt says.
pub fn with_receipt(showing: Showing<'_>, view: &mut Mutation, receipt: &Receipt) {
    let promoted = receipt.after != receipt.before && receipt.status == RunStatus::Applied;
    let staged = view.candidate_staging.status == "planned"
        || receipt
            .actions
            .iter()
            .any(|a| a.action == "stage-candidate");
    if staged {
        view.candidate_staging = CandidateStaging {
            status: if promoted { "promoted" } else { "removed" }.to_owned(),
            path: receipt
                .after
                .as_ref()
                .filter(|_| promoted)
                .map(|id| format!("{}/{id}", layout::GENERATIONS)),
            generation: receipt
                .after
                .as_ref()
                .filter(|_| promoted)
                .map(ToString::to_string),
        };
    }
    view.coverage_summary.before = receipt.coverage_before;
    view.coverage_summary.after = receipt.coverage_after;
    view.post_repair_probes = probes(showing.site, receipt);
    view.rollback = rollback(showing.site, receipt);
    view.forensic_bundle.artifact_manifest_path = receipt
        .backup_id
        .as_ref()
        .filter(|id| id.starts_with('g'))
        .map(|id| format!("{}/{id}/seal.json", layout::GENERATIONS));
    view.receipt = Some(receipt_view(showing.site, receipt, None));
}

/// How to go back from a run.
#[must_use]
pub fn rollback(site: &Site, receipt: &Receipt) -> Option<Rollback> {
    if receipt.status != RunStatus::Applied {
        return None;
    }
    let replaced = receipt.after != receipt.before && receipt.before.is_some();
    let promoted = receipt.after != receipt.before;
    let can = replaced
        || receipt.replaced_log
        || !receipt.moved.is_empty()
        || (receipt.accepts_loss() && !promoted);
    let argv = ["cass", "doctor", "runs", "undo", receipt.run_id.as_str()].map(str::to_owned);
    Some(Rollback {
        run_id: receipt.run_id.to_string(),
        argv: can.then(|| site.argv(argv.to_vec())).flatten(),
        backup_id: receipt.backup_id.clone(),
    })
}

fn probes(site: &Site, receipt: &Receipt) -> Vec<Probe> {
    receipt
        .probes
        .iter()
        .map(|p| Probe {
            detail: site.redact(&p.detail),
            ..p.clone()
        })
        .collect()
}

/// A receipt, as documents have it.
#[must_use]
pub fn receipt_view(site: &Site, receipt: &Receipt, undone_by: Option<String>) -> ReceiptView {
    ReceiptView {
        path: run::path_of(&receipt.run_id),
        run_id: receipt.run_id.to_string(),
        kind: receipt.kind,
        status: receipt.status,
        plan_fingerprint: receipt.fingerprint.clone(),
        begun_at: rfc3339(receipt.begun_ms),
        ended_at: rfc3339(receipt.ended_ms),
        actions: receipt
            .actions
            .iter()
            .map(|a| ActionOutcome {
                detail: site.redact(&a.detail),
                ..a.clone()
            })
            .collect(),
        generation_before: receipt.before.as_ref().map(ToString::to_string),
        generation_after: receipt.after.as_ref().map(ToString::to_string),
        backup_id: receipt.backup_id.clone(),
        moved: receipt.moved.clone(),
        coverage_before: receipt.coverage_before,
        coverage_after: receipt.coverage_after,
        probes: probes(site, receipt),
        missing_conversations: receipt.missing,
        undoes: receipt.undoes.as_ref().map(ToString::to_string),
        undone_by,
        error: receipt.error.as_deref().map(|e| site.redact(e)),
        closed_by_later_run: receipt.closed_by_later_run,
    }
}
