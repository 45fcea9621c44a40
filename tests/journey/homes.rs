//! Who a session is: one id in several files, several ids in one file, copies, forks, branches.

use serde_json::Value;

use crate::sandbox::{Sandbox, fixtures};

const A: &str = "aaaaaaaa-0000-4000-8000-000000000001";
const B: &str = "bbbbbbbb-0000-4000-8000-000000000002";

fn line(session: &str, n: u32, text: &str) -> String {
    format!(
        "{{\"type\":\"user\",\"uuid\":\"00000000-0000-4000-8000-{n:012}\",\"parentUuid\":null,\
         \"sessionId\":\"{session}\",\"timestamp\":\"2026-11-01T10:00:00.000Z\",\"cwd\":\"/src\",\
         \"version\":\"2.1.0\",\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}\n"
    )
}

fn sessions(sandbox: &Sandbox) -> Vec<Value> {
    let list = sandbox.run(&["sessions", "list", "--limit", "1000"]).expect(0);
    list.at("/sessions").as_array().unwrap().clone()
}

/// The texts of a session, in order.
fn texts(sandbox: &Sandbox, id: &str) -> Vec<String> {
    let export = sandbox.run(&["export", id, "--format", "json"]).expect(0);
    export
        .at("/messages")
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["text"].as_str().unwrap().to_owned())
        .collect()
}

fn by_native<'s>(all: &'s [Value], native: &str) -> Vec<&'s Value> {
    all.iter().filter(|s| s["native_id"] == native).collect()
}

#[test]
fn a_subagent_with_its_parents_session_id_is_a_session_of_its_own() {
    let sandbox = Sandbox::new();
    let parent = "0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f";
    let from = fixtures().join("claude/agent-sessions");
    let agent = "subagents/agent-a0ad4f44468bdf20d.jsonl";
    for (rel, to) in [(format!("{parent}.jsonl"), format!("{parent}.jsonl")), (
        format!("{parent}/{agent}"),
        format!("{parent}/{agent}"),
    )] {
        let bytes = std::fs::read(from.join(rel)).unwrap();
        sandbox.put(&format!(".claude/projects/-src/{to}"), &bytes);
    }
    sandbox.run(&["index"]).expect(0);
    let all = sessions(&sandbox);
    assert_eq!(all.len(), 2, "{all:?}");
    let main = by_native(&all, parent)[0];
    let sub = all.iter().find(|s| s["native_id"] != parent).unwrap();
    assert!(sub["native_id"].as_str().unwrap().starts_with(&format!("{parent}/")));
    assert_eq!(sub["parent_session"], parent);
    for (session, file) in [(main, 3), (sub, 4)] {
        let shown = sandbox.run(&["sessions", "show", session["id"].as_str().unwrap()]).expect(0);
        assert_eq!(shown.number("/records"), file);
        assert_eq!(shown.number("/sources_total"), 1);
    }
}

#[test]
fn a_fork_with_copied_uuids_is_whole_and_leaves_the_first_whole() {
    let sandbox = Sandbox::new();
    let first = line(A, 1, "one") + &line(A, 2, "two");
    let fork = line(B, 1, "one") + &line(B, 2, "two") + &line(B, 3, "three");
    sandbox.put(&format!(".claude/projects/-src/{A}.jsonl"), first.as_bytes());
    sandbox.put(&format!(".claude/projects/-src/{B}.jsonl"), fork.as_bytes());
    sandbox.run(&["index"]).expect(0);
    assert_eq!(sessions(&sandbox).len(), 2);
    assert_eq!(texts(&sandbox, A), ["one", "two"]);
    assert_eq!(texts(&sandbox, B), ["one", "two", "three"]);
}

#[test]
fn records_of_another_session_in_a_file_go_to_their_session() {
    let sandbox = Sandbox::new();
    let mixed = line(A, 1, "one") + &line(B, 8, "stray") + &line(A, 2, "two");
    sandbox.put(&format!(".claude/projects/-src/{B}.jsonl"), line(B, 7, "own").as_bytes());
    sandbox.put(&format!(".claude/projects/-src/{A}.jsonl"), mixed.as_bytes());
    sandbox.run(&["index"]).expect(0);
    assert_eq!(sessions(&sandbox).len(), 2);
    assert_eq!(texts(&sandbox, A), ["one", "two"]);
    let mut b = texts(&sandbox, B);
    b.sort();
    assert_eq!(b, ["own", "stray"]);
}

/// What a file of another session brought first does not make the session's own file diverge: the
/// order in which files are read decides nothing here.
#[test]
fn an_older_version_in_a_file_of_another_session_starts_no_branch() {
    let own = line(A, 1, "one") + &line(A, 2, "two") + &line(A, 3, "three");
    let other = line(B, 7, "own") + &line(A, 2, "two, otherwise");
    for order in [[A, B], [B, A]] {
        let sandbox = Sandbox::new();
        for id in order {
            let text = if id == A { &own } else { &other };
            sandbox.put(&format!(".claude/projects/-src/{id}.jsonl"), text.as_bytes());
            sandbox.run(&["index"]).expect(0);
        }
        let all = sessions(&sandbox);
        assert_eq!(all.len(), 2, "{order:?} {all:?}");
        let told = texts(&sandbox, A);
        for text in ["one", "two", "two, otherwise", "three"] {
            assert!(told.contains(&text.to_owned()), "{order:?} {told:?}");
        }
        // It goes on as one session.
        sandbox.put(
            &format!(".claude/projects/-src/{A}.jsonl"),
            (own.clone() + &line(A, 4, "four")).as_bytes(),
        );
        sandbox.run(&["index"]).expect(0);
        assert_eq!(sessions(&sandbox).len(), 2, "{order:?}");
    }
}

/// A second home with the same session, laid out below `other`.
fn two_homes(first: &str, second: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let config = format!(
        "[[roots]]\nprovider = \"claude\"\npath = \"{}\"\n",
        sandbox.home().join("other").display()
    );
    sandbox.put(".config/cass/config.toml", config.as_bytes());
    sandbox.put(&format!(".claude/projects/-src/{A}.jsonl"), first.as_bytes());
    sandbox.run(&["index"]).expect(0);
    sandbox.put(&format!("other/projects/-src/{A}.jsonl"), second.as_bytes());
    sandbox.run(&["index"]).expect(0);
    sandbox
}

#[test]
fn the_same_session_in_two_homes_is_one() {
    let text = line(A, 1, "one") + &line(A, 2, "two");
    let sandbox = two_homes(&text, &text);
    let all = sessions(&sandbox);
    assert_eq!(all.len(), 1);
    assert_eq!(texts(&sandbox, A), ["one", "two"]);
    let shown = sandbox.run(&["sessions", "show", A]).expect(0);
    assert_eq!(shown.number("/sources_total"), 2);
    let copy = &shown.at("/sources").as_array().unwrap()[1]["accounting"];
    assert_eq!(copy["duplicate_bytes"].as_u64().unwrap(), text.len() as u64 - 2);
}

#[test]
fn a_copy_that_went_on_continues_the_session() {
    let short = line(A, 1, "one");
    let sandbox = two_homes(&short, &(short.clone() + &line(A, 2, "two")));
    assert_eq!(sessions(&sandbox).len(), 1);
    assert_eq!(texts(&sandbox, A), ["one", "two"]);
}

#[test]
fn copies_that_went_different_ways_are_linked_branches() {
    let shared = line(A, 1, "one");
    let sandbox = two_homes(
        &(shared.clone() + &line(A, 2, "here")),
        &(shared + &line(A, 3, "there")),
    );
    let all = sessions(&sandbox);
    assert_eq!(all.len(), 2, "{all:?}");
    let (branch, first): (Vec<_>, Vec<_>) = all.iter().partition(|s| s["branch_of"].is_string());
    assert_eq!(branch[0]["branch_of"], first[0]["id"]);
    // The one that was committed first keeps the id.
    assert_eq!(texts(&sandbox, first[0]["id"].as_str().unwrap()), ["one", "here"]);
    let own = texts(&sandbox, branch[0]["id"].as_str().unwrap());
    assert!(own.contains(&"there".to_owned()) && !own.contains(&"here".to_owned()), "{own:?}");
    let shown = sandbox.run(&["sessions", "show", A]).expect(0);
    assert_eq!(shown.at("/branches").as_array().unwrap(), &[branch[0]["id"].clone()]);
}

#[test]
fn an_archived_or_compressed_copy_of_a_rollout_is_the_same_session() {
    let sandbox = Sandbox::new();
    let from = fixtures().join("codex/harness-0.171.0");
    let name = "rollout-2026-11-29T16-09-25-01a22811-80a4-77a2-a271-c9d2b3c9f78f.jsonl";
    let bytes = std::fs::read(from.join("archived_sessions").join(name)).unwrap();
    sandbox.put(&format!(".codex/sessions/2026/11/29/{name}"), &bytes);
    sandbox.run(&["index"]).expect(0);
    let before = sessions(&sandbox);
    assert_eq!(before.len(), 1);
    let told = texts(&sandbox, before[0]["id"].as_str().unwrap());
    sandbox.put(&format!(".codex/archived_sessions/{name}"), &bytes);
    let packed = zstd::encode_all(&bytes[..], 3).unwrap();
    sandbox.put(&format!(".codex/sessions/2026/11/30/{name}.zst"), &packed);
    std::fs::remove_file(sandbox.home().join(format!(".codex/sessions/2026/11/29/{name}"))).unwrap();
    sandbox.run(&["index"]).expect(0);
    assert_eq!(sessions(&sandbox), before);
    assert_eq!(texts(&sandbox, before[0]["id"].as_str().unwrap()), told);
    let shown = sandbox.run(&["sessions", "show", before[0]["id"].as_str().unwrap()]).expect(0);
    assert_eq!(shown.number("/sources_total"), 3);
}

#[test]
fn a_rewritten_source_keeps_every_message_it_ever_held() {
    let sandbox = Sandbox::new();
    let rel = format!(".claude/projects/-src/{A}.jsonl");
    sandbox.put(&rel, (line(A, 1, "one") + &line(A, 2, "two")).as_bytes());
    sandbox.run(&["index"]).expect(0);
    for rewritten in [line(A, 3, "three"), String::new(), "[]".to_owned()] {
        sandbox.put(&rel, rewritten.as_bytes());
        let run = sandbox.run(&["index"]);
        assert!(run.code == 0 || run.code == 8, "{}", run.stdout);
    }
    assert_eq!(texts(&sandbox, A), ["one", "two", "three"]);
    // The first file, as it was, is part of the raw export.
    let out = sandbox.path().join("out");
    sandbox.run(&["export", A, "--format", "raw", "-o", out.to_str().unwrap()]).expect(0);
    let files: Vec<Vec<u8>> = std::fs::read_dir(&out)
        .unwrap()
        .map(|f| std::fs::read(f.unwrap().path()).unwrap())
        .collect();
    let first = (line(A, 1, "one") + &line(A, 2, "two")).into_bytes();
    assert!(files.contains(&first), "{} files", files.len());
    assert!(files.contains(&line(A, 3, "three").into_bytes()));
}

#[test]
fn what_the_harness_prunes_stays() {
    let sandbox = Sandbox::new();
    let laid = sandbox.lay_out_samples();
    sandbox.run(&["index"]).expect(0);
    let before = sessions(&sandbox);
    for (n, path) in laid.keys().enumerate() {
        if n % 3 != 0 {
            std::fs::remove_file(path).unwrap();
        }
    }
    let again = sandbox.run(&["index"]).expect(0);
    assert_eq!(again.text("/status"), "no-op");
    assert!(again.number("/sources/gone") > 10);
    assert_eq!(sessions(&sandbox), before);
    let check = sandbox.run(&["doctor", "check"]).expect(0);
    assert_eq!(check.text("/coverage_risk/status"), "source-pruned");
    assert!(check.stdout.contains("source-pruned"));
    let deep = sandbox.run(&["doctor", "check", "--deep"]).expect(0);
    assert_eq!(deep.text("/raw_mirror/status"), "ok");
}
