//! What the archive holds of each conversation, asked for one by one or a page at a time, so that
//! a comparison with other holders needs no list of all.

use rusqlite::{OptionalExtension, Row};

use super::reader::ArchiveReader;
use super::rows::{get_digest, get_u64};
use super::schema::CONVERSATIONS;
use super::state::ConversationRow;
use crate::error::Result;
use crate::model::conversation::Conversation;
use crate::model::digest::Digest;
use crate::model::provider::Provider;
use crate::model::source::SourceKey;

/// One row of a record: a record that several sources hold has a row in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldRecord {
    /// Hash of its raw bytes.
    pub hash: Digest,
    /// Which time the hash occurs.
    pub occurrence: u64,
    /// The source it lies in.
    pub source: SourceKey,
    /// Epoch of the source.
    pub epoch: u64,
    /// Capture in which it was first seen there.
    pub seq: u64,
    /// Whether it is the one row of its coverage key that counts.
    pub counted: bool,
    /// Whether a newer version took its place.
    pub superseded: bool,
}

impl ArchiveReader {
    /// At most `limit` conversations with an id behind `after`, by id.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`.
    pub fn conversations_after(
        &self,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Conversation>> {
        let sql = format!(
            "SELECT {} FROM conversations WHERE public_id>?1 ORDER BY public_id LIMIT ?2",
            CONVERSATIONS.columns_sql()
        );
        let mut page = Vec::new();
        let params = (after.unwrap_or_default(), limit);
        self.each(&sql, params, ConversationRow::read, &mut |row| {
            page.push(row.public);
            Ok(())
        })?;
        Ok(page)
    }

    /// Every conversation, by id; a page of them is held at a time.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`.
    pub fn each_conversation(&self, f: &mut dyn FnMut(Conversation)) -> Result<()> {
        let mut after = None;
        loop {
            let page = self.conversations_after(after.as_deref(), 1000)?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = Some(last.id.clone());
            page.into_iter().for_each(&mut *f);
        }
    }

    /// Streams every row of a conversation's records by hash: the rows of one coverage key lie side
    /// by side.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`, and whatever `f` returns.
    pub fn held_records(
        &self,
        id: &str,
        f: &mut dyn FnMut(HeldRecord) -> Result<()>,
    ) -> Result<()> {
        let sql = "SELECT r.hash, r.occurrence, s.source_key, r.epoch, r.seq, r.counted, \
                   EXISTS (SELECT 1 FROM records n WHERE n.supersedes=r.id) \
                   FROM records r CROSS JOIN sources s ON s.id=r.source \
                   WHERE r.conversation=(SELECT id FROM conversations WHERE public_id=?1) \
                   ORDER BY r.hash";
        self.each(sql, [id], read_held, f)
    }

    /// How many coverage keys of a conversation are held, and their sum. One row is read.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`.
    pub fn held_coverage(&self, id: &str) -> Result<Option<(u64, Digest)>> {
        self.conn
            .prepare_cached(
                "SELECT record_count, coverage_sum FROM conversations WHERE public_id=?1",
            )
            .and_then(|mut s| {
                s.query_row([id], |r| Ok((get_u64(r, 0)?, get_digest(r, 1)?)))
                    .optional()
            })
            .map_err(|e| self.failed(e))
    }

    /// Whether a conversation with this id of the harness is there.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`.
    pub fn has_native(&self, provider: Provider, native: &str) -> Result<bool> {
        self.conn
            .prepare_cached("SELECT 1 FROM conversations WHERE native_id=?1 AND provider=?2")
            .and_then(|mut s| {
                s.query_row((native, provider.as_str()), |_| Ok(()))
                    .optional()
            })
            .map(|found| found.is_some())
            .map_err(|e| self.failed(e))
    }
}

fn read_held(r: &Row<'_>) -> rusqlite::Result<HeldRecord> {
    Ok(HeldRecord {
        hash: get_digest(r, 0)?,
        occurrence: get_u64(r, 1)?,
        source: SourceKey(r.get(2)?),
        epoch: get_u64(r, 3)?,
        seq: get_u64(r, 4)?,
        counted: r.get(5)?,
        superseded: r.get(6)?,
    })
}
