//! What a command needs to find in the data directory before it begins.

use crate::disk::Root;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::store::layout;

/// Name of another program's archive, at the root of its data directory.
const FOREIGN_DB: &str = layout::ARCHIVE_DB;

/// The data directory of a command that reads the archive.
///
/// # Errors
/// `not-initialized` where none was ever made, `archive-missing` where one was, `foreign-archive`
/// where it is another program's.
pub fn with_archive(env: &Env) -> Result<Root> {
    let root = open(env)?;
    if root.exists(layout::CURRENT)? {
        return Ok(root);
    }
    if root.exists(FOREIGN_DB)? {
        return Err(Error::new(
            ErrorKind::ForeignArchive,
            format!(
                "{} holds the archive of another program",
                env.data_dir().display()
            ),
        )
        .with_hint("Name another folder with --data-dir; nothing was written here."));
    }
    if root.exists(layout::COVERAGE)? || root.exists(layout::GENERATIONS)? {
        return Err(Error::new(
            ErrorKind::ArchiveMissing,
            "an archive was made here and CURRENT, which names it, is gone",
        )
        .with_hint("The check says what is left; touch nothing before.")
        .with_hint_argv(["cass", "doctor", "check"]));
    }
    Err(never(env))
}

/// The data directory of a command that reads the mirror.
///
/// # Errors
/// `not-initialized` where nothing was ever captured.
pub fn with_mirror(env: &Env) -> Result<Root> {
    let root = open(env)?;
    if root.exists(layout::MIRROR)? {
        return Ok(root);
    }
    Err(never(env))
}

fn open(env: &Env) -> Result<Root> {
    Root::open(env.data_dir())?.ok_or_else(|| never(env))
}

fn never(env: &Env) -> Error {
    Error::new(
        ErrorKind::NotInitialized,
        format!("nothing was ever indexed into {}", env.data_dir().display()),
    )
    .with_hint("Index first.")
    .with_hint_argv(["cass", "index"])
}
