//! `mirror.*`: ledgers and objects.

use std::collections::BTreeMap;

use super::context::{ArchivePlace, Context, busy};
use crate::disk::Root;
use crate::doctor::losses::{Capture, Ground, Holding, Loss, Seen, losses};
use crate::error::{ErrorKind, Result};
use crate::model::finding::{CheckId, CheckResult, Finding, Severity, SkipReason, UnknownReason};
use crate::model::next::{Next, REPAIR};
use crate::model::source::SourceKey;
use crate::model::verdict::MirrorState;
use crate::sources::reach::{Obstacle, Reach};
use crate::store::archive::ArchiveReader;
use crate::store::mirror::{MirrorProblem, MirrorReader, ProblemKind};
use crate::store::{layout, run};

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
    let (mut problems, mut over) = (Vec::new(), 0u64);
    let mut seen = Seen::default();
    let summary = {
        let stop = || cx.should_stop();
        let mut deadline = stop;
        let mut on_problem = |p: MirrorProblem| {
            seen.add(&p);
            // Of each list at most so many are kept.
            if problems.len() < 2 * KEPT {
                problems.push(p);
            } else {
                over += 1;
            }
        };
        reader.verify(deep, &mut deadline, &mut on_problem)
    };
    let lost = Lost::find(cx, root, &reader, &seen);
    let mut worst = Severity::Info;
    for p in &problems {
        let f = finding(p, &lost);
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
    }
    if over > 0 {
        // Of those that were not kept, only the captures are known.
        let severity = worst.max(lost.worst().unwrap_or(Severity::Warn));
        worst = severity;
        objects.push(
            Finding::new(
                IDS[1],
                "more-of-the-same",
                severity,
                "raw-mirror",
                "more problems were found than are kept here",
            )
            .with_count(over),
        );
    }
    let (is_lost, heal) = (lost.is_open(), lost.heal());
    let summary = match summary {
        Ok(summary) => summary,
        Err(e) => {
            cx.facts.mirror.status = MirrorState::Unknown;
            let is_newer = e.kind() == ErrorKind::MirrorTooNew;
            cx.mirror_damaged = !is_newer;
            ledgers.push(Finding::new(
                IDS[0],
                if is_newer {
                    "mirror-too-new"
                } else {
                    "unreadable"
                },
                Severity::Error,
                "raw-mirror",
                e.message(),
            ));
            if is_newer {
                cx.refusal = Some(e);
            }
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
    cx.captures_heal |= heal;
    cx.mirror_damaged = worst == Severity::Error || is_lost;
    cx.mirror_verified = deep && summary.complete && !cx.mirror_damaged;
    m.status = match worst {
        Severity::Error => MirrorState::Corrupt,
        _ if is_lost => MirrorState::Corrupt,
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

/// The captures that can't be given back.
struct Lost {
    found: Result<BTreeMap<Capture, Loss>>,
    /// Whether the archive was asked for them.
    asked: bool,
    /// Whether an archive was ever made.
    is_begun: bool,
}

impl Lost {
    fn find(cx: &Context, root: &Root, mirror: &MirrorReader<'_>, seen: &Seen) -> Lost {
        let believed = cx.archive_readable && !cx.archive_damaged && cx.commits_agree;
        let look = || {
            let archive = match believed && !seen.is_empty() {
                true => ArchiveReader::open(root)?,
                false => None,
            };
            let reach = Reach::of(&cx.env);
            let ground = Ground {
                root,
                mirror: Some(mirror),
                archive: archive.as_ref(),
                reach: &reach,
                all_promised: false,
            };
            losses(&ground, seen)
        };
        Lost {
            found: look(),
            asked: believed,
            is_begun: cx.place != ArchivePlace::None,
        }
    }

    fn all(&self) -> impl Iterator<Item = (&Capture, &Loss)> {
        self.found.iter().flatten()
    }

    /// How bad the worst of them is; `None` where no capture is lost.
    fn worst(&self) -> Option<Severity> {
        if self.found.is_err() {
            return Some(Severity::Error);
        }
        self.all().map(|(_, loss)| severity(loss)).max()
    }

    /// The same of one source.
    fn worst_of(&self, key: SourceKey) -> Option<Severity> {
        if self.found.is_err() {
            return Some(Severity::Error);
        }
        let of = self.all().filter(|((k, _), _)| *k == key);
        of.map(|(_, loss)| severity(loss)).max()
    }

    /// Whether any is lost that nobody accepted.
    fn is_open(&self) -> bool {
        self.found.is_err()
            || self
                .all()
                .any(|(_, l)| !matches!(l.holding, Holding::Accepted(_)))
    }

    /// What settles those that nothing holds. Only an archive can have a loss on record, so where none
    /// was made yet the next index makes it first.
    fn next(&self) -> Next {
        match self.is_begun {
            true => REPAIR,
            false => Next::Index,
        }
    }

    /// Whether a source brings one back.
    fn heal(&self) -> bool {
        self.all().any(|(_, l)| l.holding == Holding::Source)
    }

    fn of(&self, capture: Capture) -> Option<&Loss> {
        self.found.as_ref().ok()?.get(&capture)
    }
}

fn severity(loss: &Loss) -> Severity {
    match loss.holding {
        Holding::Accepted(_) => Severity::Info,
        Holding::Archive => Severity::Warn,
        Holding::Source | Holding::Nothing => Severity::Error,
    }
}

/// What would bring a capture back whose source is there and not read.
fn also(obstacle: Option<&Obstacle>, or: &str) -> String {
    obstacle.map_or_else(String::new, |o| format!("; {}{or}", o.told()))
}

fn finding(p: &MirrorProblem, lost: &Lost) -> Finding {
    let id = match p.kind {
        ProblemKind::Pack | ProblemKind::TornPack | ProblemKind::Object => IDS[1],
        _ => IDS[0],
    };
    let subject = match p.offset {
        Some(at) => format!("{}@{at}", p.file),
        None => p.file.clone(),
    };
    let of = |code, severity, message: String| Finding::new(id, code, severity, subject, message);
    let code = p.kind.code();
    if let (ProblemKind::Promise, Some(capture)) = (p.kind, p.capture)
        && let Some(loss) = lost.of(capture)
    {
        let listed = Next::MirrorList(capture.0);
        return match &loss.holding {
            Holding::Source => {
                let message = format!("{}; its source still has it", p.message);
                of(code, Severity::Error, message).with_next(Next::IndexFull)
            }
            Holding::Archive => {
                let also = also(loss.obstacle.as_ref(), "");
                let message = format!("{}; the archive's rows hold its records{also}", p.message);
                of("archive-only", Severity::Warn, message).with_next(listed)
            }
            Holding::Accepted(run) => {
                let receipt = run::path_of(run);
                let message = format!("{}; accepted loss, receipt {receipt}", p.message);
                of("accepted-loss", Severity::Info, message)
            }
            Holding::Nothing => {
                let why = match lost.asked {
                    true => "; nothing else that can be read holds it",
                    false => "",
                };
                let also = also(loss.obstacle.as_ref(), ", or accept the loss by a repair");
                let message = format!("{}{why}{also}", p.message);
                of(code, Severity::Error, message).with_next(lost.next())
            }
        };
    }
    // What a damaged file costs is told by the captures that need it.
    let severity = match (p.kind, p.capture) {
        (k, _) if k.harmless() => Severity::Info,
        (ProblemKind::Index | ProblemKind::Stray, _) => Severity::Warn,
        (ProblemKind::Pack | ProblemKind::Object, _) => lost.worst().unwrap_or(Severity::Warn),
        (ProblemKind::Ledger, Some((key, _))) => lost.worst_of(key).unwrap_or(Severity::Warn),
        _ => Severity::Error,
    };
    let f = of(code, severity, p.message.clone());
    match (p.kind, p.capture) {
        (ProblemKind::Promise, Some((key, _))) => f.with_next(Next::MirrorList(key)),
        // Capturing again heals an object whose source still has it.
        (ProblemKind::Object | ProblemKind::Pack, _) if lost.heal() => f.with_next(Next::IndexFull),
        (ProblemKind::Object | ProblemKind::Pack | ProblemKind::Ledger, _)
            if severity == Severity::Error =>
        {
            f.with_next(lost.next())
        }
        (ProblemKind::Index, _) => f.with_next(REPAIR),
        (ProblemKind::IndexStale | ProblemKind::Format, _) => f.with_next(Next::Index),
        _ => f,
    }
}
