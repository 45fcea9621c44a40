//! What a command needs to find in the data directory before it begins.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::disk::{ArchiveShared, Root, writer_owner};
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::model::interrupt::Interrupt;
use crate::model::path::normalise;
use crate::model::source::SourceKey;
use crate::sources::config::Config;
use crate::sources::roots::{real, roots};
use crate::store::archive::ArchiveReader;
use crate::store::layout;
use crate::store::mirror::{MirrorReader, SourceIdent};

/// Name of another program's archive, at the root of its data directory.
const FOREIGN_DB: &str = layout::ARCHIVE_DB;
/// How long a reading command waits for a checkpoint.
const PATIENCE: Duration = Duration::from_secs(5);

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

/// The data directory of a command that looks for what can be gone back to: it may be asked for
/// just because the archive is gone.
///
/// # Errors
/// `not-initialized` where nothing was ever made; `foreign-archive` where it is another program's.
pub fn with_anything(env: &Env) -> Result<Root> {
    let root = open(env)?;
    for ours in [layout::BACKUPS, layout::GENERATIONS, layout::MIRROR] {
        if root.exists(ours)? {
            return Ok(root);
        }
    }
    with_archive(env)
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
    if root.exists(layout::CURRENT)? || root.exists(layout::COVERAGE)? {
        return Err(Error::new(
            ErrorKind::MirrorDamaged,
            "an archive was made here and the mirror that it was read from is gone",
        )
        .with_hint("Index again: what the harnesses still have is captured anew.")
        .with_hint_argv(["cass", "index"]));
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

/// Refuses to hand a file out into the data directory or into a harness's own folder.
///
/// # Errors
/// `unsafe-target`.
pub fn hand_out_target(env: &Env, target: &Path) -> Result<()> {
    let place = real(target);
    // Rules that can't be read change no root but the extra ones.
    let config = Config::load(env.config_dir(), env.home()).unwrap_or_default();
    let inside = std::iter::once(env.data_dir().to_path_buf())
        .chain(roots(env, &config).into_iter().map(|root| root.path))
        .find(|folder| place.starts_with(real(folder)));
    match inside {
        None => Ok(()),
        Some(folder) => Err(Error::new(
            ErrorKind::UnsafeTarget,
            format!("{} lies in {}", target.display(), folder.display()),
        )
        .with_hint("Name a target outside of the data directory and the harnesses' folders.")),
    }
}

/// The archive of a command that reads rows.
///
/// # Errors
/// `not-initialized`, or why it can't be read.
pub fn archive(root: &Root) -> Result<ArchiveReader> {
    ArchiveReader::open(root)?.ok_or_else(|| {
        Error::new(ErrorKind::NotInitialized, "no archive was made here yet")
            .with_hint("Index first.")
            .with_hint_argv(["cass", "index"])
    })
}

/// The mirror of a command that reads captures.
///
/// # Errors
/// `not-initialized`, or why it can't be read.
pub fn mirror(root: &Root) -> Result<MirrorReader<'_>> {
    MirrorReader::open(root)?.ok_or_else(|| {
        Error::new(ErrorKind::NotInitialized, "nothing was captured here yet")
            .with_hint("Index first.")
            .with_hint_argv(["cass", "index"])
    })
}

/// Waits for a checkpoint to end, for `PATIENCE` at most. While what it gives is held none begins,
/// so the readers of the command itself need not wait, which no signal would end.
///
/// # Errors
/// `lock-busy` with the holder and its age; `interrupted` or `terminated` when a signal came. What
/// else is wrong here is left to the command, which says it better.
pub fn wait_for_checkpoint(env: &Env, interrupt: &Interrupt) -> Result<Option<ArchiveShared>> {
    let Ok(Some(root)) = Root::open(env.data_dir()) else {
        return Ok(None);
    };
    let begun = Instant::now();
    loop {
        match ArchiveShared::acquire(&root, Duration::ZERO) {
            Ok(lock) => return Ok(Some(lock)),
            Err(e) if e.kind() != ErrorKind::LockBusy => return Ok(None),
            Err(e) if begun.elapsed() >= PATIENCE => return Err(naming_holder(env, &root, e)),
            Err(_) => {
                interrupt.check()?;
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

/// `lock-busy` of the archive lock, with its holder: only who has the writer lock takes it
/// exclusively, so the writer's name is the holder's.
fn naming_holder(env: &Env, root: &Root, error: Error) -> Error {
    if error.kind() != ErrorKind::LockBusy {
        return error;
    }
    let Ok(Some(owner)) = writer_owner(root) else {
        return error;
    };
    let age_ms = env.now_ms().saturating_sub(owner.since_ms).max(0);
    let who = match owner.pid {
        0 => "another process".to_owned(),
        pid => format!(
            "cass {} (pid {pid}), begun {} s ago",
            owner.command,
            age_ms / 1000
        ),
    };
    let mut named = Error::new(
        ErrorKind::LockBusy,
        format!("the archive is being checkpointed by {who}"),
    )
    .with_hint("Run the command again in a moment; the lock goes with its process.")
    .with_context("owner_pid", owner.pid.to_string())
    .with_context("owner_command", owner.command)
    .with_context("owner_since_ms", owner.since_ms.to_string())
    .with_context("held_for_ms", age_ms.to_string())
    .with_context("lock", "locks/archive.lock");
    if let Some(ms) = error.retry_after_ms() {
        named = named.with_retry_after_ms(ms);
    }
    named.with_source(error)
}

/// The captured source that `name`, a key or a path, names.
///
/// # Errors
/// `not-found`; `ambiguous-name` with the keys in the context when several harnesses or machines
/// have the path.
pub fn source(mirror: &MirrorReader<'_>, name: &OsStr) -> Result<SourceIdent> {
    if let Some(key) = name.to_str().and_then(|t| t.parse::<SourceKey>().ok())
        && let Some(head) = mirror.head(key)?
    {
        return Ok(head.ident);
    }
    let path = normalise(&std::path::absolute(name).unwrap_or_else(|_| PathBuf::from(name)));
    let mut found = mirror.resolve_path(&path)?;
    match (found.pop(), found.is_empty()) {
        (Some(one), true) => Ok(one),
        (Some(one), false) => {
            found.push(one);
            let keys: Vec<String> = found.iter().map(|s| s.key.to_string()).collect();
            Err(Error::new(
                ErrorKind::AmbiguousName,
                format!("{} is captured as {} sources", path.display(), keys.len()),
            )
            .with_hint("Use one of the keys.")
            .with_context("keys", keys.join(" ")))
        }
        (None, _) => Err(Error::new(
            ErrorKind::NotFound,
            format!("{} was never captured", path.display()),
        )
        .with_hint("A source is named by its path or its key; sessions show lists both.")
        .with_hint_argv(["cass", "sessions", "list"])),
    }
}
