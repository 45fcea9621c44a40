//! Sessions whose title stands in a file beside their own: renamed there, and nowhere else.

use std::collections::BTreeMap;

use serde_json::json;

use crate::home::{index, lay, natives, settled, show};
use crate::sandbox::Sandbox;

const COPILOT: &str = ".copilot/session-state/11111111-2222-4333-8444-555555555555";
const KIMI: &str = ".kimi-code/sessions/wd_project_ac3bb318f98e";
const OPENCLAW: &str = ".openclaw/agents/main/sessions";
const CLINE: &str = ".config/Code/User/globalStorage/saoudrizwan.claude-dev";
const ROO: &str = ".config/VSCodium/User/globalStorage/rooveterinaryinc.roo-cline";
const CURSOR: &str =
    ".cursor/chats/0123456789abcdef0123456789abcdef/aaaabbbb-1111-4222-8333-ccccddddeeee";

/// Writes the files beside, each with this title in it.
fn titled(s: &Sandbox, title: &str) {
    let store = json!({"agent:main:main": {"sessionId": "openclaw-stage0-large", "label": title}});
    for (path, text) in [
        (
            format!("{COPILOT}/workspace.yaml"),
            format!("id: x\nname: \"{title}\"\n"),
        ),
        (
            format!("{KIMI}/session-b/state.json"),
            json!({"custom_title": title}).to_string(),
        ),
        (format!("{OPENCLAW}/sessions.json"), store.to_string()),
        (
            format!("{CLINE}/state/taskHistory.json"),
            json!([{"id": "1767225600000", "task": title}, {"id": "other", "task": "x"}])
                .to_string(),
        ),
        (
            format!("{ROO}/tasks/1767225700000/history_item.json"),
            json!({"id": "1767225700000", "task": title}).to_string(),
        ),
        (
            format!("{CURSOR}/meta.json"),
            json!({"schemaVersion": 1, "title": title}).to_string(),
        ),
    ] {
        s.put(&path, text.as_bytes());
    }
}

fn titles(s: &Sandbox) -> BTreeMap<String, String> {
    let title = |native: &str| show(s, native)["session"]["title"].clone();
    natives(s)
        .into_iter()
        .map(|n| (n.clone(), title(&n).as_str().unwrap_or_default().to_owned()))
        .collect()
}

#[test]
fn a_title_that_changed_beside_a_session_is_the_sessions_after_the_next_index() {
    let s = Sandbox::new();
    let event = |id: &str| {
        json!({"type": "user.message", "id": id, "parentId": null,
            "data": {"content": "hello"}, "timestamp": "2026-05-05T10:00:00.000Z"})
        .to_string()
    };
    let log = event("u1") + "\n" + &event("u2");
    // Torn: what is accounted for stays so.
    s.put(
        &format!("{COPILOT}/events.jsonl"),
        &log.as_bytes()[..log.len() - 20],
    );
    lay(
        &s,
        "kimi/agent-sessions/session-b",
        &format!("{KIMI}/session-b"),
    );
    lay(&s, "openclaw/agent-sessions", OPENCLAW);
    lay(&s, "cline/deja-vu/legacy", CLINE);
    lay(&s, "roo/deja-vu", ROO);
    let store = s.put(&format!("{CURSOR}/store.db"), b"");
    let conn = rusqlite::Connection::open(store).unwrap();
    conn.execute_batch(
        "CREATE TABLE blobs(id TEXT PRIMARY KEY, data BLOB); \
         CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT);",
    )
    .unwrap();
    conn.execute(
        "INSERT INTO blobs VALUES('aa',?1)",
        [&br#"{"role":"user","content":"hi"}"#[..]],
    )
    .unwrap();
    let meta = br#"{"agentId":"aaaabbbb-1111-4222-8333-ccccddddeeee","createdAt":1775522590321}"#;
    let hex: String = meta.iter().map(|b| format!("{b:02x}")).collect();
    conn.execute("INSERT INTO meta VALUES('0',?1)", [hex])
        .unwrap();
    drop(conn);
    titled(&s, "First name");
    index(&s);
    settled(&s);
    let first = titles(&s);
    let named = first.values().filter(|t| *t == "First name").count();
    assert_eq!(named, 6, "{first:?}");
    let texts =
        |s: &Sandbox| -> Vec<usize> { natives(s).iter().map(|n| s.messages(n).len()).collect() };
    let before = texts(&s);
    titled(&s, "Second name");
    index(&s);
    settled(&s);
    let second = titles(&s);
    for (native, title) in &first {
        let now = if title == "First name" {
            "Second name"
        } else {
            title
        };
        assert_eq!(second[native], now, "{native}");
    }
    assert_eq!(texts(&s), before);
    let listed = s.sessions();
    assert_eq!(
        listed
            .iter()
            .filter(|x| x["title"] == "Second name")
            .count(),
        6
    );

    // A file beside that says the same in other words changes nothing in the archive.
    let ledger = || std::fs::read(s.data().join("coverage.jsonl")).unwrap();
    let promised = ledger();
    s.put(
        &format!("{COPILOT}/workspace.yaml"),
        b"name: \"Second name\"\nid: x\nupdated: now\n",
    );
    index(&s);
    assert!(ledger() == promised);
    // It grows on.
    s.put(&format!("{COPILOT}/events.jsonl"), (log + "\n").as_bytes());
    index(&s);
    settled(&s);
    assert_eq!(titles(&s), second);
}
