//! Messages whose record's row is lost, on their way into an archive.

use std::collections::{BTreeMap, HashMap, HashSet};

use rusqlite::Connection;

use super::lost_record::put_messages;
use super::orphan::{Orphan, Orphans};
use super::said::{Said, each_said};
use crate::error::Result;
use crate::model::interrupt::Interrupt;
use crate::store::archive::failed;
use crate::store::archive::ids::ById;
use crate::store::archive::rescue::{Known, Rescued, TableTally};
use crate::store::archive::row_hash::RowHasher;
use crate::store::archive::schema::MESSAGES;
use crate::store::archive::state::ConversationRow;
use crate::store::archive::writer::ArchiveWriter;

/// How often something is said, by the conversation's row id.
pub(super) type Tallies = HashMap<i64, HashMap<Said, u64>, ById>;

/// Messages whose record's row is lost, on their way into an archive.
pub(super) struct Messages<'a, 'l> {
    pub rescued: &'a Rescued<'l>,
    /// Conversations that are made up.
    pub homeless: &'a HashSet<i64, ById>,
    /// Those, and those whose row another holder gave.
    pub unknown: &'a HashSet<i64, ById>,
    pub lacks: &'a dyn Fn(&str) -> bool,
    pub now_ms: i64,
}

impl Messages<'_, '_> {
    /// How many were put, by conversation.
    pub fn put(
        &self,
        archive: &mut ArchiveWriter<'_>,
        interrupt: &Interrupt,
    ) -> Result<BTreeMap<i64, u64>> {
        let mut orphans = Orphans::new();
        let mut ids: HashSet<i64, ById> = HashSet::default();
        self.rescued.orphans(interrupt, &mut |orphan| {
            let known = self.rescued.conversations.get(&orphan.conversation);
            let is_due = self.unknown.contains(&orphan.conversation)
                || known.is_some_and(|k| (self.lacks)(&k.row.public.id));
            if is_due {
                ids.insert(orphan.id);
                orphans.entry(orphan.conversation).or_default().push(orphan);
            }
            Ok(())
        })?;
        if orphans.is_empty() {
            return Ok(BTreeMap::new());
        }
        let had = self.had(&orphans, &ids)?;
        let elsewhere = self.elsewhere(&archive.conn, &orphans)?;
        let mut put = BTreeMap::new();
        for (conversation, orphans) in &orphans {
            interrupt.check()?;
            if elsewhere.contains(conversation) {
                continue;
            }
            let Some(known) = self.rescued.conversations.get(conversation) else {
                continue;
            };
            let had = had.get(conversation);
            let due = due(&archive.conn, known, orphans, had)?;
            if !due.is_empty() {
                put_messages(archive, self.rescued, known, &due, self.now_ms)?;
                put.insert(*conversation, due.len() as u64);
            }
        }
        Ok(put)
    }

    /// How often what orphans say is also said by a message whose record is there.
    fn had(&self, orphans: &Orphans, ids: &HashSet<i64, ById>) -> Result<Tallies> {
        let mut tallies = tallies(orphans);
        let mut hasher = RowHasher::default();
        self.rescued.verified(
            &MESSAGES,
            (i64::MIN, i64::MAX),
            &mut |c| {
                if let (Some(id), Some(conversation)) = (c.int(0), c.int(1))
                    && let Some(tally) = tallies.get_mut(&conversation)
                    && !ids.contains(&id)
                    && let Some(n) = tally.get_mut(&Said::of(&mut hasher, c))
                {
                    *n += 1;
                }
                Ok(true)
            },
            &mut TableTally::default(),
        )?;
        Ok(tallies)
    }
}

/// The orphans of a conversation that are not in it yet: what is there of each text beyond what
/// records `had` is one of them.
fn due(
    conn: &Connection,
    known: &Known,
    orphans: &[Orphan],
    had: Option<&HashMap<Said, u64>>,
) -> Result<Vec<i64>> {
    let mut spare: HashMap<Said, u64> = orphans.iter().map(|o| (o.said, 0)).collect();
    let row = ConversationRow::by_public(conn, &known.row.public.id)
        .map_err(|e| failed(conn, "read", e))?;
    if let Some(row) = row {
        each_said(conn, Some(row.id), &mut |_, said| {
            if let Some(n) = spare.get_mut(&said) {
                *n += 1;
            }
        })?;
    }
    for (said, n) in &mut spare {
        let had = had.and_then(|h| h.get(said)).copied().unwrap_or(0);
        *n = n.saturating_sub(had);
    }
    let is_due = |o: &&Orphan| match spare.get_mut(&o.said) {
        Some(n) if *n > 0 => {
            *n -= 1;
            false
        }
        _ => true,
    };
    Ok(orphans.iter().filter(is_due).map(|o| o.id).collect())
}

fn tallies(orphans: &Orphans) -> Tallies {
    let of = |orphans: &[Orphan]| orphans.iter().map(|o| (o.said, 0)).collect();
    orphans.iter().map(|(id, all)| (*id, of(all))).collect()
}
