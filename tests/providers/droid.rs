//! Factory Droid.

use serde_json::json;

use crate::home::{accounted, index, lay, len, natives, said, settled, show};
use crate::sandbox::Sandbox;

const SESSIONS: &str = ".factory/sessions";

#[test]
fn the_samples_are_read_and_accounted_for() {
    let s = Sandbox::new();
    let of = |name: &str| format!("droid/agent-sessions/{name}.jsonl");
    lay(
        &s,
        &of("session_store_small"),
        &format!("{SESSIONS}/-tmp/0.jsonl"),
    );
    // The older, flat layout.
    lay(
        &s,
        &of("session_store_large"),
        &format!("{SESSIONS}/1.jsonl"),
    );
    lay(
        &s,
        &of("stream_json_small"),
        &format!("{SESSIONS}/-tmp/2.jsonl"),
    );
    s.put(
        &format!("{SESSIONS}/-tmp/0.settings.json"),
        b"{\"model\":\"m\"}",
    );
    index(&s);
    settled(&s);
    assert_eq!(natives(&s), ["droid_large", "droid_s1", "sid_stage0_small"]);
    accounted(&s, "droid_s1", len(&of("session_store_small")));
    accounted(&s, "droid_large", len(&of("session_store_large")));
    assert_eq!(
        said(&s, "droid_s1"),
        [
            "user/text: Run a command",
            "assistant/tool-call: {\"command\":\"ls /nope\"}",
            "tool/tool-result: Error: Command failed (exit code: 1)\nls: /nope: No such file or directory",
        ]
    );
    assert_eq!(said(&s, "droid_large").len(), 7);
    assert_eq!(
        said(&s, "sid_stage0_small"),
        [
            "user/text: Do thing",
            "assistant/tool-call: {\"command\":\"echo hi\"}",
            "tool/tool-result: {\"stdout\":\"hi\\n\",\"exitCode\":0}",
            "assistant/text: Done",
        ]
    );
    let shown = show(&s, "droid_large");
    assert_eq!(shown["session"]["title"], "Stage0 Droid Large");
    assert_eq!(shown["session"]["workspace"], "/tmp/large");
    assert!(
        shown["session"]["started_at"]
            .to_string()
            .contains("2025-12-26")
    );
}

#[test]
fn the_end_of_a_stream_says_the_answer_again() {
    let s = Sandbox::new();
    let path = format!("{SESSIONS}/-w/x.jsonl");
    let mut log = String::new();
    for (n, line) in [
        json!({"type": "message", "session_id": "s", "role": "user", "text": "do it"}),
        json!({"type": "message", "session_id": "s", "role": "assistant", "text": "yes"}),
        json!({"type": "completion", "session_id": "s", "finalText": "yes"}),
    ]
    .iter()
    .enumerate()
    {
        log += &format!("{line}\n");
        s.put(&path, log.as_bytes());
        index(&s);
        assert_eq!(said(&s, "s").len(), (n + 1).min(2));
    }
}

#[test]
fn growth_summaries_and_damage() {
    let s = Sandbox::new();
    let path = format!("{SESSIONS}/-w/0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f.jsonl");
    let line = |v: serde_json::Value| format!("{v}\n");
    let mut log = line(
        json!({"type": "session_start", "id": "s", "title": "T", "cwd": "/w",
        "callingSessionId": "p"}),
    );
    log += &line(
        json!({"type": "message", "id": "1", "timestamp": "2026-05-05T10:00:00.000Z",
        "message": {"role": "user", "content": [
            {"type": "text", "text": "<system-reminder>x</system-reminder>"},
            {"type": "text", "text": "do it"}]}}),
    );
    s.put(&path, log.as_bytes());
    index(&s);
    let head = log.len();
    log += &line(
        json!({"type": "message", "id": "2", "timestamp": "2026-05-05T10:00:01.000Z",
        "message": {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "yes"}]}}),
    );
    log += &line(json!({"type": "todo_state", "id": "3", "todos": {}}));
    log += &line(json!({"type": "compaction_state", "id": "4", "summaryText": "so far"}));
    log += &line(json!({"type": "brand_new", "id": "5"}));
    log += &line(json!({"type": "session_end", "id": "6"}));
    s.put(&path, log.as_bytes());
    index(&s);
    settled(&s);
    let expected = [
        "meta/text: <system-reminder>x</system-reminder>",
        "user/text: do it",
        "assistant/reasoning: hm",
        "assistant/text: yes",
        "meta/summary: so far",
    ];
    assert_eq!(said(&s, "s"), expected);
    assert_eq!(show(&s, "s")["session"]["parent_session"], "p");
    accounted(&s, "s", log.len() as u64);
    // Zeros, garbage and a torn end.
    let mut bytes = log.clone().into_bytes();
    bytes.splice(head..head, b"\0\0\0\n{\"type\":\"mess\n".iter().copied());
    bytes.extend(b"{\"type\":\"message\",\"id\":\"7");
    let s = Sandbox::new();
    s.put(&path, &bytes);
    s.run(&["index", "--json"]).expect(0);
    assert_eq!(said(&s, "s"), expected);
    accounted(&s, "s", bytes.len() as u64);
    // Without its first line the file names the session.
    let s = Sandbox::new();
    s.put(&path, log.split_once('\n').unwrap().1.as_bytes());
    index(&s);
    assert_eq!(natives(&s), ["0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f"]);
    for odd in [
        &b""[..],
        b"[{}]\n",
        b"{\"type\":\"message\",\"message\":7}\n",
        b"\xff",
    ] {
        let s = Sandbox::new();
        s.put(&path, odd);
        s.run(&["index", "--json"]).expect(0);
    }
}
