//! An archive of an older schema in a data directory that has met something else as well.

use std::fs;
use std::path::Path;

use rusqlite::Connection;

use super::frozen::{Frozen, exported};
use super::lab::{apply, bytes, current, db, flip};
use super::migration::rows;
use super::sandbox::{Sandbox, mode};
use super::{applied, archive, count, older, present, same, schema, sound, sources, undone};

fn beside(db: &Path, end: &str) -> std::path::PathBuf {
    db.with_file_name(format!("agent_search.db{end}"))
}

/// Leaves every record and message, and the last commit, in the log alone, as a writer does that a
/// reader kept from folding them in.
fn in_the_log(s: &Sandbox) {
    let (path, aside) = (db(s), s.path().join("work"));
    fs::create_dir(&aside).unwrap();
    let (whole, part) = (aside.join("whole.db"), aside.join("agent_search.db"));
    fs::copy(&path, &whole).unwrap();
    fs::copy(&path, &part).unwrap();
    let conn = Connection::open(&part).unwrap();
    conn.execute_batch("PRAGMA foreign_keys=OFF; PRAGMA journal_mode=WAL")
        .unwrap();
    let tables = ["commits", "messages", "records"];
    for table in tables {
        let wanted = match table {
            "commits" => "WHERE id=(SELECT max(id) FROM commits)",
            _ => "",
        };
        conn.execute(&format!("DELETE FROM {table} {wanted}"), [])
            .unwrap();
    }
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
    conn.execute_batch(&format!(
        "PRAGMA wal_autocheckpoint=0; ATTACH '{}' AS whole; BEGIN",
        whole.display()
    ))
    .unwrap();
    for table in tables {
        conn.execute(
            &format!("INSERT OR IGNORE INTO main.{table} SELECT * FROM whole.{table}"),
            [],
        )
        .unwrap();
    }
    conn.execute_batch("COMMIT").unwrap();
    for end in ["", "-wal"] {
        let to = beside(&path, end);
        fs::copy(beside(&part, end), &to).unwrap();
        mode(&to, 0o600);
    }
    let log = fs::metadata(beside(&path, "-wal")).unwrap();
    assert!(log.len() > 20_000);
    // A connection that closes folds it in, which is why this is done elsewhere.
    conn.close().unwrap();
    fs::remove_dir_all(aside).unwrap();
}

#[test]
fn what_an_old_archive_has_in_its_log_alone_is_migrated() {
    for (_, frozen) in older() {
        let s = frozen.copied();
        let then = rows(&db(&s));
        in_the_log(&s);
        assert!(rows(&db(&s)) != then, "it is in the database as well");
        sound(&s);
        same(&exported(&s), &frozen.export());
        let (id, before) = (current(&s), archive(&s));
        let index = s.run(&["index"]).expect(0);
        assert!(index.at("/migrated").is_object());
        assert_eq!(schema(&db(&s)), present());
        assert!(rows(&db(&s)) == then, "a row became another one");
        same(&exported(&s), &frozen.export());
        sound(&s);
        s.run(&["doctor", "backups", "verify", &id, "--deep"])
            .expect(0);
        undone(&s, &id, &before);
        same(&exported(&s), &frozen.export());
    }
}

/// The log is damaged: its commits are told as lost, and the repair makes an archive of the present
/// schema of what is left and of the mirror.
#[test]
fn an_old_archive_that_lost_its_log_is_repaired() {
    for (_, frozen) in older() {
        let s = frozen.copied();
        in_the_log(&s);
        flip(&beside(&db(&s), "-wal"), 60);
        let before = archive(&s);
        let index = s.run(&["index"]).expect(1);
        assert_eq!(index.text("/err/kind"), "lost-commits", "{}", index.stdout);
        assert_eq!(archive(&s), before);
        applied(&s, &["doctor", "repair"]);
        assert_eq!(schema(&db(&s)), present());
        same(&exported(&s), &frozen.export());
        sound(&s);
        let again = s.run(&["index", "--skip-lexical"]).expect(0);
        assert_eq!(again.text("/status"), "no-op");
    }
}

#[test]
fn an_old_archive_that_nothing_names_is_named_again_and_migrated() {
    for (version, frozen) in older() {
        let s = frozen.copied();
        let (id, path, before) = (current(&s), db(&s), archive(&s));
        fs::remove_file(s.data().join("CURRENT")).unwrap();
        let was = bytes(&s);
        let index = s.run(&["index"]).expect(1);
        assert_eq!(
            index.text("/err/kind"),
            "archive-missing",
            "{}",
            index.stdout
        );
        assert!(index.at("/migrated").is_null());
        assert_eq!(bytes(&s), was);

        applied(&s, &["doctor", "repair"]);
        assert_eq!((current(&s), db(&s)), (id.clone(), path));
        assert_eq!(schema(&db(&s)).0, version);
        migrated(&s, &id, &before, &frozen);
    }
}

/// An index brings the archive to the present schema.
#[track_caller]
fn migrated(s: &Sandbox, id: &str, before: &[Vec<String>], frozen: &Frozen) {
    assert_eq!(archive(s), before);
    same(&exported(s), &frozen.export());
    let index = s.run(&["index"]).expect(0);
    assert_eq!(index.at("/migrated/backup_id"), id);
    assert_eq!(schema(&db(s)), present());
    same(&exported(s), &frozen.export());
}

/// Lines of the ledger are damaged, or all of it is gone: it is renewed, before the migration or behind
/// it, and no row depends on it.
#[test]
fn an_old_archive_with_a_damaged_ledger_is_migrated() {
    for (_, frozen) in older() {
        let s = frozen.copied();
        let text = fs::read_to_string(s.data().join("coverage.jsonl")).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let without = |n: usize| {
            let mut lines = lines.clone();
            lines[n] = "{\"kind\":\"comm";
            Some(lines.join("\n") + "\n")
        };
        let torn = Some(text[..text.len() - 20].to_owned());
        let all = [
            ("first", without(0)),
            ("middle", without(lines.len() / 2)),
            ("last", without(lines.len() - 1)),
            ("torn", torn),
            ("none", None),
        ];
        for (what, ledger) in all {
            for first in ["doctor repair", "index"] {
                println!("{what}, {first} first");
                let s = frozen.copied();
                let (id, before) = (current(&s), archive(&s));
                match &ledger {
                    Some(text) => fs::write(s.data().join("coverage.jsonl"), text).unwrap(),
                    None => fs::remove_file(s.data().join("coverage.jsonl")).unwrap(),
                }
                if first == "doctor repair" {
                    repaired(&s);
                    migrated(&s, &id, &before, &frozen);
                    sound(&s);
                } else {
                    let index = s.run(&["index"]);
                    println!("{} {}", index.code, index.at("/migrated"));
                    if index.code == 0 {
                        assert!(index.at("/migrated").is_object());
                        repaired(&s);
                    } else {
                        repaired(&s);
                        migrated(&s, &id, &before, &frozen);
                    }
                    same(&exported(&s), &frozen.export());
                    sound(&s);
                }
            }
        }
    }
}

/// Plans a repair, and applies what there is to do.
#[track_caller]
fn repaired(s: &Sandbox) {
    let planned = s.run(&["doctor", "repair"]).expect(0);
    if planned.text("/status") != "no-op" {
        apply(s, &planned).expect(0);
    }
}

/// A migration that was killed, behind the replacement of `CURRENT` or before it, is ended by a repair
/// as it is by an index.
#[test]
fn a_killed_migration_is_ended_by_a_repair_as_well() {
    for (version, frozen) in older() {
        for took_effect in [true, false] {
            let s = frozen.copied();
            let (id, before) = (current(&s), archive(&s));
            let old = tempfile::tempdir_in(s.path()).unwrap();
            frozen.copy_to(old.path());
            let index = s.run(&["index"]).expect(0);
            let run = index.text("/migrated/run_id");
            let first = run.to_owned();
            let receipt = index.text("/migrated/receipt");
            if took_effect {
                fs::remove_file(s.data().join(receipt)).unwrap();
            } else {
                for rel in [
                    format!("doctor/intents/{run}.json"),
                    format!("generations/{}", current(&s)),
                ] {
                    fs::rename(s.data().join(&rel), old.path().join(&rel)).unwrap();
                }
                fs::remove_dir_all(s.data()).unwrap();
                fs::rename(old.path(), s.data()).unwrap();
            }
            let check = s.run(&["doctor", "check"]);
            assert!(check.stdout.contains("was killed"), "{}", check.stdout);
            assert!(!s.data().join(receipt).exists());

            repaired(&s);
            assert!(s.data().join(receipt).exists());
            assert_eq!(schema(&db(&s)).0 == version, !took_effect);
            let kept = fs::read_dir(s.data().join("generations")).unwrap();
            assert_eq!(kept.count(), 2 + usize::from(took_effect));
            same(&exported(&s), &frozen.export());
            sound(&s);
            let index = s.run(&["index"]).expect(0);
            assert_eq!(index.at("/migrated").is_null(), took_effect);
            assert_eq!(schema(&db(&s)), present());
            sound(&s);
            let run = index.json.pointer("/migrated/run_id");
            let run = run.and_then(|r| r.as_str()).unwrap_or(&first);
            applied(&s, &["doctor", "runs", "undo", run]);
            assert_eq!((current(&s), archive(&s)), (id, before));
        }
    }
}

/// An undo would drop what came after the migration. It is refused, and what it names instead keeps it.
#[test]
fn what_came_after_a_migration_is_not_lost_by_going_back() {
    for (_, frozen) in older() {
        let s = frozen.copied();
        let id = current(&s);
        let index = s.run(&["index"]).expect(0);
        let run = index.text("/migrated/run_id").to_owned();
        s.put(sources::NEW, &sources::new());
        s.run(&["index"]).expect(0);
        let all = exported(&s);
        assert_eq!(count(&all), count(&frozen.export()) + 3);
        fs::remove_file(s.home().join(sources::NEW)).unwrap();

        let refused = s.run(&["doctor", "runs", "undo", &run]).expect(21);
        let hint = refused.at("/err/hint_argv").as_array().unwrap();
        let words: Vec<&str> = hint.iter().map(|w| w.as_str().unwrap()).collect();
        assert_eq!(
            words[1..5],
            ["doctor", "backups", "restore", "--keep-newer"]
        );
        assert_eq!(words.last(), Some(&id.as_str()));
        applied(&s, &[&words[1..5], &[id.as_str()]].concat());
        assert_eq!(schema(&db(&s)), present());
        same(&exported(&s), &all);
        sound(&s);
    }
}
