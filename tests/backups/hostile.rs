//! Manifests and databases that somebody made to be read by us: refused, and nothing they name is
//! opened or run.

use std::path::Path;
use std::process::{Command, Stdio};

use cass::model::digest::Digest;
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use serde_json::{Value, json};

use crate::sandbox::{Ran, Sandbox, ran, snapshot};
use crate::{back_up, file, indexed};

/// Writes a manifest with a digest that agrees, as whoever can write there could.
fn put(sandbox: &Sandbox, text: &str) {
    std::fs::write(file(sandbox, "manifest.json"), text).unwrap();
}

/// The manifest, its values replaced, in the order in which it is hashed.
fn forged(original: &str, replace: &[(&str, Value)]) -> String {
    let mut parts: Vec<(String, Value)> = Vec::new();
    let body: serde_json::Map<String, Value> = serde_json::from_str(original).unwrap();
    let order = [
        "format",
        "backup_id",
        "archive_id",
        "generation",
        "schema_version",
        "commit",
        "head",
        "cass_version",
        "created_ms",
        "label",
        "run_id",
        "counts",
        "files",
    ];
    for key in order {
        let value = replace.iter().find(|(k, _)| *k == key);
        let value = value.map_or_else(|| body[key].clone(), |(_, v)| v.clone());
        parts.push((key.to_owned(), value));
    }
    // The order of keys inside counts as well.
    let ordered = |value: &Value, keys: &[&str]| -> String {
        let fields: Vec<String> = keys
            .iter()
            .filter(|k| !value[**k].is_null())
            .map(|k| format!("\"{k}\":{}", value[*k]))
            .collect();
        format!("{{{}}}", fields.join(","))
    };
    let texts: Vec<String> = parts
        .iter()
        .map(|(key, value)| {
            let text = match (key.as_str(), value) {
                ("counts", v @ Value::Object(_)) => {
                    ordered(v, &["sources", "conversations", "records", "messages"])
                }
                ("files", Value::Array(files)) => {
                    let files: Vec<String> = files
                        .iter()
                        .map(|f| ordered(f, &["name", "len", "blake3"]))
                        .collect();
                    format!("[{}]", files.join(","))
                }
                (_, v) => v.to_string(),
            };
            format!("\"{key}\":{text}")
        })
        .collect();
    let body = texts.join(",");
    let digest = Digest::of(format!("{{{body}}}").as_bytes());
    format!("{{{body},\"digest\":\"{digest}\"}}")
}

#[test]
fn no_hostile_manifest_is_believed() {
    let sandbox = indexed();
    back_up(&sandbox).unwrap();
    let original = std::fs::read_to_string(file(&sandbox, "manifest.json")).unwrap();
    let files: Value = serde_json::from_str::<Value>(&original).unwrap()["files"].clone();
    let verify = |what: &str| {
        let run = sandbox.run(&["doctor", "backups", "verify", "b00000001", "--deep"]);
        (run.code, format!("{what}: {}", run.stdout))
    };
    put(&sandbox, &forged(&original, &[]));
    let (code, said) = verify("the forger knows the format");
    assert_eq!(code, 0, "{said}");

    let secret = sandbox.path().join("secret");
    std::fs::write(&secret, "s").unwrap();
    let entry = |name: &str| json!({"name": name, "len": 1, "blake3": Digest::of(b"s").to_hex()});
    let with = |more: Value| {
        let mut list = files.as_array().unwrap().clone();
        list.push(more);
        Value::Array(list)
    };
    let first = |key: &str, value: Value| {
        let mut list = files.clone();
        list[0][key] = value;
        list
    };
    let mut cases: Vec<(String, String)> = Vec::new();
    let names = [
        "../../../secret",
        "..",
        ".",
        "",
        "/etc/passwd",
        secret.to_str().unwrap(),
        "x/y",
        "./agent_search.db",
        "agent_search.db/",
        "AGENT_SEARCH.DB",
        "agent_search.db\u{0}",
        "manifest.json",
        "agent_search.db-shm",
        "agent_search.db-journal",
        "CURRENT",
        "\u{202e}bd",
        "C:\\x",
        "-rf",
        "agent_search.db ",
        "seal.json",
    ];
    for name in names {
        let list = with(entry(name));
        cases.push((
            format!("lists {name:?}"),
            forged(&original, &[("files", list)]),
        ));
    }
    for (what, list) in [
        ("twice", with(files[0].clone())),
        ("without the database", json!([files[1], files[2]])),
        ("no file", json!([])),
        ("a huge length", first("len", json!(u64::MAX))),
        ("a small length", first("len", json!(1))),
        ("length 0", first("len", json!(0))),
        ("another digest", first("blake3", json!("00".repeat(32)))),
        ("a negative length", first("len", json!(-1))),
        ("a length in words", first("len", json!("many"))),
        ("a short digest", first("blake3", json!("00"))),
        ("no list", json!("agent_search.db")),
        (
            "a log that is not there",
            with(entry("agent_search.db-wal")),
        ),
    ] {
        cases.push((what.to_owned(), forged(&original, &[("files", list)])));
    }
    for (key, value) in [
        ("backup_id", json!("b00000002")),
        ("backup_id", json!("../b1")),
        ("generation", json!("../../x")),
        ("generation", json!("g00000009")),
        ("archive_id", json!("another")),
        ("schema_version", json!(0)),
        ("commit", json!(7)),
        ("head", json!("00".repeat(32))),
        ("format", json!(-1)),
        ("format", json!(99_999_999_999u64)),
        (
            "counts",
            json!({"sources": 1, "conversations": 1, "records": 20, "messages": 21}),
        ),
    ] {
        cases.push((format!("{key} {value}"), forged(&original, &[(key, value)])));
    }
    for (what, text) in [
        ("nothing", String::new()),
        ("no JSON", "{".to_owned()),
        ("an array", "[]".to_owned()),
        ("deep", "[".repeat(100_000)),
        ("long", format!("{}{}", original, " ".repeat(2 << 20))),
        ("no digest", original.replace("\"digest\"", "\"digset\"")),
        ("bytes", "\u{fffd}\u{0}".to_owned()),
        ("a key twice", original.replacen('{', "{\"format\": 1,", 1)),
    ] {
        cases.push((what.to_owned(), text));
    }
    assert!(cases.len() >= 50);
    let names = || snapshot(&sandbox.data()).into_keys().collect::<Vec<_>>();
    let before = names();
    for (what, text) in cases {
        put(&sandbox, &text);
        let (code, said) = verify(&what);
        assert_eq!(code, 23, "{said}");
        assert!(!said.contains("a bug"), "{said}");
        let list = sandbox.run(&["doctor", "backups", "list"]).expect(0);
        assert_eq!(list.number("/total"), 1, "{what}");
        sandbox
            .run(&["doctor", "check", "--only", "backup.freshness"])
            .expect(0);
        assert_eq!(names(), before, "{what}");
    }
    put(&sandbox, &forged(&original, &[("format", json!(2))]));
    assert_eq!(verify("newer").0, 6);
}

#[test]
fn what_has_the_name_of_a_backup_and_is_none_is_refused() {
    let sandbox = indexed();
    back_up(&sandbox).unwrap();
    let folder = sandbox.data().join("backups");
    std::os::unix::fs::symlink(folder.join("b00000001"), folder.join("b00000002")).unwrap();
    std::fs::write(folder.join("b00000003"), "x").unwrap();
    std::fs::create_dir(folder.join("b00000004")).unwrap();
    let fifo = std::process::Command::new("mkfifo")
        .arg(folder.join("b00000004/manifest.json"))
        .status();
    assert!(fifo.unwrap().success());
    for id in ["b00000002", "b00000003", "b00000004"] {
        let run = sandbox.run(&["doctor", "backups", "verify", id]);
        assert_eq!(run.expect(23).text("/err/kind"), "verify-failed", "{id}");
    }
    let list = sandbox.run(&["doctor", "backups", "list"]).expect(0);
    assert_eq!(list.number("/total"), 4);
    // None of their names is taken by the next.
    assert_eq!(back_up(&sandbox).unwrap().backup_id.as_str(), "b00000005");
}

/// The backup's database, changed by `sql` as whoever can write there could.
fn hostile(sound: &[u8], sql: &str) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.db");
    std::fs::write(&path, sound).unwrap();
    let conn = Connection::open(&path).unwrap();
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, false)
        .unwrap();
    conn.execute_batch(&format!(
        "PRAGMA journal_mode=DELETE; PRAGMA synchronous=OFF; {sql}"
    ))
    .unwrap();
    drop(conn);
    std::fs::read(path).unwrap()
}

/// Runs with 5 s of processor time: the kernel ends what takes more, however busy the machine is.
#[track_caller]
fn bounded(sandbox: &Sandbox, args: &[&str]) -> Ran {
    let cass = sandbox.command(args);
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-c", "ulimit -t 5 && exec \"$0\" \"$@\""])
        .arg(cass.get_program())
        .args(cass.get_args())
        .arg("--json")
        .env_clear()
        .envs(cass.get_envs().filter_map(|(k, v)| Some((k, v?))))
        .stdin(Stdio::null());
    let output = shell.output().unwrap();
    assert!(output.status.code().is_some(), "{args:?}: {output:?}");
    ran(output)
}

#[test]
fn no_hostile_database_of_a_backup_is_run() {
    const CANARY: &str = "/dev/shm/cass-hostile-backup-canary";
    let _ = std::fs::remove_file(CANARY);
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n)";
    let touch = format!("writefile('{CANARY}','x')");
    let cases = [
        (
            "views that never end in the place of tables",
            format!(
                "DROP TABLE messages; CREATE VIEW messages AS {endless} SELECT i AS id, \
                 1 AS conversation, 'user' AS role, 'text' AS kind, {touch} AS text, \
                 NULL AS tool_name, NULL AS call_id, NULL AS model, NULL AS is_error, \
                 x'00' AS row_hash FROM n;"
            ),
        ),
        (
            "a view in the place of the first table that is read",
            format!(
                "DROP TABLE meta; CREATE VIEW meta AS {endless} SELECT i AS id, {touch} AS name, \
                 'x' AS value, x'00' AS row_hash FROM n;"
            ),
        ),
        (
            "triggers on every table",
            ["records", "messages", "commits", "sources"]
                .map(|table| {
                    format!(
                        "CREATE TRIGGER t_{table} AFTER INSERT ON {table} BEGIN \
                         SELECT {touch}; DELETE FROM messages; END;"
                    )
                })
                .concat(),
        ),
        (
            "virtual tables in the place of tables",
            "DROP TABLE messages; CREATE VIRTUAL TABLE messages USING fts5(conversation, role, kind, \
             text, tool_name, call_id, model, is_error, row_hash); DROP TABLE skips; \
             CREATE VIRTUAL TABLE skips USING rtree(id, a, b);"
                .to_owned(),
        ),
        (
            "a computed column of 40 MB a row",
            "ALTER TABLE messages RENAME TO was; CREATE TABLE messages(id INTEGER PRIMARY KEY, \
             conversation INTEGER NOT NULL, role TEXT NOT NULL, kind TEXT NOT NULL, \
             text TEXT AS (hex(zeroblob(20000000))), tool_name TEXT, call_id TEXT, model TEXT, \
             is_error INTEGER, row_hash BLOB NOT NULL) STRICT; INSERT INTO messages SELECT id, \
             conversation, role, kind, tool_name, call_id, model, is_error, row_hash FROM was; \
             DROP TABLE was;"
                .to_owned(),
        ),
        (
            "a check that calls a function",
            "CREATE TABLE more(x TEXT CHECK(length(hex(zeroblob(60000000)))>0) DEFAULT 'x'); \
             INSERT INTO more DEFAULT VALUES;"
                .to_owned(),
        ),
        (
            "an index over a function",
            "CREATE INDEX odd ON messages(length(hex(zeroblob(1000000))));".to_owned(),
        ),
        (
            "fields of 30 MB",
            "INSERT INTO messages SELECT id+(1<<40), conversation, role, kind, \
             CAST(zeroblob(30000000) AS TEXT), tool_name, call_id, model, is_error, row_hash \
             FROM messages LIMIT 2;"
                .to_owned(),
        ),
    ];
    for (n, (what, sql)) in cases.into_iter().enumerate() {
        let sandbox = indexed();
        back_up(&sandbox).unwrap();
        let db = file(&sandbox, "agent_search.db");
        let bytes = hostile(&std::fs::read(&db).unwrap(), &sql);
        std::fs::write(&db, &bytes).unwrap();
        let original = std::fs::read_to_string(file(&sandbox, "manifest.json")).unwrap();
        let mut files = serde_json::from_str::<Value>(&original).unwrap()["files"].clone();
        let entry = files.as_array_mut().unwrap().iter_mut();
        let entry = entry.into_iter().find(|f| f["name"] == "agent_search.db");
        let entry = entry.unwrap();
        entry["len"] = json!(bytes.len());
        entry["blake3"] = json!(Digest::of(&bytes).to_hex());
        put(&sandbox, &forged(&original, &[("files", files)]));

        let run = bounded(
            &sandbox,
            &["doctor", "backups", "verify", "b00000001", "--deep"],
        );
        assert_eq!(run.code, 23, "{what}: {}", run.stdout);
        let said = run.text("/err/message").to_owned();
        assert!(said.len() > 20 && !said.contains("a bug"), "{what}: {said}");
        let run = bounded(&sandbox, &["doctor", "backups", "restore", "b00000001"]);
        assert!(![0, 9].contains(&run.code), "{what}: {}", run.stdout);
        // Nor where it is all that a repair has.
        if n > 4 {
            assert!(!Path::new(CANARY).exists(), "{what}: something was run");
            continue;
        }
        std::fs::remove_dir_all(sandbox.data().join("raw-mirror")).unwrap();
        std::fs::remove_dir_all(sandbox.data().join("generations")).unwrap();
        let run = bounded(&sandbox, &["doctor", "repair"]);
        assert_ne!(run.code, 9, "{what}: {}", run.stdout);
        let argv = run.json["repair_plan"]["apply_argv"].clone();
        if let Some(argv) = argv.as_array() {
            let argv: Vec<&str> = argv.iter().skip(1).filter_map(Value::as_str).collect();
            let applied = bounded(&sandbox, &argv);
            assert_ne!(applied.code, 9, "{what}: {}", applied.stdout);
            let check = ["doctor", "check", "--deep", "--only", "archive.rows"];
            bounded(&sandbox, &check).expect(0);
        }
        assert!(!Path::new(CANARY).exists(), "{what}: something was run");
    }
}
