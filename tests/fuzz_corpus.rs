//! The corpus of the fuzz targets, replayed with their checks.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::Path;

use cass::model::provider::Provider;

#[path = "../fuzz/checks.rs"]
mod checks;
#[path = "../fuzz/data.rs"]
mod data;
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
    // Rows of each schema are found, by the hash that it has.
    for seed in corpus("salvage") {
        let (head, rest) = seed.split_first_chunk::<2>().unwrap();
        let (db, wal) = rest.split_at(usize::from(u16::from_le_bytes(*head)));
        let rows = cass::store::archive::salvaged_counts(db.to_vec(), wal.to_vec());
        assert!(rows.values().sum::<u64>() > 0);
    }
}

/// Each seed of files of a data directory, and begins of it. Of each file, some seed holds one that is
/// read as whole: the others are those a little changed.
fn data<const N: usize>(name: &str, begins: usize, check: impl Fn(&[u8]) -> [bool; N]) {
    let mut read = [false; N];
    for seed in corpus(name) {
        let whole = check(&seed);
        (0..N).for_each(|i| read[i] |= whole[i]);
        for end in (0..seed.len()).step_by(1 + seed.len() / begins) {
            check(&seed[..end]);
        }
    }
    assert_eq!(read, [true; N], "no seed of {name} holds such a file");
}

#[test]
fn capture_ledger() {
    data("capture_ledger", 200, data::capture_ledger);
}

#[test]
fn coverage() {
    data("coverage", 200, data::coverage);
}

#[test]
fn generation() {
    data("generation", 200, data::generation);
}

#[test]
fn run() {
    data("run", 100, data::run);
}

#[test]
fn plan() {
    data("plan", 200, data::plan);
}

#[test]
fn doctor() {
    data("doctor", 40, data::doctor);
}

#[test]
fn backup() {
    data("backup", 50, data::backup);
}

#[test]
fn pack() {
    data("pack", 20, data::pack);
}

#[test]
fn search() {
    data("search", 200, data::search);
}

#[test]
fn config() {
    data("config", 200, data::config);
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

/// The targets are built with `--locked`: what the program needs must be in their lock file too.
#[test]
fn the_lock_file_of_the_targets_knows_every_dependency() {
    let read = |rel: &str| -> toml::Table {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(rel);
        std::fs::read_to_string(path).unwrap().parse().unwrap()
    };
    let manifest = read("Cargo.toml");
    let lock = read("fuzz/Cargo.lock");
    let packages = lock["package"].as_array().unwrap();
    let cass = packages.iter().find(|p| p["name"].as_str() == Some("cass"));
    let known: BTreeSet<&str> = cass.unwrap()["dependencies"]
        .as_array()
        .unwrap()
        .iter()
        // The version follows where there are two of a name.
        .map(|d| d.as_str().unwrap().split(' ').next().unwrap())
        .collect();
    let needed: BTreeSet<&str> = manifest["dependencies"]
        .as_table()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(known, needed, "run cargo metadata in fuzz/");
}
