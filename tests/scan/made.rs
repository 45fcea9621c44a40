//! Sessions made for these tests, and what a scan says about one of them.

use std::path::PathBuf;

use serde_json::Value;

use crate::sandbox::{Ran, Sandbox};

/// The id of session `n`.
pub fn id(n: u32) -> String {
    format!("{n:08}-0000-4000-8000-00000000000{}", n % 10)
}

/// `records` lines of session `n`.
pub fn text(n: u32, records: u32) -> Vec<u8> {
    let id = id(n);
    let line = |k| {
        format!(
            "{{\"type\":\"user\",\"uuid\":\"{n}-{k}\",\"parentUuid\":null,\"sessionId\":\"{id}\",\
             \"timestamp\":\"2026-11-01T10:00:0{}.000Z\",\"cwd\":\"/src\",\"version\":\"2.1.0\",\
             \"message\":{{\"role\":\"user\",\"content\":\"secret words {k}\"}}}}\n",
            k % 10
        )
    };
    (0..records).map(line).collect::<String>().into_bytes()
}

/// Puts session `n` where Claude Code would.
pub fn claude(sandbox: &Sandbox, n: u32, records: u32) -> PathBuf {
    let rel = format!(".claude/projects/-src/{}.jsonl", id(n));
    sandbox.put(&rel, &text(n, records))
}

/// Sessions 1 to `n`, indexed.
pub fn indexed(n: u32) -> (Sandbox, Vec<PathBuf>) {
    let sandbox = Sandbox::new();
    let files = (1..=n).map(|k| claude(&sandbox, k, k + 1)).collect();
    sandbox.run(&["index"]).expect(0);
    (sandbox, files)
}

/// A scan with complete lists.
#[track_caller]
pub fn scan(sandbox: &Sandbox, more: &[&str]) -> Ran {
    let mut words = vec!["doctor", "archive-scan", "--detail", "full"];
    words.extend(more);
    let ran = sandbox.run(&words);
    assert!(
        !ran.stdout.contains("secret words"),
        "text of a session: {}",
        ran.stdout
    );
    let home = sandbox.home();
    assert!(
        !ran.stdout.contains(home.to_str().unwrap()),
        "the home folder: {}",
        ran.stdout
    );
    ran
}

/// The rows of a list where `field` is `value`.
pub fn rows<'a>(list: &'a Value, field: &str, value: &str) -> Vec<&'a Value> {
    let all = list.as_array().unwrap().iter();
    all.filter(|row| row[field] == value).collect()
}

/// The row of session `n` in the list of sessions.
#[track_caller]
pub fn session(ran: &Ran, n: u32) -> Value {
    let found = rows(ran.at("/sessions"), "native_id", &id(n));
    assert_eq!(found.len(), 1, "{}", ran.stdout);
    found[0].clone()
}

/// The source whose path ends so.
#[track_caller]
pub fn source(ran: &Ran, end: &str) -> Value {
    let all = ran.at("/source_inventory/sources").as_array().unwrap();
    let found: Vec<_> = all
        .iter()
        .filter(|s| s["path"].as_str().unwrap().ends_with(end))
        .collect();
    assert_eq!(found.len(), 1, "{end}: {}", ran.stdout);
    found[0].clone()
}

/// Code and severity of every warning, with how many sessions have it.
pub fn codes(ran: &Ran) -> Vec<(String, String, u64)> {
    let all = ran.at("/sole_copy_warnings_by_code").as_array().unwrap();
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    let codes: Vec<_> = all
        .iter()
        .map(|c| {
            let count = c["count"].as_u64().unwrap();
            (text(&c["code"]), text(&c["severity"]), count)
        })
        .collect();
    // The list and the numbers say the same.
    for (code, severity, count) in &codes {
        let list = rows(ran.at("/sole_copy_warnings"), "code", code);
        let same = list.iter().filter(|w| w["severity"] == **severity).count();
        assert_eq!(same as u64, *count, "{code}: {}", ran.stdout);
    }
    codes
}

/// One expected line of [`codes`].
pub fn code(code: &str, severity: &str, count: u64) -> (String, String, u64) {
    (code.to_owned(), severity.to_owned(), count)
}
