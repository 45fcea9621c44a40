//! Pages: every row once, in one order, whatever the size of a page; and the size of the document.

use serde_json::Value;

use crate::made::{claude, id, indexed, scan};
use crate::sandbox::{Sandbox, ran};

/// Follows one list to its end; every page but the last has `limit` rows.
fn follow(sandbox: &Sandbox, list: &str, page: &str, limit: usize) -> Vec<Value> {
    let mut argv: Vec<String> = ["cass", "doctor", "archive-scan", "--limit"]
        .map(str::to_owned)
        .into();
    argv.push(limit.to_string());
    let mut rows = Vec::new();
    loop {
        let words: Vec<&str> = argv[1..].iter().map(String::as_str).collect();
        let run = ran(sandbox.command(&words).arg("--json").output().unwrap());
        let some = run.at(list).as_array().unwrap();
        let page = run.at(page);
        assert_eq!(page["shown"], some.len() as u64);
        rows.extend(some.iter().cloned());
        if page["truncated"] == false {
            assert!(page["next_argv"].is_null());
            assert_eq!(page["total"], rows.len() as u64, "{list}");
            return rows;
        }
        assert_eq!(some.len(), limit, "{list}");
        argv = serde_json::from_value(page["next_argv"].clone()).unwrap();
        // Another list is not shown on the pages of this one.
        let next = run.at("/scan_scope/cursor");
        if !next.is_null() && list != "/sessions" {
            assert_eq!(run.at("/sessions").as_array().unwrap().len(), 0);
        }
    }
}

#[test]
fn pages_are_complete_and_stable() {
    let (sandbox, files) = indexed(25);
    for file in &files[..12] {
        std::fs::remove_file(file).unwrap();
    }
    for n in 30..37 {
        claude(&sandbox, n, 1);
    }
    let named: String = (100..123)
        .map(|n| format!("{{\"sessionId\":\"{}\"}}\n", id(n)))
        .collect();
    sandbox.put(".claude/history.jsonl", named.as_bytes());
    let whole = scan(&sandbox, &[]);
    for (list, page, total) in [
        (
            "/source_inventory/sources",
            "/source_inventory/sources_page",
            33,
        ),
        ("/sessions", "/sessions_page", 32),
        ("/sole_copy_warnings", "/sole_copy_warnings_page", 19),
        ("/missing_sessions", "/missing_sessions_page", 23),
    ] {
        let all = whole.at(list).as_array().unwrap();
        assert_eq!(all.len(), total, "{list}");
        for limit in [1, 5, 7, 1000] {
            assert_eq!(
                follow(&sandbox, list, page, limit),
                *all,
                "{list} by {limit}"
            );
        }
    }
}

#[test]
fn the_short_document_stays_below_12_kib_and_the_page_below_40_lines() {
    let (sandbox, files) = indexed(60);
    for file in &files[..40] {
        std::fs::remove_file(file).unwrap();
    }
    for n in 100..160 {
        let long = "x".repeat(200);
        sandbox.put(
            &format!(
                ".claude/projects/-{long}/{long}/{}/subagents/agent-{long}.jsonl",
                id(n)
            ),
            &crate::made::text(n, 1),
        );
    }
    let named: String = (200..260)
        .map(|n| format!("{{\"sessionId\":\"{}{}\"}}\n", id(n), "y".repeat(150)))
        .collect();
    sandbox.put(".claude/history.jsonl", named.as_bytes());
    let brief = sandbox.run(&["doctor", "archive-scan"]).expect(0);
    assert!(
        brief.stdout.len() <= 12 * 1024 + 1,
        "{}",
        brief.stdout.len()
    );
    for list in [
        "/source_inventory/sources",
        "/sessions",
        "/sole_copy_warnings",
        "/missing_sessions",
    ] {
        assert!(!brief.at(list).as_array().unwrap().is_empty(), "{list}");
    }
    let pages = [
        "/source_inventory/sources_page",
        "/sessions_page",
        "/missing_sessions_page",
    ];
    assert!(pages.iter().all(|p| brief.at(p)["next_argv"].is_array()));
    let rest = follow(&sandbox, "/sessions", "/sessions_page", 50);
    assert_eq!(rest.len(), 120);
    let text = sandbox
        .command(&["doctor", "archive-scan"])
        .output()
        .unwrap()
        .stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(text.lines().count() <= 40, "{text}");
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    assert!(text.starts_with("info "), "{text}");
}
