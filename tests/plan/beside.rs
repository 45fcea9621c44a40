//! Every command that changes something beside another that is really at work: an index, or a second
//! apply, stopped while it has the writer lock. The second is refused, says whom it waits for and
//! leaves no trace; the first ends as if it had been alone; then the second does its work, or says that
//! there is none left of it.

use std::fs;
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde_json::Value;

use super::place::{Place, each};
use super::sandbox::{Ran, ran, snapshot};
use super::wrong_uses::{Answer, ROWS, Row};

/// How long it is tried to stop one that has the lock. Says nothing about the program.
const PATIENCE: Duration = Duration::from_secs(120);

/// A process that has the writer lock and stands still.
struct Stopped(Option<Child>);

impl Stopped {
    /// `None`: it had ended, or given the lock back, before it stood still.
    fn of(p: &Place, words: &[String]) -> Option<Stopped> {
        let mut command = p.command();
        let child = command
            .args(words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stopped = Stopped(Some(child));
        let pid = stopped.pid();
        let info = p.data().join("locks/writer.info");
        let ended = || {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            waitid(WaitId::Pid(pid), options).unwrap().is_some()
        };
        // Its own name is in there once it has the lock.
        while fs::read(&info)
            .ok()
            .and_then(|b| serde_json::from_slice::<Value>(&b).ok())
            .is_none_or(|owner| owner["pid"] != pid.as_raw_nonzero().get())
        {
            if ended() {
                return None;
            }
            std::thread::yield_now();
        }
        kill_process(pid, Signal::STOP).unwrap();
        let options = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(pid), options).unwrap().unwrap();
        let lock = fs::File::open(p.data().join("locks/writer.lock")).unwrap();
        let has_it = status.stopped() && lock.try_lock().is_err();
        has_it.then(|| Stopped(stopped.0.take()))
    }

    fn pid(&self) -> Pid {
        Pid::from_child(self.0.as_ref().unwrap())
    }

    fn go_on(mut self) -> Ran {
        kill_process(self.pid(), Signal::CONT).unwrap();
        ran(self.0.take().unwrap().wait_with_output().unwrap())
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What a process that has the lock is called.
fn name_of(words: &[String]) -> String {
    let parts = match words[1..].first().map(String::as_str) {
        None => 1,
        Some("backups" | "runs") => 3,
        Some(_) => 2,
    };
    words[..parts].join(" ")
}

/// What is wrong with `row` beside the command of `holder`, which is at work in the state of `row`.
fn wrong_beside(row: &Row, holder: &[&str]) -> Vec<String> {
    let begun = Instant::now();
    let (p, apply, first, stopped) = loop {
        let (p, apply) = row.at_work();
        let first: Vec<String> = match holder {
            [] => apply.clone(),
            words => words.iter().map(|w| (*w).to_owned()).collect(),
        };
        if let Some(stopped) = Stopped::of(&p, &first) {
            break (p, apply, first, stopped);
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "could not set up: {} never stood still with the lock",
            first.join(" ")
        );
    };
    let alone = {
        let (p, apply) = row.at_work();
        p.run(if holder.is_empty() { &apply } else { &first })
    };
    let told = format!("cass {} (pid {})", name_of(&first), stopped.pid());
    let answer = Answer {
        told: Some(told),
        ..Answer::busy()
    };
    let before = snapshot(p.path());
    let refused = p.run(&apply);
    let mut wrong = answer.wrong_in(&refused);
    let after = snapshot(p.path());
    let all = before.keys().chain(after.keys());
    let changed: Vec<_> = all.filter(|f| before.get(*f) != after.get(*f)).collect();
    if !changed.is_empty() {
        wrong.push(format!("changed {changed:?}"));
    }
    let ended = stopped.go_on();
    let state = |ran: &Ran| (ran.code, ran.json["status"].clone());
    if state(&ended) != state(&alone) {
        wrong.push(format!(
            "the first ended with {:?}, alone with {:?}: {}",
            state(&ended),
            state(&alone),
            ended.stdout
        ));
    }
    // The same words: beside themselves they were done by the first; what an index moved they are told.
    let then = p.run(&apply);
    let moved = first[0] == "index" && ended.json["status"] != "no-op";
    if then.code == 20 && moved {
        wrong.extend(Answer::mismatch().wrong_in(&then));
    } else if then.code != 0 || (first == apply && then.json["status"] == "applied") {
        wrong.push(format!("afterwards: {}", then.stdout));
    }
    wrong
        .into_iter()
        .map(|w| format!("{} beside {}: {w}", row.name, name_of(&first)))
        .collect()
}

#[test]
fn beside_a_real_process_that_has_the_lock_nothing_is_done() {
    let cases: Vec<(&Row, &[&str])> = ROWS
        .iter()
        .flat_map(|row| {
            // What takes no plan is run beside one that does.
            let second: &[&str] = if row.state.is_none() {
                &["doctor", "--fix"]
            } else {
                &[]
            };
            [(row, &["index"][..]), (row, second)]
        })
        .collect();
    let wrong = Mutex::new(Vec::new());
    let bad = Mutex::new(0);
    each(cases.len(), 2, |i| {
        let (row, holder) = cases[i];
        let found = wrong_beside(row, holder);
        *bad.lock().unwrap() += usize::from(!found.is_empty());
        wrong.lock().unwrap().extend(found);
    });
    let (all, bad) = (cases.len(), bad.into_inner().unwrap());
    println!(
        "torture | commands beside a real process that has the lock | {all} | {} | {bad} |",
        all - bad
    );
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}
