//! Every file of a backup, changed in every way: seen, named, and not restored from.

use std::path::Path;

use serde_json::Value;

use crate::sandbox::Sandbox;
use crate::{back_up, file, indexed, session};

const LISTED: [&str; 3] = ["agent_search.db", "generation.json", "coverage.jsonl"];

fn verify(sandbox: &Sandbox, more: &[&str]) -> (i32, Value) {
    let mut words = vec!["doctor", "backups", "verify", "b00000001"];
    words.extend(more);
    let run = sandbox.run(&words);
    (run.code, run.json)
}

/// One file as it was, changed, looked at, and put back.
fn changed(sandbox: &Sandbox, name: &str, how: impl FnOnce(&Path, &[u8])) -> (i32, Value) {
    let path = file(sandbox, name);
    let whole = std::fs::read(&path).unwrap();
    how(&path, &whole);
    let seen = verify(sandbox, &[]);
    let _ = std::fs::remove_file(&path);
    let _ = std::fs::remove_dir(&path);
    std::fs::write(&path, whole).unwrap();
    seen
}

#[test]
fn every_change_of_every_file_is_seen() {
    let sandbox = indexed();
    back_up(&sandbox).unwrap();
    let status = |name: &str, v: &Value| {
        let files = v["artifact_manifest"]["files"].as_array().unwrap().clone();
        let of = files.into_iter().find(|f| f["name"] == name).unwrap();
        of["status"].as_str().unwrap().to_owned()
    };
    for name in LISTED {
        for (what, expected, how) in ways() {
            let (code, v) = changed(&sandbox, name, how);
            let said = format!("{name}, {what}: {v}");
            assert_eq!(code, 23, "{said}");
            assert_eq!(v["err"]["kind"], "verify-failed", "{said}");
            assert_eq!(v["backup_verification"], "failed", "{said}");
            assert_eq!(v["restore_rehearsal_allowed"], false, "{said}");
            assert_eq!(status(name, &v), expected, "{said}");
        }
    }
    for (what, _, how) in ways() {
        // White space behind the manifest's last brace says nothing.
        if ["cut short", "longer"].contains(&what) {
            continue;
        }
        let (code, v) = changed(&sandbox, "manifest.json", how);
        assert_eq!(code, 23, "manifest.json, {what}: {v}");
    }
    // Each digit and letter of the manifest counts.
    let path = file(&sandbox, "manifest.json");
    let whole = std::fs::read_to_string(&path).unwrap();
    for (from, to) in [
        ("before the trip", "after the trip"),
        ("\"commit\": 1", "\"commit\": 2"),
        ("\"messages\": 20", "\"messages\": 21"),
        ("\"created_ms\": 1700", "\"created_ms\": 1701"),
    ] {
        assert!(whole.contains(from), "{from} in {whole}");
        std::fs::write(&path, whole.replace(from, to)).unwrap();
        assert_eq!(verify(&sandbox, &[]).0, 23, "{to}");
    }
    std::fs::write(&path, whole).unwrap();
    assert_eq!(verify(&sandbox, &["--deep"]).0, 0, "all is as it was");
}

type Way = (&'static str, &'static str, Box<dyn Fn(&Path, &[u8])>);

fn ways() -> Vec<Way> {
    let write = |path: &Path, bytes: &[u8]| std::fs::write(path, bytes).unwrap();
    vec![
        (
            "a flipped bit",
            "checksum-mismatch",
            Box::new(move |path, whole| {
                let mut bytes = whole.to_vec();
                let middle = bytes.len() / 2;
                bytes[middle] ^= 4;
                write(path, &bytes);
            }),
        ),
        (
            "cut short",
            "checksum-mismatch",
            Box::new(move |path, whole| {
                write(path, &whole[..whole.len() - 1]);
            }),
        ),
        (
            "longer",
            "checksum-mismatch",
            Box::new(move |path, whole| {
                write(path, &[whole, b" "].concat());
            }),
        ),
        (
            "gone",
            "missing-artifact",
            Box::new(|path, _| {
                std::fs::remove_file(path).unwrap();
            }),
        ),
        (
            "a link to its bytes",
            "unsafe-path",
            Box::new(|path, whole| {
                let aside = path.with_file_name("../../aside");
                std::fs::write(&aside, whole).unwrap();
                std::fs::remove_file(path).unwrap();
                std::os::unix::fs::symlink(&aside, path).unwrap();
            }),
        ),
        (
            "a folder",
            "unsafe-path",
            Box::new(|path, _| {
                std::fs::remove_file(path).unwrap();
                std::fs::create_dir(path).unwrap();
            }),
        ),
    ]
}

#[test]
fn files_of_another_backup_are_not_its_own() {
    let sandbox = indexed();
    back_up(&sandbox).unwrap();
    sandbox.put(".claude/projects/-p/S.jsonl", session(30).as_bytes());
    sandbox.run(&["index"]).expect(0);
    back_up(&sandbox).unwrap();
    let other = sandbox.data().join("backups/b00000002");
    for name in ["agent_search.db", "coverage.jsonl", "manifest.json"] {
        let (code, v) = changed(&sandbox, name, |path, _| {
            std::fs::copy(other.join(name), path).unwrap();
        });
        assert_eq!(code, 23, "{name}: {v}");
    }
    // The whole folder under another name.
    std::fs::remove_dir_all(sandbox.data().join("backups/b00000001")).unwrap();
    std::fs::rename(&other, sandbox.data().join("backups/b00000001")).unwrap();
    assert_eq!(verify(&sandbox, &[]).0, 23);
}

#[test]
fn what_lies_beside_is_told_and_a_log_that_is_not_listed_is_never_read() {
    let sandbox = indexed();
    back_up(&sandbox).unwrap();
    std::fs::write(file(&sandbox, "notes.txt"), "mine").unwrap();
    let (code, v) = verify(&sandbox, &["--deep"]);
    assert_eq!(
        (code, v["checksum_status_counts"]["extra_file"].as_u64()),
        (23, Some(1))
    );
    assert_eq!(v["restore_rehearsal_allowed"], true, "{v}");
    assert_eq!(v["rows"]["findings_total"], 0, "{v}");
    std::fs::remove_file(file(&sandbox, "notes.txt")).unwrap();
    for sidecar in ["-wal", "-shm", "-journal"] {
        let path = file(&sandbox, &format!("agent_search.db{sidecar}"));
        std::fs::write(&path, "x").unwrap();
        let (code, v) = verify(&sandbox, &["--deep"]);
        assert_eq!(
            (code, v["sidecar_completeness"].as_str()),
            (23, Some("extra-sidecar"))
        );
        assert_eq!(v["restore_rehearsal_allowed"], false);
        assert!(v["rows"].is_null(), "{v}");
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn the_check_warns_of_a_backup_that_can_not_be_used() {
    let sandbox = indexed();
    back_up(&sandbox).unwrap();
    let only = ["doctor", "check", "--only", "backup.freshness"];
    let fresh = sandbox.run(&only).expect(0);
    // Made long ago by its own clock, and of the commit that the archive still ends in.
    assert_eq!(
        fresh.at("/findings").as_array().unwrap().len(),
        0,
        "{}",
        fresh.stdout
    );
    sandbox.put(".claude/projects/-p/S.jsonl", session(30).as_bytes());
    sandbox.run(&["index"]).expect(0);
    assert_eq!(
        sandbox.run(&only).expect(0).text("/findings/0/code"),
        "stale-backup"
    );
    std::fs::remove_file(file(&sandbox, "coverage.jsonl")).unwrap();
    let seen = sandbox.run(&only).expect(0);
    assert_eq!(seen.text("/status"), "warn");
    assert_eq!(seen.text("/findings/0/code"), "damaged-backup");
}
