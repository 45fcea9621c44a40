//! Cline and Roo Code: the two files of a task, and the command line of Cline.

use serde_json::{Value, json};

use crate::home::{accounted, count, index, lay, len, messages, natives, said, settled, show};
use crate::sandbox::{Sandbox, sample};

const CLINE: &str = ".config/Code/User/globalStorage/saoudrizwan.claude-dev";
const ROO: &str = ".config/VSCodium/User/globalStorage/rooveterinaryinc.roo-cline";
const CLI: &str = "cline/harness-3.0.65/data";
const CLI_ID: &str = "1795968955656_9jmwy";
const TASK: &str = "1767225600000";

fn ui() -> Value {
    json!([
        {"ts": 1767225600100_i64, "type": "say", "say": "text", "text": "Say hello"},
        {"ts": 1767225600200_i64, "type": "say", "say": "api_req_started", "text": "{\"tokensIn\":10}"},
        {"ts": 1767225600300_i64, "type": "say", "say": "text", "text": "Hello!", "reasoning": "hm"},
        {"ts": 1767225600400_i64, "type": "ask", "ask": "command", "text": "ls", "partial": true},
        {"ts": 1767225600500_i64, "type": "say", "say": "command_output", "text": "a"},
        {"ts": 1767225600500_i64, "type": "say", "say": "command_output", "text": "b"},
        {"ts": 1767225600600_i64, "type": "say", "say": "completion_result", "text": "done"}
    ])
}

#[test]
fn a_task_and_what_was_shown_of_it_are_two_sessions() {
    let s = Sandbox::new();
    let api = "cline/deja-vu/legacy/tasks/1767225600000/api_conversation_history.json";
    lay(&s, "cline/deja-vu/legacy", CLINE);
    let shown = serde_json::to_vec_pretty(&ui()).unwrap();
    s.put(&format!("{CLINE}/tasks/{TASK}/ui_messages.json"), &shown);
    index(&s);
    settled(&s);
    let second = format!("{TASK}/ui");
    assert_eq!(natives(&s), [TASK, &second]);
    accounted(&s, TASK, len(api));
    accounted(&s, &second, shown.len() as u64);
    assert_eq!(
        said(&s, TASK),
        ["user/text: Say hello", "assistant/text: Hello!"]
    );
    assert_eq!(
        said(&s, &second),
        [
            "user/text: Say hello",
            "assistant/reasoning: hm",
            "assistant/text: Hello!",
            "assistant/tool-call: ls",
            "tool/tool-result: a",
            "tool/tool-result: b",
            "assistant/text: done",
        ]
    );
    for native in [TASK, second.as_str()] {
        let session = &show(&s, native)["session"];
        assert_eq!(session["title"], "Say hello", "{session}");
        assert_eq!(session["workspace"], "/home/example/work/demo");
    }
    let session = &show(&s, &second)["session"];
    assert_eq!(session["parent_session"], TASK);
    assert!(
        session["started_at"]
            .as_str()
            .unwrap()
            .starts_with("2026-01-01T00:00:00")
    );
    assert!(show(&s, TASK)["session"]["parent_session"].is_null());
}

#[test]
fn roo_is_read_where_its_settings_say() {
    let task = "1767225700000";
    let check = |s: &Sandbox| {
        index(s);
        settled(s);
        assert_eq!(natives(s), [task]);
        assert_eq!(
            said(s, task),
            [
                "user/text: Fix the flaky test",
                "assistant/text: The retry loop reused a stale timeout; pinned it per attempt."
            ]
        );
        let session = &show(s, task)["session"];
        assert_eq!(session["title"], "Fix the flaky test");
        assert_eq!(session["workspace"], "/home/example/work/demo");
        assert_eq!(session["provider"], "roo");
    };
    let s = Sandbox::new();
    lay(&s, "roo/deja-vu", ROO);
    check(&s);
    let s = Sandbox::new();
    lay(&s, "roo/deja-vu", "custom/roo");
    let settings = format!(
        "{{ // where tasks are\n  \"roo-cline.customStoragePath\": \"{}\",\n}}",
        s.home().join("custom/roo").display()
    );
    s.put(".config/Code/User/settings.json", settings.as_bytes());
    check(&s);
    let s = Sandbox::new();
    lay(
        &s,
        "roo/deja-vu",
        ".vscode-server/data/User/globalStorage/rooveterinaryinc.roo-cline",
    );
    check(&s);
}

#[test]
fn the_command_line_is_read() {
    let s = Sandbox::new();
    lay(&s, CLI, ".cline/data");
    let root = s.home().join(".cline");
    let before = crate::sandbox::snapshot(&root);
    index(&s);
    settled(&s);
    assert_eq!(crate::sandbox::snapshot(&root), before);
    assert_eq!(natives(&s), [CLI_ID]);
    let file = format!("{CLI}/sessions/{CLI_ID}/{CLI_ID}.messages.json");
    accounted(&s, CLI_ID, len(&file));
    let doc: Value = serde_json::from_slice(&sample(&file)).unwrap();
    let blocks = |kind: &str| {
        doc["messages"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|m| m["content"].as_array().unwrap())
            .filter(|b| b["type"] == kind)
            .count()
    };
    assert_eq!(
        count(&s, CLI_ID, "assistant", "tool-call"),
        blocks("tool_use")
    );
    assert_eq!(
        count(&s, CLI_ID, "tool", "tool-result"),
        blocks("tool_result")
    );
    assert_eq!(
        ["user", "meta", "assistant"]
            .iter()
            .map(|r| count(&s, CLI_ID, r, "text"))
            .sum::<usize>(),
        blocks("text")
    );
    let all = said(&s, CLI_ID);
    assert_eq!(
        all[0],
        "user/text: fix the typo in the greeting and run the script"
    );
    assert!(all[1].starts_with("meta/text: [SYSTEM]"));
    // Results that are objects of the tool's own are not empty, and a failure is seen.
    let messages = messages(&s, CLI_ID);
    let results: Vec<&Value> = messages
        .iter()
        .filter(|m| m["kind"] == "tool-result")
        .collect();
    assert!(
        results
            .iter()
            .all(|m| !m["text"].as_str().unwrap().is_empty())
    );
    assert!(
        results[2]["text"]
            .as_str()
            .unwrap()
            .contains("Hello, world")
    );
    assert_eq!(results[2]["is_error"], true);
    assert!(
        messages
            .iter()
            .filter(|m| m["role"] == "assistant")
            .all(|m| m["model"] == "mock-1")
    );
    let session = &show(&s, CLI_ID)["session"];
    assert_eq!(
        session["title"],
        "fix the typo in the greeting and run the script"
    );
    assert_eq!(session["workspace"], "/tmp/gen/proj_cline");
    assert_eq!(show(&s, CLI_ID)["harness_version"], "3.0.65");
    for at in ["started_at", "ended_at"] {
        assert!(
            session[at]
                .as_str()
                .unwrap()
                .starts_with("2026-11-29T16:15:5"),
            "{session}"
        );
    }
}

#[test]
fn other_folders_are_named_by_variables() {
    for (variable, value, root) in [
        ("CLINE_DIR", "elsewhere", "elsewhere/data"),
        ("CLINE_DATA_DIR", "data", "data"),
    ] {
        let s = Sandbox::new();
        lay(&s, CLI, root);
        let mut c = s.command(&["index", "--json"]);
        c.env(variable, s.home().join(value));
        crate::sandbox::ran(c.output().unwrap()).expect(0);
        assert_eq!(natives(&s), [CLI_ID], "{variable}");
    }
}

#[test]
fn a_file_that_is_written_anew_gives_versions_and_shrinking_loses_nothing() {
    let s = Sandbox::new();
    let api = format!("{CLINE}/tasks/{TASK}/api_conversation_history.json");
    let shown = format!("{CLINE}/tasks/{TASK}/ui_messages.json");
    let put = |rel: &str, value: &Value, age: u64| {
        s.put(rel, &serde_json::to_vec(value).unwrap());
        crate::sandbox::age(&s.home().join(rel), age);
    };
    let mut sent = json!([
        {"role": "user", "ts": 1, "content": [{"type": "text", "text": "<task>\nSay hello\n</task>"},
            {"type": "text", "text": "<environment_details>\n# Current Working Directory (/home/u/w) Files\n</environment_details>"}]},
        {"role": "assistant", "ts": 2, "content": [{"type": "text", "text": "Hello!"}]},
        {"role": "user", "ts": 3, "content": "go on"},
        {"role": "user", "ts": 4, "content": "go on"}
    ]);
    put(&api, &sent, 3600);
    put(&shown, &ui(), 3600);
    index(&s);
    assert_eq!(said(&s, TASK).len(), 5);
    assert_eq!(show(&s, TASK)["session"]["workspace"], "/home/u/w");
    // A turn more; a streamed message is whole now; one was edited.
    sent[1]["content"][0]["text"] = json!("Hello there!");
    sent.as_array_mut()
        .unwrap()
        .push(json!({"role": "assistant", "ts": 5, "content": [{"type": "text", "text": "on"}]}));
    let mut seen = ui();
    seen[3]["partial"] = json!(false);
    seen[3]["text"] = json!("ls -la");
    put(&api, &sent, 1800);
    put(&shown, &seen, 1800);
    index(&s);
    settled(&s);
    let mut now = said(&s, TASK);
    now.sort();
    assert_eq!(
        now[..3],
        [
            "assistant/text: Hello there!",
            "assistant/text: on",
            now[2].as_str()
        ]
    );
    assert_eq!(now.len(), 6);
    let second = said(&s, &format!("{TASK}/ui"));
    assert_eq!(second.len(), 7);
    assert!(second.contains(&"assistant/tool-call: ls -la".to_owned()));
    // D23: emptied, and cut in the middle.
    for (n, bytes) in [&b"[]"[..], b"", b"[{\"role\":\"user\",\"ts\":1,\"con"]
        .into_iter()
        .enumerate()
    {
        s.put(&api, bytes);
        crate::sandbox::age(&s.home().join(&api), 900 - n as u64 * 60);
        s.run(&["index", "--json"]).expect(0);
        let mut kept = said(&s, TASK);
        kept.sort();
        assert_eq!(kept, now);
    }
}

#[test]
fn ids_are_not_needed_and_the_same_words_are_said_twice() {
    let s = Sandbox::new();
    let api = format!("{ROO}/tasks/t/api_conversation_history.json");
    let mut sent = vec![
        json!({"role": "user", "content": "go on"}),
        json!({"role": "assistant", "content": "on"}),
        json!({"role": "user", "content": "go on"}),
        json!({"role": "assistant", "content": "on"}),
    ];
    s.put(&api, &serde_json::to_vec(&sent).unwrap());
    index(&s);
    assert_eq!(said(&s, "t").len(), 4);
    sent.push(json!({"role": "user", "content": "more"}));
    s.put(&api, &serde_json::to_vec(&sent).unwrap());
    crate::sandbox::age(&s.home().join(&api), 1800);
    index(&s);
    settled(&s);
    assert_eq!(said(&s, "t").len(), 5);
}

/// Writes a task's entries as what was sent to the model and indexes; what then stands.
fn sends(s: &Sandbox, root: &str, entries: &[&str]) -> Vec<String> {
    let all: Vec<Value> = entries
        .iter()
        .map(|text| json!({"role": "user", "content": text}))
        .collect();
    let rel = format!("{root}/tasks/t/api_conversation_history.json");
    s.put(&rel, &serde_json::to_vec(&all).unwrap());
    index(s);
    settled(s);
    stands(s, "t")
}

/// The texts of a session that stand, as the view says them.
fn stands(s: &Sandbox, id: &str) -> Vec<String> {
    let view = s.run(&["view", id, "--json"]).expect(0);
    let texts = view.json["messages"].as_array().unwrap().iter();
    texts
        .map(|m| m["text"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn an_entry_without_a_time_is_told_by_its_place() {
    let s = Sandbox::new();
    for (entries, view) in [
        (&["one", "two", "three"][..], &["one", "two", "three"][..]),
        // Edited.
        (&["one", "zwei", "three"], &["one", "zwei", "three"]),
        // As it was, and longer.
        (
            &["one", "two", "three", "four"],
            &["one", "two", "three", "four"],
        ),
        // One was put in, another taken out.
        (
            &["zero", "one", "two", "three", "four"],
            &["zero", "one", "two", "three", "four"],
        ),
        (
            &["zero", "two", "three", "four"],
            &["zero", "two", "three", "four"],
        ),
        // Cut off: it may be written anew right now.
        (&["zero", "two"], &["zero", "two", "three", "four"]),
        (&[], &["zero", "two", "three", "four"]),
        // Went another way from there on, and back.
        (&["zero", "two", "five"], &["zero", "two", "five"]),
        (
            &["zero", "two", "three", "four"],
            &["zero", "two", "three", "four"],
        ),
        // The same words again, and in another order.
        (&["zero", "zero", "two"], &["zero", "zero", "two"]),
        (&["two", "zero"], &["two", "zero"]),
        (&["two", "zero", "six"], &["two", "zero", "six"]),
    ] {
        assert_eq!(sends(&s, ROO, entries), view, "{entries:?}");
    }
    // What a document lacks that is torn or broken, it may have had.
    let rel = format!("{ROO}/tasks/t/api_conversation_history.json");
    for torn in [
        r#"[{"role":"user","content":"2"},{"role":"user","con"#,
        r#"[{"role":"user","content":"2"},{"role" 7},{"role":"user","content":"six"}]"#,
    ] {
        s.put(&rel, torn.as_bytes());
        s.run(&["index", "--json"]).expect(0);
        assert_eq!(stands(&s, "t"), ["2", "zero", "six"], "{torn}");
    }
    assert_eq!(s.named("t").len(), 1);
    let searched = s.run(&["search", "zwei", "--json"]).expect(0);
    assert!(searched.json["hits"].as_array().unwrap().is_empty());
}

#[test]
fn tasks_of_two_editors_with_one_id_are_branches() {
    const OTHER: &str = ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline";
    let s = Sandbox::new();
    sends(&s, ROO, &["one", "two", "three"]);
    sends(&s, OTHER, &["uno", "dos"]);
    let both = |s: &Sandbox| -> Vec<Vec<String>> {
        let mut all = s.named("t");
        all.sort_by_key(|c| !c["branch_of"].is_null());
        all.iter()
            .map(|c| stands(s, c["id"].as_str().unwrap()))
            .collect()
    };
    assert_eq!(
        both(&s),
        [&["one", "two", "three"][..], &["uno", "dos"][..]]
    );
    // Each goes on by itself.
    sends(&s, OTHER, &["uno", "zwei", "dos"]);
    sends(&s, ROO, &["one", "three"]);
    assert_eq!(
        both(&s),
        [&["one", "three"][..], &["uno", "zwei", "dos"][..]]
    );

    // A copy that goes on is the same session; one that was changed is a branch.
    let s = Sandbox::new();
    sends(&s, ROO, &["one", "two", "three"]);
    let longer = ["one", "two", "three", "four"];
    assert_eq!(sends(&s, OTHER, &longer), longer);
    assert_eq!(s.named("t").len(), 1);
    sends(&s, OTHER, &["one", "changed", "three", "four"]);
    assert_eq!(s.named("t").len(), 2);
    let kept = both(&s);
    assert_eq!(kept[0], longer);
    assert!(kept[1].contains(&"changed".to_owned()));
}

#[test]
fn damage_costs_what_it_hit() {
    let whole = serde_json::to_vec(&ui()).unwrap();
    let mut garbage = whole.clone();
    let at = garbage.len() / 2;
    garbage[at..at + 8].fill(0xff);
    let mut nul = whole.clone();
    nul.extend([0; 200]);
    let mut stray = whole.clone();
    stray.push(b']');
    let deep = format!("[{}1{}]", "[".repeat(100_000), "]".repeat(100_000));
    let hostile = br#"[7,null,"x",[],{},{"role":[],"content":7,"ts":{}},{"role":"user","content":[{"type":"tool_result","content":{"a":1}},{"type":7}],"ts":1e400},{"say":7,"ts":-1},{"type":"reasoning","summary":[7]}]"#;
    for (bytes, least) in [
        (&whole[..whole.len() - 1], 7),
        (&whole[..whole.len() / 2], 2),
        (&garbage[..], 3),
        (&nul[..], 7),
        (&stray[..], 7),
        (&b"null"[..], 0),
        (&b""[..], 0),
        (&b"{}"[..], 0),
        (deep.as_bytes(), 0),
        (&hostile[..], 0),
        (&[0; 64][..], 0),
    ] {
        for name in ["ui_messages.json", "api_conversation_history.json"] {
            let s = Sandbox::new();
            s.put(&format!("{CLINE}/tasks/{TASK}/{name}"), bytes);
            s.run(&["index", "--json"]).expect(0);
            s.run(&["mirror", "verify", "--deep", "--json"]).expect(0);
            if least > 0 {
                let native = natives(&s)[0].clone();
                assert!(said(&s, &native).len() >= least, "{:?}", said(&s, &native));
                accounted(&s, &native, bytes.len() as u64);
            }
        }
    }
    // The command line's files, cut.
    let file = sample(&format!("{CLI}/sessions/{CLI_ID}/{CLI_ID}.messages.json"));
    for cut in [file.len() - 5, file.len() / 2, 300, 1] {
        let s = Sandbox::new();
        s.put(
            &format!(".cline/data/sessions/{CLI_ID}/{CLI_ID}.messages.json"),
            &file[..cut],
        );
        s.run(&["index", "--json"]).expect(0);
        if cut > 1000 {
            assert_eq!(natives(&s), [CLI_ID]);
            accounted(&s, CLI_ID, cut as u64);
        }
    }
}
