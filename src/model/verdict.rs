//! The states that documents report, as closed lists with the exact words of the contract.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! states {
    ($($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident,)+ })+) => {
        $(
            $(#[$doc])*
            #[derive(
                Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
                JsonSchema,
            )]
            #[serde(rename_all = "kebab-case")]
            pub enum $name { $($(#[$vdoc])* $variant,)+ }

            impl $name {
                /// Every value.
                pub const ALL: &'static [$name] = &[$($name::$variant,)+];
            }
        )+
    };
}

states! {
    /// `coverage_risk.status`
    CoverageRisk {
        /// Every session has a verified holder besides the archive, and its source.
        Ok,
        /// Sources were pruned upstream; mirror and archive hold them. Normal.
        SourcePruned,
        /// The only readable holder of some conversation is the damaged archive itself.
        SoleCopy,
        /// Some conversations are held by archive rows alone.
        ArchiveOnly,
        /// Something that was promised has no readable holder.
        LossSuspected,
        /// Not known.
        Unknown,
        /// Nothing was ever indexed.
        NotInitialized,
    }

    /// `backups[].kind`
    BackupKind {
        /// Made because somebody asked for it, or by a plan that needed one.
        Operator,
        /// A generation that was superseded, kept as it was.
        SealedGeneration,
    }

    /// `backups[].state`: what is known without reading the files.
    BackupState {
        /// The manifest is whole, and every file that it lists is there with its length.
        Unverified,
        /// The manifest is whole; a file that it lists is missing or has another length.
        Incomplete,
        /// The manifest can't be believed.
        Unreadable,
    }

    /// `sidecar_completeness`
    SidecarState {
        /// A log is listed and there.
        Complete,
        /// A log is listed and not there: the newest commits are gone.
        WalMissing,
        /// A file that SQLite would read lies beside the database and is not listed.
        ExtraSidecar,
        /// No log is listed and none is there.
        NotNeeded,
    }

    /// `artifact_manifest.files[].status`
    ArtifactState {
        /// Length and digest are as listed.
        Matched,
        /// Length or digest is another.
        ChecksumMismatch,
        /// Listed and not there.
        MissingArtifact,
        /// There and not listed.
        ExtraFile,
        /// No regular file: a link, a folder, a device.
        UnsafePath,
        /// It could not be read.
        Unreadable,
    }

    /// `source_authority.authority_level`
    AuthorityLevel {
        /// The archive, verified.
        VerifiedArchive,
        /// The raw mirror, verified.
        VerifiedMirror,
        /// A backup, verified.
        VerifiedBackup,
        /// Rows salvaged from a damaged archive.
        Salvage,
        /// The harness's own files.
        LiveSource,
        /// A copy on another machine.
        RemoteCopy,
        /// Several, and they disagree.
        Ambiguous,
        /// Nothing.
        None,
        /// Not known.
        Unknown,
    }

    /// `raw_mirror.status`
    MirrorState {
        /// There is none.
        Absent,
        /// What was looked at is sound.
        Ok,
        /// Present; its objects were not verified.
        Unverified,
        /// Readable, with damage that costs no capture (a derived index, a torn tail).
        Degraded,
        /// A promised object is missing or damaged.
        Corrupt,
        /// Not known.
        Unknown,
    }

    /// `remote_source_sync.status`
    RemoteSync {
        /// No remote machine is set up.
        NotConfigured,
        /// Up to date.
        Ok,
        /// Not synced for too long.
        Stale,
        /// Some parts are missing.
        Gaps,
        /// The last sync failed.
        Failed,
    }

    /// `storage_pressure.status`
    StoragePressure {
        /// Enough room.
        Ok,
        /// Less than is recommended.
        Degraded,
        /// Too little to capture what is new.
        Critical,
        /// Not known.
        Unknown,
    }

    /// `repair_failure_marker.status`
    RepairMarker {
        /// There is none.
        Absent,
        /// A repair failed and left one.
        PreviousFailure,
        /// There is one that can't be read.
        Corrupt,
    }

    /// State of a source, or of a harness's sources together.
    SourceState {
        /// Captured and indexed as it is now.
        Ok,
        /// It has grown or changed since.
        NewerThanArchive,
        /// It is gone; mirror and archive may hold it.
        Pruned,
        /// It holds nothing.
        Empty,
        /// It can't be read.
        Unreadable,
        /// The harness is not installed.
        ProviderNotInstalled,
        /// The harness is installed and has no sessions here.
        NoLocalData,
    }

    /// What kind of thing a file is, and so how carefully it is treated.
    AssetClass {
        /// Precious: the archive.
        ArchiveDb,
        /// Precious: the archive's WAL; it may hold committed rows.
        ArchiveSidecar,
        /// Precious: packs.
        RawMirror,
        /// Precious: capture ledgers.
        CaptureLedger,
        /// Precious: the coverage ledger.
        CoverageLedger,
        /// Precious: a backup.
        Backup,
        /// Precious: a superseded archive.
        SealedGeneration,
        /// Precious: a receipt.
        Receipt,
        /// Precious: the event log.
        EventLog,
        /// Precious: what a failure left for its reader.
        FailureContext,
        /// Precious: a baseline.
        Baseline,
        /// Precious: annotations.
        Annotation,
        /// Precious: settings.
        Config,
        /// Precious: anything else the person made.
        UserState,
        /// Derived: the lexical index.
        LexicalIndex,
        /// Derived: the semantic index.
        SemanticIndex,
        /// Derived: the mirror's index.
        MirrorIndex,
        /// Reclaimable: a candidate that nobody promotes.
        OrphanCandidate,
        /// Reclaimable: put aside by a plan.
        Quarantine,
        /// Reclaimable: a temporary file.
        Temp,
        /// Handed out: an export.
        Export,
        /// Handed out: a support bundle.
        SupportBundle,
        /// Belongs to a harness.
        ExternalSource,
        /// Not known: never touched.
        Unknown,
    }
}
