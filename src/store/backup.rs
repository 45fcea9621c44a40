//! Backups: a copy of an archive with its manifest and the ledgers of that moment, in a folder of
//! its own. Nothing removes one but the person whose it is.

use serde::{Deserialize, Serialize};

use super::file_list::{self, FileCheck, FileStatus, StoredFile};
use crate::disk::{Capture, Root};
use crate::error::{Error, ErrorKind, Result};
use crate::model::digest::Digest;
use crate::model::interrupt::Interrupt;
use crate::store::archive::{ArchiveReader, Head, verify_at};
use crate::store::generation::{self, Generation, GenerationId, Manifest};
use crate::store::layout;

/// Layout version of a backup.
pub const FORMAT: u32 = 1;
/// In a backup's folder: what the backup is.
pub const MANIFEST: &str = "manifest.json";
/// In a backup's folder: the manifest of the generation that was copied.
pub const GENERATION_MANIFEST: &str = "generation.json";
/// The archive's log, where it held anything.
pub const WAL: &str = "agent_search.db-wal";
/// Longest label.
pub const MAX_LABEL: usize = 200;

/// Every file that a backup may list, and nothing else.
const FILES: [&str; 5] = [
    layout::ARCHIVE_DB,
    WAL,
    GENERATION_MANIFEST,
    layout::COVERAGE,
    layout::ANNOTATIONS,
];
const NEEDED: [&str; 2] = [layout::ARCHIVE_DB, GENERATION_MANIFEST];
/// What SQLite would read or leave beside a database.
const SIDECARS: [&str; 3] = [WAL, "agent_search.db-shm", "agent_search.db-journal"];
/// Room beside the bytes of the files: the manifest, and what a file system adds.
const SPARE: u64 = 1 << 20;
/// Findings of a deep look that are told one by one.
const TOLD: usize = 20;

/// Names one backup: `b` and eight digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BackupId(String);

impl BackupId {
    /// The id, if `text` is one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('b')?;
        (digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_digit()))
            .then(|| BackupId(text.to_owned()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its folder, relative to the data directory.
    #[must_use]
    pub fn folder(&self) -> String {
        format!("{}/{self}", layout::BACKUPS)
    }
}

impl std::fmt::Display for BackupId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for BackupId {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Self, String> {
        BackupId::parse(&text).ok_or_else(|| format!("{text:?} is no backup id"))
    }
}

impl From<BackupId> for String {
    fn from(id: BackupId) -> String {
        id.0
    }
}

/// Totals of the archive that was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupCounts {
    /// Sources.
    pub sources: u64,
    /// Conversations, branches included.
    pub conversations: u64,
    /// Distinct records of conversations.
    pub records: u64,
    /// Messages.
    pub messages: u64,
}

/// What a backup says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    /// Layout version.
    pub format: u32,
    /// Its id, and the name of its folder.
    pub backup_id: BackupId,
    /// The archive that was copied.
    pub archive_id: String,
    /// Its generation.
    pub generation: GenerationId,
    /// Schema version of its database.
    pub schema_version: i64,
    /// Its last commit.
    pub commit: u64,
    /// Chain head of that commit.
    pub head: Digest,
    /// Version of the program that made the backup.
    pub cass_version: String,
    /// When it was made, milliseconds since the Unix epoch.
    pub created_ms: i64,
    /// What the operator calls it.
    pub label: Option<String>,
    /// The run that made it; none when an operator asked for it.
    pub run_id: Option<String>,
    /// What the archive held.
    pub counts: BackupCounts,
    /// Its files.
    pub files: Vec<StoredFile>,
}

impl Backup {
    /// Bytes of its files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |n, f| n.saturating_add(f.len))
    }

    /// Whether it is of this archive at this commit.
    #[must_use]
    pub fn is_of(&self, archive_id: &str, head: &Head) -> bool {
        self.archive_id == archive_id && (self.commit, self.head) == (head.commit, head.head)
    }
}

/// What to back up, and what to call it.
#[derive(Debug, Clone, Copy)]
pub struct Making<'a> {
    /// The generation to copy, the live one as a rule.
    pub generation: &'a Generation,
    /// What the operator calls it.
    pub label: Option<&'a str>,
    /// The run that makes it.
    pub run_id: Option<&'a str>,
    /// Now, milliseconds since the Unix epoch.
    pub now_ms: i64,
}

/// Bytes that a backup of `generation` needs now.
///
/// # Errors
/// `unsafe-target` when one of its files is no regular file; `permission-denied`, `io`.
pub fn required_bytes(root: &Root, generation: &GenerationId) -> Result<u64> {
    let mut bytes = SPARE;
    for (from, _) in parts(generation) {
        bytes = bytes.saturating_add(root.file_len(&from)?.unwrap_or(0));
    }
    Ok(bytes)
}

/// The database in a backup, relative to the data directory.
#[must_use]
pub fn database_of(id: &BackupId) -> String {
    format!("{}/{}", id.folder(), layout::ARCHIVE_DB)
}

/// The id that the next backup will have.
///
/// # Errors
/// `target-exists` when there is none left; `permission-denied`, `io`.
pub fn next_id(root: &Root) -> Result<BackupId> {
    let last = ids(root)?
        .last()
        .map_or(0, |id| id.0[1..].parse().unwrap_or(0u32));
    let next = last.saturating_add(1);
    BackupId::parse(&format!("b{next:08}")).ok_or_else(|| {
        Error::new(
            ErrorKind::TargetExists,
            "the highest id of a backup is taken",
        )
    })
}

/// Makes a backup: copied under a name that no reader knows, opened, verified row by row, then
/// given its own name. It is consistent because the writer lock, from which `cap` comes, is held:
/// only its holder commits or checkpoints, and readers change nothing, so none of them has to end
/// first. No connection to the archive may be open in this process. What a killed one left is
/// removed; a failed one leaves nothing.
///
/// # Errors
/// `no-space` before anything is made, with `required_bytes` and `free_bytes`, or when the disk
/// fills up meanwhile; `archive-missing`; `archive-corrupt` when the archive does not verify: such
/// a one is sealed, not backed up; `usage` for a label over [`MAX_LABEL`] characters;
/// `target-exists`, `permission-denied`, `io`, `interrupted`, `terminated`.
pub fn create(cap: Capture<'_>, making: &Making<'_>, interrupt: &Interrupt) -> Result<Backup> {
    let root = cap.root();
    if making.label.is_some_and(|l| l.chars().count() > MAX_LABEL) {
        return Err(Error::new(
            ErrorKind::Usage,
            format!("a label has at most {MAX_LABEL} characters"),
        ));
    }
    cap.remove_unfinished(layout::BACKUP_STAGING)?;
    let (need, free) = (
        required_bytes(root, &making.generation.id)?,
        root.free_bytes()?,
    );
    if free < need {
        return Err(Error::new(
            ErrorKind::NoSpace,
            format!("{need} bytes are needed for a backup, {free} are free"),
        )
        .with_hint("Make room on the data directory's file system; nothing was made.")
        .with_context("required_bytes", need.to_string())
        .with_context("free_bytes", free.to_string()));
    }
    let id = next_id(root)?;
    let made = cap
        .create_dir(layout::BACKUP_STAGING)
        .and_then(|()| stage(cap, making, id, interrupt))
        .and_then(|backup| {
            cap.move_aside(layout::BACKUP_STAGING, &backup.backup_id.folder())?;
            Ok(backup)
        });
    if made.is_err() {
        let _ = cap.remove_unfinished(layout::BACKUP_STAGING);
    }
    made
}

/// Copies and verifies into the staging folder.
fn stage(
    cap: Capture<'_>,
    making: &Making<'_>,
    id: BackupId,
    interrupt: &Interrupt,
) -> Result<Backup> {
    let root = cap.root();
    let generation = making.generation;
    let manifest = &generation.manifest;
    // Closed again before any of its files is opened below.
    let head = {
        let db = layout::archive_db(generation.id.as_str());
        ArchiveReader::open_aside(root, &db, manifest)?.head()?
    };
    let mut files = Vec::new();
    for (from, name) in parts(&generation.id) {
        let present = root.file_len(&from)?;
        if present.is_none() || name == WAL && present == Some(0) {
            continue;
        }
        let to = format!("{}/{name}", layout::BACKUP_STAGING);
        let copied = cap.copy_new(root, &from, &to, &|| interrupt.check())?;
        files.push(StoredFile {
            name: name.to_owned(),
            len: copied.len,
            blake3: copied.hash.into(),
        });
    }
    let looked = look(root, layout::BACKUP_STAGING, manifest, interrupt)?;
    if looked.head != head {
        return Err(corrupt(
            root,
            "the copy does not end in the commit that the archive ends in",
        ));
    }
    if let Some(first) = looked.findings.first() {
        return Err(corrupt(root, first));
    }
    let backup = Backup {
        format: FORMAT,
        backup_id: id,
        archive_id: manifest.archive_id.clone(),
        generation: generation.id.clone(),
        schema_version: manifest.schema_version,
        commit: head.commit,
        head: head.head,
        cass_version: env!("CARGO_PKG_VERSION").to_owned(),
        created_ms: making.now_ms,
        label: making.label.map(str::to_owned),
        run_id: making.run_id.map(str::to_owned),
        counts: looked.counts,
        files,
    };
    let rel = format!("{}/{MANIFEST}", layout::BACKUP_STAGING);
    cap.create_new(&rel, &file_list::to_bytes(&backup)?)?;
    if file_list::read::<Backup>(root, &rel, FORMAT)?.as_ref() != Some(&backup) {
        return Err(file_list::bad(
            root,
            &rel,
            "does not read back as it was written",
        ));
    }
    Ok(backup)
}

fn corrupt(root: &Root, what: &str) -> Error {
    Error::new(
        ErrorKind::ArchiveCorrupt,
        format!(
            "the archive in {} does not verify: {what}",
            root.path().display()
        ),
    )
    .with_hint("No backup was made of it. The check says what is wrong.")
    .with_hint_argv(["cass", "doctor", "check", "--deep"])
}

/// Where the files of a backup come from, and their names in it.
fn parts(generation: &GenerationId) -> [(String, &'static str); 5] {
    let db = layout::archive_db(generation.as_str());
    [
        (db.clone(), layout::ARCHIVE_DB),
        (format!("{db}-wal"), WAL),
        (layout::manifest(generation.as_str()), GENERATION_MANIFEST),
        (layout::COVERAGE.to_owned(), layout::COVERAGE),
        (layout::ANNOTATIONS.to_owned(), layout::ANNOTATIONS),
    ]
}

/// What reading all of a copied archive gave.
struct Looked {
    head: Head,
    counts: BackupCounts,
    findings: Vec<String>,
    findings_total: u64,
}

fn look(root: &Root, folder: &str, manifest: &Manifest, interrupt: &Interrupt) -> Result<Looked> {
    let db = format!("{folder}/{}", layout::ARCHIVE_DB);
    let (head, counts) = {
        let reader = ArchiveReader::open_aside(root, &db, manifest)?;
        (reader.head()?, reader.counts()?)
    };
    let generation = Generation {
        id: manifest.generation.clone(),
        manifest: manifest.clone(),
    };
    let (mut findings, mut findings_total) = (Vec::new(), 0u64);
    let stop = || interrupt.pending().is_some();
    let summary = verify_at(&root.full(&db), &generation, &stop, &mut |f| {
        findings_total += 1;
        if findings.len() < TOLD {
            findings.push(match (f.table, f.row) {
                ("", _) => f.what,
                (table, None) => format!("{table}: {}", f.what),
                (table, Some(row)) => format!("{table}, row {row}: {}", f.what),
            });
        }
    })?;
    if !summary.complete {
        interrupt.check()?;
    }
    Ok(Looked {
        head,
        counts: BackupCounts {
            sources: counts.sources,
            conversations: counts.conversations,
            records: counts.records,
            messages: counts.messages,
        },
        findings,
        findings_total,
    })
}

/// Everything that has the name of a backup, oldest first.
fn ids(root: &Root) -> Result<Vec<BackupId>> {
    let entries = root.list(layout::BACKUPS)?.unwrap_or_default();
    Ok(entries
        .iter()
        .filter_map(|e| BackupId::parse(&e.name))
        .collect())
}

/// Every backup, oldest first, with its manifest or why it can't be believed.
///
/// # Errors
/// `io` or `permission-denied`.
pub fn list(root: &Root) -> Result<Vec<(BackupId, Result<Backup>)>> {
    Ok(ids(root)?
        .into_iter()
        .map(|id| {
            let backup = read(root, &id).and_then(|b| {
                b.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("{id} is gone")))
            });
            (id, backup)
        })
        .collect())
}

/// What a backup says about itself; `None` when nothing has its name. Its files are not looked at.
///
/// # Errors
/// `verify-failed` when its manifest is missing, damaged, another's, or lists what no version
/// writes; `schema-too-new`; `permission-denied`, `io`.
pub fn read(root: &Root, id: &BackupId) -> Result<Option<Backup>> {
    let folder = id.folder();
    if !root.exists(&folder)? {
        return Ok(None);
    }
    let is_folder = root
        .list(layout::BACKUPS)?
        .unwrap_or_default()
        .iter()
        .any(|e| e.name == id.as_str() && e.kind == crate::disk::EntryKind::Dir);
    if !is_folder {
        return Err(file_list::bad(root, &folder, "is no folder"));
    }
    let rel = format!("{folder}/{MANIFEST}");
    let backup = file_list::read::<Backup>(root, &rel, FORMAT)?
        .ok_or_else(|| file_list::bad(root, &rel, "is not there"))?;
    if &backup.backup_id != id {
        return Err(file_list::bad(root, &rel, "is of another backup"));
    }
    file_list::names_are_ours(&backup.files, &FILES, &NEEDED)
        .map_err(|what| file_list::bad(root, &rel, what))?;
    Ok(Some(backup))
}

/// Whether the sidecars of a database are those that its list names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sidecars {
    /// A WAL is listed and there.
    Complete,
    /// A WAL is listed and not there: the newest commits are gone.
    WalMissing,
    /// A file that SQLite would read lies beside the database and is not listed.
    ExtraSidecar,
    /// No WAL is listed and none is there.
    NotNeeded,
}

impl Sidecars {
    /// From what comparing the files gave.
    #[must_use]
    pub fn of(files: &[FileCheck]) -> Sidecars {
        let extra = |f: &FileCheck| f.listed.is_none() && SIDECARS.contains(&f.name.as_str());
        let wal = files.iter().find(|f| f.name == WAL && f.listed.is_some());
        match wal {
            _ if files.iter().any(extra) => Sidecars::ExtraSidecar,
            Some(f) if f.status == FileStatus::Missing => Sidecars::WalMissing,
            Some(_) => Sidecars::Complete,
            None => Sidecars::NotNeeded,
        }
    }
}

/// A backup, compared with what it says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// What it says.
    pub backup: Backup,
    /// Its files, and what lies beside them.
    pub files: Vec<FileCheck>,
    /// Whether the sidecars are those that are listed.
    pub sidecars: Sidecars,
    /// What reading the archive in it found, where that was asked for and every file agreed.
    pub deep: Option<Deep>,
}

/// What reading all of an archive found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deep {
    /// How many pieces of damage there are.
    pub findings_total: u64,
    /// The first of them, a sentence each.
    pub findings: Vec<String>,
}

impl Verified {
    /// Whether everything that was looked at is as it was listed.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.files.iter().all(|f| f.status == FileStatus::Matched) && self.deep_is_sound()
    }

    /// Whether what a restore takes is all there and as listed: files beside it do no harm, except
    /// a sidecar that SQLite would read.
    #[must_use]
    pub fn may_restore(&self) -> bool {
        may_restore(&self.files) && self.deep_is_sound()
    }

    fn deep_is_sound(&self) -> bool {
        self.deep.as_ref().is_none_or(|d| d.findings_total == 0)
    }
}

/// As [`Verified::may_restore`], from the files alone.
#[must_use]
pub fn may_restore(files: &[FileCheck]) -> bool {
    let listed = |f: &FileCheck| f.listed.is_none() || f.status == FileStatus::Matched;
    files.iter().all(listed) && Sidecars::of(files) != Sidecars::ExtraSidecar
}

/// Compares every file of a backup with its manifest; with `deep` also reads every row of the
/// archive in it, where the files agree. `None` when nothing has its name. Makes and changes
/// nothing.
///
/// # Errors
/// As [`read`]; `interrupted`, `terminated`; `io`. What does not agree is no error but in the list.
pub fn verify(
    root: &Root,
    id: &BackupId,
    deep: bool,
    interrupt: &Interrupt,
) -> Result<Option<Verified>> {
    let Some(backup) = read(root, id)? else {
        return Ok(None);
    };
    let folder = id.folder();
    let files = file_list::compare(
        root,
        &folder,
        &backup.files,
        &|name| name == MANIFEST,
        interrupt,
    )?;
    let manifest = generation_manifest(root, &backup);
    if let Err(e) = &manifest
        && e.kind() == ErrorKind::SchemaTooNew
    {
        return manifest.map(|_| None);
    }
    // An unlisted sidecar would be read as a part of the database.
    let deep = match deep && may_restore(&files) {
        false => None,
        true => {
            let told = Some((backup.commit, backup.head));
            let counts = Some(backup.counts);
            Some(read_archive(
                root, &folder, manifest, told, counts, interrupt,
            )?)
        }
    };
    Ok(Some(Verified {
        sidecars: Sidecars::of(&files),
        backup,
        files,
        deep,
    }))
}

/// The manifest of the generation that was copied, if it is of the archive that the backup names.
///
/// # Errors
/// `verify-failed` when it is damaged or of another archive; `schema-too-new`; `permission-denied`,
/// `io`.
pub fn generation_manifest(root: &Root, backup: &Backup) -> Result<Manifest> {
    let rel = format!("{}/{GENERATION_MANIFEST}", backup.backup_id.folder());
    let bytes = root.read(&rel, 1 << 20)?;
    if let Some(said) = bytes
        .as_ref()
        .and_then(|bytes| serde_json::from_slice(bytes).ok())
    {
        generation::require_versions(root, &rel, &said, ErrorKind::VerifyFailed)?;
    }
    bytes
        .and_then(|bytes| serde_json::from_slice::<Manifest>(&bytes).ok())
        .filter(|m| {
            m.archive_id == backup.archive_id
                && m.generation == backup.generation
                && m.schema_version == backup.schema_version
        })
        .ok_or_else(|| file_list::bad(root, &rel, "is not that of the backup's archive"))
}

/// Reads every row of the archive that lies in `folder` and compares it with what is told of it:
/// its last commit and head, its totals. No connection to it may be open in this process.
///
/// # Errors
/// `interrupted`, `terminated`, `io`. Damage is no error but in what is returned, also that of the
/// `manifest`.
pub fn read_archive(
    root: &Root,
    folder: &str,
    manifest: Result<Manifest>,
    told: Option<(u64, Digest)>,
    counts: Option<BackupCounts>,
    interrupt: &Interrupt,
) -> Result<Deep> {
    let looked = match manifest.and_then(|m| look(root, folder, &m, interrupt)) {
        Ok(looked) => looked,
        Err(e) => match e.kind() {
            ErrorKind::ArchiveCorrupt
            | ErrorKind::ArchiveUnreadable
            | ErrorKind::ArchiveMissing
            | ErrorKind::VerifyFailed => {
                return Ok(Deep {
                    findings_total: 1,
                    findings: vec![e.message().to_owned()],
                });
            }
            _ => return Err(e),
        },
    };
    let mut deep = Deep {
        findings_total: looked.findings_total,
        findings: looked.findings,
    };
    let mut find = |what: &str| {
        deep.findings_total += 1;
        deep.findings.insert(0, what.to_owned());
    };
    if told.is_some_and(|t| t != (looked.head.commit, looked.head.head)) {
        find("the archive does not end in the commit that is told of it");
    }
    if counts.is_some_and(|c| c != looked.counts) {
        find("the archive does not hold as much as is told of it");
    }
    Ok(deep)
}
