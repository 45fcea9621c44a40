//! From results and facts to the document of `doctor check`: the verdict, the order, the size.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::check::{
    ArchiveBlock, AttestationBlock, AuthorityBlock, BlockedReason, BudgetBlock, CheckBody,
    CheckEntry, CheckReason, CheckStatus, ChecksSummary, CoverageBlock, DetailBlock, DetailLevel,
    FailOnLevel, FindingEntry, FindingsSummary, InventoryBlock, MarkerBlock, MirrorBlock,
    OperationBlock, OwnerBlock, ProviderBlock, RemoteBlock, ScopeBlock, StorageBlock,
};
use super::envelope::{OperationOutcome, OutcomeKind, Report, Site, Status};
use super::time::rfc3339;
use crate::exit::ExitCodeKind;
use crate::model::check::CheckFacts;
use crate::model::finding::{
    CheckId, CheckOutcome, CheckResult, Finding, RiskLevel, Severity, SkipReason,
};
use crate::model::interrupt::Signal;
use crate::model::next::{Next, NextId};
use crate::model::verdict::{RepairMarker, SourceState, StoragePressure};

/// Bytes of the compact document, without `--detail full`.
pub const MAX_BYTES: usize = 6 * 1024;
const MAX_FINDINGS: usize = 20;
const MAX_COMMANDS: usize = 3;
const MAX_MESSAGE: usize = 200;
const MAX_SUBJECT: usize = 100;

/// What depends on time or free space, and so is left out of deterministic documents.
const NOT_DETERMINISTIC: [CheckId; 3] = [
    CheckId::SourcesRetention,
    CheckId::StoragePressure,
    CheckId::BackupFreshness,
];

/// What was asked for, and how the run as a whole ended.
#[derive(Debug, Clone)]
pub struct CheckRun {
    /// From which severity on the exit is `health-failure`.
    pub fail_on: FailOnLevel,
    /// Whether everything was read.
    pub deep: bool,
    /// How long lists may be.
    pub detail: DetailLevel,
    /// Whether to leave out what follows time and free space.
    pub deterministic: bool,
    /// Milliseconds allowed.
    pub budget_ms: Option<u64>,
    /// Milliseconds used.
    pub elapsed_ms: u64,
    /// Whether the budget ran out.
    pub timed_out: bool,
    /// The signal that ended the run early.
    pub interrupted: Option<Signal>,
    /// Now, milliseconds since the Unix epoch.
    pub now_ms: i64,
    /// The checks that were asked for.
    pub asked: Vec<CheckId>,
}

/// The document. Checks without a result are listed as skipped: `excluded`, or by the budget or
/// the signal that ended the run.
#[must_use]
pub fn check_report(
    results: Vec<CheckResult>,
    facts: CheckFacts,
    run: &CheckRun,
    site: &Site,
) -> Report<CheckBody> {
    let results = complete(results, run);
    let mut findings: Vec<Finding> = results
        .iter()
        .flat_map(|r| r.findings.iter().cloned())
        .collect();
    findings.sort_by(|a, b| {
        (Reverse(a.severity), a.id, a.code, &a.subject, &a.message).cmp(&(
            Reverse(b.severity),
            b.id,
            b.code,
            &b.subject,
            &b.message,
        ))
    });

    let summary = summary(&results);
    let findings = each_kind_first(findings);
    let worst = findings.iter().map(|f| f.severity).max();
    let cut = results.iter().any(|r| {
        matches!(
            r.outcome,
            CheckOutcome::Skipped {
                reason: SkipReason::Budget | SkipReason::Interrupted,
                ..
            }
        )
    });
    let (status, outcome) = verdict(&summary, worst, cut, &facts, run);
    let risk = risk(&findings, &summary, status);
    let next = next_steps(&findings, &facts, status);
    let full = run.detail == DetailLevel::Full;

    let body = CheckBody {
        checks: results
            .iter()
            .map(|r| check_entry(r, full && !run.deterministic))
            .collect(),
        checks_summary: summary,
        findings: findings
            .iter()
            .map(|f| finding_entry(f, site, full))
            .collect(),
        findings_total: u64::try_from(findings.len()).unwrap_or(u64::MAX),
        findings_summary: findings_summary(&findings),
        findings_truncated: false,
        detail: DetailBlock {
            argv: if full {
                None
            } else {
                site.argv(detail_argv(run))
            },
        },
        ..blocks(facts, run, site)
    };
    let full_disk = body.storage_pressure.status == StoragePressure::Critical;
    let mut report = Report::new(status, outcome, body).recommending(&next, site);
    report.risk_level = risk;
    if full_disk {
        // Nothing that writes can end well before there is room.
        report.recommended_action = NextId::MakeRoom;
        report.recommended_commands.retain(|c| !c.mutates);
    }
    if let Some(signal) = run.interrupted {
        let partial = report.status;
        report = report.failing(&signal.error(), false, site);
        // The verdict on what ran stays; `err` says that it is partial.
        report.status = partial;
        report.risk_level = risk;
    }
    if !full {
        fit(&mut report);
    }
    report
}

/// Within a severity the first finding of each kind, then the others: lists are cut from their end,
/// and what happens a thousand times must not hide what happens once.
fn each_kind_first(findings: Vec<Finding>) -> Vec<Finding> {
    let mut seen = std::collections::BTreeSet::new();
    let mut ranked: Vec<(Severity, bool, Finding)> = findings
        .into_iter()
        .map(|f| {
            let again = !seen.insert((f.id, f.code));
            (f.severity, again, f)
        })
        .collect();
    ranked.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    ranked.into_iter().map(|(_, _, f)| f).collect()
}

fn detail_argv(run: &CheckRun) -> Vec<String> {
    let mut argv = Next::CheckDetail.argv();
    if run.deep {
        argv.push("--deep".to_owned());
    }
    argv
}

/// One result for every check, in the order of the list.
fn complete(results: Vec<CheckResult>, run: &CheckRun) -> Vec<CheckResult> {
    let reason = match run.interrupted {
        Some(_) => SkipReason::Interrupted,
        None if run.timed_out => SkipReason::Budget,
        None => SkipReason::Excluded,
    };
    let mut results = results;
    CheckId::ALL
        .iter()
        .map(|&id| {
            let found = results
                .iter()
                .position(|r| r.id == id)
                .map(|at| results.swap_remove(at));
            match found {
                Some(_) if run.deterministic && NOT_DETERMINISTIC.contains(&id) => {
                    CheckResult::skipped(id, SkipReason::Excluded, None)
                }
                Some(result) => result,
                None if !run.asked.contains(&id) => {
                    CheckResult::skipped(id, SkipReason::Excluded, None)
                }
                None => CheckResult::skipped(id, reason, None),
            }
        })
        .collect()
}

fn summary(results: &[CheckResult]) -> ChecksSummary {
    let mut s = ChecksSummary::default();
    for r in results {
        s.total += 1;
        match r.outcome {
            CheckOutcome::Ok => s.ok += 1,
            CheckOutcome::Warn => s.warn += 1,
            CheckOutcome::Error => s.error += 1,
            CheckOutcome::Unknown { .. } => s.unknown += 1,
            CheckOutcome::Skipped { .. } => s.skipped += 1,
        }
    }
    s
}

fn findings_summary(findings: &[Finding]) -> FindingsSummary {
    let mut s = FindingsSummary::default();
    for f in findings {
        match f.severity {
            Severity::Error => s.error += 1,
            Severity::Warn => s.warn += 1,
            Severity::Info => s.info += 1,
        }
    }
    s
}

fn verdict(
    checks: &ChecksSummary,
    worst: Option<Severity>,
    cut: bool,
    facts: &CheckFacts,
    run: &CheckRun,
) -> (Status, OperationOutcome) {
    // A check that could not tell hides anything, so it outranks a warning.
    let status = if worst == Some(Severity::Error) || checks.error > 0 {
        Status::Error
    } else if checks.unknown > 0 {
        Status::Unknown
    } else if !facts.initialized {
        Status::NotInitialized
    } else if checks.ok + checks.warn == 0 || (cut && worst < Some(Severity::Warn)) {
        // Nothing ran, or what did not run may be anything but fine.
        Status::Unknown
    } else if worst == Some(Severity::Warn) || checks.warn > 0 {
        Status::Warn
    } else {
        Status::Ok
    };
    let threshold = match run.fail_on {
        FailOnLevel::Info => Some(Severity::Info),
        FailOnLevel::Warn => Some(Severity::Warn),
        FailOnLevel::Error => Some(Severity::Error),
        FailOnLevel::Never => None,
    };
    let failed = matches!((worst, threshold), (Some(w), Some(t)) if w >= t);
    let incomplete = run.timed_out || status == Status::Unknown;
    let exit = if failed {
        ExitCodeKind::HealthFailure
    } else if incomplete {
        ExitCodeKind::Incomplete
    } else {
        ExitCodeKind::Success
    };
    let kind = if incomplete {
        OutcomeKind::Incomplete
    } else if worst.is_some_and(|w| w > Severity::Info) || failed {
        OutcomeKind::OkReadOnlyDiagnosed
    } else {
        OutcomeKind::OkNoActionNeeded
    };
    let mut outcome = OperationOutcome::new(kind, exit);
    outcome.retryable = incomplete;
    (status, outcome)
}

fn risk(findings: &[Finding], checks: &ChecksSummary, status: Status) -> RiskLevel {
    let warns = || findings.iter().filter(|f| f.severity == Severity::Warn);
    match status {
        Status::Error => RiskLevel::High,
        Status::Unknown => RiskLevel::Unknown,
        _ if warns().any(|f| f.id.is_about_evidence()) => RiskLevel::Medium,
        _ if checks.warn > 0 || warns().next().is_some() => RiskLevel::Low,
        _ => RiskLevel::None,
    }
}

/// The next steps of the worst findings first; each once.
fn next_steps(findings: &[Finding], facts: &CheckFacts, status: Status) -> Vec<Next> {
    let mut seen = BTreeSet::new();
    let mut steps: Vec<Next> = findings
        .iter()
        .filter(|f| f.severity > Severity::Info)
        .filter_map(|f| f.next.clone())
        .filter(|n| seen.insert(n.clone()))
        .collect();
    if !facts.initialized && status != Status::Error && seen.insert(Next::Index) {
        steps.push(Next::Index);
    }
    // What is merely worth knowing comes behind what is wrong.
    steps.extend(
        findings
            .iter()
            .filter(|f| f.severity == Severity::Info)
            .filter_map(|f| f.next.clone())
            .filter(|n| seen.insert(n.clone())),
    );
    steps.truncate(MAX_COMMANDS);
    steps
}

fn check_entry(r: &CheckResult, timed: bool) -> CheckEntry {
    let (status, reason, last) = match r.outcome {
        CheckOutcome::Ok => (CheckStatus::Ok, None, None),
        CheckOutcome::Warn => (CheckStatus::Warn, None, None),
        CheckOutcome::Error => (CheckStatus::Error, None, None),
        CheckOutcome::Unknown { reason } => (
            CheckStatus::Unknown,
            Some(CheckReason::Unknown(reason)),
            None,
        ),
        CheckOutcome::Skipped {
            reason,
            last_verified_ms,
        } => (
            CheckStatus::Skipped,
            Some(CheckReason::Skipped(reason)),
            last_verified_ms,
        ),
    };
    CheckEntry {
        id: r.id,
        status,
        reason,
        last_verified: last.and_then(rfc3339),
        elapsed_ms: timed.then_some(r.elapsed_ms),
    }
}

fn finding_entry(f: &Finding, site: &Site, full: bool) -> FindingEntry {
    let shorten = |text: String, cut: fn(String, usize) -> String, max: usize| {
        if full { text } else { cut(text, max) }
    };
    FindingEntry {
        id: f.id,
        code: f.code.to_owned(),
        severity: f.severity,
        subject: shorten(site.redact(&f.subject), cut_middle, MAX_SUBJECT),
        message: shorten(site.redact(&f.message), cut, MAX_MESSAGE),
        count: f.count,
        next: f.next.as_ref().map(Next::id),
    }
}

/// At most `max` bytes, cut between characters, with a sign that it was cut.
fn cut(text: String, max: usize) -> String {
    if text.len() <= max {
        return text;
    }
    let mut end = max.saturating_sub('…'.len_utf8());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}

/// As [`cut`], in the middle: the end of a path says more than its middle.
fn cut_middle(text: String, max: usize) -> String {
    if text.len() <= max {
        return text;
    }
    let mut from = text.len() - max / 3 * 2;
    while !text.is_char_boundary(from) {
        from += 1;
    }
    let end = text[from..].to_owned();
    let begin = cut(text, max - end.len());
    begin + &end
}

fn blocks(facts: CheckFacts, run: &CheckRun, site: &Site) -> CheckBody {
    let timeless = run.deterministic;
    let storage = if timeless {
        StoragePressure::Unknown
    } else {
        facts.storage.status
    };
    let blocked = if facts.operation.owner.is_some() {
        Some(BlockedReason::LockBusy)
    } else if facts.marker != RepairMarker::Absent {
        Some(BlockedReason::RepairFailureMarker)
    } else if storage == StoragePressure::Critical {
        Some(BlockedReason::StoragePressure)
    } else {
        None
    };
    let a = facts.archive;
    let c = facts.coverage;
    let m = facts.mirror;
    let (absent, present): (Vec<_>, Vec<_>) = facts
        .providers
        .into_iter()
        .partition(|p| p.state == SourceState::ProviderNotInstalled);
    let mut providers: Vec<ProviderBlock> = present
        .into_iter()
        .map(|p| ProviderBlock {
            provider: p.provider,
            state: p.state,
            sources: p.sources,
            newer: p.newer,
            pruned: p.pruned,
            unreadable: p.unreadable,
            retention_days: p.retention_days,
        })
        .collect();
    providers.sort_by_key(|p| p.provider.as_str());
    CheckBody {
        archive: ArchiveBlock {
            generation: a.generation,
            archive_id: a.archive_id,
            schema_version: a.schema_version,
            commit: a.commit,
            head: a.head,
            conversations: a.conversations,
            messages: a.messages,
            records: a.records,
            wal_bytes: a.wal_bytes,
        },
        coverage_risk: CoverageBlock {
            status: c.status,
            conversations: c.conversations,
            source_pruned: c.source_pruned,
            archive_only: c.archive_only,
            sole_copy: c.sole_copy,
            loss_suspected: c.loss_suspected,
            days_until_first_loss: c.days_until_first_loss.filter(|_| !timeless),
        },
        source_authority: AuthorityBlock {
            authority_level: facts.authority.level,
            decision: facts.authority.level,
            reason: cut(site.redact(&facts.authority.reason), MAX_MESSAGE),
        },
        raw_mirror: MirrorBlock {
            status: m.status,
            sources: m.sources,
            captures: m.captures,
            packs: m.packs,
            stored_bytes: m.stored_bytes,
            last_verified: m.last_verified_ms.and_then(rfc3339),
        },
        source_inventory: InventoryBlock {
            sources: providers.iter().map(|p| p.sources).sum(),
            pruned: providers.iter().map(|p| p.pruned).sum(),
            providers,
            not_installed: absent.iter().map(|p| p.provider).collect(),
        },
        remote_source_sync: RemoteBlock {
            status: facts.remote,
        },
        storage_pressure: StorageBlock {
            status: storage,
            available_bytes: facts.storage.available_bytes.filter(|_| !timeless),
            min_recommended_free_bytes: facts.storage.recommended_free_bytes,
            archive_bytes: facts.storage.archive_bytes,
            mirror_bytes: facts.storage.mirror_bytes,
        },
        repair_failure_marker: MarkerBlock::new(facts.marker),
        operation_state: OperationBlock {
            writer_active: facts.operation.owner.is_some(),
            owner: facts
                .operation
                .owner
                .filter(|_| !timeless)
                .map(|o| OwnerBlock {
                    pid: o.pid,
                    command: cut(o.command, MAX_SUBJECT),
                    held_for_ms: match o.since_ms {
                        0 => 0,
                        since => u64::try_from(run.now_ms.saturating_sub(since)).unwrap_or(0),
                    },
                }),
            read_only_check_allowed: true,
            mutating_doctor_allowed: blocked.is_none(),
            mutation_blocked_reason: blocked,
            interrupted_state_count: facts.operation.interrupted,
        },
        checks_summary: ChecksSummary::default(),
        checks: Vec::new(),
        findings: Vec::new(),
        findings_total: 0,
        findings_summary: FindingsSummary::default(),
        findings_truncated: false,
        detail: DetailBlock { argv: None },
        budget: BudgetBlock {
            budget_ms: run.budget_ms,
            elapsed_ms: (!timeless).then_some(run.elapsed_ms),
            timed_out: run.timed_out,
            interrupted: run.interrupted.is_some(),
        },
        check_scope: ScopeBlock {
            deep: run.deep,
            detail: run.detail,
            deterministic: run.deterministic,
            fail_on: run.fail_on,
        },
        last_attestation: facts.attestation.map(|t| AttestationBlock {
            at: rfc3339(t.at_ms),
            path: t.path,
            clean: t.clean,
        }),
        recorded: facts.recorded,
    }
}

/// Cuts the lists until the compact document fits. What goes first: findings from the end, then
/// recommended commands and the detail command (only a data directory with a very long name makes
/// them large).
fn fit(report: &mut Report<CheckBody>) {
    let total = report.body.findings.len();
    report.body.findings.truncate(MAX_FINDINGS);
    report.body.findings_truncated = report.body.findings.len() < total;
    while size(report) > MAX_BYTES {
        if report.body.findings.len() > 1 {
            let keep = report.body.findings.len() - 1;
            report.body.findings.truncate(keep);
            report.body.findings_truncated = true;
        } else if report.recommended_commands.pop().is_some() {
        } else if report.body.detail.argv.take().is_none() {
            break;
        }
    }
}

fn size(report: &Report<CheckBody>) -> usize {
    serde_json::to_vec(report).map_or(0, |bytes| bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::finding::UnknownReason;
    use crate::report::envelope::DataDirArg;

    fn run() -> CheckRun {
        CheckRun {
            fail_on: FailOnLevel::Error,
            deep: false,
            detail: DetailLevel::Brief,
            deterministic: false,
            budget_ms: Some(8000),
            elapsed_ms: 12,
            timed_out: false,
            interrupted: None,
            now_ms: 1_700_000_000_000,
            asked: CheckId::ALL.to_vec(),
        }
    }

    fn known() -> CheckFacts {
        CheckFacts {
            initialized: true,
            ..CheckFacts::default()
        }
    }

    fn finding(severity: Severity, n: usize) -> Finding {
        Finding::new(
            CheckId::CoveragePromises,
            "promise-without-holder",
            severity,
            format!("conversation {n:05} {}", "é".repeat(200)),
            "m".repeat(1000),
        )
        .with_next(Next::ExportRaw(format!("{n:032}")))
    }

    fn one(f: Vec<Finding>, facts: CheckFacts, run: &CheckRun) -> Report<CheckBody> {
        let id = CheckId::CoveragePromises;
        check_report(vec![CheckResult::ran(id, f)], facts, run, &Site::plain())
    }

    #[test]
    fn ten_thousand_findings_fit_in_six_kib_and_the_totals_stay() {
        let many = |n| {
            (0..n)
                .map(|i| finding(Severity::Error, i))
                .collect::<Vec<_>>()
        };
        let r = one(many(10_000), known(), &run());
        assert!(size(&r) <= MAX_BYTES, "{}", size(&r));
        assert_eq!(r.body.findings_total, 10_000);
        assert!(r.body.findings_truncated);
        assert!(!r.body.findings.is_empty());
        assert!(r.body.detail.argv.is_some());
        let full = CheckRun {
            detail: DetailLevel::Full,
            ..run()
        };
        let r = one(many(1000), known(), &full);
        assert_eq!(r.body.findings.len(), 1000);
        assert!(!r.body.findings_truncated);
    }

    #[test]
    fn a_data_dir_with_a_very_long_name_still_fits() {
        let site = Site {
            data_dir: DataDirArg::Named("d".repeat(4000)),
            home: String::new(),
            real_home: String::new(),
        };
        let found = CheckResult::ran(
            CheckId::CoveragePromises,
            vec![finding(Severity::Error, 1), finding(Severity::Error, 2)],
        );
        let r = check_report(vec![found], known(), &run(), &site);
        assert!(size(&r) <= MAX_BYTES, "{}", size(&r));
        assert_eq!(r.body.findings_total, 2);
    }

    #[test]
    fn what_did_not_run_is_never_ok() {
        let r = check_report(vec![], known(), &run(), &Site::plain());
        assert_eq!(r.status, Status::Unknown);
        assert_eq!(r.operation_outcome.exit_code_kind, ExitCodeKind::Incomplete);
        assert_eq!(r.body.checks_summary.skipped, 27);
        let unknown = CheckResult::unknown(CheckId::ArchiveOpen, UnknownReason::LockBusy, vec![]);
        let r = check_report(vec![unknown], known(), &run(), &Site::plain());
        assert_eq!(r.status, Status::Unknown);
        assert_eq!(r.risk_level, RiskLevel::Unknown);
    }

    #[test]
    fn fail_on_moves_the_exit_and_not_the_status() {
        let warn = || vec![finding(Severity::Warn, 1)];
        let r = one(warn(), known(), &run());
        assert_eq!((r.status, r.operation_outcome.exit_code), (Status::Warn, 0));
        assert_eq!(r.risk_level, RiskLevel::Medium);
        let strict = CheckRun {
            fail_on: FailOnLevel::Warn,
            ..run()
        };
        let r = one(warn(), known(), &strict);
        assert_eq!((r.status, r.operation_outcome.exit_code), (Status::Warn, 1));
        let never = CheckRun {
            fail_on: FailOnLevel::Never,
            ..run()
        };
        let r = one(vec![finding(Severity::Error, 1)], known(), &never);
        assert_eq!(
            (r.status, r.operation_outcome.exit_code),
            (Status::Error, 0)
        );
    }

    #[test]
    fn on_a_full_disk_room_comes_before_anything_that_writes() {
        let news = Finding::new(CheckId::SourcesFreshness, "new", Severity::Info, "", "")
            .with_next(Next::Index);
        let look = Finding::new(CheckId::ArchiveOpen, "old", Severity::Info, "", "")
            .with_next(Next::CheckDeep);
        let mut facts = known();
        let r = one(vec![news.clone(), look.clone()], facts.clone(), &run());
        assert!(r.recommended_commands.iter().any(|c| c.mutates));
        facts.storage.status = StoragePressure::Critical;
        let r = one(vec![news, look], facts, &run());
        assert_eq!(r.recommended_action, NextId::MakeRoom);
        let argv: Vec<_> = r.recommended_commands.iter().map(|c| &c.argv).collect();
        assert_eq!(argv, [&Next::CheckDeep.argv()]);
    }

    #[test]
    fn a_long_subject_keeps_its_end() {
        let long = format!("~/{}/é.jsonl.zst", "é".repeat(300));
        for max in 20..120 {
            let short = cut_middle(long.clone(), max);
            assert!(short.len() <= max, "{max}: {short}");
            assert!(short.starts_with("~/") && short.ends_with("é.jsonl.zst"));
            assert!(short.contains('…'));
        }
        assert_eq!(cut_middle("short".to_owned(), 5), "short");
    }

    #[test]
    fn findings_are_counted_by_severity_before_lists_are_cut() {
        let many = (0..50).map(|n| finding(Severity::Info, n));
        let all = many.chain([finding(Severity::Warn, 1)]).collect();
        let r = one(all, known(), &run());
        let s = r.body.findings_summary;
        assert_eq!((s.error, s.warn, s.info), (0, 1, 50));
        assert!(r.body.findings.len() < 51);
    }

    #[test]
    fn a_fresh_machine_is_not_initialized_and_calm() {
        let r = one(vec![], CheckFacts::default(), &run());
        assert_eq!(
            (r.status, r.operation_outcome.exit_code),
            (Status::NotInitialized, 0)
        );
        assert_eq!(r.risk_level, RiskLevel::None);
        assert_eq!(r.recommended_commands[0].argv, ["cass", "index"]);
    }

    #[test]
    fn a_signal_leaves_a_partial_document_with_the_verdict_so_far() {
        let cut = CheckRun {
            interrupted: Some(Signal::Term),
            ..run()
        };
        let r = one(vec![finding(Severity::Warn, 1)], known(), &cut);
        assert_eq!(r.operation_outcome.exit_code, 143);
        assert_eq!(r.status, Status::Warn);
        assert!(r.err.is_some() && r.body.budget.interrupted);
    }

    #[test]
    fn a_deterministic_document_holds_no_time_and_no_free_space() {
        let mut facts = known();
        facts.storage.status = StoragePressure::Critical;
        facts.storage.available_bytes = Some(12_345_678);
        let fixed = CheckRun {
            deterministic: true,
            ..run()
        };
        let pressure = Finding::new(CheckId::StoragePressure, "low", Severity::Warn, "", "");
        let results = vec![
            CheckResult::ran(CheckId::StoragePressure, vec![pressure]),
            CheckResult::ran(CheckId::ArchiveOpen, vec![]),
        ];
        let a = check_report(results.clone(), facts.clone(), &fixed, &Site::plain());
        facts.storage.available_bytes = Some(1);
        let later = CheckRun {
            elapsed_ms: 99,
            now_ms: 5,
            ..fixed.clone()
        };
        let b = check_report(results, facts, &later, &Site::plain());
        assert_eq!(
            serde_json::to_string(&a).unwrap(),
            serde_json::to_string(&b).unwrap()
        );
        assert_eq!(a.status, Status::Ok);
    }
}
