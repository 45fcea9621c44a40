//! Goose: the database and the files before it.

use serde_json::Value;

use crate::home::{accounted, count, index, lay, len, messages, natives, said, settled, show};
use crate::sandbox::{Sandbox, sample};

const ROOT: &str = ".local/share/goose/sessions";
const LOG: &str = "goose/deja-vu/20250724_1.jsonl";
const ID: &str = "20250724_1";

/// The tables as the harness makes them.
const SCHEMA: &str = "CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT NOT NULL DEFAULT '', \
    description TEXT NOT NULL DEFAULT '', session_type TEXT NOT NULL DEFAULT 'user', \
    working_dir TEXT NOT NULL, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, \
    updated_at TIMESTAMP, parent_session_id TEXT, archived_at TIMESTAMP, recipe_json TEXT); \
    CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, \
    session_id TEXT NOT NULL, role TEXT NOT NULL, content_json TEXT NOT NULL, \
    created_timestamp INTEGER NOT NULL, timestamp TIMESTAMP, tokens INTEGER, metadata_json TEXT); \
    CREATE TABLE usage_ledger (id INTEGER PRIMARY KEY, session_id TEXT, total INTEGER, \
    created_at TIMESTAMP);";

fn database(s: &Sandbox, root: &str) -> rusqlite::Connection {
    let folder = s.home().join(root);
    std::fs::create_dir_all(&folder).unwrap();
    let conn = rusqlite::Connection::open(folder.join("sessions.db")).unwrap();
    conn.execute_batch(SCHEMA).unwrap();
    conn
}

fn talk(conn: &rusqlite::Connection) {
    conn.execute_batch(
        r#"INSERT INTO sessions(id,name,working_dir,created_at) VALUES
        ('20260920_1','Retry loop','/home/u/p','2026-09-20 10:00:00');
        INSERT INTO sessions(id,description,working_dir,session_type,created_at,parent_session_id)
        VALUES('20260920_2','Child','/home/u/p','sub_agent','2026-09-20 10:01:00','20260920_1');
        INSERT INTO messages(message_id,session_id,role,content_json,created_timestamp,metadata_json) VALUES
        ('m1','20260920_1','user','[{"type":"text","text":"fix the retry loop"}]',1789898400,'{"userVisible":true}'),
        ('m2','20260920_1','assistant','[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"ok"},{"type":"toolRequest","id":"c1","toolCall":{"status":"success","value":{"name":"shell","arguments":{"command":"go test"}}}}]',1789898401000,NULL),
        ('m3','20260920_1','user','[{"type":"toolResponse","id":"c1","toolResult":{"status":"success","value":{"content":[{"type":"text","text":"undefined: x"}],"isError":true}}}]',1789898402,NULL),
        ('m4','20260920_1','user','[{"type":"text","text":"summary so far"}]',1789898403,'{"userVisible":false,"agentVisible":true}'),
        (NULL,'20260920_2','user','[{"type":"text","text":"look"}]',1789898460,NULL),
        (NULL,'20260920_2','user','[{"type":"text","text":"look"}]',1789898460,NULL);
        INSERT INTO usage_ledger VALUES(1,'20260920_1',12,'2026-09-20 10:00:02');"#,
    )
    .unwrap();
}

#[test]
fn the_database_is_read() {
    let s = Sandbox::new();
    drop({
        let conn = database(&s, ROOT);
        talk(&conn);
        conn
    });
    index(&s);
    settled(&s);
    let (one, two) = ("20260920_1", "20260920_2");
    assert_eq!(natives(&s), [one, two]);
    assert_eq!(
        said(&s, one),
        [
            "user/text: fix the retry loop",
            "assistant/reasoning: hm",
            "assistant/text: ok",
            "assistant/tool-call: {\"command\":\"go test\"}",
            "tool/tool-result: undefined: x",
            "meta/text: summary so far",
        ]
    );
    // Said twice within a second.
    assert_eq!(count(&s, two, "user", "text"), 2);
    let session = &show(&s, one)["session"];
    assert_eq!(session["title"], "Retry loop");
    assert_eq!(session["workspace"], "/home/u/p");
    for at in ["started_at", "ended_at"] {
        assert!(
            session[at]
                .as_str()
                .unwrap()
                .starts_with("2026-09-20T10:00"),
            "{session}"
        );
    }
    let child = &show(&s, two)["session"];
    assert_eq!(child["parent_session"], one);
    assert_eq!(child["title"], "Child");
    let a = &show(&s, one)["sources"][0]["accounting"];
    assert_eq!(
        a["length"].as_u64().unwrap(),
        a["message_bytes"].as_u64().unwrap() + a["known_bytes"].as_u64().unwrap()
    );
    let all = messages(&s, one);
    let failed: Vec<&Value> = all.iter().filter(|m| m["kind"] == "tool-result").collect();
    assert_eq!(failed[0]["call_id"], "c1");
    assert_eq!(failed[0]["is_error"], true);
}

#[test]
fn rows_that_change_are_versions_and_deleted_ones_stay() {
    let s = Sandbox::new();
    let conn = database(&s, ROOT);
    talk(&conn);
    index(&s);
    conn.execute_batch(
        r#"UPDATE messages SET content_json='[{"type":"text","text":"other words"}]' WHERE message_id='m1';
        UPDATE messages SET content_json='[{"type":"text","text":"look there"}]' WHERE id=6;
        DELETE FROM messages WHERE message_id='m4';"#,
    )
    .unwrap();
    index(&s);
    settled(&s);
    let now = said(&s, "20260920_1");
    assert_eq!(now.len(), 6);
    assert!(now.contains(&"user/text: other words".to_owned()));
    assert!(now.contains(&"meta/text: summary so far".to_owned()));
    let mut now = said(&s, "20260920_2");
    now.sort();
    assert_eq!(now, ["user/text: look", "user/text: look there"]);
    drop(conn);
}

#[test]
fn a_file_of_the_older_generation_is_read() {
    let s = Sandbox::new();
    lay(&s, LOG, &format!("{ROOT}/{ID}.jsonl"));
    index(&s);
    settled(&s);
    assert_eq!(natives(&s), [ID]);
    accounted(&s, ID, len(LOG));
    assert_eq!(
        said(&s, ID),
        ["user/text: Say hello", "assistant/text: Hello from Goose!"]
    );
    let session = &show(&s, ID)["session"];
    assert_eq!(session["title"], "Synthetic Goose session");
    assert_eq!(session["workspace"], "/workspace/demo");
    assert!(
        session["started_at"]
            .as_str()
            .unwrap()
            .starts_with("2026-07-17T09:00:01")
    );
    assert!(
        session["ended_at"]
            .as_str()
            .unwrap()
            .starts_with("2026-07-24T10:00:00")
    );
}

#[test]
fn what_was_copied_into_the_database_is_said_once() {
    for with_ids in [true, false] {
        let s = Sandbox::new();
        let mut text = String::from_utf8(sample(LOG)).unwrap();
        if !with_ids {
            text = text
                .replace("\"id\":\"msg1\",", "")
                .replace("\"id\":\"msg2\",", "");
        }
        s.put(&format!("{ROOT}/{ID}.jsonl"), text.as_bytes());
        index(&s);
        let before = said(&s, ID);
        assert_eq!(before.len(), 2);
        let conn = database(&s, ROOT);
        conn.execute(
            "INSERT INTO sessions(id,description,working_dir,created_at) VALUES(?1,'Synthetic Goose session','/workspace/demo','2026-07-24 10:00:00')",
            [ID],
        )
        .unwrap();
        for (n, line) in text.lines().skip(1).enumerate() {
            let v: Value = serde_json::from_str(line).unwrap();
            let id = v["id"]
                .as_str()
                .map_or_else(|| format!("msg_{ID}_made-up-{n}"), str::to_owned);
            conn.execute(
                "INSERT INTO messages(message_id,session_id,role,content_json,created_timestamp) VALUES(?1,?2,?3,?4,?5)",
                (id, ID, v["role"].as_str().unwrap(), v["content"].to_string(), v["created"].as_i64().unwrap()),
            )
            .unwrap();
        }
        drop(conn);
        index(&s);
        settled(&s);
        assert_eq!(said(&s, ID), before, "{with_ids}");
        assert_eq!(show(&s, ID)["sources"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn a_file_that_is_written_anew_gives_versions() {
    let s = Sandbox::new();
    let path = format!("{ROOT}/{ID}.jsonl");
    let text = String::from_utf8(sample(LOG)).unwrap();
    s.put(&path, text.as_bytes());
    index(&s);
    let anew = format!(
        "{}{}\n",
        text.replace("\"message_count\":2", "\"message_count\":3")
            .replace("Synthetic Goose session", "Renamed")
            .replace("Say hello", "Say hi"),
        r#"{"role":"user","created":1784278803,"content":[{"type":"text","text":"more"}]}"#
    );
    s.put(&path, anew.as_bytes());
    crate::sandbox::age(&s.home().join(&path), 1800);
    index(&s);
    settled(&s);
    let mut now = said(&s, ID);
    now.sort();
    assert_eq!(
        now,
        [
            "assistant/text: Hello from Goose!",
            "user/text: Say hi",
            "user/text: more"
        ]
    );
    assert_eq!(show(&s, ID)["session"]["title"], "Renamed");
}

#[test]
fn a_file_that_grows_goes_on_where_it_was() {
    let s = Sandbox::new();
    let path = format!("{ROOT}/20260101_9.jsonl");
    let line = r#"{"role":"user","created":1767225600,"content":[{"type":"text","text":"again"}]}"#;
    let mut text =
        format!("{{\"description\":\"d\",\"working_dir\":\"/w\",\"message_count\":1}}\n{line}\n");
    for n in 1..=3 {
        s.put(&path, text.as_bytes());
        crate::sandbox::age(&s.home().join(&path), 3600 - n * 60);
        index(&s);
        settled(&s);
        let id = "20260101_9";
        assert_eq!(natives(&s), [id]);
        assert_eq!(count(&s, id, "user", "text") as u64, n);
        accounted(&s, id, text.len() as u64);
        text.push_str(&format!("{line}\n"));
    }
}

#[test]
fn other_roots_are_named_by_a_variable() {
    let s = Sandbox::new();
    lay(&s, LOG, "elsewhere/data/sessions/20250724_1.jsonl");
    let mut c = s.command(&["index", "--json"]);
    c.env("GOOSE_PATH_ROOT", s.home().join("elsewhere"));
    crate::sandbox::ran(c.output().unwrap()).expect(0);
    assert_eq!(natives(&s), [ID]);
    let s = Sandbox::new();
    lay(&s, LOG, "xdg/goose/sessions/20250724_1.jsonl");
    let mut c = s.command(&["index", "--json"]);
    c.env("XDG_DATA_HOME", s.home().join("xdg"));
    crate::sandbox::ran(c.output().unwrap()).expect(0);
    assert_eq!(natives(&s), [ID]);
}

#[test]
fn damage_costs_what_it_hit() {
    let whole = sample(LOG);
    let mut garbage = whole.clone();
    garbage[230..240].fill(0xff);
    let mut nul = whole.clone();
    nul.extend([0; 300]);
    for (bytes, least) in [
        (&whole[..whole.len() - 20], 1),
        (&garbage[..], 1),
        (&nul[..], 2),
        (&whole[30..], 2),
        (&b""[..], 0),
        (&b"[]\n7\n\"x\"\n{}\n"[..], 0),
        (&[0; 64][..], 0),
    ] {
        let s = Sandbox::new();
        s.put(&format!("{ROOT}/{ID}.jsonl"), bytes);
        s.run(&["index", "--json"]).expect(0);
        if least > 0 {
            assert_eq!(natives(&s), [ID]);
            assert!(said(&s, ID).len() >= least);
            accounted(&s, ID, bytes.len() as u64);
        }
    }
    let s = Sandbox::new();
    let conn = database(&s, ROOT);
    talk(&conn);
    drop(conn);
    let path = s.home().join(ROOT).join("sessions.db");
    let whole = std::fs::read(&path).unwrap();
    let mut middle = whole.clone();
    let at = middle.len() / 2;
    middle[at..at + 100].fill(0xa5);
    for bytes in [&middle[..], &whole[..whole.len() - 4096], &whole[..30], b""] {
        let s = Sandbox::new();
        s.put(&format!("{ROOT}/sessions.db"), bytes);
        let ran = s.run(&["index", "--json"]);
        assert!(matches!(ran.code, 0 | 8), "{}", ran.stderr);
        s.run(&["mirror", "verify", "--deep", "--json"]).expect(0);
    }
}

#[test]
fn values_of_any_type_are_borne() {
    let s = Sandbox::new();
    let folder = s.home().join(ROOT);
    std::fs::create_dir_all(&folder).unwrap();
    let conn = rusqlite::Connection::open(folder.join("sessions.db")).unwrap();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    conn.execute_batch(
        "CREATE TABLE sessions(id,name,working_dir,created_at); \
         CREATE TABLE messages(id,message_id,session_id,role,content_json,created_timestamp,metadata_json); \
         INSERT INTO sessions VALUES('s',x'ff',7,9223372036854775807),(NULL,NULL,NULL,NULL); \
         INSERT INTO messages VALUES(1,7,'s',NULL,NULL,-9223372036854775808,'x'), \
         (2,x'ff','s','user','{}',1e300,'{\"userVisible\":7}'), \
         (3,'','s','user','[{\"type\":\"text\",\"text\":\"read\"}]','x',NULL), \
         (4,NULL,'nobody','user','[{\"type\":\"text\",\"text\":\"orphan\"}]',5,NULL);",
    )
    .unwrap();
    conn.execute(
        "INSERT INTO messages VALUES(9,NULL,'s','user',?1,1,?1)",
        [&deep],
    )
    .unwrap();
    drop(conn);
    s.put(
        &format!("{ROOT}/odd.jsonl"),
        format!(
            "{{\"description\":7,\"working_dir\":[]}}\n{{\"role\":{{}},\"content\":7}}\n\
             {{\"role\":\"user\",\"created\":1e999,\"content\":{deep}}}\n\
             {{\"role\":\"user\",\"created\":-5,\"content\":\"plain\"}}\n"
        )
        .as_bytes(),
    );
    index(&s);
    settled(&s);
    assert_eq!(said(&s, "s"), ["user/text: read"]);
    assert_eq!(said(&s, "nobody"), ["user/text: orphan"]);
    assert_eq!(said(&s, "odd"), ["user/text: plain"]);
}
