//! `doctor session-log repair`

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};

use crate::disk::Root;
use crate::error::{Error, ErrorKind, Result};
use crate::model::plan::{
    Action, ArchiveState, Body, Count, Draft, FileState, Gate, GateResult, GateVerdict, LogMake,
    LogPlace, LogWrite, Notes, PlanKind,
};
use crate::plan::{Ground, Planner};
use crate::session_log::{
    self, Checked, Entry, Evidence, Header, Kind, Repair, Verdict, mend, store_repairs,
};
use crate::sources::config::Config;
use crate::sources::database::member_path;
use crate::store::foreign;

use super::evidence::{self, Found, Older};
use super::read::{self, Examined};
use super::target::{self, Place, Wanted};

/// Logs that are named when a path leads to several.
const NAMED: usize = 10;

/// What was found at the path.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The log or store.
    pub entry: Entry,
    /// What is said of it: of a store the first session that something is wrong with.
    pub checked: Checked,
    /// What the file was.
    pub evidence: Evidence,
    /// What could help where the log can't be repaired, and whether it is there.
    pub searched: Vec<Found>,
    /// The file that the plan would write, or that is there already.
    pub target: Option<PathBuf>,
}

/// Plans the repair of one log. It says the same of the same state; what it has seen is kept for
/// documents.
#[derive(Debug)]
pub struct LogRepairPlanner {
    /// What the person named, absolute.
    pub path: PathBuf,
    /// Where the repaired log goes.
    pub place: Place,
    /// Whether a turn that is open at the end of a sound log is closed.
    pub close_turn: bool,
    /// What the last plan was made of.
    pub seen: RefCell<Option<Seen>>,
}

/// A log that was examined, with what it would become.
struct Log {
    entry: Entry,
    read: Examined,
    /// The session that decides.
    checked: Checked,
    /// The file, by content.
    source: FileState,
}

/// A log as it would be.
struct Outcome {
    make: LogMake,
    repair: Repair,
    events: u64,
    header: Option<Header>,
    result: FileState,
    sha256: String,
    reasons: Vec<String>,
}

impl Planner for LogRepairPlanner {
    fn kind(&self) -> PlanKind {
        PlanKind::SessionLogRepair
    }

    fn begins(&self) -> bool {
        true
    }

    fn plan(&self, ground: &Ground<'_>) -> Result<Draft> {
        self.seen.replace(None);
        let stop = || ground.watch().interrupt.pending().is_some();
        let found = self.choose(&stop);
        ground.watch().interrupt.check()?;
        let Some(log) = found? else {
            let mut draft = self.draft(None)?;
            draft
                .notes
                .reasons
                .push("no session log lies there".to_owned());
            return Ok(draft);
        };
        let mut draft = self.draft(Some(&log))?;
        let keep = |searched: Vec<Found>, target: Option<PathBuf>| {
            self.seen.replace(Some(Seen {
                entry: log.entry.clone(),
                checked: log.checked.clone(),
                evidence: log.read.evidence.clone(),
                searched,
                target,
            }));
        };
        let mut searched = Vec::new();
        let search = || {
            let diagnosis = &log.checked.diagnosis;
            let what = (&log.entry, &log.source);
            evidence::search(ground.root(), what, diagnosis, ground.watch())
        };
        let outcome = match self.outcome(&log)? {
            Some(outcome) => {
                if log.checked.diagnosis.verdict == Verdict::TornTailRecoverable {
                    searched = search()?.0;
                    let closers = outcome.repair.closers.len() as u64;
                    let longer = evidence::longer(&searched, outcome.events - closers);
                    draft.gates.extend(longer.map(warned));
                }
                outcome
            }
            None if !log.checked.diagnosis.must_refuse => {
                draft.notes.reasons.push(self.why_nothing(&log));
                keep(searched, None);
                return Ok(draft);
            }
            None => {
                let (all, older) = search()?;
                searched = all;
                match older {
                    Some(older) => rebuilt(&log, older),
                    None => {
                        draft.gates.push(refused(&log));
                        draft.notes.instead = show(&log.entry.path);
                        keep(searched, None);
                        return Ok(draft);
                    }
                }
            }
        };
        let wanted = Wanted {
            entry: &log.entry,
            header: outcome.header.as_ref(),
            result: &outcome.result,
        };
        let data_dir = ground.root().map_or(ground.env().data_dir(), Root::path);
        match target::look(&self.place, wanted, data_dir) {
            target::Found::Done(path) => {
                let there = format!("{} is the repaired log already", path.display());
                draft.notes.reasons.push(there);
                draft
                    .body
                    .options
                    .insert("target".to_owned(), "done".to_owned());
                keep(searched, Some(path));
            }
            target::Found::Gate(place, gate) => {
                let excluded = excluded(ground, &log.entry.path)?;
                let target = match &place {
                    LogPlace::Folder { folder, rel } => Path::new(folder).join(rel),
                    LogPlace::InPlace => log.entry.path.clone(),
                };
                draft
                    .body
                    .actions
                    .push(action(&log, place, outcome, &mut draft.notes));
                draft.gates.push(gate);
                draft.gates.extend(excluded);
                keep(searched, Some(target));
            }
        }
        Ok(draft)
    }
}

impl LogRepairPlanner {
    /// The one log that the path leads to and that there is something to say of.
    fn choose(&self, stop: &dyn Fn() -> bool) -> Result<Option<Log>> {
        let looked = session_log::look(&self.path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => Error::new(
                ErrorKind::NotFound,
                format!("there is nothing at {}", self.path.display()),
            ),
            _ => Error::io("look at", &self.path, e),
        })?;
        let alone = looked.entries.len() == 1;
        let (mut first, mut needy) = (None, Vec::new());
        for entry in looked.entries {
            let read = match read::examine(&entry, stop) {
                Ok(read) => read,
                Err(e) if alone => return Err(e),
                // It is told by the check; another log may be the one that is meant.
                Err(_) => continue,
            };
            let Some(checked) = self.deciding(&read.sessions) else {
                continue;
            };
            let needs = self.has_work(checked);
            let log = (entry, checked.clone(), read);
            if needs {
                needy.push(log);
            } else if first.is_none() {
                first = Some(log);
            }
        }
        if needy.len() > 1 {
            let names: Vec<String> = needy
                .iter()
                .take(NAMED)
                .map(|(e, ..)| e.path.display().to_string())
                .collect();
            return Err(Error::new(
                ErrorKind::AmbiguousName,
                format!(
                    "{} logs below {} need a repair or can't have one: {}",
                    needy.len(),
                    self.path.display(),
                    names.join(", ")
                ),
            )
            .with_hint("Each is repaired by a plan of its own: name one of them."));
        }
        let Some((entry, checked, read)) = needy.pop().or(first) else {
            return Ok(None);
        };
        let path = &entry.path;
        if path.to_str().is_none() {
            return Err(Error::new(
                ErrorKind::Usage,
                format!(
                    "{} is no UTF-8: no command can be printed with it",
                    path.display()
                ),
            )
            .with_hint("Name it by a link with another name."));
        }
        let file = read::open(path)?;
        let (len, sha256, blake3) =
            session_log::digests(&file).map_err(|e| Error::io("read", path, e))?;
        if read.evidence.moved || sha256 != read.evidence.sha256 {
            return Err(Error::new(
                ErrorKind::LockBusy,
                format!(
                    "{} changed while it was read: it is being written",
                    path.display()
                ),
            )
            .with_hint("End the harness, or wait until the session rests."));
        }
        let source = FileState {
            name: name_of(path),
            len: Count(len),
            blake3,
        };
        Ok(Some(Log {
            entry,
            read,
            checked,
            source,
        }))
    }

    fn has_work(&self, checked: &Checked) -> bool {
        let d = &checked.diagnosis;
        d.must_refuse || d.wanted(self.close_turn).is_some()
    }

    /// Of several sessions the first that can be repaired, else the first that can't.
    fn deciding<'c>(&self, sessions: &'c [Checked]) -> Option<&'c Checked> {
        let wanted = |s: &&Checked| s.diagnosis.wanted(self.close_turn).is_some();
        let work = |s: &&Checked| self.has_work(s);
        let first = sessions.iter().find(wanted);
        first
            .or_else(|| sessions.iter().find(work))
            .or(sessions.first())
    }

    /// The plan without anything to do yet: what the fingerprint covers in any case.
    fn draft(&self, log: Option<&Log>) -> Result<Draft> {
        let mut body = Body::new(PlanKind::SessionLogRepair, ArchiveState::Apart);
        let mut option = |name: &str, value: &str| {
            body.options.insert(name.to_owned(), value.to_owned());
        };
        let path = log.map_or(&self.path, |l| &l.entry.path);
        option("log", &path.to_string_lossy());
        option("cass_version", env!("CARGO_PKG_VERSION"));
        match &self.place {
            Place::Folder(folder) => option("output", &folder.to_string_lossy()),
            Place::InPlace { harness_stopped } => {
                option("in_place", "true");
                if *harness_stopped {
                    option("harness_stopped", "true");
                }
            }
        }
        if self.close_turn {
            option("close_turn", "true");
        }
        let mut notes = Notes::default();
        if let Some(log) = log {
            body.inputs = inputs(log)?;
            let diagnosis = &log.checked.diagnosis;
            let verdict = diagnosis.verdict.name();
            notes
                .reasons
                .push(format!("{verdict}: {}", diagnosis.reason));
            notes.read_bytes = log.source.len.0.saturating_mul(3);
        }
        Ok(Draft {
            body,
            gates: Vec::new(),
            notes,
        })
    }

    /// What the log becomes by its own repair; `None` where it has none.
    fn outcome(&self, log: &Log) -> Result<Option<Outcome>> {
        let d = &log.checked.diagnosis;
        let Some(repair) = d.wanted(self.close_turn) else {
            return Ok(None);
        };
        let mut reasons = Vec::new();
        let (len, sha256, blake3) = match (&log.read.image, log.entry.form()) {
            (Some(image), _) => {
                let path = &log.entry.path;
                let repairs = store_repairs(&log.read.sessions, self.close_turn);
                let made = foreign::changed_image(image, path, &|conn| {
                    session_log::mend_store(conn, &repairs)
                })?;
                reasons.extend(self.left(&log.read.sessions));
                self.verify(&made, path, &repairs)?;
                digests(&made[..], path)?
            }
            (None, Some(form)) => {
                let file = read::open(&log.entry.path)?;
                let mut sink = Sink::default();
                mend(&file, form, repair, &mut sink)
                    .map_err(|e| Error::io("read", &log.entry.path, e))?;
                sink.end()
            }
            (None, None) => return Ok(None),
        };
        reasons.extend(told(repair));
        Ok(Some(Outcome {
            make: LogMake::Repair,
            repair: repair.clone(),
            events: repair.events,
            header: d.header.clone(),
            result: FileState {
                name: log.source.name.clone(),
                len: Count(len),
                blake3,
            },
            sha256,
            reasons,
        }))
    }

    /// Sessions of a store that stay as they are.
    fn left(&self, sessions: &[Checked]) -> Vec<String> {
        let stays = |s: &&Checked| s.diagnosis.must_refuse;
        let line = |s: &Checked| {
            let id = s.session_id.as_deref().unwrap_or("?");
            format!("{id} stays as it is: {}", s.diagnosis.verdict.name())
        };
        sessions.iter().filter(stays).map(line).collect()
    }

    /// Whether the sessions of a store that were repaired are sound.
    fn verify(&self, image: &[u8], path: &Path, repairs: &[(String, Repair)]) -> Result<()> {
        let conn = foreign::open_image(image, path)?;
        let sessions = session_log::sessions(&conn)
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

    fn why_nothing(&self, log: &Log) -> String {
        match log.checked.diagnosis.verdict {
            Verdict::InterruptedTurnRecoverable => {
                "an open turn alone is no damage: the harness closes it when it resumes the \
                 session; --close-turn plans it where no process has the session"
            }
            _ => "nothing in it has to be repaired",
        }
        .to_owned()
    }
}

/// The log, its siblings, and what belongs to a store.
fn inputs(log: &Log) -> Result<Vec<FileState>> {
    let mut out = vec![log.source.clone()];
    let path = &log.entry.path;
    let siblings = log.entry.siblings.iter();
    let beside = siblings.map(|s| path.with_file_name(&s.name));
    let wal = (log.entry.kind == Kind::Store).then(|| member_path(path, "-wal"));
    for path in beside.chain(wal) {
        out.extend(state(&path)?);
    }
    Ok(out)
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

fn rebuilt(log: &Log, older: Older) -> Outcome {
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
        events: older.diagnosis.valid_prefix_events.unwrap_or(0),
        header: older.diagnosis.header,
        result: FileState {
            name: log.source.name.clone(),
            len: Count(len),
            blake3,
        },
        sha256,
        reasons: vec![reason],
    }
}

fn action(log: &Log, place: LogPlace, outcome: Outcome, notes: &mut Notes) -> Action {
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
            rewritten: Count(repair.rows_rewritten),
            closers: repair.closers.iter().map(|c| c.kind.to_owned()).collect(),
            events: Count(outcome.events),
            result: outcome.result,
            result_sha256: outcome.sha256,
        }),
    }
}

/// A version that has more than what is left of the log.
fn warned(longer: &Found) -> GateResult {
    let capture = longer.capture.as_ref().map_or_else(String::new, |c| {
        format!("capture {} of {}", c.seq.0, c.source)
    });
    GateResult {
        gate: Gate::LogRepair,
        verdict: GateVerdict::Warn,
        reason: format!(
            "{capture} has {} events, more than are left of the log: `cass mirror get` hands it out",
            longer.events.unwrap_or(0)
        ),
    }
}

fn refused(log: &Log) -> GateResult {
    let d = &log.checked.diagnosis;
    GateResult {
        gate: Gate::LogRepair,
        verdict: GateVerdict::Block,
        reason: format!(
            "{}: {}; nothing is made up or chosen",
            d.verdict.name(),
            d.reason
        ),
    }
}

/// A log that a rule keeps out of the mirror is not captured, and without that it is not repaired.
fn excluded(ground: &Ground<'_>, path: &Path) -> Result<Option<GateResult>> {
    let env = ground.env();
    let config = Config::load(env.config_dir(), env.home())?;
    Ok(config.rule_for(path).map(|rule| GateResult {
        gate: Gate::LogTarget,
        verdict: GateVerdict::Block,
        reason: format!(
            "the rule {rule:?} keeps this log out of the mirror, and what is repaired is captured \
             first"
        ),
    }))
}

/// The command that shows what is wrong.
fn show(path: &Path) -> Option<Vec<String>> {
    let words = [
        "cass",
        "doctor",
        "session-log",
        "check",
        "--show-content",
        "--",
    ];
    let mut argv = words.map(str::to_owned).to_vec();
    argv.push(path.to_str()?.to_owned());
    Some(argv)
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// A file by its content; `None` where it is not there.
fn state(path: &Path) -> Result<Option<FileState>> {
    let file = match read::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let (len, _, blake3) = digests(&file, path)?;
    Ok(Some(FileState {
        name: name_of(path),
        len: Count(len),
        blake3,
    }))
}

fn digests<S: session_log::ReadAt + ?Sized>(
    source: &S,
    path: &Path,
) -> Result<(u64, String, String)> {
    session_log::digests(source).map_err(|e| Error::io("read", path, e))
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
