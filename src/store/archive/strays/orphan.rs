//! Messages whose record's row is lost.

use std::collections::{BTreeMap, HashSet};

use super::said::Said;
use crate::error::Result;
use crate::model::interrupt::Interrupt;
use crate::store::archive::ids::ById;
use crate::store::archive::rescue::{PAGE, Rescued, TableTally, read_message};
use crate::store::archive::row_hash::RowHasher;
use crate::store::archive::schema::MESSAGES;
use crate::store::archive::{PART_BITS, PART_MASK};

/// A message whose record's row is lost.
#[derive(Debug)]
pub(super) struct Orphan {
    pub id: i64,
    pub conversation: i64,
    pub said: Said,
}

/// By the conversation's row id.
pub(super) type Orphans = BTreeMap<i64, Vec<Orphan>>;

impl Rescued<'_> {
    /// Streams the messages whose record's row is lost, ids ascending.
    pub(super) fn orphans(
        &self,
        interrupt: &Interrupt,
        f: &mut dyn FnMut(Orphan) -> Result<()>,
    ) -> Result<()> {
        let most = i64::MAX >> PART_BITS;
        let mut from = 0i64;
        loop {
            interrupt.check()?;
            let mut page: HashSet<i64, ById> = HashSet::default();
            let mut to = most;
            self.records(from, &mut |r| {
                page.insert(r.id);
                if page.len() == PAGE {
                    to = r.id.min(most);
                }
                Ok(page.len() < PAGE)
            })?;
            let bounds = (from << PART_BITS, (to << PART_BITS) | PART_MASK);
            let mut hasher = RowHasher::default();
            self.verified(
                &MESSAGES,
                bounds,
                &mut |c| {
                    if let (Some(id), Some(conversation)) = (c.int(0), c.int(1))
                        && !page.contains(&(id >> PART_BITS))
                        && read_message(c).is_some()
                    {
                        f(Orphan {
                            id,
                            conversation,
                            said: Said::of(&mut hasher, c),
                        })?;
                    }
                    Ok(true)
                },
                &mut TableTally::default(),
            )?;
            if to >= most {
                return Ok(());
            }
            from = to + 1;
        }
    }
}
