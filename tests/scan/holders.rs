//! Each set of holders, made by taking the others away.

use std::path::{Path, PathBuf};

use crate::made::{claude, code, codes, id, indexed, scan, session, text};
use crate::sandbox::{Sandbox, files_below};

fn holders(ran: &crate::sandbox::Ran, n: u32) -> Vec<String> {
    let row = session(ran, n);
    let list = row["holders"].as_array().unwrap();
    list.iter()
        .map(|h| h.as_str().unwrap().to_owned())
        .collect()
}

fn drop_packs(sandbox: &Sandbox) {
    for pack in files_below(&sandbox.data().join("raw-mirror/packs")) {
        std::fs::remove_file(pack).unwrap();
    }
}

fn archive(sandbox: &Sandbox) -> PathBuf {
    let current = std::fs::read_to_string(sandbox.data().join("CURRENT")).unwrap();
    let dir = sandbox.data().join("generations").join(current.trim());
    dir.join("agent_search.db")
}

fn authority(ran: &crate::sandbox::Ran) -> (String, String) {
    let level = ran.text("/source_authority/authority_level");
    assert_eq!(ran.text("/source_authority/decision"), level);
    let taken = ran.at("/source_authority/selected_authority");
    (level.to_owned(), taken.as_str().unwrap_or("-").to_owned())
}

fn pair(a: &str, b: &str) -> (String, String) {
    (a.to_owned(), b.to_owned())
}

#[test]
fn all_three_hold_it() {
    let (sandbox, _) = indexed(3);
    let ran = scan(&sandbox, &[]).expect(0);
    assert_eq!(ran.text("/status"), "ok");
    assert_eq!(holders(&ran, 2), ["live-source", "mirror", "archive"]);
    let records = session(&ran, 2)["records"].clone();
    let all = serde_json::json!({"archived": 3, "promised": 3, "mirror": 3, "live": 3});
    assert_eq!(records, all);
    assert_eq!(codes(&ran), []);
    assert_eq!(authority(&ran), pair("verified-archive", "archive"));
    let rejected = ran.at("/source_authority/rejected_authorities");
    for name in [
        "backup",
        "salvage",
        "remote-copy",
        "derived",
        "support-bundle",
    ] {
        let found = crate::made::rows(rejected, "authority", name);
        assert!(!found[0]["reason"].as_str().unwrap().is_empty(), "{name}");
    }
}

#[test]
fn pruned_upstream_is_calm() {
    let (sandbox, files) = indexed(3);
    std::fs::remove_file(&files[0]).unwrap();
    for deep in [&[][..], &["--deep"]] {
        let ran = scan(&sandbox, deep).expect(0);
        assert_eq!(ran.text("/status"), "ok");
        assert_eq!(holders(&ran, 1), ["mirror", "archive"]);
        assert_eq!(codes(&ran), [code("pruned-upstream", "info", 1)]);
        assert_eq!(ran.number("/coverage_summary/sole_copy_candidate_count"), 1);
    }
    let tier = |words: &[&str]| {
        scan(&sandbox, words)
            .text("/coverage_summary/confidence_tier")
            .to_owned()
    };
    assert_eq!(
        (tier(&[]), tier(&["--deep"])),
        ("in-place".into(), "verified".into())
    );
}

#[test]
fn a_source_that_was_rewritten_shorter_is_no_holder() {
    let (sandbox, files) = indexed(2);
    std::fs::write(&files[1], crate::made::text(2, 1)).unwrap();
    let ran = scan(&sandbox, &[]).expect(0);
    assert_eq!(codes(&ran), [code("rewritten-upstream", "info", 1)]);
    assert_eq!(holders(&ran, 2), ["mirror", "archive"]);
}

#[test]
fn a_source_that_grew_holds_all_that_was_read() {
    let (sandbox, files) = indexed(2);
    let mut bytes = std::fs::read(&files[1]).unwrap();
    bytes.extend(crate::made::text(2, 9));
    std::fs::write(&files[1], bytes).unwrap();
    let ran = scan(&sandbox, &[]).expect(0);
    assert_eq!(holders(&ran, 2), ["live-source", "mirror", "archive"]);
    assert_eq!(codes(&ran), []);
}

#[test]
fn archive_rows_alone_are_a_warning_and_a_mirror_that_lost_packs_an_error() {
    let (sandbox, files) = indexed(2);
    std::fs::remove_file(&files[0]).unwrap();
    drop_packs(&sandbox);
    let ran = scan(&sandbox, &[]).expect(1);
    assert_eq!(
        codes(&ran),
        [
            code("archive-only", "warn", 1),
            code("not-in-mirror", "warn", 1)
        ]
    );
    assert_eq!(holders(&ran, 1), ["archive"]);
    assert_eq!(holders(&ran, 2), ["live-source", "archive"]);
    assert_eq!(ran.text("/raw_mirror/status"), "corrupt");
    assert_eq!(ran.number("/coverage_summary/mirror_unreadable_count"), 2);
    assert_eq!(ran.at("/problems/0/code"), "captures-unreadable");
}

fn back_up(sandbox: &Sandbox) {
    let planned = sandbox.run(&["doctor", "backups", "create"]).expect(0);
    let argv: Vec<&str> = planned
        .at("/backup_plan/apply_argv")
        .as_array()
        .unwrap()
        .iter()
        .skip(1)
        .map(|w| w.as_str().unwrap())
        .collect();
    sandbox.run(&argv).expect(0);
}

#[test]
fn a_backup_holds_what_it_has_of_a_session_and_nothing_newer() {
    let (sandbox, files) = indexed(2);
    back_up(&sandbox);
    let ran = scan(&sandbox, &[]).expect(0);
    assert_eq!(
        holders(&ran, 1),
        ["live-source", "mirror", "backup", "archive"]
    );
    // The second session goes on: the backup has not all of it any more.
    let mut bytes = std::fs::read(&files[1]).unwrap();
    bytes.extend(crate::made::text(2, 9));
    std::fs::write(&files[1], bytes).unwrap();
    sandbox.run(&["index"]).expect(0);
    std::fs::remove_file(&files[0]).unwrap();
    std::fs::remove_file(&files[1]).unwrap();
    drop_packs(&sandbox);
    let ran = scan(&sandbox, &[]).expect(1);
    assert_eq!(holders(&ran, 1), ["backup", "archive"]);
    assert_eq!(holders(&ran, 2), ["archive"]);
    assert_eq!(
        codes(&ran),
        [
            code("archive-only", "warn", 1),
            code("held-by-backup", "info", 1)
        ]
    );
    // Without the archive it is the only holder.
    std::fs::remove_dir_all(sandbox.data().join("generations")).unwrap();
    let ran = scan(&sandbox, &[]).expect(1);
    assert!(codes(&ran).contains(&code("held-by-backup", "warn", 1)));
}

#[test]
fn a_mirror_that_is_gone_is_told() {
    let (sandbox, _) = indexed(2);
    std::fs::remove_dir_all(sandbox.data().join("raw-mirror")).unwrap();
    let ran = scan(&sandbox, &[]).expect(1);
    assert_eq!(ran.at("/problems/0/code"), "mirror-gone");
    assert_eq!(codes(&ran), [code("not-in-mirror", "warn", 2)]);
    assert_eq!(
        ran.number("/coverage_summary/db_without_raw_mirror_count"),
        2
    );
    assert_eq!(authority(&ran), pair("verified-archive", "archive"));
}

fn lose(sandbox: &Sandbox, how: &str) {
    let db = archive(sandbox);
    match how {
        "gone" => std::fs::remove_dir_all(sandbox.data().join("generations")).unwrap(),
        "no CURRENT" => std::fs::remove_file(sandbox.data().join("CURRENT")).unwrap(),
        "garbage" => {
            let wal = db.with_file_name("agent_search.db-wal");
            let _ = std::fs::remove_file(wal);
            let mut bytes = std::fs::read(&db).unwrap();
            bytes[..512].fill(b'!');
            std::fs::write(&db, bytes).unwrap();
        }
        // The header is whole; the rows are not.
        "rows" => {
            let conn = rusqlite::Connection::open(&db).unwrap();
            conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
                .unwrap();
            let root: u32 = conn
                .query_row(
                    "SELECT rootpage FROM sqlite_schema WHERE name='conversations'",
                    [],
                    |r| r.get(0),
                )
                .unwrap();
            let size: u32 = conn
                .query_row("PRAGMA page_size", [], |r| r.get(0))
                .unwrap();
            drop(conn);
            let mut bytes = std::fs::read(&db).unwrap();
            let at = usize::try_from((root - 1) * size).unwrap();
            bytes[at..at + 100].fill(0xff);
            std::fs::write(&db, bytes).unwrap();
        }
        other => panic!("{other}"),
    }
}

#[test]
fn without_an_archive_the_ledger_says_what_was_promised() {
    for how in ["gone", "no CURRENT", "garbage", "rows"] {
        let (sandbox, files) = indexed(3);
        std::fs::remove_file(&files[2]).unwrap();
        lose(&sandbox, how);
        let ran = scan(&sandbox, &[]).expect(1);
        assert_eq!(ran.at("/problems/0/code"), "archive-lost", "{how}");
        assert_eq!(codes(&ran), [code("held-by-mirror", "warn", 3)], "{how}");
        assert_eq!(ran.number("/coverage_summary/conversations"), 3, "{how}");
        let records = ran.at("/coverage_summary/records");
        let want = serde_json::json!({"archived": 0, "promised": 9, "mirror": 9, "live": 5});
        assert_eq!(*records, want, "{how}");
        assert_eq!(authority(&ran), pair("verified-mirror", "mirror"), "{how}");
    }
}

#[test]
fn a_promise_that_nobody_keeps_is_an_error() {
    let (sandbox, files) = indexed(2);
    lose(&sandbox, "gone");
    drop_packs(&sandbox);
    std::fs::remove_file(&files[0]).unwrap();
    let ran = scan(&sandbox, &[]).expect(1);
    assert_eq!(
        codes(&ran),
        [
            code("promise-without-holder", "error", 1),
            code("held-by-live-source", "warn", 1)
        ]
    );
    assert_eq!(ran.text("/status"), "error");
    assert_eq!(authority(&ran), pair("live-source", "live-source"));
    for file in &files {
        let _ = std::fs::remove_file(file);
    }
    let ran = scan(&sandbox, &[]).expect(1);
    assert_eq!(codes(&ran), [code("promise-without-holder", "error", 2)]);
    assert_eq!(authority(&ran), pair("none", "-"));
    sandbox
        .run(&["doctor", "archive-scan", "--fail-on", "never"])
        .expect(0);
}

#[test]
fn commits_that_the_archive_lost_are_found_session_by_session() {
    let (sandbox, _) = indexed(1);
    let before = std::fs::read(archive(&sandbox)).unwrap();
    let wal = archive(&sandbox).with_file_name("agent_search.db-wal");
    let old_wal = std::fs::read(&wal).ok();
    claude(&sandbox, 2, 4);
    sandbox.run(&["index"]).expect(0);
    std::fs::write(archive(&sandbox), before).unwrap();
    match old_wal {
        Some(bytes) => std::fs::write(&wal, bytes).unwrap(),
        None => drop(std::fs::remove_file(&wal)),
    }
    let ran = scan(&sandbox, &[]).expect(1);
    assert_eq!(ran.at("/problems/0/code"), "archive-disagrees");
    assert_eq!(ran.number("/coverage_summary/conversations"), 2);
    assert_eq!(ran.number("/coverage_summary/archive_complete"), 1);
    assert!(
        codes(&ran)
            .iter()
            .any(|c| c.0.starts_with("held") || c.0 == "holder-unknown"),
        "{}",
        ran.stdout
    );
    assert_eq!(authority(&ran), pair("verified-mirror", "mirror"));
}

#[test]
fn captured_and_not_archived() {
    let sandbox = Sandbox::new();
    let files = [claude(&sandbox, 1, 2), claude(&sandbox, 2, 2)];
    sandbox.run(&["index"]).expect(0);
    // As if the run had ended before it made an archive.
    for name in ["CURRENT", "coverage.jsonl"] {
        std::fs::remove_file(sandbox.data().join(name)).unwrap();
    }
    std::fs::remove_dir_all(sandbox.data().join("generations")).unwrap();
    std::fs::remove_file(&files[0]).unwrap();
    let ran = scan(&sandbox, &[]).expect(0);
    assert_eq!(
        codes(&ran),
        [
            code("mirror-only", "warn", 1),
            code("captured-not-archived", "info", 1)
        ]
    );
    assert_eq!(
        ran.number("/coverage_summary/mirror_without_db_link_count"),
        2
    );
    assert_eq!(ran.text("/recommended_action"), "index");
}

#[test]
fn never_indexed_is_held_by_the_harness_alone() {
    let sandbox = Sandbox::new();
    claude(&sandbox, 1, 2);
    let ran = scan(&sandbox, &[]).expect(0);
    assert_eq!(codes(&ran), [code("live-only", "info", 1)]);
    assert_eq!(authority(&ran), pair("live-source", "live-source"));
    assert_eq!(ran.text("/recommended_action"), "index");
}

#[test]
fn a_session_in_two_files_is_counted_record_by_record() {
    let (sandbox, files) = indexed(3);
    // The same session in another project, with more records.
    let copy = sandbox.put(
        &format!(".claude/projects/-copy/{}.jsonl", id(3)),
        &crate::made::text(3, 6),
    );
    sandbox.run(&["index"]).expect(0);
    let ran = scan(&sandbox, &[]).expect(0);
    let all = serde_json::json!({"archived": 6, "promised": 6, "mirror": 6, "live": 6});
    assert_eq!(session(&ran, 3)["records"], all);
    assert_eq!(session(&ran, 3)["sources"], 2);
    let live = |gone: &Path| {
        let bytes = std::fs::read(gone).unwrap();
        let time = std::fs::metadata(gone).unwrap().modified().unwrap();
        std::fs::remove_file(gone).unwrap();
        let live = session(&scan(&sandbox, &[]), 3)["records"]["live"].clone();
        std::fs::write(gone, bytes).unwrap();
        std::fs::File::open(gone)
            .unwrap()
            .set_modified(time)
            .unwrap();
        live
    };
    assert_eq!(live(&files[2]), 6);
    assert_eq!(live(&copy), 4);
}

#[test]
fn a_session_that_was_rewritten_counts_what_its_last_version_has() {
    let (sandbox, files) = indexed(3);
    // The first record is gone and one is new: another beginning.
    let text = String::from_utf8(crate::made::text(3, 5)).unwrap();
    let (_, rest) = text.split_once('\n').unwrap();
    std::fs::write(&files[2], rest).unwrap();
    crate::sandbox::age(&files[2], 60);
    sandbox.run(&["index"]).expect(0);
    let ran = scan(&sandbox, &[]).expect(0);
    let want = serde_json::json!({"archived": 5, "promised": 5, "mirror": 5, "live": 4});
    assert_eq!(session(&ran, 3)["records"], want);
    assert_eq!(codes(&ran), [code("rewritten-upstream", "info", 1)]);
}

#[test]
fn an_index_that_runs_meanwhile_is_no_loss() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let (sandbox, files) = indexed(8);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for k in 10.. {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                for (n, file) in (1u32..).zip(&files) {
                    std::fs::write(file, text(n, k)).unwrap();
                }
                sandbox.run(&["index"]).expect(0);
            }
        });
        let wrong: Vec<String> = (0..25)
            .map(|_| sandbox.run(&["doctor", "archive-scan", "--fail-on", "error"]))
            .filter(|run| run.code != 0)
            .map(|run| run.stdout)
            .collect();
        done.store(true, Ordering::Relaxed);
        assert!(wrong.is_empty(), "{} of 25: {}", wrong.len(), wrong[0]);
    });
}
