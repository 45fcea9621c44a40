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

/// A lexical index whose verification takes long: beside what it serves lies a table of many rows.
fn slow_to_verify() -> Lab {
    let lab = Lab::small();
    let id = std::fs::read_to_string(lab.file("derived/lexical/CURRENT")).unwrap();
    let db = lab.file(&format!("derived/lexical/{}/index.db", id.trim()));
    let conn = rusqlite::Connection::open(db).unwrap();
    conn.execute_batch(
        "PRAGMA synchronous = OFF; CREATE TABLE many(x INTEGER);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000000)
         INSERT INTO many SELECT i FROM n;",
    )
    .unwrap();
    lab
}

/// How `derived.lexical` ended, and why.
fn lexical(ran: &Ran) -> (String, String) {
    honest(ran);
    let checks = ran.json["checks"].as_array().unwrap();
    let lexical = checks
        .iter()
        .find(|c| c["id"] == "derived.lexical")
        .unwrap();
    let text = |key: &str| lexical[key].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

const DELAYS: [u64; 8] = [50, 100, 150, 200, 300, 400, 600, 800];

/// Runs for `delay` and is then told to end; `None` when the program did not listen yet or was
/// done before.
fn told_to_end(lab: &Lab, args: &[&str], delay: u64) -> Option<Ran> {
    let mut c = lab.command(args);
    let child = c
        .arg("--json")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(delay));
    let pid = rustix::process::Pid::from_child(&child);
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    let output = child.wait_with_output().unwrap();
    output.status.code()?;
    Some(ran(output)).filter(|ran| ran.code == 143)
}

/// By what is said: to its end the verification would say that all is well.
#[test]
fn a_long_look_at_the_lexical_index_ends_when_it_is_to_end() {
    let lab = slow_to_verify();
    let check = ["doctor", "check", "--deep", "--only", "derived.lexical"];
    let cut = DELAYS.iter().any(|budget| {
        let budget = budget.to_string();
        let args = [&check[..], &["--budget-ms", &budget]].concat();
        let ran = lab.run(&args);
        let (status, reason) = lexical(&ran);
        // It was done before, or had not begun.
        if ran.code == 0 || status == "skipped" {
            return false;
        }
        assert_eq!(ran.code, 8, "{budget}: {}", ran.json);
        (status.as_str(), reason.as_str()) == ("unknown", "budget")
    });
    assert!(cut, "no budget ended it in the middle");
    let cut = DELAYS.iter().any(|delay| {
        let Some(ran) = told_to_end(&lab, &check, *delay) else {
            return false;
        };
        lexical(&ran) == ("unknown".to_owned(), "interrupted".to_owned())
    });
    assert!(cut, "no signal ended it in the middle");
}

#[test]
fn a_signal_ends_a_full_index_that_verifies_the_lexical_index() {
    let lab = slow_to_verify();
    let cut = DELAYS.iter().any(|delay| {
        let Some(ran) = told_to_end(&lab, &["index", "--full"], *delay) else {
            return false;
        };
        let problem = ran.json["lexical"]["problem"].as_str().unwrap_or_default();
        problem.contains("SIGTERM")
    });
    assert!(cut, "no signal ended the verification");
    // It was not found damaged, and nothing was made anew.
    let ran = lab.run(&[
        "doctor",
        "check",
        "--budget-ms",
        "1",
        "--only",
        "derived.lexical",
    ]);
    assert!(ran.errors().is_empty(), "{}", ran.json);
    let folders = std::fs::read_dir(lab.file("derived/lexical")).unwrap();
    let indexes = folders.filter(|e| e.as_ref().unwrap().path().is_dir());
    assert_eq!(indexes.count(), 1);
}
