use std::process::{Command, Stdio};

use super::sandbox::Sandbox;
use super::talk::{id, search, texts};

/// Killed at each write to the index, at every place in turn: the next run ends clean and finds
/// everything (I13).
#[test]
fn a_killed_build_goes_on() {
    let traced = Command::new("strace")
        .args(["-D", "-qq", "-o", "/dev/null", "true"])
        .output();
    if !traced.is_ok_and(|o| o.status.success()) {
        println!("passed over: strace is missing or may not trace");
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
            let s = Sandbox::in_memory();
            let all: Vec<String> = (0..50).map(|n| format!("needle number{n}")).collect();
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            texts(&s, &id(1), &all);
            s.run(&["index", "--skip-lexical"]).expect(0);
            let plain = s.command(&["index", "--json"]);
            let mut command = Command::new("strace");
            command
                .args(["-f", "-qq", "-o", "/dev/null", "-e"])
                .arg(format!("inject={call}:signal=SIGKILL:when={n}"))
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
