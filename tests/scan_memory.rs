//! What an archive scan holds does not grow with the number of sources and sessions, with an
//! archive or without one. The scan runs in a process of its own, since the mark that is read is the
//! whole process'.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods
)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use cass::doctor::scan::{ScanRequest, scan};
use cass::env::{Clock, Env};
use cass::ingest::index::{Ask, index};
use cass::model::interrupt::Interrupt;
use cass::model::progress::Silent;
use cass::model::watch::Watch;

const DIR: &str = "SCAN_MEMORY_DIR";
const MARK: &str = "peak KiB: ";

fn env(dir: &Path) -> Env {
    let vars: BTreeMap<OsString, OsString> = BTreeMap::from([
        ("HOME".into(), dir.join("home").into()),
        ("CASS_DATA_DIR".into(), dir.join("data").into()),
    ]);
    Env::new(Clock::System, vars, None).unwrap()
}

/// A home with this many sessions, captured and archived, a third of them pruned since.
fn indexed(dir: &Path, sessions: usize) {
    let file = |n: usize| {
        // In folders of one size: the names in a folder are held while it is walked.
        let folder = dir.join(format!("home/.claude/projects/-p{}", n / 100));
        std::fs::create_dir_all(&folder).unwrap();
        folder.join(format!("{n:060}.jsonl"))
    };
    for n in 0..sessions {
        let line = format!(
            "{{\"type\":\"user\",\"uuid\":\"u{n}\",\"sessionId\":\"{n:060}\",\"message\":\
             {{\"role\":\"user\",\"content\":\"x\"}}}}\n"
        );
        std::fs::write(file(n), line).unwrap();
    }
    let watch = Watch {
        progress: &Silent,
        interrupt: &Interrupt::new(),
    };
    let ask = Ask {
        full: false,
        lexical: false,
    };
    let done = index(&env(dir), ask, &|_| panic!("it is of this schema"), watch).unwrap();
    assert!(done.archive_error.is_none());
    for n in (0..sessions).step_by(3) {
        std::fs::remove_file(file(n)).unwrap();
    }
}

/// Not a test by itself: what the child process runs.
#[test]
fn the_child() {
    let Some(dir) = std::env::var_os(DIR) else {
        return;
    };
    let request = ScanRequest {
        limit: 10,
        ..ScanRequest::default()
    };
    let scanned = scan(&env(Path::new(&dir)), &request, &Interrupt::new()).unwrap();
    assert!(scanned.stopped.is_none(), "{:?}", scanned.stopped);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
    let peak = line.split_ascii_whitespace().nth(1).unwrap();
    println!(
        "{MARK}{peak} {} {}",
        scanned.totals.conversations, scanned.sources.total
    );
}

/// The lowest of a few: how threads come to run moves it a little.
fn peak(dir: &Path, sessions: usize) -> u64 {
    (0..3)
        .map(|_| {
            let output = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "the_child", "--nocapture", "--test-threads=1"])
                .env(DIR, dir)
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let at = text.find(MARK).unwrap_or_else(|| panic!("{text}"));
            let mut words = text[at + MARK.len()..].split_ascii_whitespace();
            let peak: u64 = words.next().unwrap().parse().unwrap();
            let all = sessions.to_string();
            assert_eq!(words.next(), Some(all.as_str()), "{text}");
            assert_eq!(words.next(), Some(all.as_str()), "{text}");
            peak
        })
        .min()
        .unwrap()
}

#[test]
fn a_scan_holds_no_list_of_sources_or_sessions() {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() {
        memory.to_path_buf()
    } else {
        std::env::temp_dir()
    };
    let peaks: Vec<[u64; 2]> = [2_500, 10_000]
        .iter()
        .map(|sessions| {
            let dir = tempfile::Builder::new()
                .prefix("cass-memory-")
                .tempdir_in(&folder)
                .unwrap();
            indexed(dir.path(), *sessions);
            let with = peak(dir.path(), *sessions);
            std::fs::remove_file(dir.path().join("data/CURRENT")).unwrap();
            [with, peak(dir.path(), *sessions)]
        })
        .collect();
    let [few, many] = [peaks[0], peaks[1]];
    println!("with an archive {} KiB, then {} KiB", few[0], many[0]);
    println!("without one {} KiB, then {} KiB", few[1], many[1]);
    // Both are large enough to fill the page caches. A row of a list for each session would be
    // 4 MB.
    assert!(many[0] < few[0] + 1536, "{few:?}, then {many:?}");
    // Without an archive the ledger's promises are held some thousand at a time.
    assert!(many[1] < few[1] + 1536, "{few:?}, then {many:?}");
}
