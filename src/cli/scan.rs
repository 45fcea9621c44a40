//! `cass doctor archive-scan`

use std::time::Duration;

use super::args::{Detail, FailOn, ScanArgs, StateWord};
use super::context::Context;
use super::emit::Human;
use super::page::{Mark, Page, count, size};
use crate::doctor::scan::{ScanRequest, StateFilter, scan};
use crate::error::Result;
use crate::model::finding::Severity;
use crate::model::verdict::{AuthorityLevel, SourceState};
use crate::report::check::{DetailLevel, FailOnLevel};
use crate::report::envelope::{Report, Status};
use crate::report::scan::ScanBody;
use crate::report::{ScanRun, scan_report};

/// Rows of each list.
const BRIEF_ROWS: usize = 10;
const FULL_ROWS: usize = 500;

pub(super) fn run(ctx: &Context, args: &ScanArgs) -> Result<Report<ScanBody>> {
    let detail = match args.detail {
        Detail::Brief => DetailLevel::Brief,
        Detail::Full => DetailLevel::Full,
    };
    let limit = match (args.limit, detail) {
        (Some(n), _) => usize::try_from(n).unwrap_or(FULL_ROWS),
        (None, DetailLevel::Brief) => BRIEF_ROWS,
        (None, DetailLevel::Full) => FULL_ROWS,
    };
    let (state, word) = match args.state {
        None => (None, None),
        Some(word) => {
            let (filter, text) = state(word);
            (Some(filter), Some(text.to_owned()))
        }
    };
    let request = ScanRequest {
        agent: args.agent,
        state,
        limit,
        cursor: args.cursor.clone(),
        deep: args.deep,
        budget: args.budget_ms.map(Duration::from_millis),
    };
    let scanned = scan(&ctx.env, &request, &ctx.interrupt)?;
    ctx.progress.end();
    let run = ScanRun {
        agent: args.agent,
        state: word,
        limit,
        limit_named: args.limit.is_some(),
        cursor: args.cursor.clone(),
        detail,
        fail_on: match args.fail_on {
            FailOn::Info => FailOnLevel::Info,
            FailOn::Warn => FailOnLevel::Warn,
            FailOn::Error => FailOnLevel::Error,
            FailOn::Never => FailOnLevel::Never,
        },
        budget_ms: args.budget_ms,
        elapsed_ms: ctx.elapsed_ms(),
    };
    Ok(scan_report(scanned, &run, &ctx.site))
}

fn state(word: StateWord) -> (StateFilter, &'static str) {
    let of = StateFilter::State;
    match word {
        StateWord::Ok => (of(SourceState::Ok), "ok"),
        StateWord::NewerThanArchive => (of(SourceState::NewerThanArchive), "newer-than-archive"),
        StateWord::Pruned => (of(SourceState::Pruned), "pruned"),
        StateWord::Empty => (of(SourceState::Empty), "empty"),
        StateWord::Unreadable => (of(SourceState::Unreadable), "unreadable"),
        StateWord::OutOfSight => (StateFilter::OutOfSight, "out-of-sight"),
    }
}

fn mark(severity: Severity) -> Mark {
    match severity {
        Severity::Error => Mark::Error,
        Severity::Warn => Mark::Warn,
        Severity::Info => Mark::Info,
    }
}

impl Human for ScanBody {
    fn page(r: &Report<Self>, page: &mut Page) {
        let b = &r.body;
        for p in &b.problems {
            page.anomaly(mark(p.severity), &format!("{} {}", p.code, p.message));
        }
        for c in &b.sole_copy_warnings_by_code {
            let first = b.sole_copy_warnings.iter().find(|w| w.code == c.code);
            let name = first.and_then(|w| {
                let s = &w.session;
                s.id.as_ref().or(s.source.as_ref())
            });
            let about = name.map_or_else(String::new, |n| format!(" [{n}]"));
            page.anomaly(
                mark(c.severity),
                &format!(
                    "{} {}{about}",
                    c.code.as_str(),
                    count(c.count, "session", "sessions")
                ),
            );
        }
        for risk in &b.config_exclusion_risks {
            let sources = match risk.sources {
                0 => String::new(),
                n => format!(" ({})", count(n, "source", "sources")),
            };
            page.anomaly(
                mark(risk.severity),
                &format!("{} {}{sources}", risk.risk_kind.as_str(), risk.subject),
            );
        }
        let providers = &b.source_inventory.providers;
        let damaged: u64 = providers.iter().map(|p| p.damaged_sources).sum();
        if damaged > 0 {
            page.anomaly(
                Mark::Info,
                &format!(
                    "sources.log-health {} with places that hold no record; what they are is told \
                     by cass doctor session-log check",
                    count(damaged, "source", "sources")
                ),
            );
        }
        if b.missing_sessions_page.total > 0 {
            page.anomaly(
                Mark::Info,
                &format!(
                    "named-and-missing {} that a harness's history names; nothing holds a file",
                    count(b.missing_sessions_page.total, "session", "sessions")
                ),
            );
        }
        if !b.scan_scope.unfinished.is_empty() {
            let parts: Vec<&str> = b.scan_scope.unfinished.iter().map(|p| p.as_str()).collect();
            page.anomaly(
                Mark::Warn,
                &format!(
                    "not finished: {}; numbers are of what was seen",
                    parts.join(", ")
                ),
            );
        }
        let c = &b.coverage_summary;
        let perhaps = match c.live_possible {
            0 => String::new(),
            n => format!(", {n} perhaps"),
        };
        page.fact(&format!(
            "sessions  {}: {} whole in the archive, {} in the mirror, {} live{perhaps}",
            c.conversations, c.archive_complete, c.mirror_complete, c.live_complete
        ));
        page.fact(&format!(
            "records   {} archived, {} promised, {} in the mirror, {} live",
            c.records.archived, c.records.promised, c.records.mirror, c.records.live
        ));
        page.fact(&format!(
            "sources   {}, {} there ({}), {} captured",
            c.source_identity_count,
            c.visible_current_source_count,
            size(c.visible_current_source_bytes),
            c.mirror_source_count
        ));
        for p in &b.source_inventory.providers {
            let s = &p.by_state;
            let loss = match (p.days_until_first_loss, p.overdue_sessions) {
                (_, 1..) => format!(", {} not captured and due now", p.overdue_sessions),
                (Some(d), 0) => format!(", first loss in {}", count(d, "day", "days")),
                (None, 0) => String::new(),
            };
            page.fact(&format!(
                "{:<9} {} ok, {} newer, {} pruned, {} other{loss}",
                p.provider.as_str(),
                s.ok,
                s.newer_than_archive,
                s.pruned,
                s.empty + s.unreadable + s.out_of_sight
            ));
        }
        let a = &b.source_authority;
        page.fact(&format!(
            "believed  {}",
            match (&a.selected_authority, a.authority_level) {
                (Some(taken), _) => taken,
                (None, AuthorityLevel::Unknown) => "not known",
                (None, _) => "nothing",
            }
        ));
        for candidate in a.rejected_authorities.iter().take(2) {
            page.fact(&format!(
                "          not {}: {}",
                candidate.authority, candidate.reason
            ));
        }
    }

    fn verdict(r: &Report<Self>) -> String {
        let f = &r.body.findings_summary;
        match r.status {
            Status::NotInitialized => "Nothing was ever indexed here. Begin with:".to_owned(),
            Status::Error => format!(
                "Not safe: {}, {}.",
                count(f.error, "error", "errors"),
                count(f.warn, "warning", "warnings")
            ),
            Status::Unknown => "Not known: a part could not be looked at.".to_owned(),
            Status::Warn => format!(
                "Held, with something to look at: {}.",
                count(f.warn, "warning", "warnings")
            ),
            _ => "Every session that was promised has its holders.".to_owned(),
        }
    }
}
