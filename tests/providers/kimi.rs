//! Kimi: kimi-code and, before it, kimi-cli.

use serde_json::{Value, json};

use crate::home::{accounted, count, index, lay, len, messages, natives, said, settled, show};
use crate::sandbox::{Sandbox, sample};

const WD: &str = ".kimi-code/sessions/wd_project_ac3bb318f98e";
const MAIN: &str = "kimi/agent-sessions/session-a/agents/main/wire.jsonl";
const AGENT: &str = "kimi/agent-sessions/session-a/agents/agent-0/wire.jsonl";

fn lines(rel: &str) -> Vec<Value> {
    String::from_utf8(sample(rel))
        .unwrap()
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

/// Counts the events of a kind, and parts of a kind where one is given.
fn events(lines: &[Value], kind: &str, part: Option<&str>) -> usize {
    lines
        .iter()
        .filter(|l| l["event"]["type"] == kind)
        .filter(|l| part.is_none_or(|p| l["event"]["part"]["type"] == p))
        .count()
}

#[test]
fn the_samples_are_read_and_agents_are_sessions_of_their_own() {
    let s = Sandbox::new();
    lay(&s, "kimi/agent-sessions", WD);
    lay(
        &s,
        "kimi/openclaw-session-viewer",
        ".kimi-code/sessions/wd_bpm_ab308ba3bc10",
    );
    index(&s);
    settled(&s);
    assert_eq!(
        natives(&s),
        [
            "session-a",
            "session-a/agent-0",
            "session-b",
            "session-short"
        ]
    );
    for (native, rel) in [("session-a", MAIN), ("session-a/agent-0", AGENT)] {
        accounted(&s, native, len(rel));
        let all = lines(rel);
        assert_eq!(
            count(&s, native, "assistant", "text"),
            events(&all, "content.part", Some("text"))
        );
        assert_eq!(
            count(&s, native, "assistant", "reasoning"),
            events(&all, "content.part", Some("think"))
        );
        assert_eq!(
            count(&s, native, "assistant", "tool-call"),
            events(&all, "tool.call", None)
        );
        assert_eq!(
            count(&s, native, "tool", "tool-result"),
            events(&all, "tool.result", None)
        );
    }
    // A prompt is said once, in whichever record comes first; reminders are nobody's.
    let all = lines(MAIN);
    let prompts = all.iter().filter(|l| l["type"] == "turn.prompt").count();
    let appended = all
        .iter()
        .filter(|l| l["type"] == "context.append_message")
        .count();
    assert_eq!(count(&s, "session-a", "user", "text"), prompts);
    assert_eq!(count(&s, "session-a", "meta", "text"), appended - prompts);
    assert_eq!(count(&s, "session-a", "meta", "summary"), 1);
    assert_eq!(count(&s, "session-a/agent-0", "user", "text"), 0);
    assert_eq!(
        said(&s, "session-b"),
        ["user/text: hi", "user/text: stop", "user/text: hi"]
    );
    let main = show(&s, "session-a");
    assert_eq!(main["session"]["title"], "hi");
    assert_eq!(
        main["session"]["workspace"],
        "/private/tmp/as-agent-lab/kimi/project"
    );
    assert!(main["session"]["parent_session"].is_null());
    assert!(
        main["session"]["started_at"]
            .to_string()
            .contains("2026-08-01")
    );
    let agent = show(&s, "session-a/agent-0");
    assert_eq!(agent["session"]["parent_session"], "session-a");
    let failed: Vec<_> = messages(&s, "session-a")
        .into_iter()
        .filter(|m| m["is_error"] == true)
        .collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0]["call_id"], "Bash_2");
}

#[test]
fn a_log_that_grows_or_is_hurt_gives_what_the_whole_gives() {
    let whole = sample(MAIN);
    let to = format!("{WD}/session_x/agents/main/wire.jsonl");
    let s = Sandbox::new();
    s.put(&to, &whole);
    index(&s);
    let all = said(&s, "session_x");
    let rows: Vec<usize> = whole
        .iter()
        .enumerate()
        .filter(|(_, b)| **b == b'\n')
        .map(|(n, _)| n + 1)
        .collect();
    // Between a prompt and the message that repeats it, and within a line.
    let s = Sandbox::new();
    for cut in [rows[4], rows[4] + 30, rows[21], rows[100], whole.len()] {
        s.put(&to, &whole[..cut]);
        s.run(&["index", "--json"]).expect(0);
    }
    assert_eq!(said(&s, "session_x"), all);
    settled(&s);
    // Two records glued, zeros, a line of garbage.
    let mut bytes = whole.clone();
    bytes.remove(rows[30] - 1);
    bytes.splice(
        rows[10]..rows[10],
        b"\0\0\0\0\n{\"type\":\"turn.pro\n".iter().copied(),
    );
    bytes.extend([0; 100]);
    let s = Sandbox::new();
    s.put(&to, &bytes);
    s.run(&["index", "--json"]).expect(0);
    assert_eq!(said(&s, "session_x"), all);
    accounted(&s, "session_x", bytes.len() as u64);
    for odd in [
        &b""[..],
        b"[]\n",
        b"{\"type\":\"turn.prompt\",\"input\":7,\"time\":1e400}\n",
        b"{\"type\":\"context.append_loop_event\",\"event\":[]}\n",
        b"\0",
    ] {
        let s = Sandbox::new();
        s.put(&to, odd);
        s.put(
            &format!("{WD}/session_x/state.json"),
            b"{\"agents\": 7, \"title\": []",
        );
        s.run(&["index", "--json"]).expect(0);
    }
}

fn sent(time: f64, kind: &str, payload: Value) -> String {
    format!(
        "{}\n",
        json!({"timestamp": time, "message": {"type": kind, "payload": payload}})
    )
}

/// What kimi-cli writes for one turn: wire log and context log.
fn turn() -> (String, String) {
    let mut wire = format!(
        "{}\n",
        json!({"type": "metadata", "protocol_version": "1.3"})
    );
    wire += &sent(
        1_767_225_600.5,
        "TurnBegin",
        json!({"user_input": [{"type": "text", "text": "list"}]}),
    );
    wire += &sent(1_767_225_601.0, "StepBegin", json!({"n": 1}));
    wire += &sent(
        1_767_225_602.0,
        "ContentPart",
        json!({"type": "think", "think": "hm"}),
    );
    wire += &sent(
        1_767_225_603.0,
        "ToolCall",
        json!({"type": "function", "id": "c1", "function": {"name": "Shell", "arguments": "{\"command\":\"ls\"}"}}),
    );
    wire += &sent(
        1_767_225_604.0,
        "ToolResult",
        json!({"tool_call_id": "c1", "return_value": {"is_error": false, "output": "a.txt", "message": "ok"}}),
    );
    wire += &sent(
        1_767_225_605.0,
        "SubagentEvent",
        json!({"task_tool_call_id": "t1", "event": {"type": "ContentPart", "payload": {"type": "text", "text": "beside"}}}),
    );
    wire += &sent(
        1_767_225_606.0,
        "ContentPart",
        json!({"type": "text", "text": "done"}),
    );
    wire += &sent(1_767_225_607.0, "TurnEnd", json!({}));
    let rows = [
        json!({"role": "_system_prompt", "content": "be good"}),
        json!({"role": "_checkpoint", "id": 0}),
        json!({"role": "user", "content": "<system>CHECKPOINT 0</system>"}),
        json!({"role": "user", "content": [{"type": "text", "text": "list"}]}),
        json!({"role": "assistant", "content": [{"type": "think", "think": "hm"}], "tool_calls": [
            {"type": "function", "id": "c1", "function": {"name": "Shell", "arguments": "{\"command\":\"ls\"}"}}]}),
        json!({"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "a.txt"}]}),
        json!({"role": "_usage", "token_count": 12}),
        json!({"role": "assistant", "content": "done"}),
    ];
    let context = rows.iter().map(|r| format!("{r}\n")).collect();
    (wire, context)
}

const DIALOGUE: [&str; 5] = [
    "user/text: list",
    "assistant/reasoning: hm",
    "assistant/tool-call: {\"command\":\"ls\"}",
    "tool/tool-result: a.txt",
    "assistant/text: done",
];

#[test]
fn the_older_program_says_everything_twice_and_it_is_told_once() {
    let (wire, context) = turn();
    let folder = ".kimi/sessions/0a1b/11112222-3333-4444-5555-666677778888";
    let id = "11112222-3333-4444-5555-666677778888";
    // Both logs.
    let s = Sandbox::new();
    s.put(&format!("{folder}/wire.jsonl"), wire.as_bytes());
    s.put(&format!("{folder}/context.jsonl"), context.as_bytes());
    s.put(
        &format!("{folder}/state.json"),
        b"{\"custom_title\": \"Mine\"}",
    );
    index(&s);
    settled(&s);
    assert_eq!(said(&s, id), DIALOGUE);
    assert_eq!(natives(&s), [id.to_owned(), format!("{id}/t1")]);
    assert_eq!(said(&s, &format!("{id}/t1")), ["assistant/text: beside"]);
    let shown = show(&s, id);
    assert_eq!(shown["session"]["title"], "Mine");
    assert!(
        shown["session"]["started_at"]
            .to_string()
            .contains("2026-01-01")
    );
    accounted(&s, id, (wire.len() + context.len()) as u64);
    // The context alone, in a folder and before there were folders.
    for to in [
        format!("{folder}/context.jsonl"),
        ".kimi/sessions/0a1b/old.jsonl".to_owned(),
    ] {
        let s = Sandbox::new();
        s.put(&to, context.as_bytes());
        index(&s);
        let native = &natives(&s)[0];
        assert!(native == id || native == "old");
        let all = said(&s, native);
        assert_eq!(all[0], "system/text: be good");
        assert_eq!(all[1], "meta/text: <system>CHECKPOINT 0</system>");
        assert_eq!(all[2..], DIALOGUE);
    }
    // A wire log that begins later does not stand for the context.
    let s = Sandbox::new();
    let later = wire.replace("\"text\":\"list\"", "\"text\":\"later\"");
    s.put(&format!("{folder}/wire.jsonl"), later.as_bytes());
    s.put(&format!("{folder}/context.jsonl"), context.as_bytes());
    index(&s);
    settled(&s);
    assert_eq!(said(&s, &format!("{id}/context"))[2..], DIALOGUE);
    assert_eq!(said(&s, id)[0], "user/text: later");
}

#[test]
fn a_context_that_is_compacted_loses_nothing() {
    let (_, context) = turn();
    let s = Sandbox::new();
    let to = ".kimi/sessions/0a1b/s1/context.jsonl";
    s.put(to, context.as_bytes());
    index(&s);
    let before = said(&s, "s1");
    let compacted = [
        json!({"role": "_system_prompt", "content": "be good"}),
        json!({"role": "user", "content": [{"type": "text", "text": "so far: listed"}]}),
        json!({"role": "assistant", "content": "done"}),
        json!({"role": "user", "content": "more"}),
    ];
    let text: String = compacted.iter().map(|r| format!("{r}\n")).collect();
    s.put(to, text.as_bytes());
    s.put(".kimi/sessions/0a1b/s1/context_1.jsonl", context.as_bytes());
    index(&s);
    settled(&s);
    let all: Vec<Vec<String>> = natives(&s).iter().map(|n| said(&s, n)).collect();
    let flat: Vec<&String> = all.iter().flatten().collect();
    assert!(before.iter().all(|t| flat.contains(&t)), "{all:?}");
    assert!(flat.iter().any(|t| *t == "user/text: more"), "{all:?}");
    assert_eq!(natives(&s), ["s1", "s1/context_1"]);
}

#[test]
fn the_older_folder_may_be_elsewhere() {
    let (wire, _) = turn();
    let s = Sandbox::new();
    s.put("share/sessions/0a1b/s1/wire.jsonl", wire.as_bytes());
    let mut c = s.command(&["index", "--json"]);
    c.env("KIMI_SHARE_DIR", s.home().join("share"));
    crate::sandbox::ran(c.output().unwrap()).expect(0);
    assert_eq!(said(&s, "s1"), DIALOGUE);
}
