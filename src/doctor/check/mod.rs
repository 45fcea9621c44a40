//! `doctor check`: what is safe, what is not, and how that is known.
//!
//! The checks run in one worker, cheap ones first, and hand over each result as it comes. The
//! caller's thread waits no longer than the budget or a signal allows, so a file system that
//! hangs costs the answers that were not yet in, never the document.

mod archive;
mod backup;
mod config;
mod context;
mod coverage;
mod derived;
mod findings;
mod layout;
mod ledger;
mod lock;
mod mirror;
mod permissions;
mod reading;
mod repair;
mod sources;
mod storage;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};

use crate::env::Env;
use crate::error::Error;
use crate::model::check::CheckFacts;
use crate::model::finding::{CheckId, CheckResult, SkipReason, UnknownReason};
use crate::model::interrupt::{Interrupt, Signal};

use context::{Context, busy};

/// How often the waiting thread looks for a signal.
const TICK: Duration = Duration::from_millis(20);

/// What to check.
#[derive(Debug, Clone, Default)]
pub struct CheckRequest {
    /// Only these; all when empty.
    pub only: Vec<CheckId>,
    /// All but these.
    pub skip: Vec<CheckId>,
    /// Read everything.
    pub deep: bool,
    /// How long it may take; no limit when `None`.
    pub budget: Option<Duration>,
}

impl CheckRequest {
    /// The checks that are asked for, in the order of the list.
    #[must_use]
    pub fn checks(&self) -> Vec<CheckId> {
        CheckId::ALL
            .iter()
            .copied()
            .filter(|id| self.wants(*id))
            .collect()
    }

    fn wants(&self, id: CheckId) -> bool {
        (self.only.is_empty() || self.only.contains(&id)) && !self.skip.contains(&id)
    }
}

/// What a check run found.
#[derive(Debug)]
pub struct Checked {
    /// One result a check that ran or was skipped for a reason of its own.
    pub results: Vec<CheckResult>,
    /// What else is known.
    pub facts: CheckFacts,
    /// Whether the budget ran out.
    pub timed_out: bool,
    /// The signal that ended it early.
    pub interrupted: Option<Signal>,
    /// Why this program must not judge the data directory: a foreign archive, a newer format.
    pub refusal: Option<Error>,
    /// How long it took.
    pub elapsed: Duration,
}

enum Message {
    Results(Vec<CheckResult>, Box<CheckFacts>),
    Refused(Error),
}

type Run = fn(&mut Context) -> Vec<CheckResult>;

/// The checks in the order in which they run, by the ids each function answers for.
const CHECKS: &[(&[CheckId], Run)] = &[
    (&[CheckId::LayoutCurrent], layout::current),
    (&[CheckId::LockState], lock::state),
    (&[CheckId::ConfigParse], config::parse),
    (&[CheckId::SecurityPermissions], permissions::modes),
    (&[CheckId::StorageLocation], storage::location),
    (&[CheckId::RepairMarker], repair::marker),
    (&[CheckId::RepairInterrupted], repair::interrupted),
    (&[CheckId::RepairOrphans], repair::orphans),
    (
        &[
            CheckId::ArchiveOpen,
            CheckId::ArchiveSchema,
            CheckId::ArchiveCommits,
        ],
        archive::open,
    ),
    (
        &[CheckId::MirrorLedgers, CheckId::MirrorObjects],
        mirror::verify,
    ),
    (
        &[
            CheckId::SourcesInventory,
            CheckId::SourcesFreshness,
            CheckId::SourcesRetention,
        ],
        sources::inventory,
    ),
    (
        &[CheckId::SourcesParse, CheckId::SourcesLogHealth],
        reading::parse,
    ),
    (&[CheckId::StoragePressure], storage::pressure),
    (
        &[CheckId::ArchiveIntegrity, CheckId::ArchiveRows],
        archive::deep,
    ),
    (
        &[CheckId::CoveragePromises, CheckId::CoverageSoleCopy],
        coverage::holders,
    ),
    (&[CheckId::DerivedLexical], derived::served),
    (&[CheckId::BackupFreshness], backup::freshness),
    (
        &[CheckId::RemoteSync, CheckId::DerivedSemantic],
        not_configured,
    ),
];

/// Checks that a checkpoint keeps from reading.
const READS_ARCHIVE_OR_MIRROR: &[CheckId] = &[
    CheckId::ArchiveOpen,
    CheckId::MirrorLedgers,
    CheckId::SourcesInventory,
    CheckId::SourcesParse,
    CheckId::ArchiveIntegrity,
];

/// Parts that this version does not set up have nothing to look at.
fn not_configured(_: &mut Context) -> Vec<CheckResult> {
    [CheckId::RemoteSync, CheckId::DerivedSemantic]
        .into_iter()
        .map(|id| CheckResult::skipped(id, SkipReason::NotConfigured, None))
        .collect()
}

/// Runs the checks. Always answers: damage is a finding, and what could not be looked at is
/// listed as such.
#[must_use]
pub fn check(env: &Env, request: &CheckRequest, interrupt: &Interrupt) -> Checked {
    let begun = Instant::now();
    let deadline = request.budget.map(|b| begun + b);
    let (send, receive) = crossbeam_channel::unbounded();
    let worker = {
        let (env, request, interrupt) = (env.clone(), request.clone(), interrupt.clone());
        std::thread::Builder::new()
            .name("check".to_owned())
            .spawn(move || work(&env, &request, &interrupt, deadline, &send))
    };
    let mut out = Checked {
        results: Vec::new(),
        facts: CheckFacts::unread(),
        timed_out: false,
        interrupted: None,
        refusal: None,
        elapsed: Duration::ZERO,
    };
    match worker {
        Ok(_) => collect(&receive, deadline, interrupt, &mut out),
        Err(e) => {
            out.refusal = Some(
                Error::new(
                    crate::error::ErrorKind::Internal,
                    "the check could not start a thread",
                )
                .with_source(e),
            );
        }
    }
    let unanswered = request
        .checks()
        .iter()
        .any(|id| out.results.iter().all(|r| r.id != *id));
    if unanswered && out.refusal.is_none() {
        out.interrupted = out.interrupted.or(interrupt.pending());
        out.timed_out |= out.interrupted.is_none() && deadline.is_some_and(|d| Instant::now() >= d);
    }
    // The worker can't say that a check found time for part of its work only.
    out.timed_out |= out.results.iter().any(|r| {
        matches!(
            r.outcome,
            crate::model::finding::CheckOutcome::Unknown {
                reason: UnknownReason::Budget
            }
        )
    });
    out.elapsed = begun.elapsed();
    out
}

fn collect(
    receive: &Receiver<Message>,
    deadline: Option<Instant>,
    interrupt: &Interrupt,
    out: &mut Checked,
) {
    loop {
        match receive.recv_timeout(TICK) {
            Ok(Message::Results(results, facts)) => {
                out.results.extend(results);
                out.facts = *facts;
            }
            Ok(Message::Refused(error)) => out.refusal = Some(error),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Some(signal) = interrupt.pending() {
            out.interrupted = Some(signal);
        }
        // A worker that sees the deadline itself hands over what it has within a moment.
        let late = deadline.is_some_and(|d| Instant::now() > d + Duration::from_millis(100));
        out.timed_out |= late;
        if late || (out.interrupted.is_some() && receive.is_empty()) {
            return;
        }
    }
}

fn work(
    env: &Env,
    request: &CheckRequest,
    interrupt: &Interrupt,
    deadline: Option<Instant>,
    send: &Sender<Message>,
) {
    let mut context = match Context::open(env, request, interrupt, deadline) {
        Ok(context) => context,
        Err(e) => {
            let _ = send.send(Message::Refused(e));
            return;
        }
    };
    for (ids, run) in CHECKS {
        if !ids.iter().any(|id| request.wants(*id)) && !context.feeds_others(ids, &request.checks())
        {
            continue;
        }
        if context.out_of_time() || interrupt.pending().is_some() {
            continue;
        }
        let begun = Instant::now();
        let reads = ids.iter().any(|id| READS_ARCHIVE_OR_MIRROR.contains(id));
        if reads && !context.hold_archive() {
            let facts = Box::new(context.facts.clone());
            let ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            let results = busy(ids).into_iter().filter(|r| request.wants(r.id));
            let results = results.map(|r| r.took(ms)).collect();
            if send.send(Message::Results(results, facts)).is_err() {
                return;
            }
            continue;
        }
        let results = catch_unwind(AssertUnwindSafe(|| run(&mut context))).unwrap_or_else(|_| {
            // One broken check never stops the others.
            ids.iter()
                .map(|id| CheckResult::unknown(*id, UnknownReason::Unreadable, Vec::new()))
                .collect()
        });
        let ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let results = results
            .into_iter()
            .filter(|r| request.wants(r.id))
            .map(|r| r.took(ms))
            .collect();
        let facts = Box::new(context.facts.clone());
        if send.send(Message::Results(results, facts)).is_err() {
            return;
        }
        if let Some(refusal) = context.refusal.take() {
            let _ = send.send(Message::Refused(refusal));
            return;
        }
    }
    if let Some(refusal) = context.late_refusal.take() {
        let _ = send.send(Message::Refused(refusal));
    }
}
