//! Session files of other harnesses that are no plain lines: compressed logs and databases.

use std::io::Write;

use serde_json::Value;

use crate::others::{Home, LOGS, damages, lines, sample, warnings, with};

const PLACE: &str = ".codex/sessions/2026/01/02/rollout-2026-01-02T00-00-00-{}.jsonl";

fn packed(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).expect("packed")
}

fn codex() -> Vec<u8> {
    let of = LOGS.iter().find(|l| l.0 == "codex").expect("a sample");
    sample(of.1)
}

/// The findings of a file, but for what is said of its archive.
fn found(entry: &Value) -> &[Value] {
    entry["findings"].as_array().expect("findings")
}

#[test]
fn damage_in_a_compressed_log_is_told_as_in_a_plain_one() {
    let home = Home::new();
    let bytes = codex();
    let mut all = vec![("whole", bytes.clone(), None)];
    all.extend(
        damages(&bytes)
            .into_iter()
            .map(|d| (d.name, d.bytes, Some(d.class))),
    );
    // The last record under the number of the one before it, and of one that is not there.
    let (at, len) = *lines(&bytes).last().expect("a line");
    let last = String::from_utf8(bytes[at..at + len].to_vec()).expect("UTF-8");
    let value: Value = serde_json::from_str(&last).expect("JSON");
    let own = value["ordinal"].as_u64().expect("a number");
    let numbered = |n: u64| {
        let line = last.replace(&format!("\"ordinal\":{own}"), &format!("\"ordinal\":{n}"));
        with(&bytes, at, len, line.as_bytes())
    };
    all.push(("again", numbered(own - 1), Some("codex.ordinal_reused")));
    all.push(("far", numbered(own + 5), Some("codex.ordinal_gap")));
    let mut paths = Vec::new();
    for (name, bytes, class) in &all {
        let plain = home.put(&PLACE.replace("{}", name), bytes);
        let of_packed = PLACE.replace("{}", &format!("{name}-p")) + ".zst";
        paths.push((*name, *class, plain, home.put(&of_packed, &packed(bytes))));
    }
    let told = home.check(home.dir.path());
    for (name, class, plain, packed) in paths {
        let (plain, packed) = (&told[&plain], &told[&packed]);
        assert_eq!(packed["evidence"]["packed"], true, "{name}");
        assert_eq!(found(plain), found(packed), "{name}");
        for key in ["records", "messages", "verdict", "bytes_lost"] {
            assert_eq!(plain[key], packed[key], "{name}");
        }
        if let Some(class) = class {
            let here = found(packed).iter().any(|f| f["class"] == class);
            assert!(here, "{name}: {packed}");
        }
    }
}

#[test]
fn a_stranger_in_a_log_of_numbered_records_is_no_gap() {
    let home = Home::new();
    let bytes = codex();
    let (at, _) = lines(&bytes)[3];
    for (name, line) in [
        ("strange", &b"{\"type\":\"zz\",\"payload\":{}}\n"[..]),
        ("broken", &b"no record\n"[..]),
    ] {
        let path = home.put(&PLACE.replace("{}", name), &with(&bytes, at, 0, line));
        let entry = &home.check(&path)[&path];
        assert!(
            !warnings(entry).contains("codex.ordinal_gap"),
            "{name}: {entry}"
        );
    }
    // A record that can't be read for its number is none either.
    let (at, len) = lines(&bytes)[3];
    let text = String::from_utf8(bytes[at..at + len].to_vec()).expect("UTF-8");
    let odd = text.replacen(":\"", ":\"\u{1}", 1);
    let path = home.put(
        &PLACE.replace("{}", "odd"),
        &with(&bytes, at, len, odd.as_bytes()),
    );
    let entry = &home.check(&path)[&path];
    assert!(!warnings(entry).contains("codex.ordinal_gap"), "{entry}");
}

#[test]
fn a_compressed_log_that_is_damaged_is_told() {
    let home = Home::new();
    let bytes = codex();
    let all = lines(&bytes);
    let half = all[all.len() / 2].0;
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).expect("an encoder");
    encoder.include_checksum(true).expect("set");
    encoder.write_all(&bytes[..half]).expect("packed");
    encoder.flush().expect("a block");
    encoder.write_all(&bytes[half..]).expect("packed");
    let whole = encoder.finish().expect("a frame");
    let plain = home.put(&PLACE.replace("{}", "plain"), &bytes);
    let first = home.put(&PLACE.replace("{}", "first"), &bytes[..half]);
    let mut sum = whole.clone();
    *sum.last_mut().expect("a byte") ^= 1;
    let mut begin = whole.clone();
    begin[4..12].fill(0xff);
    let put = |name: &str, bytes: &[u8]| {
        let place = PLACE.replace("{}", name) + ".zst";
        home.put(&place, bytes)
    };
    let cut = put("cut", &whole[..whole.len() - 20]);
    let (sum, begin, sound) = (put("sum", &sum), put("begin", &begin), put("sound", &whole));
    let told = home.check(home.dir.path());
    let classes = |path: &std::path::PathBuf| warnings(&told[path]);
    assert!(classes(&sound).is_empty(), "{}", told[&sound]);
    for (path, records, verdict) in [
        (&cut, &told[&first]["records"], "damaged"),
        (&sum, &told[&plain]["records"], "damaged"),
        (&begin, &Value::from(0), "unreadable"),
    ] {
        let entry = &told[path];
        assert!(classes(path).contains("container.damaged"), "{entry}");
        assert_eq!(entry["severity"], "error", "{entry}");
        assert_eq!(entry["verdict"], verdict, "{entry}");
        assert!(
            entry["records"].as_u64() <= records.as_u64(),
            "{records}: {entry}"
        );
    }
    // What was unpacked before the damage is read.
    assert_eq!(told[&cut]["records"], told[&first]["records"]);
}

#[test]
fn a_database_with_pages_that_can_t_be_read_is_told() {
    let home = Home::new();
    let bytes = sample("opencode/harness-1.18.33/opencode.db");
    let place = |name: &str| format!(".local/share/opencode/opencode{name}.db");
    let sound = home.put(&place(""), &bytes);
    // A size of pages that there is not: no database any more.
    let mut none = bytes.clone();
    none[16..18].copy_from_slice(&[0, 3]);
    let none = home.put(&place("-none"), &none);
    let leaves: Vec<usize> = (1..bytes.len() / 4096)
        .filter(|page| bytes[page * 4096] == 0x0d)
        .collect();
    assert!(leaves.len() > 5);
    let broken: Vec<_> = leaves
        .into_iter()
        .map(|page| {
            let mut bytes = bytes.clone();
            bytes[page * 4096..page * 4096 + 8].fill(0);
            home.put(&place(&format!("-{page}")), &bytes)
        })
        .collect();
    let told = home.check(home.dir.path());
    let malformed = |entry: &Value| {
        let mut of = found(entry).iter();
        of.find(|f| f["class"] == "sqlite.malformed").cloned()
    };
    let whole = told[&sound]["records"].as_u64().expect("a number");
    assert!(whole > 0 && malformed(&told[&sound]).is_none());
    assert_eq!(told[&none]["verdict"], "unreadable", "{}", told[&none]);
    assert_eq!(malformed(&told[&none]).expect("told")["severity"], "error");
    let (mut costly, mut read_in_part) = (0, 0);
    for path in broken {
        let entry = &told[&path];
        let records = entry["records"].as_u64().expect("a number");
        assert!(records <= whole, "{entry}");
        if records < whole {
            costly += 1;
            let found = malformed(entry).unwrap_or_else(|| panic!("nothing is said: {entry}"));
            assert_eq!(found["severity"], "error", "{entry}");
            // Of a database that can't be opened nobody knows what it held.
            let lost = found["records_lost"].as_u64().expect("a number");
            let verdict = if lost > 0 { "damaged" } else { "unreadable" };
            assert_eq!(entry["verdict"], verdict, "{entry}");
            read_in_part += u64::from(lost > 0 && records > 0);
        }
    }
    assert!(
        read_in_part > 0 && costly > read_in_part,
        "{read_in_part} of {costly}"
    );
}

#[test]
fn a_large_database_is_read_where_it_lies() {
    let home = Home::new();
    let bytes = sample("opencode/harness-1.18.33/opencode.db");
    let sound = home.put(".local/share/opencode/opencode.db", &bytes);
    let large = home.put(".local/share/opencode/opencode-large.db", &bytes);
    let conn = rusqlite::Connection::open(&large).expect("a database");
    conn.execute_batch(
        "PRAGMA journal_mode = DELETE; CREATE TABLE filler(x BLOB); \
         INSERT INTO filler VALUES (zeroblob(67108864));",
    )
    .expect("filled");
    drop(conn);
    let before = crate::others::state(home.dir.path());
    let told = home.check(home.dir.path());
    assert!(crate::others::state(home.dir.path()) == before, "changed");
    for key in ["records", "messages", "verdict", "findings"] {
        assert_eq!(told[&large][key], told[&sound][key]);
    }
    // What lies in its WAL is not passed over: the file is named as unread.
    std::fs::write(
        home.path(".local/share/opencode/opencode-large.db-wal"),
        "x",
    )
    .expect("a WAL");
    let path = large.to_str().expect("UTF-8");
    let (_, document) = home.run(&["doctor", "session-log", "check", path]);
    assert_eq!(document["complete"], false);
    let why = document["unread"][0]["why"].as_str().expect("words");
    assert!(why.contains("WAL"), "{why}");
}

#[test]
fn what_comes_behind_many_findings_counts_as_well() {
    let home = Home::new();
    let odd = b"{\"type\":\"user\",\"sessionId\":\"s\",\"message\":{\"role\":\"user\",\"content\":\"\xff\"}}\n";
    let mut bytes = odd.repeat(1001);
    let path = home.put(".claude/projects/-p/a.jsonl", &bytes);
    let entry = &home.check(&path)[&path];
    assert_eq!(entry["findings_total"], 1001, "{}", entry["reason"]);
    assert_eq!(entry["verdict"], "recovered");
    bytes.extend_from_slice(b"no record\n");
    home.put(".claude/projects/-p/a.jsonl", &bytes);
    let entry = &home.check(&path)[&path];
    assert_eq!(entry["findings_total"], 1002, "{}", entry["reason"]);
    assert_eq!(entry["verdict"], "damaged");
}
