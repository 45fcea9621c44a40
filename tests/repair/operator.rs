//! What an operator meets: the command that `check` names is the one that helps, and every document
//! says what is so.

use std::fs;
use std::path::PathBuf;

use super::lab::{
    apply, apply_argv, current, damage_text, db, exported, indexed, plan, run_argv, tamper,
};
use super::sandbox::{Ran, Sandbox};

/// The words of the first command that a document recommends.
fn first(ran: &Ran) -> Vec<String> {
    ran.at("/recommended_commands/0/argv")
        .as_array()
        .unwrap_or_else(|| panic!("nothing is recommended in {}", ran.stdout))
        .iter()
        .skip(1)
        .map(|w| w.as_str().unwrap().to_owned())
        .filter(|w| !w.starts_with("--data-dir="))
        .collect()
}

/// Cuts a file to its first half.
fn halve(path: &PathBuf) {
    let bytes = fs::read(path).unwrap();
    fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
}

#[test]
fn whatever_is_wrong_with_the_archive_check_names_the_repair_and_it_ends_clean() {
    type Damage = fn(&Sandbox);
    let kinds: [(&str, Damage); 7] = [
        ("CURRENT gone", |s| {
            fs::remove_file(s.data().join("CURRENT")).unwrap()
        }),
        ("CURRENT garbage", |s| {
            fs::write(s.data().join("CURRENT"), "?").unwrap()
        }),
        ("database gone", |s| fs::remove_file(db(s)).unwrap()),
        ("database halved", |s| halve(&db(s))),
        ("manifest gone", |s| {
            fs::remove_file(db(s).with_file_name("manifest.json")).unwrap()
        }),
        ("generations gone", |s| {
            fs::remove_dir_all(s.data().join("generations")).unwrap()
        }),
        ("ledger garbage", |s| {
            fs::write(s.data().join("coverage.jsonl"), "nonsense\n").unwrap()
        }),
    ];
    for (what, damage) in kinds {
        let s = indexed();
        let truth = exported(&s);
        damage(&s);
        let check = s.run(&["doctor", "check"]).expect(1);
        assert_eq!(first(&check), ["doctor", "repair"], "{what}");
        let applied = apply(&s, &plan(&s, &["doctor", "repair"]).expect(0)).expect(0);
        assert_eq!(applied.text("/status"), "applied", "{what}");
        s.run(&["doctor", "check", "--deep"]).expect(0);
        assert_eq!(exported(&s), truth, "{what}");
    }
}

#[test]
fn an_archive_that_nothing_names_any_more_is_no_empty_data_directory() {
    for mirror in [true, false] {
        let s = indexed();
        let truth = exported(&s);
        for name in ["CURRENT", "coverage.jsonl"] {
            fs::remove_file(s.data().join(name)).unwrap();
        }
        if !mirror {
            fs::remove_dir_all(s.data().join("raw-mirror")).unwrap();
        }
        let check = s.run(&["doctor", "check"]).expect(1);
        assert_eq!(first(&check), ["doctor", "repair"]);
        apply(&s, &plan(&s, &["doctor", "repair"]).expect(0)).expect(0);
        assert_eq!(exported(&s), truth, "mirror: {mirror}");
    }
}

#[test]
fn without_database_and_ledger_the_mirror_gives_everything_back() {
    let s = indexed();
    let truth = exported(&s);
    fs::remove_file(db(&s)).unwrap();
    fs::remove_file(s.data().join("coverage.jsonl")).unwrap();
    let planned = plan(&s, &["doctor", "repair"]).expect(0);
    assert_eq!(
        planned.text("/source_authority/authority_level"),
        "verified-mirror"
    );
    apply(&s, &planned).expect(0);
    assert_eq!(exported(&s), truth);
    s.run(&["doctor", "check", "--deep"]).expect(0);
}

#[test]
fn where_only_a_backup_is_left_check_says_so_and_a_repair_restores_it() {
    let s = indexed();
    let truth = exported(&s);
    apply(&s, &plan(&s, &["doctor", "backups", "create"]).expect(0)).expect(0);
    for name in ["CURRENT", "coverage.jsonl"] {
        fs::remove_file(s.data().join(name)).unwrap();
    }
    for name in ["generations", "raw-mirror"] {
        fs::remove_dir_all(s.data().join(name)).unwrap();
    }
    let check = s.run(&["doctor", "check"]).expect(1);
    assert_eq!(first(&check), ["doctor", "repair"], "{}", check.stdout);
    // What is captured now goes into the restored archive; a new one would hide that it is gone.
    let indexed = s.run(&["index"]);
    assert_ne!(indexed.code, 0, "{}", indexed.stdout);
    assert!(!s.data().join("CURRENT").exists());
    apply(&s, &plan(&s, &["doctor", "repair"]).expect(0)).expect(0);
    assert_eq!(exported(&s), truth);
}

#[test]
fn rows_whose_source_row_is_lost_are_salvaged_too() {
    let s = indexed();
    let truth = exported(&s);
    // The rows of the sources are refused, and the mirror, which could give everything, is gone.
    let path = db(&s);
    damage_text(&path, b"-src-a/00000000-0000-4000-8000-000000000001.jsonl");
    fs::remove_dir_all(s.data().join("raw-mirror")).unwrap();
    let planned = plan(&s, &["doctor", "repair"]).expect(0);
    let applied = apply(&s, &planned);
    assert_eq!(applied.code, 0, "{}", applied.stdout);
    let after = exported(&s);
    for (id, messages) in truth {
        assert_eq!(after[&id].len(), messages.len());
    }
}

#[test]
fn what_somebody_put_in_the_place_of_a_file_is_refused_before_anything_is_done() {
    for name in ["CURRENT", "manifest.json"] {
        let s = indexed();
        let path = match name {
            "CURRENT" => s.data().join(name),
            _ => db(&s).with_file_name(name),
        };
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let refused = plan(&s, &["doctor", "repair"]).expect(2);
        assert_eq!(refused.text("/err/kind"), "unsafe-target");
        assert!(refused.text("/err/message").contains(name));
        let check = s.run(&["doctor", "check"]).expect(1);
        assert!(check.stdout.contains("by hand"), "{}", check.stdout);
        // And that is enough.
        fs::remove_dir(&path).unwrap();
        apply(&s, &plan(&s, &["doctor", "repair"]).expect(0)).expect(0);
        s.run(&["doctor", "check", "--deep"]).expect(0);
    }
}

#[test]
fn no_document_of_a_repair_shows_the_home_path() {
    let s = indexed();
    let home = s.home().display().to_string();
    halve(&db(&s));
    let planned = plan(&s, &["doctor", "repair"]).expect(0);
    let applied = apply(&s, &planned).expect(0);
    let shown = s.run(&["doctor", "runs", "show", "latest"]).expect(0);
    for ran in [planned, applied, shown] {
        assert!(!ran.stdout.contains(&home), "{}", ran.stdout);
    }
}

#[test]
fn a_sound_archive_beside_damage_that_no_repair_mends_is_told_what_does() {
    let s = indexed();
    fs::remove_file(s.data().join("coverage.jsonl")).unwrap();
    let planned = plan(&s, &["doctor", "repair"]).expect(0);
    assert_eq!(planned.text("/status"), "no-op");
    assert_eq!(
        planned.text("/operation_outcome/kind"),
        "ok-read-only-diagnosed"
    );
    assert_eq!(first(&planned), ["index"]);
    run_argv(&s, &first(&planned)).expect(0);
    s.run(&["doctor", "check"]).expect(0);

    let pack = s.data().join("raw-mirror/packs/00000001.pack");
    fs::remove_file(pack).unwrap();
    let planned = plan(&s, &["doctor", "repair"]).expect(0);
    assert_eq!(planned.text("/status"), "no-op");
    assert_eq!(first(&planned), ["index", "--full"]);
}

#[test]
fn an_index_of_another_mirror_is_made_again() {
    let (s, other) = (indexed(), Sandbox::in_memory());
    other.put(
        ".claude/projects/-src-b/00000000-0000-4000-8000-000000000001.jsonl",
        &super::lab::claude(9),
    );
    other.run(&["index"]).expect(0);
    let index = |s: &Sandbox| s.data().join("raw-mirror/index");
    fs::remove_dir_all(index(&s)).unwrap();
    fs::create_dir(index(&s)).unwrap();
    for entry in fs::read_dir(index(&other)).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), index(&s).join(entry.file_name())).unwrap();
    }
    let check = s.run(&["doctor", "check"]);
    assert_ne!(
        check.at("/recommended_commands/0/argv"),
        &serde_json::Value::Null
    );
    let planned = plan(&s, &["doctor", "repair"]).expect(0);
    assert_eq!(planned.text("/status"), "planned", "{}", planned.stdout);
    apply(&s, &planned).expect(0);
    s.run(&["doctor", "check", "--deep"]).expect(0);
}

#[test]
fn a_marker_names_the_command_that_goes_on() {
    let s = indexed();
    tamper(&s);
    fs::create_dir_all(s.data().join("doctor/failures")).unwrap();
    fs::write(s.data().join("doctor/failures/marker.json"), "not a marker").unwrap();
    let blocked = plan(&s, &["doctor", "repair"]).expect(21);
    let argv: Vec<String> = blocked
        .at("/err/hint_argv")
        .as_array()
        .unwrap()
        .iter()
        .skip(1)
        .map(|w| w.as_str().unwrap().to_owned())
        .collect();
    let planned = run_argv(&s, &argv).expect(0);
    run_argv(&s, &apply_argv(&planned)).expect(0);
    s.run(&["doctor", "check", "--deep"]).expect(0);
}

#[test]
fn the_scan_tells_of_backups_and_sealed_generations() {
    let reason = |s: &Sandbox| {
        let scan = s.run(&["doctor", "archive-scan"]);
        scan.json.pointer("/source_authority").unwrap().to_string()
    };
    let s = indexed();
    assert!(reason(&s).contains("there is none"));
    apply(&s, &plan(&s, &["doctor", "backups", "create"]).expect(0)).expect(0);
    let told = reason(&s);
    assert!(told.contains("backups: 1, sealed generations: 0"), "{told}");
    tamper(&s);
    let old = current(&s);
    apply(&s, &plan(&s, &["doctor", "repair"]).expect(0)).expect(0);
    let told = reason(&s);
    assert!(told.contains("backups: 1, sealed generations: 1"), "{told}");
    assert_ne!(old, current(&s));
    assert!(!told.contains("there is none"), "{told}");
}

#[test]
fn rows_of_a_named_archive_are_taken_over() {
    let (s, other) = (indexed(), Sandbox::in_memory());
    other.put(
        ".claude/projects/-src-b/00000000-0000-4000-8000-000000000001.jsonl",
        &String::from_utf8(super::lab::claude(9))
            .unwrap()
            .replace("8000-00000000000", "8000-00000000007")
            .into_bytes(),
    );
    other.run(&["index"]).expect(0);
    let (ours, theirs) = (exported(&s), exported(&other));
    assert!(!theirs.is_empty());
    let from = format!("--from={}", other.data().display());
    let planned = plan(&s, &["doctor", "repair", &from]).expect(0);
    let applied = apply(&s, &planned);
    assert_eq!(applied.code, 0, "{}", applied.stdout);
    let all = exported(&s);
    for (id, messages) in ours.iter().chain(&theirs) {
        assert_eq!(all.get(id), Some(messages), "{id}");
    }
}

#[test]
fn what_gives_no_row_or_is_here_already_is_no_archive_to_take_rows_from() {
    let s = indexed();
    let junk = s.put("junk", b"no database");
    let from = format!("--from={}", junk.display());
    let refused = plan(&s, &["doctor", "repair", &from]).expect(3);
    assert_eq!(refused.text("/err/kind"), "not-found");
    for own in [s.data(), db(&s)] {
        let from = format!("--from={}", own.display());
        let refused = plan(&s, &["doctor", "repair", &from]).expect(2);
        assert!(refused.text("/err/message").contains("here already"));
    }
}

#[test]
fn a_fingerprint_that_another_command_applied_is_not_applied_already() {
    let s = indexed();
    tamper(&s);
    let planned = plan(&s, &["doctor", "repair"]).expect(0);
    apply(&s, &planned).expect(0);
    let fp = super::lab::fingerprint(&planned);
    let refused = s
        .run(&[
            "doctor",
            "backups",
            "create",
            "--yes",
            "--plan-fingerprint",
            &fp,
        ])
        .expect(20);
    let argv: Vec<&str> = refused
        .at("/err/hint_argv")
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|w| w.as_str())
        .filter(|w| !w.starts_with("--data-dir="))
        .collect();
    assert_eq!(argv, ["cass", "doctor", "backups", "create"]);
}

#[test]
fn a_plan_file_that_is_none_is_a_wrong_argument() {
    let s = indexed();
    tamper(&s);
    let planned = plan(&s, &["doctor", "repair"]).expect(0);
    for text in ["", "x", "[]", r#"{"a":{"covered":5}}"#] {
        let file = s.put("plan.json", text.as_bytes());
        let mut argv = apply_argv(&planned);
        argv.push(format!("--plan-file={}", file.display()));
        run_argv(&s, &argv).expect(2);
    }
    let mut argv = apply_argv(&planned);
    argv.push("--plan-file=/nonexistent/plan.json".to_owned());
    run_argv(&s, &argv).expect(2);
}
