//! `cass doctor session-log check`

use std::collections::BTreeMap;
use std::io::ErrorKind as IoKind;
use std::path::{Path, PathBuf};

use super::args::{FailOn, SessionLogCheckArgs};
use super::context::Context;
use super::emit::Human;
use super::log_health::{self, LogArchive, LogHealth};
use super::page::{Mark, Page, count};
use super::sanitise::visible;
use crate::doctor::session_log::{examine, open};
use crate::error::{Error, ErrorKind, Result};
use crate::model::finding::Severity;
use crate::model::path::PathText;
use crate::report::check::FailOnLevel;
use crate::report::envelope::Report;
use crate::report::session_log::{
    ContextLine, SessionEntry, SessionLogCheckBody, SessionLogEntry, UnreadLog,
    session_log_check_report,
};
use crate::session_log::{self, Checked, Entry, Evidence};

/// Logs that could not be read and are named.
const UNREAD: usize = 20;
/// Characters of a line's text in one line of a page.
const TEXT: usize = 72;
/// Lines before and behind the first failure.
const AROUND: u64 = 2;

/// What is found, as far as a document lists it.
struct Found<'a> {
    ctx: &'a Context,
    args: &'a SessionLogCheckArgs,
    limit: usize,
    damaged: Vec<SessionEntry>,
    others: Vec<SessionEntry>,
    total: u64,
    verdicts: BTreeMap<String, u64>,
    unread: Vec<UnreadLog>,
    unread_total: u64,
    worst: Option<Severity>,
}

pub(super) fn check(
    ctx: &Context,
    args: &SessionLogCheckArgs,
) -> Result<Report<SessionLogCheckBody>> {
    let mut found = Found {
        ctx,
        args,
        limit: usize::try_from(args.limit).unwrap_or(usize::MAX),
        damaged: Vec::new(),
        others: Vec::new(),
        total: 0,
        verdicts: BTreeMap::new(),
        unread: Vec::new(),
        unread_total: 0,
        worst: None,
    };
    let mut empty_folders = 0;
    let mut looked = Vec::new();
    let archive = LogArchive::open(ctx);
    let mut health = LogHealth::new(ctx, &archive);
    for path in &args.paths {
        let path = PathBuf::from(path);
        match session_log::look(&path) {
            Ok(mut here) => {
                health.take(&path, &mut here)?;
                empty_folders += here.empty_folders;
                looked.extend(here.entries);
            }
            Err(e) if e.kind() == IoKind::NotFound && health.take_gone(&path)? => {}
            Err(e) => return Err(no_path(&path, e)),
        }
    }
    looked.sort_by(|a, b| a.path.cmp(&b.path));
    looked.dedup_by(|a, b| a.path == b.path);
    for entry in &looked {
        if ctx.interrupt.pending().is_some() {
            break;
        }
        found.examine(entry);
    }
    let other_files = health.other_files();
    for file in health.files() {
        if ctx.interrupt.pending().is_some() {
            break;
        }
        match health.examine(&file, args.show_content) {
            Ok(told) => found.put(SessionEntry::Other(Box::new(told))),
            Err(e) => found.unread(&file.path, &e),
        }
    }
    let interrupted = ctx.interrupt.pending();
    let fail_on = match args.fail_on {
        FailOn::Info => FailOnLevel::Info,
        FailOn::Warn => FailOnLevel::Warn,
        FailOn::Error => FailOnLevel::Error,
        FailOn::Never => FailOnLevel::Never,
    };
    let mut sessions = found.damaged;
    let room = found.limit.saturating_sub(sessions.len());
    sessions.extend(found.others.into_iter().take(room));
    sessions.sort_by(|a, b| (a.path(), a.session_id()).cmp(&(b.path(), b.session_id())));
    let body = SessionLogCheckBody {
        sessions_truncated: u64::try_from(sessions.len()).unwrap_or(u64::MAX) < found.total,
        sessions,
        sessions_total: found.total,
        verdicts: found.verdicts,
        empty_folders,
        other_files,
        archive_unread: health.archive_unread(),
        unread: found.unread,
        unread_total: found.unread_total,
        complete: interrupted.is_none() && found.unread_total == 0,
    };
    Ok(session_log_check_report(
        body,
        found.worst,
        fail_on,
        interrupted,
        &ctx.site,
    ))
}

fn no_path(path: &Path, e: std::io::Error) -> Error {
    match e.kind() {
        IoKind::NotFound => Error::new(
            ErrorKind::NotFound,
            format!("there is nothing at {}", path.display()),
        ),
        _ => Error::io("look at", path, e),
    }
}

impl Found<'_> {
    fn examine(&mut self, entry: &Entry) {
        let stop = || self.ctx.interrupt.pending().is_some();
        match examine(entry, &stop) {
            Ok(read) => {
                for checked in &read.sessions {
                    self.keep(entry, checked, &read.evidence);
                }
            }
            Err(e) => self.unread(&entry.path, &e),
        }
    }

    fn unread(&mut self, path: &Path, e: &Error) {
        if self.ctx.interrupt.pending().is_some() {
            return;
        }
        self.unread_total += 1;
        if self.unread.len() < UNREAD {
            self.unread.push(UnreadLog {
                path: PathText::new(path),
                why: self.ctx.site.redact(e.message()),
            });
        }
    }

    fn keep(&mut self, entry: &Entry, checked: &Checked, evidence: &Evidence) {
        let now = self.ctx.env.now_ms();
        let mut told = SessionLogEntry::new(entry, checked, evidence, now);
        let near = told.first_bad_physical_line.filter(|_| !checked.in_store);
        if let (Some(line), Some(form)) = (near, entry.form())
            && let Ok(file) = open(&entry.path)
            && let Ok(lines) = session_log::around(&file, form, line, AROUND)
        {
            told.put_context(&lines, self.args.show_content);
        }
        self.put(SessionEntry::Dsh(Box::new(told)));
    }

    fn put(&mut self, told: SessionEntry) {
        self.total += 1;
        *self.verdicts.entry(told.verdict().to_owned()).or_default() += 1;
        self.worst = self.worst.max(told.severity());
        let list = if told.severity() > Some(Severity::Info) {
            &mut self.damaged
        } else {
            &mut self.others
        };
        if list.len() < self.limit {
            list.push(told);
        }
    }
}

const fn mark(severity: Option<Severity>) -> Mark {
    match severity {
        Some(Severity::Error) => Mark::Error,
        Some(Severity::Warn) => Mark::Warn,
        _ => Mark::Info,
    }
}

impl Human for SessionLogCheckBody {
    fn page(r: &Report<Self>, page: &mut Page) {
        let b = &r.body;
        for s in b.sessions.iter().filter(|s| s.severity().is_some()) {
            let id = s.session_id().unwrap_or(&s.path().path);
            let (reason, live) = match s {
                SessionEntry::Dsh(s) => (&s.reason, s.may_be_live),
                SessionEntry::Other(s) => (&s.reason, s.may_be_live),
            };
            let live = if live {
                "; it was changed a moment ago and may be live"
            } else {
                ""
            };
            page.anomaly(
                mark(s.severity()),
                &format!("{id}: {}: {}{live}", s.verdict(), visible(reason)),
            );
        }
        for u in &b.unread {
            page.anomaly(Mark::Warn, &format!("{}: {}", u.path.path, u.why));
        }
        let first = b.sessions.iter().find(|s| match s {
            SessionEntry::Dsh(s) => !s.context.is_empty(),
            SessionEntry::Other(s) => !s.context.is_empty(),
        });
        match first {
            Some(SessionEntry::Dsh(s)) => around(s, page),
            Some(SessionEntry::Other(s)) => log_health::around(s, page),
            None => {}
        }
        match b.sessions.first().filter(|_| b.sessions_total == 1) {
            Some(SessionEntry::Dsh(s)) => {
                versions(s, page);
                if s.severity.is_some() {
                    page.fact(&repair_line(s));
                }
                page.fact(&format!("sha256     {}", s.evidence.sha256));
            }
            Some(SessionEntry::Other(s)) => log_health::facts(s, page),
            None => {}
        }
    }

    fn verdict(r: &Report<Self>) -> String {
        let b = &r.body;
        let clean = b.verdicts.get("clean").copied().unwrap_or(0);
        format!(
            "{} examined, {} clean{}{}.",
            count(b.sessions_total, "log", "logs"),
            clean,
            match b.verdicts.get("noted") {
                Some(n) => format!(", {n} with oddities that cost nothing"),
                None => String::new(),
            },
            if b.complete {
                ""
            } else {
                "; not all were read"
            }
        )
    }
}

/// What makes a log ambiguous: the places of a call, side by side, and versions of the same events.
pub(super) fn versions(s: &SessionLogEntry, page: &mut Page) {
    for place in &s.call_places {
        page.fact(&format!(
            "{:<10} row {}, event {}: id {:?}{}",
            place.place,
            place.row,
            place.seq,
            place.call_id,
            place
                .name
                .as_ref()
                .map_or_else(String::new, |n| format!(", tool {n}"))
        ));
    }
    for c in &s.candidates {
        page.fact(&format!(
            "candidate  row {}, events {} to {}: {}",
            c.rows.0, c.events.0, c.events.1, c.what
        ));
    }
}

/// The lines around the first failure, beside what was due.
fn around(s: &SessionLogEntry, page: &mut Page) {
    let due = match (s.expected_seq, s.got_seq) {
        (Some(e), Some(g)) => format!("event {e} is due, event {g} comes"),
        (Some(e), None) => format!("event {e} is due"),
        _ => s.evidence.first_error.clone().unwrap_or_default(),
    };
    let id = s.session_id.as_deref().unwrap_or("?");
    page.fact(&format!(
        "{id}, around row {}",
        s.first_bad_line.unwrap_or(0)
    ));
    context(&s.context, &due, page);
}

/// Lines, and what is to be said at the one.
pub(super) fn context(lines: &[ContextLine], due: &str, page: &mut Page) {
    for line in lines {
        let events = match line.events {
            Some((a, b)) if a == b => a.to_string(),
            Some((a, b)) => format!("{a}-{b}"),
            None => "-".to_owned(),
        };
        let here = if line.here { ">" } else { " " };
        page.fact(&format!(
            "{here} line {:<7} event {events:<9} {} ({} bytes)",
            line.line, line.kind, line.bytes
        ));
        if let Some(text) = &line.text {
            let rows = if line.here { 6 } else { 2 };
            let text: Vec<char> = visible(text).chars().take(rows * TEXT).collect();
            for piece in text.chunks(TEXT) {
                page.fact(&format!("      {}", piece.iter().collect::<String>()));
            }
        }
        if line.here {
            page.fact(&format!("      {due}"));
        }
    }
}

fn repair_line(s: &SessionLogEntry) -> String {
    if s.must_refuse {
        return "repair     refused: nothing that can be written would be the session".to_owned();
    }
    format!(
        "repair     on a copy{}: {} left out, {} added, {} in all",
        if s.repair_optional { ", optional" } else { "" },
        count(s.lines_dropped.unwrap_or(0), "row", "rows"),
        count(
            s.closers.as_ref().map_or(0, |c| c.len() as u64),
            "closing event",
            "closing events"
        ),
        count(s.repaired_event_count.unwrap_or(0), "event", "events"),
    )
}
