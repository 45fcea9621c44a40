//! R10: a disk without room. The disks are small file systems in memory; mounting them needs root,
//! and without it the test says so.

use std::path::{Path, PathBuf};

use super::disk::Disk;
use super::lab::{apply, bytes, exported, indexed, killed, plan, tamper};
use super::sandbox::Sandbox;

fn held(s: &Sandbox) -> Vec<(PathBuf, String)> {
    let kept = |p: &Path| {
        let p = p.to_string_lossy();
        !p.contains("locks") && !p.contains("filler")
    };
    bytes(s).into_iter().filter(|(p, _)| kept(p)).collect()
}

#[test]
fn without_room_nothing_changes_and_with_room_the_same_plan_is_applied() {
    let s = indexed();
    let truth = exported(&s);
    let planned_backup = plan(&s, &["doctor", "backups", "create"]).expect(0);
    let backup_first = apply(&s, &planned_backup).expect(0);
    assert_eq!(backup_first.text("/status"), "applied");
    let second = plan(&s, &["doctor", "backups", "create", "--label", "2"]).expect(0);
    let Some(disk) = Disk::below(s.data(), &s.path().join("aside"), 32) else {
        return;
    };
    for (name, is_repair) in [("backup", false), ("repair", true)] {
        let planned = if is_repair {
            tamper(&s);
            plan(&s, &["doctor", "repair"]).expect(0)
        } else {
            plan(&s, &["doctor", "backups", "create", "--label", "2"]).expect(0)
        };
        if !is_repair {
            assert_eq!(
                super::lab::fingerprint(&planned),
                super::lab::fingerprint(&second),
                "where the directory lies is no part of a plan"
            );
        }
        for kib in [0, 4, 16, 64, 256, 512, 900] {
            disk.leave(kib << 10);
            let before = held(&s);
            for _ in 0..2 {
                let refused = apply(&s, &planned).expect(21);
                assert_eq!(refused.text("/err/kind"), "no-space", "{name} {kib}");
                let number = |of: &str| -> u64 {
                    refused.text(&format!("/err/context/{of}")).parse().unwrap()
                };
                assert!(number("required_bytes") > number("free_bytes"), "{name}");
            }
            assert_eq!(held(&s), before, "{name} {kib}: something was left");
            let check = s.run(&["doctor", "check"]);
            assert!(
                check.at("/operation_outcome").is_object(),
                "{}",
                check.stdout
            );
            let health = s.run(&["health"]);
            assert!(
                health.at("/operation_outcome").is_object(),
                "{}",
                health.stdout
            );
        }
        disk.make_room();
        let applied = apply(&s, &planned).expect(0);
        assert_eq!(applied.text("/status"), "applied", "{}", applied.stdout);
        assert_eq!(exported(&s), truth, "{name}");
    }
    // The disk is small, and the check says so; nothing else is wrong.
    let check = s.run(&["doctor", "check", "--deep"]);
    assert_eq!(
        check.text("/recommended_action"),
        "make-room",
        "{}",
        check.stdout
    );
}

/// Builds of the index that fail one after another leave no more than one folder, and none once one
/// succeeds.
#[test]
fn failed_builds_of_the_index_do_not_add_up() {
    let s = indexed();
    let Some(disk) = Disk::below(s.data(), &s.path().join("aside"), 32) else {
        return;
    };
    let below = s.data().join("derived/lexical");
    let folders = || {
        let entries = std::fs::read_dir(&below).unwrap();
        let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
        names.filter(|n| n.starts_with('l')).collect::<Vec<_>>()
    };
    let live = folders();
    assert_eq!(live.len(), 1);
    std::fs::write(below.join(&live[0]).join("index.db"), [9u8; 9000]).unwrap();
    let mut begun = 0;
    for kib in [8, 12, 16, 24, 32, 48, 16, 64] {
        disk.leave(kib << 10);
        let ran = s.run(&["index"]);
        assert_eq!(ran.text("/lexical/outcome"), "failed", "{kib} KiB");
        let now = folders();
        begun += usize::from(now.len() > 1);
        assert!(now.len() <= 2, "{kib} KiB: {now:?}");
    }
    assert!(begun > 1, "no build was begun");
    disk.make_room();
    s.run(&["index"]).expect(0);
    assert_eq!(folders().len(), 1);
    s.run(&["search", "tide"]).expect(0);
}

/// A killed run is not finished without room for that, unless what it was building makes the room.
#[test]
fn a_killed_run_is_finished_where_that_gives_room() {
    let s = indexed();
    tamper(&s);
    let run = killed(&s, false);
    let Some(disk) = Disk::below(s.data(), &s.path().join("aside"), 32) else {
        return;
    };
    let receipt = s.data().join(format!("doctor/receipts/{run}.json"));
    let candidate = s.data().join("generations/g00000002");
    assert!(candidate.is_dir());
    let other = format!("--plan-fingerprint=plan-v1-{}", "0".repeat(64));
    let words = ["doctor", "backups", "create", "--yes", &other];
    disk.leave(0);
    let before = held(&s);
    let refused = s.run(&words).expect(21);
    assert_eq!(refused.text("/err/kind"), "no-space", "{}", refused.stdout);
    let number = |of: &str| -> u64 { refused.text(&format!("/err/context/{of}")).parse().unwrap() };
    assert!(number("required_bytes") > number("free_bytes"));
    assert_eq!(held(&s), before);

    disk.leave(3 << 20);
    std::fs::write(candidate.join("agent_search.db-wal"), vec![7u8; 3 << 20]).unwrap();
    disk.leave(0);
    s.run(&words);
    assert!(receipt.exists() && !candidate.exists());
}

/// An automatic fix begins nothing where there is little room: it is left to an operator, who reads how
/// much it takes. With room the same words do it.
#[test]
fn a_fix_begins_only_where_there_is_room() {
    let s = indexed();
    let truth = exported(&s);
    let Some(disk) = Disk::below(s.data(), &s.path().join("aside"), 160) else {
        return;
    };
    super::fix::spoil_lexical(&s);
    for kib in [0, 4, 64, 1024, 16 << 10, 60 << 10] {
        disk.leave(kib << 10);
        let before = held(&s);
        let refused = s.run(&["doctor", "--fix"]).expect(21);
        assert_eq!(refused.text("/recommended_action"), "make-room", "{kib}");
        let message = refused.text("/err/message");
        assert!(message.contains("bytes must be free"), "{kib}: {message}");
        assert_eq!(held(&s), before, "{kib}: something was left");
    }
    disk.make_room();
    let fixed = s.run(&["doctor", "--fix"]).expect(0);
    assert_eq!(fixed.text("/status"), "applied", "{}", fixed.stdout);
    assert_eq!(exported(&s), truth);
}
