//! Versions of one record, brought by files of different sessions in any order.

use serde_json::Value;

use crate::sandbox::Sandbox;

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
    let list = sandbox
        .run(&["sessions", "list", "--limit", "1000"])
        .expect(0);
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
            sandbox.put(
                &format!(".claude/projects/-src/{id}.jsonl"),
                text.as_bytes(),
            );
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
