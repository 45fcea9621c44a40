//! pi: its samples, its forks, the migration of an old file, damage.

use serde_json::{Value, json};

use crate::home::{accounted, count, index, lay, len, messages, natives, said, settled, show};
use crate::sandbox::{Sandbox, sample};

const SESSIONS: &str = ".pi/agent/sessions";
const HARNESS: &str = "pi/harness-1.6.0/sessions/--tmp-gen_pi-proj--/\
    2026-11-29T16-10-41-373Z_01a22812-a95d-7169-9c70-16edf0099120.jsonl";
const OLD: &str = "pi/pi-mono/before-compaction.jsonl";

fn lines(bytes: &[u8]) -> Vec<Value> {
    bytes
        .split(|b| *b == b'\n')
        .filter_map(|l| serde_json::from_slice(l).ok())
        .collect()
}

/// Blocks of a type in the messages of a role.
fn blocks(lines: &[Value], role: &str, kind: &str) -> usize {
    lines
        .iter()
        .filter(|l| l["message"]["role"] == role)
        .filter_map(|l| l["message"]["content"].as_array())
        .flatten()
        .filter(|b| b["type"] == kind)
        .count()
}

#[test]
fn the_samples_are_read_and_accounted_for() {
    let s = Sandbox::new();
    lay(&s, "pi/harness-1.6.0/sessions", SESSIONS);
    // The old one as a fork would have it.
    lay(
        &s,
        OLD,
        ".omp/agent/sessions/--w--/2025-12-09T00-53-29-825Z_x.jsonl",
    );
    lay(
        &s,
        "pi/agentsview/session.jsonl",
        ".prime/agent/sessions/--p--/session.jsonl",
    );
    index(&s);
    settled(&s);
    assert_eq!(
        natives(&s),
        [
            "01a22812-a95d-7169-9c70-16edf0099120",
            "ffae836b-9420-4060-ac13-7745215f90ff",
            "pi-test-session-uuid",
        ]
    );
    for (native, file) in [
        ("01a22812-a95d-7169-9c70-16edf0099120", HARNESS),
        ("ffae836b-9420-4060-ac13-7745215f90ff", OLD),
        ("pi-test-session-uuid", "pi/agentsview/session.jsonl"),
    ] {
        accounted(&s, native, len(file));
        let lines = lines(&sample(file));
        let role = |role: &str| {
            lines
                .iter()
                .filter(|l| l["message"]["role"] == role)
                .count()
        };
        assert_eq!(count(&s, native, "user", "text"), role("user"), "{native}");
        assert_eq!(
            count(&s, native, "tool", "tool-result"),
            role("toolResult") + role("bashExecution")
        );
        assert_eq!(
            count(&s, native, "assistant", "tool-call"),
            blocks(&lines, "assistant", "toolCall")
        );
        assert_eq!(
            count(&s, native, "user", "tool-call"),
            role("bashExecution")
        );
        let summaries = lines.iter().filter(|l| l["type"] == "compaction").count();
        assert_eq!(count(&s, native, "system", "summary"), summaries);
        let workspace = show(&s, native)["session"]["workspace"].clone();
        assert_eq!(workspace, lines[0]["cwd"]);
        let begun = show(&s, native)["session"]["started_at"].clone();
        let first = lines.iter().filter_map(|l| l["timestamp"].as_str()).min();
        assert_eq!(begun.as_str().unwrap()[..19], first.unwrap()[..19]);
    }
    let parent = show(&s, "pi-test-session-uuid")["parent_session"].clone();
    let exported = s
        .run(&["export", "pi-test-session-uuid", "--format", "json"])
        .expect(0);
    assert_eq!(
        exported.at("/session/parent_session"),
        "parent-uuid",
        "{parent}"
    );
    let thought: Vec<String> = said(&s, "pi-test-session-uuid")
        .into_iter()
        .filter(|t| t.starts_with("assistant/reasoning"))
        .collect();
    assert_eq!(
        thought,
        ["assistant/reasoning: Let me analyze this carefully."]
    );
}

#[test]
fn calls_and_results_pair_and_the_graph_is_kept() {
    let s = Sandbox::new();
    lay(&s, "pi/harness-1.6.0/sessions", SESSIONS);
    index(&s);
    let id = "01a22812-a95d-7169-9c70-16edf0099120";
    let all = messages(&s, id);
    for call in all.iter().filter(|m| m["kind"] == "tool-call") {
        assert_eq!(call["model"], "mock-1");
        let results = all
            .iter()
            .filter(|m| m["kind"] == "tool-result" && m["call_id"] == call["call_id"]);
        assert_eq!(results.count(), 1, "{call}");
    }
    let by: Vec<(&Value, &Value)> = lines(&sample(HARNESS))
        .iter()
        .filter(|l| l["type"] == "message")
        .filter_map(|l| {
            let m = all.iter().find(|m| m["native_id"] == l["id"])?;
            assert_eq!(m["native_parent"], l["parentId"]);
            Some((&m["native_id"], &m["native_parent"]))
        })
        .collect();
    assert!(by.len() > 10);
}

/// What pi does to a file of its first version when it opens it: a version behind the header, ids
/// and parents behind every entry.
fn migrated(old: &[u8]) -> Vec<u8> {
    let mut out = String::new();
    let mut parent = "null".to_owned();
    for (n, line) in std::str::from_utf8(old).unwrap().lines().enumerate() {
        out.push_str(line.strip_suffix('}').unwrap());
        if n == 0 {
            out.push_str(",\"version\":3}\n");
        } else {
            let id = format!("\"{:08x}\"", n * 7919);
            out.push_str(&format!(",\"id\":{id},\"parentId\":{parent}}}\n"));
            parent = id;
        }
    }
    out.into_bytes()
}

#[test]
fn a_file_that_is_given_ids_says_nothing_twice() {
    let s = Sandbox::new();
    let old = sample(OLD);
    let path = format!("{SESSIONS}/--w--/2025-12-09T00-53-29-825Z_x.jsonl");
    let id = "ffae836b-9420-4060-ac13-7745215f90ff";
    s.put(&path, &old);
    index(&s);
    let before = said(&s, id);
    let mut new = migrated(&old);
    s.put(&path, &new);
    index(&s);
    assert!(said(&s, id) == before);
    assert_eq!(natives(&s), [id]);
    // And it goes on from there.
    let more = json!({"type":"message","id":"aaaa0001","parentId":format!("{:08x}", 1002 * 7919),
        "timestamp":"2026-01-02T03:04:05.000Z","message":{"role":"user","content":"and now"}});
    new.extend_from_slice(format!("{more}\n").as_bytes());
    s.put(&path, &new);
    index(&s);
    settled(&s);
    assert_eq!(said(&s, id).len(), before.len() + 1);
    let all = messages(&s, id);
    let last = all.last().unwrap();
    assert_eq!(last["text"], "and now");
    // Its parent goes by what it was known by before the ids were given.
    let old = lines(&sample(OLD)).pop().unwrap();
    let parent = last["native_parent"].as_str().unwrap();
    assert!(
        parent.starts_with(old["timestamp"].as_str().unwrap()),
        "{parent}"
    );
}

#[test]
fn growth_adds_and_a_changed_entry_supersedes() {
    let s = Sandbox::new();
    let whole = sample(HARNESS);
    let path = format!("{SESSIONS}/--p--/2026-11-29T16-10-41-373Z_x.jsonl");
    let id = "01a22812-a95d-7169-9c70-16edf0099120";
    for cut in [whole.len() / 3, whole.len() / 2, whole.len()] {
        s.put(&path, &whole[..cut]);
        index(&s);
    }
    settled(&s);
    let all = said(&s, id);
    let alone = Sandbox::new();
    alone.put(&path, &whole);
    index(&alone);
    assert!(all == said(&alone, id));
    let text = String::from_utf8(whole).unwrap();
    let changed = text.replace("say what changed", "say what has changed");
    s.put(&path, changed.as_bytes());
    index(&s);
    let again = said(&s, id);
    assert_eq!(again.len(), all.len());
    assert!(again.iter().any(|t| t == "user/text: say what has changed"));
}

#[test]
fn names_titles_and_texts_of_extensions() {
    let s = Sandbox::new();
    let lines = [
        json!({"type":"title","title":"short"}),
        json!({"type":"session","version":3,"id":"sub","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}),
        json!({"type":"session_info","id":"1","parentId":null,"timestamp":"2026-01-01T00:00:01.000Z","name":"A name"}),
        json!({"type":"custom_message","id":"2","parentId":"1","customType":"x","content":"injected","timestamp":"2026-01-01T00:00:02.000Z"}),
        json!({"type":"message","id":"3","parentId":"2","timestamp":"2026-01-01T00:00:03.000Z","message":{"role":"user","content":[
            {"type":"text","text":"look"},{"type":"image","mimeType":"image/png","data":"aGVsbG8="}]}}),
        json!({"type":"branch_summary","id":"4","parentId":"3","summary":"went there","timestamp":"2026-01-01T00:00:04.000Z"}),
        json!({"type":"label","id":"5","parentId":"4","targetId":"3","label":"L","timestamp":"2026-01-01T00:00:05.000Z"}),
        json!({"type":"message","id":"6","parentId":"2","timestamp":"2026-01-01T00:00:06.000Z","message":{"role":"hookMessage","content":"hooked"}}),
        json!({"type":"brand_new","id":"7","parentId":"6","text":"kept","timestamp":"2026-01-01T00:00:07.000Z"}),
    ];
    let text: String = lines.iter().map(|l| format!("{l}\n")).collect();
    s.put(
        &format!("{SESSIONS}/--w--/2026-01-01T00-00-00-000Z_main-id/Task.jsonl"),
        text.as_bytes(),
    );
    index(&s);
    let said = said(&s, "sub");
    assert_eq!(
        said,
        [
            "meta/text: injected".to_owned(),
            "user/text: look".to_owned(),
            format!(
                "user/attachment: [image/png, 5 bytes, blake3 {}]",
                blake3::hash(b"hello")
            ),
            "system/summary: went there".to_owned(),
            "meta/text: hooked".to_owned(),
        ]
    );
    let exported = s.run(&["export", "sub", "--format", "json"]).expect(0);
    assert_eq!(exported.at("/session/title"), "A name");
    assert_eq!(exported.at("/session/parent_session"), "main-id");
    let a = &show(&s, "sub")["sources"][0]["accounting"];
    assert!(a["unknown_bytes"].as_u64().unwrap() > 0);
}

#[test]
fn damage_costs_no_more_than_it_touches() {
    let whole = sample(HARNESS);
    let id = "01a22812-a95d-7169-9c70-16edf0099120";
    let ends: Vec<usize> = whole
        .iter()
        .enumerate()
        .filter(|(_, b)| **b == b'\n')
        .map(|(n, _)| n + 1)
        .collect();
    let (fifth, sixth) = (ends[4], ends[5]);
    let with = |middle: &[u8]| [&whole[..fifth], middle, &whole[fifth..]].concat();
    let cases = [
        ("torn", whole[..whole.len() - 37].to_vec()),
        ("nul tail", [&whole[..], &[0; 4096]].concat()),
        ("nul hole", with(&[0; 700])),
        ("garbage", with(b"\xff\xfe no json at all\n")),
        ("glued", [&whole[..fifth - 1], &whole[fifth..]].concat()),
        ("header cut", whole[30..].to_vec()),
        ("twice", with(&whole[fifth..sixth])),
        ("bom", [b"\xef\xbb\xbf", &whole[..]].concat()),
    ];
    let mut clean = 0;
    for (name, bytes) in cases {
        let s = Sandbox::new();
        s.put(
            &format!("{SESSIONS}/--p--/2026-11-29T16-10-41-373Z_{id}.jsonl"),
            &bytes,
        );
        index(&s);
        settled(&s);
        assert_eq!(natives(&s), [id], "{name}");
        accounted(&s, id, bytes.len() as u64);
        let said = said(&s, id).len();
        if name == "torn" {
            clean = said + 1;
        } else {
            assert_eq!(said, clean, "{name}");
        }
    }
    for odd in [
        &b""[..],
        b"\n",
        b"[1,2]\n",
        b"null\n{\"type\":5}\n{\"type\":\"message\",\"message\":7}\n{\"type\":\"message\",\"message\":{\"role\":\"user\",\"content\":{}}}\n",
        b"{\"type\":\"session\",\"id\":{}}\n{\"type\":\"message\",\"message\":{\"role\":\"toolResult\",\"content\":[1,[],null,{}]}}\n",
    ] {
        let s = Sandbox::new();
        s.put(&format!("{SESSIONS}/--p--/2026_x.jsonl"), odd);
        s.run(&["index", "--json"]).expect(0);
        s.run(&["mirror", "verify", "--deep", "--json"]).expect(0);
    }
}

#[test]
fn a_deep_and_a_huge_value_are_data() {
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    let huge = "x".repeat(3 << 20);
    let text = format!(
        "{{\"type\":\"session\",\"version\":3,\"id\":\"h\",\"timestamp\":\"2026-01-01T00:00:00Z\"}}\n\
         {{\"type\":\"custom\",\"id\":\"1\",\"data\":{deep}}}\n\
         {{\"type\":\"message\",\"id\":\"2\",\"timestamp\":99999999999999999999,\"message\":{{\"role\":\"user\",\"content\":\"{huge}\"}}}}\n"
    );
    let s = Sandbox::new();
    s.put(&format!("{SESSIONS}/--p--/2026_h.jsonl"), text.as_bytes());
    index(&s);
    assert_eq!(count(&s, "h", "user", "text"), 1);
    accounted(&s, "h", text.len() as u64);
}

#[test]
fn the_variables_move_the_folders() {
    for (variable, to) in [
        (
            "PI_CODING_AGENT_DIR",
            "elsewhere/sessions/--p--/2026_x.jsonl",
        ),
        ("PI_CODING_AGENT_SESSION_DIR", "elsewhere/2026_x.jsonl"),
    ] {
        let s = Sandbox::new();
        lay(&s, HARNESS, to);
        let mut c = s.command(&["index", "--json"]);
        c.env(variable, s.home().join("elsewhere"));
        let ran = crate::sandbox::ran(c.output().unwrap()).expect(0);
        assert_eq!(ran.number("/sources/captured"), 1, "{variable}");
    }
}
