//! The document of `index`.

use schemars::JsonSchema;
use serde::Serialize;

use super::envelope::{Body, OperationOutcome, OutcomeKind, Report, Site, Status};
use crate::error::Error;
use crate::exit::ExitCodeKind;
use crate::model::finding::Severity;
use crate::model::note::NoteCode;
use crate::model::path::PathText;
use crate::model::provider::Provider;

/// What was captured and what was archived.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct IndexBody {
    /// Whether the content of every source was compared.
    pub full: bool,
    /// The sources that were looked at.
    pub sources: IndexSources,
    /// What the mirror gained.
    pub captured: IndexCaptured,
    /// The migration of an archive that was of an older schema; null when there was none.
    pub migrated: Option<IndexMigrated>,
    /// What the archive gained; null when there was no usable archive (see `err`).
    pub archived: Option<IndexArchived>,
    /// What became of the lexical index, which `search` reads.
    pub lexical: IndexLexical,
    /// By harness, in the order of the id.
    pub providers: Vec<IndexProvider>,
    /// Sources that failed, in the order of harness and path; at most 20.
    pub failures: Vec<IndexFailure>,
    /// How many sources failed.
    pub failures_total: u64,
    /// Whether `failures` leaves some out.
    pub failures_truncated: bool,
    /// What was met that is no failure, warnings first, then in the order of harness and path; at
    /// most 20.
    pub notes: Vec<IndexNote>,
    /// How many there are.
    pub notes_total: u64,
    /// Milliseconds it took.
    pub elapsed_ms: u64,
}

impl Body for IndexBody {
    const NAME: &'static str = "index";
}

/// The sources that were looked at. The parts add up to `seen`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct IndexSources {
    /// Found on disk, excluded ones included.
    pub seen: u64,
    /// Unchanged since the last capture.
    pub unchanged: u64,
    /// Captured now.
    pub captured: u64,
    /// Not captured, because a rule says so.
    pub excluded: u64,
    /// Large databases that changed, left alone until some time has passed.
    pub deferred: u64,
    /// Could not be captured.
    pub failed: u64,
    /// Not looked at, because the run ended early.
    pub not_reached: u64,
    /// Captured once and no longer there; not part of `seen`. Their bytes are in the mirror.
    pub gone: u64,
    /// Captured once, in a place that could not be looked at now: a root that is not there or that
    /// no setting names any more, an unreadable or excluded folder; not part of `seen`. Their bytes
    /// are in the mirror.
    pub out_of_sight: u64,
}

/// What the mirror gained.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct IndexCaptured {
    /// New captures.
    pub captures: u64,
    /// Bytes of the captured versions.
    pub content_bytes: u64,
    /// Bytes that the mirror grew by.
    pub stored_bytes: u64,
    /// Captures of a source that was still moving when it was read, or without a file beside it that
    /// could not be read.
    pub moving: u64,
    /// Objects of the mirror that were damaged or missing and are whole again.
    pub healed: u64,
    /// What is wrong in the mirror, as far as a writer meets it; what a crash leaves is left out.
    pub mirror_damage: Vec<String>,
}

/// A migration that was carried out before anything was read into the archive.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct IndexMigrated {
    /// Schema version that the archive had.
    pub old_schema: i64,
    /// Schema version that it has now.
    pub new_schema: i64,
    /// The run; `doctor runs undo` plans to take it back.
    pub run_id: String,
    /// Where its receipt is, relative to the data directory.
    pub receipt: String,
    /// The generation that is kept as it was; null when it was not there to keep.
    pub backup_id: Option<String>,
}

/// What the archive gained.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct IndexArchived {
    /// The generation written to.
    pub generation: String,
    /// Whether it was made by this run.
    pub created: bool,
    /// New commits.
    pub commits: u64,
    /// Coverage lines that an earlier run had not written and this one did.
    pub backfilled: u64,
    /// New conversations.
    pub conversations_added: u64,
    /// Conversations that grew.
    pub conversations_grown: u64,
    /// New raw records, duplicates included.
    pub records: u64,
    /// New messages.
    pub messages: u64,
    /// Ranges of bytes that no parser could read; they are in the mirror.
    pub skipped: u64,
    /// Number of the last commit.
    pub commit: u64,
    /// Chain head of the last commit, hex.
    pub head: String,
}

/// What became of the lexical index.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct IndexLexical {
    /// What was done.
    pub outcome: LexicalDone,
    /// Messages that can be found now.
    pub documents: u64,
    /// Messages added by this run.
    pub added: u64,
    /// Messages taken out by this run, because newer versions of them came.
    pub removed: u64,
    /// Messages of the archive that can't be found, because they could not be read or indexed.
    pub unreadable: u64,
    /// Messages that can be found by their first 64 MiB alone.
    pub cut: u64,
    /// What kept it from being brought up to date; null when nothing did. The archive is whole.
    pub problem: Option<String>,
}

/// What was done to the lexical index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LexicalDone {
    /// Not looked at: the run was told so, or there is no usable archive.
    #[default]
    Skipped,
    /// Nothing was new.
    Unchanged,
    /// What is new was added.
    Updated,
    /// Made for the first time.
    Built,
    /// A build that an earlier run had not finished went on.
    Resumed,
    /// Made anew: another version of the program or another generation of the archive made it.
    RebuiltOutdated,
    /// Made anew: it held other messages than it should.
    RebuiltHollow,
    /// Made anew: it could not be read.
    RebuiltCorrupt,
    /// It could not be brought up to date; see `problem`.
    Failed,
}

/// The sources of one harness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct IndexProvider {
    /// The harness.
    pub provider: Provider,
    /// Sources found.
    pub seen: u64,
    /// Sources captured now.
    pub captured: u64,
    /// Messages added.
    pub messages: u64,
    /// Sources that failed.
    pub failed: u64,
}

/// A source that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct IndexFailure {
    /// The harness.
    pub provider: Provider,
    /// Where the source is.
    #[serde(flatten)]
    pub path: PathText,
    /// What went wrong.
    pub kind: crate::error::ErrorKind,
    /// One sentence for people.
    pub message: String,
    /// Whether it is in the mirror nevertheless.
    pub captured: bool,
}

/// Something met that is no failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct IndexNote {
    /// How much it matters: `warn` or `info`.
    pub severity: Severity,
    /// What it is.
    pub code: NoteCode,
    /// The harness.
    pub provider: Provider,
    /// Where.
    #[serde(flatten)]
    pub path: PathText,
    /// One sentence for people.
    pub message: String,
}

/// How many failures and how many notes a document lists.
pub const MAX_FAILURES: usize = 20;

/// The document, from what was done and what ended or limited it.
#[must_use]
pub fn index_report(mut body: IndexBody, error: Option<&Error>, site: &Site) -> Report<IndexBody> {
    body.providers.sort_by_key(|p| p.provider.as_str());
    body.failures
        .sort_by(|a, b| (a.provider.as_str(), &a.path).cmp(&(b.provider.as_str(), &b.path)));
    body.failures_total = body
        .failures_total
        .max(u64::try_from(body.failures.len()).unwrap_or(u64::MAX));
    body.failures.truncate(MAX_FAILURES);
    body.failures_truncated =
        u64::try_from(body.failures.len()).unwrap_or(u64::MAX) < body.failures_total;
    body.notes.sort_by(|a, b| {
        let key = |n: &IndexNote| (std::cmp::Reverse(n.severity), n.provider.as_str());
        (key(a), &a.path, a.code).cmp(&(key(b), &b.path, b.code))
    });
    body.notes.truncate(MAX_FAILURES);
    for failure in &mut body.failures {
        failure.message = site.redact(&failure.message);
    }
    body.lexical.problem = body.lexical.problem.map(|p| site.redact(&p));
    let archived = body.archived.as_ref();
    let changed = body.captured.captures > 0
        || body.migrated.is_some()
        || archived.is_some_and(|a| a.created || a.commits > 0 || a.backfilled > 0)
        || !matches!(
            body.lexical.outcome,
            LexicalDone::Skipped | LexicalDone::Unchanged | LexicalDone::Failed
        );
    let (status, kind) = if changed {
        (Status::Applied, OutcomeKind::Fixed)
    } else {
        (Status::NoOp, OutcomeKind::OkNoActionNeeded)
    };
    let report = Report::new(
        status,
        OperationOutcome::new(kind, ExitCodeKind::Success),
        body,
    );
    match error {
        None => report,
        Some(error) => {
            let mut report = report.failing(error, true, site);
            if changed && report.status == Status::Failed {
                // The archive can't be used, and the bytes are safe all the same.
                report.status = Status::Partial;
            }
            report
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_run_that_changed_nothing_is_a_no_op() {
        let r = index_report(IndexBody::default(), None, &Site::plain());
        assert_eq!((r.status, r.operation_outcome.exit_code), (Status::NoOp, 0));
        let mut body = IndexBody::default();
        body.captured.captures = 1;
        let r = index_report(body, None, &Site::plain());
        assert_eq!(
            (r.status, r.operation_outcome.exit_code),
            (Status::Applied, 0)
        );
    }

    #[test]
    fn a_run_that_failed_in_part_keeps_what_it_did_and_says_so() {
        let mut body = IndexBody::default();
        body.captured.captures = 3;
        let error = Error::new(ErrorKind::SourcesFailed, "1 source failed");
        let r = index_report(body, Some(&error), &Site::plain());
        assert_eq!(
            (r.status, r.operation_outcome.exit_code),
            (Status::Partial, 8)
        );
        assert!(r.err.is_some());
        assert_eq!(r.body.captured.captures, 3);
        // What was captured is captured, whatever the archive is; without it, nothing was done.
        let error = Error::new(ErrorKind::ArchiveCorrupt, "the archive is damaged");
        let mut body = IndexBody::default();
        let r = index_report(body.clone(), Some(&error), &Site::plain());
        assert_eq!(
            (r.status, r.operation_outcome.exit_code),
            (Status::Failed, 1)
        );
        body.captured.captures = 1;
        let r = index_report(body, Some(&error), &Site::plain());
        assert_eq!(
            (r.status, r.operation_outcome.exit_code),
            (Status::Partial, 1)
        );
    }
}
