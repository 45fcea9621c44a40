//! Made-up conversations that another holder gave under their name.

use std::collections::{HashMap, HashSet};

use rusqlite::Connection;

use super::messages::{Messages, Tallies};
use super::orphan::Orphans;
use super::said::{Said, each_said};
use crate::error::Result;
use crate::store::archive::ids::ById;
use crate::store::archive::rescue::TableTally;
use crate::store::archive::row_hash::RowHasher;
use crate::store::archive::schema::MESSAGES;

impl Messages<'_, '_> {
    /// The made-up conversations all of whose messages lie in one that is here, while as many of each
    /// are here as this archive has: another holder gave them under their name.
    pub(super) fn elsewhere(
        &self,
        conn: &Connection,
        orphans: &Orphans,
    ) -> Result<HashSet<i64, ById>> {
        let mut found = HashSet::default();
        // What is said → who says it, and how often.
        let mut sought: HashMap<Said, Vec<i64>> = HashMap::new();
        let mut wanted: Tallies = HashMap::default();
        for (id, orphans) in orphans.iter().filter(|(id, _)| self.homeless.contains(id)) {
            let tally = wanted.entry(*id).or_default();
            for o in orphans {
                *tally.entry(o.said).or_insert(0) += 1;
                let who = sought.entry(o.said).or_default();
                if who.last() != Some(id) {
                    who.push(*id);
                }
            }
        }
        if sought.is_empty() {
            return Ok(found);
        }
        // How many more of each this archive has than are here.
        let mut lacking: HashMap<Said, i64> = sought.keys().map(|said| (*said, 0)).collect();
        let mut hasher = RowHasher::default();
        self.rescued.verified(
            &MESSAGES,
            (i64::MIN, i64::MAX),
            &mut |c| {
                if let Some(n) = lacking.get_mut(&Said::of(&mut hasher, c)) {
                    *n += 1;
                }
                Ok(true)
            },
            &mut TableTally::default(),
        )?;
        let mut here: HashMap<(i64, i64), HashMap<Said, u64>> = HashMap::new();
        each_said(conn, None, &mut |conversation, said| {
            if let Some(n) = lacking.get_mut(&said) {
                *n -= 1;
            }
            for id in sought.get(&said).into_iter().flatten() {
                let tally = here.entry((*id, conversation)).or_default();
                *tally.entry(said).or_insert(0) += 1;
            }
        })?;
        for ((id, _), tally) in here {
            let covers = |(said, n): (&Said, &u64)| {
                tally.get(said).is_some_and(|have| have >= n)
                    && lacking.get(said).is_some_and(|n| *n <= 0)
            };
            if wanted.get(&id).is_some_and(|w| w.iter().all(covers)) {
                found.insert(id);
            }
        }
        Ok(found)
    }
}
