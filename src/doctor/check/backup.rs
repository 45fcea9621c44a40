//! `backup.freshness`: how old the newest backup is, and whether those that are there could be used
//! as far as their manifests tell. No file of a backup is read.

use super::context::{ArchivePlace, Context};
use crate::doctor::backups::{self, Entry};
use crate::model::finding::{CheckId, CheckResult, Finding, Severity, SkipReason, UnknownReason};
use crate::model::next::Next;
use crate::model::verdict::{BackupKind, BackupState};
use crate::store::generation;
use crate::store::layout;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// Days after which it is worth saying that there is no newer backup.
const DAYS: i64 = 30;

pub(super) fn freshness(cx: &mut Context) -> Vec<CheckResult> {
    let id = CheckId::BackupFreshness;
    let Some(root) = &cx.root else {
        return Context::skip(&[id], SkipReason::NoArchive, None);
    };
    let all = match backups::list(root) {
        Ok(all) => all,
        Err(e) => {
            let f = Finding::new(
                id,
                "backups-unreadable",
                Severity::Warn,
                layout::BACKUPS,
                e.message(),
            );
            return vec![CheckResult::unknown(id, UnknownReason::Unreadable, vec![f])];
        }
    };
    if all.is_empty() && cx.place == ArchivePlace::None {
        return Context::skip(&[id], SkipReason::NoArchive, None);
    }
    let mut findings = Vec::new();
    let unusable = |code, kind: BackupKind, what: &str| {
        let bad: Vec<&Entry> = all
            .iter()
            .filter(|e| e.kind == kind && e.state != BackupState::Unverified && !e.is_newer)
            .collect();
        bad.first().map(|first| {
            let message = format!("{what} {} can't be used as it is; verify it", first.id);
            Finding::new(id, code, Severity::Warn, first.manifest.clone(), message)
                .with_count(bad.len() as u64)
                .with_next(Next::BackupsVerify {
                    id: first.id.clone(),
                    deep: false,
                })
        })
    };
    findings.extend(unusable("damaged-backup", BackupKind::Operator, "backup"));
    findings.extend(unusable(
        "damaged-seal",
        BackupKind::SealedGeneration,
        "sealed generation",
    ));
    findings.extend(stale(cx, &all));
    vec![CheckResult::ran(id, findings)]
}

/// That no backup is younger than [`DAYS`] days, where the archive has moved on since the last.
fn stale(cx: &Context, all: &[Entry]) -> Option<Finding> {
    let id = CheckId::BackupFreshness;
    let (root, ArchivePlace::Generation(live)) = (cx.root.as_ref()?, &cx.place) else {
        return None;
    };
    let manifest = generation::manifest(root, &generation::GenerationId::parse(live)?)
        .ok()
        .flatten()?;
    let now = cx.env.now_ms();
    let days = |ms: i64| now.saturating_sub(ms) / DAY_MS;
    let newest = all.iter().find(|e| {
        e.kind == BackupKind::Operator
            && e.state == BackupState::Unverified
            && e.archive_id.as_ref() == Some(&manifest.archive_id)
    });
    match newest.and_then(|e| e.created_ms.map(|ms| (e, days(ms)))) {
        Some((e, age)) if age >= DAYS => {
            let same = e.head.map(crate::model::digest::Digest::to_hex) == cx.facts.archive.head;
            let message = format!(
                "the newest backup, {}, is {age} days old and the archive has changed since",
                e.id
            );
            (!same).then(|| {
                Finding::new(id, "stale-backup", Severity::Info, layout::BACKUPS, message)
                    .with_next(Next::BackupsList)
            })
        }
        Some(_) => None,
        None => {
            let age = days(manifest.created_ms);
            let message = format!("the archive is {age} days old and no backup of it was made");
            (age >= DAYS)
                .then(|| Finding::new(id, "no-backup", Severity::Info, layout::BACKUPS, message))
        }
    }
}
