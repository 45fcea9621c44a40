//! A ledger, or the whole mirror, that was lost and begins anew: its numbers say nothing about
//! what the archive has read.

use crate::sandbox::Sandbox;

const ID: &str = "cccccccc-0000-4000-8000-000000000003";

fn lines(names: &[&str]) -> Vec<u8> {
    let mut text = String::new();
    for name in names {
        let uuid = blake3::hash(name.as_bytes()).to_hex();
        text += &format!(
            "{{\"type\":\"user\",\"uuid\":\"{}\",\"parentUuid\":null,\"sessionId\":\"{ID}\",\
             \"timestamp\":\"2026-11-01T10:00:00.000Z\",\"cwd\":\"/src\",\"version\":\"2.1.0\",\
             \"message\":{{\"role\":\"user\",\"content\":\"{name}\"}}}}\n",
            &uuid[..32]
        );
    }
    text.into_bytes()
}

fn told(sandbox: &Sandbox) -> Vec<String> {
    let export = sandbox.run(&["export", ID, "--format", "json"]).expect(0);
    let messages = export.at("/messages").as_array().unwrap().clone();
    let mut texts: Vec<String> = messages
        .iter()
        .map(|m| m["text"].as_str().unwrap().to_owned())
        .collect();
    texts.sort();
    texts
}

#[test]
fn numbers_that_are_used_again_hide_nothing() {
    let rel = format!(".claude/projects/-src/{ID}.jsonl");
    for whole_mirror in [true, false] {
        let sandbox = Sandbox::new();
        for n in 1..=2 {
            sandbox.put(&rel, &lines(&["a1", "a2"][..n]));
            sandbox.run(&["index"]).expect(0);
        }
        let mirror = sandbox.data().join("raw-mirror");
        if whole_mirror {
            std::fs::remove_dir_all(&mirror).unwrap();
        } else {
            std::fs::remove_dir_all(mirror.join("sources")).unwrap();
            std::fs::remove_dir_all(mirror.join("index")).unwrap();
        }
        let check = sandbox.run(&["doctor", "check"]).expect(1);
        assert!(check.stdout.contains("capture-missing"), "{}", check.stdout);
        sandbox
            .run(&["mirror", "verify", "--deep"])
            .expect(if whole_mirror { 23 } else { 0 });
        // Other content, and as many captures as make the numbers pass the old one.
        for n in 1..=4 {
            sandbox.put(&rel, &lines(&["b1", "b2", "b3", "b4"][..n]));
            sandbox.run(&["index"]).expect(0);
        }
        assert_eq!(
            told(&sandbox),
            ["a1", "a2", "b1", "b2", "b3", "b4"],
            "{whole_mirror}"
        );
        let again = sandbox.run(&["index"]).expect(0);
        assert_eq!(again.text("/status"), "no-op");
    }
}

#[test]
fn a_source_that_still_exists_gets_its_ledger_back() {
    let rel = format!(".claude/projects/-src/{ID}.jsonl");
    let sandbox = Sandbox::new();
    let path = sandbox.put(&rel, &lines(&["a1", "a2"]));
    sandbox.run(&["index"]).expect(0);
    std::fs::remove_dir_all(sandbox.data().join("raw-mirror/sources")).unwrap();
    let run = sandbox.run(&["index"]).expect(0);
    assert_eq!(run.number("/captured/captures"), 1, "{}", run.stdout);
    let out = sandbox.path().join("got");
    let args = [
        "mirror",
        "get",
        path.to_str().unwrap(),
        "-o",
        out.to_str().unwrap(),
    ];
    sandbox.run(&args).expect(0);
    sandbox.run(&["doctor", "check", "--deep"]).expect(0);
    assert_eq!(told(&sandbox), ["a1", "a2"]);
}
