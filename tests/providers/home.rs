//! What the tests of every harness need: a home with samples, and accounts that are counted by
//! other means than the parser's.

use std::path::Path;

use serde_json::Value;

use crate::sandbox::{Sandbox, fixtures};

/// Copies a sample file or folder to `to` below the home folder.
pub fn lay(sandbox: &Sandbox, from: &str, to: &str) {
    let source = fixtures().join(from);
    let files = if source.is_dir() {
        crate::sandbox::files_below(&source)
    } else {
        vec![source.clone()]
    };
    assert!(!files.is_empty(), "{from} is no sample");
    for file in files {
        let rel = file.strip_prefix(&source).unwrap();
        let target = if rel.as_os_str().is_empty() {
            sandbox.home().join(to)
        } else {
            sandbox.home().join(to).join(rel)
        };
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(&file, target).unwrap();
    }
}

/// Indexes; everything must be read without an error, and the archive must verify.
pub fn index(sandbox: &Sandbox) {
    sandbox.run(&["index", "--json"]).expect(0);
    sandbox
        .run(&["doctor", "check", "--deep", "--json"])
        .expect(0);
}

/// A second index changes nothing.
pub fn settled(sandbox: &Sandbox) {
    let again = sandbox.run(&["index", "--json"]).expect(0);
    assert_eq!(again.text("/status"), "no-op");
}

/// What `sessions show` says of the session with this native id.
pub fn show(sandbox: &Sandbox, native: &str) -> Value {
    sandbox
        .run(&["sessions", "show", native, "--json"])
        .expect(0)
        .json
}

/// The messages of a session as `role/kind: text`, superseded ones left out.
pub fn said(sandbox: &Sandbox, native: &str) -> Vec<String> {
    messages(sandbox, native)
        .iter()
        .map(|m| {
            format!(
                "{}/{}: {}",
                m["role"].as_str().unwrap(),
                m["kind"].as_str().unwrap(),
                m["text"].as_str().unwrap()
            )
        })
        .collect()
}

/// The messages of a session that stand, in order.
pub fn messages(sandbox: &Sandbox, native: &str) -> Vec<Value> {
    sandbox
        .messages(native)
        .into_iter()
        .filter(|m| m["superseded"] != true)
        .collect()
}

/// How many messages of a kind a session has, as it stands.
pub fn count(sandbox: &Sandbox, native: &str, role: &str, kind: &str) -> usize {
    messages(sandbox, native)
        .iter()
        .filter(|m| m["role"] == role && m["kind"] == kind)
        .count()
}

/// The native ids of all sessions, sorted.
pub fn natives(sandbox: &Sandbox) -> Vec<String> {
    let mut all: Vec<String> = sandbox
        .sessions()
        .iter()
        .map(|s| s["native_id"].as_str().unwrap().to_owned())
        .collect();
    all.sort();
    all
}

/// Every byte of every source belongs to one part, and the parts add up to `bytes`.
pub fn accounted(sandbox: &Sandbox, native: &str, bytes: u64) {
    let shown = show(sandbox, native);
    let sources = shown["sources"].as_array().unwrap();
    let mut sum = 0;
    for source in sources {
        let a = &source["accounting"];
        let parts = [
            "message_bytes",
            "known_bytes",
            "unknown_bytes",
            "duplicate_bytes",
            "skipped_bytes",
            "separator_bytes",
            "tail_bytes",
        ];
        let total: u64 = parts.iter().map(|p| a[p].as_u64().unwrap()).sum();
        assert_eq!(total, a["length"].as_u64().unwrap(), "{source}");
        sum += total;
    }
    assert_eq!(sum, bytes, "{native}");
}

/// The bytes of a sample.
pub fn len(rel: &str) -> u64 {
    std::fs::metadata(fixtures().join(Path::new(rel)))
        .unwrap()
        .len()
}
