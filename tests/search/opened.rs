//! From a hit to the place in its session, and from a page to the next one.

use serde_json::Value;

use super::sandbox::{Ran, Sandbox, ran};
use super::talk::{id, search, texts};

/// Runs a command that a document names.
fn follow(s: &Sandbox, argv: &Value, more: &[&str]) -> Ran {
    let words: Vec<&str> = argv
        .as_array()
        .unwrap()
        .iter()
        .map(|w| w.as_str().unwrap())
        .collect();
    assert_eq!(words[0], "cass");
    let mut args = vec![words[1]];
    args.extend(more);
    args.extend(&words[2..]);
    ran(s.command(&args).output().unwrap()).expect(0)
}

/// Opens a hit: the first message of the view is the one that was found.
#[track_caller]
fn opened(s: &Sandbox, hit: &Value) -> u64 {
    let view = follow(s, &hit["view_argv"], &["--json", "--raw", "--count", "1"]);
    assert_eq!(view.at("/messages/0/id"), &hit["message_id"], "{hit}");
    assert_eq!(view.at("/messages/0/position"), &hit["number"], "{hit}");
    let snippet = hit["snippet"].as_str().unwrap();
    assert!(view.text("/messages/0/text").contains(snippet), "{hit}");
    view.number("/from")
}

#[test]
fn each_hit_in_real_sessions_is_the_first_message_of_its_view() {
    let s = Sandbox::new();
    s.lay_out_samples();
    s.run(&["index"]).expect(0);
    let mut followed = 0;
    for word in ["the", "error", "file"] {
        let run = search(&s, &[word]);
        for hit in run
            .at("/hits")
            .as_array()
            .unwrap()
            .iter()
            .step_by(7)
            .take(8)
        {
            opened(&s, hit);
            followed += 1;
        }
    }
    assert!(followed > 10, "{followed}");
}

/// A chat that its harness rewrites in place: the number is that among the newest versions, in the
/// order in which people read, and not that of the archive's rows.
#[test]
fn a_hit_behind_rewritten_messages_is_opened_where_people_read_it() {
    let s = Sandbox::new();
    let chat = |texts: &[(&str, &str)]| {
        let messages: Vec<Value> = texts
            .iter()
            .map(|(id, text)| {
                serde_json::json!({"id": id, "timestamp": "2026-01-02T03:04:05.000Z",
                                   "type": "user", "content": text})
            })
            .collect();
        serde_json::json!({"sessionId": id(1), "projectHash": "x",
            "startTime": "2026-01-02T03:04:05.000Z", "lastUpdated": "2026-01-02T03:04:05.000Z",
            "messages": messages})
        .to_string()
    };
    let rel = ".gemini/tmp/x/chats/session-2026-01-02T03-04-11111111.json";
    for last in [
        &[("a", "wor one"), ("b", "wor tw"), ("c", "wor three")][..],
        &[
            ("a", "word one"),
            ("b", "word two"),
            ("c", "word three"),
            ("d", "word four"),
        ],
    ] {
        s.put(rel, chat(last).as_bytes());
        s.run(&["index"]).expect(0);
    }
    let run = search(&s, &["word"]);
    let mut numbers: Vec<(u64, String)> = run
        .at("/hits")
        .as_array()
        .unwrap()
        .iter()
        .map(|hit| (opened(&s, hit), hit["snippet"].as_str().unwrap().to_owned()))
        .collect();
    numbers.sort();
    let texts = ["word one", "word two", "word three", "word four"];
    let wanted: Vec<(u64, String)> = (1..).zip(texts.map(str::to_owned)).collect();
    assert_eq!(numbers, wanted);
}

#[test]
fn people_are_told_how_to_open_a_hit_and_how_to_go_on() {
    let s = Sandbox::new();
    let all: Vec<String> = (0..30)
        .map(|n| format!("-rf \"needle\" number {n}"))
        .collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    texts(&s, &id(1), &all);
    s.run(&["index"]).expect(0);
    let page = |args: &[&str]| {
        let out = s.command(args).output().unwrap();
        assert!(out.status.success());
        let text = String::from_utf8(out.stdout).unwrap();
        assert!(text.lines().count() <= 40, "{text}");
        text
    };
    let shown = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|l| l.contains("number "));
        lines.map(|l| l.trim().to_owned()).collect()
    };
    let pasted = |line: &str| {
        let out = std::process::Command::new("sh")
            .args(["-c", &line.trim().replacen("cass", "\"$CASS\"", 1)])
            .env("CASS", env!("CARGO_BIN_EXE_cass"))
            .env("HOME", s.home())
            .env("CASS_DATA_DIR", s.data())
            .output()
            .unwrap();
        assert!(
            out.status.success(),
            "{line}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
        String::from_utf8(out.stdout).unwrap()
    };
    let mut text = page(&[
        "search",
        "--since",
        "2020-01-01",
        "--role",
        "user",
        "--",
        "-rf",
        "\"needle\"",
    ]);
    let mut seen = shown(&text);
    assert_eq!(seen.len(), 10);
    let open = text
        .lines()
        .find(|l| l.trim().starts_with("cass view"))
        .unwrap();
    assert!(pasted(open).contains(&seen[0]));
    for _ in 0..2 {
        let next = text.lines().last().unwrap();
        assert!(next.trim().starts_with("cass search"), "{text}");
        text = pasted(next);
        seen.extend(shown(&text));
    }
    assert!(
        !text.lines().last().unwrap().contains("cass search"),
        "{text}"
    );
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 30);
}
