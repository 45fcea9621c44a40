//! A small archive of real sessions, ways to damage it, and the words to repair it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::sandbox::{Ran, Sandbox, content, ran, sample, snapshot};

/// Two sessions of two harnesses, one of which grew between two runs.
pub fn indexed() -> Sandbox {
    let s = Sandbox::in_memory();
    s.put(
        ".claude/projects/-src-a/00000000-0000-4000-8000-000000000001.jsonl",
        &claude(40),
    );
    s.put(CODEX, &codex());
    s.run(&["index"]).expect(0);
    s.put(
        ".claude/projects/-src-a/00000000-0000-4000-8000-000000000001.jsonl",
        &claude(60),
    );
    s.run(&["index"]).expect(0);
    s
}

const CODEX: &str = ".codex/sessions/2026/06/01/rollout-2026-06-01T00-00-00-11111111-2222-4333-8444-555555555555.jsonl";

/// A session of `n` turns.
pub fn claude(n: usize) -> Vec<u8> {
    let mut text = String::new();
    let mut parent = "null".to_owned();
    for i in 0..n {
        let uuid = format!("00000000-0000-4000-8000-{:012x}", i + 1000);
        let (kind, content) = if i % 2 == 0 {
            ("user", format!("\"question {i} about the harbour\""))
        } else {
            (
                "assistant",
                format!("[{{\"type\":\"text\",\"text\":\"answer {i}: the tide is at {i}\"}}]"),
            )
        };
        text.push_str(&format!(
            "{{\"parentUuid\":{parent},\"isSidechain\":false,\"userType\":\"external\",\"cwd\":\"/src/a\",\"sessionId\":\"00000000-0000-4000-8000-000000000001\",\"version\":\"2.1.0\",\"type\":\"{kind}\",\"message\":{{\"role\":\"{kind}\",\"content\":{content}}},\"uuid\":\"{uuid}\",\"timestamp\":\"2026-06-01T00:{:02}:{:02}.000Z\"}}\n",
            i / 60,
            i % 60
        ));
        parent = format!("\"{uuid}\"");
    }
    text.into_bytes()
}

fn codex() -> Vec<u8> {
    let folder = super::sandbox::fixtures().join("codex");
    let file = super::sandbox::files_below(&folder)
        .into_iter()
        .find(|p| p.extension().is_some_and(|e| e == "jsonl"))
        .unwrap();
    let rel = file
        .strip_prefix(super::sandbox::fixtures())
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    sample(&rel)
}

/// The live generation.
pub fn current(s: &Sandbox) -> String {
    std::fs::read_to_string(s.data().join("CURRENT"))
        .unwrap()
        .trim()
        .to_owned()
}

/// The database of the live generation.
pub fn db(s: &Sandbox) -> PathBuf {
    s.data()
        .join("generations")
        .join(current(s))
        .join("agent_search.db")
}

/// Flips one bit.
pub fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

/// Changes one letter of a message's text in the database: SQLite does not notice, the row hash does.
pub fn tamper(s: &Sandbox) {
    let path = db(s);
    damage_text(&path, b"answer 7:");
}

/// Changes a letter wherever this text is in a file: a page may hold old copies of its rows.
pub fn damage_text(path: &Path, text: &[u8]) {
    let mut bytes = std::fs::read(path).unwrap();
    let places: Vec<usize> = bytes
        .windows(text.len())
        .enumerate()
        .filter_map(|(at, w)| (w == text).then_some(at))
        .collect();
    assert!(!places.is_empty(), "the text is not in the file");
    for at in places {
        bytes[at] ^= 1;
    }
    std::fs::write(path, bytes).unwrap();
}

/// Everything that people get out of the archive.
pub fn exported(s: &Sandbox) -> BTreeMap<String, Vec<Value>> {
    s.sessions()
        .iter()
        .map(|session| {
            let id = session["id"].as_str().unwrap().to_owned();
            let messages = s.messages(&id);
            (id, messages)
        })
        .collect()
}

/// The plan of a command; nothing may change.
#[track_caller]
pub fn plan(s: &Sandbox, args: &[&str]) -> Ran {
    let before = snapshot(&s.data());
    let planned = s.run(args);
    assert_eq!(before, snapshot(&s.data()), "a dry run wrote something");
    planned
}

/// The fingerprint in a plan's document.
#[track_caller]
pub fn fingerprint(ran: &Ran) -> String {
    ran.json
        .as_object()
        .unwrap()
        .values()
        .find_map(|v| v.get("plan_fingerprint"))
        .and_then(Value::as_str)
        .unwrap_or_else(|| panic!("no fingerprint in {}", ran.stdout))
        .to_owned()
}

/// The argument vector that applies a plan.
#[track_caller]
pub fn apply_argv(ran: &Ran) -> Vec<String> {
    let argv = ran
        .json
        .as_object()
        .unwrap()
        .values()
        .find_map(|v| v.get("apply_argv"))
        .and_then(Value::as_array)
        .unwrap_or_else(|| panic!("no apply_argv in {}", ran.stdout));
    argv.iter()
        .skip(1)
        .map(|w| w.as_str().unwrap().to_owned())
        .collect()
}

/// Applies a plan by the very command that it printed.
#[track_caller]
pub fn apply(s: &Sandbox, planned: &Ran) -> Ran {
    run_argv(s, &apply_argv(planned))
}

/// Runs words that may end in names.
#[track_caller]
pub fn run_argv(s: &Sandbox, argv: &[String]) -> Ran {
    let mut c = s.command(&["--json"]);
    ran(c.args(argv).output().unwrap())
}

/// Makes a backup.
#[track_caller]
pub fn back_up(s: &Sandbox, label: &str) {
    let planned = s
        .run(&["doctor", "backups", "create", "--label", label])
        .expect(0);
    apply(s, &planned).expect(0);
}

/// Plans and applies.
#[track_caller]
pub fn repair(s: &Sandbox) -> Ran {
    let planned = plan(s, &["doctor", "repair"]).expect(0);
    assert_eq!(planned.text("/status"), "planned", "{}", planned.stdout);
    apply(s, &planned).expect(0)
}

/// What is in the data directory, without what every command may leave.
pub fn bytes(s: &Sandbox) -> BTreeMap<PathBuf, String> {
    content(&s.data())
}

/// Copies what is in a folder, with the times of its files.
pub fn copy(from: &Path, to: &Path) {
    for entry in walkdir::WalkDir::new(from).min_depth(1) {
        let entry = entry.unwrap();
        let target = to.join(entry.path().strip_prefix(from).unwrap());
        if entry.file_type().is_dir() {
            std::fs::create_dir_all(&target).unwrap();
        } else {
            std::fs::copy(entry.path(), &target).unwrap();
            let modified = entry.metadata().unwrap().modified().unwrap();
            std::fs::File::open(&target)
                .unwrap()
                .set_modified(modified)
                .unwrap();
        }
    }
}

/// A repair that was killed behind the replacement of `CURRENT`, or before it: its candidate is there,
/// and the old archive as it was. Gives the id of the run.
pub fn killed(s: &Sandbox, took_effect: bool) -> String {
    let before = tempfile::tempdir_in(s.path()).unwrap();
    copy(&s.data(), before.path());
    let planned = plan(s, &["doctor", "repair"]).expect(0);
    let applied = apply(s, &planned).expect(0);
    let receipt = applied.text("/receipt/path").to_owned();
    let run = applied.text("/receipt/run_id").to_owned();
    if took_effect {
        std::fs::remove_file(s.data().join(receipt)).unwrap();
        return run;
    }
    let intent = format!("doctor/intents/{run}.json");
    let candidate = format!("generations/{}", current(s));
    for rel in [intent, candidate] {
        let to = before.path().join(&rel);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::rename(s.data().join(&rel), to).unwrap();
    }
    std::fs::remove_dir_all(s.data()).unwrap();
    std::fs::create_dir(s.data()).unwrap();
    copy(before.path(), &s.data());
    run
}
