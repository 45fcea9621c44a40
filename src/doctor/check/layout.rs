//! `layout.current`: whether the data directory is ours, and whether `CURRENT` names an archive.

use super::context::{ArchivePlace, Context};
use crate::error::ErrorKind;
use crate::model::finding::{CheckId, CheckResult, Finding, Severity, SkipReason};
use crate::model::next::Next;
use crate::disk::Root;
use crate::store::archive::is_unfinished;
use crate::store::generation::{self, GenerationId, Live};
use crate::store::layout;

pub(super) fn current(cx: &mut Context) -> Vec<CheckResult> {
    let id = CheckId::LayoutCurrent;
    let Some(root) = &cx.root else {
        return Context::skip(&[id], SkipReason::NoArchive, None);
    };
    let error = |code, subject: &str, message: String| {
        vec![CheckResult::ran(id, vec![Finding::new(id, code, Severity::Error, subject, message)])]
    };
    match generation::locate(root) {
        Ok(Live::Present(live)) => {
            cx.facts.initialized = true;
            cx.facts.archive.generation = Some(live.id.to_string());
            cx.facts.archive.archive_id = Some(live.manifest.archive_id.clone());
            cx.facts.archive.schema_version = u32::try_from(live.manifest.schema_version).ok();
            cx.place = ArchivePlace::Generation(live.id.to_string());
            vec![CheckResult::ran(id, Vec::new())]
        }
        Ok(Live::Never { mirror: false }) if unnamed(root).is_none() => {
            Context::skip(&[id], SkipReason::NoArchive, None)
        }
        Ok(Live::Never { .. }) => {
            cx.facts.initialized = true;
            if let Some(id) = unnamed(root) {
                cx.place = ArchivePlace::Lost;
                let message = format!(
                    "{id} holds an archive, and neither CURRENT nor the coverage ledger names it"
                );
                return error("archive-missing", layout::CURRENT, message);
            }
            let message = "sources are captured and no archive was made of them yet";
            let f = Finding::new(id, "archive-not-built", Severity::Warn, layout::MIRROR, message)
                .with_next(Next::Index);
            vec![CheckResult::ran(id, vec![f])]
        }
        Err(e) => {
            let message = e.message().to_owned();
            let kind = e.kind();
            cx.facts.initialized = kind != ErrorKind::ForeignArchive;
            match kind {
                ErrorKind::ForeignArchive => {
                    cx.refusal = Some(e);
                    error("foreign-archive", layout::ARCHIVE_DB, message)
                }
                ErrorKind::SchemaTooNew => {
                    cx.place = ArchivePlace::Lost;
                    cx.late_refusal = Some(e);
                    error("schema-too-new", layout::GENERATIONS, message)
                }
                ErrorKind::ArchiveMissing => {
                    cx.place = ArchivePlace::Lost;
                    error("archive-missing", layout::CURRENT, message)
                }
                _ => {
                    cx.place = ArchivePlace::Lost;
                    error("current-unreadable", layout::CURRENT, message)
                }
            }
        }
    }
}

/// A generation with commits, or with damage, that nothing names.
fn unnamed(root: &Root) -> Option<GenerationId> {
    let last = generation::folders(root).ok()?.pop()?;
    match is_unfinished(root, &last) {
        Ok(true) => None,
        _ => Some(last),
    }
}
