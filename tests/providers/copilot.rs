//! Copilot CLI: events, the flat layout, resumes, the damage that was seen in the wild.

use serde_json::{Value, json};

use crate::home::{accounted, count, index, lay, len, messages, natives, said, settled, show};
use crate::sandbox::{Sandbox, sample};

const STATE: &str = ".copilot/session-state";
const LARGE: &str = "copilot/agentv/10fb4666-56f0-4352-90fc-715caf95b418/events.jsonl";
const LARGE_ID: &str = "10fb4666-56f0-4352-90fc-715caf95b418";

fn lines(bytes: &[u8]) -> Vec<Value> {
    String::from_utf8(bytes.to_vec())
        .unwrap()
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

fn event(kind: &str, id: &str, data: Value) -> String {
    let line = json!({"type": kind, "data": data, "id": id,
        "timestamp": "2026-05-05T10:00:00.000Z", "parentId": null});
    format!("{line}\n")
}

fn start(session: &str, cwd: &str) -> String {
    event(
        "session.start",
        &format!("{session}-start"),
        json!({"sessionId": session, "copilotVersion": "1.0.64",
            "startTime": "2026-05-05T10:00:00.000Z", "context": {"cwd": cwd}}),
    )
}

#[test]
fn the_samples_are_read_and_accounted_for() {
    let s = Sandbox::new();
    for of in ["agentv", "VibeCodingTracker"] {
        lay(&s, &format!("copilot/{of}"), STATE);
    }
    let flat = "copilot/agent-sessions/small.jsonl";
    lay(&s, flat, &format!("{STATE}/copilot_stage0_small.jsonl"));
    lay(
        &s,
        "copilot/agent-sessions/aaaabbbb-1111-2222-3333-ccccddddeeee",
        &format!("{STATE}/aaaabbbb-1111-2222-3333-ccccddddeeee"),
    );
    index(&s);
    settled(&s);
    // One of them has an agent.
    assert_eq!(natives(&s).len(), 7);
    for native in natives(&s) {
        if native.contains('/') {
            let parent = &show(&s, &native)["session"]["parent_session"];
            assert_eq!(parent, "copilot_stage0_small");
            // All its records bear one made-up id: the last one stands.
            assert_eq!(count(&s, &native, "tool", "tool-result"), 1);
            continue;
        }
        let rel = if native == "copilot_stage0_small" {
            flat.to_owned()
        } else {
            ["agentv", "VibeCodingTracker", "agent-sessions"]
                .iter()
                .map(|of| format!("copilot/{of}/{native}/events.jsonl"))
                .find(|rel| crate::sandbox::fixtures().join(rel).is_file())
                .unwrap()
        };
        accounted(&s, &native, len(&rel));
    }
    let events = lines(&sample(LARGE));
    let of = |kind: &'static str| events.iter().filter(move |e| e["type"] == kind);
    let texts = of("assistant.message")
        .filter(|e| e["data"]["content"].as_str().is_some_and(|t| !t.is_empty()))
        .count();
    let reasoning = of("assistant.message")
        .filter(|e| e["data"]["reasoningText"].is_string())
        .count();
    let calls: usize = of("assistant.message")
        .map(|e| e["data"]["toolRequests"].as_array().unwrap().len())
        .sum();
    assert_eq!(count(&s, LARGE_ID, "user", "text"), 1);
    assert_eq!(count(&s, LARGE_ID, "assistant", "text"), texts);
    assert_eq!(count(&s, LARGE_ID, "assistant", "reasoning"), reasoning);
    assert_eq!(count(&s, LARGE_ID, "assistant", "tool-call"), calls);
    assert_eq!(
        count(&s, LARGE_ID, "tool", "tool-result"),
        of("tool.execution_complete").count()
    );
    assert!(calls > 60 && texts > 5);
    // A call and its result bear one id.
    let all = messages(&s, LARGE_ID);
    let ids = |kind: &str| {
        all.iter()
            .filter(|m| m["kind"] == kind)
            .map(|m| m["call_id"].as_str().unwrap().to_owned())
            .collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(ids("tool-call"), ids("tool-result"));
    let shown = show(&s, LARGE_ID);
    assert_eq!(
        shown["session"]["workspace"],
        "/home/userxx/projects/EntityProcess/agentv"
    );
    let begun = shown["session"]["started_at"].to_string();
    assert!(begun.contains("2026-06-25"), "{shown}");
}

#[test]
fn segments_of_one_session_and_the_description_beside_it() {
    let s = Sandbox::new();
    let id = "11112222-3333-4444-5555-666677778888";
    let said_as = |id: &str, text: &str| {
        event(
            "user.message",
            id,
            json!({"content": text, "transformedContent": format!("<x>{text}</x>"),
                "attachments": [{"type": "file", "path": "/src/a.rs", "displayName": "a.rs"}]}),
        )
    };
    let mut log = start(id, "/old") + &said_as("u1", "first");
    // A database beside the events is kept, and read by nobody.
    s.put(
        &format!("{STATE}/{id}/session.db"),
        &sample("opencode/harness-1.18.33/opencode.db"),
    );
    s.put(&format!("{STATE}/{id}/events.jsonl"), log.as_bytes());
    s.put(
        &format!("{STATE}/{id}/workspace.yaml"),
        b"id: x\ncwd: /old\nname: \"The title\"\n",
    );
    index(&s);
    assert_eq!(show(&s, id)["session"]["title"], "The title");
    log += &event("session.shutdown", "e1", json!({}));
    log += &event("session.resume", "e2", json!({"context": {"cwd": "/new"}}));
    log += &said_as("u2", "second");
    log += &event(
        "tool.execution_start",
        "t1",
        json!({"toolCallId": "c", "toolName": "bash", "arguments": {"command": "ls"}}),
    );
    log += &event(
        "tool.execution_complete",
        "t2",
        json!({"toolCallId": "c", "success": false, "error": {"message": "no"}}),
    );
    log += &event("assistant.reasoning", "r1", json!({"content": "hm"}));
    log += &event(
        "assistant.message",
        "a1",
        json!({"content": "done", "reasoningText": "hm", "model": "m", "toolRequests": []}),
    );
    log += &event(
        "session.compaction_complete",
        "k1",
        json!({"summaryContent": "so far"}),
    );
    // Ids and thoughts that come again in another turn are other calls and thoughts.
    for n in ["2", "3"] {
        log += &event(
            "assistant.message",
            &format!("a{n}"),
            json!({"content": "", "reasoningText": "again", "toolRequests":
                [{"toolCallId": "c", "name": "bash", "arguments": {"n": n}}]}),
        );
        log += &event(
            "tool.execution_start",
            &format!("s{n}"),
            json!({"toolCallId": "c", "toolName": "bash", "arguments": {"n": n}}),
        );
    }
    log += &event("session.brand_new", "n1", json!({}));
    s.put(&format!("{STATE}/{id}/events.jsonl"), log.as_bytes());
    index(&s);
    settled(&s);
    assert_eq!(
        said(&s, id),
        [
            "user/text: first",
            "user/attachment: [file /src/a.rs]",
            "user/text: second",
            "user/attachment: [file /src/a.rs]",
            "assistant/tool-call: {\"command\":\"ls\"}",
            "tool/tool-result: no",
            "assistant/reasoning: hm",
            "assistant/text: done",
            "meta/summary: so far",
            "assistant/reasoning: again",
            "assistant/tool-call: {\"n\":\"2\"}",
            "assistant/reasoning: again",
            "assistant/tool-call: {\"n\":\"3\"}",
        ]
    );
    let shown = show(&s, id);
    assert_eq!(shown["session"]["workspace"], "/new");
    assert!(
        shown["sources"][0]["accounting"]["unknown_bytes"]
            .as_u64()
            .unwrap()
            > 0
    );
    accounted(&s, id, log.len() as u64);
}

#[test]
fn an_agent_is_a_session_of_its_own() {
    let s = Sandbox::new();
    let id = "11112222-3333-4444-5555-66667777888b";
    let mut log = start(id, "/w");
    log += &event(
        "assistant.message",
        "a1",
        json!({"content": "I ask.", "toolRequests": [
            {"toolCallId": "task1", "name": "task", "arguments": {"prompt": "look"}}]}),
    );
    log += &event("subagent.started", "b1", json!({"toolCallId": "task1"}));
    log += &event(
        "assistant.message",
        "a2",
        json!({"parentToolCallId": "task1", "content": "I look.", "toolRequests": [
            {"toolCallId": "c", "name": "view", "arguments": {"path": "/"}}]}),
    );
    log += &event(
        "tool.execution_start",
        "t1",
        json!({"parentToolCallId": "task1", "toolCallId": "c", "toolName": "view"}),
    );
    log += &event(
        "tool.execution_complete",
        "t2",
        json!({"toolCallId": "task1", "success": true, "result": {"content": "seen"}}),
    );
    s.put(&format!("{STATE}/{id}/events.jsonl"), log.as_bytes());
    index(&s);
    let agent = format!("{id}/task1");
    assert_eq!(natives(&s), [id, &agent]);
    assert_eq!(
        said(&s, id),
        [
            "assistant/text: I ask.",
            "assistant/tool-call: {\"prompt\":\"look\"}",
            "tool/tool-result: seen",
        ]
    );
    assert_eq!(
        said(&s, &agent),
        [
            "assistant/text: I look.",
            "assistant/tool-call: {\"path\":\"/\"}"
        ]
    );
    assert_eq!(show(&s, &agent)["session"]["parent_session"], id);
    settled(&s);
}

/// The large sample, damaged, in a sandbox of its own.
fn damaged(bytes: &[u8]) -> Sandbox {
    let s = Sandbox::new();
    s.put(&format!("{STATE}/{LARGE_ID}/events.jsonl"), bytes);
    s.run(&["index", "--json"]).expect(0);
    accounted(&s, LARGE_ID, bytes.len() as u64);
    s
}

#[test]
fn damage_costs_what_it_hit_and_nothing_else() {
    let whole = sample(LARGE);
    let clean = damaged(&whole);
    let all = said(&clean, LARGE_ID);
    // D01: zeros at the end.
    let mut bytes = whole.clone();
    bytes.extend([0; 4096]);
    assert_eq!(said(&damaged(&bytes), LARGE_ID), all);
    // D02: a hole of zeros between two lines.
    let at = whole.iter().position(|b| *b == b'\n').unwrap() + 1;
    let mut bytes = whole.clone();
    bytes.splice(at..at, [0; 700]);
    assert_eq!(said(&damaged(&bytes), LARGE_ID), all);
    // D04: two lines glued; then the first 60 % of a line before the whole line.
    let text = String::from_utf8(whole.clone()).unwrap();
    let rows: Vec<&str> = text.lines().collect();
    let glued = text.replacen(&format!("{}\n", rows[9]), rows[9], 1);
    assert_eq!(said(&damaged(glued.as_bytes()), LARGE_ID), all);
    let at = rows
        .iter()
        .position(|l| l.contains("\"tool.execution_complete\""))
        .unwrap();
    let mut part = rows[at].len() * 6 / 10;
    while !rows[at].is_char_boundary(part) {
        part -= 1;
    }
    let mut torn = rows.clone();
    let both = format!("{}{}", &rows[at][..part], rows[at]);
    torn[at] = &both;
    assert_eq!(
        said(&damaged(torn.join("\n").as_bytes()), LARGE_ID),
        all,
        "glued behind a fragment"
    );
    // D05: a raw line feed inside a string.
    let at = rows
        .iter()
        .position(|l| l.contains("execution_complete") && l.contains("\\n"))
        .unwrap();
    let broken = rows[at].replacen("\\n", "\n", 1);
    let mut multi = rows.clone();
    multi[at] = &broken;
    assert_eq!(
        said(&damaged(multi.join("\n").as_bytes()), LARGE_ID).len(),
        all.len()
    );
    // D03: the last line is cut; nothing but its record is missing.
    let cut = damaged(&whole[..whole.len() - 40]);
    assert!(said(&cut, LARGE_ID).len() + 2 >= all.len());
}

#[test]
fn line_separators_of_unicode_are_text_and_other_damage_is_survived() {
    // D06.
    let s = Sandbox::new();
    let id = "11112222-3333-4444-5555-666677778889";
    let log = start(id, "/w")
        + "{\"type\":\"user.message\",\"data\":{\"content\":\"a\u{2028}b\u{2029}c\"},\"id\":\"u\",\
           \"timestamp\":\"2026-05-05T10:00:00.000Z\",\"parentId\":null}\n";
    s.put(&format!("{STATE}/{id}/events.jsonl"), log.as_bytes());
    index(&s);
    assert_eq!(said(&s, id), ["user/text: a\u{2028}b\u{2029}c"]);
    // D19: without its first line the folder names the session.
    let s = Sandbox::new();
    let rest = log.split_once('\n').unwrap().1;
    s.put(&format!("{STATE}/{id}/events.jsonl"), rest.as_bytes());
    index(&s);
    assert_eq!(natives(&s), [id]);
    // Empty, no events, not even text.
    for odd in [&b""[..], b"null\n[1]\n{}\n", b"\xff\xfe\x00garbage", b"{"] {
        let s = Sandbox::new();
        s.put(&format!("{STATE}/{id}/events.jsonl"), odd);
        s.run(&["index", "--json"]).expect(0);
    }
}

#[test]
fn the_folder_may_be_elsewhere_and_older_documents_are_read() {
    let s = Sandbox::new();
    let id = "11112222-3333-4444-5555-66667777888a";
    s.put(
        &format!("elsewhere/history-session-state/session_{id}_1760000000000.json"),
        json!({"sessionId": id, "startTime": "2025-10-09T08:53:20.000Z", "chatMessages": [
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "c1", "type": "function",
                    "function": {"name": "bash", "arguments": "{\"command\":\"ls\"}"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "a.txt"},
            {"role": "assistant", "content": "done"},
            {"role": "stranger"}
        ], "timeline": []})
        .to_string()
        .as_bytes(),
    );
    let mut c = s.command(&["index", "--json"]);
    c.env("COPILOT_HOME", s.home().join("elsewhere"));
    crate::sandbox::ran(c.output().unwrap()).expect(0);
    assert_eq!(
        said(&s, id),
        [
            "user/text: hello",
            "assistant/tool-call: {\"command\":\"ls\"}",
            "tool/tool-result: a.txt",
            "assistant/text: done",
        ]
    );
}
