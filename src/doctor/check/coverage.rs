//! `coverage.*`: whether everything that was promised has a readable holder, and what would be
//! believed if a repair were planned now.

use super::context::{ArchivePlace, Context, Few};
use super::findings::which;
use crate::error::ErrorKind;
use crate::model::finding::{CheckId, CheckResult, Finding, Severity, SkipReason, UnknownReason};
use crate::model::next::{Next, REPAIR};
use crate::model::verdict::{AuthorityLevel, CoverageRisk};
use crate::store::accepted::Accepted;
use crate::store::{layout, run};

const IDS: [CheckId; 2] = [CheckId::CoveragePromises, CheckId::CoverageSoleCopy];

pub(super) fn holders(cx: &mut Context) -> Vec<CheckResult> {
    if !cx.facts.initialized {
        return Context::skip(&IDS, SkipReason::NoArchive, None);
    }
    // What was not looked at is neither sound nor lost.
    let none_made = cx.place == ArchivePlace::None;
    let archive = (cx.archive_looked || none_made)
        .then_some(cx.archive_readable && !cx.archive_damaged && !cx.commits_lost);
    let mirror =
        (cx.mirror_looked || cx.mirror_damaged).then_some(cx.mirror_present && !cx.mirror_damaged);
    authority(cx, archive, mirror);

    let (mut promises, mut sole) = (Vec::new(), Vec::new());
    let (Some(archive), Some(mirror)) = (archive, mirror) else {
        cx.facts.coverage.status = CoverageRisk::Unknown;
        let reason = if cx.should_stop() {
            cx.stop_reason()
        } else {
            UnknownReason::Unreadable
        };
        return IDS
            .iter()
            .map(|id| CheckResult::unknown(*id, reason, Vec::new()))
            .collect();
    };
    accepted(cx, &mut promises);
    let missing = &cx.captures_missing;
    let mut lost = |few: &Few, severity, message: String, next: Option<Next>| {
        if let Some(key) = few.first {
            let key = key.to_string();
            let f = Finding::new(IDS[0], "capture-missing", severity, key, message);
            let f = f.with_count(few.count);
            promises.push(next.into_iter().fold(f, Finding::with_next));
        }
    };
    const LOST: &str = "the archive read captures that the mirror's ledgers no longer have";
    lost(
        &missing.there,
        Severity::Error,
        format!("{LOST}; their sources are still there"),
        Some(Next::IndexFull),
    );
    // Rows hold what was read of them; nothing but their sources can bring their bytes back.
    lost(
        &missing.gone,
        if archive {
            Severity::Warn
        } else {
            Severity::Error
        },
        match archive {
            true => format!(
                "{LOST}, and no index reads their sources: its rows hold what was read of them"
            ),
            false => format!("{LOST}, and no index reads their sources"),
        },
        (!archive).then_some(REPAIR),
    );
    cx.captures_heal |= missing.there.count > 0;
    if let (Some(key), true) = (missing.elsewhere.first, archive) {
        // Known since the repair that took them over, and nothing here can change it.
        let message = "a repair took records over whose captures are in another data directory, and \
                       no index here reads their sources: the archive's rows are all that is here";
        let (code, severity) = ("captured-elsewhere", Severity::Info);
        let f = Finding::new(IDS[1], code, severity, key.to_string(), message);
        sole.push(f.with_count(missing.elsewhere.count));
    }
    // One that was just begun holds nothing that a mirror could hold too.
    let is_empty = !cx.mirror_present && cx.facts.coverage.conversations == Some(0);
    cx.facts.coverage.status = if archive {
        if !mirror && !is_empty {
            let message =
                "the sessions are held by the archive's rows alone: the mirror is gone or damaged";
            let (code, severity) = ("archive-only", Severity::Warn);
            let f = Finding::new(IDS[1], code, severity, layout::MIRROR, message);
            sole.push(if cx.captures_heal {
                f.with_next(Next::IndexFull)
            } else {
                f
            });
            cx.facts.coverage.archive_only = cx.facts.coverage.conversations.unwrap_or(0);
            CoverageRisk::ArchiveOnly
        } else if cx.captures_missing.elsewhere.count > 0 {
            CoverageRisk::ArchiveOnly
        } else if !cx.sources_looked {
            CoverageRisk::Unknown
        } else if cx.facts.coverage.source_pruned > 0 {
            CoverageRisk::SourcePruned
        } else {
            CoverageRisk::Ok
        }
    } else if none_made {
        // Captured and not archived yet: nothing was promised beyond the mirror.
        if mirror {
            CoverageRisk::Ok
        } else {
            CoverageRisk::Unknown
        }
    } else if mirror {
        let message = "the archive does not hold what was promised; the captures in the mirror do";
        promises.push(
            Finding::new(
                IDS[0],
                "held-by-mirror",
                Severity::Warn,
                layout::GENERATIONS,
                message,
            )
            .with_next(REPAIR),
        );
        CoverageRisk::Unknown
    } else if cx.archive_readable {
        let message = "the only readable holder is the damaged archive itself";
        let count = cx.facts.coverage.conversations.unwrap_or(1).max(1);
        sole.push(
            Finding::new(
                IDS[1],
                "sole-copy",
                Severity::Error,
                layout::GENERATIONS,
                message,
            )
            .with_count(count)
            .with_next(REPAIR),
        );
        cx.facts.coverage.sole_copy = count;
        CoverageRisk::SoleCopy
    } else {
        let message = "neither the archive nor the mirror can be read: what was promised has no verified holder";
        promises.push(
            Finding::new(IDS[0], "loss-suspected", Severity::Error, ".", message).with_next(REPAIR),
        );
        CoverageRisk::LossSuspected
    };
    vec![
        CheckResult::ran(IDS[0], promises),
        CheckResult::ran(IDS[1], sole),
    ]
}

/// What operators accepted as lost: told as long as it is in force, and no alarm.
fn accepted(cx: &Context, found: &mut Vec<Finding>) {
    let Some(root) = &cx.root else {
        return;
    };
    let accepted = match Accepted::read(root) {
        Ok(accepted) => accepted,
        // `layout.current` says so.
        Err(e) if e.kind() == ErrorKind::SchemaTooNew => return,
        Err(e) => {
            let (code, severity) = ("accepted-unreadable", Severity::Warn);
            found.push(Finding::new(
                IDS[0],
                code,
                severity,
                layout::ACCEPTED,
                e.message(),
            ));
            return;
        }
    };
    for a in &accepted.in_force {
        let (n, m) = (a.capture_count(), a.record_count());
        let receipt = run::path_of(&a.run_id);
        let message = format!(
            "accepted loss, receipt {receipt}: {n} {} and {m} {} are on record as lost",
            which(n, "capture", "captures"),
            which(m, "record", "records"),
        );
        let (code, severity) = ("accepted-loss", Severity::Info);
        found.push(
            Finding::new(IDS[0], code, severity, receipt, message)
                .with_count(n.max(m))
                .with_next(Next::RunsShow(a.run_id.to_string())),
        );
    }
    for path in accepted.damaged {
        let (code, severity) = ("accepted-damaged", Severity::Warn);
        let message =
            "the record of an accepted loss is damaged: what it spoke of is promised again";
        found.push(Finding::new(IDS[0], code, severity, path, message));
    }
}

/// Verified readability first, then class. `None`: not looked at.
fn authority(cx: &mut Context, archive: Option<bool>, mirror: Option<bool>) {
    let sources = cx.facts.providers.iter().any(|p| p.sources > 0);
    let (level, reason) = match (archive, mirror) {
        (Some(true), _) if cx.archive_verified => (
            AuthorityLevel::VerifiedArchive,
            "every row was verified in this run",
        ),
        (Some(true), _) if cx.commits_agree && !cx.request.deep => (
            AuthorityLevel::VerifiedArchive,
            "it opens, and its last commit is the one that the coverage ledger promises",
        ),
        (Some(true), _) => (
            AuthorityLevel::Unknown,
            "the archive opens; whether it is complete was not verified",
        ),
        (None, _) => (
            AuthorityLevel::Unknown,
            "the archive could not be looked at",
        ),
        (Some(false), Some(true)) if cx.mirror_verified => (
            AuthorityLevel::VerifiedMirror,
            "every byte of the mirror was verified in this run; the archive is not usable",
        ),
        (Some(false), Some(true)) => (
            AuthorityLevel::VerifiedMirror,
            "the mirror's ledgers and objects are in place; the archive is not usable",
        ),
        (Some(false), None) => (AuthorityLevel::Unknown, "the mirror could not be looked at"),
        (Some(false), Some(false)) if cx.archive_readable => (
            AuthorityLevel::Salvage,
            "the archive is damaged and there is no sound mirror",
        ),
        (Some(false), Some(false)) if sources => (
            AuthorityLevel::LiveSource,
            "only the harnesses' own files can be read",
        ),
        (Some(false), Some(false)) => (AuthorityLevel::None, "nothing can be read"),
    };
    cx.facts.authority.level = level;
    cx.facts.authority.reason = reason.to_owned();
}
