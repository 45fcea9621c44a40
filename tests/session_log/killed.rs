//! Repairs killed at every sync and every change of a name, and calls of them that fail.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use crate::in_place::torn_v1;
use crate::repairing::{Home, fingerprint, tree};
use crate::traced;

const CALLS: &[&str] = &[
    "fsync",
    "fdatasync",
    "mkdir",
    "mkdirat",
    "rename",
    "renameat",
    "renameat2",
    "unlinkat",
    "fchmod",
];

/// Runs the words with a fault at the n-th of a call; whether it came to that, `None` where nothing
/// can be traced.
fn hit(home: &Home, words: &[&str], call: &str, fault: &str, n: usize) -> Option<bool> {
    let inject = format!("{fault}:when={n}");
    let mut command = traced::command(home, words, call, Some(&inject));
    let status = command.status().ok()?;
    let text = traced::trace(home);
    let killed = status.signal() == Some(9) || status.code() == Some(137);
    (text.contains("+++ exited") || killed).then(|| killed || text.contains("(INJECTED)"))
}

/// Between two faults: what names a log is never passed over.
fn step(call: &str) -> usize {
    let long = std::env::var_os("CASS_PLAN").is_some_and(|v| v == "long");
    match call {
        "rename" | "renameat" | "renameat2" | "fchmod" | "write" => 1,
        _ if long => 1,
        _ => 5,
    }
}

/// Names below a folder that only an unfinished write has.
fn left_over(root: &Path) -> Vec<String> {
    tree(root)
        .into_keys()
        .map(|p| p.display().to_string())
        .filter(|p| p.ends_with(".cass-tmp"))
        .collect()
}

/// Disturbs an apply at one call after the other, until it comes to its end.
fn at_every_call(flags: &[&str], in_place: bool, calls: &[&str], fault: &str) {
    let mut faults = 0;
    let every = calls
        .iter()
        .flat_map(|call| (1..400).step_by(step(call)).map(move |n| (*call, n)));
    let mut ended = None;
    for (call, n) in every {
        // Once a run came to its end there is no later such call.
        if ended == Some(call) {
            continue;
        }
        // The harness of this version takes a lock, so nobody has to wait for what it does.
        let case = torn_v1();
        let (root, home) = (case.root(), Home::new());
        let log = case.log();
        let was = fs::read(&log).expect("the log");
        let (_, plan) = home.repair(flags, &log);
        let approved = fingerprint(&plan).to_owned();
        let wanted = &plan["repair_plan"]["actions"][0]["log"]["result"]["blake3"];
        let mut words = vec!["doctor", "session-log", "repair"];
        words.extend(flags);
        words.extend(["--yes", "--plan-fingerprint", &approved, "--"]);
        words.push(log.to_str().expect("UTF-8"));
        let Some(hit) = hit(&home, &words, call, fault, n) else {
            println!("nothing can be traced here: not tested");
            return;
        };
        let target = if in_place {
            log.clone()
        } else {
            let rel = log.strip_prefix(&root).expect("below");
            home.dir.path().join("repaired-sessions").join(rel)
        };
        let whole = |bytes: &[u8]| *wanted == blake3::hash(bytes).to_hex().as_str();
        let now = fs::read(&target).ok();
        match &now {
            Some(bytes) if whole(bytes) => {}
            Some(bytes) => assert!(in_place && *bytes == was, "{call} {n}: half a log"),
            None => assert!(!in_place, "{call} {n}: the log is gone"),
        }
        if !in_place {
            assert!(fs::read(&log).expect("the log") == was, "{call} {n}");
        }
        if !hit {
            assert!(now.is_some_and(|b| whole(&b)));
            ended = Some(call);
            continue;
        }
        faults += 1;
        // No receipt says less, or more, than the disk shows.
        let receipts = home.dir.path().join(".local/share/cass/doctor/receipts");
        for (name, bytes) in tree(&receipts) {
            if name.extension().is_some_and(|e| e == "json") {
                let receipt: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
                let says = receipt["receipt"]["status"] == "applied";
                let is = now.as_ref().is_some_and(|b| whole(b));
                assert_eq!(says, is, "{call} {n}: {receipt}");
            }
        }
        let (code, done) = home.apply_as(flags, &log, &approved);
        let status = done["status"].as_str().expect("a status");
        assert!(
            code == 0 && ["applied", "already-applied"].contains(&status),
            "{call} {n}: {done}"
        );
        assert!(whole(&fs::read(&target).expect("the target")), "{call} {n}");
        assert_eq!(
            left_over(home.dir.path()),
            Vec::<String>::new(),
            "{call} {n}"
        );
        assert_eq!(left_over(&root), Vec::<String>::new(), "{call} {n}");
    }
    assert!(faults > 5, "{calls:?}: only {faults} faults");
}

#[test]
fn a_repair_into_a_folder_is_all_or_nothing() {
    at_every_call(&[], false, CALLS, "signal=KILL");
}

#[test]
fn a_repair_in_place_is_all_or_nothing() {
    at_every_call(&["--in-place"], true, CALLS, "signal=KILL");
}

#[test]
fn a_call_that_fails_leaves_no_half_log() {
    let failing: Vec<&str> = CALLS.iter().copied().filter(|c| *c != "unlinkat").collect();
    at_every_call(&["--in-place"], true, &failing, "error=EIO");
    at_every_call(&[], false, &["write"], "error=ENOSPC");
}
