//! The documents of `doctor backups list` and `doctor backups verify`.

use schemars::JsonSchema;
use serde::Serialize;

use super::envelope::{Body, Report, Site};
use super::time::rfc3339;
use crate::doctor::backups::{Compared, Entry};
use crate::error::{Error, ErrorKind};
use crate::model::next::Next;
use crate::model::verdict::{ArtifactState, BackupKind, BackupState, SidecarState};
use crate::store::backup::Sidecars;
use crate::store::file_list::{FileCheck, FileStatus};

/// What can be gone back to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BackupsListBody {
    /// Backups and sealed generations, the newest first.
    pub backups: Vec<BackupEntry>,
    /// How many there are.
    pub total: u64,
    /// How many of them were made because somebody asked for them.
    pub operator_total: u64,
    /// How many of them are sealed generations.
    pub sealed_total: u64,
    /// Bytes of all of them, as far as they can be told.
    pub total_bytes: u64,
    /// Whether `backups` leaves some out.
    pub truncated: bool,
    /// The command that shows all; null when this document does.
    pub detail_argv: Option<Vec<String>>,
    /// What is ever removed, and by what.
    pub retention_policy: RetentionPolicy,
    /// Verifies the newest; null when there is none.
    pub verify_command: Option<Vec<String>>,
    /// Rehearses a restore of the newest and changes nothing that is kept; null when there is none,
    /// or when this version can't.
    pub restore_rehearsal_command: Option<Vec<String>>,
}

impl Body for BackupsListBody {
    const NAME: &'static str = "doctor-backups-list";
}

/// What is ever removed, and by what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RetentionPolicy {
    /// Always false: no command removes a backup by itself.
    pub automatic_removal: bool,
    /// Backups that were asked for.
    pub operator: Removal,
    /// Sealed generations.
    pub sealed_generation: Removal,
}

/// What removes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Removal {
    /// Only the person whose it is, by hand.
    ByHand,
    /// Only a plan that was approved, once everything in it has another verified holder.
    ByApprovedPlan,
}

impl RetentionPolicy {
    /// The only one there is.
    pub const OURS: RetentionPolicy = RetentionPolicy {
        automatic_removal: false,
        operator: Removal::ByHand,
        sealed_generation: Removal::ByApprovedPlan,
    };
}

/// One backup or sealed generation, as its manifest or seal tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BackupEntry {
    /// Its id.
    pub backup_id: String,
    /// What kind it is.
    pub kind: BackupKind,
    /// What is known without reading its files.
    pub state: BackupState,
    /// Why its manifest can't be believed, or what is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Its manifest or seal, relative to the data directory.
    pub manifest: String,
    /// When it was made or sealed, RFC 3339.
    pub created_at: Option<String>,
    /// Bytes of its files.
    pub bytes: Option<u64>,
    /// The archive.
    pub archive_id: Option<String>,
    /// Its generation.
    pub generation: Option<String>,
    /// Schema version of its database.
    pub schema_version: Option<i64>,
    /// Its last commit; null where the archive was not readable when it was sealed.
    pub commit: Option<u64>,
    /// Chain head of that commit, hex.
    pub head: Option<String>,
    /// Conversations in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversations: Option<u64>,
    /// Messages in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<u64>,
    /// What its operator calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Why the generation was superseded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The run that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Whether it may be the only readable holder of something.
    pub sole_copy: bool,
    /// Verifies it.
    pub verify_argv: Option<Vec<String>>,
    /// Rehearses a restore of it; null when this version can't.
    pub rehearse_argv: Option<Vec<String>>,
}

/// One backup or sealed generation, compared with its manifest or seal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BackupsVerifyBody {
    /// What is said about it.
    pub backup: BackupEntry,
    /// Whether every row was asked for.
    pub deep: bool,
    /// What comparing it gave.
    pub backup_verification: Verification,
    /// Its files by digest.
    pub artifact_manifest: ArtifactManifest,
    /// Files by status.
    pub checksum_status_counts: StatusCounts,
    /// Whether the sidecars of the database are those that are listed.
    pub sidecar_completeness: SidecarState,
    /// Whether a restore may be rehearsed: all that it takes is there and as listed.
    pub restore_rehearsal_allowed: bool,
    /// What reading every row found; null where it was not asked for, or the files do not agree.
    pub rows: Option<RowsVerified>,
    /// Rehearses a restore; null where it is not allowed, or this version can't.
    pub rehearse_argv: Option<Vec<String>>,
}

impl Body for BackupsVerifyBody {
    const NAME: &'static str = "doctor-backups-verify";
}

/// What comparing gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verification {
    /// Everything that was looked at is as it was listed.
    Verified,
    /// Something is not.
    Failed,
}

/// Files by digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ArtifactManifest {
    /// The manifest or seal that lists them, relative to the data directory.
    pub path: String,
    /// The files in the order of the list, then what is not listed.
    pub files: Vec<ArtifactEntry>,
    /// Whether `files` leaves some that are not listed out.
    pub truncated: bool,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ArtifactEntry {
    /// Its name.
    pub name: String,
    /// How it stands to the list.
    pub status: ArtifactState,
    /// Bytes as listed; null for a file that is not.
    pub bytes: Option<u64>,
    /// BLAKE3 as listed, hex; null for a file that is not.
    pub blake3: Option<String>,
    /// Bytes found; null where there is no file.
    pub found_bytes: Option<u64>,
    /// What is wrong with it, a clause for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Files by status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StatusCounts {
    /// As listed.
    pub matched: u64,
    /// Another length or digest.
    pub checksum_mismatch: u64,
    /// Listed and not there.
    pub missing_artifact: u64,
    /// There and not listed.
    pub extra_file: u64,
    /// No regular file.
    pub unsafe_path: u64,
    /// Not readable.
    pub unreadable: u64,
}

/// What reading every row found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RowsVerified {
    /// How many pieces of damage there are.
    pub findings_total: u64,
    /// The first of them; at most 20.
    pub findings: Vec<String>,
}

/// How many files that are not listed a document names.
const MAX_EXTRA: usize = 20;

/// The command that verifies it, and the one that rehearses a restore.
pub type Commands<'a> = &'a dyn Fn(&Entry) -> (Option<Vec<String>>, Option<Vec<String>>);

/// An entry with its commands.
#[must_use]
pub fn backup_entry(e: &Entry, commands: Commands<'_>, site: &Site) -> BackupEntry {
    let (verify_argv, rehearse_argv) = commands(e);
    BackupEntry {
        backup_id: e.id.clone(),
        kind: e.kind,
        state: e.state,
        problem: e.problem.as_deref().map(|p| site.redact(p)),
        manifest: e.manifest.clone(),
        created_at: e.created_ms.and_then(rfc3339),
        bytes: e.bytes,
        archive_id: e.archive_id.clone(),
        generation: e.generation.clone(),
        schema_version: e.schema_version,
        commit: e.commit,
        head: e.head.map(|h| h.to_hex()),
        conversations: e.conversations,
        messages: e.messages,
        label: e.label.clone(),
        reason: e.reason.clone(),
        run_id: e.run_id.clone(),
        sole_copy: e.sole_copy,
        verify_argv,
        rehearse_argv,
    }
}

/// The document of the list, of which `limit` entries are shown.
#[must_use]
pub fn backups_list_report(
    all: &[Entry],
    limit: usize,
    commands: Commands<'_>,
    site: &Site,
) -> Report<BackupsListBody> {
    let many = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    let of = |kind| many(all.iter().filter(|e| e.kind == kind).count());
    let backups: Vec<_> = all
        .iter()
        .take(limit)
        .map(|e| backup_entry(e, commands, site))
        .collect();
    let usable = all.iter().find(|e| e.state == BackupState::Unverified);
    let (verify_command, restore_rehearsal_command) = usable.map_or((None, None), |e| commands(e));
    let truncated = backups.len() < all.len();
    let detail_argv = truncated.then(|| {
        let mut argv = Next::BackupsList.argv();
        argv.extend(["--limit".to_owned(), all.len().to_string()]);
        argv
    });
    let next = all
        .iter()
        .find(|e| e.state != BackupState::Unverified)
        .map(|e| Next::BackupsVerify {
            id: e.id.clone(),
            deep: false,
        });
    let report = Report::ok(BackupsListBody {
        total: many(all.len()),
        operator_total: of(BackupKind::Operator),
        sealed_total: of(BackupKind::SealedGeneration),
        total_bytes: all
            .iter()
            .filter_map(|e| e.bytes)
            .fold(0, u64::saturating_add),
        truncated,
        detail_argv: detail_argv.and_then(|argv| site.argv(argv)),
        backups,
        retention_policy: RetentionPolicy::OURS,
        verify_command,
        restore_rehearsal_command,
    });
    match next {
        Some(next) => report.recommending(&[next], site),
        None => report,
    }
}

/// The document of a comparison.
#[must_use]
pub fn backups_verify_report(
    c: &Compared,
    deep: bool,
    commands: Commands<'_>,
    site: &Site,
) -> Report<BackupsVerifyBody> {
    let sound = c.is_sound();
    let allowed = c.may_restore();
    let backup = backup_entry(&c.entry, commands, site);
    let extra = c.files.iter().filter(|f| f.listed.is_none()).count();
    let listed = c.files.len() - extra;
    let files = c
        .files
        .iter()
        .take(listed + MAX_EXTRA)
        .map(|f| artifact(f, site))
        .collect();
    let body = BackupsVerifyBody {
        rehearse_argv: backup.rehearse_argv.clone().filter(|_| allowed),
        deep,
        backup_verification: match sound {
            true => Verification::Verified,
            false => Verification::Failed,
        },
        artifact_manifest: ArtifactManifest {
            path: c.entry.manifest.clone(),
            files,
            truncated: extra > MAX_EXTRA,
        },
        checksum_status_counts: counts(&c.files),
        sidecar_completeness: match c.sidecars {
            Sidecars::Complete => SidecarState::Complete,
            Sidecars::WalMissing => SidecarState::WalMissing,
            Sidecars::ExtraSidecar => SidecarState::ExtraSidecar,
            Sidecars::NotNeeded => SidecarState::NotNeeded,
        },
        restore_rehearsal_allowed: allowed,
        rows: c.deep.as_ref().map(|d| RowsVerified {
            findings_total: d.findings_total,
            findings: d.findings.iter().map(|f| site.redact(f)).collect(),
        }),
        backup,
    };
    let id = c.entry.id.clone();
    let report = Report::ok(body);
    if sound {
        return report;
    }
    let wrong = c
        .files
        .iter()
        .find(|f| f.status != FileStatus::Matched)
        .map(|f| format!("{} {}", f.name, f.what));
    let rows = || {
        let first = c.deep.as_ref().and_then(|d| d.findings.first());
        first.cloned().unwrap_or_default()
    };
    let message = format!("{id} does not verify: {}", wrong.unwrap_or_else(rows));
    let error = Error::new(ErrorKind::VerifyFailed, message)
        .with_hint("Leave it as it is, and look for another.")
        .with_hint_argv(Next::BackupsList.argv());
    report
        .recommending(&[Next::BackupsList, Next::Check], site)
        .failing_keeping_next(&error, site)
}

fn artifact(f: &FileCheck, site: &Site) -> ArtifactEntry {
    ArtifactEntry {
        name: f.name.clone(),
        status: match f.status {
            FileStatus::Matched => ArtifactState::Matched,
            FileStatus::Mismatched => ArtifactState::ChecksumMismatch,
            FileStatus::Missing => ArtifactState::MissingArtifact,
            FileStatus::Extra => ArtifactState::ExtraFile,
            FileStatus::Unsafe => ArtifactState::UnsafePath,
            FileStatus::Unreadable => ArtifactState::Unreadable,
        },
        bytes: f.listed.as_ref().map(|l| l.len),
        blake3: f.listed.as_ref().map(|l| l.blake3.to_hex()),
        found_bytes: f.found_len,
        problem: Some(site.redact(&f.what)).filter(|w| !w.is_empty()),
    }
}

fn counts(files: &[FileCheck]) -> StatusCounts {
    let mut n = StatusCounts::default();
    for file in files {
        let slot = match file.status {
            FileStatus::Matched => &mut n.matched,
            FileStatus::Mismatched => &mut n.checksum_mismatch,
            FileStatus::Missing => &mut n.missing_artifact,
            FileStatus::Extra => &mut n.extra_file,
            FileStatus::Unsafe => &mut n.unsafe_path,
            FileStatus::Unreadable => &mut n.unreadable,
        };
        *slot += 1;
    }
    n
}
