use std::process::{Command, Stdio};

use super::sandbox::{Sandbox, ran};
use super::talk::{id, search, texts};

/// Killed at each write to the index, at every place in turn: the next run ends clean and finds
/// everything (I13).
#[test]
fn a_killed_build_goes_on() {
    if !can_trace() {
        return;
    }
    let mut fired = 0;
    for (call, step) in [
        ("pwrite64", 7),
        ("fdatasync", 1),
        ("fsync", 1),
        ("unlink", 1),
        ("renameat", 1),
    ] {
        for n in (1..).step_by(step).take(12) {
            let s = archived();
            let mut command = traced(&s, &[], &format!("{call}:signal=SIGKILL:when={n}"));
            let killed = !command.status().unwrap().success();
            let run = s.run(&["index"]).expect(0);
            assert_eq!(
                run.number("/lexical/documents"),
                50,
                "{call} {n}: {}",
                run.stdout
            );
            assert_eq!(search(&s, &["needle"]).number("/total"), 50, "{call} {n}");
            let check = s
                .run(&["doctor", "check", "--deep", "--only", "derived.lexical"])
                .expect(0);
            assert_eq!(check.text("/status"), "ok", "{call} {n}: {}", check.stdout);
            if !killed {
                break;
            }
            fired += 1;
        }
    }
    assert!(fired > 10, "{fired}");
}

/// Each write to the index fails once: everything else is done, the run says so, the next heals.
#[test]
fn a_failed_write_costs_the_index_alone() {
    if !can_trace() {
        return;
    }
    let mut fired = 0;
    for (call, error) in [
        ("pwrite64", "ENOSPC"),
        ("pwrite64", "EIO"),
        ("fdatasync", "EIO"),
    ] {
        for n in (1..).step_by(3).take(6) {
            let s = archived();
            let db = s.data().join("derived/lexical/l00000001/index.db");
            let only = ["-P".to_owned(), db.display().to_string()];
            let out = traced(&s, &only, &format!("{call}:error={error}:when={n}"))
                .stdout(Stdio::piped())
                .output()
                .unwrap();
            let run = ran(out).expect(0);
            let failed = run.text("/lexical/outcome") == "failed";
            if failed {
                fired += 1;
                assert!(!run.text("/lexical/problem").is_empty());
            }
            let run = s.run(&["index"]).expect(0);
            assert_eq!(run.number("/lexical/documents"), 50, "{call} {n}");
            assert_eq!(search(&s, &["needle"]).number("/total"), 50, "{call} {n}");
            if !failed {
                break;
            }
        }
    }
    assert!(fired > 4, "{fired}");
}

/// Fifty messages, archived and not yet indexed.
fn archived() -> Sandbox {
    let s = Sandbox::in_memory();
    let all: Vec<String> = (0..50).map(|n| format!("needle number{n}")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    texts(&s, &id(1), &all);
    s.run(&["index", "--skip-lexical"]).expect(0);
    s
}

/// `cass index` under strace, which does what `inject` says.
fn traced(s: &Sandbox, more: &[String], inject: &str) -> Command {
    let plain = s.command(&["index", "--json"]);
    let mut command = Command::new("strace");
    command
        .args(["-f", "-qq", "-o", "/dev/null"])
        .args(more)
        .arg("-e")
        .arg(format!("inject={inject}"))
        .arg(plain.get_program())
        .args(plain.get_args())
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .env("PATH", std::env::var_os("PATH").unwrap_or_default());
    for (name, value) in plain.get_envs() {
        if let Some(value) = value.filter(|_| name != "PATH") {
            command.env(name, value);
        }
    }
    command
}

/// Whether processes can be traced here.
fn can_trace() -> bool {
    let out = Command::new("strace")
        .args(["-D", "-qq", "-o", "/dev/null", "true"])
        .output();
    let can = out.is_ok_and(|o| o.status.success());
    if !can {
        println!("passed over: strace is missing or may not trace");
    }
    can
}
