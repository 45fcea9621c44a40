//! iFlow CLI.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::home::{accounted, count, index, lay, len, messages, natives, said, settled, show};
use crate::sandbox::{Sandbox, sample};

const LOG: &str = "iflow/agentsview/session-5de701fc-7454-4858-a249-95cac4fd3b51.jsonl";
const ID: &str = "session-5de701fc-7454-4858-a249-95cac4fd3b51";
const TO: &str = ".iflow/projects/-c-exp/session-5de701fc-7454-4858-a249-95cac4fd3b51.jsonl";

#[test]
fn the_sample_is_read_and_a_call_is_told_once() {
    let s = Sandbox::new();
    lay(&s, LOG, TO);
    index(&s);
    settled(&s);
    assert_eq!(natives(&s), [ID]);
    accounted(&s, ID, len(LOG));
    let mut calls = BTreeSet::new();
    let (mut texts, mut results) = (0, 0);
    for line in String::from_utf8(sample(LOG)).unwrap().lines() {
        let v: Value = serde_json::from_str(line).unwrap();
        for block in v["message"]["content"].as_array().into_iter().flatten() {
            match block["type"].as_str().unwrap() {
                "tool_use" => {
                    calls.insert(block["id"].as_str().unwrap().to_owned());
                }
                "text" => texts += 1,
                "tool_result" => results += 1,
                other => panic!("{other}"),
            }
        }
    }
    assert_eq!(count(&s, ID, "assistant", "tool-call"), calls.len());
    assert_eq!(count(&s, ID, "assistant", "text"), texts);
    assert_eq!(count(&s, ID, "tool", "tool-result"), results);
    assert_eq!(count(&s, ID, "user", "text"), 1);
    let all = messages(&s, ID);
    let results: Vec<_> = all.iter().filter(|m| m["kind"] == "tool-result").collect();
    assert!(
        results[0]["text"]
            .as_str()
            .unwrap()
            .starts_with("# Tauri + Yew")
    );
    assert!(
        results
            .iter()
            .all(|m| m["is_error"] == false && calls.contains(m["call_id"].as_str().unwrap()))
    );
    let shown = show(&s, ID);
    assert_eq!(
        shown["session"]["workspace"],
        "C:\\exp\\docker-image-retagger"
    );
    assert!(
        shown["session"]["started_at"]
            .to_string()
            .contains("2026-01-21")
    );
}

#[test]
fn a_log_that_grows_gives_what_the_whole_gives() {
    let whole = sample(LOG);
    let s = Sandbox::new();
    lay(&s, LOG, TO);
    index(&s);
    let all = said(&s, ID);
    let s = Sandbox::new();
    let rows: Vec<usize> = whole
        .iter()
        .enumerate()
        .filter(|(_, b)| **b == b'\n')
        .map(|(n, _)| n + 1)
        .collect();
    for cut in [rows[1], rows[4], rows[4] + 50, whole.len()] {
        s.put(TO, &whole[..cut]);
        s.run(&["index", "--json"]).expect(0);
    }
    assert_eq!(said(&s, ID), all);
    settled(&s);
    // Damage.
    let mut bytes = whole.clone();
    bytes.splice(rows[2]..rows[2], b"\0\0\0{broken\n".iter().copied());
    let s = Sandbox::new();
    s.put(TO, &bytes);
    s.run(&["index", "--json"]).expect(0);
    assert_eq!(said(&s, ID), all);
    accounted(&s, ID, bytes.len() as u64);
    for odd in [
        &b""[..],
        b"7\n",
        b"{\"type\":\"user\"}\n",
        b"{\"message\":{\"content\":[[]]}}",
    ] {
        let s = Sandbox::new();
        s.put(TO, odd);
        s.run(&["index", "--json"]).expect(0);
    }
}
