//! Gemini CLI: both generations, growth, damage.

use serde_json::Value;

use crate::home::{accounted, count, index, lay, len, messages, natives, said, settled, show};
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

const SESSION: &str = "11111111-2222-4333-8444-555555555555";

/// A log of these lines behind the line that names the session.
fn log(lines: &[Value]) -> Vec<u8> {
    let head = serde_json::json!({
        "sessionId": SESSION, "projectHash": "abc", "startTime": "2026-05-01T10:00:00.000Z",
        "lastUpdated": "2026-05-01T10:00:00.000Z", "kind": "main",
    });
    let mut bytes = Vec::new();
    for line in std::iter::once(&head).chain(lines) {
        bytes.extend(serde_json::to_vec(line).unwrap());
        bytes.push(b'\n');
    }
    bytes
}

fn says(id: &str, kind: &str, text: &str) -> Value {
    serde_json::json!({
        "id": id, "timestamp": "2026-05-01T10:00:01.000Z", "type": kind, "content": text,
    })
}

fn indexed(lines: &[Value]) -> Sandbox {
    let s = Sandbox::new();
    write(&s, lines);
    s
}

fn write(s: &Sandbox, lines: &[Value]) {
    let bytes = log(lines);
    s.put(
        &format!("{CHATS}/session-2026-05-01T10-00-11111111.jsonl"),
        &bytes,
    );
    index(s);
    settled(s);
    accounted(s, SESSION, bytes.len() as u64);
}

/// The texts that stand, as the view says them.
fn viewed(s: &Sandbox) -> Vec<String> {
    let view = s.run(&["view", SESSION, "--json"]).expect(0);
    let of_view: Vec<String> = view.json["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["text"].as_str().unwrap().to_owned())
        .collect();
    // The document lists them as they were committed; which of them stand is the same.
    let mut stands: Vec<String> = messages(s, SESSION)
        .iter()
        .map(|m| m["text"].as_str().unwrap().to_owned())
        .collect();
    let mut sorted = of_view.clone();
    sorted.sort();
    stands.sort();
    assert_eq!(sorted, stands);
    let file = s.path().join("page.md");
    let target = file.to_str().unwrap();
    s.run(&[
        "export", SESSION, "--format", "markdown", "-o", target, "--json",
    ])
    .expect(0);
    let page = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    for text in &of_view {
        assert_eq!(page.matches(text.as_str()).count(), 1, "{text}");
    }
    of_view
}

fn hits(s: &Sandbox, word: &str) -> usize {
    let found = s.run(&["search", word, "--json"]).expect(0);
    found.json["hits"].as_array().unwrap().len()
}

#[test]
fn what_was_taken_back_stands_no_more_and_stays_in_the_archive() {
    let rewind = |id: &str| serde_json::json!({ "$rewindTo": id });
    let mut lines = vec![
        says("m1", "user", "firstword"),
        says("m2", "gemini", "secondword"),
        says("m3", "user", "thirdword"),
        // Written again when its tools answered: it still stands before the third.
        says("m2", "gemini", "secondagain"),
        says("m4", "gemini", "fourthword"),
    ];
    let s = indexed(&lines);
    assert_eq!(
        viewed(&s),
        ["firstword", "secondagain", "thirdword", "fourthword"]
    );
    assert_eq!(hits(&s, "thirdword"), 1);
    lines.push(rewind("m3"));
    lines.push(says("m5", "user", "fifthword"));
    write(&s, &lines);
    assert_eq!(viewed(&s), ["firstword", "secondagain", "fifthword"]);
    assert_eq!((hits(&s, "thirdword"), hits(&s, "fifthword")), (0, 1));
    let all = s.run(&["view", SESSION, "--all", "--json"]).expect(0);
    assert_eq!(all.json["messages_total"], 6);
    // Said again with the same bytes, and once more taken back.
    lines.push(says("m3", "user", "thirdword"));
    write(&s, &lines);
    assert_eq!(
        viewed(&s),
        ["firstword", "secondagain", "fifthword", "thirdword"]
    );
    lines.push(rewind("m2"));
    lines.push(says("m6", "user", "sixthword"));
    write(&s, &lines);
    assert_eq!(viewed(&s), ["firstword", "sixthword"]);
    // An id under which nothing stands takes everything back, as in the harness.
    lines.push(rewind("m2"));
    lines.push(says("m7", "user", "seventhword"));
    write(&s, &lines);
    assert_eq!(viewed(&s), ["seventhword"]);
    // The same file read at once.
    assert_eq!(viewed(&indexed(&lines)), ["seventhword"]);
}

#[test]
fn a_checkpoint_says_no_message_twice() {
    let set = |messages: &[Value]| serde_json::json!({ "$set": { "messages": messages, "summary": "a title" } });
    let (first, second) = (
        says("m1", "user", "firstword"),
        says("m2", "gemini", "secondword"),
    );
    let mut lines = vec![
        first.clone(),
        second.clone(),
        says("m3", "user", "thirdword"),
    ];
    lines.push(set(&[first.clone(), second.clone()]));
    let s = indexed(&lines);
    assert_eq!(viewed(&s), ["firstword", "secondword"]);
    assert_eq!((hits(&s, "firstword"), hits(&s, "thirdword")), (1, 0));
    assert_eq!(show(&s, SESSION)["session"]["title"], "a title");
    // One that is new, and one that is written again behind the checkpoint.
    lines.push(set(&[says("c1", "user", "compactword"), second]));
    lines.push(says("m2", "gemini", "secondagain"));
    lines.push(says("m4", "user", "fourthword"));
    write(&s, &lines);
    assert_eq!(viewed(&s), ["compactword", "secondagain", "fourthword"]);
    lines.push(serde_json::json!({ "$rewindTo": "m2" }));
    write(&s, &lines);
    assert_eq!(viewed(&s), ["compactword"]);
    lines.push(set(&[]));
    write(&s, &lines);
    assert!(viewed(&s).is_empty());
    // A copy of the file brings nothing new and takes nothing back again.
    lines.push(first.clone());
    write(&s, &lines);
    assert_eq!(viewed(&s), ["firstword"]);
    let second_file = &format!("{CHATS}/session-2026-05-01T11-00-11111111.jsonl");
    s.put(second_file, &log(&lines));
    index(&s);
    settled(&s);
    assert_eq!(viewed(&s), ["firstword"]);
    // It goes on, and takes back what both files said.
    lines.push(serde_json::json!({ "$rewindTo": "m1" }));
    lines.push(says("m9", "user", "ninthword"));
    s.put(second_file, &log(&lines));
    index(&s);
    settled(&s);
    assert_eq!(viewed(&s), ["ninthword"]);
    assert_eq!(s.sessions().len(), 1);
}

#[test]
fn a_file_takes_back_nothing_that_another_one_said() {
    let (first, second) = (
        says("m1", "user", "firstword"),
        says("m2", "gemini", "secondword"),
    );
    let s = indexed(&[first.clone(), second.clone()]);
    let checkpoint = serde_json::json!({ "$set": { "messages": [first, second] } });
    let resumed = log(&[checkpoint, says("m3", "user", "thirdword")]);
    s.put(
        &format!("{CHATS}/session-2026-05-01T11-00-11111111.jsonl"),
        &resumed,
    );
    index(&s);
    settled(&s);
    assert_eq!(viewed(&s), ["firstword", "secondword", "thirdword"]);
    assert_eq!(s.sessions().len(), 1);
}

#[test]
fn a_checkpoint_that_was_repaired_is_still_one() {
    let good = serde_json::to_string(&serde_json::json!({ "$set": { "messages": [
        says("m1", "user", "firstword"), says("m2", "gemini", "second CUT"),
    ] } }))
    .unwrap();
    let mut bytes = log(&[says("m1", "user", "firstword")]);
    bytes.extend(good.replace("CUT", "\\ud83d").bytes());
    bytes.push(b'\n');
    let s = Sandbox::new();
    s.put(
        &format!("{CHATS}/session-2026-05-01T10-00-11111111.jsonl"),
        &bytes,
    );
    index(&s);
    accounted(&s, SESSION, bytes.len() as u64);
    assert_eq!(viewed(&s), ["firstword", "second \u{fffd}"]);
}
