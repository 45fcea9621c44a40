//! Time that runs out and signals: one valid document, soon, that claims nothing about what did
//! not run.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::lab::{Lab, Ran, ran};

/// Every check has an entry, and none of those that did not run is called fine.
fn honest(ran: &Ran) -> u64 {
    let checks = ran.json["checks"].as_array().unwrap();
    assert_eq!(checks.len(), cass::model::finding::CheckId::ALL.len());
    checks
        .iter()
        .filter(|c| {
            let reason = c["reason"].as_str().unwrap_or_default();
            ["budget", "interrupted"].contains(&reason)
        })
        .inspect(|c| {
            assert!(
                ["skipped", "unknown"].contains(&c["status"].as_str().unwrap()),
                "{c}"
            )
        })
        .count() as u64
}

#[test]
fn no_time_gives_an_honest_document_at_once() {
    let lab = Lab::full();
    for budget in ["0", "1"] {
        for deep in [false, true] {
            let mut args = vec!["doctor", "check", "--budget-ms", budget];
            if deep {
                args.push("--deep");
            }
            let begun = Instant::now();
            let ran = lab.run(&args);
            // Generous: the machine may be busy. A deep check of this takes longer than budgeted.
            assert!(begun.elapsed() < Duration::from_secs(10));
            let cut = honest(&ran);
            assert!(cut > 0, "{budget}: everything ran: {}", ran.json);
            assert_eq!(ran.json["budget"]["timed_out"], Value::Bool(true));
            assert_eq!(ran.code, 8, "{}", ran.json);
            assert_ne!(ran.text("/status"), "ok");
            assert_ne!(ran.text("/status"), "not-initialized");
            let m = ran.text("/raw_mirror/status");
            assert!(["unknown", "unverified"].contains(&m), "{m}: {}", ran.json);
            assert_eq!(ran.text("/coverage_risk/status"), "unknown", "{}", ran.json);
            assert_eq!(ran.text("/source_authority/authority_level"), "unknown");
        }
    }
}

/// Any budget in between: whatever was cut off, the document is honest about it.
#[test]
fn any_budget_gives_an_honest_document() {
    let lab = Lab::full();
    for budget in [2u64, 5, 10, 20, 40, 80, 160, 320] {
        let ran = lab.run(&[
            "doctor",
            "check",
            "--deep",
            "--budget-ms",
            &budget.to_string(),
        ]);
        let cut = honest(&ran);
        assert!(ran.errors().is_empty(), "{budget} ms: {}", ran.json);
        if cut > 0 {
            assert_eq!(ran.code, 8, "{budget} ms: {}", ran.json);
            assert_ne!(ran.text("/status"), "ok", "{budget} ms");
        } else {
            assert_eq!(ran.code, 0, "{budget} ms: {}", ran.json);
        }
        let ok = |id: &str| {
            let checks = ran.json["checks"].as_array().unwrap();
            checks.iter().any(|c| c["id"] == id && c["status"] == "ok")
        };
        if !ok("archive.rows") || !ok("archive.integrity") {
            assert_ne!(
                ran.text("/source_authority/authority_level"),
                "verified-archive",
                "{budget} ms: {}",
                ran.json
            );
        }
        if !ok("mirror.objects") {
            assert_ne!(
                ran.text("/raw_mirror/status"),
                "ok",
                "{budget} ms: {}",
                ran.json
            );
        }
    }
}

#[test]
fn only_some_checks_claim_nothing_about_the_others() {
    let lab = Lab::small();
    let ran = lab.run(&["doctor", "check", "--only", "config.parse"]);
    assert_eq!(ran.text("/raw_mirror/status"), "unknown", "{}", ran.json);
    assert_eq!(ran.text("/coverage_risk/status"), "unknown");
    assert_eq!(ran.text("/source_authority/authority_level"), "unknown");
    // Asked for alone, it looks at what it needs and finds no fault with what it did not see.
    let ran = lab
        .run(&["doctor", "check", "--only", "coverage.sole-copy"])
        .expect(0);
    assert!(
        ran.codes(&["info", "warn", "error"]).is_empty(),
        "{}",
        ran.json
    );
    assert_eq!(ran.text("/coverage_risk/status"), "ok");
    let ran = lab
        .run(&[
            "doctor",
            "check",
            "--skip",
            "mirror.ledgers",
            "--skip",
            "mirror.objects",
        ])
        .expect(0);
    assert!(ran.codes(&["warn", "error"]).is_empty(), "{}", ran.json);
}

#[test]
fn a_signal_during_a_deep_check_leaves_one_document() {
    let lab = Lab::full();
    let mut met = 0;
    for (name, signal, exit) in [
        ("TERM", rustix::process::Signal::TERM, 143),
        ("INT", rustix::process::Signal::INT, 130),
    ] {
        for delay in [0u64, 20, 60, 120, 240] {
            let mut c = lab.command(&["doctor", "check", "--deep", "--json"]);
            let child = c
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
                // Before the program listens, the signal ends it as it ends any.
                continue;
            }
            let ran = ran(output);
            if ran.code == 0 {
                // It was done before.
                continue;
            }
            met += 1;
            assert_eq!(ran.code, exit, "{name} after {delay} ms: {}", ran.json);
            assert_eq!(ran.json["budget"]["interrupted"], Value::Bool(true));
            assert_eq!(
                ran.json["budget"]["timed_out"],
                Value::Bool(false),
                "{}",
                ran.json
            );
            // It may come when all was done and nothing was printed yet.
            if honest(&ran) > 0 {
                assert_ne!(ran.text("/status"), "ok", "{}", ran.json);
            }
            assert_ne!(ran.text("/status"), "not-initialized", "{}", ran.json);
            assert!(ran.errors().is_empty(), "{}", ran.json);
        }
    }
    assert!(met > 0, "no run met its signal");
}
