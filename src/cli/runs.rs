//! `cass doctor runs list|show|undo`

use super::args::{RunsListArgs, RunsShowArgs, RunsUndoArgs};
use super::context::Context;
use super::emit::Human;
use super::page::{Mark, Page, count};
use super::planned;
use crate::disk::Root;
use crate::doctor::undo::{UndoPlanner, Which};
use crate::error::{Error, ErrorKind, Result};
use crate::model::next::Next;
use crate::report::envelope::Report;
use crate::report::mutation::{EventRow, RunRow, RunsListBody, RunsShowBody, UndoBody};
use crate::report::mutation_of::{receipt_view, rollback};
use crate::report::time::rfc3339;
use crate::store::run::{self, Receipt, RunId, RunStatus};

const LATEST: &str = "latest";

fn undone_by(all: &[(RunId, Option<Receipt>)], run: &RunId) -> Option<String> {
    all.iter()
        .filter_map(|(_, r)| r.as_ref())
        .find(|r| r.status == RunStatus::Applied && r.undoes.as_ref() == Some(run))
        .map(|r| r.run_id.to_string())
}

pub(super) fn list(ctx: &Context, args: &RunsListArgs) -> Result<Report<RunsListBody>> {
    let mut body = RunsListBody {
        runs: Vec::new(),
        runs_total: 0,
        damaged_events: 0,
    };
    let Some(root) = Root::open(ctx.env.data_dir())? else {
        return Ok(Report::ok(body));
    };
    let all = run::receipts(&root)?;
    for (id, receipt) in &all {
        body.runs.push(RunRow {
            run_id: id.to_string(),
            kind: receipt.as_ref().map(|r| r.kind),
            status: receipt.as_ref().map(|r| r.status),
            ended_at: receipt.as_ref().and_then(|r| rfc3339(r.ended_ms)),
            plan_fingerprint: receipt.as_ref().map(|r| r.fingerprint.clone()),
            undone_by: undone_by(&all, id),
            damaged: receipt.is_none(),
        });
    }
    for (id, intent) in run::open_intents(&root)? {
        body.runs.push(RunRow {
            run_id: id.to_string(),
            kind: intent.as_ref().map(|i| i.kind),
            status: None,
            ended_at: None,
            plan_fingerprint: intent.as_ref().map(|i| i.fingerprint.clone()),
            undone_by: None,
            damaged: intent.is_none(),
        });
    }
    body.runs.sort_by(|a, b| b.run_id.cmp(&a.run_id));
    body.runs_total = body.runs.len() as u64;
    body.runs
        .truncate(usize::try_from(args.limit).unwrap_or(usize::MAX));
    body.damaged_events = run::events(&root, &mut |_| Ok(()))?;
    let next = if body.runs.is_empty() {
        Vec::new()
    } else {
        vec![Next::RunsShow(LATEST.to_owned())]
    };
    Ok(Report::ok(body).recommending(&next, &ctx.site))
}

pub(super) fn show(ctx: &Context, args: &RunsShowArgs) -> Result<Report<RunsShowBody>> {
    let root = Root::open(ctx.env.data_dir())?.ok_or_else(|| no_such(&args.run))?;
    let all = run::receipts(&root)?;
    let id = match args.run.as_str() {
        LATEST => all.last().map(|(id, _)| id.clone()),
        text => named(text),
    }
    .ok_or_else(|| no_such(&args.run))?;
    let receipt = run::read_receipt(&root, &id)?;
    if receipt.is_none() && !run::open_intents(&root)?.iter().any(|(i, _)| *i == id) {
        return Err(no_such(&args.run));
    }
    let mut events = Vec::new();
    run::events(&root, &mut |event| {
        if event.run_id == id {
            events.push(EventRow {
                at: rfc3339(event.at_ms),
                what: event.what,
                detail: ctx.site.redact(&event.detail),
            });
        }
        Ok(())
    })?;
    let failure = run::read_failure(&root, &id)?;
    let back = receipt.as_ref().and_then(|r| rollback(&ctx.site, r));
    let body = RunsShowBody {
        run_id: id.to_string(),
        receipt: receipt
            .as_ref()
            .map(|r| receipt_view(&ctx.site, r, undone_by(&all, &id))),
        events,
        failure_context_path: failure
            .as_ref()
            .map(|_| format!("{}/{id}.json", crate::store::layout::FAILURES)),
        failure: failure.as_ref().map(|f| ctx.site.redact(&f.message)),
        failure_findings: failure
            .iter()
            .flat_map(|f| &f.findings)
            .map(|f| ctx.site.redact(f))
            .collect(),
        rollback: back,
    };
    let undoable = body.rollback.as_ref().is_some_and(|r| r.argv.is_some())
        && body.receipt.as_ref().is_some_and(|r| r.undone_by.is_none());
    let next = if undoable {
        vec![Next::RunsUndo(id.to_string())]
    } else {
        Vec::new()
    };
    Ok(Report::ok(body).recommending(&next, &ctx.site))
}

pub(super) fn undo(ctx: &Context, args: &RunsUndoArgs) -> Result<Report<UndoBody>> {
    let planner = UndoPlanner {
        which: match args.run.as_str() {
            LATEST => Which::Latest,
            text => Which::Run(named(text).ok_or_else(|| no_such(text))?),
        },
    };
    let asked = ["doctor", "runs", "undo", args.run.as_str()].map(str::to_owned);
    let approval = planned::approval(&args.apply, &asked)?;
    let came = planned::come(ctx, &planner, approval.as_ref(), &asked)?;
    let undoes = came
        .plan()
        .body()
        .options
        .get("run")
        .cloned()
        .unwrap_or_default();
    let words = ["doctor", "runs", "undo", undoes.as_str()]
        .map(str::to_owned)
        .to_vec();
    let showing = planned::showing(ctx, &args.apply, &words);
    Ok(planned::document(
        ctx,
        showing,
        &came,
        |undo_plan, mutation| UndoBody {
            undoes: undoes.clone(),
            undo_plan,
            mutation,
        },
    ))
}

/// The id that `text` is, or nothing: a text that is no id names no run.
fn named(text: &str) -> Option<RunId> {
    RunId::parse(text)
}

fn no_such(name: &str) -> Error {
    let what = match name {
        LATEST => "nothing was ever applied here".to_owned(),
        _ => format!("there is no run {name:?}"),
    };
    Error::new(ErrorKind::NotFound, what)
        .with_hint("This lists the runs:")
        .with_hint_argv(["cass", "doctor", "runs", "list"])
}

impl Human for RunsListBody {
    fn page(report: &Report<Self>, page: &mut Page) {
        let b = &report.body;
        if b.damaged_events > 0 {
            page.anomaly(
                Mark::Warn,
                &format!("{} lines of the event log are damaged", b.damaged_events),
            );
        }
        for run in &b.runs {
            let kind = run.kind.map_or("?", crate::model::plan::PlanKind::word);
            let status = match (run.damaged, run.status, &run.undone_by) {
                (true, ..) => "damaged",
                (_, None, _) => "not finished",
                (_, Some(RunStatus::Applied), Some(_)) => "undone",
                (_, Some(status), _) => status.word(),
            };
            page.fact(&format!("{}  {kind} {status}", run.run_id));
        }
    }

    fn verdict(report: &Report<Self>) -> String {
        match report.body.runs_total {
            0 => "Nothing was ever applied here.".to_owned(),
            n => format!("{}. This shows the last one:", count(n, "run", "runs")),
        }
    }
}

impl Human for RunsShowBody {
    fn page(report: &Report<Self>, page: &mut Page) {
        let b = &report.body;
        if let Some(failure) = &b.failure {
            page.anomaly(Mark::Error, failure);
        }
        for finding in b.failure_findings.iter().take(5) {
            page.anomaly(Mark::Warn, finding);
        }
        if let Some(r) = &b.receipt {
            page.fact(&format!("command   cass {}", r.kind.command()));
            page.fact("plan");
            page.command(std::slice::from_ref(&r.plan_fingerprint));
            for action in &r.actions {
                page.told("did", &action.detail);
            }
            for probe in &r.probes {
                let ok = if probe.ok { "ok" } else { "failed" };
                page.told("probe", &format!("{} {ok}: {}", probe.name, probe.detail));
            }
            if let Some(backup) = &r.backup_id {
                page.fact(&format!("kept      {backup}"));
            }
            page.fact(&format!("receipt   {}", r.path));
        }
        if let Some(argv) = b.rollback.as_ref().and_then(|r| r.argv.as_ref()) {
            page.fact("undo      by this, which shows a plan first:");
            page.command(argv);
        }
    }

    fn verdict(report: &Report<Self>) -> String {
        let b = &report.body;
        match &b.receipt {
            None => {
                "It was killed, or runs now. The next command that writes finishes it.".to_owned()
            }
            Some(r) => match (r.status, &r.undone_by) {
                (RunStatus::Applied, Some(by)) => format!("It was applied, and {by} undid it."),
                (RunStatus::Applied, None) if report.recommended_commands.is_empty() => {
                    "It was applied. It took nothing away, so there is nothing to undo.".to_owned()
                }
                (RunStatus::Applied, None) => "It was applied. To plan going back:".to_owned(),
                (RunStatus::Failed, _) => "It failed; the archive stayed as it was.".to_owned(),
                (RunStatus::RolledBack, _) => {
                    "A probe failed; the old archive is live again.".to_owned()
                }
                (RunStatus::Rehearsed, _) => "It was a rehearsal.".to_owned(),
            },
        }
    }
}

impl Human for UndoBody {
    fn page(report: &Report<Self>, page: &mut Page) {
        planned::page(&report.body.undo_plan, &report.body.mutation, page);
    }

    fn verdict(report: &Report<Self>) -> String {
        planned::verdict(report, "undo")
    }
}
