//! OpenClaw: its samples, the store beside them, tombstones, what is no session.

use serde_json::{Value, json};

use crate::home::{accounted, count, index, lay, len, natives, said, settled};
use crate::sandbox::{Sandbox, sample};

const SESSIONS: &str = ".openclaw/agents/main/sessions";
const LARGE: &str = "openclaw/agent-sessions/large.jsonl";
const SMALL: &str = "openclaw/agent-sessions/small.jsonl";

fn session(s: &Sandbox, native: &str) -> Value {
    s.run(&["export", native, "--format", "json"])
        .expect(0)
        .at("/session")
        .clone()
}

#[test]
fn the_samples_are_read_with_what_the_store_says() {
    let s = Sandbox::new();
    lay(&s, "openclaw/agent-sessions", SESSIONS);
    let store = json!({
        "agent:main:main": {"sessionId": "openclaw-stage0-large", "updatedAt": 1, "label": "Status run"},
        "agent:main:subagent:x": {"sessionId": "openclaw-stage0-small", "spawnedBy": "agent:main:main"},
    });
    s.put(
        &format!("{SESSIONS}/sessions.json"),
        store.to_string().as_bytes(),
    );
    index(&s);
    settled(&s);
    assert_eq!(
        natives(&s),
        ["openclaw-stage0-large", "openclaw-stage0-small"]
    );
    for (native, file) in [
        ("openclaw-stage0-large", LARGE),
        ("openclaw-stage0-small", SMALL),
    ] {
        accounted(&s, native, len(file));
        let text = String::from_utf8(sample(file)).unwrap();
        let of = |what: &str| text.matches(what).count();
        assert_eq!(count(&s, native, "user", "text"), of("\"role\":\"user\""));
        assert_eq!(
            count(&s, native, "tool", "tool-result"),
            of("\"role\":\"toolResult\"")
        );
        assert_eq!(
            count(&s, native, "assistant", "tool-call"),
            of("\"type\":\"toolCall\"")
        );
        assert_eq!(
            count(&s, native, "meta", "text"),
            of("\"type\":\"custom_message\"")
        );
    }
    let large = session(&s, "openclaw-stage0-large");
    assert_eq!(large["title"], "Status run");
    assert_eq!(large["workspace"], "/tmp/large");
    assert_eq!(&large["started_at"].as_str().unwrap()[..10], "2026-02-24");
    assert_eq!(
        session(&s, "openclaw-stage0-small")["parent_session"],
        "openclaw-stage0-large"
    );
}

#[test]
fn tombstones_and_checkpoints_hold_the_session() {
    let s = Sandbox::new();
    let large = sample(LARGE);
    let name = format!("{SESSIONS}/openclaw-stage0-large.jsonl");
    let path = s.put(&name, &large);
    index(&s);
    let before = said(&s, "openclaw-stage0-large");
    // Deleted by the harness: the file goes on under another name.
    std::fs::remove_file(path).unwrap();
    s.put(&format!("{name}.deleted.2026-03-01T00-00-00.000Z"), &large);
    index(&s);
    assert_eq!(natives(&s), ["openclaw-stage0-large"]);
    assert_eq!(said(&s, "openclaw-stage0-large"), before);
    // One that was never seen before its reset, one with a topic, and one whose header is lost.
    let small = sample(SMALL);
    let as_session = |id: &str| {
        String::from_utf8(small.clone())
            .unwrap()
            .replace("openclaw-stage0-small", id)
            .into_bytes()
    };
    let headless = |id: &str| {
        let bytes = as_session(id);
        let end = bytes.iter().position(|b| *b == b'\n').unwrap() + 1;
        bytes[end..].to_vec()
    };
    s.put(
        &format!("{SESSIONS}/r-1.jsonl.reset.2026-03-01"),
        &as_session("r-1"),
    );
    s.put(&format!("{SESSIONS}/t-1-topic-7.jsonl"), &as_session("t-1"));
    s.put(
        &format!("{SESSIONS}/h-1.checkpoint.c-1.jsonl"),
        &headless("h-1"),
    );
    // The flight recorder is kept and is no session.
    s.put(
        &format!("{SESSIONS}/r-1.trajectory.jsonl"),
        &as_session("no"),
    );
    s.put(&format!("{SESSIONS}/r-1.jsonl.lock"), b"1");
    index(&s);
    settled(&s);
    assert_eq!(natives(&s), ["h-1", "openclaw-stage0-large", "r-1", "t-1"]);
    for id in ["h-1", "r-1", "t-1"] {
        assert_eq!(count(&s, id, "user", "text"), 1, "{id}");
    }
    let again = s.run(&["index", "--json"]).expect(0);
    assert_eq!(again.number("/sources/seen"), 5);
}

#[test]
fn relatives_and_the_variable_have_folders_of_their_own() {
    let s = Sandbox::new();
    lay(&s, SMALL, ".qclaw/agents/main/sessions/a.jsonl");
    lay(&s, LARGE, ".kimi_openclaw/agents/x/sessions/b.jsonl");
    lay(&s, LARGE, ".openclaw/agents/x/sessions/c.jsonl");
    let mut c = s.command(&["index", "--json"]);
    c.env("OPENCLAW_STATE_DIR", s.home().join("moved"));
    let ran = crate::sandbox::ran(c.output().unwrap()).expect(0);
    assert_eq!(ran.number("/sources/captured"), 2);
    // A store that is broken says nothing, and costs nothing.
    s.put(
        ".qclaw/agents/main/sessions/sessions.json",
        b"{\"k\":{\"sessionId\":",
    );
    index(&s);
    assert_eq!(natives(&s).len(), 2);
}
