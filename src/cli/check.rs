//! `cass doctor check`

use std::time::Duration;

use super::args::{CheckArgs, Detail, FailOn};
use super::context::Context;
use super::emit::Human;
use super::page::{Mark, Page, count, size};
use crate::disk::{Journal, Root};
use crate::doctor::check::{CheckRequest, Checked, check as doctor_check};
use crate::error::Result;
use crate::model::finding::{CheckOutcome, Severity};
use crate::model::next::NextId;
use crate::report::check::{CheckBody, CheckReason, CheckStatus, DetailLevel, FailOnLevel};
use crate::report::envelope::{Report, Status};
use crate::report::{CheckRun, check_report};
use crate::store::attestation::{self, Attestation};

/// Milliseconds, unless `--budget-ms` or `--deep` is given.
const DEFAULT_BUDGET_MS: u64 = 8000;

pub(super) fn run(ctx: &Context, args: &CheckArgs) -> Result<Report<CheckBody>> {
    let budget_ms = args.budget_ms.or((!args.deep).then_some(DEFAULT_BUDGET_MS));
    let request = CheckRequest {
        only: args.only.clone(),
        skip: args.skip.clone(),
        deep: args.deep,
        budget: budget_ms.map(Duration::from_millis),
    };
    let mut checked = doctor_check(&ctx.env, &request, &ctx.interrupt);
    if args.record && checked.refusal.is_none() {
        record(ctx, &mut checked)?;
    }
    ctx.progress.end();
    let run = CheckRun {
        fail_on: match args.fail_on {
            FailOn::Info => FailOnLevel::Info,
            FailOn::Warn => FailOnLevel::Warn,
            FailOn::Error => FailOnLevel::Error,
            FailOn::Never => FailOnLevel::Never,
        },
        deep: args.deep,
        detail: match args.detail {
            Detail::Brief => DetailLevel::Brief,
            Detail::Full => DetailLevel::Full,
        },
        deterministic: args.deterministic,
        budget_ms,
        elapsed_ms: ctx.elapsed_ms(),
        timed_out: checked.timed_out,
        interrupted: ctx.interrupt.pending(),
        now_ms: ctx.env.now_ms(),
        asked: request.checks(),
    };
    let report = check_report(checked.results, checked.facts, &run, &ctx.site);
    Ok(match checked.refusal {
        Some(error) if nothing_ran(&report) => report.failing(&error, false, &ctx.site).not_known(),
        Some(error) => report.failing(&error, false, &ctx.site),
        None => report,
    })
}

/// Whether no check came to look at anything.
fn nothing_ran(r: &Report<CheckBody>) -> bool {
    r.body.checks_summary.skipped == r.body.checks_summary.total
}

/// Keeps the result as a dated attestation.
fn record(ctx: &Context, checked: &mut Checked) -> Result<()> {
    let Some(root) = Root::open(ctx.env.data_dir())? else {
        return Ok(());
    };
    let errors = checked
        .results
        .iter()
        .flat_map(|r| &r.findings)
        .filter(|f| f.severity == Severity::Error)
        .count();
    let unsure = checked.timed_out
        || checked.interrupted.is_some()
        || checked
            .results
            .iter()
            .any(|r| matches!(r.outcome, CheckOutcome::Unknown { .. }));
    let a = &checked.facts.archive;
    let attestation = Attestation {
        format: 1,
        at_ms: ctx.env.now_ms(),
        clean: errors == 0 && !unsure,
        archive_id: a.archive_id.clone(),
        generation: a.generation.clone(),
        commit: a.commit,
        head: a.head.clone(),
        errors: u64::try_from(errors).unwrap_or(u64::MAX),
        captures: checked.facts.mirror.captures,
    };
    checked.facts.recorded = Some(attestation::write(Journal::new(&root), attestation)?);
    Ok(())
}

impl Human for CheckBody {
    fn page(r: &Report<Self>, page: &mut Page) {
        let b = &r.body;
        for f in &b.findings {
            let mark = match f.severity {
                Severity::Error => Mark::Error,
                Severity::Warn => Mark::Warn,
                Severity::Info => Mark::Info,
            };
            // A message that counts by itself needs no second number.
            let times = if f.count > 1 && !f.message.contains(&f.count.to_string()) {
                format!(" ({} times)", f.count)
            } else {
                String::new()
            };
            let about = if f.subject.is_empty() {
                String::new()
            } else {
                format!(" [{}]", f.subject)
            };
            page.anomaly(mark, &format!("{} {}{times}{about}", f.code, f.message));
        }
        let shown = u64::try_from(b.findings.len()).unwrap_or(u64::MAX);
        if b.findings_truncated {
            page.anomaly(
                Mark::Info,
                &format!(
                    "{} more findings; --detail full lists them",
                    b.findings_total - shown
                ),
            );
        }
        for c in b.checks.iter().filter(|c| c.status == CheckStatus::Unknown) {
            let why = c
                .reason
                .map_or_else(String::new, |r| format!(": {}", reason(r)));
            page.anomaly(Mark::Warn, &format!("{} could not tell{why}", c.id));
        }
        let a = &b.archive;
        match (&a.generation, a.conversations) {
            (Some(generation), Some(conversations)) => page.fact(&format!(
                "archive   {}, {} ({generation}, commit {})",
                count(conversations, "session", "sessions"),
                a.messages
                    .map_or_else(String::new, |n| count(n, "message", "messages")),
                a.commit.unwrap_or(0),
            )),
            (Some(generation), None) => page.fact(&format!("archive   {generation}, not read")),
            _ => page.fact("archive   none"),
        }
        let m = &b.raw_mirror;
        page.fact(&format!(
            "mirror    {}{}{}",
            word(&m.status),
            m.captures.map_or_else(String::new, |n| format!(
                ", {}",
                count(n, "capture", "captures")
            )),
            m.stored_bytes
                .map_or_else(String::new, |n| format!(", {}", size(n))),
        ));
        page.fact(&format!(
            "coverage  {}, {} pruned upstream",
            word(&b.coverage_risk.status),
            b.coverage_risk.source_pruned
        ));
        for p in &b.source_inventory.providers {
            page.fact(&format!(
                "{:<9} {}: {}, {} newer than the archive, {} pruned{}",
                p.provider.as_str(),
                word(&p.state),
                count(p.sources, "source", "sources"),
                p.newer,
                p.pruned,
                p.retention_days
                    .map_or_else(String::new, |d| format!(", it keeps {d} days"))
            ));
        }
        if b.source_inventory.providers.is_empty() && !b.source_inventory.not_installed.is_empty() {
            page.fact("sources   no harness has left a session here");
        }
        if let Some(free) = b.storage_pressure.available_bytes {
            page.fact(&format!(
                "storage   {}, {} free",
                word(&b.storage_pressure.status),
                size(free)
            ));
        }
        if let Some(o) = &b.operation_state.owner {
            page.fact(&format!("writer    cass {} (pid {})", o.command, o.pid));
        }
        let s = &b.checks_summary;
        page.fact(&format!(
            "checks    {} ok, {} warn, {} error, {} unknown, {} not run",
            s.ok, s.warn, s.error, s.unknown, s.skipped
        ));
        if let Some(at) = &b.recorded {
            page.fact(&format!("recorded  {at}"));
        }
    }

    fn verdict(r: &Report<Self>) -> String {
        let s = &r.body.checks_summary;
        let f = &r.body.findings_summary;
        let missing = match s.skipped {
            0 => String::new(),
            n => format!(" {} did not run.", count(n, "check", "checks")),
        };
        let parts: Vec<String> = [
            (f.error, "error", "errors"),
            (f.warn, "warning", "warnings"),
            (f.info, "notice", "notices"),
        ]
        .into_iter()
        .filter(|(n, ..)| *n > 0)
        .map(|(n, one, many)| count(n, one, many))
        .collect();
        let found = parts.join(", ");
        let verdict = match r.status {
            Status::NotInitialized => {
                return "Nothing was ever indexed here. Begin with:".to_owned();
            }
            Status::Ok if found.is_empty() => "Safe. All checks that ran are fine.".to_owned(),
            Status::Ok => format!("Safe. {found}."),
            Status::Warn => format!("Safe now, with something to look at: {found}."),
            Status::Error if found.is_empty() => "Not safe: a check failed.".to_owned(),
            Status::Error => format!("Not safe: {found}."),
            _ if nothing_ran(r) => match &r.err {
                Some(err) => return format!("Not known, nothing was looked at: {}", err.message),
                None => "Not known: nothing was looked at.".to_owned(),
            },
            _ if found.is_empty() => "Not known: something could not be looked at.".to_owned(),
            _ => format!("Not known: something could not be looked at; {found} so far."),
        };
        let room = if r.recommended_action == NextId::MakeRoom {
            " Make room first: the disk is nearly full."
        } else {
            ""
        };
        verdict + &missing + room
    }
}

fn reason(r: CheckReason) -> String {
    match r {
        CheckReason::Skipped(s) => word(&s),
        CheckReason::Unknown(u) => word(&u),
    }
}

/// The word that the document has for it.
fn word<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_value(value)
        .ok()
        .and_then(|v| v.as_str().map(str::to_owned))
        .unwrap_or_default()
}
