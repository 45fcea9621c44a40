//! The archive as a search index sees it: texts in the order of their commits, and single messages
//! by the row number that the index keeps.

use rusqlite::types::ValueRef;
use rusqlite::{OptionalExtension, Row};

use super::reader::{ArchiveReader, CHECKED_FROM, read_message};
use super::rows::{get_u64, to_i64};
use super::schema::{CONVERSATIONS, MESSAGES, RECORDS, SOURCES};
use super::state::{ConversationRow, SourceRow};
use super::{PART_BITS, PART_MASK, names};
use crate::error::Result;
use crate::model::conversation::{ArchivedMessage, ArchivedSource, Conversation};
use crate::model::record::{MessageKind, Role};

/// One message of the archive, by its row number. Row numbers mean something within one generation
/// alone; they only grow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextRow {
    /// Row number.
    pub id: i64,
    /// Row number of its conversation.
    pub conversation: i64,
    /// Who speaks; `None` where the row holds no word that this version knows.
    pub role: Option<Role>,
    /// What it is; likewise.
    pub kind: Option<MessageKind>,
    /// Time stamp of the record, milliseconds since the Unix epoch.
    pub time_ms: Option<i64>,
    /// Whether a newer version of its record is in the archive.
    pub superseded: bool,
    /// The text; `None` where the row holds none.
    pub text: Option<String>,
}

/// A conversation, by its row number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberedConversation {
    /// Row number.
    pub id: i64,
    /// The conversation.
    pub conversation: Conversation,
}

/// A message with all that is known of the place it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedMessage {
    /// The message.
    pub message: ArchivedMessage,
    /// Line of its record, counted from 1.
    pub line: u64,
    /// The conversation.
    pub conversation: Conversation,
    /// The source.
    pub source: ArchivedSource,
}

impl ArchiveReader {
    /// Streams messages behind row `after` until `f` says `false`.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`, and whatever `f` returns.
    pub fn texts_after(
        &self,
        after: i64,
        f: &mut dyn FnMut(TextRow) -> Result<bool>,
    ) -> Result<()> {
        // One walk along both tables in the order of their rows; no index, no sort.
        let sql = format!(
            "SELECT m.id, m.conversation, m.role, m.kind, r.time_ms, \
             EXISTS (SELECT 1 FROM records n WHERE n.supersedes=r.id), m.text \
             FROM messages m CROSS JOIN records r ON r.id=m.id>>{PART_BITS} \
             WHERE m.id>?1 ORDER BY m.id"
        );
        let mut read = || -> rusqlite::Result<Result<()>> {
            let mut statement = self.conn.prepare_cached(&sql)?;
            let mut rows = statement.query([after])?;
            while let Some(row) = rows.next()? {
                match f(text_row(row)?) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(e) => return Ok(Err(e)),
                }
            }
            Ok(Ok(()))
        };
        read().map_err(|e| self.failed(e))?
    }

    /// Row number of the newest message.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`.
    pub fn last_text(&self) -> Result<i64> {
        self.conn
            .query_row("SELECT max(id) FROM messages", [], |r| {
                r.get::<_, Option<i64>>(0)
            })
            .map(|id| id.unwrap_or(0))
            .map_err(|e| self.failed(e))
    }

    /// Row number of the newest record.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`.
    pub fn last_record(&self) -> Result<i64> {
        self.conn
            .query_row("SELECT max(id) FROM records", [], |r| {
                r.get::<_, Option<i64>>(0)
            })
            .map(|id| id.unwrap_or(0))
            .map_err(|e| self.failed(e))
    }

    /// The ranges of message rows that records behind `after` supersede.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`, and whatever `f` returns.
    pub fn superseded_after(
        &self,
        after: i64,
        f: &mut dyn FnMut((i64, i64)) -> Result<()>,
    ) -> Result<()> {
        self.each(
            "SELECT supersedes FROM records WHERE id>?1 AND supersedes IS NOT NULL",
            [after],
            |r| {
                let first = r.get::<_, i64>(0)? << PART_BITS;
                Ok((first, first + PART_MASK))
            },
            f,
        )
    }

    /// Conversations that a commit behind `after` touched.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`, and whatever `f` returns.
    pub fn touched_after(
        &self,
        after: u64,
        f: &mut dyn FnMut(NumberedConversation) -> Result<()>,
    ) -> Result<()> {
        let sql = format!(
            "SELECT {} FROM conversations WHERE ?1=0 OR id IN \
             (SELECT conversation FROM commit_conversations WHERE commit_number>?1) ORDER BY id",
            CONVERSATIONS.columns_sql()
        );
        self.each(&sql, [to_i64(after)], ConversationRow::read, &mut |row| {
            f(NumberedConversation {
                id: row.id,
                conversation: row.public,
            })
        })
    }

    /// The message in row `id`, with the place it comes from; `None` when there is none.
    ///
    /// # Errors
    /// `archive-corrupt`, also when the row does not agree with its hash; `io`.
    pub fn placed_message(&self, id: i64) -> Result<Option<PlacedMessage>> {
        let sql = format!(
            "SELECT r.hash, r.occurrence, m.id, r.native_id, r.native_parent, r.time_ms, m.role, \
             m.kind, m.text, m.tool_name, m.call_id, m.model, m.is_error, s.source_key, r.seq, \
             r.offset, r.len, EXISTS (SELECT 1 FROM records n WHERE n.supersedes=r.id), {}, {}, \
             r.line, m.conversation, r.source \
             FROM messages m CROSS JOIN records r CROSS JOIN sources s \
             WHERE m.id=?1 AND r.id=m.id>>{PART_BITS} AND s.id=r.source",
            RECORDS.columns_of("r"),
            MESSAGES.columns_of("m"),
        );
        let behind = CHECKED_FROM + RECORDS.columns.len() + MESSAGES.columns.len() + 2;
        let read = || -> rusqlite::Result<_> {
            let found = self
                .conn
                .prepare_cached(&sql)?
                .query_row([id], |r| {
                    Ok((
                        read_message(r)?,
                        get_u64(r, behind)?,
                        r.get::<_, i64>(behind + 1)?,
                        r.get::<_, i64>(behind + 2)?,
                    ))
                })
                .optional()?;
            let Some((message, line, conversation, source)) = found else {
                return Ok(None);
            };
            let sql = format!("SELECT {} FROM sources WHERE id=?1", SOURCES.columns_sql());
            let source = self
                .conn
                .prepare_cached(&sql)?
                .query_row([source], SourceRow::read)?;
            let conversation = ConversationRow::by_id(&self.conn, conversation)?;
            Ok(conversation.map(|c| (message, line, c, source.source)))
        };
        let Some((message, line, conversation, source)) = read().map_err(|e| self.failed(e))?
        else {
            return Ok(None);
        };
        Ok(Some(PlacedMessage {
            message,
            line,
            conversation: self.public(conversation)?,
            source,
        }))
    }

    /// Row numbers of up to `n` messages of the same conversation before and behind row `id`, each
    /// list in the order of the conversation, superseded versions left out.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`.
    pub fn neighbours(&self, id: i64, n: u32) -> Result<(Vec<i64>, Vec<i64>)> {
        let read = || -> rusqlite::Result<(Vec<i64>, Vec<i64>)> {
            let conversation: Option<i64> = self
                .conn
                .prepare_cached("SELECT conversation FROM messages WHERE id=?1")?
                .query_row([id], |r| r.get(0))
                .optional()?;
            let Some(conversation) = conversation else {
                return Ok((Vec::new(), Vec::new()));
            };
            // The runs of records that the conversation's commits added: nothing else is walked.
            let mut runs = Vec::new();
            let mut statement = self.conn.prepare_cached(
                "SELECT first_record, last_record FROM commit_conversations \
                 WHERE conversation=?1 ORDER BY first_record",
            )?;
            let mut rows = statement.query([conversation])?;
            while let Some(row) = rows.next()? {
                let (first, last): (i64, i64) = (row.get(0)?, row.get(1)?);
                runs.push((first << PART_BITS, (last << PART_BITS) + PART_MASK));
            }
            let wanted = n as usize;
            let mut before = Vec::new();
            for (first, last) in runs.iter().rev() {
                self.beside(
                    conversation,
                    *first,
                    (*last).min(id - 1),
                    true,
                    wanted,
                    &mut before,
                )?;
            }
            before.reverse();
            let mut behind = Vec::new();
            for (first, last) in &runs {
                self.beside(
                    conversation,
                    (*first).max(id + 1),
                    *last,
                    false,
                    wanted,
                    &mut behind,
                )?;
            }
            Ok((before, behind))
        };
        read().map_err(|e| self.failed(e))
    }

    fn beside(
        &self,
        conversation: i64,
        first: i64,
        last: i64,
        backwards: bool,
        wanted: usize,
        found: &mut Vec<i64>,
    ) -> rusqlite::Result<()> {
        if first > last || found.len() >= wanted {
            return Ok(());
        }
        let order = if backwards { "DESC" } else { "ASC" };
        let sql = format!(
            "SELECT m.id FROM messages m WHERE m.id BETWEEN ?1 AND ?2 AND m.conversation=?3 \
             AND NOT EXISTS (SELECT 1 FROM records n WHERE n.supersedes=m.id>>{PART_BITS}) \
             ORDER BY m.id {order} LIMIT ?4"
        );
        let mut statement = self.conn.prepare_cached(&sql)?;
        let room = i64::try_from(wanted - found.len()).unwrap_or(i64::MAX);
        let mut rows = statement.query((first, last, conversation, room))?;
        while let Some(row) = rows.next()? {
            found.push(row.get(0)?);
        }
        Ok(())
    }
}

/// Reads what can be read: a damaged value makes a row that is not indexed, not an error.
fn text_row(row: &Row<'_>) -> rusqlite::Result<TextRow> {
    let text = |i: usize| -> rusqlite::Result<Option<&str>> {
        Ok(match row.get_ref(i)? {
            ValueRef::Text(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        })
    };
    Ok(TextRow {
        id: row.get(0)?,
        conversation: row.get(1)?,
        role: text(2)?.and_then(names::to_role),
        kind: text(3)?.and_then(names::to_kind),
        time_ms: match row.get_ref(4)? {
            ValueRef::Integer(n) => Some(n),
            _ => None,
        },
        superseded: row.get(5)?,
        text: text(6)?.map(str::to_owned),
    })
}
