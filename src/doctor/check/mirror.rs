//! `mirror.*`: ledgers and objects.

use super::context::{Context, busy};
use crate::error::ErrorKind;
use crate::model::finding::{CheckId, CheckResult, Finding, Severity, SkipReason, UnknownReason};
use crate::model::next::{Next, REPAIR};
use crate::model::verdict::MirrorState;
use crate::store::layout;
use crate::store::mirror::{MirrorProblem, MirrorReader, ProblemKind};

const IDS: [CheckId; 2] = [CheckId::MirrorLedgers, CheckId::MirrorObjects];
/// Findings kept in full; more of the same are counted.
const KEPT: usize = 1000;

pub(super) fn verify(cx: &mut Context) -> Vec<CheckResult> {
    let Some(root) = &cx.root else {
        cx.mirror_looked = true;
        return Context::skip(&IDS, SkipReason::NoMirror, None);
    };
    let reader = match MirrorReader::open(root) {
        Ok(Some(reader)) => reader,
        Ok(None) => {
            cx.facts.mirror.status = MirrorState::Absent;
            cx.mirror_looked = true;
            return Context::skip(&IDS, SkipReason::NoMirror, None);
        }
        Err(e) => {
            cx.facts.mirror.status = MirrorState::Unknown;
            cx.mirror_present = true;
            if e.kind() == ErrorKind::LockBusy {
                return busy(&IDS);
            }
            let message = e.message().to_owned();
            let code = if e.kind() == ErrorKind::MirrorTooNew {
                "mirror-too-new"
            } else {
                "unreadable"
            };
            let subject = match e.kind() {
                ErrorKind::MirrorTooNew | ErrorKind::UnsafeTarget => layout::MIRROR_FORMAT,
                _ => layout::MIRROR,
            };
            let f = Finding::new(IDS[0], code, Severity::Error, subject, message);
            if e.kind() == ErrorKind::MirrorTooNew {
                cx.refusal = Some(e);
            }
            return vec![
                CheckResult::unknown(IDS[0], UnknownReason::Unreadable, vec![f]),
                CheckResult::unknown(IDS[1], UnknownReason::Unreadable, Vec::new()),
            ];
        }
    };
    cx.mirror_present = true;
    let deep = cx.request.deep;
    let mut ledgers = Vec::new();
    let mut objects = Vec::new();
    let (mut over, mut worst) = (0u64, Severity::Info);
    let summary = {
        let stop = || cx.should_stop();
        let mut deadline = stop;
        let mut on_problem = |p: MirrorProblem| {
            let f = finding(&p);
            worst = worst.max(f.severity);
            let list = if f.id == CheckId::MirrorLedgers {
                &mut ledgers
            } else {
                &mut objects
            };
            if list.len() < KEPT {
                list.push(f)
            } else {
                over += 1
            }
        };
        reader.verify(deep, &mut deadline, &mut on_problem)
    };
    if over > 0 {
        objects.push(
            Finding::new(
                IDS[1],
                "more-of-the-same",
                Severity::Error,
                "raw-mirror",
                "more problems were found than are kept here",
            )
            .with_count(over),
        );
    }
    let summary = match summary {
        Ok(summary) => summary,
        Err(e) => {
            cx.facts.mirror.status = MirrorState::Unknown;
            cx.mirror_damaged = true;
            ledgers.push(Finding::new(
                IDS[0],
                "unreadable",
                Severity::Error,
                "raw-mirror",
                e.message(),
            ));
            return vec![
                CheckResult::unknown(IDS[0], UnknownReason::Unreadable, ledgers),
                CheckResult::unknown(IDS[1], UnknownReason::Unreadable, objects),
            ];
        }
    };
    let m = &mut cx.facts.mirror;
    m.sources = Some(summary.sources);
    m.captures = Some(summary.captures);
    m.packs = Some(summary.packs);
    cx.mirror_damaged = worst == Severity::Error;
    cx.mirror_verified = deep && summary.complete && !cx.mirror_damaged;
    m.status = match worst {
        Severity::Error => MirrorState::Corrupt,
        Severity::Warn => MirrorState::Degraded,
        Severity::Info if deep && summary.complete => MirrorState::Ok,
        Severity::Info => MirrorState::Unverified,
    };
    if !summary.complete {
        return vec![
            CheckResult::unknown(IDS[0], cx.stop_reason(), ledgers),
            CheckResult::unknown(IDS[1], cx.stop_reason(), objects),
        ];
    }
    cx.mirror_looked = true;
    let last = cx.facts.mirror.last_verified_ms;
    let objects = if deep || !objects.is_empty() {
        CheckResult::ran(IDS[1], objects)
    } else {
        CheckResult::skipped(IDS[1], SkipReason::NeedsDeep, last)
    };
    vec![CheckResult::ran(IDS[0], ledgers), objects]
}

fn finding(p: &MirrorProblem) -> Finding {
    let id = match p.kind {
        ProblemKind::Pack | ProblemKind::TornPack | ProblemKind::Object => IDS[1],
        _ => IDS[0],
    };
    let code = p.kind.code();
    let severity = match p.kind {
        k if k.harmless() => Severity::Info,
        ProblemKind::Index | ProblemKind::Stray => Severity::Warn,
        _ => Severity::Error,
    };
    let subject = match p.offset {
        Some(at) => format!("{}@{at}", p.file),
        None => p.file.clone(),
    };
    let f = Finding::new(id, code, severity, subject, p.message.clone());
    match (p.kind, p.capture) {
        (ProblemKind::Promise, Some((key, _))) => f.with_next(Next::MirrorList(key)),
        // Capturing again heals an object whose source still has it.
        (ProblemKind::Object | ProblemKind::Pack, _) => f.with_next(Next::IndexFull),
        (ProblemKind::Index, _) => f.with_next(REPAIR),
        (ProblemKind::IndexStale, _) => f.with_next(Next::Index),
        _ => f,
    }
}
