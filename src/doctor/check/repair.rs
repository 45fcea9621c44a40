//! `repair.*`: what a repair that failed, or was killed, left behind, and whether the records of
//! those that ended can be read.

use super::context::{ArchivePlace, Context};
use super::findings::Capped;
use super::layout::what_to_do;
use crate::disk::{EntryKind, writer_owner};
use crate::error::{Error, ErrorKind};
use crate::model::finding::{CheckId, CheckResult, Finding, Severity, SkipReason, UnknownReason};
use crate::model::next::Next;
use crate::model::verdict::RepairMarker;
use crate::store::generation::GenerationId;
use crate::store::run::{self, MarkerState, RunId};
use crate::store::{layout, seal};

pub(super) fn marker(cx: &mut Context) -> Vec<CheckResult> {
    let id = CheckId::RepairMarker;
    let Some(root) = &cx.root else {
        return Context::skip(&[id], SkipReason::NoArchive, None);
    };
    let next = Next::Repair {
        allow_repeated: true,
    };
    let (status, code, message) = match run::marker(root) {
        Ok(MarkerState::Absent) => return vec![CheckResult::ran(id, Vec::new())],
        Ok(MarkerState::Present { marker, .. }) => (
            RepairMarker::PreviousFailure,
            "previous-failure",
            format!(
                "{} failed; its context is doctor/failures/{}.json",
                marker.kind.word(),
                marker.run_id
            ),
        ),
        Ok(MarkerState::Corrupt { .. }) => (
            RepairMarker::Corrupt,
            "marker-corrupt",
            "a repair failed, and the marker that says so is damaged".to_owned(),
        ),
        Err(e) if e.kind() == ErrorKind::SchemaTooNew => return not_ours(id),
        Err(e) => {
            cx.facts.marker = RepairMarker::Corrupt;
            let message = what_to_do(&e);
            let f = Finding::new(id, "unreadable", Severity::Warn, layout::MARKER, message);
            return vec![CheckResult::ran(id, vec![f])];
        }
    };
    cx.facts.marker = status;
    let f = Finding::new(id, code, Severity::Warn, layout::MARKER, message).with_next(next);
    vec![CheckResult::ran(id, vec![f])]
}

/// A newer program made it: `layout.current` says so.
fn not_ours(id: CheckId) -> Vec<CheckResult> {
    let reason = UnknownReason::Unreadable;
    vec![CheckResult::unknown(id, reason, Vec::new())]
}

pub(super) fn interrupted(cx: &mut Context) -> Vec<CheckResult> {
    let id = CheckId::RepairInterrupted;
    let Some(root) = &cx.root else {
        return Context::skip(&[id], SkipReason::NoArchive, None);
    };
    let looked = run::open_intents(root).and_then(|open| Ok((open, run::with_receipt(root)?)));
    let (open, ended) = match looked {
        Ok(looked) => looked,
        Err(e) if e.kind() == ErrorKind::SchemaTooNew => return not_ours(id),
        Err(e) => {
            let f = Finding::new(
                id,
                "unreadable",
                Severity::Warn,
                layout::INTENTS,
                what_to_do(&e),
            );
            return vec![CheckResult::ran(id, vec![f])];
        }
    };
    let count = open.len() as u64;
    let is_damaged = open.iter().any(|(_, intent)| intent.is_none());
    let mut findings = Capped::default();
    if count > 0 {
        // Who holds the lock is at work: what has no receipt yet may get it in a moment.
        let running = writer_owner(root).is_ok_and(|owner| owner.is_some());
        let (severity, message) = if running {
            (Severity::Info, "a run is under way; it has no receipt yet")
        } else if is_damaged {
            (
                Severity::Warn,
                "a run was killed and its intent is damaged; a repair puts it aside",
            )
        } else {
            (
                Severity::Warn,
                "a run was killed; the next command that writes finishes or closes it",
            )
        };
        let f = Finding::new(
            id,
            "interrupted-operation",
            severity,
            layout::INTENTS,
            message,
        )
        .with_count(count);
        findings.push(if running {
            f
        } else {
            f.with_next(Next::Repair {
                allow_repeated: false,
            })
        });
    }
    let mut stopped = false;
    for run in &ended {
        if cx.should_stop() {
            stopped = true;
            break;
        }
        match run::read_receipt(root, run) {
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::SchemaTooNew => return not_ours(id),
            Err(e) => findings.push(lost_receipt(run, &e)),
        }
    }
    let findings = findings.into_list(id);
    let result = if stopped {
        CheckResult::unknown(id, cx.stop_reason(), findings)
    } else {
        CheckResult::ran(id, findings)
    };
    cx.facts.operation.interrupted = count;
    vec![result]
}

/// That the record of a run is lost; archive and mirror don't depend on it.
fn lost_receipt(run: &RunId, e: &Error) -> Finding {
    let path = run::path_of(run);
    let (code, what, cure) = if e.kind() == ErrorKind::ArchiveCorrupt {
        (
            "receipt-damaged",
            "is damaged",
            "put a copy back, or move it away: the next index makes it anew",
        )
    } else {
        (
            "receipt-unreadable",
            "can't be read",
            "see its mode and owner",
        )
    };
    let message = format!("{path} {what}: that run can't be shown or undone; {cure}");
    Finding::new(
        CheckId::RepairInterrupted,
        code,
        Severity::Warn,
        path,
        message,
    )
    .with_next(Next::RunsList)
}

pub(super) fn orphans(cx: &mut Context) -> Vec<CheckResult> {
    let id = CheckId::RepairOrphans;
    let Some(root) = &cx.root else {
        return Context::skip(&[id], SkipReason::NoArchive, None);
    };
    let live = match &cx.place {
        ArchivePlace::Generation(g) => Some(g.clone()),
        _ => None,
    };
    let open = match run::open_intents(root) {
        Err(e) if e.kind() == ErrorKind::SchemaTooNew => return not_ours(id),
        open => open.unwrap_or_default(),
    };
    let targets: Vec<String> = open
        .into_iter()
        .filter_map(|(_, intent)| Some(intent?.target?.generation.to_string()))
        .collect();
    let mut findings = Vec::new();
    for entry in root
        .list(layout::GENERATIONS)
        .ok()
        .flatten()
        .unwrap_or_default()
    {
        if entry.kind != EntryKind::Dir || Some(&entry.name) == live.as_ref() {
            continue;
        }
        // A sealed one is a backup, and one that a run is about is that run's.
        let sealed = GenerationId::parse(&entry.name)
            .is_some_and(|g| seal::is_sealed(root, &g).unwrap_or(false));
        if sealed || targets.contains(&entry.name) {
            continue;
        }
        // Without a live generation the folders may be all there is: layout.current speaks.
        if live.is_some() {
            let message = format!(
                "generations/{} is not the live generation; nothing reads it",
                entry.name
            );
            let f = Finding::new(id, "orphan-generation", Severity::Info, entry.name, message);
            findings.push(f.with_next(Next::Repair {
                allow_repeated: false,
            }));
        }
    }
    vec![CheckResult::ran(id, findings)]
}
