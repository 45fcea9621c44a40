//! What all planned commands share: from flags to an approval, from a plan or an apply to a document.

use std::path::Path;

use super::args::{ApplyArgs, Detail};
use super::context::Context;
use super::page::{Mark, Page, count, size};
use super::place;
use super::sanitise::shell_line;
use crate::error::{Error, ErrorKind, Result};
use crate::exit::ExitCodeKind;
use crate::model::finding::RiskLevel;
use crate::model::next::{Next, NextId};
use crate::model::plan::{GateVerdict, Lost, LostWhat, PlanKind};
use crate::model::provider::Provider;
use crate::model::watch::Watch;
use crate::plan::{Applied, Approval, Ended, Fingerprint, Plan, Planner, apply, covered_in, plan};
use crate::report::envelope::{Body, OperationOutcome, OutcomeKind, Report, Status};
use crate::report::mutation::{Mutation, PlanView};
use crate::report::mutation_of::{Showing, applied, apply_argv, plan_view, planned};

/// Conversations with losses that are shown one by one.
const SHOWN: usize = 5;
/// A longer plan file is none.
const PLAN_FILE: u64 = 256 << 20;

/// What a planned command came to.
pub(super) enum Came {
    /// A plan.
    Plan(Plan),
    /// An apply that was not refused.
    Applied(Applied),
}

impl Came {
    pub(super) fn plan(&self) -> &Plan {
        match self {
            Came::Plan(plan) => plan,
            Came::Applied(applied) => &applied.plan,
        }
    }
}

/// What the flags approve; `None` for a dry run.
pub(super) fn approval(args: &ApplyArgs, words: &[String]) -> Result<Option<Approval>> {
    let dry_run = || std::iter::once("cass".to_owned()).chain(words.iter().cloned());
    let text = match (args.yes, args.plan_fingerprint.as_deref()) {
        (false, None) => return Ok(None),
        (true, Some(text)) => text,
        (true, None) => {
            return Err(Error::new(
                ErrorKind::Usage,
                "--yes applies a plan that was shown, and --plan-fingerprint says which",
            )
            .with_hint("Nothing was changed. This shows the plan and its fingerprint:")
            .with_hint_argv(dry_run()));
        }
        (false, Some(_)) => {
            return Err(Error::new(
                ErrorKind::Usage,
                "--plan-fingerprint names a plan, and only --yes applies it",
            )
            .with_hint("Nothing was changed. Add --yes to apply it; this shows the plan once more:")
            .with_hint_argv(dry_run()));
        }
    };
    let fingerprint = Fingerprint::parse(text).map_err(|e| e.with_hint_argv(dry_run()))?;
    let covered = match &args.plan_file {
        Some(path) => {
            let covered = covered(path)?;
            // What moved is told by comparison with the plan that was approved, and no other.
            if Fingerprint::of_covered(&covered).ok().as_ref() != Some(&fingerprint) {
                return Err(Error::new(
                    ErrorKind::Usage,
                    format!(
                        "{} does not hold the plan with this fingerprint",
                        path.display()
                    ),
                )
                .with_hint("--plan-file takes the JSON document that the dry run printed."));
            }
            Some(covered)
        }
        None => None,
    };
    Ok(Some(Approval::Shown {
        fingerprint,
        covered,
    }))
}

/// The covered body in the document of a dry run.
fn covered(path: &Path) -> Result<serde_json::Value> {
    let bad = |what: &str| {
        Error::new(ErrorKind::Usage, format!("{} {what}", path.display()))
            .with_hint("--plan-file takes the JSON document that the dry run printed.")
    };
    let meta = std::fs::metadata(path).map_err(|_| bad("can't be read"))?;
    if !meta.is_file() || meta.len() > PLAN_FILE {
        return Err(bad("is no plan file"));
    }
    let bytes = std::fs::read(path).map_err(|_| bad("can't be read"))?;
    let document: serde_json::Value =
        serde_json::from_slice(&bytes).map_err(|_| bad("is no JSON document"))?;
    covered_in(&document).ok_or_else(|| bad("holds no plan"))
}

/// Plans, or applies what was approved. `words` are those of the dry run.
pub(super) fn come(
    ctx: &Context,
    planner: &dyn Planner,
    approval: Option<&Approval>,
    words: &[String],
) -> Result<Came> {
    let watch = Watch {
        progress: &ctx.progress,
        interrupt: &ctx.interrupt,
    };
    // Told by the lock that is in the way and its owner; not held, since an apply takes it itself.
    drop(place::wait_for_checkpoint(&ctx.env, &ctx.interrupt)?);
    let came = match approval {
        None => plan(&ctx.env, planner, watch).map(Came::Plan),
        Some(approval) => apply(&ctx.env, planner, approval, watch)
            .map(Came::Applied)
            .map_err(|e| match e.kind() {
                // The new plan is one dry run away.
                ErrorKind::PlanMismatch => {
                    let dry_run = std::iter::once("cass".to_owned()).chain(words.iter().cloned());
                    e.with_hint_argv(dry_run)
                }
                _ => e,
            }),
    };
    ctx.progress.end();
    came
}

/// How plans of this call are shown.
pub(super) fn showing<'a>(ctx: &'a Context, args: &ApplyArgs, words: &'a [String]) -> Showing<'a> {
    Showing {
        site: &ctx.site,
        words,
        full: args.detail == Detail::Full,
        deterministic: args.deterministic,
        shell: shell_line,
    }
}

/// The document of a planned command.
pub(super) fn document<T: Body>(
    ctx: &Context,
    showing: Showing<'_>,
    came: &Came,
    body: impl FnOnce(PlanView, Mutation) -> T,
) -> Report<T> {
    let mut view = plan_view(showing, came.plan());
    if matches!(came, Came::Applied(_)) && !showing.full {
        view.covered = None;
    }
    match came {
        Came::Plan(plan) => {
            let argv = apply_argv(showing, plan);
            let idle = plan.is_empty() && plan.blocked().is_none();
            let (status, kind) = if idle && plan.notes().then.is_some() {
                (Status::NoOp, OutcomeKind::OkReadOnlyDiagnosed)
            } else if idle {
                (Status::NoOp, OutcomeKind::OkNoActionNeeded)
            } else {
                (Status::Planned, OutcomeKind::Planned)
            };
            let mut report = Report::new(
                status,
                OperationOutcome::new(kind, ExitCodeKind::Success),
                body(view, planned(showing, plan)),
            );
            report.risk_level = risk(plan);
            if let Some(error) = plan.blocked() {
                report.status = Status::Blocked;
                report = report.failing(&error, true, &ctx.site);
            }
            if let (true, Some(then)) = (idle, &plan.notes().then) {
                report = report.recommending(std::slice::from_ref(then), &ctx.site);
            }
            if let Some(argv) = argv {
                // The site adds the data directory again.
                let words = showing_words(&argv);
                report = report.recommending(&[Next::ApplyPlan(words)], &ctx.site);
            }
            report
        }
        Came::Applied(done) => {
            let (status, kind) = match &done.ended {
                Ended::NoOp => (Status::NoOp, OutcomeKind::OkNoActionNeeded),
                Ended::Applied { .. } => (Status::Applied, OutcomeKind::Fixed),
                Ended::AlreadyApplied { .. } => {
                    (Status::AlreadyApplied, OutcomeKind::AlreadyApplied)
                }
                Ended::Failed { .. } => (Status::Failed, OutcomeKind::RepairIncomplete),
            };
            let mut report = Report::new(
                status,
                OperationOutcome::new(kind, ExitCodeKind::Success),
                body(view, applied(showing, done)),
            );
            match &done.ended {
                Ended::Failed { error, .. } => {
                    report = report.failing(error, true, &ctx.site);
                    report.recommended_commands =
                        ctx.site.recommend(&Next::Check).into_iter().collect();
                    report.risk_level = RiskLevel::Medium;
                }
                Ended::NoOp => {}
                // What is derived serves the old generation until the next run.
                Ended::Applied { receipt }
                    if receipt.after != receipt.before && receipt.undoes.is_none() =>
                {
                    report = report.recommending(&[Next::Index, Next::Check], &ctx.site);
                }
                Ended::Applied { .. } | Ended::AlreadyApplied { .. } => {
                    report = report.recommending(&[Next::Check], &ctx.site);
                }
            }
            report
        }
    }
}

/// `argv` without the program and the data directory, which are added when it is shown.
fn showing_words(argv: &[String]) -> Vec<String> {
    argv.iter()
        .skip(1)
        .filter(|w| !w.starts_with("--data-dir="))
        .cloned()
        .collect()
}

fn risk(plan: &Plan) -> RiskLevel {
    let body = plan.body();
    if plan.blocked().is_some() || !body.missing.is_empty() || !body.lost.is_empty() {
        RiskLevel::High
    } else if plan.is_empty() {
        RiskLevel::None
    } else {
        RiskLevel::Low
    }
}

/// The plan or its outcome, for people.
pub(super) fn page(plan: &PlanView, mutation: &Mutation, page: &mut Page) {
    for reason in &plan.reasons {
        page.anomaly(Mark::Info, reason);
    }
    for gate in &mutation.safety_gates {
        let mark = match gate.verdict {
            GateVerdict::Block => Mark::Error,
            GateVerdict::Warn => Mark::Warn,
            GateVerdict::Pass | GateVerdict::AtApply => continue,
        };
        page.anomaly(mark, &gate.reason);
    }
    let c = &mutation.coverage_summary;
    // What is told by record is told by conversation as well.
    if c.lost.is_empty() {
        for missing in c.missing.iter().take(SHOWN) {
            let what = count(missing.records.0, "record", "records");
            let of = session(missing.provider, missing.native_id.as_deref());
            let text = format!("up to {what} of {}{of}", missing.conversation);
            page.anomaly(Mark::Warn, &text);
        }
    }
    for one in &c.lost {
        page.anomaly(Mark::Warn, &lost(one));
    }
    let more = c.lost_total - c.lost.len() as u64;
    if let (1.., Some(argv)) = (more, &c.detail_argv) {
        let more = count(more, "more loss", "more losses");
        page.anomaly(
            Mark::Warn,
            &format!("{more}, listed by: {}", shell_line(argv)),
        );
    }
    for rung in plan.rungs.iter().filter(|r| r.taken) {
        page.told(&format!("rung {}", rung.rung), &rung.reason);
    }
    if mutation.receipt.is_none() {
        for (i, action) in plan.actions.iter().enumerate() {
            page.told(&format!("step {}", i + 1), &action.to_string());
        }
    }
    for (class, n) in &mutation.source_authority.authorities {
        page.fact(&format!("from      {class}: {n}"));
    }
    let held = |name: &str, held: &Option<crate::model::plan::Coverage>, page: &mut Page| {
        if let Some(c) = held {
            page.fact(&format!(
                "{name:<9} {}, {}, {}",
                count(c.conversations, "session", "sessions"),
                count(c.records, "record", "records"),
                count(c.messages, "message", "messages"),
            ));
        }
    };
    // A log's repair is apart from the archive, which it leaves as it is.
    if plan.kind != PlanKind::SessionLogRepair {
        held("before", &c.before, page);
        held("after", &c.after, page);
    }
    if mutation.receipt.is_none() && plan.required_bytes > 0 {
        page.fact(&format!(
            "room      {} must be free",
            size(plan.required_bytes)
        ));
    }
    if let Some(receipt) = &mutation.receipt {
        for action in &receipt.actions {
            page.told("did", &action.detail);
        }
        page.fact(&format!("receipt   {}", receipt.path));
        if let Some(backup) = &receipt.backup_id {
            let made = receipt.kind == PlanKind::BackupCreate;
            let what = if made {
                "the backup"
            } else {
                "what was live before, sealed"
            };
            page.told("kept", &format!("{backup}: {what}"));
        }
    }
    if let Some(path) = &mutation.failure_context_path {
        page.fact(&format!("context   {path}"));
    }
    if let Some(argv) = mutation.rollback.as_ref().and_then(|r| r.argv.as_ref()) {
        page.fact("undo      by this, which shows a plan first:");
        page.command(argv);
    }
}

/// The session that something belongs to, in a harness's own terms.
fn session(provider: Option<Provider>, native: Option<&str>) -> String {
    match (provider, native) {
        (Some(provider), Some(native)) => format!(" ({provider} {native})"),
        _ => String::new(),
    }
}

/// What is lost, in one line.
fn lost(one: &Lost) -> String {
    let n = one.count.map_or(0, |n| n.0);
    let what = match one.what {
        LostWhat::Records => count(n, "record", "records"),
        LostWhat::Messages => count(n, "message", "messages"),
        LostWhat::Capture => "a capture".to_owned(),
        LostWhat::Place => format!("the place of {}", count(n, "row", "rows")),
    };
    let mut text = format!("lost: {what}");
    if let Some((first, last)) = one.lines {
        text += &match first == last {
            true => format!(", line {}", first.0),
            false => format!(", lines {} to {}", first.0, last.0),
        };
    }
    if let (Some(source), Some(seq)) = (&one.source, one.seq) {
        text += &format!(", capture {} of source {source}", seq.0);
    }
    if let Some(id) = &one.conversation {
        let of = session(one.provider, one.native_id.as_deref());
        text += &format!(", session {id}{of}");
    }
    text
}

/// One sentence about a plan or its outcome.
pub(super) fn verdict<T>(report: &Report<T>, what: &str) -> String {
    match report.status {
        Status::NoOp if report.recommended_action != NextId::None => {
            format!("No {what} is possible or needed here; what was found is settled by:")
        }
        Status::NoOp => format!("Nothing to do: no {what} is needed."),
        Status::Planned => {
            format!("This is the plan of the {what}; nothing was changed. To apply exactly it:")
        }
        Status::Applied if report.recommended_action == NextId::Index => {
            format!("Done: the {what} is applied. To bring everything up to date:")
        }
        Status::Applied => format!("Done: the {what} is applied. To see how things stand:"),
        Status::AlreadyApplied => {
            format!("Done before: this {what} was applied, and nothing has undone it.")
        }
        Status::Blocked => format!("The {what} is blocked; nothing was changed."),
        Status::RolledBack => {
            format!("The {what} was taken back: the old archive is live again. Look first:")
        }
        _ if report.recommended_action == NextId::Retry => {
            format!("The {what} did not come to its end; run it again.")
        }
        _ => format!("The {what} failed; nothing is lost. Look first:"),
    }
}
