//! The archive's tables, as this version writes them.

use rusqlite::Connection;

use crate::error::{Error, ErrorKind, Result};
use crate::model::digest::Digest;

/// Schema version that this binary writes (`user_version`).
pub const SCHEMA_VERSION: i64 = 1;
/// `application_id` of an archive: "cass" in ASCII.
pub const APPLICATION_ID: i64 = 0x6361_7373;

/// A forward-only step from one schema version to the next.
#[derive(Debug)]
struct Migration {
    version: i64,
    sql: &'static str,
    checksum: &'static str,
}

const MIGRATIONS: [Migration; 1] = [Migration {
    version: 1,
    sql: include_str!("../../../migrations/0001_archive.sql"),
    checksum: "3498c31573f452910a909b50a858cfa0dcc3dc176a763eff3fc3d145243f58c1",
}];

/// Digest of the schema text that the migrations leave in `sqlite_schema`.
const SCHEMA_DIGEST: &str = "9975d3c41a92919987af8746c451bcedeb7beaa79a2bb0db473036672b312509";

/// A table: its name and its columns in order, without the closing `row_hash`. The first column is
/// the row id.
#[derive(Debug)]
pub(super) struct Table {
    pub name: &'static str,
    pub columns: &'static [&'static str],
}

pub(super) static META: Table = Table {
    name: "meta",
    columns: &["id", "name", "value"],
};
pub(super) static SOURCES: Table = Table {
    name: "sources",
    columns: &[
        "id",
        "source_key",
        "source_id",
        "provider",
        "path",
        "main_session",
        "epoch",
        "parsed_seq",
        "captured_len",
        "next_offset",
        "next_line",
        "state",
        "length",
        "message_records",
        "message_record_bytes",
        "known_records",
        "known_bytes",
        "unknown_records",
        "unknown_bytes",
        "duplicate_records",
        "duplicate_bytes",
        "skipped_bytes",
        "separator_bytes",
        "tail_offset",
        "tail_len",
        "tail_line",
        "message_count",
        "skip_count",
        "skips_sum",
        "captured_hash",
    ],
};
pub(super) static CONVERSATIONS: Table = Table {
    name: "conversations",
    columns: &[
        "id",
        "public_id",
        "source_id",
        "provider",
        "native_id",
        "branch_of",
        "branch_at",
        "branch_hash",
        "title",
        "workspace",
        "parent_session",
        "harness_version",
        "started_ms",
        "ended_ms",
        "revision",
        "record_count",
        "row_count",
        "position_count",
        "guest_count",
        "version_count",
        "message_count",
        "coverage_sum",
        "rows_sum",
    ],
};
pub(super) static RECORDS: Table = Table {
    name: "records",
    columns: &[
        "id",
        "conversation",
        "source",
        "epoch",
        "seq",
        "offset",
        "len",
        "line",
        "hash",
        "occurrence",
        "counted",
        "disposition",
        "duplicate_of",
        "repeats_offset",
        "supersedes",
        "recovery",
        "record_type",
        "native_id",
        "native_parent",
        "time_ms",
        "parser_version",
    ],
};
pub(super) static MESSAGES: Table = Table {
    name: "messages",
    columns: &[
        "id",
        "conversation",
        "role",
        "kind",
        "text",
        "tool_name",
        "call_id",
        "model",
        "is_error",
    ],
};
pub(super) static SKIPS: Table = Table {
    name: "skips",
    columns: &[
        "id", "source", "epoch", "seq", "offset", "len", "line", "reason",
    ],
};
pub(super) static COMMITS: Table = Table {
    name: "commits",
    columns: &["id", "prev_head", "body", "head", "at_ms"],
};
pub(super) static COMMIT_CAPTURES: Table = Table {
    name: "commit_captures",
    columns: &["id", "commit_number", "source", "seq", "source_hash"],
};
pub(super) static COMMIT_CONVERSATIONS: Table = Table {
    name: "commit_conversations",
    columns: &[
        "id",
        "commit_number",
        "conversation",
        "source",
        "first_record",
        "last_record",
        "held",
        "revision",
        "record_count",
        "coverage_sum",
        "rows_sum",
        "conversation_hash",
    ],
};

/// Every table, the small ones first.
pub(super) static TABLES: [&Table; 9] = [
    &META,
    &COMMITS,
    &COMMIT_CAPTURES,
    &COMMIT_CONVERSATIONS,
    &SOURCES,
    &CONVERSATIONS,
    &SKIPS,
    &RECORDS,
    &MESSAGES,
];

impl Table {
    pub fn insert_sql(&self) -> String {
        let marks = vec!["?"; self.columns.len() + 1].join(",");
        format!(
            "INSERT INTO {}({},row_hash) VALUES ({marks})",
            self.name,
            self.columns.join(",")
        )
    }

    /// Sets every column of the row whose id is the first parameter.
    pub fn update_sql(&self) -> String {
        let mut sets: Vec<String> = self
            .columns
            .iter()
            .enumerate()
            .skip(1)
            .map(|(i, c)| format!("{c}=?{}", i + 1))
            .collect();
        sets.push(format!("row_hash=?{}", self.columns.len() + 1));
        format!("UPDATE {} SET {} WHERE id=?1", self.name, sets.join(","))
    }

    pub fn columns_sql(&self) -> String {
        self.columns.join(",")
    }

    /// The columns of a table named `alias` in a join, and its `row_hash` behind them.
    pub fn columns_of(&self, alias: &str) -> String {
        let mut out = String::new();
        for column in self.columns {
            out.push_str(&format!("{alias}.{column},"));
        }
        out + alias + ".row_hash"
    }
}

/// Makes the tables in an empty database, inside the caller's transaction.
pub(super) fn migrate(conn: &Connection) -> Result<()> {
    for m in &MIGRATIONS {
        if Digest::of(m.sql.as_bytes()).to_hex() != m.checksum {
            return Err(Error::new(
                ErrorKind::Internal,
                format!(
                    "migration {} of this binary does not have its checksum",
                    m.version
                ),
            ));
        }
        let run = || -> rusqlite::Result<()> {
            conn.execute_batch(m.sql)?;
            conn.pragma_update(None, "user_version", m.version)?;
            conn.pragma_update(None, "application_id", APPLICATION_ID)
        };
        run().map_err(|e| super::failed(conn, "migrate", e))?;
    }
    Ok(())
}

/// Digest of the text of every table and index, in the order of their names.
pub(super) fn text_digest(conn: &Connection) -> rusqlite::Result<Digest> {
    let mut hasher = super::rows::RowHasher::default();
    hasher.begin("sqlite_schema");
    let mut statement =
        conn.prepare("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        for i in 0..4 {
            hasher.value(row.get_ref(i)?);
        }
    }
    Ok(hasher.finish())
}

/// Whether the schema text is the one this version writes.
pub(super) fn text_is_ours(conn: &Connection) -> rusqlite::Result<bool> {
    Ok(text_digest(conn)?.to_hex() == SCHEMA_DIGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_agree_with_the_migrations() {
        let versions = MIGRATIONS.iter().map(|m| m.version);
        assert!(versions.eq(1..=SCHEMA_VERSION));
        for m in &MIGRATIONS {
            assert_eq!(
                Digest::of(m.sql.as_bytes()).to_hex(),
                m.checksum,
                "{}",
                m.version
            );
        }
        let conn = Connection::open_in_memory().unwrap();
        migrate(&conn).unwrap();
        assert_eq!(text_digest(&conn).unwrap().to_hex(), SCHEMA_DIGEST);
        for table in TABLES {
            let mut expected: Vec<&str> = table.columns.to_vec();
            expected.push("row_hash");
            let sql = format!(
                "SELECT name FROM pragma_table_info('{}') ORDER BY cid",
                table.name
            );
            let mut statement = conn.prepare(&sql).unwrap();
            let names: Vec<String> = statement
                .query_map([], |r| r.get(0))
                .unwrap()
                .collect::<rusqlite::Result<_>>()
                .unwrap();
            assert_eq!(names, expected, "{}", table.name);
        }
        let tables: i64 = conn
            .query_row(
                "SELECT count(*) FROM sqlite_schema WHERE type='table'",
                [],
                |r| r.get(0),
            )
            .unwrap();
        assert_eq!(usize::try_from(tables).unwrap(), TABLES.len());
    }
}
