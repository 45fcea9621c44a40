//! Classes of damage, as one closed list, and the verdicts that they lead to.

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::finding::Severity;

macro_rules! classes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $severity:ident;)+) => {
        /// What is wrong at one place of a session file, or with the file as a whole.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema,
        )]
        pub enum Class {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)+
        }

        impl Class {
            /// Every class, in the order in which documents list them.
            pub const ALL: &'static [Class] = &[$(Class::$variant,)+];

            /// The name as written in documents.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Class::$variant => $name,)+
                }
            }

            /// How bad it is at least.
            #[must_use]
            pub const fn severity(self) -> Severity {
                match self {
                    $(Class::$variant => Severity::$severity,)+
                }
            }
        }
    };
}

classes! {
    /// The file ends in a run of NUL bytes.
    NulTail = "jsonl.nul_tail", Warn;
    /// A run of NUL bytes with records behind it.
    NulHole = "jsonl.nul_hole", Warn;
    /// The last line has no end and is no record.
    TailTruncated = "jsonl.tail_truncated", Warn;
    /// The same in a file that was changed a moment ago: it may be being written.
    TailPending = "jsonl.tail_pending", Info;
    /// Records, or a part of one and another, on one line.
    Glued = "jsonl.glued", Warn;
    /// A record over several lines: a raw line feed in a string.
    Multiline = "jsonl.multiline", Warn;
    /// Bytes that are no UTF-8.
    InvalidUtf8 = "jsonl.invalid_utf8", Warn;
    /// A finished line, or a part of one, that is no record and of none of the classes above.
    Fragment = "jsonl.fragment", Warn;
    /// A raw control character in a string.
    ControlCharacter = "json.control_character", Info;
    /// Half of a surrogate pair in an escape.
    LoneSurrogate = "json.lone_surrogate", Info;
    /// Nested deeper than most decoders read.
    TooDeep = "json.too_deep", Info;
    /// A part of a JSON document that is no record.
    DocumentDamaged = "json.damaged", Warn;
    /// A record of a type that this version does not know.
    UnknownRecord = "format.unknown_record", Info;
    /// A record longer than the parser takes.
    OversizedRecord = "source.oversized_record", Warn;
    /// The record before this one in the conversation is not in the file.
    DanglingParent = "graph.dangling_parent", Info;
    /// One id, several records.
    DuplicateId = "graph.duplicate_id", Info;
    /// The record that a log of this harness begins with can't be read.
    HeaderMissing = "session.header_missing", Warn;
    /// A tool was called and its result never came.
    OpenToolCall = "session.open_tool_call", Info;
    /// A record without the number that is due: the harness refuses to resume.
    OrdinalGap = "codex.ordinal_gap", Warn;
    /// A number that was there before: the harness refuses to resume.
    OrdinalReused = "codex.ordinal_reused", Warn;
    /// A compressed file that is cut short or damaged.
    ContainerDamaged = "container.damaged", Error;
    /// A database with pages, tables or rows that can't be read.
    DatabaseMalformed = "sqlite.malformed", Error;
    /// The file is the begin of what was captured.
    Shrunk = "source.shrunk", Error;
    /// The file was emptied in place.
    Emptied = "source.emptied", Error;
    /// The file does not begin with what was captured.
    Rewritten = "source.rewritten", Info;
    /// The file is gone, and was captured.
    Missing = "source.missing", Warn;
}

/// One finding. Offsets, lines and lengths are of the plain bytes, where the file is compressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anomaly {
    /// What it is.
    pub class: Class,
    /// How bad it is here.
    pub severity: Severity,
    /// First byte; `None` where it is about the file as a whole. Of several, the first one.
    pub offset: Option<u64>,
    /// Its line, from 1.
    pub line: Option<u64>,
    /// Bytes that it covers; of several, all of them.
    pub len: u64,
    /// How many places of this kind it stands for.
    pub count: u64,
    /// Records that are read all the same.
    pub kept: u64,
    /// Records that can't be read: at least so many.
    pub lost: u64,
    /// In plain words.
    pub what: String,
}

impl Anomaly {
    /// One place; nothing is lost.
    pub(super) fn at(class: Class, offset: u64, line: u64, len: u64, what: String) -> Anomaly {
        Anomaly {
            class,
            severity: class.severity(),
            offset: Some(offset),
            line: Some(line),
            len,
            count: 1,
            kept: 0,
            lost: 0,
            what,
        }
    }

    /// About the file as a whole.
    pub(super) fn whole(class: Class, what: String) -> Anomaly {
        Anomaly {
            class,
            severity: class.severity(),
            offset: None,
            line: None,
            len: 0,
            count: 1,
            kept: 0,
            lost: 0,
            what,
        }
    }
}

/// What a session file is, all in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthVerdict {
    /// Every byte is a record that is read as it stands.
    Clean,
    /// Everything is read; oddities are named.
    Noted,
    /// The last line is being written.
    LiveTail,
    /// Damaged; what can be read is read, and no record is lost.
    Recovered,
    /// Damaged; what can be read is read, and a part is no record.
    Damaged,
    /// Not one record can be read.
    Unreadable,
    /// No bytes, and none were ever captured.
    Empty,
    /// The archive holds records that the file has no longer.
    ArchiveHoldsMore,
    /// Gone; the archive has it.
    Missing,
    /// No harness is known to write such a file.
    NotKnown,
    /// A harness's file that holds no session.
    NoSession,
}

impl HealthVerdict {
    /// The word, as written in documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            HealthVerdict::Clean => "clean",
            HealthVerdict::Noted => "noted",
            HealthVerdict::LiveTail => "live_tail",
            HealthVerdict::Recovered => "recovered",
            HealthVerdict::Damaged => "damaged",
            HealthVerdict::Unreadable => "unreadable",
            HealthVerdict::Empty => "empty",
            HealthVerdict::ArchiveHoldsMore => "archive_holds_more",
            HealthVerdict::Missing => "missing",
            HealthVerdict::NotKnown => "not_known",
            HealthVerdict::NoSession => "no_session",
        }
    }
}
