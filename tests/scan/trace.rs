//! A scan changes nothing, whatever state things are in, and says so when it could not look.

use crate::made::{indexed, scan};
use crate::sandbox::{Sandbox, snapshot};

#[test]
fn nothing_is_left_behind() {
    let (sandbox, files) = indexed(3);
    std::fs::remove_file(&files[0]).unwrap();
    sandbox.put(".codex/history.jsonl", b"{\"session_id\":\"x\"}\n");
    for prepare in ["as it is", "no index", "no archive", "no mirror", "nothing"] {
        let data = sandbox.data();
        match prepare {
            "no index" => std::fs::remove_dir_all(data.join("raw-mirror/index")).unwrap(),
            "no archive" => std::fs::remove_dir_all(data.join("generations")).unwrap(),
            "no mirror" => std::fs::remove_dir_all(data.join("raw-mirror")).unwrap(),
            "nothing" => std::fs::remove_dir_all(&data).unwrap(),
            _ => {}
        }
        let before = snapshot(sandbox.path());
        for words in [
            &[][..],
            &["--deep"],
            &["--limit", "1"],
            &["--agent", "claude"],
        ] {
            scan(&sandbox, words);
        }
        assert!(
            snapshot(sandbox.path()) == before,
            "{prepare}: something changed"
        );
    }
}

#[test]
fn an_archive_that_is_being_checkpointed_is_not_known() {
    let (sandbox, _) = indexed(1);
    let root = cass::disk::Root::open(&sandbox.data()).unwrap().unwrap();
    let lock = cass::disk::WriterLock::acquire(root, "index", 1).unwrap();
    let held = cass::disk::ArchiveExclusive::try_acquire(&lock)
        .unwrap()
        .unwrap();
    let ran = scan(&sandbox, &[]).expect(8);
    assert_eq!(ran.text("/status"), "unknown");
    assert_eq!(ran.text("/source_authority/authority_level"), "unknown");
    assert_eq!(ran.text("/coverage_summary/confidence_tier"), "partial");
    assert_eq!(ran.at("/operation_outcome/retryable"), true);
    assert_eq!(ran.at("/scan_scope/complete"), false);
    // Nothing that was not looked at is called lost.
    assert_eq!(ran.number("/findings_summary/error"), 0);
    drop(held);
    drop(lock);
    scan(&sandbox, &[]).expect(0);
}

#[test]
fn what_must_not_be_judged_is_refused() {
    let (sandbox, _) = indexed(1);
    std::fs::write(sandbox.data().join("raw-mirror/FORMAT"), "cass-mirror 99\n").unwrap();
    let ran = sandbox.run(&["doctor", "archive-scan"]).expect(6);
    assert_eq!(ran.at("/err/kind"), "mirror-too-new");
    let other = Sandbox::new();
    std::fs::create_dir(other.data()).unwrap();
    std::fs::write(other.data().join("agent_search.db"), "theirs").unwrap();
    let ran = other.run(&["doctor", "archive-scan"]).expect(6);
    assert_eq!(ran.at("/err/kind"), "foreign-archive");
}
