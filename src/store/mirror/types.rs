//! What goes into the mirror and comes out of it, as plain data.

use std::path::PathBuf;

use crate::model::digest::Digest;
use crate::model::provider::Provider;
use crate::model::source::SourceKey;

/// Names one source in full; `key` is derived from the other three.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceIdent {
    /// The key, also the name of the source's ledger.
    pub key: SourceKey,
    /// The machine: `local` or a remote's name.
    pub source_id: String,
    /// The harness.
    pub provider: Provider,
    /// The path as the machine names it.
    pub path: PathBuf,
}

impl SourceIdent {
    /// The ident of `path` as read by `provider` on `source_id`.
    #[must_use]
    pub fn new(source_id: &str, provider: Provider, path: PathBuf) -> Self {
        SourceIdent {
            key: SourceKey::derive(source_id, provider, &path),
            source_id: source_id.to_owned(),
            provider,
            path,
        }
    }
}

/// What decides, without reading a source, whether it changed since it was captured.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatGate {
    /// Device number.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Size in bytes.
    pub size: u64,
    /// Modification time, nanoseconds since the Unix epoch.
    pub mtime_ns: i64,
    /// More of the same for a group of files (sizes, times, WAL salts); empty for a single file.
    pub extra: String,
}

/// The newest capture of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Which source.
    pub ident: SourceIdent,
    /// Number of the capture, from 1.
    pub seq: u64,
    /// Names the recipe of the content.
    pub recipe: Digest,
    /// Bytes of the content.
    pub len: u64,
    /// BLAKE3 of the content.
    pub hash: Digest,
    /// The gate when it was captured, or last found unchanged. All zero when it is not known, or
    /// when the mirror was found damaged: the source is then to be read again, which heals it.
    pub gate: StatGate,
    /// When it was captured, milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// Whether the source changed while it was read, or a file beside it could not be read.
    pub moving: bool,
}

/// How a content is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Grows at its end or is rewritten: content-defined chunks.
    Text,
    /// A database: pages stay where they are.
    Sqlite {
        /// Bytes of a page, a power of two from 512 to 65536.
        page_size: u32,
    },
}

/// Another file that belongs to a capture, `-wal` or `-journal` of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMember {
    /// What is added to the source's own name, for example `-wal`.
    pub name: String,
    /// Names the recipe of the content.
    pub recipe: Digest,
    /// Bytes of the content.
    pub len: u64,
    /// BLAKE3 of the content.
    pub hash: Digest,
}

/// One line of a source's ledger: the promise of one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaptureLine {
    /// Number of the capture, from 1.
    pub seq: u64,
    /// Names the recipe of the content.
    pub recipe: Digest,
    /// Bytes of the content.
    pub len: u64,
    /// BLAKE3 of the content.
    pub hash: Digest,
    /// `device:inode` of the source; a hint only.
    pub id: String,
    /// Modification time of the source, nanoseconds since the Unix epoch.
    pub mtime_ns: i64,
    /// When it was captured, milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// Whether the source changed while it was read, or a file beside it could not be read.
    pub moving: bool,
    /// The other files of the capture, in the order they were added.
    pub group: Vec<GroupMember>,
}

/// What a capture says beside its content.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CaptureMeta {
    /// The gate as it was before the content was read.
    pub gate: StatGate,
    /// Now, milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// Whether the source changed while it was read, or a file beside it could not be read.
    pub moving: bool,
    /// The other files of the capture; see [`super::MirrorWriter::store_member`].
    pub group: Vec<GroupMember>,
}

/// What adding a capture did. Durable only after the next flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Added {
    /// Number of the capture that holds the content.
    pub seq: u64,
    /// Whether the newest capture held this content already; there is then no new one.
    pub unchanged: bool,
    /// Names the recipe of the content.
    pub recipe: Digest,
    /// Bytes of the content.
    pub len: u64,
    /// BLAKE3 of the content.
    pub hash: Digest,
    /// Bytes this added to the packs.
    pub stored: u64,
    /// Objects that were damaged or missing and are whole again.
    pub healed: u64,
}

/// What kind of thing is wrong in a mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProblemKind {
    /// `FORMAT` is missing or says something else than it should.
    Format,
    /// A pack is missing, foreign, or has bytes that belong to no record.
    Pack,
    /// A record of a pack is damaged.
    Object,
    /// Bytes behind the last commit that nothing promises; the next writer drops them. Harmless.
    TornPack,
    /// A ledger has a line that is damaged, or its chain is broken.
    Ledger,
    /// A last line without its end; the next writer drops it. Harmless.
    TornLedger,
    /// A capture is promised, and its content can't be read or isn't what was promised.
    Promise,
    /// The derived index is missing or behind; the next writer makes it again. Harmless.
    IndexStale,
    /// The derived index says something that packs and ledgers don't; the next rebuild heals it.
    Index,
    /// Something lies in the mirror that does not belong there.
    Stray,
}

impl ProblemKind {
    /// The word for it, kebab-case and stable.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            ProblemKind::Format => "format-damaged",
            ProblemKind::Pack => "pack-damaged",
            ProblemKind::Object => "object-damaged",
            ProblemKind::TornPack => "pack-torn",
            ProblemKind::Ledger => "ledger-damaged",
            ProblemKind::TornLedger => "ledger-torn",
            ProblemKind::Promise => "promise-not-kept",
            ProblemKind::IndexStale => "index-stale",
            ProblemKind::Index => "index-wrong",
            ProblemKind::Stray => "stray-file",
        }
    }

    /// Whether a captured version may not be readable because of it.
    #[must_use]
    pub const fn loses_capture(self) -> bool {
        matches!(
            self,
            ProblemKind::Pack | ProblemKind::Object | ProblemKind::Ledger | ProblemKind::Promise
        )
    }

    /// Whether this is what a crash leaves, and no loss.
    #[must_use]
    pub const fn harmless(self) -> bool {
        matches!(
            self,
            ProblemKind::TornPack | ProblemKind::TornLedger | ProblemKind::IndexStale
        )
    }
}

/// One thing that is wrong in a mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirrorProblem {
    /// What kind of thing.
    pub kind: ProblemKind,
    /// The file it is in, relative to the data directory.
    pub file: String,
    /// Byte offset in that file, where known.
    pub offset: Option<u64>,
    /// The object, where one is known.
    pub object: Option<Digest>,
    /// The source and capture whose content is concerned, where known; seq 0 is the whole source.
    pub capture: Option<(SourceKey, u64)>,
    /// One sentence; never text from a session.
    pub message: String,
}

/// What a verification looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VerifySummary {
    /// Whether everything was looked at; false when the deadline came first.
    pub complete: bool,
    /// Sources with a ledger.
    pub sources: u64,
    /// Captures promised.
    pub captures: u64,
    /// Packs.
    pub packs: u64,
    /// Objects seen in packs (deep only).
    pub objects: u64,
    /// Bytes of packs and ledgers read.
    pub bytes: u64,
    /// Problems reported, harmless ones included.
    pub problems: u64,
}
