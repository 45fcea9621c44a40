//! What the checks share: the open data directory, the time left, the facts gathered so far.

use std::time::{Duration, Instant};

use crate::disk::{ArchiveShared, Root};
use crate::doctor::check::CheckRequest;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::model::check::CheckFacts;
use crate::model::finding::{CheckId, CheckResult, SkipReason, UnknownReason};
use crate::model::interrupt::{Interrupt, Until};
use crate::model::source::SourceKey;

/// How long a checkpoint is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the layout says about the archive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum ArchivePlace {
    /// Not looked at yet, or nothing to look at.
    #[default]
    None,
    /// `CURRENT` names this generation.
    Generation(String),
    /// One existed and can't be reached.
    Lost,
}

/// Sources whose newest archived capture is not in the mirror.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CapturesMissing {
    /// It was promised, and an index reads the source again.
    pub(super) there: Few,
    /// It was promised, and no index reads the source.
    pub(super) gone: Few,
    /// No commit here read it: a repair took its rows over from another data directory.
    pub(super) elsewhere: Few,
}

/// How many sources, and the first of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Few {
    pub(super) count: u64,
    pub(super) first: Option<SourceKey>,
}

impl Few {
    pub(super) fn add(&mut self, key: SourceKey) {
        self.count += 1;
        self.first.get_or_insert(key);
    }
}

/// The state of one check run.
pub(super) struct Context {
    pub(super) env: Env,
    pub(super) request: CheckRequest,
    pub(super) interrupt: Interrupt,
    pub(super) deadline: Option<Instant>,
    /// The data directory, when there is one.
    pub(super) root: Option<Root>,
    pub(super) facts: CheckFacts,
    pub(super) place: ArchivePlace,
    /// Whether rows can be read at all.
    pub(super) archive_readable: bool,
    /// Whether the archive was found damaged by this run.
    pub(super) archive_damaged: bool,
    /// Whether this run verified every row.
    pub(super) archive_verified: bool,
    /// Whether the schema text was found changed.
    pub(super) schema_reported: bool,
    /// Whether this program or this user can't read it, which says nothing about its state.
    pub(super) archive_unreadable: bool,
    /// Whether the archive was looked at, so that "not readable" means that it is damaged or gone.
    pub(super) archive_looked: bool,
    /// Whether the end of the coverage ledger names the archive's last commits.
    pub(super) commits_agree: bool,
    /// Whether the archive lacks commits that the coverage ledger promises.
    pub(super) commits_lost: bool,
    /// Sources whose newest archived capture is not in the mirror.
    pub(super) captures_missing: CapturesMissing,
    /// Whether there is a mirror, and whether this run found it damaged.
    pub(super) mirror_present: bool,
    pub(super) mirror_damaged: bool,
    /// Whether a source that is still there can bring back what the mirror lost.
    pub(super) captures_heal: bool,
    /// Whether this run verified every byte of the mirror.
    pub(super) mirror_verified: bool,
    /// Whether the mirror was looked at to the end, as far as was asked for.
    pub(super) mirror_looked: bool,
    /// Whether the sources were looked at.
    pub(super) sources_looked: bool,
    /// Held from the first check that reads archive or mirror on, so that no checkpoint comes between
    /// them and none of their readers has to wait.
    pub(super) archive_lock: Option<ArchiveShared>,
    /// Whether a checkpoint took longer than [`PATIENCE`].
    pub(super) archive_busy: bool,
    /// Why nothing here may be judged: no further check runs.
    pub(super) refusal: Option<Error>,
    /// Why a part may not be judged: the other checks still run.
    pub(super) late_refusal: Option<Error>,
}

impl Context {
    pub(super) fn open(
        env: &Env,
        request: &CheckRequest,
        interrupt: &Interrupt,
        deadline: Option<Instant>,
    ) -> Result<Context> {
        Ok(Context {
            env: env.clone(),
            request: request.clone(),
            interrupt: interrupt.clone(),
            deadline,
            root: Root::open(env.data_dir())?,
            facts: CheckFacts::unread(),
            place: ArchivePlace::None,
            archive_readable: false,
            archive_damaged: false,
            archive_verified: false,
            schema_reported: false,
            archive_unreadable: false,
            archive_looked: false,
            commits_agree: false,
            commits_lost: false,
            captures_missing: CapturesMissing::default(),
            captures_heal: false,
            mirror_present: false,
            mirror_damaged: false,
            mirror_verified: false,
            mirror_looked: false,
            sources_looked: false,
            archive_lock: None,
            archive_busy: false,
            refusal: None,
            late_refusal: None,
        })
    }

    /// Whether other checks read what this one finds out, so that it runs even when nobody asked
    /// for its own result.
    pub(super) fn feeds_others(&self, ids: &[CheckId], wanted: &[CheckId]) -> bool {
        let coverage = wanted
            .iter()
            .any(|w| matches!(w, CheckId::CoveragePromises | CheckId::CoverageSoleCopy));
        ids.iter().any(|id| match id {
            CheckId::LayoutCurrent | CheckId::ArchiveOpen | CheckId::LockState => true,
            CheckId::MirrorLedgers | CheckId::SourcesInventory | CheckId::SourcesParse => coverage,
            _ => false,
        })
    }

    /// Waits, once, for a checkpoint to end; whether archive and mirror can be read now. What else is
    /// wrong with them is left to the checks, which say it better.
    pub(super) fn hold_archive(&mut self) -> bool {
        let Some(root) = self.root.as_ref().filter(|_| self.archive_lock.is_none()) else {
            return true;
        };
        let begun = Instant::now();
        while !self.archive_busy {
            match ArchiveShared::acquire(root, Duration::ZERO) {
                Ok(lock) => {
                    self.archive_lock = Some(lock);
                    return true;
                }
                Err(e) if e.kind() != ErrorKind::LockBusy => return true,
                Err(_) if begun.elapsed() >= PATIENCE || self.should_stop() => {
                    self.archive_busy = true;
                }
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        false
    }

    /// Why work that was told to stop has no answer.
    pub(super) fn stop_reason(&self) -> UnknownReason {
        if self.interrupt.pending().is_some() {
            UnknownReason::Interrupted
        } else {
            UnknownReason::Budget
        }
    }

    pub(super) fn out_of_time(&self) -> bool {
        self.deadline.is_some_and(|d| Instant::now() >= d)
    }

    /// How long work may go on.
    pub(super) fn until(&self) -> Until {
        Until::new(&self.interrupt, self.deadline)
    }

    /// Whether long work should end now.
    pub(super) fn should_stop(&self) -> bool {
        self.out_of_time() || self.interrupt.pending().is_some()
    }

    /// The same result, "skipped", for several checks.
    pub(super) fn skip(ids: &[CheckId], reason: SkipReason, last: Option<i64>) -> Vec<CheckResult> {
        ids.iter()
            .map(|id| CheckResult::skipped(*id, reason, last))
            .collect()
    }
}

/// No answer: a writer folds its log in, and takes long.
pub(super) fn busy(ids: &[CheckId]) -> Vec<CheckResult> {
    ids.iter()
        .map(|id| CheckResult::unknown(*id, UnknownReason::LockBusy, Vec::new()))
        .collect()
}
