//! `archive.*`: whether rows can be read, and whether they are the rows that were written.

use std::collections::BTreeMap;

use super::context::{ArchivePlace, Context, busy};
use super::layout::by_hand;
use super::ledger;
use crate::error::{Error, ErrorKind};
use crate::model::finding::{CheckId, CheckResult, Finding, Severity, SkipReason, UnknownReason};
use crate::model::next::{Next, REPAIR};
use crate::store::archive::{
    ArchiveFinding, ArchiveReader, FindingKind, SCHEMA_VERSION, verify_deep,
};
use crate::store::{attestation, layout};

const OPEN: [CheckId; 3] = [
    CheckId::ArchiveOpen,
    CheckId::ArchiveSchema,
    CheckId::ArchiveCommits,
];
const DEEP: [CheckId; 2] = [CheckId::ArchiveIntegrity, CheckId::ArchiveRows];

/// Opens the archive the way every reading command does, and compares the end of its commit chain
/// with the coverage ledger. One row of a few tables is read.
pub(super) fn open(cx: &mut Context) -> Vec<CheckResult> {
    let Some(root) = &cx.root else {
        return Context::skip(&OPEN, SkipReason::NoArchive, None);
    };
    match cx.place {
        ArchivePlace::None => return Context::skip(&OPEN, SkipReason::NoArchive, None),
        ArchivePlace::Lost => {
            cx.archive_looked = !cx.archive_unreadable;
            return Context::skip(&OPEN, SkipReason::Blocked, None);
        }
        ArchivePlace::Generation(_) => {}
    }
    let end = ledger::end(cx);
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
        let ours = reader.schema_is_ours()?;
        Ok(Some((reader, counts, head, ours)))
    });
    match read {
        Ok(None) => Context::skip(&OPEN, SkipReason::NoArchive, None),
        Ok(Some((reader, counts, head, ours))) => {
            cx.archive_looked = true;
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
                found.push(Finding::new(
                    OPEN[0],
                    "wal-pending",
                    Severity::Info,
                    subject,
                    message,
                ));
            }
            let mut schema = Vec::new();
            if reader.generation().manifest.is_older() {
                let message = format!(
                    "the archive is of schema {}, and this version writes schema {SCHEMA_VERSION}: \
                     cass index migrates it, and keeps what it was",
                    reader.generation().manifest.schema_version
                );
                let subject = layout::manifest(reader.generation().id.as_str());
                schema.push(
                    Finding::new(OPEN[1], "schema-older", Severity::Info, subject, message)
                        .with_next(Next::Index),
                );
            }
            if !ours {
                cx.archive_damaged = true;
                cx.schema_reported = true;
                let what = "the schema text is not the one of its version";
                schema.push(
                    Finding::new(
                        OPEN[1],
                        "schema-text-changed",
                        Severity::Error,
                        "sqlite_schema",
                        what,
                    )
                    .with_next(REPAIR),
                );
            }
            let commits = ledger::commits(cx, &reader, head, end);
            vec![
                CheckResult::ran(OPEN[0], found),
                CheckResult::ran(OPEN[1], schema),
                commits,
            ]
        }
        Err(e) => refused(cx, e, &subject),
    }
}

fn refused(cx: &mut Context, e: Error, subject: &str) -> Vec<CheckResult> {
    let (code, judged) = match e.kind() {
        ErrorKind::LockBusy => return busy(&OPEN),
        ErrorKind::SchemaTooNew => ("schema-too-new", false),
        ErrorKind::ArchiveCorrupt => ("archive-corrupt", true),
        ErrorKind::ArchiveMissing => ("archive-missing", true),
        // A link or a folder in its place.
        ErrorKind::UnsafeTarget => ("archive-unreadable", true),
        // What could not be looked at may be sound.
        _ => ("archive-unreadable", false),
    };
    cx.archive_looked = judged;
    cx.archive_damaged = judged;
    cx.archive_unreadable = !judged;
    let f = match e.kind() {
        ErrorKind::UnsafeTarget => {
            let message = by_hand(e.message());
            Finding::new(OPEN[0], code, Severity::Error, subject, message)
        }
        _ if judged => {
            Finding::new(OPEN[0], code, Severity::Error, subject, e.message()).with_next(REPAIR)
        }
        _ => Finding::new(OPEN[0], code, Severity::Error, subject, e.message()),
    };
    let f = vec![f];
    if e.kind() == ErrorKind::SchemaTooNew {
        cx.late_refusal.get_or_insert(e);
    }
    vec![
        if judged {
            CheckResult::ran(OPEN[0], f)
        } else {
            CheckResult::unknown(OPEN[0], UnknownReason::Unreadable, f)
        },
        CheckResult::skipped(OPEN[1], SkipReason::Blocked, None),
        ledger::skipped(SkipReason::Blocked),
    ]
}

/// SQLite's own check beside every row hash, sum and link. Only with `--deep`.
pub(super) fn deep(cx: &mut Context) -> Vec<CheckResult> {
    let Some(root) = &cx.root else {
        return Context::skip(&DEEP, SkipReason::NoArchive, None);
    };
    if let Ok(Some(last)) = attestation::newest(root) {
        cx.facts.attestation = Some(last);
    }
    let last = cx
        .facts
        .attestation
        .as_ref()
        .filter(|a| a.clean)
        .map(|a| a.at_ms);
    match cx.place {
        ArchivePlace::None => return Context::skip(&DEEP, SkipReason::NoArchive, None),
        ArchivePlace::Lost => return Context::skip(&DEEP, SkipReason::Blocked, None),
        ArchivePlace::Generation(_) if !cx.request.deep => {
            return Context::skip(&DEEP, SkipReason::NeedsDeep, last);
        }
        ArchivePlace::Generation(_) if cx.archive_unreadable => {
            return Context::skip(&DEEP, SkipReason::Blocked, last);
        }
        ArchivePlace::Generation(_) => {}
    }
    let mut damage = Damage {
        schema_known: cx.schema_reported,
        ..Damage::default()
    };
    let verified = verify_deep(root, &|| cx.should_stop(), &mut |f| damage.add(&f));
    match verified {
        Ok(None) => Context::skip(&DEEP, SkipReason::NoArchive, None),
        Ok(Some(summary)) => {
            let (integrity, rows) = damage.findings();
            cx.archive_damaged |= !integrity.is_empty() || !rows.is_empty();
            cx.archive_verified = summary.complete && integrity.is_empty() && rows.is_empty();
            if summary.complete {
                vec![
                    CheckResult::ran(DEEP[0], integrity),
                    CheckResult::ran(DEEP[1], rows),
                ]
            } else {
                vec![
                    CheckResult::unknown(DEEP[0], cx.stop_reason(), integrity),
                    CheckResult::unknown(DEEP[1], cx.stop_reason(), rows),
                ]
            }
        }
        Err(e) if e.kind() == ErrorKind::LockBusy => busy(&DEEP),
        Err(e) => {
            cx.archive_damaged = true;
            let db = match &cx.place {
                ArchivePlace::Generation(g) => layout::archive_db(g),
                _ => String::new(),
            };
            let f = Finding::new(DEEP[0], "archive-corrupt", Severity::Error, db, e.message())
                .with_next(REPAIR);
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
    /// The schema text was reported when the archive was opened.
    schema_known: bool,
    by: BTreeMap<(FindingKind, &'static str), (u64, String)>,
}

impl Damage {
    fn add(&mut self, f: &ArchiveFinding) {
        if f.kind == FindingKind::Schema && self.schema_known {
            return;
        }
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
            let place = if table.is_empty() {
                String::new()
            } else {
                format!("{table}: ")
            };
            let more = if count > 1 {
                format!(" (the first of {count})")
            } else {
                String::new()
            };
            let f = Finding::new(
                id,
                code,
                Severity::Error,
                table,
                format!("{place}{first}{more}"),
            )
            .with_count(count)
            .with_next(REPAIR);
            if id == DEEP[0] {
                integrity.push(f)
            } else {
                rows.push(f)
            }
        }
        (integrity, rows)
    }
}
