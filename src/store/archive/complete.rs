//! Messages of records that a damaged archive gave without them, put as soon as another holder has
//! them.
//!
//! The record keeps its place, its versions, its key and the messages that were left, under the ids
//! that they had. What is missing is added; no row is changed.

use std::collections::HashSet;

use super::append::SourceAppend;
use super::{PART_BITS, PART_MASK};
use crate::model::record::{Disposition, Message, ParsedRecord};

impl SourceAppend<'_, '_> {
    /// Whether row `record` was put without some messages of what it holds, which `said` is.
    /// Only in a candidate, and where a source is read again because of a gap, is that looked at.
    pub(super) fn lacks(&self, record: i64, said: &ParsedRecord) -> rusqlite::Result<bool> {
        let Disposition::Messages(messages) = &said.disposition else {
            return Ok(false);
        };
        if self.shared.incomplete.contains(&record) {
            return Ok(true);
        }
        Ok(self.had_gap && self.parts(record)?.len() < messages.len())
    }

    /// Adds the messages that row `record` of conversation `at` lacks. A row of another one, which
    /// a branch may repeat, is left as it is.
    pub(super) fn complete(
        &mut self,
        at: usize,
        record: i64,
        messages: &[Message],
    ) -> rusqlite::Result<()> {
        if messages.is_empty() || !self.is_of(at, record)? {
            return Ok(());
        }
        let there = self.parts(record)?;
        let missing: Vec<(i64, &Message)> = (0..)
            .zip(messages)
            .filter(|(part, _)| !there.contains(part))
            .collect();
        self.put_parts(at, record, &missing)?;
        self.shared.incomplete.remove(&record);
        Ok(())
    }

    /// The numbers of the messages of a row.
    fn parts(&self, record: i64) -> rusqlite::Result<HashSet<i64>> {
        let first = record << PART_BITS;
        self.conn
            .prepare_cached("SELECT id - ?1 FROM messages WHERE id BETWEEN ?1 AND ?2")?
            .query_map((first, first | PART_MASK), |r| r.get(0))?
            .collect()
    }

    fn is_of(&self, at: usize, record: i64) -> rusqlite::Result<bool> {
        self.conn
            .prepare_cached("SELECT conversation=?2 FROM records WHERE id=?1")?
            .query_row((record, self.open[at].row.id), |r| r.get(0))
    }
}
