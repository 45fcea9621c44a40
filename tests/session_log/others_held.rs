//! What the archive holds beyond a session file, and how it comes back.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::others::{Home, sample, state};

const FROM: &str = "claude/VibeCodingTracker/e9f146fa-3b20-48d0-9be4-d99ca901cae4.jsonl";
const TO: &str = ".claude/projects/-p/e9f146fa-3b20-48d0-9be4-d99ca901cae4.jsonl";

/// A home with one session, captured and read.
fn archived() -> (Home, PathBuf, Vec<u8>) {
    let home = Home::new();
    let bytes = sample(FROM);
    let path = home.put(TO, &bytes);
    let (code, document) = home.run(&["index"]);
    assert_eq!(code, 0, "{document}");
    (home, path, bytes)
}

/// The entry of the session's file; nothing is changed or made by asking.
fn entry(home: &Home, path: &std::path::Path) -> Value {
    let before = state(&home.path(".claude"));
    let entry = home.check(path)[path].clone();
    assert!(state(&home.path(".claude")) == before);
    entry
}

/// What names the records in `bytes`: type and id, else the line itself and which time it comes.
fn records(bytes: &[u8]) -> std::collections::BTreeSet<(String, usize)> {
    let mut out = std::collections::BTreeSet::new();
    for line in bytes.split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
        let value: Value = serde_json::from_slice(line).expect("JSON");
        if let Some(id) = value["uuid"].as_str() {
            out.insert((format!("{} {id}", value["type"]), 0));
            continue;
        }
        let text = String::from_utf8_lossy(line).into_owned();
        let time = (1..).find(|n| !out.contains(&(text.clone(), *n)));
        out.insert((text, time.expect("a number")));
    }
    out
}

fn line_begins(bytes: &[u8]) -> Vec<usize> {
    let ends = bytes.iter().enumerate().filter(|(_, b)| **b == b'\n');
    std::iter::once(0).chain(ends.map(|(n, _)| n + 1)).collect()
}

/// The classes of the findings that are about the file as a whole.
fn of_source(entry: &Value) -> Vec<String> {
    let found = entry["findings"].as_array().expect("findings");
    found
        .iter()
        .filter_map(|f| f["class"].as_str())
        .filter(|c| c.starts_with("source."))
        .map(str::to_owned)
        .collect()
}

/// Runs the command that is said to give the session back, and compares.
fn comes_back(home: &Home, entry: &Value, want: &[u8]) {
    let argv: Vec<&str> = entry["archive"]["give_back"]
        .as_array()
        .expect("a command")
        .iter()
        .map(|w| w.as_str().expect("a word"))
        .collect();
    assert_eq!(&argv[..3], ["cass", "sessions", "restore"]);
    let before = state(&home.path(".claude"));
    let (code, document) = home.run(&argv[1..]);
    assert_eq!(code, 0, "{document}");
    let after = state(home.dir.path());
    assert!(
        before
            .iter()
            .all(|(path, was)| after.get(path) == Some(was))
    );
    let made = after
        .iter()
        .filter(|(path, _)| !before.contains_key(*path))
        .filter(|(path, _)| path.ends_with(TO.trim_start_matches(".claude/")));
    let made: Vec<_> = made.map(|(_, (bytes, _))| bytes).collect();
    assert_eq!(made, [&want.to_vec()], "{document}");
}

#[test]
fn a_file_as_captured_or_longer_is_no_finding() {
    let (home, path, bytes) = archived();
    let told = entry(&home, &path);
    assert_eq!(told["archive"]["state"], "as-captured");
    assert_eq!(told["archive"]["captures"], 1);
    assert_eq!(told["archive"]["records_beyond"], 0);
    assert_eq!(told["archive"]["give_back"], Value::Null);
    assert!(of_source(&told).is_empty());
    let last = line_begins(&bytes);
    let more = &bytes[last[last.len() - 2]..];
    home.put(TO, &[&bytes, more].concat());
    let told = entry(&home, &path);
    assert_eq!(told["archive"]["state"], "longer");
    assert!(of_source(&told).is_empty());
}

#[test]
fn what_a_file_lost_is_counted_and_comes_back() {
    let (home, path, bytes) = archived();
    let begins = line_begins(&bytes);
    let half = begins[begins.len() / 2];
    let all = records(&bytes);
    for (name, now, state, class) in [
        ("shrunk", bytes[..half].to_vec(), "shrunk", "source.shrunk"),
        ("emptied", Vec::new(), "emptied", "source.emptied"),
        (
            "its end",
            bytes[half..].to_vec(),
            "rewritten",
            "source.rewritten",
        ),
    ] {
        home.put(TO, &now);
        let told = entry(&home, &path);
        let archive = &told["archive"];
        let beyond = all.difference(&records(&now)).count();
        assert!(beyond > 0);
        assert_eq!(archive["state"], state, "{name}");
        assert_eq!(archive["records_beyond"], beyond, "{name}: {archive}");
        assert!(archive["bytes_beyond"].as_u64().expect("a number") > 0);
        assert_eq!(archive["richest_capture"], 1);
        assert_eq!(told["verdict"], "archive_holds_more", "{name}");
        assert_eq!(told["severity"], "error", "{name}");
        assert_eq!(of_source(&told), [class]);
    }
    comes_back(&home, &entry(&home, &path), &bytes);
}

#[test]
fn what_an_earlier_capture_holds_more_is_told_after_the_next_index_too() {
    let (home, path, bytes) = archived();
    let begins = line_begins(&bytes);
    let half = begins[begins.len() / 2];
    home.put(TO, &bytes[..half]);
    let (code, document) = home.run(&["index"]);
    assert_eq!(code, 0, "{document}");
    let told = entry(&home, &path);
    let beyond = records(&bytes).difference(&records(&bytes[..half])).count();
    assert_eq!(told["archive"]["state"], "as-captured");
    assert_eq!(told["archive"]["captures"], 2);
    assert_eq!(told["archive"]["records_beyond"], beyond);
    assert_eq!(told["archive"]["richest_capture"], 1);
    assert_eq!(of_source(&told), ["source.rewritten"]);
    comes_back(&home, &told, &bytes);
}

#[test]
fn a_file_that_is_gone_is_told_by_its_name_and_by_its_folder() {
    let (home, path, bytes) = archived();
    fs::remove_file(&path).expect("removed");
    let told = entry(&home, &path);
    assert_eq!(told["verdict"], "missing");
    assert_eq!(told["severity"], "warn");
    assert_eq!(told["archive"]["state"], "gone");
    assert_eq!(told["archive"]["records_beyond"], records(&bytes).len());
    assert_eq!(of_source(&told), ["source.missing"]);
    assert_eq!(told["evidence"], Value::Null);
    comes_back(&home, &told, &bytes);
    assert!(of_source(&entry(&home, &path)).is_empty());
    fs::remove_file(&path).expect("removed");
    let all = home.check(&home.path(".claude"));
    assert_eq!(all.len(), 1);
    assert_eq!(all[&path]["verdict"], "missing");
    // What was never there is an error as before.
    let never = home.path(".claude/projects/-p/never.jsonl");
    let (code, _) = home.run(&[
        "doctor",
        "session-log",
        "check",
        never.to_str().expect("UTF-8"),
    ]);
    assert_ne!(code, 0);
}

#[test]
fn a_document_that_its_harness_writes_anew_loses_nothing_by_growing() {
    let home = Home::new();
    let rel = ".cline/data/tasks/1767225600000/api_conversation_history.json";
    let row = |n: usize| format!("{{\"role\":\"user\",\"content\":\"number {n}\"}}");
    let of = |n: usize| format!("[{}]", (0..n).map(row).collect::<Vec<_>>().join(","));
    let path = home.put(rel, of(2).as_bytes());
    assert_eq!(home.run(&["index"]).0, 0);
    home.put(rel, of(5).as_bytes());
    assert_eq!(home.run(&["index"]).0, 0);
    let told = home.check(&path)[&path].clone();
    assert_eq!(told["archive"]["records_beyond"], 0, "{told}");
    assert!(of_source(&told).is_empty(), "{told}");
    // As some versions of it do.
    home.put(rel, b"[]");
    let told = home.check(&path)[&path].clone();
    assert_eq!(told["archive"]["records_beyond"], 5, "{told}");
    assert_eq!(told["verdict"], "archive_holds_more");
    // A bracket too many, or the end missing.
    home.put(rel, format!("{}]", of(5)).as_bytes());
    let told = home.check(&path)[&path].clone();
    let found = &told["findings"].as_array().expect("findings")[0];
    assert_eq!(found["class"], "json.damaged", "{told}");
    assert_eq!(found["offset"], of(5).len());
    assert_eq!(told["records"], 5);
}

#[test]
fn what_the_archive_passed_over_is_counted_by_its_kind() {
    let home = Home::new();
    let bytes = sample(FROM);
    let at = line_begins(&bytes)[3];
    let (head, rest) = bytes.split_at(at);
    home.put(TO, &[head, &[0; 700], b"broken\n", rest].concat());
    assert_eq!(home.run(&["index"]).0, 0);
    let (_, document) = home.run(&["doctor", "check", "--detail", "full"]);
    let text = document.to_string();
    assert!(
        text.contains("(1 run of NUL bytes, 1 broken line)"),
        "{text}"
    );
    assert!(text.contains("e9f146fa-3b20-48d0-9be4-d99ca901cae4.jsonl"));
}
