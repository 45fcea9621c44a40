//! Where a record belongs: which conversation or branch, and whether it is new there.

use std::collections::{HashMap, HashSet};

use rusqlite::OptionalExtension;

use super::append::{SourceAppend, SourceKind};
use super::identity;
use super::ids::ById;
use super::row_hash::RowHash;
use super::rows::{get_digest, get_u64, to_i64};
use super::schema::CONVERSATIONS;
use super::state::ConversationRow;
use super::writer::insert;
use crate::model::conversation::{ArchivedSource, Conversation};
use crate::model::digest::{Digest, DigestSum};
use crate::model::record::{Disposition, ParsedRecord, TakenBack, is_by_place};

/// What a record is to the conversation it was put in.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// A record that the conversation did not have.
    New,
    /// A newer version of the record with this row id.
    Version(i64),
    /// A record that was taken back, said again: it stands where it is said.
    Restated,
    /// The same bytes again in the same source: told apart by their occurrence, shown once.
    Fold(i64),
    /// A copy of what another source, or an earlier epoch, brought.
    Copy { original: i64, key: i64 },
}

/// What a record is that its source said before, byte for byte.
#[derive(Debug, Clone, Copy)]
enum Again {
    /// This row still says it.
    Unchanged(i64),
    /// It stands in the place of what was said since.
    Stands(Place),
    /// It was said elsewhere in the document; here it is a record of its own.
    Elsewhere,
}

/// A conversation as this append knows it.
#[derive(Debug)]
pub(super) struct Open {
    pub row: ConversationRow,
    /// Revision that was read; the commit compares it.
    pub revision: u64,
    /// Positions of the conversation that this source holds.
    pub held: u64,
    /// Whether no other source, and no earlier epoch of this one, has rows in it.
    pub alone: bool,
    /// Whether this append made it.
    pub made: bool,
    /// Whether `occurrences` knows every row of this source's epoch.
    pub complete: bool,
    /// Hash (its first half) → how often this source's stream held it. 56 bytes a record at most.
    pub occurrences: HashMap<(u64, u64), u32, ById>,
    /// Hashes of native ids put in by this append, while `made`.
    pub natives: HashSet<u64, ById>,
    /// Row ids this append added.
    pub first: i64,
    pub last: i64,
}

impl Open {
    /// Counts a row of `records` that this append added.
    pub(super) fn put_row(&mut self, id: i64, hash: RowHash) {
        if self.first == 0 {
            self.first = id;
        }
        self.last = id;
        self.row.row_count += 1;
        hash.add_to(&mut self.row.rows_sum);
    }
}

impl SourceAppend<'_, '_> {
    pub(super) fn place_and_put(&mut self, record: &ParsedRecord) -> rusqlite::Result<()> {
        if self.source.source.main_session.is_none() {
            // A store is about no session in particular: what it lacks is no other way taken.
            self.source.source.main_session = Some(match self.kind {
                SourceKind::Log | SourceKind::Document => record.session.clone(),
                SourceKind::Store => String::new(),
            });
        }
        if self.kind == SourceKind::Document
            && let Some(id) = record.native_id.as_deref().filter(|id| is_by_place(id))
        {
            self.placed.insert(native_key(id));
        }
        let mut at = self.route(&record.session)?;
        loop {
            let mut moved_in = None;
            if let Some((found, occurrence, place)) = self.known(at, record)? {
                let Place::Copy { original, .. } = place else {
                    self.end_run();
                    return self.put_record(found, record, occurrence, place);
                };
                if let Disposition::Messages(messages) = &record.disposition
                    && self.lacks(original, record)?
                {
                    self.end_run();
                    self.complete(found, original, messages)?;
                    return self.put_record(found, record, occurrence, place);
                }
                if self.kind == SourceKind::Log || !self.holds_key(found, record, occurrence)? {
                    self.end_run();
                    return self.put_record(found, record, occurrence, place);
                }
                match self.again(found, record, original)? {
                    Again::Unchanged(row) => {
                        self.unchanged(found, record, row);
                        return Ok(());
                    }
                    // What stood there once stands there again: one more occurrence of it.
                    Again::Stands(place) => {
                        self.end_run();
                        let again = self.most_occurrences(found, &record.hash)? + 1;
                        return self.put_record(found, record, again, place);
                    }
                    Again::Elsewhere => moved_in = Some(found),
                }
            }
            self.end_run();
            let o = &self.open[at];
            let goes_on = o.held == o.row.position_count && !self.departs(at, record)?;
            if goes_on || !self.may_diverge(record) {
                let occurrence = if moved_in == Some(at) {
                    self.most_occurrences(at, &record.hash)? + 1
                } else {
                    self.count(at, &record.hash)?
                };
                return self.put_record(at, record, occurrence, Place::New);
            }
            at = self.branch(at, record)?;
        }
    }

    /// What bytes are that an earlier capture of this source brought, as row `original`.
    fn again(&self, at: usize, record: &ParsedRecord, original: i64) -> rusqlite::Result<Again> {
        let native = record.native_id.as_deref();
        let Some(native) = native.filter(|id| self.is_placed(id)) else {
            return Ok(match self.replaced_since(at, record, original)? {
                Some(newest) => Again::Stands(Place::Version(newest)),
                None => Again::Unchanged(original),
            });
        };
        let Some(newest) = self.find_native(at, native, record)? else {
            // It stood elsewhere, unless it was read when ids by place were not given, or another
            // source said it first.
            let elsewhere = self
                .conn
                .prepare_cached(
                    "SELECT native_id IS NOT NULL AND native_id<>?2 AND source=?3 FROM records \
                     WHERE id=?1",
                )?
                .query_row((original, native, self.source.id), |r| r.get(0))?;
            return Ok(if elsewhere {
                Again::Elsewhere
            } else {
                Again::Unchanged(original)
            });
        };
        if self.is_superseded(newest)? {
            return Ok(Again::Stands(Place::Restated));
        }
        let same = self
            .conn
            .prepare_cached("SELECT hash=?2 FROM records WHERE id=?1")?
            .query_row((newest, record.hash.0), |r| r.get(0))?;
        Ok(if same {
            Again::Unchanged(newest)
        } else {
            Again::Stands(Place::Version(newest))
        })
    }

    /// Whether an id says no more than where a record of a document is.
    fn is_placed(&self, id: &str) -> bool {
        self.kind == SourceKind::Document && is_by_place(id)
    }

    /// Whether a document changes what it held as a copy of another one: then it goes its own way.
    fn departs(&self, at: usize, record: &ParsedRecord) -> rusqlite::Result<bool> {
        Ok(record
            .native_id
            .as_deref()
            .is_some_and(|id| self.is_placed(id))
            && self.holds_native(at, record)?
            && self.may_diverge(record))
    }

    /// The records of conversation `at` that stand, that only this source says, and that its
    /// document holds no more. Those with ids of their own stay: a harness that condenses what it
    /// sends to the model drops them, and they were said.
    pub(super) fn absent(&self, at: usize) -> rusqlite::Result<Vec<i64>> {
        let mut statement = self.conn.prepare_cached(
            "SELECT r.id, r.native_id, r.hash FROM records r WHERE r.conversation=?1 \
             AND r.source=?2 AND r.duplicate_of IS NULL AND (r.native_id GLOB '@*' \
             OR r.native_id IS NULL AND r.disposition IN ('messages','unknown')) \
             AND NOT EXISTS (SELECT 1 FROM records n WHERE n.supersedes=r.id) \
             AND NOT EXISTS (SELECT 1 FROM records d WHERE d.conversation=?1 AND d.hash=r.hash \
             AND d.source<>?2) ORDER BY r.id",
        )?;
        let o = &self.open[at];
        let mut absent = Vec::new();
        let mut rows = statement.query((o.row.id, self.source.id))?;
        while let Some(row) = rows.next()? {
            let held = match row.get_ref(1)?.as_str_or_null()? {
                Some(native) => self.placed.contains(&native_key(native)),
                None => o
                    .occurrences
                    .get(&half(&get_digest(row, 2)?))
                    .is_some_and(|n| *n > 0),
            };
            if !held {
                absent.push(row.get(0)?);
            }
        }
        Ok(absent)
    }

    /// The newest version of a record whose bytes are those of an older one, when a later capture
    /// brought it. Two versions that one capture brought stand side by side in the source.
    fn replaced_since(
        &self,
        at: usize,
        record: &ParsedRecord,
        original: i64,
    ) -> rusqlite::Result<Option<i64>> {
        let Some(native) = &record.native_id else {
            return Ok(None);
        };
        let newest = self.find_native(at, native, record)?;
        let Some(newest) = newest.filter(|id| *id != original) else {
            return Ok(None);
        };
        let other = self
            .conn
            .prepare_cached(
                "SELECT n.hash<>?3 AND n.seq<>o.seq AND n.source=o.source FROM records n \
                 JOIN records o ON o.id=?2 WHERE n.id=?1",
            )?
            .query_row((newest, original, record.hash.0), |r| r.get(0))?;
        Ok(Some(newest).filter(|_| other))
    }

    /// How many occurrences of a hash the conversation holds.
    pub(super) fn most_occurrences(&self, at: usize, hash: &Digest) -> rusqlite::Result<u64> {
        self.conn
            .prepare_cached(
                "SELECT coalesce(max(occurrence),0) FROM records WHERE conversation=?1 AND hash=?2",
            )?
            .query_row((self.open[at].row.id, hash.0), |r| get_u64(r, 0))
    }

    /// Records that only carry facts about a session, and records of a session that this file is
    /// not about, are no sign that two files went different ways.
    fn may_diverge(&self, record: &ParsedRecord) -> bool {
        self.is_main(&record.session) && is_positional(record)
    }

    fn is_main(&self, session: &str) -> bool {
        self.source.source.main_session.as_deref() == Some(session)
    }

    /// Looks for the record in conversation `at` and, when it carries an id, in those it branched
    /// off. Only a known record changes the occurrence counts.
    fn known(
        &mut self,
        at: usize,
        record: &ParsedRecord,
    ) -> rusqlite::Result<Option<(usize, u64, Place)>> {
        let mut here = at;
        loop {
            let occurrence = self.occurrences(here, &record.hash)? + 1;
            if !self.open[here].alone
                && let Some((key, original)) = self.find_key(here, &record.hash, occurrence)?
            {
                self.count(here, &record.hash)?;
                return Ok(Some((here, occurrence, Place::Copy { original, key })));
            }
            let identified = record.native_id.is_some() || record.time_ms.is_some();
            let native = record.native_id.as_deref();
            if occurrence > 1
                && let Some(native) = native
                && let Some(newest) = self.find_native(here, native, record)?
                && self.is_superseded(newest)?
            {
                self.count(here, &record.hash)?;
                return Ok(Some((here, occurrence, Place::Restated)));
            }
            if occurrence > 1
                && identified
                && let Some((_, original)) = self.find_key(here, &record.hash, 1)?
                && self.has_same_id(original, record)?
            {
                self.count(here, &record.hash)?;
                return Ok(Some((here, occurrence, Place::Fold(original))));
            }
            let Some(native) = native else {
                return Ok(None);
            };
            if let Some(older) = self.find_native(here, native, record)? {
                self.count(here, &record.hash)?;
                // Nothing newer has its id: what supersedes it takes it back.
                let place = if self.is_superseded(older)? {
                    Place::Restated
                } else {
                    Place::Version(older)
                };
                return Ok(Some((here, occurrence, place)));
            }
            // A document that went its own way shares no more places with the other.
            let own = self.is_placed(native) && self.open[here].first != 0;
            match self.open[here].row.branch_of.filter(|_| !own) {
                Some(parent) => here = self.open_row(parent)?,
                None => return Ok(None),
            }
        }
    }

    /// Counts what this source holds of the conversation. A position is a record that every file
    /// of the session should have: versions share one, folded copies and facts have none, and
    /// records that only other sessions' files brought have none until a file of the session
    /// itself brings them.
    pub(super) fn keep_positions(
        &mut self,
        at: usize,
        record: &ParsedRecord,
        occurrence: u64,
        place: Place,
    ) -> rusqlite::Result<()> {
        let main = self.is_main(&record.session);
        let positional = is_positional(record);
        match place {
            Place::Fold(_) => {}
            _ if !positional => {}
            Place::New if main => {
                self.open[at].held += 1;
                self.open[at].row.position_count += 1;
            }
            Place::New => self.open[at].row.guest_count += 1,
            Place::Version(_) | Place::Restated | Place::Copy { .. } if !main => {}
            Place::Version(_) | Place::Restated => {
                if !self.holds_native(at, record)? {
                    self.open[at].held += 1;
                    // A version shares the position of the record it replaces; where only files
                    // of other sessions brought that one, there is none yet.
                    if self.open[at].row.guest_count > 0 && self.only_guest_versions(at, record)? {
                        self.open[at].row.guest_count -= 1;
                        self.open[at].row.position_count += 1;
                    }
                }
            }
            Place::Copy { key, .. } => {
                let versions = self.open[at].row.public.version_count > 0;
                let had = self.source.source.epoch > 1 && self.holds_key(at, record, occurrence)?
                    || versions && self.holds_native(at, record)?;
                if had || self.is_fold(key)? {
                    return Ok(());
                }
                self.open[at].held += 1;
                if self.open[at].row.guest_count > 0 && self.only_guests(at, record, occurrence)? {
                    self.open[at].row.guest_count -= 1;
                    self.open[at].row.position_count += 1;
                }
            }
        }
        Ok(())
    }

    /// Whether nothing but its bytes tells the record from the row. Where ids are not in the bytes,
    /// the same words said twice are two records.
    fn has_same_id(&self, row: i64, record: &ParsedRecord) -> rusqlite::Result<bool> {
        self.conn
            .prepare_cached("SELECT native_id IS ?2 FROM records WHERE id=?1")?
            .query_row((row, &record.native_id), |r| r.get(0))
    }

    fn is_fold(&self, key: i64) -> rusqlite::Result<bool> {
        self.conn
            .prepare_cached("SELECT duplicate_of IS NOT NULL FROM records WHERE id=?1")?
            .query_row([key], |r| r.get(0))
    }

    /// Whether this source already has a record with this native id in the conversation.
    fn holds_native(&self, at: usize, record: &ParsedRecord) -> rusqlite::Result<bool> {
        let Some(native) = &record.native_id else {
            return Ok(false);
        };
        let sql = format!(
            "SELECT 1 FROM records r WHERE conversation=?1 AND native_id=?2 AND {} AND source=?4 \
             LIMIT 1",
            may_supersede(record)
        );
        self.conn.prepare_cached(&sql)?.exists((
            self.open[at].row.id,
            native,
            &record.record_type,
            self.source.id,
        ))
    }

    /// Whether this source, in any epoch, already has a row with this key.
    fn holds_key(&self, at: usize, r: &ParsedRecord, occurrence: u64) -> rusqlite::Result<bool> {
        self.conn
            .prepare_cached(
                "SELECT 1 FROM records WHERE conversation=?1 AND hash=?2 AND occurrence=?3 \
                 AND source=?4 LIMIT 1",
            )?
            .exists((
                self.open[at].row.id,
                r.hash.0,
                to_i64(occurrence),
                self.source.id,
            ))
    }

    /// Whether every version of this record so far comes from a file that is about another session.
    fn only_guest_versions(&self, at: usize, record: &ParsedRecord) -> rusqlite::Result<bool> {
        let o = &self.open[at];
        let main = self
            .conn
            .prepare_cached(
                "SELECT 1 FROM records r JOIN sources s ON s.id=r.source WHERE r.conversation=?1 \
                 AND r.native_id=?2 AND s.main_session=?3 LIMIT 1",
            )?
            .exists((o.row.id, &record.native_id, &o.row.public.native_id))?;
        Ok(!main)
    }

    /// Whether every row with this key comes from a file that is about another session.
    fn only_guests(&self, at: usize, r: &ParsedRecord, occurrence: u64) -> rusqlite::Result<bool> {
        let o = &self.open[at];
        let main = self
            .conn
            .prepare_cached(
                "SELECT 1 FROM records r JOIN sources s ON s.id=r.source WHERE r.conversation=?1 \
                 AND r.hash=?2 AND r.occurrence=?3 AND s.main_session=?4 LIMIT 1",
            )?
            .exists((
                o.row.id,
                r.hash.0,
                to_i64(occurrence),
                &o.row.public.native_id,
            ))?;
        Ok(!main)
    }

    /// How often this source's stream of the conversation held the hash so far.
    fn occurrences(&mut self, at: usize, hash: &Digest) -> rusqlite::Result<u64> {
        let key = half(hash);
        if let Some(n) = self.open[at].occurrences.get(&key) {
            return Ok(u64::from(*n));
        }
        if self.open[at].complete {
            return Ok(0);
        }
        let n: u32 = self
            .conn
            .prepare_cached(
                "SELECT coalesce(max(occurrence),0) FROM records WHERE conversation=?1 AND hash=?2 \
                 AND source=?3 AND epoch=?4",
            )?
            .query_row(
                (
                    self.open[at].row.id,
                    hash.0,
                    self.source.id,
                    to_i64(self.source.source.epoch),
                ),
                |r| r.get(0),
            )?;
        self.open[at].occurrences.insert(key, n);
        Ok(u64::from(n))
    }

    /// Counts one more occurrence and returns its number.
    fn count(&mut self, at: usize, hash: &Digest) -> rusqlite::Result<u64> {
        let n = self.occurrences(at, hash)?.saturating_add(1);
        let stored = u32::try_from(n).unwrap_or(u32::MAX);
        self.open[at].occurrences.insert(half(hash), stored);
        Ok(n)
    }

    /// The row that holds a coverage key, and the row that holds its messages.
    fn find_key(
        &self,
        at: usize,
        hash: &Digest,
        occurrence: u64,
    ) -> rusqlite::Result<Option<(i64, i64)>> {
        self.conn
            .prepare_cached(
                "SELECT id, coalesce(duplicate_of, id) FROM records WHERE conversation=?1 \
                 AND hash=?2 AND occurrence=?3 AND counted=1",
            )?
            .query_row((self.open[at].row.id, hash.0, to_i64(occurrence)), |r| {
                Ok((r.get(0)?, r.get(1)?))
            })
            .optional()
    }

    /// The newest record of the conversation with this native id of which `record` can be a
    /// version.
    pub(super) fn find_native(
        &self,
        at: usize,
        native: &str,
        record: &ParsedRecord,
    ) -> rusqlite::Result<Option<i64>> {
        let o = &self.open[at];
        if o.made && !o.natives.contains(&native_key(native)) {
            return Ok(None);
        }
        let sql = format!(
            "SELECT max(id) FROM records r WHERE conversation=?1 AND native_id=?2 AND {} \
             AND duplicate_of IS NULL",
            may_supersede(record)
        );
        self.conn
            .prepare_cached(&sql)?
            .query_row((o.row.id, native, &record.record_type), |r| r.get(0))
    }

    pub(super) fn is_superseded(&self, row: i64) -> rusqlite::Result<bool> {
        self.conn
            .prepare_cached("SELECT 1 FROM records WHERE supersedes=?1 LIMIT 1")?
            .exists([row])
    }

    /// The records of the conversation before row `by` that stand and that `what` names, as far as
    /// this source says them: it can't take back what it never said. A version stands where the
    /// first one stood.
    pub(super) fn standing_from(
        &self,
        at: usize,
        by: i64,
        what: &TakenBack,
    ) -> rusqlite::Result<Vec<i64>> {
        let conversation = self.open[at].row.id;
        let first: Option<i64> = match what {
            TakenBack::All => None,
            TakenBack::From(native) => self
                .conn
                .prepare_cached(
                    "WITH RECURSIVE older(id, before) AS (SELECT max(r.id), r.supersedes \
                     FROM records r WHERE r.conversation=?1 AND r.native_id=?2 AND r.id<?3 \
                     AND r.duplicate_of IS NULL \
                     AND NOT EXISTS (SELECT 1 FROM records n WHERE n.supersedes=r.id) \
                     UNION ALL SELECT r.id, r.supersedes FROM older JOIN records r \
                     ON r.id=older.before) SELECT min(id) FROM older",
                )?
                .query_row((conversation, native, by), |r| r.get(0))?,
        };
        let mut statement = self.conn.prepare_cached(
            "WITH RECURSIVE version(id) AS (SELECT r.id FROM records r WHERE r.conversation=?1 \
             AND r.id>=?2 AND r.id<?3 AND r.supersedes IS NULL AND r.duplicate_of IS NULL \
             AND (r.native_id IS NOT NULL OR r.disposition='messages') \
             UNION ALL SELECT n.id FROM version JOIN records n ON n.supersedes=version.id \
             WHERE n.duplicate_of IS NULL) \
             SELECT r.id FROM version JOIN records r ON r.id=version.id WHERE NOT EXISTS \
             (SELECT 1 FROM records n WHERE n.supersedes=r.id) AND EXISTS \
             (SELECT 1 FROM records d WHERE d.conversation=?1 AND d.hash=r.hash AND d.source=?4 \
             AND d.epoch=?5) ORDER BY r.id",
        )?;
        let (source, epoch) = (self.source.id, to_i64(self.source.source.epoch));
        let first = first.unwrap_or(0);
        statement
            .query_map((conversation, first, by, source, epoch), |r| r.get(0))?
            .collect()
    }

    /// The conversation that this source's records of `session` go to: the deepest branch that it
    /// already has a part in, else the conversation itself.
    pub(super) fn route(&mut self, session: &str) -> rusqlite::Result<usize> {
        if let Some(at) = self.routes.get(session) {
            return Ok(*at);
        }
        let s = &self.source.source;
        let id = identity::conversation_id(&s.source_id, s.provider, session);
        let at = match ConversationRow::by_public(self.conn, &id)? {
            None => {
                let public = new_conversation(id, s, session);
                self.make(public, None, None)?
            }
            Some(base) => {
                let deepest = if self.source_is_new {
                    None
                } else {
                    self.deepest(&base)?
                };
                self.open_row(deepest.unwrap_or(base.id))?
            }
        };
        self.routes.insert(session.to_owned(), at);
        Ok(at)
    }

    /// [`SourceAppend::route`] of a session that is archived.
    pub(super) fn known_route(&mut self, session: &str) -> rusqlite::Result<Option<usize>> {
        let s = &self.source.source;
        let id = identity::conversation_id(&s.source_id, s.provider, session);
        match ConversationRow::by_public(self.conn, &id)? {
            Some(_) => self.route(session).map(Some),
            None => Ok(None),
        }
    }

    /// The last row with which this source said something in a conversation.
    pub(super) fn newest_said(&self, conversation: i64) -> rusqlite::Result<Option<i64>> {
        self.conn
            .prepare_cached(
                "SELECT max(coalesce(duplicate_of, id)) FROM records WHERE conversation=?1 \
                 AND source=?2",
            )?
            .query_row((conversation, self.source.id), |r| r.get(0))
    }

    fn deepest(&self, base: &ConversationRow) -> rusqlite::Result<Option<i64>> {
        let c = &base.public;
        self.conn
            .prepare_cached(
                "SELECT id FROM conversations v WHERE native_id=?1 AND source_id=?2 AND provider=?3 \
                 AND EXISTS (SELECT 1 FROM commit_conversations t WHERE t.conversation=v.id \
                 AND t.source=?4) ORDER BY id DESC LIMIT 1",
            )?
            .query_row((&c.native_id, &c.source_id, c.provider.as_str(), self.source.id), |r| {
                r.get(0)
            })
            .optional()
    }

    pub(super) fn open_row(&mut self, id: i64) -> rusqlite::Result<usize> {
        if let Some(at) = self.by_row.get(&id) {
            return Ok(*at);
        }
        let row =
            ConversationRow::by_id(self.conn, id)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        let held = self
            .conn
            .prepare_cached(
                "SELECT held FROM commit_conversations WHERE conversation=?1 AND source=?2 \
                 ORDER BY commit_number DESC LIMIT 1",
            )?
            .query_row((id, self.source.id), |r| get_u64(r, 0))
            .optional()?;
        let others = self
            .conn
            .prepare_cached(
                "SELECT 1 FROM commit_conversations WHERE conversation=?1 AND source<>?2 LIMIT 1",
            )?
            .exists((id, self.source.id))?;
        let open = Open {
            revision: row.public.revision,
            held: held.unwrap_or(0),
            alone: !others && self.source.source.epoch == 1,
            made: false,
            // In an epoch that this append began, and in a conversation where this source has no
            // rows, there are none to count.
            complete: held.is_none() || self.before.is_none_or(|b| b.0 != self.source.source.epoch),
            occurrences: HashMap::default(),
            natives: HashSet::default(),
            first: 0,
            last: 0,
            row,
        };
        Ok(self.push(open))
    }

    /// Goes to the branch of conversation `at` that begins with this record, made if need be.
    fn branch(&mut self, at: usize, record: &ParsedRecord) -> rusqlite::Result<usize> {
        let shared = self.last_shared(at)?;
        let parent = &self.open[at].row;
        let id = identity::branch_id(&parent.public.id, shared.as_ref(), &record.hash);
        let parent_id = parent.id;
        let to = match ConversationRow::by_public(self.conn, &id)? {
            Some(row) => self.open_row(row.id)?,
            None => {
                let mut public = new_conversation(id, &self.source.source, &record.session);
                public.branch_at = shared;
                self.make(public, Some(parent_id), Some(record.hash))?
            }
        };
        self.routes.insert(record.session.clone(), to);
        Ok(to)
    }

    /// Hash of the last record that this source has in the conversation.
    fn last_shared(&self, at: usize) -> rusqlite::Result<Option<Digest>> {
        let o = &self.open[at];
        let last = if o.last > 0 {
            Some(o.last)
        } else {
            self.conn
                .prepare_cached(
                    "SELECT last_record FROM commit_conversations WHERE conversation=?1 \
                     AND source=?2 ORDER BY commit_number DESC LIMIT 1",
                )?
                .query_row((o.row.id, self.source.id), |r| r.get(0))
                .optional()?
        };
        let Some(last): Option<i64> = last else {
            return Ok(None);
        };
        self.conn
            .prepare_cached("SELECT hash FROM records WHERE id=?1")?
            .query_row([last], |r| get_digest(r, 0))
            .optional()
    }

    pub(super) fn make(
        &mut self,
        public: Conversation,
        branch_of: Option<i64>,
        branch_hash: Option<Digest>,
    ) -> rusqlite::Result<usize> {
        let row = ConversationRow {
            id: self.next.conversation,
            public,
            branch_of,
            branch_hash,
            row_count: 0,
            position_count: 0,
            guest_count: 0,
            coverage_sum: DigestSum::ZERO,
            rows_sum: DigestSum::ZERO,
        };
        self.next.conversation += 1;
        row.with_values(|v| insert(self.conn, &CONVERSATIONS, v))?;
        let open = Open {
            revision: 0,
            held: 0,
            alone: true,
            made: true,
            complete: true,
            occurrences: HashMap::default(),
            natives: HashSet::default(),
            first: 0,
            last: 0,
            row,
        };
        Ok(self.push(open))
    }

    fn push(&mut self, open: Open) -> usize {
        let at = self.open.len();
        self.by_row.insert(open.row.id, at);
        self.open.push(open);
        at
    }
}

/// Which records `r` a record with their id can be a version of, in SQL; its type is parameter 3.
/// A message is replaced by a message, or by a record of its own type that holds none any more. A
/// record that is not understood replaces no message, whatever id it carries.
fn may_supersede(record: &ParsedRecord) -> &'static str {
    match record.disposition {
        Disposition::Messages(_) => "(r.disposition='messages' OR r.record_type=?3)",
        Disposition::Unknown => "(r.disposition<>'messages' AND r.record_type=?3)",
        Disposition::Known | Disposition::TakesBack(_) | Disposition::DuplicateOf { .. } => {
            "r.record_type=?3"
        }
    }
}

fn is_positional(record: &ParsedRecord) -> bool {
    record.native_id.is_some()
        || matches!(
            record.disposition,
            Disposition::Messages(_) | Disposition::Unknown
        )
}

fn new_conversation(id: String, source: &ArchivedSource, session: &str) -> Conversation {
    Conversation {
        id,
        source_id: source.source_id.clone(),
        provider: source.provider,
        native_id: session.to_owned(),
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
    }
}

fn half(hash: &Digest) -> (u64, u64) {
    let part = |at: usize| {
        let mut le = [0u8; 8];
        le.copy_from_slice(&hash.0[at..at + 8]);
        u64::from_le_bytes(le)
    };
    (part(0), part(8))
}

pub(super) fn native_key(native: &str) -> u64 {
    let mut key = [0u8; 8];
    key.copy_from_slice(&Digest::of(native.as_bytes()).0[..8]);
    u64::from_le_bytes(key)
}
