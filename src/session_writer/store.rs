//! Adding events to a session of an SQLite store, in one transaction with the revision.

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::error::WriteError;
use crate::error::{Error, ErrorKind};
use crate::session_log::{self, Form, Prepared, Refusal, Revision, store_row};

/// What a session of a store was when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreRevision {
    /// The store's own count of the session's changes.
    pub revision: i64,
    /// Made anew with the session: another one means another session under the same id.
    pub incarnation: String,
    /// What its events are, as the log that they stand for.
    pub log: Revision,
}

/// What a session of an open store is now.
///
/// # Errors
/// `not-found` when there is no such session; `unsupported` when this is no store that is known; a
/// [`Refusal::Damaged`] where it can't be continued; what SQLite says.
pub fn store_revision(conn: &mut Connection, id: &str) -> Result<StoreRevision, WriteError> {
    let tx = conn.transaction()?;
    Ok(read(&tx, id)?.0)
}

/// Adds events to a session of an open store: all of them, or none, and only behind the revision
/// that the caller expects, which is compared within the transaction that writes.
///
/// # Errors
/// As [`store_revision`]; a [`Refusal`]; after any of them the store is what it was.
pub fn append_to_store(
    conn: &mut Connection,
    id: &str,
    expected: &StoreRevision,
    batch: &[u8],
) -> Result<StoreRevision, WriteError> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let (found, text) = read(&tx, id)?;
    if found != *expected {
        let (expected, found) = (Box::new(expected.log.clone()), Box::new(found.log));
        return Err(Refusal::Changed { expected, found }.into());
    }
    let Prepared { bytes, after } = session_log::prepare(&text, Form::NAMELESS, &found.log, batch)
        .map_err(WriteError::unread)??;
    let version: i64 = tx.query_row("SELECT version FROM sessions WHERE id = ?1", [id], |row| {
        row.get(0)
    })?;
    {
        let mut insert = tx.prepare(
            "INSERT INTO events (session_id, seq, type, time, data, source_event_seqs, surface_op, \
             ignorable) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?;
        for line in bytes.split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
            let row = store_row(line, version.unsigned_abs()).map_err(Refusal::NoEvent)?;
            insert.execute(params![
                id,
                row.seq,
                row.kind,
                row.time,
                row.data,
                row.sources,
                row.operation,
                row.ignorable
            ])?;
        }
    }
    let changed = tx.execute(
        "UPDATE sessions SET revision = revision + 1 WHERE id = ?1 AND revision = ?2",
        params![id, found.revision],
    )?;
    let (written, _) = read(&tx, id)?;
    // A trigger, or a column that changes what is put in it.
    if changed != 1 || written.log.next_seq != after.next_seq {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!("the store does not keep what was written to session {id}"),
        )
        .with_hint("The store is not as its harness made it; nothing was changed.")
        .into());
    }
    tx.commit()?;
    Ok(written)
}

fn read(tx: &Transaction<'_>, id: &str) -> Result<(StoreRevision, Vec<u8>), WriteError> {
    if let Some(finding) = session_log::store_fault(tx)? {
        return Err(Error::new(ErrorKind::Unsupported, finding.what).into());
    }
    let row: Option<(i64, String)> = tx
        .query_row(
            "SELECT revision, incarnation FROM sessions WHERE id = ?1",
            [id],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    let Some((revision, incarnation)) = row else {
        return Err(Error::new(
            ErrorKind::NotFound,
            format!("the store has no session {id}"),
        )
        .into());
    };
    let text = session_log::store_text(tx, id)?;
    let log = session_log::revision(&text, Form::NAMELESS)
        .map_err(WriteError::unread)?
        .map_err(Refusal::Damaged)?;
    let found = StoreRevision {
        revision,
        incarnation,
        log,
    };
    Ok((found, text))
}
