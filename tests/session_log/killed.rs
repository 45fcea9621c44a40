//! Repairs killed at every sync and every change of a name.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::in_place::torn_v1;
use crate::repairing::{Home, fingerprint, tree};

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

/// Runs the words with a kill at the n-th of a call; whether it was killed, `None` where nothing
/// can be traced.
fn killed(home: &Home, words: &[&str], call: &str, n: usize) -> Option<bool> {
    let status = Command::new("strace")
        .args([
            "-f",
            "-qq",
            "-o",
            "/dev/null",
            "-e",
            &format!("trace={call}"),
        ])
        .args(["-e", &format!("inject={call}:signal=KILL:when={n}")])
        .arg(env!("CARGO_BIN_EXE_cass"))
        .args(words)
        .env_clear()
        .env("HOME", home.dir.path())
        .env("PATH", "/usr/bin:/bin")
        .current_dir(home.dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .ok()?;
    match (status.code(), status.signal()) {
        (None, Some(9)) | (Some(137), _) => Some(true),
        (Some(0), _) => Some(false),
        _ => None,
    }
}

/// Between two kills: what names a log is never passed over.
fn step(call: &str) -> usize {
    let long = std::env::var_os("CASS_PLAN").is_some_and(|v| v == "long");
    match call {
        "rename" | "renameat" | "renameat2" | "fchmod" => 1,
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

/// Kills an apply at one call after the other, until it comes to its end.
fn at_every_call(flags: &[&str], in_place: bool) {
    let mut kills = 0;
    let every = CALLS
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
        let Some(dead) = killed(&home, &words, call, n) else {
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
        if !dead {
            assert!(now.is_some_and(|b| whole(&b)));
            ended = Some(call);
            continue;
        }
        kills += 1;
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
    assert!(kills > 10, "only {kills} kills");
    println!("{kills} kills");
}

#[test]
fn a_repair_into_a_folder_is_all_or_nothing() {
    at_every_call(&[], false);
}

#[test]
fn a_repair_in_place_is_all_or_nothing() {
    at_every_call(&["--in-place"], true);
}
