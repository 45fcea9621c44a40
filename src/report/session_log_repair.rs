//! The document of `doctor session-log repair`.

use schemars::JsonSchema;
use serde::Serialize;

use super::envelope::Body;
use super::mutation::{Mutation, PlanView};
use super::session_log::SessionLogEntry;
use crate::doctor::session_log::{EvidenceKind, Found, Seen};
use crate::model::path::PathText;
use crate::model::plan::CaptureName;
use crate::session_log::Verdict;

/// The plan for one log, or what applying it did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SessionLogRepairBody {
    /// The log as it was found, with what is wrong with it.
    pub log: Option<SessionLogEntry>,
    /// What the log becomes; null where nothing is made of it.
    pub log_after: Option<LogAfter>,
    /// The file that is written, or that is there already; null where there is nothing to write.
    pub target: Option<PathText>,
    /// Where the log can't be repaired from itself: what could still help, and whether it is there.
    pub evidence_searched: Vec<SearchedEvidence>,
    /// The plan.
    pub repair_plan: PlanView,
    /// What it would do, or did.
    #[serde(flatten)]
    pub mutation: Mutation,
}

impl Body for SessionLogRepairBody {
    const NAME: &'static str = "doctor-session-log-repair";
}

/// What is said of the log that is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LogAfter {
    /// Rows behind the header.
    pub rows: u64,
    /// Events in them.
    pub events: u64,
    /// The verdict.
    pub verdict: Verdict,
}

/// A kind of evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EvidenceWord {
    /// A log of the same session that an upgrade left beside it.
    OlderGeneration,
    /// A version of the log in the mirror.
    CapturedVersion,
    /// A backup of the archive.
    Backup,
    /// A session that was forked from this one.
    ForkedChild,
    /// A process that has the session in its memory.
    LiveProcess,
}

impl EvidenceWord {
    /// The word, for people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            EvidenceWord::OlderGeneration => "older generation",
            EvidenceWord::CapturedVersion => "captured version",
            EvidenceWord::Backup => "backup",
            EvidenceWord::ForkedChild => "forked child",
            EvidenceWord::LiveProcess => "live process",
        }
    }
}

/// One piece of evidence, or that there is none of a kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SearchedEvidence {
    /// Its kind.
    pub kind: EvidenceWord,
    /// Whether there is any.
    pub found: bool,
    /// Where it lies.
    pub path: Option<PathText>,
    /// The capture that it is.
    pub capture: Option<CaptureName>,
    /// The verdict on it, where it is a log.
    pub verdict: Option<Verdict>,
    /// Events of it that are sound, as far as they could be counted.
    pub events: Option<u64>,
    /// Whether the plan makes the log whole with it, or could.
    pub completes: bool,
    /// What it is, or what to do to have it.
    pub what: String,
}

impl From<&Found> for SearchedEvidence {
    fn from(found: &Found) -> SearchedEvidence {
        SearchedEvidence {
            kind: match found.kind {
                EvidenceKind::OlderGeneration => EvidenceWord::OlderGeneration,
                EvidenceKind::CapturedVersion => EvidenceWord::CapturedVersion,
                EvidenceKind::Backup => EvidenceWord::Backup,
                EvidenceKind::ForkedChild => EvidenceWord::ForkedChild,
                EvidenceKind::LiveProcess => EvidenceWord::LiveProcess,
            },
            found: found.found,
            path: found.path.as_deref().map(PathText::new),
            capture: found.capture.clone(),
            verdict: found.verdict,
            events: found.events,
            completes: found.completes,
            what: found.what.clone(),
        }
    }
}

impl SessionLogRepairBody {
    /// The document's body. `now_ms` says what a fresh change is.
    #[must_use]
    pub fn new(
        seen: Option<&Seen>,
        repair_plan: PlanView,
        mutation: Mutation,
        now_ms: i64,
    ) -> Self {
        SessionLogRepairBody {
            log: seen.map(|s| SessionLogEntry::new(&s.entry, &s.checked, &s.evidence, now_ms)),
            log_after: seen.and_then(|s| s.after).map(|a| LogAfter {
                rows: a.rows,
                events: a.events,
                verdict: a.verdict,
            }),
            target: seen.and_then(|s| s.target.as_deref()).map(PathText::new),
            evidence_searched: seen.map_or_else(Vec::new, |s| {
                s.searched.iter().map(SearchedEvidence::from).collect()
            }),
            repair_plan,
            mutation,
        }
    }
}
