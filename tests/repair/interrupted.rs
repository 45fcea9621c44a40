//! What killed and failed runs leave: each is found, each has its plan, each ends clean.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::lab::{
    apply, apply_argv, back_up, bytes, copy, current, damage_text, db, exported, fingerprint,
    indexed, killed, plan, run_argv, tamper,
};
use super::sandbox::{Ran, Sandbox, content};

/// The finding with this code, if the check has it.
fn found(s: &Sandbox, code: &str) -> Option<Value> {
    let check = s.run(&["doctor", "check", "--detail", "full"]);
    let all = check.at("/findings").as_array().unwrap().clone();
    all.into_iter().find(|f| f["code"] == code)
}

/// It is found, and the repair says what it does about it.
#[track_caller]
fn planned(s: &Sandbox, code: &str, actions: &[&str]) -> Ran {
    assert!(found(s, code).is_some(), "{code} is not found");
    let planned = plan(s, &["doctor", "repair"]).expect(0);
    assert_eq!(planned.text("/status"), "planned", "{}", planned.stdout);
    let words: Vec<&str> = planned
        .at("/repair_plan/actions")
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a["action"].as_str().unwrap())
        .collect();
    assert_eq!(words, actions);
    planned
}

/// Nothing more is to be done, and nothing was lost.
#[track_caller]
fn clean(s: &Sandbox, truth: &std::collections::BTreeMap<String, Vec<Value>>) {
    let idle = plan(s, &["doctor", "repair"]).expect(0);
    assert_eq!(idle.text("/status"), "no-op", "{}", idle.stdout);
    s.run(&["doctor", "check", "--deep"]).expect(0);
    assert_eq!(&exported(s), truth);
}

#[test]
fn a_killed_repair_is_finished_or_closed_by_plan() {
    for took_effect in [true, false] {
        let s = indexed();
        let truth = exported(&s);
        tamper(&s);
        let run = killed(&s, took_effect);
        let finish = planned(&s, "interrupted-operation", &["finish-interrupted"]);
        let applied = apply(&s, &finish).expect(0);
        let detail = applied.text("/receipt/actions/0/detail");
        let ended = if took_effect { "applied" } else { "failed" };
        assert!(detail.contains(&run) && detail.contains(ended), "{detail}");
        assert!(found(&s, "interrupted-operation").is_none());
        let show = s.run(&["doctor", "runs", "show", &run]).expect(0);
        assert_eq!(show.text("/receipt/status"), ended);
        // The candidate went, or is live and the old archive is kept.
        let candidate = s.data().join("generations/g00000002");
        assert_eq!(candidate.exists(), took_effect);
        if !took_effect {
            apply(&s, &plan(&s, &["doctor", "repair"]).expect(0)).expect(0);
        }
        clean(&s, &truth);
        let undo = plan(&s, &["doctor", "runs", "undo", "latest"]).expect(0);
        apply(&s, &undo).expect(0);
        assert_eq!(current(&s), "g00000001", "{took_effect}");
    }
}

#[test]
fn the_words_that_were_killed_work_again() {
    for took_effect in [true, false] {
        let s = indexed();
        let truth = exported(&s);
        tamper(&s);
        let first = plan(&s, &["doctor", "repair"]).expect(0);
        killed(&s, took_effect);
        let again = run_argv(&s, &apply_argv(&first)).expect(0);
        let status = if took_effect {
            "already-applied"
        } else {
            "applied"
        };
        assert_eq!(again.text("/status"), status);
        clean(&s, &truth);
    }
}

#[test]
fn a_run_whose_archive_was_damaged_before_it_was_finished_goes_back() {
    type Damage = fn(&Sandbox);
    let kinds: [(&str, Damage); 4] = [
        ("noise", |s| fs::write(db(s), [7u8; 50_000]).unwrap()),
        ("gone", |s| fs::remove_file(db(s)).unwrap()),
        ("manifest", |s| {
            fs::write(db(s).with_file_name("manifest.json"), "{").unwrap();
        }),
        ("a row", |s| damage_text(&db(s), b"answer 9:")),
    ];
    for (what, damage) in kinds {
        for by_index in [true, false] {
            let s = indexed();
            let truth = exported(&s);
            tamper(&s);
            let run = killed(&s, true);
            damage(&s);
            if by_index {
                s.run(&["index"]);
            } else {
                let finish = planned(&s, "interrupted-operation", &["finish-interrupted"]);
                apply(&s, &finish).expect(0);
            }
            assert!(found(&s, "interrupted-operation").is_none(), "{what}");
            let show = s.run(&["doctor", "runs", "show", &run]).expect(0);
            // A row is not read to finish a run: that it is damaged is found by the next check.
            let ended = if what == "a row" {
                "applied"
            } else {
                "rolled-back"
            };
            assert_eq!(show.text("/receipt/status"), ended, "{what}");
            let repair = plan(&s, &["doctor", "repair"]).expect(0);
            apply(&s, &repair).expect(0);
            s.run(&["index"]).expect(0);
            clean(&s, &truth);
        }
    }
}

#[test]
fn an_intent_that_cant_be_read_is_put_aside() {
    let s = indexed();
    let truth = exported(&s);
    tamper(&s);
    let run = killed(&s, true);
    let rel = format!("doctor/intents/{run}.json");
    fs::write(s.data().join(&rel), "{ torn").unwrap();
    // Whoever writes leaves it alone.
    s.run(&["index"]).expect(0);
    let finish = planned(&s, "interrupted-operation", &["finish-interrupted"]);
    let applied = apply(&s, &finish).expect(0);
    assert!(!s.data().join(&rel).exists());
    let detail = applied.text("/receipt/actions/0/detail");
    let kept = detail.rsplit(' ').next().unwrap();
    assert_eq!(fs::read(s.data().join(kept)).unwrap(), b"{ torn");
    let left = plan(&s, &["doctor", "repair"]).expect(0);
    if left.text("/status") == "planned" {
        apply(&s, &left).expect(0);
    }
    clean(&s, &truth);
}

#[test]
fn what_else_is_asked_for_beside_a_killed_run_comes_after_it() {
    // A backup and a restore are of the archive that is left when the run has been dealt with.
    let s = indexed();
    back_up(&s, "first");
    let truth = exported(&s);
    tamper(&s);
    let run = killed(&s, true);
    let create = plan(&s, &["doctor", "backups", "create"]).expect(0);
    apply(&s, &create).expect(0);
    let show = s.run(&["doctor", "runs", "show", &run]).expect(0);
    assert_eq!(show.text("/receipt/status"), "applied");
    clean(&s, &truth);
    // A rehearsal finishes it as well.
    tamper(&s);
    let run = killed(&s, false);
    let restore = s
        .run(&["doctor", "backups", "restore", "b00000002"])
        .expect(0);
    let show = s.run(&["doctor", "runs", "show", &run]).expect(0);
    assert_eq!(show.text("/receipt/status"), "failed");
    apply(&s, &restore).expect(0);
    clean(&s, &truth);
}

#[test]
fn orphan_candidates_are_put_aside_and_can_be_put_back() {
    let s = indexed();
    let truth = exported(&s);
    let orphans = ["g00000004", "g00000007"].map(|id| s.data().join("generations").join(id));
    for orphan in &orphans {
        fs::create_dir(orphan).unwrap();
        copy(db(&s).parent().unwrap(), orphan);
    }
    // One is nothing but a database that was begun.
    fs::remove_file(orphans[1].join("manifest.json")).unwrap();
    fs::write(orphans[1].join("agent_search.db"), "").unwrap();
    let before = bytes(&s);
    let reclaim = planned(
        &s,
        "orphan-generation",
        &["reclaim-orphan", "reclaim-orphan"],
    );
    apply(&s, &reclaim).expect(0);
    assert!(found(&s, "orphan-generation").is_none());
    assert!(orphans.iter().all(|o| !o.exists()));
    clean(&s, &truth);
    let undo = plan(&s, &["doctor", "runs", "undo", "latest"]).expect(0);
    apply(&s, &undo).expect(0);
    let after = bytes(&s);
    assert!(before.iter().all(|(path, b)| after.get(path) == Some(b)));
    let again = plan(&s, &["doctor", "repair"]).expect(0);
    assert_eq!(fingerprint(&again), fingerprint(&reclaim));
}

#[test]
fn a_failed_repair_leaves_a_marker_that_blocks_until_a_repeat_is_allowed() {
    let s = indexed();
    let truth = exported(&s);
    tamper(&s);
    let before = plan(&s, &["doctor", "repair"]).expect(0);
    let marker = s.data().join("doctor/failures/marker.json");
    fs::create_dir_all(marker.parent().unwrap()).unwrap();
    fs::write(&marker, b"{ torn").unwrap();
    let check = s.run(&["doctor", "check"]);
    assert_eq!(check.text("/repair_failure_marker/status"), "corrupt");
    let blocked = plan(&s, &["doctor", "repair"]).expect(21);
    assert_eq!(blocked.text("/err/context/gate"), "repair-marker");
    apply(&s, &before).expect(20);
    let allowed = plan(&s, &["doctor", "repair", "--allow-repeated-repair"]).expect(0);
    let applied = apply(&s, &allowed).expect(0);
    assert_eq!(applied.text("/status"), "applied");
    assert!(!marker.exists(), "a success clears the marker");
    let check = s.run(&["doctor", "check"]).expect(0);
    assert_eq!(check.text("/repair_failure_marker/status"), "absent");
    clean(&s, &truth);
}

#[test]
fn whatever_current_holds_instead_of_the_archives_name_it_is_put_right() {
    for bytes in [
        &b""[..],
        b"\n",
        b"g00000001",
        b"g00000009\n",
        b"g00000001\ng00000001\n",
        b"\0\0\0\0\0\0\0\0\0\0",
        b"../../etc\n",
    ] {
        let s = indexed();
        let truth = exported(&s);
        fs::write(s.data().join("CURRENT"), bytes).unwrap();
        s.run(&["doctor", "check"]).expect(1);
        let repair = plan(&s, &["doctor", "repair"]).expect(0);
        let taken = repair.at("/repair_plan/rungs/0/taken");
        assert_eq!(taken, true, "{bytes:?}: {}", repair.stdout);
        apply(&s, &repair).expect(0);
        assert_eq!(fs::read(s.data().join("CURRENT")).unwrap(), b"g00000001\n");
        clean(&s, &truth);
    }
}

/// The check names a receipt that can't be read, in every form of damage, and no other.
#[test]
fn a_damaged_receipt_is_found_by_name() {
    let s = indexed();
    let mut receipts = Vec::new();
    for _ in 0..2 {
        tamper(&s);
        let repaired = super::lab::repair(&s);
        receipts.push(repaired.text("/receipt/path").to_owned());
    }
    let told = |args: &[&str]| -> Vec<Value> {
        let check = s.run(&[&["doctor", "check", "--detail", "full"], args].concat());
        let check = check.expect(0);
        let all = check.at("/findings").as_array().unwrap().clone();
        let about = |f: &Value| f["code"].as_str().unwrap().starts_with("receipt");
        all.into_iter().filter(about).collect()
    };
    assert_eq!(told(&[]), told(&["--deep"]));
    assert_eq!(told(&[]), Vec::<Value>::new());
    for name in &receipts {
        let path = s.data().join(name);
        let whole = fs::read(&path).unwrap();
        let flipped = |at: usize| {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            bytes
        };
        let status = whole.windows(9).position(|w| w == b"\"applied\"");
        let digest = whole.len() - 20;
        for bytes in [
            flipped(0),
            flipped(status.unwrap() + 3),
            flipped(digest),
            whole[..whole.len() / 2].to_vec(),
            Vec::new(),
            [&whole[..], b"x"].concat(),
        ] {
            fs::write(&path, &bytes).unwrap();
            for args in [&[][..], &["--deep"]] {
                let found = told(args);
                assert_eq!(found.len(), 1, "{found:?}");
                assert_eq!(found[0]["code"], "receipt-damaged");
                assert_eq!(found[0]["severity"], "warn");
                assert_eq!(found[0]["subject"], name.as_str());
                let message = found[0]["message"].as_str().unwrap();
                assert!(message.contains("undone"), "{message}");
            }
            // What the run did is as it was.
            let idle = plan(&s, &["doctor", "repair"]).expect(0);
            assert_eq!(idle.text("/status"), "no-op", "{}", idle.stdout);
        }
        fs::write(&path, &whole).unwrap();
    }
    assert_eq!(told(&["--deep"]), Vec::<Value>::new());
    let all = super::sandbox::files_below(&s.data().join("doctor/receipts"));
    for path in &all {
        fs::write(path, b"{").unwrap();
    }
    assert_eq!((all.len(), told(&[]).len()), (2, 2));
}

/// What the run did is not undone, and nothing that it made is removed: the receipt is written anew.
#[test]
fn a_receipt_that_is_gone_is_written_anew() {
    for (which, then_undone) in [(0, false), (1, false), (0, true), (1, true)] {
        let s = indexed();
        let truth = exported(&s);
        let mut runs = Vec::new();
        for _ in 0..2 {
            tamper(&s);
            runs.push(super::lab::repair(&s));
        }
        if then_undone {
            let undo = plan(&s, &["doctor", "runs", "undo", "latest"]).expect(0);
            apply(&s, &undo).expect(0);
        }
        let receipt = s.data().join(runs[which].text("/receipt/path"));
        let run = runs[which].text("/receipt/run_id");
        // Seals are dated.
        let kept = |s: &Sandbox| {
            let kept = content(&s.data()).into_iter();
            let kept = kept.filter(|(path, _)| {
                ["agent_search.db", "coverage.jsonl", "CURRENT"]
                    .map(Path::new)
                    .iter()
                    .any(|name| path.ends_with(name))
            });
            kept.collect::<Vec<_>>()
        };
        let (before, show) = (
            kept(&s),
            s.run(&["doctor", "runs", "show", run]).expect(0).json,
        );
        // As the finding of a damaged one says.
        fs::remove_file(&receipt).unwrap();
        assert_eq!(
            found(&s, "interrupted-operation").unwrap()["severity"],
            "warn"
        );
        let index = s.run(&["index", "--skip-lexical"]);
        let what = format!("{which}, undone: {then_undone}: {}", index.stdout);
        // The archive that an undo put back is the damaged one.
        assert_eq!(index.code, 0, "{what}");
        assert!(kept(&s) == before, "{what}");
        assert!(found(&s, "interrupted-operation").is_none(), "{what}");
        let anew = s.run(&["doctor", "runs", "show", run]).expect(0).json;
        for key in ["status", "backup_id", "undone_by", "plan_fingerprint"] {
            // What an undo put back is live and no backup any more.
            if key == "backup_id" && which == 1 && then_undone {
                continue;
            }
            assert_eq!(anew["receipt"][key], show["receipt"][key], "{key}: {what}");
        }
        if then_undone {
            assert_eq!(current(&s), "g00000002");
            super::lab::repair(&s);
        }
        s.run(&["index"]).expect(0);
        clean(&s, &truth);
    }
}

/// What was added to an archive since outlives the loss of the receipt that made it live, even where
/// that archive is damaged by now.
#[test]
fn a_lost_receipt_takes_back_nothing_that_was_added_since() {
    let s = indexed();
    tamper(&s);
    let run = super::lab::repair(&s);
    s.put(
        ".claude/projects/-src-a/00000000-0000-4000-8000-000000000001.jsonl",
        &super::lab::claude(80),
    );
    s.run(&["index"]).expect(0);
    let truth = exported(&s);
    let live = current(&s);
    fs::remove_file(s.data().join(run.text("/receipt/path"))).unwrap();
    fs::write(db(&s), b"no database").unwrap();
    let index = s.run(&["index", "--skip-lexical"]);
    assert_eq!(current(&s), live, "{}", index.stdout);
    super::lab::repair(&s);
    s.run(&["index"]).expect(0);
    clean(&s, &truth);
}

/// Who is said to have the lock is text: it stops nobody, is no finding, and the next owner writes it anew.
#[test]
fn what_an_earlier_owner_left_as_its_name_stops_nobody() {
    for stale in [
        r#"{"format":1,"pid":1,"command":"index","since_ms":1}"#,
        "{ torn",
        "",
        "\0\0\0\0",
    ] {
        let s = indexed();
        let truth = exported(&s);
        let info = s.data().join("locks/writer.info");
        fs::write(&info, stale).unwrap();
        let check = s.run(&["doctor", "check"]).expect(0);
        let findings = check.at("/findings").as_array().unwrap();
        let about = |f: &&Value| f["check"] == "lock.state" && f["severity"] != "info";
        assert_eq!(findings.iter().find(about), None, "{stale:?}");
        tamper(&s);
        let planned = plan(&s, &["doctor", "repair"]).expect(0);
        assert_eq!(fs::read_to_string(&info).unwrap(), stale);
        apply(&s, &planned).expect(0);
        let now: Value = serde_json::from_slice(&fs::read(&info).unwrap()).unwrap();
        assert_eq!(now["command"], "doctor repair", "{stale:?}: {now}");
        clean(&s, &truth);
    }
}
