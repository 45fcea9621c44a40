//! The archive as a reader sees it: one snapshot, no trace.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row};

use super::append::Cursor;
use super::listing::{Listing, WHERE};
use super::row_hash::RowHasher;
use super::rows::{check_from, get_digest, get_u64};
use super::schema::{CONVERSATIONS, MESSAGES, RECORDS, SOURCES, text_version};
use super::state::{ConversationRow, SourceRow};
use super::writer::{Head, check_header, commit_line, holds_commit, read_head};
use super::{PART_BITS, failed, names};
use crate::disk::{ArchiveShared, Root};
use crate::error::{Error, ErrorKind, Result};
use crate::model::conversation::{
    ArchivedMessage, ArchivedRecord, ArchivedSkip, ArchivedSource, Conversation, RecordClass,
};
use crate::model::digest::Digest;
use crate::model::plan::Coverage;
use crate::model::record::{Message, Recovery, Span};
use crate::model::source::SourceKey;
use crate::store::coverage::{CommitLine, Tail};
use crate::store::generation::{self, Generation, GenerationId, Live, Manifest};
use crate::store::{layout, sqlite};

/// How long a reader waits for a checkpoint to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// The live archive, open for reading. What it shows does not change while it is open.
#[derive(Debug)]
pub struct ArchiveReader {
    // Closed before the lock goes.
    pub(super) conn: Connection,
    generation: Generation,
    _lock: Option<ArchiveShared>,
}

/// Totals over the whole archive, from the rows of sources and conversations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sources.
    pub sources: u64,
    /// Conversations, branches included.
    pub conversations: u64,
    /// Branches.
    pub branches: u64,
    /// Coverage keys: distinct records of conversations.
    pub records: u64,
    /// Messages.
    pub messages: u64,
}

impl From<Counts> for Coverage {
    fn from(counts: Counts) -> Coverage {
        Coverage {
            conversations: counts.conversations,
            records: counts.records,
            messages: counts.messages,
        }
    }
}

/// How the archive stands to the end of the coverage ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Agreement {
    /// The last line is about the last commit.
    Equal,
    /// A crash kept the lines of the last commits from being written; the next writer writes them.
    Ahead {
        /// Commits without a line.
        commits: u64,
    },
    /// The ledger promises a commit that the archive does not hold: commits were lost.
    Lost {
        /// The promised commit.
        promised: u64,
        /// The archive's last commit.
        found: u64,
    },
    /// The ledger ends in another generation or archive.
    Elsewhere {
        /// The generation it ends in.
        generation: GenerationId,
    },
    /// There is no ledger, or no whole line in it.
    NoLedger {
        /// The archive's last commit.
        found: u64,
    },
}

impl ArchiveReader {
    /// Opens the live archive; `None` when none was ever made. Holds the archive lock shared.
    ///
    /// # Errors
    /// What [`generation::locate`] says; `archive-corrupt` when the database or its header is
    /// damaged; `lock-busy` when a checkpoint takes long; `io`.
    pub fn open(root: &Root) -> Result<Option<Self>> {
        let lock = ArchiveShared::acquire(root, PATIENCE)?;
        let mut first = true;
        loop {
            let generation = match generation::locate(root) {
                Ok(Live::Present(generation)) => generation,
                Ok(Live::Never { .. }) => return Ok(None),
                // A generation may be replaced and reclaimed between two looks.
                Err(e) if first && e.kind() == ErrorKind::ArchiveMissing => {
                    first = false;
                    continue;
                }
                Err(e) => return Err(e),
            };
            let path = root.full(&layout::archive_db(generation.id.as_str()));
            match sqlite::open_read(&path)? {
                Some(conn) => {
                    check_header(&conn, &generation.manifest)?;
                    conn.execute_batch("BEGIN")
                        .map_err(|e| failed(&conn, "read", e))?;
                    return Ok(Some(ArchiveReader {
                        conn,
                        generation,
                        _lock: Some(lock),
                    }));
                }
                None if first => first = false,
                None => {
                    return Err(Error::new(
                        ErrorKind::ArchiveMissing,
                        format!("{} is not there", path.display()),
                    ));
                }
            }
        }
    }

    /// Opens the database `db` (relative to the data directory) of a generation that is not the
    /// live one: a copy, or a superseded one. No checkpoint ever changes it, so no lock is taken;
    /// the caller sees to it that it is not removed meanwhile.
    ///
    /// # Errors
    /// `archive-missing` when it is not there; `archive-corrupt` when it or its header is damaged;
    /// `io`.
    pub fn open_aside(root: &Root, db: &str, manifest: &Manifest) -> Result<Self> {
        let path = root.full(db);
        let conn = sqlite::open_read(&path)?.ok_or_else(|| {
            Error::new(
                ErrorKind::ArchiveMissing,
                format!("{} is not there", path.display()),
            )
        })?;
        check_header(&conn, manifest)?;
        conn.execute_batch("BEGIN")
            .map_err(|e| failed(&conn, "read", e))?;
        Ok(ArchiveReader {
            conn,
            generation: Generation {
                id: manifest.generation.clone(),
                manifest: manifest.clone(),
            },
            _lock: None,
        })
    }

    /// The generation that is read.
    #[must_use]
    pub fn generation(&self) -> &Generation {
        &self.generation
    }

    /// The end of the commit chain. One row is read.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`.
    pub fn head(&self) -> Result<Head> {
        read_head(&self.conn)
    }

    /// Whether the archive holds this commit with this chain head. One row is read.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`.
    pub fn holds_commit(&self, commit: u64, head: Digest) -> Result<bool> {
        holds_commit(&self.conn, commit, head)
    }

    /// What the coverage ledger must say about commit `number`, `prev` left empty.
    ///
    /// # Errors
    /// `archive-corrupt` when there is no such commit or it is damaged; `io`.
    pub fn commit_line(&self, number: u64) -> Result<CommitLine> {
        commit_line(&self.conn, &self.generation, number)
    }

    /// Whether the schema text is the one of its version.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`.
    pub fn schema_is_ours(&self) -> Result<bool> {
        text_version(&self.conn)
            .map(|version| version == Some(self.generation.manifest.schema_version))
            .map_err(|e| self.failed(e))
    }

    /// Compares the archive with the end of the coverage ledger. The cost does not grow with either.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`.
    pub fn agreement(&self, tail: Option<&Tail>) -> Result<Agreement> {
        let found = self.head()?.commit;
        let Some(tail) = tail else {
            return Ok(Agreement::NoLedger { found });
        };
        let (generation, promised, head) = tail.line.promise();
        let here = &self.generation.manifest;
        if generation != &here.generation || tail.line.archive() != here.archive_id {
            return Ok(Agreement::Elsewhere {
                generation: generation.clone(),
            });
        }
        if !self.holds_commit(promised, head)? {
            return Ok(Agreement::Lost { promised, found });
        }
        Ok(match found.saturating_sub(promised) {
            0 => Agreement::Equal,
            commits => Agreement::Ahead { commits },
        })
    }

    /// When the last commit was made, milliseconds since the Unix epoch.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`.
    pub fn last_commit_ms(&self) -> Result<Option<i64>> {
        self.conn
            .prepare_cached("SELECT at_ms FROM commits ORDER BY id DESC LIMIT 1")
            .and_then(|mut s| s.query_row([], |r| r.get(0)).optional())
            .map_err(|e| self.failed(e))
    }

    /// Totals; the cost grows with the number of sources and conversations alone.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`.
    pub fn counts(&self) -> Result<Counts> {
        let read = || -> rusqlite::Result<Counts> {
            let sources = self
                .conn
                .query_row("SELECT count(*) FROM sources", [], |r| get_u64(r, 0))?;
            self.conn.query_row(
                "SELECT count(*), count(branch_of), coalesce(sum(record_count),0), \
                 coalesce(sum(message_count),0) FROM conversations",
                [],
                |r| {
                    Ok(Counts {
                        sources,
                        conversations: get_u64(r, 0)?,
                        branches: get_u64(r, 1)?,
                        records: get_u64(r, 2)?,
                        messages: get_u64(r, 3)?,
                    })
                },
            )
        };
        read().map_err(|e| self.failed(e))
    }

    /// Lists conversations and returns how many there are in all.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`, and whatever `f` returns.
    pub fn conversations(
        &self,
        listing: &Listing,
        f: &mut dyn FnMut(Conversation) -> Result<()>,
    ) -> Result<u64> {
        let total = self
            .conn
            .query_row(
                &format!("SELECT count(*) FROM conversations {WHERE}"),
                rusqlite::params_from_iter(listing.params()),
                |r| get_u64(r, 0),
            )
            .map_err(|e| self.failed(e))?;
        let sql = format!(
            "SELECT {} FROM conversations {WHERE} ORDER BY ended_ms DESC, public_id LIMIT ?7 OFFSET ?8",
            CONVERSATIONS.columns_sql()
        );
        let params = rusqlite::params_from_iter(listing.paged());
        self.each(&sql, params, ConversationRow::read, &mut |row| {
            f(self.public(row)?)
        })?;
        Ok(total)
    }

    /// The branches of a conversation, oldest first.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`.
    pub fn branches(&self, id: &str) -> Result<Vec<Conversation>> {
        let parent = self.row_id(id)?;
        let sql = format!(
            "SELECT {} FROM conversations WHERE native_id=(SELECT native_id FROM conversations \
             WHERE id=?1) AND branch_of=?1 ORDER BY id",
            CONVERSATIONS.columns_sql()
        );
        let mut found = Vec::new();
        self.each(&sql, [parent], ConversationRow::read, &mut |row| {
            found.push(self.public(row)?);
            Ok(())
        })?;
        Ok(found)
    }

    /// Streams the messages of a conversation in the order of their commits.
    ///
    /// # Errors
    /// `not-found` when there is no such conversation; `archive-corrupt`, `io`, and whatever `f`
    /// returns.
    pub fn messages(
        &self,
        id: &str,
        f: &mut dyn FnMut(ArchivedMessage) -> Result<()>,
    ) -> Result<()> {
        let sql = format!(
            "SELECT {} FROM records r CROSS JOIN messages m CROSS JOIN sources s \
             WHERE r.id BETWEEN ?2 AND ?3 AND r.conversation=?1 AND r.duplicate_of IS NULL \
             AND m.id BETWEEN r.id<<{PART_BITS} AND (r.id<<{PART_BITS})+{} \
             AND s.id=r.source ORDER BY r.id, m.id",
            checked_columns(),
            (1u64 << PART_BITS) - 1
        );
        self.runs(id, &sql, read_message, f)
    }

    /// Streams the raw records of a conversation, the copies in every source included.
    ///
    /// # Errors
    /// As [`ArchiveReader::messages`].
    pub fn records(&self, id: &str, f: &mut dyn FnMut(ArchivedRecord) -> Result<()>) -> Result<()> {
        let sql = format!(
            "SELECT {RECORD_COLUMNS} FROM records r CROSS JOIN sources s \
             WHERE r.id BETWEEN ?2 AND ?3 AND r.conversation=?1 AND s.id=r.source ORDER BY r.id"
        );
        self.runs(id, &sql, read_record, f)
    }

    /// The sources that hold records of a conversation, in the order in which they brought them.
    ///
    /// # Errors
    /// As [`ArchiveReader::messages`].
    pub fn sources_of(&self, id: &str) -> Result<Vec<ArchivedSource>> {
        let conversation = self.row_id(id)?;
        let sql = format!(
            "SELECT {} FROM sources WHERE id IN (SELECT source FROM commit_conversations \
             WHERE conversation=?1) ORDER BY (SELECT min(commit_number) FROM commit_conversations \
             WHERE conversation=?1 AND source=sources.id)",
            SOURCES.columns_sql()
        );
        let mut found = Vec::new();
        self.each(&sql, [conversation], SourceRow::read, &mut |row| {
            found.push(row.source);
            Ok(())
        })?;
        Ok(found)
    }

    /// One source; `None` when the archive never read it.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`.
    pub fn source(&self, key: SourceKey) -> Result<Option<ArchivedSource>> {
        let row = SourceRow::find(&self.conn, key).map_err(|e| self.failed(e))?;
        Ok(row.map(|r| r.source))
    }

    /// How far a source was read; `None` when it never was.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`.
    pub fn cursor(&self, key: SourceKey) -> Result<Option<Cursor>> {
        let row = SourceRow::find(&self.conn, key).map_err(|e| self.failed(e))?;
        Ok(row.map(Cursor::from_row))
    }

    /// Streams every source in the order of their first commit.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`, and whatever `f` returns.
    pub fn for_each_source(&self, f: &mut dyn FnMut(ArchivedSource) -> Result<()>) -> Result<()> {
        let sql = format!("SELECT {} FROM sources ORDER BY id", SOURCES.columns_sql());
        self.each(&sql, [], SourceRow::read, &mut |row| f(row.source))
    }

    /// At most `limit` sources behind `after`, by key: to go along with another list by key.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`.
    pub fn sources_after(
        &self,
        after: Option<SourceKey>,
        limit: u32,
    ) -> Result<Vec<ArchivedSource>> {
        let sql = format!(
            "SELECT {} FROM sources WHERE source_key>?1 ORDER BY source_key LIMIT ?2",
            SOURCES.columns_sql()
        );
        let after = after.map_or(Vec::new(), |key| key.0.to_vec());
        let mut page = Vec::new();
        self.each(&sql, (after, limit), SourceRow::read, &mut |row| {
            page.push(row.source);
            Ok(())
        })?;
        Ok(page)
    }

    /// Streams what was skipped in a source, in file order within each epoch; its unfinished last
    /// line is the last of it.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`, and whatever `f` returns.
    pub fn skips(
        &self,
        key: SourceKey,
        f: &mut dyn FnMut(ArchivedSkip) -> Result<()>,
    ) -> Result<()> {
        let sql = "SELECT k.epoch, k.seq, k.offset, k.len, k.line, k.reason, k.id FROM skips k \
                   WHERE k.source=(SELECT id FROM sources WHERE source_key=?1) \
                   UNION ALL \
                   SELECT s.epoch, s.parsed_seq, s.tail_offset, s.tail_len, s.tail_line, \
                   'torn-tail', 9223372036854775807 FROM sources s \
                   WHERE s.source_key=?1 AND s.tail_len>0 ORDER BY 7";
        self.each(
            sql,
            [key.0],
            |r| {
                Ok(ArchivedSkip {
                    epoch: get_u64(r, 0)?,
                    seq: get_u64(r, 1)?,
                    span: Span {
                        offset: get_u64(r, 2)?,
                        len: get_u64(r, 3)?,
                    },
                    line: get_u64(r, 4)?,
                    reason: word(r, 5, names::to_reason)?,
                })
            },
            f,
        )
    }

    /// Whether a conversation has exactly these coverage keys, by number and sum. One row is read.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`.
    pub fn holds_coverage(&self, id: &str, records: u64, sum: &Digest) -> Result<bool> {
        Ok(self.held_coverage(id)? == Some((records, *sum)))
    }

    /// Row id of a conversation.
    pub(super) fn row_id(&self, id: &str) -> Result<i64> {
        self.conn
            .prepare_cached("SELECT id FROM conversations WHERE public_id=?1")
            .and_then(|mut s| s.query_row([id], |r| r.get(0)).optional())
            .map_err(|e| self.failed(e))?
            .ok_or_else(|| {
                Error::new(
                    ErrorKind::NotFound,
                    format!("the archive holds no session {id}"),
                )
            })
    }

    /// Runs `sql` over the ranges of record ids that hold a conversation's records, in order. So a
    /// stream needs neither an index by conversation nor a sort.
    pub(super) fn runs<T>(
        &self,
        id: &str,
        sql: &str,
        read: fn(&Row<'_>) -> rusqlite::Result<T>,
        f: &mut dyn FnMut(T) -> Result<()>,
    ) -> Result<()> {
        let conversation = self.row_id(id)?;
        self.each(
            "SELECT first_record, last_record FROM commit_conversations WHERE conversation=?1 \
             ORDER BY commit_number, id",
            [conversation],
            |r| Ok((r.get::<_, i64>(0)?, r.get::<_, i64>(1)?)),
            &mut |(first, last)| self.each(sql, (conversation, first, last), read, f),
        )
    }

    pub(super) fn each<T, P: rusqlite::Params>(
        &self,
        sql: &str,
        params: P,
        read: fn(&Row<'_>) -> rusqlite::Result<T>,
        f: &mut dyn FnMut(T) -> Result<()>,
    ) -> Result<()> {
        let mut statement = self.conn.prepare_cached(sql).map_err(|e| self.failed(e))?;
        let mut rows = statement.query(params).map_err(|e| self.failed(e))?;
        while let Some(row) = rows.next().map_err(|e| self.failed(e))? {
            f(read(row).map_err(|e| self.failed(e))?)?;
        }
        Ok(())
    }

    pub(super) fn public(&self, row: ConversationRow) -> Result<Conversation> {
        let mut public = row.public;
        if let Some(parent) = row.branch_of {
            public.branch_of = self
                .conn
                .prepare_cached("SELECT public_id FROM conversations WHERE id=?1")
                .and_then(|mut s| s.query_row([parent], |r| r.get(0)).optional())
                .map_err(|e| self.failed(e))?;
        }
        Ok(public)
    }

    pub(super) fn failed(&self, e: rusqlite::Error) -> Error {
        if let rusqlite::Error::FromSqlConversionFailure(_, _, inner) = &e
            && let Some(altered) = inner.downcast_ref::<Altered>()
        {
            return Error::new(
                ErrorKind::VerifyFailed,
                format!("the archive can't vouch for what it holds: {altered}"),
            )
            .with_hint("Export it raw: the mirror holds the bytes. The check says how far it goes.")
            .with_hint_argv(["cass", "doctor", "check", "--deep"])
            .with_source(e);
        }
        failed(&self.conn, "read", e)
    }
}

/// What a message is made of.
const MESSAGE_COLUMNS: &str = "r.hash, r.occurrence, m.id, r.native_id, \
    r.native_parent, r.time_ms, m.role, m.kind, m.text, m.tool_name, m.call_id, m.model, \
    m.is_error, s.source_key, r.seq, r.offset, r.len, \
    EXISTS (SELECT 1 FROM records n WHERE n.supersedes=r.id)";

/// What [`read_message`] reads, in a query that joins `records r`, `messages m` and `sources s`.
pub(super) fn checked_columns() -> String {
    format!(
        "{MESSAGE_COLUMNS}, {}, {}",
        RECORDS.columns_of("r"),
        MESSAGES.columns_of("m")
    )
}

const RECORD_COLUMNS: &str = "s.source_key, r.epoch, r.seq, r.offset, r.len, r.line, r.hash, \
    r.occurrence, r.counted, r.disposition, r.supersedes, r.recovery, r.record_type, r.native_id, \
    r.native_parent, r.time_ms";

fn read_record(r: &Row<'_>) -> rusqlite::Result<ArchivedRecord> {
    Ok(ArchivedRecord {
        source: SourceKey(r.get(0)?),
        epoch: get_u64(r, 1)?,
        seq: get_u64(r, 2)?,
        span: Span {
            offset: get_u64(r, 3)?,
            len: get_u64(r, 4)?,
        },
        line: get_u64(r, 5)?,
        hash: get_digest(r, 6)?,
        occurrence: get_u64(r, 7)?,
        counted: r.get(8)?,
        class: word::<RecordClass>(r, 9, names::to_class)?,
        is_version: r.get::<_, Option<i64>>(10)?.is_some(),
        recovery: match r.get::<_, Option<String>>(11)? {
            None => Recovery::Clean,
            Some(_) => word(r, 11, names::to_recovery)?,
        },
        record_type: r.get(12)?,
        native_id: r.get(13)?,
        native_parent: r.get(14)?,
        time_ms: r.get(15)?,
    })
}

/// First of the columns by which the rows of a message and its record are checked.
pub(super) const CHECKED_FROM: usize = 18;

/// A message whose row and whose record's row agree with their hashes.
pub(super) fn read_message(r: &Row<'_>) -> rusqlite::Result<ArchivedMessage> {
    let mut hasher = RowHasher::default();
    let behind = CHECKED_FROM + RECORDS.columns.len() + 1;
    for (table, first) in [(&RECORDS, CHECKED_FROM), (&MESSAGES, behind)] {
        if !check_from(&mut hasher, table, r, first)?.good {
            return Err(altered(table.name, r.get(first)?));
        }
    }
    Ok(ArchivedMessage {
        record_hash: get_digest(r, 0)?,
        occurrence: get_u64(r, 1)?,
        part: get_u64(r, 2)? & ((1 << PART_BITS) - 1),
        native_id: r.get(3)?,
        native_parent: r.get(4)?,
        time_ms: r.get(5)?,
        message: Message {
            role: word(r, 6, names::to_role)?,
            kind: word(r, 7, names::to_kind)?,
            text: r.get(8)?,
            tool_name: r.get(9)?,
            call_id: r.get(10)?,
            model: r.get(11)?,
            is_error: r.get(12)?,
        },
        source: SourceKey(r.get(13)?),
        seq: get_u64(r, 14)?,
        span: Span {
            offset: get_u64(r, 15)?,
            len: get_u64(r, 16)?,
        },
        superseded: r.get(17)?,
    })
}

/// A row that does not agree with its hash: what it says is not handed on.
#[derive(Debug, thiserror::Error)]
#[error("row {row} of {table} does not agree with its hash")]
struct Altered {
    table: &'static str,
    row: i64,
}

fn altered(table: &'static str, row: i64) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(
        0,
        rusqlite::types::Type::Blob,
        Box::new(Altered { table, row }),
    )
}

pub(super) fn word<T>(
    row: &Row<'_>,
    i: usize,
    parse: fn(&str) -> Option<T>,
) -> rusqlite::Result<T> {
    let text: String = row.get(i)?;
    parse(&text).ok_or_else(|| {
        rusqlite::Error::FromSqlConversionFailure(
            i,
            rusqlite::types::Type::Text,
            format!("{text:?} is no word of this column").into(),
        )
    })
}
