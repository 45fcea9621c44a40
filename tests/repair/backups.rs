//! Backups: made, restored, rehearsed, refused.

use std::fs;

use super::lab::{apply, current, db, exported, fingerprint, indexed, plan, tamper};
use super::sandbox::Sandbox;

fn backed_up(s: &Sandbox) -> String {
    let planned = plan(s, &["doctor", "backups", "create"]).expect(0);
    let made = apply(s, &planned).expect(0);
    assert_eq!(made.text("/status"), "applied", "{}", made.stdout);
    made.text("/backup_id").to_owned()
}

#[test]
fn a_backup_is_made_once_for_a_plan_and_again_for_a_new_one() {
    let s = indexed();
    let planned = plan(&s, &["doctor", "backups", "create"]).expect(0);
    let made = apply(&s, &planned).expect(0);
    let first = made.text("/backup_id").to_owned();
    assert!(
        s.data()
            .join("backups")
            .join(&first)
            .join("agent_search.db")
            .exists()
    );
    let repeated = apply(&s, &planned).expect(0);
    assert_eq!(
        repeated.text("/status"),
        "already-applied",
        "{}",
        repeated.stdout
    );
    let next = plan(
        &s,
        &["doctor", "backups", "create", "--label", "before the move"],
    )
    .expect(0);
    assert_ne!(fingerprint(&planned), fingerprint(&next));
    let second = apply(&s, &next).expect(0);
    assert_ne!(second.text("/backup_id"), first);
    s.run(&["doctor", "runs", "undo", "latest"]).expect(3);
}

#[test]
fn a_restore_is_rehearsed_first_and_leaves_nothing_of_the_candidate() {
    let s = indexed();
    let truth = exported(&s);
    let id = backed_up(&s);
    tamper(&s);
    let rehearsed = s.run(&["doctor", "backups", "restore", &id]).expect(0);
    assert_eq!(
        rehearsed.text("/restore_rehearsal/status"),
        "verified",
        "{}",
        rehearsed.stdout
    );
    assert!(s.data().join(rehearsed.text("/rehearsal_receipt")).exists());
    assert_eq!(
        fs::read_dir(s.data().join("generations")).unwrap().count(),
        1
    );
    let old = current(&s);
    let applied = apply(&s, &rehearsed).expect(0);
    assert_eq!(applied.text("/status"), "applied", "{}", applied.stdout);
    assert_eq!(applied.text("/pre_restore_backup_id"), old);
    assert_eq!(exported(&s), truth);
    s.run(&["doctor", "check", "--deep"]).expect(0);
    s.run(&["index"]).expect(0);
    s.run(&["doctor", "check", "--deep"]).expect(0);
}

#[test]
fn a_restore_that_would_lose_newer_records_is_blocked_and_names_the_plan_that_keeps_both() {
    let s = indexed();
    let id = backed_up(&s);
    s.put(
        ".claude/projects/-src-a/00000000-0000-4000-8000-000000000001.jsonl",
        &super::lab::claude(90),
    );
    s.run(&["index"]).expect(0);
    let truth = exported(&s);
    let blocked = s.run(&["doctor", "backups", "restore", &id]).expect(21);
    assert_eq!(blocked.text("/err/context/gate"), "coverage");
    assert_eq!(blocked.number("/coverage_summary/missing_records"), 30);
    assert_eq!(blocked.at("/restore_apply_allowed"), false);
    let fp = fingerprint(&blocked);
    s.run(&[
        "doctor",
        "backups",
        "restore",
        &id,
        "--yes",
        "--plan-fingerprint",
        &fp,
    ])
    .expect(21);
    let argv: Vec<String> = blocked
        .at("/err/hint_argv")
        .as_array()
        .unwrap()
        .iter()
        .skip(1)
        .map(|w| w.as_str().unwrap().to_owned())
        .collect();
    let both = super::lab::run_argv(&s, &argv).expect(0);
    apply(&s, &both).expect(0);
    assert_eq!(exported(&s), truth);
    s.run(&["doctor", "check", "--deep"]).expect(0);
}

#[test]
fn a_restore_that_was_never_rehearsed_is_not_applied() {
    let s = indexed();
    let id = backed_up(&s);
    tamper(&s);
    let rehearsed = s.run(&["doctor", "backups", "restore", &id]).expect(0);
    for receipt in fs::read_dir(s.data().join("doctor/receipts")).unwrap() {
        let path = receipt.unwrap().path();
        if path.ends_with(
            rehearsed
                .text("/rehearsal_receipt")
                .rsplit('/')
                .next()
                .unwrap(),
        ) {
            fs::remove_file(path).unwrap();
        }
    }
    let refused = apply(&s, &rehearsed).expect(21);
    assert_eq!(refused.text("/err/context/gate"), "rehearsal");
}

#[test]
fn a_damaged_backup_is_refused_and_a_repair_uses_what_is_left_of_it() {
    let s = indexed();
    let truth = exported(&s);
    let id = backed_up(&s);
    let copy = s.data().join("backups").join(&id).join("agent_search.db");
    // The archive and the mirror are gone: the backup is all there is.
    fs::remove_dir_all(s.data().join("raw-mirror")).unwrap();
    fs::write(db(&s), [0u8; 4096]).unwrap();
    let planned = plan(&s, &["doctor", "repair"]).expect(0);
    let rungs = planned.at("/repair_plan/rungs").as_array().unwrap();
    assert!(
        rungs.iter().any(|r| r["rung"] == 5 && r["taken"] == true),
        "{}",
        planned.stdout
    );
    apply(&s, &planned).expect(0);
    assert_eq!(exported(&s), truth);
    let mut bytes = fs::read(&copy).unwrap();
    let n = bytes.len() / 2;
    bytes[n] ^= 4;
    fs::write(&copy, bytes).unwrap();
    s.run(&["doctor", "backups", "restore", &id]).expect(23);
    s.run(&["doctor", "backups", "restore", "b00000099"])
        .expect(3);
    s.run(&["doctor", "backups", "restore", "../../etc"])
        .expect(3);
}

#[test]
fn what_an_older_whole_backup_lacks_comes_from_a_newer_damaged_one() {
    let s = indexed();
    backed_up(&s);
    s.put(
        ".claude/projects/-src-a/00000000-0000-4000-8000-000000000001.jsonl",
        &super::lab::claude(90),
    );
    s.run(&["index"]).expect(0);
    let truth = exported(&s);
    let newer = backed_up(&s);
    let newer = s.data().join("backups").join(newer);
    super::lab::damage_text(&newer.join("agent_search.db"), b"question 8 about");
    std::fs::remove_dir_all(s.home().join(".claude")).unwrap();
    std::fs::remove_dir_all(s.data().join("raw-mirror")).unwrap();
    std::fs::remove_dir_all(s.data().join("generations")).unwrap();
    let planned = plan(&s, &["doctor", "repair"]).expect(0);
    assert_eq!(planned.number("/coverage_summary/missing_records"), 0);
    assert_eq!(apply(&s, &planned).expect(0).text("/status"), "applied");
    assert_eq!(exported(&s), truth);
}

/// Exit, records gained, records lost.
fn numbers(s: &Sandbox, words: &[&str]) -> (i32, u64, u64) {
    let ran = s.run(words);
    let of = |key: &str| ran.number(&format!("/restore_rehearsal/{key}"));
    (ran.code, of("gained_records"), of("lost_records"))
}

/// Lost is what the live archive has and the candidate lacks.
#[test]
fn a_rehearsal_counts_what_would_be_lost() {
    let s = indexed();
    let id = backed_up(&s);
    let restore = ["doctor", "backups", "restore", &id];
    assert_eq!(numbers(&s, &restore), (0, 0, 0));
    let s = indexed();
    let id = backed_up(&s);
    s.put(
        ".claude/projects/-src-a/00000000-0000-4000-8000-000000000001.jsonl",
        &super::lab::claude(90),
    );
    s.run(&["index"]).expect(0);
    assert_eq!(
        numbers(&s, &["doctor", "backups", "restore", &id]),
        (21, 0, 30)
    );
    let both = ["doctor", "backups", "restore", "--keep-newer", &id];
    assert_eq!(numbers(&s, &both), (0, 0, 0));
}

/// What a restore replaced, and backups, stand in one list, told apart by their kind.
#[test]
fn sealed_generations_are_listed_beside_backups() {
    let s = indexed();
    let id = backed_up(&s);
    tamper(&s);
    let old = current(&s);
    let rehearsed = s.run(&["doctor", "backups", "restore", &id]).expect(0);
    let applied = apply(&s, &rehearsed).expect(0);
    assert_eq!(applied.text("/pre_restore_backup_id"), old);
    let list = s.run(&["doctor", "backups", "list"]).expect(0);
    let all: Vec<(&str, &str)> = list
        .at("/backups")
        .as_array()
        .unwrap()
        .iter()
        .map(|b| {
            (
                b["backup_id"].as_str().unwrap(),
                b["kind"].as_str().unwrap(),
            )
        })
        .collect();
    let mut expected = [(&*id, "operator"), (&*old, "sealed-generation")];
    let mut all = all;
    all.sort_unstable();
    expected.sort_unstable();
    assert_eq!(all, expected);
    // Both are verified by the same words; the damaged archive that was replaced is no source to restore.
    for id in [&id, &old] {
        s.run(&["doctor", "backups", "verify", id]).expect(0);
    }
    let refused = s.run(&["doctor", "backups", "restore", &old]).expect(23);
    assert_eq!(refused.at("/err/hint_argv/2"), "repair");
}

/// Against what the live archive has, not against what was promised once.
#[test]
fn a_rehearsal_counts_what_would_be_gained() {
    let s = indexed();
    let id = backed_up(&s);
    let restore = ["doctor", "backups", "restore", &id];
    // Three records are taken out of the live archive.
    let conn = rusqlite::Connection::open(db(&s)).unwrap();
    conn.execute_batch(
        "PRAGMA foreign_keys=OFF; CREATE TEMP TABLE gone AS SELECT id FROM records ORDER BY id LIMIT 3; \
         DELETE FROM messages WHERE id>>24 IN (SELECT id FROM gone); \
         DELETE FROM records WHERE id IN (SELECT id FROM gone);",
    )
    .unwrap();
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
    drop(conn);
    assert_eq!(numbers(&s, &restore), (0, 3, 0));
}
