//! A session as people read it.

use crate::sandbox::{Sandbox, sample};

const ID: &str = "11111111-2222-4333-8444-555555555555";

fn said(n: u32, text: &str) -> String {
    format!(
        "{{\"type\":\"user\",\"sessionId\":\"{ID}\",\"uuid\":\"u{n}\",\"parentUuid\":null,\
         \"cwd\":\"/w\",\"timestamp\":\"2026-01-02T03:04:05.000Z\",\
         \"message\":{{\"role\":\"user\",\"content\":{}}}}}\n",
        serde_json::to_string(text).unwrap()
    )
}

fn put(sandbox: &Sandbox, text: &str) {
    sandbox.put(&format!(".claude/projects/-w/{ID}.jsonl"), text.as_bytes());
    sandbox.run(&["index"]).expect(0);
}

fn people(sandbox: &Sandbox, args: &[&str]) -> String {
    let out = sandbox.command(args).output().unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn pages_follow_each_other_and_leave_nothing_out() {
    let sandbox = Sandbox::new();
    let text: String = (0..100)
        .map(|n| said(n, &format!("message {n}.")))
        .collect();
    put(&sandbox, &text);
    let (mut from, mut seen, mut pages) = (1, Vec::new(), 0);
    loop {
        let at = from.to_string();
        let page = people(&sandbox, &["view", ID, "--from", &at]);
        assert!(page.lines().count() <= 40, "{page}");
        seen.extend(
            page.lines()
                .filter(|l| l.contains("message "))
                .map(|l| l.trim().to_owned()),
        );
        pages += 1;
        let run = sandbox
            .run(&["view", ID, "--from", &at, "--count", "3"])
            .expect(0);
        assert_eq!(run.number("/messages_total"), 100);
        assert_eq!(run.number("/messages/0/position"), from);
        let Some((_, next)) = page.rsplit_once("--from ") else {
            break;
        };
        from = next.split(' ').next().unwrap().parse().unwrap();
    }
    assert!(pages > 5);
    let all: Vec<String> = (0..100).map(|n| format!("message {n}.")).collect();
    assert_eq!(seen, all);
    assert_eq!(
        sandbox
            .run(&["view", ID, "--from", "101"])
            .expect(0)
            .at("/messages")
            .as_array()
            .unwrap()
            .len(),
        0
    );
}

#[test]
fn a_long_text_is_shortened_and_raw_shows_it_whole() {
    let sandbox = Sandbox::new();
    let long: String = (0..500).map(|n| format!("line {n}\n")).collect();
    put(&sandbox, &said(1, &long));
    let page = people(&sandbox, &["view", ID]);
    assert!(page.contains("--raw --from 1 shows it whole"), "{page}");
    assert!(!page.contains("line 499"));
    let whole = people(&sandbox, &["view", ID, "--raw"]);
    assert!(whole.contains("\nline 499\n"));
    let run = sandbox.run(&["view", ID]).expect(0);
    assert_eq!(run.at("/messages/0/shortened"), true);
    assert_eq!(run.number("/messages/0/text_bytes"), long.len() as u64);
    let run = sandbox.run(&["view", ID, "--raw"]).expect(0);
    assert_eq!(run.text("/messages/0/text"), long);
}

#[test]
fn nothing_of_a_session_acts_on_a_terminal() {
    let sandbox = Sandbox::new();
    let evil = "a \u{1b}]0;t\u{7}\u{1b}[2J\u{202e}b\r\u{8}\u{9b}31m";
    put(
        &sandbox,
        &format!("{}{}", said(1, evil), said(2, &evil.repeat(50))),
    );
    for args in [&["view", ID][..], &["view", ID, "--raw"]] {
        let page = people(&sandbox, args);
        let acts = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(!page.chars().any(acts), "{page:?}");
        assert!(page.contains("\\x1b"));
    }
}

#[test]
fn damage_is_shown_where_it_is() {
    let sandbox = Sandbox::new();
    let text = format!("{}garbage here\n{}", said(1, "before"), said(2, "behind"));
    put(&sandbox, &text);
    let page = people(&sandbox, &["view", ID]);
    let at = |what: &str| {
        page.find(what)
            .unwrap_or_else(|| panic!("no {what} in {page}"))
    };
    assert!(
        at("before") < at("!! damaged") && at("!! damaged") < at("behind"),
        "{page}"
    );
    let run = sandbox.run(&["view", ID]).expect(0);
    assert_eq!(run.number("/damage/0/before"), 2);
    assert_eq!(run.number("/damage_total"), 1);
    // A page that does not hold the place does not show it and still counts it.
    let run = sandbox.run(&["view", ID, "--count", "1"]).expect(0);
    assert_eq!(run.at("/damage").as_array().unwrap().len(), 0);
    assert_eq!(run.number("/damage_total"), 1);
}

/// A chat that its harness rewrites in place: what changed keeps its place.
#[test]
fn a_later_version_stands_where_the_first_one_stood() {
    let sandbox = Sandbox::new();
    let chat = |texts: &[(&str, &str)]| {
        let messages: Vec<_> = texts
            .iter()
            .map(|(id, text)| {
                serde_json::json!({"id": id, "timestamp": "2026-01-02T03:04:05.000Z",
                                   "type": "user", "content": text})
            })
            .collect();
        serde_json::json!({"sessionId": ID, "projectHash": "x",
            "startTime": "2026-01-02T03:04:05.000Z", "lastUpdated": "2026-01-02T03:04:05.000Z",
            "messages": messages})
        .to_string()
    };
    let rel = ".gemini/tmp/x/chats/session-2026-01-02T03-04-11111111.json";
    sandbox.put(
        rel,
        chat(&[("a", "one"), ("b", "tw"), ("c", "three")]).as_bytes(),
    );
    sandbox.run(&["index"]).expect(0);
    let again = chat(&[("a", "one"), ("b", "two"), ("c", "three"), ("d", "four")]);
    sandbox.put(rel, again.as_bytes());
    sandbox.run(&["index"]).expect(0);
    let texts = |args: &[&str]| -> Vec<String> {
        let run = sandbox.run(args).expect(0);
        let list = run.at("/messages").as_array().unwrap().clone();
        list.iter()
            .map(|m| m["text"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(texts(&["view", ID]), ["one", "two", "three", "four"]);
    assert_eq!(
        texts(&["view", ID, "--all"]),
        ["one", "tw", "two", "three", "four"]
    );
}

/// The tree of files of an older OpenCode is read by folder; people read it by time.
#[test]
fn a_tree_of_files_is_read_in_the_order_of_its_ids() {
    let sandbox = Sandbox::new();
    let base = "opencode/harness-1.1.65";
    for file in crate::sandbox::files_below(&crate::sandbox::fixtures().join(base)) {
        let rel = file
            .strip_prefix(crate::sandbox::fixtures())
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let to = rel.strip_prefix(base).unwrap();
        sandbox.put(&format!(".local/share/opencode{to}"), &sample(&rel));
    }
    sandbox.run(&["index"]).expect(0);
    let mut checked = 0;
    for session in sandbox.sessions() {
        let run = sandbox
            .run(&["view", session["id"].as_str().unwrap(), "--count", "1000"])
            .expect(0);
        let keys: Vec<(String, String)> = run
            .at("/messages")
            .as_array()
            .unwrap()
            .iter()
            .filter(|m| {
                m["native_id"]
                    .as_str()
                    .is_some_and(|id| id.starts_with("prt_"))
            })
            .map(|m| {
                let of = |name: &str| m[name].as_str().unwrap_or_default().to_owned();
                (of("native_parent"), of("native_id"))
            })
            .collect();
        assert!(keys.is_sorted(), "{keys:?}");
        checked += keys.len();
    }
    assert!(checked > 10);
}

#[test]
fn a_reader_that_goes_away_early_is_no_failure() {
    use std::io::Read;
    let sandbox = Sandbox::new();
    let text: String = (0..2000).map(|n| said(n, &"word ".repeat(60))).collect();
    put(&sandbox, &text);
    let mut child = sandbox
        .command(&["view", ID, "--count", "2000"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut some = [0u8; 100];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success());
    assert!(out.stderr.is_empty());
}
