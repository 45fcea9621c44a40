//! A capture that can't be read any more before it was archived.

use crate::sandbox::{Sandbox, files_below};

fn lines(session: &str, count: u32) -> Vec<u8> {
    let mut out = String::new();
    for n in 0..count {
        let noise = blake3::hash(&n.to_le_bytes()).to_hex();
        out.push_str(&format!(
            r#"{{"type":"user","sessionId":"{session}","uuid":"{session}-{n}","timestamp":"2026-11-01T10:00:00Z","message":{{"role":"user","content":"{noise}"}}}}"#
        ));
        out.push('\n');
    }
    out.into_bytes()
}

#[test]
fn damage_behind_the_beginning_of_a_capture_costs_that_source_alone() {
    let sandbox = Sandbox::new();
    sandbox.run(&["index"]).expect(0);
    // Captured and not archived: the archive is away meanwhile.
    let generations = sandbox.data().join("generations");
    let away = sandbox.path().join("away");
    std::fs::rename(&generations, &away).unwrap();
    let large = sandbox.put(".claude/projects/-p/a.jsonl", &lines("large", 8000));
    sandbox.put(".claude/projects/-p/b.jsonl", &lines("small", 3));
    sandbox.run(&["index"]).expect(1);
    std::fs::rename(&away, &generations).unwrap();
    let packs = files_below(&sandbox.data().join("raw-mirror/packs"));
    let [pack] = packs.as_slice() else {
        panic!("{packs:?}");
    };
    let mut bytes = std::fs::read(pack).unwrap();
    let middle = bytes.len() * 7 / 10;
    bytes[middle] ^= 1;
    std::fs::write(pack, &bytes).unwrap();

    // What the harness still has makes it whole; without that it is the failure of one source.
    let whole = std::fs::read(&large).unwrap();
    std::fs::remove_file(&large).unwrap();
    let run = sandbox.run(&["index"]).expect(8);
    assert_eq!(run.number("/failures_total"), 1);
    assert_eq!(run.text("/failures/0/kind"), "mirror-damaged");
    assert_eq!(run.text("/failures/0/path"), large.to_str().unwrap());
    assert_eq!(run.number("/archived/messages"), 3);
    assert_eq!(sandbox.named("small").len(), 1);
    assert!(sandbox.named("large").is_empty());

    sandbox.put(".claude/projects/-p/a.jsonl", &whole);
    let run = sandbox.run(&["index", "--full"]).expect(0);
    assert_eq!(run.number("/archived/messages"), 8000, "{}", run.stdout);
    assert_eq!(sandbox.named("large").len(), 1);
}
