//! `doctor session-log repair`

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use crate::disk::Root;
use crate::error::Result;
use crate::model::plan::{
    ArchiveState, Body, Draft, Gate, GateResult, GateVerdict, LogPlace, Notes, PlanKind,
};
use crate::plan::{Ground, Planner};
use crate::session_log::{Checked, Entry, Evidence, Verdict};
use crate::sources::config::Config;

use super::evidence::{self, Found};
use super::log::{Log, choose, inputs};
use super::outcome::{After, action, rebuilt, repaired};
use super::target::{self, Place, Wanted};

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
    /// What the log becomes; `None` where nothing is made of it.
    pub after: Option<After>,
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
        let found = choose(&self.path, self.close_turn, &stop);
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
        let keep = |searched: Vec<Found>, made: Option<(After, PathBuf)>| {
            let (after, target) = made.unzip();
            self.seen.replace(Some(Seen {
                entry: log.entry.clone(),
                checked: log.checked.clone(),
                evidence: log.read.evidence.clone(),
                searched,
                after,
                target,
            }));
        };
        let mut searched = Vec::new();
        let search = || {
            let diagnosis = &log.checked.diagnosis;
            let what = (&log.entry, &log.source);
            evidence::search(ground.root(), what, diagnosis, ground.watch())
        };
        let outcome = match repaired(&log, self.close_turn)? {
            Some(outcome) => {
                if log.checked.diagnosis.verdict == Verdict::TornTailRecoverable {
                    searched = search()?.0;
                    let closers = outcome.repair.closers.len() as u64;
                    let longer =
                        evidence::longer(&searched, outcome.after.events.saturating_sub(closers));
                    draft.gates.extend(longer.map(warned));
                }
                outcome
            }
            None if !log.checked.diagnosis.must_refuse => {
                draft.notes.reasons.push(why_nothing(&log));
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
        let after = outcome.after;
        let data_dir = ground.root().map_or(ground.env().data_dir(), Root::path);
        match target::look(&self.place, wanted, data_dir) {
            target::Answer::Done(path) => {
                let there = format!("{} is the repaired log already", path.display());
                draft.notes.reasons.push(there);
                draft
                    .body
                    .options
                    .insert("target".to_owned(), "done".to_owned());
                keep(searched, Some((after, path)));
            }
            target::Answer::Gate(place, gate) => {
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
                keep(searched, Some((after, target)));
            }
        }
        Ok(draft)
    }
}

impl LogRepairPlanner {
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
}

fn why_nothing(log: &Log) -> String {
    match log.checked.diagnosis.verdict {
        Verdict::InterruptedTurnRecoverable => {
            "an open turn alone is no damage: the harness closes it when it resumes the \
             session; --close-turn plans it where no process has the session"
        }
        _ => "nothing in it has to be repaired",
    }
    .to_owned()
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
