//! `cass stats`

use super::args::{By, StatsArgs};
use super::context::Context;
use super::emit::Human;
use super::lines::lines;
use super::page::{Page, count, size};
use super::sanitise::{fit, visible};
use super::{place, session_name, sessions, view};
use crate::error::Result;
use crate::report::envelope::Report;
use crate::report::stats::{
    MirrorFigures, Period, RoleFigures, StatsBody, StatsGroup, ToolFigures,
};
use crate::report::time::rfc3339;
use crate::store::archive::{Group, Listing};
use crate::store::mirror::MirrorReader;

/// Workspaces and periods of a document.
const MAX_WORKSPACES: u64 = 20;
const MAX_PERIODS: u64 = 100;

pub(super) fn run(ctx: &Context, args: &StatsArgs) -> Result<Report<StatsBody>> {
    let root = place::with_archive(&ctx.env)?;
    let archive = place::archive(&root)?;
    let id = match &args.session {
        Some(name) => Some(session_name::session(&ctx.env, &archive, name)?.id),
        None => None,
    };
    let of = Listing {
        id,
        ..sessions::listing(ctx, &args.which)
    };
    let figures = archive.figures(&of)?;
    ctx.interrupt.check()?;
    let (spoken, tools) = archive.spoken(&of)?;
    ctx.interrupt.check()?;
    let mirror = if of.is_everything() {
        let mirror = MirrorReader::open(&root)?;
        mirror.as_ref().map(mirror_figures).transpose()?
    } else {
        None
    };
    let by_day = args.by == By::Day;
    let (tools_total, tool_calls) = (tools.len(), tools.values().sum());
    let mut tools: Vec<ToolFigures> = tools
        .into_iter()
        .map(|(name, calls)| ToolFigures { name, calls })
        .collect();
    tools.sort_by(|a, b| b.calls.cmp(&a.calls).then_with(|| a.name.cmp(&b.name)));
    tools.truncate(usize::try_from(args.tools).unwrap_or(usize::MAX));
    Ok(Report::ok(StatsBody {
        sessions: figures.sessions,
        branches: figures.branches,
        records: figures.records,
        messages: figures.messages,
        oldest: figures.oldest_ms.and_then(rfc3339),
        newest: figures.newest_ms.and_then(rfc3339),
        sources: figures.sources,
        source_bytes: figures.source_bytes,
        mirror,
        by_agent: groups(archive.by_provider(&of)?),
        by_workspace: groups(archive.by_workspace(&of, MAX_WORKSPACES)?),
        workspaces_total: figures.workspaces,
        period: if by_day { Period::Day } else { Period::Month },
        by_time: groups(archive.by_time(&of, by_day, MAX_PERIODS)?),
        by_role: spoken
            .into_iter()
            .map(|s| RoleFigures {
                role: s.role,
                kind: s.kind,
                messages: s.messages,
            })
            .collect(),
        tools,
        tools_total: u64::try_from(tools_total).unwrap_or(u64::MAX),
        tool_calls,
    }))
}

fn mirror_figures(mirror: &MirrorReader<'_>) -> Result<MirrorFigures> {
    let mut figures = MirrorFigures {
        sources: 0,
        captures: 0,
        newest_bytes: 0,
        stored_bytes: mirror.stored_bytes(),
    };
    mirror.for_each_head(&mut |head| {
        figures.sources += 1;
        figures.captures += head.seq;
        figures.newest_bytes += head.len;
        Ok(())
    })?;
    Ok(figures)
}

fn groups(groups: Vec<Group>) -> Vec<StatsGroup> {
    groups
        .into_iter()
        .map(|g| StatsGroup {
            name: g.name,
            sessions: g.sessions,
            messages: g.messages,
        })
        .collect()
}

/// Lines of a list on a page.
const SHOWN: usize = 6;

fn list(page: &mut Page, heading: &str, groups: &[StatsGroup]) {
    if groups.is_empty() {
        return;
    }
    page.fact(&format!(
        "{:<50} {:>9} {:>9}",
        heading, "sessions", "messages"
    ));
    for g in groups.iter().take(SHOWN) {
        let name = g.name.as_deref().map_or_else(|| "-".to_owned(), visible);
        page.fact(&format!(
            "  {} {:>9} {:>9}",
            super::sanitise::padded(&fit(&name, 48), 48),
            g.sessions,
            g.messages
        ));
    }
    if groups.len() > SHOWN {
        page.fact(&format!("  ({} more; --json)", groups.len() - SHOWN));
    }
}

impl Human for StatsBody {
    fn page(r: &Report<Self>, page: &mut Page) {
        let b = &r.body;
        if b.sessions == 0 {
            return;
        }
        let day = |t: &Option<String>| -> String {
            t.as_deref().unwrap_or("-").chars().take(10).collect()
        };
        page.fact(&format!(
            "from       {} to {}",
            day(&b.oldest),
            day(&b.newest)
        ));
        page.fact(&format!(
            "files      {}, {} in the newest version",
            b.sources,
            size(b.source_bytes)
        ));
        if let Some(m) = &b.mirror {
            page.fact(&format!(
                "mirror     {} of {}, {} on disk",
                count(m.captures, "version", "versions"),
                count(m.sources, "file", "files"),
                size(m.stored_bytes)
            ));
        }
        let mut kinds: Vec<(&str, u64)> = Vec::new();
        for s in &b.by_role {
            // Several speakers have one name for people: who calls a tool is not told.
            let name = view::named(s.kind, s.role);
            match kinds.iter_mut().find(|k| k.0 == name) {
                Some(k) => k.1 += s.messages,
                None => kinds.push((name, s.messages)),
            }
        }
        kinds.sort_by_key(|k| std::cmp::Reverse(k.1));
        let kinds: Vec<String> = kinds.iter().map(|(k, n)| format!("{k} {n}")).collect();
        let mut heading = "messages";
        for line in lines(&kinds.join(", "), 69, 3).0 {
            page.fact(&format!("{heading:<10} {line}"));
            heading = "";
        }
        list(page, "agent", &b.by_agent);
        list(page, "workspace", &b.by_workspace);
        let period = match b.period {
            Period::Day => "day",
            Period::Month => "month",
        };
        list(page, period, &b.by_time);
        if !b.tools.is_empty() {
            let tools: Vec<String> = b
                .tools
                .iter()
                .take(SHOWN)
                .map(|t| format!("{} {}", fit(&visible(&t.name), 20), t.calls))
                .collect();
            page.fact(&format!("tools      {}", tools.join(", ")));
        }
    }

    fn verdict(r: &Report<Self>) -> String {
        format!(
            "{}, {}, {}.",
            count(r.body.sessions, "session", "sessions"),
            count(r.body.messages, "message", "messages"),
            count(r.body.tool_calls, "tool call", "tool calls")
        )
    }
}
