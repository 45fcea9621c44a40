//! Time that runs out and signals: one valid document, soon, that says what did not come to an end.

use std::process::Stdio;
use std::time::Duration;

use crate::made::{indexed, scan};
use crate::sandbox::ran;

const PARTS: [&str; 5] = [
    "histories",
    "live-sources",
    "known-sources",
    "settings",
    "sessions",
];

#[test]
fn no_time_gives_a_document_that_claims_nothing() {
    let (sandbox, _) = indexed(2);
    let ran = scan(&sandbox, &["--budget-ms", "0"]).expect(8);
    assert_eq!(ran.text("/err/kind"), "budget-exhausted");
    assert_eq!(ran.text("/operation_outcome/exit_code_kind"), "incomplete");
    assert_eq!(ran.at("/budget/timed_out"), true);
    assert_eq!(ran.number("/budget/budget_ms"), 0);
    assert_eq!(ran.at("/scan_scope/complete"), false);
    assert_eq!(ran.at("/scan_scope/unfinished"), &serde_json::json!(PARTS));
    assert_eq!(ran.text("/status"), "unknown");
    assert_eq!(ran.text("/source_authority/authority_level"), "unknown");
    assert_eq!(ran.text("/coverage_summary/confidence_tier"), "partial");
    let candidates = ran.at("/source_authority/candidates").as_array().unwrap();
    assert!(candidates.iter().all(|c| c["verdict"] == "rejected"));
    let why = ran.at("/source_authority/rejected_authorities").as_array();
    for c in why.unwrap() {
        let whole = ["archive", "mirror", "salvage", "live-source"]
            .contains(&c["authority"].as_str().unwrap());
        assert!(!whole || c["reason"] == "not looked at to its end", "{c}");
    }
}

#[test]
fn time_enough_says_that_nothing_is_missing() {
    let (sandbox, _) = indexed(2);
    let ran = scan(&sandbox, &["--budget-ms", "600000"]).expect(0);
    assert_eq!(ran.at("/budget/timed_out"), false);
    assert_eq!(ran.at("/scan_scope/complete"), true);
    assert_eq!(ran.at("/scan_scope/unfinished"), &serde_json::json!([]));
    let free = scan(&sandbox, &[]).expect(0);
    assert_eq!(free.at("/budget/budget_ms"), &serde_json::Value::Null);
    assert_eq!(free.at("/coverage_summary"), ran.at("/coverage_summary"));
}

/// Whatever was cut off, the numbers of a part are whole only where it came to its end.
#[test]
fn any_budget_gives_an_honest_document() {
    let (sandbox, _) = indexed(6);
    for budget in ["1", "2", "4", "8", "16", "32", "64"] {
        let ran = scan(&sandbox, &["--budget-ms", budget]);
        let open = ran.at("/scan_scope/unfinished").as_array().unwrap().len();
        let timed_out = ran.at("/budget/timed_out") == true;
        assert_eq!(timed_out, open > 0, "{budget}: {}", ran.stdout);
        assert_eq!(ran.code, if timed_out { 8 } else { 0 }, "{budget}");
        let sessions = ran.number("/coverage_summary/conversations");
        assert!(timed_out || sessions == 6, "{budget}: {sessions}");
        assert!(!timed_out || ran.text("/status") != "ok", "{budget}");
    }
}

#[test]
fn a_signal_leaves_one_document() {
    let (sandbox, _) = indexed(6);
    for (signal, exit, kind) in [
        (rustix::process::Signal::TERM, 143, "terminated"),
        (rustix::process::Signal::INT, 130, "interrupted"),
    ] {
        for delay in [0u64, 5, 15, 40] {
            let mut command = sandbox.command(&["doctor", "archive-scan", "--deep", "--json"]);
            let child = command
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let pid = rustix::process::Pid::from_child(&child);
            // No result depends on this: each moment is a valid one to be told to end.
            std::thread::sleep(Duration::from_millis(delay));
            let _ = rustix::process::kill_process(pid, signal);
            let output = child.wait_with_output().unwrap();
            if output.status.code().is_none() {
                // Before the program could set up anything.
                continue;
            }
            let ran = ran(output);
            if ran.code == 0 {
                assert_eq!(ran.at("/scan_scope/complete"), true);
                continue;
            }
            assert_eq!(ran.code, exit, "{}", ran.stdout);
            assert_eq!(ran.text("/err/kind"), kind);
            assert_eq!(ran.at("/budget/interrupted"), true);
            assert_ne!(ran.at("/scan_scope/unfinished"), &serde_json::json!([]));
        }
    }
}
