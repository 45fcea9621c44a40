//! Every sample, from a clean state: accounted for, given back, and a second run is a no-op.

use crate::sandbox::{Sandbox, content, snapshot};

#[test]
fn every_byte_of_every_sample_is_accounted_for_and_comes_back() {
    let sandbox = Sandbox::new();
    let laid = sandbox.lay_out_samples();
    let before = snapshot(&sandbox.home());
    let first = sandbox.run(&["index"]).expect(0);
    assert_eq!(first.text("/status"), "applied");
    assert_eq!(
        snapshot(&sandbox.home()),
        before,
        "a harness's folder was touched"
    );

    for (path, bytes) in &laid {
        let out = sandbox.path().join("got");
        let path = path.to_str().unwrap();
        sandbox
            .run(&["mirror", "get", path, "-o", out.to_str().unwrap()])
            .expect(0);
        assert!(std::fs::read(&out).unwrap() == *bytes, "{path}");
        std::fs::remove_file(&out).unwrap();
    }

    let list = sandbox
        .run(&["sessions", "list", "--limit", "1000"])
        .expect(0);
    let mut lengths = std::collections::BTreeMap::new();
    for session in list.at("/sessions").as_array().unwrap() {
        let shown = sandbox
            .run(&["sessions", "show", session["id"].as_str().unwrap()])
            .expect(0);
        for source in shown.at("/sources").as_array().unwrap() {
            let a = &source["accounting"];
            let sum: u64 = [
                "message_bytes",
                "known_bytes",
                "unknown_bytes",
                "duplicate_bytes",
                "skipped_bytes",
                "separator_bytes",
                "tail_bytes",
            ]
            .iter()
            .map(|part| a[part].as_u64().unwrap())
            .sum();
            assert_eq!(a["length"].as_u64(), Some(sum), "{source}");
            lengths.insert(source["path"].as_str().unwrap().to_owned(), sum);
        }
    }
    // Each session file is in some session, and its length is the file's own.
    for (path, bytes) in &laid {
        let length = lengths.get(path.to_str().unwrap());
        if path.extension().is_some_and(|e| e == "zst") {
            assert!(
                length.is_some_and(|n| *n > bytes.len() as u64),
                "{}",
                path.display()
            );
        } else {
            assert_eq!(length, Some(&(bytes.len() as u64)), "{}", path.display());
        }
    }

    let data = content(&sandbox.data());
    let second = sandbox.run(&["index"]).expect(0);
    assert_eq!(second.text("/status"), "no-op");
    let now = content(&sandbox.data());
    let changed: Vec<_> = now
        .iter()
        .filter(|(p, hash)| data.get(*p) != Some(hash))
        .collect();
    assert!(
        changed.is_empty() && now.len() == data.len(),
        "a no-op changed {changed:?}"
    );
}
