//! OpenCode: the database and the tree before it.

use crate::home::{count, index, lay, natives, said, settled, show};
use crate::sandbox::Sandbox;

const ROOT: &str = ".local/share/opencode";
const DB: &str = "opencode/harness-1.18.33/opencode.db";

/// A number that SQLite itself counts in a copy.
fn ask(s: &Sandbox, sql: &str) -> u64 {
    let copy = s.path().join("copy.db");
    std::fs::copy(s.home().join(ROOT).join("opencode.db"), &copy).unwrap();
    let conn = rusqlite::Connection::open(&copy).unwrap();
    conn.query_row(sql, [], |r| r.get::<_, i64>(0))
        .map(|n| u64::try_from(n).unwrap())
        .unwrap()
}

#[test]
fn every_row_of_the_session_tables_is_a_record() {
    let s = Sandbox::new();
    lay(&s, DB, &format!("{ROOT}/opencode.db"));
    index(&s);
    settled(&s);
    let rows: u64 = [
        "session",
        "message",
        "part",
        "todo",
        "session_message",
        "session_input",
    ]
    .iter()
    .map(|t| ask(&s, &format!("SELECT count(*) FROM {t}")))
    .sum();
    let parent = natives(&s)
        .into_iter()
        .find(|n| show(&s, n)["session"]["parent_session"].is_null())
        .unwrap();
    let a = &show(&s, &parent)["sources"][0]["accounting"];
    assert_eq!(
        a["length"],
        a["message_bytes"].as_u64().unwrap() + a["known_bytes"].as_u64().unwrap()
    );
    let records = s.run(&["index", "--full", "--json"]).expect(0);
    assert_eq!(records.text("/status"), "no-op");
    let tools = ask(
        &s,
        "SELECT count(*) FROM part WHERE json_extract(data,'$.type')='tool'",
    );
    let calls: usize = natives(&s)
        .iter()
        .map(|n| count(&s, n, "assistant", "tool-call"))
        .sum();
    assert_eq!(calls as u64, tools);
    assert!(rows > 40);
    // What the person said comes first.
    assert!(said(&s, &parent)[0].contains("fix the typo in the greeting"));
}

#[test]
fn a_row_that_changes_in_place_is_a_version_and_the_rest_costs_nothing() {
    let s = Sandbox::new();
    lay(&s, DB, &format!("{ROOT}/opencode.db"));
    index(&s);
    let before: usize = natives(&s).iter().map(|n| said(&s, n).len()).sum();
    let db = s.home().join(ROOT).join("opencode.db");
    let conn = rusqlite::Connection::open(&db).unwrap();
    conn.execute_batch(
        "UPDATE part SET data=json_set(data,'$.text','other words') WHERE id=(SELECT id FROM part \
         WHERE json_extract(data,'$.type')='text' ORDER BY id LIMIT 1);",
    )
    .unwrap();
    drop(conn);
    index(&s);
    let after: Vec<String> = natives(&s).iter().flat_map(|n| said(&s, n)).collect();
    assert_eq!(after.len(), before);
    assert_eq!(
        after
            .iter()
            .filter(|t| t.ends_with(": other words"))
            .count(),
        1
    );
    settled(&s);
}

#[test]
fn rows_in_the_wal_are_read_and_the_source_is_left_alone() {
    let s = Sandbox::new();
    lay(&s, DB, &format!("{ROOT}/opencode.db"));
    let db = s.home().join(ROOT).join("opencode.db");
    let conn = rusqlite::Connection::open(&db).unwrap();
    conn.execute_batch(
        "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0; \
         UPDATE session SET title='only in the WAL';",
    )
    .unwrap();
    let root = s.home().join(ROOT);
    let before = crate::sandbox::snapshot(&root);
    index(&s);
    assert_eq!(crate::sandbox::snapshot(&root), before);
    assert!(s.sessions().iter().all(|x| x["title"] == "only in the WAL"));
    drop(conn);
}

#[test]
fn the_tree_gives_the_same_dialogue() {
    let s = Sandbox::new();
    lay(
        &s,
        "opencode/harness-1.1.65/storage",
        &format!("{ROOT}/storage"),
    );
    index(&s);
    settled(&s);
    let ids = natives(&s);
    assert_eq!(ids.len(), 2);
    let parent = ids
        .iter()
        .find(|n| show(&s, n)["session"]["parent_session"].is_null())
        .unwrap();
    assert!(count(&s, parent, "user", "text") > 0);
    assert!(
        said(&s, parent)
            .iter()
            .any(|t| t.starts_with("user/text: "))
    );
}

#[test]
fn a_damaged_database_gives_what_can_be_read() {
    let s = Sandbox::new();
    let mut bytes = crate::sandbox::sample(DB);
    let last = bytes.len() - 20_000;
    bytes[last..].fill(0xa5);
    s.put(&format!("{ROOT}/opencode.db"), &bytes);
    let ran = s.run(&["index", "--json"]);
    assert!(ran.code == 8 || ran.code == 0, "{}", ran.code);
    s.run(&["mirror", "verify", "--deep", "--json"]).expect(0);
    // Not a database at all.
    let s = Sandbox::new();
    s.put(
        &format!("{ROOT}/opencode.db"),
        b"SQLite format 3\0 and nothing else",
    );
    let ran = s.run(&["index", "--json"]);
    assert_eq!(ran.code, 8);
    s.run(&["mirror", "verify", "--deep", "--json"]).expect(0);
}

#[test]
fn what_is_in_the_way_of_the_copy_costs_no_session() {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    type Block = fn(&Path);
    let ways: [(&str, Block); 4] = [
        ("a file", |derived| fs::write(derived, "x").unwrap()),
        ("a link", |derived| {
            symlink(derived.parent().unwrap().join("locks"), derived).unwrap();
        }),
        ("a link below", |derived| {
            fs::create_dir(derived).unwrap();
            symlink("/nonexistent/x", derived.join("scratch")).unwrap();
        }),
        ("a folder", |derived| {
            fs::create_dir_all(derived.join("scratch/source.db/x")).unwrap();
        }),
    ];
    for (what, block) in ways {
        let s = Sandbox::new();
        s.run(&["index"]).expect(0);
        let derived = s.data().join("derived");
        let _ = fs::remove_dir_all(&derived);
        block(&derived);
        lay(&s, DB, &format!("{ROOT}/opencode.db"));
        s.run(&["index"]).expect(0);
        assert_eq!(natives(&s).len(), 2, "{what}");
    }
}

#[test]
fn a_table_that_can_not_be_asked_costs_itself_alone() {
    let s = Sandbox::new();
    // A column that is computed by a function which only the harness's own program has.
    std::fs::create_dir_all(s.home().join(ROOT)).unwrap();
    let conn = rusqlite::Connection::open(s.home().join(ROOT).join("opencode.db")).unwrap();
    conn.execute_batch(
        "CREATE TABLE session(id TEXT PRIMARY KEY, title TEXT, time_created INTEGER);
         CREATE TABLE todo(session_id TEXT, position INTEGER, content TEXT, own TEXT);
         INSERT INTO session VALUES('ses_1', 'a title', 1700000000000);
         INSERT INTO todo VALUES('ses_1', 1, 'do', 'x');
         PRAGMA writable_schema=ON;
         UPDATE sqlite_schema SET sql='CREATE TABLE todo(session_id TEXT, position INTEGER, '
           ||'content TEXT, own TEXT, g TEXT AS (own_function(content)))' WHERE name='todo';",
    )
    .unwrap();
    drop(conn);
    let line =
        r#"{"type":"user","sessionId":"s-1","uuid":"u","message":{"role":"user","content":"hi"}}"#;
    s.put(".claude/projects/-p/s-1.jsonl", line.as_bytes());
    let ran = s.run(&["index", "--json"]).expect(8);
    assert_eq!(ran.json["failures"].as_array().unwrap().len(), 1);
    // Everything else is read.
    assert_eq!(natives(&s), ["s-1", "ses_1"]);
    assert_eq!(said(&s, "s-1"), ["user/text: hi"]);
}

#[test]
fn what_is_taken_back_stands_again() {
    let s = Sandbox::new();
    let say = |text: &str| {
        let path = s.home().join(ROOT).join("opencode.db");
        let conn = rusqlite::Connection::open(path).unwrap();
        conn.execute(
            "UPDATE part SET data=json_set(data,'$.text',?1) WHERE id=(SELECT id FROM part \
             WHERE json_extract(data,'$.type')='text' ORDER BY id LIMIT 1)",
            [text],
        )
        .unwrap();
    };
    lay(&s, DB, &format!("{ROOT}/opencode.db"));
    let mut before = 0;
    for text in [
        "the first",
        "the second",
        "the first",
        "the second",
        "the first",
    ] {
        say(text);
        index(&s);
        settled(&s);
        let all: Vec<String> = natives(&s).iter().flat_map(|n| said(&s, n)).collect();
        let stands: Vec<&String> = all.iter().filter(|t| t.contains(": the ")).collect();
        assert!(
            stands.iter().any(|t| t.ends_with(text)),
            "{text}: {stands:?}"
        );
        let others = ["the first", "the second"].iter().filter(|o| **o != text);
        for other in others {
            assert!(
                !stands.iter().any(|t| t.ends_with(*other)),
                "{other} after {text}"
            );
        }
        assert!(before == 0 || before == all.len(), "{text}");
        before = all.len();
    }
    // Nothing more comes of reading the same again.
    let db = s.home().join(ROOT).join("opencode.db");
    let conn = rusqlite::Connection::open(db).unwrap();
    conn.execute_batch("CREATE TABLE unrelated(x); DROP TABLE unrelated; VACUUM;")
        .unwrap();
    drop(conn);
    let again = s.run(&["index", "--json"]).expect(0);
    assert_eq!(again.number("/archived/messages"), 0, "{}", again.stdout);
}
