//! `cass index`

use super::args::IndexArgs;
use super::context::Context;
use super::emit::Human;
use super::page::{Mark, Page, count, size};
use crate::disk::Capture;
use crate::doctor::migration::MigrationPlanner;
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::index::{Ask, index};
use crate::model::finding::Severity;
use crate::model::watch::Watch;
use crate::plan;
use crate::report::envelope::{Report, Status};
use crate::report::index::{IndexBody, LexicalDone, index_report};

pub(super) fn run(ctx: &Context, args: &IndexArgs) -> Result<Report<IndexBody>> {
    let (mut body, error) = core(ctx, args)?;
    ctx.progress.end();
    body.full = args.full;
    body.elapsed_ms = ctx.elapsed_ms();
    Ok(index_report(body, error.as_ref(), &ctx.site))
}

fn core(ctx: &Context, args: &IndexArgs) -> Result<(IndexBody, Option<Error>)> {
    let watch = Watch {
        progress: &ctx.progress,
        interrupt: &ctx.interrupt,
    };
    let ask = Ask {
        full: args.full,
        lexical: !args.skip_lexical,
    };
    let migrate = |cap: Capture<'_>| plan::migrate(&ctx.env, cap, &MigrationPlanner, watch);
    let mut outcome = index(&ctx.env, ask, &migrate, watch)?;
    let mut error = outcome.archive_error.take();
    if let Some(signal) = ctx.interrupt.pending().filter(|_| outcome.stopped()) {
        error = Some(signal.error());
    }
    let failed = outcome.failed_sources();
    if error.is_none() && failed > 0 {
        error = Some(
            Error::new(
                ErrorKind::SourcesFailed,
                format!(
                    "{} could not be read",
                    count(to_u64(failed), "source", "sources")
                ),
            )
            .with_hint("The others are safe; see failures, then run the command again."),
        );
    }
    Ok((IndexBody::from(&outcome), error))
}

fn to_u64(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

impl Human for IndexBody {
    fn page(r: &Report<Self>, page: &mut Page) {
        let b = &r.body;
        for f in &b.failures {
            let kept = if f.captured {
                " (captured, not archived)"
            } else {
                ""
            };
            page.anomaly(Mark::Error, &format!("{} {}{kept}", f.path.path, f.message));
        }
        if b.failures_truncated {
            page.anomaly(
                Mark::Error,
                &count(b.failures_total, "source failed", "sources failed"),
            );
        }
        for note in b.notes.iter().filter(|n| n.severity > Severity::Info) {
            page.anomaly(Mark::Warn, &format!("{} {}", note.path.path, note.message));
        }
        for damage in &b.captured.mirror_damage {
            page.anomaly(Mark::Warn, &format!("mirror {damage}"));
        }
        if b.captured.moving > 0 {
            let n = count(b.captured.moving, "source was", "sources were");
            page.anomaly(
                Mark::Info,
                &format!("{n} still being written while captured"),
            );
        }
        if let Some(problem) = &b.lexical.problem {
            page.anomaly(
                Mark::Warn,
                &format!("search is not up to date: {problem}; the archive is"),
            );
        }
        let s = &b.sources;
        page.fact(&format!(
            "sources   {} seen, {} unchanged, {} captured, {} excluded",
            s.seen, s.unchanged, s.captured, s.excluded
        ));
        for (n, what) in [
            (s.not_reached, "not reached"),
            (s.gone, "gone upstream and safe in the mirror"),
            (s.out_of_sight, "captured before and not looked at now"),
        ] {
            if n > 0 {
                page.fact(&format!("          {n} {what}"));
            }
        }
        page.fact(&format!(
            "mirror    {} more, {} read, {} stored",
            count(b.captured.captures, "capture", "captures"),
            size(b.captured.content_bytes),
            size(b.captured.stored_bytes)
        ));
        if let Some(m) = &b.migrated {
            page.fact(&format!(
                "archive   from schema {} to schema {}; what it was is kept as {}",
                m.old_schema,
                m.new_schema,
                m.backup_id.as_deref().unwrap_or("nothing")
            ));
        }
        if let Some(a) = &b.archived {
            page.fact(&format!(
                "archive   {} new, {} grown, {} more, {}",
                count(a.conversations_added, "session", "sessions"),
                a.conversations_grown,
                count(a.messages, "message", "messages"),
                count(a.commits, "commit", "commits")
            ));
            if b.lexical.outcome != LexicalDone::Skipped && b.lexical.problem.is_none() {
                page.fact(&format!(
                    "search    {} more, {} in all",
                    count(b.lexical.added, "message", "messages"),
                    b.lexical.documents
                ));
            }
            if a.skipped > 0 {
                page.anomaly(
                    Mark::Warn,
                    &format!(
                        "{} could be read as no record; the bytes are in the mirror",
                        count(a.skipped, "place", "places")
                    ),
                );
            }
        }
    }

    fn verdict(r: &Report<Self>) -> String {
        match r.status {
            Status::NoOp => "Nothing is new.".to_owned(),
            Status::Applied => "Everything new is captured and archived.".to_owned(),
            _ => "Not everything was done.".to_owned(),
        }
    }
}
