//! Session files of other harnesses: damage is told by class and place, sound files are left in
//! peace, and nothing is changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use assert_cmd::Command;
use serde_json::Value;

/// A home with an archive, if one is made.
pub struct Home {
    pub dir: tempfile::TempDir,
}

impl Home {
    pub fn new() -> Home {
        Home {
            dir: tempfile::tempdir().expect("a home"),
        }
    }

    pub fn path(&self, rel: &str) -> PathBuf {
        self.dir.path().join(rel)
    }

    /// Writes a file that was last changed two days ago.
    pub fn put(&self, rel: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(rel);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::write(&path, bytes).expect("a file");
        age(&path, Duration::from_hours(48));
        path
    }

    pub fn run(&self, words: &[&str]) -> (i32, Value) {
        let output = Command::cargo_bin("cass")
            .expect("the program")
            .env_clear()
            .env("HOME", self.dir.path())
            .current_dir(self.dir.path())
            .args(["--json"])
            .args(words)
            .output()
            .expect("it runs");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let document = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
        (output.status.code().expect("a code"), document)
    }

    /// The entries of what lies at `path`, by their paths.
    pub fn check(&self, path: &Path) -> BTreeMap<PathBuf, Value> {
        let path = path.to_str().expect("UTF-8");
        let (_, document) = self.run(&["doctor", "session-log", "check", "--limit", "9999", path]);
        assert_eq!(document["complete"], true, "{document}");
        let sessions = document["sessions"].as_array().expect("sessions");
        sessions
            .iter()
            .map(|s| {
                (
                    PathBuf::from(s["path"].as_str().expect("a path")),
                    s.clone(),
                )
            })
            .collect()
    }
}

pub fn age(path: &Path, by: Duration) {
    let file = File::options().append(true).open(path).expect("the file");
    file.set_modified(SystemTime::now() - by).expect("a time");
}

pub fn sample(rel: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/sessions");
    fs::read(folder.join(rel)).expect("a sample")
}

/// Every file below a folder: bytes and time.
pub fn state(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    walkdir::WalkDir::new(folder)
        .into_iter()
        .map(|e| e.expect("an entry"))
        .filter(|e| e.file_type().is_file())
        .map(|e| {
            let time = e.metadata().expect("its data").modified().expect("a time");
            let bytes = fs::read(e.path()).expect("its bytes");
            (e.path().to_owned(), (bytes, time))
        })
        .collect()
}

/// A sample of each harness that writes lines, and where its file lies; `{}` is what tells several
/// apart.
pub const LOGS: &[(&str, &str, &str)] = &[
    (
        "claude",
        "claude/VibeCodingTracker/e9f146fa-3b20-48d0-9be4-d99ca901cae4.jsonl",
        ".claude/projects/-p/{}.jsonl",
    ),
    (
        "codex",
        "codex/harness-0.171.0/sessions/2026/11/29/rollout-2026-11-29T16-09-03-01a22811-2cde-7e10-9e32-fe7e55d5b169.jsonl",
        ".codex/sessions/2026/01/02/rollout-2026-01-02T00-00-00-{}.jsonl",
    ),
    (
        "copilot",
        "copilot/VibeCodingTracker/96ef38f0-9d09-45c3-8124-6448c36090ed/events.jsonl",
        ".copilot/session-state/{}/events.jsonl",
    ),
    (
        "droid",
        "droid/agent-sessions/session_store_large.jsonl",
        ".factory/sessions/-p/{}.jsonl",
    ),
    (
        "gemini",
        "gemini/VibeCodingTracker/chats/session-2026-04-23T12-52-0ab84937.jsonl",
        ".gemini/tmp/p/chats/session-{}.jsonl",
    ),
    (
        "kimi",
        "kimi/agent-sessions/session-b/agents/main/wire.jsonl",
        ".kimi-code/sessions/p/{}/agents/main/wire.jsonl",
    ),
    (
        "openclaw",
        "openclaw/agent-sessions/large.jsonl",
        ".openclaw/agents/main/sessions/{}.jsonl",
    ),
    (
        "pi",
        "pi/harness-1.6.0/sessions/--tmp-gen_pi-proj--/2026-11-29T16-10-41-373Z_01a22812-a95d-7169-9c70-16edf0099120.jsonl",
        ".pi/agent/sessions/--p--/{}.jsonl",
    ),
    (
        "qwen",
        "qwen/harness-0.24.4/dot-qwen/projects/-tmp-gen-proj-qwen/chats/103bae00-f52e-4ea8-a15b-deff2f8e2b4d.jsonl",
        ".qwen/projects/-p/chats/{}.jsonl",
    ),
    (
        "iflow",
        "iflow/agentsview/session-5de701fc-7454-4858-a249-95cac4fd3b51.jsonl",
        ".iflow/projects/-p/session-{}.jsonl",
    ),
];

/// One damage: the bytes, and what must be said of them.
pub struct Damage {
    pub name: &'static str,
    pub class: &'static str,
    pub bytes: Vec<u8>,
    offset: u64,
    line: u64,
    /// `None` where the finding covers a record whose length the damage changes.
    len: Option<u64>,
    /// Records that the file has less, by the lines that were broken.
    lost: i64,
}

/// Begin and length of each line, its end left out.
pub fn lines(bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut at = 0;
    let mut out = Vec::new();
    for line in bytes.split_inclusive(|b| *b == b'\n') {
        out.push((at, line.len() - usize::from(line.ends_with(b"\n"))));
        at += line.len();
    }
    out
}

/// `bytes` with `put` in the place of `len` bytes at `at`.
pub fn with(bytes: &[u8], at: usize, len: usize, put: &[u8]) -> Vec<u8> {
    [&bytes[..at], put, &bytes[at + len..]].concat()
}

/// Where in a line the longest string value begins, behind its quote.
fn longest_text(line: &[u8]) -> usize {
    let mut best = (0, 0);
    let mut at = 0;
    while at < line.len() {
        if line[at] != b'"' {
            at += 1;
            continue;
        }
        let begin = at + 1;
        at = begin;
        while line[at] != b'"' {
            at += if line[at] == b'\\' { 2 } else { 1 };
        }
        let is_key = line.get(at + 1) == Some(&b':');
        if !is_key && at - begin > best.1 {
            best = (begin, at - begin);
        }
        at += 1;
    }
    best.0
}

/// Damage of the kinds that crashes, races and careless programs do, on a log of whole lines.
#[allow(clippy::too_many_lines)]
pub fn damages(b: &[u8]) -> Vec<Damage> {
    let all = lines(b);
    let n = all.len();
    // In the middle, and long enough for a part of it to be telling.
    let k = (n / 2..n - 2)
        .chain(1..n / 2)
        .find(|k| all[*k].1 > 100 && all[*k + 1].1 > 60)
        .expect("two lines");
    let (at, len) = all[k];
    let (next, next_len) = all[k + 1];
    let end = all.iter().rposition(|l| l.1 > 40).expect("a line");
    let (last, last_len) = all[end];
    let line = k as u64 + 1;
    let text = at + longest_text(&b[at..at + len]);
    let deep = format!(
        "{{\"type\":\"deep\",\"a\":{}{}}}\n",
        "[".repeat(200),
        "]".repeat(200)
    );
    let strange = b"{\"type\":\"zz-strange\",\"zz\":1}\n";
    let damage = |name, class, bytes, offset: usize, line, len: Option<usize>, lost| Damage {
        name,
        class,
        bytes,
        offset: offset as u64,
        line,
        len: len.map(|l| l as u64),
        lost,
    };
    let mut out = vec![
        damage(
            "nul-tail",
            "jsonl.nul_tail",
            [b, &[0; 4096][..]].concat(),
            b.len(),
            n as u64 + 1,
            Some(4096),
            0,
        ),
        damage(
            "nul-hole",
            "jsonl.nul_hole",
            with(b, next, 0, &[0; 700]),
            next,
            line + 1,
            Some(700),
            0,
        ),
        damage(
            "nul-in-line",
            "jsonl.nul_hole",
            with(b, at + len, 0, &[0; 300]),
            at + len,
            line,
            Some(300),
            0,
        ),
        damage(
            "truncated",
            "jsonl.tail_truncated",
            b[..last + last_len / 2].to_vec(),
            last,
            end as u64 + 1,
            Some(last_len / 2),
            1,
        ),
        damage(
            "glued-whole",
            "jsonl.glued",
            with(b, at + len, 1, b""),
            at + len,
            line,
            Some(next_len),
            0,
        ),
        damage(
            "glued-part",
            "jsonl.glued",
            with(b, at + len * 6 / 10, next - (at + len * 6 / 10), b""),
            at,
            line,
            Some(len * 6 / 10 + next_len),
            1,
        ),
        damage(
            "multiline",
            "jsonl.multiline",
            with(b, text, 0, b"a\nb"),
            at,
            line,
            Some(len + 3),
            0,
        ),
        damage(
            "bad-utf8",
            "jsonl.invalid_utf8",
            with(b, text, 0, &[0xe6, 0x87]),
            at,
            line,
            Some(len + 2),
            0,
        ),
        damage(
            "bad-utf8-part",
            "jsonl.invalid_utf8",
            with(b, text, at + len - text, &[0xe6, 0x87]),
            at,
            line,
            Some(text - at + 2),
            1,
        ),
        damage(
            "surrogate",
            "json.lone_surrogate",
            with(b, text, 0, b"\\ud83d "),
            at,
            line,
            Some(len + 7),
            0,
        ),
        damage(
            "control",
            "json.control_character",
            with(b, text, 0, b"\x01"),
            at,
            line,
            Some(len + 1),
            0,
        ),
        damage(
            "fragment",
            "jsonl.fragment",
            with(b, next, 0, b"not a record\n"),
            next,
            line + 1,
            Some(12),
            0,
        ),
        damage(
            "deep",
            "json.too_deep",
            with(b, next, 0, deep.as_bytes()),
            next,
            line + 1,
            Some(deep.len() - 1),
            -1,
        ),
        damage(
            "strange",
            "format.unknown_record",
            with(b, next, 0, strange),
            next,
            line + 1,
            Some(strange.len() - 1),
            -1,
        ),
        damage(
            "header",
            "session.header_missing",
            with(b, all[0].1 - 30, 30, b""),
            0,
            1,
            Some(all[0].1 - 30),
            1,
        ),
    ];
    for d in &mut out {
        assert_ne!(d.bytes, b, "{}", d.name);
    }
    out
}

/// Harnesses whose logs begin with a record that nothing else is.
const HEADED: [&str; 5] = ["codex", "copilot", "droid", "openclaw", "pi"];

pub fn warnings(entry: &Value) -> BTreeSet<String> {
    let found = entry["findings"].as_array().expect("findings");
    found
        .iter()
        .filter(|f| f["severity"] != "info")
        .map(|f| f["class"].as_str().expect("a class").to_owned())
        .collect()
}

#[test]
fn every_damage_is_told_with_its_place_in_the_logs_of_every_harness() {
    let home = Home::new();
    let mut expected = Vec::new();
    for (harness, from, to) in LOGS {
        let bytes = sample(from);
        let whole = home.put(&to.replace("{}", "whole"), &bytes);
        for damage in damages(&bytes) {
            let path = home.put(&to.replace("{}", damage.name), &damage.bytes);
            expected.push((*harness, whole.clone(), path, damage));
        }
    }
    let before = state(home.dir.path());
    let all = home.check(home.dir.path());
    assert!(
        state(home.dir.path()) == before,
        "nothing is changed or made"
    );
    assert_eq!(all.len(), before.len());
    let mut wrong = Vec::new();
    for (harness, whole, path, d) in expected {
        let (sound, entry) = (&all[&whole], &all[&path]);
        let told = (harness, d.name);
        assert_eq!(
            sound["findings_total"].as_u64().map(|_| warnings(sound)),
            Some(BTreeSet::new())
        );
        assert_eq!(entry["harness"], harness);
        assert_eq!(entry["harness_known_by"], "root");
        let found = entry["findings"].as_array().expect("findings");
        let records = sound["records"].as_i64().expect("a number") - d.lost;
        if d.class == "session.header_missing" && !HEADED.contains(&harness) {
            assert!(!found.iter().any(|f| f["class"] == d.class), "{told:?}");
            continue;
        }
        let here = found.iter().find(|f| {
            f["class"] == d.class
                && f["offset"] == d.offset
                && f["line"] == d.line
                && d.len.is_none_or(|len| f["len"] == len)
        });
        let others: Vec<_> = warnings(entry)
            .into_iter()
            .filter(|c| c != d.class)
            .collect();
        let may = |c: &String| {
            d.name == "header" && c == "jsonl.fragment"
            // Less of a log of numbered records is a gap.
            || harness == "codex" && d.lost > 0 && c == "codex.ordinal_gap"
        };
        if here.is_none() || !others.iter().all(may) || entry["records"] != records {
            wrong.push(format!(
                "{told:?}: {} of {records} records, due {} at {} line {} len {:?}: {:?}",
                entry["records"], d.class, d.offset, d.line, d.len, entry["findings"]
            ));
        }
        if let Some(f) = here {
            let lost = u64::try_from(d.lost)
                .unwrap_or(0)
                .max(u64::from(d.name == "fragment"));
            let due = if d.class == "session.header_missing" {
                0
            } else {
                lost
            };
            if f["records_lost"] != due {
                wrong.push(format!("{told:?}: {due} lost: {f}"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn what_is_no_damage_is_no_warning() {
    let home = Home::new();
    for (_, from, to) in LOGS {
        let bytes = sample(from);
        let text = String::from_utf8(bytes.clone()).expect("UTF-8");
        let at = longest_text(bytes.split(|b| *b == b'\n').nth(1).expect("a line"));
        let second = bytes.iter().position(|b| *b == b'\n').expect("a line") + 1 + at;
        home.put(
            &to.replace("{}", "mark"),
            &[b"\xef\xbb\xbf", &bytes[..]].concat(),
        );
        home.put(
            &to.replace("{}", "crlf"),
            text.replace('\n', "\r\n").as_bytes(),
        );
        home.put(
            &to.replace("{}", "separators"),
            &with(&bytes, second, 0, "\u{2028}\u{2029}\u{85}".as_bytes()),
        );
        home.put(
            &to.replace("{}", "open"),
            bytes.strip_suffix(b"\n").unwrap_or(&bytes),
        );
    }
    let all = home.check(home.dir.path());
    assert_eq!(all.len(), LOGS.len() * 4);
    for (path, entry) in all {
        assert_eq!(
            warnings(&entry),
            BTreeSet::new(),
            "{}: {entry}",
            path.display()
        );
    }
}

#[test]
fn no_sample_is_called_damaged_that_is_not() {
    let home = Home::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/sessions");
    let manifest = fs::read_to_string(folder.join("MANIFEST.tsv")).expect("the manifest");
    let mut damaged: BTreeSet<PathBuf> = manifest
        .lines()
        .skip(1)
        .map(|l| l.split('\t').collect::<Vec<_>>())
        .filter(|row| row[0].ends_with(".jsonl") && row[3] != "0")
        .map(|row| folder.join(row[0]))
        .collect();
    assert_eq!(damaged.len(), 3);
    // Its owner set every number to 0.
    let numbered = folder.join("codex/agent-sessions/small.jsonl");
    let text = fs::read_to_string(&numbered).expect("text");
    assert!(text.matches("\"ordinal\":0").count() > 1);
    damaged.insert(numbered);
    let before = state(&folder);
    let all = home.check(&folder);
    assert!(state(&folder) == before);
    assert!(all.len() > 120);
    let told: BTreeSet<PathBuf> = all
        .iter()
        .filter(|(_, e)| !warnings(e).is_empty() || e["severity"] == "error")
        .map(|(path, _)| path.clone())
        .collect();
    assert_eq!(told, damaged);
    // Of nearly every sample the harness is known by what it holds, whatever the folder.
    let of = |e: &(&PathBuf, &Value)| {
        let rel = e.0.strip_prefix(&folder).expect("a sample");
        rel.starts_with(e.1["harness"].as_str().expect("a harness"))
    };
    let strangers: Vec<_> = all.iter().filter(|e| !of(e)).map(|(p, _)| p).collect();
    assert!(strangers.is_empty(), "{strangers:?}");
}

#[test]
fn a_tail_that_may_be_growing_is_no_damage() {
    let home = Home::new();
    let bytes = sample(LOGS[0].1);
    let path = home.put(".claude/projects/-p/a.jsonl", &bytes[..bytes.len() - 37]);
    age(&path, Duration::ZERO);
    let entry = &home.check(&path)[&path];
    assert_eq!(entry["verdict"], "live_tail");
    assert_eq!(entry["severity"], "info");
    let has = |entry: &Value, class: &str| {
        let found = entry["findings"].as_array().expect("findings");
        found.iter().any(|f| f["class"] == class)
    };
    assert!(has(entry, "jsonl.tail_pending"));
    age(&path, Duration::from_hours(1));
    let entry = &home.check(&path)[&path];
    assert_eq!(entry["verdict"], "damaged");
    assert!(has(entry, "jsonl.tail_truncated"));
}

#[test]
fn a_record_that_is_too_long_is_named() {
    let home = Home::new();
    let line = b"{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"hi\"},\"uuid\":\"u\",\"sessionId\":\"s\"}\n";
    let long = 65 << 20;
    let mut bytes = line.to_vec();
    bytes.extend_from_slice(b"{\"type\":\"user\",\"a\":\"");
    bytes.resize(line.len() + long, b'x');
    bytes.push(b'\n');
    bytes.extend_from_slice(line);
    let path = home.put(".claude/projects/-p/a.jsonl", &bytes);
    let entry = &home.check(&path)[&path];
    let found = &entry["findings"][0];
    assert_eq!(found["class"], "source.oversized_record");
    assert_eq!(found["offset"], line.len());
    assert_eq!(found["line"], 2);
    assert_eq!(found["len"], long);
    assert_eq!(entry["records"], 2);
}

#[test]
fn records_that_name_one_another_wrongly_are_told() {
    let home = Home::new();
    let row = |uuid: &str, parent: &str, text: &str| {
        format!(
            "{{\"type\":\"user\",\"uuid\":\"{uuid}\",\"parentUuid\":{parent},\"sessionId\":\"s\",\
             \"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}\n"
        )
    };
    let rows = [
        row("a", "null", "1"),
        row("b", "\"a\"", "2"),
        row("c", "\"gone\"", "3"),
        row("d", "\"c\"", "4"),
        row("d", "\"c\"", "4"),
        row("b", "\"a\"", "changed"),
        "{\"type\":\"assistant\",\"uuid\":\"e\",\"parentUuid\":\"d\",\"sessionId\":\"s\",\"message\":\
         {\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"x\",\
         \"input\":{}}]}}\n"
            .to_owned(),
    ];
    let start = |n: usize| rows[..n].iter().map(String::len).sum::<usize>();
    let path = home.put(".claude/projects/-p/a.jsonl", rows.concat().as_bytes());
    let entry = &home.check(&path)[&path];
    let found: Vec<_> = entry["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .map(|f| {
            (
                f["class"].as_str().expect("a class"),
                f["offset"].clone(),
                f["line"].clone(),
            )
        })
        .collect();
    let at = |n: usize| (Value::from(start(n)), Value::from(n + 1));
    let want: Vec<_> = [
        ("graph.dangling_parent", 2),
        ("graph.duplicate_id", 4),
        ("graph.duplicate_id", 5),
        ("session.open_tool_call", 6),
    ]
    .into_iter()
    .map(|(class, n)| (class, at(n).0, at(n).1))
    .collect();
    assert_eq!(found, want);
    assert_eq!(entry["verdict"], "noted");
    // c, d and e can be reached from the last; a, b and they are all.
    let what = entry["findings"][0]["what"].as_str().expect("words");
    assert!(what.contains("3 of 5"), "{what}");
}

#[test]
fn ordinals_that_codex_refuses_are_told() {
    let home = Home::new();
    let bytes = sample(LOGS[1].1);
    let all = lines(&bytes);
    let line = |n: usize| &bytes[all[n].0..all[n].0 + all[n].1];
    let number = |n: usize| {
        let value: Value = serde_json::from_slice(line(n)).expect("JSON");
        value["ordinal"].as_u64()
    };
    let n = all.len() - 1;
    let ordinal = number(n).expect("a number");
    assert_eq!(number(n - 1), Some(ordinal - 1));
    let text = String::from_utf8(line(n).to_vec()).expect("UTF-8");
    let own = format!("\"ordinal\":{ordinal}");
    assert_eq!(text.matches(&own).count(), 1);
    for (name, put, class) in [
        ("none", "\"x\":0".to_owned(), "codex.ordinal_gap"),
        (
            "far",
            format!("\"ordinal\":{}", ordinal + 5),
            "codex.ordinal_gap",
        ),
        (
            "again",
            format!("\"ordinal\":{}", ordinal - 1),
            "codex.ordinal_reused",
        ),
    ] {
        let last = text.replace(&own, &put);
        let damaged = with(&bytes, all[n].0, all[n].1, last.as_bytes());
        let path = home.put(&LOGS[1].2.replace("{}", name), &damaged);
        let entry = &home.check(&path)[&path];
        let found = &entry["findings"][0];
        assert_eq!(found["class"], class, "{name}: {entry}");
        assert_eq!(found["offset"], all[n].0, "{name}");
        assert_eq!(entry["severity"], "warn", "{name}");
    }
}

#[test]
fn whose_it_is_may_not_be_known_and_that_is_said() {
    let home = Home::new();
    let path = home.put("notes/a.jsonl", b"{\"a\":1}\n{\"b\":2}\n");
    let (code, document) = home.run(&[
        "doctor",
        "session-log",
        "check",
        path.to_str().expect("UTF-8"),
    ]);
    let entry = &document["sessions"][0];
    assert_eq!(code, 0);
    assert_eq!(entry["verdict"], "not_known");
    assert_eq!(entry["harness"], Value::Null);
    // In a folder it is one of many, and counted.
    let (_, document) = home.run(&[
        "doctor",
        "session-log",
        "check",
        home.path("notes").to_str().expect("UTF-8"),
    ]);
    assert_eq!(document["sessions_total"], 0);
    assert_eq!(document["other_files"], 1);
    // The harness keeps it, and no session in it.
    let path = home.put(".claude/history.jsonl", b"{\"display\":\"x\"}\n");
    assert_eq!(home.check(&path)[&path]["verdict"], "no_session");
}

#[test]
fn content_is_hidden_unless_asked_for() {
    let home = Home::new();
    let bytes = sample(LOGS[0].1);
    let secret = "s3cret-in-a-line";
    let (at, _) = lines(&bytes)[3];
    let damaged = with(&bytes, at, 0, format!("broken {secret}\n").as_bytes());
    let path = home.put(".claude/projects/-p/a.jsonl", &damaged);
    let text = path.to_str().expect("UTF-8");
    let (_, document) = home.run(&["doctor", "session-log", "check", text]);
    assert!(!document.to_string().contains(secret));
    let context = document["sessions"][0]["context"]
        .as_array()
        .expect("lines");
    assert_eq!(context.len(), 5);
    assert_eq!(context[2]["line"], 4);
    assert_eq!(context[2]["here"], true);
    assert_eq!(context[2]["kind"], "jsonl.fragment");
    let (_, document) = home.run(&["doctor", "session-log", "check", "--show-content", text]);
    assert!(
        document["sessions"][0]["context"][2]["text"]
            .as_str()
            .expect("text")
            .contains(secret)
    );
}
