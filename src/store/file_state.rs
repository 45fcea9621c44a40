//! Files by their content: what a plan covers of an archive that does not verify.

use std::io::Read;

use crate::disk::Root;
use crate::error::{Error, Result};
use crate::model::interrupt::Interrupt;
use crate::model::plan::{Count, FileState};
use crate::store::generation::GenerationId;
use crate::store::layout;

const AT_ONCE: usize = 4 << 20;

/// Length and BLAKE3 of a regular file; `None` when there is none. Never of a database that this
/// process has open.
///
/// # Errors
/// `unsafe-target` when it is no regular file; `interrupted`, `terminated`, `io`.
pub fn file_state(root: &Root, rel: &str, interrupt: &Interrupt) -> Result<Option<FileState>> {
    let Some(mut file) = root.open_file(rel)? else {
        return Ok(None);
    };
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; AT_ONCE];
    let mut len = 0;
    loop {
        interrupt.check()?;
        let got = file
            .read(&mut buffer)
            .map_err(|e| Error::io("read", &root.full(rel), e))?;
        let Some(bytes) = buffer.get(..got).filter(|b| !b.is_empty()) else {
            break;
        };
        hasher.update_rayon(bytes);
        len += bytes.len() as u64;
    }
    Ok(Some(FileState {
        name: rel.to_owned(),
        len: Count(len),
        blake3: hasher.finalize().to_hex().to_string(),
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
