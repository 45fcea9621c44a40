//! `--from`: whatever file of an archive is named, however broken, gives the rows that verify; what is
//! none is refused, and nothing has changed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde_json::Value;

use super::lab::{apply, bytes, claude, current, db, exported, indexed, plan, tamper};
use super::sandbox::{Ran, Sandbox};

const THEIRS: &str = ".claude/projects/-src-b/00000000-0000-4000-8000-000000000001.jsonl";

/// Another machine's session of `n` turns.
fn grow(other: &Sandbox, n: usize) {
    let text = String::from_utf8(claude(n)).unwrap();
    other.put(
        THEIRS,
        text.replace("8000-00000000000", "8000-00000000007")
            .as_bytes(),
    );
    other.run(&["index"]).expect(0);
}

type Exported = BTreeMap<String, Vec<Value>>;

fn planned(s: &Sandbox, from: &Path) -> Ran {
    plan(
        s,
        &["doctor", "repair", &format!("--from={}", from.display())],
    )
}

/// What is there after a repair from a file, that was not there before.
fn taken(s: &Sandbox, from: &Path) -> Exported {
    let before = exported(s);
    let applied = apply(s, &planned(s, from).expect(0));
    assert_eq!(applied.code, 0, "{}", applied.stdout);
    let manifest = fs::read(db(s).with_file_name("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let named = manifest.pointer("/provenance/captures/named");
    assert!(named.and_then(Value::as_u64) > Some(0), "{manifest}");
    let mut after = exported(s);
    for (id, messages) in &before {
        assert_eq!(after.remove(id).as_ref(), Some(messages), "{id}");
    }
    after
}

fn halve(bytes: &mut Vec<u8>) {
    bytes.truncate(bytes.len() / 2);
}

/// Every fourth page but those that hold nothing but the schema.
fn noise(bytes: &mut [u8]) {
    let mut seed = 7u64;
    for page in bytes.chunks_mut(4096).skip(3).step_by(4) {
        for byte in page {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (seed >> 33) as u8;
        }
    }
}

#[test]
fn a_broken_file_gives_the_rows_that_are_left_in_it() {
    type Damage = fn(&mut Vec<u8>);
    let kinds: [(&str, Damage, bool); 4] = [
        ("sound", |_| (), true),
        ("page 1 gone", |b| b[..4096].fill(0), true),
        ("cut in half", halve, false),
        ("noise", |b| noise(b), false),
    ];
    let other = Sandbox::in_memory();
    grow(&other, 2000);
    let theirs = exported(&other);
    let (id, all) = theirs.iter().next().unwrap();
    let sound = fs::read(db(&other)).unwrap();
    for (what, damage, is_all) in kinds {
        let s = indexed();
        let mut bytes = sound.clone();
        damage(&mut bytes);
        let file = s.put("found.db", &bytes);
        let taken = taken(&s, &file);
        let found = taken.get(id).unwrap_or_else(|| panic!("{what}: {taken:?}"));
        if is_all {
            assert_eq!(found.len(), all.len(), "{what}");
        } else {
            assert!(
                found.len() > 300 && found.len() < all.len(),
                "{what}: {}",
                found.len()
            );
        }
        // Told as they were; only the numbers of what is lost between them differ.
        let text = |m: &Value| m.get("text").or(m.get("content")).cloned();
        let known: Vec<_> = all.iter().map(text).collect();
        assert!(known.iter().all(Option::is_some));
        assert!(found.iter().all(|m| known.contains(&text(m))), "{what}");
        // The mirror never had what they were read from; the archive itself is sound.
        let check = s.run(&["doctor", "check", "--deep"]);
        for id in ["archive.integrity", "archive.rows", "archive.commits"] {
            let checks = check.at("/checks").as_array().unwrap();
            let check = checks.iter().find(|c| c["id"] == id).unwrap();
            assert_eq!(check["status"], "ok", "{what}: {check}");
        }
    }
}

#[test]
fn what_only_the_wal_beside_a_file_has_is_taken() {
    let other = Sandbox::in_memory();
    grow(&other, 10);
    let path = db(&other);
    // A reader of the old state keeps what is new in the WAL.
    let reader = Connection::open(&path).unwrap();
    reader
        .execute_batch("BEGIN; SELECT count(*) FROM records;")
        .unwrap();
    grow(&other, 200);
    let (old, wal) = (
        fs::read(&path).unwrap(),
        fs::read(path.with_file_name("agent_search.db-wal")).unwrap(),
    );
    drop(reader);
    assert!(!wal.is_empty());
    let theirs = exported(&other);
    for is_first_lost in [false, true] {
        let s = indexed();
        let mut old = old.clone();
        if is_first_lost {
            old[..4096].fill(0);
        }
        let file = s.put("found.db", &old);
        s.put("found.db-wal", &wal);
        assert_eq!(taken(&s, &file), theirs);
    }
}

#[test]
fn backups_and_sealed_generations_of_another_data_directory_are_taken() {
    let other = Sandbox::in_memory();
    grow(&other, 30);
    let theirs = exported(&other);
    apply(
        &other,
        &plan(&other, &["doctor", "backups", "create"]).expect(0),
    )
    .expect(0);
    let sealed = other.data().join("generations").join(current(&other));
    tamper(&other);
    apply(&other, &plan(&other, &["doctor", "repair"]).expect(0)).expect(0);
    let backup = fs::read_dir(other.data().join("backups"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .find(|p| p.is_dir())
        .unwrap();
    for from in [backup, other.data()] {
        let s = indexed();
        assert_eq!(taken(&s, &from), theirs, "{}", from.display());
    }
    // One of its rows does not verify.
    let s = indexed();
    assert_eq!(taken(&s, &sealed).len(), 1);
}

#[test]
fn what_is_no_archive_is_refused_and_nothing_changes() {
    let s = indexed();
    let places = s.home().join("Downloads");
    fs::create_dir_all(places.join("folder")).unwrap();
    let history = places.join("places.sqlite");
    Connection::open(&history)
        .unwrap()
        .execute_batch(
            "CREATE TABLE urls(id INTEGER PRIMARY KEY, url TEXT); \
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<2000) \
             INSERT INTO urls SELECT i, 'https://example.org/' || i FROM n;",
        )
        .unwrap();
    // Our mark in the header of a file that has none of our rows.
    let marked = places.join("marked.db");
    Connection::open(&marked)
        .unwrap()
        .execute_batch("PRAGMA application_id=1667330931; CREATE TABLE urls(id);")
        .unwrap();
    let fifo = places.join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    let mut cases: Vec<(PathBuf, i32, &str)> = vec![
        (history, 3, "not-found"),
        (marked, 3, "not-found"),
        (s.put("Downloads/letter.txt", &[b'x'; 9000]), 3, "not-found"),
        (s.put("Downloads/empty", b""), 3, "not-found"),
        (places.join("nothing"), 3, "not-found"),
        (places.join("folder"), 3, "not-found"),
        (fifo, 2, "unsafe-target"),
    ];
    let before = bytes(&s);
    for (path, code, kind) in cases.drain(..) {
        let refused = planned(&s, &path);
        let told = (refused.code, refused.text("/err/kind"));
        assert_eq!(told, (code, kind), "{}: {}", path.display(), refused.stdout);
        assert!(!refused.text("/err/message").is_empty());
        let told = refused.text("/err/hint");
        assert!(told.contains("--from takes"), "{}: {told}", path.display());
    }
    let secret = s.put("Downloads/secret.db", b"x");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o000)).unwrap();
    let from = format!("--from={}", secret.display());
    if let Some(refused) = s.run_as_nobody(&["doctor", "repair", &from]) {
        let told = (refused.code, refused.text("/err/kind"));
        assert_eq!(told, (9, "permission-denied"), "{}", refused.stdout);
    }
    assert_eq!(before, bytes(&s));
}

#[test]
fn where_there_is_no_data_directory_one_is_begun_with_what_was_named() {
    let other = indexed();
    let truth = exported(&other);
    let file = other.path().join("recovered.db");
    fs::copy(db(&other), &file).unwrap();
    // It is another machine: what was captured there is not here.
    for folder in [".claude", ".codex"] {
        fs::remove_dir_all(other.home().join(folder)).unwrap();
    }
    for from in [file, other.data()] {
        let s = Sandbox::in_memory();
        let plan = s.run(&["doctor", "repair", &format!("--from={}", from.display())]);
        let plan = plan.expect(0);
        assert_eq!(plan.text("/status"), "planned", "{}", plan.stdout);
        assert!(
            plan.text("/repair_plan/reasons/0")
                .contains("no data directory")
        );
        assert!(!s.data().exists(), "a dry run made it");
        let applied = apply(&s, &plan).expect(0);
        assert_eq!(applied.text("/status"), "applied", "{}", applied.stdout);
        let mode = fs::metadata(s.data()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert_eq!(exported(&s), truth);
        s.run(&["doctor", "check", "--deep"]).expect(0);
        let again = apply(&s, &plan).expect(0);
        assert_eq!(again.text("/status"), "already-applied");
        // Life goes on.
        grow(&s, 4);
        s.run(&["doctor", "check", "--deep"]).expect(0);
        assert_eq!(s.sessions().len(), truth.len() + 1);
    }
    // Not inside of what a harness keeps.
    let s = Sandbox::in_memory();
    s.put(THEIRS, &claude(4));
    let data = s.home().join(".claude/projects/mine");
    let words = |more: &[&str]| {
        let mut words = vec!["doctor".to_owned(), "repair".to_owned()];
        words.push(format!("--from={}", other.data().display()));
        words.push(format!("--data-dir={}", data.display()));
        words.extend(more.iter().map(|w| (*w).to_owned()));
        super::lab::run_argv(&s, &words)
    };
    let fp = super::lab::fingerprint(&words(&[]).expect(0));
    let refused = words(&["--yes", "--plan-fingerprint", &fp]).expect(2);
    assert_eq!(refused.text("/err/kind"), "unsafe-target");
    assert!(!data.exists());
}
