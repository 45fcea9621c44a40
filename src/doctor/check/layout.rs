//! `layout.current`: whether the data directory is ours, and whether `CURRENT` names an archive.

use std::path::Path;

use super::context::{ArchivePlace, Context};
use crate::disk::{Root, writer_owner};
use crate::error::{Error, ErrorKind};
use crate::model::finding::{
    CheckId, CheckOutcome, CheckResult, Finding, Severity, SkipReason, UnknownReason,
};
use crate::model::next::{Next, REPAIR};
use crate::store::archive::unnamed_generation;
use crate::store::generation::{self, Live};
use crate::store::version::refuse_newer;
use crate::store::{backup, layout};

pub(super) fn current(cx: &mut Context) -> Vec<CheckResult> {
    let mut results = live(cx);
    let (Some(root), true) = (&cx.root, cx.refusal.is_none()) else {
        return results;
    };
    if cx.late_refusal.is_none()
        && let Err(e) = refuse_newer(root)
        && e.kind() == ErrorKind::SchemaTooNew
    {
        let path = e.context().get("path").map(Path::new);
        let rel = path.and_then(|p| p.strip_prefix(root.path()).ok());
        let subject = rel.map_or_else(String::new, |rel| rel.display().to_string());
        if let Some(result) = results.first_mut() {
            let id = CheckId::LayoutCurrent;
            let severity = Severity::Error;
            let f = Finding::new(id, "schema-too-new", severity, subject, e.message());
            result.findings.push(f);
            result.outcome = CheckOutcome::Error;
        }
        cx.late_refusal = Some(e);
    }
    let found = in_the_way(root);
    if let (false, Some(result)) = (found.is_empty(), results.first_mut()) {
        // The generations are named by what looks for the live one, too.
        result
            .findings
            .retain(|f| found.iter().all(|g| g.subject != f.subject));
        result.findings.extend(found);
        result.outcome = CheckOutcome::Error;
    }
    results
}

/// What has the place of a folder. Nothing in it is read, and nothing can be put there.
fn in_the_way(root: &Root) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    for folder in layout::FOLDERS {
        let Err(e) = root.require_folder(folder) else {
            continue;
        };
        let path = e.context().get("path").map(Path::new);
        let rel = path.and_then(|p| p.strip_prefix(root.path()).ok());
        let subject = rel.map_or(folder.to_owned(), |rel| rel.display().to_string());
        if found.iter().all(|f| f.subject != subject) {
            let message = by_hand(e.message());
            let id = CheckId::LayoutCurrent;
            found.push(Finding::new(
                id,
                "in-the-way",
                Severity::Error,
                subject,
                message,
            ));
        }
    }
    found
}

fn live(cx: &mut Context) -> Vec<CheckResult> {
    let id = CheckId::LayoutCurrent;
    let Some(root) = &cx.root else {
        cx.facts.never();
        return Context::skip(&[id], SkipReason::NoArchive, None);
    };
    // No plan helps there.
    let refused = |code, subject: &str, message: String| {
        let f = Finding::new(id, code, Severity::Error, subject, message);
        vec![CheckResult::ran(id, vec![f])]
    };
    let error = |code, subject: &str, message: String| {
        vec![CheckResult::ran(
            id,
            vec![Finding::new(id, code, Severity::Error, subject, message).with_next(REPAIR)],
        )]
    };
    match generation::locate(root) {
        Ok(Live::Present(live)) => {
            cx.facts.archive.generation = Some(live.id.to_string());
            cx.facts.archive.archive_id = Some(live.manifest.archive_id.clone());
            cx.facts.archive.schema_version = u32::try_from(live.manifest.schema_version).ok();
            cx.place = ArchivePlace::Generation(live.id.to_string());
            vec![CheckResult::ran(id, Vec::new())]
        }
        Ok(Live::Never { mirror }) => {
            // With CURRENT and the coverage ledger gone, a folder with commits in it is all that
            // tells that there was an archive.
            match unnamed_generation(root) {
                Ok(None) => {}
                Ok(Some(left)) => {
                    cx.place = ArchivePlace::Lost;
                    let message = format!(
                        "neither CURRENT nor the coverage ledger is there to name an archive, \
                         and generations/{left} holds one"
                    );
                    return error("archive-missing", layout::CURRENT, message);
                }
                Err(e) => {
                    cx.place = ArchivePlace::Lost;
                    return error(
                        "current-unreadable",
                        layout::GENERATIONS,
                        e.message().to_owned(),
                    );
                }
            }
            if let Ok(Some((id, _))) = backup::list(root).map(|mut list| list.pop()) {
                cx.place = ArchivePlace::Lost;
                let message = format!("nothing is left of the archive that the backup {id} is of");
                return error("archive-missing", layout::CURRENT, message);
            }
            if !mirror {
                cx.facts.never();
                return Context::skip(&[id], SkipReason::NoArchive, None);
            }
            // The first index captures before it makes an archive.
            let building = !matches!(writer_owner(root), Ok(None));
            let (code, subject) = ("archive-not-built", layout::MIRROR);
            let f = if building {
                let message = "the first index is at work: no archive was made yet";
                Finding::new(id, code, Severity::Info, subject, message)
            } else {
                let message = "sources are captured and no archive was made of them yet";
                Finding::new(id, code, Severity::Warn, subject, message).with_next(Next::Index)
            };
            vec![CheckResult::ran(id, vec![f])]
        }
        Err(e) => {
            let message = e.message().to_owned();
            let kind = e.kind();
            cx.facts.initialized = kind != ErrorKind::ForeignArchive;
            match kind {
                ErrorKind::ForeignArchive => {
                    cx.refusal = Some(e);
                    refused("foreign-archive", layout::ARCHIVE_DB, message)
                }
                ErrorKind::SchemaTooNew => {
                    cx.place = ArchivePlace::Lost;
                    cx.archive_unreadable = true;
                    cx.late_refusal = Some(e);
                    refused("schema-too-new", layout::GENERATIONS, message)
                }
                ErrorKind::PermissionDenied => {
                    cx.place = ArchivePlace::Lost;
                    cx.archive_unreadable = true;
                    let message = what_to_do(&e);
                    let f = Finding::new(
                        id,
                        "archive-unreadable",
                        Severity::Error,
                        layout::CURRENT,
                        message,
                    );
                    vec![CheckResult::unknown(id, UnknownReason::Unreadable, vec![f])]
                }
                ErrorKind::ArchiveMissing => {
                    cx.place = ArchivePlace::Lost;
                    error("archive-missing", layout::CURRENT, message)
                }
                // Somebody else put it there and has to take it away.
                ErrorKind::UnsafeTarget => {
                    cx.place = ArchivePlace::Lost;
                    let path = e.context().get("path").map(Path::new);
                    let rel = path.and_then(|p| p.strip_prefix(root.path()).ok());
                    let subject =
                        rel.map_or(layout::CURRENT.to_owned(), |p| p.display().to_string());
                    refused("current-unreadable", &subject, by_hand(&message))
                }
                _ => {
                    cx.place = ArchivePlace::Lost;
                    let subject = e.context().get("path").cloned();
                    let subject = subject.unwrap_or_else(|| layout::CURRENT.to_owned());
                    error("current-unreadable", &subject, message)
                }
            }
        }
    }
}

/// An error as a finding tells it, where the operator has to put something right first.
pub(super) fn what_to_do(e: &Error) -> String {
    match (e.kind(), e.hint()) {
        (ErrorKind::PermissionDenied, Some(hint)) => format!("{}. {hint}", e.message()),
        (ErrorKind::PermissionDenied, None) => e.message().to_owned(),
        _ => by_hand(e.message()),
    }
}

/// Where only the operator can go on.
pub(super) fn by_hand(message: &str) -> String {
    format!("{message}; move it away by hand, then run the check again")
}
