//! Every path below the data directory, in one place. All are relative to it.

use crate::model::source::SourceKey;

/// Names the live generation.
pub const CURRENT: &str = "CURRENT";
/// Folder of the archive generations.
pub const GENERATIONS: &str = "generations";
/// File name of an archive inside its generation.
pub const ARCHIVE_DB: &str = "agent_search.db";
/// File name of a generation's manifest.
pub const MANIFEST: &str = "manifest.json";
/// Layout version of the mirror.
pub const MIRROR_FORMAT: &str = "raw-mirror/FORMAT";
/// Folder of the mirror.
pub const MIRROR: &str = "raw-mirror";
/// Folder of the packs.
pub const PACKS: &str = "raw-mirror/packs";
/// Folder of the capture ledgers.
pub const LEDGERS: &str = "raw-mirror/sources";
/// Folder of the derived mirror index.
pub const MIRROR_INDEX: &str = "raw-mirror/index";
/// The derived mirror index: object to pack position, and each source's ledger head.
pub const MIRROR_INDEX_DB: &str = "raw-mirror/index/mirror.db";
/// In a generation's folder: that it was superseded, and what its files were then.
pub const SEAL: &str = "seal.json";
/// Folder of the backups that operators and plans made.
pub const BACKUPS: &str = "backups";
/// The backup that is being made. A killed one is replaced by the next.
pub const BACKUP_STAGING: &str = "backups/.staging";
/// Hygiene annotations.
pub const ANNOTATIONS: &str = "annotations.jsonl";
/// The coverage ledger.
pub const COVERAGE: &str = "coverage.jsonl";
/// Folder of what is thrown away when its command ends.
pub const SCRATCH: &str = "derived/scratch";
/// The copy of a harness's database that is being read.
pub const SCRATCH_DB: &str = "derived/scratch/source.db";
/// Folder of the lexical indexes.
pub const LEXICAL: &str = "derived/lexical";
/// Names the lexical index that is searched.
pub const LEXICAL_CURRENT: &str = "derived/lexical/CURRENT";
/// Folder of the doctor's own records.
pub const DOCTOR: &str = "doctor";
/// Dated attestations of deep checks.
pub const ATTESTATIONS: &str = "doctor/attestations";

/// Intents of mutating runs.
pub const INTENTS: &str = "doctor/intents";
/// Receipts of mutating runs.
pub const RECEIPTS: &str = "doctor/receipts";
/// Folder of the event log.
pub const EVENTS: &str = "doctor/events";
/// The event log.
pub const EVENT_LOG: &str = "doctor/events/events.jsonl";
/// Contexts of failed runs.
pub const FAILURES: &str = "doctor/failures";
/// Keeps a failed command from being repeated unseen.
pub const MARKER: &str = "doctor/failures/marker.json";
/// What runs put on record as lost.
pub const ACCEPTED: &str = "doctor/accepted";
/// What runs put aside.
pub const QUARANTINE: &str = "doctor/quarantine";

/// Folders of what can't be made again, and of the locks: nothing else may have their places.
pub const FOLDERS: [&str; 12] = [
    GENERATIONS,
    BACKUPS,
    "locks",
    MIRROR,
    PACKS,
    LEDGERS,
    INTENTS,
    RECEIPTS,
    EVENTS,
    FAILURES,
    QUARANTINE,
    ATTESTATIONS,
];

/// What one run put aside; the paths below are those that the files had.
#[must_use]
pub fn quarantine(run: &str) -> String {
    format!("{QUARANTINE}/{run}")
}

/// The archive of a generation.
#[must_use]
pub fn archive_db(generation: &str) -> String {
    format!("{GENERATIONS}/{generation}/{ARCHIVE_DB}")
}

/// The manifest of a generation.
#[must_use]
pub fn manifest(generation: &str) -> String {
    format!("{GENERATIONS}/{generation}/{MANIFEST}")
}

/// The seal of a generation.
#[must_use]
pub fn seal(generation: &str) -> String {
    format!("{GENERATIONS}/{generation}/{SEAL}")
}

/// The database of a lexical index.
#[must_use]
pub fn lexical_db(id: &str) -> String {
    format!("{LEXICAL}/{id}/index.db")
}

/// How the database of a lexical index was left.
#[must_use]
pub fn lexical_stamp(id: &str) -> String {
    format!("{LEXICAL}/{id}/stamp.json")
}

/// The pack with number `n`.
#[must_use]
pub fn pack(n: u32) -> String {
    format!("{PACKS}/{n:08}.pack")
}

/// The capture ledger of a source.
#[must_use]
pub fn ledger(key: SourceKey) -> String {
    format!("{LEDGERS}/{key}.jsonl")
}
