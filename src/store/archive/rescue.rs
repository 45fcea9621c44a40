//! What can still be read in the file of an archive, whatever became of it.
//!
//! Nothing is believed but a row that agrees with its hash. A page that can't be read costs the
//! rows that lie in it: reading goes on behind them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use rusqlite::types::ValueRef;

use super::append::{TAKEN_BACK, UNCHANGED};
use super::ids::ById;
use super::names;
use super::paged::PageRows;
use super::readable::{Columns, Rows, SqliteRows, Unread};
use super::row_hash::{RowHash, RowHasher};
use super::schema::{CONVERSATIONS, MESSAGES, RECORDS, SKIPS, SOURCES, TABLES, Table};
use super::state::{ConversationRow, SourceRow};
use super::{PART_BITS, PART_MASK, identity};
use crate::disk::{ArchiveShared, Root};
use crate::error::Result;
use crate::model::conversation::{ArchivedSource, RecordClass};
use crate::model::digest::Digest;
use crate::model::interrupt::Interrupt;
use crate::model::provider::Provider;
use crate::model::record::{Message, Recovery, SkipReason, Span};
use crate::model::source::SourceKey;

/// Refused rows and ranges that are kept one by one; the others are counted.
const LISTED: usize = 1000;

/// Rows that are looked at together.
pub(super) const PAGE: usize = 1000;

/// An archive's file, open for reading what is left in it. Nothing is written beside it.
#[derive(Debug)]
pub struct Rescued<'l> {
    rows: Reading,
    /// By row id; without the state of the parser, which is as long as the rest of a session's rows here
    /// and is wanted once: [`Rescued::parser_state`].
    pub(super) sources: BTreeMap<i64, SourceRow>,
    pub(super) conversations: HashMap<i64, Known, ById>,
    _lock: &'l ArchiveShared,
}

/// By what the file is read.
#[derive(Debug)]
enum Reading {
    Sqlite(SqliteRows),
    Pages(Box<PageRows>),
}

impl Reading {
    fn rows(&self) -> &dyn Rows {
        match self {
            Reading::Sqlite(rows) => rows,
            Reading::Pages(rows) => &**rows,
        }
    }

    fn index_names(&self, wanted: &dyn Fn(i64) -> bool) -> Vec<(i64, String, String)> {
        match self {
            Reading::Sqlite(rows) => rows.index_names(wanted),
            Reading::Pages(rows) => rows.index_names(wanted),
        }
    }
}

/// What is known of a conversation.
#[derive(Debug, Clone)]
pub(super) struct Known {
    /// Its row; where that was refused, what its indexes say and its id proves, without facts,
    /// counts and sums.
    pub row: ConversationRow,
    /// Whether the row itself agrees with its hash.
    pub verified: bool,
}

/// What was read of one table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableTally {
    /// Rows that agree with their hash.
    pub verified: u64,
    /// Rows that can be read and do not.
    pub refused: u64,
    /// Their ids; at most 1000.
    pub refused_ids: Vec<i64>,
    /// Ranges of ids that can't be read, both ends included; an open end is `None`. At most 1000.
    /// How many rows lay there is not known.
    pub unreadable: Vec<(i64, Option<i64>)>,
    /// All of them.
    pub unreadable_ranges: u64,
}

/// What was read of an archive, by table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Every table of the archive.
    pub tables: BTreeMap<&'static str, TableTally>,
    /// Whether it was read page by page, because SQLite can't read all of it.
    pub by_pages: bool,
    /// Conversations whose own row is refused, but that their indexes prove.
    pub proven_conversations: u64,
}

impl Tally {
    /// Whether every table was read to its end and every row agrees with its hash.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        !self.by_pages
            && self
                .tables
                .values()
                .all(|t| t.refused == 0 && t.unreadable_ranges == 0)
    }
}

/// One row of a record that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RescuedKey<'a> {
    /// Public id of its conversation; `None` where nothing that can be read tells it.
    pub conversation: Option<&'a str>,
    /// Its harness, where known.
    pub provider: Option<Provider>,
    /// Hash of its raw bytes.
    pub hash: Digest,
    /// Which time the hash occurs.
    pub occurrence: u64,
    /// Whether it is the one row of its key that counts; the others are copies.
    pub counted: bool,
    /// The source it lies in; `None` where its row is refused.
    pub source: Option<SourceKey>,
    /// Capture in which it was first seen there.
    pub seq: u64,
    /// Epoch of the source.
    pub epoch: u64,
    /// Where it lies there.
    pub span: Span,
    /// Its line, counted from 1.
    pub line: u64,
}

/// A message with its number in its record.
pub(super) type Numbered = (i64, Message);

/// A row of `records`.
#[derive(Debug, Clone)]
pub(super) struct RecordRow {
    pub id: i64,
    pub conversation: i64,
    pub source: i64,
    pub epoch: u64,
    pub seq: u64,
    pub span: Span,
    pub line: u64,
    pub hash: Digest,
    pub occurrence: u64,
    pub counted: bool,
    pub class: RecordClass,
    pub duplicate_of: Option<i64>,
    pub repeats: Option<u64>,
    pub supersedes: Option<i64>,
    pub recovery: Recovery,
    pub record_type: String,
    pub native_id: Option<String>,
    pub native_parent: Option<String>,
    pub time_ms: Option<i64>,
    pub parser_version: i64,
}

impl RecordRow {
    fn read(c: &Columns<'_>) -> Option<RecordRow> {
        Some(RecordRow {
            id: c.int(0)?,
            conversation: c.int(1)?,
            source: c.int(2)?,
            epoch: c.count(3)?,
            seq: c.count(4)?,
            span: Span {
                offset: c.count(5)?,
                len: c.count(6)?,
            },
            line: c.count(7)?,
            hash: c.digest(8)?,
            occurrence: c.count(9)?,
            counted: c.int(10)? == 1,
            class: names::to_class(c.text(11)?)?,
            duplicate_of: c.opt_int(12)?,
            repeats: c.opt_count(13)?,
            supersedes: c.opt_int(14)?,
            recovery: match c.opt_text(15)? {
                None => Recovery::Clean,
                Some(word) => names::to_recovery(word)?,
            },
            record_type: c.text(16)?.to_owned(),
            native_id: c.opt_text(17)?.map(str::to_owned),
            native_parent: c.opt_text(18)?.map(str::to_owned),
            time_ms: c.opt_int(19)?,
            parser_version: c.int(20)?,
        })
    }

    /// Whether it stands for a run of records that did not change since the capture before. Such
    /// a row is no coverage key.
    pub fn is_run(&self) -> bool {
        self.is_made(UNCHANGED)
    }

    /// Whether it only says that the record it supersedes stands no more. No coverage key either.
    pub fn is_taken_back(&self) -> bool {
        self.is_made(TAKEN_BACK) && self.span.len == 0
    }

    /// Whether it stands for no record of a source.
    pub fn is_keyless(&self) -> bool {
        self.is_run() || self.is_taken_back()
    }

    fn is_made(&self, record_type: &str) -> bool {
        !self.counted
            && self.class == RecordClass::Duplicate
            && self.record_type == record_type
            && self.native_id.is_none()
            && self.native_parent.is_none()
            && self.time_ms.is_none()
    }
}

/// A row of `skips`.
#[derive(Debug, Clone)]
pub(super) struct SkipRow {
    pub source: i64,
    pub epoch: u64,
    pub seq: u64,
    pub span: Span,
    pub line: u64,
    pub reason: SkipReason,
}

impl SkipRow {
    fn read(c: &Columns<'_>) -> Option<SkipRow> {
        Some(SkipRow {
            source: c.int(1)?,
            epoch: c.count(2)?,
            seq: c.count(3)?,
            span: Span {
                offset: c.count(4)?,
                len: c.count(5)?,
            },
            line: c.count(6)?,
            reason: names::to_reason(c.text(7)?)?,
        })
    }
}

impl<'l> Rescued<'l> {
    /// Opens the archive's file at `db`, relative to `root`: of the live generation, a sealed one,
    /// a backup, or in another data directory. `None` when nothing is there. This process has no
    /// connection that writes to it. A file that SQLite can't read all of is read page by page.
    ///
    /// # Errors
    /// `permission-denied`, `io`. Damage is no error.
    pub fn open(root: &Root, db: &str, lock: &'l ArchiveShared) -> Result<Option<Rescued<'l>>> {
        match SqliteRows::open(root, db)? {
            Some(rows) => Self::of(Reading::Sqlite(rows), lock).map(Some),
            None => Self::salvage(root, db, lock),
        }
    }

    /// As [`Rescued::open`], but always page by page.
    ///
    /// # Errors
    /// As [`Rescued::open`].
    pub fn salvage(root: &Root, db: &str, lock: &'l ArchiveShared) -> Result<Option<Rescued<'l>>> {
        PageRows::open(root, db)?
            .map(|rows| Self::of(Reading::Pages(Box::new(rows)), lock))
            .transpose()
    }

    fn of(rows: Reading, lock: &'l ArchiveShared) -> Result<Rescued<'l>> {
        let mut rescued = Rescued {
            rows,
            sources: BTreeMap::new(),
            conversations: HashMap::default(),
            _lock: lock,
        };
        rescued.identities()?;
        Ok(rescued)
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        match &self.rows {
            Reading::Sqlite(rows) => rows.path(),
            Reading::Pages(rows) => rows.path(),
        }
    }

    /// Whether it is read page by page, because SQLite can't read all of it.
    #[must_use]
    pub fn is_by_pages(&self) -> bool {
        matches!(self.rows, Reading::Pages(_))
    }

    /// The sources whose rows agree with their hashes, in the order of their first commit.
    pub fn sources(&self) -> impl Iterator<Item = &ArchivedSource> {
        self.sources.values().map(|s| &s.source)
    }

    /// Streams every row of a record that agrees with its hash, copies included, in the order of
    /// the commits. Rows that stand for a run of unchanged records are left out: their records
    /// have rows of their own.
    ///
    /// # Errors
    /// `io`, and whatever `f` returns.
    pub fn coverage(&self, f: &mut dyn FnMut(RescuedKey<'_>) -> Result<()>) -> Result<()> {
        self.records(0, &mut |r| {
            if r.is_keyless() {
                return Ok(true);
            }
            f(self.key(&r))?;
            Ok(true)
        })
    }

    fn key(&self, r: &RecordRow) -> RescuedKey<'_> {
        let known = self.conversations.get(&r.conversation);
        RescuedKey {
            conversation: known.map(|k| k.row.public.id.as_str()),
            provider: known.map(|k| k.row.public.provider),
            hash: r.hash,
            occurrence: r.occurrence,
            counted: r.counted,
            source: self.sources.get(&r.source).map(|s| s.source.key),
            seq: r.seq,
            epoch: r.epoch,
            span: r.span,
            line: r.line,
        }
    }

    /// The conversations that are known, each with its public id, its harness and what that calls it.
    pub fn conversation_names(&self) -> impl Iterator<Item = (&str, Provider, &str)> {
        self.conversations.values().map(|k| {
            let c = &k.row.public;
            (c.id.as_str(), c.provider, c.native_id.as_str())
        })
    }

    /// Of a source whose row agrees with its hash: the epoch, and the line that comes next.
    #[must_use]
    pub fn next_line(&self, key: SourceKey) -> Option<(u64, u64)> {
        let row = self.sources.values().find(|s| s.source.key == key)?;
        Some((row.source.epoch, row.next_line))
    }

    /// Streams the ranges that were skipped: source, epoch, line.
    ///
    /// # Errors
    /// `io`, and whatever `f` returns.
    pub fn skipped(&self, f: &mut dyn FnMut(SourceKey, u64, u64) -> Result<()>) -> Result<()> {
        self.skips(&mut |s| match self.sources.get(&s.source) {
            Some(source) => f(source.source.key, s.epoch, s.line),
            None => Ok(()),
        })
    }

    /// Streams the records that count, whose own row agrees with its hash, and of which messages are
    /// lost, in the order of the commits.
    ///
    /// # Errors
    /// `io`, `interrupted`, and whatever `f` returns.
    pub fn incomplete(
        &self,
        interrupt: &Interrupt,
        f: &mut dyn FnMut(RescuedKey<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut from = 0;
        loop {
            interrupt.check()?;
            let mut page: Vec<RecordRow> = Vec::new();
            self.records(from, &mut |r| {
                page.push(r);
                Ok(page.len() < PAGE)
            })?;
            let (Some(first), Some(last)) = (page.first(), page.last()) else {
                return Ok(());
            };
            from = last.id.saturating_add(1);
            let bounds = (first.id << PART_BITS, (from << PART_BITS) - 1);
            // Of each record, how many messages follow each other without a gap.
            let mut parts: HashMap<i64, i64, ById> = HashMap::default();
            let mut lost: HashSet<i64, ById> = HashSet::default();
            let mut tally = TableTally::default();
            let unread = self.verified(
                &MESSAGES,
                bounds,
                &mut |c| {
                    let id = c.int(0).unwrap_or_default();
                    let next = parts.entry(id >> PART_BITS).or_insert(0);
                    if read_message(c).is_none() || id & PART_MASK != *next {
                        lost.insert(id >> PART_BITS);
                    }
                    *next += 1;
                    Ok(true)
                },
                &mut tally,
            )?;
            lost.extend(tally.refused_ids.iter().map(|id| id >> PART_BITS));
            for r in page {
                if !r.counted || r.class != RecordClass::Messages || r.is_keyless() {
                    continue;
                }
                let (begin, end) = (r.id << PART_BITS, ((r.id + 1) << PART_BITS) - 1);
                let is_lost = lost.contains(&r.id)
                    || !parts.contains_key(&r.id)
                    || unread
                        .iter()
                        .any(|(a, b)| *a <= end && b.is_none_or(|b| begin <= b));
                if is_lost {
                    f(self.key(&r))?;
                }
            }
        }
    }

    /// Reads everything and says what can be read and what not.
    ///
    /// # Errors
    /// `interrupted`, `terminated`, `io`.
    pub fn tally(&self, interrupt: &Interrupt) -> Result<Tally> {
        let proven = self.conversations.values().filter(|k| !k.verified).count();
        let mut tally = Tally {
            tables: BTreeMap::new(),
            by_pages: self.is_by_pages(),
            proven_conversations: u64::try_from(proven).unwrap_or(u64::MAX),
        };
        for table in TABLES {
            let mut seen = TableTally::default();
            let mut steps = 0u32;
            let unread = self.verified(
                table,
                (i64::MIN, i64::MAX),
                &mut |_| {
                    steps = steps.wrapping_add(1);
                    if steps.is_multiple_of(1024) {
                        interrupt.check()?;
                    }
                    Ok(true)
                },
                &mut seen,
            )?;
            seen.unreadable_ranges = u64::try_from(unread.len()).unwrap_or(u64::MAX);
            seen.unreadable = unread;
            seen.unreadable.truncate(LISTED);
            tally.tables.insert(table.name, seen);
        }
        Ok(tally)
    }

    /// Reads a range of a table; `f` sees only rows that agree with their hash.
    pub(super) fn verified(
        &self,
        table: &'static Table,
        (from, to): (i64, i64),
        f: &mut dyn FnMut(&Columns<'_>) -> Result<bool>,
        tally: &mut TableTally,
    ) -> Result<Vec<(i64, Option<i64>)>> {
        let n = table.columns.len();
        let mut hasher = RowHasher::default();
        let Unread { ranges } = self.rows.rows().scan(table, from, to, &mut |values| {
            let columns = Columns(values);
            let agrees = values
                .get(n)
                .copied()
                .and_then(RowHash::of_column)
                .is_some_and(|stored| {
                    values
                        .get(..n)
                        .is_some_and(|v| hasher.agrees(table, v, stored))
                });
            if agrees {
                tally.verified += 1;
                return f(&columns);
            }
            tally.refused += 1;
            if tally.refused_ids.len() < LISTED {
                tally.refused_ids.extend(columns.int(0));
            }
            Ok(true)
        })?;
        Ok(ranges)
    }

    /// The rows of `records` from id `from` on, by id, until `f` says false.
    pub(super) fn records(
        &self,
        from: i64,
        f: &mut dyn FnMut(RecordRow) -> Result<bool>,
    ) -> Result<()> {
        let mut tally = TableTally::default();
        self.verified(
            &RECORDS,
            (from, i64::MAX),
            &mut |c| RecordRow::read(c).map_or(Ok(true), &mut *f),
            &mut tally,
        )
        .map(drop)
    }

    /// One row of `records`.
    pub(super) fn record(&self, id: i64) -> Result<Option<RecordRow>> {
        let mut found = None;
        let mut tally = TableTally::default();
        self.verified(
            &RECORDS,
            (id, id),
            &mut |c| {
                found = RecordRow::read(c);
                Ok(true)
            },
            &mut tally,
        )?;
        Ok(found)
    }

    /// The messages of a record, each with its number in it, and whether some of them are known to
    /// be lost.
    pub(super) fn messages(&self, record: i64) -> Result<(Vec<Numbered>, bool)> {
        let mut found = Vec::new();
        let mut lost = false;
        let first = record << PART_BITS;
        let mut tally = TableTally::default();
        let unread = self.verified(
            &MESSAGES,
            (first, first | PART_MASK),
            &mut |c| {
                let place = i64::try_from(found.len()).unwrap_or(i64::MAX);
                let part = c.int(0).map(|id| id - first);
                lost |= part != Some(place);
                match part.zip(read_message(c)) {
                    Some(numbered) => found.push(numbered),
                    None => lost = true,
                }
                Ok(true)
            },
            &mut tally,
        )?;
        Ok((found, lost || tally.refused > 0 || !unread.is_empty()))
    }

    /// What was skipped, in the order of the commits.
    pub(super) fn skips(&self, f: &mut dyn FnMut(SkipRow) -> Result<()>) -> Result<()> {
        let mut tally = TableTally::default();
        self.verified(
            &SKIPS,
            (i64::MIN, i64::MAX),
            &mut |c| {
                SkipRow::read(c).map_or(Ok(()), &mut *f)?;
                Ok(true)
            },
            &mut tally,
        )
        .map(drop)
    }

    /// The state of the parser of a source where its last capture ended.
    ///
    /// # Errors
    /// `io`.
    pub(super) fn parser_state(&self, source: i64) -> Result<Vec<u8>> {
        let mut state = Vec::new();
        self.verified(
            &SOURCES,
            (source, source),
            &mut |c| {
                state = SourceRow::from_columns(c).map_or_else(Vec::new, |row| row.state);
                Ok(true)
            },
            &mut TableTally::default(),
        )?;
        Ok(state)
    }

    fn identities(&mut self) -> Result<()> {
        let mut sources = BTreeMap::new();
        let mut conversations: HashMap<i64, Known, ById> = HashMap::default();
        let all = (i64::MIN, i64::MAX);
        let mut tally = TableTally::default();
        self.verified(
            &SOURCES,
            all,
            &mut |c| {
                if let Some(mut row) = SourceRow::from_columns(c) {
                    row.state = Vec::new();
                    sources.insert(row.id, row);
                }
                Ok(true)
            },
            &mut tally,
        )?;
        self.verified(
            &CONVERSATIONS,
            all,
            &mut |c| {
                if let Some(row) = ConversationRow::from_columns(c) {
                    let verified = true;
                    conversations.insert(row.id, Known { row, verified });
                }
                Ok(true)
            },
            &mut tally,
        )?;
        self.sources = sources;
        self.conversations = conversations;
        self.prove_conversations();
        Ok(())
    }

    /// A conversation whose row is refused is named by two indexes, its public id and its native
    /// id; the one is the hash of the other with machine and harness, so that they prove each
    /// other.
    fn prove_conversations(&mut self) {
        let mut machines: Vec<(String, Provider)> = self
            .sources
            .values()
            .map(|s| (s.source.source_id.clone(), s.source.provider))
            .chain(self.conversations.values().map(|k| {
                let c = &k.row.public;
                (c.source_id.clone(), c.provider)
            }))
            .collect();
        machines.sort_by(|a, b| (&a.0, a.1.as_str()).cmp(&(&b.0, b.1.as_str())));
        machines.dedup();
        let names = self
            .rows
            .index_names(&|id| !self.conversations.contains_key(&id));
        for (id, public, native) in names {
            let proof = machines
                .iter()
                .find(|(m, p)| identity::conversation_id(m, *p, &native) == public);
            if let Some((source_id, provider)) = proof {
                let row = ConversationRow::bare(id, public, source_id, *provider, native);
                let verified = false;
                self.conversations.insert(id, Known { row, verified });
            }
        }
    }
}

pub(super) fn read_message(c: &Columns<'_>) -> Option<Message> {
    Some(Message {
        role: names::to_role(c.text(2)?)?,
        kind: names::to_kind(c.text(3)?)?,
        text: c.text(4)?.to_owned(),
        tool_name: c.opt_text(5)?.map(str::to_owned),
        call_id: c.opt_text(6)?.map(str::to_owned),
        model: c.opt_text(7)?.map(str::to_owned),
        is_error: c.opt_int(8)?.map(|n| n != 0),
    })
}

/// Whether a value is there at all: used where a row may be cut short.
pub(super) fn is_null(value: Option<&ValueRef<'_>>) -> bool {
    matches!(value, Some(ValueRef::Null))
}
