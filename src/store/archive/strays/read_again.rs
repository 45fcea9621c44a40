//! What was made up and is read again: the records stand once, under their name.
//!
//! Nothing is removed. The made-up row is taken back by the one that was read, so that it is neither
//! shown nor found; it is still held, and so is everything that a promise counted.

use std::collections::{HashMap, HashSet};

use rusqlite::types::ValueRef;

use super::lost_record::{LOST_RECORD, hash_of};
use super::made_up::MADE_UP;
use crate::model::digest::Digest;
use crate::model::provider::Provider;
use crate::model::record::Message;
use crate::store::archive::append::SourceAppend;
use crate::store::archive::ids::ById;
use crate::store::archive::readable::Columns;
use crate::store::archive::rescue::read_message;
use crate::store::archive::rows::get_digest;
use crate::store::archive::{PART_BITS, PART_MASK};

/// Row ids of records put by this append that took something back.
type Used = HashSet<i64, ById>;

/// Rows `r` that are shown.
const STANDS: &str =
    "r.duplicate_of IS NULL AND NOT EXISTS (SELECT 1 FROM records v WHERE v.supersedes=r.id)";

impl SourceAppend<'_, '_> {
    /// Takes back what conversations that are made up hold of this source, where this append put the
    /// same bytes of the same place into another; and records of which only messages were left, where
    /// it put a record that says the same. `line` is where the next one would be.
    pub(in crate::store::archive) fn take_back_read_again(
        &mut self,
        line: u64,
    ) -> rusqlite::Result<()> {
        let put: Vec<(usize, i64, i64)> = (0..self.open.len())
            .map(|at| (at, self.open[at].row.id, self.open[at].first))
            .filter(|(at, _, first)| *first != 0 && !self.is_made_up(*at))
            .collect();
        if put.is_empty() {
            return Ok(());
        }
        let made_up = self.made_up_conversations()?;
        for (at, own, first) in put {
            let mut used = Used::default();
            for other in &made_up {
                let again = self.same_places(*other, own)?;
                if again.is_empty() {
                    continue;
                }
                let to = self.open_row(*other)?;
                for (by, old) in again {
                    used.insert(by);
                    self.put_taken_back(to, by, old, self.expected, line)?;
                }
                self.take_back_lost(to, (own, first), &mut used, line)?;
            }
            if self.is_reread {
                self.take_back_lost(at, (own, first), &mut used, line)?;
            }
        }
        Ok(())
    }

    fn is_made_up(&self, at: usize) -> bool {
        self.open[at].row.public.native_id.starts_with(MADE_UP)
    }

    /// Row ids of the conversations that were made up of this source's harness, or of an unknown one.
    fn made_up_conversations(&self) -> rusqlite::Result<Vec<i64>> {
        let s = &self.source.source;
        // A range, for the index; what follows the last byte of the prefix ends it.
        let end = MADE_UP.trim_end_matches('-').to_owned() + ".";
        self.conn
            .prepare_cached(
                "SELECT id FROM conversations WHERE native_id>=?1 AND native_id<?2 \
                 AND (source_id=?3 AND provider=?4 OR provider=?5) ORDER BY id",
            )?
            .query_map(
                (
                    MADE_UP,
                    end,
                    &s.source_id,
                    s.provider.as_str(),
                    Provider::Unknown.as_str(),
                ),
                |r| r.get(0),
            )?
            .collect()
    }

    /// The records of conversation `own` that are, byte for byte and at the same place of this source,
    /// ones that stand in the conversation `made_up`, and those. A source whose row was lost may have
    /// been this one.
    fn same_places(&self, made_up: i64, own: i64) -> rusqlite::Result<Vec<(i64, i64)>> {
        self.conn
            .prepare_cached(&format!(
                "SELECT (SELECT coalesce(n.duplicate_of,n.id) FROM records n \
                 WHERE n.conversation=?2 AND n.hash=r.hash AND n.source=?3 AND n.offset=r.offset \
                 AND n.len=r.len LIMIT 1) AS again, r.id \
                 FROM records r JOIN sources s ON s.id=r.source WHERE r.conversation=?1 \
                 AND (s.id=?3 OR CAST(s.path AS TEXT) GLOB 'unknown/source-*') AND {STANDS} \
                 AND again IS NOT NULL ORDER BY r.id"
            ))?
            .query_map((made_up, own, self.source.id), |r| {
                Ok((r.get(0)?, r.get(1)?))
            })?
            .collect()
    }

    /// Takes back the records of conversation `at` of which only messages were left, each by one that
    /// this append put, from row `first` of conversation `own` on, and that says the same.
    fn take_back_lost(
        &mut self,
        at: usize,
        (own, first): (i64, i64),
        used: &mut Used,
        line: u64,
    ) -> rusqlite::Result<()> {
        let lost: Vec<(i64, Digest)> = self
            .conn
            .prepare_cached(&format!(
                "SELECT r.id, r.hash FROM records r WHERE r.conversation=?1 AND r.record_type=?2 \
                 AND {STANDS} ORDER BY r.id"
            ))?
            .query_map((self.open[at].row.id, LOST_RECORD), |r| {
                Ok((r.get(0)?, get_digest(r, 1)?))
            })?
            .collect::<rusqlite::Result<_>>()?;
        if lost.is_empty() {
            return Ok(());
        }
        let mut said = self.said_from(own, first)?;
        for (old, hash) in lost {
            let same = said.get_mut(&hash.0);
            let by = same.and_then(|all| {
                let at = all.iter().position(|id| !used.contains(id))?;
                Some(all.remove(at))
            });
            if let Some(by) = by {
                used.insert(by);
                self.put_taken_back(at, by, old, self.expected, line)?;
            }
        }
        Ok(())
    }

    /// The records of conversation `own` from row `first` on that stand, by what their messages say.
    fn said_from(&self, own: i64, first: i64) -> rusqlite::Result<HashMap<[u8; 32], Vec<i64>>> {
        let mut statement = self.conn.prepare_cached(&format!(
            "SELECT m.id, m.conversation, m.role, m.kind, m.text, m.tool_name, m.call_id, m.model, \
             m.is_error FROM records r JOIN messages m \
             ON m.id BETWEEN r.id<<{PART_BITS} AND (r.id<<{PART_BITS})|{PART_MASK} \
             WHERE r.conversation=?1 AND r.id>=?2 AND r.record_type<>?3 AND {STANDS} ORDER BY m.id"
        ))?;
        let mut rows = statement.query((own, first, LOST_RECORD))?;
        let mut said: HashMap<[u8; 32], Vec<i64>> = HashMap::new();
        let mut record: (i64, Vec<Message>) = (0, Vec::new());
        while let Some(row) = rows.next()? {
            let mut values = [ValueRef::Null; 9];
            for (i, value) in values.iter_mut().enumerate() {
                *value = row.get_ref(i)?;
            }
            let of = row.get::<_, i64>(0)? >> PART_BITS;
            if record.0 != of {
                let (id, messages) = std::mem::replace(&mut record, (of, Vec::new()));
                said.entry(hash_of(&messages).0).or_default().push(id);
            }
            record.1.extend(read_message(&Columns(&values)));
        }
        said.entry(hash_of(&record.1).0).or_default().push(record.0);
        Ok(said)
    }
}
