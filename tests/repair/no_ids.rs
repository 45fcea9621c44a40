//! A session of which the archive and the mirror lost a part, and whose source lives on; its records
//! may have no ids.

use std::collections::BTreeMap;

use serde_json::Value;

use super::lab::{apply, db, exported, plan};
use super::sandbox::Sandbox;

const SOURCE: &str = ".codex/sessions/2026/06/01/rollout-2026-06-01T00-00-00-11111111-2222-4333-8444-555555555555.jsonl";

/// A log of Codex with `n` turns: no record has an id.
fn codex(n: usize) -> Vec<u8> {
    let mut text = String::from(
        "{\"timestamp\":\"2026-06-01T00:00:00.000Z\",\"type\":\"session_meta\",\"payload\":{\"id\":\"11111111-2222-4333-8444-555555555555\",\"timestamp\":\"2026-06-01T00:00:00.000Z\",\"cwd\":\"/src/a\",\"originator\":\"codex_cli_rs\",\"cli_version\":\"0.50.0\",\"source\":\"cli\"}}\n",
    );
    for i in 0..n {
        let (role, kind) = if i % 2 == 0 {
            ("user", "input_text")
        } else {
            ("assistant", "output_text")
        };
        text.push_str(&format!(
            "{{\"timestamp\":\"2026-06-01T00:{:02}:{:02}.000Z\",\"type\":\"response_item\",\"payload\":{{\"type\":\"message\",\"role\":\"{role}\",\"content\":[{{\"type\":\"{kind}\",\"text\":\"turn {i} of the tide.\"}}]}}}}\n",
            i / 60,
            i % 60
        ));
    }
    text.into_bytes()
}

/// A log of Claude Code, in which every record has an id.
const WITH_IDS: &str = ".claude/projects/-src-a/00000000-0000-4000-8000-000000000001.jsonl";

#[test]
fn what_a_salvage_could_not_read_comes_back_whole_from_the_live_source() {
    type Log = fn(usize) -> Vec<u8>;
    let logs: [(&str, Log); 2] = [(SOURCE, codex), (WITH_IDS, super::lab::claude)];
    let records = "UPDATE records SET line=line+1 WHERE id IN (12,13,14)";
    let first = "UPDATE records SET line=line+1 WHERE id=2";
    let texts = "UPDATE messages SET text='lost' WHERE id>>24 IN (20,21,22,33)";
    for (source, log) in logs {
        let turn = |i: usize| match (source == SOURCE, i % 2) {
            (true, _) => format!("turn {i} of the tide."),
            (_, 0) => format!("question {i} about"),
            _ => format!("answer {i}: the"),
        };
        for (damage, sql) in [
            ("records", records.to_owned()),
            ("the first record", first.to_owned()),
            ("texts", texts.to_owned()),
            ("both", format!("{records};{texts}")),
        ] {
            for mirror in ["raw-mirror", "raw-mirror/packs"] {
                for grows in [40, 50] {
                    let what = format!("{source}: {damage}, no {mirror}, {grows} turns");
                    let s = Sandbox::in_memory();
                    for n in [30, 40] {
                        s.put(source, &log(n));
                        s.run(&["index"]).expect(0);
                    }
                    let path = db(&s);
                    let conn = rusqlite::Connection::open(&path).unwrap();
                    conn.execute_batch(&sql).unwrap();
                    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
                        .unwrap();
                    drop(conn);
                    std::fs::remove_dir_all(s.data().join(mirror)).unwrap();
                    s.put(source, &log(grows));
                    // As one that was never damaged has it.
                    let truth = Sandbox::in_memory();
                    truth.put(source, &log(grows));
                    truth.run(&["index"]).expect(0);

                    apply(&s, &plan(&s, &["doctor", "repair"]).expect(0)).expect(0);
                    let salvaged: usize = exported(&s).values().map(Vec::len).sum();
                    assert!(salvaged < 40, "{what}");
                    s.run(&["index"]).expect(0);
                    let (after, truth) = (exported(&s), exported(&truth));
                    assert_eq!(after.len(), 1, "{what}");
                    assert_eq!(
                        after.keys().collect::<Vec<_>>(),
                        truth.keys().collect::<Vec<_>>()
                    );
                    let said = |all: &BTreeMap<String, Vec<Value>>| {
                        let mut all: Vec<String> = all
                            .values()
                            .flatten()
                            .map(|m| format!("{} {} {}", m["id"], m["role"], m["text"]))
                            .collect();
                        // An export is in the order of the commits.
                        all.sort();
                        all
                    };
                    assert_eq!(said(&after), said(&truth), "{what}");
                    if damage == "texts" {
                        let shown = s.run(&["view", after.keys().next().unwrap(), "--count=100"]);
                        let shown = shown.expect(0).stdout;
                        let turns = (0..grows).map(|i| shown.find(&turn(i)).unwrap());
                        assert!(turns.is_sorted(), "{what}: {shown}");
                    }
                    // The archive is sound; what the mirror lost it lost.
                    let check = s.run(&["doctor", "check", "--deep"]);
                    let told = check.at("/findings").as_array().unwrap().iter();
                    let of_archive = |f: &&Value| f["id"].as_str().unwrap().starts_with("archive.");
                    assert_eq!(
                        told.filter(of_archive).count(),
                        0,
                        "{what}: {}",
                        check.stdout
                    );
                    // And there is nothing more to do.
                    let again = s.run(&["index"]).expect(0);
                    assert_eq!(again.text("/status"), "no-op", "{what}");
                    assert_eq!(s.run(&["search", "tide"]).expect(0).code, 0);
                    // Salvaged once more, nothing of it goes.
                    let path = db(&s);
                    let conn = rusqlite::Connection::open(&path).unwrap();
                    conn.execute_batch("UPDATE commits SET at_ms=at_ms+1 WHERE id=2")
                        .unwrap();
                    drop(conn);
                    std::fs::remove_dir_all(s.data().join("raw-mirror")).unwrap();
                    std::fs::remove_file(s.home().join(source)).unwrap();
                    apply(&s, &plan(&s, &["doctor", "repair"]).expect(0)).expect(0);
                    assert_eq!(said(&exported(&s)), said(&truth), "{what}, again");
                }
            }
        }
    }
}
