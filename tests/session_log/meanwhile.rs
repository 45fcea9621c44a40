//! A log that somebody adds to while it is repaired in place: what is added is never lost.

use std::fs::{self, File};
use std::io::Write;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::in_place::torn_v1;
use crate::repairing::{Home, fingerprint, tree};
use crate::traced::{command, trace};

const FLAGS: &[&str] = &["--in-place"];

/// A traced apply that does what is injected; `None` where nothing can be traced.
fn traced(home: &Home, words: &[&str], inject: Option<&str>) -> Option<Child> {
    command(home, words, "fsync", inject).spawn().ok()
}

#[test]
fn what_is_added_while_a_log_is_replaced_is_never_lost() {
    let mut syncs = None;
    let mut refused = 0;
    let mut n = 0;
    loop {
        let case = torn_v1();
        let (log, home) = (case.log(), Home::new());
        let was = fs::read(&log).expect("the log");
        let (_, plan) = home.repair(FLAGS, &log);
        let approved = fingerprint(&plan).to_owned();
        let mut words = vec!["doctor", "session-log", "repair", "--json"];
        words.extend(FLAGS);
        words.extend(["--yes", "--plan-fingerprint", &approved, "--"]);
        words.push(log.to_str().expect("UTF-8"));
        let Some(last) = syncs else {
            let child = traced(&home, &words, None);
            if child
                .and_then(|mut c| c.wait().ok())
                .is_none_or(|s| !s.success())
            {
                println!("nothing can be traced here: not tested");
                return;
            }
            let all = trace(&home).matches("fsync(").count();
            assert!(all > 8, "{}", trace(&home));
            n = all - 8;
            syncs = Some(all);
            continue;
        };
        n += 1;
        if n > last {
            break;
        }
        let inject = format!("signal=SIGSTOP:when={n}");
        let mut child = traced(&home, &words, Some(&inject)).expect("it was traced before");
        let begun = Instant::now();
        let pid = loop {
            let text = trace(&home);
            if let Some(line) = text.lines().find(|l| l.contains("stopped by SIGSTOP")) {
                break line.split(' ').next().expect("a pid").to_owned();
            }
            assert!(
                begun.elapsed() < Duration::from_mins(1),
                "it did not stop: {text}"
            );
            std::thread::sleep(Duration::from_millis(2));
        };
        // Whoever does not look at the lock.
        let mut file = File::options().append(true).open(&log).expect("the log");
        file.write_all(b"added").expect("written");
        let on = Command::new("kill")
            .args(["-CONT", &pid])
            .status()
            .expect("kill");
        assert!(on.success());
        let ended = child.wait().expect("it ends");
        let now = fs::read(&log).expect("the log");
        if ended.success() {
            // It was replaced before.
            assert!(
                now.ends_with(b"added") && !now.starts_with(&was),
                "{n}: lost"
            );
        } else {
            refused += 1;
            assert!(now == [&was[..], b"added"].concat(), "{n}: not left alone");
            let stray = tree(&case.root())
                .into_keys()
                .find(|p| p.to_string_lossy().contains("tmp"));
            assert_eq!(stray, None, "{n}");
        }
    }
    assert!(
        refused > 0,
        "no run was stopped before the log was replaced"
    );
}
