//! `storage.*`: room, and whether the place itself is sound.

use super::context::Context;
use crate::disk::{EntryKind, Root};
use crate::model::finding::{CheckId, CheckResult, Finding, Severity, SkipReason};
use crate::model::verdict::StoragePressure;
use crate::store::layout;

/// Below this much room a warning is due: an index run or a repair may not fit any more.
const RECOMMENDED: u64 = 1 << 30;

/// Bytes of the files directly in a folder.
fn folder_bytes(root: &Root, rel: &str) -> u64 {
    let mut bytes = 0u64;
    let dir = root.full(rel);
    // What can't be listed is reported by the checks that read it.
    let _ = root.for_each_entry(rel, &mut |e| {
        if e.kind == EntryKind::File {
            let meta = std::fs::symlink_metadata(dir.join(&e.name));
            bytes = bytes.saturating_add(meta.map_or(0, |m| m.len()));
        }
    });
    bytes
}

pub(super) fn pressure(cx: &mut Context) -> Vec<CheckResult> {
    let id = CheckId::StoragePressure;
    let Some(root) = &cx.root else {
        return Context::skip(&[id], SkipReason::NoArchive, None);
    };
    let archive: u64 = root
        .list(layout::GENERATIONS)
        .ok()
        .flatten()
        .unwrap_or_default()
        .iter()
        .map(|g| folder_bytes(root, &format!("{}/{}", layout::GENERATIONS, g.name)))
        .sum();
    let mirror = folder_bytes(root, layout::PACKS)
        + folder_bytes(root, layout::LEDGERS)
        + folder_bytes(root, layout::MIRROR_INDEX);
    cx.facts.storage.archive_bytes = Some(archive);
    cx.facts.storage.mirror_bytes = Some(mirror);
    // Room for one more copy of the archive, which every repair needs, and never less than the
    // fixed amount.
    let recommended = RECOMMENDED.max(archive);
    cx.facts.storage.recommended_free_bytes = recommended;
    match root.free_bytes() {
        Ok(free) => {
            cx.facts.storage.available_bytes = Some(free);
            let (status, severity, code) = if free < RECOMMENDED / 16 {
                (StoragePressure::Critical, Severity::Error, "nearly-full")
            } else if free < recommended {
                (StoragePressure::Degraded, Severity::Warn, "little-room")
            } else {
                (StoragePressure::Ok, Severity::Info, "")
            };
            cx.facts.storage.status = status;
            let mut findings = Vec::new();
            if status != StoragePressure::Ok {
                let message = format!(
                    "{} MiB are free, {} MiB are recommended",
                    free >> 20,
                    recommended >> 20
                );
                findings.push(Finding::new(id, code, severity, ".", message));
            }
            vec![CheckResult::ran(id, findings)]
        }
        Err(e) => {
            let f = Finding::new(id, "room-unknown", Severity::Warn, ".", e.message());
            vec![CheckResult::ran(id, vec![f])]
        }
    }
}

pub(super) fn location(cx: &mut Context) -> Vec<CheckResult> {
    let id = CheckId::StorageLocation;
    let Some(root) = &cx.root else {
        return Context::skip(&[id], SkipReason::NoArchive, None);
    };
    let mut findings = Vec::new();
    if let Some(kind) = unsound_file_system(root) {
        let message =
            format!("the data directory lies on {kind}: locks and syncs may not hold there");
        findings.push(Finding::new(
            id,
            "network-file-system",
            Severity::Warn,
            ".",
            message,
        ));
    }
    let path = root.path();
    let volatile = ["/tmp", "/var/tmp", "/dev/shm", "/run"];
    if volatile.iter().any(|v| path.starts_with(v)) {
        let message = "the data directory lies where the system cleans up by itself";
        findings.push(Finding::new(
            id,
            "volatile-location",
            Severity::Info,
            ".",
            message,
        ));
    }
    vec![CheckResult::ran(id, findings)]
}

/// The name of a file system on which SQLite's and our own guarantees are not known to hold.
#[cfg(target_os = "linux")]
fn unsound_file_system(root: &Root) -> Option<&'static str> {
    // Magic numbers of statfs(2).
    let magic = rustix::fs::statfs(root.path()).ok()?.f_type;
    match magic & 0xffff_ffff {
        0x6969 => Some("NFS"),
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => Some("SMB"),
        0x6573_5546 => Some("FUSE"),
        0x0102_1997 => Some("9P"),
        _ => None,
    }
}

#[cfg(not(target_os = "linux"))]
fn unsound_file_system(_: &Root) -> Option<&'static str> {
    None
}
