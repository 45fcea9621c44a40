//! The command: exits, what is shown, and what is not.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use assert_cmd::Command;
use serde_json::Value;

use crate::cases;

fn run(words: &[&str], path: &Path) -> (i32, String) {
    let home = tempfile::tempdir().expect("a home");
    let output = Command::cargo_bin("cass")
        .expect("the program")
        .env_clear()
        .env("HOME", home.path())
        .args(["doctor", "session-log", "check"])
        .args(words)
        .arg(path)
        .output()
        .expect("it runs");
    assert_eq!(
        fs::read_dir(home.path()).expect("the home").count(),
        0,
        "nothing is written"
    );
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    (output.status.code().expect("a code"), text)
}

/// Makes the log one that nobody is writing.
fn age(path: &Path) {
    let old = SystemTime::now() - Duration::from_hours(48);
    let file = File::options().append(true).open(path).expect("the log");
    file.set_modified(old).expect("a time");
}

#[test]
fn verdicts_have_their_exits() {
    for (name, exit, verdict, status) in [
        ("clean_two_turns__zstd", 0, "clean", "ok"),
        ("dup_last_4__raw", 1, "reappended_duplicates", "error"),
        ("missing_middle_4__zstd", 1, "missing_middle", "error"),
        (
            "interrupted_open_step__raw",
            0,
            "interrupted_turn_recoverable",
            "warn",
        ),
        (
            "header_future_version__raw",
            0,
            "unsupported_version",
            "warn",
        ),
        (
            "unknown_required_event__raw",
            0,
            "unknown_required_event",
            "warn",
        ),
        (
            "torn_partial_line__raw",
            1,
            "torn_tail_recoverable",
            "error",
        ),
        ("sqlite_clean", 0, "clean", "ok"),
        ("sqlite_missing_row", 1, "missing_middle", "error"),
    ] {
        let case = cases::named(name);
        age(&case.log());
        let before = fs::metadata(case.log())
            .expect("the log")
            .modified()
            .expect("a time");
        let (code, text) = run(&["--json"], &case.root());
        let document: Value = serde_json::from_str(&text).expect("a document");
        assert_eq!(code, exit, "{name}: {text}");
        assert_eq!(document["status"], status, "{name}");
        assert_eq!(document["operation_outcome"]["exit_code"], exit, "{name}");
        let session = &document["sessions"][0];
        assert_eq!(session["verdict"], verdict, "{name}");
        assert_eq!(document["verdicts"][verdict], 1, "{name}");
        for key in [
            "first_bad_line",
            "first_bad_physical_line",
            "expected_seq",
            "got_seq",
            "valid_prefix_events",
            "rows_total",
            "lines_kept",
            "lines_dropped",
            "dropped_rows",
            "rows_rewritten",
            "closers",
            "repaired_event_count",
            "must_refuse",
            "repair_optional",
            "session_id",
        ] {
            assert_eq!(session[key], case.expected[key], "{name}: {key}");
        }
        let after = fs::metadata(case.log())
            .expect("the log")
            .modified()
            .expect("a time");
        assert_eq!(before, after, "{name}");
    }
}

#[test]
fn a_fresh_log_may_be_one_that_is_being_written() {
    let case = cases::named("interrupted_open_step__raw");
    let (code, text) = run(&["--json", "--fail-on", "warn"], &case.log());
    let document: Value = serde_json::from_str(&text).expect("a document");
    assert_eq!(
        (code, &document["sessions"][0]["may_be_live"]),
        (0, &Value::Bool(true))
    );
    age(&case.log());
    assert_eq!(run(&["--json", "--fail-on", "warn"], &case.log()).0, 1);
}

#[test]
fn text_of_a_session_is_shown_only_when_asked_for() {
    let case = cases::named("tool_call_arguments_differ__raw");
    age(&case.log());
    for flag in ["--json", "--color=never"] {
        let (_, hidden) = run(&[flag], &case.log());
        let (_, shown) = run(&[flag, "--show-content"], &case.log());
        assert!(!hidden.contains("basil"), "{hidden}");
        assert!(
            shown.contains("basil") || shown.contains("shelf\\"),
            "{shown}"
        );
    }
    let (code, page) = run(&["--color=never"], &case.log());
    assert_eq!(code, 1);
    for word in [
        "tool_identity_mismatch",
        "announced with other arguments",
        "> line 25",
        "call ",
        "execution ",
        "refused",
    ] {
        assert!(page.contains(word), "{word}: {page}");
    }
}

#[test]
fn the_places_of_a_call_are_told() {
    let case = cases::named("tool_empty_call_id__raw");
    let (_, text) = run(&["--json"], &case.log());
    let document: Value = serde_json::from_str(&text).expect("a document");
    let places = document["sessions"][0]["call_places"]
        .as_array()
        .expect("places");
    let of = |what: &str| places.iter().filter(|p| p["place"] == what).count();
    assert!(of("call") >= 1 && of("execution") >= 1 && of("result") >= 1);
    // The pieces of the answer still have the id that was lost.
    assert!(
        places
            .iter()
            .any(|p| p["place"] == "streamed" && p["call_id"] != "")
    );
}

#[test]
fn nothing_there_is_not_found_and_a_file_that_is_none_is_told() {
    assert_eq!(run(&["--json"], Path::new("/no/such/place")).0, 3);
    let folder = tempfile::tempdir().expect("a folder");
    let (code, text) = run(&["--json"], folder.path());
    assert!(code == 0 && text.contains("\"sessions_total\":0"), "{text}");
}

#[test]
fn layouts_that_the_harness_refuses_are_told_of_every_log_below_the_root() {
    let raw = cases::named("clean_two_turns__raw");
    let packed = cases::named("clean_resumed__zstd");
    let root = raw.root();
    cases::copy_tree(&packed.root(), &root);
    let verdicts = |root: &Path| -> Value {
        let (_, text) = run(&["--json"], root);
        serde_json::from_str::<Value>(&text).expect("a document")["verdicts"].clone()
    };
    assert_eq!(verdicts(&root), serde_json::json!({"mixed_encodings": 2}));
    let flat = cases::named("clean_two_turns__raw");
    let log = flat.log();
    let project = log.parent().and_then(Path::parent).expect("a project");
    fs::copy(&log, project.join("session-flat.jsonl")).expect("copied");
    assert_eq!(
        verdicts(&flat.root()),
        serde_json::json!({"legacy_layout": 2})
    );
    let moved = cases::named("clean_two_turns__raw");
    let log = moved.log();
    let folder = log.parent().expect("a folder");
    fs::rename(folder, folder.with_file_name("session-other")).expect("renamed");
    assert_eq!(
        verdicts(&moved.root()),
        serde_json::json!({"identity_conflict": 1})
    );
}

#[test]
fn the_newest_generation_is_the_session_even_when_it_is_damaged() {
    let case = cases::named("clean_two_turns__raw");
    let log = case.log();
    fs::write(log.with_file_name("session.v1.jsonl"), b"{\"torn").expect("written");
    fs::write(log.with_file_name("session.lock"), b"").expect("written");
    let (code, text) = run(&["--json"], &case.root());
    let document: Value = serde_json::from_str(&text).expect("a document");
    assert_eq!((code, &document["sessions_total"]), (1, &Value::from(1)));
    let session = &document["sessions"][0];
    assert_eq!(session["verdict"], "empty_log");
    assert_eq!(session["siblings"][0]["name"], "session.jsonl");
}

#[test]
fn what_is_inherited_is_told_by_header_and_marker_alike() {
    let case = cases::named("clean_v3__raw");
    let log = case.log();
    let text = fs::read_to_string(&log).expect("the log");
    fs::write(
        &log,
        text.replacen("\"isSeeded\":false", "\"isSeeded\":true", 1),
    )
    .expect("written");
    let (code, told) = run(&["--json"], &log);
    let document: Value = serde_json::from_str(&told).expect("a document");
    let session = &document["sessions"][0];
    assert_eq!(
        (code, &session["verdict"]),
        (1, &Value::from("header_invalid")),
        "{told}"
    );
    assert_eq!(session["must_refuse"], true);
    assert_eq!(session["lines_kept"], Value::Null);
}
