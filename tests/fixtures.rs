//! The shipped sessions are what their manifest says, byte for byte, and each has an origin and a
//! permissive licence.

#![allow(clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const COLUMNS: [&str; 9] = [
    "path",
    "bytes",
    "lines",
    "unparseable_json_lines",
    "longest_line_bytes",
    "blake3",
    "origin",
    "licence",
    "kind",
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/sessions")
}

fn rows() -> Vec<Vec<String>> {
    let text = fs::read_to_string(folder().join("MANIFEST.tsv")).expect("MANIFEST.tsv");
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().expect("a head line").split('\t').collect();
    assert_eq!(head, COLUMNS);
    let rows: Vec<Vec<String>> = lines
        .map(|l| l.split('\t').map(str::to_owned).collect())
        .collect();
    assert!(rows.len() > 40);
    for row in &rows {
        assert_eq!(row.len(), COLUMNS.len(), "{row:?}");
    }
    rows
}

#[test]
fn every_session_file_is_what_the_manifest_says() {
    for row in rows() {
        let bytes = fs::read(folder().join(&row[0])).unwrap_or_else(|e| panic!("{}: {e}", row[0]));
        assert_eq!(bytes.len().to_string(), row[1], "bytes of {}", row[0]);
        assert_eq!(
            blake3::hash(&bytes).to_hex().to_string(),
            row[5],
            "digest of {}",
            row[0]
        );
        if row[0].ends_with(".jsonl") {
            let bad = bytes
                .split(|b| *b == b'\n')
                .filter(|l| !l.is_empty())
                .filter(|l| serde_json::from_slice::<serde_json::Value>(l).is_err())
                .count();
            assert_eq!(
                bad.to_string(),
                row[3],
                "lines of {} that are not JSON",
                row[0]
            );
        }
    }
}

#[test]
fn no_file_is_missing_from_the_manifest() {
    let listed: BTreeSet<String> = rows().into_iter().map(|r| r[0].clone()).collect();
    let found: BTreeSet<String> = walkdir::WalkDir::new(folder())
        .min_depth(2)
        .into_iter()
        .map(|e| e.expect("the fixtures can be read"))
        .filter(|e| e.file_type().is_file())
        .map(|e| {
            let rel = e.path().strip_prefix(folder()).expect("below the folder");
            rel.to_string_lossy().into_owned()
        })
        .collect();
    assert_eq!(found, listed);
}

#[test]
fn every_file_has_an_origin_a_permissive_licence_and_a_row_in_the_readme() {
    let readme = fs::read_to_string(folder().join("README.md")).expect("README.md");
    for row in rows() {
        assert!(
            row[6].contains('@'),
            "{}: origin is repository@commit",
            row[0]
        );
        assert!(
            row[7].starts_with("MIT") || row[7].starts_with("Apache-2.0"),
            "{}",
            row[0]
        );
        assert!(
            readme.contains(&format!("| `{}` |", row[0])),
            "README.md tells of {}",
            row[0]
        );
    }
}

#[test]
fn git_is_told_to_leave_the_bytes_alone() {
    let attributes =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(".gitattributes"))
            .expect(".gitattributes");
    assert!(
        attributes
            .lines()
            .any(|l| l.starts_with("tests/fixtures/sessions/** -text"))
    );
}
