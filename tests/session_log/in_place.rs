//! Repairs over the log itself: locks, what moves meanwhile, and the way back.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;

use crate::cases;
use crate::repairing::{Home, fingerprint, tree};
use crate::table::text_of;

const STOPPED: &[&str] = &["--in-place", "--harness-stopped"];

fn gate<'d>(document: &'d Value, name: &str) -> &'d str {
    document["safety_gates"]
        .as_array()
        .expect("gates")
        .iter()
        .find(|g| g["gate"] == name)
        .and_then(|g| g["reason"].as_str())
        .expect("the gate")
}

fn kind(document: &Value) -> &str {
    document["err"]["kind"].as_str().unwrap_or("none")
}

/// A log of a version whose writer takes the lock, with a fragment at its end.
pub fn torn_v1() -> cases::Case {
    let case = cases::named("clean_v1__raw");
    let mut log = File::options()
        .append(true)
        .open(case.log())
        .expect("the log");
    log.write_all(b"{\"type\":\"turn/st").expect("written");
    case
}

#[test]
fn a_log_is_repaired_in_place_and_put_back_as_it_was() {
    let case = cases::named("dup_last_4__zstd");
    let (log, home) = (case.log(), Home::new());
    fs::set_permissions(&log, Permissions::from_mode(0o640)).expect("a mode");
    let was = fs::read(&log).expect("the log");

    let (code, blocked) = home.repair(&["--in-place"], &log);
    assert_eq!((code, kind(&blocked)), (21, "blocked"), "{blocked}");
    assert!(
        gate(&blocked, "log-target").contains("--harness-stopped"),
        "{blocked}"
    );
    assert!(home.is_empty());

    let (code, plan) = home.repair(STOPPED, &log);
    assert_eq!((code, &plan["status"]), (0, &"planned".into()), "{plan}");
    assert_eq!(tree(&case.root()).len(), 1, "a plan makes no lock");
    let (code, done) = home.apply_as(STOPPED, &log, fingerprint(&plan));
    assert_eq!((code, &done["status"]), (0, &"applied".into()), "{done}");
    let (is, wanted) = (fs::read(&log).expect("the log"), case.repaired());
    assert!(text_of(&is, true) == text_of(&wanted.expect("a log"), true));
    let mode = fs::metadata(&log).expect("the log").permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    let names: Vec<String> = fs::read_dir(log.parent().expect("a folder"))
        .expect("a list")
        .map(|e| {
            e.expect("an entry")
                .file_name()
                .into_string()
                .expect("UTF-8")
        })
        .filter(|n| n != "session.lock")
        .collect();
    assert_eq!(
        names,
        ["session.jsonl.zstd"],
        "nothing else may look like a log"
    );
    let (code, again) = home.repair(STOPPED, &log);
    assert_eq!((code, &again["status"]), (0, &"no-op".into()), "{again}");
    let (_, repeated) = home.apply_as(STOPPED, &log, fingerprint(&plan));
    assert_eq!(repeated["status"], "already-applied", "{repeated}");

    let back: Vec<String> = done["rollback"]["argv"]
        .as_array()
        .expect("a way back")
        .iter()
        .skip(1)
        .map(|w| w.as_str().expect("a word").to_owned())
        .collect();
    let back: Vec<&str> = back.iter().map(String::as_str).collect();
    let (code, plan) = home.run(&back);
    assert_eq!((code, &plan["status"]), (0, &"planned".into()), "{plan}");
    let approved = plan["undo_plan"]["plan_fingerprint"]
        .as_str()
        .expect("a fingerprint");
    let mut words = back.clone();
    words.extend(["--yes", "--plan-fingerprint", approved]);
    let (code, undone) = home.run(&words);
    assert_eq!(
        (code, &undone["status"]),
        (0, &"applied".into()),
        "{undone}"
    );
    assert!(fs::read(&log).expect("the log") == was, "byte for byte");
    let (_, repeated) = home.run(&words);
    assert_eq!(repeated["status"], "already-applied", "{repeated}");
    // The same plan is good again.
    let (code, plan) = home.repair(STOPPED, &log);
    assert_eq!((code, &plan["status"]), (0, &"planned".into()), "{plan}");
}

#[test]
fn a_log_that_went_on_is_not_put_back() {
    let case = cases::named("dup_last_4__raw");
    let (log, home) = (case.log(), Home::new());
    let (code, done) = home.apply(STOPPED, &log);
    assert_eq!(code, 0, "{done}");
    let mut file = File::options().append(true).open(&log).expect("the log");
    file.write_all(b"more\n").expect("written");
    let went_on = fs::read(&log).expect("the log");
    let (code, blocked) = home.run(&["doctor", "runs", "undo", "latest"]);
    assert_eq!((code, kind(&blocked)), (21, "blocked"), "{blocked}");
    assert!(fs::read(&log).expect("the log") == went_on);
}

#[test]
fn a_log_that_moved_is_refused_with_what_moved() {
    for words in [&[][..], STOPPED] {
        let case = cases::named("dup_last_4__raw");
        let (log, home) = (case.log(), Home::new());
        let (_, plan) = home.repair(words, &log);
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), plan.to_string()).expect("written");
        let text = fs::read_to_string(&log).expect("the log");
        // Same length, another text: only the content tells.
        let changed = text.replacen("shelf", "SHELF", 1);
        assert!(changed != text && changed.len() == text.len());
        fs::write(&log, &changed).expect("written");
        let plan_file = file.path().to_str().expect("UTF-8");
        let mut all = words.to_vec();
        all.extend(["--plan-file", plan_file]);
        let (code, refused) = home.apply_as(&all, &log, fingerprint(&plan));
        assert_eq!((code, kind(&refused)), (20, "plan-mismatch"), "{refused}");
        let moved = refused["err"]["context"]["moved"]
            .as_str()
            .expect("what moved");
        assert!(moved.contains("/inputs/0/blake3"), "{moved}");
        assert!(home.is_empty(), "{words:?}");
        assert!(fs::read_to_string(&log).expect("the log") == changed);
    }
}

#[test]
fn who_has_the_session_keeps_a_repair_out() {
    let case = torn_v1();
    let (log, home) = (case.log(), Home::new());
    let was = fs::read(&log).expect("the log");
    let (code, plan) = home.repair(&["--in-place"], &log);
    assert_eq!((code, &plan["status"]), (0, &"planned".into()), "{plan}");
    let lock = File::create(log.with_file_name("session.lock")).expect("a lock");
    lock.lock().expect("held");
    let (code, busy) = home.apply_as(&["--in-place"], &log, fingerprint(&plan));
    assert_eq!((code, kind(&busy)), (7, "lock-busy"), "{busy}");
    assert!(fs::read(&log).expect("the log") == was);
    lock.unlock().expect("let go");
    // It failed for what passes: the same plan is still good, and no marker is in the way.
    let (code, done) = home.apply_as(&["--in-place"], &log, fingerprint(&plan));
    assert_eq!((code, &done["status"]), (0, &"applied".into()), "{done}");
    assert!(was.starts_with(&fs::read(&log).expect("the log")));
    let (code, repair) = home.run(&["doctor", "repair"]);
    assert_eq!((code, &repair["status"]), (0, &"no-op".into()), "{repair}");
}

#[test]
fn a_process_that_has_an_old_log_open_is_named() {
    let case = cases::named("dup_last_4__raw");
    let (log, home) = (case.log(), Home::new());
    let was = fs::read(&log).expect("the log");
    let open = File::options().append(true).open(&log).expect("the log");
    let (_, plan) = home.repair(STOPPED, &log);
    let (code, busy) = home.apply_as(STOPPED, &log, fingerprint(&plan));
    if cfg!(target_os = "linux") {
        assert_eq!((code, kind(&busy)), (7, "lock-busy"), "{busy}");
        let message = busy["err"]["message"].as_str().expect("a message");
        assert!(
            message.contains(&std::process::id().to_string()),
            "{message}"
        );
        assert!(fs::read(&log).expect("the log") == was);
    }
    drop(open);
}

#[test]
fn a_lock_that_is_made_and_removed_is_told_with_its_process() {
    let case = torn_v1();
    let (log, home) = (case.log(), Home::new());
    let id = case.text("session_id").expect("an id");
    fs::write(case.root().join(format!("{id}.lock")), "4711\n").expect("written");
    let (code, blocked) = home.repair(&["--in-place"], &log);
    assert_eq!((code, kind(&blocked)), (21, "blocked"), "{blocked}");
    assert!(
        gate(&blocked, "log-target").contains("process 4711"),
        "{blocked}"
    );
    // A copy takes nothing from anybody.
    let (code, plan) = home.repair(&[], &log);
    assert_eq!((code, &plan["status"]), (0, &"planned".into()), "{plan}");
}

#[test]
fn only_the_session_s_own_log_is_repaired_in_place() {
    let case = cases::named("dup_last_4__raw");
    let (log, home) = (case.log(), Home::new());
    let refused = |path: &Path, why: &str| {
        let (code, blocked) = home.repair(STOPPED, path);
        assert_eq!((code, kind(&blocked)), (21, "blocked"), "{blocked}");
        assert!(gate(&blocked, "log-target").contains(why), "{blocked}");
    };
    fs::copy(&log, home.dir.path().join("copy.jsonl")).expect("copied");
    refused(&home.dir.path().join("copy.jsonl"), "own session's folder");
    fs::copy(&log, log.with_file_name("session.v1.jsonl")).expect("copied");
    refused(&log, "older generation");
}
