//! Qwen Code: its own logs, and the older layout that is Gemini's.

use serde_json::{Value, json};

use crate::home::{accounted, count, index, lay, len, messages, natives, said, settled, show};
use crate::sandbox::{Sandbox, sample};

const CHATS: &str = ".qwen/projects/-tmp-p/chats";
const REAL: &str = "qwen/harness-0.24.4/dot-qwen/projects/-tmp-gen-proj-qwen/chats/\
                    103bae00-f52e-4ea8-a15b-deff2f8e2b4d.jsonl";
const REAL_ID: &str = "103bae00-f52e-4ea8-a15b-deff2f8e2b4d";

#[test]
fn the_samples_are_read_and_accounted_for() {
    let s = Sandbox::new();
    lay(&s, "qwen/harness-0.24.4/dot-qwen", ".qwen");
    lay(&s, "qwen/agent-sessions", CHATS);
    let splitrail = "qwen/splitrail/qwen_code.jsonl";
    lay(&s, splitrail, &format!("{CHATS}/other.jsonl"));
    index(&s);
    settled(&s);
    assert_eq!(natives(&s).len(), 5);
    accounted(&s, REAL_ID, len(REAL));
    accounted(&s, "69f0814a-8bfc-4c8e-93d3-05757f17b96f", len(splitrail));
    let lines: Vec<Value> = String::from_utf8(sample(REAL))
        .unwrap()
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let parts = |kind: &str, member: &str| {
        lines
            .iter()
            .filter(|l| l["type"] == kind)
            .flat_map(|l| l["message"]["parts"].as_array().unwrap())
            .filter(|p| !p[member].is_null())
            .count()
    };
    assert_eq!(count(&s, REAL_ID, "user", "text"), parts("user", "text"));
    assert_eq!(
        count(&s, REAL_ID, "assistant", "text"),
        parts("assistant", "text")
    );
    assert_eq!(
        count(&s, REAL_ID, "assistant", "tool-call"),
        parts("assistant", "functionCall")
    );
    assert_eq!(
        count(&s, REAL_ID, "tool", "tool-result"),
        parts("tool_result", "functionResponse")
    );
    assert_eq!(parts("tool_result", "functionResponse"), 6);
    let shown = show(&s, REAL_ID);
    assert_eq!(shown["session"]["workspace"], "/tmp/gen/proj_qwen");
    assert!(
        shown["session"]["started_at"]
            .to_string()
            .contains("2026-11-29")
    );
    // A tool that failed says so.
    let other = messages(&s, "69f0814a-8bfc-4c8e-93d3-05757f17b96f");
    let failed: Vec<_> = other.iter().filter(|m| m["is_error"] == true).collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0]["text"], "Path must be absolute: .");
}

#[test]
fn what_the_person_did_not_say_is_not_theirs() {
    let s = Sandbox::new();
    lay(&s, "qwen/agent-sessions", CHATS);
    index(&s);
    let first = said(&s, "019f0000-0000-7000-8000-000000000001");
    assert_eq!(first[0], "user/text: Inspect the synthetic fixture.");
    assert!(first[1].starts_with("meta/text: <qwen:user-prompt-submit-context>"));
    assert_eq!(
        first[2],
        "assistant/reasoning: I should read the synthetic file."
    );
    assert!(first.contains(&"meta/text: Synthetic background notification.".to_owned()));
    // Both branches of a rewound session are there, the last title counts.
    let second = said(&s, "019f0000-0000-7000-8000-000000000004");
    assert!(second.contains(&"assistant/text: Discarded branch answer.".to_owned()));
    assert!(second.contains(&"user/text: Continue from the rewound branch.".to_owned()));
    let shown = show(&s, "019f0000-0000-7000-8000-000000000004");
    assert_eq!(shown["session"]["title"], "Active branch title");
}

#[test]
fn commands_summaries_agents_and_titles() {
    let s = Sandbox::new();
    let line = |uuid: &str, more: Value| {
        let mut v = json!({"uuid": uuid, "parentUuid": null, "sessionId": "s",
            "timestamp": "2026-05-05T10:00:00.000Z", "cwd": "/w", "version": "0.24.4"});
        v.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        format!("{v}\n")
    };
    let mut log = line(
        "1",
        json!({"type": "system", "subtype": "custom_title",
            "systemPayload": {"customTitle": "Mine", "titleSource": "manual"}}),
    );
    log += &line(
        "2",
        json!({"type": "system", "subtype": "slash_command", "systemPayload":
            {"phase": "result", "rawCommand": "/stats", "outputHistoryItems": [{"type": "info", "text": "12"}]}}),
    );
    s.put(&format!("{CHATS}/s.jsonl"), log.as_bytes());
    index(&s);
    log += &line(
        "3",
        json!({"type": "system", "subtype": "custom_title",
            "systemPayload": {"customTitle": "Made", "titleSource": "auto"}}),
    );
    log += &line(
        "4",
        json!({"type": "system", "subtype": "chat_compression", "systemPayload":
            {"compressedHistory": [{"role": "user", "parts": [{"text": "so far"}]},
                {"role": "model", "parts": [{"text": "Got it."}]}]}}),
    );
    log += &line(
        "5",
        json!({"type": "assistant", "isSidechain": true, "agentId": "a1", "model": "m",
            "message": {"role": "model", "parts": [{"text": "beside"}]}}),
    );
    log += &line("6", json!({"type": "system", "subtype": "unheard_of"}));
    log += &line(
        "7",
        json!({"type": "user", "provenance": "cron", "message": {"role": "user", "parts": [{"text": "tick"}]}}),
    );
    s.put(&format!("{CHATS}/s.jsonl"), log.as_bytes());
    index(&s);
    settled(&s);
    assert_eq!(
        said(&s, "s"),
        [
            "meta/text: /stats",
            "system/text: 12",
            "meta/summary: so far",
            "meta/text: tick",
        ]
    );
    assert_eq!(said(&s, "s/a1"), ["assistant/text: beside"]);
    assert_eq!(show(&s, "s/a1")["session"]["parent_session"], "s");
    assert_eq!(show(&s, "s")["session"]["title"], "Made");
}

#[test]
fn the_older_layout_and_other_folders() {
    let s = Sandbox::new();
    s.put(
        "run/tmp/abc/chats/session-2025-09-01T10-00-0a1b2c3d.json",
        json!({"sessionId": "old", "projectHash": "abc", "startTime": "2025-09-01T10:00:00.000Z",
            "messages": [{"id": "1", "timestamp": "2025-09-01T10:00:00.000Z", "type": "user", "content": "hello"}]})
        .to_string()
        .as_bytes(),
    );
    let text = String::from_utf8(sample(REAL)).unwrap();
    s.put("q/tmp/abc/chats/x.jsonl", text.as_bytes());
    let mut c = s.command(&["index", "--json"]);
    c.env("QWEN_HOME", s.home().join("q"))
        .env("QWEN_RUNTIME_DIR", s.home().join("run"));
    crate::sandbox::ran(c.output().unwrap()).expect(0);
    assert_eq!(natives(&s), [REAL_ID, "old"]);
    assert_eq!(said(&s, "old"), ["user/text: hello"]);
}

#[test]
fn a_torn_or_broken_log_gives_the_rest() {
    let whole = sample(REAL);
    let s = Sandbox::new();
    s.put(&format!("{CHATS}/{REAL_ID}.jsonl"), &whole);
    index(&s);
    let all = said(&s, REAL_ID);
    // Zeros at the end, and garbage between two lines.
    let at = whole.iter().position(|b| *b == b'\n').unwrap() + 1;
    let mut bytes = whole.clone();
    bytes.splice(at..at, b"\xff\xfe{\"uuid\": nonsense\n".iter().copied());
    bytes.extend([0; 512]);
    let s = Sandbox::new();
    s.put(&format!("{CHATS}/{REAL_ID}.jsonl"), &bytes);
    s.run(&["index", "--json"]).expect(0);
    assert_eq!(said(&s, REAL_ID), all);
    accounted(&s, REAL_ID, bytes.len() as u64);
    // Torn, then whole: as if it had never been torn.
    let s = Sandbox::new();
    s.put(
        &format!("{CHATS}/{REAL_ID}.jsonl"),
        &whole[..whole.len() * 2 / 3],
    );
    s.run(&["index", "--json"]).expect(0);
    assert!(said(&s, REAL_ID).len() < all.len());
    s.put(&format!("{CHATS}/{REAL_ID}.jsonl"), &whole);
    index(&s);
    assert_eq!(said(&s, REAL_ID), all);
    for odd in [
        &b""[..],
        b"[]\n",
        b"{}\n",
        b"\0\0\0",
        b"{\"uuid\":\"a\",\"type\":{}}\n",
    ] {
        let s = Sandbox::new();
        s.put(&format!("{CHATS}/{REAL_ID}.jsonl"), odd);
        s.run(&["index", "--json"]).expect(0);
    }
}
