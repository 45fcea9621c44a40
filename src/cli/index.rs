//! `cass index`

use super::args::IndexArgs;
use super::context::Context;
use super::emit::Human;
use super::page::{Mark, Page, count, size};
use crate::error::{Error, ErrorKind, Result};
use crate::report::envelope::{Report, Status};
use crate::report::index::{IndexBody, index_report};

pub(super) fn run(ctx: &Context, args: &IndexArgs) -> Result<Report<IndexBody>> {
    let (mut body, error) = core(ctx, args)?;
    ctx.progress.end();
    body.full = args.full;
    body.elapsed_ms = ctx.elapsed_ms();
    Ok(index_report(body, error.as_ref(), &ctx.site))
}

/// CALL SITE: index. Gives what was done, and the error that ended or limited it (a signal, an
/// unusable archive, failed sources); `Err` alone when nothing was done (lock, no room).
/// Uses `ctx.env`, `ctx.interrupt`, `&ctx.progress`.
fn core(_ctx: &Context, _args: &IndexArgs) -> Result<(IndexBody, Option<Error>)> {
    Err(Error::new(
        ErrorKind::Unsupported,
        "index is not part of this build",
    ))
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
        if b.captured.moving > 0 {
            let n = count(b.captured.moving, "source was", "sources were");
            page.anomaly(
                Mark::Info,
                &format!("{n} still being written while captured"),
            );
        }
        let s = &b.sources;
        page.fact(&format!(
            "sources   {} seen, {} unchanged, {} captured, {} excluded",
            s.seen, s.unchanged, s.captured, s.excluded
        ));
        if s.not_reached > 0 {
            page.fact(&format!("          {} not reached", s.not_reached));
        }
        page.fact(&format!(
            "mirror    {} more, {} read, {} stored",
            count(b.captured.captures, "capture", "captures"),
            size(b.captured.content_bytes),
            size(b.captured.stored_bytes)
        ));
        if let Some(a) = &b.archived {
            page.fact(&format!(
                "archive   {} new, {} grown, {} more, {}",
                count(a.conversations_added, "session", "sessions"),
                a.conversations_grown,
                count(a.messages, "message", "messages"),
                count(a.commits, "commit", "commits")
            ));
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
