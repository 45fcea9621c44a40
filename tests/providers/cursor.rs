//! Cursor: both generations of the editor's databases, the command line's, and transcripts.

use serde_json::Value;

use crate::home::{accounted, count, index, lay, len, messages, natives, said, settled, show};
use crate::sandbox::{Sandbox, sample};

const USER: &str = ".config/Cursor/User";
const OLD: &str = "cursor/slevin48-cursor-history/workspaceStorage/state.vscdb";
const GLOBAL: &str = "cursor/S2thend-cursor-history/composer-global-state.vscdb";
const STORE: &str = "cursor/agent-sessions/test-store.db";
const ID: &str = "00000000-0016-4016-8016-000000000016";

fn global() -> Sandbox {
    let s = Sandbox::new();
    lay(&s, GLOBAL, &format!("{USER}/globalStorage/state.vscdb"));
    s
}

/// A value of the old database, by its key.
fn item(key: &str) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("copy.db");
    std::fs::write(&path, sample(OLD)).unwrap();
    let conn = rusqlite::Connection::open(path).unwrap();
    let value: Vec<u8> = conn
        .query_row(
            "SELECT CAST(value AS BLOB) FROM ItemTable WHERE key=?1",
            [key],
            |r| r.get(0),
        )
        .unwrap();
    serde_json::from_slice(&value).unwrap()
}

#[test]
fn a_conversation_of_rows_is_read_in_its_own_order() {
    let s = global();
    index(&s);
    settled(&s);
    assert_eq!(natives(&s), [ID]);
    assert_eq!(
        said(&s, ID),
        [
            "user/text: Synthetic question alpha.",
            "assistant/text: Synthetic answer beta.\n```ts\nconst fixtureValue = 16;\n```",
            "assistant/tool-call: {\"path\":\"/fixture/v016/project/synthetic.ts\"}",
            "tool/tool-result: synthetic read result",
            "assistant/tool-call: {\"query\":\"synthetic-token\",\"path\":\"/fixture/v016/project\"}",
            "tool/tool-result: synthetic search result",
            // Not under the name that the list has for them.
            "assistant/text: Composer owns the synthetic collision identity.",
            "user/text: Synthetic empty-ID compatibility turn.",
        ]
    );
    let session = &show(&s, ID)["session"];
    assert_eq!(session["title"], "Synthetic v0.16 Composer session");
    assert_eq!(session["workspace"], "/fixture/v016/project");
    assert!(
        session["started_at"]
            .as_str()
            .unwrap()
            .starts_with("2024-01-16")
    );
    assert!(
        session["ended_at"]
            .as_str()
            .unwrap()
            .starts_with("2024-01-16T00:00:06")
    );
    let a = &show(&s, ID)["sources"][0]["accounting"];
    assert_eq!(
        a["length"].as_u64().unwrap(),
        a["message_bytes"].as_u64().unwrap() + a["known_bytes"].as_u64().unwrap()
    );
}

#[test]
fn conversations_in_one_row_are_sessions_and_their_bubbles_records() {
    let s = Sandbox::new();
    let folder = format!("{USER}/workspaceStorage/0f3c");
    lay(&s, OLD, &format!("{folder}/state.vscdb"));
    s.put(
        &format!("{folder}/workspace.json"),
        br#"{"folder":"file:///c%3A/Users/userxxx/Documents/mobilechat"}"#,
    );
    index(&s);
    settled(&s);
    let composers = item("composer.composerData");
    let chat = item("workbench.panel.aichat.view.aichat.chatdata");
    let mut ids = vec!["0f3c/prompts".to_owned()];
    for (list, id, bubbles, title) in [
        (
            &composers["allComposers"],
            "composerId",
            "conversation",
            "name",
        ),
        (&chat["tabs"], "tabId", "bubbles", "chatTitle"),
    ] {
        for one in list.as_array().unwrap() {
            let native = one[id].as_str().unwrap();
            ids.push(native.to_owned());
            let of = |kinds: [Value; 2]| {
                one[bubbles]
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter(|b| kinds.contains(&b["type"]))
                    .filter(|b| b["text"].as_str().is_some_and(|t| !t.is_empty()))
                    .count()
            };
            assert_eq!(
                count(&s, native, "user", "text"),
                of([Value::from(1), Value::from("user")]),
                "{native}"
            );
            assert_eq!(
                count(&s, native, "assistant", "text"),
                of([Value::from(2), Value::from("ai")]),
                "{native}"
            );
            let session = &show(&s, native)["session"];
            assert_eq!(session["title"], one[title], "{session}");
            assert_eq!(
                session["workspace"],
                "c:/Users/userxxx/Documents/mobilechat"
            );
            assert!(
                session["started_at"]
                    .as_str()
                    .unwrap()
                    .starts_with("2024-11-1"),
                "{session}"
            );
        }
    }
    ids.sort();
    assert_eq!(natives(&s), ids);
    assert_eq!(ids.len(), 26 + chat["tabs"].as_array().unwrap().len() + 1);
    assert_eq!(
        count(&s, "0f3c/prompts", "user", "text"),
        item("aiService.prompts").as_array().unwrap().len()
    );
    // Every byte of the rows belongs to a record or to what is between them.
    let a = &show(&s, &ids[0])["sources"][0]["accounting"];
    let sum: u64 = ["message_bytes", "known_bytes", "separator_bytes"]
        .iter()
        .map(|p| a[p].as_u64().unwrap())
        .sum();
    assert_eq!(a["length"].as_u64().unwrap(), sum, "{a}");
    assert!(a["separator_bytes"].as_u64().unwrap() < 2_000, "{a}");
}

#[test]
fn what_moved_to_the_new_generation_is_said_once() {
    let s = Sandbox::new();
    let old = format!("{USER}/workspaceStorage/0f3c/state.vscdb");
    lay(&s, OLD, &old);
    index(&s);
    let composers = item("composer.composerData");
    let one = &composers["allComposers"][4];
    let id = one["composerId"].as_str().unwrap();
    let before = said(&s, id);
    assert_eq!(before.len(), 4);
    // The editor moves the conversation into rows and leaves a name behind.
    let new = s.home().join(USER).join("globalStorage/state.vscdb");
    std::fs::create_dir_all(new.parent().unwrap()).unwrap();
    let conn = rusqlite::Connection::open(&new).unwrap();
    conn.execute_batch(
        "CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB); \
         CREATE TABLE ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);",
    )
    .unwrap();
    let mut headers = Vec::new();
    for bubble in one["conversation"].as_array().unwrap() {
        let bid = bubble["bubbleId"].as_str().unwrap();
        headers.push(serde_json::json!({"bubbleId": bid, "type": bubble["type"]}));
        conn.execute(
            "INSERT INTO cursorDiskKV VALUES(?1,?2)",
            (format!("bubbleId:{id}:{bid}"), bubble.to_string()),
        )
        .unwrap();
    }
    let data = serde_json::json!({"composerId": id, "name": "renamed", "createdAt": one["createdAt"],
        "fullConversationHeadersOnly": headers, "modelConfig": {"modelName": "m-1"}});
    conn.execute(
        "INSERT INTO cursorDiskKV VALUES(?1,?2)",
        (format!("composerData:{id}"), data.to_string()),
    )
    .unwrap();
    drop(conn);
    let conn = rusqlite::Connection::open(s.home().join(&old)).unwrap();
    conn.execute(
        "UPDATE ItemTable SET value=?1 WHERE key='composer.composerData'",
        [format!(
            r#"{{"allComposers":[{{"composerId":"{id}","name":"renamed"}}]}}"#
        )],
    )
    .unwrap();
    drop(conn);
    index(&s);
    settled(&s);
    assert_eq!(said(&s, id), before);
    assert_eq!(show(&s, id)["session"]["title"], "renamed");
    assert!(
        messages(&s, id)
            .iter()
            .filter(|m| m["role"] == "assistant")
            .all(|m| m["model"] == "m-1")
    );
    // The others are gone from the database and stay here.
    assert_eq!(
        natives(&s).len(),
        26 + item("workbench.panel.aichat.view.aichat.chatdata")["tabs"]
            .as_array()
            .unwrap()
            .len()
            + 1
    );
}

#[test]
fn a_bubble_that_is_replaced_is_a_version_and_the_copy_is_older() {
    let s = global();
    let db = s.home().join(USER).join("globalStorage/state.vscdb");
    // The copy that the editor made at its last start.
    lay(
        &s,
        GLOBAL,
        &format!("{USER}/globalStorage/state.vscdb.backup"),
    );
    let conn = rusqlite::Connection::open(&db).unwrap();
    conn.execute_batch(&format!(
        "UPDATE cursorDiskKV SET value=json_set(value,'$.text','other words') \
         WHERE key='bubbleId:{ID}:native-user-016'; \
         UPDATE cursorDiskKV SET value=json_set(value,'$.name','newer') WHERE key='composerData:{ID}';"
    ))
    .unwrap();
    drop(conn);
    index(&s);
    settled(&s);
    assert_eq!(natives(&s), [ID]);
    let now = said(&s, ID);
    assert_eq!(now.len(), 8);
    assert_eq!(
        now.iter()
            .filter(|t| *t == "user/text: other words")
            .count(),
        1
    );
    assert_eq!(show(&s, ID)["session"]["title"], "newer");
    assert_eq!(show(&s, ID)["sources"].as_array().unwrap().len(), 2);
    // The live one breaks: what the copy holds is still read.
    let s = Sandbox::new();
    lay(
        &s,
        GLOBAL,
        &format!("{USER}/globalStorage/state.vscdb.backup"),
    );
    let mut broken = sample(GLOBAL);
    broken[100..].fill(0);
    s.put(&format!("{USER}/globalStorage/state.vscdb"), &broken);
    let ran = s.run(&["index", "--json"]);
    assert!(matches!(ran.code, 0 | 8), "{}", ran.stderr);
    assert_eq!(said(&s, ID).len(), 8);
}

#[test]
fn settings_and_caches_are_no_records() {
    let s = global();
    let db = s.home().join(USER).join("globalStorage/state.vscdb");
    let conn = rusqlite::Connection::open(&db).unwrap();
    conn.execute_batch(&format!(
        "CREATE TABLE ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB); \
         INSERT INTO ItemTable VALUES('cursorAuth/accessToken','secret'),('aiService.prompts','[]'), \
         ('aiService.generations',NULL); \
         INSERT INTO cursorDiskKV VALUES('agentKv:blob:00','{{}}'),('checkpointId:{ID}:1','{{}}'), \
         ('codeBlockDiff:{ID}:2','{{}}'),('messageRequestContext:{ID}:3',NULL); \
         CREATE TABLE composerHeaders(composerId TEXT PRIMARY KEY, value TEXT); \
         INSERT INTO composerHeaders VALUES('sub','{{\"name\":\"child\",\"createdAt\":1705363200000}}');"
    ))
    .unwrap();
    drop(conn);
    index(&s);
    settled(&s);
    assert_eq!(natives(&s), [ID, "sub"]);
    assert_eq!(said(&s, ID).len(), 8);
    assert_eq!(show(&s, "sub")["session"]["title"], "child");
}

#[test]
fn the_command_lines_store_is_read_in_the_order_of_its_tree() {
    let s = Sandbox::new();
    let folder =
        ".cursor/chats/36e6f82a4f9ae16e16ce627c19e4b65f/a1b2c3d4-e5f6-7890-abcd-ef1234567890";
    lay(&s, STORE, &format!("{folder}/store.db"));
    index(&s);
    let id = "a1b2c3d4-e5f6-7890-abcd-ef1234567890";
    assert_eq!(natives(&s), [id]);
    assert_eq!(show(&s, id)["session"]["title"], "Test Session");
    assert!(
        show(&s, id)["session"]["started_at"]
            .as_str()
            .unwrap()
            .starts_with("2026-04-07")
    );

    let messages = [
        r#"{"role":"system","content":"You are"}"#,
        r#"{"role":"user","content":[{"type":"text","text":"<user_info>\nOS\n</user_info>\n<user_query>\nlist it\n</user_query>"}]}"#,
        r#"{"role":"assistant","content":[{"type":"reasoning","text":"hm"},{"type":"text","text":"ok"},{"type":"tool-call","toolCallId":"t1","toolName":"Shell","args":{"c":"ls"}}]}"#,
        r#"{"role":"tool","content":[{"type":"tool-result","toolCallId":"t1","toolName":"Shell","result":"a b"}]}"#,
        r#"{"role":"assistant","content":"done"}"#,
    ];
    let conn = rusqlite::Connection::open(s.home().join(folder).join("store.db")).unwrap();
    let mut root = Vec::new();
    // Stored in another order than said.
    for (n, text) in messages.iter().enumerate().rev() {
        let id = [u8::try_from(n).unwrap(); 32];
        let hex: String = id.iter().map(|b| format!("{b:02x}")).collect();
        conn.execute("INSERT INTO blobs VALUES(?1,?2)", (hex, text.as_bytes()))
            .unwrap();
    }
    for n in 0..messages.len() {
        root.extend([0x0a, 32]);
        root.extend([u8::try_from(n).unwrap(); 32]);
    }
    conn.execute(
        "INSERT INTO blobs VALUES('ffff',?1),('eeee',x'deadbeef'),('dddd',NULL)",
        [&root],
    )
    .unwrap();
    let meta = format!(
        r#"{{"agentId":"{id}","name":"Named","createdAt":1775522590321,"lastUsedModel":"m-2","latestRootBlobId":"ffff"}}"#
    );
    let hex: String = meta.bytes().map(|b| format!("{b:02x}")).collect();
    conn.execute("UPDATE meta SET value=?1", [hex]).unwrap();
    drop(conn);
    s.put(
        &format!("{folder}/meta.json"),
        br#"{"schemaVersion":1,"title":"Sidecar","cwd":"/home/u/repo"}"#,
    );
    index(&s);
    settled(&s);
    assert_eq!(
        said(&s, id),
        [
            "system/text: You are",
            "meta/text: <user_info>\nOS\n</user_info>",
            "user/text: list it",
            "assistant/reasoning: hm",
            "assistant/text: ok",
            "assistant/tool-call: {\"c\":\"ls\"}",
            "tool/tool-result: a b",
            "assistant/text: done",
        ]
    );
    let session = &show(&s, id)["session"];
    assert_eq!(session["title"], "Named");
    assert_eq!(session["workspace"], "/home/u/repo");
}

#[test]
fn transcripts_are_second_views_and_subagents_have_a_parent() {
    let s = Sandbox::new();
    let folder = ".cursor/projects/home-u-repo/agent-transcripts/test-session";
    let main = "cursor/agent-sessions/test-session.jsonl";
    let sub = "cursor/agent-sessions/subagent-session.jsonl";
    lay(&s, main, &format!("{folder}/test-session.jsonl"));
    lay(
        &s,
        sub,
        &format!("{folder}/subagents/subagent-session.jsonl"),
    );
    index(&s);
    settled(&s);
    let id = "test-session/transcript";
    assert_eq!(natives(&s), ["subagent-session/transcript", id]);
    accounted(&s, id, len(main));
    accounted(&s, "subagent-session/transcript", len(sub));
    let said = said(&s, id);
    assert_eq!(said[0], "user/text: run ls command");
    assert_eq!(count(&s, id, "user", "text"), 2);
    assert_eq!(count(&s, id, "assistant", "tool-call"), 2);
    assert_eq!(count(&s, id, "assistant", "text"), 4);
    for native in [id, "subagent-session/transcript"] {
        let shown = &show(&s, native)["session"];
        assert_eq!(shown["parent_session"], "test-session", "{shown}");
    }
    // It grows, and the same words said again are said twice.
    let path = s.home().join(folder).join("test-session.jsonl");
    let mut text = std::fs::read(&path).unwrap();
    let first = text
        .split_inclusive(|b| *b == b'\n')
        .next()
        .unwrap()
        .to_vec();
    if !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    text.extend(first);
    std::fs::write(&path, &text).unwrap();
    index(&s);
    settled(&s);
    assert_eq!(count(&s, id, "user", "text"), 3);
    accounted(&s, id, text.len() as u64);
}

#[test]
fn transcripts_in_plain_text_are_read_by_their_marks() {
    let text = "user:\n<user_query>\nrun ls\n\nplease\n</user_query>\n\nassistant:\n[Thinking] The \
                person wants\na list.\n\nI run it.\n\nuser: is no mark here\n[Tool call] Shell\n  command: ls\n  \
                where: /tmp\n\n[Tool result] Shell\na\n\nb\n\nA:\nDone.\n\nuser:\nthanks";
    let s = Sandbox::new();
    let rel = ".cursor/projects/p/agent-transcripts/0b.txt";
    s.put(rel, text.as_bytes());
    index(&s);
    settled(&s);
    let id = "0b/transcript";
    assert_eq!(natives(&s), [id]);
    accounted(&s, id, text.len() as u64);
    assert_eq!(
        said(&s, id),
        [
            "user/text: run ls\n\nplease",
            "assistant/reasoning: The person wants\na list.",
            "assistant/text: I run it.\n\nuser: is no mark here",
            "assistant/tool-call: command: ls\n  where: /tmp",
            "tool/tool-result: a\n\nb",
            "assistant/text: Done.",
            "user/text: thanks",
        ]
    );
    assert_eq!(messages(&s, id)[3]["tool_name"], "Shell");
    assert_eq!(show(&s, id)["session"]["parent_session"], "0b");
    // It grows; then it is cut, emptied and filled with anything.
    let grown =
        format!("{text} a lot\n\nassistant:\nDone.\n\nuser:\nthanks\n\nassistant:\nDone.\n\n");
    s.put(rel, grown.as_bytes());
    crate::sandbox::age(&s.home().join(rel), 1800);
    index(&s);
    settled(&s);
    assert_eq!(
        said(&s, id)[5..],
        [
            "assistant/text: Done.",
            "user/text: thanks a lot",
            "assistant/text: Done.",
            "user/text: thanks",
            "assistant/text: Done.",
        ]
    );
    accounted(&s, id, grown.len() as u64);
    let mut odd = grown.clone().into_bytes();
    odd[60..80].fill(0xff);
    odd.extend([0; 100]);
    for bytes in [
        &text.as_bytes()[..70],
        b"",
        &odd,
        b"\n\n\n",
        b"[Tool call]",
        &[0; 50],
    ] {
        let s = Sandbox::new();
        s.put(rel, bytes);
        s.run(&["index", "--json"]).expect(0);
        if let [native] = natives(&s).as_slice() {
            accounted(&s, native, bytes.len() as u64);
        }
    }
}

#[test]
fn torn_and_emptied_transcripts_cost_what_was_hit() {
    let whole = sample("cursor/agent-sessions/test-session.jsonl");
    let lines = |bytes: &[u8]| -> usize {
        bytes
            .split(|b| *b == b'\n')
            .filter(|l| serde_json::from_slice::<Value>(l).is_ok())
            .count()
    };
    let mut garbage = whole.clone();
    garbage[200..260].fill(0xff);
    let mut nul = whole.clone();
    nul.extend([0; 500]);
    for bytes in [
        &whole[..whole.len() - 30],
        &garbage,
        &nul,
        b"",
        b"[1,2]\n",
        b"null",
    ] {
        let s = Sandbox::new();
        s.put(".cursor/projects/p/agent-transcripts/x.jsonl", bytes);
        s.run(&["index", "--json"]).expect(0);
        let found = natives(&s);
        if lines(bytes) > 1 {
            assert_eq!(found, ["x/transcript"]);
            accounted(&s, "x/transcript", bytes.len() as u64);
            assert!(messages(&s, "x/transcript").len() >= lines(bytes) - 1);
        }
    }
}

#[test]
fn damaged_databases_and_values_of_any_type_are_borne() {
    let whole = sample(OLD);
    let mut middle = whole.clone();
    let at = middle.len() / 2;
    middle[at..at + 100].fill(0xa5);
    let mut header = whole.clone();
    header[18..20].fill(9);
    for bytes in [
        &middle,
        &header,
        &whole[..whole.len() - 4096],
        &whole[..50],
        b"",
        b"x",
    ] {
        let s = Sandbox::new();
        s.put(&format!("{USER}/workspaceStorage/a/state.vscdb"), bytes);
        let ran = s.run(&["index", "--json"]);
        assert!(matches!(ran.code, 0 | 8), "{}", ran.stderr);
        s.run(&["mirror", "verify", "--deep", "--json"]).expect(0);
    }
    let s = Sandbox::new();
    let db = s.put(&format!("{USER}/globalStorage/state.vscdb"), b"");
    let conn = rusqlite::Connection::open(&db).unwrap();
    conn.execute_batch(
        "CREATE TABLE cursorDiskKV (key, value); CREATE TABLE ItemTable (key, value);",
    )
    .unwrap();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let nested = format!(r#"{{"conversation":{deep},"conversationMap":{deep}}}"#);
    let map =
        r#"{"conversationMap":{"b1":{"type":1,"text":"in a map"},"b2":7},"conversation":"x"}"#;
    for (key, value) in [
        ("composerData:c1", "null"),
        ("composerData:c2", "not json"),
        ("composerData:c3", &nested),
        ("composerData:c4", map),
        ("composerData:", "{}"),
        (
            "composerData:c5",
            r#"{"fullConversationHeadersOnly":[7,{"bubbleId":[]},{"bubbleId":"b"}]}"#,
        ),
        (
            "bubbleId:c5:b",
            r#"{"type":1,"text":"listed","createdAt":1e400}"#,
        ),
        ("bubbleId:c5:a", r#"{"type":1,"text":{"a":1}}"#),
        ("bubbleId:c6", r#"{"type":2,"text":"short key"}"#),
        ("bubbleId:", "{}"),
    ] {
        conn.execute("INSERT INTO cursorDiskKV VALUES(?1,?2)", (key, value))
            .unwrap();
    }
    conn.execute_batch(
        "INSERT INTO cursorDiskKV VALUES(x'ff',x'ff'),(NULL,NULL),(7,7.5),('bubbleId:c7:x',x'ff'); \
         INSERT INTO ItemTable VALUES('composer.composerData','{\"allComposers\":{}}'), \
         ('workbench.panel.aichat.view.aichat.chatdata','{\"tabs\":[7,{},{\"tabId\":\"t\"}]}'), \
         ('aiService.prompts','[7,{\"text\":[]}]'),('aiService.generations',x'fffe');",
    )
    .unwrap();
    drop(conn);
    index(&s);
    settled(&s);
    assert_eq!(said(&s, "c4"), ["user/text: in a map"]);
    assert_eq!(said(&s, "c5"), ["user/text: listed"]);
    assert_eq!(said(&s, "c6"), ["assistant/text: short key"]);
}
