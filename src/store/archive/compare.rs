//! What a candidate lacks of what can be read elsewhere, or of what was promised.
//!
//! Counts and sums are compared first; records one by one only where those differ.

use std::collections::{BTreeSet, HashMap, HashSet};

use rusqlite::{Connection, OptionalExtension};

use super::failed;
use super::ids::ById;
use super::reader::ArchiveReader;
use super::rescue::{Known, Rescued};
use super::rows::{coverage_element, get_digest, get_u64, to_i64};
use super::state::ConversationRow;
use super::writer::ArchiveWriter;
use crate::error::Result;
use crate::model::digest::{Digest, DigestSum};
use crate::model::provider::Provider;
use crate::store::generation::GenerationId;
use crate::store::promises::Promises;

/// Record hashes that are named of one conversation.
const NAMED: usize = 8;

/// The archive that is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a>(&'a Connection);

impl<'a> From<&'a ArchiveReader> for Candidate<'a> {
    fn from(reader: &'a ArchiveReader) -> Self {
        Candidate(&reader.conn)
    }
}

impl<'a> From<&'a ArchiveWriter<'_>> for Candidate<'a> {
    fn from(writer: &'a ArchiveWriter<'_>) -> Self {
        Candidate(&writer.conn)
    }
}

/// Of one conversation, what the candidate does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Its public id.
    pub conversation: String,
    /// Its harness.
    pub provider: Provider,
    /// Coverage keys that can be read elsewhere and that the candidate lacks.
    pub records: u64,
    /// Hashes of some of their records; at most 8.
    pub hashes: Vec<Digest>,
}

/// All that is missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MissingTotals {
    /// Conversations that lack something.
    pub conversations: u64,
    /// Coverage keys.
    pub records: u64,
    /// Conversations whose records were compared one by one.
    pub by_key: u64,
    /// Rows that can be read, but whose conversation nothing tells: they can't be compared.
    pub unplaced: u64,
}

/// How the candidate stands to the promise about one conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Same count and sum.
    Equal,
    /// Another sum, but every promised record is known and is there.
    AtLeast,
    /// Fewer records, or none.
    Less,
    /// As many records or more, but other ones, and the promised ones are not all known.
    Differs,
}

/// The promise about one conversation, and what is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromiseStanding {
    /// Its public id.
    pub conversation: String,
    /// Coverage keys that were promised.
    pub promised: u64,
    /// Coverage keys that the candidate holds.
    pub held: u64,
    /// What that means.
    pub standing: Standing,
}

/// What can be read of one conversation elsewhere.
#[derive(Debug, Default)]
struct Seen {
    count: u64,
    sum: DigestSum,
    /// Copies, whose counted row may be lost.
    copies: bool,
}

impl Candidate<'_> {
    /// Row id, count and sum of a conversation.
    fn held(&self, public: &str) -> Result<Option<(i64, u64, Digest)>> {
        self.0
            .prepare_cached(
                "SELECT id, record_count, coverage_sum FROM conversations WHERE public_id=?1",
            )
            .and_then(|mut s| {
                s.query_row([public], |r| {
                    Ok((r.get(0)?, get_u64(r, 1)?, get_digest(r, 2)?))
                })
                .optional()
            })
            .map_err(|e| failed(self.0, "read", e))
    }

    fn holds(&self, conversation: i64, hash: &Digest, occurrence: u64) -> Result<bool> {
        self.0
            .prepare_cached(
                "SELECT 1 FROM records WHERE conversation=?1 AND hash=?2 AND occurrence=?3 LIMIT 1",
            )
            .and_then(|mut s| s.exists((conversation, hash.0, to_i64(occurrence))))
            .map_err(|e| failed(self.0, "read", e))
    }
}

/// Finds the coverage keys that `against` can still read and the candidate does not hold, and calls
/// `f` with every conversation that lacks some, in the order of their rows.
///
/// # Errors
/// `archive-corrupt` when the candidate can't be read; `io`, and whatever `f` returns.
pub fn missing(
    candidate: Candidate<'_>,
    against: &Rescued<'_>,
    f: &mut dyn FnMut(Missing) -> Result<()>,
) -> Result<MissingTotals> {
    let (seen, unplaced) = seen(against)?;
    let mut totals = MissingTotals {
        unplaced,
        ..MissingTotals::default()
    };
    // Conversations to look at record by record, with their row in the candidate.
    let mut differing: HashMap<i64, Option<i64>, ById> = HashMap::default();
    for (id, s) in &seen {
        let Some(known) = against.conversations.get(id) else {
            continue;
        };
        let held = candidate.held(&known.row.public.id)?;
        let sum = s.sum.to_digest();
        let equal = held.is_some_and(|(_, count, held)| (count, held) == (s.count, sum));
        // A counted row that is lost may have a copy that is not.
        let whole = known.verified
            && (known.row.public.record_count, known.row.public.coverage_sum) == (s.count, sum);
        if !(equal && (whole || !s.copies)) {
            differing.insert(*id, held.map(|h| h.0));
        }
    }
    totals.by_key = u64::try_from(differing.len()).unwrap_or(u64::MAX);
    let mut found: HashMap<i64, (u64, Vec<Digest>), ById> = HashMap::default();
    let mut counted: HashSet<[u8; 16]> = HashSet::new();
    if !differing.is_empty() {
        against.records(0, &mut |r| {
            let Some(there) = differing.get(&r.conversation).filter(|_| !r.is_keyless()) else {
                return Ok(true);
            };
            let held = match there {
                Some(row) => candidate.holds(*row, &r.hash, r.occurrence)?,
                None => false,
            };
            if !held && counted.insert(fingerprint(r.conversation, &r.hash, r.occurrence)) {
                let (n, hashes) = found.entry(r.conversation).or_default();
                *n += 1;
                if hashes.len() < NAMED {
                    hashes.push(r.hash);
                }
            }
            Ok(true)
        })?;
    }
    let mut found: Vec<(i64, (u64, Vec<Digest>))> = found.into_iter().collect();
    found.sort_unstable_by_key(|(id, _)| *id);
    for (id, (records, hashes)) in found {
        let Some(known) = against.conversations.get(&id) else {
            continue;
        };
        totals.conversations += 1;
        totals.records += records;
        f(Missing {
            conversation: known.row.public.id.clone(),
            provider: known.row.public.provider,
            records,
            hashes,
        })?;
    }
    Ok(totals)
}

/// How many conversations of `of` the candidate does not hold with the same records and as many
/// messages. Messages that `of` lost in an earlier repair are no difference; one whose own row is
/// refused is.
///
/// # Errors
/// `archive-corrupt` when the candidate can't be read.
pub fn unequal(candidate: Candidate<'_>, of: &Rescued<'_>) -> Result<u64> {
    let mut unequal = 0;
    for known in of.conversations.values() {
        let there = &known.row.public;
        let here = ConversationRow::by_public(candidate.0, &there.id)
            .map_err(|e| failed(candidate.0, "read", e))?;
        let is_equal = known.verified
            && here.is_some_and(|h| {
                let here = &h.public;
                (here.record_count, here.message_count, here.coverage_sum)
                    == (there.record_count, there.message_count, there.coverage_sum)
            });
        unequal += u64::from(!is_equal);
    }
    Ok(unequal)
}

/// Compares the candidate with every promise about a conversation, in the order of their ids, and
/// calls `f` with each. Of those that are `proven`, another sum is known to hold at least what was
/// promised.
///
/// # Errors
/// `archive-corrupt` when the candidate can't be read; whatever `f` returns.
pub fn standing(
    candidate: Candidate<'_>,
    promises: &Promises,
    proven: &BTreeSet<String>,
    f: &mut dyn FnMut(PromiseStanding) -> Result<()>,
) -> Result<()> {
    for (id, p) in &promises.conversations {
        let held = candidate.held(id)?;
        let count = held.map_or(0, |h| h.1);
        let standing = match held {
            Some((_, n, sum)) if (n, sum) == (p.count, p.sum) => Standing::Equal,
            None if p.count == 0 => Standing::Equal,
            _ if count < p.count => Standing::Less,
            _ if proven.contains(id) => Standing::AtLeast,
            _ => Standing::Differs,
        };
        f(PromiseStanding {
            conversation: id.clone(),
            promised: p.count,
            held: count,
            standing,
        })?;
    }
    Ok(())
}

/// The conversations of which `of`, an archive of this generation, can show that the candidate holds
/// at least what was promised: it has, and the candidate lacks nothing that it has.
///
/// # Errors
/// `archive-corrupt` when the candidate can't be read; `io`.
pub fn proven(
    candidate: Candidate<'_>,
    promises: &Promises,
    of: &Rescued<'_>,
    generation: &GenerationId,
) -> Result<BTreeSet<String>> {
    let mut proven: BTreeSet<String> = BTreeSet::new();
    for (id, s) in &seen(of)?.0 {
        if let Some(known) = of.conversations.get(id)
            && let Some((key, p)) = promises.conversations.get_key_value(&known.row.public.id)
            && ((p.count, p.sum) == (s.count, s.sum.to_digest())
                || promises.was_held_by(generation, p) && holds_all(known, s, p.count))
        {
            proven.insert(key.clone());
        }
    }
    missing(candidate, of, &mut |m| {
        proven.remove(&m.conversation);
        Ok(())
    })?;
    Ok(proven)
}

/// Whether all that the archive's own row of a conversation counts can be read. Where the archive held
/// what was promised, that is in it, if it is no less: no commit takes a record away.
fn holds_all(known: &Known, seen: &Seen, promised: u64) -> bool {
    let row = &known.row.public;
    known.verified
        && row.record_count >= promised
        && (row.record_count, row.coverage_sum) == (seen.count, seen.sum.to_digest())
}

/// Counts and sums of what can be read, and the rows whose conversation is not known.
fn seen(rescued: &Rescued<'_>) -> Result<(HashMap<i64, Seen, ById>, u64)> {
    let mut seen: HashMap<i64, Seen, ById> = HashMap::default();
    let mut unplaced = 0;
    rescued.records(0, &mut |r| {
        if r.is_keyless() {
            return Ok(true);
        }
        if !rescued.conversations.contains_key(&r.conversation) {
            unplaced += 1;
            return Ok(true);
        }
        let s = seen.entry(r.conversation).or_default();
        if r.counted {
            s.count += 1;
            s.sum.add(&coverage_element(&r.hash, r.occurrence));
        } else {
            s.copies = true;
        }
        Ok(true)
    })?;
    Ok((seen, unplaced))
}

fn fingerprint(conversation: i64, hash: &Digest, occurrence: u64) -> [u8; 16] {
    let mut bytes = [0u8; 48];
    bytes[..8].copy_from_slice(&conversation.to_le_bytes());
    bytes[8..40].copy_from_slice(&hash.0);
    bytes[40..].copy_from_slice(&occurrence.to_le_bytes());
    let mut out = [0u8; 16];
    out.copy_from_slice(&Digest::of(&bytes).0[..16]);
    out
}
