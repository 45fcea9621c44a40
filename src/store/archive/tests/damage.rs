//! Changes that a raw connection makes behind the archive's back.

use super::*;
use crate::store::archive::schema::{TABLES, Table};

/// An archive with a row in every table, versions, copies and a branch included.
pub fn full_lab() -> Lab {
    let lab = Lab::new();
    let a = [
        msg("s", "1", "one").at(5),
        msg("s", "2", "two"),
        plain("s", "a3"),
        fact("s", "title"),
    ];
    let b = [
        msg("s", "1", "one").at(5),
        msg("s", "2", "second"),
        plain("s", "b3"),
    ];
    lab.index("a", &a);
    lab.index("b", &b);
    lab.index(
        "other",
        &[msg("t", "1", "other"), msg("t", "2", "other too")],
    );
    lab.writing(|w| {
        let mut append = w.begin(capture("skipping", 1, 20, false)).unwrap();
        let skipped = |offset, len, reason| Piece::Skipped {
            span: Span { offset, len },
            line: 1,
            reason,
        };
        append.piece(&skipped(0, 10, SkipReason::NulBlock)).unwrap();
        append.piece(&skipped(10, 4, SkipReason::Fragment)).unwrap();
        append.piece(&skipped(14, 6, SkipReason::TornTail)).unwrap();
        append
            .finish(
                ResumePoint {
                    offset: 14,
                    line: 1,
                    state: vec![],
                },
                3,
            )
            .unwrap()
            .unwrap();
    });
    lab.checkpoint();
    lab
}

fn ids(lab: &Lab, table: &Table) -> Vec<i64> {
    let conn = raw(&lab.db());
    let mut statement = conn
        .prepare(&format!("SELECT id FROM {} ORDER BY id", table.name))
        .unwrap();
    statement
        .query_map([], |r| r.get(0))
        .unwrap()
        .collect::<rusqlite::Result<_>>()
        .unwrap()
}

/// Runs `sql` on a copy of the archive and gives back what verification says about it.
fn after(lab: &Lab, sql: &str) -> Vec<ArchiveFinding> {
    let bytes = std::fs::read(lab.db()).unwrap();
    let wal = lab.db().with_extension("db-wal");
    let shm = lab.db().with_extension("db-shm");
    let _ = std::fs::remove_file(&wal);
    let _ = std::fs::remove_file(&shm);
    {
        let conn = raw(&lab.db());
        conn.execute_batch(&format!("PRAGMA foreign_keys=OFF; {sql}"))
            .unwrap();
    }
    let found = lab.findings();
    for side in [&wal, &shm] {
        let _ = std::fs::remove_file(side);
    }
    std::fs::write(lab.db(), bytes).unwrap();
    found
}

#[test]
fn every_column_of_every_table_is_covered() {
    let lab = full_lab();
    assert_eq!(lab.findings(), vec![]);
    let mut changed = 0;
    for table in TABLES {
        let ids = ids(&lab, table);
        assert!(!ids.is_empty(), "{} has no row to damage", table.name);
        let id = ids[ids.len() / 2];
        for column in table.columns.iter().copied().chain(["row_hash"]) {
            // Another value of the same type; for a NULL one that fits the column.
            let value = format!(
                "CASE typeof({column}) WHEN 'integer' THEN {column}+1 WHEN 'text' THEN {column}||'x' \
                 WHEN 'blob' THEN CASE WHEN {column}<>zeroblob(length({column})) THEN zeroblob(length({column})) \
                 ELSE randomblob(length({column})+1) END ELSE (SELECT CASE type WHEN 'INTEGER' \
                 THEN 7 WHEN 'TEXT' THEN 'x' ELSE x'00' END FROM pragma_table_info('{}') WHERE name='{column}') END",
                table.name
            );
            let value = if column == "id" {
                format!("{}", ids.last().unwrap() + 1000)
            } else {
                value
            };
            let found = after(
                &lab,
                &format!("UPDATE {} SET {column}={value} WHERE id={id}", table.name),
            );
            let row = if column == "id" {
                ids.last().unwrap() + 1000
            } else {
                id
            };
            assert!(
                found.iter().any(|f| f.table == table.name
                    && f.row == Some(row)
                    && f.kind == FindingKind::Row),
                "{}.{column}: {found:?}",
                table.name
            );
            changed += 1;
        }
    }
    assert!(changed > 100);
    assert_eq!(lab.findings(), vec![]);
}

#[test]
fn a_deleted_row_is_noticed_in_every_table() {
    let lab = full_lab();
    for table in TABLES {
        for id in ids(&lab, table) {
            let found = after(&lab, &format!("DELETE FROM {} WHERE id={id}", table.name));
            // The last commit may go with all it touched only if nothing else names it.
            assert!(!found.is_empty(), "{} {id}", table.name);
        }
    }
}

#[test]
fn swapped_rows_and_rows_put_back_are_noticed() {
    let lab = full_lab();
    for table in TABLES {
        let ids = ids(&lab, table);
        let [a, b, ..] = ids[..] else { continue };
        let name = table.name;
        let unique = matches!(name, "sources" | "conversations");
        if !unique {
            let columns = table.columns[1..].join(",");
            let sql = format!(
                "CREATE TEMP TABLE x AS SELECT * FROM {name} WHERE id IN ({a},{b}); \
                 UPDATE {name} SET ({columns},row_hash)=(SELECT {columns},row_hash FROM x WHERE id={b}) WHERE id={a}; \
                 UPDATE {name} SET ({columns},row_hash)=(SELECT {columns},row_hash FROM x WHERE id={a}) WHERE id={b};"
            );
            let found = after(&lab, &sql);
            assert!(
                found.iter().any(|f| f.table == name && f.row == Some(a)),
                "{name}: {found:?}"
            );
            assert!(
                found.iter().any(|f| f.table == name && f.row == Some(b)),
                "{name}: {found:?}"
            );
        }
    }
}

#[test]
fn a_stale_row_with_a_good_hash_is_noticed() {
    let lab = full_lab();
    for (table, key) in [("sources", "id=1"), ("conversations", "id=1")] {
        let old: Vec<rusqlite::types::Value> = {
            let conn = raw(&lab.db());
            let sql = format!("SELECT * FROM {table} WHERE {key}");
            let columns = conn.prepare(&sql).unwrap().column_count();
            conn.query_row(&sql, [], |r| (0..columns).map(|i| r.get(i)).collect())
                .unwrap()
        };
        let mut lines = vec![
            msg("s", "1", "one").at(5),
            msg("s", "2", "two"),
            plain("s", "a3"),
            fact("s", "title"),
        ];
        lines.push(fact("s", table));
        lab.index("a", &lines);
        lab.checkpoint();
        assert_eq!(lab.findings(), vec![]);
        let conn = raw(&lab.db());
        let marks = vec!["?"; old.len()].join(",");
        conn.execute_batch("PRAGMA foreign_keys=OFF").unwrap();
        conn.execute(
            &format!("REPLACE INTO {table} VALUES ({marks})"),
            rusqlite::params_from_iter(&old),
        )
        .unwrap();
        drop(conn);
        let found = lab.findings();
        assert!(
            found.iter().any(|f| f.table == table && f.row == Some(1)),
            "{table}: {found:?}"
        );
        assert!(
            found.iter().all(|f| f.kind != FindingKind::Row),
            "its hash is good"
        );
        return_to_clean(&lab);
    }

    /// The next commit of the source rewrites both rows from what is on disk; a new lab is simpler.
    fn return_to_clean(lab: &Lab) {
        std::fs::remove_dir_all(lab.path()).unwrap();
        let fresh = full_lab();
        std::fs::rename(fresh.path(), lab.path()).unwrap();
    }
}

#[test]
fn a_conversation_deleted_with_all_its_rows_is_noticed() {
    let lab = full_lab();
    let found = after(
        &lab,
        "DELETE FROM messages WHERE conversation=1; DELETE FROM records WHERE conversation=1; \
         DELETE FROM commit_conversations WHERE conversation=1; DELETE FROM conversations WHERE id=1;",
    );
    assert!(
        found.iter().any(|f| f.kind == FindingKind::Chain),
        "{found:?}"
    );
    let found = after(
        &lab,
        "DELETE FROM messages WHERE conversation=1; DELETE FROM records WHERE conversation=1; \
         DELETE FROM conversations WHERE id=1;",
    );
    assert!(
        found
            .iter()
            .any(|f| f.table == "conversations" && f.row == Some(1)),
        "{found:?}"
    );
}

#[test]
fn schema_text_and_header_are_covered() {
    let lab = full_lab();
    for (sql, kind) in [
        ("DROP INDEX records_hash", FindingKind::Schema),
        (
            "ALTER TABLE skips ADD COLUMN extra TEXT",
            FindingKind::Schema,
        ),
        (
            "CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records; END",
            FindingKind::Schema,
        ),
        ("CREATE VIEW v AS SELECT 1", FindingKind::Schema),
        (
            "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql=replace(sql,'NOT NULL','        ') WHERE name='skips'",
            FindingKind::Schema,
        ),
        ("PRAGMA user_version=0", FindingKind::Header),
        ("PRAGMA application_id=9", FindingKind::Header),
    ] {
        let found = after(&lab, sql);
        assert!(found.iter().any(|f| f.kind == kind), "{sql}: {found:?}");
    }
    // A reader does not trust such a header either.
    raw(&lab.db())
        .execute_batch("PRAGMA user_version=0")
        .unwrap();
    let e = ArchiveReader::open(&lab.root()).unwrap_err();
    assert_eq!(e.kind(), crate::error::ErrorKind::ArchiveCorrupt);
    // A newer one is refused by whoever opens it.
    raw(&lab.db())
        .execute_batch("PRAGMA user_version=9")
        .unwrap();
    let e = ArchiveReader::open(&lab.root()).unwrap_err();
    assert_eq!(e.kind(), crate::error::ErrorKind::SchemaTooNew);
}
