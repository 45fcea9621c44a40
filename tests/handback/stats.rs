//! Figures, and which sessions they and the list are about.

use serde_json::Value;

use crate::sandbox::{Sandbox, files_below, fixtures, sample};

fn record(session: &str, n: u32, cwd: &str, time: &str) -> String {
    format!(
        "{{\"type\":\"user\",\"sessionId\":\"{session}\",\"uuid\":\"{session}-u{n}\",\"parentUuid\":null,\
         \"cwd\":\"{cwd}\",\"timestamp\":\"{time}\",\
         \"message\":{{\"role\":\"user\",\"content\":\"hello {n}\"}}}}\n\
         {{\"type\":\"assistant\",\"sessionId\":\"{session}\",\"uuid\":\"{session}-a{n}\",\
         \"cwd\":\"{cwd}\",\"timestamp\":\"{time}\",\"message\":{{\"role\":\"assistant\",\
         \"content\":[{{\"type\":\"tool_use\",\"id\":\"t{n}\",\"name\":\"Bash\",\"input\":{{}}}}]}}}}\n"
    )
}

fn three() -> Sandbox {
    let sandbox = Sandbox::new();
    for (session, cwd, time, n) in [
        ("session-one", "/w/a", "2026-01-31T23:00:00.000Z", 3),
        ("session-two", "/w/a/deep", "2026-02-01T01:00:00.000Z", 2),
        ("session-three", "/w/ab", "2026-02-10T01:00:00.000Z", 1),
    ] {
        let text: String = (0..n).map(|i| record(session, i, cwd, time)).collect();
        sandbox.put(
            &format!(".claude/projects/-p/{session}.jsonl"),
            text.as_bytes(),
        );
    }
    sandbox.run(&["index"]).expect(0);
    sandbox
}

fn natives(sandbox: &Sandbox, args: &[&str]) -> Vec<String> {
    let mut words = vec!["sessions", "list"];
    words.extend(args);
    let run = sandbox.run(&words).expect(0);
    let list = run.at("/sessions").as_array().unwrap();
    list.iter()
        .map(|s| s["native_id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_list_is_narrowed_and_paged() {
    let sandbox = three();
    let (one, two, three) = ("session-one", "session-two", "session-three");
    for (args, want) in [
        (&[][..], &[three, two, one][..]),
        (&["--agent", "claude"], &[three, two, one]),
        (&["--provider", "codex"], &[]),
        (&["--workspace", "/w/a"], &[two, one]),
        (&["--workspace", "/w/a/"], &[two, one]),
        (&["--workspace", "/w/x/../ab"], &[three]),
        (&["--workspace", "/w/%"], &[]),
        (&["--since", "2026-02-01"], &[three, two]),
        (&["--until", "2026-02-01"], &[two, one]),
        (&["--until", "2026-01-31"], &[one]),
        (
            &["--since", "2026-02-01", "--until", "2026-02-01T02:00:00Z"],
            &[two],
        ),
        (&["--limit", "1", "--offset", "1"], &[two]),
        (&["--all"], &[three, two, one]),
        (&["--offset", "9"], &[]),
    ] {
        assert_eq!(natives(&sandbox, args), want, "{args:?}");
    }
    let run = sandbox
        .run(&["sessions", "list", "--limit", "1", "--workspace", "/w/a"])
        .expect(0);
    assert_eq!(run.at("/truncated"), true);
    assert_eq!(run.number("/total"), 2);
    // The command for the rest means the same sessions.
    let argv: Vec<&str> = run
        .at("/detail_argv")
        .as_array()
        .unwrap()
        .iter()
        .map(|w| w.as_str().unwrap())
        .collect();
    assert_eq!(natives(&sandbox, &argv[3..]), [two, one]);
    // The last page is not cut.
    let run = sandbox
        .run(&["sessions", "list", "--offset", "2"])
        .expect(0);
    assert_eq!(run.at("/truncated"), false);
    for bad in [
        &["--since", "yesterday"][..],
        &["--agent", "nobody"],
        &["--all", "--limit", "1"],
    ] {
        let mut words = vec!["sessions", "list"];
        words.extend(bad);
        sandbox.run(&words).expect(2);
    }
}

#[test]
fn names_of_agents_are_aligned_in_80_columns() {
    let sandbox = three();
    let base = "opencode/harness-1.1.65";
    for file in files_below(&fixtures().join(base)) {
        let rel = file.strip_prefix(fixtures()).unwrap().to_str().unwrap();
        let to = format!(".local/share/opencode{}", &rel[base.len()..]);
        sandbox.put(&to, &sample(rel));
    }
    sandbox.run(&["index"]).expect(0);
    let out = sandbox.command(&["sessions", "list"]).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let id_at = text.lines().next().unwrap().find("id ").unwrap();
    for line in text
        .lines()
        .take_while(|l| !l.ends_with("sessions."))
        .skip(1)
    {
        assert!(line.chars().count() <= 80, "{line}");
        assert!(
            line.as_bytes()[id_at - 1] == b' ' && line.as_bytes()[id_at] != b' ',
            "{line}"
        );
    }
    assert!(text.contains("opencode"));
}

fn page(sandbox: &Sandbox, args: &[&str]) -> String {
    let out = sandbox.command(args).output().unwrap();
    let text = String::from_utf8([out.stdout, out.stderr].concat()).unwrap();
    assert!(text.lines().count() <= 40, "{text}");
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    text
}

#[test]
fn files_of_one_session_are_told_apart_on_a_page() {
    let sandbox = Sandbox::new();
    let base = "opencode/harness-1.1.65";
    for file in files_below(&fixtures().join(base)) {
        let rel = file.strip_prefix(fixtures()).unwrap().to_str().unwrap();
        let to = format!(".local/share/opencode{}", &rel[base.len()..]);
        sandbox.put(&to, &sample(rel));
    }
    sandbox.run(&["index"]).expect(0);
    let list = sandbox.run(&["sessions", "list"]).expect(0);
    let id = list.text("/sessions/0/id");
    let folder = sandbox.path().join("handed-out");
    let folder = folder.to_str().unwrap();
    for args in [
        &["sessions", "show", id][..],
        &["sessions", "restore", id],
        &["export", id, "--format", "raw", "-o", folder],
    ] {
        let text = page(&sandbox, args);
        let files: Vec<&str> = text
            .lines()
            .filter(|l| l.ends_with(" B") || l.ends_with("json"))
            .collect();
        assert!(files.len() > 20, "{text}");
        let apart: std::collections::BTreeSet<&&str> = files.iter().collect();
        assert_eq!(apart.len(), files.len(), "{text}");
        assert_eq!(
            text.matches("handed-out").count(),
            usize::from(args[0] == "export")
        );
    }
}

#[test]
fn a_page_says_how_many_sessions_it_shows() {
    let sandbox = Sandbox::new();
    for n in 0..45 {
        let id = format!("11111111-0000-4000-8000-0000000000{n:02}");
        let line = format!(
            r#"{{"type":"user","sessionId":"{id}","uuid":"u{n}","timestamp":"2026-02-01T00:00:00Z","message":{{"role":"user","content":"hi"}}}}"#
        );
        sandbox.put(&format!(".claude/projects/-p/{id}.jsonl"), line.as_bytes());
    }
    sandbox.run(&["index"]).expect(0);
    for args in [
        &["sessions", "list"][..],
        &["sessions", "list", "--limit", "40"],
    ] {
        let text = page(&sandbox, args);
        assert_eq!(text.matches(" claude ").count(), 37, "{text}");
        assert!(text.contains("45 sessions, 37 of them shown"), "{text}");
    }
    let rest = page(&sandbox, &["sessions", "list", "--offset", "37"]);
    assert_eq!(rest.matches(" claude ").count(), 8, "{rest}");
    let several = page(&sandbox, &["view", "111111"]);
    assert!(several.contains("may be any of 45 sessions"), "{several}");
}

#[test]
fn people_see_each_kind_of_message_once() {
    let sandbox = Sandbox::new();
    // People and the model call tools in it.
    let rel = "pi/pi-mono/before-compaction.jsonl";
    sandbox.put(".pi/agent/sessions/--p--/a.jsonl", &sample(rel));
    sandbox.run(&["index"]).expect(0);
    let text = page(&sandbox, &["stats"]);
    let line = text.lines().find(|l| l.starts_with("messages ")).unwrap();
    let names: Vec<String> = line["messages".len()..]
        .split(',')
        .map(|k| {
            k.trim()
                .trim_end_matches(|c: char| c.is_ascii_digit())
                .to_owned()
        })
        .collect();
    let once: std::collections::BTreeSet<&String> = names.iter().collect();
    assert_eq!(once.len(), names.len(), "{line}");
    let none = page(&sandbox, &["stats", "--agent", "codex"]);
    assert_eq!(none, "0 sessions, 0 messages, 0 tool calls.\n");
}

#[test]
fn the_figures_add_up() {
    let sandbox = three();
    let run = sandbox.run(&["stats"]).expect(0);
    assert_eq!(run.number("/sessions"), 3);
    assert_eq!(run.number("/messages"), 12);
    assert_eq!(run.number("/tool_calls"), 6);
    assert_eq!(
        run.at("/tools"),
        &serde_json::json!([{"name": "Bash", "calls": 6}])
    );
    assert_eq!(run.text("/oldest"), "2026-01-31T23:00:00.000Z");
    assert_eq!(run.text("/newest"), "2026-02-10T01:00:00.000Z");
    let months = serde_json::json!([
        {"name": "2026-02", "sessions": 2, "messages": 6},
        {"name": "2026-01", "sessions": 1, "messages": 6},
    ]);
    assert_eq!(run.at("/by_time"), &months);
    let sum = |list: &Value, field: &str| -> u64 {
        list.as_array()
            .unwrap()
            .iter()
            .map(|g| g[field].as_u64().unwrap())
            .sum()
    };
    for list in ["/by_agent", "/by_workspace", "/by_time", "/by_role"] {
        assert_eq!(sum(run.at(list), "messages"), 12, "{list}");
    }
    assert_eq!(run.number("/workspaces_total"), 3);
    let bytes: u64 = files_below(&sandbox.home().join(".claude"))
        .iter()
        .map(|f| std::fs::metadata(f).unwrap().len())
        .sum();
    assert_eq!(run.number("/source_bytes"), bytes);
    assert_eq!(run.number("/mirror/newest_bytes"), bytes);
    assert_eq!(run.number("/mirror/captures"), 3);
    assert!(run.number("/mirror/stored_bytes") > 0);

    let some = sandbox
        .run(&["stats", "--workspace", "/w/a", "--by", "day"])
        .expect(0);
    assert_eq!(
        (some.number("/sessions"), some.number("/messages")),
        (2, 10)
    );
    assert_eq!(some.at("/mirror"), &Value::Null);
    assert_eq!(some.text("/by_time/0/name"), "2026-02-01");
    let one = sandbox.run(&["stats", "--session", "session-th"]).expect(0);
    assert_eq!((one.number("/sessions"), one.number("/tool_calls")), (1, 1));
    let several = sandbox.run(&["stats", "--session", "session-"]).expect(2);
    assert_eq!(several.text("/err/kind"), "ambiguous-name");
    assert_eq!(several.at("/err/candidates").as_array().unwrap().len(), 3);
}

/// One way to name a session, wherever one is named.
#[test]
fn every_command_takes_every_name_of_a_session() {
    let sandbox = three();
    let id = sandbox.named("session-two")[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = sandbox.home().join(".claude/projects/-p/session-two.jsonl");
    let commands: [&[&str]; 6] = [
        &["sessions", "show"],
        &["sessions", "restore"],
        &["view"],
        &["stats", "--session"],
        &["export", "--format", "html", "-o"],
        &["export", "--format", "markdown", "-o"],
    ];
    for (n, name) in [
        &id,
        "session-two",
        &id[..10],
        "session-tw",
        path.to_str().unwrap(),
    ]
    .iter()
    .enumerate()
    {
        for command in commands {
            let out = sandbox.path().join(format!(
                "{n}-{}",
                command.len() + command[2 % command.len()].len()
            ));
            let mut words = command.to_vec();
            if command[0] == "export" {
                words.push(out.to_str().unwrap());
            }
            words.push(name);
            let run = sandbox.run(&words).expect(0);
            let found = run.json.pointer("/session/id").or(run.json.pointer("/id"));
            match found {
                Some(found) => assert_eq!(found, id.as_str(), "{words:?}"),
                None => assert_eq!(run.number("/messages"), 4),
            }
        }
    }
    for command in &commands[..4] {
        let mut words = command.to_vec();
        words.push("session-");
        let run = sandbox.run(&words).expect(2);
        assert_eq!(
            run.at("/err/candidates").as_array().unwrap().len(),
            3,
            "{words:?}"
        );
    }
}
