//! `archive.*`: whether rows can be read, and whether they are the rows that were written.

use std::collections::BTreeMap;

use super::context::{ArchivePlace, Context};
use crate::error::{Error, ErrorKind};
use crate::model::finding::{
    CheckId, CheckResult, Finding, Severity, SkipReason, UnknownReason,
};
use crate::model::next::Next;
use crate::store::archive::{ArchiveFinding, ArchiveReader, FindingKind, Head, verify_deep};
use crate::store::{attestation, coverage, layout};

const OPEN: [CheckId; 3] =
    [CheckId::ArchiveOpen, CheckId::ArchiveSchema, CheckId::ArchiveCommits];
const DEEP: [CheckId; 2] = [CheckId::ArchiveIntegrity, CheckId::ArchiveRows];

/// Opens the archive the way every reading command does, and compares the end of its commit chain
/// with the coverage ledger. One row of a few tables is read.
pub(super) fn open(cx: &mut Context) -> Vec<CheckResult> {
    let Some(root) = &cx.root else {
        return Context::skip(&OPEN, SkipReason::NoArchive, None);
    };
    match cx.place {
        ArchivePlace::None => return Context::skip(&OPEN, SkipReason::NoArchive, None),
        ArchivePlace::Lost => return Context::skip(&OPEN, SkipReason::Blocked, None),
        ArchivePlace::Generation(_) => {}
    }
    let subject = match &cx.place {
        ArchivePlace::Generation(g) => layout::archive_db(g),
        _ => String::new(),
    };
    let read = ArchiveReader::open(root).and_then(|reader| {
        let Some(reader) = reader else {
            return Ok(None);
        };
        let counts = reader.counts()?;
        let head = reader.head()?;
        Ok(Some((reader, counts, head)))
    });
    match read {
        Ok(None) => Context::skip(&OPEN, SkipReason::NoArchive, None),
        Ok(Some((reader, counts, head))) => {
            cx.archive_readable = true;
            let a = &mut cx.facts.archive;
            a.conversations = Some(counts.conversations);
            a.messages = Some(counts.messages);
            a.records = Some(counts.records);
            a.commit = Some(head.commit);
            a.head = Some(head.head.to_hex());
            a.wal_bytes = std::fs::symlink_metadata(root.full(&format!("{subject}-wal")))
                .ok()
                .map(|m| m.len());
            cx.facts.coverage.conversations = Some(counts.conversations);
            let mut found = Vec::new();
            if a.wal_bytes.is_some_and(|n| n > 0) {
                let message = "committed rows wait in the WAL; they are read and counted";
                found.push(Finding::new(OPEN[0], "wal-pending", Severity::Info, subject, message));
            }
            let commits = commits(cx, &reader, head);
            vec![
                CheckResult::ran(OPEN[0], found),
                CheckResult::ran(OPEN[1], Vec::new()),
                commits,
            ]
        }
        Err(e) => refused(cx, &e, &subject),
    }
}

fn refused(cx: &mut Context, e: &Error, subject: &str) -> Vec<CheckResult> {
    let code = match e.kind() {
        ErrorKind::LockBusy => {
            return OPEN
                .iter()
                .map(|id| CheckResult::unknown(*id, UnknownReason::LockBusy, Vec::new()))
                .collect();
        }
        ErrorKind::SchemaTooNew => "schema-too-new",
        ErrorKind::ArchiveCorrupt => "archive-corrupt",
        ErrorKind::ArchiveMissing => "archive-missing",
        ErrorKind::PermissionDenied => "archive-unreadable",
        _ => "archive-unreadable",
    };
    cx.archive_damaged = e.kind() != ErrorKind::PermissionDenied;
    let f = Finding::new(OPEN[0], code, Severity::Error, subject, e.message());
    vec![
        CheckResult::ran(OPEN[0], vec![f]),
        CheckResult::skipped(OPEN[1], SkipReason::Blocked, None),
        CheckResult::skipped(OPEN[2], SkipReason::Blocked, None),
    ]
}

/// The promise of the coverage ledger's last line against the archive.
fn commits(cx: &mut Context, reader: &ArchiveReader, head: Head) -> CheckResult {
    let id = CheckId::ArchiveCommits;
    let Some(root) = &cx.root else {
        return CheckResult::skipped(id, SkipReason::NoArchive, None);
    };
    let bad = |code, message: String| {
        let f = Finding::new(id, code, Severity::Error, layout::COVERAGE, message);
        CheckResult::ran(id, vec![f])
    };
    let tail = match coverage::tail(root) {
        Ok(Some(tail)) => tail,
        Ok(None) if head.commit == 0 => return CheckResult::ran(id, Vec::new()),
        Ok(None) => {
            let message = "the coverage ledger is gone; the next index writes it anew from the archive";
            let f = Finding::new(id, "ledger-missing", Severity::Warn, layout::COVERAGE, message)
                .with_next(Next::Index);
            return CheckResult::ran(id, vec![f]);
        }
        Err(e) => return bad("ledger-damaged", e.message().to_owned()),
    };
    if Some(tail.line.archive()) != cx.facts.archive.archive_id.as_deref() {
        return bad("ledger-foreign", "the coverage ledger belongs to another archive".to_owned());
    }
    let (_, promised, promised_head) = tail.line.promise();
    match reader.holds_commit(promised, promised_head) {
        Ok(true) if head.commit > promised => {
            let message = format!(
                "the coverage ledger is {} commits behind, as a crash leaves it",
                head.commit - promised
            );
            let f = Finding::new(id, "ledger-behind", Severity::Info, layout::COVERAGE, message)
                .with_next(Next::Index);
            CheckResult::ran(id, vec![f])
        }
        Ok(true) => CheckResult::ran(id, Vec::new()),
        Ok(false) => {
            cx.commits_lost = true;
            bad(
                "lost-commits",
                format!(
                    "the archive is at commit {}, the coverage ledger promises commit {promised}; \
                     the captures are in the mirror",
                    head.commit
                ),
            )
        }
        Err(e) => {
            cx.archive_damaged = true;
            bad("archive-corrupt", e.message().to_owned())
        }
    }
}

/// SQLite's own check beside every row hash, sum and link. Only with `--deep`.
pub(super) fn deep(cx: &mut Context) -> Vec<CheckResult> {
    let Some(root) = &cx.root else {
        return Context::skip(&DEEP, SkipReason::NoArchive, None);
    };
    if let Ok(Some(last)) = attestation::newest(root) {
        cx.facts.attestation = Some(last);
    }
    let last = cx.facts.attestation.as_ref().filter(|a| a.clean).map(|a| a.at_ms);
    match cx.place {
        ArchivePlace::None => return Context::skip(&DEEP, SkipReason::NoArchive, None),
        ArchivePlace::Lost => return Context::skip(&DEEP, SkipReason::Blocked, None),
        ArchivePlace::Generation(_) if !cx.request.deep => {
            return Context::skip(&DEEP, SkipReason::NeedsDeep, last);
        }
        ArchivePlace::Generation(_) => {}
    }
    let mut damage = Damage::default();
    let verified = verify_deep(root, &|| cx.should_stop(), &mut |f| damage.add(&f));
    match verified {
        Ok(None) => Context::skip(&DEEP, SkipReason::NoArchive, None),
        Ok(Some(summary)) => {
            let (integrity, rows) = damage.findings();
            cx.archive_damaged |= !integrity.is_empty() || !rows.is_empty();
            cx.archive_verified = summary.complete && integrity.is_empty() && rows.is_empty();
            if summary.complete {
                vec![CheckResult::ran(DEEP[0], integrity), CheckResult::ran(DEEP[1], rows)]
            } else {
                vec![
                    CheckResult::unknown(DEEP[0], UnknownReason::Budget, integrity),
                    CheckResult::unknown(DEEP[1], UnknownReason::Budget, rows),
                ]
            }
        }
        Err(e) => {
            cx.archive_damaged = true;
            let f = Finding::new(DEEP[0], "archive-corrupt", Severity::Error, "", e.message());
            vec![
                CheckResult::ran(DEEP[0], vec![f]),
                CheckResult::unknown(DEEP[1], UnknownReason::Unreadable, Vec::new()),
            ]
        }
    }
}

/// Damage by kind and table: how many rows, and the first of them in words.
#[derive(Default)]
struct Damage {
    by: BTreeMap<(FindingKind, &'static str), (u64, String)>,
}

impl Damage {
    fn add(&mut self, f: &ArchiveFinding) {
        let entry = self.by.entry((f.kind, f.table)).or_insert_with(|| {
            let row = f.row.map_or_else(String::new, |r| format!("row {r}: "));
            (0, format!("{row}{}", f.what))
        });
        entry.0 += 1;
    }

    fn findings(self) -> (Vec<Finding>, Vec<Finding>) {
        let (mut integrity, mut rows) = (Vec::new(), Vec::new());
        for ((kind, table), (count, first)) in self.by {
            let (code, id) = match kind {
                FindingKind::Row => ("row-damaged", DEEP[1]),
                FindingKind::Sum => ("rows-missing-or-foreign", DEEP[1]),
                FindingKind::Chain => ("commit-chain-broken", DEEP[1]),
                FindingKind::Schema => ("schema-text-changed", DEEP[0]),
                FindingKind::Header => ("header-changed", DEEP[0]),
                FindingKind::Integrity => ("integrity", DEEP[0]),
                FindingKind::Unreadable => ("table-unreadable", DEEP[0]),
            };
            let place = if table.is_empty() { String::new() } else { format!("{table}: ") };
            let more = if count > 1 { format!(" (the first of {count})") } else { String::new() };
            let f = Finding::new(id, code, Severity::Error, table, format!("{place}{first}{more}"))
                .with_count(count);
            if id == DEEP[0] { integrity.push(f) } else { rows.push(f) }
        }
        (integrity, rows)
    }
}
