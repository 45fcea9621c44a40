//! Rows that are left of what is lost: records of conversations whose row is gone, and messages of
//! records whose row is gone.
//!
//! What nothing else gives comes back under a conversation that is made up of it and says so in its
//! name. Nothing is mixed with another conversation, and nothing that is there comes twice.

mod elsewhere;
mod left;
mod lost_record;
mod made_up;
mod messages;
mod orphan;
mod read_again;
mod read_from;
mod said;
mod there;

use std::collections::{BTreeMap, HashSet};

use super::failed;
use super::ids::ById;
use super::replay::{Only, replay_only};
use super::rescue::{Known, Rescued};
use super::state::ConversationRow;
use super::writer::ArchiveWriter;
use crate::error::Result;
use crate::model::interrupt::Interrupt;
use crate::model::provider::Provider;
use crate::model::source::SourceKey;
use messages::Messages;
use there::There;

/// What is left of one conversation without the row that says where it belongs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stray {
    /// Public id of the conversation; of the one that is made up where its row is lost.
    pub conversation: String,
    /// Its harness.
    pub provider: Provider,
    /// What the harness calls it, or `unknown/conversation-<row id>-<first of what is left>`.
    pub native_id: String,
    /// Whether its row is lost.
    pub is_made_up: bool,
    /// Records whose row is there and the conversation's is not.
    pub records: u64,
    /// Messages whose record's row is lost.
    pub messages: u64,
}

impl Stray {
    fn of(known: &Known, is_made_up: bool, (records, messages): (u64, u64)) -> Stray {
        let c = &known.row.public;
        Stray {
            conversation: c.id.clone(),
            provider: c.provider,
            native_id: c.native_id.clone(),
            is_made_up,
            records,
            messages,
        }
    }
}

/// Puts what is left of lost conversations and records into `archive`, once everything else that
/// can be put into it is there: of the sources that are `wanted`, and of the conversations that
/// `lack` something. Gives what was put.
///
/// # Errors
/// As [`super::replay_rows`].
pub fn replay_strays(
    archive: &mut ArchiveWriter<'_>,
    rescued: &mut Rescued<'_>,
    wanted: &dyn Fn(SourceKey) -> bool,
    lacks: &dyn Fn(&str) -> bool,
    now_ms: i64,
    interrupt: &Interrupt,
) -> Result<Vec<Stray>> {
    let left = rescued.left(wanted, interrupt)?;
    if left.is_empty() {
        return Ok(Vec::new());
    }
    let made_up = rescued.made_up(&left)?;
    let there = There::of(&archive.conn, &archive.shared.incomplete, rescued)?;
    let mut homes: BTreeMap<i64, Known> = BTreeMap::new();
    let mut homeless: HashSet<i64, ById> = HashSet::default();
    for (id, known) in made_up {
        let home = match there.home(id) {
            Some(row) => ConversationRow::by_id(&archive.conn, row)
                .map_err(|e| failed(&archive.conn, "read", e))?,
            None => None,
        };
        let known = match home {
            // What it branches off is another row id in the archive that is read.
            Some(row) => Known {
                row: ConversationRow {
                    branch_of: None,
                    ..row
                },
                verified: false,
            },
            None => {
                homeless.insert(id);
                known
            }
        };
        homes.insert(id, known);
    }
    let unknown: HashSet<i64, ById> = homes.keys().copied().collect();
    rescued.conversations.extend(homes);
    let mut put: BTreeMap<i64, (u64, u64)> = BTreeMap::new();
    if !unknown.is_empty() {
        let only = Only {
            conversations: &unknown,
            but: &there.records,
        };
        let records = replay_only(archive, rescued, wanted, only, now_ms, interrupt)?;
        for (id, n) in records {
            put.entry(id).or_default().0 = n;
        }
    }
    let messages = Messages {
        rescued,
        homeless: &homeless,
        unknown: &unknown,
        lacks,
        now_ms,
    };
    for (id, n) in messages.put(archive, interrupt)? {
        put.entry(id).or_default().1 = n;
    }
    let stray = |(id, rows)| {
        let known = rescued.conversations.get(&id)?;
        Some(Stray::of(known, homeless.contains(&id), rows))
    };
    Ok(put.into_iter().filter_map(stray).collect())
}
