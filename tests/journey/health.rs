//! `health`: what it must not overlook, and what it must be calm about.

use std::os::unix::fs::PermissionsExt;

use cass::disk::{Root, WriterLock};

use crate::sandbox::{Ran, Sandbox, snapshot};

const LINE: &[u8] = b"{\"type\":\"user\",\"uuid\":\"u1\",\"sessionId\":\"s\",\"message\":{\"role\":\"user\",\"content\":\"x\"}}\n";

fn indexed() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.put(".claude/projects/-a/s.jsonl", LINE);
    sandbox.run(&["index"]).expect(0);
    let ran = sandbox.run(&["health"]).expect(0);
    assert_eq!(ran.text("/status"), "ok", "{}", ran.stdout);
    assert_eq!(ran.text("/config"), "ok");
    sandbox
}

/// What `health` and `doctor check` both call an error.
#[track_caller]
fn unhealthy(sandbox: &Sandbox) -> Ran {
    let ran = sandbox.run(&["health"]).expect(1);
    assert_eq!(ran.text("/status"), "error");
    assert_eq!(*ran.at("/healthy"), false);
    assert_eq!(ran.text("/recommended_action"), "check");
    sandbox.run(&["doctor", "check"]).expect(1);
    ran
}

#[test]
fn settings_that_cannot_be_used_are_not_healthy() {
    let sandbox = indexed();
    sandbox.put(".config/cass/config.toml", b"exclude = [");
    assert_eq!(unhealthy(&sandbox).text("/config"), "invalid");
    let mut c = sandbox.command(&["health"]);
    let page = String::from_utf8(c.output().unwrap().stdout).unwrap();
    assert!(page.contains("config.toml"), "{page}");
}

#[test]
fn a_mirror_that_is_gone_is_not_healthy() {
    for part in ["raw-mirror", "raw-mirror/packs", "raw-mirror/sources"] {
        let sandbox = indexed();
        std::fs::remove_dir_all(sandbox.data().join(part)).unwrap();
        assert_eq!(unhealthy(&sandbox).text("/mirror"), "missing", "{part}");
    }
}

#[test]
fn while_the_first_index_is_at_work_nothing_is_wrong() {
    // What is there at its different moments: nothing, a mirror, a generation that nothing names.
    for moment in 0..4 {
        let sandbox = Sandbox::new();
        let data = sandbox.data();
        if moment == 3 {
            sandbox.put(".claude/projects/-a/s.jsonl", LINE);
            sandbox.run(&["index"]).expect(0);
            std::fs::remove_file(data.join("CURRENT")).unwrap();
            std::fs::remove_file(data.join("coverage.jsonl")).unwrap();
            std::fs::remove_dir_all(data.join("generations")).unwrap();
            std::fs::create_dir_all(data.join("generations/g00000001")).unwrap();
        }
        let root = Root::open_or_create(&data).unwrap();
        let lock = WriterLock::acquire(root, "index", 1).unwrap();
        if moment == 1 || moment == 2 {
            std::fs::create_dir_all(data.join("raw-mirror/packs")).unwrap();
        }
        if moment == 2 {
            std::fs::write(data.join("raw-mirror/FORMAT"), "cass-mirror 1\n").unwrap();
        }
        for entry in walkdir::WalkDir::new(&data) {
            let path = entry.unwrap().into_path();
            let mode = if path.is_dir() { 0o700 } else { 0o600 };
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let before = snapshot(&data);
        let ran = sandbox.run(&["health"]).expect(0);
        assert_eq!(ran.text("/archive"), "building", "{moment}: {}", ran.stdout);
        assert_eq!(ran.text("/status"), "not-initialized", "{moment}");
        assert_eq!(*ran.at("/writer_active"), true);
        assert_eq!(ran.text("/recommended_action"), "none");
        let page = sandbox.command(&["health"]).output().unwrap().stdout;
        let page = String::from_utf8(page).unwrap();
        assert!(page.contains("The first index is at work"), "{page}");
        let check = sandbox.run(&["doctor", "check"]).expect(0);
        assert!(
            ["ok", "not-initialized"].contains(&check.text("/status")),
            "{moment}: {}",
            check.stdout
        );
        assert_eq!(snapshot(&data), before);
        drop(lock);
    }
}

#[test]
fn captures_without_an_archive_are_to_be_indexed() {
    let sandbox = indexed();
    let data = sandbox.data();
    std::fs::remove_file(data.join("CURRENT")).unwrap();
    // With its ledger it is an archive that is gone.
    assert_eq!(unhealthy(&sandbox).text("/archive"), "missing");
    std::fs::remove_file(data.join("coverage.jsonl")).unwrap();
    assert_eq!(unhealthy(&sandbox).text("/archive"), "missing");
    std::fs::remove_dir_all(data.join("generations")).unwrap();
    let ran = sandbox.run(&["health"]).expect(0);
    assert_eq!(ran.text("/status"), "warn", "{}", ran.stdout);
    assert_eq!(ran.text("/recommended_action"), "index");
}

/// Another data directory than a folder that can be opened: nothing is known, which is not "bad".
#[test]
fn a_data_directory_that_cannot_be_opened_is_not_known() {
    let sandbox = Sandbox::new();
    let looped = sandbox.path().join("loop");
    std::os::unix::fs::symlink(&looped, &looped).unwrap();
    let dir = looped.to_str().unwrap();
    for args in [&["health"][..], &["doctor", "check"]] {
        let args = [args, &["--data-dir", dir]].concat();
        let ran = sandbox.run(&args).expect(2);
        assert_eq!(ran.text("/status"), "unknown", "{args:?}");
        assert_eq!(ran.text("/err/kind"), "unsafe-target");
        let page = sandbox.command(&args).output().unwrap().stdout;
        let page = String::from_utf8(page).unwrap();
        assert!(page.contains("Not known"), "{page}");
        assert!(!page.contains("Not safe"), "{page}");
    }
}

#[test]
fn a_verdict_says_how_bad_it_is() {
    let sandbox = indexed();
    let page = |sandbox: &Sandbox, code: i32| {
        let output = sandbox.command(&["doctor", "check"]).output().unwrap();
        assert_eq!(output.status.code(), Some(code));
        String::from_utf8(output.stdout).unwrap()
    };
    // The folder for temporary files is worth a notice by itself.
    sandbox.put(".claude/projects/-a/t.jsonl", LINE);
    let text = page(&sandbox, 0);
    assert!(
        text.contains("\nSafe. ") && text.contains(" notice"),
        "{text}"
    );
    std::fs::remove_file(sandbox.data().join("raw-mirror/FORMAT")).unwrap();
    let text = page(&sandbox, 1);
    assert!(text.contains("\nNot safe: 1 error"), "{text}");
}
