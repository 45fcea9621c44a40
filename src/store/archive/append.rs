//! One capture of one source, appended in one transaction.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{CachedStatement, Connection};

use super::ids::ById;
use super::place::{Open, Place, native_key};
use super::row_hash::{RowHash, row_hash};
use super::rows::{blob, coverage_element, get_u64, int, opt_int, opt_text, put, text, to_i64};
use super::schema::{
    COMMIT_CAPTURES, COMMIT_CONVERSATIONS, COMMITS, CONVERSATIONS, MESSAGES, RECORDS, SKIPS,
    SOURCES, Table,
};
use super::state::SourceRow;
use super::writer::{Head, NextIds, Shared, chain, insert};
use super::{PART_BITS, failed, names};
use crate::error::{Error, ErrorKind, Result};
use crate::model::conversation::{Accounting, ArchivedSource, Conversation, RecordClass};
use crate::model::digest::{Digest, DigestSum};
use crate::model::provider::Provider;
use crate::model::record::{
    Disposition, Facts, Message, ParsedRecord, Piece, Recovery, ResumePoint, SkipReason, Span,
    TakenBack,
};
use crate::model::source::SourceKey;
use crate::store::coverage::CommitLine;

/// The capture that is read.
#[derive(Debug, Clone, Copy)]
pub struct CaptureRef<'a> {
    /// The source.
    pub key: SourceKey,
    /// Its machine.
    pub source_id: &'a str,
    /// Its harness.
    pub provider: Provider,
    /// Its path.
    pub path: &'a Path,
    /// Number of the capture in the source's ledger.
    pub seq: u64,
    /// Its length in bytes, as captured.
    pub len: u64,
    /// BLAKE3 of its content.
    pub hash: Digest,
    /// Whether the pieces begin at the first byte again because what was read before is not a
    /// prefix of this capture.
    pub restart: bool,
    /// Version of the parser that reads it.
    pub parser_version: u32,
    /// How its harness writes it.
    pub kind: SourceKind,
}

/// How a harness writes a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceKind {
    /// It appends; a file about a session holds all of it, so two that differ are branches.
    Log,
    /// It rewrites a document or rows in place, and a session may lie in many of them. What is
    /// unchanged since the capture before is one row for each run of it, not one for each record.
    Store,
    /// It rewrites a document that holds a whole session: two that differ are branches, and what
    /// the newest one lacks that is known by its place alone was taken out.
    Document,
}

/// Records that lie side by side and that an earlier capture of the same source brought already.
#[derive(Debug)]
pub(super) struct Run {
    span: Span,
    line: u64,
    hasher: blake3::Hasher,
    /// Conversation and row of the first of them.
    at: usize,
    original: i64,
}

/// Type of the row of a [`Run`].
pub(super) const UNCHANGED: &str = "unchanged";
/// Type of the row by which a record is taken back.
pub(super) const TAKEN_BACK: &str = "taken-back";

/// A row that stands for no record of a source.
pub(super) struct Keyless<'a> {
    pub(super) record_type: &'a str,
    pub(super) span: Span,
    pub(super) line: u64,
    pub(super) hash: Digest,
    pub(super) duplicate_of: Option<i64>,
    pub(super) supersedes: Option<i64>,
    pub(super) parser_version: i64,
}

/// A session whose title a file beside its own changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retitled {
    /// The harness's id of the session.
    pub session: String,
    /// The title that was said there before; a session that has another one keeps it.
    pub before: Option<String>,
    /// The title.
    pub title: String,
}

/// How far a source was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// Current epoch.
    pub epoch: u64,
    /// Newest capture that was read.
    pub parsed_seq: u64,
    /// Where parsing goes on.
    pub resume: ResumePoint,
    /// Length of that capture in bytes, as captured.
    pub len: u64,
    /// BLAKE3 of its content.
    pub hash: Digest,
}

impl Cursor {
    pub(super) fn from_row(row: SourceRow) -> Cursor {
        Cursor {
            epoch: row.source.epoch,
            parsed_seq: row.source.parsed_seq,
            len: row.source.captured_len,
            hash: row.source.captured_hash,
            resume: ResumePoint {
                offset: row.next_offset,
                line: row.next_line,
                state: row.state,
            },
        }
    }
}

/// An append that is being prepared. Dropped without [`SourceAppend::finish`], it leaves nothing.
pub struct SourceAppend<'w, 'l> {
    pub(super) conn: &'w Connection,
    pub(super) shared: &'w mut Shared<'l>,
    pub(super) insert_record: CachedStatement<'w>,
    pub(super) insert_message: CachedStatement<'w>,
    pub(super) next: NextIds,
    pub(super) source: SourceRow,
    pub(super) source_is_new: bool,
    /// Epoch and row hash of the source before; `None` when it is new.
    pub(super) before: Option<(u64, RowHash)>,
    pub(super) parser_version: u32,
    pub(super) kind: SourceKind,
    /// The run of unchanged records at the end of what was appended, and the bytes of separators
    /// behind it, which belong to it if it goes on.
    pub(super) run: Option<Run>,
    pub(super) run_gap: u64,
    pub(super) runs: Vec<Run>,
    pub(super) messages_added: u64,
    pub(super) expected: u64,
    pub(super) open: Vec<Open>,
    pub(super) by_row: HashMap<i64, usize>,
    pub(super) routes: HashMap<String, usize>,
    /// Ids by place that a document holds.
    pub(super) placed: HashSet<u64, ById>,
    /// Whether the document says something that it did not say before.
    pub(super) rewritten: bool,
    /// Whether something of the capture could not be read.
    pub(super) damaged: bool,
    /// Whether the source is read again because rows of it were lost.
    pub(super) had_gap: bool,
    /// Whether it is read from its first byte because of that.
    pub(super) is_reread: bool,
    /// The unfinished tail of the capture that was read before, and its line.
    pub(super) tail: Option<(Span, u64)>,
    pub(super) done: bool,
}

impl std::fmt::Debug for SourceAppend<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceAppend")
            .field("source", &self.source.source.key)
            .field("bytes", &self.expected)
            .finish_non_exhaustive()
    }
}

impl<'w, 'l> SourceAppend<'w, 'l> {
    /// The caller has begun the transaction; it is rolled back when this fails.
    pub(super) fn new(
        conn: &'w Connection,
        shared: &'w mut Shared<'l>,
        capture: CaptureRef<'_>,
    ) -> Result<Self> {
        let prepared = || -> rusqlite::Result<_> {
            Ok((
                conn.prepare_cached(&RECORDS.insert_sql())?,
                conn.prepare_cached(&MESSAGES.insert_sql())?,
                SourceRow::find(conn, capture.key)?,
            ))
        };
        let (insert_record, insert_message, found) = match prepared() {
            Ok(p) => p,
            Err(e) => {
                let _ = conn.execute_batch("ROLLBACK");
                return Err(failed(conn, "append to", e));
            }
        };
        let mut next = shared.next;
        let before = found
            .as_ref()
            .map(|r| (r.source.epoch, r.with_values(|v| row_hash(&SOURCES, v))));
        let source_is_new = found.is_none();
        let mut source = match found {
            Some(row) => row,
            None => {
                let id = next.source;
                next.source += 1;
                new_source(id, &capture)
            }
        };
        if capture.restart && !source_is_new {
            let kept = source.source.accounting;
            source.source.epoch += 1;
            source.source.accounting = Accounting {
                message_count: kept.message_count,
                skip_count: kept.skip_count,
                ..Accounting::default()
            };
            source.next_offset = 0;
            source.next_line = 1;
        }
        let had_gap = !source_is_new && source.has_gap();
        source.source.parsed_seq = capture.seq;
        source.source.captured_len = capture.len;
        source.source.captured_hash = capture.hash;
        let tail = source
            .source
            .accounting
            .tail
            .take()
            .zip(source.tail_line.take());
        let expected = source.next_offset;
        let mut append = SourceAppend {
            conn,
            shared,
            insert_record,
            insert_message,
            next,
            source,
            source_is_new,
            before,
            parser_version: capture.parser_version,
            kind: capture.kind,
            run: None,
            run_gap: 0,
            runs: Vec::new(),
            messages_added: 0,
            expected,
            open: Vec::new(),
            by_row: HashMap::new(),
            routes: HashMap::new(),
            placed: HashSet::default(),
            rewritten: false,
            damaged: false,
            had_gap,
            is_reread: had_gap && capture.restart,
            tail,
            done: false,
        };
        if source_is_new {
            append.put_source()?;
        }
        Ok(append)
    }

    /// Appends one piece. Pieces come in file order, without gaps.
    ///
    /// # Errors
    /// `internal` when a piece does not begin where the one before ended; `no-space`, `io`,
    /// `archive-corrupt`. The append can't be finished after an error.
    pub fn piece(&mut self, piece: &Piece) -> Result<()> {
        let span = match piece {
            Piece::Record(r) => r.span,
            Piece::Separator(span) | Piece::Skipped { span, .. } => *span,
        };
        if span.offset != self.expected {
            return Err(Error::new(
                ErrorKind::Internal,
                format!(
                    "a piece of {} begins at byte {} where byte {} is next",
                    self.source.source.path.display(),
                    span.offset,
                    self.expected
                ),
            ));
        }
        self.expected = span.end();
        self.damaged |= matches!(piece, Piece::Skipped { .. });
        match piece {
            Piece::Record(record) => self.record(record),
            Piece::Separator(span) if self.run.is_some() => {
                self.run_gap += span.len;
                Ok(())
            }
            Piece::Separator(span) => {
                self.source.source.accounting.separator_bytes += span.len;
                Ok(())
            }
            Piece::Skipped {
                span,
                line,
                reason: SkipReason::TornTail,
            } => {
                self.end_run();
                self.source.source.accounting.tail = Some(*span);
                self.source.tail_line = Some(*line);
                Ok(())
            }
            Piece::Skipped { span, line, reason } => {
                self.end_run();
                self.skip(*span, *line, *reason)
                    .map_err(|e| failed(self.conn, "append to", e))
            }
        }
    }

    /// Messages that were appended so far; copies of known ones are none.
    #[must_use]
    pub fn messages_added(&self) -> u64 {
        self.messages_added
    }

    /// Commits what was appended, then writes and syncs its coverage line, or leaves that to the
    /// last commit of its batch ([`super::ArchiveWriter::acknowledge_every`]); `prev` in the line
    /// that is returned is empty. `None` when there was
    /// nothing to commit: the capture was read before and brought nothing.
    ///
    /// # Errors
    /// `no-space`, `io`: either nothing was committed, or the commit is there and its coverage
    /// line is written by the next writer. `internal` when a conversation moved meanwhile.
    pub fn finish(mut self, resume: ResumePoint, now_ms: i64) -> Result<Option<CommitLine>> {
        self.end_run();
        self.take_out_absent(resume.line)
            .and_then(|()| self.take_back_read_again(resume.line))
            .and_then(|()| self.put_runs())
            .map_err(|e| failed(self.conn, "append to", e))?;
        let accounting = &mut self.source.source.accounting;
        accounting.length = self.expected;
        let tail = accounting.tail.map_or(0, |t| t.len);
        if accounting.accounted() != accounting.length || resume.offset > self.expected {
            return Err(Error::new(
                ErrorKind::Internal,
                format!(
                    "of {} bytes of {} only {} are accounted for",
                    self.expected,
                    self.source.source.path.display(),
                    self.source.source.accounting.accounted(),
                ),
            ));
        }
        // The tail is read again when the source has grown; nothing else is.
        if resume.offset != self.expected - tail {
            return Err(Error::new(
                ErrorKind::Internal,
                format!(
                    "parsing of {} goes on at byte {}, but its pieces end at {}",
                    self.source.source.path.display(),
                    resume.offset,
                    self.expected - tail,
                ),
            ));
        }
        self.source.next_offset = resume.offset;
        self.source.next_line = resume.line;
        self.source.state = resume.state;
        let now = self.source.with_values(|v| row_hash(&SOURCES, v));
        if self.before.is_some_and(|b| b.1 == now) && self.open.iter().all(|o| o.first == 0) {
            return Ok(None);
        }
        let (line, head) = self.commit(now_ms).map_err(|e| match e {
            rusqlite::Error::StatementChangedRows(_) => Error::new(
                ErrorKind::Internal,
                "a conversation moved while records were appended to it; nothing was committed",
            ),
            e => failed(self.conn, "commit to", e),
        })?;
        self.done = true;
        self.shared.committed(&line, head, self.next)?;
        Ok(Some(line))
    }

    /// Gives sessions of a source whose capture was read before their new titles and commits, as
    /// [`SourceAppend::finish`] does. Each is a row of no bytes in its conversation. `resume` is
    /// the cursor's.
    ///
    /// # Errors
    /// As [`SourceAppend::finish`].
    pub fn retitle(
        mut self,
        titles: &[Retitled],
        resume: ResumePoint,
        now_ms: i64,
    ) -> Result<Option<CommitLine>> {
        for of in titles {
            self.retitle_one(of)
                .map_err(|e| failed(self.conn, "append to", e))?;
        }
        if self.open.iter().all(|o| o.first == 0) {
            return Ok(None);
        }
        if let Some((span, line)) = self.tail {
            self.source.source.accounting.tail = Some(span);
            self.source.tail_line = Some(line);
            self.expected = span.end();
        }
        self.finish(resume, now_ms)
    }

    fn retitle_one(&mut self, of: &Retitled) -> rusqlite::Result<()> {
        let Some(at) = self.known_route(&of.session)? else {
            return Ok(());
        };
        let row = &self.open[at].row;
        if row.public.title != of.before {
            return Ok(());
        }
        let Some(original) = self.newest_said(row.id)? else {
            return Ok(());
        };
        self.open[at].row.public.title = Some(of.title.clone());
        let run = Run {
            span: Span {
                offset: self.expected,
                len: 0,
            },
            line: self.source.next_line,
            hasher: blake3::Hasher::new(),
            at,
            original,
        };
        self.source.source.accounting.duplicate.records += 1;
        self.put_run(&run, at)
    }

    fn commit(&mut self, now_ms: i64) -> rusqlite::Result<(CommitLine, Head)> {
        let number = self.shared.head.commit.saturating_add(1);
        let mut body = blake3::Hasher::new();
        let source_hash = self.update(&SOURCES, |s, f| s.source.with_values(f))?;
        let capture = insert(
            self.conn,
            &COMMIT_CAPTURES,
            &[
                ValueRef::Integer(self.next.capture),
                int(number),
                ValueRef::Integer(self.source.id),
                int(self.source.source.parsed_seq),
                source_hash.column(),
            ],
        )?;
        self.next.capture += 1;
        body.update(capture.bytes());

        let mut conversations = Vec::new();
        for i in 0..self.open.len() {
            if self.open[i].first == 0 {
                continue;
            }
            self.check_revision(i)?;
            self.open[i].row.public.revision += 1;
            let hash = self.update(&CONVERSATIONS, |s, f| s.open[i].row.with_values(f))?;
            let o = &self.open[i];
            let (coverage, sum) = (o.row.coverage_sum.to_digest(), o.row.rows_sum.to_digest());
            let touched = insert(
                self.conn,
                &COMMIT_CONVERSATIONS,
                &[
                    ValueRef::Integer(self.next.touched),
                    int(number),
                    ValueRef::Integer(o.row.id),
                    ValueRef::Integer(self.source.id),
                    ValueRef::Integer(o.first),
                    ValueRef::Integer(o.last),
                    int(o.held),
                    int(o.row.public.revision),
                    int(o.row.public.record_count),
                    blob(&coverage),
                    blob(&sum),
                    hash.column(),
                ],
            )?;
            self.next.touched += 1;
            body.update(touched.bytes());
            conversations.push((o.row.public.id.clone(), o.row.public.record_count, coverage));
        }
        let body = Digest::from(body.finalize());
        let head = chain(&self.shared.head.head, number, &body);
        insert(
            self.conn,
            &COMMITS,
            &[
                int(number),
                blob(&self.shared.head.head),
                blob(&body),
                blob(&head),
                ValueRef::Integer(now_ms),
            ],
        )?;
        self.conn.execute_batch("COMMIT")?;
        let line = CommitLine {
            generation: self.shared.generation.id.clone(),
            archive: self.shared.generation.manifest.archive_id.clone(),
            commit: number,
            head,
            captures: vec![(self.source.source.key, self.source.source.parsed_seq)],
            conversations,
            prev: String::new(),
        };
        Ok((
            line,
            Head {
                commit: number,
                head,
            },
        ))
    }

    /// Compare-and-swap: the revision on disk is still the one that was read.
    fn check_revision(&self, i: usize) -> rusqlite::Result<()> {
        let o = &self.open[i];
        let now = self
            .conn
            .prepare_cached("SELECT revision FROM conversations WHERE id=?1")?
            .query_row([o.row.id], |r| get_u64(r, 0))?;
        if now == o.revision {
            Ok(())
        } else {
            Err(rusqlite::Error::StatementChangedRows(0))
        }
    }

    fn update(
        &self,
        table: &Table,
        values: impl Fn(
            &Self,
            &mut dyn FnMut(&[ValueRef<'_>]) -> rusqlite::Result<RowHash>,
        ) -> rusqlite::Result<RowHash>,
    ) -> rusqlite::Result<RowHash> {
        let mut statement = self.conn.prepare_cached(&table.update_sql())?;
        values(self, &mut |v| put(&mut statement, table, v))
    }

    fn put_source(&mut self) -> Result<()> {
        self.source
            .with_values(|v| insert(self.conn, &SOURCES, v))
            .map(drop)
            .map_err(|e| failed(self.conn, "append to", e))
    }

    fn skip(&mut self, span: Span, line: u64, reason: SkipReason) -> rusqlite::Result<()> {
        let hash = insert(
            self.conn,
            &SKIPS,
            &[
                ValueRef::Integer(self.next.skip),
                ValueRef::Integer(self.source.id),
                int(self.source.source.epoch),
                int(self.source.source.parsed_seq),
                int(span.offset),
                int(span.len),
                int(line),
                text(names::reason(reason)),
            ],
        )?;
        self.next.skip += 1;
        hash.add_to(&mut self.source.skips_sum);
        self.source.source.accounting.skip_count += 1;
        self.source.source.accounting.skipped_bytes += span.len;
        Ok(())
    }

    fn record(&mut self, record: &ParsedRecord) -> Result<()> {
        if let Disposition::Messages(m) = &record.disposition
            && m.len() >= 1 << PART_BITS
        {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "a record of {} holds too many messages",
                    self.source.source.path.display()
                ),
            ));
        }
        self.place_and_put(record)
            .map_err(|e| failed(self.conn, "append to", e))
    }

    /// Counts a record that an earlier capture of this source brought already.
    pub(super) fn unchanged(&mut self, at: usize, record: &ParsedRecord, original: i64) {
        let gap = std::mem::take(&mut self.run_gap);
        let run = self.run.get_or_insert_with(|| Run {
            span: Span {
                offset: record.span.offset,
                len: 0,
            },
            line: record.line,
            hasher: blake3::Hasher::new(),
            at,
            original,
        });
        run.span.len += gap + record.span.len;
        run.hasher.update(&record.hash.0);
    }

    /// Ends the run at hand; what lies behind it belongs to something else.
    pub(super) fn end_run(&mut self) {
        let accounting = &mut self.source.source.accounting;
        accounting.separator_bytes += std::mem::take(&mut self.run_gap);
        if let Some(run) = self.run.take() {
            accounting.duplicate.records += 1;
            accounting.duplicate.bytes += run.span.len;
            self.runs.push(run);
        }
    }

    /// Puts the rows of the runs. A run goes through many conversations; its row belongs to one
    /// that this append touches anyway, so that the others stay as they are.
    fn put_runs(&mut self) -> rusqlite::Result<()> {
        let touched = self.open.iter().position(|o| o.first != 0);
        for run in std::mem::take(&mut self.runs) {
            self.put_run(&run, touched.unwrap_or(run.at))?;
        }
        Ok(())
    }

    fn put_run(&mut self, run: &Run, at: usize) -> rusqlite::Result<()> {
        self.put_keyless(
            at,
            &Keyless {
                record_type: UNCHANGED,
                span: run.span,
                line: run.line,
                hash: Digest::from(run.hasher.finalize()),
                duplicate_of: Some(run.original),
                supersedes: None,
                parser_version: i64::from(self.parser_version),
            },
        )
    }

    /// Puts a row that stands for no record of a source.
    pub(super) fn put_keyless(&mut self, at: usize, row: &Keyless<'_>) -> rusqlite::Result<()> {
        let id = self.next.record;
        self.next.record += 1;
        let o = &mut self.open[at];
        let hash = put(
            &mut self.insert_record,
            &RECORDS,
            &[
                ValueRef::Integer(id),
                ValueRef::Integer(o.row.id),
                ValueRef::Integer(self.source.id),
                int(self.source.source.epoch),
                int(self.source.source.parsed_seq),
                int(row.span.offset),
                int(row.span.len),
                int(row.line),
                blob(&row.hash),
                ValueRef::Integer(1),
                ValueRef::Integer(0),
                text(names::class(RecordClass::Duplicate)),
                opt_int(row.duplicate_of),
                ValueRef::Null,
                opt_int(row.supersedes),
                ValueRef::Null,
                text(row.record_type),
                ValueRef::Null,
                ValueRef::Null,
                ValueRef::Null,
                ValueRef::Integer(row.parser_version),
            ],
        )?;
        o.put_row(id, hash);
        Ok(())
    }

    pub(super) fn put_record(
        &mut self,
        at: usize,
        record: &ParsedRecord,
        occurrence: u64,
        place: Place,
    ) -> rusqlite::Result<()> {
        let id = self.next.record;
        self.next.record += 1;
        self.keep_positions(at, record, occurrence, place)?;
        let (class, repeats) = match (&record.disposition, place) {
            (_, Place::Copy { .. } | Place::Fold(_)) => (RecordClass::Duplicate, None),
            (Disposition::DuplicateOf { offset }, _) => (RecordClass::Duplicate, Some(*offset)),
            (Disposition::Messages(_), _) => (RecordClass::Messages, None),
            (Disposition::Known | Disposition::TakesBack(_), _) => (RecordClass::Known, None),
            (Disposition::Unknown, _) => (RecordClass::Unknown, None),
        };
        self.rewritten |= !matches!(class, RecordClass::Duplicate | RecordClass::Known);
        let (duplicate_of, supersedes) = match place {
            Place::Copy { original, .. } | Place::Fold(original) => (Some(original), None),
            Place::Version(older) => (None, Some(older)),
            Place::New | Place::Restated => (None, None),
        };
        let counted = !matches!(place, Place::Copy { .. });
        let recovery = match record.recovery {
            Recovery::Clean => None,
            other => Some(names::recovery(other)),
        };
        let o = &mut self.open[at];
        let conversation = o.row.id;
        let hash = put(
            &mut self.insert_record,
            &RECORDS,
            &[
                ValueRef::Integer(id),
                ValueRef::Integer(conversation),
                ValueRef::Integer(self.source.id),
                int(self.source.source.epoch),
                int(self.source.source.parsed_seq),
                int(record.span.offset),
                int(record.span.len),
                int(record.line),
                blob(&record.hash),
                int(occurrence),
                ValueRef::Integer(i64::from(counted)),
                text(names::class(class)),
                opt_int(duplicate_of),
                opt_int(repeats.map(to_i64)),
                opt_int(supersedes),
                opt_text(recovery),
                text(&record.record_type),
                opt_text(record.native_id.as_deref()),
                opt_text(record.native_parent.as_deref()),
                opt_int(record.time_ms),
                ValueRef::Integer(i64::from(self.parser_version)),
            ],
        )?;
        o.put_row(id, hash);
        if counted {
            o.row.public.record_count += 1;
            o.row
                .coverage_sum
                .add(&coverage_element(&record.hash, occurrence));
        }
        if matches!(place, Place::Version(_) | Place::Restated) {
            o.row.public.version_count += 1;
        }
        if o.made
            && let Some(native) = &record.native_id
        {
            o.natives.insert(native_key(native));
        }
        let a = &mut self.source.source.accounting;
        let share = match class {
            RecordClass::Messages => &mut a.messages,
            RecordClass::Known => &mut a.known,
            RecordClass::Unknown => &mut a.unknown,
            RecordClass::Duplicate => &mut a.duplicate,
        };
        share.records += 1;
        share.bytes += record.span.len;
        if class != RecordClass::Duplicate {
            take_facts(&mut o.row.public, &record.facts, record.time_ms);
        }
        if class == RecordClass::Messages
            && let Disposition::Messages(messages) = &record.disposition
        {
            let parts: Vec<(i64, &Message)> = (0..).zip(messages).collect();
            self.put_parts(at, id, &parts)?;
        }
        if class == RecordClass::Known
            && let Disposition::TakesBack(what) = &record.disposition
        {
            self.take_back(at, id, record, what)?;
        }
        Ok(())
    }

    /// Puts a row for each record that `by` takes back: one that supersedes it and says nothing.
    fn take_back(
        &mut self,
        at: usize,
        by: i64,
        record: &ParsedRecord,
        what: &TakenBack,
    ) -> rusqlite::Result<()> {
        for old in self.standing_from(at, by, what)? {
            self.put_taken_back(at, by, old, record.span.end(), record.line)?;
        }
        Ok(())
    }

    /// Takes out what a document written anew holds no more, where nothing but its place tells one
    /// record from another. One that is the beginning of what it was may be cut short.
    fn take_out_absent(&mut self, line: u64) -> rusqlite::Result<()> {
        if self.kind != SourceKind::Document || !self.rewritten || self.damaged {
            return Ok(());
        }
        for at in 0..self.open.len() {
            if self.open[at].first == 0 {
                continue;
            }
            let by = self
                .conn
                .prepare_cached("SELECT coalesce(duplicate_of, id) FROM records WHERE id=?1")?
                .query_row([self.open[at].first], |r| r.get(0))?;
            for old in self.absent(at)? {
                self.put_taken_back(at, by, old, self.expected, line)?;
            }
        }
        Ok(())
    }

    /// Puts the row by which row `by` takes back row `old`.
    pub(super) fn put_taken_back(
        &mut self,
        at: usize,
        by: i64,
        old: i64,
        offset: u64,
        line: u64,
    ) -> rusqlite::Result<()> {
        self.put_keyless(
            at,
            &Keyless {
                record_type: TAKEN_BACK,
                span: Span { offset, len: 0 },
                line,
                hash: Digest::of(b""),
                duplicate_of: Some(by),
                supersedes: Some(old),
                parser_version: i64::from(self.parser_version),
            },
        )?;
        self.source.source.accounting.duplicate.records += 1;
        Ok(())
    }

    /// Puts messages of a row, each with its number in the row.
    pub(super) fn put_parts(
        &mut self,
        at: usize,
        record: i64,
        parts: &[(i64, &Message)],
    ) -> rusqlite::Result<()> {
        let o = &mut self.open[at];
        for (part, m) in parts {
            let hash = put(
                &mut self.insert_message,
                &MESSAGES,
                &[
                    ValueRef::Integer((record << PART_BITS) | part),
                    ValueRef::Integer(o.row.id),
                    text(names::role(m.role)),
                    text(names::kind(m.kind)),
                    text(&m.text),
                    opt_text(m.tool_name.as_deref()),
                    opt_text(m.call_id.as_deref()),
                    opt_text(m.model.as_deref()),
                    opt_int(m.is_error.map(i64::from)),
                ],
            )?;
            hash.add_to(&mut o.row.rows_sum);
            o.row.public.message_count += 1;
            self.source.source.accounting.message_count += 1;
            self.messages_added += 1;
        }
        Ok(())
    }
}

impl Drop for SourceAppend<'_, '_> {
    fn drop(&mut self) {
        if !self.done {
            // Fails only when SQLite has rolled back by itself.
            let _ = self.conn.execute_batch("ROLLBACK");
        }
    }
}

fn new_source(id: i64, capture: &CaptureRef<'_>) -> SourceRow {
    SourceRow {
        id,
        source: ArchivedSource {
            key: capture.key,
            source_id: capture.source_id.to_owned(),
            provider: capture.provider,
            path: capture.path.to_path_buf(),
            main_session: None,
            epoch: 1,
            parsed_seq: capture.seq,
            captured_len: capture.len,
            captured_hash: capture.hash,
            accounting: Accounting::default(),
        },
        next_offset: 0,
        next_line: 1,
        state: Vec::new(),
        tail_line: None,
        skips_sum: DigestSum::ZERO,
    }
}

fn take_facts(c: &mut Conversation, facts: &Facts, time_ms: Option<i64>) {
    for (slot, value) in [
        (&mut c.title, &facts.title),
        (&mut c.workspace, &facts.workspace),
        (&mut c.parent_session, &facts.parent_session),
        (&mut c.harness_version, &facts.harness_version),
    ] {
        if value.is_some() && slot != value {
            slot.clone_from(value);
        }
    }
    if let Some(t) = time_ms {
        c.started_ms = Some(c.started_ms.map_or(t, |s| s.min(t)));
        c.ended_ms = Some(c.ended_ms.map_or(t, |e| e.max(t)));
    }
}
