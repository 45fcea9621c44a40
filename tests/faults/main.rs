//! R6, R7, R12, R16: what a failing or a last system call leaves behind.
//!
//! `cass index` is run under strace, which makes one call fail, or kills the process at it. A run
//! without faults is traced first: every call that it makes below its home is one case, named by
//! call, path and count, so that a call of any thread is hit and none twice. Two runs are broken
//! this way: the first of all, and one that follows an acknowledged run, when a source has grown,
//! one is new and one is gone. Whatever happens, what was acknowledged comes back byte for byte,
//! no promise names what is not there, and one more run ends clean (I13).
//!
//! `CASS_FAULTS=long` adds every error that a call may return at every call, and torn pages.
//! Needs strace and the right to trace; without them the tests say so and pass over.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used
)]

mod harness;
mod planned;
mod random;
mod second_sync;
mod shelf;
mod tracer;
mod unnamed;
mod works;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use harness::{Call, Home, NAMES, OPENS, READS, SYNCS, WRITES, Work, without_idle};
use rayon::prelude::*;

/// Cases that share a home.
const PIECE: usize = 24;

/// Runs every case, and demands that the run still makes the calls it was asked about. A case
/// that fails does not keep the others from being run.
fn each(
    work: Work,
    names: &[&str],
    wanted: impl Fn(&Call) -> bool,
    case: impl Fn(&Home, &Call) + Sync,
) {
    each_of(work, names, wanted, |calls| calls, case);
}

fn each_of(
    work: Work,
    names: &[&str],
    wanted: impl Fn(&Call) -> bool,
    cases_of: impl Fn(Vec<Call>) -> Vec<Call>,
    case: impl Fn(&Home, &Call) + Sync,
) {
    let home = Home::new(work);
    let Some(calls) = home.calls(names) else {
        return;
    };
    let cases: Vec<Call> = calls.iter().filter(|c| wanted(c)).cloned().collect();
    let cases = cases_of(cases);
    assert!(!cases.is_empty(), "{work:?}: none of {names:?} is called");
    // Each piece has a home of its own, so that the machine's cores share the cases.
    let wrong: Vec<String> = cases
        .par_chunks(PIECE)
        .flat_map_iter(|piece| {
            let home = Home::new(work);
            let failed =
                |call: &&Call| catch_unwind(AssertUnwindSafe(|| case(&home, call))).is_err();
            let wrong: Vec<&Call> = piece.iter().filter(failed).collect();
            wrong.into_iter().map(Call::to_string)
        })
        .collect();
    let covered = cases.len() - wrong.len();
    println!("{work:?} {names:?}: {covered} of {} calls", cases.len());
    assert!(wrong.is_empty(), "{} cases: {wrong:#?}", wrong.len());
    let again = home.calls(names).expect("it was traced before");
    let sorted = |calls: &[Call]| {
        let mut calls = calls.to_vec();
        // strace splits lines where threads meet.
        calls.iter_mut().for_each(|c| c.idle = false);
        calls.sort();
        calls
    };
    assert_eq!(
        sorted(&calls),
        sorted(&again),
        "the same run makes the same calls"
    );
}

fn all() -> Vec<&'static str> {
    [WRITES, SYNCS, NAMES, OPENS].concat()
}

// R7. One test for each half, so that they share the machine's cores.

/// An ordinary run leaves out kills that leave what another kill leaves.
fn killed(work: Work) {
    let states = |calls: Vec<Call>| {
        if is_long() {
            calls
        } else {
            without_idle(&calls)
        }
    };
    each_of(work, &all(), |c| c.changes, states, Home::killed_at);
}

#[test]
fn the_first_run_killed_at_every_call_that_changes_something() {
    killed(Work::First);
}

#[test]
fn a_run_killed_at_every_call_that_changes_something() {
    killed(Work::Next);
}

/// Which runs a test breaks beside the kills: both in the long run, else the one that follows
/// another, where something acknowledged can be lost.
fn runs() -> Vec<Work> {
    if is_long() {
        vec![Work::First, Work::Next]
    } else {
        vec![Work::Next]
    }
}

pub fn is_long() -> bool {
    std::env::var_os("CASS_FAULTS").is_some_and(|v| v == "long")
}

/// A kill can leave the beginning of a write. Pages of databases are in the long run.
#[test]
fn killed_within_every_write_to_the_mirror_and_the_ledgers() {
    for work in runs() {
        each(
            work,
            &["write"],
            |c| !c.path.ends_with("/out.json"),
            |home, call| {
                home.torn_at(call, |_| 1);
                home.torn_at(call, |n| n / 2);
                home.torn_at(call, |n| n - 1);
            },
        );
    }
}

// R6 and R12.

#[test]
fn every_write_fails_for_want_of_room() {
    // Pages of databases are in the long run.
    let names: &[&str] = if is_long() { WRITES } else { &["write"] };
    each(Work::Next, names, |_| true, |h, c| h.fails_at(c, "ENOSPC"));
}

#[test]
fn every_sync_fails() {
    for work in [Work::First, Work::Next] {
        each(work, SYNCS, |_| true, |h, c| h.fails_at(c, "EIO"));
    }
}

#[test]
fn every_change_of_a_name_fails() {
    for work in runs() {
        each(work, NAMES, |_| true, |h, c| h.fails_at(c, "EIO"));
    }
}

/// What a call may return, by kind, from its manual page; reads as well.
pub const ERRORS: [(&[&str], &[&str]); 5] = [
    (WRITES, &["EIO", "ENOSPC", "EROFS", "EINTR"]),
    (SYNCS, &["EIO", "ENOSPC", "EROFS", "EINTR"]),
    (NAMES, &["EIO", "ENOSPC", "EROFS", "EACCES", "EINTR"]),
    (
        OPENS,
        &["EIO", "ENOSPC", "EROFS", "EACCES", "EMFILE", "EINTR"],
    ),
    (READS, &["EIO", "EINTR"]),
];
/// Those that last: a disk that is broken or full.
const LAST: [&str; 2] = ["EIO", "ENOSPC"];

/// The long run: every error at every call, those that last also with all calls after it; and
/// every write of a page torn.
#[test]
fn long_every_error_at_every_call() {
    if !is_long() {
        println!("passed over: for CASS_FAULTS=long only");
        return;
    }
    // Work, names, error, whether all calls after it fail as well.
    let mut groups: Vec<(Work, &[&str], &str, bool)> = Vec::new();
    for work in [Work::First, Work::Next] {
        groups.push((work, &["pwrite64"], "torn", false));
        for (names, errors) in ERRORS {
            for error in errors {
                groups.push((work, names, error, false));
                if LAST.contains(error) {
                    groups.push((work, names, error, true));
                }
            }
        }
    }
    let wrong: Vec<String> = groups
        .par_iter()
        .filter_map(|(work, names, error, after)| {
            let case = |home: &Home, call: &Call| match (*error, after) {
                ("torn", _) => home.torn_at(call, |n| n / 2),
                (_, false) => home.fails_at(call, error),
                (_, true) => home.fails_from(call, error),
            };
            let group = format!("{work:?} {names:?} {error}, all after: {after}");
            let went = catch_unwind(AssertUnwindSafe(|| each(*work, names, |_| true, case)));
            println!("{group}: {}", if went.is_ok() { "ok" } else { "NOT OK" });
            went.is_err().then_some(group)
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// R16: objects are synced before the ledger line that promises them is written, the ledger
/// before the archive's commit, and the commit before its line in the coverage ledger.
#[test]
fn promises_are_written_after_what_they_promise() {
    let home = Home::new(Work::Next);
    if home.calls(&["fsync"]).is_none() {
        return;
    }
    home.put_back();
    let ended = home.traced(&[
        "-e".to_owned(),
        "trace=write,pwrite64,writev,fsync,fdatasync".to_owned(),
    ]);
    assert!(ended.out.status.success());
    let text = ended.log;
    // Files written and not yet synced, by kind.
    let mut dirty: BTreeMap<&str, bool> = BTreeMap::new();
    let mut seen = (0, 0, 0);
    for line in text.lines() {
        let Some((_, rest)) = line.split_once('<') else {
            continue;
        };
        let Some((path, _)) = rest.split_once('>') else {
            continue;
        };
        let kind = match path {
            p if p.ends_with(".pack") => "pack",
            p if p.contains("/raw-mirror/sources/") => "ledger",
            p if p.ends_with("agent_search.db-wal") => "archive",
            p if p.ends_with("/coverage.jsonl") => "coverage",
            _ => continue,
        };
        let is_sync = line.contains("fsync(") || line.contains("fdatasync(");
        if is_sync {
            dirty.insert(kind, false);
            continue;
        }
        let clean = |k: &str| !dirty.get(k).copied().unwrap_or(false);
        match kind {
            "ledger" => {
                seen.0 += 1;
                assert!(
                    clean("pack"),
                    "a ledger line before its objects were synced"
                );
            }
            "archive" => {
                seen.1 += 1;
                assert!(
                    clean("ledger") && clean("pack"),
                    "a row before its promise was synced"
                );
            }
            "coverage" => {
                seen.2 += 1;
                assert!(
                    clean("archive"),
                    "a coverage line before its commit was synced"
                );
            }
            _ => {}
        }
        dirty.insert(kind, true);
    }
    assert!(
        seen.0 > 0 && seen.1 > 0 && seen.2 > 0,
        "the run wrote all three: {seen:?}"
    );
    assert!(
        dirty.values().all(|d| !d),
        "something was left unsynced: {dirty:?}"
    );
}
