//! What a check holds does not grow with the number of sources. The check runs in a process of its
//! own, since the mark that is read is the whole process'.
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

use cass::doctor::check::{CheckRequest, check};
use cass::env::{Clock, Env};
use cass::ingest::index::{Ask, index};
use cass::model::finding::CheckOutcome;
use cass::model::interrupt::Interrupt;
use cass::model::progress::Silent;
use cass::model::watch::Watch;

const DIR: &str = "CHECK_MEMORY_DIR";
const MARK: &str = "peak KiB: ";

fn env(dir: &Path) -> Env {
    let vars: BTreeMap<OsString, OsString> = BTreeMap::from([
        ("HOME".into(), dir.join("home").into()),
        ("CASS_DATA_DIR".into(), dir.join("data").into()),
    ]);
    Env::new(Clock::System, vars, None).unwrap()
}

/// A home with this many captured files, one of which is a session.
fn captured(dir: &Path, files: usize) {
    let put = |rel: &str, text: &str| {
        let path = dir.join("home/.claude").join(rel);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    put(
        "projects/-p/s.jsonl",
        "{\"type\":\"user\",\"uuid\":\"u\",\"sessionId\":\"s\",\"message\":{\"role\":\"user\",\"content\":\"x\"}}\n",
    );
    for n in 1..files {
        // In folders of one size: the names in a folder are held while it is walked.
        put(&format!("todos/{}/{n:060}.json", n / 100), "[]");
    }
    let watch = Watch {
        progress: &Silent,
        interrupt: &Interrupt::new(),
    };
    let ask = Ask {
        full: false,
        lexical: true,
    };
    let done = index(&env(dir), ask, &|_| panic!("it is of this schema"), watch).unwrap();
    assert!(done.archive_error.is_none());
}

/// Not a test by itself: what the child process runs.
#[test]
fn the_child() {
    let Some(dir) = std::env::var_os(DIR) else {
        return;
    };
    let checked = check(
        &env(Path::new(&dir)),
        &CheckRequest::default(),
        &Interrupt::new(),
    );
    let bad = |o: &CheckOutcome| matches!(o, CheckOutcome::Error | CheckOutcome::Unknown { .. });
    let found: Vec<_> = checked.results.iter().filter(|r| bad(&r.outcome)).collect();
    assert!(found.is_empty(), "{found:?}");
    let looked: u64 = checked.facts.providers.iter().map(|p| p.sources).sum();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
    let peak = line.split_ascii_whitespace().nth(1).unwrap();
    println!("{MARK}{peak} {looked}");
}

fn peak(files: usize) -> u64 {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() {
        memory.to_path_buf()
    } else {
        std::env::temp_dir()
    };
    let dir = tempfile::Builder::new()
        .prefix("cass-memory-")
        .tempdir_in(folder)
        .unwrap();
    captured(dir.path(), files);
    // The lowest of a few: how threads come to run moves it a little.
    (0..3)
        .map(|_| {
            let output = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "the_child", "--nocapture", "--test-threads=1"])
                .env(DIR, dir.path())
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let at = text.find(MARK).unwrap_or_else(|| panic!("{text}"));
            let mut words = text[at + MARK.len()..].split_ascii_whitespace();
            let peak: u64 = words.next().unwrap().parse().unwrap();
            assert_eq!(words.next(), Some(files.to_string().as_str()), "{text}");
            peak
        })
        .min()
        .unwrap()
}

#[test]
fn a_check_holds_no_list_of_sources() {
    // Both are large enough to fill the page caches, which are of a fixed size.
    let (few, many) = (peak(2_000), peak(10_000));
    println!("{few} KiB with 2,000 sources, {many} KiB with 10,000");
    // A path, a key and a gate for each source would be 3 MB.
    assert!(many < few + 1024, "{few} KiB, then {many} KiB");
}
