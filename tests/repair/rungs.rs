//! One test a rung: damage, plan, apply, check, undo, apply again.

use std::fs;

use super::lab::{apply, current, db, exported, fingerprint, flip, indexed, plan, repair, tamper};
use super::sandbox::Sandbox;

fn rung(planned: &super::sandbox::Ran) -> Vec<u64> {
    planned
        .at("/repair_plan/rungs")
        .as_array()
        .unwrap()
        .iter()
        .filter(|r| r["taken"] == true)
        .map(|r| r["rung"].as_u64().unwrap())
        .collect()
}

#[track_caller]
fn is_clean(s: &Sandbox) {
    let check = s.run(&["doctor", "check", "--deep"]);
    assert_eq!(check.code, 0, "{}", check.stdout);
    assert_eq!(check.number("/findings_summary/error"), 0);
}

#[test]
fn a_sound_archive_needs_no_plan() {
    let s = indexed();
    let planned = plan(&s, &["doctor", "repair"]).expect(0);
    assert_eq!(planned.text("/status"), "no-op", "{}", planned.stdout);
    assert!(planned.at("/repair_plan/apply_argv").is_null());
}

#[test]
fn a_damaged_row_is_rebuilt_from_the_mirror_and_the_undo_brings_the_damage_back() {
    let s = indexed();
    let truth = exported(&s);
    tamper(&s);
    let damaged = fs::read(db(&s)).unwrap();
    let old = current(&s);
    s.run(&["doctor", "check", "--deep"]).expect(1);

    let planned = plan(&s, &["doctor", "repair"]).expect(0);
    assert_eq!(planned.text("/status"), "planned", "{}", planned.stdout);
    assert_eq!(rung(&planned), [4]);
    assert_eq!(
        planned.text("/source_authority/authority_level"),
        "verified-mirror"
    );
    assert_eq!(planned.number("/coverage_summary/missing_conversations"), 0);
    let again = plan(&s, &["doctor", "repair", "--dry-run"]).expect(0);
    assert_eq!(fingerprint(&planned), fingerprint(&again));

    let applied = apply(&s, &planned).expect(0);
    assert_eq!(applied.text("/status"), "applied", "{}", applied.stdout);
    assert_ne!(current(&s), old);
    assert_eq!(exported(&s), truth);
    is_clean(&s);
    assert_eq!(applied.text("/receipt/backup_id"), old);
    assert!(
        applied
            .at("/post_repair_probes")
            .as_array()
            .unwrap()
            .iter()
            .all(|p| p["ok"] == true)
    );
    assert!(s.data().join(applied.text("/receipt/path")).exists());

    // Repeated: the first receipt, and nothing happens.
    let repeated = apply(&s, &planned).expect(0);
    assert_eq!(repeated.text("/status"), "already-applied");
    assert_eq!(
        repeated.text("/receipt/run_id"),
        applied.text("/receipt/run_id")
    );

    // Undone: the damage is back, byte for byte.
    let undo = plan(&s, &["doctor", "runs", "undo", "latest"]).expect(0);
    let undone = apply(&s, &undo).expect(0);
    assert_eq!(undone.text("/status"), "applied", "{}", undone.stdout);
    assert_eq!(current(&s), old);
    assert_eq!(fs::read(db(&s)).unwrap(), damaged);
    s.run(&["doctor", "check", "--deep"]).expect(1);

    // The same plan applies again.
    let third = apply(&s, &planned).expect(0);
    assert_eq!(third.text("/status"), "applied", "{}", third.stdout);
    assert_ne!(
        third.text("/receipt/run_id"),
        applied.text("/receipt/run_id")
    );
    assert_eq!(exported(&s), truth);
    is_clean(&s);

    // The archive lives on.
    s.put(
        ".claude/projects/-src-a/00000000-0000-4000-8000-000000000001.jsonl",
        &super::lab::claude(70),
    );
    s.run(&["index"]).expect(0);
    is_clean(&s);
    let runs = s.run(&["doctor", "runs", "list"]).expect(0);
    assert_eq!(runs.number("/runs_total"), 3);
    // What was committed since is not dropped by an undo.
    let blocked = s.run(&["doctor", "runs", "undo", "latest"]).expect(21);
    assert_eq!(blocked.text("/err/context/gate"), "nothing-since");
    assert_eq!(blocked.at("/err/hint_argv/3"), "restore");
}

#[test]
fn a_lost_or_damaged_current_is_pointed_to_the_generation_of_the_ledger() {
    for damage in ["", "g0000", "g00000077\n", "\0\0\0"] {
        let s = indexed();
        let truth = exported(&s);
        let file = s.data().join("CURRENT");
        if damage.is_empty() {
            fs::remove_file(&file).unwrap();
        } else {
            fs::write(&file, damage).unwrap();
        }
        s.run(&["doctor", "check"]).expect(1);
        let planned = plan(&s, &["doctor", "repair"]).expect(0);
        assert_eq!(rung(&planned), [0], "{damage:?} {}", planned.stdout);
        apply(&s, &planned).expect(0);
        assert_eq!(exported(&s), truth);
        is_clean(&s);
    }
}

#[test]
fn commits_that_a_wal_lost_are_read_again_from_the_mirror() {
    let s = indexed();
    let truth = exported(&s);
    // A reader in the archive keeps the commits of the next run in the WAL.
    let lock = fs::File::open(s.data().join("locks/archive.lock")).unwrap();
    lock.lock_shared().unwrap();
    s.put(
        ".claude/projects/-src-a/00000000-0000-4000-8000-000000000001.jsonl",
        &super::lab::claude(80),
    );
    s.run(&["index", "--skip-lexical"]).expect(0);
    lock.unlock().unwrap();
    let wal = db(&s).with_file_name("agent_search.db-wal");
    assert!(fs::metadata(&wal).unwrap().len() > 100);
    // The hot WAL alone is no damage.
    let sound = plan(&s, &["doctor", "repair"]).expect(0);
    assert_eq!(sound.text("/status"), "no-op", "{}", sound.stdout);
    let after = exported(&s);
    assert_ne!(after, truth);
    flip(&wal, 60);
    s.run(&["doctor", "check"]).expect(1);
    let planned = plan(&s, &["doctor", "repair"]).expect(0);
    assert_eq!(rung(&planned), [1], "{}", planned.stdout);
    apply(&s, &planned).expect(0);
    assert_eq!(exported(&s), after);
    is_clean(&s);
}

#[test]
fn an_archive_that_is_gone_or_no_database_is_rebuilt() {
    for damage in [
        "gone",
        "empty",
        "noise",
        "no folder",
        "no manifest",
        "all gone",
    ] {
        let s = indexed();
        let truth = exported(&s);
        let path = db(&s);
        match damage {
            "gone" => fs::remove_file(&path).unwrap(),
            "empty" => fs::write(&path, b"").unwrap(),
            "noise" => fs::write(&path, [7u8; 70_000]).unwrap(),
            "no folder" => fs::remove_dir_all(path.parent().unwrap()).unwrap(),
            "no manifest" => fs::remove_file(path.with_file_name("manifest.json")).unwrap(),
            _ => fs::remove_dir_all(s.data().join("generations")).unwrap(),
        }
        let applied = repair(&s);
        assert_eq!(
            applied.text("/status"),
            "applied",
            "{damage}: {}",
            applied.stdout
        );
        assert_eq!(exported(&s), truth, "{damage}");
        is_clean(&s);
    }
}

#[test]
fn what_the_mirror_lost_comes_from_the_rows_of_the_damaged_archive() {
    let s = indexed();
    let truth = exported(&s);
    // One message is damaged, and the mirror is gone: all other rows are still there.
    tamper(&s);
    fs::remove_dir_all(s.data().join("raw-mirror")).unwrap();
    let planned = plan(&s, &["doctor", "repair"]).expect(0);
    assert_eq!(rung(&planned), [3], "{}", planned.stdout);
    let first = fingerprint(&planned);
    let gates = planned.at("/safety_gates").as_array().unwrap();
    assert!(
        gates
            .iter()
            .any(|g| g["gate"] == "sole-copy" && g["verdict"] == "warn")
    );
    let told = |g: &serde_json::Value| g["reason"].as_str().unwrap().starts_with("1 damaged");
    assert!(gates.iter().any(told), "{gates:?}");
    apply(&s, &planned).expect(0);
    let after = exported(&s);
    let count = |all: &std::collections::BTreeMap<String, Vec<serde_json::Value>>| -> usize {
        all.values().map(Vec::len).sum()
    };
    assert_eq!(count(&after) + 1, count(&truth));
    let undo = plan(&s, &["doctor", "runs", "undo", "latest"]).expect(0);
    apply(&s, &undo).expect(0);
    let again = plan(&s, &["doctor", "repair"]).expect(0);
    assert_eq!(fingerprint(&again), first);
    apply(&s, &again).expect(0);
    let seal = s
        .data()
        .join(planned.text("/forensic_bundle/artifact_manifest_path"));
    let seal: serde_json::Value = serde_json::from_slice(&fs::read(seal).unwrap()).unwrap();
    assert_eq!(seal["sole_copy"], true);
}

#[test]
fn a_damaged_coverage_ledger_is_begun_anew_and_nothing_else_changes() {
    for at in ["first", "last"] {
        let s = indexed();
        let truth = exported(&s);
        let ledger = s.data().join("coverage.jsonl");
        let text = fs::read_to_string(&ledger).unwrap();
        let mut lines: Vec<&str> = text.lines().collect();
        let n = lines.len() - 1;
        lines[if at == "first" { 0 } else { n }] = "{\"kind\":\"comm";
        fs::write(&ledger, lines.join("\n") + "\n").unwrap();
        let applied = repair(&s);
        assert_eq!(
            applied.text("/status"),
            "applied",
            "{at}: {}",
            applied.stdout
        );
        assert_eq!(exported(&s), truth);
        is_clean(&s);
        s.run(&["index"]).expect(0);
    }
}
