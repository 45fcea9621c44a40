//! Capture needs no usable archive: whatever became of it, new bytes are safe, and the exit says
//! that something is wrong.

use std::path::{Path, PathBuf};

use crate::sandbox::{Sandbox, snapshot};

const SESSION: &str = "11111111-2222-4333-8444-555555555555";

fn line(n: u32) -> String {
    format!(
        "{{\"type\":\"user\",\"uuid\":\"00000000-0000-4000-8000-{n:012}\",\"parentUuid\":null,\
         \"sessionId\":\"{SESSION}\",\"timestamp\":\"2026-11-01T10:00:{:02}.000Z\",\"cwd\":\"/src\",\
         \"version\":\"2.1.0\",\"message\":{{\"role\":\"user\",\"content\":\"line {n}\"}}}}\n",
        n % 60
    )
}

fn lines(n: std::ops::Range<u32>) -> Vec<u8> {
    n.map(line).collect::<String>().into_bytes()
}

/// A home with one archived session, and the path of its file.
fn indexed() -> (Sandbox, PathBuf) {
    let sandbox = Sandbox::new();
    let path = sandbox.put(&format!(".claude/projects/-src/{SESSION}.jsonl"), &lines(0..5));
    sandbox.run(&["index"]).expect(0);
    (sandbox, path)
}

fn database(sandbox: &Sandbox) -> PathBuf {
    sandbox.data().join("generations/g00000001/agent_search.db")
}

/// Grows the source, indexes, and demands that the new bytes are in the mirror although the run
/// ended with `code` and `kind`.
#[track_caller]
fn captured_all_the_same(sandbox: &Sandbox, path: &Path, code: i32, kind: &str) {
    let grown = lines(0..9);
    sandbox.put(path.strip_prefix(sandbox.home()).unwrap().to_str().unwrap(), &grown);
    let run = sandbox.run(&["index"]).expect(code);
    assert_eq!(run.text("/err/kind"), kind, "{}", run.stdout);
    assert_eq!(run.at("/captured/captures").as_u64(), Some(1), "{}", run.stdout);
    let out = sandbox.path().join("got");
    let args = ["mirror", "get", path.to_str().unwrap(), "-o", out.to_str().unwrap()];
    sandbox.run(&args).expect(0);
    assert!(std::fs::read(&out).unwrap() == grown);
}

#[test]
fn a_corrupt_archive() {
    let (sandbox, path) = indexed();
    let db = database(&sandbox);
    let damaged = vec![0u8; std::fs::metadata(&db).unwrap().len() as usize];
    std::fs::write(&db, &damaged).unwrap();
    captured_all_the_same(&sandbox, &path, 1, "archive-corrupt");
    assert!(std::fs::read(&db).unwrap() == damaged, "the damaged archive was written to");
}

#[test]
fn an_archive_that_is_gone() {
    let (sandbox, path) = indexed();
    std::fs::remove_file(database(&sandbox)).unwrap();
    captured_all_the_same(&sandbox, &path, 1, "archive-missing");
    assert!(!database(&sandbox).exists());
}

#[test]
fn a_lost_current() {
    let (sandbox, path) = indexed();
    let db = std::fs::read(database(&sandbox)).unwrap();
    std::fs::remove_file(sandbox.data().join("CURRENT")).unwrap();
    captured_all_the_same(&sandbox, &path, 1, "archive-missing");
    assert!(std::fs::read(database(&sandbox)).unwrap() == db);
    assert!(!sandbox.data().join("CURRENT").exists());
    assert!(!sandbox.data().join("generations/g00000002").exists());
}

#[test]
fn a_newer_schema() {
    let (sandbox, path) = indexed();
    let manifest = sandbox.data().join("generations/g00000001/manifest.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    let newer = text.replace("\"schema_version\": 1", "\"schema_version\": 99");
    assert_ne!(newer, text);
    std::fs::write(&manifest, newer).unwrap();
    let db = std::fs::read(database(&sandbox)).unwrap();
    captured_all_the_same(&sandbox, &path, 6, "schema-too-new");
    assert!(std::fs::read(database(&sandbox)).unwrap() == db);
}

#[test]
fn commits_that_the_archive_lost() {
    let (sandbox, path) = indexed();
    let keep = sandbox.path().join("older");
    let generation = sandbox.data().join("generations/g00000001");
    std::fs::create_dir(&keep).unwrap();
    for file in std::fs::read_dir(&generation).unwrap().map(Result::unwrap) {
        std::fs::copy(file.path(), keep.join(file.file_name())).unwrap();
    }
    sandbox.put(path.strip_prefix(sandbox.home()).unwrap().to_str().unwrap(), &lines(0..7));
    sandbox.run(&["index"]).expect(0);
    // The archive of before: sound by itself, and one commit short of what was promised.
    for file in std::fs::read_dir(&keep).unwrap().map(Result::unwrap) {
        std::fs::copy(file.path(), generation.join(file.file_name())).unwrap();
    }
    let db = std::fs::read(database(&sandbox)).unwrap();
    captured_all_the_same(&sandbox, &path, 1, "lost-commits");
    assert!(std::fs::read(database(&sandbox)).unwrap() == db, "a commit on top of lost ones");
    let check = sandbox.run(&["doctor", "check"]).expect(1);
    assert!(check.stdout.contains("lost-commits"), "{}", check.stdout);
}

#[test]
fn a_ledger_that_is_one_line_behind_is_written_on() {
    let (sandbox, path) = indexed();
    sandbox.put(path.strip_prefix(sandbox.home()).unwrap().to_str().unwrap(), &lines(0..7));
    sandbox.run(&["index"]).expect(0);
    let ledger = sandbox.data().join("coverage.jsonl");
    let whole = std::fs::read_to_string(&ledger).unwrap();
    let cut = whole.trim_end().rfind('\n').unwrap() + 1;
    std::fs::write(&ledger, &whole[..cut]).unwrap();
    let check = sandbox.run(&["doctor", "check"]).expect(0);
    assert!(check.stdout.contains("ledger-behind"), "{}", check.stdout);
    sandbox.run(&["index"]).expect(0);
    assert_eq!(std::fs::read_to_string(&ledger).unwrap(), whole);
}

#[test]
fn what_belongs_to_others_is_not_touched() {
    // A mirror of a later version.
    let (sandbox, _) = indexed();
    std::fs::write(sandbox.data().join("raw-mirror/FORMAT"), "cass-mirror 2\n").unwrap();
    let before = snapshot(&sandbox.data());
    let run = sandbox.run(&["index"]).expect(6);
    assert_eq!(run.text("/err/kind"), "mirror-too-new");
    assert!(snapshot(&sandbox.data()) == before, "not even the lock's info is written");

    // Another program's archive.
    let sandbox = Sandbox::new();
    sandbox.put(&format!(".claude/projects/-src/{SESSION}.jsonl"), &lines(0..5));
    std::fs::create_dir(sandbox.data()).unwrap();
    std::fs::write(sandbox.data().join("agent_search.db"), b"theirs").unwrap();
    for args in [&["index"][..], &["doctor", "check"], &["sessions", "list"]] {
        let run = sandbox.run(args).expect(6);
        assert_eq!(run.text("/err/kind"), "foreign-archive");
    }
    let names: Vec<_> = std::fs::read_dir(sandbox.data()).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

#[test]
fn one_of_two_runs_at_once_is_told_who_holds_the_lock() {
    let (sandbox, _) = indexed();
    let lock = std::fs::File::open(sandbox.data().join("locks/writer.lock")).unwrap();
    lock.try_lock().unwrap();
    let run = sandbox.run(&["index"]).expect(7);
    assert_eq!(run.text("/err/kind"), "lock-busy");
    for fact in ["owner_pid", "held_for_ms", "owner_command"] {
        assert!(!run.text(&format!("/err/context/{fact}")).is_empty(), "{}", run.stdout);
    }
    assert!(run.at("/err/retry_after_ms").as_u64().is_some());
    // Reading goes on, and says who writes.
    let check = sandbox.run(&["doctor", "check"]).expect(0);
    assert!(check.stdout.contains("writer-active"), "{}", check.stdout);
    sandbox.run(&["sessions", "list"]).expect(0);
    drop(lock);
    sandbox.run(&["index"]).expect(0);
}
