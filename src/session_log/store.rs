//! The SQLite store of old versions: each session in it is read as the log that it stands for.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result, Row};

use super::check::Checked;
use super::examine::{examine, nothing_but};
use super::name::Form;
use super::verdict::{Finding, Verdict};

/// What the harness's stores call themselves.
const APPLICATION_ID: i64 = 0x4453_4850;
/// The one schema that is known.
const SCHEMA: i64 = 17;
/// What one packed value may hold.
const MAX_VALUE: usize = 64 << 20;

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

/// Examines every session of a store.
pub(super) fn sessions(conn: &Connection) -> Result<Vec<Checked>> {
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
    ids.into_iter().map(|id| session(conn, id)).collect()
}

fn session(conn: &Connection, id: String) -> Result<Checked> {
    let text = store_text(conn, &id)?;
    let form = Form {
        packed: false,
        generation: None,
    };
    let diagnosis = examine(&text, form).unwrap_or_else(|e| {
        let what = format!("it can't be read: {e}");
        let verdict = Verdict::HeaderInvalid;
        nothing_but(Finding { verdict, what }, 0)
    });
    Ok(Checked {
        session_id: Some(id),
        diagnosis,
        in_store: true,
    })
}

/// A session as the text of a raw log.
///
/// # Errors
/// What SQLite says; a session that is not there is no rows.
pub fn store_text(conn: &Connection, id: &str) -> Result<Vec<u8>> {
    let mut out = conn.query_row(
        "SELECT version, created_at, cwd, parent_session, seed_length, origin, delegation_depth, \
         agent_preset FROM sessions WHERE id = ?1",
        [id],
        |row| header(id, row),
    )?;
    out.push(b'\n');
    let mut events = conn.prepare(
        "SELECT seq, type, time, data, source_event_seqs, surface_op, ignorable FROM events \
         WHERE session_id = ?1 ORDER BY seq",
    )?;
    let mut rows = events.query([id])?;
    while let Some(row) = rows.next()? {
        event(row, &mut out)?;
        out.push(b'\n');
    }
    Ok(out)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_differences() {
        assert_eq!(sources(&[4, 2, 2, 1]), Some(vec![4, 5, 6, 5]));
        assert_eq!(sources(&[0x80, 0x01]), Some(vec![128]));
        assert_eq!(sources(&[0x80]), None);
        assert_eq!(sources(&[]), Some(vec![]));
    }
}
