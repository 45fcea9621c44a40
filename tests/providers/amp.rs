//! Amp: threads, and a machine that has none any more.

use serde_json::{Value, json};

use crate::home::{accounted, index, natives, said, settled, show};
use crate::sandbox::Sandbox;

const ID: &str = "T-5f2b7a10-1c1e-4b52-9d11-0a2b3c4d5e6f";

fn thread() -> Value {
    json!({
        "v": 7, "id": ID, "created": 1_760_000_000_000_i64, "title": "Fix the retry loop",
        "agentMode": "smart",
        "env": {"initial": {"trees": [{"uri": "file:///home/u/my%20repo", "repository": {"ref": "main"}}],
            "platform": {"clientVersion": "0.0.1759"}}},
        "messages": [
            {"role": "user", "messageId": 0, "content": [{"type": "text", "text": "fix it"}],
             "meta": {"sentAt": 1_760_000_001_000_i64}},
            {"role": "assistant", "messageId": 1, "content": [
                {"type": "thinking", "thinking": "hm", "signature": "x"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"cmd": "ls"}}],
             "state": {"type": "complete"},
             "usage": {"model": "m-1", "outputTokens": 5, "timestamp": "2025-10-09T08:53:25.000Z"}},
            {"role": "user", "messageId": 2, "content": [
                {"type": "tool_result", "toolUseID": "toolu_1", "run": {"status": "done", "result": {"output": "a"}}}]},
            {"role": "user", "messageId": 3, "content": [
                {"type": "tool_result", "toolUseID": "toolu_2", "run": {"status": "error", "error": "gone"}}]},
            {"role": "info", "messageId": 4, "content": [
                {"type": "summary", "summary": {"type": "message", "summary": "so far"}}]},
            {"role": "user", "messageId": 5, "content": [{"type": "text", "text": "go on"}]},
            {"role": "user", "messageId": 6, "content": [{"type": "text", "text": "go on"}]}
        ]
    })
}

fn put(s: &Sandbox, root: &str, thread: &Value) -> u64 {
    let text = serde_json::to_vec_pretty(thread).unwrap();
    s.put(&format!("{root}/{ID}.json"), &text);
    text.len() as u64
}

const THREADS: &str = ".local/share/amp/threads";

#[test]
fn a_thread_is_read_and_accounted_for() {
    let s = Sandbox::new();
    let bytes = put(&s, THREADS, &thread());
    index(&s);
    settled(&s);
    assert_eq!(natives(&s), [ID]);
    accounted(&s, ID, bytes);
    assert_eq!(
        said(&s, ID),
        [
            "user/text: fix it",
            "assistant/reasoning: hm",
            "assistant/text: I look.",
            "assistant/tool-call: {\n            \"cmd\": \"ls\"\n          }",
            "tool/tool-result: {\n              \"output\": \"a\"\n            }",
            "tool/tool-result: gone",
            "system/summary: so far",
            "user/text: go on",
            "user/text: go on",
        ]
    );
    let session = &show(&s, ID)["session"];
    assert_eq!(show(&s, ID)["harness_version"], "0.0.1759");
    assert_eq!(session["title"], "Fix the retry loop");
    assert_eq!(session["workspace"], "/home/u/my repo");
    for at in ["started_at", "ended_at"] {
        assert!(
            session[at].as_str().unwrap().starts_with("2025-10-09"),
            "{session}"
        );
    }
}

#[test]
fn a_thread_that_is_written_anew_gives_versions() {
    let s = Sandbox::new();
    put(&s, THREADS, &thread());
    index(&s);
    let mut newer = thread();
    newer["v"] = json!(9);
    newer["title"] = json!("Renamed");
    newer["messages"][0]["content"][0]["text"] = json!("fix it now");
    newer["messages"].as_array_mut().unwrap().push(
        json!({"role": "assistant", "messageId": 7, "content": [{"type": "text", "text": "done"}]}),
    );
    put(&s, THREADS, &newer);
    crate::sandbox::age(&s.home().join(THREADS).join(format!("{ID}.json")), 1800);
    index(&s);
    settled(&s);
    let alone = Sandbox::new();
    put(&alone, THREADS, &newer);
    index(&alone);
    let (mut both, mut newest) = (said(&s, ID), said(&alone, ID));
    both.sort();
    newest.sort();
    assert_eq!(both, newest);
    assert_eq!(show(&s, ID)["session"]["title"], "Renamed");
    // Emptied: nothing is lost.
    s.put(&format!("{THREADS}/{ID}.json"), b"{}");
    index(&s);
    assert_eq!(said(&s, ID).len(), both.len());
}

#[test]
fn other_folders_are_named_by_variables() {
    for (variable, value, root) in [
        ("AMP_THREADS_DIR", "elsewhere", "elsewhere"),
        ("XDG_DATA_HOME", "xdg", "xdg/amp/threads"),
    ] {
        let s = Sandbox::new();
        put(&s, root, &thread());
        let mut c = s.command(&["index", "--json"]);
        c.env(variable, s.home().join(value));
        crate::sandbox::ran(c.output().unwrap()).expect(0);
        assert_eq!(natives(&s), [ID], "{variable}");
    }
}

#[test]
fn a_machine_without_threads_is_told_from_one_without_the_harness() {
    let state = |s: &Sandbox| -> (String, bool) {
        let check = s.run(&["doctor", "check", "--json"]).json;
        let all = check["source_inventory"]["providers"].as_array().unwrap();
        let state = all
            .iter()
            .find(|p| p["provider"] == "amp")
            .map_or("", |p| p["state"].as_str().unwrap());
        let told = check["findings"]
            .as_array()
            .unwrap()
            .iter()
            .any(|f| f["code"] == "remote-only");
        (state.to_owned(), told)
    };
    let s = Sandbox::new();
    assert_ne!(state(&s).0, "no-local-data");
    std::fs::create_dir_all(s.home().join(".local/share/amp/threads")).unwrap();
    assert_eq!(state(&s), ("no-local-data".to_owned(), true));
    put(&s, THREADS, &thread());
    assert_eq!(state(&s), ("newer-than-archive".to_owned(), false));
    index(&s);
    assert_eq!(state(&s), ("ok".to_owned(), false));
    // What was taken away is in the mirror.
    std::fs::remove_file(s.home().join(THREADS).join(format!("{ID}.json"))).unwrap();
    assert_eq!(state(&s), ("pruned".to_owned(), true));
    index(&s);
    assert_eq!(said(&s, ID).len(), 9);
}

#[test]
fn damage_costs_what_it_hit() {
    let whole = serde_json::to_vec(&thread()).unwrap();
    let mut nul = whole.clone();
    nul.extend([0; 100]);
    let at = whole.len() / 2;
    let mut garbage = whole.clone();
    garbage[at..at + 10].fill(0xff);
    for (bytes, least) in [
        (&whole[..whole.len() - 3], 8),
        (&whole[..whole.len() / 2], 1),
        (&nul[..], 9),
        (&garbage[..], 5),
        (&b""[..], 0),
        (&b"null"[..], 0),
        (&b"[]"[..], 0),
        (&b"{\"id\":7,\"messages\":7}"[..], 0),
        (&b"{\"messages\":[7,{\"role\":[],\"messageId\":{}},{\"role\":\"user\",\"content\":{}}]}"[..], 0),
        (&[0; 40][..], 0),
    ] {
        let s = Sandbox::new();
        s.put(&format!("{THREADS}/{ID}.json"), bytes);
        s.run(&["index", "--json"]).expect(0);
        if least > 0 {
            assert_eq!(natives(&s), [ID]);
            assert!(said(&s, ID).len() >= least, "{:?}", said(&s, ID));
            accounted(&s, ID, bytes.len() as u64);
        }
    }
}
