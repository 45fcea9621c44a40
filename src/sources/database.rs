//! Names of SQLite databases and of the files that belong to one.

use std::path::{Path, PathBuf};

/// The files that belong to a database, by what is added to its name.
pub const MEMBERS: [&str; 2] = ["-wal", "-journal"];

/// Whether the name is one that harnesses give to databases.
#[must_use]
pub fn is_database_name(path: &Path) -> bool {
    // VS Code and what is built on it keep a copy beside the database.
    if path
        .file_name()
        .is_some_and(|n| n.as_encoded_bytes().ends_with(b".vscdb.backup"))
    {
        return true;
    }
    path.extension().is_some_and(|e| {
        matches!(
            e.as_encoded_bytes(),
            b"sqlite" | b"sqlite3" | b"db" | b"vscdb"
        )
    })
}

/// The path of a member.
#[must_use]
pub fn member_path(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Members that are there and can't be read as files, each with why: a link, a folder, a FIFO, or
/// nothing that this user may read.
#[must_use]
pub fn unread_members(database: &Path) -> Vec<(PathBuf, Unread)> {
    let look = |suffix: &&str| {
        let path = member_path(database, suffix);
        let why = match std::fs::symlink_metadata(&path) {
            Err(_) => return None,
            Ok(meta) if !meta.is_file() => Unread::NotAFile,
            Ok(_) => match rustix::fs::access(&path, rustix::fs::Access::READ_OK) {
                Err(rustix::io::Errno::ACCESS) => Unread::Denied,
                _ => return None,
            },
        };
        Some((path, why))
    };
    MEMBERS.iter().filter_map(look).collect()
}

/// Why a member can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// It is no regular file; no link is followed.
    NotAFile,
    /// No permission.
    Denied,
}
