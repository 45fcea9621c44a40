//! The facts that a check gathers beside its findings.

use crate::model::provider::Provider;
use crate::model::verdict::{
    AuthorityLevel, CoverageRisk, MirrorState, RemoteSync, RepairMarker, SourceState,
    StoragePressure,
};

/// Everything a check report says beside the findings. A fact that was not looked at is `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckFacts {
    /// Whether anything was ever captured or indexed here. `false`: status `not-initialized`.
    pub initialized: bool,
    /// The archive that `CURRENT` names, as far as it was readable.
    pub archive: ArchiveFacts,
    /// Who holds what.
    pub coverage: CoverageFacts,
    /// What would be believed, if a repair were planned now.
    pub authority: AuthorityFacts,
    /// The mirror.
    pub mirror: MirrorFacts,
    /// The sources, per harness, in the order of the provider's id.
    pub providers: Vec<ProviderFacts>,
    /// Remote machines.
    pub remote: RemoteSync,
    /// Room.
    pub storage: StorageFacts,
    /// A marker of a failed repair.
    pub marker: RepairMarker,
    /// Who writes now.
    pub operation: OperationFacts,
    /// The newest recorded deep check.
    pub attestation: Option<AttestationFacts>,
    /// The attestation that this run recorded, relative to the data directory.
    pub recorded: Option<String>,
}

impl Default for CheckFacts {
    /// The facts of a place where nothing was ever done.
    fn default() -> Self {
        CheckFacts {
            initialized: false,
            archive: ArchiveFacts::default(),
            coverage: CoverageFacts {
                status: CoverageRisk::NotInitialized,
                conversations: None,
                source_pruned: 0,
                archive_only: 0,
                sole_copy: 0,
                loss_suspected: 0,
                days_until_first_loss: None,
            },
            authority: AuthorityFacts {
                level: AuthorityLevel::None,
                reason: String::new(),
            },
            mirror: MirrorFacts {
                status: MirrorState::Absent,
                sources: None,
                captures: None,
                packs: None,
                stored_bytes: None,
                last_verified_ms: None,
            },
            providers: Vec::new(),
            remote: RemoteSync::NotConfigured,
            storage: StorageFacts {
                status: StoragePressure::Unknown,
                available_bytes: None,
                recommended_free_bytes: 0,
                archive_bytes: None,
                mirror_bytes: None,
            },
            marker: RepairMarker::Absent,
            operation: OperationFacts::default(),
            attestation: None,
            recorded: None,
        }
    }
}

impl CheckFacts {
    /// The facts before anything was looked at: nothing is known, and so nothing is absent or ok.
    #[must_use]
    pub fn unread() -> CheckFacts {
        let mut facts = CheckFacts {
            initialized: true,
            ..CheckFacts::default()
        };
        facts.coverage.status = CoverageRisk::Unknown;
        facts.authority.level = AuthorityLevel::Unknown;
        facts.mirror.status = MirrorState::Unknown;
        facts
    }

    /// Nothing was ever made here.
    pub fn never(&mut self) {
        let never = CheckFacts::default();
        self.initialized = false;
        self.coverage = never.coverage;
        self.authority = never.authority;
        self.mirror = never.mirror;
    }
}

/// The archive, as far as it was readable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArchiveFacts {
    /// The generation that `CURRENT` names.
    pub generation: Option<String>,
    /// The archive's id.
    pub archive_id: Option<String>,
    /// Schema version.
    pub schema_version: Option<u32>,
    /// Number of the last commit.
    pub commit: Option<u64>,
    /// Chain head of the last commit, hex.
    pub head: Option<String>,
    /// Conversations, rows of a pending WAL included.
    pub conversations: Option<u64>,
    /// Messages, likewise.
    pub messages: Option<u64>,
    /// Raw records, likewise.
    pub records: Option<u64>,
    /// Bytes of the WAL that no checkpoint has moved yet.
    pub wal_bytes: Option<u64>,
}

/// Who holds the sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoverageFacts {
    /// The verdict.
    pub status: CoverageRisk,
    /// Conversations looked at.
    pub conversations: Option<u64>,
    /// Conversations whose source is gone upstream.
    pub source_pruned: u64,
    /// Conversations held by archive rows alone.
    pub archive_only: u64,
    /// Conversations whose only readable holder is a damaged archive.
    pub sole_copy: u64,
    /// Conversations with a promise that no readable holder keeps.
    pub loss_suspected: u64,
    /// Days until a harness prunes the first source that is not captured.
    pub days_until_first_loss: Option<u64>,
}

/// What would be believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorityFacts {
    /// The best readable holder.
    pub level: AuthorityLevel,
    /// Why, in one sentence; may be empty.
    pub reason: String,
}

/// The mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirrorFacts {
    /// The verdict.
    pub status: MirrorState,
    /// Captured sources.
    pub sources: Option<u64>,
    /// Captures of them.
    pub captures: Option<u64>,
    /// Packs.
    pub packs: Option<u64>,
    /// Bytes of the packs.
    pub stored_bytes: Option<u64>,
    /// When every object was last verified, milliseconds since the Unix epoch.
    pub last_verified_ms: Option<i64>,
}

/// The sources of one harness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderFacts {
    /// The harness.
    pub provider: Provider,
    /// The worst state of its sources, or why there are none.
    pub state: SourceState,
    /// Sources that exist now.
    pub sources: u64,
    /// Of these, the ones that are newer than the archive or unknown to it.
    pub newer: u64,
    /// Sources that were captured once and are gone now.
    pub pruned: u64,
    /// Sources that can't be read.
    pub unreadable: u64,
    /// Days for which the harness keeps a session after its last change; `None` when it is not
    /// installed or never prunes.
    pub retention_days: Option<u64>,
}

/// Room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageFacts {
    /// The verdict.
    pub status: StoragePressure,
    /// Free bytes for this user. Left out of deterministic documents.
    pub available_bytes: Option<u64>,
    /// Free bytes that should be there.
    pub recommended_free_bytes: u64,
    /// Bytes of the archive and its WAL.
    pub archive_bytes: Option<u64>,
    /// Bytes of the mirror.
    pub mirror_bytes: Option<u64>,
}

/// Who writes now, and what is unfinished.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OperationFacts {
    /// The holder of the writer lock.
    pub owner: Option<Owner>,
    /// Operations that began and did not end.
    pub interrupted: u64,
}

/// The holder of the writer lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Process id; 0 when not known.
    pub pid: u32,
    /// The command, without arguments.
    pub command: String,
    /// Since when, milliseconds since the Unix epoch; 0 when not known.
    pub since_ms: i64,
}

/// A recorded deep check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttestationFacts {
    /// When, milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// Where, relative to the data directory.
    pub path: String,
    /// Whether it found nothing at severity `error`.
    pub clean: bool,
}
