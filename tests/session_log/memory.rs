//! A log is examined, and a repair planned, in the same memory however long it is.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rusqlite::Connection;
use serde_json::Value;

use crate::{cases, invented};

/// A log of so many megabytes of text. The end of a raw one is there twice, that of a packed one is
/// cut off.
fn damaged(folder: &Path, mb: u64, packed: bool) -> PathBuf {
    let path = folder.join(if packed {
        "log.jsonl.zstd"
    } else {
        "log.jsonl"
    });
    let mut out = BufWriter::new(File::create(&path).expect("a file"));
    invented::write(&mut out, mb << 20, packed).expect("written");
    let file = out.into_inner().expect("written");
    if packed {
        let len = file.metadata().expect("a length").len();
        file.set_len(len - 20).expect("cut");
    } else {
        let text = fs::read(&path).expect("the log");
        let tail = &text[text.len() - (1 << 20)..];
        let line = tail.iter().position(|b| *b == b'\n').expect("a line") + 1;
        (&file).write_all(&tail[line..]).expect("written");
    }
    path
}

/// Runs the program on a log; its peak in KiB, and its document, which is shorter than what a pipe
/// holds.
fn run(home: &Path, words: &[&str], path: &Path) -> (u64, Value) {
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("cass"))
        .env_clear()
        .env("HOME", home)
        .current_dir(home)
        .args(["doctor", "session-log"])
        .args(words)
        .arg("--json")
        .arg(path)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().expect("a child").is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find(|l| l.starts_with("VmHWM:"));
        let now = line.and_then(|l| l.split_ascii_whitespace().nth(1)?.parse().ok());
        peak = peak.max(now.unwrap_or(0));
        std::thread::sleep(Duration::from_millis(1));
    }
    let output = child.wait_with_output().expect("its output");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (
        peak,
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}")),
    )
}

/// Peaks of a check and of a plan, in KiB.
fn peaks(mb: u64, packed: bool) -> [u64; 2] {
    let home = tempfile::tempdir().expect("a home");
    let log = damaged(home.path(), mb, packed);
    let (check, told) = run(home.path(), &["check"], &log);
    let wanted = if packed {
        "torn_tail_recoverable"
    } else {
        "reappended_duplicates"
    };
    assert_eq!(told["sessions"][0]["verdict"], wanted, "{told}");
    let (plan, planned) = run(home.path(), &["repair"], &log);
    assert_eq!(planned["status"], "planned", "{planned}");
    [check, plan]
}

fn flat(packed: bool) {
    let (short, long) = (peaks(2, packed), peaks(12, packed));
    for (what, (short, long)) in ["check", "plan"].iter().zip(short.iter().zip(long)) {
        assert!(
            long < short + 4096 && long < 64 << 10,
            "{what}: {short} KiB for 2 MB, {long} KiB for 12 MB"
        );
    }
}

/// A store of more than 64 MiB with a session of so many megabytes, the end of which is broken.
fn store(folder: &Path, mb: u64) -> PathBuf {
    let path = folder.join("sessions.db");
    fs::copy(cases::named("sqlite_clean").log(), &path).expect("a store");
    let conn = Connection::open(&path).expect("a store");
    let all = |sql: &str| conn.execute_batch(sql).expect("changed");
    all("PRAGMA journal_mode = DELETE; DELETE FROM events; BEGIN;");
    let id: String = conn
        .query_row("SELECT id FROM sessions", [], |row| row.get(0))
        .expect("a session");
    let mut text = Vec::new();
    invented::write(&mut text, mb << 20, false).expect("written");
    let mut insert = conn
        .prepare("INSERT INTO events VALUES (?1, ?2, ?3, ?4, ?5, NULL, ?6, ?7)")
        .expect("a statement");
    let lines = text
        .split(|b| *b == b'\n')
        .skip(1)
        .filter(|l| !l.is_empty());
    for line in lines {
        let row: Value = serde_json::from_slice(line).expect("JSON");
        let packed = row.get("seq0").is_some();
        let key =
            |plain: &str, of_packed: &str| row[if packed { of_packed } else { plain }].as_i64();
        insert
            .execute(rusqlite::params![
                id,
                key("seq", "seq0"),
                row["type"].as_str(),
                key("time", "time0"),
                row["data"].to_string(),
                row.get("surfaceOp").map(Value::to_string),
                packed.then_some(0),
            ])
            .expect("inserted");
    }
    drop(insert);
    all("UPDATE events SET data = '{\"cut' WHERE seq = (SELECT max(seq) FROM events); COMMIT;");
    all("CREATE TABLE filler(x BLOB); INSERT INTO filler VALUES (zeroblob(67108864))");
    assert!(fs::metadata(&path).expect("a length").len() > 64 << 20);
    path
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "peaks are read from /proc")]
fn a_large_store_is_checked_where_it_lies() {
    let home = tempfile::tempdir().expect("a home");
    let small = home.path().join("small.db");
    fs::copy(cases::named("sqlite_clean").log(), &small).expect("a store");
    let (least, _) = run(home.path(), &["check"], &small);
    fs::remove_file(small).expect("removed");
    let store = store(home.path(), 6);
    let (peak, told) = run(home.path(), &["check"], &store);
    let session = &told["sessions"][0];
    assert_eq!(session["verdict"], "torn_tail_recoverable", "{told}");
    assert_eq!(told["complete"], true);
    assert_eq!(fs::read_dir(home.path()).expect("a folder").count(), 1);
    // The text of the session alone has six MiB, and the file 64 more.
    assert!(
        peak < least + 4096,
        "{least} KiB of a small one, {peak} KiB"
    );
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "peaks are read from /proc")]
fn a_raw_log_is_checked_and_planned_for_in_memory_that_does_not_grow() {
    flat(false);
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "peaks are read from /proc")]
fn a_log_in_frames_is_checked_and_planned_for_in_memory_that_does_not_grow() {
    flat(true);
}
