//! The two kinds of rows that change: a source's and a conversation's.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row};

use super::readable::Columns;
use super::rows::{
    blob, get_digest, get_opt_digest, get_sum, get_u64, int, opt_blob, opt_int, opt_text, text,
    to_i64,
};
use super::schema::{CONVERSATIONS, SOURCES};
use crate::model::conversation::{Accounting, ArchivedSource, Conversation, Share};
use crate::model::digest::{Digest, DigestSum};
use crate::model::provider::Provider;
use crate::model::record::Span;
use crate::model::source::SourceKey;

/// A row of `sources`.
#[derive(Debug, Clone)]
pub(super) struct SourceRow {
    pub id: i64,
    pub source: ArchivedSource,
    pub next_offset: u64,
    pub next_line: u64,
    pub state: Vec<u8>,
    pub tail_line: Option<u64>,
    pub skips_sum: DigestSum,
}

/// Stands for the hash of what a source was read to when rows of it are missing or not known to be
/// all: no capture has it, so the next one is read from the first byte.
const WITH_GAP: Digest = Digest([0; 32]);

impl SourceRow {
    /// Notes that rows of what was read are missing.
    pub fn set_gap(&mut self) {
        self.source.captured_hash = WITH_GAP;
    }

    /// Whether rows of what was read are missing.
    pub fn has_gap(&self) -> bool {
        self.source.captured_hash == WITH_GAP
    }

    pub fn with_values<T>(&self, f: impl FnOnce(&[ValueRef<'_>]) -> T) -> T {
        let s = &self.source;
        let a = &s.accounting;
        let skips = self.skips_sum.to_digest();
        let tail = |v: Option<u64>| opt_int(v.map(to_i64));
        f(&[
            ValueRef::Integer(self.id),
            ValueRef::Blob(&s.key.0),
            text(&s.source_id),
            text(s.provider.as_str()),
            ValueRef::Blob(s.path.as_os_str().as_bytes()),
            opt_text(s.main_session.as_deref()),
            int(s.epoch),
            int(s.parsed_seq),
            int(s.captured_len),
            int(self.next_offset),
            int(self.next_line),
            ValueRef::Blob(&self.state),
            int(a.length),
            int(a.messages.records),
            int(a.messages.bytes),
            int(a.known.records),
            int(a.known.bytes),
            int(a.unknown.records),
            int(a.unknown.bytes),
            int(a.duplicate.records),
            int(a.duplicate.bytes),
            int(a.skipped_bytes),
            int(a.separator_bytes),
            tail(a.tail.map(|t| t.offset)),
            tail(a.tail.map(|t| t.len)),
            tail(self.tail_line),
            int(a.message_count),
            int(a.skip_count),
            blob(&skips),
            blob(&s.captured_hash),
        ])
    }

    /// Reads a row selected with all columns of the table.
    pub fn read(row: &Row<'_>) -> rusqlite::Result<SourceRow> {
        let share = |i: usize| -> rusqlite::Result<Share> {
            Ok(Share {
                records: get_u64(row, i)?,
                bytes: get_u64(row, i + 1)?,
            })
        };
        let tail = match (
            row.get::<_, Option<i64>>(23)?,
            row.get::<_, Option<i64>>(24)?,
        ) {
            (Some(_), Some(_)) => Some(Span {
                offset: get_u64(row, 23)?,
                len: get_u64(row, 24)?,
            }),
            _ => None,
        };
        Ok(SourceRow {
            id: row.get(0)?,
            source: ArchivedSource {
                key: SourceKey(row.get(1)?),
                source_id: row.get(2)?,
                provider: get_provider(row, 3)?,
                path: PathBuf::from(OsString::from_vec(row.get(4)?)),
                main_session: row.get(5)?,
                epoch: get_u64(row, 6)?,
                parsed_seq: get_u64(row, 7)?,
                captured_len: get_u64(row, 8)?,
                captured_hash: get_digest(row, 29)?,
                accounting: Accounting {
                    length: get_u64(row, 12)?,
                    messages: share(13)?,
                    known: share(15)?,
                    unknown: share(17)?,
                    duplicate: share(19)?,
                    skipped_bytes: get_u64(row, 21)?,
                    separator_bytes: get_u64(row, 22)?,
                    tail,
                    message_count: get_u64(row, 26)?,
                    skip_count: get_u64(row, 27)?,
                },
            },
            next_offset: get_u64(row, 9)?,
            next_line: get_u64(row, 10)?,
            state: row.get(11)?,
            tail_line: match row.get::<_, Option<i64>>(25)? {
                Some(_) => Some(get_u64(row, 25)?),
                None => None,
            },
            skips_sum: get_sum(row, 28)?,
        })
    }

    /// The same from the columns of a row that agrees with its hash; `None` when a value is of a
    /// kind that no version writes.
    pub fn from_columns(c: &Columns<'_>) -> Option<SourceRow> {
        let share = |i: usize| -> Option<Share> {
            Some(Share {
                records: c.count(i)?,
                bytes: c.count(i + 1)?,
            })
        };
        let tail = match (c.opt_count(23)?, c.opt_count(24)?) {
            (Some(offset), Some(len)) => Some(Span { offset, len }),
            _ => None,
        };
        Some(SourceRow {
            id: c.int(0)?,
            source: ArchivedSource {
                key: SourceKey(c.bytes(1)?.try_into().ok()?),
                source_id: c.text(2)?.to_owned(),
                provider: c.text(3)?.parse().ok()?,
                path: PathBuf::from(OsString::from_vec(c.bytes(4)?.to_vec())),
                main_session: c.opt_text(5)?.map(str::to_owned),
                epoch: c.count(6)?,
                parsed_seq: c.count(7)?,
                captured_len: c.count(8)?,
                captured_hash: c.digest(29)?,
                accounting: Accounting {
                    length: c.count(12)?,
                    messages: share(13)?,
                    known: share(15)?,
                    unknown: share(17)?,
                    duplicate: share(19)?,
                    skipped_bytes: c.count(21)?,
                    separator_bytes: c.count(22)?,
                    tail,
                    message_count: c.count(26)?,
                    skip_count: c.count(27)?,
                },
            },
            next_offset: c.count(9)?,
            next_line: c.count(10)?,
            state: c.bytes(11)?.to_vec(),
            tail_line: c.opt_count(25)?,
            skips_sum: DigestSum::from_digest(&c.digest(28)?),
        })
    }

    pub fn find(conn: &Connection, key: SourceKey) -> rusqlite::Result<Option<SourceRow>> {
        let sql = format!(
            "SELECT {} FROM sources WHERE source_key=?1",
            SOURCES.columns_sql()
        );
        conn.prepare_cached(&sql)?
            .query_row([key.0], SourceRow::read)
            .optional()
    }
}

/// A row of `conversations`.
#[derive(Debug, Clone)]
pub(super) struct ConversationRow {
    pub id: i64,
    pub public: Conversation,
    pub branch_of: Option<i64>,
    pub branch_hash: Option<Digest>,
    pub row_count: u64,
    pub position_count: u64,
    pub guest_count: u64,
    pub coverage_sum: DigestSum,
    pub rows_sum: DigestSum,
}

impl ConversationRow {
    pub fn with_values<T>(&self, f: impl FnOnce(&[ValueRef<'_>]) -> T) -> T {
        let c = &self.public;
        let (coverage, rows) = (self.coverage_sum.to_digest(), self.rows_sum.to_digest());
        f(&[
            ValueRef::Integer(self.id),
            text(&c.id),
            text(&c.source_id),
            text(c.provider.as_str()),
            text(&c.native_id),
            opt_int(self.branch_of),
            opt_blob(c.branch_at.as_ref()),
            opt_blob(self.branch_hash.as_ref()),
            opt_text(c.title.as_deref()),
            opt_text(c.workspace.as_deref()),
            opt_text(c.parent_session.as_deref()),
            opt_text(c.harness_version.as_deref()),
            opt_int(c.started_ms),
            opt_int(c.ended_ms),
            int(c.revision),
            int(c.record_count),
            int(self.row_count),
            int(self.position_count),
            int(self.guest_count),
            int(c.version_count),
            int(c.message_count),
            blob(&coverage),
            blob(&rows),
        ])
    }

    /// Reads a row selected with all columns of the table; `public.branch_of` stays empty.
    pub fn read(row: &Row<'_>) -> rusqlite::Result<ConversationRow> {
        Ok(ConversationRow {
            id: row.get(0)?,
            branch_of: row.get(5)?,
            branch_hash: get_opt_digest(row, 7)?,
            row_count: get_u64(row, 16)?,
            position_count: get_u64(row, 17)?,
            guest_count: get_u64(row, 18)?,
            coverage_sum: get_sum(row, 21)?,
            rows_sum: get_sum(row, 22)?,
            public: Conversation {
                id: row.get(1)?,
                source_id: row.get(2)?,
                provider: get_provider(row, 3)?,
                native_id: row.get(4)?,
                branch_of: None,
                branch_at: get_opt_digest(row, 6)?,
                title: row.get(8)?,
                workspace: row.get(9)?,
                parent_session: row.get(10)?,
                harness_version: row.get(11)?,
                started_ms: row.get(12)?,
                ended_ms: row.get(13)?,
                revision: get_u64(row, 14)?,
                record_count: get_u64(row, 15)?,
                version_count: get_u64(row, 19)?,
                message_count: get_u64(row, 20)?,
                coverage_sum: get_digest(row, 21)?,
            },
        })
    }

    /// The same from the columns of a row that agrees with its hash.
    pub fn from_columns(c: &Columns<'_>) -> Option<ConversationRow> {
        Some(ConversationRow {
            id: c.int(0)?,
            branch_of: c.opt_int(5)?,
            branch_hash: c.opt_digest(7)?,
            row_count: c.count(16)?,
            position_count: c.count(17)?,
            guest_count: c.count(18)?,
            coverage_sum: DigestSum::from_digest(&c.digest(21)?),
            rows_sum: DigestSum::from_digest(&c.digest(22)?),
            public: Conversation {
                id: c.text(1)?.to_owned(),
                source_id: c.text(2)?.to_owned(),
                provider: c.text(3)?.parse().ok()?,
                native_id: c.text(4)?.to_owned(),
                branch_of: None,
                branch_at: c.opt_digest(6)?,
                title: c.opt_text(8)?.map(str::to_owned),
                workspace: c.opt_text(9)?.map(str::to_owned),
                parent_session: c.opt_text(10)?.map(str::to_owned),
                harness_version: c.opt_text(11)?.map(str::to_owned),
                started_ms: c.opt_int(12)?,
                ended_ms: c.opt_int(13)?,
                revision: c.count(14)?,
                record_count: c.count(15)?,
                version_count: c.count(19)?,
                message_count: c.count(20)?,
                coverage_sum: c.digest(21)?,
            },
        })
    }

    /// A conversation of which nothing is known but its names.
    pub fn bare(
        id: i64,
        public: String,
        source_id: &str,
        provider: Provider,
        native: String,
    ) -> ConversationRow {
        ConversationRow {
            id,
            branch_of: None,
            branch_hash: None,
            row_count: 0,
            position_count: 0,
            guest_count: 0,
            coverage_sum: DigestSum::ZERO,
            rows_sum: DigestSum::ZERO,
            public: Conversation {
                id: public,
                source_id: source_id.to_owned(),
                provider,
                native_id: native,
                branch_of: None,
                branch_at: None,
                title: None,
                workspace: None,
                parent_session: None,
                harness_version: None,
                started_ms: None,
                ended_ms: None,
                revision: 0,
                record_count: 0,
                version_count: 0,
                message_count: 0,
                coverage_sum: Digest::default(),
            },
        }
    }

    pub fn by_public(conn: &Connection, id: &str) -> rusqlite::Result<Option<ConversationRow>> {
        let sql = format!(
            "SELECT {} FROM conversations WHERE public_id=?1",
            CONVERSATIONS.columns_sql()
        );
        conn.prepare_cached(&sql)?
            .query_row([id], ConversationRow::read)
            .optional()
    }

    pub fn by_id(conn: &Connection, id: i64) -> rusqlite::Result<Option<ConversationRow>> {
        let sql = format!(
            "SELECT {} FROM conversations WHERE id=?1",
            CONVERSATIONS.columns_sql()
        );
        conn.prepare_cached(&sql)?
            .query_row([id], ConversationRow::read)
            .optional()
    }
}

pub(super) fn get_provider(row: &Row<'_>, i: usize) -> rusqlite::Result<Provider> {
    let word: String = row.get(i)?;
    word.parse().map_err(|e| {
        rusqlite::Error::FromSqlConversionFailure(i, rusqlite::types::Type::Text, Box::new(e))
    })
}
