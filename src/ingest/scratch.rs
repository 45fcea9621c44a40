//! Copies of captured databases, for as long as they are read: one at a time.

use std::io::Read;
use std::path::PathBuf;

use crate::disk::Capture;
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::projection::unreadable;
use crate::model::digest::Digest;
use crate::sources::database::MEMBERS;
use crate::store::layout;
use crate::store::mirror::{CaptureLine, MirrorWriter};

/// The file in which SQLite keeps what a change that did not end has overwritten.
const JOURNAL: &str = "-journal";
/// A journal may end in the name of a file of a change of several databases. SQLite would look for
/// that file by its path, wherever a hostile journal points, and what is read of the copy would
/// depend on it. Behind these bytes it sees no name.
const NAMELESS: [u8; 16] = [0; 16];
/// Room that stays free beside a copy.
const SPARE: u64 = 16 << 20;
const BLOCK: usize = 1 << 20;

/// Puts a captured database with its sidecars where SQLite can open it. The copy that was there
/// before is removed first.
///
/// # Errors
/// `no-space` when there is no room, with nothing written; `mirror-damaged`; `io`.
pub(super) fn copy(
    cap: Capture<'_>,
    mirror: &mut MirrorWriter<'_>,
    line: &CaptureLine,
) -> Result<PathBuf> {
    clear(cap)?;
    let need = line.group.iter().fold(line.len, |n, m| n + m.len) + SPARE;
    let free = cap.root().free_bytes()?;
    if free < need {
        return Err(Error::new(
            ErrorKind::NoSpace,
            format!("{need} bytes are needed for a copy of the database, {free} are free"),
        )
        .with_context("required_bytes", need.to_string())
        .with_context("free_bytes", free.to_string()));
    }
    cap.make_derived_folder(layout::SCRATCH)?;
    put(cap, mirror, line, "", line.recipe, line.len)?;
    for member in &line.group {
        if MEMBERS.contains(&member.name.as_str()) {
            put(cap, mirror, line, &member.name, member.recipe, member.len)?;
        }
    }
    Ok(cap.root().full(layout::SCRATCH_DB))
}

/// Removes what a copy left. Nothing there is fine.
///
/// # Errors
/// `io`, `permission-denied`.
pub(super) fn clear(cap: Capture<'_>) -> Result<()> {
    for suffix in ["", "-wal", "-journal", "-shm"] {
        cap.remove_derived_folder(&format!("{}{suffix}", layout::SCRATCH_DB))?;
    }
    Ok(())
}

fn put(
    cap: Capture<'_>,
    mirror: &mut MirrorWriter<'_>,
    line: &CaptureLine,
    suffix: &str,
    recipe: Digest,
    len: u64,
) -> Result<()> {
    let mut content = mirror.open_content(recipe, len)?;
    let (mut file, _) = cap.append(&format!("{}{suffix}", layout::SCRATCH_DB))?;
    let mut block = vec![0; BLOCK];
    loop {
        match content.read(&mut block) {
            Ok(0) if suffix == JOURNAL => return file.append(&NAMELESS),
            Ok(0) => return Ok(()),
            Ok(n) => file.append(block.get(..n).unwrap_or_default())?,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(unreadable(line, e)),
        }
    }
}
