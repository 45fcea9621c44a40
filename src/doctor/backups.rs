//! What can be gone back to: backups that were made, and generations that were sealed.

use crate::disk::{EntryKind, Root};
use crate::error::{Error, ErrorKind, Result};
use crate::model::digest::Digest;
use crate::model::interrupt::Interrupt;
use crate::model::verdict::{BackupKind, BackupState};
use crate::store::backup::{self, Backup, BackupId, Deep, Sidecars};
use crate::store::file_list::{FileCheck, FileStatus, StoredFile};
use crate::store::generation::{self, GenerationId};
use crate::store::layout;
use crate::store::seal::{self, Seal};

/// One of them, as its manifest or seal tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// `b` or `g` and eight digits.
    pub id: String,
    /// What kind it is.
    pub kind: BackupKind,
    /// What is known without reading the files.
    pub state: BackupState,
    /// Why it can't be believed, or what is missing.
    pub problem: Option<String>,
    /// Whether a newer program made it, so that nothing is known of it.
    pub is_newer: bool,
    /// Where its manifest or seal is, relative to the data directory.
    pub manifest: String,
    /// When it was made or sealed, milliseconds since the Unix epoch.
    pub created_ms: Option<i64>,
    /// Bytes of the files that it lists.
    pub bytes: Option<u64>,
    /// The archive.
    pub archive_id: Option<String>,
    /// Its generation.
    pub generation: Option<String>,
    /// Schema version.
    pub schema_version: Option<i64>,
    /// Its last commit.
    pub commit: Option<u64>,
    /// Chain head of that commit.
    pub head: Option<Digest>,
    /// What its operator calls it.
    pub label: Option<String>,
    /// Why a generation was superseded.
    pub reason: Option<String>,
    /// The run that made it.
    pub run_id: Option<String>,
    /// Whether it may be the only readable holder of something.
    pub sole_copy: bool,
    /// Conversations in it.
    pub conversations: Option<u64>,
    /// Messages in it.
    pub messages: Option<u64>,
}

/// One of them, compared with what its manifest or seal lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    /// What is said about it.
    pub entry: Entry,
    /// Its files, and what lies beside them.
    pub files: Vec<FileCheck>,
    /// Whether the sidecars are those that are listed.
    pub sidecars: Sidecars,
    /// What reading every row found, where that was asked for and the files agreed.
    pub deep: Option<Deep>,
}

impl Compared {
    /// Whether everything that was looked at is as it was listed.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.files.iter().all(|f| f.status == FileStatus::Matched) && self.rows_are_sound()
    }

    /// Whether what a restore takes is all there and as listed.
    #[must_use]
    pub fn may_restore(&self) -> bool {
        backup::may_restore(&self.files) && self.rows_are_sound()
    }

    fn rows_are_sound(&self) -> bool {
        self.deep.as_ref().is_none_or(|d| d.findings_total == 0)
    }
}

/// All of them, the newest first; those without a date come last. Reads manifests and seals, and
/// asks for the length of every file.
///
/// # Errors
/// `permission-denied` or `io` when a folder can't be listed.
pub fn list(root: &Root) -> Result<Vec<Entry>> {
    let mut all = Vec::new();
    for (id, found) in backup::list(root)? {
        all.push(match found {
            Ok(b) => {
                let entry = of_backup(&b);
                with_lengths(root, entry, &id.folder(), &b.files)
            }
            Err(e) => unreadable(id.to_string(), BackupKind::Operator, manifest_of(&id), &e),
        });
    }
    for (id, found) in seal::list(root)? {
        all.push(match found {
            Ok(s) => {
                let entry = of_seal(&s);
                with_lengths(root, entry, &folder_of(&id), &s.files)
            }
            Err(e) => {
                let rel = layout::seal(id.as_str());
                unreadable(id.to_string(), BackupKind::SealedGeneration, rel, &e)
            }
        });
    }
    all.sort_by(|a, b| (b.created_ms, &b.id).cmp(&(a.created_ms, &a.id)));
    Ok(all)
}

/// Compares one with its manifest or seal; with `deep` reads every row too.
///
/// # Errors
/// `not-found` when there is none of this name; `verify-failed` when its manifest or seal can't be
/// believed; `schema-too-new`; `interrupted`, `terminated`; `permission-denied`, `io`.
pub fn verify(root: &Root, name: &str, deep: bool, interrupt: &Interrupt) -> Result<Compared> {
    if let Some(id) = BackupId::parse(name)
        && let Some(v) = backup::verify(root, &id, deep, interrupt)?
    {
        return Ok(Compared {
            entry: of_backup(&v.backup),
            files: v.files,
            sidecars: v.sidecars,
            deep: v.deep,
        });
    }
    if let Some(id) = GenerationId::parse(name) {
        let live = generation::current(root).ok().flatten();
        if live.as_ref() == Some(&id) {
            return Err(none(format!("{id} is the live generation and no backup")));
        }
        return match seal::verify(root, &id, interrupt)? {
            Some((seal, files)) => sealed(root, &id, seal, files, deep, interrupt),
            None => Err(none(format!("there is no sealed generation {id}"))),
        };
    }
    Err(none("there is no such backup".to_owned()))
}

fn none(message: String) -> Error {
    Error::new(ErrorKind::NotFound, message)
        .with_hint("List what there is.")
        .with_hint_argv(["cass", "doctor", "backups", "list"])
}

fn sealed(
    root: &Root,
    id: &GenerationId,
    seal: Seal,
    files: Vec<FileCheck>,
    deep: bool,
    interrupt: &Interrupt,
) -> Result<Compared> {
    let deep = match deep && backup::may_restore(&files) {
        false => None,
        true => {
            let manifest = generation::manifest(root, id).and_then(|m| {
                m.ok_or_else(|| Error::new(ErrorKind::VerifyFailed, "it has no manifest"))
            });
            let told = seal.commit.zip(seal.head);
            let folder = folder_of(id);
            Some(backup::read_archive(
                root, &folder, manifest, told, None, interrupt,
            )?)
        }
    };
    Ok(Compared {
        entry: of_seal(&seal),
        sidecars: Sidecars::of(&files),
        files,
        deep,
    })
}

fn folder_of(id: &GenerationId) -> String {
    format!("{}/{id}", layout::GENERATIONS)
}

fn manifest_of(id: &BackupId) -> String {
    format!("{}/{}", id.folder(), backup::MANIFEST)
}

fn of_backup(b: &Backup) -> Entry {
    Entry {
        id: b.backup_id.to_string(),
        kind: BackupKind::Operator,
        state: BackupState::Unverified,
        problem: None,
        is_newer: false,
        manifest: manifest_of(&b.backup_id),
        created_ms: Some(b.created_ms),
        bytes: Some(b.bytes()),
        archive_id: Some(b.archive_id.clone()),
        generation: Some(b.generation.to_string()),
        schema_version: Some(b.schema_version),
        commit: Some(b.commit),
        head: Some(b.head),
        label: b.label.clone(),
        reason: None,
        run_id: b.run_id.clone(),
        sole_copy: false,
        conversations: Some(b.counts.conversations),
        messages: Some(b.counts.messages),
    }
}

fn of_seal(s: &Seal) -> Entry {
    Entry {
        id: s.generation.to_string(),
        kind: BackupKind::SealedGeneration,
        state: BackupState::Unverified,
        problem: None,
        is_newer: false,
        manifest: layout::seal(s.generation.as_str()),
        created_ms: Some(s.sealed_ms),
        bytes: Some(s.bytes()),
        archive_id: s.archive_id.clone(),
        generation: Some(s.generation.to_string()),
        schema_version: s.schema_version,
        commit: s.commit,
        head: s.head,
        label: None,
        reason: Some(s.reason.clone()),
        run_id: s.run_id.clone(),
        sole_copy: s.sole_copy,
        conversations: None,
        messages: None,
    }
}

fn unreadable(id: String, kind: BackupKind, manifest: String, e: &Error) -> Entry {
    Entry {
        id,
        kind,
        state: BackupState::Unreadable,
        problem: Some(e.message().to_owned()),
        is_newer: e.kind() == ErrorKind::SchemaTooNew,
        manifest,
        created_ms: None,
        bytes: None,
        archive_id: None,
        generation: None,
        schema_version: None,
        commit: None,
        head: None,
        label: None,
        reason: None,
        run_id: None,
        sole_copy: false,
        conversations: None,
        messages: None,
    }
}

/// Lengths come from the folder: no file is opened.
fn with_lengths(root: &Root, mut entry: Entry, folder: &str, files: &[StoredFile]) -> Entry {
    let there = root.list(folder).ok().flatten().unwrap_or_default();
    let wrong = files.iter().find(|f| {
        let is_file = there
            .iter()
            .any(|e| e.name == f.name && e.kind == EntryKind::File);
        let path = root.full(&format!("{folder}/{}", f.name));
        !is_file || std::fs::symlink_metadata(path).map_or(true, |m| m.len() != f.len)
    });
    if let Some(file) = wrong {
        entry.state = BackupState::Incomplete;
        entry.problem = Some(format!("{} is missing or has another length", file.name));
    }
    entry
}
