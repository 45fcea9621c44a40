//! Crush: the database of a project, with what is only in its WAL.

use serde_json::Value;

use crate::home::{count, index, lay, messages, natives, said, settled, show};
use crate::sandbox::{Sandbox, sample};

const ROOT: &str = "src/bot/.crush";
const FROM: &str = "crush/RLGymExampleBot";

/// A home whose list of projects names the sample's.
fn home() -> Sandbox {
    let s = Sandbox::new();
    lay(&s, FROM, ROOT);
    name(&s);
    s
}

fn name(s: &Sandbox) {
    let project = s.home().join("src/bot");
    let list = format!(
        r#"{{"projects":[{{"path":"{0}","data_dir":"{0}/.crush","last_accessed":"2026-01-01T00:00:00Z"}},
        {{"path":"{0}/gone"}},7]}}"#,
        project.display()
    );
    s.put(".local/share/crush/projects.json", list.as_bytes());
}

/// A copy of the sample that SQLite itself reads, WAL included.
fn copy(s: &Sandbox) -> rusqlite::Connection {
    for suffix in ["", "-wal"] {
        let to = s.path().join(format!("copy.db{suffix}"));
        std::fs::write(to, sample(&format!("{FROM}/crush.db{suffix}"))).unwrap();
    }
    rusqlite::Connection::open(s.path().join("copy.db")).unwrap()
}

fn ask(conn: &rusqlite::Connection, sql: &str) -> usize {
    let n: i64 = conn.query_row(sql, [], |r| r.get(0)).unwrap();
    usize::try_from(n).unwrap()
}

#[test]
fn every_session_and_part_is_read_with_the_wal_and_the_source_is_left_alone() {
    let s = home();
    let root = s.home().join(ROOT);
    let before = crate::sandbox::snapshot(&root);
    index(&s);
    settled(&s);
    assert_eq!(crate::sandbox::snapshot(&root), before);
    let conn = copy(&s);
    let ids = natives(&s);
    assert_eq!(ids.len(), 14);
    assert_eq!(ids.len(), ask(&conn, "SELECT count(*) FROM sessions"));
    let parts = |kind: &str, more: &str| {
        ask(
            &conn,
            &format!(
                "SELECT count(*) FROM messages m, json_each(m.parts) p WHERE \
                 json_extract(p.value,'$.type')='{kind}' {more}"
            ),
        )
    };
    let all =
        |role: &str, kind: &str| -> usize { ids.iter().map(|id| count(&s, id, role, kind)).sum() };
    let text = "AND json_extract(p.value,'$.data.text')<>'' AND m.role=";
    assert_eq!(
        all("assistant", "text"),
        parts("text", &format!("{text}'assistant'"))
    );
    assert_eq!(
        all("user", "text") + all("meta", "text"),
        parts("text", &format!("{text}'user'"))
    );
    assert_eq!(all("assistant", "tool-call"), parts("tool_call", ""));
    assert_eq!(all("tool", "tool-result"), parts("tool_result", ""));
    assert_eq!(all("assistant", "reasoning"), parts("reasoning", ""));
    assert_eq!(
        all("system", "text"),
        parts(
            "finish",
            "AND json_extract(p.value,'$.data.reason')='error'"
        )
    );
    // Nothing of the session tables is left over or unknown.
    let source = &show(&s, &ids[0])["sources"][0];
    let a = &source["accounting"];
    assert_eq!(
        a["length"].as_u64().unwrap(),
        a["message_bytes"].as_u64().unwrap() + a["known_bytes"].as_u64().unwrap()
    );
}

#[test]
fn sessions_have_titles_parents_workspaces_and_times_in_seconds() {
    let s = home();
    index(&s);
    let conn = copy(&s);
    let mut rows = conn
        .prepare("SELECT id, title, parent_session_id, date(created_at,'unixepoch') FROM sessions")
        .unwrap();
    let mut rows = rows.query([]).unwrap();
    let mut children = 0;
    while let Some(row) = rows.next().unwrap() {
        let id: String = row.get(0).unwrap();
        let shown = &show(&s, &id)["session"];
        assert_eq!(shown["title"], row.get::<_, String>(1).unwrap(), "{shown}");
        let parent: Option<String> = row.get(2).unwrap();
        children += usize::from(parent.is_some());
        assert_eq!(shown["parent_session"].as_str(), parent.as_deref());
        assert_eq!(
            shown["workspace"],
            s.home().join("src/bot").display().to_string()
        );
        let day: String = row.get(3).unwrap();
        let started = shown["started_at"].as_str().unwrap();
        assert!(started.starts_with(&day), "{started} {day}");
    }
    assert_eq!(children, 5);
    // Calls and results pair.
    let id = "73bee7ec-7e63-4de7-9b3c-4e397b6970a6";
    let all = messages(&s, id);
    let of = |kind: &str| -> Vec<Value> {
        let mut ids: Vec<Value> = all
            .iter()
            .filter(|m| m["kind"] == kind)
            .map(|m| m["call_id"].clone())
            .collect();
        ids.sort_by_key(Value::to_string);
        ids
    };
    assert_eq!(of("tool-call"), of("tool-result"));
    assert!(!of("tool-call").is_empty());
}

#[test]
fn a_message_that_grows_in_place_is_a_version() {
    let s = home();
    index(&s);
    let ids = natives(&s);
    let before: usize = ids.iter().map(|n| said(&s, n).len()).sum();
    let db = s.home().join(ROOT).join("crush.db");
    let conn = rusqlite::Connection::open(&db).unwrap();
    conn.execute_batch(
        "UPDATE messages SET parts='[{\"type\":\"text\",\"data\":{\"text\":\"other words\"}}]' \
         WHERE id='9eb735c3-42e8-4772-9a9b-b4525ea42c99'; \
         INSERT INTO messages(id,session_id,role,parts,created_at,updated_at) VALUES('new', \
         '73bee7ec-7e63-4de7-9b3c-4e397b6970a6','user', \
         '[{\"type\":\"text\",\"data\":{\"text\":\"one more\"}}]',1754904999,1754904999);",
    )
    .unwrap();
    drop(conn);
    index(&s);
    let after: Vec<String> = natives(&s).iter().flat_map(|n| said(&s, n)).collect();
    assert_eq!(after.len(), before + 1);
    for text in ["user/text: other words", "user/text: one more"] {
        assert_eq!(after.iter().filter(|t| *t == text).count(), 1, "{text}");
    }
    settled(&s);
    // What the harness deletes stays.
    let conn = rusqlite::Connection::open(&db).unwrap();
    conn.execute_batch("DELETE FROM messages; DELETE FROM sessions; VACUUM;")
        .unwrap();
    drop(conn);
    index(&s);
    let kept: usize = natives(&s).iter().map(|n| said(&s, n).len()).sum();
    assert_eq!(kept, after.len());
}

#[test]
fn files_and_reads_belong_to_their_session() {
    let s = home();
    let db = s.home().join(ROOT).join("crush.db");
    let conn = rusqlite::Connection::open(&db).unwrap();
    conn.execute_batch(
        "CREATE TABLE read_files(session_id TEXT, path TEXT, read_at INTEGER); \
         INSERT INTO read_files VALUES('6ce6b88c-381f-4dff-8fa2-51fc60f85240','/a',1754936402); \
         INSERT INTO files VALUES('f1','6ce6b88c-381f-4dff-8fa2-51fc60f85240','/a','text',0,1754936402,1754936402);",
    )
    .unwrap();
    drop(conn);
    index(&s);
    settled(&s);
    assert_eq!(natives(&s).len(), 14);
}

#[test]
fn another_folder_is_named_by_a_variable_or_a_setting() {
    let s = Sandbox::new();
    lay(&s, FROM, ROOT);
    let elsewhere = s.home().join("elsewhere");
    std::fs::create_dir_all(&elsewhere).unwrap();
    std::fs::write(
        elsewhere.join("projects.json"),
        format!(
            r#"{{"projects":[{{"path":"{}"}}]}}"#,
            s.home().join("src/bot").display()
        ),
    )
    .unwrap();
    let mut c = s.command(&["index", "--json"]);
    c.env("CRUSH_GLOBAL_DATA", &elsewhere);
    crate::sandbox::ran(c.output().unwrap()).expect(0);
    assert_eq!(natives(&s).len(), 14);

    let s = Sandbox::new();
    lay(&s, FROM, ROOT);
    s.put(
        ".config/cass/config.toml",
        b"[[roots]]\nprovider = \"crush\"\npath = \"~/src/bot\"\n",
    );
    index(&s);
    assert_eq!(natives(&s).len(), 14);
}

#[test]
fn damage_costs_what_it_hit() {
    let whole = sample(&format!("{FROM}/crush.db"));
    let run = |bytes: &[u8]| {
        let s = Sandbox::new();
        name(&s);
        s.put(&format!("{ROOT}/crush.db"), bytes);
        let ran = s.run(&["index", "--json"]);
        assert!(matches!(ran.code, 0 | 8), "{} {}", ran.code, ran.stderr);
        s.run(&["mirror", "verify", "--deep", "--json"]).expect(0);
        let sessions = s.sessions().len();
        (ran.code, sessions)
    };
    // Without its WAL it is an older state, and a whole one.
    assert_eq!(run(&whole), (0, 10));
    let mut middle = whole.clone();
    let at = middle.len() / 2;
    middle[at..at + 100].fill(0xa5);
    run(&middle);
    let mut nul = whole.clone();
    let at = nul.len() - 40_000;
    nul[at..].fill(0);
    run(&nul);
    run(&whole[..whole.len() - 4096]);
    run(&whole[..100]);
    run(b"");
    run(b"{\"type\":\"not a database\"}\n");
}

#[test]
fn values_of_any_type_are_borne() {
    let s = Sandbox::new();
    name(&s);
    std::fs::create_dir_all(s.home().join(ROOT)).unwrap();
    let conn = rusqlite::Connection::open(s.home().join(ROOT).join("crush.db")).unwrap();
    conn.execute_batch(
        "CREATE TABLE sessions(id,parent_session_id,title,created_at); \
         CREATE TABLE messages(id,session_id,role,parts,created_at); \
         INSERT INTO sessions VALUES('s',7,x'ff',9223372036854775807),(NULL,NULL,NULL,NULL), \
         (1.5,'s','t','then'); \
         INSERT INTO messages VALUES(NULL,NULL,NULL,NULL,NULL),('a','s','user','[',-1), \
         ('b','s','user',x'fffe',1e300),('c','s',7,'{}','x'), \
         ('d','nobody','assistant','[{\"type\":\"text\",\"data\":{\"text\":\"orphan\"}}]',1); ",
    )
    .unwrap();
    conn.execute(
        "INSERT INTO messages VALUES('deep','s','user',?1,1)",
        [format!("{}{}", "[".repeat(200_000), "]".repeat(200_000))],
    )
    .unwrap();
    conn.execute(
        "INSERT INTO messages VALUES('huge','s','user',?1,1)",
        [format!(
            r#"[{{"type":"text","data":{{"text":"{}"}}}}]"#,
            "x".repeat(3 << 20)
        )],
    )
    .unwrap();
    drop(conn);
    index(&s);
    settled(&s);
    assert_eq!(said(&s, "nobody"), ["assistant/text: orphan"]);
    assert_eq!(said(&s, "s")[0].len(), "user/text: ".len() + (3 << 20));
}
