//! Bad command lines: one valid document each, exit 2, and nothing is done.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::sandbox::{Sandbox, leaves};

/// Made from every command and every way to spoil it; the same in every run.
fn lines() -> Vec<Vec<OsString>> {
    let commands: &[&[&str]] = &[
        &["index"],
        &["doctor"],
        &["doctor", "check"],
        &["doctor", "archive-scan"],
        &["doctor", "backups", "list"],
        &["doctor", "backups", "verify", "b00000001"],
        &["doctor", "backups", "create"],
        &["doctor", "backups", "restore", "b00000001"],
        &["doctor", "repair"],
        &["doctor", "runs", "list"],
        &["doctor", "runs", "show", "latest"],
        &["doctor", "runs", "undo", "latest"],
        // Any more words are paths.
        &["doctor", "session-log", "check", "log", "--limit", "some"],
        &["doctor", "session-log", "repair", "log"],
        &["sessions", "list"],
        &["sessions", "show", "id"],
        // Any more words are part of the query: this is bad by itself.
        &["search", "word", "--limit", "0"],
        &["models", "status"],
        &["sessions", "restore", "id"],
        &["stats"],
        &["view", "id"],
        &["export", "id", "--format", "raw"],
        &["mirror", "verify"],
        &["mirror", "list", "src"],
        &["mirror", "get", "src", "-o", "out"],
        &["health"],
        &["introspect"],
    ];
    let spoil: &[&[&[u8]]] = &[
        &[b"--jsno"],
        &[b"--unknown"],
        &[b"-Z"],
        &[b"--data-dir"],
        &[b"--data-dir", b""],
        &[b"--color", b"sometimes"],
        &[b"--progress", b"bars"],
        &[b"--color"],
        &[b"--data-dir", b"a", b"--data-dir", b"b"],
        &[b"surplus", b"words"],
        &[b"--\xff\xfe"],
        &[b"--color", b"\xff"],
        &["--\u{202e}txt".as_bytes()],
        &[b"--\x1b[31m"],
        &["--color=\u{200b}\u{7}".as_bytes()],
        &[b"--quiet=yes"],
    ];
    for leaf in leaves() {
        let words: Vec<&str> = leaf.split(' ').collect();
        assert!(
            commands.iter().any(|c| c.starts_with(&words)),
            "no bad command line is made of {leaf}"
        );
    }
    let mut all: Vec<Vec<OsString>> = Vec::new();
    for command in commands {
        for extra in spoil {
            let mut line: Vec<OsString> = command.iter().map(OsString::from).collect();
            line.extend(extra.iter().map(|b| OsStr::from_bytes(b).to_owned()));
            all.push(line);
        }
    }
    let single: &[&[&[u8]]] = &[
        &[],
        &[b""],
        &[b" "],
        &[b"indx"],
        &[b"INDEX"],
        &[b"index", b""],
        &[b"index", b"--full", b"--full"],
        &[b"index", b"--full=1"],
        &[b"docter"],
        &[b"doctor", b"chekc"],
        &[b"doctor", b"repiar"],
        &[b"doctor", b"repair", b"--yes"],
        &[b"doctor", b"session-log", b"repair"],
        &[b"doctor", b"session-log", b"repair", b""],
        &[b"doctor", b"session-log", b"repair", b"log", b"--yes"],
        &[
            b"doctor",
            b"session-log",
            b"repair",
            b"log",
            b"--harness-stopped",
        ],
        &[
            b"doctor",
            b"session-log",
            b"repair",
            b"log",
            b"--in-place",
            b"--output",
            b"out",
        ],
        &[
            b"doctor",
            b"repair",
            b"--yes",
            b"--plan-fingerprint",
            b"plan-v1-",
        ],
        &[b"doctor", b"repair", b"--plan-fingerprint", b"plan-v1-00"],
        &[b"doctor", b"repair", b"--yes", b"--dry-run"],
        &[b"doctor", b"--force-rebuild"],
        &[b"doctor", b"runs"],
        &[b"doctor", b"runs", b"undo"],
        &[b"doctor", b"backups", b"restore"],
        &[b"doctor", b"--deep", b"check"],
        &[b"doctor", b"check", b"--budget-ms"],
        &[b"doctor", b"check", b"--budget-ms", b"-1"],
        &[b"doctor", b"check", b"--budget-ms", b"8s"],
        &[
            b"doctor",
            b"check",
            b"--budget-ms",
            b"99999999999999999999999",
        ],
        &[
            b"doctor",
            b"check",
            b"--budget-ms",
            b"1",
            b"--budget-ms",
            b"2",
        ],
        &[b"doctor", b"check", b"--record"],
        &[b"doctor", b"check", b"--only"],
        &[b"doctor", b"check", b"--only", b"archive.opne"],
        &[b"doctor", b"check", b"--skip", b""],
        &[b"doctor", b"check", b"--fail-on", b"fatal"],
        &[b"doctor", b"check", b"--detail", b"all"],
        &[b"doctor", b"archive-scan", b"--limit", b"0"],
        &[b"doctor", b"archive-scan", b"--limit", b"10001"],
        &[b"doctor", b"archive-scan", b"--agent", b"cluade"],
        &[b"doctor", b"archive-scan", b"--state", b"gone"],
        &[b"doctor", b"archive-scan", b"--cursor", b""],
        &[b"doctor", b"archive-scan", b"--cursor", b"sources"],
        &[b"doctor", b"archive-scan", b"--cursor", b"sources.A b"],
        &[b"doctor", b"archive-scan", b"--cursor", b"others.1"],
        &[b"doctor", b"backups"],
        &[b"doctor", b"backups", b"lst"],
        &[b"doctor", b"backups", b"list", b"--limit", b"-1"],
        &[b"doctor", b"backups", b"verify"],
        &[b"doctor", b"backups", b"verify", b""],
        &[b"doctor", b"backups", b"verify", b"a", b"b"],
        &[b"sessions"],
        &[b"sessions", b"lst"],
        &[b"sessions", b"list", b"--limit"],
        &[b"sessions", b"list", b"--limit", b"ten"],
        &[b"sessions", b"list", b"--limit", b"-5"],
        &[b"sessions", b"list", b"--limit", b"1.5"],
        &[b"sessions", b"list", b"--limit", b"1", b"--limit", b"2"],
        &[b"sessions", b"list", b"--provider", b"cluade"],
        &[b"sessions", b"show"],
        &[b"sessions", b"show", b""],
        &[b"sessions", b"list", b"--provider", b"\xf0\x28\x8c\x28"],
        &[b"sessions", b"show", b"a", b"b"],
        &[b"export"],
        &[b"export", b"id"],
        &[b"export", b"--format", b"raw"],
        &[b"export", b"id", b"--format", b"pdf"],
        &[b"export", b"id", b"--format", b"raw", b"-o"],
        &[b"export", b"id", b"--format", b"raw", b"-o", b""],
        &[
            b"export",
            b"id",
            b"--format",
            b"raw",
            b"-o",
            b"a",
            b"-o",
            b"b",
        ],
        &[b"mirror"],
        &[b"mirror", b"list"],
        &[b"mirror", b"list", b""],
        &[b"mirror", b"get", b"src"],
        &[b"mirror", b"get", b"src@0", b"-o", b"x"],
        &[b"mirror", b"get", b"src@99999999999999999999", b"-o", b"x"],
        &[b"mirror", b"get", b"src", b"--seq", b"0", b"-o", b"x"],
        &[b"mirror", b"get", b"src", b"--seq", b"one", b"-o", b"x"],
        &[b"mirror", b"get", b"src", b"--member", b"", b"-o", b"x"],
        &[b"introspect", b"--schema"],
        &[b"introspect", b"--schema", b"doctor"],
        &[b"introspect", b"--commands", b"--schema", b"error"],
        &[b"help", b"nothing"],
        &[b"--data-dir=", b"health"],
    ];
    all.extend(
        single
            .iter()
            .map(|l| l.iter().map(|b| OsStr::from_bytes(b).to_owned()).collect()),
    );
    let long = "x".repeat(100_000);
    all.push(vec![
        OsString::from("sessions"),
        OsString::from(format!("--{long}")),
    ]);
    all
}

#[test]
fn two_hundred_bad_command_lines_end_in_one_document_and_do_nothing() {
    let sandbox = Sandbox::new();
    let before = sandbox.names();
    let lines = lines();
    assert!(lines.len() >= 200, "{}", lines.len());
    for (n, line) in lines.iter().enumerate() {
        // `--json` first and last in turn: both must be found.
        let mut args = line.clone();
        let at = if n % 2 == 0 { 0 } else { args.len() };
        args.insert(
            at,
            OsString::from(if n % 3 == 0 { "--robot" } else { "--json" }),
        );
        let run = sandbox.run(&args);
        assert_eq!(run.code, 2, "{args:?}: {}", run.stderr);
        let value = run.document();
        assert_eq!(value["schema"]["name"], "error", "{args:?}");
        assert_eq!(value["err"]["kind"], "usage", "{args:?}");
        assert_eq!(value["err"]["retryable"], false);
        assert!(value["err"]["hint_argv"].is_array(), "{args:?}: {value}");
        assert_eq!(run.stderr, "", "{args:?}");
    }
    assert_eq!(sandbox.names(), before, "something was made");
}

#[test]
fn without_json_the_same_goes_to_stderr_and_nothing_raw_with_it() {
    let sandbox = Sandbox::new();
    for line in lines() {
        let run = sandbox.run(&line);
        assert_eq!(run.code, 2, "{line:?}");
        assert!(run.stdout.is_empty(), "{line:?}");
        assert!(
            run.stderr.starts_with("error: "),
            "{line:?}: {}",
            run.stderr
        );
        super::hostile::nothing_raw(&run);
    }
    assert!(!sandbox.data().exists());
}

#[test]
fn json_behind_two_dashes_is_a_value() {
    let sandbox = Sandbox::new();
    let run = sandbox.run(["sessions", "show", "--", "--json"]);
    assert_eq!(run.code, 3);
    assert!(run.stdout.is_empty());
    let run = sandbox.run(["sessions", "show", "--json", "--", "--json"]);
    assert_eq!(run.document()["err"]["kind"], "not-initialized");
}

#[test]
fn a_suggestion_is_a_command_that_reads_and_was_not_run() {
    let sandbox = Sandbox::new();
    let cases: [(&[&str], &[&str]); 5] = [
        (&["indx", "--json"], &["cass", "index", "--json"]),
        (
            &["doctor", "chekc", "--json"],
            &["cass", "doctor", "check", "--json"],
        ),
        (
            &["doctor", "check", "--only=archive.opne", "--json"],
            &["cass", "doctor", "check", "--only=archive.open", "--json"],
        ),
        (
            &["index", "--ful", "--json"],
            &["cass", "index", "--full", "--json"],
        ),
        (
            &["sessions", "shwo", "--json"],
            &["cass", "sessions", "--help"],
        ),
    ];
    for (bad, good) in cases {
        let value = sandbox.run(bad).document();
        assert_eq!(
            value["err"]["hint_argv"],
            serde_json::json!(good),
            "{bad:?}"
        );
    }
    assert!(!sandbox.data().exists());
}
