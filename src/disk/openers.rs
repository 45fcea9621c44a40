//! Who has a file open.

use std::fs::File;
use std::os::unix::fs::MetadataExt;

/// The processes that have the file open beside this one, as far as the system tells: none are told
/// of where it does not, or of other users.
#[must_use]
pub fn open_elsewhere(file: &File) -> Vec<u32> {
    let Ok(meta) = file.metadata() else {
        return Vec::new();
    };
    let same = |path: std::path::PathBuf| {
        std::fs::metadata(path).is_ok_and(|m| (m.dev(), m.ino()) == (meta.dev(), meta.ino()))
    };
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut found: Vec<u32> = processes
        .filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != std::process::id())
        .filter(|pid| {
            std::fs::read_dir(format!("/proc/{pid}/fd"))
                .is_ok_and(|list| list.filter_map(Result::ok).any(|e| same(e.path())))
        })
        .collect();
    found.sort_unstable();
    found
}
