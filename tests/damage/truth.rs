//! What a data directory says, read by other means than the product's: plain SQLite on a copy.

use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use crate::lab::Lab;

/// The commit at the end of the chain, and a digest over the schema text and every column of
/// every row of every table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    pub commit: i64,
    pub all: blake3::Hash,
}

/// `None` when plain SQLite can't read all of it.
pub fn said(lab: &Lab) -> Option<Said> {
    // A copy, because a plain connection makes and removes files beside the database.
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("copy.db");
    if std::fs::copy(lab.db(), &db).is_err() {
        return None;
    }
    if lab.wal().is_file() {
        std::fs::copy(lab.wal(), dir.path().join("copy.db-wal")).unwrap();
    }
    read(&db).ok()
}

fn read(db: &Path) -> rusqlite::Result<Said> {
    let conn = Connection::open(db)?;
    // Only a copy: closing it need not reach the disk.
    conn.pragma_update(None, "synchronous", "OFF")?;
    let mut hasher = blake3::Hasher::new();
    let mut names = Vec::new();
    let mut schema =
        conn.prepare("SELECT type,name,tbl_name,sql FROM sqlite_schema ORDER BY rowid")?;
    let mut rows = schema.query([])?;
    while let Some(row) = rows.next()? {
        for i in 0..4 {
            add(&mut hasher, row.get_ref(i)?);
        }
        if row.get::<_, String>(0)? == "table" {
            names.push(row.get::<_, String>(1)?);
        }
    }
    assert!(
        !names.is_empty()
            || conn.query_row("SELECT count(*) FROM sqlite_schema", [], |r| r
                .get::<_, i64>(0))?
                == 0
    );
    for name in names {
        let mut statement =
            conn.prepare(&format!("SELECT rowid,* FROM \"{name}\" ORDER BY rowid"))?;
        let n = statement.column_count();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            for i in 0..n {
                add(&mut hasher, row.get_ref(i)?);
            }
        }
        hasher.update(b"end");
    }
    for pragma in ["user_version", "application_id"] {
        hasher.update(
            &conn
                .pragma_query_value(None, pragma, |r| r.get::<_, i64>(0))?
                .to_le_bytes(),
        );
    }
    let commit = conn.query_row("SELECT coalesce(max(id),0) FROM commits", [], |r| r.get(0))?;
    Ok(Said {
        commit,
        all: hasher.finalize(),
    })
}

fn add(hasher: &mut blake3::Hasher, value: ValueRef<'_>) {
    let (tag, bytes): (u8, std::borrow::Cow<'_, [u8]>) = match value {
        ValueRef::Null => (0, vec![].into()),
        ValueRef::Integer(n) => (1, n.to_le_bytes().to_vec().into()),
        ValueRef::Real(x) => (2, x.to_bits().to_le_bytes().to_vec().into()),
        ValueRef::Text(t) => (3, t.into()),
        ValueRef::Blob(b) => (4, b.into()),
    };
    hasher.update(&[tag]);
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(&bytes);
}

/// What people get: every session, exported by the binary.
pub fn exported(lab: &Lab) -> Vec<(String, String)> {
    let list = lab.run(&["sessions", "list", "--limit", "1000"]);
    let sessions = list.json["sessions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    sessions
        .iter()
        .map(|s| {
            let id = s["id"].as_str().unwrap().to_owned();
            let out = lab.run(&["export", &id, "--format", "json"]);
            let mut json = out.json;
            if let Some(map) = json.as_object_mut() {
                map.remove("elapsed_ms");
            }
            (id, json.to_string())
        })
        .collect()
}
