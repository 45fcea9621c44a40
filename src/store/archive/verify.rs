//! Reads the whole archive and checks everything that its rows promise about each other.
//!
//! SQLite's own check runs beside, on a connection and thread of its own: it sees the pages and
//! indexes, this sees the content. A third thread reads the messages, the largest table.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::fallible_streaming_iterator::FallibleStreamingIterator;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use super::ids::ById;
use super::row_hash::{RowHash, RowHasher};
use super::rows::{Checked, check, coverage_element, get_digest, get_u64};
use super::schema::{
    APPLICATION_ID, COMMIT_CAPTURES, COMMIT_CONVERSATIONS, COMMITS, CONVERSATIONS, MESSAGES, META,
    RECORDS, SKIPS, SOURCES, Table, text_version,
};
use super::state::{ConversationRow, SourceRow};
use super::writer::{META_NAMES, chain, read_head, refuse_newer_header};
use crate::disk::{ArchiveShared, Root};
use crate::error::{Error, ErrorKind, Result};
use crate::model::digest::{Digest, DigestSum};
use crate::store::generation::{self, Generation, Live};
use crate::store::{layout, sqlite};

/// Findings of SQLite's own check that are passed on.
const INTEGRITY_LINES: u32 = 100;
/// Damaged messages that are named one by one; the others are counted.
const LISTED: usize = 100_000;
/// Rows between two looks at the clock.
const STRIDE: u64 = 512;

/// What kind of damage it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingKind {
    /// A row's columns do not agree with its hash.
    Row,
    /// Rows are missing, foreign or stale: each agrees with its hash, the sums do not.
    Sum,
    /// The commit chain is broken.
    Chain,
    /// The schema text is not the one of its version.
    Schema,
    /// The database's header or meta rows do not agree with the manifest.
    Header,
    /// SQLite's integrity check reports it.
    Integrity,
    /// A table can't be read to its end.
    Unreadable,
}

/// One piece of damage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveFinding {
    /// What kind.
    pub kind: FindingKind,
    /// The table; empty when it is about the whole database.
    pub table: &'static str,
    /// The row, when it is about one.
    pub row: Option<i64>,
    /// One sentence without any text from a session.
    pub what: String,
}

/// How much was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifySummary {
    /// Rows read, by table.
    pub rows: BTreeMap<&'static str, u64>,
    /// Rows that do not agree with their hash, by table; tables without are left out.
    pub bad_rows: BTreeMap<&'static str, u64>,
    /// Whether everything was read, and not stopped before.
    pub complete: bool,
}

/// Checks the live archive. `None` when none was ever made.
///
/// # Errors
/// What [`generation::locate`] says; `lock-busy`; `archive-corrupt` when the file is no database
/// at all; `io`. Damage inside is not an error but a finding.
pub fn verify_deep(
    root: &Root,
    stop: &dyn Fn() -> bool,
    on_finding: &mut dyn FnMut(ArchiveFinding),
) -> Result<Option<VerifySummary>> {
    let _lock = ArchiveShared::acquire(root, Duration::from_secs(5))?;
    match generation::locate(root)? {
        Live::Never { .. } => Ok(None),
        Live::Present(live) => verify_generation(root, &live, stop, on_finding).map(Some),
    }
}

/// Checks the archive of one generation, which no connection of this process has open. The caller
/// holds the archive lock shared, or the writer lock.
///
/// # Errors
/// As [`verify_deep`].
pub fn verify_generation(
    root: &Root,
    generation: &Generation,
    stop: &dyn Fn() -> bool,
    on_finding: &mut dyn FnMut(ArchiveFinding),
) -> Result<VerifySummary> {
    let path = root.full(&layout::archive_db(generation.id.as_str()));
    verify_at(&path, generation, stop, on_finding)
}

/// The same of a database at another place: a copy of the archive of `generation`.
///
/// # Errors
/// As [`verify_deep`].
pub fn verify_at(
    path: &Path,
    generation: &Generation,
    stop: &dyn Fn() -> bool,
    on_finding: &mut dyn FnMut(ArchiveFinding),
) -> Result<VerifySummary> {
    let open = || -> Result<Connection> {
        sqlite::open_read(path)?.ok_or_else(|| {
            Error::new(
                ErrorKind::ArchiveMissing,
                format!("{} is not there", path.display()),
            )
        })
    };
    let conn = open()?;
    refuse_newer_header(&conn)?;
    let texts = same_snapshot(&conn, &open)?;
    let stopped = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let flag = Arc::clone(&stopped);
        let open = &open;
        let other = scope.spawn(move || integrity(open()?, path, flag));
        let flag = &stopped;
        let texts = texts.map(|conn| scope.spawn(move || read_messages(&conn, flag)));
        let mut v = Verifier {
            conn: &conn,
            stop,
            on_finding,
            stopped: false,
            others: &stopped,
            steps: 0,
            summary: VerifySummary::default(),
            sources: HashMap::default(),
            conversations: HashMap::default(),
        };
        v.run(generation);
        while !(other.is_finished() && texts.as_ref().is_none_or(|t| t.is_finished())) {
            if v.stopped || stop() {
                v.stopped = true;
                stopped.store(true, Ordering::Relaxed);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let lines = other.join().unwrap_or_else(|_| {
            Err(Error::new(
                ErrorKind::Internal,
                "SQLite's integrity check did not end",
            ))
        })?;
        let texts = match texts {
            Some(thread) => thread.join().map_err(|_| {
                Error::new(
                    ErrorKind::Internal,
                    "the messages were not read to their end",
                )
            })?,
            None => read_messages(&conn, &stopped),
        };
        v.stopped |= stopped.load(Ordering::Relaxed);
        v.messages(texts);
        if !v.stopped {
            v.compare_sources();
            v.compare_conversations();
            for what in lines {
                v.find(FindingKind::Integrity, "", None, what);
            }
        }
        v.summary.complete = !v.stopped;
        Ok(v.summary)
    })
}

/// A second connection that shows what the first shows. A writer may commit between the two
/// openings; where it keeps doing so there is none, and the first does all the work.
fn same_snapshot(
    conn: &Connection,
    open: &dyn Fn() -> Result<Connection>,
) -> Result<Option<Connection>> {
    // The state of a connection is fixed by its first read. A damaged archive has no head, and
    // then none that a writer could move.
    let Ok(head) = read_head(conn) else {
        return open().map(Some);
    };
    let other = open()?;
    let same = read_head(&other).is_ok_and(|now| now == head);
    Ok(same.then_some(other))
}

/// What SQLite's own check says, unless it says that all is well.
fn integrity(mut conn: Connection, path: &Path, stopped: Arc<AtomicBool>) -> Result<Vec<String>> {
    let handler = move || stopped.load(Ordering::Relaxed);
    conn.progress_handler(20_000, Some(handler))
        .map_err(|e| sqlite::failed("check", path, e))?;
    let run = || -> rusqlite::Result<Vec<String>> {
        conn.prepare(&format!("PRAGMA integrity_check({INTEGRITY_LINES})"))?
            .query_map([], |r| r.get::<_, String>(0))?
            .collect()
    };
    match run() {
        Ok(lines) => Ok(lines.into_iter().filter(|l| l != "ok").collect()),
        Err(e) if e.sqlite_error_code() == Some(rusqlite::ErrorCode::OperationInterrupted) => {
            Ok(Vec::new())
        }
        Err(e) => Ok(vec![e.to_string()]),
    }
}

#[derive(Default)]
struct SourceSeen {
    hash: RowHash,
    committed: Option<RowHash>,
    skip_count: u64,
    skips_sum: DigestSum,
    skips: u64,
    sum: DigestSum,
    epoch: u64,
    records: u64,
    bytes: u64,
    expected_records: u64,
    expected_bytes: u64,
}

struct ConversationSeen {
    row: ConversationRow,
    hash: RowHash,
    committed: Option<Touch>,
    rows: u64,
    counted: u64,
    messages: u64,
    coverage: DigestSum,
    sum: DigestSum,
}

/// What is needed of a row of `commit_conversations`.
#[derive(Clone)]
struct Touch {
    conversation: i64,
    revision: u64,
    record_count: u64,
    coverage_sum: Digest,
    rows_sum: Digest,
    conversation_hash: RowHash,
}

/// What the messages of one conversation add up to.
struct MessageSum {
    first: i64,
    messages: u64,
    sum: DigestSum,
}

/// What reading all messages found.
#[derive(Default)]
struct MessagesSeen {
    rows: u64,
    bad: Vec<i64>,
    bad_unlisted: u64,
    unreadable: Option<(Option<i64>, String)>,
    conversations: HashMap<i64, MessageSum, ById>,
}

/// Reads the largest table, on a thread of its own.
fn read_messages(conn: &Connection, stopped: &AtomicBool) -> MessagesSeen {
    let mut seen = MessagesSeen::default();
    let mut last = None;
    let mut run = |seen: &mut MessagesSeen| -> rusqlite::Result<()> {
        let sql = format!(
            "SELECT {},row_hash FROM messages ORDER BY id",
            MESSAGES.columns_sql()
        );
        let mut hasher = RowHasher::default();
        let mut statement = conn.prepare(&sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let id: i64 = row.get(0)?;
            last = Some(id);
            seen.rows += 1;
            if seen.rows.is_multiple_of(STRIDE) && stopped.load(Ordering::Relaxed) {
                return Ok(());
            }
            let checked = check(&mut hasher, &MESSAGES, row)?;
            if !checked.good {
                if seen.bad.len() < LISTED {
                    seen.bad.push(id);
                } else {
                    seen.bad_unlisted += 1;
                }
            }
            let ValueRef::Integer(conversation) = row.get_ref(1)? else {
                continue;
            };
            let sum = seen
                .conversations
                .entry(conversation)
                .or_insert(MessageSum {
                    first: id,
                    messages: 0,
                    sum: DigestSum::ZERO,
                });
            sum.messages += 1;
            checked.stored.unwrap_or_default().add_to(&mut sum.sum);
        }
        Ok(())
    };
    if let Err(e) = run(&mut seen) {
        let after = last.map_or_else(String::new, |id| format!(" after row {id}"));
        seen.unreadable = Some((last, format!("unreadable{after}: {e}")));
    }
    seen
}

struct Verifier<'a> {
    conn: &'a Connection,
    stop: &'a dyn Fn() -> bool,
    on_finding: &'a mut dyn FnMut(ArchiveFinding),
    stopped: bool,
    /// Tells the other threads.
    others: &'a AtomicBool,
    steps: u64,
    summary: VerifySummary,
    sources: HashMap<i64, SourceSeen, ById>,
    /// One entry a conversation, about 700 bytes; records and messages are streamed.
    conversations: HashMap<i64, ConversationSeen, ById>,
}

impl Verifier<'_> {
    fn run(&mut self, generation: &Generation) {
        self.header(generation);
        let genesis = self.meta(generation);
        self.sources();
        self.conversations();
        self.commits(genesis);
        self.skips();
        self.records();
    }

    fn find(
        &mut self,
        kind: FindingKind,
        table: &'static str,
        row: Option<i64>,
        what: impl Into<String>,
    ) {
        (self.on_finding)(ArchiveFinding {
            kind,
            table,
            row,
            what: what.into(),
        });
    }

    /// Reads a table in the order of its row ids; every row's hash is checked before `f` sees it.
    fn scan(
        &mut self,
        table: &'static Table,
        f: &mut dyn FnMut(&mut Self, &Row<'_>, RowHash) -> rusqlite::Result<()>,
    ) {
        if self.stopped {
            return;
        }
        let conn = self.conn;
        let (mut last, mut count) = (None, 0u64);
        let mut hasher = RowHasher::default();
        let mut run = |v: &mut Self| -> rusqlite::Result<()> {
            let sql = format!(
                "SELECT {},row_hash FROM {} ORDER BY id",
                table.columns_sql(),
                table.name
            );
            let mut statement = conn.prepare(&sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let id: i64 = row.get(0)?;
                last = Some(id);
                count += 1;
                if v.step() {
                    return Ok(());
                }
                let stored = v.row(table, id, check(&mut hasher, table, row)?);
                // A damaged row may hold anything: what it says is used where it can be.
                if f(v, row, stored).is_err() {
                    v.bad(table, id, "holds a value of a wrong kind");
                }
            }
            Ok(())
        };
        let ran = run(self);
        self.summary.rows.insert(table.name, count);
        if let Err(e) = ran {
            let after = last.map_or_else(String::new, |id| format!(" after row {id}"));
            self.find(
                FindingKind::Unreadable,
                table.name,
                last,
                format!("unreadable{after}: {e}"),
            );
        }
    }

    /// Counts a row; true when the time is up.
    fn step(&mut self) -> bool {
        self.steps += 1;
        if self.steps.is_multiple_of(STRIDE) && (self.stop)() {
            self.stopped = true;
            self.others.store(true, Ordering::Relaxed);
        }
        self.stopped
    }

    fn row(&mut self, table: &'static Table, id: i64, checked: Checked) -> RowHash {
        if !checked.good {
            self.bad(table, id, "does not agree with its hash");
        }
        checked.stored.unwrap_or_default()
    }

    fn bad(&mut self, table: &'static Table, id: i64, what: &str) {
        *self.summary.bad_rows.entry(table.name).or_default() += 1;
        self.find(FindingKind::Row, table.name, Some(id), what);
    }

    fn header(&mut self, generation: &Generation) {
        for (name, expected) in [
            ("user_version", generation.manifest.schema_version),
            ("application_id", APPLICATION_ID),
        ] {
            match self
                .conn
                .pragma_query_value(None, name, |r| r.get::<_, i64>(0))
            {
                Ok(value) if value == expected => {}
                Ok(value) => self.find(
                    FindingKind::Header,
                    "",
                    None,
                    format!("{name} is {value} where {expected} must be"),
                ),
                Err(e) => self.find(FindingKind::Unreadable, "", None, format!("{name}: {e}")),
            }
        }
        match text_version(self.conn) {
            Ok(Some(version)) if version == generation.manifest.schema_version => {}
            Ok(_) => self.find(
                FindingKind::Schema,
                "sqlite_schema",
                None,
                "the schema text is not the one of its version",
            ),
            Err(e) => self.find(
                FindingKind::Unreadable,
                "sqlite_schema",
                None,
                e.to_string(),
            ),
        }
    }

    fn meta(&mut self, generation: &Generation) -> Digest {
        let mut hasher = blake3::Hasher::new();
        let mut pairs = Vec::new();
        self.scan(&META, &mut |_, row, hash| {
            hasher.update(hash.bytes());
            pairs.push((row.get::<_, String>(1)?, row.get::<_, String>(2)?));
            Ok(())
        });
        let m = &generation.manifest;
        let values = [
            m.archive_id.clone(),
            m.named_by_meta().to_string(),
            m.created_ms.to_string(),
            m.cass_version.clone(),
        ];
        // What a copy was copied from was made at another time, and maybe by another version.
        let told = if m.origin.is_some() { 2 } else { values.len() };
        let same = pairs.len() == META_NAMES.len()
            && pairs.iter().zip(META_NAMES).all(|(p, name)| p.0 == name)
            && pairs.iter().zip(&values).take(told).all(|(p, v)| p.1 == *v);
        if !same && !self.stopped {
            self.find(
                FindingKind::Header,
                "meta",
                None,
                "does not say what manifest.json says",
            );
        }
        hasher.finalize().into()
    }

    fn sources(&mut self) {
        self.scan(&SOURCES, &mut |v, row, hash| {
            let r = SourceRow::read(row)?;
            let a = r.source.accounting;
            let shares = [a.messages, a.known, a.unknown, a.duplicate];
            v.sources.insert(
                r.id,
                SourceSeen {
                    hash,
                    skip_count: a.skip_count,
                    skips_sum: r.skips_sum,
                    epoch: r.source.epoch,
                    expected_records: shares.iter().map(|s| s.records).fold(0, u64::wrapping_add),
                    expected_bytes: shares.iter().map(|s| s.bytes).fold(0, u64::wrapping_add),
                    ..SourceSeen::default()
                },
            );
            Ok(())
        });
    }

    fn conversations(&mut self) {
        self.scan(&CONVERSATIONS, &mut |v, row, hash| {
            let row = ConversationRow::read(row)?;
            v.conversations.insert(
                row.id,
                ConversationSeen {
                    row,
                    hash,
                    committed: None,
                    rows: 0,
                    counted: 0,
                    messages: 0,
                    coverage: DigestSum::ZERO,
                    sum: DigestSum::ZERO,
                },
            );
            Ok(())
        });
    }

    /// Walks the chain: the three tables are in commit order, so they are merged as they stream.
    fn commits(&mut self, genesis: Digest) {
        if self.stopped {
            return;
        }
        if let Err(e) = self.merge_commits(genesis) {
            self.find(
                FindingKind::Unreadable,
                "commits",
                None,
                format!("unreadable: {e}"),
            );
        }
    }

    fn merge_commits(&mut self, genesis: Digest) -> rusqlite::Result<()> {
        let conn = self.conn;
        let select = |t: &Table| {
            conn.prepare(&format!(
                "SELECT {},row_hash FROM {} ORDER BY id",
                t.columns_sql(),
                t.name
            ))
        };
        let (mut a, mut b, mut c) = (
            select(&COMMITS)?,
            select(&COMMIT_CAPTURES)?,
            select(&COMMIT_CONVERSATIONS)?,
        );
        let mut commits = a.query([])?;
        let mut captures = Ahead::new(b.query([])?, &COMMIT_CAPTURES);
        let mut touched = Ahead::new(c.query([])?, &COMMIT_CONVERSATIONS);
        let (mut prev, mut number) = (genesis, 0u64);
        let mut hasher = RowHasher::default();
        while let Some(row) = commits.next()? {
            let id: i64 = row.get(0)?;
            if self.step() {
                return Ok(());
            }
            *self.summary.rows.entry(COMMITS.name).or_default() += 1;
            self.row(&COMMITS, id, check(&mut hasher, &COMMITS, row)?);
            number += 1;
            let mut body = blake3::Hasher::new();
            captures.take(self, id, &mut body)?;
            touched.take(self, id, &mut body)?;
            let body = Digest::from(body.finalize());
            let stored = (get_digest(row, 1), get_digest(row, 2), get_digest(row, 3));
            let head = stored.2.unwrap_or_default();
            let good = u64::try_from(id) == Ok(number)
                && stored.0.is_ok_and(|p| p == prev)
                && stored.1.is_ok_and(|b| b == body)
                && head == chain(&prev, number, &body);
            if !good {
                self.find(
                    FindingKind::Chain,
                    "commits",
                    Some(id),
                    "does not follow the commit before with what it touched",
                );
                number = u64::try_from(id).unwrap_or(number);
            }
            prev = head;
        }
        captures.take(self, i64::MAX, &mut blake3::Hasher::new())?;
        touched.take(self, i64::MAX, &mut blake3::Hasher::new())?;
        for orphan in [captures.orphan.take(), touched.orphan.take()]
            .into_iter()
            .flatten()
        {
            self.find(
                FindingKind::Chain,
                orphan.0,
                Some(orphan.1),
                "belongs to no commit",
            );
        }
        Ok(())
    }

    fn capture(&mut self, row: &Row<'_>) -> rusqlite::Result<()> {
        let (id, source, hash) = (row.get::<_, i64>(0)?, row.get::<_, i64>(2)?, row.get(4)?);
        match self.sources.get_mut(&source) {
            Some(s) => s.committed = Some(hash),
            None => self.find(
                FindingKind::Sum,
                "sources",
                Some(source),
                format!("is missing; row {id} of commit_captures names it"),
            ),
        }
        Ok(())
    }

    fn touch(&mut self, row: &Row<'_>) -> rusqlite::Result<()> {
        let t = Touch {
            conversation: row.get(2)?,
            revision: get_u64(row, 7)?,
            record_count: get_u64(row, 8)?,
            coverage_sum: get_digest(row, 9)?,
            rows_sum: get_digest(row, 10)?,
            conversation_hash: row.get(11)?,
        };
        let conversation = t.conversation;
        match self.conversations.get_mut(&conversation) {
            Some(c) => c.committed = Some(t),
            None => self.find(
                FindingKind::Sum,
                "conversations",
                Some(conversation),
                format!("is missing with its {} records", t.record_count),
            ),
        }
        Ok(())
    }

    fn skips(&mut self) {
        self.scan(&SKIPS, &mut |v, row, hash| {
            let (id, source) = (row.get(0)?, row.get::<_, i64>(1)?);
            match v.sources.get_mut(&source) {
                Some(s) => {
                    s.skips += 1;
                    hash.add_to(&mut s.sum);
                }
                None => v.find(FindingKind::Sum, "skips", Some(id), "its source is missing"),
            }
            Ok(())
        });
    }

    fn records(&mut self) {
        self.scan(&RECORDS, &mut |v, row, hash| {
            let (id, conversation, source): (i64, i64, i64) =
                (row.get(0)?, row.get(1)?, row.get(2)?);
            let (epoch, len) = (get_u64(row, 3)?, get_u64(row, 6)?);
            match v.sources.get_mut(&source) {
                Some(s) if s.epoch == epoch => {
                    s.records += 1;
                    s.bytes = s.bytes.wrapping_add(len);
                }
                Some(_) => {}
                None => v.find(
                    FindingKind::Sum,
                    "records",
                    Some(id),
                    "its source is missing",
                ),
            }
            let Some(c) = v.conversations.get_mut(&conversation) else {
                v.find(
                    FindingKind::Sum,
                    "records",
                    Some(id),
                    "its conversation is missing",
                );
                return Ok(());
            };
            c.rows += 1;
            hash.add_to(&mut c.sum);
            if row.get::<_, bool>(10)? {
                c.counted += 1;
                let element = coverage_element(&get_digest(row, 8)?, get_u64(row, 9)?);
                c.coverage.add(&element);
            }
            Ok(())
        });
    }

    fn messages(&mut self, seen: MessagesSeen) {
        if seen.rows > 0 {
            self.summary.rows.insert(MESSAGES.name, seen.rows);
        }
        for id in seen.bad {
            self.bad(&MESSAGES, id, "does not agree with its hash");
        }
        if seen.bad_unlisted > 0 {
            *self.summary.bad_rows.entry(MESSAGES.name).or_default() += seen.bad_unlisted;
        }
        if let Some((after, what)) = seen.unreadable {
            self.find(FindingKind::Unreadable, MESSAGES.name, after, what);
        }
        if self.stopped {
            return;
        }
        let mut orphans = Vec::new();
        for (conversation, sum) in seen.conversations {
            match self.conversations.get_mut(&conversation) {
                Some(c) => {
                    c.messages = sum.messages;
                    c.sum.add(&sum.sum.to_digest());
                }
                None => orphans.push((sum.first, sum.messages)),
            }
        }
        orphans.sort_unstable();
        for (first, n) in orphans {
            let what = format!("its conversation is missing; {n} messages have the same one");
            self.find(FindingKind::Sum, MESSAGES.name, Some(first), what);
        }
    }

    fn compare_sources(&mut self) {
        let mut all: Vec<(i64, SourceSeen)> = self.sources.drain().collect();
        all.sort_unstable_by_key(|(id, _)| *id);
        for (id, s) in all {
            if s.committed != Some(s.hash) {
                self.find(
                    FindingKind::Sum,
                    "sources",
                    Some(id),
                    "is not as its last commit left it",
                );
            }
            if s.skips != s.skip_count || s.sum != s.skips_sum {
                let what = format!(
                    "source {id}: {} skipped runs where {} were committed, or others",
                    s.skips, s.skip_count
                );
                self.find(FindingKind::Sum, "skips", None, what);
            }
            if s.records != s.expected_records || s.bytes != s.expected_bytes {
                let what = format!(
                    "source {id}: {} records of {} bytes where {} of {} were committed",
                    s.records, s.bytes, s.expected_records, s.expected_bytes
                );
                self.find(FindingKind::Sum, "records", None, what);
            }
        }
    }

    fn compare_conversations(&mut self) {
        let mut all: Vec<(i64, ConversationSeen)> = self.conversations.drain().collect();
        all.sort_unstable_by_key(|(id, _)| *id);
        for (id, c) in all {
            let sums = (c.row.coverage_sum.to_digest(), c.row.rows_sum.to_digest());
            let as_committed = c.committed.as_ref().is_some_and(|t| {
                t.conversation_hash == c.hash
                    && t.revision == c.row.public.revision
                    && t.record_count == c.row.public.record_count
                    && (t.coverage_sum, t.rows_sum) == sums
            });
            if !as_committed {
                self.find(
                    FindingKind::Sum,
                    "conversations",
                    Some(id),
                    "is not as its last commit left it",
                );
            }
            let p = &c.row.public;
            if c.rows != c.row.row_count || c.counted != p.record_count {
                let what = format!(
                    "conversation {id}: {} rows with {} keys where {} with {} were committed",
                    c.rows, c.counted, c.row.row_count, p.record_count
                );
                self.find(FindingKind::Sum, "records", None, what);
            } else if c.coverage != c.row.coverage_sum {
                let what = format!("conversation {id}: other records than were committed");
                self.find(FindingKind::Sum, "records", None, what);
            }
            if c.messages != p.message_count {
                let what = format!(
                    "conversation {id}: {} messages where {} were committed",
                    c.messages, p.message_count
                );
                self.find(FindingKind::Sum, "messages", None, what);
            }
            if c.sum != c.row.rows_sum {
                let what =
                    format!("conversation {id}: its records and messages are not those committed");
                self.find(FindingKind::Sum, "conversations", Some(id), what);
            }
        }
    }
}

/// Rows of a table in commit order, read until a commit's rows are used up.
struct Ahead<'s> {
    rows: rusqlite::Rows<'s>,
    table: &'static Table,
    /// Whether the current row is still to be used.
    pending: bool,
    begun: bool,
    hasher: RowHasher,
    orphan: Option<(&'static str, i64)>,
}

impl<'s> Ahead<'s> {
    fn new(rows: rusqlite::Rows<'s>, table: &'static Table) -> Self {
        Ahead {
            rows,
            table,
            pending: false,
            begun: false,
            hasher: RowHasher::default(),
            orphan: None,
        }
    }

    /// Feeds the hashes of the rows of `commit` into `body`. Rows of commits before it belong to
    /// none.
    fn take(
        &mut self,
        v: &mut Verifier<'_>,
        commit: i64,
        body: &mut blake3::Hasher,
    ) -> rusqlite::Result<()> {
        loop {
            if !self.pending {
                if self.begun && self.rows.get().is_none() {
                    return Ok(());
                }
                self.begun = true;
                self.rows.advance()?;
            }
            let Some(row) = self.rows.get() else {
                return Ok(());
            };
            let of = match row.get_ref(1)? {
                ValueRef::Integer(n) => n,
                _ => commit,
            };
            if of > commit {
                self.pending = true;
                return Ok(());
            }
            self.pending = false;
            let id: i64 = row.get(0)?;
            if v.step() {
                return Ok(());
            }
            *v.summary.rows.entry(self.table.name).or_default() += 1;
            let hash = v.row(self.table, id, check(&mut self.hasher, self.table, row)?);
            if of == commit {
                body.update(hash.bytes());
            } else {
                self.orphan.get_or_insert((self.table.name, id));
            }
            let used = if std::ptr::eq(self.table, &COMMIT_CAPTURES) {
                v.capture(row)
            } else {
                v.touch(row)
            };
            if used.is_err() {
                v.bad(self.table, id, "holds a value of a wrong kind");
            }
        }
    }
}
