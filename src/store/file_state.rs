//! Files by their content: what a plan covers of an archive that does not verify.

use crate::disk::Root;
use crate::error::Result;
use crate::model::interrupt::Interrupt;
use crate::model::plan::{Count, FileState};
use crate::store::file_list::measure;
use crate::store::generation::GenerationId;
use crate::store::layout;

/// Length and BLAKE3 of a regular file; `None` when there is none. Never of a database that this
/// process has open.
///
/// # Errors
/// `unsafe-target` when it is no regular file; `interrupted`, `terminated`, `io`.
pub fn file_state(root: &Root, rel: &str, interrupt: &Interrupt) -> Result<Option<FileState>> {
    let measured = measure(root, rel, interrupt)?;
    Ok(measured.map(|(len, blake3)| FileState {
        name: rel.to_owned(),
        len: Count(len),
        blake3: blake3.to_hex(),
    }))
}

/// Database, WAL and manifest of a generation, those that are there. Its shared-memory file holds
/// nothing.
///
/// # Errors
/// As [`file_state`].
pub fn archive_files(
    root: &Root,
    id: &GenerationId,
    interrupt: &Interrupt,
) -> Result<Vec<FileState>> {
    let db = layout::archive_db(id.as_str());
    let mut files = Vec::new();
    let manifest = layout::manifest(id.as_str());
    for rel in [db.clone(), format!("{db}-wal"), manifest] {
        let state = file_state(root, &rel, interrupt)?;
        // An empty WAL says what a missing one says.
        files.extend(state.filter(|f| !f.name.ends_with("-wal") || f.len.0 > 0));
    }
    Ok(files)
}

/// BLAKE3 of a generation's manifest, hex; empty when there is none.
///
/// # Errors
/// As [`file_state`].
pub fn manifest_digest(root: &Root, id: &GenerationId, interrupt: &Interrupt) -> Result<String> {
    let state = file_state(root, &layout::manifest(id.as_str()), interrupt)?;
    Ok(state.map_or_else(String::new, |f| f.blake3))
}
