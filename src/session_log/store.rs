//! The SQLite store of old versions: each session in it is read as the log that it stands for.

use std::cell::RefCell;
use std::io;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result, Row, params};

use super::bytes::ReadAt;
use super::check::{Checked, Watched};
use super::examine::{examine, nothing_but};
use super::name::Form;
use super::verdict::{Finding, Repair, Verdict};

/// What the harness's stores call themselves.
const APPLICATION_ID: i64 = 0x4453_4850;
/// The one schema that is known.
const SCHEMA: i64 = 17;
/// What one packed value may hold.
const MAX_VALUE: usize = 64 << 20;
/// Text that is made of rows at once.
const PIECE: usize = 256 << 10;

/// Why a database is no store that is known; `None` for one that is.
///
/// # Errors
/// What SQLite says.
pub fn store_fault(conn: &Connection) -> Result<Option<Finding>> {
    let pragma = |name: &str| conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let application = pragma("application_id")?;
    let schema = pragma("user_version")?;
    Ok(if application != APPLICATION_ID {
        Some(Finding {
            verdict: Verdict::HeaderInvalid,
            what: format!("the database is no DSH store: its application id is {application}"),
        })
    } else if schema != SCHEMA {
        Some(Finding {
            verdict: Verdict::UnsupportedVersion,
            what: format!("the store's schema is {schema}, and only {SCHEMA} is known"),
        })
    } else {
        None
    })
}

/// Examines every session of a store. `stop` is asked between reads whether to end.
///
/// # Errors
/// What SQLite says.
pub fn sessions(conn: &Connection, stop: &dyn Fn() -> bool) -> Result<Vec<Checked>> {
    let against = store_fault(conn)?;
    if let Some(finding) = against {
        let rows = conn
            .query_row("SELECT count(*) FROM events", [], |row| {
                row.get::<_, i64>(0)
            })
            .unwrap_or(0);
        let id = conn
            .query_row(
                "SELECT min(id) FROM sessions HAVING count(*) = 1",
                [],
                |row| row.get::<_, Option<String>>(0),
            )
            .ok()
            .flatten();
        return Ok(vec![Checked {
            session_id: id,
            diagnosis: nothing_but(finding, rows.unsigned_abs()),
            in_store: true,
        }]);
    }
    let mut ids = conn.prepare("SELECT id FROM sessions ORDER BY id")?;
    let ids: Vec<String> = ids
        .query_map([], |row| row.get(0))?
        .collect::<Result<_>>()?;
    ids.into_iter().map(|id| session(conn, id, stop)).collect()
}

fn session(conn: &Connection, id: String, stop: &dyn Fn() -> bool) -> Result<Checked> {
    let source = &StoreText::open(conn, &id)?;
    let diagnosis = match examine(&Watched { source, stop }, Form::NAMELESS) {
        Ok(diagnosis) => diagnosis,
        Err(e) => match e.downcast::<rusqlite::Error>() {
            Ok(of_store) => return Err(of_store),
            Err(e) => {
                let what = format!("it can't be read: {e}");
                let verdict = Verdict::HeaderInvalid;
                nothing_but(Finding { verdict, what }, 0)
            }
        },
    };
    Ok(Checked {
        session_id: Some(id),
        diagnosis,
        in_store: true,
    })
}

/// A session as the text of a raw log, whole.
///
/// # Errors
/// What SQLite says; a session that is not there is no rows.
pub fn store_text(conn: &Connection, id: &str) -> Result<Vec<u8>> {
    let text = StoreText::open(conn, id)?;
    let (mut out, mut piece) = (text.header, text.piece.into_inner());
    while let Some(next) = piece.next {
        piece.load(conn, id, next)?;
        out.append(&mut piece.text);
    }
    Ok(out)
}

/// A session as the text of a raw log, made of its rows where it is read.
#[derive(Debug)]
pub(super) struct StoreText<'c> {
    conn: &'c Connection,
    id: String,
    header: Vec<u8>,
    piece: RefCell<Piece>,
}

/// The text of some rows, one behind the other. Offsets are counted behind the header.
#[derive(Debug)]
struct Piece {
    from: u64,
    text: Vec<u8>,
    /// The least number of the rows behind it; `None` where there are none.
    next: Option<i64>,
    /// Offset and least number of every piece so far.
    begins: Vec<(u64, i64)>,
}

impl<'c> StoreText<'c> {
    pub(super) fn open(conn: &'c Connection, id: &str) -> Result<StoreText<'c>> {
        let mut header = conn.query_row(
            "SELECT version, created_at, cwd, parent_session, seed_length, origin, \
             delegation_depth, agent_preset FROM sessions WHERE id = ?1",
            [id],
            |row| header(id, row),
        )?;
        header.push(b'\n');
        Ok(StoreText {
            conn,
            id: id.to_owned(),
            header,
            piece: RefCell::new(Piece {
                from: 0,
                text: Vec::new(),
                next: Some(i64::MIN),
                begins: Vec::new(),
            }),
        })
    }
}

impl ReadAt for StoreText<'_> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let Some(offset) = offset.checked_sub(self.header.len() as u64) else {
            return self.header.read_at(buf, offset);
        };
        let mut piece = self.piece.borrow_mut();
        loop {
            let n = piece.begins.partition_point(|(from, _)| *from <= offset);
            let before = n.checked_sub(1).and_then(|n| piece.begins.get(n)).copied();
            let next = match (offset.checked_sub(piece.from), before, piece.next) {
                (None, Some((from, first)), _) => {
                    piece.from = from;
                    first
                }
                (Some(skip), _, next) => {
                    let skip = usize::try_from(skip).unwrap_or(usize::MAX);
                    let rest = piece.text.get(skip..).unwrap_or_default();
                    let (false, Some(next)) = (!rest.is_empty(), next) else {
                        return rest.read_at(buf, 0);
                    };
                    piece.from += piece.text.len() as u64;
                    next
                }
                (None, None, _) => return Ok(0),
            };
            let loaded = piece.load(self.conn, &self.id, next);
            loaded.map_err(io::Error::other)?;
        }
    }
}

impl Piece {
    /// Takes the rows from number `first` on, as many as make a piece.
    fn load(&mut self, conn: &Connection, id: &str, first: i64) -> Result<()> {
        if self.begins.last().is_none_or(|(from, _)| *from < self.from) {
            self.begins.push((self.from, first));
        }
        self.text.clear();
        self.next = None;
        let mut events = conn.prepare_cached(
            "SELECT seq, type, time, data, source_event_seqs, surface_op, ignorable FROM events \
             WHERE session_id = ?1 AND seq >= ?2 ORDER BY seq",
        )?;
        let mut rows = events.query(params![id, first])?;
        while let Some(row) = rows.next()? {
            event(row, &mut self.text)?;
            self.text.push(b'\n');
            if self.text.len() >= PIECE {
                self.next = row.get::<_, i64>(0)?.checked_add(1);
                break;
            }
        }
        Ok(())
    }
}

fn header(id: &str, row: &Row<'_>) -> Result<Vec<u8>> {
    let mut object = serde_json::Map::new();
    object.insert("type".to_owned(), "session".into());
    object.insert("id".to_owned(), id.into());
    let numbers = [
        ("version", 0),
        ("createdAt", 1),
        ("seedLength", 4),
        ("delegationDepth", 6),
    ];
    for (key, n) in numbers {
        if let Some(value) = row.get::<_, Option<i64>>(n)? {
            object.insert(key.to_owned(), value.into());
        }
    }
    let texts = [
        ("cwd", 2),
        ("parentSession", 3),
        ("origin", 5),
        ("agentPreset", 7),
    ];
    for (key, n) in texts {
        if let Some(value) = row.get::<_, Option<String>>(n)? {
            object.insert(key.to_owned(), value.into());
        }
    }
    Ok(serde_json::Value::Object(object).to_string().into_bytes())
}

fn event(row: &Row<'_>, out: &mut Vec<u8>) -> Result<()> {
    let seq: i64 = row.get(0)?;
    let kind: String = row.get(1)?;
    let time: i64 = row.get(2)?;
    let ignorable: Option<i64> = row.get(6)?;
    let kind = serde_json::Value::from(kind).to_string();
    let (seq_key, time_key) = match ignorable {
        Some(0) => ("seq0", "time0"),
        _ => ("seq", "time"),
    };
    out.extend_from_slice(
        format!(r#"{{"type":{kind},"{seq_key}":{seq},"{time_key}":{time},"data":"#).as_bytes(),
    );
    match row.get_ref(3)? {
        ValueRef::Text(text) => out.extend_from_slice(text),
        // What can't be unpacked leaves a row that is not JSON.
        ValueRef::Blob(blob) => {
            out.extend_from_slice(&zstd::bulk::decompress(blob, MAX_VALUE).unwrap_or_default());
        }
        ValueRef::Integer(n) => out.extend_from_slice(n.to_string().as_bytes()),
        ValueRef::Real(n) => out.extend_from_slice(n.to_string().as_bytes()),
        ValueRef::Null => out.extend_from_slice(b"null"),
    }
    match row.get_ref(4)? {
        ValueRef::Null => {}
        ValueRef::Blob(blob) => {
            out.extend_from_slice(b",\"sourceEventSeqs\":");
            match sources(blob) {
                Some(list) => {
                    let list: Vec<String> = list.iter().map(ToString::to_string).collect();
                    out.extend_from_slice(format!("[{}]", list.join(",")).as_bytes());
                }
                None => out.extend_from_slice(b"null"),
            }
        }
        _ => out.extend_from_slice(b",\"sourceEventSeqs\":null"),
    }
    if let ValueRef::Text(operation) = row.get_ref(5)? {
        out.extend_from_slice(b",\"surfaceOp\":");
        out.extend_from_slice(operation);
    }
    if ignorable == Some(1) {
        out.extend_from_slice(b",\"ignorable\":true");
    }
    out.push(b'}');
    Ok(())
}

/// A list of numbers: the first as it is, of the others the differences, all in LEB128.
fn sources(mut blob: &[u8]) -> Option<Vec<i64>> {
    let mut out: Vec<i64> = Vec::new();
    while !blob.is_empty() {
        let mut value: u64 = 0;
        let mut shift = 0;
        loop {
            let (byte, rest) = blob.split_first()?;
            blob = rest;
            value |= u64::from(byte & 0x7F).checked_shl(shift)?;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
            if shift > 56 {
                return None;
            }
        }
        let value = i64::try_from(value).ok()?;
        let next = match out.last() {
            None => value,
            Some(last) => last.checked_add((value >> 1) ^ -(value & 1))?,
        };
        out.push(next);
    }
    Some(out)
}

/// The reverse of [`sources`], of numbers that are not negative.
fn packed_sources(list: &[i64]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut last = None;
    for n in list {
        let mut value = match last {
            None => n.unsigned_abs(),
            Some(last) => {
                let step = n.wrapping_sub(last);
                ((step << 1) ^ (step >> 63)).cast_unsigned()
            }
        };
        last = Some(*n);
        loop {
            let byte = value.to_le_bytes()[0] & 0x7F;
            value >>= 7;
            if value == 0 {
                out.push(byte);
                break;
            }
            out.push(byte | 0x80);
        }
    }
    out
}

/// Whether a session of a store can have this repair: whole rows at its end and closers.
fn is_of_rows(repair: &Repair) -> bool {
    repair.cut.is_none() && !repair.gaps && repair.reframe.is_none() && repair.rows_rewritten == 0
}

/// The repairs to make in a store: those of sessions that may have one. The others stay as they are.
#[must_use]
pub fn store_repairs(sessions: &[Checked], close_turn: bool) -> Vec<(String, Repair)> {
    let one = |s: &Checked| {
        let repair = s.diagnosis.wanted(close_turn).filter(|r| is_of_rows(r))?;
        Some((s.session_id.clone()?, repair.clone()))
    };
    sessions.iter().filter_map(one).collect()
}

/// Makes the repairs of sessions in a store that is open for change: a copy.
///
/// # Errors
/// What SQLite says; `InvalidQuery` for a repair that a store can't have.
pub fn mend_store(conn: &Connection, repairs: &[(String, Repair)]) -> Result<()> {
    for (id, repair) in repairs {
        if !is_of_rows(repair) {
            return Err(rusqlite::Error::InvalidQuery);
        }
        let mut seqs = Vec::new();
        for (first, last) in &repair.dropped {
            let seq = |row: u64| -> Result<i64> {
                conn.query_row(
                    "SELECT seq FROM events WHERE session_id = ?1 ORDER BY seq LIMIT 1 OFFSET ?2",
                    params![id, i64::try_from(row).unwrap_or(i64::MAX) - 1],
                    |row| row.get(0),
                )
            };
            seqs.push((seq(*first)?, seq(*last)?));
        }
        for (first, last) in seqs {
            conn.execute(
                "DELETE FROM events WHERE session_id = ?1 AND seq BETWEEN ?2 AND ?3",
                params![id, first, last],
            )?;
        }
        for closer in &repair.closers {
            add(conn, id, &closer.row)?;
        }
        conn.execute(
            "UPDATE sessions SET revision = revision + 1 WHERE id = ?1",
            [id],
        )?;
    }
    Ok(())
}

/// Adds an event that was made here.
fn add(conn: &Connection, id: &str, row: &[u8]) -> Result<()> {
    let bad = || rusqlite::Error::InvalidQuery;
    let event: serde_json::Value = serde_json::from_slice(row).map_err(|_| bad())?;
    let sources = event.get("sourceEventSeqs").and_then(|s| s.as_array());
    let sources = sources.map(|s| {
        let list: Vec<i64> = s.iter().filter_map(serde_json::Value::as_i64).collect();
        packed_sources(&list)
    });
    conn.execute(
        "INSERT INTO events (session_id, seq, type, time, data, source_event_seqs, surface_op, \
         ignorable) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, NULL)",
        params![
            id,
            event.get("seq").and_then(serde_json::Value::as_i64),
            event.get("type").and_then(serde_json::Value::as_str),
            event.get("time").and_then(serde_json::Value::as_i64),
            event.get("data").map(ToString::to_string),
            sources,
            event.get("surfaceOp").map(ToString::to_string),
        ],
    )
    .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_go_both_ways() {
        for list in [vec![], vec![5], vec![4, 5, 6, 5], vec![300, 2, 70_000]] {
            assert_eq!(sources(&packed_sources(&list)), Some(list));
        }
    }

    #[test]
    fn sources_are_differences() {
        assert_eq!(sources(&[4, 2, 2, 1]), Some(vec![4, 5, 6, 5]));
        assert_eq!(sources(&[0x80, 0x01]), Some(vec![128]));
        assert_eq!(sources(&[0x80]), None);
        assert_eq!(sources(&[]), Some(vec![]));
    }
}
