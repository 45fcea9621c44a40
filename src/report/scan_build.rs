//! From what a scan found to the document of `doctor archive-scan`: the verdict, the size.

use super::check::{
    BudgetBlock, DetailBlock, DetailLevel, FailOnLevel, FindingsSummary, MirrorBlock, RemoteBlock,
};
use super::envelope::{OperationOutcome, OutcomeKind, Report, Site, Status};
use super::scan::{
    CandidateEntry, CodeCount, Confidence, CoverageSummary, HistoryBlock, LadderBlock, PageBlock,
    ProblemEntry, ProviderScanBlock, RecordTotals, RejectedEntry, ScanBody, ScanScope,
    SourceInventory, StateCounts,
};
use super::time::rfc3339;
use crate::doctor::scan::{ArchiveSeen, MirrorSeen, Page, ProviderScan, Scanned};
use crate::error::ErrorKind;
use crate::exit::ExitCodeKind;
use crate::model::finding::{RiskLevel, Severity};
use crate::model::next::Next;
use crate::model::provider::Provider;
use crate::model::scan::{Cursor, ListName, Verdict};
use crate::model::verdict::{AuthorityLevel, MirrorState, RemoteSync, SourceState};

/// Bytes of the compact document, without `--detail full` and with the default limit.
pub const MAX_BYTES: usize = 12 * 1024;
/// Risks that are listed; the settings have few.
const MAX_RISKS: usize = 50;
const MAX_PATH: usize = 160;

/// What was asked for.
#[derive(Debug, Clone)]
pub struct ScanRun {
    /// The harness.
    pub agent: Option<Provider>,
    /// The state of the sources that are listed, as a word.
    pub state: Option<String>,
    /// Rows of each list.
    pub limit: usize,
    /// Whether the limit was asked for.
    pub limit_named: bool,
    /// Where one list goes on.
    pub cursor: Option<Cursor>,
    /// How long the document may be.
    pub detail: DetailLevel,
    /// From which severity on the exit is `health-failure`.
    pub fail_on: FailOnLevel,
    /// Milliseconds that it could take.
    pub budget_ms: Option<u64>,
    /// Milliseconds since the program began.
    pub elapsed_ms: u64,
}

impl ScanRun {
    /// The same command with other words at its end.
    fn argv(&self, deep: bool, more: &[String]) -> Vec<String> {
        let mut argv: Vec<String> = ["cass", "doctor", "archive-scan"].map(str::to_owned).into();
        let mut put = |name: &str, value: String| argv.extend([name.to_owned(), value]);
        if let Some(agent) = self.agent {
            put("--agent", agent.as_str().to_owned());
        }
        if let Some(state) = &self.state {
            put("--state", state.clone());
        }
        if self.limit_named {
            put("--limit", self.limit.to_string());
        }
        if deep {
            argv.push("--deep".to_owned());
        }
        argv.extend(more.iter().cloned());
        argv
    }
}

/// The document.
#[must_use]
pub fn scan_report(scanned: Scanned, run: &ScanRun, site: &Site) -> Report<ScanBody> {
    let summary = summary(&scanned);
    let body = body(&scanned, run, site, summary);
    let next = next_steps(&scanned);
    let (status, outcome) = verdict(&scanned, &summary, run.fail_on);
    let mut report = Report::new(status, outcome, body).recommending(&next, site);
    report.risk_level = match status {
        Status::Error => RiskLevel::High,
        Status::Unknown => RiskLevel::Unknown,
        Status::Warn => RiskLevel::Medium,
        _ => RiskLevel::None,
    };
    if let Some(error) = &scanned.stopped {
        let (status, risk) = (report.status, report.risk_level);
        report = report.failing(error, false, site);
        // The verdict on what was seen stays; `err` says that it is partial.
        report.status = status;
        report.risk_level = risk;
    }
    if run.detail == DetailLevel::Brief && !run.limit_named {
        fit(&mut report, &scanned, run, site);
    }
    report
}

fn summary(s: &Scanned) -> FindingsSummary {
    let mut out = FindingsSummary::default();
    let mut add = |severity, count| match severity {
        Severity::Error => out.error += count,
        Severity::Warn => out.warn += count,
        Severity::Info => out.info += count,
    };
    for ((_, severity), count) in &s.codes {
        add(*severity, *count);
    }
    for problem in &s.problems {
        add(problem.severity, 1);
    }
    for risk in &s.risks {
        add(risk.severity, 1);
    }
    // Nothing brings those back, so they are no reason to worry every day.
    add(Severity::Info, s.missing.total);
    out
}

fn stopped_by(s: &Scanned, kinds: &[ErrorKind]) -> bool {
    s.stopped
        .as_ref()
        .is_some_and(|e| kinds.contains(&e.kind()))
}

fn is_blind(s: &Scanned) -> bool {
    s.stopped.is_some() || s.problems.iter().any(|p| p.blind)
}

fn verdict(
    s: &Scanned,
    found: &FindingsSummary,
    fail_on: FailOnLevel,
) -> (Status, OperationOutcome) {
    let blind = is_blind(s);
    let status = if found.error > 0 {
        Status::Error
    } else if blind {
        Status::Unknown
    } else if !s.initialized {
        Status::NotInitialized
    } else if found.warn > 0 {
        Status::Warn
    } else {
        Status::Ok
    };
    let failed = match fail_on {
        FailOnLevel::Info => found.error + found.warn + found.info > 0,
        FailOnLevel::Warn => found.error + found.warn > 0,
        FailOnLevel::Error => found.error > 0,
        FailOnLevel::Never => false,
    };
    let (kind, exit) = match (failed, blind) {
        (true, _) => (
            OutcomeKind::OkReadOnlyDiagnosed,
            ExitCodeKind::HealthFailure,
        ),
        (false, true) => (OutcomeKind::Incomplete, ExitCodeKind::Incomplete),
        (false, false) if found.error + found.warn > 0 => {
            (OutcomeKind::OkReadOnlyDiagnosed, ExitCodeKind::Success)
        }
        (false, false) => (OutcomeKind::OkNoActionNeeded, ExitCodeKind::Success),
    };
    let mut outcome = OperationOutcome::new(kind, exit);
    outcome.retryable = exit == ExitCodeKind::Incomplete;
    (status, outcome)
}

fn next_steps(s: &Scanned) -> Vec<Next> {
    let mut next = Vec::new();
    let mut put = |step: Next| {
        if !next.contains(&step) {
            next.push(step);
        }
    };
    let worst = s.codes.keys().map(|(_, severity)| *severity).max();
    if s.problems.iter().any(|p| p.severity == Severity::Error) {
        put(Next::Check);
    }
    if s.captures_unreadable > 0 || worst == Some(Severity::Error) {
        put(Next::MirrorVerifyDeep);
        put(Next::IndexFull);
    }
    let newer = |p: &ProviderScan| p.count(SourceState::NewerThanArchive) > 0;
    if s.providers.iter().any(newer) || s.captured_not_archived > 0 || !s.initialized {
        put(Next::Index);
    }
    next.truncate(3);
    next
}

fn counts(p: &ProviderScan) -> StateCounts {
    StateCounts {
        ok: p.count(SourceState::Ok),
        newer_than_archive: p.count(SourceState::NewerThanArchive),
        pruned: p.count(SourceState::Pruned),
        empty: p.count(SourceState::Empty),
        unreadable: p.count(SourceState::Unreadable),
        out_of_sight: p.out_of_sight,
    }
}

fn days(left: Option<i64>) -> Option<u64> {
    left.map(|left| u64::try_from(left).unwrap_or(0))
}

fn body(s: &Scanned, run: &ScanRun, site: &Site, findings: FindingsSummary) -> ScanBody {
    let mut by_state = StateCounts::default();
    for c in s.providers.iter().map(counts) {
        by_state.ok += c.ok;
        by_state.newer_than_archive += c.newer_than_archive;
        by_state.pruned += c.pruned;
        by_state.empty += c.empty;
        by_state.unreadable += c.unreadable;
        by_state.out_of_sight += c.out_of_sight;
    }
    let here = |p: &&ProviderScan| p.installed || counts(p).total() > 0;
    let mut problems: Vec<ProblemEntry> = s
        .problems
        .iter()
        .map(|p| ProblemEntry {
            code: p.code.to_owned(),
            severity: p.severity,
            message: site.redact(&p.message),
        })
        .collect();
    problems.sort_by(|a, b| (b.severity, &a.code).cmp(&(a.severity, &b.code)));
    let sources: Vec<_> = s
        .sources
        .rows()
        .map(|(_, row)| {
            let mut row = row.clone();
            row.path = short(site.redact(&row.path), run.detail);
            row
        })
        .collect();
    let missing: Vec<_> = s
        .missing
        .rows()
        .map(|(_, row)| {
            let mut row = row.clone();
            row.file = row.file.map(|f| short(site.redact(&f), run.detail));
            row
        })
        .collect();
    let risks: Vec<_> = s
        .risks
        .iter()
        .take(MAX_RISKS)
        .map(|risk| {
            let mut risk = risk.clone();
            risk.subject = site.redact(&risk.subject);
            risk.message = site.redact(&risk.message);
            risk
        })
        .collect();
    ScanBody {
        scan_scope: ScanScope {
            agent: run.agent,
            state: run.state.clone(),
            limit: u64::try_from(run.limit).unwrap_or(u64::MAX),
            cursor: run.cursor.as_ref().map(Cursor::to_string),
            deep: s.deep,
            detail: run.detail,
            fail_on: run.fail_on,
            complete: !is_blind(s),
            unfinished: s.unfinished.clone(),
        },
        budget: BudgetBlock {
            budget_ms: run.budget_ms,
            elapsed_ms: Some(run.elapsed_ms),
            timed_out: stopped_by(s, &[ErrorKind::BudgetExhausted]),
            interrupted: stopped_by(s, &[ErrorKind::Interrupted, ErrorKind::Terminated]),
        },
        problems,
        findings_summary: findings,
        coverage_summary: coverage(s, &by_state),
        raw_mirror: mirror(s),
        sole_copy_warnings: s.warnings.rows().map(|(_, row)| row.clone()).collect(),
        sole_copy_warnings_by_code: by_code(s),
        sole_copy_warnings_page: page(
            &s.warnings,
            ListName::Warnings,
            s.warnings.rows().count(),
            s,
            run,
            site,
        ),
        sessions: s.sessions.rows().map(|(_, row)| row.clone()).collect(),
        sessions_page: page(
            &s.sessions,
            ListName::Sessions,
            s.sessions.rows().count(),
            s,
            run,
            site,
        ),
        source_authority: ladder(s, site),
        config_exclusion_risks_total: u64::try_from(s.risks.len()).unwrap_or(u64::MAX),
        config_exclusion_risks: risks,
        remote_source_sync: RemoteBlock {
            status: RemoteSync::NotConfigured,
        },
        missing_sessions_page: page(&s.missing, ListName::Missing, missing.len(), s, run, site),
        missing_sessions: missing,
        missing_sessions_evidence: HistoryBlock {
            captured: s.history.captured,
            live: s.history.live,
            unreadable: s.history.unreadable,
            total_is_lower_bound: s.missing_over > 0,
        },
        detail: DetailBlock {
            argv: match run.detail {
                DetailLevel::Full => None,
                DetailLevel::Brief => {
                    site.argv(run.argv(s.deep, &["--detail".to_owned(), "full".to_owned()]))
                }
            },
        },
        source_inventory: SourceInventory {
            db_available: matches!(s.archive, ArchiveSeen::Open { .. }),
            total: by_state.total(),
            by_state,
            providers: s
                .providers
                .iter()
                .filter(here)
                .map(|p| ProviderScanBlock {
                    provider: p.provider,
                    state: p.state(),
                    by_state: counts(p),
                    retention_days: p.retention_days,
                    retention_configured: p.retention_configured,
                    uncaptured_sessions: p.uncaptured,
                    overdue_sessions: p.overdue,
                    damaged_sources: p.damaged,
                    days_until_first_loss: days(p.days_until_first_loss),
                    days_until_next_prune: days(p.days_until_next_prune),
                })
                .collect(),
            not_installed: s
                .providers
                .iter()
                .filter(|p| !here(p) && run.agent.is_none_or(|a| a == p.provider))
                .map(|p| p.provider)
                .collect(),
            sources_page: page(&s.sources, ListName::Sources, sources.len(), s, run, site),
            sources,
        },
    }
}

/// A long path keeps its end, which says more than its middle.
fn short(path: String, detail: DetailLevel) -> String {
    let chars = path.chars().count();
    if detail == DetailLevel::Full || chars <= MAX_PATH {
        return path;
    }
    let begin: String = path.chars().take(MAX_PATH / 3).collect();
    let end: String = path.chars().skip(chars - MAX_PATH / 3 * 2).collect();
    format!("{begin}…{end}")
}

fn page<T>(
    list: &Page<T>,
    name: ListName,
    shown: usize,
    s: &Scanned,
    run: &ScanRun,
    site: &Site,
) -> PageBlock {
    let truncated = list.goes_on(shown);
    let elsewhere = run.cursor.as_ref().is_some_and(|c| c.list != name);
    let last = list.rows().take(shown).last().map(|(key, _)| key.clone());
    let argv = match last {
        _ if !truncated => None,
        // Another list goes on here: this one is shown by the command without a cursor.
        _ if elsewhere => Some(run.argv(s.deep, &[])),
        Some(after) => {
            let cursor = Cursor { list: name, after };
            Some(run.argv(s.deep, &["--cursor".to_owned(), cursor.to_string()]))
        }
        None => Some(run.argv(s.deep, &["--detail".to_owned(), "full".to_owned()])),
    };
    PageBlock {
        total: list.total,
        shown: u64::try_from(shown).unwrap_or(u64::MAX),
        truncated,
        next_argv: argv.and_then(|argv| site.argv(argv)),
    }
}

fn by_code(s: &Scanned) -> Vec<CodeCount> {
    let mut list: Vec<CodeCount> = s
        .codes
        .iter()
        .map(|((code, severity), count)| CodeCount {
            code: *code,
            severity: *severity,
            count: *count,
        })
        .collect();
    list.sort_by(|a, b| (b.severity, a.code).cmp(&(a.severity, b.code)));
    list
}

fn coverage(s: &Scanned, by_state: &StateCounts) -> CoverageSummary {
    let t = &s.totals;
    let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    CoverageSummary {
        confidence_tier: if is_blind(s) {
            Confidence::Partial
        } else if s.deep {
            Confidence::Verified
        } else {
            Confidence::InPlace
        },
        conversations: t.conversations,
        archive_conversation_count: t.in_archive,
        archived_message_count: t.messages,
        archive_complete: t.archive_complete,
        mirror_complete: t.mirror_complete,
        live_complete: t.live_complete,
        live_possible: t.live_possible,
        records: RecordTotals {
            archived: t.archived,
            promised: t.promised,
            mirror: t.mirror,
            live: t.live,
        },
        provider_count: count(s.providers.iter().filter(|p| counts(p).total() > 0).count()),
        source_identity_count: by_state.total(),
        visible_current_source_count: s.visible.0,
        visible_current_source_bytes: s.visible.1,
        missing_current_source_count: by_state.pruned,
        current_source_newer_than_archive_count: by_state.newer_than_archive,
        remote_source_count: s.remote,
        mirror_source_count: s.captured,
        mirror_unreadable_count: s.captures_unreadable,
        db_without_raw_mirror_count: s.archived_not_captured,
        mirror_without_db_link_count: s.captured_not_archived,
        sole_copy_candidate_count: t.sole_copies,
        earliest_started_at: t.earliest_ms.and_then(rfc3339),
        latest_ended_at: t.latest_ms.and_then(rfc3339),
    }
}

fn mirror(s: &Scanned) -> MirrorBlock {
    let status = match &s.mirror {
        MirrorSeen::Never | MirrorSeen::Gone => MirrorState::Absent,
        MirrorSeen::Unknown(_) => MirrorState::Unknown,
        MirrorSeen::Open if s.captures_unreadable > 0 => MirrorState::Corrupt,
        MirrorSeen::Open if s.deep => MirrorState::Ok,
        MirrorSeen::Open => MirrorState::Unverified,
    };
    let open = s.mirror == MirrorSeen::Open;
    MirrorBlock {
        sources: open.then_some(s.captured),
        captures: open.then_some(s.captures),
        ..MirrorBlock::new(status)
    }
}

fn ladder(s: &Scanned, site: &Site) -> LadderBlock {
    let taken = s.ladder.iter().find(|c| c.verdict == Verdict::Selected);
    let unknown = matches!(s.archive, ArchiveSeen::Unknown(_)) || s.stopped.is_some();
    let level = match taken {
        // What was not looked at may be better than what was.
        _ if unknown => AuthorityLevel::Unknown,
        Some(c) => c.level,
        None => AuthorityLevel::None,
    };
    LadderBlock {
        authority_level: level,
        decision: level,
        selected_authority: taken.filter(|_| !unknown).map(|c| c.authority.to_owned()),
        candidates: s
            .ladder
            .iter()
            .map(|c| CandidateEntry {
                authority: c.authority.to_owned(),
                level: c.level,
                verdict: c.verdict,
                reason: if c.verdict == Verdict::Rejected {
                    String::new()
                } else {
                    site.redact(&c.reason)
                },
            })
            .collect(),
        rejected_authorities: s
            .ladder
            .iter()
            .filter(|c| c.verdict == Verdict::Rejected)
            .map(|c| RejectedEntry {
                authority: c.authority.to_owned(),
                reason: site.redact(&c.reason),
            })
            .collect(),
    }
}

/// Takes rows off the longest lists until the compact document fits.
fn fit(report: &mut Report<ScanBody>, s: &Scanned, run: &ScanRun, site: &Site) {
    let size = |r: &Report<ScanBody>| serde_json::to_vec(r).map_or(0, |bytes| bytes.len());
    while size(report) > MAX_BYTES {
        let b = &mut report.body;
        let lens = [
            b.sole_copy_warnings.len(),
            b.sessions.len(),
            b.source_inventory.sources.len(),
            b.missing_sessions.len(),
            b.config_exclusion_risks.len(),
        ];
        let Some(longest) = lens.iter().max().copied().filter(|len| *len > 0) else {
            if report.recommended_commands.pop().is_none() && b.detail.argv.take().is_none() {
                break;
            }
            continue;
        };
        let shown = longest - 1;
        if b.sessions.len() == longest {
            b.sessions.truncate(shown);
            b.sessions_page = page(&s.sessions, ListName::Sessions, shown, s, run, site);
        } else if b.source_inventory.sources.len() == longest {
            let inventory = &mut b.source_inventory;
            inventory.sources.truncate(shown);
            inventory.sources_page = page(&s.sources, ListName::Sources, shown, s, run, site);
        } else if b.missing_sessions.len() == longest {
            b.missing_sessions.truncate(shown);
            b.missing_sessions_page = page(&s.missing, ListName::Missing, shown, s, run, site);
        } else if b.config_exclusion_risks.len() == longest {
            b.config_exclusion_risks.truncate(shown);
        } else {
            b.sole_copy_warnings.truncate(shown);
            b.sole_copy_warnings_page = page(&s.warnings, ListName::Warnings, shown, s, run, site);
        }
    }
}
