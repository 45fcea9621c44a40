//! A log that is written anew with other words in one record: that record is a version, the others
//! are not told again.

use crate::home::{index, lay, natives, said, settled};
use crate::sandbox::Sandbox;

/// Lays `from` at `to`, then writes it anew with `old` replaced by `new`.
fn written_anew(from: &str, to: &str, old: &str, new: &str) {
    let s = Sandbox::new();
    lay(&s, from, to);
    index(&s);
    let before: usize = natives(&s).iter().map(|n| said(&s, n).len()).sum();
    let text = String::from_utf8(crate::sandbox::sample(from)).unwrap();
    assert!(text.contains(old), "{from}");
    let changed = text.replacen(old, new, 1);
    s.put(to, changed.as_bytes());
    index(&s);
    settled(&s);
    let alone = Sandbox::new();
    alone.put(to, changed.as_bytes());
    index(&alone);
    assert_eq!(natives(&s), natives(&alone), "{from}");
    for native in natives(&s) {
        let mut told = said(&s, &native);
        let mut expected = said(&alone, &native);
        assert_eq!(told.iter().filter(|t| t.contains(new)).count(), 1, "{from}");
        // A version stands where it was read, which may be behind the others.
        told.sort();
        expected.sort();
        assert_eq!(told, expected, "{from}");
        assert_eq!(told.len(), before, "{from}");
    }
}

#[test]
fn a_changed_record_is_a_version() {
    written_anew(
        "copilot/agentv/1afc31c8-d97f-4331-bae9-b6417f1b79a9/events.jsonl",
        ".copilot/session-state/1afc31c8-d97f-4331-bae9-b6417f1b79a9/events.jsonl",
        "2 + 2 is **4**.",
        "Four it is.",
    );
    written_anew(
        "qwen/agent-sessions/019f0000-0000-7000-8000-000000000004.jsonl",
        ".qwen/projects/-p/chats/019f0000-0000-7000-8000-000000000004.jsonl",
        "Discarded branch answer.",
        "Other words.",
    );
    written_anew(
        "iflow/agentsview/session-5de701fc-7454-4858-a249-95cac4fd3b51.jsonl",
        ".iflow/projects/-p/session-5de701fc-7454-4858-a249-95cac4fd3b51.jsonl",
        "已完成修改。",
        "Done. ",
    );
    written_anew(
        "droid/agent-sessions/session_store_large.jsonl",
        ".factory/sessions/-p/x.jsonl",
        "Captured multiline output.",
        "Other words.",
    );
    written_anew(
        "kimi/agent-sessions/session-a/agents/main/wire.jsonl",
        ".kimi-code/sessions/wd_p_1/session-a/agents/main/wire.jsonl",
        "Hi there! How can I help you today?",
        "Other words.",
    );
}

/// Takes the archive away and lets `index` make it again from the mirror.
fn remade(s: &Sandbox) -> Vec<serde_json::Value> {
    std::fs::remove_dir_all(s.data().join("generations")).unwrap();
    for name in ["CURRENT", "coverage.jsonl"] {
        std::fs::remove_file(s.data().join(name)).unwrap();
    }
    index(s);
    exports(s)
}

fn exports(s: &Sandbox) -> Vec<serde_json::Value> {
    let mut all: Vec<serde_json::Value> = s
        .sessions()
        .iter()
        .map(|x| {
            let id = x["id"].as_str().unwrap();
            let out = s.run(&["export", id, "--format", "json"]).expect(0);
            serde_json::json!([out.at("/session"), out.at("/messages")])
        })
        .collect();
    all.sort_by_key(|x| x[0]["id"].as_str().unwrap().to_owned());
    all
}

fn said_in(name: &str, text: &str) -> String {
    format!(
        r#"{{"id":"{name}","timestamp":"2026-01-01T00:00:00.000Z","type":"user","content":"{text}"}}"#
    )
}

const HEAD: &str = r#""sessionId":"abcdefab-0000-4000-8000-000000000001","projectHash":"x""#;

/// Indexes after each of these files was written.
fn one_after_another(files: &[(&str, String)]) -> Sandbox {
    let s = Sandbox::new();
    for (path, content) in files {
        s.put(&format!(".gemini/tmp/{path}"), content.as_bytes());
        index(&s);
        // Captures are ordered by their time, which is kept in milliseconds.
        std::thread::sleep(std::time::Duration::from_millis(3));
    }
    s
}

#[test]
fn an_archive_made_anew_keeps_the_ids_of_sessions_that_diverged() {
    let log = |rest: &[&str]| {
        let mut lines = vec![format!("{{{HEAD}}}"), said_in("m1", "begin")];
        lines.extend(rest.iter().map(|text| said_in(text, text)));
        lines.join("\n") + "\n"
    };
    let s = one_after_another(&[
        ("a/chats/session-1-abcdefab.jsonl", log(&["left"])),
        ("a/chats/session-2-abcdefab.jsonl", log(&["right"])),
        // The one that keeps the id is captured last.
        ("a/chats/session-1-abcdefab.jsonl", log(&["left", "on"])),
    ]);
    let before = exports(&s);
    assert_eq!(before.len(), 2);
    assert_eq!(remade(&s), before);
}

#[test]
fn an_archive_made_anew_shows_the_version_that_came_last() {
    let document = |texts: &[&str]| {
        let all: Vec<String> = (0..)
            .zip(texts)
            .map(|(n, text)| said_in(&format!("m{n}"), text))
            .collect();
        format!("{{{HEAD},\"messages\":[{}]}}", all.join(","))
    };
    let s = one_after_another(&[
        ("a/chats/session-1-abcdefab.json", document(&["one"])),
        ("b/chats/session-1-abcdefab.json", document(&["two", "x"])),
        ("a/chats/session-1-abcdefab.json", document(&["three"])),
        ("b/chats/session-1-abcdefab.json", document(&["four", "x"])),
        ("a/chats/session-1-abcdefab.json", document(&["three", "y"])),
    ]);
    let before = exports(&s);
    assert_eq!(remade(&s), before);
}

#[test]
fn an_archive_made_anew_finds_records_in_the_captures_that_brought_them() {
    let s = Sandbox::new();
    let path = ".claude/projects/-p/s-1.jsonl";
    let mut log = String::new();
    for n in 1..5 {
        log += &format!(
            r#"{{"type":"user","sessionId":"s-1","uuid":"u{n}","message":{{"role":"user","content":"{n}"}}}}"#
        );
        log.push('\n');
        // Cut within a record, as it is found when its harness is writing.
        s.put(path, &log.as_bytes()[..log.len() - 9]);
        index(&s);
    }
    s.put(path, log.as_bytes());
    index(&s);
    let before = exports(&s);
    let seqs: Vec<&serde_json::Value> = before[0][1]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| &m["locator"]["seq"])
        .collect();
    assert_eq!(seqs, [2, 3, 4, 5]);
    assert_eq!(remade(&s), before);
}

#[test]
fn a_record_of_an_unknown_type_takes_no_messages_place() {
    let id = "aaaaaaaa-1111-4222-8333-444444444444";
    let at = format!(".claude/projects/-p/{id}.jsonl");
    let record = |uuid: &str, kind: &str, more: &str| {
        format!(
            "{{\"type\":\"{kind}\",\"uuid\":\"{uuid}\",\"parentUuid\":null,\"sessionId\":\"{id}\",\
             \"timestamp\":\"2026-05-01T10:00:00.000Z\"{more}}}\n"
        )
    };
    let says = |uuid: &str, text: &str| {
        let message = format!(",\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}");
        record(uuid, "user", &message)
    };
    let mut log = says("u1", "firstword") + &says("u2", "secondword");
    log += &record("u1", "a-later-kind", ",\"about\":1");
    let s = Sandbox::new();
    let check = |log: &str, expected: &[&str]| {
        s.put(&at, log.as_bytes());
        index(&s);
        settled(&s);
        let mut stands = said(&s, id);
        stands.sort();
        assert_eq!(stands, expected);
        let found = s.run(&["search", "firstword", "--json"]).expect(0);
        let there = expected.iter().any(|t| t.contains("firstword"));
        let hits = found.json["hits"].as_array().unwrap().len();
        assert_eq!(hits, usize::from(there));
    };
    check(&log, &["user/text: firstword", "user/text: secondword"]);
    // A version of the message behind it replaces the message, not that record.
    log += &says("u1", "otherword");
    check(&log, &["user/text: otherword", "user/text: secondword"]);
    // A copy of the file that goes on is the same session and no branch of it.
    s.put(
        &format!(".claude/projects/-q/{id}.jsonl"),
        (log.clone() + &says("u3", "thirdword")).as_bytes(),
    );
    index(&s);
    assert_eq!(s.sessions().len(), 1);
    assert_eq!(said(&s, id).len(), 3);
}
