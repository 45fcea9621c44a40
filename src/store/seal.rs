//! Seals: a generation that was superseded is kept as it was, byte for byte, and is the backup
//! from before whatever superseded it. Its seal says what its files were. A damaged archive is
//! sealed like a sound one: nothing in it has to be readable.

use serde::{Deserialize, Serialize};

use super::file_list::{self, FileCheck, StoredFile};
use crate::disk::{Capture, Root};
use crate::error::{Error, ErrorKind, Result};
use crate::model::digest::Digest;
use crate::model::interrupt::Interrupt;
use crate::store::archive::ArchiveReader;
use crate::store::generation::{self, GenerationId};
use crate::store::layout;

/// Layout version of a seal.
pub const FORMAT: u32 = 1;

/// The files that a seal covers where they are there. Never `-shm`: it is memory.
const FILES: [&str; 3] = [layout::ARCHIVE_DB, "agent_search.db-wal", layout::MANIFEST];

/// What a seal says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    /// Layout version.
    pub format: u32,
    /// The archive, if the manifest was readable.
    pub archive_id: Option<String>,
    /// The generation in whose folder it lies.
    pub generation: GenerationId,
    /// Schema version, if the manifest was readable.
    pub schema_version: Option<i64>,
    /// Its last commit, if the database was readable.
    pub commit: Option<u64>,
    /// Chain head of that commit.
    pub head: Option<Digest>,
    /// Its files.
    pub files: Vec<StoredFile>,
    /// When it was sealed, milliseconds since the Unix epoch.
    pub sealed_ms: i64,
    /// The generation that is live instead.
    pub superseded_by: Option<GenerationId>,
    /// The run that superseded it.
    pub run_id: Option<String>,
    /// Why, in one word or sentence.
    pub reason: String,
    /// Whether it may be the only readable holder of something: then it is not to be reclaimed
    /// before another holder is verified.
    pub sole_copy: bool,
}

impl Seal {
    /// Bytes of its files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |n, f| n.saturating_add(f.len))
    }
}

/// What to write into a seal beside what is found.
#[derive(Debug, Clone, Copy)]
pub struct Sealing<'a> {
    /// The generation to seal.
    pub generation: &'a GenerationId,
    /// The generation that is live instead.
    pub superseded_by: Option<&'a GenerationId>,
    /// The run that superseded it.
    pub run_id: Option<&'a str>,
    /// Why, in one word or sentence.
    pub reason: &'a str,
    /// Whether it may be the only readable holder of something.
    pub sole_copy: bool,
    /// Now, milliseconds since the Unix epoch.
    pub now_ms: i64,
}

/// Seals a generation that `CURRENT` does not name (any more): hashes its files and publishes the
/// seal whole. The writer lock, from which `cap` comes, keeps them from changing; no connection to
/// its database may be open in this process. A seal of the same run that says the same is left as
/// it is; one of another run is replaced, since the generation was live in between.
///
/// # Errors
/// `unsafe-target` when `CURRENT` names the generation; `archive-unreadable` when `CURRENT` can't be
/// read; `archive-missing` when there is no such folder; `verify-failed` when the files are no
/// longer what a seal of this run says; `no-space`, `permission-denied`, `io`, `interrupted`.
pub fn write(cap: Capture<'_>, sealing: &Sealing<'_>, interrupt: &Interrupt) -> Result<Seal> {
    let root = cap.root();
    let id = sealing.generation;
    if generation::current(root)?.as_ref() == Some(id) {
        return Err(Error::new(
            ErrorKind::UnsafeTarget,
            format!("{id} is the live generation, which is never sealed"),
        ));
    }
    let folder = folder(id);
    if !generation::folders(root)?.contains(id) {
        return Err(Error::new(
            ErrorKind::ArchiveMissing,
            format!("{} is not there", root.full(&folder).display()),
        ));
    }
    let manifest = generation::manifest(root, id).ok().flatten();
    // Closed again before any of its files is opened below.
    let head = manifest.as_ref().and_then(|m| {
        let db = layout::archive_db(id.as_str());
        ArchiveReader::open_aside(root, &db, m).ok()?.head().ok()
    });
    let mut files = Vec::new();
    for name in FILES {
        let rel = format!("{folder}/{name}");
        if let Some((len, blake3)) = file_list::measure(root, &rel, interrupt)? {
            files.push(StoredFile {
                name: name.to_owned(),
                len,
                blake3,
            });
        }
    }
    let seal = Seal {
        format: FORMAT,
        archive_id: manifest.as_ref().map(|m| m.archive_id.clone()),
        generation: id.clone(),
        schema_version: manifest.as_ref().map(|m| m.schema_version),
        commit: head.map(|h| h.commit),
        head: head.map(|h| h.head),
        files,
        sealed_ms: sealing.now_ms,
        superseded_by: sealing.superseded_by.cloned(),
        run_id: sealing.run_id.map(str::to_owned),
        reason: sealing.reason.to_owned(),
        sole_copy: sealing.sole_copy,
    };
    if let Ok(Some(old)) = read(root, id)
        && old.run_id == seal.run_id
        && old.superseded_by == seal.superseded_by
    {
        if old.files != seal.files {
            return Err(file_list::bad(
                root,
                &layout::seal(id.as_str()),
                "says what the files of its generation were, and they are not",
            ));
        }
        let same = Seal {
            sealed_ms: old.sealed_ms,
            ..seal.clone()
        };
        if same == old {
            return Ok(old);
        }
    }
    cap.replace(&layout::seal(id.as_str()), &file_list::to_bytes(&seal)?)?;
    Ok(seal)
}

/// Whether a generation is sealed.
///
/// # Errors
/// `io` or `permission-denied`.
pub fn is_sealed(root: &Root, id: &GenerationId) -> Result<bool> {
    root.exists(&layout::seal(id.as_str()))
}

/// Takes the seal off the generation that `CURRENT` names again: from its next commit on the seal
/// would say what is no longer so. None there is fine.
///
/// # Errors
/// `unsafe-target` when `CURRENT` does not name it; `archive-unreadable`, `permission-denied`, `io`.
pub fn lift(cap: Capture<'_>, id: &GenerationId) -> Result<()> {
    if generation::current(cap.root())?.as_ref() != Some(id) {
        return Err(Error::new(
            ErrorKind::UnsafeTarget,
            format!("{id} is not the live generation: its seal stays"),
        ));
    }
    cap.remove_derived(&layout::seal(id.as_str()))?;
    cap.sync_dir(&folder(id))
}

/// The seal of a generation; `None` when there is none.
///
/// # Errors
/// `verify-failed` when it is damaged, names another generation or files that no version seals;
/// `schema-too-new`; `permission-denied`, `io`.
pub fn read(root: &Root, id: &GenerationId) -> Result<Option<Seal>> {
    let rel = layout::seal(id.as_str());
    let Some(seal) = file_list::read::<Seal>(root, &rel, FORMAT)? else {
        return Ok(None);
    };
    if &seal.generation != id {
        return Err(file_list::bad(root, &rel, "names another generation"));
    }
    file_list::names_are_ours(&seal.files, &FILES, &[])
        .map_err(|what| file_list::bad(root, &rel, what))?;
    Ok(Some(seal))
}

/// Every generation that is not live and has a seal, oldest first, with the seal or why it can't be
/// believed. A `CURRENT` that can't be read names none.
///
/// # Errors
/// `io` or `permission-denied`.
pub fn list(root: &Root) -> Result<Vec<(GenerationId, Result<Seal>)>> {
    let live = generation::current(root).ok().flatten();
    let mut out = Vec::new();
    for id in generation::folders(root)? {
        if live.as_ref() == Some(&id) {
            continue;
        }
        match read(root, &id) {
            Ok(None) => {}
            Ok(Some(seal)) => out.push((id, Ok(seal))),
            Err(e) => out.push((id, Err(e))),
        }
    }
    Ok(out)
}

/// Compares the files of a sealed generation with its seal; `None` when it has none. Files beside
/// them are reported; `-shm` is not, since readers may make it anew. No connection to its database
/// may be open in this process.
///
/// # Errors
/// As [`read`]; `interrupted`, `terminated`. What does not agree is no error but in the list.
pub fn verify(
    root: &Root,
    id: &GenerationId,
    interrupt: &Interrupt,
) -> Result<Option<(Seal, Vec<FileCheck>)>> {
    let Some(seal) = read(root, id)? else {
        return Ok(None);
    };
    match generation::manifest(root, id) {
        Err(e) if e.kind() == ErrorKind::SchemaTooNew => return Err(e),
        _ => {}
    }
    let temp = format!(".{}.tmp", layout::SEAL);
    let ours = [layout::SEAL, "agent_search.db-shm", temp.as_str()];
    let checks = file_list::compare(
        root,
        &folder(id),
        &seal.files,
        &|name| ours.contains(&name),
        interrupt,
    )?;
    Ok(Some((seal, checks)))
}

fn folder(id: &GenerationId) -> String {
    format!("{}/{id}", layout::GENERATIONS)
}
