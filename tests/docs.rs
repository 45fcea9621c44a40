//! The pages tell the truth where a program can check it: the exit table, links, file names.

#![allow(clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use cass::cli::catalog;
use cass::exit::ExitCodeKind;

fn repo() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(rel: &str) -> String {
    fs::read_to_string(repo().join(rel)).unwrap_or_else(|e| panic!("{rel}: {e}"))
}

/// Every Markdown page of ours, relative.
fn pages() -> Vec<String> {
    let mut out: Vec<String> = walkdir::WalkDir::new(repo())
        .into_iter()
        .filter_entry(|e| {
            let name = e.file_name().to_string_lossy();
            name != "target" && name != ".git"
        })
        .map(|e| e.expect("the repository can be read"))
        .map(|e| {
            e.path()
                .strip_prefix(repo())
                .expect("below the root")
                .to_string_lossy()
                .into_owned()
        })
        .filter(|p| p.ends_with(".md"))
        .collect();
    out.sort();
    assert!(out.len() >= 6, "{out:?}");
    out
}

/// The kind as every document writes it.
fn name(kind: ExitCodeKind) -> String {
    serde_json::to_string(&kind)
        .expect("a kind serialises")
        .trim_matches('"')
        .to_owned()
}

#[test]
fn the_readme_lists_every_exit_code_once() {
    let readme = read("README.md");
    let rows: Vec<&str> = readme
        .lines()
        .skip_while(|l| !l.starts_with("| exit |"))
        .skip(2)
        .take_while(|l| l.starts_with('|'))
        .collect();
    let expected: Vec<String> = ExitCodeKind::ALL
        .into_iter()
        .map(|k| format!("| {} | {} |", k.code(), name(k)))
        .collect();
    assert_eq!(rows.len(), expected.len(), "{rows:#?}");
    for (row, start) in rows.iter().zip(&expected) {
        assert!(row.starts_with(start.as_str()), "{row} begins with {start}");
    }
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut wrong = BTreeSet::new();
    let mut seen = 0;
    for page in pages() {
        let text = read(&page);
        let folder = Path::new(&page).parent().expect("a folder").to_path_buf();
        for part in text.split("](").skip(1) {
            let Some(end) = part.find(')') else { continue };
            let target = part[..end].split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains("://") || target.contains(' ') {
                continue;
            }
            seen += 1;
            if !repo().join(&folder).join(target).exists() {
                wrong.insert(format!("{page}: {target}"));
            }
        }
    }
    assert!(seen > 5, "links are found");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn files_that_pages_name_exist() {
    let mut wrong = BTreeSet::new();
    let mut seen = 0;
    let roots = [
        "scripts/",
        "tests/",
        "docs/",
        "src/",
        "migrations/",
        "examples/",
    ];
    for page in pages().into_iter().filter(|p| p != "CHANGELOG.md") {
        for word in read(&page).split(|c: char| c.is_whitespace() || "`()[],;".contains(c)) {
            let word = word.trim_end_matches(['.', ':']);
            let is_file = roots
                .iter()
                .any(|r| word.starts_with(r) && word.len() > r.len());
            if is_file && !word.contains(['*', '<', '{', '…']) && !word.contains("NNNN") {
                // Names inside another repository, in the table of origins.
                if page.starts_with("tests/fixtures/") && !repo().join(word).exists() {
                    continue;
                }
                seen += 1;
                if !repo().join(word).exists() {
                    wrong.insert(format!("{page}: {word}"));
                }
            }
        }
    }
    assert!(seen > 10, "names are found ({seen})");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_changelog_has_a_section_for_what_is_not_released() {
    let text = read("CHANGELOG.md");
    let at = text.find("## [Unreleased]").expect("a section");
    assert!(
        text[at..].lines().any(|l| l.starts_with("- ")),
        "with an entry"
    );
}

/// The table "command, class, writes" of `docs/design.md`: every command once, and those that the
/// catalogue says change nothing are the read-only ones.
#[test]
fn the_design_page_lists_every_command_with_its_class() {
    let design = read("docs/design.md");
    let table: Vec<(Vec<String>, String)> = design
        .lines()
        .skip_while(|l| !l.starts_with("| command | class |"))
        .skip(2)
        .take_while(|l| l.starts_with('|'))
        .map(|l| {
            let cells: Vec<&str> = l.trim_matches('|').split('|').map(str::trim).collect();
            let commands = cells[0]
                .split(", ")
                .map(|c| c.trim_matches('`').to_owned())
                .collect();
            (commands, cells[1].to_owned())
        })
        .collect();
    for entry in catalog::COMMANDS {
        let words = entry.words.join(" ");
        // Without a word, `doctor` is `doctor check`.
        let words = if words == "doctor" {
            "doctor check".to_owned()
        } else {
            words
        };
        let classes: Vec<&str> = table
            .iter()
            .filter(|(commands, _)| commands.contains(&words))
            .map(|(_, class)| class.as_str())
            .collect();
        assert_eq!(classes.len(), 1, "docs/design.md lists `{words}` once");
        let reads = classes[0] == "read-only";
        assert_eq!(reads, !entry.mutates, "`{words}` is {}", classes[0]);
    }
    let listed = table
        .iter()
        .map(|(commands, _)| commands.len())
        .sum::<usize>();
    assert_eq!(listed, catalog::COMMANDS.len() - 1, "and no other");
}
