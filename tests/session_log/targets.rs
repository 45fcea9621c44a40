//! Where a repaired log may come to lie, and what state the data directory may be in.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cases;
use crate::repairing::{Home, fingerprint, tree};

fn shut(document: &Value) -> String {
    document["safety_gates"]
        .as_array()
        .expect("gates")
        .iter()
        .filter(|g| g["verdict"] == "block")
        .map(|g| format!("{}: {}", g["gate"], g["reason"]))
        .collect()
}

/// The log is refused a place in `output`, planned or approved before, and nothing there changes.
fn is_refused(home: &Home, log: &Path, output: &Path, why: &str) {
    let before = tree(output);
    let words = ["--output", output.to_str().expect("UTF-8")];
    let (code, blocked) = home.repair(&words, log);
    assert_eq!(
        (code, &blocked["err"]["kind"]),
        (21, &"blocked".into()),
        "{why}: {blocked}"
    );
    let reason = shut(&blocked);
    assert!(
        reason.contains("log-target") && reason.contains(why),
        "{why}: {reason}"
    );
    let (code, refused) = home.apply_as(&words, log, fingerprint(&blocked));
    assert_eq!(
        (code, &refused["err"]["kind"]),
        (21, &"blocked".into()),
        "{why}"
    );
    assert!(tree(output) == before, "{why}");
    assert!(home.is_empty(), "{why}");
}

fn with(case: &cases::Case) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a folder");
    cases::copy_tree(&case.root(), dir.path());
    let rel = case
        .log()
        .strip_prefix(case.root())
        .expect("below")
        .to_owned();
    (dir, rel)
}

#[test]
fn no_log_comes_where_one_is_or_where_it_would_spoil_a_root() {
    let case = cases::named("dup_last_4__raw");
    let (log, home) = (case.log(), Home::new());
    is_refused(&home, &log, &case.root(), "exists already");

    let packed = cases::named("clean_resumed__zstd");
    let (dir, _) = with(&packed);
    is_refused(&home, &log, dir.path(), "other encoding");

    let (dir, rel) = with(&case);
    let project = dir.path().join(rel.iter().next().expect("a project"));
    fs::rename(&project, dir.path().join("--elsewhere--")).expect("renamed");
    is_refused(&home, &log, dir.path(), "same session");

    let (dir, rel) = with(&cases::named("clean_resumed__raw"));
    let folder = dir
        .path()
        .join(rel)
        .ancestors()
        .nth(2)
        .expect("a project")
        .to_owned();
    fs::write(folder.join("flat.jsonl"), "{}\n").expect("written");
    is_refused(&home, &log, dir.path(), "whole root");

    let dir = tempfile::tempdir().expect("a folder");
    is_refused(
        &home,
        &log,
        &dir.path().join("no/such/place"),
        "none is above it",
    );
    fs::write(dir.path().join("file"), "mine").expect("written");
    is_refused(&home, &log, &dir.path().join("file"), "no folder");
}

#[test]
fn a_place_that_is_taken_after_the_plan_stays_as_it_is() {
    let case = cases::named("dup_last_4__raw");
    let (log, home) = (case.log(), Home::new());
    let (_, plan) = home.repair(&[], &log);
    let target = home
        .dir
        .path()
        .join("repaired-sessions")
        .join(log.strip_prefix(case.root()).expect("below"));
    fs::create_dir_all(target.parent().expect("a folder")).expect("made");
    fs::write(&target, "theirs").expect("written");
    let (code, refused) = home.apply_as(&[], &log, fingerprint(&plan));
    // The same actions over another state: the gate is shut, and nothing is written over.
    assert!([20, 21].contains(&code), "{refused}");
    assert_eq!(fs::read(&target).expect("the file"), b"theirs");
}

#[test]
fn another_log_may_lie_there_already() {
    let case = cases::named("dup_last_4__raw");
    let (log, home) = (case.log(), Home::new());
    let (dir, _) = with(&cases::named("clean_resumed__raw"));
    let before = tree(dir.path());
    let words = ["--output", dir.path().to_str().expect("UTF-8")];
    let (code, done) = home.apply(&words, &log);
    assert_eq!((code, &done["status"]), (0, &"applied".into()), "{done}");
    let after = tree(dir.path());
    assert_eq!(after.len(), before.len() + 1);
    assert!(before.iter().all(|(k, v)| after.get(k) == Some(v)));
    let (code, check) = home.run(&["doctor", "session-log", "check", words[1]]);
    assert_eq!(
        (code, &check["verdicts"]["clean"]),
        (0, &2.into()),
        "{check}"
    );
}

#[test]
fn a_log_alone_gets_the_folders_that_its_header_says() {
    let case = cases::named("dup_last_4__raw");
    let home = Home::new();
    let lost = tempfile::tempdir().expect("a folder");
    let copy = lost.path().join("from a mail.jsonl");
    fs::copy(case.log(), &copy).expect("copied");
    let (code, done) = home.apply(&[], &copy);
    assert_eq!((code, &done["status"]), (0, &"applied".into()), "{done}");
    let made = tree(&home.dir.path().join("repaired-sessions"));
    let rel = case
        .log()
        .strip_prefix(case.root())
        .expect("below")
        .to_owned();
    assert_eq!(made.into_keys().collect::<Vec<_>>(), [rel]);
}

#[test]
fn what_is_excluded_is_not_captured_and_so_not_repaired() {
    let case = cases::named("dup_last_4__raw");
    let (log, home) = (case.log(), Home::new());
    let config = home.dir.path().join(".config/cass");
    fs::create_dir_all(&config).expect("a folder");
    let rule = format!("exclude = [{:?}]\n", case.root().display().to_string());
    fs::write(config.join("config.toml"), rule).expect("written");
    let (code, blocked) = home.repair(&[], &log);
    assert_eq!(
        (code, &blocked["err"]["kind"]),
        (21, &"blocked".into()),
        "{blocked}"
    );
    assert!(shut(&blocked).contains("out of the mirror"), "{blocked}");
    assert!(!home.dir.path().join(".local").exists());
}

#[test]
fn an_archive_that_is_damaged_is_no_obstacle_and_is_left_alone() {
    let case = cases::named("dup_last_4__zstd");
    let home = Home::new();
    let root = home.dir.path().join(".dsh/sessions");
    cases::copy_tree(&case.root(), &root);
    let log = root.join(case.log().strip_prefix(case.root()).expect("below"));
    let (code, indexed) = home.run(&["index"]);
    assert_eq!(code, 0, "{indexed}");
    let data = home.dir.path().join(".local/share/cass");
    let archive = fs::read_dir(data.join("generations"))
        .expect("a list")
        .next()
        .expect("a generation")
        .expect("an entry")
        .path()
        .join("agent_search.db");
    fs::write(&archive, "no database").expect("written");
    let (code, done) = home.apply(&[], &log);
    assert_eq!((code, &done["status"]), (0, &"applied".into()), "{done}");
    assert_eq!(fs::read(&archive).expect("the archive"), b"no database");
}

#[test]
fn what_was_repaired_in_place_is_indexed_like_anything_else() {
    let case = cases::named("dup_last_4__raw");
    let home = Home::new();
    let root = home.dir.path().join(".dsh/sessions");
    cases::copy_tree(&case.root(), &root);
    let log = root.join(case.log().strip_prefix(case.root()).expect("below"));
    let in_place = ["--in-place", "--harness-stopped"];
    for status in ["applied", "no-op"] {
        let (code, indexed) = home.run(&["index"]);
        assert_eq!((code, &indexed["status"]), (0, &status.into()), "{indexed}");
    }
    let (code, done) = home.apply(&in_place, &log);
    assert_eq!((code, &done["status"]), (0, &"applied".into()), "{done}");
    let (code, indexed) = home.run(&["index"]);
    assert_eq!(
        (code, &indexed["status"]),
        (0, &"applied".into()),
        "{indexed}"
    );
    let (code, check) = home.run(&["doctor", "check", "--deep"]);
    assert_eq!(code, 0, "{check}");
}
