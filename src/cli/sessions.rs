//! `cass sessions list` and `cass sessions show`

use std::collections::VecDeque;

use super::args::{SessionsListArgs, SessionsShowArgs, Which};
use super::context::Context;
use super::emit::Human;
use super::page::{MAX_LINES, Mark, Page, count, size};
use super::sanitise::{ending, padded, visible};
use super::{place, session_name};
use crate::disk::Root;
use crate::error::Result;
use crate::model::conversation::ArchivedSource;
use crate::model::next::Next;
use crate::model::path::{PathText, normalise};
use crate::model::verdict::SourceState;
use crate::report::envelope::Report;
use crate::report::sessions::{
    Accounting, MAX_ROWS, MAX_VERSIONS, SessionRow, SessionSkip, SessionSource, SessionsListBody,
    SessionsShowBody, SourceVersion,
};
use crate::report::time::rfc3339;
use crate::sources::file::Stat;
use crate::store::archive::Listing;
use crate::store::mirror::MirrorReader;

/// Versions of a source that are listed for people.
const SHOWN_VERSIONS: usize = 8;
/// Sources that are shown for people with their keys and versions; more get one line each.
const SHOWN_WHOLE: usize = 6;
/// Sessions that fit on a page below the heading and above two lines at the end.
const SHOWN_SESSIONS: usize = MAX_LINES - 3;

pub(super) fn list(ctx: &Context, args: &SessionsListArgs) -> Result<Report<SessionsListBody>> {
    let root = place::with_archive(&ctx.env)?;
    let mut body = list_core(ctx, &root, args)?;
    let shown = u64::try_from(body.sessions.len()).unwrap_or(u64::MAX);
    body.truncated = args.offset.saturating_add(shown) < body.total;
    if body.truncated {
        let mut argv = Next::SessionsList {
            limit: Some(body.total),
        }
        .argv();
        argv.extend(which_argv(ctx, &args.which));
        body.detail_argv = ctx.site.argv(argv);
    }
    Ok(Report::ok(body))
}

/// The sessions that the arguments mean.
pub(super) fn listing(ctx: &Context, which: &Which) -> Listing {
    let now = ctx.env.now_ms();
    Listing {
        provider: which.provider,
        workspace: which.workspace.as_deref().map(|dir| {
            let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_path_buf());
            normalise(&dir).to_string_lossy().into_owned()
        }),
        since_ms: which.since.map(|m| m.since(now)),
        until_ms: which.until.map(|m| m.until(now)),
        ..Listing::default()
    }
}

/// The arguments that mean the same sessions later and elsewhere.
fn which_argv(ctx: &Context, which: &Which) -> Vec<String> {
    let of = listing(ctx, which);
    [
        ("provider", of.provider.map(|p| p.as_str().to_owned())),
        ("workspace", of.workspace),
        ("since", of.since_ms.and_then(rfc3339)),
        ("until", of.until_ms.and_then(rfc3339)),
    ]
    .into_iter()
    // One word, so that a value that begins with a dash stays a value.
    .filter_map(|(name, value)| Some(format!("--{name}={}", value?)))
    .collect()
}

fn list_core(ctx: &Context, root: &Root, args: &SessionsListArgs) -> Result<SessionsListBody> {
    let archive = place::archive(root)?;
    let listing = Listing {
        limit: (!args.all).then_some(args.limit),
        offset: args.offset,
        ..listing(ctx, &args.which)
    };
    let mut sessions = Vec::new();
    let total = archive.conversations(&listing, &mut |c| {
        sessions.push(SessionRow::from(&c));
        Ok(())
    })?;
    Ok(SessionsListBody {
        sessions,
        total,
        truncated: false,
        detail_argv: None,
    })
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

fn show_core(ctx: &Context, root: &Root, args: &SessionsShowArgs) -> Result<SessionsShowBody> {
    let archive = place::archive(root)?;
    let session = session_name::session(&ctx.env, &archive, &args.id)?;
    let mirror = MirrorReader::open(root)?;
    let (mut sources, mut skips, mut skips_total) = (Vec::new(), Vec::new(), 0);
    let all = archive.sources_of(&session.id)?;
    for source in &all {
        archive.skips(source.key, &mut |skip| {
            // Positions in a version that was rewritten since would point to other bytes.
            if skip.epoch != source.epoch {
                return Ok(());
            }
            skips_total += 1;
            if skips.len() < MAX_ROWS {
                skips.push(SessionSkip {
                    key: source.key.to_string(),
                    offset: skip.span.offset,
                    len: skip.span.len,
                    line: skip.line,
                    reason: skip.reason,
                });
            }
            Ok(())
        })?;
        if sources.len() < MAX_ROWS {
            sources.push(SessionSource {
                key: source.key.to_string(),
                path: PathText::new(&source.path),
                state: state(source, mirror.as_ref())?,
                captures: match &mirror {
                    Some(mirror) => mirror.head(source.key)?.map_or(0, |h| h.seq),
                    None => 0,
                },
                versions: versions(source, mirror.as_ref())?,
                accounting: Accounting::from(&source.accounting),
            });
        }
    }
    sources.sort_by(|a, b| (&a.path, &a.key).cmp(&(&b.path, &b.key)));
    let mut branches: Vec<String> = archive
        .branches(&session.id)?
        .into_iter()
        .map(|b| b.id)
        .collect();
    branches.sort();
    Ok(SessionsShowBody {
        harness_version: session.harness_version.clone(),
        revision: session.revision,
        records: session.record_count,
        sources_total: u64::try_from(all.len()).unwrap_or(u64::MAX),
        sources,
        branches,
        skips,
        skips_total,
        session: SessionRow::from(&session),
    })
}

/// The newest captured versions of a source, the newest first.
fn versions(
    source: &ArchivedSource,
    mirror: Option<&MirrorReader<'_>>,
) -> Result<Vec<SourceVersion>> {
    let mut newest = VecDeque::new();
    if let Some(mirror) = mirror {
        mirror.captures(source.key, &mut |line| {
            newest.truncate(MAX_VERSIONS - 1);
            newest.push_front(SourceVersion {
                version: line.seq,
                captured_at: rfc3339(line.at_ms),
                bytes: line.len,
                moving: line.moving,
            });
            Ok(())
        })?;
    }
    Ok(newest.into())
}

/// What became of a source since it was captured, by its metadata alone.
fn state(source: &ArchivedSource, mirror: Option<&MirrorReader<'_>>) -> Result<SourceState> {
    let meta = match std::fs::symlink_metadata(&source.path) {
        Ok(meta) => meta,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(SourceState::Pruned),
        Err(_) => return Ok(SourceState::Unreadable),
    };
    if meta.len() == 0 {
        return Ok(SourceState::Empty);
    }
    let head = match mirror {
        Some(mirror) => mirror.head(source.key)?,
        None => None,
    };
    let stat = Stat::of(&meta);
    let same = head.is_some_and(|h| {
        (h.gate.size, h.gate.mtime_ns) == (stat.size, stat.mtime_ns) && h.seq == source.parsed_seq
    });
    Ok(if same {
        SourceState::Ok
    } else {
        SourceState::NewerThanArchive
    })
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
        "{day:<10} {:<8} {id} {:>6}  {title}",
        s.provider.as_str(),
        s.messages
    )
}

impl Human for SessionsListBody {
    fn page(r: &Report<Self>, page: &mut Page) {
        if !r.body.sessions.is_empty() {
            page.fact("last used  agent    id           messages");
        }
        for s in r.body.sessions.iter().take(SHOWN_SESSIONS) {
            page.fact(&row(s));
        }
    }

    fn verdict(r: &Report<Self>) -> String {
        let shown = count(r.body.total, "session", "sessions");
        let rows = r.body.sessions.len();
        if r.body.truncated || rows > SHOWN_SESSIONS {
            // A page holds so many, whatever the limit is.
            let n = rows.min(SHOWN_SESSIONS);
            format!("{shown}, {n} of them shown; --offset N leaves out the first N.")
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
            let path = visible(&source.path.path);
            if b.sources.len() > SHOWN_WHOLE {
                page.fact(&format!(
                    "source     {} {:>11} {:>8}",
                    padded(&ending(&path, 47), 47),
                    count(source.captures, "capture", "captures"),
                    source
                        .versions
                        .first()
                        .map_or_else(String::new, |v| size(v.bytes))
                ));
                continue;
            }
            page.fact(&format!("source     {}", ending(&path, 69)));
            page.fact(&format!(
                "           key {}, {}",
                source.key,
                count(source.captures, "capture", "captures")
            ));
            for v in source.versions.iter().take(SHOWN_VERSIONS) {
                let time = v.captured_at.as_deref().unwrap_or("-");
                page.fact(&format!(
                    "           version {:<4} {time:<24} {:>8}",
                    v.version,
                    size(v.bytes)
                ));
            }
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
