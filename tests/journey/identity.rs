//! Which session a record belongs to: several files with one session, several sessions in one
//! file, copies, forks, and files that change or go. Nothing merges by luck, nothing is dropped.

use std::path::PathBuf;

use serde_json::Value;

use crate::sandbox::{Sandbox, content, sample};

/// A record as Claude Code writes it; `more` goes in front of the message.
fn record(session: &str, id: &str, parent: Option<&str>, text: &str, more: &str) -> String {
    let parent = parent.map_or("null".to_owned(), |p| format!("\"{p}\""));
    format!(
        "{{\"parentUuid\":{parent},\"sessionId\":\"{session}\",\"type\":\"user\",\"uuid\":\"{id}\",{more}\
         \"timestamp\":\"2026-01-01T00:00:00.000Z\",\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}\n"
    )
}

/// One record a word, each the child of the one before; ids begin with `tag`.
fn talk(session: &str, tag: &str, words: &[&str]) -> String {
    let mut parent: Option<String> = None;
    let mut out = String::new();
    for word in words {
        let id = format!("{tag}-{word}");
        out += &record(session, &id, parent.as_deref(), word, "");
        parent = Some(id);
    }
    out
}

fn texts(sandbox: &Sandbox, id: &str) -> Vec<String> {
    sandbox
        .messages(id)
        .iter()
        .map(|m| m["text"].as_str().unwrap().to_owned())
        .collect()
}

#[track_caller]
fn only(sandbox: &Sandbox, native: &str) -> (String, Vec<String>) {
    let found = sandbox.named(native);
    assert_eq!(found.len(), 1, "{native}: {found:?}");
    let id = found[0]["id"].as_str().unwrap().to_owned();
    let texts = texts(sandbox, &id);
    (id, texts)
}

fn show(sandbox: &Sandbox, id: &str) -> Value {
    sandbox.run(&["sessions", "show", id]).expect(0).json
}

#[test]
fn subagents_carry_their_parents_id_and_are_sessions_of_their_own() {
    let sandbox = Sandbox::new();
    sandbox.put(
        ".claude/projects/-p/S.jsonl",
        talk("S", "m", &["one", "two", "three"]).as_bytes(),
    );
    for agent in ["aaa", "bbb"] {
        let more = format!("\"isSidechain\":true,\"agentId\":\"{agent}\",");
        let text = record(
            "S",
            &format!("{agent}-1"),
            None,
            &format!("task {agent}"),
            &more,
        ) + &record(
            "S",
            &format!("{agent}-2"),
            Some(&format!("{agent}-1")),
            "done",
            &more,
        );
        sandbox.put(
            &format!(".claude/projects/-p/S/subagents/agent-{agent}.jsonl"),
            text.as_bytes(),
        );
    }
    // The older layout: beside the session.
    let more = "\"isSidechain\":true,\"agentId\":\"ccc\",";
    sandbox.put(
        ".claude/projects/-p/agent-ccc.jsonl",
        record("S", "ccc-1", None, "task ccc", more).as_bytes(),
    );
    sandbox.run(&["index"]).expect(0);

    assert_eq!(sandbox.sessions().len(), 4);
    assert_eq!(only(&sandbox, "S").1, ["one", "two", "three"]);
    for (agent, expected) in [("aaa", 2), ("bbb", 2), ("ccc", 1)] {
        let native = format!("S/{agent}");
        let (id, texts) = only(&sandbox, &native);
        assert_eq!(
            (texts[0].as_str(), texts.len()),
            (format!("task {agent}").as_str(), expected)
        );
        assert_eq!(show(&sandbox, &id)["session"]["parent_session"], "S");
    }
}

#[test]
fn a_fork_with_copied_ids_is_a_session_of_its_own_and_whole() {
    let sandbox = Sandbox::new();
    let words = ["one", "two", "three"];
    sandbox.put(
        ".claude/projects/-p/S.jsonl",
        talk("S", "m", &words).as_bytes(),
    );
    let fork = talk("F", "m", &words) + &record("F", "f-1", Some("m-three"), "other", "");
    sandbox.put(".claude/projects/-p/F.jsonl", fork.as_bytes());
    sandbox.run(&["index"]).expect(0);
    assert_eq!(only(&sandbox, "S").1, words);
    assert_eq!(only(&sandbox, "F").1, ["one", "two", "three", "other"]);
    assert_eq!(sandbox.sessions().len(), 2);
}

#[test]
fn a_resumed_copy_says_the_same_again_and_then_goes_on() {
    let sandbox = Sandbox::new();
    let old = talk("S", "m", &["one", "two"]);
    sandbox.put(".claude/projects/-p/S.jsonl", old.as_bytes());
    sandbox.run(&["index"]).expect(0);
    // The old records, byte for byte, in a new file, then records of the new session.
    let copy = old + &record("N", "n-1", Some("m-two"), "later", "");
    sandbox.put(".claude/projects/-p/N.jsonl", copy.as_bytes());
    sandbox.run(&["index"]).expect(0);
    let (id, texts) = only(&sandbox, "S");
    assert_eq!(texts, ["one", "two"]);
    assert_eq!(only(&sandbox, "N").1, ["later"]);
    let shown = show(&sandbox, &id);
    assert_eq!(shown["sources_total"], 2);
    let copies = shown["sources"][0]["accounting"]["duplicate_bytes"]
        .as_u64()
        .unwrap();
    assert!(copies > 0, "{shown}");
}

#[test]
fn an_archived_rollout_beside_the_original_is_one_session() {
    let name = "rollout-2026-06-18-019ed836-b1da-78f1-8a0c-e598363d10f4.jsonl";
    let bytes = sample(&format!("codex/agentv/{name}"));
    let native = "019ed836-b1da-78f1-8a0c-e598363d10f4";
    let alone = Sandbox::new();
    alone.put(&format!(".codex/sessions/2026/06/18/{name}"), &bytes);
    alone.run(&["index"]).expect(0);
    let (_, expected) = only(&alone, native);
    assert!(expected.len() > 10);

    let sandbox = Sandbox::new();
    let original = sandbox.put(&format!(".codex/sessions/2026/06/18/{name}"), &bytes);
    sandbox.run(&["index"]).expect(0);
    sandbox.put(&format!(".codex/archived_sessions/{name}"), &bytes);
    sandbox.run(&["index"]).expect(0);
    let (id, texts) = only(&sandbox, native);
    assert_eq!(texts, expected);
    assert_eq!(show(&sandbox, &id)["sources_total"], 2);
    // The move is done: the original goes, nothing else changes.
    std::fs::remove_file(original).unwrap();
    sandbox.run(&["index"]).expect(0);
    assert_eq!(only(&sandbox, native).1, expected);
    assert_eq!(sandbox.sessions().len(), 1);
}

#[test]
fn a_compressed_copy_is_the_same_session() {
    let name = "rollout-2026-06-18-019ed836-b1da-78f1-8a0c-e598363d10f4.jsonl";
    let bytes = sample(&format!("codex/agentv/{name}"));
    let native = "019ed836-b1da-78f1-8a0c-e598363d10f4";
    for packed_first in [false, true] {
        let sandbox = Sandbox::new();
        let plain = || sandbox.put(&format!(".codex/sessions/2026/06/18/{name}"), &bytes);
        let packed = || {
            let packed = zstd::bulk::compress(&bytes, 3).unwrap();
            sandbox.put(&format!(".codex/sessions/2026/06/18/{name}.zst"), &packed)
        };
        if packed_first {
            packed()
        } else {
            plain()
        };
        sandbox.run(&["index"]).expect(0);
        let (_, before) = only(&sandbox, native);
        assert!(before.len() > 10);
        if packed_first {
            plain()
        } else {
            packed()
        };
        sandbox.run(&["index"]).expect(0);
        let (id, after) = only(&sandbox, native);
        assert_eq!(after, before);
        assert_eq!(sandbox.sessions().len(), 1);
        for source in show(&sandbox, &id)["sources"].as_array().unwrap() {
            assert_eq!(source["accounting"]["length"], bytes.len(), "{source}");
        }
    }
}

/// A second home of the harness, named by a setting, with this file in it.
fn with_second_home(first: &str, second: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.put(".claude/projects/-p/S.jsonl", first.as_bytes());
    sandbox.put("other/projects/-p/S.jsonl", second.as_bytes());
    sandbox.put(
        ".config/cass/config.toml",
        b"[[roots]]\nprovider = \"claude\"\npath = \"~/other\"\n",
    );
    sandbox
}

#[test]
fn two_homes_with_the_same_session() {
    let words = ["one", "two", "three", "four"];
    let whole = talk("S", "m", &words);
    let part = talk("S", "m", &words[..2]);
    for (first, second) in [(&whole, &whole), (&whole, &part), (&part, &whole)] {
        let sandbox = with_second_home(first, second);
        sandbox.run(&["index"]).expect(0);
        let (id, texts) = only(&sandbox, "S");
        assert_eq!(texts, words);
        let shown = show(&sandbox, &id);
        assert_eq!(
            (&shown["sources_total"], &shown["branches"]),
            (&Value::from(2), &Value::from(Vec::<Value>::new()))
        );
        assert_eq!(sandbox.sessions().len(), 1);
    }
}

#[test]
fn two_homes_that_diverged_are_linked_branches_whoever_comes_first() {
    let here = talk("S", "m", &["one", "two"]);
    let here = here.clone()
        + &record("S", "m-here", Some("m-two"), "here", "")
        + &record("S", "m-here2", Some("m-here"), "here again", "");
    let there =
        talk("S", "m", &["one", "two"]) + &record("S", "m-there", Some("m-two"), "there", "");
    let sandbox = with_second_home(&here, &there);
    sandbox.run(&["index"]).expect(0);
    let all = sandbox.named("S");
    assert_eq!(all.len(), 2, "{all:?}");
    let (branches, mains): (Vec<&Value>, Vec<&Value>) =
        all.iter().partition(|s| s["branch_of"].is_string());
    let (main, branch) = (
        mains[0]["id"].as_str().unwrap(),
        branches[0]["id"].as_str().unwrap(),
    );
    assert_eq!(branches[0]["branch_of"], main);
    assert_eq!(texts(&sandbox, main), ["one", "two", "here", "here again"]);
    assert_eq!(texts(&sandbox, branch).last().unwrap(), "there");
    assert_eq!(show(&sandbox, main)["branches"], Value::from(vec![branch]));
    // Each goes on where it is.
    sandbox.put(
        ".claude/projects/-p/S.jsonl",
        (here + &record("S", "m-5", Some("m-here2"), "five", "")).as_bytes(),
    );
    sandbox.put(
        "other/projects/-p/S.jsonl",
        (there + &record("S", "t-5", Some("m-there"), "cinq", "")).as_bytes(),
    );
    sandbox.run(&["index"]).expect(0);
    assert_eq!(sandbox.named("S").len(), 2);
    assert_eq!(
        texts(&sandbox, main),
        ["one", "two", "here", "here again", "five"]
    );
    let own = texts(&sandbox, branch);
    assert_eq!(own[own.len() - 2..], ["there", "cinq"]);
}

#[test]
fn records_of_another_session_go_to_that_session() {
    let sandbox = Sandbox::new();
    let a = talk("A", "a", &["one", "two"]);
    let b = talk("B", "b", &["eins", "zwei"]);
    sandbox.put(".claude/projects/-p/B.jsonl", b.as_bytes());
    sandbox.run(&["index"]).expect(0);
    // Written to the file that happened to be open, between records of its own session.
    let stray = record("B", "b-drei", Some("b-zwei"), "drei", "");
    let own = record("A", "a-three", Some("a-two"), "three", "");
    sandbox.put(
        ".claude/projects/-p/A.jsonl",
        (a + &stray + &own).as_bytes(),
    );
    sandbox.run(&["index"]).expect(0);
    assert_eq!(only(&sandbox, "A").1, ["one", "two", "three"]);
    // "drei" belongs to B, whether as its end or as a branch of it: B's file has not seen it.
    let all: Vec<String> = sandbox
        .named("B")
        .iter()
        .flat_map(|s| texts(&sandbox, s["id"].as_str().unwrap()))
        .collect();
    for word in ["eins", "zwei", "drei"] {
        assert_eq!(
            all.iter().filter(|t| *t == word).count(),
            1,
            "{word} in {all:?}"
        );
    }
}

#[test]
fn a_rewritten_file_keeps_every_message_that_was_ever_in_it() {
    let sandbox = Sandbox::new();
    let rel = ".claude/projects/-p/S.jsonl";
    let first = talk("S", "m", &["one", "two", "three"]);
    let path = sandbox.put(rel, first.as_bytes());
    sandbox.run(&["index"]).expect(0);
    let (id, _) = only(&sandbox, "S");
    let old: Vec<String> = sandbox
        .messages(&id)
        .iter()
        .map(|m| m["id"].as_str().unwrap().to_owned())
        .collect();

    // Cut to its middle and gone on elsewhere; emptied; and back again.
    let second = talk("S", "m", &["one"]) + &record("S", "n-1", Some("m-one"), "anew", "");
    for version in [second.as_str(), "", first.as_str()] {
        sandbox.put(rel, version.as_bytes());
        sandbox.run(&["index"]).expect(0);
        let all: Vec<(String, String)> = sandbox
            .named("S")
            .iter()
            .flat_map(|s| sandbox.messages(s["id"].as_str().unwrap()))
            .map(|m| {
                (
                    m["id"].as_str().unwrap().to_owned(),
                    m["text"].as_str().unwrap().to_owned(),
                )
            })
            .collect();
        for id in &old {
            assert!(all.iter().any(|(known, _)| known == id), "{id} went");
        }
        assert_eq!(
            all.iter().filter(|(_, text)| text == "anew").count(),
            1,
            "{all:?}"
        );
        assert_eq!(
            all.iter().filter(|(_, text)| text == "three").count(),
            1,
            "{all:?}"
        );
    }
    let captures = sandbox.captures(&path);
    assert_eq!(captures.len(), 4);
    for (seq, version) in [
        (1, first.as_str()),
        (2, second.as_str()),
        (3, ""),
        (4, first.as_str()),
    ] {
        assert!(sandbox.get(&path, seq) == version.as_bytes());
    }
    assert_eq!(sandbox.run(&["doctor", "check", "--deep"]).code, 0);
}

#[test]
fn deleting_two_thirds_of_the_sources_changes_nothing() {
    let sandbox = Sandbox::new();
    let laid = sandbox.lay_out_samples();
    sandbox.run(&["index"]).expect(0);
    let sessions = sandbox.sessions();
    let of = |sandbox: &Sandbox| -> Vec<Vec<Value>> {
        sessions
            .iter()
            .map(|s| sandbox.messages(s["id"].as_str().unwrap()))
            .collect()
    };
    let (before, data) = (of(&sandbox), content(&sandbox.data()));
    let coverage = std::fs::read(sandbox.data().join("coverage.jsonl")).unwrap();

    let gone: Vec<&PathBuf> = laid
        .keys()
        .enumerate()
        .filter(|(n, _)| n % 3 != 0)
        .map(|(_, p)| p)
        .collect();
    for path in &gone {
        std::fs::remove_file(path).unwrap();
    }
    let ran = sandbox.run(&["index"]).expect(0);
    assert_eq!(ran.text("/status"), "no-op");
    assert_eq!(ran.number("/sources/gone"), gone.len() as u64);
    assert_eq!(sandbox.sessions(), sessions);
    assert_eq!(of(&sandbox), before);
    assert_eq!(
        std::fs::read(sandbox.data().join("coverage.jsonl")).unwrap(),
        coverage
    );
    assert_eq!(content(&sandbox.data()), data);
    let check = sandbox.run(&["doctor", "check", "--deep"]).expect(0);
    assert!(
        ["ok", "warn"].contains(&check.text("/status")),
        "{}",
        check.stdout
    );
    assert_eq!(check.text("/coverage_risk/status"), "source-pruned");
    for path in gone {
        assert!(
            sandbox.get_with(path, &[]) == laid[path],
            "{}",
            path.display()
        );
    }
}
