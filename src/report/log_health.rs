//! Session files of other harnesses than DSH in the document of `doctor session-log check`.

use schemars::JsonSchema;
use serde::Serialize;

use super::envelope::Site;
use super::session_log::ContextLine;
use super::time::rfc3339;
use crate::ingest::health::{
    Anomaly, Class, Found, Health, HealthVerdict, Held, HeldState, KnownBy,
};
use crate::ingest::parse::Container;
use crate::model::finding::Severity;
use crate::model::next::Next;
use crate::model::path::PathText;
use crate::model::provider::Provider;
use crate::session_log::SeenLine;
use crate::sources::usage::FileUse;

/// Findings of one file in a document.
const FINDINGS: usize = 100;

/// What holds the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HealthContainer {
    /// Lines, appended.
    Log,
    /// One JSON document, written anew as a whole.
    Document,
    /// Plain text.
    Text,
    /// A database.
    Database,
}

/// One session file, as the index reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HealthEntry {
    /// The harness's id of the session of the first record.
    pub session_id: Option<String>,
    /// Where it lies.
    #[serde(flatten)]
    pub path: PathText,
    /// The harness; null where it is not known.
    pub harness: Option<Provider>,
    /// How the harness is known.
    pub harness_known_by: Option<KnownBy>,
    /// What holds the records; null where nothing was read.
    pub container: Option<HealthContainer>,
    /// What it is, all in all.
    pub verdict: HealthVerdict,
    /// How bad the worst is; null where nothing is wrong.
    pub severity: Option<Severity>,
    /// Why, in plain words.
    pub reason: String,
    /// Records that an index reads from the file.
    pub records: u64,
    /// Messages in them.
    pub messages: u64,
    /// Bytes that an index reads no record from; NUL bytes and separators left out.
    pub bytes_lost: u64,
    /// Time of the first record, RFC 3339.
    pub first_record: Option<String>,
    /// Time of the last record, RFC 3339.
    pub last_record: Option<String>,
    /// Whether it was changed in the last minute.
    pub may_be_live: bool,
    /// Everything that is wrong or odd, in file order; at most 100.
    pub findings: Vec<HealthFinding>,
    /// How many there are.
    pub findings_total: u64,
    /// What the archive holds of it; null where there is no archive.
    pub archive: Option<HeldEntry>,
    /// What was examined; null where nothing was read.
    pub evidence: Option<HealthEvidence>,
    /// The lines around the first finding that is a warning.
    pub context: Vec<ContextLine>,
}

/// One thing that is wrong, or odd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HealthFinding {
    /// The class.
    pub class: Class,
    /// How bad it is.
    pub severity: Severity,
    /// First byte, of the plain bytes; of several places, of the first. Null where the finding is
    /// about the file as a whole.
    pub offset: Option<u64>,
    /// Its line, from 1.
    pub line: Option<u64>,
    /// Bytes, of all places.
    pub len: u64,
    /// How many places.
    pub count: u64,
    /// Records there that are read all the same.
    pub records_kept: u64,
    /// Records there that are not read: at least so many.
    pub records_lost: u64,
    /// In plain words.
    pub what: String,
}

/// What the archive holds of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HeldEntry {
    /// How the file stands to its newest capture.
    pub state: HeldState,
    /// Names the source: `mirror list` shows its captures.
    pub source: String,
    /// Captures of it.
    pub captures: u64,
    /// Size of the newest one.
    pub newest_bytes: Option<u64>,
    /// Time of the newest one, RFC 3339.
    pub newest_at: Option<String>,
    /// Records in captures that the file has no longer; null where records can't be compared.
    pub records_beyond: Option<u64>,
    /// Their bytes.
    pub bytes_beyond: u64,
    /// Number of the capture that holds most of them.
    pub richest_capture: Option<u64>,
    /// Whether every capture was compared that may hold more.
    pub complete: bool,
    /// The archive's id of the session; null where it was not indexed.
    pub session: Option<String>,
    /// The command that gives back what the file has no longer; null where there is nothing to give
    /// back or no such session.
    pub give_back: Option<Vec<String>>,
    #[serde(skip)]
    back: Option<Next>,
}

/// What was examined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HealthEvidence {
    /// Size of the file.
    pub bytes: u64,
    /// SHA-256 of the file.
    pub sha256: String,
    /// When it was last changed, RFC 3339.
    pub modified: Option<String>,
    /// Whether it changed while it was read.
    pub moved: bool,
    /// Whether it is compressed: offsets are of its plain bytes then.
    pub packed: bool,
}

impl From<&Anomaly> for HealthFinding {
    fn from(a: &Anomaly) -> HealthFinding {
        HealthFinding {
            class: a.class,
            severity: a.severity,
            offset: a.offset,
            line: a.line,
            len: a.len,
            count: a.count,
            records_kept: a.kept,
            records_lost: a.lost,
            what: a.what.clone(),
        }
    }
}

/// How to get back what a file has no longer. Nothing is written over one that is there.
fn back(held: &Held) -> Option<Next> {
    let id = held.session.clone()?;
    let newest = held.newest.map(|(seq, ..)| seq);
    let version = held.richest.filter(|seq| Some(*seq) != newest);
    held.is_more().then_some(match held.state {
        HeldState::Gone => Next::Restore { id, version },
        _ => Next::RestoreTo { id, version },
    })
}

impl HeldEntry {
    fn new(h: &Held, site: &Site) -> HeldEntry {
        let back = back(h);
        HeldEntry {
            state: h.state,
            source: h.key.to_string(),
            captures: h.captures,
            newest_bytes: h.newest.map(|(_, len, _)| len),
            newest_at: h.newest.and_then(|(.., at)| rfc3339(at)),
            records_beyond: h.records_beyond,
            bytes_beyond: h.bytes_beyond,
            richest_capture: h.richest,
            complete: h.complete,
            session: h.session.clone(),
            give_back: back.as_ref().and_then(|next| site.argv(next.argv())),
            back,
        }
    }
}

impl HealthEntry {
    /// The entry of a file. `health` is `None` for one that is gone or of no known harness.
    #[must_use]
    pub fn new(
        found: &Found,
        health: Option<&Health>,
        held: Option<&Held>,
        site: &Site,
    ) -> HealthEntry {
        let whose = found.whose.as_ref();
        let of_archive = held.and_then(Held::found);
        let own = health.map_or(&[][..], |h| &h.found);
        // What the archive holds more is the worst there can be, and comes before everything else.
        let findings: Vec<HealthFinding> = of_archive
            .iter()
            .chain(own)
            .take(FINDINGS)
            .map(HealthFinding::from)
            .collect();
        let verdict = match (whose, health) {
            (None, _) => HealthVerdict::NotKnown,
            (Some(w), _) if w.usage == FileUse::Evidence => HealthVerdict::NoSession,
            (_, None) => HealthVerdict::Missing,
            _ if held.is_some_and(Held::is_more) => HealthVerdict::ArchiveHoldsMore,
            (_, Some(h)) => h.verdict(),
        };
        let worst = of_archive
            .as_ref()
            .map(|f| f.severity)
            .max(health.and_then(|h| h.told.worst));
        let severity = match verdict {
            HealthVerdict::NotKnown => Some(Severity::Warn),
            HealthVerdict::NoSession => None,
            HealthVerdict::Unreadable => Some(Severity::Error),
            HealthVerdict::Empty => worst.max(Some(Severity::Info)),
            _ => worst,
        };
        let total = health.map_or(0, |h| h.told.total) + u64::from(of_archive.is_some());
        let times = health.map_or((None, None), |h| h.times);
        HealthEntry {
            session_id: health.and_then(|h| h.session.clone()),
            path: PathText::new(&found.path),
            harness: whose.map(|w| w.provider),
            harness_known_by: whose.map(|w| w.by),
            container: health.map(|h| match h.container {
                Container::Log => HealthContainer::Log,
                Container::Document => HealthContainer::Document,
                Container::Text => HealthContainer::Text,
                Container::Database => HealthContainer::Database,
            }),
            verdict,
            severity,
            reason: reason(verdict, &findings, total, health),
            records: health.map_or(0, |h| h.records),
            messages: health.map_or(0, |h| h.messages),
            bytes_lost: health.map_or(0, |h| h.lost_bytes),
            first_record: times.0.and_then(rfc3339),
            last_record: times.1.and_then(rfc3339),
            may_be_live: health.is_some_and(|h| h.live),
            findings,
            findings_total: total,
            archive: held.map(|h| HeldEntry::new(h, site)),
            evidence: health.map(|h| HealthEvidence {
                bytes: h.proof.bytes,
                sha256: h.proof.sha256.clone(),
                modified: rfc3339(h.proof.modified_ms),
                moved: h.proof.moved,
                packed: h.packed,
            }),
            context: Vec::new(),
        }
    }

    /// The line of the first finding that is a warning.
    #[must_use]
    pub fn first_line(&self) -> Option<u64> {
        let warns = |f: &&HealthFinding| f.severity >= Severity::Warn && f.line.is_some();
        self.findings.iter().find(warns).and_then(|f| f.line)
    }

    /// Adds the lines around the first finding, with their text or without.
    pub fn put_context(&mut self, lines: &[SeenLine], show_content: bool) {
        let here = self.first_line();
        self.context = lines
            .iter()
            .map(|l| ContextLine {
                line: l.line,
                here: Some(l.line) == here,
                kind: self.kind(l.line),
                events: None,
                bytes: l.bytes,
                text: show_content.then(|| l.text.clone()),
            })
            .collect();
    }

    /// What a line is.
    fn kind(&self, line: u64) -> String {
        let of_line = self.findings.iter().find(|f| f.line == Some(line));
        of_line.map_or_else(|| "line".to_owned(), |f| f.class.as_str().to_owned())
    }

    /// The command that gives back what the file has no longer.
    pub(super) fn back(&self) -> Option<Next> {
        self.archive.as_ref()?.back.clone()
    }

    /// Whether an index takes the file in.
    pub(super) fn is_capturable(&self) -> bool {
        self.harness_known_by == Some(KnownBy::Root) && self.evidence.is_some()
    }
}

fn reason(
    verdict: HealthVerdict,
    findings: &[HealthFinding],
    total: u64,
    health: Option<&Health>,
) -> String {
    let records = health.map_or(0, |h| h.records);
    let worst = findings.iter().rev().max_by_key(|f| f.severity);
    let more = match total.saturating_sub(1) {
        0 => String::new(),
        n => format!("; and {n} more"),
    };
    match (verdict, worst) {
        (HealthVerdict::NotKnown, _) => "no harness is known to write such a file".to_owned(),
        (HealthVerdict::NoSession, _) => "the harness keeps no session in it".to_owned(),
        (HealthVerdict::Empty, None) => "the file has no bytes".to_owned(),
        (HealthVerdict::Clean, _) => format!("{records} records, each as it stands"),
        (HealthVerdict::Unreadable, None) => "not one record can be read".to_owned(),
        (_, Some(f)) => format!("{}: {}{more}", f.class.as_str(), f.what),
        (_, None) => "not one record can be read".to_owned(),
    }
}
