//! What is said of a log.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::closers::Closer;
use super::fault::Fault;
use super::header::Header;
use super::lines::Spot;

/// The verdicts, from the one that decides first to the last.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// There is no header.
    EmptyLog,
    /// A version that is not known. No damage.
    UnsupportedVersion,
    /// The harness gave this layout up.
    LegacyLayout,
    /// Packed and raw logs below one root.
    MixedEncodings,
    /// The log lies where its header does not belong.
    IdentityConflict,
    /// The first line is not what it must be.
    HeaderInvalid,
    /// Bytes between frames, or a frame that can't be decoded.
    FrameCorrupt,
    /// The first frame is not exactly the header.
    FrameLayoutInvalid,
    /// Zero bytes inside.
    NulPadding,
    /// Events are gone.
    MissingMiddle,
    /// Two versions of the same events.
    ForkedLog,
    /// A turn was closed by one process and went on in another.
    SyntheticCloserOverlap,
    /// Events were written again.
    ReappendedDuplicates,
    /// Calls, executions and results do not belong together.
    ToolIdentityMismatch,
    /// Turns, steps or queues do not.
    LifecycleInvalid,
    /// A message is not what its type says.
    MessageInvalid,
    /// A row that was cut off, and rows behind it.
    TornFragmentThenAppend,
    /// Bytes that are no UTF-8. Readable.
    InvalidUtf8,
    /// An event that is not known. No damage.
    UnknownRequiredEvent,
    /// The end was cut off.
    TornTailRecoverable,
    /// A turn is open at the end.
    InterruptedTurnRecoverable,
    /// Nothing is wrong.
    Clean,
}

impl Verdict {
    /// Whether the harness can go on with a log of this verdict as it is.
    #[must_use]
    pub const fn is_sound(self) -> bool {
        matches!(self, Verdict::Clean | Verdict::InterruptedTurnRecoverable)
    }

    /// All of them, the first to decide first.
    pub const ALL: [Verdict; 22] = [
        Verdict::EmptyLog,
        Verdict::UnsupportedVersion,
        Verdict::LegacyLayout,
        Verdict::MixedEncodings,
        Verdict::IdentityConflict,
        Verdict::HeaderInvalid,
        Verdict::FrameCorrupt,
        Verdict::FrameLayoutInvalid,
        Verdict::NulPadding,
        Verdict::MissingMiddle,
        Verdict::ForkedLog,
        Verdict::SyntheticCloserOverlap,
        Verdict::ReappendedDuplicates,
        Verdict::ToolIdentityMismatch,
        Verdict::LifecycleInvalid,
        Verdict::MessageInvalid,
        Verdict::TornFragmentThenAppend,
        Verdict::InvalidUtf8,
        Verdict::UnknownRequiredEvent,
        Verdict::TornTailRecoverable,
        Verdict::InterruptedTurnRecoverable,
        Verdict::Clean,
    ];

    /// Its name, as documents have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::EmptyLog => "empty_log",
            Verdict::UnsupportedVersion => "unsupported_version",
            Verdict::LegacyLayout => "legacy_layout",
            Verdict::MixedEncodings => "mixed_encodings",
            Verdict::IdentityConflict => "identity_conflict",
            Verdict::HeaderInvalid => "header_invalid",
            Verdict::FrameCorrupt => "frame_corrupt",
            Verdict::FrameLayoutInvalid => "frame_layout_invalid",
            Verdict::NulPadding => "nul_padding",
            Verdict::MissingMiddle => "missing_middle",
            Verdict::ForkedLog => "forked_log",
            Verdict::SyntheticCloserOverlap => "synthetic_closer_overlap",
            Verdict::ReappendedDuplicates => "reappended_duplicates",
            Verdict::ToolIdentityMismatch => "tool_identity_mismatch",
            Verdict::LifecycleInvalid => "lifecycle_invalid",
            Verdict::MessageInvalid => "message_invalid",
            Verdict::TornFragmentThenAppend => "torn_fragment_then_append",
            Verdict::InvalidUtf8 => "invalid_utf8",
            Verdict::UnknownRequiredEvent => "unknown_required_event",
            Verdict::TornTailRecoverable => "torn_tail_recoverable",
            Verdict::InterruptedTurnRecoverable => "interrupted_turn_recoverable",
            Verdict::Clean => "clean",
        }
    }

    /// Whether nothing may be written for a log of this verdict whatever else is known.
    #[must_use]
    pub(super) const fn always_refused(self) -> bool {
        matches!(
            self,
            Verdict::EmptyLog
                | Verdict::UnsupportedVersion
                | Verdict::LegacyLayout
                | Verdict::MixedEncodings
                | Verdict::IdentityConflict
                | Verdict::FrameCorrupt
                | Verdict::MissingMiddle
                | Verdict::ForkedLog
                | Verdict::ToolIdentityMismatch
                | Verdict::LifecycleInvalid
                | Verdict::MessageInvalid
                | Verdict::InvalidUtf8
                | Verdict::UnknownRequiredEvent
        )
    }

    /// Whether the harness itself reads the log, or would with the right version.
    #[must_use]
    pub const fn is_damage(self) -> bool {
        !matches!(
            self,
            Verdict::Clean
                | Verdict::InterruptedTurnRecoverable
                | Verdict::UnsupportedVersion
                | Verdict::UnknownRequiredEvent
        )
    }
}

/// The first thing that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstBad {
    /// The row, from 1 behind the header.
    pub row: u64,
    /// Where it begins.
    pub spot: Spot,
    /// The number that was due.
    pub expected: Option<u64>,
    /// The number that came.
    pub got: Option<u64>,
    /// What is wrong.
    pub what: String,
}

/// One more thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The verdict that it alone would lead to.
    pub verdict: Verdict,
    /// In plain words, without any text of the session.
    pub what: String,
}

/// Bytes of the text that are left out, and what comes in their place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// Where they begin.
    pub from: u64,
    /// Where what is kept begins again.
    pub to: u64,
    /// What comes in their place.
    pub with: Vec<u8>,
}

/// What would have to be done on a copy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Repair {
    /// In order, and apart from each other.
    pub edits: Vec<Edit>,
    /// Where the file is cut before anything is added: the begin of a torn frame or of zero bytes.
    /// Whole rows that a torn frame gave begin at the second number in the text.
    pub cut: Option<(u64, u64)>,
    /// Zero bytes between frames that are left out: where they begin, and where the next frame does.
    pub gaps: bool,
    /// Where in the text the header ends, if it gets a frame of its own.
    pub reframe: Option<u64>,
    /// What closes the turn that is open at the end.
    pub closers: Vec<Closer>,
    /// Rows that are left out, first and last.
    pub dropped: Vec<(u64, u64)>,
    /// How many.
    pub rows_dropped: u64,
    /// Rows that stay as they are.
    pub rows_kept: u64,
    /// Rows that lose events that are there already.
    pub rows_rewritten: u64,
    /// Events of the repaired log.
    pub events: u64,
}

/// One of several versions of the same events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Rows, first and last.
    pub rows: (u64, u64),
    /// Events, first and last.
    pub events: (u64, u64),
    /// Why it can't be chosen, or that it could.
    pub what: String,
}

/// What is said of one log.
#[derive(Debug, Clone)]
pub struct Diagnosis {
    /// The verdict that decides.
    pub verdict: Verdict,
    /// Why, in plain words.
    pub reason: String,
    /// The first failure.
    pub first_bad: Option<FirstBad>,
    /// Rows behind the header that could be told apart.
    pub rows_total: u64,
    /// Events before the first failure, where rows could be counted up to it.
    pub valid_prefix_events: Option<u64>,
    /// Everything that is wrong, the verdict's own finding first.
    pub findings: Vec<Finding>,
    /// Harmless oddities.
    pub remarks: Vec<String>,
    /// The header, where it could be read.
    pub header: Option<Header>,
    /// A version that is not known.
    pub foreign_version: Option<u64>,
    /// The event that breaks a rule, with the places of its call.
    pub fault: Option<Fault>,
    /// Versions of the same events of which none may be chosen.
    pub candidates: Vec<Candidate>,
    /// The number of the last `turn/end` before the first failure.
    pub last_turn_end: Option<u64>,
    /// Whether a whole `turn/end` comes behind the first failure.
    pub committed: bool,
    /// What would be done on a copy; `None` where nothing may be, or need be.
    pub repair: Option<Repair>,
    /// Whether a repair has to be refused.
    pub must_refuse: bool,
    /// Whether the log can be read without it.
    pub repair_optional: bool,
}

impl Diagnosis {
    /// Adds what is known from elsewhere. What decides before the verdict so far becomes the
    /// verdict; then no number of a row is given any more, and nothing is repaired.
    pub fn add(&mut self, finding: Finding) {
        if finding.verdict.always_refused() {
            self.refuse();
        }
        if finding.verdict < self.verdict {
            self.verdict = finding.verdict;
            self.reason.clone_from(&finding.what);
            self.first_bad = None;
            self.valid_prefix_events = None;
        }
        self.findings.push(finding);
        self.findings.sort_by_key(|f| f.verdict);
    }

    /// The repair to make. An open turn alone is no damage: it is closed only when that is asked for,
    /// since a live session has one.
    #[must_use]
    pub fn wanted(&self, close_turn: bool) -> Option<&Repair> {
        let optional = self.verdict == Verdict::InterruptedTurnRecoverable;
        self.repair.as_ref().filter(|_| !optional || close_turn)
    }

    /// Whether the harness can go on with the log as it is.
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        self.verdict.is_sound()
    }

    /// Takes back what could be done on a copy.
    pub(super) fn refuse(&mut self) {
        self.must_refuse = true;
        self.repair = None;
        self.repair_optional = false;
    }
}
