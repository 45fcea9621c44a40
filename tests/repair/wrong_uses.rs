//! Every way to ask for the wrong thing is refused, and changes nothing.

use std::fs;
use std::process::Stdio;

use super::lab::{apply, apply_argv, bytes, fingerprint, indexed, plan, tamper};
use super::sandbox::Sandbox;

fn damaged() -> (Sandbox, super::sandbox::Ran) {
    let s = indexed();
    tamper(&s);
    let planned = plan(&s, &["doctor", "repair"]).expect(0);
    (s, planned)
}

#[test]
fn a_fingerprint_is_needed_whole_and_of_this_command() {
    let (s, planned) = damaged();
    let fp = fingerprint(&planned);
    let before = bytes(&s);
    let cut = &fp[..fp.len() - 1];
    for args in [
        vec!["doctor", "repair", "--yes"],
        vec!["doctor", "repair", "--plan-fingerprint", &fp],
        vec!["doctor", "repair", "--yes", "--plan-fingerprint", cut],
        vec!["doctor", "repair", "--yes", "--plan-fingerprint", ""],
        vec![
            "doctor",
            "repair",
            "--yes",
            "--dry-run",
            "--plan-fingerprint",
            &fp,
        ],
    ] {
        let refused = s.run(&args).expect(2);
        assert_eq!(refused.text("/err/kind"), "usage", "{args:?}");
    }
    // Another command's, another option's: not the plan for this state.
    let other = plan(&s, &["doctor", "repair", "--allow-repeated-repair"]).expect(0);
    assert_ne!(fingerprint(&other), fp);
    let refused = s
        .run(&[
            "doctor",
            "repair",
            "--yes",
            "--plan-fingerprint",
            &fingerprint(&other),
        ])
        .expect(20);
    assert_eq!(refused.text("/err/kind"), "plan-mismatch");
    assert_eq!(before, bytes(&s));
}

#[test]
fn a_plan_of_another_data_directory_or_of_a_state_that_moved_is_refused() {
    let (s, planned) = damaged();
    let (other, _) = damaged();
    let argv = apply_argv(&planned);
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    let before = bytes(&other);
    // The same bytes would be the same plan; these archives have ids of their own.
    let refused = other.run(&argv).expect(20);
    assert_eq!(refused.text("/err/kind"), "plan-mismatch");
    assert_eq!(before, bytes(&other));

    let plan_file = s.path().join("plan.json");
    fs::write(&plan_file, &planned.stdout).unwrap();
    // One more letter is damaged.
    let path = super::lab::db(&s);
    super::lab::damage_text(&path, b"answer 9:");
    let before = bytes(&s);
    let mut with_file = argv.clone();
    let file = plan_file.to_str().unwrap();
    with_file.extend(["--plan-file", file]);
    let refused = s.run(&with_file).expect(20);
    assert!(
        refused
            .text("/err/context/moved")
            .contains("/archive/files/0/blake3"),
        "{}",
        refused.stdout
    );
    assert_eq!(before, bytes(&s));
}

#[test]
fn an_agents_own_log_and_a_run_without_news_do_not_move_a_plan_and_news_does() {
    let (s, planned) = damaged();
    s.run(&["index"]).expect(0);
    let again = plan(&s, &["doctor", "repair"]).expect(0);
    assert_eq!(fingerprint(&planned), fingerprint(&again));
    // The agent that runs the doctor writes on.
    s.put(
        ".claude/projects/-src-a/00000000-0000-4000-8000-000000000001.jsonl",
        &super::lab::claude(61),
    );
    let third = plan(&s, &["doctor", "repair"]).expect(0);
    assert_eq!(fingerprint(&planned), fingerprint(&third));
    // A run that commits what it wrote is news.
    s.run(&["index"]).expect(0);
    let plan_file = s.path().join("plan.json");
    fs::write(&plan_file, &planned.stdout).unwrap();
    let mut argv = apply_argv(&planned);
    argv.extend([
        "--plan-file".to_owned(),
        plan_file.to_str().unwrap().to_owned(),
    ]);
    let refused = super::lab::run_argv(&s, &argv).expect(20);
    let moved = refused.text("/err/context/moved");
    assert!(moved.contains("/promises/commit"), "{moved}");
    let fresh = plan(&s, &["doctor", "repair"]).expect(0);
    apply(&s, &fresh).expect(0);
    s.run(&["doctor", "check", "--deep"]).expect(0);
}

#[test]
fn an_apply_beside_a_writer_is_told_to_wait() {
    let (s, planned) = damaged();
    let lock = fs::OpenOptions::new()
        .write(true)
        .open(s.data().join("locks/writer.lock"))
        .unwrap();
    lock.lock().unwrap();
    let before = bytes(&s);
    let refused = apply(&s, &planned).expect(7);
    assert_eq!(refused.text("/err/kind"), "lock-busy");
    assert!(refused.number("/err/retry_after_ms") > 0);
    assert_eq!(before, bytes(&s));
    drop(lock);
    apply(&s, &planned).expect(0);
}

#[test]
fn of_twenty_racing_applies_one_applies() {
    let (s, planned) = damaged();
    let argv = apply_argv(&planned);
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    let racers: Vec<_> = (0..20)
        .map(|_| {
            let mut c = s.command(&argv);
            c.arg("--json")
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    let mut ends = std::collections::BTreeMap::new();
    for racer in racers {
        let out = racer.wait_with_output().unwrap();
        let ran = super::sandbox::ran(out);
        let end = match ran.code {
            0 => ran.text("/status").to_owned(),
            _ => ran.text("/err/kind").to_owned(),
        };
        *ends.entry(end).or_insert(0) += 1;
    }
    assert_eq!(ends.remove("applied"), Some(1), "{ends:?}");
    let others: i32 = ends.values().sum();
    assert_eq!(others, 19);
    for end in ends.keys() {
        assert!(end == "lock-busy" || end == "already-applied", "{end}");
    }
    s.run(&["doctor", "check", "--deep"]).expect(0);
}

#[test]
fn a_failed_repair_leaves_a_marker_that_blocks_until_a_repeat_is_allowed() {
    let (s, planned) = damaged();
    let marker = s.data().join("doctor/failures/marker.json");
    fs::create_dir_all(marker.parent().unwrap()).unwrap();
    fs::write(&marker, b"{ torn").unwrap();
    let check = s.run(&["doctor", "check"]);
    assert_eq!(check.text("/repair_failure_marker/status"), "corrupt");
    let blocked = plan(&s, &["doctor", "repair"]).expect(21);
    assert_eq!(blocked.text("/err/context/gate"), "repair-marker");
    apply(&s, &planned).expect(20);
    let allowed = plan(&s, &["doctor", "repair", "--allow-repeated-repair"]).expect(0);
    let applied = apply(&s, &allowed).expect(0);
    assert_eq!(applied.text("/status"), "applied");
    assert!(!marker.exists(), "a success clears the marker");
    let check = s.run(&["doctor", "check"]).expect(0);
    assert_eq!(check.text("/repair_failure_marker/status"), "absent");
}

#[test]
fn nothing_is_made_where_nothing_was() {
    let s = Sandbox::new();
    let planned = s.run(&["doctor", "repair"]).expect(0);
    assert_eq!(planned.text("/status"), "no-op");
    s.run(&["doctor", "--fix"]).expect(0);
    s.run(&["doctor", "backups", "create"]).expect(3);
    s.run(&["doctor", "runs", "list"]).expect(0);
    s.run(&["doctor", "runs", "show", "latest"]).expect(3);
    s.run(&["doctor", "runs", "undo", "latest"]).expect(3);
    assert!(!s.data().exists());
}
