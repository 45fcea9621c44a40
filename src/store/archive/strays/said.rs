//! What a message says, as far as two are told apart by it.

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::lost_record::LOST_RECORD;
use crate::error::Result;
use crate::model::digest::Digest;
use crate::store::archive::readable::Columns;
use crate::store::archive::row_hash::RowHasher;
use crate::store::archive::{PART_BITS, PART_MASK, failed};

/// Columns of `messages` that hold it.
const COLUMNS: usize = 7;

/// Stands for what a message says: role, kind, text, tool, call, model, error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Said([u8; 16]);

impl Said {
    /// By a row of `messages`, whose first columns are id and conversation.
    pub fn of(hasher: &mut RowHasher, row: &Columns<'_>) -> Said {
        Said::by(hasher, row.0.get(2..2 + COLUMNS).unwrap_or_default())
    }

    fn by(hasher: &mut RowHasher, values: &[ValueRef<'_>]) -> Said {
        hasher.begin_digest(LOST_RECORD);
        values.iter().for_each(|v| hasher.value(*v));
        let mut short = [0; 16];
        short.copy_from_slice(&hasher.digest().0[..16]);
        Said(short)
    }

    /// For a name that is made of it.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.0)
    }
}

/// Calls `f` with the conversation of every message, or of those of one conversation, and with what
/// it says.
pub(super) fn each_said(
    conn: &Connection,
    of: Option<i64>,
    f: &mut dyn FnMut(i64, Said),
) -> Result<()> {
    const SELECTED: &str = "m.conversation,m.role,m.kind,m.text,m.tool_name,m.call_id,m.model,\
                            m.is_error";
    let mut run = || -> rusqlite::Result<()> {
        let mut statement = match of {
            None => conn.prepare(&format!("SELECT {SELECTED} FROM messages m"))?,
            Some(_) => conn.prepare(&format!(
                "SELECT {SELECTED} FROM records r JOIN messages m \
                 ON m.id BETWEEN r.id << {PART_BITS} AND (r.id << {PART_BITS}) | {PART_MASK} \
                 WHERE r.conversation=?1"
            ))?,
        };
        let mut rows = match of {
            None => statement.query([])?,
            Some(id) => statement.query([id])?,
        };
        let mut hasher = RowHasher::default();
        while let Some(row) = rows.next()? {
            let mut values = [ValueRef::Null; COLUMNS];
            for (i, value) in values.iter_mut().enumerate() {
                *value = row.get_ref(i + 1)?;
            }
            f(row.get(0)?, Said::by(&mut hasher, &values));
        }
        Ok(())
    };
    run().map_err(|e| failed(conn, "read", e))
}
