//! The corpus of the fuzz targets, replayed with their checks.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic)]

use std::path::Path;

use cass::model::provider::Provider;

#[path = "../fuzz/checks.rs"]
mod checks;
#[path = "../fuzz/session_logs.rs"]
mod session_logs;

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(name);
    let seeds: Vec<Vec<u8>> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
        .collect();
    assert!(seeds.len() >= 5, "the corpus of {name} is missing");
    seeds
}

/// Each seed, and each begin of it.
fn each_begin(seeds: Vec<Vec<u8>>, check: impl Fn(&[u8])) {
    begins(seeds, 200, check);
}

/// Each seed, and so many begins of it.
fn begins(seeds: Vec<Vec<u8>>, n: usize, check: impl Fn(&[u8])) {
    for seed in seeds {
        check(&seed);
        for end in (0..seed.len()).step_by(1 + seed.len() / n) {
            check(&seed[..end]);
        }
    }
}

#[test]
fn claude() {
    each_begin(corpus("claude"), |bytes| {
        checks::provider(Provider::Claude, bytes)
    });
}

#[test]
fn codex() {
    each_begin(corpus("codex"), |bytes| {
        checks::provider(Provider::Codex, bytes)
    });
}

#[test]
fn ladder() {
    each_begin(corpus("ladder"), checks::ladder);
}

#[test]
fn salvage() {
    each_begin(corpus("salvage"), checks::salvage);
}

#[test]
fn capture_ledger() {
    each_begin(corpus("capture_ledger"), checks::capture_ledger);
}

#[test]
fn coverage() {
    each_begin(corpus("coverage"), checks::coverage);
}

#[test]
fn generation() {
    each_begin(corpus("generation"), checks::generation);
}

#[test]
fn run() {
    each_begin(corpus("run"), checks::run);
}

#[test]
fn plan() {
    each_begin(corpus("plan"), checks::plan);
}

#[test]
fn session_log_rows() {
    begins(corpus("session_log_rows"), 20, session_logs::rows);
}

#[test]
fn session_log_frames() {
    begins(corpus("session_log_frames"), 20, session_logs::frames);
}

#[test]
fn session_log_packed_rows() {
    begins(
        corpus("session_log_packed_rows"),
        20,
        session_logs::packed_rows,
    );
}

#[test]
fn session_log_repair() {
    begins(corpus("session_log_repair"), 20, session_logs::repair);
}

#[test]
fn session_log_writer() {
    begins(corpus("session_log_writer"), 20, session_logs::writer);
}
