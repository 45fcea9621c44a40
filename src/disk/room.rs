//! Whether a file system is full.

use std::path::Path;

/// Bytes below which nothing more than a few small files can be made.
const LEAST: u64 = 64 << 10;

/// Whether the file system that holds `path`, a file that may be missing, has no room for another
/// file: no bytes for this user, or no more files. For failures that don't say why: SQLite tells
/// only of some full disks that they are full.
#[must_use]
pub fn is_full(path: &Path) -> bool {
    let folder = match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    rustix::fs::statvfs(folder).is_ok_and(|v| {
        // Btrfs and others have no number of files to run out of, and say 0 of 0.
        v.f_bavail.saturating_mul(v.f_frsize) < LEAST || v.f_files > 0 && v.f_favail == 0
    })
}
