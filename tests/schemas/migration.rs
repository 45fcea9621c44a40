//! `index` brings an archive of an older schema to the present one, in a candidate.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use cass::store::archive::SCHEMA_VERSION;
use rusqlite::Connection;
use rusqlite::types::Value as Column;
use serde_json::Value;

use super::frozen::exported;
use super::lab::{apply, current, db};
use super::{applied, archive, older, present, same, schema, sound, undone};

/// Every row of every table, without what a schema may say otherwise: hashes of rows and the sums and
/// heads over them, and when the rows were put there.
pub fn rows(db: &Path) -> BTreeMap<String, Vec<Vec<Column>>> {
    let other = [
        "row_hash",
        "rows_sum",
        "skips_sum",
        "source_hash",
        "conversation_hash",
        "prev_head",
        "body",
        "head",
        "at_ms",
    ];
    let copy = tempfile::tempdir().unwrap();
    let path = copy.path().join("copy.db");
    fs::copy(db, &path).unwrap();
    let conn = Connection::open(&path).unwrap();
    let names = |sql: &str| -> Vec<String> {
        let mut all = conn.prepare(sql).unwrap();
        let found = all.query_map([], |r| r.get(0)).unwrap();
        found.map(Result::unwrap).collect()
    };
    let tables = names("SELECT name FROM sqlite_schema WHERE type='table' AND name<>'meta'");
    assert_eq!(tables.len(), 8);
    let mut all = BTreeMap::new();
    for table in tables {
        let mut columns = names(&format!("SELECT name FROM pragma_table_info('{table}')"));
        columns.retain(|c| !other.contains(&c.as_str()));
        let sql = format!("SELECT {} FROM {table} ORDER BY id", columns.join(","));
        let mut statement = conn.prepare(&sql).unwrap();
        let found = statement
            .query_map([], |r| (0..columns.len()).map(|i| r.get(i)).collect())
            .unwrap()
            .map(Result::unwrap)
            .collect();
        all.insert(table, found);
    }
    all
}

pub fn findings(document: &Value, code: &str) -> usize {
    let all = document["findings"].as_array().unwrap();
    all.iter().filter(|f| f["code"] == code).count()
}

#[test]
fn an_index_migrates_an_old_archive_and_keeps_it() {
    for (version, frozen) in older() {
        let s = frozen.copied();
        let (id, before, then) = (current(&s), archive(&s), rows(&db(&s)));
        let check = s.run(&["doctor", "check"]).expect(0);
        assert_eq!(findings(&check.json, "schema-older"), 1, "{}", check.stdout);
        assert_eq!(check.text("/status"), "ok");

        let index = s.run(&["index"]).expect(0);
        assert_eq!(index.text("/status"), "applied");
        let migrated = index.at("/migrated");
        assert_eq!(migrated["old_schema"], version);
        assert_eq!(migrated["new_schema"], SCHEMA_VERSION);
        assert_eq!(migrated["backup_id"], id.as_str());
        assert_eq!(index.at("/archived/commits"), &Value::from(0));
        assert_ne!(current(&s), id);
        assert_eq!(schema(&db(&s)), present());
        assert!(rows(&db(&s)) == then, "a row became another one");
        same(&exported(&s), &frozen.export());
        sound(&s);
        let check = s.run(&["doctor", "check"]).expect(0);
        assert_eq!(findings(&check.json, "schema-older"), 0);

        // What it was is one of the backups, and its run one of the runs.
        let kept = s.data().join("generations").join(&id);
        assert!(kept.join("seal.json").exists());
        s.run(&["doctor", "backups", "verify", &id, "--deep"])
            .expect(0);
        let run = s.run(&["doctor", "runs", "show", "latest"]).expect(0);
        assert_eq!(run.at("/receipt/kind"), "migrate", "{}", run.stdout);
        assert!(
            s.data()
                .join(migrated["receipt"].as_str().unwrap())
                .exists()
        );

        // Once is enough.
        let state = (current(&s), archive(&s));
        let again = s.run(&["index", "--skip-lexical"]).expect(0);
        assert_eq!(again.text("/status"), "no-op");
        assert!(again.at("/migrated").is_null());
        assert_eq!((current(&s), archive(&s)), state);

        undone(&s, &id, &before);
        // The old archive is as good as it was, and the next index brings it here again.
        sound(&s);
        let again = s.run(&["index"]).expect(0);
        assert_eq!(again.at("/migrated/backup_id"), id.as_str());
        assert!(rows(&db(&s)) == then);
    }
}

/// What the old archive alone had and lost is not taken for nothing: the index captures, says so, and
/// leaves the rest to a repair, which makes an archive of the present schema.
#[test]
fn a_damaged_old_archive_is_repaired_and_never_migrated_as_it_is() {
    for (_, frozen) in older() {
        let s = frozen.copied();
        let path = db(&s);
        let mut bytes = fs::read(&path).unwrap();
        let text = b"lighthouse";
        let places = bytes.windows(text.len()).enumerate();
        let places: Vec<usize> = places
            .filter_map(|(at, w)| (w == text).then_some(at))
            .collect();
        places.iter().for_each(|at| bytes[*at] ^= 1);
        fs::write(&path, &bytes).unwrap();
        s.put(super::sources::NEW, &super::sources::new());
        let (id, before) = (current(&s), archive(&s));
        let index = s.run(&["index"]).expect(1);
        assert_eq!(index.text("/err/kind"), "archive-corrupt");
        assert!(index.text("/err/message").contains("can't be migrated"));
        assert_eq!(index.at("/captured/captures"), &Value::from(1));
        assert_eq!((current(&s), archive(&s)), (id, before));
        assert_eq!(
            fs::read_dir(s.data().join("generations")).unwrap().count(),
            2
        );

        let planned = s.run(&["doctor", "repair"]).expect(0);
        apply(&s, &planned).expect(0);
        assert_eq!(schema(&db(&s)), present());
        s.run(&["index"]).expect(0);
        super::holds(&exported(&s), &frozen.export());
        sound(&s);
    }
}

/// The commits of a lost log are told as ever, before anything is built.
#[test]
fn an_old_archive_that_lost_commits_is_not_migrated() {
    for (_, frozen) in older() {
        let s = frozen.copied();
        let ledger = s.data().join("coverage.jsonl");
        let sealed = s.data().join("generations/g00000001/agent_search.db");
        assert!(sealed.exists() && ledger.exists());
        // An earlier state of the same generation: the last commit undone by hand.
        let conn = Connection::open(db(&s)).unwrap();
        conn.execute_batch("DELETE FROM commits WHERE id=(SELECT max(id) FROM commits)")
            .unwrap();
        conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .unwrap();
        conn.close().unwrap();
        let (id, before) = (current(&s), archive(&s));
        let index = s.run(&["index"]).expect(1);
        assert_eq!(index.text("/err/kind"), "lost-commits");
        assert_eq!((current(&s), archive(&s)), (id, before));
    }
}

/// A backup of the old schema, restored as it is: a candidate of the present one with its rows, whatever
/// the schema of the live archive is.
#[test]
fn an_old_backup_is_rehearsed_restored_and_undone() {
    for (version, frozen) in older() {
        let s = frozen.copied();
        let made = applied(&s, &["doctor", "backups", "create"]);
        let backup = made.text("/backup_id").to_owned();
        let kept = s.data().join("backups").join(&backup);
        assert_eq!(schema(&kept.join("agent_search.db")).0, version);
        let then = rows(&kept.join("agent_search.db"));
        for is_migrated in [false, true] {
            if is_migrated {
                s.run(&["index"]).expect(0);
            }
            let (id, before) = (current(&s), archive(&s));
            assert_eq!(schema(&db(&s)) == present(), is_migrated);
            applied(&s, &["doctor", "backups", "restore", &backup]);
            assert_ne!(current(&s), id);
            assert_eq!(schema(&db(&s)), present());
            assert!(rows(&db(&s)) == then, "a row became another one");
            same(&exported(&s), &frozen.export());
            sound(&s);
            undone(&s, &id, &before);
        }
    }
}
