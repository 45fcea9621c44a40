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
