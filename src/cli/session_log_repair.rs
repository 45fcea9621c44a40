//! `cass doctor session-log repair`

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use super::args::SessionLogRepairArgs;
use super::context::Context;
use super::emit::Human;
use super::page::{Page, count};
use super::planned;
use super::session_log::versions;
use crate::doctor::session_log::{LogRepairPlanner, Place};
use crate::error::{Error, ErrorKind, Result};
use crate::model::path::normalise;
use crate::model::plan::{Action, LeftOutRow};
use crate::report::envelope::{Report, Status};
use crate::report::session_log_repair::SessionLogRepairBody;
use crate::session_log::Verdict;

/// Rows that are left out and shown.
const SHOWN: usize = 5;

pub(super) fn run(
    ctx: &Context,
    args: &SessionLogRepairArgs,
) -> Result<Report<SessionLogRepairBody>> {
    let path = absolute(Path::new(&args.path))?;
    let place = if args.in_place {
        Place::InPlace {
            harness_stopped: args.harness_stopped,
        }
    } else {
        Place::Folder(absolute(&args.output)?)
    };
    let words = words(&path, &place, args.close_turn);
    let planner = LogRepairPlanner {
        path,
        place,
        close_turn: args.close_turn,
        seen: RefCell::new(None),
    };
    let approval = planned::approval(&args.apply, &words)?;
    let came = planned::come(ctx, &planner, approval.as_ref(), &words)?;
    let showing = planned::showing(ctx, &args.apply, &words);
    let seen = planner.seen.take();
    let now = ctx.env.now_ms();
    Ok(planned::document(ctx, showing, &came, |plan, mutation| {
        SessionLogRepairBody::new(seen.as_ref(), plan, mutation, now)
    }))
}

/// What is printed runs from any folder, so every path is whole and can be printed.
fn absolute(path: &Path) -> Result<PathBuf> {
    let path = normalise(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
    if path.to_str().is_some() {
        return Ok(path);
    }
    Err(Error::new(
        ErrorKind::Usage,
        format!(
            "{} is no UTF-8: no command can be printed with it",
            path.display()
        ),
    )
    .with_hint("Name it by a link with another name."))
}

fn words(path: &Path, place: &Place, close_turn: bool) -> Vec<String> {
    let mut words = ["doctor", "session-log", "repair"]
        .map(str::to_owned)
        .to_vec();
    match place {
        Place::Folder(folder) => words.push(format!("--output={}", folder.display())),
        Place::InPlace { harness_stopped } => {
            words.push("--in-place".to_owned());
            words.extend(harness_stopped.then(|| "--harness-stopped".to_owned()));
        }
    }
    words.extend(close_turn.then(|| "--close-turn".to_owned()));
    words.extend(["--".to_owned(), path.display().to_string()]);
    words
}

/// What a plan leaves out, as far as it is listed.
fn left_out(body: &SessionLogRepairBody) -> &[LeftOutRow] {
    let actions = &body.repair_plan.actions;
    let listed = actions.iter().find_map(|action| match action {
        Action::WriteSessionLog { log } => Some(log.left_out.first.as_slice()),
        _ => None,
    });
    listed.unwrap_or_default()
}

impl Human for SessionLogRepairBody {
    fn page(report: &Report<Self>, page: &mut Page) {
        let body = &report.body;
        planned::page(&body.repair_plan, &body.mutation, page);
        if let (Some(log), Some(after)) = (&body.log, &body.log_after) {
            let state = |rows: u64, events: Option<u64>, verdict: Verdict| {
                let events = events.map_or_else(String::new, |n| {
                    count(n, "sound event", "sound events") + ", "
                });
                format!("{}, {events}{}", count(rows, "row", "rows"), verdict.name())
            };
            let sound = log.valid_prefix_events;
            page.fact(&format!(
                "before    {}",
                state(log.rows_total, sound, log.verdict)
            ));
            page.fact(&format!(
                "after     {}",
                state(after.rows, Some(after.events), after.verdict)
            ));
        }
        for one in left_out(body).iter().take(SHOWN) {
            let row = one
                .row
                .map_or("a fragment".to_owned(), |n| format!("row {}", n.0));
            page.fact(&format!(
                "left out  {row}, byte {}, {}, sha256 {}",
                one.offset.0,
                count(one.bytes.0, "byte", "bytes"),
                one.sha256
            ));
        }
        if let Some(target) = &body.target {
            page.path("target", &target.path.to_string());
        }
        if let Some(log) = body.log.as_ref().filter(|l| l.must_refuse) {
            versions(log, page);
        }
        for one in &body.evidence_searched {
            let mut text = format!("evidence  {}: {}", one.kind.text(), one.what);
            if let Some(capture) = &one.capture {
                text += &format!(", capture {} of {}", capture.seq.0, capture.source);
            }
            if let Some(path) = &one.path {
                text += &format!(", {}", path.path);
            }
            if let Some(verdict) = one.verdict {
                text += &format!(", {}", verdict.name());
            }
            if let Some(events) = one.events {
                text += &format!(", {events} events");
            }
            page.fact(&text);
        }
        if report.status == Status::Planned
            && let Some(log) = &body.log
        {
            page.fact(&format!("sha256    {}", log.evidence.sha256));
        }
    }

    fn verdict(report: &Report<Self>) -> String {
        planned::verdict(report, "repair of the log")
    }
}
