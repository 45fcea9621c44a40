//! The rules of the code base that no compiler run checks: layer edges, file sizes, the one write
//! door, and what must never be in the repository. Each rule is told in `docs/design.md`.

#![allow(clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Reading and locking functions of `disk` that every layer may name.
const DISK_READ: &[&str] = &[
    "Root",
    "Entry",
    "EntryKind",
    "ArchiveShared",
    "LockOwner",
    "writer_owner",
    "open_elsewhere",
];

/// What `layer` may name in `target`: `None` nothing, `Some(None)` all, `Some(Some(list))` these.
fn edge(layer: &str, target: &str) -> Option<Option<Vec<&'static str>>> {
    let reading = || Some(Some(DISK_READ.to_vec()));
    match (layer, target) {
        // Leaves for all.
        (_, "error" | "exit" | "env") => Some(None),
        (a, b) if a == b => Some(None),
        // The entry points tie everything together.
        ("cli" | "main" | "lib", _) => Some(None),
        (
            "report",
            "doctor" | "plan" | "ingest" | "sources" | "store" | "model" | "session_log",
        ) => Some(None),
        ("session_log", "model") => Some(None),
        // A library of its own: no command takes it but a repair in place.
        ("session_writer", "session_log") => Some(None),
        ("session_writer", "disk") => {
            let mut list = DISK_READ.to_vec();
            list.extend(["SessionFile", "SessionLock"]);
            Some(Some(list))
        }
        // A planner names what a plan is, and the view that it is given; it can't apply one.
        ("doctor", "plan") => Some(Some(vec!["Ground", "Planner"])),
        ("doctor", "sources" | "store" | "model" | "session_log") => Some(None),
        ("plan", "ingest" | "store" | "model" | "session_log") => Some(None),
        ("plan", "disk") => {
            let mut list = DISK_READ.to_vec();
            list.extend(["Capture", "WriterLock"]);
            // Logs lie outside the data directory.
            list.extend(["SessionLock", "PutBack", "PutBackFile"]);
            Some(Some(list))
        }
        ("doctor" | "report", "disk") => reading(),
        ("ingest", "sources" | "store" | "model") => Some(None),
        // One vocabulary; how a log is read past its damage is the index's own.
        ("ingest", "session_log") => Some(Some(vec!["is_type"])),
        ("sources", "model") => Some(None),
        // Capturing takes the right to write as an argument and hands it down.
        ("ingest", "disk") => {
            let mut list = DISK_READ.to_vec();
            list.extend(["Capture", "WriterLock", "ArchiveExclusive"]);
            Some(Some(list))
        }
        ("store", "disk" | "model") => Some(None),
        _ => None,
    }
}

const LAYERS: &[&str] = &[
    "cli",
    "report",
    "doctor",
    "plan",
    "ingest",
    "session_log",
    "session_writer",
    "sources",
    "store",
    "disk",
    "model",
    "error",
    "exit",
    "env",
];

/// One source file, read for the rules.
struct SourceFile {
    /// Path below the repository, with `/`.
    rel: String,
    /// The layer it belongs to.
    layer: String,
    /// How many modules deep it is: `crate::store` is 1.
    depth: usize,
    /// The code with comments, strings and test modules blanked out.
    code: String,
    /// The code with comments and test modules blanked out.
    with_strings: String,
}

fn repo() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every file of the repository that is no build product, sorted, relative with `/`.
fn repo_files() -> Vec<String> {
    let root = repo();
    let mut out: Vec<String> = walkdir::WalkDir::new(&root)
        .into_iter()
        .filter_entry(|e| {
            let name = e.file_name().to_string_lossy();
            !(name == ".git"
                || name == "target"
                || name == "mutants.out"
                || name == "__pycache__"
                || (e.depth() == 2 && name == "artifacts"))
        })
        .map(|e| e.expect("the repository can be read"))
        .filter(|e| e.file_type().is_file())
        .map(|e| {
            e.path()
                .strip_prefix(&root)
                .expect("below the root")
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    out.sort();
    out
}

fn source_files() -> Vec<SourceFile> {
    let files: Vec<SourceFile> = repo_files()
        .into_iter()
        .filter(|p| p.starts_with("src/") && p.ends_with(".rs"))
        .filter(|p| !p.ends_with("/tests.rs") && !p.contains("/tests/"))
        .map(|rel| {
            let text = fs::read_to_string(repo().join(&rel)).expect("source is UTF-8");
            let parts: Vec<&str> = rel["src/".len()..]
                .trim_end_matches(".rs")
                .split('/')
                .collect();
            let layer = parts[0].to_owned();
            let last = parts[parts.len() - 1];
            let depth = if last == "mod" {
                parts.len() - 1
            } else {
                parts.len()
            };
            let bare = blank(&text, true);
            let with_strings = without_tests(&blank(&text, false), &bare);
            let code = without_tests(&bare, &bare);
            SourceFile {
                rel,
                layer,
                depth,
                code,
                with_strings,
            }
        })
        .collect();
    assert!(files.len() > 10, "the walk found the sources");
    files
}

/// Replaces comments (and strings and characters, if asked) by spaces, keeping every line end.
fn blank(text: &str, strings: bool) -> String {
    let b: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut i = 0;
    let hide = |c: char| if c == '\n' { '\n' } else { ' ' };
    while i < b.len() {
        let next = b.get(i + 1).copied();
        if b[i] == '/' && next == Some('/') {
            while i < b.len() && b[i] != '\n' {
                out.push(' ');
                i += 1;
            }
        } else if b[i] == '/' && next == Some('*') {
            let mut level = 0;
            while i < b.len() {
                let pair = (b[i], b.get(i + 1).copied());
                let step = match pair {
                    ('/', Some('*')) => {
                        level += 1;
                        2
                    }
                    ('*', Some('/')) => {
                        level -= 1;
                        2
                    }
                    _ => 1,
                };
                for c in &b[i..(i + step).min(b.len())] {
                    out.push(hide(*c));
                }
                i += step;
                if level == 0 {
                    break;
                }
            }
        } else if b[i] == 'r' && matches!(next, Some('"' | '#')) && !word_before(&b, i) {
            let hashes = b[i + 1..].iter().take_while(|c| **c == '#').count();
            if b.get(i + 1 + hashes) == Some(&'"') {
                let close: Vec<char> = std::iter::once('"')
                    .chain(std::iter::repeat_n('#', hashes))
                    .collect();
                let from = i + 2 + hashes;
                let end = (from..b.len())
                    .find(|k| b[*k..].starts_with(&close))
                    .map_or(b.len(), |k| k + close.len());
                for c in &b[i..end] {
                    out.push(if strings { hide(*c) } else { *c });
                }
                i = end;
            } else {
                out.push(b[i]);
                i += 1;
            }
        } else if b[i] == '"' {
            let mut k = i + 1;
            while k < b.len() && b[k] != '"' {
                k += if b[k] == '\\' { 2 } else { 1 };
            }
            let end = (k + 1).min(b.len());
            for c in &b[i..end] {
                out.push(if strings { hide(*c) } else { *c });
            }
            i = end;
        } else if b[i] == '\'' && is_char_literal(&b, i) {
            let mut k = i + 1;
            while k < b.len() && b[k] != '\'' {
                k += if b[k] == '\\' { 2 } else { 1 };
            }
            let end = (k + 1).min(b.len());
            out.extend(b[i..end].iter().map(|c| hide(*c)));
            i = end;
        } else {
            out.push(b[i]);
            i += 1;
        }
    }
    out
}

fn word_before(b: &[char], i: usize) -> bool {
    i > 0 && (b[i - 1].is_alphanumeric() || b[i - 1] == '_')
}

/// `'a'` and `'\n'` are characters; `'a` alone is a lifetime.
fn is_char_literal(b: &[char], i: usize) -> bool {
    match b.get(i + 1) {
        Some('\\') => true,
        Some(_) => b.get(i + 2) == Some(&'\''),
        None => false,
    }
}

/// Blanks every item behind `#[cfg(test)]`, up to its closing brace or semicolon, in `text`. Braces
/// are counted in `bare`: the same text, character by character, with its strings blanked.
fn without_tests(text: &str, bare: &str) -> String {
    let mut out: Vec<char> = text.chars().collect();
    let bare: Vec<char> = bare.chars().collect();
    let mark: Vec<char> = "#[cfg(test)]".chars().collect();
    let mut i = 0;
    while i < bare.len() {
        if !bare[i..].starts_with(&mark) {
            i += 1;
            continue;
        }
        let mut level = 0;
        let mut end = i;
        while end < bare.len() {
            match bare[end] {
                '{' => level += 1,
                '}' => level -= 1,
                _ => {}
            }
            end += 1;
            if level == 0 && matches!(bare[end - 1], '}' | ';') {
                break;
            }
        }
        for c in &mut out[i..end] {
            if *c != '\n' {
                *c = ' ';
            }
        }
        i = end;
    }
    out.into_iter().collect()
}

/// Words, `::`, and single signs.
fn tokens(code: &str) -> Vec<String> {
    let b: Vec<char> = code.chars().collect();
    let mut out = Vec::new();
    let mut i = 0;
    while i < b.len() {
        if b[i].is_whitespace() {
            i += 1;
        } else if b[i].is_alphanumeric() || b[i] == '_' {
            let from = i;
            while i < b.len() && (b[i].is_alphanumeric() || b[i] == '_') {
                i += 1;
            }
            out.push(b[from..i].iter().collect());
        } else if b[i] == ':' && b.get(i + 1) == Some(&':') {
            out.push("::".to_owned());
            i += 2;
        } else {
            out.push(b[i].to_string());
            i += 1;
        }
    }
    out
}

/// The full paths that start at `t[at]` (a word or a brace), with every tree spelled out.
fn paths(t: &[String], at: usize) -> (Vec<Vec<String>>, usize) {
    if t.get(at).is_some_and(|x| x == "{") {
        let mut all = Vec::new();
        let mut i = at + 1;
        while i < t.len() && t[i] != "}" {
            if t[i] == "," {
                i += 1;
                continue;
            }
            let (found, end) = paths(t, i);
            all.extend(found);
            i = end.max(i + 1);
            // `as name`
            if t.get(i).is_some_and(|x| x == "as") {
                i += 2;
            }
        }
        return (all, i + 1);
    }
    let Some(word) = t.get(at) else {
        return (Vec::new(), at);
    };
    if t.get(at + 1).is_some_and(|x| x == "::") && t.get(at + 2).is_some_and(|x| x != "<") {
        let (tails, end) = paths(t, at + 2);
        let all = tails
            .into_iter()
            .map(|tail| std::iter::once(word.clone()).chain(tail).collect())
            .collect();
        return (all, end);
    }
    (vec![vec![word.clone()]], at + 1)
}

#[test]
fn no_layer_reaches_where_it_must_not() {
    let mut wrong = BTreeSet::new();
    let mut seen = 0;
    for file in source_files() {
        let t = tokens(&file.code);
        for i in 0..t.len() {
            if t[i] != "crate" || t.get(i + 1).is_none_or(|x| x != "::") {
                continue;
            }
            for path in paths(&t, i + 2).0 {
                let target = path[0].as_str();
                if !LAYERS.contains(&target) {
                    continue;
                }
                seen += 1;
                let item = path.get(1).map_or("self", String::as_str);
                let fine = match edge(&file.layer, target) {
                    None => false,
                    Some(None) => true,
                    Some(Some(list)) => list.contains(&item),
                };
                if !fine {
                    wrong.insert(format!("{} names crate::{}", file.rel, path.join("::")));
                }
            }
        }
    }
    assert!(
        seen > 10,
        "the reader of `crate::` paths finds paths ({seen})"
    );
    assert!(wrong.is_empty(), "layer edges crossed:\n{}", join(&wrong));
}

#[test]
fn no_file_climbs_out_of_its_layer_with_super() {
    let mut wrong = BTreeSet::new();
    for file in source_files() {
        let t = tokens(&file.code);
        let mut i = 0;
        while i < t.len() {
            let mut n = 0;
            while t.get(i + 2 * n).is_some_and(|x| x == "super") {
                n += 1;
            }
            if n >= file.depth && n > 0 {
                wrong.insert(format!(
                    "{}: {n} x super reaches the crate's root",
                    file.rel
                ));
            }
            i += (2 * n).max(1);
        }
    }
    assert!(
        wrong.is_empty(),
        "write `crate::` instead:\n{}",
        join(&wrong)
    );
}

#[test]
fn every_top_level_module_is_a_known_layer() {
    let known: BTreeSet<&str> = LAYERS.iter().copied().chain(["main", "lib"]).collect();
    let found: BTreeSet<String> = source_files().into_iter().map(|f| f.layer).collect();
    let wrong: BTreeSet<String> = found
        .into_iter()
        .filter(|l| !known.contains(l.as_str()))
        .collect();
    assert!(
        wrong.is_empty(),
        "a new layer needs an ADR and a row here:\n{}",
        join(&wrong)
    );
}

#[test]
fn no_source_file_is_larger_than_40_kb() {
    let wrong: BTreeSet<String> = repo_files()
        .into_iter()
        .filter(|p| {
            [".rs", ".sh", ".sql", ".toml"]
                .iter()
                .any(|e| p.ends_with(e))
        })
        .filter_map(|p| {
            let len = fs::metadata(repo().join(&p))
                .expect("it was just listed")
                .len();
            (len > 40_000).then(|| format!("{p}: {len} bytes"))
        })
        .collect();
    assert!(wrong.is_empty(), "split these by noun:\n{}", join(&wrong));
}

#[test]
fn no_module_is_a_drawer() {
    let drawers = ["util", "utils", "helper", "helpers", "misc", "common"];
    let wrong: BTreeSet<String> = repo_files()
        .into_iter()
        .filter(|p| p.starts_with("src/"))
        .filter(|p| {
            p.trim_end_matches(".rs")
                .split('/')
                .any(|part| drawers.contains(&part))
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "name these by what they hold:\n{}",
        join(&wrong)
    );
}

/// Lints that hold the write door and the panic rule shut, and where each may be lifted.
#[test]
fn bans_are_lifted_only_where_they_may_be() {
    let banned: &[(&str, &[&str])] = &[
        ("clippy::disallowed", &["src/disk/", "src/store/sqlite.rs"]),
        ("clippy::unwrap_used", &[]),
        ("clippy::expect_used", &[]),
        ("clippy::panic", &[]),
        ("clippy::todo", &[]),
        ("clippy::unimplemented", &[]),
        ("clippy::dbg_macro", &[]),
        ("clippy::print_std", &["src/cli/"]),
        ("clippy::exit", &["src/main.rs"]),
        ("unsafe_code", &[]),
        ("clippy::all", &[]),
    ];
    let mut wrong = BTreeSet::new();
    for file in source_files() {
        let flat: String = file.code.split_whitespace().collect();
        for attribute in ["allow(", "expect(", "warn("] {
            for part in flat.split(attribute).skip(1) {
                let list = &part[..part.find(')').unwrap_or(part.len())];
                for (lint, places) in banned {
                    if list.contains(lint) && !places.iter().any(|p| file.rel.starts_with(p)) {
                        wrong.insert(format!("{}: lifts {lint}", file.rel));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", join(&wrong));
}

#[test]
fn the_bans_themselves_are_in_force() {
    let clippy = fs::read_to_string(repo().join("clippy.toml")).expect("clippy.toml");
    let writers = [
        "write",
        "rename",
        "copy",
        "remove_file",
        "remove_dir_all",
        "create_dir_all",
    ];
    for name in writers.map(|w| format!("\"std::fs::{w}\"")) {
        assert!(clippy.contains(&name), "clippy.toml bans {name}");
    }
    for name in [
        "std::fs::OpenOptions",
        "std::fs::File::create",
        "rusqlite::Connection::open",
    ] {
        assert!(
            clippy.contains(&format!("\"{name}\"")),
            "clippy.toml bans {name}"
        );
    }
    let cargo = fs::read_to_string(repo().join("Cargo.toml")).expect("Cargo.toml");
    assert!(cargo.contains("unsafe_code = \"forbid\""));
    let denied = [
        "unwrap_used",
        "expect_used",
        "panic",
        "print_stdout",
        "print_stderr",
        "exit",
        "disallowed_methods",
        "disallowed_types",
    ];
    for lint in denied {
        assert!(
            cargo.contains(&format!("{lint} = \"deny\"")),
            "Cargo.toml denies {lint}"
        );
    }
}

/// System calls that write are kept behind the door too: clippy knows only std's.
#[test]
fn writing_system_calls_are_made_in_disk_alone() {
    let calls = [
        "unlinkat",
        "renameat",
        "mkdirat",
        "linkat",
        "symlinkat",
        "ftruncate",
        "fchmod",
        "chmodat",
        "fallocate",
        "utimensat",
        "futimens",
        "copy_file_range",
        "setxattr",
    ];
    let flags = ["CREATE", "WRONLY", "RDWR", "TRUNC", "APPEND", "TMPFILE"];
    let mut wrong = BTreeSet::new();
    for file in source_files() {
        if file.rel.starts_with("src/disk/") || file.rel == "src/store/sqlite.rs" {
            continue;
        }
        let t = tokens(&file.code);
        for (i, word) in t.iter().enumerate() {
            let of_flags = i > 1 && t[i - 1] == "::" && t[i - 2] == "OFlags";
            if calls.contains(&word.as_str()) || (of_flags && flags.contains(&word.as_str())) {
                wrong.insert(format!("{}: {word}", file.rel));
            }
        }
    }
    assert!(wrong.is_empty(), "only disk/ writes:\n{}", join(&wrong));
}

/// Closing any descriptor of a database drops the process's POSIX locks on it, and an acknowledged
/// row is lost. So archive files are opened by SQLite alone.
#[test]
fn archive_files_are_opened_by_sqlite_alone() {
    let named = [
        "ARCHIVE_DB",
        "archive_db(",
        "agent_search.db",
        "MIRROR_INDEX_DB",
        "mirror.db",
    ];
    let opens = [
        "std::fs",
        "fs::read",
        "File::open",
        ".open_file(",
        ".open_at(",
    ];
    let mut wrong = BTreeSet::new();
    for file in source_files() {
        if file.rel.starts_with("src/disk/") {
            continue;
        }
        for (n, line) in file.with_strings.lines().enumerate() {
            if named.iter().any(|x| line.contains(x)) && opens.iter().any(|x| line.contains(x)) {
                wrong.insert(format!("{}:{}: {}", file.rel, n + 1, line.trim()));
            }
        }
        if file.rel == "src/store/sqlite.rs" {
            // A stat by path opens nothing.
            let opening = file.code.replace("std::fs::symlink_metadata", "");
            if opening.contains("std::fs") {
                wrong.insert(format!("{}: names std::fs", file.rel));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", join(&wrong));
}

#[test]
fn decisions_are_numbered_once_and_without_gaps() {
    let mut numbers: BTreeMap<u32, String> = BTreeMap::new();
    let files: Vec<String> = repo_files()
        .into_iter()
        .filter(|p| p.starts_with("docs/adr/"))
        .collect();
    for path in files.iter().filter(|p| !p.ends_with("/README.md")) {
        let name = Path::new(path)
            .file_name()
            .expect("a file")
            .to_string_lossy()
            .into_owned();
        let (number, rest) = name.split_at(4);
        assert!(
            rest.starts_with('-') && rest.ends_with(".md"),
            "{path}: NNNN-name.md"
        );
        let number: u32 = number
            .parse()
            .unwrap_or_else(|_| panic!("{path}: NNNN-name.md"));
        if let Some(other) = numbers.insert(number, path.clone()) {
            panic!("{path} and {other} have one number");
        }
        let text = fs::read_to_string(repo().join(path)).expect("UTF-8");
        assert!(text.starts_with("# "), "{path} begins with its title");
    }
    assert!(!numbers.is_empty(), "docs/adr holds the decisions");
    let expected: Vec<u32> = (1..).take(numbers.len()).collect();
    assert_eq!(
        numbers.keys().copied().collect::<Vec<_>>(),
        expected,
        "numbers without gaps"
    );
    for page in ["docs/adr/README.md", "docs/design.md"] {
        let Ok(text) = fs::read_to_string(repo().join(page)) else {
            continue;
        };
        for path in numbers.values() {
            let name = path.rsplit('/').next().expect("a name");
            let times = text.matches(name).count();
            assert!(times <= 1, "{page} lists {name} {times} times");
        }
    }
}

#[test]
fn the_readme_is_short() {
    let len = fs::metadata(repo().join("README.md"))
        .expect("README.md")
        .len();
    assert!(
        len < 10_000,
        "README.md has {len} bytes; the limit is 10,000"
    );
}

/// Files whose bytes are evidence or generated, and so not held to the rules for our own text.
fn own_text(path: &str) -> bool {
    let own = [
        ".rs",
        ".md",
        ".sh",
        ".toml",
        ".sql",
        ".json",
        ".yml",
        ".yaml",
        ".py",
        "run",
        ".tsv",
        ".gitignore",
        ".gitattributes",
    ];
    let foreign = ["tests/fixtures/", "fuzz/corpus/", "Cargo.lock"];
    own.iter().any(|e| path.ends_with(e)) && !foreign.iter().any(|f| path.starts_with(f))
}

#[test]
fn no_path_of_one_machine_is_in_the_repository() {
    // Put together here so that this file does not match itself.
    let machine = [format!("{}work/", '/'), format!("{}root/", '/')];
    let mut wrong = BTreeSet::new();
    for path in repo_files().into_iter().filter(|p| own_text(p)) {
        let Ok(text) = fs::read_to_string(repo().join(&path)) else {
            continue;
        };
        for (n, line) in text.lines().enumerate() {
            for prefix in &machine {
                for (at, _) in line.match_indices(prefix.as_str()) {
                    let inside = line[..at]
                        .chars()
                        .next_back()
                        .is_some_and(|c| c.is_alphanumeric() || "._-~}$*>".contains(c));
                    if !inside {
                        wrong.insert(format!("{path}:{}: {}", n + 1, line.trim()));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", join(&wrong));
}

#[test]
fn no_test_is_ignored() {
    let marks = [
        format!("#[{}", "ignore"),
        format!("{}, ", "#[cfg_attr(any()"),
    ];
    let wrong: BTreeSet<String> = repo_files()
        .into_iter()
        .filter(|p| p.ends_with(".rs"))
        .filter(|p| {
            let text = fs::read_to_string(repo().join(p)).unwrap_or_default();
            marks.iter().any(|m| text.contains(m.as_str()))
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "a test that never runs proves nothing:\n{}",
        join(&wrong)
    );
}

#[test]
fn scripts_stop_at_the_first_error() {
    for path in repo_files() {
        let shell = ![".py", ".mjs"].iter().any(|end| path.ends_with(end));
        if !(path.starts_with("scripts/") || path.starts_with(".ci/")) || !shell {
            continue;
        }
        let text = fs::read_to_string(repo().join(&path)).expect("UTF-8");
        assert!(text.starts_with("#!"), "{path} names its interpreter");
        assert!(
            text.contains("set -euo pipefail"),
            "{path}: set -euo pipefail"
        );
        let mode = {
            use std::os::unix::fs::PermissionsExt;
            fs::metadata(repo().join(&path))
                .expect("listed")
                .permissions()
                .mode()
        };
        assert!(mode & 0o100 != 0, "{path} can be run");
    }
}

fn join(lines: &BTreeSet<String>) -> String {
    lines.iter().map(|l| format!("  {l}\n")).collect()
}

/// The readers above are code too.
mod readers {
    use super::*;

    #[test]
    fn trees_are_spelled_out() {
        let t = tokens("use crate::{disk::{Capture, Root as R}, model::x::Y}; crate::a::<T>::b()");
        let first: Vec<String> = paths(&t, 3).0.into_iter().map(|p| p.join("::")).collect();
        assert_eq!(first, ["disk::Capture", "disk::Root", "model::x::Y"]);
    }

    #[test]
    fn comments_strings_and_test_modules_are_no_code() {
        let text = "a /* crate::x */ \"crate::y\" 'c' 'a: r#\"crate::z\"# // crate::w\n\
                    #[cfg(test)]\nmod tests { fn f() { crate::v } }\nb";
        let bare = blank(text, true);
        let code = without_tests(&bare, &bare);
        assert!(!code.contains("crate"), "{code}");
        assert!(code.starts_with('a') && code.ends_with('b') && code.contains("'a:"));
    }

    #[test]
    fn a_forbidden_edge_is_told() {
        assert!(edge("model", "disk").is_none());
        assert!(edge("store", "ingest").is_none());
        let list = edge("doctor", "disk").flatten().expect("a list");
        assert!(list.contains(&"Root") && !list.contains(&"Capture"));
    }
}
