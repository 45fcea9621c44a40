//! Gemini CLI: both generations, growth, damage.

use serde_json::Value;

use crate::home::{accounted, count, index, lay, len, natives, said, settled};
use crate::sandbox::{Sandbox, sample};

const CHATS: &str = ".gemini/tmp/abc/chats";

#[test]
fn the_samples_are_read_and_accounted_for() {
    let s = Sandbox::new();
    let log = "gemini/VibeCodingTracker/chats/session-2026-04-23T12-52-0ab84937.jsonl";
    lay(
        &s,
        log,
        &format!("{CHATS}/session-2026-04-23T12-52-0ab84937.jsonl"),
    );
    lay(&s, "gemini/entireio-cli/chats", CHATS);
    lay(&s, "gemini/agent-sessions", CHATS);
    index(&s);
    settled(&s);
    assert_eq!(natives(&s).len(), 7);
    let id = "0ab84937-9fe7-4284-986a-33c832af0b6a";
    accounted(&s, id, len(log));
    // Counted in the file itself: lines with an id and type "user" that were not written again.
    let text = String::from_utf8(sample(log)).unwrap();
    let mut last = std::collections::BTreeMap::new();
    for line in text.lines() {
        let v: Value = serde_json::from_str(line).unwrap();
        if let Some(id) = v["id"].as_str() {
            last.insert(id.to_owned(), v);
        }
    }
    let of = |kind: &str| last.values().filter(|v| v["type"] == kind).count();
    let calls: usize = last
        .values()
        .filter_map(|v| v["toolCalls"].as_array())
        .map(Vec::len)
        .sum();
    assert_eq!(count(&s, id, "user", "text"), of("user"));
    assert_eq!(count(&s, id, "system", "text"), of("info") + of("error"));
    assert_eq!(count(&s, id, "assistant", "tool-call"), calls);
    assert!(calls > 5);
}

#[test]
fn a_document_that_is_written_anew_gives_versions_not_duplicates() {
    let s = Sandbox::new();
    let id = "f7633853-6663-4dbb-bbf4-6159afa29df8";
    for t in 1..=3 {
        lay(&s, &format!("gemini/entireio-cli/growth/t{t}/chats"), CHATS);
        index(&s);
        settled(&s);
    }
    let newest: Value = serde_json::from_slice(&sample(
        "gemini/entireio-cli/growth/t3/chats/session-2026-f7633853.json",
    ))
    .unwrap();
    let users = newest["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|m| m["type"] == "user")
        .count();
    assert_eq!(count(&s, id, "user", "text"), users);
    // What stands is what the newest document alone would give.
    let alone = Sandbox::new();
    lay(&alone, "gemini/entireio-cli/growth/t3/chats", CHATS);
    index(&alone);
    assert_eq!(said(&s, id), said(&alone, id));
    assert_eq!(natives(&s), [id]);
}

#[test]
fn a_torn_document_gives_what_comes_before_the_tear() {
    let whole = sample("gemini/entireio-cli/growth/t3/chats/session-2026-f7633853.json");
    for cut in [whole.len() / 3, whole.len() - 2, 200, 1] {
        let s = Sandbox::new();
        let torn = &whole[..cut];
        s.put(&format!("{CHATS}/session-2026-f7633853.json"), torn);
        s.run(&["index", "--json"]).expect(0);
        let natives = natives(&s);
        let before = torn.windows(11).filter(|w| w == b"\"type\": \"us").count();
        if before > 1 {
            assert_eq!(natives, ["f7633853-6663-4dbb-bbf4-6159afa29df8"]);
            let users = count(&s, &natives[0], "user", "text");
            assert!(
                users == before || users + 1 == before,
                "{users} of {before}"
            );
            accounted(&s, &natives[0], torn.len() as u64);
        }
    }
}
