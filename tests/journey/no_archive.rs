//! Capture works whatever state the archive is in: new bytes are captured, the run says what is
//! wrong, and nothing is committed on top. What is not known is not touched at all.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::sandbox::{Ran, Sandbox, content, ran, snapshot};

const OLD: &str = ".claude/projects/-p/old.jsonl";
const NEW: &str = ".claude/projects/-p/new.jsonl";

fn line(session: &str, text: &str) -> Vec<u8> {
    format!(
        "{{\"type\":\"user\",\"uuid\":\"{session}-{text}\",\"sessionId\":\"{session}\",\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}\n"
    )
    .into_bytes()
}

/// Indexed once; then the old source has grown and a new one is there.
fn with_news() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.put(OLD, &line("old", "one"));
    sandbox.run(&["index"]).expect(0);
    news(&sandbox);
    sandbox
}

fn news(sandbox: &Sandbox) {
    sandbox.put(OLD, &[line("old", "one"), line("old", "two")].concat());
    sandbox.put(NEW, &line("new", "one"));
}

fn generation(sandbox: &Sandbox) -> PathBuf {
    let current = std::fs::read_to_string(sandbox.data().join("CURRENT"));
    let id = current.map_or("g00000001".to_owned(), |c| c.trim().to_owned());
    sandbox.data().join("generations").join(id)
}

/// Everything that is not the mirror's: what must not move when there is no usable archive. An
/// empty WAL is what opening the database leaves, and says nothing.
fn beside_the_mirror(sandbox: &Sandbox) -> Vec<(PathBuf, String)> {
    content(&sandbox.data())
        .into_iter()
        .filter(|(path, hash)| {
            let empty_wal = path.extension().is_some_and(|e| e == "db-wal")
                && *hash == blake3::hash(b"").to_hex().to_string();
            !empty_wal && !path.starts_with(sandbox.data().join("raw-mirror"))
        })
        .collect()
}

/// The news are captured and can be handed out; the run says `kind` and ends with `code`; the
/// archive, its ledger and `CURRENT` are as they were. A second run is the same.
#[track_caller]
fn captured_only(sandbox: &Sandbox, kind: &str, code: i32) -> Ran {
    let before = beside_the_mirror(sandbox);
    let first = sandbox.run(&["index"]).expect(code);
    assert_eq!(first.text("/err/kind"), kind);
    assert_eq!(first.number("/captured/captures"), 2, "{}", first.stdout);
    assert_eq!(*first.at("/archived"), Value::Null);
    assert_eq!(first.text("/status"), "partial");
    let (old, new) = (sandbox.home().join(OLD), sandbox.home().join(NEW));
    assert!(sandbox.get(&old, 1) == line("old", "one"));
    assert!(sandbox.get(&old, 2) == std::fs::read(&old).unwrap());
    assert!(sandbox.get(&new, 1) == line("new", "one"));
    assert_eq!(beside_the_mirror(sandbox), before);

    let second = sandbox.run(&["index"]).expect(code);
    assert_eq!(second.text("/err/kind"), kind);
    assert_eq!(second.number("/captured/captures"), 0);
    assert_eq!(beside_the_mirror(sandbox), before);
    let check = sandbox.run(&["doctor", "check"]);
    assert_eq!(check.code, code, "{}", check.stdout);
    first
}

#[test]
fn a_zeroed_database() {
    let sandbox = with_news();
    let db = generation(&sandbox).join("agent_search.db");
    let len = std::fs::metadata(&db).unwrap().len();
    std::fs::write(&db, vec![0; usize::try_from(len).unwrap()]).unwrap();
    captured_only(&sandbox, "archive-corrupt", 1);
}

#[test]
fn a_database_with_a_zeroed_page_in_its_middle_is_not_written_when_the_writer_meets_it() {
    let sandbox = with_news();
    let db = generation(&sandbox).join("agent_search.db");
    let mut bytes = std::fs::read(&db).unwrap();
    // The root page of every table and index but the schema's own.
    bytes[4096..].fill(0);
    std::fs::write(&db, bytes).unwrap();
    captured_only(&sandbox, "archive-corrupt", 1);
}

#[test]
fn a_deleted_database() {
    let sandbox = with_news();
    std::fs::remove_file(generation(&sandbox).join("agent_search.db")).unwrap();
    captured_only(&sandbox, "archive-missing", 1);
}

#[test]
fn deleted_generations() {
    let sandbox = with_news();
    std::fs::remove_dir_all(sandbox.data().join("generations")).unwrap();
    captured_only(&sandbox, "archive-missing", 1);
}

#[test]
fn a_deleted_current() {
    let sandbox = with_news();
    std::fs::remove_file(sandbox.data().join("CURRENT")).unwrap();
    captured_only(&sandbox, "archive-missing", 1);
    // Even without the ledger: the generation is there, and a new one would hide it.
    std::fs::remove_file(sandbox.data().join("coverage.jsonl")).unwrap();
    let before = beside_the_mirror(&sandbox);
    let ran = sandbox.run(&["index"]).expect(1);
    assert_eq!(ran.text("/err/kind"), "archive-missing");
    assert_eq!(beside_the_mirror(&sandbox), before);
}

#[test]
fn a_schema_that_is_too_new() {
    let sandbox = with_news();
    let manifest = generation(&sandbox).join("manifest.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    let mut value: Value = serde_json::from_str(&text).unwrap();
    value["schema_version"] = 999.into();
    std::fs::write(&manifest, value.to_string()).unwrap();
    captured_only(&sandbox, "schema-too-new", 6);
}

#[test]
fn a_database_whose_version_is_not_what_the_manifest_says() {
    for (version, kind, code) in [(0, "archive-corrupt", 1), (999, "schema-too-new", 6)] {
        let sandbox = with_news();
        let db = generation(&sandbox).join("agent_search.db");
        let conn = rusqlite::Connection::open(&db).unwrap();
        conn.pragma_update(None, "user_version", version).unwrap();
        conn.close().unwrap();
        captured_only(&sandbox, kind, code);
    }
}

fn copy_tree(from: &Path, to: &Path) {
    for entry in walkdir::WalkDir::new(from) {
        let entry = entry.unwrap();
        let target = to.join(entry.path().strip_prefix(from).unwrap());
        if entry.file_type().is_dir() {
            std::fs::create_dir_all(target).unwrap();
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn an_older_copy_of_the_archive_has_lost_commits() {
    let sandbox = Sandbox::new();
    sandbox.put(".claude/projects/-p/first.jsonl", &line("first", "one"));
    sandbox.run(&["index"]).expect(0);
    let generations = sandbox.data().join("generations");
    let kept = sandbox.path().join("kept");
    copy_tree(&generations, &kept);
    sandbox.put(OLD, &line("old", "one"));
    sandbox.run(&["index"]).expect(0);
    std::fs::remove_dir_all(&generations).unwrap();
    copy_tree(&kept, &generations);
    news(&sandbox);
    captured_only(&sandbox, "lost-commits", 1);
}

#[test]
fn a_coverage_ledger_one_line_behind_is_filled_in() {
    let sandbox = Sandbox::new();
    sandbox.put(OLD, &line("old", "one"));
    sandbox.run(&["index"]).expect(0);
    let ledger = sandbox.data().join("coverage.jsonl");
    let short = std::fs::read(&ledger).unwrap();
    sandbox.put(NEW, &line("new", "one"));
    sandbox.run(&["index"]).expect(0);
    let whole = std::fs::read(&ledger).unwrap();
    assert!(whole.starts_with(&short) && whole.len() > short.len());
    // As a crash between the commit and its line leaves it; and once more with half a line.
    for torn in [0, 40] {
        std::fs::write(&ledger, &whole[..short.len() + torn]).unwrap();
        assert_eq!(sandbox.run(&["doctor", "check"]).code, 0);
        let again = sandbox.run(&["index"]).expect(0);
        assert_eq!(again.number("/archived/backfilled"), 1);
        assert_eq!(again.number("/archived/commits"), 0);
        assert_eq!(std::fs::read(&ledger).unwrap(), whole);
    }
    assert_eq!(sandbox.run(&["index"]).expect(0).text("/status"), "no-op");
    assert_eq!(sandbox.run(&["doctor", "check", "--deep"]).code, 0);
}

#[test]
fn a_mirror_of_a_newer_format_is_not_touched() {
    let sandbox = with_news();
    std::fs::write(sandbox.data().join("raw-mirror/FORMAT"), "cass-mirror 2\n").unwrap();
    let before = content(&sandbox.data());
    let refused = sandbox.run(&["index"]).expect(6);
    assert_eq!(refused.text("/err/kind"), "mirror-too-new");
    assert_eq!(content(&sandbox.data()), before);
    let full = sandbox.run(&["index", "--full"]).expect(6);
    assert_eq!(full.text("/err/kind"), "mirror-too-new");
    assert_eq!(content(&sandbox.data()), before);
}

#[test]
fn a_data_directory_of_another_program_is_not_touched() {
    let sandbox = Sandbox::new();
    sandbox.put(OLD, &line("old", "one"));
    std::fs::create_dir(sandbox.data()).unwrap();
    let conn = rusqlite::Connection::open(sandbox.data().join("agent_search.db")).unwrap();
    conn.execute_batch("CREATE TABLE theirs(x); INSERT INTO theirs VALUES(1)")
        .unwrap();
    conn.close().unwrap();
    let before = snapshot(&sandbox.data());
    for args in [
        &["index"][..],
        &["index", "--full"],
        &["doctor", "check"],
        &["sessions", "list"],
    ] {
        let refused = sandbox.run(args);
        assert_eq!(
            refused.code,
            if args[0] == "doctor" { refused.code } else { 6 },
            "{args:?} {}",
            refused.stdout
        );
        assert!(
            refused.stdout.contains("foreign-archive"),
            "{args:?} {}",
            refused.stdout
        );
        assert_eq!(snapshot(&sandbox.data()), before, "{args:?}");
    }
}

#[test]
fn of_two_at_once_one_is_told_who_holds_the_lock() {
    let sandbox = Sandbox::new();
    // The first run cannot end before the second one was tried: it holds the lock while it waits
    // for this test, which holds the read side of its archive's database locked.
    sandbox.put(OLD, &line("old", "one"));
    sandbox.run(&["index"]).expect(0);
    let data = sandbox.data();
    let info = data.join("locks/writer.info");
    let lock = std::fs::File::open(data.join("locks/writer.lock")).unwrap();
    let mut first = None;
    let mut busy = None;
    // Sources enough that one run takes longer than the start of another; were it ever too
    // fast, it is tried again with more.
    for round in 1..=6 {
        for n in 0..200 * round {
            let name = format!("{round}-{n}");
            sandbox.put(
                &format!(".claude/projects/-p/{name}.jsonl"),
                &line(&name, "one"),
            );
        }
        let mut running = sandbox
            .command(&["index", "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let pid = running.id();
        let owner =
            || -> Option<Value> { serde_json::from_slice(&std::fs::read(&info).ok()?).ok() };
        while running.try_wait().unwrap().is_none() {
            let held = owner().is_some_and(|o| o["pid"] == pid);
            if held && lock.try_lock_shared().is_err() {
                let second = sandbox.run(&["index"]);
                if second.code == 7 {
                    busy = Some((pid, second));
                    break;
                }
            } else {
                let _ = lock.unlock();
            }
            std::thread::yield_now();
        }
        let output = running.wait_with_output().unwrap();
        first = Some(ran(output));
        if busy.is_some() {
            break;
        }
    }
    let (pid, busy) = busy.expect("the two never met");
    assert_eq!(busy.text("/err/kind"), "lock-busy");
    assert_eq!(busy.text("/status"), "blocked");
    assert_eq!(busy.text("/err/context/owner_pid"), pid.to_string());
    assert_eq!(busy.text("/err/context/owner_command"), "index");
    assert!(busy.text("/err/context/held_for_ms").parse::<u64>().is_ok());
    assert_eq!(busy.at("/err/retryable"), true);
    assert!(busy.number("/err/retry_after_ms") > 0);
    // The other one did its work, and both together left a sound archive.
    assert_eq!(first.unwrap().code, 0);
    assert_eq!(sandbox.run(&["index"]).expect(0).text("/status"), "no-op");
    assert_eq!(sandbox.run(&["doctor", "check", "--deep"]).code, 0);
}

#[test]
fn a_killed_run_leaves_no_lock() {
    let sandbox = Sandbox::new();
    for n in 0..100 {
        sandbox.put(
            &format!(".claude/projects/-p/{n}.jsonl"),
            &line(&n.to_string(), "one"),
        );
    }
    let mut killed = sandbox
        .command(&["index"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !sandbox.data().join("locks/writer.lock").exists() && killed.try_wait().unwrap().is_none()
    {
        std::thread::yield_now();
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    sandbox.run(&["index"]).expect(0);
    assert_eq!(sandbox.sessions().len(), 100);
    assert_eq!(sandbox.run(&["doctor", "check", "--deep"]).code, 0);
}

#[test]
fn without_room_nothing_begins() {
    // A file system of its own is the only honest way to have little room; it takes root.
    let sandbox = Sandbox::new();
    let small = sandbox.path().join("data");
    std::fs::create_dir(&small).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"])
        .arg(&small)
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success());
    if !mounted {
        println!("passed over: no file system can be mounted here");
        return;
    }
    let mut big = std::io::BufWriter::new(std::fs::File::create(sandbox.put(OLD, b"")).unwrap());
    for n in 0..200_000 {
        big.write_all(&line(
            "old",
            &blake3::hash(&[n as u8, (n >> 8) as u8, (n >> 16) as u8]).to_hex(),
        ))
        .unwrap();
    }
    big.into_inner().unwrap();
    let refused = sandbox.run(&["index"]);
    let left = snapshot(&small);
    assert!(
        Command::new("umount")
            .arg(&small)
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(refused.code, 21, "{}", refused.stdout);
    assert_eq!(refused.text("/err/kind"), "no-space");
    assert!(
        !left
            .keys()
            .any(|p| p.extension().is_some_and(|e| e == "pack")),
        "{left:?}"
    );
}
