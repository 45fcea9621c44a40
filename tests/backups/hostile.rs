//! Manifests that somebody made to be read by us: refused, and nothing they name is opened.

use cass::model::digest::Digest;
use serde_json::{Value, json};

use crate::sandbox::{Sandbox, snapshot};
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
