//! A conversation in the order in which people read it.
//!
//! For a log that is the order of the commits. Where records were replaced in place, a later
//! version stands where the first one stood. Only places are held and sorted here, never texts: a
//! message is read when it is asked for.

use rusqlite::OptionalExtension;

use super::PART_BITS;
use super::reader::{ArchiveReader, checked_columns, read_message};
use super::rows::get_u64;
use crate::error::{Error, ErrorKind, Result};
use crate::model::conversation::{ArchivedMessage, Conversation};
use crate::model::provider::Provider;

/// Where a message stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessagePlace {
    /// Row id of the message.
    pub row: i64,
    /// Row id of its source.
    pub source: i64,
    /// Where its record lies in the source.
    pub offset: u64,
    /// Whether a later version of its record took its place.
    pub superseded: bool,
}

/// How the records of a conversation come into their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// As they were committed.
    Commits,
    /// As they were committed, a later version in the place of the first.
    Versions,
    /// By the ids of message and part: its files are read in the order of their names.
    Ids,
}

impl Order {
    fn of(conversation: &Conversation, sources: u64) -> Order {
        match conversation.provider {
            Provider::OpenCode if sources > 1 || conversation.version_count > 0 => Order::Ids,
            _ if conversation.version_count > 0 => Order::Versions,
            _ => Order::Commits,
        }
    }
}

const PLACE: &str = "SELECT m.id, r.source, r.offset, \
     EXISTS (SELECT 1 FROM records n WHERE n.supersedes=r.id)";

/// The messages of record `r` as the row ids of `messages m`.
fn parts() -> String {
    let last = (1u64 << PART_BITS) - 1;
    format!("m.id BETWEEN r.id<<{PART_BITS} AND (r.id<<{PART_BITS})+{last}")
}

impl ArchiveReader {
    /// Streams the places of a conversation's messages in reading order, superseded ones included.
    ///
    /// # Errors
    /// `not-found`, `archive-corrupt`, `io`, and whatever `f` returns.
    pub fn reading(
        &self,
        conversation: &Conversation,
        f: &mut dyn FnMut(MessagePlace) -> Result<()>,
    ) -> Result<()> {
        let id = self.row_id(&conversation.id)?;
        let sources = self.source_count(id)?;
        match Order::of(conversation, sources) {
            Order::Commits => {
                let sql = format!(
                    "{PLACE} FROM records r CROSS JOIN messages m WHERE r.id BETWEEN ?2 AND ?3 \
                     AND r.conversation=?1 AND r.duplicate_of IS NULL AND {} ORDER BY r.id, m.id",
                    parts()
                );
                self.runs(&conversation.id, &sql, read_place, f)
            }
            Order::Versions => self.versions(conversation, f),
            Order::Ids => {
                let sql = format!(
                    "{PLACE} FROM commit_conversations t CROSS JOIN records r CROSS JOIN messages m \
                     WHERE t.conversation=?1 AND r.id BETWEEN t.first_record AND t.last_record \
                     AND r.conversation=?1 AND r.duplicate_of IS NULL AND {} \
                     ORDER BY CASE WHEN r.native_id GLOB 'prt_*' THEN r.native_parent \
                     ELSE coalesce(r.native_id,'~') END, \
                     CASE WHEN r.native_id GLOB 'prt_*' THEN r.native_id ELSE '' END, r.id, m.id",
                    parts()
                );
                self.each(&sql, [id], read_place, f)
            }
        }
    }

    /// Each record that supersedes none, and behind it the versions that followed it.
    fn versions(
        &self,
        conversation: &Conversation,
        f: &mut dyn FnMut(MessagePlace) -> Result<()>,
    ) -> Result<()> {
        let first = "SELECT r.id FROM records r WHERE r.id BETWEEN ?2 AND ?3 \
                     AND r.conversation=?1 AND r.supersedes IS NULL ORDER BY r.id";
        let sql = format!(
            "WITH RECURSIVE chain(id) AS (SELECT ?1 UNION SELECT n.id FROM chain \
             CROSS JOIN records n WHERE n.supersedes=chain.id) \
             {PLACE} FROM chain CROSS JOIN records r CROSS JOIN messages m \
             WHERE r.id=chain.id AND {} ORDER BY r.id, m.id",
            parts()
        );
        self.runs(
            &conversation.id,
            first,
            |r| r.get::<_, i64>(0),
            &mut |record| self.each(&sql, [record], read_place, f),
        )
    }

    /// How many sources brought records of a conversation.
    fn source_count(&self, id: i64) -> Result<u64> {
        self.conn
            .prepare_cached(
                "SELECT count(DISTINCT source) FROM commit_conversations WHERE conversation=?1",
            )
            .and_then(|mut s| s.query_row([id], |r| get_u64(r, 0)))
            .map_err(|e| self.failed(e))
    }

    /// The row id of a source, as places name it.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`.
    pub fn source_row(&self, key: crate::model::source::SourceKey) -> Result<Option<i64>> {
        self.conn
            .prepare_cached("SELECT id FROM sources WHERE source_key=?1")
            .and_then(|mut s| s.query_row([key.0], |r| r.get(0)).optional())
            .map_err(|e| self.failed(e))
    }

    /// The message at a place.
    ///
    /// # Errors
    /// `archive-corrupt` when it is not there, `io`.
    pub fn message_at(&self, place: MessagePlace) -> Result<ArchivedMessage> {
        let sql = format!(
            "SELECT {} FROM messages m CROSS JOIN records r CROSS JOIN sources s \
             WHERE m.id=?1 AND r.id=?1>>{PART_BITS} AND s.id=r.source",
            checked_columns()
        );
        self.conn
            .prepare_cached(&sql)
            .and_then(|mut s| s.query_row([place.row], read_message).optional())
            .map_err(|e| self.failed(e))?
            .ok_or_else(|| {
                Error::new(
                    ErrorKind::ArchiveCorrupt,
                    "a message of the archive has no record or no source",
                )
                .with_hint("The check says what is damaged.")
                .with_hint_argv(["cass", "doctor", "check", "--deep"])
            })
    }
}

fn read_place(r: &rusqlite::Row<'_>) -> rusqlite::Result<MessagePlace> {
    Ok(MessagePlace {
        row: r.get(0)?,
        source: r.get(1)?,
        offset: get_u64(r, 2)?,
        superseded: r.get(3)?,
    })
}
