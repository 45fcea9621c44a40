//! What a log becomes.

use std::io;
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::model::plan::{
    Action, Count, FileState, LeftOutRow, Listed, Listing, LogMake, LogPlace, LogWrite, Notes,
};
use crate::session_log::{
    self, Checked, Diagnosis, Header, LeftOut, Repair, Verdict, mend, store_repairs,
};
use crate::store::foreign;

use super::evidence::Older;
use super::log::{Log, digests};
use super::read;

/// What is said of a log that would be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct After {
    /// Rows behind the header.
    pub rows: u64,
    /// Events in them.
    pub events: u64,
    /// The verdict: sound in any case, but a turn may be open.
    pub verdict: Verdict,
}

/// A log as it would be.
pub(super) struct Outcome {
    pub(super) make: LogMake,
    pub(super) repair: Repair,
    pub(super) after: After,
    pub(super) header: Option<Header>,
    pub(super) result: FileState,
    pub(super) sha256: String,
    pub(super) left_out: Listed<LeftOutRow>,
    pub(super) reasons: Vec<String>,
}

/// What the log becomes by its own repair; `None` where it has none.
pub(super) fn repaired(log: &Log, close_turn: bool) -> Result<Option<Outcome>> {
    let d = &log.checked.diagnosis;
    let Some(repair) = d.wanted(close_turn) else {
        return Ok(None);
    };
    let (mut reasons, mut left_out) = (Vec::new(), Listing::default());
    let failed = |e| Error::io("read", &log.entry.path, e);
    let (len, sha256, blake3) = match (&log.read.image, log.entry.form()) {
        (Some(image), _) => {
            let path = &log.entry.path;
            let repairs = store_repairs(&log.read.sessions, close_turn);
            let made = foreign::changed_image(image, path, &|conn| {
                session_log::mend_store(conn, &repairs)
            })?;
            let conn = foreign::open_image(image, path)?;
            for (id, repair) in &repairs {
                let mut list = |row| left_out.push(&listed(Some(id), row));
                session_log::store_left_out(&conn, id, repair, &mut list).map_err(failed)?;
            }
            reasons.extend(left(&log.read.sessions));
            verify(&made, path, &repairs)?;
            digests(&made[..], path)?
        }
        (None, Some(form)) => {
            let file = read::open(&log.entry.path)?;
            let mut list = |row| left_out.push(&listed(None, row));
            session_log::left_out(&file, form, repair, &mut list).map_err(failed)?;
            let mut sink = Sink::default();
            mend(&file, form, repair, &mut sink).map_err(failed)?;
            sink.end()
        }
        (None, None) => {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "{} has more than {} MiB: a store is repaired in memory, and this one is not",
                    log.entry.path.display(),
                    read::MAX_IMAGE >> 20
                ),
            )
            .with_hint("`cass doctor session-log check` reads stores of any size."));
        }
    };
    reasons.extend(told(repair));
    Ok(Some(Outcome {
        make: LogMake::Repair,
        repair: repair.clone(),
        after: after(d, repair),
        header: d.header.clone(),
        result: FileState {
            name: log.source.name.clone(),
            len: Count(len),
            blake3,
        },
        sha256,
        left_out: left_out.end(),
        reasons,
    }))
}

fn after(d: &Diagnosis, repair: &Repair) -> After {
    let open = d
        .findings
        .iter()
        .any(|f| f.verdict == Verdict::InterruptedTurnRecoverable);
    After {
        rows: repair.rows_kept + repair.rows_rewritten + repair.closers.len() as u64,
        events: repair.events,
        verdict: if open && repair.closers.is_empty() {
            Verdict::InterruptedTurnRecoverable
        } else {
            Verdict::Clean
        },
    }
}

fn listed(session: Option<&String>, row: LeftOut) -> LeftOutRow {
    LeftOutRow {
        session: session.cloned(),
        row: row.row.map(Count),
        offset: Count(row.offset),
        bytes: Count(row.bytes),
        sha256: row.sha256,
    }
}

/// Sessions of a store that stay as they are.
fn left(sessions: &[Checked]) -> Vec<String> {
    let stays = |s: &&Checked| s.diagnosis.must_refuse;
    let line = |s: &Checked| {
        let id = s.session_id.as_deref().unwrap_or("?");
        format!("{id} stays as it is: {}", s.diagnosis.verdict.name())
    };
    sessions.iter().filter(stays).map(line).collect()
}

/// Whether the sessions of a store that were repaired are sound.
fn verify(image: &[u8], path: &Path, repairs: &[(String, Repair)]) -> Result<()> {
    let conn = foreign::open_image(image, path)?;
    let sessions = session_log::sessions(&conn, &|| false)
        .map_err(|e| Error::io("read", path, io::Error::other(e)))?;
    let sound = |id: &str| {
        sessions
            .iter()
            .any(|s| s.session_id.as_deref() == Some(id) && s.diagnosis.is_sound())
    };
    match repairs.iter().find(|(id, _)| !sound(id)) {
        None => Ok(()),
        Some((id, _)) => Err(Error::new(
            ErrorKind::VerifyFailed,
            format!("what would be made of {id} is not sound"),
        )),
    }
}

/// What is done, in words.
fn told(repair: &Repair) -> Vec<String> {
    let mut out = Vec::new();
    for (first, last) in &repair.dropped {
        out.push(format!("rows {first} to {last} are left out"));
    }
    if repair.rows_rewritten > 0 {
        out.push(format!(
            "{} rows lose events that are there already",
            repair.rows_rewritten
        ));
    }
    if repair.cut.is_some() {
        out.push("the fragment at the end is cut off".to_owned());
    }
    if repair.gaps {
        out.push("zero bytes between frames are left out".to_owned());
    }
    if repair.reframe.is_some() {
        out.push("the header gets a frame of its own".to_owned());
    }
    for closer in &repair.closers {
        out.push(format!(
            "event {}, {}, closes what is open",
            closer.seq, closer.kind
        ));
    }
    out
}

/// What the log becomes with a captured version.
pub(super) fn rebuilt(log: &Log, older: Older) -> Outcome {
    let (bytes, how) = (&older.bytes, older.how);
    let mut sink = Sink::default();
    sink.add(bytes);
    let (len, sha256, blake3) = sink.end();
    let reason = format!(
        "what is missing is in capture {} of {}, which agrees with the log on both sides: its first \
         {} bytes are taken, and the log from byte {} on",
        older.capture.seq.0, older.capture.source, how.taken, how.from
    );
    Outcome {
        make: LogMake::Rebuild {
            capture: older.capture,
            blake3: older.line.hash.to_hex(),
            len: Count(older.line.len),
            taken: Count(how.taken),
            from: Count(how.from),
        },
        repair: Repair::default(),
        after: After {
            rows: older.diagnosis.rows_total,
            events: older.diagnosis.valid_prefix_events.unwrap_or(0),
            verdict: older.diagnosis.verdict,
        },
        header: older.diagnosis.header,
        result: FileState {
            name: log.source.name.clone(),
            len: Count(len),
            blake3,
        },
        sha256,
        left_out: Listed::none(),
        reasons: vec![reason],
    }
}

/// The step that writes it.
pub(super) fn action(log: &Log, place: LogPlace, outcome: Outcome, notes: &mut Notes) -> Action {
    notes.reasons.extend(outcome.reasons);
    // The capture, and the new log in its place.
    notes.required_bytes = (1 << 20) + log.source.len.0 + outcome.result.len.0;
    let repair = outcome.repair;
    Action::WriteSessionLog {
        log: Box::new(LogWrite {
            log: log.entry.path.to_string_lossy().into_owned(),
            verdict: log.checked.diagnosis.verdict.name().to_owned(),
            source: log.source.clone(),
            source_sha256: log.read.evidence.sha256.clone(),
            place,
            make: outcome.make,
            dropped: repair
                .dropped
                .iter()
                .map(|(a, b)| (Count(*a), Count(*b)))
                .collect(),
            left_out: outcome.left_out,
            rewritten: Count(repair.rows_rewritten),
            closers: repair.closers.iter().map(|c| c.kind.to_owned()).collect(),
            events: Count(outcome.after.events),
            result: outcome.result,
            result_sha256: outcome.sha256,
        }),
    }
}

/// Takes what would be written, for its digests alone.
#[derive(Default)]
struct Sink {
    sha256: sha2::Sha256,
    blake3: blake3::Hasher,
    len: u64,
}

impl Sink {
    fn add(&mut self, bytes: &[u8]) {
        sha2::Digest::update(&mut self.sha256, bytes);
        self.blake3.update(bytes);
        self.len += bytes.len() as u64;
    }

    fn end(self) -> (u64, String, String) {
        let sha256 = sha2::Digest::finalize(self.sha256);
        (
            self.len,
            crate::model::path::hex(&sha256),
            self.blake3.finalize().to_hex().to_string(),
        )
    }
}

impl io::Write for Sink {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.add(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
