//! The index's tables, and the row that says what it serves.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension};

use super::tokens;
use crate::error::Result;
use crate::model::digest::Digest;
use crate::model::record::{MessageKind, Role};
use crate::store::sqlite;

/// Changes with every change of the tables: another number means "make it again".
pub const FORMAT: i64 = 2;

/// Documents of the newest part when it is made; it is made anew when it has grown to twice as many.
pub(super) const NEWEST: i64 = 16_384;

/// The tokens are made before they come here, so the tokenizer splits at spaces and does nothing
/// else. `p` holds the parts of a text, `w` its identifiers as single words. `newest` holds the last
/// documents of `message` a second time: what FTS5 reads of a whole table, for a beginning of a word
/// or the weight of one, it reads of a small one there.
const SCHEMA: &str = "
CREATE TABLE meta(
  id INTEGER PRIMARY KEY CHECK (id=1), format INTEGER NOT NULL, tokens INTEGER NOT NULL,
  archive_id TEXT NOT NULL, generation TEXT NOT NULL, commit_number INTEGER NOT NULL,
  head BLOB NOT NULL, last_message INTEGER NOT NULL, last_record INTEGER NOT NULL,
  documents INTEGER NOT NULL, superseded INTEGER NOT NULL, empty INTEGER NOT NULL,
  unreadable INTEGER NOT NULL, cut INTEGER NOT NULL, complete INTEGER NOT NULL,
  messages INTEGER NOT NULL, newest_from INTEGER NOT NULL, newest_documents INTEGER NOT NULL
) STRICT;
CREATE TABLE conversation(
  id INTEGER PRIMARY KEY, provider TEXT NOT NULL, source_id TEXT NOT NULL, workspace TEXT
) STRICT;
CREATE TABLE doc(
  id INTEGER PRIMARY KEY, archive_row INTEGER NOT NULL, conversation INTEGER NOT NULL,
  role INTEGER NOT NULL, kind INTEGER NOT NULL, time_ms INTEGER
) STRICT;
CREATE VIRTUAL TABLE message USING fts5(
  p, w, content='', contentless_delete=1, tokenize='ascii'
);
CREATE VIRTUAL TABLE newest USING fts5(
  p, w, content='', contentless_delete=1, tokenize='ascii'
);
";

/// How many messages an index serves, and what became of the others. The parts add up to the
/// archive's messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Served {
    /// Messages that can be found.
    pub documents: u64,
    /// Messages of which the archive has a newer version.
    pub superseded: u64,
    /// Messages without text.
    pub empty: u64,
    /// Rows that could not be read or indexed.
    pub unreadable: u64,
    /// Of the documents, those that are indexed up to [`super::MAX_TEXT`] bytes.
    pub cut: u64,
}

impl Served {
    /// Messages of the archive that were looked at.
    #[must_use]
    pub fn rows(&self) -> u64 {
        [self.documents, self.superseded, self.empty, self.unreadable]
            .into_iter()
            .fold(0, u64::saturating_add)
    }
}

/// What an index serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Meta {
    pub format: i64,
    pub tokens: i64,
    pub archive_id: String,
    pub generation: String,
    /// The archive's commit up to which it is complete, and its chain head.
    pub commit: u64,
    pub head: Digest,
    /// Row number of the last message that was looked at.
    pub last_message: i64,
    /// Row number of the newest record when the index was last complete.
    pub last_record: i64,
    pub served: Served,
    /// Whether it was ever complete.
    pub complete: bool,
    /// Messages of the archive at that commit.
    pub messages: u64,
    pub newest: Newest,
}

/// What the table of the newest documents holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Newest {
    /// The first document that it may hold; all behind it are in it. 0 when it holds none.
    pub from: i64,
    /// How many it holds.
    pub documents: u64,
}

impl Meta {
    pub fn is_ours(&self) -> bool {
        self.format == FORMAT && self.tokens == tokens::VERSION
    }

    /// The row; `None` when there is none.
    pub fn read(conn: &Connection) -> rusqlite::Result<Option<Meta>> {
        let get = |r: &rusqlite::Row<'_>, i: usize| -> rusqlite::Result<u64> {
            Ok(u64::try_from(r.get::<_, i64>(i)?).unwrap_or(0))
        };
        let read = |r: &rusqlite::Row<'_>| {
            Ok(Meta {
                format: r.get(0)?,
                tokens: r.get(1)?,
                archive_id: r.get(2)?,
                generation: r.get(3)?,
                commit: get(r, 4)?,
                head: Digest(r.get(5)?),
                last_message: r.get(6)?,
                last_record: r.get(7)?,
                served: Served {
                    documents: get(r, 8)?,
                    superseded: get(r, 9)?,
                    empty: get(r, 10)?,
                    unreadable: get(r, 11)?,
                    cut: get(r, 12)?,
                },
                complete: r.get(13)?,
                messages: 0,
                newest: Newest::default(),
            })
        };
        let sql = "SELECT format, tokens, archive_id, generation, commit_number, head, \
                   last_message, last_record, documents, superseded, empty, unreadable, cut, \
                   complete FROM meta WHERE id=1";
        let Some(mut meta) = conn.query_row(sql, [], read).optional()? else {
            return Ok(None);
        };
        // Other formats have other columns.
        if meta.is_ours() {
            let sql = "SELECT messages, newest_from, newest_documents FROM meta WHERE id=1";
            (meta.messages, meta.newest) = conn.query_row(sql, [], |r| {
                let newest = Newest {
                    from: r.get(1)?,
                    documents: get(r, 2)?,
                };
                Ok((get(r, 0)?, newest))
            })?;
        }
        Ok(Some(meta))
    }

    pub fn write(&self, conn: &Connection) -> rusqlite::Result<()> {
        let int = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let s = &self.served;
        conn.prepare_cached(
            "INSERT OR REPLACE INTO meta VALUES (1,?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,\
             ?15,?16,?17)",
        )?
        .execute(rusqlite::params![
            self.format,
            self.tokens,
            self.archive_id,
            self.generation,
            int(self.commit),
            self.head.0,
            self.last_message,
            self.last_record,
            int(s.documents),
            int(s.superseded),
            int(s.empty),
            int(s.unreadable),
            int(s.cut),
            self.complete,
            int(self.messages),
            self.newest.from,
            int(self.newest.documents),
        ])
        .map(drop)
    }
}

/// Makes the tables in an empty database.
pub(super) fn make(conn: &Connection, path: &Path, meta: &Meta) -> Result<()> {
    let run = || -> rusqlite::Result<()> {
        conn.execute_batch("BEGIN IMMEDIATE")?;
        conn.execute_batch(SCHEMA)?;
        // Larger segments are written less often and merged less.
        for table in [Table::Message, Table::Newest] {
            let t = table.name();
            let sql = format!("INSERT INTO {t}({t}, rank) VALUES ('hashsize', 33554432)");
            conn.execute_batch(&sql)?;
        }
        meta.write(conn)?;
        conn.execute_batch("COMMIT")
    };
    run().map_err(|e| sqlite::failed("make", path, e))
}

/// A full-text table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    /// Every document.
    Message,
    /// The last ones.
    Newest,
}

impl Table {
    pub const fn name(self) -> &'static str {
        match self {
            Table::Message => "message",
            Table::Newest => "newest",
        }
    }
}

/// How many documents FTS5 itself says a table has: the first number of its record of averages. One
/// row is read. `None` when it can't be told.
pub(super) fn fts_rows(conn: &Connection, table: Table) -> rusqlite::Result<Option<u64>> {
    let sql = format!("SELECT block FROM {}_data WHERE id=1", table.name());
    let block: Option<Vec<u8>> = conn.query_row(&sql, [], |r| r.get(0)).optional()?;
    Ok(block.map(|bytes| varint(&bytes)))
}

/// The first document whose message has row number `message` or a larger one, or the number behind
/// the last document. A search by halves: both numbers grow together, so no index is kept for it.
pub(super) fn first_from(conn: &Connection, message: i64) -> rusqlite::Result<i64> {
    let last: Option<i64> = conn.query_row("SELECT max(id) FROM doc", [], |r| r.get(0))?;
    let mut at_or_behind =
        conn.prepare_cached("SELECT id, archive_row FROM doc WHERE id>=?1 ORDER BY id LIMIT 1")?;
    let (mut low, mut high) = (1, last.unwrap_or(0) + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        let (id, found): (i64, i64) =
            at_or_behind.query_row([middle], |r| Ok((r.get(0)?, r.get(1)?)))?;
        if found < message {
            low = id + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

/// A number as SQLite writes it: seven bits a byte, the highest first.
fn varint(bytes: &[u8]) -> u64 {
    let mut n = 0;
    for b in bytes.iter().take(8) {
        n = (n << 7) | u64::from(b & 0x7F);
        if b & 0x80 == 0 {
            break;
        }
    }
    n
}

pub(super) const fn role_code(role: Role) -> i64 {
    match role {
        Role::User => 1,
        Role::Assistant => 2,
        Role::Tool => 3,
        Role::System => 4,
        Role::Meta => 5,
    }
}

pub(super) const fn kind_code(kind: MessageKind) -> i64 {
    match kind {
        MessageKind::Text => 1,
        MessageKind::Reasoning => 2,
        MessageKind::ToolCall => 3,
        MessageKind::ToolResult => 4,
        MessageKind::Summary => 5,
        MessageKind::Attachment => 6,
    }
}
