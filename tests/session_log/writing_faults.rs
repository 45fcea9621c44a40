//! Kills and failing calls of the kernel while a session is written.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use cass::session_log::Verdict;
use cass::session_writer::{Refusal, WriteError};

use crate::writing::{
    ID, Place, WHO, assert_dense, at, folder_of_this, header, next, other_process, turn,
};

/// One turn, and what came of it.
#[test]
fn a_process_that_writes_one_turn() {
    let Some(folder) = folder_of_this() else {
        return;
    };
    let sessions = at(&folder, Duration::from_secs(5));
    let log = match sessions.find(ID).expect("found") {
        Some(log) => log,
        None => {
            match sessions.create(false, header(1, "/w").as_bytes(), &turn(0, 1)) {
                Ok(_) => println!("written"),
                Err(e) => println!("failed: {e}"),
            }
            return;
        }
    };
    let known = log.revision().expect("read");
    match log.append(&known, &next(&known)) {
        Ok(_) => println!("written"),
        Err(WriteError::TakenBack(e)) => {
            println!("taken back: {e}");
            // The kernel's answer was for once: the same batch goes in now.
            log.append(&known, &next(&known)).expect("tried again");
            println!("written");
        }
        Err(e) => println!("failed: {e}"),
    }
}

/// How often a process of `test` makes each of the calls that a writer lives by.
fn calls(folder: &Path, calls: &str) -> usize {
    let trace = folder.join("trace");
    let out = strace(
        folder,
        &[
            "-o",
            &trace.to_string_lossy(),
            "-e",
            &format!("trace={calls}"),
        ],
    );
    assert!(out.contains("written"), "{out}");
    let told = fs::read_to_string(&trace).expect("a trace");
    fs::remove_file(&trace).expect("removed");
    told.lines().filter(|l| l.contains('(')).count()
}

fn strace(folder: &Path, args: &[&str]) -> String {
    let inner = other_process("writing_faults::a_process_that_writes_one_turn", folder);
    let out = Command::new("strace")
        .args(["-f", "-qq"])
        .args(args)
        .arg(inner.get_program())
        .args(inner.get_args())
        .env(WHO, folder)
        .output()
        .expect("strace");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

fn can_trace() -> bool {
    Command::new("strace")
        .args(["-qq", "-e", "trace=none", "true"])
        .output()
        .is_ok_and(|o| o.status.success())
}

/// A place with a log of one turn, or an empty one.
fn prepared(first: bool) -> Place {
    let place = Place::new();
    let sessions = place.sessions();
    if !first {
        sessions
            .create(false, header(1, "/w").as_bytes(), &turn(0, 1))
            .expect("created");
    }
    place
}

/// The turns that a place has, after a failure: whole ones only, or none and no log.
fn whole_turns(place: &Place) -> u64 {
    let sessions = place.sessions();
    match sessions.find(ID).expect("found") {
        None => 0,
        Some(log) => match log.revision() {
            Ok(revision) => {
                let logs: Vec<_> = place
                    .files()
                    .into_iter()
                    .filter(|(p, _)| p.extension().is_none_or(|e| e != "tmp"))
                    .collect();
                assert_eq!(logs.len(), 1);
                assert_dense(&logs[0].1, revision.next_seq);
                revision.next_seq / 2
            }
            // A part of a batch at the end: the old log and a fragment.
            Err(WriteError::Refused(Refusal::Damaged(Verdict::TornTailRecoverable))) => 1,
            Err(e) => panic!("{e}"),
        },
    }
}

#[test]
fn kills_and_failing_calls_leave_the_old_log_or_the_new_one() {
    if !can_trace() {
        println!("passed over: no right to trace");
        return;
    }
    let (mut kills, mut failures) = (0, 0);
    for first in [true, false] {
        for call in [
            "write,pwrite64",
            "fsync",
            "linkat,mkdirat",
            "ftruncate,unlinkat",
        ] {
            let count = calls(prepared(first).folder.path(), call);
            for k in 1..=count {
                let place = prepared(first);
                let inject = format!("inject={call}:signal=KILL:when={k}");
                strace(place.folder.path(), &["-o", "/dev/null", "-e", &inject]);
                let turns = whole_turns(&place);
                assert!(turns <= if first { 1 } else { 2 }, "{call} {k}");
                kills += 1;

                let place = prepared(first);
                let inject = format!("inject={call}:error=EIO:when={k}");
                let told = strace(place.folder.path(), &["-o", "/dev/null", "-e", &inject]);
                let turns = whole_turns(&place);
                let written = told.contains("written");
                // Whoever is told that it is written has it; who is not may try again.
                let all = if first { 1 } else { 2 };
                assert!(!written || turns == all, "{call} {k}: {told}");
                let sessions = place.sessions();
                match sessions.find(ID).expect("found") {
                    None => {
                        sessions
                            .create(false, header(1, "/w").as_bytes(), &turn(0, 1))
                            .expect("published");
                    }
                    Some(log) => {
                        let now = log.revision().expect("sound");
                        log.append(&now, &next(&now)).expect("it goes on");
                    }
                }
                failures += 1;
            }
        }
    }
    println!("torture | session writer: kills | {kills} | {kills} | 0 |");
    println!("torture | session writer: failing calls | {failures} | {failures} | 0 |");
    assert!(kills > 8 && failures > 8);
}
