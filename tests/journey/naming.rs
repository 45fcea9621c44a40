//! What a person may type where a session is meant, and what they are told when it is not enough.

use std::os::unix::fs::symlink;

use crate::sandbox::{Ran, Sandbox};

fn record(session: &str, id: &str, text: &str, more: &str) -> String {
    format!(
        "{{\"parentUuid\":null,\"sessionId\":\"{session}\",\"type\":\"user\",\"uuid\":\"{id}\",{more}\
         \"timestamp\":\"2026-01-01T00:00:00.000Z\",\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}\n"
    )
}

fn agent(session: &str, agent: &str) -> String {
    let more = format!("\"isSidechain\":true,\"agentId\":\"{agent}\",");
    record(session, &format!("{agent}-1"), "a task", &more)
}

const PARENT: &str = "1f0e5a3c-0000-4000-8000-000000000001";

/// A session with two subagents, and one whose id begins with the same eight characters.
fn family() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.put(
        &format!(".claude/projects/-p/{PARENT}.jsonl"),
        record(PARENT, "m1", "one", "").as_bytes(),
    );
    for name in ["aaa", "bbb"] {
        sandbox.put(
            &format!(".claude/projects/-p/{PARENT}/subagents/agent-{name}.jsonl"),
            agent(PARENT, name).as_bytes(),
        );
    }
    sandbox.run(&["index"]).expect(0);
    assert_eq!(sandbox.sessions().len(), 3);
    sandbox
}

fn show(sandbox: &Sandbox, name: &str) -> Ran {
    sandbox.run(&["sessions", "show", name])
}

#[track_caller]
fn means(sandbox: &Sandbox, name: &str, native: &str) {
    let shown = show(sandbox, name).expect(0);
    assert_eq!(shown.text("/session/native_id"), native, "{name}");
}

#[test]
fn a_parent_is_never_confused_with_its_own_subagents() {
    let sandbox = family();
    for name in [PARENT, &PARENT[..6], &PARENT[..30]] {
        means(&sandbox, name, PARENT);
    }
    let child = format!("{PARENT}/aaa");
    for name in [child.as_str(), &child[..child.len() - 2]] {
        means(&sandbox, name, &child);
    }
    // The slash says that one of the subagents is meant, and not which.
    let both = show(&sandbox, &format!("{PARENT}/")).expect(2);
    assert_eq!(both.at("/err/candidates").as_array().unwrap().len(), 2);
}

#[test]
fn a_session_is_named_by_any_of_its_names() {
    let sandbox = family();
    let ours = sandbox.named(PARENT)[0]["id"].as_str().unwrap().to_owned();
    let file = sandbox
        .home()
        .join(format!(".claude/projects/-p/{PARENT}.jsonl"));
    for name in [ours.as_str(), &ours[..6], file.to_str().unwrap()] {
        means(&sandbox, name, PARENT);
    }
    let agents = sandbox
        .home()
        .join(format!(".claude/projects/-p/{PARENT}/subagents"));
    let of_agent = agents.join("agent-bbb.jsonl");
    means(
        &sandbox,
        of_agent.to_str().unwrap(),
        &format!("{PARENT}/bbb"),
    );

    // From the file's own folder, through a link to the harness's folder, and after it is gone.
    let mut c = sandbox.command(&["sessions", "show", "agent-bbb.jsonl", "--json"]);
    crate::sandbox::ran(c.current_dir(&agents).output().unwrap()).expect(0);
    let link = sandbox.path().join("link");
    symlink(sandbox.home().join(".claude"), &link).unwrap();
    let linked = link.join(format!("projects/-p/{PARENT}.jsonl"));
    means(&sandbox, linked.to_str().unwrap(), PARENT);
    std::fs::remove_file(&file).unwrap();
    means(&sandbox, file.to_str().unwrap(), PARENT);
    let out = sandbox.path().join("out");
    let named = ["export", file.to_str().unwrap(), "--format", "raw", "-o"];
    sandbox
        .run(&[&named[..], &[out.to_str().unwrap()]].concat())
        .expect(0);
    assert_eq!(
        std::fs::read(out.join(format!("{PARENT}.jsonl"))).unwrap(),
        record(PARENT, "m1", "one", "").as_bytes()
    );
}

#[test]
fn the_path_of_a_continued_session_means_the_session_it_is_named_after() {
    let sandbox = Sandbox::new();
    let old = record("S", "m1", "one", "");
    sandbox.put(".claude/projects/-p/S.jsonl", old.as_bytes());
    let file = sandbox.put(
        ".claude/projects/-p/N.jsonl",
        (old + &record("N", "n1", "later", "")).as_bytes(),
    );
    sandbox.run(&["index"]).expect(0);
    means(&sandbox, file.to_str().unwrap(), "N");
}

#[test]
fn a_path_that_is_not_utf8_names_a_session_too() {
    use std::os::unix::ffi::OsStrExt;
    let sandbox = Sandbox::new();
    let folder = sandbox.home().join(".claude/projects/-p");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join(std::ffi::OsStr::from_bytes(b"\xf0\x28.jsonl"));
    std::fs::write(&file, record("odd", "m1", "one", "")).unwrap();
    sandbox.run(&["index"]).expect(0);
    let mut c = sandbox.command(&["sessions", "show", "--json"]);
    let shown = crate::sandbox::ran(c.arg(&file).output().unwrap()).expect(0);
    assert_eq!(shown.text("/session/native_id"), "odd");
}

#[test]
fn the_path_of_a_branch_means_the_branch() {
    let sandbox = Sandbox::new();
    let text = |word: &str| record("S", "m1", "one", "") + &record("S", word, word, "");
    let here = sandbox.put(".claude/projects/-p/S.jsonl", text("here").as_bytes());
    let there = sandbox.put("other/projects/-p/S.jsonl", text("there").as_bytes());
    sandbox.put(
        ".config/cass/config.toml",
        b"[[roots]]\nprovider = \"claude\"\npath = \"~/other\"\n",
    );
    sandbox.run(&["index"]).expect(0);
    let id = |path: &std::path::Path| {
        let shown = show(&sandbox, path.to_str().unwrap()).expect(0);
        shown.text("/session/id").to_owned()
    };
    assert_ne!(id(&here), id(&there));
}

#[test]
fn what_several_sessions_may_be_called_is_listed_and_none_is_picked() {
    let sandbox = Sandbox::new();
    for n in 0..25 {
        let session = format!("abcdef-{n:02}");
        let title =
            format!("{{\"type\":\"summary\",\"summary\":\"title {n}\",\"leafUuid\":\"m{n}\"}}\n");
        sandbox.put(
            &format!(".claude/projects/-p/{session}.jsonl"),
            (title + &record(&session, &format!("m{n}"), "private words", "")).as_bytes(),
        );
    }
    sandbox.run(&["index"]).expect(0);
    let all = sandbox.sessions();
    for args in [
        vec!["sessions", "show", "abcdef"],
        vec!["export", "abcdef", "--format", "raw"],
        vec!["export", "abcdef", "--format", "json"],
    ] {
        let run = sandbox.run(&args).expect(2);
        assert_eq!(run.text("/err/kind"), "ambiguous-name", "{args:?}");
        let listed = run.at("/err/candidates").as_array().unwrap();
        assert_eq!(listed.len(), 20);
        assert_eq!(run.text("/err/context/candidates"), "25");
        for c in listed {
            let known = all.iter().find(|s| s["id"] == c["id"]).unwrap();
            for field in ["native_id", "provider", "title", "ended_at"] {
                assert_eq!(c[field], known[field], "{field}");
            }
        }
        assert!(!run.stdout.contains("private words"));

        let plain = sandbox.command(&args).output().unwrap();
        let text = String::from_utf8(plain.stderr).unwrap();
        assert_eq!(plain.status.code(), Some(2));
        let id = listed[0]["id"].as_str().unwrap();
        let native = listed[0]["native_id"].as_str().unwrap();
        assert!(text.contains(&id[..12]) && text.contains(native), "{text}");
        assert!(text.contains("title "), "{text}");
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
        // What is shown of an id names it.
        let shown = show(&sandbox, &id[..12]).expect(0);
        assert_eq!(shown.text("/session/id"), id);
        assert!(
            text.contains("25 sessions") && text.contains("(15 more)"),
            "{text}"
        );
        assert!(!text.contains("private words"), "{text}");
    }
}

#[test]
fn a_beginning_that_is_too_short_is_told_so() {
    let sandbox = family();
    let run = show(&sandbox, &PARENT[..5]).expect(3);
    assert_eq!(run.text("/err/kind"), "not-found");
    assert!(
        run.text("/err/message").contains("6 characters"),
        "{}",
        run.stdout
    );
    for name in [
        "nothing-like-this",
        "/no/such/file.jsonl",
        "%%%%%%",
        "1f0e5a%",
    ] {
        let run = show(&sandbox, name).expect(3);
        assert!(
            run.text("/err/message").contains("no session is named"),
            "{}",
            run.stdout
        );
    }
}
