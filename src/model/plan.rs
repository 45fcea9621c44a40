//! What a plan is: an ordered list of actions over a state that is named in full, so that one
//! fingerprint covers both.
//!
//! Everything here is data. Numbers of 64 bits are text in JSON, since a reader may take every
//! number for a double; there are no clocks, run ids, host facts or folder names, but those of a
//! session log and of the place where a repaired one is written.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::next::Next;
use super::provider::Provider;

/// The word for accepting a loss, in events and receipts.
pub const ACCEPT_LOSS: &str = "accept-loss";

/// The option of a plan that makes derived data anew even where it is as it should be.
pub const FORCE_REBUILD: &str = "force-rebuild";

/// Version of the covered body; in every fingerprint.
pub const FORMAT: u32 = 1;

/// A number that JSON shows as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Count(pub u64);

impl Serialize for Count {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        text.parse().map(Count).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Count {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Count".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^[0-9]{1,20}$" })
    }
}

/// Which command a plan belongs to. A fingerprint of one never applies to another.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum PlanKind {
    /// `doctor repair`
    Repair,
    /// `doctor --fix`
    Fix,
    /// `doctor backups create`
    BackupCreate,
    /// `doctor backups restore`
    BackupRestore,
    /// `doctor runs undo`
    Undo,
    /// `doctor session-log repair`
    SessionLogRepair,
    /// What `index` does first where the archive is of an older schema.
    Migrate,
}

impl PlanKind {
    /// The word that documents have for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            PlanKind::Repair => "repair",
            PlanKind::Fix => "fix",
            PlanKind::BackupCreate => "backup-create",
            PlanKind::BackupRestore => "backup-restore",
            PlanKind::Undo => "undo",
            PlanKind::SessionLogRepair => "session-log-repair",
            PlanKind::Migrate => "migrate",
        }
    }

    /// The words of the command, without the program's.
    #[must_use]
    pub const fn command(self) -> &'static str {
        match self {
            PlanKind::Repair => "doctor repair",
            PlanKind::Fix => "doctor --fix",
            PlanKind::BackupCreate => "doctor backups create",
            PlanKind::BackupRestore => "doctor backups restore",
            PlanKind::Undo => "doctor runs undo",
            PlanKind::SessionLogRepair => "doctor session-log repair",
            PlanKind::Migrate => "index",
        }
    }
}

/// One file by its content.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct FileState {
    /// Its name: relative to the data directory, or the bare name of a file outside of it.
    pub name: String,
    /// Bytes.
    pub len: Count,
    /// BLAKE3, hex.
    pub blake3: String,
}

/// In what state the archive is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum ArchiveState {
    /// None was ever made.
    Never,
    /// The plan reads and changes none, whatever its state.
    Apart,
    /// Every row verifies: the head of the commit chain stands for all of it.
    Verified {
        /// The archive.
        archive_id: String,
        /// The live generation.
        generation: String,
        /// Number of the last commit.
        commit: Count,
        /// Its chain head, hex.
        head: String,
        /// BLAKE3 of its manifest, hex.
        manifest: String,
    },
    /// It opens and ends in this commit; no row was verified, none has to be.
    Open {
        /// The archive.
        archive_id: String,
        /// The live generation.
        generation: String,
        /// Number of the last commit.
        commit: Count,
        /// Its chain head, hex.
        head: String,
        /// BLAKE3 of its manifest, hex.
        manifest: String,
    },
    /// It does not verify, so that only its bytes say what it is.
    Unverified {
        /// What `CURRENT` says; null when it is missing or no text.
        current: Option<String>,
        /// Database, WAL and manifest of the generation at hand.
        files: Vec<FileState>,
    },
}

/// What the coverage ledger promises.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PromiseState {
    /// The archive it speaks of.
    pub archive_id: String,
    /// The generation that is live by it.
    pub generation: String,
    /// The last commit that it promises.
    pub commit: Count,
    /// The chain head of that commit, hex.
    pub head: String,
    /// Conversations that it promises.
    pub conversations: Count,
    /// Digest over every promised conversation (id, records, sum) and capture, hex.
    pub digest: String,
}

/// Records of one conversation that will not be in the archive once the plan is applied.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Missing {
    /// The conversation.
    pub conversation: String,
    /// Its harness, where something that can be read tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// What the harness calls it, where something that can be read tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_id: Option<String>,
    /// How many of its records, at most.
    pub records: Count,
    /// Why no evidence for them can be read.
    pub reason: MissingReason,
}

/// Why records can't be brought back.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum MissingReason {
    /// Their capture can't be read from the mirror, and no readable archive holds them.
    CaptureUnreadable,
    /// Their capture was promised, and the mirror does not know it.
    CaptureMissing,
    /// The archive that is restored is older than they are.
    NewerThanBackup,
    /// They lie in the outgoing archive alone, which is put back as it was.
    InOutgoingArchive,
    /// Their row is damaged, and neither the mirror nor another archive gives them.
    RowDamaged,
}

/// What kind of thing is lost.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum LostWhat {
    /// Records of a session.
    Records,
    /// Messages of records that are themselves held.
    Messages,
    /// The bytes of a capture that no row was made of, or none is known of.
    Capture,
    /// What says where rows that are held themselves belong: records whose conversation is lost and
    /// messages whose record is lost. What nothing else places comes under a conversation, or a
    /// record, that is made up of them.
    Place,
}

/// Something that can't be brought back, named as exactly as anything that can be read tells.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Lost {
    /// The conversation; null where none is known.
    pub conversation: Option<String>,
    /// Its harness.
    pub provider: Option<Provider>,
    /// What the harness calls it.
    pub native_id: Option<String>,
    /// What it is.
    pub what: LostWhat,
    /// How many records or messages (of `place`: both), at most; null where no row of it was ever made.
    pub count: Option<Count>,
    /// Source key, 32 hex digits.
    pub source: Option<String>,
    /// Number of the capture in the source's ledger.
    pub seq: Option<Count>,
    /// Where it begins and ends in the source: the first and the last line, counted from 1.
    pub lines: Option<(Count, Count)>,
    /// Where it begins and ends in the source: offset and length in bytes.
    pub bytes: Option<(Count, Count)>,
    /// BLAKE3 of the raw record, or of the capture's content, hex.
    pub hash: Option<String>,
    /// Why.
    pub reason: MissingReason,
}

/// A list that is covered in full and shown in part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Listed<T> {
    /// How many there are.
    pub total: Count,
    /// BLAKE3 over all of them, hex.
    pub digest: String,
    /// The first of them, in order.
    pub first: Vec<T>,
}

impl<T: Serialize + Clone> Listed<T> {
    /// How many are shown.
    pub const SHOWN: usize = 20;

    /// The list of `all`, which is sorted.
    #[must_use]
    pub fn of(all: &[T]) -> Self {
        let mut listing = Listing::default();
        all.iter().for_each(|one| listing.push(one));
        listing.end()
    }

    /// The list of none.
    #[must_use]
    pub fn none() -> Self {
        Self::of(&[])
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.total.0 == 0
    }
}

/// A [`Listed`] in the making, of more than is held.
#[derive(Debug)]
pub struct Listing<T> {
    hasher: blake3::Hasher,
    total: u64,
    first: Vec<T>,
}

impl<T> Default for Listing<T> {
    fn default() -> Self {
        Listing {
            hasher: blake3::Hasher::new(),
            total: 0,
            first: Vec::new(),
        }
    }
}

impl<T: Serialize + Clone> Listing<T> {
    /// Adds the next one, in order.
    pub fn push(&mut self, one: &T) {
        // Text and counts alone, which can't fail; each ends in a newline that JSON never holds.
        self.hasher
            .update(&serde_json::to_vec(one).unwrap_or_default());
        self.hasher.update(b"\n");
        self.total += 1;
        if self.first.len() < Listed::<T>::SHOWN {
            self.first.push(one.clone());
        }
    }

    /// The list.
    #[must_use]
    pub fn end(self) -> Listed<T> {
        Listed {
            total: Count(self.total),
            digest: self.hasher.finalize().to_hex().to_string(),
            first: self.first,
        }
    }
}

/// One capture of the mirror.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct CaptureName {
    /// Source key, 32 hex digits.
    pub source: String,
    /// Its number in the source's ledger.
    pub seq: Count,
}

/// Where rows of a candidate come from.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum AuthorityClass {
    /// The live archive, as far as its rows verify.
    Archive,
    /// The raw mirror.
    Mirror,
    /// A backup or a sealed generation.
    Backup,
    /// An archive that the operator named.
    Named,
}

/// An archive whose verified rows fill what the mirror can't give.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RowAuthority {
    /// What kind of holder it is.
    pub class: AuthorityClass,
    /// Generation id, backup id, or `named`.
    pub name: String,
    /// Its files, by content.
    pub files: Vec<FileState>,
}

/// How a candidate is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "from", rename_all = "kebab-case")]
pub enum Recipe {
    /// Rung 1: a copy of a generation's database and WAL is recovered; what the ledger promises
    /// beyond it is read again from the mirror.
    Recover {
        /// The generation that is copied.
        generation: String,
    },
    /// Rung 4: every promised capture is read from the mirror in ledger order; what it can't give
    /// comes from the verified rows of these archives.
    Rebuild {
        /// In order of preference.
        rows: Vec<RowAuthority>,
        /// Promised captures that the mirror can't give.
        unreadable: Listed<CaptureName>,
    },
    /// Rung 5: a backup or sealed generation is copied.
    Restore {
        /// Its id.
        backup: String,
        /// Whether everything captured since is read into it as well.
        keep_newer: bool,
        /// In order of preference, for what the mirror can't give; only with `keep_newer`.
        rows: Vec<RowAuthority>,
        /// Promised captures that the mirror can't give; only with `keep_newer`.
        unreadable: Listed<CaptureName>,
    },
    /// Rung 6: a new archive is begun, because no row of the old one can be read anywhere. What the
    /// mirror holds beyond what was promised is read into it.
    Begin {
        /// Promised captures that the mirror can't give: all of them.
        unreadable: Listed<CaptureName>,
    },
    /// No repair: the rows of the live archive, which is sound, are put into one of a newer schema.
    Migrate {
        /// The live generation.
        generation: String,
        /// Its schema version.
        old_schema: u32,
        /// The schema version of the new archive.
        new_schema: u32,
    },
}

/// Something derived that is made anew.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum DerivedAsset {
    /// The lexical index.
    LexicalIndex,
    /// The mirror's index of objects and ledger heads.
    MirrorIndex,
}

/// Where a repaired session log is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "to", rename_all = "kebab-case")]
pub enum LogPlace {
    /// Below a folder that becomes a sessions root; nothing has the name yet.
    Folder {
        /// The folder, absolute.
        folder: String,
        /// The log's path below it.
        rel: String,
    },
    /// Over the log itself.
    InPlace,
}

/// How a repaired session log is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "by", rename_all = "kebab-case")]
pub enum LogMake {
    /// Rows are left out and an open turn is closed, as the diagnosis says.
    Repair,
    /// What is missing is taken from a captured version of the log that agrees with it on both sides.
    Rebuild {
        /// The captured version.
        capture: CaptureName,
        /// BLAKE3 of its content, hex.
        blake3: String,
        /// Bytes of its content.
        len: Count,
        /// Bytes from its begin that are taken.
        taken: Count,
        /// Byte of the log from which on it is taken.
        from: Count,
    },
}

/// A row of a session log that is left out, or what the end of the file left of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOutRow {
    /// The session, in a store of several.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session: Option<String>,
    /// Its number, from 1; null for what has no end.
    pub row: Option<Count>,
    /// Where it begins in the text.
    pub offset: Count,
    /// Its length, without a newline.
    pub bytes: Count,
    /// SHA-256 of these bytes, hex.
    pub sha256: String,
}

/// A session log that is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogWrite {
    /// The log, absolute.
    pub log: String,
    /// The verdict on it.
    pub verdict: String,
    /// The log by content.
    pub source: FileState,
    /// SHA-256 of it, hex.
    pub source_sha256: String,
    /// Where the new log comes to lie.
    pub place: LogPlace,
    /// How it is made.
    pub make: LogMake,
    /// Rows that are left out, first and last, from 1.
    pub dropped: Vec<(Count, Count)>,
    /// The same and a fragment at the end, one by one: all of them are covered, the first are shown.
    #[serde(default = "Listed::<LeftOutRow>::none")]
    pub left_out: Listed<LeftOutRow>,
    /// Rows that lose events that are there already.
    pub rewritten: Count,
    /// Types of the events that close an open turn.
    pub closers: Vec<String>,
    /// Events of the new log.
    pub events: Count,
    /// The new log by content.
    pub result: FileState,
    /// SHA-256 of it, hex.
    pub result_sha256: String,
}

impl LogWrite {
    /// The folder and the path below it of the file that is written.
    #[must_use]
    pub fn target(&self) -> (&str, &str) {
        match &self.place {
            LogPlace::Folder { folder, rel } => (folder, rel),
            LogPlace::InPlace => self.log.rsplit_once('/').unwrap_or((".", &self.log)),
        }
    }
}

/// One step of a plan. The list is closed: there is one interpreter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum Action {
    /// Finishes or closes what a killed run left.
    FinishInterrupted {
        /// The run.
        run_id: String,
    },
    /// Builds a candidate generation and verifies it.
    StageCandidate {
        /// How it is made.
        recipe: Recipe,
    },
    /// Makes the verified candidate the live generation; the outgoing one is sealed.
    PromoteCandidate,
    /// `CURRENT` is made to name a generation that is there and verifies.
    RePoint {
        /// The generation.
        generation: String,
        /// Its files, by content.
        files: Vec<FileState>,
    },
    /// A damaged coverage ledger is put aside and begun anew from the verified archive.
    RenewLedger {
        /// The damaged ledger.
        file: FileState,
    },
    /// What can't be read anywhere is put on record as lost, and is no promise from then on. Nothing
    /// is changed or removed: what comes back is used as before.
    AcceptLoss {
        /// Captures that can't be given back.
        captures: Listed<CaptureName>,
        /// Conversations of which records are lost.
        conversations: Listed<Missing>,
    },
    /// What a run put on record as lost is a promise again.
    WithdrawAcceptance {
        /// The run.
        run_id: String,
    },
    /// Derived data is made anew.
    RebuildDerived {
        /// Which.
        asset: DerivedAsset,
    },
    /// A backup is made.
    CreateBackup {
        /// How many backups of this commit there are already.
        at_this_head: Count,
        /// The operator's words for it.
        label: Option<String>,
    },
    /// A generation that nothing names is moved to the quarantine.
    ReclaimOrphan {
        /// The generation.
        generation: String,
        /// Its files, by content.
        files: Vec<FileState>,
    },
    /// The marker of a failed repair is put aside.
    ClearMarker {
        /// Digest of the marker, hex.
        marker: String,
    },
    /// What a run moved to the quarantine is moved back.
    PutBack {
        /// The run.
        run_id: String,
    },
    /// The log is captured into the mirror, and the repaired one written.
    WriteSessionLog {
        /// What is written, and where.
        log: Box<LogWrite>,
    },
    /// A log that was repaired in place is again what it was: its capture is written over it.
    PutBackSessionLog {
        /// What was written.
        log: Box<LogWrite>,
        /// The capture of what was there before.
        capture: CaptureName,
    },
}

/// For people.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::FinishInterrupted { run_id } => {
                write!(f, "finish or close {run_id}, which was killed")
            }
            Action::StageCandidate { .. } => {
                f.write_str("build a new archive beside what is there, and verify it")
            }
            Action::PromoteCandidate => {
                f.write_str("make the new archive live, and keep what was live before")
            }
            Action::RePoint { generation, .. } => write!(f, "make {generation} live"),
            Action::RenewLedger { .. } => {
                f.write_str("put the damaged coverage ledger aside, and begin it again")
            }
            Action::AcceptLoss { .. } => f.write_str("put on record as lost what nothing can give"),
            Action::WithdrawAcceptance { run_id } => {
                write!(f, "promise again what {run_id} put on record as lost")
            }
            Action::RebuildDerived {
                asset: DerivedAsset::LexicalIndex,
            } => f.write_str("make the lexical index again"),
            Action::RebuildDerived {
                asset: DerivedAsset::MirrorIndex,
            } => f.write_str("make the mirror's index again"),
            Action::CreateBackup { .. } => f.write_str("make a backup, and verify it"),
            Action::ReclaimOrphan { generation, .. } => {
                write!(
                    f,
                    "move {generation}, which nothing names, to the quarantine"
                )
            }
            Action::ClearMarker { .. } => f.write_str("clear the marker of the repair that failed"),
            Action::PutBack { run_id } => write!(f, "put back what {run_id} moved"),
            Action::WriteSessionLog { log } => f.write_str(match log.place {
                LogPlace::InPlace => "capture the log, and put the repaired one in its place",
                LogPlace::Folder { .. } => {
                    "capture the log, and write the repaired one to the target"
                }
            }),
            Action::PutBackSessionLog { .. } => {
                f.write_str("put the captured log back in the place of the repaired one")
            }
        }
    }
}

impl Action {
    /// Whether it is about a session log and leaves the archive alone.
    #[must_use]
    pub const fn is_of_log(&self) -> bool {
        matches!(
            self,
            Action::WriteSessionLog { .. } | Action::PutBackSessionLog { .. }
        )
    }

    /// One word, for events and receipts.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Action::FinishInterrupted { .. } => "finish-interrupted",
            Action::StageCandidate { .. } => "stage-candidate",
            Action::PromoteCandidate => "promote-candidate",
            Action::RePoint { .. } => "re-point",
            Action::RenewLedger { .. } => "renew-ledger",
            Action::AcceptLoss { .. } => ACCEPT_LOSS,
            Action::WithdrawAcceptance { .. } => "withdraw-acceptance",
            Action::RebuildDerived { .. } => "rebuild-derived",
            Action::CreateBackup { .. } => "create-backup",
            Action::ReclaimOrphan { .. } => "reclaim-orphan",
            Action::ClearMarker { .. } => "clear-marker",
            Action::PutBack { .. } => "put-back",
            Action::WriteSessionLog { .. } => "write-session-log",
            Action::PutBackSessionLog { .. } => "put-back-session-log",
        }
    }
}

/// What the fingerprint covers: the request, the state and what is done about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Body {
    /// Version of this form.
    pub format: u32,
    /// The command.
    pub kind: PlanKind,
    /// Options that change the outcome.
    pub options: BTreeMap<String, String>,
    /// The archive.
    pub archive: ArchiveState,
    /// What the coverage ledger promises; null when there is none.
    pub promises: Option<PromiseState>,
    /// Digest of the marker that an earlier failure left, hex; null when there is none.
    pub marker: Option<String>,
    /// Files that are read beside the archive and the mirror.
    pub inputs: Vec<FileState>,
    /// What will not be there afterwards, by conversation.
    pub missing: Listed<Missing>,
    /// The same by record, as exactly as it is known.
    #[serde(
        default = "Listed::<Lost>::none",
        skip_serializing_if = "Listed::is_empty"
    )]
    pub lost: Listed<Lost>,
    /// What is done, in order.
    pub actions: Vec<Action>,
}

impl Body {
    /// A body that does nothing yet.
    #[must_use]
    pub fn new(kind: PlanKind, archive: ArchiveState) -> Self {
        Body {
            format: FORMAT,
            kind,
            options: BTreeMap::new(),
            archive,
            promises: None,
            marker: None,
            inputs: Vec::new(),
            missing: Listed::of(&[]),
            lost: Listed::of(&[]),
            actions: Vec::new(),
        }
    }
}

/// A safety gate.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Gate {
    /// Nothing that can be read today is missing from the candidate.
    Coverage,
    /// There is a verified source to build from.
    Authority,
    /// A conversation whose only holder is the outgoing archive keeps that holder.
    SoleCopy,
    /// No earlier repair failed, or a repeat was asked for.
    RepairMarker,
    /// There is room for what will be written.
    Storage,
    /// A restore was rehearsed.
    Rehearsal,
    /// The run is what the operator may do without a shown plan.
    AutoEligibility,
    /// Nothing was committed since the run that is undone.
    NothingSince,
    /// What is left of a session log leads to one log, and to no other.
    LogRepair,
    /// A repaired session log may be written where it was asked for.
    LogTarget,
}

/// What a gate says.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum GateVerdict {
    /// Open.
    Pass,
    /// Open, with something to know.
    Warn,
    /// Shut: the plan is not applied.
    Block,
    /// Looked at only when the plan is applied.
    AtApply,
}

/// One gate of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GateResult {
    /// Which.
    pub gate: Gate,
    /// What it says.
    pub verdict: GateVerdict,
    /// Why, as one sentence without text of a session.
    pub reason: String,
}

/// One step of the ladder of repairs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rung {
    /// 0 re-point, 1 recover the WAL on a copy, 2 rebuild derived data, 3 salvage rows, 4 rebuild
    /// from the mirror, 5 restore a backup, 6 begin a new archive.
    pub rung: u32,
    /// Whether the plan takes it.
    pub taken: bool,
    /// Why, or why not.
    pub reason: String,
}

/// What a plan says beside what it covers: for people, and free to change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Notes {
    /// The ladder, cheapest first.
    pub rungs: Vec<Rung>,
    /// Captures or conversations by the class that they are taken from.
    pub authorities: BTreeMap<String, u64>,
    /// Bytes that will be written, at most.
    pub required_bytes: u64,
    /// Bytes that will be read, at least.
    pub read_bytes: u64,
    /// What was found that the plan answers, as short sentences.
    pub reasons: Vec<String>,
    /// The command to run instead, when a gate is shut.
    pub instead: Option<Vec<String>>,
    /// What does settle it, when what was found is nothing that this plan could settle.
    pub then: Option<Next>,
    /// What the archive holds now; null when it can't be read.
    pub coverage: Option<Coverage>,
    /// Records of the candidate that the live archive does not have, where that was counted.
    pub gained: Option<u64>,
    /// Conversations whose only readable holder is the outgoing archive.
    pub sole_copies: u64,
    /// Where the archive lies that the operator named.
    pub named: Option<std::path::PathBuf>,
    /// Everything that `missing` in the body stands for.
    pub missing: Vec<Missing>,
    /// Everything that `unreadable` in the recipe stands for.
    pub unreadable: Vec<CaptureName>,
    /// Everything that `lost` in the body stands for.
    pub lost: Vec<Lost>,
    /// The captures that are accepted as lost, each with the BLAKE3 of its content, hex, where the
    /// mirror still has its ledger line.
    pub accepted: Vec<(CaptureName, Option<String>)>,
}

/// How much an archive holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Coverage {
    /// Conversations, branches included.
    pub conversations: u64,
    /// Distinct records of conversations.
    pub records: u64,
    /// Messages.
    pub messages: u64,
}

/// A plan before it is sealed: what a planner makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// What the fingerprint covers.
    pub body: Body,
    /// What the gates say.
    pub gates: Vec<GateResult>,
    /// What else is said.
    pub notes: Notes,
}
