//! `coverage.*`: whether everything that was promised has a readable holder, and what would be
//! believed if a repair were planned now.

use super::context::{ArchivePlace, Context};
use crate::model::finding::{CheckId, CheckResult, Finding, Severity, SkipReason};
use crate::model::next::Next;
use crate::model::verdict::{AuthorityLevel, CoverageRisk};
use crate::store::layout;

const IDS: [CheckId; 2] = [CheckId::CoveragePromises, CheckId::CoverageSoleCopy];

pub(super) fn holders(cx: &mut Context) -> Vec<CheckResult> {
    if !cx.facts.initialized {
        return Context::skip(&IDS, SkipReason::NoArchive, None);
    }
    let archive = cx.archive_readable && !cx.archive_damaged && !cx.commits_lost;
    let mirror = cx.mirror_present && !cx.mirror_damaged;
    authority(cx, archive, mirror);

    let (mut promises, mut sole) = (Vec::new(), Vec::new());
    if let (count @ 1.., Some(key)) = cx.captures_missing {
        let message = "the archive read captures that the mirror's ledgers no longer have";
        promises.push(
            Finding::new(IDS[0], "capture-missing", Severity::Error, key.to_string(), message)
                .with_count(count)
                .with_next(Next::MirrorVerifyDeep),
        );
    }
    let promised = cx.place != ArchivePlace::None;
    cx.facts.coverage.status = if archive {
        if !mirror {
            let message = "the sessions are held by the archive's rows alone: the mirror is gone or damaged";
            sole.push(
                Finding::new(IDS[1], "archive-only", Severity::Warn, layout::MIRROR, message)
                    .with_next(Next::IndexFull),
            );
            cx.facts.coverage.archive_only = cx.facts.coverage.conversations.unwrap_or(0);
            CoverageRisk::ArchiveOnly
        } else if cx.facts.coverage.source_pruned > 0 {
            CoverageRisk::SourcePruned
        } else {
            CoverageRisk::Ok
        }
    } else if !promised {
        CoverageRisk::Ok
    } else if mirror {
        let message = "the archive does not hold what was promised; the captures in the mirror do";
        promises.push(
            Finding::new(IDS[0], "held-by-mirror", Severity::Warn, layout::GENERATIONS, message)
                .with_next(Next::MirrorVerifyDeep),
        );
        CoverageRisk::Unknown
    } else if cx.archive_readable {
        let message = "the only readable holder is the damaged archive itself";
        let count = cx.facts.coverage.conversations.unwrap_or(1).max(1);
        sole.push(
            Finding::new(IDS[1], "sole-copy", Severity::Error, layout::GENERATIONS, message)
                .with_count(count),
        );
        cx.facts.coverage.sole_copy = count;
        CoverageRisk::SoleCopy
    } else {
        let message = "neither the archive nor the mirror can be read: what was promised has no verified holder";
        promises.push(Finding::new(IDS[0], "loss-suspected", Severity::Error, ".", message));
        CoverageRisk::LossSuspected
    };
    vec![CheckResult::ran(IDS[0], promises), CheckResult::ran(IDS[1], sole)]
}

/// Verified readability first, then class.
fn authority(cx: &mut Context, archive: bool, mirror: bool) {
    let (level, reason) = if archive {
        let how = if cx.archive_verified {
            "every row was verified in this run"
        } else {
            "it opens, and its last commit is the one that the coverage ledger promises"
        };
        (AuthorityLevel::VerifiedArchive, how)
    } else if mirror {
        let how = if cx.mirror_verified {
            "every byte of the mirror was verified in this run"
        } else {
            "the mirror's ledgers and objects are in place; the archive is not usable"
        };
        (AuthorityLevel::VerifiedMirror, how)
    } else if cx.archive_readable {
        (AuthorityLevel::Salvage, "the archive is damaged and there is no sound mirror")
    } else if cx.facts.providers.iter().any(|p| p.sources > 0) {
        (AuthorityLevel::LiveSource, "only the harnesses' own files can be read")
    } else {
        (AuthorityLevel::None, "nothing can be read")
    };
    cx.facts.authority.level = level;
    cx.facts.authority.reason = reason.to_owned();
}
