//! `doctor archive-scan`: every source and session, who holds it, and what would be lost without
//! whom. Looks only; what it holds does not grow with the number of sources.
//!
//! The lists come in order of a key and are kept one page at a time, while everything is counted.

mod authority;
mod captures;
mod kept;
pub(in crate::doctor) mod live;
mod named;
pub mod page;
mod promises;
mod risks;
mod sessions;
mod sources;
mod state;
mod view;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};

use crate::disk::Root;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::model::finding::Severity;
use crate::model::interrupt::Interrupt;
use crate::model::provider::Provider;
use crate::model::scan::{
    ConfigRisk, Cursor, HolderCode, HolderWarning, ListName, MissingSession, ScanPart, SessionItem,
    SourceItem,
};
use crate::model::verdict::SourceState;
use crate::sources::config::Config;
use crate::sources::roots::ProviderRoot;
use crate::store::layout;

pub use authority::Candidate;
pub use named::History;
pub use page::Page;
pub use sessions::Totals;
pub use sources::ProviderScan;
pub use state::{ArchiveSeen, MirrorSeen};

use captures::Captures;
use named::Named;
use promises::Promises;
use risks::Risks;
use sessions::{Meeting, Sessions};
use sources::{Inventory, Looking};
use view::View;

/// Which sources are listed, by their state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateFilter {
    /// Those in this state.
    State(SourceState),
    /// Those that were not looked for.
    OutOfSight,
}

impl StateFilter {
    fn takes(self, state: Option<SourceState>) -> bool {
        match self {
            StateFilter::State(wanted) => state == Some(wanted),
            StateFilter::OutOfSight => state.is_none(),
        }
    }
}

/// What to scan.
#[derive(Debug, Clone, Default)]
pub struct ScanRequest {
    /// This harness alone.
    pub agent: Option<Provider>,
    /// Sources in this state alone; totals are of all.
    pub state: Option<StateFilter>,
    /// Rows of each list.
    pub limit: usize,
    /// Where one list goes on; the others are then left out, totals apart.
    pub cursor: Option<Cursor>,
    /// Read every captured byte.
    pub deep: bool,
    /// How long it may take; no limit when `None`.
    pub budget: Option<Duration>,
}

impl ScanRequest {
    fn page<T>(&self, list: ListName) -> Page<T> {
        match &self.cursor {
            None => Page::new(None, self.limit),
            Some(c) if c.list == list => Page::new(Some(c.after.clone()), self.limit),
            Some(_) => Page::new(None, 0),
        }
    }
}

/// Something that kept a part from being looked at, or that is wrong with a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What it is, kebab-case and stable.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// Whether it means that something could not be looked at.
    pub blind: bool,
    /// One sentence.
    pub message: String,
}

/// What a scan found.
#[derive(Debug)]
pub struct Scanned {
    /// Whether anything was ever captured or indexed here.
    pub initialized: bool,
    /// The archive.
    pub archive: ArchiveSeen,
    /// Its generation, where it opens.
    pub generation: Option<String>,
    /// The mirror.
    pub mirror: MirrorSeen,
    /// Whether every captured byte was read.
    pub deep: bool,
    /// What is wrong with a whole.
    pub problems: Vec<Problem>,
    /// The harnesses, in the order of their id.
    pub providers: Vec<ProviderScan>,
    /// One page of the sources.
    pub sources: Page<SourceItem>,
    /// Sources with a file that is there, and the bytes of them.
    pub visible: (u64, u64),
    /// Captured sources.
    pub captured: u64,
    /// All captures of them.
    pub captures: u64,
    /// Captured sources whose newest capture can't be read.
    pub captures_unreadable: u64,
    /// Sources that the archive read.
    pub archived: u64,
    /// Of these, the ones without a capture.
    pub archived_not_captured: u64,
    /// Captured session sources that the archive never read.
    pub captured_not_archived: u64,
    /// Sources of other machines.
    pub remote: u64,
    /// Totals over all sessions.
    pub totals: Totals,
    /// One page of the sessions.
    pub sessions: Page<SessionItem>,
    /// One page of the sessions whose holders are worth a word.
    pub warnings: Page<HolderWarning>,
    /// How many there are of each.
    pub codes: BTreeMap<(HolderCode, Severity), u64>,
    /// One page of the sessions that a history names and nothing holds.
    pub missing: Page<MissingSession>,
    /// Names beyond those that could be kept, at most.
    pub missing_over: u64,
    /// The histories that were read.
    pub history: History,
    /// What the settings hide.
    pub risks: Vec<ConfigRisk>,
    /// Backups and sealed generations.
    kept: kept::Kept,
    /// What would be believed, the best first.
    pub ladder: Vec<Candidate>,
    /// Why it ended early; then everything is what was found so far.
    pub stopped: Option<Error>,
    /// The parts that did not come to their end, in the order in which they run.
    pub unfinished: Vec<ScanPart>,
}

/// How often the waiting thread looks for a signal.
const TICK: Duration = Duration::from_millis(20);
/// A worker that sees the end itself hands over what it has within this time.
const GRACE: Duration = Duration::from_millis(100);

/// Scans, in a worker: a file system that hangs costs what was found, never the document.
///
/// # Errors
/// `foreign-archive`, `schema-too-new`, `mirror-too-new`: nothing here may be judged. A signal, a
/// budget that ran out or a failed read is no error here: [`Scanned::stopped`] says so beside what
/// was found.
pub fn scan(env: &Env, request: &ScanRequest, interrupt: &Interrupt) -> Result<Scanned> {
    let deadline = request.budget.map(|b| Instant::now() + b);
    let until = interrupt.until(deadline);
    let (send, receive) = crossbeam_channel::bounded(1);
    let (own_env, own_request, own_until) = (env.clone(), request.clone(), until.clone());
    std::thread::Builder::new()
        .name("scan".to_owned())
        .spawn(move || {
            let _ = send.send(work(&own_env, &own_request, &own_until));
        })
        .map_err(|e| {
            Error::new(ErrorKind::Internal, "the scan could not start a thread").with_source(e)
        })?;
    collect(&receive, &until).unwrap_or_else(|stopped| Ok(Scanned::nothing(request, stopped)))
}

/// What the worker found, or why nothing of it is known.
fn collect(
    receive: &Receiver<Result<Scanned>>,
    until: &Interrupt,
) -> std::result::Result<Result<Scanned>, Error> {
    let mut ended: Option<(Instant, Error)> = None;
    loop {
        match receive.recv_timeout(TICK) {
            Ok(found) => return Ok(found),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::new(ErrorKind::Internal, "the scan ended by a bug"));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        match (ended.take(), until.check()) {
            (Some((since, stopped)), _) if since.elapsed() >= GRACE => return Err(stopped),
            (None, Err(stopped)) => ended = Some((Instant::now(), stopped)),
            (waiting, _) => ended = waiting,
        }
    }
}

impl Scanned {
    /// Nothing was found before the end.
    fn nothing(request: &ScanRequest, stopped: Error) -> Scanned {
        let why = stopped.message().to_owned();
        Scanned {
            initialized: true,
            archive: ArchiveSeen::Unknown(why.clone()),
            generation: None,
            mirror: MirrorSeen::Unknown(why),
            deep: request.deep,
            problems: Vec::new(),
            providers: Vec::new(),
            sources: request.page(ListName::Sources),
            visible: (0, 0),
            captured: 0,
            captures: 0,
            captures_unreadable: 0,
            archived: 0,
            archived_not_captured: 0,
            captured_not_archived: 0,
            remote: 0,
            totals: Totals::default(),
            sessions: request.page(ListName::Sessions),
            warnings: request.page(ListName::Warnings),
            codes: BTreeMap::new(),
            missing: request.page(ListName::Missing),
            missing_over: 0,
            history: History::default(),
            risks: Vec::new(),
            ladder: Vec::new(),
            kept: kept::Kept::default(),
            stopped: Some(stopped),
            unfinished: ScanPart::ALL.to_vec(),
        }
    }
}

fn work(env: &Env, request: &ScanRequest, interrupt: &Interrupt) -> Result<Scanned> {
    let scanned = attempt(env, request, interrupt, None)?;
    // An archive that opens and can't be read to its end is damaged, and that is an answer: what the
    // others hold is counted without it.
    match scanned.stopped.as_ref() {
        Some(e) if e.kind() == ErrorKind::ArchiveCorrupt => {
            let why = e.message().to_owned();
            attempt(env, request, interrupt, Some(why))
        }
        _ => Ok(scanned),
    }
}

fn attempt(
    env: &Env,
    request: &ScanRequest,
    interrupt: &Interrupt,
    damaged: Option<String>,
) -> Result<Scanned> {
    let root = Root::open(env.data_dir())?;
    // Before the archive is opened: a line is written after its commit, so that what is promised
    // here is in the archive that is seen, however much an index that runs adds meanwhile.
    let promised = match &root {
        Some(root) => root.file_len(layout::COVERAGE).unwrap_or(None).unwrap_or(0),
        None => 0,
    };
    let (archive, archive_seen) = match damaged {
        Some(why) => (None, ArchiveSeen::Lost(why)),
        None => state::archive(root.as_ref())?,
    };
    let (mirror, mirror_seen) = state::mirror(root.as_ref())?;
    let mut problems = Vec::new();
    let config = Config::load(env.config_dir(), env.home())
        .map_err(|e| problems.push(problem("config-invalid", Severity::Error, true, &e)))
        .ok();
    let mut view = View::new(env, config, request.agent);
    let mut named = Named::default();
    let mut risks = Risks::default();
    let mut inventory = Inventory::new(request.page(ListName::Sources), request.state);
    let mut sessions = Sessions::new(
        request.page(ListName::Sessions),
        request.page(ListName::Warnings),
    );
    let mut history = History::default();
    let mut captures = mirror
        .as_ref()
        .map(|mirror| Captures::new(mirror, request.deep, interrupt));
    let mut done = Vec::new();
    let mut run = || -> Result<()> {
        interrupt.check()?;
        history = named::read_all(
            &view,
            mirror.as_ref(),
            archive.as_ref(),
            &mut named,
            interrupt,
        )?;
        done.push(ScanPart::Histories);
        let mut looking = Looking {
            view: &mut view,
            mirror: mirror.as_ref(),
            archive: archive.as_ref(),
            archive_known: archive.is_some() || archive_seen == ArchiveSeen::Never,
            captures: captures.as_mut(),
            inventory: &mut inventory,
            sessions: &mut sessions,
            named: &mut named,
            risks: &mut risks,
            interrupt,
        };
        looking.live()?;
        done.push(ScanPart::LiveSources);
        looking.known()?;
        done.push(ScanPart::KnownSources);
        let roots: Vec<&ProviderRoot> = view.roots.iter().map(|(root, ..)| root).collect();
        if !view.blind {
            risks.places(env, &view.config, &roots);
        }
        done.push(ScanPart::Settings);
        let Some(root) = &root else {
            return Ok(());
        };
        let mut promises = Promises::new(root, promised, archive.is_none(), interrupt)?;
        if promises.damaged > 0 {
            problems.push(Problem {
                code: "ledger-damaged",
                severity: Severity::Error,
                blind: false,
                message: format!(
                    "{} lines of the coverage ledger are damaged",
                    promises.damaged
                ),
            });
        }
        Meeting {
            view: &view,
            archive: archive.as_ref(),
            archive_lost: matches!(archive_seen, ArchiveSeen::Lost(_)),
            kept: kept::KeptArchives::open(Some(root)),
            mirror: mirror.as_ref(),
            mirror_unknown: matches!(mirror_seen, MirrorSeen::Unknown(_)),
            captures: captures.as_mut(),
            sessions: &mut sessions,
            interrupt,
        }
        .run(&mut promises)
    };
    let stopped = run().err();
    let unfinished = match &stopped {
        None => Vec::new(),
        Some(_) => {
            let open = |part: &&ScanPart| !done.contains(part);
            ScanPart::ALL.iter().filter(open).copied().collect()
        }
    };
    let mut missing = request.page(ListName::Missing);
    let missing_over = named.over;
    named.into_page(&mut missing);
    problems.extend(about(&archive_seen, &mirror_seen));
    if inventory.captures_unreadable > 0 {
        problems.push(Problem {
            code: "captures-unreadable",
            severity: Severity::Error,
            blind: false,
            message: format!(
                "the newest capture of {} of {} sources can't be read from the mirror",
                inventory.captures_unreadable, inventory.captured
            ),
        });
    }
    let mut scanned = Scanned {
        initialized: archive_seen != ArchiveSeen::Never || mirror_seen != MirrorSeen::Never,
        generation: archive.as_ref().map(|a| a.generation().id.to_string()),
        archive: archive_seen,
        mirror: mirror_seen,
        deep: request.deep,
        problems,
        providers: inventory.providers.into_values().collect(),
        sources: inventory.page,
        visible: inventory.visible,
        captured: inventory.captured,
        captures: inventory.captures,
        captures_unreadable: inventory.captures_unreadable,
        archived: inventory.archived,
        archived_not_captured: inventory.archived_not_captured,
        captured_not_archived: inventory.captured_not_archived,
        remote: inventory.remote,
        totals: sessions.totals,
        sessions: sessions.all,
        warnings: sessions.warnings,
        codes: sessions.codes,
        missing,
        missing_over,
        history,
        risks: risks.into_list(),
        kept: kept::kept(root.as_ref()),
        ladder: Vec::new(),
        stopped,
        unfinished,
    };
    scanned.ladder = authority::ladder(&scanned);
    Ok(scanned)
}

fn problem(code: &'static str, severity: Severity, blind: bool, e: &Error) -> Problem {
    Problem {
        code,
        severity,
        blind,
        message: e.message().to_owned(),
    }
}

fn about(archive: &ArchiveSeen, mirror: &MirrorSeen) -> Vec<Problem> {
    let mut list = Vec::new();
    let mut put = |code, severity, blind, message: &str| {
        list.push(Problem {
            code,
            severity,
            blind,
            message: message.to_owned(),
        });
    };
    match archive {
        ArchiveSeen::Never | ArchiveSeen::Open { disagrees: None } => {}
        ArchiveSeen::Open {
            disagrees: Some(why),
        } => put("archive-disagrees", Severity::Error, false, why),
        ArchiveSeen::Lost(why) => put("archive-lost", Severity::Error, false, why),
        ArchiveSeen::Unknown(why) => put("archive-not-looked-at", Severity::Warn, true, why),
    }
    match mirror {
        MirrorSeen::Never | MirrorSeen::Open => {}
        MirrorSeen::Gone => put(
            "mirror-gone",
            Severity::Error,
            false,
            "the mirror that the archive was read from is gone",
        ),
        MirrorSeen::Unknown(why) => put("mirror-not-looked-at", Severity::Warn, true, why),
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::interrupt::Signal;

    /// A worker that hangs in a read never answers: the end is not its to give.
    #[test]
    fn a_worker_that_hangs_costs_what_was_found_and_not_the_document() {
        let (send, receive) = crossbeam_channel::bounded::<Result<Scanned>>(1);
        let late = Interrupt::new().until(Some(Instant::now()));
        let stopped = collect(&receive, &late).unwrap_err();
        assert_eq!(stopped.kind(), ErrorKind::BudgetExhausted);
        let told = Interrupt::new();
        told.raise(Signal::Term);
        let stopped = collect(&receive, &told).unwrap_err();
        assert_eq!(stopped.kind(), ErrorKind::Terminated);
        let nothing = Scanned::nothing(&ScanRequest::default(), stopped);
        assert_eq!(nothing.unfinished, ScanPart::ALL);
        drop(send);
        let stopped = collect(&receive, &Interrupt::new()).unwrap_err();
        assert_eq!(stopped.kind(), ErrorKind::Internal);
    }
}
