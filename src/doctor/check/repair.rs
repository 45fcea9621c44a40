//! `repair.*`: what a repair that failed, or was killed, left behind.

use super::context::{ArchivePlace, Context};
use crate::disk::{EntryKind, Root};
use crate::model::finding::{CheckId, CheckResult, Finding, Severity, SkipReason};
use crate::model::verdict::RepairMarker;
use crate::store::layout;

/// Files in a folder of the doctor's; none when there is no such folder.
fn files(root: &Root, rel: &str) -> Result<Vec<String>, crate::error::Error> {
    Ok(root
        .list(rel)?
        .unwrap_or_default()
        .into_iter()
        .filter(|e| e.kind == EntryKind::File && !e.name.starts_with('.'))
        .map(|e| e.name)
        .collect())
}

pub(super) fn marker(cx: &mut Context) -> Vec<CheckResult> {
    let id = CheckId::RepairMarker;
    let Some(root) = &cx.root else {
        return Context::skip(&[id], SkipReason::NoArchive, None);
    };
    match files(root, "doctor/failures") {
        Ok(found) if found.is_empty() => vec![CheckResult::ran(id, Vec::new())],
        Ok(found) => {
            // This version makes none: one is there from a later one, which can read it.
            cx.facts.marker = RepairMarker::PreviousFailure;
            let message = "a repair failed here and left its context; see doctor/failures";
            let f = Finding::new(
                id,
                "previous-failure",
                Severity::Warn,
                "doctor/failures",
                message,
            )
            .with_count(found.len() as u64);
            vec![CheckResult::ran(id, vec![f])]
        }
        Err(e) => {
            let f = Finding::new(
                id,
                "unreadable",
                Severity::Warn,
                "doctor/failures",
                e.message(),
            );
            vec![CheckResult::ran(id, vec![f])]
        }
    }
}

pub(super) fn interrupted(cx: &mut Context) -> Vec<CheckResult> {
    let id = CheckId::RepairInterrupted;
    let Some(root) = &cx.root else {
        return Context::skip(&[id], SkipReason::NoArchive, None);
    };
    let intents = files(root, "doctor/intents").unwrap_or_default();
    let receipts = files(root, "doctor/receipts").unwrap_or_default();
    let open = intents.iter().filter(|i| !receipts.contains(i)).count() as u64;
    cx.facts.operation.interrupted = open;
    let mut findings = Vec::new();
    if open > 0 {
        let message = "an operation began and has no receipt; see doctor/intents";
        findings.push(
            Finding::new(
                id,
                "interrupted-operation",
                Severity::Warn,
                "doctor/intents",
                message,
            )
            .with_count(open),
        );
    }
    vec![CheckResult::ran(id, findings)]
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
        // Without a live generation the folders may be all there is: layout.current speaks.
        if live.is_some() {
            let message = format!(
                "generations/{} is not the live generation; nothing reads it",
                entry.name
            );
            findings.push(Finding::new(
                id,
                "orphan-generation",
                Severity::Info,
                entry.name,
                message,
            ));
        }
    }
    vec![CheckResult::ran(id, findings)]
}
