//! The document of `doctor session-log check`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::check::FailOnLevel;
use super::envelope::{Body, OperationOutcome, OutcomeKind, Report, Site, Status};
use super::log_health::HealthEntry;
use super::time::rfc3339;
use crate::error::{Error, ErrorKind};
use crate::exit::ExitCodeKind;
use crate::model::finding::{RiskLevel, Severity};
use crate::model::interrupt::Signal;
use crate::model::next::Next;
use crate::model::path::PathText;
use crate::session_log::{
    CallPlace, Candidate, Checked, Diagnosis, Entry, Evidence, Fault, FaultKind, Finding, Kind,
    SeenLine, Sibling, Verdict,
};

/// What is wrong with session logs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SessionLogCheckBody {
    /// Logs in the order of their paths; where the list is cut, damaged ones come into it first.
    pub sessions: Vec<SessionEntry>,
    /// How many logs were examined.
    pub sessions_total: u64,
    /// Whether `sessions` leaves some out.
    pub sessions_truncated: bool,
    /// How many logs have each verdict.
    pub verdicts: BTreeMap<String, u64>,
    /// Session folders without a log: not written yet, which is no damage.
    pub empty_folders: u64,
    /// Files in the folders named that no harness is known to keep sessions in.
    pub other_files: u64,
    /// Why the archive was not asked what it holds more; null where it was, or there is none.
    pub archive_unread: Option<String>,
    /// Logs that could not be read; at most 20.
    pub unread: Vec<UnreadLog>,
    /// How many.
    pub unread_total: u64,
    /// Whether every log was looked at.
    pub complete: bool,
}

impl Body for SessionLogCheckBody {
    const NAME: &'static str = "doctor-session-log-check";
}

/// A log that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UnreadLog {
    /// Where it lies.
    #[serde(flatten)]
    pub path: PathText,
    /// Why.
    pub why: String,
}

/// What holds the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Surface {
    /// Lines of text.
    Raw,
    /// Lines of text in zstd frames.
    Zstd,
    /// An SQLite store.
    Sqlite,
}

/// One log: a DSH session, or a session file of another harness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum SessionEntry {
    /// A DSH session, by the harness's own rules.
    Dsh(Box<SessionLogEntry>),
    /// A session file of another harness, as the index reads it.
    Other(Box<HealthEntry>),
}

impl SessionEntry {
    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &PathText {
        match self {
            SessionEntry::Dsh(s) => &s.path,
            SessionEntry::Other(s) => &s.path,
        }
    }

    /// The session's id.
    #[must_use]
    pub fn session_id(&self) -> Option<&str> {
        match self {
            SessionEntry::Dsh(s) => s.session_id.as_deref(),
            SessionEntry::Other(s) => s.session_id.as_deref(),
        }
    }

    /// The verdict's word.
    #[must_use]
    pub const fn verdict(&self) -> &'static str {
        match self {
            SessionEntry::Dsh(s) => s.verdict.name(),
            SessionEntry::Other(s) => s.verdict.name(),
        }
    }

    /// How bad it is.
    #[must_use]
    pub fn severity(&self) -> Option<Severity> {
        match self {
            SessionEntry::Dsh(s) => s.severity,
            SessionEntry::Other(s) => s.severity,
        }
    }

    fn context(&self) -> &[ContextLine] {
        match self {
            SessionEntry::Dsh(s) => &s.context,
            SessionEntry::Other(s) => &s.context,
        }
    }

    const fn dsh(&self) -> Option<&SessionLogEntry> {
        match self {
            SessionEntry::Dsh(s) => Some(s),
            SessionEntry::Other(_) => None,
        }
    }
}

/// One log. Numbers of rows begin at 1 behind the header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SessionLogEntry {
    /// The session's id; what its folder is called where the header can't be read.
    pub session_id: Option<String>,
    /// Where it lies.
    #[serde(flatten)]
    pub path: PathText,
    /// The verdict that decides.
    pub verdict: Verdict,
    /// How bad it is; null where nothing is wrong.
    pub severity: Option<Severity>,
    /// Why, in plain words.
    pub reason: String,
    /// The row of the first failure.
    pub first_bad_line: Option<u64>,
    /// Its line in the text, from 1; in a store the row.
    pub first_bad_physical_line: Option<u64>,
    /// The event number that was due there.
    pub expected_seq: Option<u64>,
    /// The event number that came.
    pub got_seq: Option<u64>,
    /// Events before the first failure, where rows could be counted up to it.
    pub valid_prefix_events: Option<u64>,
    /// Rows that could be told apart.
    pub rows_total: u64,
    /// Whether a whole turn ends behind the first failure: then the harness refuses the log.
    pub committed: bool,
    /// The number of the last `turn/end` before the first failure.
    pub last_turn_end_seq: Option<u64>,
    /// Whether it was changed in the last minute: a session that goes on has an open turn, too.
    pub may_be_live: bool,
    /// Whether a repair has to be refused.
    pub must_refuse: bool,
    /// Whether the log can do without its repair.
    pub repair_optional: bool,
    /// Rows that a repair keeps as they are. This and the next five are null where none may be made.
    pub lines_kept: Option<u64>,
    /// Rows that it leaves out.
    pub lines_dropped: Option<u64>,
    /// The same, as first and last rows.
    pub dropped_rows: Option<Vec<(u64, u64)>>,
    /// Rows that lose events that are there already.
    pub rows_rewritten: Option<u64>,
    /// Types of the events that close an open turn.
    pub closers: Option<Vec<String>>,
    /// Events of the repaired log.
    pub repaired_event_count: Option<u64>,
    /// Everything that is wrong, the verdict's own finding first.
    pub findings: Vec<LogFinding>,
    /// Oddities that are none.
    pub remarks: Vec<String>,
    /// Where the call is named that does not fit: announced, started, answered.
    pub call_places: Vec<CallPlaceEntry>,
    /// Versions of the same events of which none may be chosen.
    pub candidates: Vec<CandidateEntry>,
    /// Other logs of the session beside this one: never read in its place.
    pub siblings: Vec<SiblingEntry>,
    /// What was examined.
    pub evidence: EvidenceEntry,
    /// The lines around the first failure.
    pub context: Vec<ContextLine>,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LogFinding {
    /// The verdict that it alone would lead to.
    pub verdict: Verdict,
    /// In plain words.
    pub what: String,
}

/// One place in which a call is named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CallPlaceEntry {
    /// `call`, `execution`, `result`, or `streamed`: the pieces of the answer.
    pub place: String,
    /// Its row.
    pub row: u64,
    /// Its event.
    pub seq: u64,
    /// The id that the call has there.
    pub call_id: String,
    /// The tool's name, where the place has one.
    pub name: Option<String>,
}

/// One version of events of which there are several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CandidateEntry {
    /// Rows, first and last.
    pub rows: (u64, u64),
    /// Events, first and last.
    pub events: (u64, u64),
    /// What it is.
    pub what: String,
}

/// Another log of the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SiblingEntry {
    /// Its name.
    pub name: String,
    /// The version of the format that its name says.
    pub version: u64,
    /// Its size.
    pub bytes: u64,
}

/// What was examined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EvidenceEntry {
    /// Version of the format.
    pub version: Option<u64>,
    /// What holds the rows.
    pub surface: Surface,
    /// The profile that the session was begun with.
    pub profile: Option<String>,
    /// Size of the file.
    pub bytes: u64,
    /// SHA-256 of the file.
    pub sha256: String,
    /// When it was last changed, RFC 3339.
    pub modified: Option<String>,
    /// Whether it changed while it was read.
    pub moved: bool,
    /// The first failure in its own words.
    pub first_error: Option<String>,
    /// Byte at which it begins: of the row, or of the frame that holds it.
    pub offset: Option<u64>,
    /// Number of that frame, from 1.
    pub frame: Option<u64>,
}

/// One line near the first failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ContextLine {
    /// Number of the line, from 1.
    pub line: u64,
    /// Whether it is the one.
    pub here: bool,
    /// The type of its event, or why it is none.
    pub kind: String,
    /// Numbers of its events, first and last.
    pub events: Option<(u64, u64)>,
    /// Its length.
    pub bytes: u64,
    /// The begin of its text, where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// How long after its last change a log may be one that is being written.
const LIVE_MS: i64 = 60_000;

/// How bad a verdict is.
fn severity(verdict: Verdict, live: bool) -> Option<Severity> {
    match verdict {
        Verdict::Clean => None,
        Verdict::InterruptedTurnRecoverable if live => Some(Severity::Info),
        Verdict::TornTailRecoverable if live => Some(Severity::Warn),
        v if v.is_damage() => Some(Severity::Error),
        _ => Some(Severity::Warn),
    }
}

impl SessionLogEntry {
    /// The entry of a log that was examined. `now_ms` says what a fresh change is.
    #[must_use]
    pub fn new(entry: &Entry, checked: &Checked, evidence: &Evidence, now_ms: i64) -> Self {
        let d = &checked.diagnosis;
        let first = d.first_bad.as_ref();
        let may_be_live = (0..LIVE_MS).contains(&(now_ms - evidence.modified_ms));
        let sound = d.verdict == Verdict::Clean;
        let repair = d.repair.as_ref();
        let numbers = |of_sound: u64, n: Option<u64>| if sound { Some(of_sound) } else { n };
        SessionLogEntry {
            session_id: checked.session_id.clone(),
            path: PathText::new(&entry.path),
            verdict: d.verdict,
            severity: severity(d.verdict, may_be_live),
            reason: d.reason.clone(),
            first_bad_line: first.map(|f| f.row),
            first_bad_physical_line: first.map(
                |f| {
                    if checked.in_store { f.row } else { f.spot.line }
                },
            ),
            expected_seq: first.and_then(|f| f.expected),
            got_seq: first.and_then(|f| f.got),
            valid_prefix_events: d.valid_prefix_events,
            rows_total: d.rows_total,
            committed: d.committed,
            last_turn_end_seq: d.last_turn_end,
            may_be_live,
            must_refuse: d.must_refuse,
            repair_optional: d.repair_optional,
            lines_kept: numbers(d.rows_total, repair.map(|r| r.rows_kept)),
            lines_dropped: numbers(0, repair.map(|r| r.rows_dropped)),
            dropped_rows: if sound {
                Some(Vec::new())
            } else {
                repair.map(|r| r.dropped.clone())
            },
            rows_rewritten: numbers(0, repair.map(|r| r.rows_rewritten)),
            closers: if sound {
                Some(Vec::new())
            } else {
                repair.map(|r| r.closers.iter().map(|c| c.kind.to_owned()).collect())
            },
            repaired_event_count: if sound {
                d.valid_prefix_events
            } else {
                repair.map(|r| r.events)
            },
            findings: d.findings.iter().map(LogFinding::from).collect(),
            remarks: d.remarks.clone(),
            call_places: places(d),
            candidates: d.candidates.iter().map(CandidateEntry::from).collect(),
            siblings: entry.siblings.iter().map(SiblingEntry::from).collect(),
            evidence: EvidenceEntry::new(entry, checked, evidence),
            context: Vec::new(),
        }
    }

    /// Adds the lines around the first failure, with their text or without.
    pub fn put_context(&mut self, lines: &[SeenLine], show_content: bool) {
        self.context = lines
            .iter()
            .map(|l| ContextLine {
                line: l.line,
                here: Some(l.line) == self.first_bad_physical_line,
                kind: l.kind.clone(),
                events: l.events,
                bytes: l.bytes,
                text: show_content.then(|| l.text.clone()),
            })
            .collect();
    }
}

/// The places of a call that does not fit.
fn places(d: &Diagnosis) -> Vec<CallPlaceEntry> {
    let of_calls = |f: &&Fault| f.kind == FaultKind::ToolIdentity;
    let fault = d.fault.as_ref().filter(of_calls);
    fault.map_or_else(Vec::new, |f| {
        f.places.iter().map(CallPlaceEntry::from).collect()
    })
}

impl From<&Finding> for LogFinding {
    fn from(f: &Finding) -> LogFinding {
        LogFinding {
            verdict: f.verdict,
            what: f.what.clone(),
        }
    }
}

impl From<&CallPlace> for CallPlaceEntry {
    fn from(p: &CallPlace) -> CallPlaceEntry {
        CallPlaceEntry {
            place: p.role.word().to_owned(),
            row: p.row,
            seq: p.seq,
            call_id: p.id.clone(),
            name: p.name.clone(),
        }
    }
}

impl From<&Candidate> for CandidateEntry {
    fn from(c: &Candidate) -> CandidateEntry {
        CandidateEntry {
            rows: c.rows,
            events: c.events,
            what: c.what.clone(),
        }
    }
}

impl From<&Sibling> for SiblingEntry {
    fn from(s: &Sibling) -> SiblingEntry {
        SiblingEntry {
            name: s.name.clone(),
            version: s.log.generation,
            bytes: s.bytes,
        }
    }
}

impl EvidenceEntry {
    fn new(entry: &Entry, checked: &Checked, evidence: &Evidence) -> Self {
        let d = &checked.diagnosis;
        let first = d.first_bad.as_ref().filter(|_| !checked.in_store);
        let surface = match entry.kind {
            Kind::Store => Surface::Sqlite,
            _ if entry.form().is_some_and(|f| f.packed) => Surface::Zstd,
            _ => Surface::Raw,
        };
        let preset = d.header.as_ref().and_then(|h| h.preset.as_ref());
        EvidenceEntry {
            version: d.header.as_ref().map(|h| h.version).or(d.foreign_version),
            surface,
            profile: preset.map(|p| String::from_utf8_lossy(p).into_owned()),
            bytes: evidence.bytes,
            sha256: evidence.sha256.clone(),
            modified: rfc3339(evidence.modified_ms),
            moved: evidence.moved,
            first_error: d.first_bad.as_ref().map(|f| f.what.clone()),
            offset: first.map(|f| f.spot.file),
            frame: first.map(|f| f.spot.frame).filter(|n| *n > 0),
        }
    }
}

/// The document with its exit.
#[must_use]
pub fn session_log_check_report(
    body: SessionLogCheckBody,
    worst: Option<Severity>,
    fail_on: FailOnLevel,
    interrupted: Option<Signal>,
    site: &Site,
) -> Report<SessionLogCheckBody> {
    let threshold = match fail_on {
        FailOnLevel::Info => Some(Severity::Info),
        FailOnLevel::Warn => Some(Severity::Warn),
        FailOnLevel::Error => Some(Severity::Error),
        FailOnLevel::Never => None,
    };
    let failed = matches!((worst, threshold), (Some(w), Some(t)) if w >= t);
    let next = recommended(&body);
    let unread = body.unread_total;
    let mut report = Report::ok(body);
    report.status = match worst {
        Some(Severity::Error) => Status::Error,
        Some(Severity::Warn) => Status::Warn,
        _ => Status::Ok,
    };
    report.risk_level = match worst {
        Some(Severity::Error) => RiskLevel::Medium,
        Some(Severity::Warn) => RiskLevel::Low,
        _ => RiskLevel::None,
    };
    if worst.is_some() {
        let exit = if failed {
            ExitCodeKind::HealthFailure
        } else {
            ExitCodeKind::Success
        };
        report.operation_outcome = OperationOutcome::new(OutcomeKind::OkReadOnlyDiagnosed, exit);
    }
    report = report.recommending(&next, site);
    if let Some(signal) = interrupted {
        return report.failing_keeping_next(&signal.error(), site);
    }
    if unread > 0 && !failed {
        let error = Error::new(ErrorKind::SourcesFailed, "some logs could not be read")
            .with_hint("`unread` names them with the reason.")
            .with_context("unread", unread.to_string());
        return report.failing_keeping_next(&error, site);
    }
    report
}

/// What to do about damage: plan a repair, put back what only the archive has, look at the first of
/// it, and take its bytes in.
fn recommended(body: &SessionLogCheckBody) -> Vec<Next> {
    let mut next = Vec::new();
    let can = |s: &&SessionLogEntry| {
        s.severity == Some(Severity::Error) && !s.must_refuse && s.path.path_hex.is_none()
    };
    if let Some(log) = body.sessions.iter().filter_map(SessionEntry::dsh).find(can) {
        next.push(Next::SessionLogRepair(log.path.path.clone()));
    }
    let others = body.sessions.iter().filter_map(|s| match s {
        SessionEntry::Other(s) => Some(s),
        SessionEntry::Dsh(_) => None,
    });
    next.extend(others.clone().find_map(|s| s.back()));
    // Of the other harnesses' files damage is a warning: the archive reads them all the same.
    let damaged = |s: &&SessionEntry| {
        let least = match s {
            SessionEntry::Dsh(_) => Severity::Error,
            SessionEntry::Other(_) => Severity::Warn,
        };
        s.severity() >= Some(least)
    };
    let Some(first) = body.sessions.iter().find(damaged) else {
        return next;
    };
    let shown = first.context().iter().any(|l| l.text.is_some());
    if first.path().path_hex.is_none() && !first.context().is_empty() && !shown {
        next.push(Next::SessionLogShow(first.path().path.clone()));
    }
    let known = |s: &SessionEntry| matches!(s, SessionEntry::Other(s) if !s.is_capturable());
    if !known(first) {
        next.push(Next::Index);
    }
    next
}
