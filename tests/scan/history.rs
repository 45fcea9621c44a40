//! Sessions that a harness's own history names and that nothing holds.

use std::path::PathBuf;

use serde_json::Value;

use crate::made::{claude, id, rows, scan};
use crate::sandbox::{Ran, Sandbox, age, snapshot};

fn missing(ran: &Ran) -> Vec<String> {
    let list = ran.at("/missing_sessions").as_array().unwrap();
    assert_eq!(
        ran.number("/missing_sessions_page/total"),
        list.len() as u64
    );
    let mut ids: Vec<_> = list
        .iter()
        .map(|m| m["native_id"].as_str().unwrap().to_owned())
        .collect();
    ids.sort();
    ids
}

fn one(ran: &Ran, native: &str) -> Value {
    rows(ran.at("/missing_sessions"), "native_id", native)[0].clone()
}

fn prompts(ids: &[String]) -> Vec<u8> {
    let mut text: String = ids
        .iter()
        .map(|id| {
            format!("{{\"display\":\"secret words\",\"timestamp\":1,\"sessionId\":\"{id}\"}}\n")
        })
        .collect();
    text += "{\"display\":\"an old entry\"}\nno json\n{\"sessionId\":\"";
    text.into_bytes()
}

#[test]
fn claude_prompts_name_sessions_whose_files_are_gone() {
    let sandbox = Sandbox::new();
    claude(&sandbox, 1, 2);
    let named: Vec<String> = [1, 2, 2, 3].map(id).into();
    let history = sandbox.put(".claude/history.jsonl", &prompts(&named));
    // Not indexed: the live file says it.
    let ran = scan(&sandbox, &[]).expect(0);
    assert_eq!(missing(&ran), [id(2), id(3)]);
    let row = one(&ran, &id(2));
    assert_eq!(
        (&row["mentions"], &row["named_by"]),
        (&2.into(), &serde_json::json!(["prompts"]))
    );
    assert_eq!(
        row["helps"],
        serde_json::json!(["prompts-in-live-file", "home-backup"])
    );
    // Captured: the mirror says it, also when the harness's file is gone.
    sandbox.run(&["index"]).expect(0);
    let ran = scan(&sandbox, &[]).expect(0);
    assert_eq!(missing(&ran), [id(2), id(3)]);
    assert_eq!(
        ran.at("/missing_sessions_evidence"),
        &serde_json::json!(
        {"captured": 1, "live": 0, "unreadable": 0, "total_is_lower_bound": false})
    );
    let row = one(&ran, &id(3));
    assert_eq!(
        row["helps"],
        serde_json::json!(["prompts-in-mirror", "home-backup"])
    );
    // The key leads to the captured prompts.
    let key = row["history"].as_str().unwrap();
    assert_eq!(sandbox.get(std::path::Path::new(key), 1), prompts(&named));
    std::fs::remove_file(&history).unwrap();
    assert_eq!(missing(&scan(&sandbox, &[])), [id(2), id(3)]);
    // A session that is archived and pruned is not missing, nor is one that came since.
    std::fs::remove_file(
        sandbox
            .home()
            .join(format!(".claude/projects/-src/{}.jsonl", id(1))),
    )
    .unwrap();
    claude(&sandbox, 3, 1);
    assert_eq!(missing(&scan(&sandbox, &[])), [id(2)]);
    // They are told calmly: nothing brings them back.
    assert_eq!(scan(&sandbox, &[]).text("/status"), "ok");
}

#[test]
fn a_history_that_grew_since_is_read_where_it_is() {
    let sandbox = Sandbox::new();
    sandbox.put(".claude/history.jsonl", &prompts(&[id(1)]));
    sandbox.run(&["index"]).expect(0);
    sandbox.put(".claude/history.jsonl", &prompts(&[id(1), id(2)]));
    let ran = scan(&sandbox, &[]);
    assert_eq!(missing(&ran), [id(1), id(2)]);
    assert_eq!(ran.number("/missing_sessions_evidence/live"), 1);
    assert_eq!(one(&ran, &id(2))["helps"][0], "prompts-in-live-file");
    // What a rule excludes is not read.
    sandbox.put(
        ".config/cass/config.toml",
        b"exclude = [\"**/history.jsonl\"]\n",
    );
    assert_eq!(missing(&scan(&sandbox, &[])), [id(1)]);
}

fn uuid(n: u32) -> String {
    format!("01a22811-2cde-7e10-9e32-{n:012}")
}

fn rollout(n: u32) -> (String, Vec<u8>) {
    let id = uuid(n);
    let rel = format!(".codex/sessions/2026/11/29/rollout-2026-11-29T16-09-03-{id}.jsonl");
    let text = format!(
        "{{\"timestamp\":\"2026-11-29T16:09:03.000Z\",\"type\":\"session_meta\",\"payload\":\
         {{\"id\":\"{id}\",\"cwd\":\"/src\",\"cli_version\":\"0.171.0\",\"source\":\"cli\"}}}}\n\
         {{\"timestamp\":\"2026-11-29T16:09:04.000Z\",\"type\":\"response_item\",\"payload\":\
         {{\"type\":\"message\",\"role\":\"user\",\"content\":[{{\"type\":\"input_text\",\
         \"text\":\"secret words\"}}]}}}}\n"
    );
    (rel, text.into_bytes())
}

/// The harness's table of threads, its rows in the WAL alone, as a running harness leaves them.
fn threads(sandbox: &Sandbox, files: &[(String, PathBuf)]) -> rusqlite::Connection {
    let path = sandbox.home().join(".codex/state_5.sqlite");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.execute_batch(
        "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0; CREATE TABLE IF NOT EXISTS \
         threads(id TEXT PRIMARY KEY, rollout_path TEXT NOT NULL, title TEXT NOT NULL)",
    )
    .unwrap();
    for (id, file) in files {
        let file = file.to_str().unwrap();
        conn.execute(
            "INSERT INTO threads VALUES(?1,?2,'secret words')",
            [id, file],
        )
        .unwrap();
    }
    for suffix in ["", "-wal"] {
        age(
            &sandbox
                .home()
                .join(format!(".codex/state_5.sqlite{suffix}")),
            3600,
        );
    }
    conn
}

#[test]
fn codex_threads_prompts_and_index_name_sessions_whose_files_are_gone() {
    let sandbox = Sandbox::new();
    let (rel, text) = rollout(1);
    let there = sandbox.put(&rel, &text);
    let gone = sandbox.home().join(rollout(2).0);
    // One whose file lies where no root leads is held by that file.
    let moved = sandbox.put("elsewhere/rollout-x.jsonl", b"{}\n");
    let rows = [(uuid(1), there), (uuid(2), gone), (uuid(5), moved)];
    let conn = threads(&sandbox, &rows);
    let line = |n, key: &str| format!("{{\"{key}\":\"{}\",\"text\":\"secret words\"}}\n", uuid(n));
    let text = line(1, "session_id") + &line(2, "session_id") + &line(3, "session_id");
    sandbox.put(".codex/history.jsonl", text.as_bytes());
    sandbox.put(
        ".codex/session_index.jsonl",
        (line(2, "id") + &line(4, "id")).as_bytes(),
    );
    let before = snapshot(&sandbox.home());
    let live = scan(&sandbox, &[]).expect(0);
    assert_eq!(missing(&live), [uuid(2), uuid(3), uuid(4)]);
    assert_eq!(
        one(&live, &uuid(2))["helps"],
        serde_json::json!(["prompts-in-live-file", "title-in-live-file", "home-backup"])
    );
    assert_eq!(
        snapshot(&sandbox.home()),
        before,
        "the database was opened where it lies"
    );
    sandbox.run(&["index"]).expect(0);
    let ran = scan(&sandbox, &[]).expect(0);
    assert_eq!(missing(&ran), [uuid(2), uuid(3), uuid(4)]);
    let row = one(&ran, &uuid(2));
    assert_eq!(
        row["named_by"],
        serde_json::json!(["prompts", "session-table", "session-index"])
    );
    assert_eq!(
        row["helps"],
        serde_json::json!(["prompts-in-mirror", "title-in-mirror", "home-backup"])
    );
    assert!(
        row["file"]
            .as_str()
            .unwrap()
            .starts_with("~/.codex/sessions/"),
        "{row}"
    );
    assert_eq!(ran.number("/missing_sessions_evidence/captured"), 3);
    assert_eq!(ran.number("/missing_sessions_evidence/live"), 0);
    assert_eq!(ran.number("/missing_sessions_evidence/unreadable"), 0);
    // A row that came since is in the live WAL alone.
    let path = sandbox.home().join(rollout(6).0);
    conn.execute(
        "INSERT INTO threads VALUES(?1,?2,'t')",
        [uuid(6), path.to_str().unwrap().to_owned()],
    )
    .unwrap();
    let ran = scan(&sandbox, &[]).expect(0);
    assert_eq!(missing(&ran), [uuid(2), uuid(3), uuid(4), uuid(6)]);
    drop(conn);
}

#[test]
fn a_history_that_is_damaged_costs_itself_alone() {
    let sandbox = Sandbox::new();
    sandbox.put(
        ".codex/state_5.sqlite",
        &[b"SQLite format 3\0".as_slice(), &[7; 4096]].concat(),
    );
    sandbox.put(
        ".gemini/tmp/p/logs.json",
        b"[{\"sessionId\":\"aaaaaaaa-1\"},{\"sessionId\":",
    );
    sandbox.put(".claude/history.jsonl", &prompts(&[id(1)]));
    for _ in 0..2 {
        let ran = scan(&sandbox, &[]).expect(0);
        assert_eq!(ran.number("/missing_sessions_evidence/unreadable"), 2);
        assert_eq!(missing(&ran), [id(1), "aaaaaaaa-1".to_owned()]);
        sandbox.run(&["index"]);
    }
}

#[test]
fn gemini_prompts_name_sessions_whose_files_are_gone() {
    let sandbox = Sandbox::new();
    let ids = [
        "11111111-2222-4333-8444-555555555555",
        "99999999-2222-4333-8444-555555555555",
    ];
    let chat = format!(
        "{{\"sessionId\":\"{}\",\"projectHash\":\"h\",\"startTime\":\"2026-11-01T10:00:00Z\",\
         \"lastUpdated\":\"2026-11-01T10:00:00Z\",\"messages\":[{{\"id\":\"m\",\"type\":\"user\",\
         \"timestamp\":\"2026-11-01T10:00:00Z\",\"content\":\"secret words\"}}]}}",
        ids[0]
    );
    sandbox.put(
        ".gemini/tmp/p/chats/session-2026-11-01T10-00-11111111.json",
        chat.as_bytes(),
    );
    let logs = ids.map(|id| {
        format!("{{\"sessionId\":\"{id}\",\"messageId\":0,\"message\":\"secret words\"}}")
    });
    sandbox.put(
        ".gemini/tmp/p/logs.json",
        format!("[{}]", logs.join(",")).as_bytes(),
    );
    assert_eq!(missing(&scan(&sandbox, &[])), [ids[1]]);
    sandbox.run(&["index"]).expect(0);
    let ran = scan(&sandbox, &[]).expect(0);
    assert_eq!(missing(&ran), [ids[1]]);
    assert_eq!(one(&ran, ids[1])["provider"], "gemini");
    assert_eq!(missing(&scan(&sandbox, &["--agent", "claude"])), [""; 0]);
}
