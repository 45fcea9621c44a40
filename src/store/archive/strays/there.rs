//! What of the stray records an archive holds already.

use std::collections::{BTreeSet, HashMap, HashSet};

use rusqlite::Connection;

use crate::error::Result;
use crate::model::source::SourceKey;
use crate::store::archive::failed;
use crate::store::archive::ids::ById;
use crate::store::archive::rescue::Rescued;

/// What of the stray records is there.
pub(super) struct There {
    /// Their row ids.
    pub records: HashSet<i64, ById>,
    /// Of each conversation whose row is lost, those that hold them here.
    homes: HashMap<i64, BTreeSet<i64>, ById>,
}

/// Where a record lies: its row id, its conversation's, its source where known, its first byte.
type Lies = (i64, i64, Option<SourceKey>, u64);

impl There {
    pub fn of(
        conn: &Connection,
        incomplete: &HashSet<i64>,
        rescued: &Rescued<'_>,
    ) -> Result<There> {
        let mut out = There {
            records: HashSet::default(),
            homes: HashMap::default(),
        };
        let mut strays: HashMap<[u8; 32], Vec<Lies>> = HashMap::new();
        rescued.records(0, &mut |r| {
            if rescued.is_stray(&r) && !r.is_keyless() {
                let source = rescued.sources.get(&r.source).map(|s| s.source.key);
                let lies = (r.id, r.conversation, source, r.span.offset);
                strays.entry(r.hash.0).or_default().push(lies);
            }
            Ok(true)
        })?;
        if strays.is_empty() {
            return Ok(out);
        }
        let mut look = || -> rusqlite::Result<()> {
            let mut statement = conn.prepare(
                "SELECT r.conversation, r.hash, r.offset, s.source_key, \
                 coalesce(r.duplicate_of, r.id) FROM records r JOIN sources s ON s.id=r.source",
            )?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let hash: [u8; 32] = row.get(1)?;
                let Some(all) = strays.get(&hash) else {
                    continue;
                };
                let (offset, key) = (row.get::<_, i64>(2)?, SourceKey(row.get(3)?));
                for (id, conversation, source, at) in all {
                    if i64::try_from(*at) != Ok(offset) || source.is_some_and(|s| s != key) {
                        continue;
                    }
                    let homes = out.homes.entry(*conversation).or_default();
                    homes.insert(row.get(0)?);
                    // Where it lacks messages, this one may have them.
                    if !incomplete.contains(&row.get(4)?) {
                        out.records.insert(*id);
                    }
                }
            }
            Ok(())
        };
        look().map_err(|e| failed(conn, "read", e))?;
        Ok(out)
    }

    /// The conversation here that holds records of one whose row is lost, where it is the only one.
    pub fn home(&self, conversation: i64) -> Option<i64> {
        let homes = self.homes.get(&conversation)?;
        homes.first().copied().filter(|_| homes.len() == 1)
    }
}
