//! `cass sessions list` and `cass sessions show`

use super::args::{SessionsListArgs, SessionsShowArgs};
use super::context::Context;
use super::emit::Human;
use super::page::{Mark, Page, count};
use super::place;
use crate::disk::Root;
use crate::error::{Error, ErrorKind, Result};
use crate::model::next::Next;
use crate::report::envelope::Report;
use crate::report::sessions::{SessionRow, SessionsListBody, SessionsShowBody};

pub(super) fn list(ctx: &Context, args: &SessionsListArgs) -> Result<Report<SessionsListBody>> {
    let root = place::with_archive(&ctx.env)?;
    let mut body = list_core(ctx, &root, args)?;
    body.truncated = u64::try_from(body.sessions.len()).unwrap_or(u64::MAX) < body.total;
    if body.truncated {
        let mut argv = Next::SessionsList {
            limit: Some(body.total),
        }
        .argv();
        if let Some(p) = args.provider {
            argv.extend(["--provider".to_owned(), p.as_str().to_owned()]);
        }
        body.detail_argv = ctx.site.argv(argv);
    }
    Ok(Report::ok(body))
}

/// CALL SITE: sessions list. Fills `sessions` (at most `args.limit`, newest end first, then id)
/// and `total`.
fn list_core(_ctx: &Context, _root: &Root, _args: &SessionsListArgs) -> Result<SessionsListBody> {
    Err(Error::new(
        ErrorKind::Unsupported,
        "sessions list is not part of this build",
    ))
}

pub(super) fn show(ctx: &Context, args: &SessionsShowArgs) -> Result<Report<SessionsShowBody>> {
    let root = place::with_archive(&ctx.env)?;
    let body = show_core(ctx, &root, args)?;
    let next = [Next::ExportRaw(body.session.id.clone())];
    let mut report = Report::ok(body).recommending(&next, &ctx.site);
    // A useful command, and still nothing that has to be done.
    report.recommended_action = crate::model::next::NextId::None;
    Ok(report)
}

/// CALL SITE: sessions show. `not-found` for an unknown id, `ambiguous-name` for a beginning that
/// several ids share (their ids in the context).
fn show_core(_ctx: &Context, _root: &Root, _args: &SessionsShowArgs) -> Result<SessionsShowBody> {
    Err(Error::new(
        ErrorKind::Unsupported,
        "sessions show is not part of this build",
    ))
}

fn row(s: &SessionRow) -> String {
    let day = s
        .ended_at
        .as_deref()
        .and_then(|t| t.get(..10))
        .unwrap_or("-");
    let id = s.id.get(..12).unwrap_or(&s.id);
    let title = s.title.as_deref().unwrap_or(&s.native_id);
    format!(
        "{day:<10} {:<6} {id} {:>6}  {title}",
        s.provider.as_str(),
        s.messages
    )
}

impl Human for SessionsListBody {
    fn page(r: &Report<Self>, page: &mut Page) {
        if !r.body.sessions.is_empty() {
            page.fact("last used  agent  id           messages");
        }
        for s in &r.body.sessions {
            page.fact(&row(s));
        }
    }

    fn verdict(r: &Report<Self>) -> String {
        let shown = count(r.body.total, "session", "sessions");
        if r.body.truncated {
            format!("{shown}; the newest are shown (--limit N for more).")
        } else {
            format!("{shown}.")
        }
    }
}

impl Human for SessionsShowBody {
    fn page(r: &Report<Self>, page: &mut Page) {
        let b = &r.body;
        for skip in &b.skips {
            page.anomaly(
                Mark::Warn,
                &format!(
                    "line {} of {}: {} bytes could be read as no record; they are in the mirror",
                    skip.line, skip.key, skip.len
                ),
            );
        }
        let s = &b.session;
        page.fact(&format!("id         {}", s.id));
        page.fact(&format!("native id  {}", s.native_id));
        page.fact(&format!("agent      {}", s.provider));
        for (name, value) in [
            ("title", &s.title),
            ("workspace", &s.workspace),
            ("started", &s.started_at),
            ("ended", &s.ended_at),
            ("parent", &s.parent_session),
            ("branch of", &s.branch_of),
        ] {
            if let Some(value) = value {
                page.fact(&format!("{name:<10} {value}"));
            }
        }
        for source in &b.sources {
            page.fact(&format!("source     {}", source.path.path));
            page.fact(&format!(
                "           key {}, {}",
                source.key,
                count(source.captures, "capture", "captures")
            ));
        }
        for branch in &b.branches {
            page.fact(&format!("branch     {branch}"));
        }
    }

    fn verdict(r: &Report<Self>) -> String {
        format!(
            "{} in {}. Its files, byte for byte:",
            count(r.body.session.messages, "message", "messages"),
            count(r.body.sources_total, "source", "sources")
        )
    }
}
