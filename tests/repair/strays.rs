//! Messages of lost records, and records of lost conversations: when they are placed by a plan, and
//! when they are left to an index.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use super::lab::{apply, claude, db, exported, plan};
use super::sandbox::{Ran, Sandbox};

const NATIVE: &str = "00000000-0000-4000-8000-000000000001";
const SESSION: &str = ".claude/projects/-src-a/00000000-0000-4000-8000-000000000001.jsonl";

/// What became of a conversation, in SQL.
const LOST_RECORDS: &str = "UPDATE records SET line=line+1 WHERE id IN (12,13,14)";
const LOST_CONVERSATION: &str = "UPDATE conversations SET native_id='gone'";

/// A session of 40 turns, in the archive and nowhere else but in its file.
fn salvageable(sql: &str) -> Sandbox {
    let s = Sandbox::in_memory();
    s.put(SESSION, &claude(40));
    s.run(&["index"]).expect(0);
    damage(&s, sql);
    s
}

fn damage(s: &Sandbox, sql: &str) {
    let conn = rusqlite::Connection::open(db(s)).unwrap();
    conn.execute_batch(sql).unwrap();
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
    drop(conn);
    let _ = fs::remove_dir_all(s.data().join("raw-mirror"));
}

fn settings(s: &Sandbox, text: &str) {
    let folder = s.home().join(".config/cass");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.toml"), text).unwrap();
}

/// Conversations and rows that a plan would place.
fn places(planned: &Ran) -> Vec<(String, String)> {
    let all = planned.at("/coverage_summary/lost").as_array().unwrap();
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    all.iter()
        .filter(|l| l["what"] == "place")
        .map(|l| (text(&l["native_id"]), text(&l["count"])))
        .collect()
}

/// How often each text is said, by conversation.
fn said(s: &Sandbox) -> Vec<BTreeMap<String, u64>> {
    let count = |messages: &Vec<Value>| {
        let mut all = BTreeMap::new();
        for m in messages.iter().filter(|m| m["superseded"] == false) {
            *all.entry(m["text"].as_str().unwrap().to_owned())
                .or_insert(0) += 1;
        }
        all
    };
    exported(s).values().map(count).collect()
}

fn once_each(s: &Sandbox, what: &str) {
    let all = said(s);
    assert_eq!(all.len(), 1, "{what}");
    assert_eq!(all[0].len(), 40, "{what}");
    assert!(all[0].values().all(|n| *n == 1), "{what}: {all:?}");
}

#[test]
fn messages_of_a_lost_record_are_left_to_the_index_only_where_it_reads_their_file() {
    let elsewhere = "[[roots]]\nprovider = \"claude\"\npath = \"~/elsewhere\"\n";
    for (what, text, is_read) in [
        ("no settings", "", true),
        ("another root", elsewhere, true),
        ("excluded", "exclude = [\"**/.claude/**\"]\n", false),
        (
            "its own file",
            "exclude = [\"**/00000000-*.jsonl\"]\n",
            false,
        ),
        ("settings that can't be used", "exclude = 1\n", false),
    ] {
        let s = salvageable(LOST_RECORDS);
        settings(&s, text);
        let planned = plan(&s, &["doctor", "repair"]).expect(0);
        let expected: Vec<(String, String)> = match is_read {
            true => Vec::new(),
            false => vec![(NATIVE.to_owned(), "3".to_owned())],
        };
        assert_eq!(places(&planned), expected, "{what}");
        apply(&s, &planned).expect(0);
        if is_read {
            assert_eq!(said(&s)[0].len(), 37, "{what}");
            s.run(&["index"]).expect(0);
        }
        once_each(&s, what);
    }
}

#[test]
fn messages_of_a_harness_whose_folder_is_looked_into_no_more_are_placed() {
    let s = Sandbox::in_memory();
    s.put(
        "elsewhere/projects/-src-a/00000000-0000-4000-8000-000000000001.jsonl",
        &claude(40),
    );
    settings(
        &s,
        "[[roots]]\nprovider = \"claude\"\npath = \"~/elsewhere\"\n",
    );
    s.run(&["index"]).expect(0);
    damage(&s, LOST_RECORDS);
    settings(&s, "");
    let planned = plan(&s, &["doctor", "repair"]).expect(0);
    assert_eq!(places(&planned).len(), 1, "{}", planned.stdout);
    apply(&s, &planned).expect(0);
    once_each(&s, "no root");
}

/// A restore that keeps what is newer takes the rows of the live archive, however damaged.
#[test]
fn the_plan_of_a_restore_lists_what_it_will_place() {
    for (what, sql, pruned, native, rows) in [
        ("lost records", LOST_RECORDS, true, NATIVE, "3"),
        (
            "a lost conversation",
            LOST_CONVERSATION,
            false,
            "unknown/conversation-",
            "40",
        ),
    ] {
        let s = Sandbox::in_memory();
        s.put(
            ".claude/projects/-src-b/00000000-0000-4000-8000-00000000000b.jsonl",
            &other(),
        );
        s.run(&["index"]).expect(0);
        let made = plan(&s, &["doctor", "backups", "create"]).expect(0);
        let id = apply(&s, &made).expect(0).text("/backup_id").to_owned();
        s.put(SESSION, &claude(40));
        s.run(&["index"]).expect(0);
        let records = sql.replace("(12,13,14)", "(13,14,15)");
        damage(&s, &records.replace("'gone'", "'gone' WHERE id=2"));
        if pruned {
            fs::remove_file(s.home().join(SESSION)).unwrap();
        }
        let planned = s
            .run(&["doctor", "backups", "restore", "--keep-newer", &id])
            .expect(0);
        assert_eq!(planned.text("/restore_rehearsal/status"), "verified");
        let all = places(&planned);
        assert_eq!(all.len(), 1, "{what}: {}", planned.stdout);
        assert!(all[0].0.starts_with(native), "{what}: {all:?}");
        assert_eq!(all[0].1, rows, "{what}");
        let gates = planned.at("/safety_gates").to_string();
        assert!(
            gates.contains("without the row that says where they belong"),
            "{gates}"
        );
        apply(&s, &planned).expect(0);
        let all = said(&s);
        assert_eq!(all.len(), 2, "{what}");
        let whole = all
            .iter()
            .filter(|c| c.len() == 40 && c.values().all(|n| *n == 1));
        assert_eq!(whole.count(), 1, "{what}: {all:?}");
    }
}

/// Nothing of the archive is in error, and there is nothing more to do.
fn at_rest(s: &Sandbox, what: &str) {
    let check = s.run(&["doctor", "check", "--deep"]);
    let found = check.at("/findings").as_array().unwrap().iter();
    let of_archive = |f: &&Value| f["id"].as_str().unwrap().starts_with("archive.");
    assert_eq!(
        found.filter(of_archive).count(),
        0,
        "{what}: {}",
        check.stdout
    );
    assert_eq!(
        s.run(&["index"]).expect(0).text("/status"),
        "no-op",
        "{what}"
    );
}

#[test]
fn a_lost_conversation_that_is_read_again_stands_once_under_its_name() {
    let both = format!("{LOST_CONVERSATION};{LOST_RECORDS}");
    let source = format!("{LOST_CONVERSATION};UPDATE sources SET epoch=epoch+1");
    for (what, sql) in [
        ("conversation", LOST_CONVERSATION),
        ("conversation and records", &both),
        ("conversation and source", &source),
    ] {
        let s = salvageable(sql);
        let planned = plan(&s, &["doctor", "repair"]).expect(0);
        let names = places(&planned);
        assert_eq!(names.len(), 1, "{what}: {}", planned.stdout);
        apply(&s, &planned).expect(0);
        once_each(&s, what);
        let made_up = s.sessions()[0]["id"].as_str().unwrap().to_owned();
        assert_eq!(s.sessions()[0]["native_id"], names[0].0.as_str(), "{what}");
        // Its file is there, and grew.
        s.put(SESSION, &claude(42));
        s.run(&["index"]).expect(0);
        for round in ["read again", "salvaged once more"] {
            let what = format!("{what}, {round}");
            let all = s.sessions();
            assert_eq!(all.len(), 1, "{what}: {all:#?}");
            assert_eq!(all[0]["native_id"], NATIVE, "{what}");
            let messages = s.messages(all[0]["id"].as_str().unwrap());
            assert_eq!(messages.len(), 42, "{what}");
            let hits = s.run(&["search", "harbour", "--limit", "100"]).expect(0);
            assert_eq!(hits.at("/hits").as_array().unwrap().len(), 21, "{what}");
            assert!(!hits.stdout.contains("unknown/"), "{what}: {}", hits.stdout);
            let stats = s.run(&["stats"]).expect(0);
            assert!(
                !stats.stdout.contains("unknown"),
                "{what}: {}",
                stats.stdout
            );
            // What was made up is still held.
            s.run(&["view", &made_up]).expect(0);
            at_rest(&s, &what);
            if round == "read again" {
                damage(&s, "UPDATE commits SET at_ms=at_ms+1 WHERE id=1");
                let planned = plan(&s, &["doctor", "repair"]).expect(0);
                apply(&s, &planned).expect(0);
                s.run(&["index"]).expect(0);
            }
        }
    }
}

/// A repair that had to place messages, and an index that reads their record after all.
#[test]
fn a_lost_record_that_is_read_again_is_said_once() {
    let s = salvageable(LOST_RECORDS);
    settings(&s, "exclude = [\"**/.claude/**\"]\n");
    apply(&s, &plan(&s, &["doctor", "repair"]).expect(0)).expect(0);
    once_each(&s, "placed");
    damage(&s, "UPDATE commits SET at_ms=at_ms+1 WHERE id=1");
    apply(&s, &plan(&s, &["doctor", "repair"]).expect(0)).expect(0);
    once_each(&s, "placed, and salvaged once more");
    settings(&s, "");
    s.run(&["index", "--full"]).expect(0);
    once_each(&s, "read again");
    at_rest(&s, "read again");
    s.put(SESSION, &claude(42));
    s.run(&["index"]).expect(0);
    assert_eq!(said(&s)[0].len(), 42);
}

fn other() -> Vec<u8> {
    String::from_utf8(claude(1))
        .unwrap()
        .replace(NATIVE, "00000000-0000-4000-8000-00000000000b")
        .replace("harbour", "lighthouse")
        .into_bytes()
}
