use serde_json::Value;

use super::sandbox::Sandbox;
use super::talk::{Said, claude, found, id, search, texts};

fn world() -> Sandbox {
    let s = Sandbox::new();
    claude(
        &s,
        &id(1),
        "/src/app",
        &[
            Said {
                role: "user",
                time: "2026-01-01T10:00:00.000Z",
                text: "needle one",
            },
            Said {
                role: "assistant",
                time: "2026-01-02T10:00:00.000Z",
                text: "needle two",
            },
        ],
    );
    claude(
        &s,
        &id(2),
        "/src/app/sub",
        &[Said {
            role: "user",
            time: "2026-01-03T23:59:59.999Z",
            text: "needle three",
        }],
    );
    claude(
        &s,
        &id(3),
        "/src/apple",
        &[Said {
            role: "user",
            time: "2026-02-01T00:00:00.000Z",
            text: "needle four",
        }],
    );
    let codex = concat!(
        r#"{"timestamp":"2026-03-01T00:00:00.000Z","type":"session_meta","payload":{"id":"5973b6c0-94b8-487b-a530-2aeb6098ae0e","timestamp":"2026-03-01T00:00:00.000Z","cwd":"/other","originator":"codex_cli_rs","cli_version":"0.50.0"}}"#,
        "\n",
        r#"{"timestamp":"2026-03-01T00:00:01.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"needle five"}]}}"#,
        "\n"
    );
    s.put(
        ".codex/sessions/2026/03/01/rollout-2026-03-01T00-00-00-5973b6c0-94b8-487b-a530-2aeb6098ae0e.jsonl",
        codex.as_bytes(),
    );
    s.run(&["index"]).expect(0);
    s
}

#[test]
fn each_filter_leaves_what_it_says() {
    let s = world();
    let all = [
        "needle five",
        "needle four",
        "needle one",
        "needle three",
        "needle two",
    ];
    for (more, expected) in [
        (&[][..], &[0, 1, 2, 3, 4][..]),
        (&["--agent", "codex"], &[0]),
        (&["--provider", "claude"], &[1, 2, 3, 4]),
        (&["--workspace", "/src/app"], &[2, 3, 4]),
        (&["--workspace", "/src/app/"], &[2, 3, 4]),
        (&["--workspace", "/src/app/sub"], &[3]),
        (&["--workspace", "/nowhere"], &[]),
        (&["--workspace", "/"], &[0, 1, 2, 3, 4]),
        (&["--source", "local"], &[0, 1, 2, 3, 4]),
        (&["--source", "elsewhere"], &[]),
        (&["--role", "assistant"], &[4]),
        (&["--role", "user"], &[0, 1, 2, 3]),
        (&["--since", "2026-01-03"], &[0, 1, 3]),
        (&["--until", "2026-01-03"], &[2, 3, 4]),
        (
            &["--since", "2026-01-02", "--until", "2026-01-02T12:00:00Z"],
            &[4],
        ),
        (&["--since", "2w"], &[]),
        (
            &["--agent", "claude", "--role", "user", "--workspace", "/src"],
            &[1, 2, 3],
        ),
    ] {
        let mut words = vec!["needle"];
        words.extend(more);
        let mut wanted: Vec<&str> = expected.iter().map(|n| all[*n]).collect();
        wanted.sort_unstable();
        assert_eq!(found(&s, &words), wanted, "{more:?}");
    }
    s.run(&["search", "needle", "--since", "soon"]).expect(2);
    s.run(&["search", "needle", "--role", "nobody"]).expect(2);
}

#[test]
fn fields_and_context_are_as_asked() {
    let s = world();
    let run = s
        .run(&[
            "search",
            "needle",
            "--fields",
            "native_id,snippet",
            "--limit",
            "2",
        ])
        .expect(0);
    for hit in run.at("/hits").as_array().unwrap() {
        let names: Vec<&String> = hit.as_object().unwrap().keys().collect();
        assert_eq!(names, ["native_id", "snippet"]);
    }
    s.run(&["search", "needle", "--fields", "nothing"])
        .expect(2);
    let run = s.run(&["search", "two", "--context", "3"]).expect(0);
    let before: Vec<&Value> = run
        .at("/hits/0/context/before")
        .as_array()
        .unwrap()
        .iter()
        .map(|m| &m["text"])
        .collect();
    assert_eq!(before, ["needle one"]);
    assert_eq!(run.at("/hits/0/context/after"), &serde_json::json!([]));
}

/// Versions that were written again are not found any more.
#[test]
fn superseded_versions_are_not_found() {
    let s = Sandbox::new();
    let path = texts(&s, &id(1), &["first wording"]);
    s.run(&["index"]).expect(0);
    assert_eq!(search(&s, &["first"]).number("/total"), 1);
    let text = std::fs::read_to_string(&path)
        .unwrap()
        .replace("first wording", "second wording");
    std::fs::write(&path, text).unwrap();
    super::sandbox::age(&path, 60);
    let run = s.run(&["index"]).expect(0);
    let messages = s.messages(search(&s, &["second"]).text("/hits/0/session_id"));
    if messages.iter().any(|m| m["superseded"] == true) {
        assert_eq!(run.number("/lexical/removed"), 1);
        assert_eq!(search(&s, &["first"]).number("/total"), 0);
    }
    assert_eq!(search(&s, &["second"]).number("/total"), 1);
    let check = s
        .run(&["doctor", "check", "--only", "derived.lexical"])
        .expect(0);
    assert_eq!(check.text("/status"), "ok", "{}", check.stdout);
}

#[test]
fn people_see_the_messages_around_a_hit() {
    let s = Sandbox::new();
    let long = "after ".repeat(40);
    texts(&s, &id(1), &["first\nof all", "needle here", &long]);
    s.run(&["index"]).expect(0);
    let page = |args: &[&str]| {
        let out = s.command(args).output().unwrap();
        assert!(out.status.success());
        String::from_utf8(out.stdout).unwrap()
    };
    let plain = page(&["search", "needle"]);
    assert!(!plain.contains("first of all"), "{plain}");
    let with = page(&["search", "needle", "--context", "1"]);
    let lines: Vec<&str> = with.lines().collect();
    assert_eq!(lines.len(), 6, "{with}");
    assert_eq!(lines[1], "    before user: first of all");
    assert_eq!(lines[2], "  needle here");
    assert!(lines[3].starts_with("    after user: after after"));
    assert!(lines[4].starts_with("  cass view --from 2 -- "), "{with}");
    assert!(lines.iter().all(|l| l.chars().count() <= 80), "{with}");
    // The longest names of harnesses have eight letters.
    assert!(lines[0].starts_with("2026-01-02 claude   "), "{with}");
}
