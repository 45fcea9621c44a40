//! Puts the rows that were rescued from one archive into another.
//!
//! A row says where its record was placed: conversation, branch, occurrence, what it repeats and
//! what it supersedes. That is taken over as it stands and not found out again, so that ids,
//! coverage keys and versions come out the same even where rows between them are lost. Only a key
//! that the other archive holds already becomes a copy.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::path::PathBuf;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension};

use super::append::{CaptureRef, Keyless, SourceAppend, SourceKind};
use super::ids::ById;
use super::place::Place;
use super::rescue::{Known, Numbered, RecordRow, Rescued, SkipRow};
use super::rows::{int, text, to_i64};
use super::schema::SKIPS;
use super::state::ConversationRow;
use super::writer::{ArchiveWriter, insert};
use super::{failed, names};
use crate::error::Result;
use crate::model::conversation::{Accounting, RecordClass};
use crate::model::digest::Digest;
use crate::model::interrupt::Interrupt;
use crate::model::provider::Provider;
use crate::model::record::{Disposition, Facts, Message, ParsedRecord, ResumePoint, Span};
use crate::model::source::SourceKey;

/// Rows that are read ahead.
const PAGE: usize = 1024;
/// Skipped ranges that are kept in memory; the bytes of more count as separators.
const SKIPS_MAX: usize = 1_000_000;

/// What was put into the archive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowsReplayed {
    /// Sources.
    pub sources: u64,
    /// Commits.
    pub commits: u64,
    /// Rows of records, copies included.
    pub records: u64,
    /// Coverage keys that the archive did not hold.
    pub keys: u64,
    /// Messages.
    pub messages: u64,
    /// Records with a message that is known to be lost: they were put without it.
    pub incomplete: u64,
    /// Rows whose conversation nothing tells; they were left out.
    pub unplaced: u64,
    /// Sources of which records, messages or skipped ranges are missing: their next capture is read from the
    /// first byte.
    pub with_gaps: u64,
    /// Sources whose row is lost: their records are under a path that says so.
    pub unnamed: u64,
}

/// Puts every rescued row of the sources that are `wanted` into `archive`, in the order of the
/// commits that brought them, each commit as one. A source whose row is lost is asked for by the
/// key of the path that stands for it, `unknown/source-<row id>`.
///
/// # Errors
/// `interrupted` and `terminated`, with what was committed before kept; `no-space`, `io`,
/// `archive-corrupt` when it is `archive` that is damaged.
pub fn replay_rows(
    archive: &mut ArchiveWriter<'_>,
    rescued: &Rescued<'_>,
    wanted: &dyn Fn(SourceKey) -> bool,
    now_ms: i64,
    interrupt: &Interrupt,
) -> Result<RowsReplayed> {
    let mut replay = Replay {
        rescued,
        now_ms,
        skips: skips(rescued)?,
        progress: HashMap::new(),
        lacking: HashSet::new(),
        is_late: false,
        out: RowsReplayed::default(),
    };
    let mut feed = Feed::of(rescued, None);
    replay.every_record(archive, &mut feed, wanted, interrupt)?;
    // What was captured last may have brought no record.
    for (id, row) in &rescued.sources {
        interrupt.check()?;
        let group = Group {
            source: *id,
            epoch: row.source.epoch,
            seq: row.source.parsed_seq,
        };
        let finished = replay.progress.get(id).is_some_and(|p| p.finished);
        if !finished
            && wanted(row.source.key)
            && let Some(identity) = replay.identity(&group, None)
        {
            replay.group(archive, &identity, group, &mut feed)?;
        }
    }
    replay.out.sources = u64::try_from(replay.progress.len()).unwrap_or(u64::MAX);
    replay.out.unnamed = replay
        .progress
        .keys()
        .fold(0, |n, id| n + u64::from(!rescued.sources.contains_key(id)));
    Ok(replay.out)
}

/// Which records are put.
#[derive(Debug, Clone, Copy)]
pub(super) struct Only<'a> {
    /// Those of these conversations, by row id;
    pub conversations: &'a HashSet<i64, ById>,
    /// but not these.
    pub but: &'a HashSet<i64, ById>,
}

impl Only<'_> {
    fn takes(&self, r: &RecordRow) -> bool {
        !r.is_run() && self.conversations.contains(&r.conversation) && !self.but.contains(&r.id)
    }
}

/// Puts these records alone, behind everything else. Gives how many, by conversation.
///
/// # Errors
/// As [`replay_rows`].
pub(super) fn replay_only(
    archive: &mut ArchiveWriter<'_>,
    rescued: &Rescued<'_>,
    wanted: &dyn Fn(SourceKey) -> bool,
    only: Only<'_>,
    now_ms: i64,
    interrupt: &Interrupt,
) -> Result<BTreeMap<i64, u64>> {
    let mut replay = Replay {
        rescued,
        now_ms,
        skips: Skips::new(),
        progress: HashMap::new(),
        lacking: HashSet::new(),
        is_late: true,
        out: RowsReplayed::default(),
    };
    let mut feed = Feed::of(rescued, Some(only));
    replay.every_record(archive, &mut feed, wanted, interrupt)?;
    let mut put = BTreeMap::new();
    rescued.records(0, &mut |r| {
        let is_put = only.takes(&r) && !r.is_keyless() && replay.progress.contains_key(&r.source);
        if is_put {
            *put.entry(r.conversation).or_insert(0) += 1;
        }
        Ok(true)
    })?;
    Ok(put)
}

/// The rows of one capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Group {
    source: i64,
    epoch: u64,
    seq: u64,
}

impl Group {
    fn of(r: &RecordRow) -> Group {
        Group {
            source: r.source,
            epoch: r.epoch,
            seq: r.seq,
        }
    }
}

/// Records in the order of their ids.
struct Feed<'a, 'l> {
    rescued: &'a Rescued<'l>,
    only: Option<Only<'a>>,
    page: VecDeque<RecordRow>,
    next: i64,
    end: bool,
}

impl<'a, 'l> Feed<'a, 'l> {
    fn of(rescued: &'a Rescued<'l>, only: Option<Only<'a>>) -> Self {
        Feed {
            rescued,
            only,
            page: VecDeque::new(),
            next: 0,
            end: false,
        }
    }

    fn peek(&mut self) -> Result<Option<&RecordRow>> {
        if self.page.is_empty() && !self.end {
            let page = &mut self.page;
            let only = self.only;
            self.rescued.records(self.next, &mut |r| {
                if only.is_none_or(|only| only.takes(&r)) {
                    page.push_back(r);
                }
                Ok(page.len() < PAGE)
            })?;
            self.end = self.page.len() < PAGE;
            if let Some(last) = self.page.back() {
                self.next = last.id.saturating_add(1);
            }
        }
        Ok(self.page.front())
    }

    /// The next record if it is of this capture.
    fn next_of(&mut self, group: Group) -> Result<Option<RecordRow>> {
        match self.peek()? {
            Some(r) if Group::of(r) == group => Ok(self.page.pop_front()),
            _ => Ok(None),
        }
    }
}

type Skips = BTreeMap<(i64, u64, u64), Vec<SkipRow>>;

fn skips(rescued: &Rescued<'_>) -> Result<Skips> {
    let mut all = Skips::new();
    let mut count = 0usize;
    rescued.skips(&mut |s| {
        count += 1;
        if count <= SKIPS_MAX {
            all.entry((s.source, s.epoch, s.seq)).or_default().push(s);
        }
        Ok(())
    })?;
    Ok(all)
}

struct Identity {
    key: SourceKey,
    source_id: String,
    provider: Provider,
    path: PathBuf,
}

/// How far a source of the other archive was put here.
#[derive(Debug, Clone, Copy)]
struct Progress {
    epoch: u64,
    /// Whether the archive had the source before.
    was_there: bool,
    finished: bool,
}

struct Replay<'a, 'l> {
    rescued: &'a Rescued<'l>,
    now_ms: i64,
    skips: Skips,
    progress: HashMap<i64, Progress>,
    /// Sources of which a record was put without some of its messages.
    lacking: HashSet<i64>,
    /// Whether what is put comes behind everything else, so that no source ends in it.
    is_late: bool,
    out: RowsReplayed,
}

impl Replay<'_, '_> {
    fn every_record(
        &mut self,
        archive: &mut ArchiveWriter<'_>,
        feed: &mut Feed<'_, '_>,
        wanted: &dyn Fn(SourceKey) -> bool,
        interrupt: &Interrupt,
    ) -> Result<()> {
        while let Some(first) = feed.peek()? {
            interrupt.check()?;
            let group = Group::of(first);
            match self.identity(&group, Some(first)) {
                Some(identity) if wanted(identity.key) => {
                    self.group(archive, &identity, group, feed)?;
                }
                Some(_) => while feed.next_of(group)?.is_some() {},
                // Another record of the capture may tell.
                None => self.out.unplaced += u64::from(feed.next_of(group)?.is_some()),
            }
        }
        Ok(())
    }

    fn identity(&self, group: &Group, record: Option<&RecordRow>) -> Option<Identity> {
        if let Some(s) = self.rescued.sources.get(&group.source) {
            return Some(Identity {
                key: s.source.key,
                source_id: s.source.source_id.clone(),
                provider: s.source.provider,
                path: s.source.path.clone(),
            });
        }
        let c = &self
            .rescued
            .conversations
            .get(&record?.conversation)?
            .row
            .public;
        let path = PathBuf::from(format!("unknown/source-{}", group.source));
        Some(Identity {
            key: SourceKey::derive(&c.source_id, c.provider, &path),
            source_id: c.source_id.clone(),
            provider: c.provider,
            path,
        })
    }

    fn group(
        &mut self,
        archive: &mut ArchiveWriter<'_>,
        identity: &Identity,
        group: Group,
        feed: &mut Feed<'_, '_>,
    ) -> Result<()> {
        let rescued = self.rescued;
        let before = archive.cursor(identity.key)?;
        let so_far = self.progress.get(&group.source).copied();
        let was_there = so_far.map_or(before.is_some(), |p| p.was_there);
        let restart = so_far.map_or(before.is_some(), |p| p.epoch != group.epoch);
        let row = rescued
            .sources
            .get(&group.source)
            .filter(|_| !self.is_late)
            .filter(|s| (s.source.epoch, s.source.parsed_seq) == (group.epoch, group.seq));
        let mut append = archive.begin(CaptureRef {
            key: identity.key,
            source_id: &identity.source_id,
            provider: identity.provider,
            path: &identity.path,
            seq: group.seq,
            len: row.map_or(0, |s| s.source.captured_len),
            hash: row.map_or(Digest::default(), |s| s.source.captured_hash),
            restart,
            parser_version: 0,
            kind: SourceKind::Log,
        })?;
        let source = &mut append.source.source;
        if !was_there && group.epoch > source.epoch {
            source.epoch = group.epoch;
        }
        if source.main_session.is_none() {
            source.main_session = match self.rescued.sources.get(&group.source) {
                Some(s) => s.source.main_session.clone(),
                None => feed
                    .peek()?
                    .and_then(|r| self.rescued.conversations.get(&r.conversation))
                    .map(|k| k.row.public.native_id.clone()),
            };
        }
        let begin = append.expected;
        let accounted = append.source.source.accounting.accounted();
        let mut end = begin;
        while let Some(r) = feed.next_of(group)? {
            end = end.max(r.span.end());
            self.record(&mut append, &r)?;
        }
        for skip in self.skips_up_to(group) {
            if skip.epoch == group.epoch {
                end = end.max(skip.span.end());
            }
            put_skip(&mut append, &skip, skip.epoch == group.epoch)
                .map_err(|e| failed(append.conn, "append to", e))?;
        }
        let tail = row.and_then(|s| s.source.accounting.tail);
        let tail_len = tail.map_or(0, |t| t.len);
        if let Some(s) = row {
            end = end.max(s.source.accounting.length.saturating_sub(tail_len));
        }
        // What no row speaks of is line ends, or lost.
        let a = &mut append.source.source.accounting;
        let covered = a.accounted().saturating_sub(accounted);
        end = end.max(begin.saturating_add(covered));
        a.separator_bytes += end - begin - covered;
        a.tail = tail.map(|t| Span {
            offset: end,
            len: t.len,
        });
        append.expected = end.saturating_add(tail_len);
        let resume = match row {
            Some(s) => {
                a.length = append.expected;
                // A capture that is not read yet may have what is missing.
                if self.lacking.contains(&group.source) || !same_bytes(a, &s.source.accounting) {
                    append.source.set_gap();
                    self.out.with_gaps += 1;
                }
                append.source.tail_line = s.tail_line;
                ResumePoint {
                    offset: end,
                    line: s.next_line,
                    state: rescued.parser_state(group.source)?,
                }
            }
            None => {
                // More of it may come.
                append.source.set_gap();
                ResumePoint {
                    offset: end,
                    line: 1,
                    state: Vec::new(),
                }
            }
        };
        self.out.messages += append.messages_added();
        let line = append.finish(resume, self.now_ms)?;
        self.out.commits += u64::from(line.is_some());
        self.progress.insert(
            group.source,
            Progress {
                epoch: group.epoch,
                was_there,
                finished: row.is_some(),
            },
        );
        Ok(())
    }

    /// The skipped ranges of this capture, and those of earlier ones that brought no record.
    fn skips_up_to(&mut self, group: Group) -> Vec<SkipRow> {
        let due: Vec<(i64, u64, u64)> = self
            .skips
            .range((group.source, 0, 0)..=(group.source, group.epoch, group.seq))
            .map(|(key, _)| *key)
            .collect();
        let mut all: Vec<SkipRow> = Vec::new();
        for key in due {
            all.append(&mut self.skips.remove(&key).unwrap_or_default());
        }
        all
    }

    fn record(&mut self, append: &mut SourceAppend<'_, '_>, r: &RecordRow) -> Result<()> {
        let Some(known) = self.rescued.conversations.get(&r.conversation) else {
            self.out.unplaced += 1;
            return Ok(());
        };
        append.parser_version = u32::try_from(r.parser_version).unwrap_or(0);
        let conn = append.conn;
        let fail = |e| failed(conn, "append to", e);
        let at = conversation(append, self.rescued, known).map_err(fail)?;
        let here = append.open[at].row.id;
        if r.is_run() {
            let original = self.mapped(conn, r.duplicate_of)?;
            put_run(append, at, r, original).map_err(fail)?;
            self.out.records += 1;
            return Ok(());
        }
        if r.is_taken_back() {
            let by = self.mapped(conn, r.duplicate_of)?;
            let old = self.mapped(conn, r.supersedes)?;
            // Where what was taken back is lost there is nothing to say of it, and once is enough.
            if let (Some(by), Some(old)) = (by, old)
                && !append.is_superseded(old).map_err(fail)?
            {
                append
                    .put_taken_back(at, by, old, r.span.offset, r.line)
                    .map_err(fail)?;
                self.out.records += 1;
            }
            return Ok(());
        }
        let place = match key_in(conn, here, &r.hash, r.occurrence).map_err(fail)? {
            Some((key, original)) => Place::Copy { original, key },
            None => self.place(conn, here, r)?,
        };
        let (disposition, left) = self.disposition(r, place)?;
        let record = ParsedRecord {
            span: r.span,
            line: r.line,
            hash: r.hash,
            recovery: r.recovery,
            session: known.row.public.native_id.clone(),
            native_id: r.native_id.clone(),
            native_parent: r.native_parent.clone(),
            record_type: r.record_type.clone(),
            time_ms: r.time_ms,
            disposition,
            facts: Facts::default(),
        };
        // What was taken back and is said again names nothing that it supersedes, and has the id.
        let place = match (place, &record.native_id) {
            (Place::New, Some(native))
                if append
                    .find_native(at, native, &record)
                    .map_err(fail)?
                    .is_some() =>
            {
                Place::Restated
            }
            (place, _) => place,
        };
        if let Place::Copy { original, .. } = place
            && append.shared.incomplete.contains(&original)
        {
            let (parts, lost) = self.rescued.messages(r.duplicate_of.unwrap_or(r.id))?;
            if lost || parts.is_empty() {
                self.lacking.insert(r.source);
            } else {
                let messages: Vec<Message> = parts.into_iter().map(|(_, m)| m).collect();
                append.complete(at, original, &messages).map_err(fail)?;
            }
        }
        let id = append.next.record;
        append
            .put_record(at, &record, r.occurrence, place)
            .map_err(fail)?;
        if let Some(left) = left {
            let left: Vec<(i64, &Message)> = left.iter().map(|(part, m)| (*part, m)).collect();
            append.put_parts(at, id, &left).map_err(fail)?;
            append.shared.incomplete.insert(id);
            self.lacking.insert(r.source);
        }
        self.out.records += 1;
        self.out.keys += u64::from(!matches!(place, Place::Copy { .. }));
        Ok(())
    }

    /// What the record was to its conversation, as far as what it was that to is here.
    fn place(&self, conn: &Connection, here: i64, r: &RecordRow) -> Result<Place> {
        if r.counted
            && r.duplicate_of.is_some()
            && let Some(original) = self.mapped(conn, r.duplicate_of)?
        {
            return Ok(Place::Fold(original));
        }
        let mut older = r.supersedes;
        if !r.counted
            && let Some(original) = r.duplicate_of
        {
            // The copy stands for the record that is not here.
            older = self.rescued.record(original)?.and_then(|o| o.supersedes);
        }
        if let Some(older) = self.mapped(conn, older)? {
            let same = conn
                .prepare_cached("SELECT conversation=?2 FROM records WHERE id=?1")
                .and_then(|mut s| s.query_row((older, here), |row| row.get::<_, bool>(0)))
                .map_err(|e| failed(conn, "read", e))?;
            if same {
                return Ok(Place::Version(older));
            }
        }
        Ok(Place::New)
    }

    /// The row here that holds what row `id` of the other archive holds.
    fn mapped(&self, conn: &Connection, id: Option<i64>) -> Result<Option<i64>> {
        let Some(id) = id else {
            return Ok(None);
        };
        let Some(row) = self.rescued.record(id)? else {
            return Ok(None);
        };
        let Some(known) = self.rescued.conversations.get(&row.conversation) else {
            return Ok(None);
        };
        let find = || -> rusqlite::Result<Option<i64>> {
            let Some(there) = ConversationRow::by_public(conn, &known.row.public.id)? else {
                return Ok(None);
            };
            Ok(key_in(conn, there.id, &row.hash, row.occurrence)?.map(|(_, original)| original))
        };
        find().map_err(|e| failed(conn, "read", e))
    }

    /// What the record says; where some of its messages are lost, none of them, and beside it those
    /// that are left, each with its number.
    fn disposition(
        &mut self,
        r: &RecordRow,
        place: Place,
    ) -> Result<(Disposition, Option<Vec<Numbered>>)> {
        // A copy or a folded record has no messages; what it is matters where it has no id.
        let bare = matches!(place, Place::Copy { .. } | Place::Fold(_));
        if bare && r.native_id.is_some() {
            return Ok((Disposition::Known, None));
        }
        let (class, holder, repeats) = match (r.class, r.duplicate_of) {
            (RecordClass::Duplicate, Some(original)) => match self.rescued.record(original)? {
                Some(o) if o.class == RecordClass::Duplicate && o.repeats.is_none() => {
                    (RecordClass::Known, o.id, None)
                }
                Some(o) => (o.class, o.id, o.repeats),
                // Its row is lost; its messages may be there.
                None => (RecordClass::Messages, original, None),
            },
            (class, _) => (class, r.id, r.repeats),
        };
        let said = match class {
            RecordClass::Known => Disposition::Known,
            RecordClass::Unknown => Disposition::Unknown,
            RecordClass::Duplicate => Disposition::DuplicateOf {
                offset: repeats.unwrap_or(r.span.offset),
            },
            RecordClass::Messages if bare => Disposition::Messages(Vec::new()),
            RecordClass::Messages => {
                let (parts, lost) = self.rescued.messages(holder)?;
                if parts.is_empty() && holder != r.id && !lost {
                    return Ok((Disposition::Known, None));
                }
                if lost || parts.is_empty() {
                    self.out.incomplete += 1;
                    return Ok((Disposition::Messages(Vec::new()), Some(parts)));
                }
                Disposition::Messages(parts.into_iter().map(|(_, m)| m).collect())
            }
        };
        Ok((said, None))
    }
}

/// Whether as many records and bytes of each kind are accounted for; a record that is a copy here
/// need not have been one there.
fn same_bytes(a: &Accounting, b: &Accounting) -> bool {
    let sums = |a: &Accounting| {
        let shares = [a.messages, a.known, a.unknown, a.duplicate];
        let records = shares.iter().fold(0u64, |n, s| n.wrapping_add(s.records));
        let bytes = shares.iter().fold(0u64, |n, s| n.wrapping_add(s.bytes));
        (records, bytes, a.skipped_bytes, a.separator_bytes, a.length)
    };
    sums(a) == sums(b)
}

/// The conversation as the append knows it, made if need be.
pub(super) fn conversation(
    append: &mut SourceAppend<'_, '_>,
    rescued: &Rescued<'_>,
    known: &Known,
) -> rusqlite::Result<usize> {
    let c = &known.row.public;
    // While an append lasts, a public id is one conversation.
    if let Some(at) = append.routes.get(&c.id) {
        return Ok(*at);
    }
    let at = match ConversationRow::by_public(append.conn, &c.id)? {
        Some(row) => append.open_row(row.id)?,
        None => {
            let parent = match known
                .row
                .branch_of
                .and_then(|p| rescued.conversations.get(&p))
            {
                Some(parent) => ConversationRow::by_public(append.conn, &parent.row.public.id)?,
                None => None,
            };
            let mut public = c.clone();
            (public.revision, public.record_count) = (0, 0);
            (public.version_count, public.message_count) = (0, 0);
            public.coverage_sum = Digest::default();
            append.make(public, parent.map(|p| p.id), known.row.branch_hash)?
        }
    };
    append.routes.insert(c.id.clone(), at);
    let here = &mut append.open[at].row.public;
    for (slot, value) in [
        (&mut here.title, &c.title),
        (&mut here.workspace, &c.workspace),
        (&mut here.parent_session, &c.parent_session),
        (&mut here.harness_version, &c.harness_version),
    ] {
        if slot.is_none() {
            slot.clone_from(value);
        }
    }
    Ok(at)
}

/// The row that holds a coverage key, and the row that holds its messages.
fn key_in(
    conn: &Connection,
    conversation: i64,
    hash: &Digest,
    occurrence: u64,
) -> rusqlite::Result<Option<(i64, i64)>> {
    conn.prepare_cached(
        "SELECT id, coalesce(duplicate_of, id) FROM records WHERE conversation=?1 \
         AND hash=?2 AND occurrence=?3 AND counted=1",
    )?
    .query_row((conversation, hash.0, to_i64(occurrence)), |r| {
        Ok((r.get(0)?, r.get(1)?))
    })
    .optional()
}

/// Puts the row of a run of unchanged records as it was.
fn put_run(
    append: &mut SourceAppend<'_, '_>,
    at: usize,
    r: &RecordRow,
    original: Option<i64>,
) -> rusqlite::Result<()> {
    append.put_keyless(
        at,
        &Keyless {
            record_type: &r.record_type,
            span: r.span,
            line: r.line,
            hash: r.hash,
            duplicate_of: original,
            supersedes: None,
            parser_version: r.parser_version,
        },
    )?;
    let a = &mut append.source.source.accounting;
    a.duplicate.records += 1;
    a.duplicate.bytes += r.span.len;
    Ok(())
}

fn put_skip(
    append: &mut SourceAppend<'_, '_>,
    skip: &SkipRow,
    current: bool,
) -> rusqlite::Result<()> {
    let epoch = if current {
        append.source.source.epoch
    } else {
        skip.epoch
    };
    let hash = insert(
        append.conn,
        &SKIPS,
        &[
            ValueRef::Integer(append.next.skip),
            ValueRef::Integer(append.source.id),
            int(epoch),
            int(skip.seq),
            int(skip.span.offset),
            int(skip.span.len),
            int(skip.line),
            text(names::reason(skip.reason)),
        ],
    )?;
    append.next.skip += 1;
    hash.add_to(&mut append.source.skips_sum);
    append.source.source.accounting.skip_count += 1;
    if current {
        append.source.source.accounting.skipped_bytes += skip.span.len;
    }
    Ok(())
}
