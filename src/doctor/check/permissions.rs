//! `security.permissions`: whether others can read or change the data directory.

use std::os::unix::fs::MetadataExt;

use super::context::Context;
use crate::model::finding::{CheckId, CheckResult, Finding, Severity, SkipReason};
use crate::store::layout;

pub(super) fn modes(cx: &mut Context) -> Vec<CheckResult> {
    let id = CheckId::SecurityPermissions;
    let Some(root) = &cx.root else {
        return Context::skip(&[id], SkipReason::NoArchive, None);
    };
    let me = rustix::process::geteuid().as_raw();
    let mut findings = Vec::new();
    let mut look = |rel: &str| {
        let path = if rel.is_empty() {
            root.path().to_path_buf()
        } else {
            root.full(rel)
        };
        let Ok(meta) = std::fs::symlink_metadata(&path) else {
            return;
        };
        let subject = if rel.is_empty() { "." } else { rel };
        let mode = meta.mode() & 0o777;
        if mode & 0o022 != 0 {
            let message = format!("{subject} can be changed by other users (mode {mode:03o})");
            findings.push(Finding::new(
                id,
                "writable-by-others",
                Severity::Warn,
                subject,
                message,
            ));
        } else if mode & 0o055 != 0 && (!rel.is_empty() || mode & 0o044 != 0) {
            let message = format!("{subject} can be read by other users (mode {mode:03o})");
            findings.push(Finding::new(
                id,
                "readable-by-others",
                Severity::Warn,
                subject,
                message,
            ));
        }
        if meta.uid() != me && me != 0 {
            let message = format!("{subject} belongs to another user (uid {})", meta.uid());
            findings.push(Finding::new(
                id,
                "foreign-owner",
                Severity::Warn,
                subject,
                message,
            ));
        }
    };
    for rel in [
        "",
        layout::MIRROR,
        layout::PACKS,
        layout::LEDGERS,
        layout::GENERATIONS,
        layout::COVERAGE,
        layout::BACKUPS,
    ] {
        look(rel);
    }
    if let Ok(Some(generations)) = root.list(layout::GENERATIONS) {
        for g in generations {
            look(&layout::archive_db(&g.name));
        }
    }
    if let Ok(Some(backups)) = root.list(layout::BACKUPS) {
        for b in backups {
            look(&format!(
                "{}/{}/{}",
                layout::BACKUPS,
                b.name,
                layout::ARCHIVE_DB
            ));
        }
    }
    vec![CheckResult::ran(id, findings)]
}
