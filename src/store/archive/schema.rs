//! The archive's tables, as this version writes them, and the schemas that it reads.

use rusqlite::Connection;

use super::row_hash::RowHasher;
use crate::error::{Error, ErrorKind, Result};
use crate::model::digest::Digest;

/// Schema version that this binary writes (`user_version`). It reads all up to it.
pub const SCHEMA_VERSION: i64 = 2;
/// `application_id` of an archive: "cass" in ASCII.
pub const APPLICATION_ID: i64 = 0x6361_7373;

/// One version of the schema, whole. An archive gets to the next one by a candidate that its rows
/// are put into, so no text changes another's tables.
#[derive(Debug)]
struct Schema {
    version: i64,
    sql: &'static str,
    checksum: &'static str,
    /// Digest of the text that `sql` leaves in `sqlite_schema`.
    text: &'static str,
}

const SCHEMAS: [Schema; 2] = [
    Schema {
        version: 1,
        sql: include_str!("../../../migrations/0001_archive.sql"),
        checksum: "3498c31573f452910a909b50a858cfa0dcc3dc176a763eff3fc3d145243f58c1",
        text: "9975d3c41a92919987af8746c451bcedeb7beaa79a2bb0db473036672b312509",
    },
    PRESENT,
];

const PRESENT: Schema = Schema {
    version: SCHEMA_VERSION,
    sql: include_str!("../../../migrations/0002_archive.sql"),
    checksum: "7611ca37843102637b91248fe121c55327a9cc1ea7463cfff80a208c83bfaf27",
    text: "1be6e39bbfcb103040c6bd57b149cc0e24eb5812eb8a30e0aea842fd94798916",
};

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
pub(super) fn create(conn: &Connection) -> Result<()> {
    if Digest::of(PRESENT.sql.as_bytes()).to_hex() != PRESENT.checksum {
        return Err(Error::new(
            ErrorKind::Internal,
            format!("schema {SCHEMA_VERSION} of this binary does not have its checksum"),
        ));
    }
    PRESENT
        .write(conn)
        .map_err(|e| super::failed(conn, "create", e))
}

impl Schema {
    fn write(&self, conn: &Connection) -> rusqlite::Result<()> {
        conn.execute_batch(self.sql)?;
        conn.pragma_update(None, "user_version", self.version)?;
        conn.pragma_update(None, "application_id", APPLICATION_ID)
    }
}

/// Digest of the text of every table and index, in the order of their names.
pub(super) fn text_digest(conn: &Connection) -> rusqlite::Result<Digest> {
    let mut hasher = RowHasher::default();
    hasher.begin_digest("sqlite_schema");
    let mut statement =
        conn.prepare("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        for i in 0..4 {
            hasher.value(row.get_ref(i)?);
        }
    }
    Ok(hasher.digest())
}

/// The version whose schema text this is; `None` when it is of none that this program knows.
pub(super) fn text_version(conn: &Connection) -> rusqlite::Result<Option<i64>> {
    let found = text_digest(conn)?.to_hex();
    let known = SCHEMAS.iter().find(|s| s.text == found);
    Ok(known.map(|s| s.version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_agree_with_the_texts() {
        assert!(SCHEMAS.iter().map(|s| s.version).eq(1..=SCHEMA_VERSION));
        for schema in &SCHEMAS {
            let version = schema.version;
            let sum = Digest::of(schema.sql.as_bytes()).to_hex();
            assert_eq!(sum, schema.checksum, "{version}");
            let conn = Connection::open_in_memory().unwrap();
            schema.write(&conn).unwrap();
            let text = text_digest(&conn).unwrap().to_hex();
            assert_eq!(text, schema.text, "{version}");
            assert_eq!(text_version(&conn).unwrap(), Some(version));
        }
    }

    /// Rows of every version are read with one list of columns.
    #[test]
    fn every_version_has_these_columns() {
        for schema in &SCHEMAS {
            let conn = Connection::open_in_memory().unwrap();
            schema.write(&conn).unwrap();
            has_these_columns(&conn);
        }
    }

    fn has_these_columns(conn: &Connection) {
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
