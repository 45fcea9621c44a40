//! `derived.*`: whether what is made from the archive serves all of it. Nothing here can be worse
//! than a warning: derived data is made again.

use super::context::{ArchivePlace, Context, busy};
use super::findings::which;
use crate::disk::writer_owner;
use crate::error::{Error, ErrorKind};
use crate::model::finding::{CheckId, CheckResult, Finding, Severity, SkipReason, UnknownReason};
use crate::model::next::Next;
use crate::store::derived::{Derived, assets};
use crate::store::layout;
use crate::store::lexical::State;

/// A few rows of each asset and of the archive; with `--deep` all of each asset.
pub(super) fn served(cx: &mut Context) -> Vec<CheckResult> {
    let mut results = Vec::new();
    for asset in assets() {
        results.push(one(cx, asset));
    }
    results
}

fn one(cx: &Context, asset: &dyn Derived) -> CheckResult {
    let id = asset.check();
    let skipped = |reason| CheckResult::skipped(id, reason, None);
    let Some(root) = &cx.root else {
        return skipped(SkipReason::NoArchive);
    };
    match cx.place {
        ArchivePlace::None => return skipped(SkipReason::NoArchive),
        ArchivePlace::Lost => return skipped(SkipReason::Blocked),
        // What an asset should serve can't be told; that is the archive's own finding.
        ArchivePlace::Generation(_) if !cx.archive_readable => {
            return skipped(SkipReason::Blocked);
        }
        ArchivePlace::Generation(_) => {}
    }
    // Asked before and behind: a run that ends in between has left its work half-seen.
    let written = || writer_owner(root).is_ok_and(|owner| owner.is_some());
    let begun = written();
    let until = cx.until();
    let looked = asset.state(root, &until);
    if until.reached() {
        return CheckResult::unknown(id, cx.stop_reason(), Vec::new());
    }
    let writing = begun || written();
    let mut state = match looked {
        Ok(Some(survey)) => survey.state,
        Ok(None) => return skipped(SkipReason::NoArchive),
        Err(e) => return unread(id, &e),
    };
    if cx.request.deep && state.answers() {
        let verified = asset.verify(root, &until);
        if until.reached() {
            return CheckResult::unknown(id, cx.stop_reason(), Vec::new());
        }
        match verified {
            Ok(Some(why)) => state = State::Corrupt { why },
            Ok(None) => {}
            Err(e) => return unread(id, &e),
        }
    }
    let found = finding(id, asset.name(), &state, writing);
    CheckResult::ran(id, found.into_iter().collect())
}

fn unread(id: CheckId, e: &Error) -> CheckResult {
    if e.kind() == ErrorKind::LockBusy {
        return busy(&[id]).remove(0);
    }
    let f = Finding::new(
        id,
        "lexical-unreadable",
        Severity::Warn,
        layout::LEXICAL,
        e.message(),
    );
    CheckResult::unknown(id, UnknownReason::Unreadable, vec![f])
}

fn finding(id: CheckId, name: &str, state: &State, writing: bool) -> Option<Finding> {
    let (code, message) = match state {
        State::Ready => return None,
        State::Missing => ("lexical-missing", format!("there is no {name} index")),
        State::Stale { commits } => (
            "lexical-stale",
            format!(
                "the {name} index is {commits} {} behind the archive",
                which(*commits, "commit", "commits")
            ),
        ),
        State::Outdated { why } => ("lexical-stale", format!("the {name} index: {why}")),
        State::Hollow { found, expected } => (
            "lexical-hollow",
            format!("the {name} index accounts for {found} instead of {expected} messages"),
        ),
        State::Building { .. } => (
            "lexical-building",
            format!("the {name} index was begun and is not finished"),
        ),
        State::Corrupt { why } => ("lexical-corrupt", format!("the {name} index: {why}")),
    };
    // A run that is under way brings it up to date when the archive is done.
    let severity = match state {
        State::Missing | State::Stale { .. } | State::Building { .. } if writing => Severity::Info,
        _ => Severity::Warn,
    };
    let next = match state {
        _ if severity == Severity::Info => None,
        // A plain run may look where this one did not.
        State::Corrupt { .. } => Some(Next::IndexFull),
        _ => Some(Next::Index),
    };
    let mut found = Finding::new(id, code, severity, layout::LEXICAL, message);
    found.next = next;
    Some(found)
}
