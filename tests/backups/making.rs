//! Made whole or not at all.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use cass::disk::Root;
use cass::error::ErrorKind;
use cass::model::interrupt::{Interrupt, Signal};
use cass::store::archive::ArchiveReader;
use cass::store::backup::{self, Making, Sidecars};

use crate::sandbox::{Sandbox, snapshot};
use crate::{back_up, file, indexed, live, locked, root, session};

#[test]
fn a_backup_holds_every_commit_and_verifies() {
    let sandbox = indexed();
    // A reader holds the archive lock, so that the next commit stays in the log.
    let reader = ArchiveReader::open(&root(&sandbox)).unwrap().unwrap();
    sandbox.put(".claude/projects/-p/S.jsonl", session(25).as_bytes());
    sandbox.run(&["index"]).expect(0);
    let made = back_up(&sandbox).unwrap();
    drop(reader);
    let wal = made.files.iter().find(|f| f.name == backup::WAL).unwrap();
    assert!(wal.len > 0, "the last commit is in the log");
    let found = ArchiveReader::open(&root(&sandbox)).unwrap().unwrap();
    assert!(made.is_of(
        &found.generation().manifest.archive_id,
        &found.head().unwrap()
    ));
    assert_eq!(made.counts.messages, 25);
    drop(found);

    let root = root(&sandbox);
    let listed = backup::list(&root).unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].1.as_ref().unwrap(), &made);
    let verified = backup::verify(&root, &made.backup_id, true, &Interrupt::new())
        .unwrap()
        .unwrap();
    assert!(
        verified.is_sound() && verified.may_restore(),
        "{verified:?}"
    );
    assert_eq!(verified.sidecars, Sidecars::Complete);
    assert_eq!(verified.deep.unwrap().findings_total, 0);
    // Every byte is that of the original.
    let generation = sandbox.data().join("generations/g00000001");
    for (copy, from) in [
        ("agent_search.db", generation.join("agent_search.db")),
        (
            "agent_search.db-wal",
            generation.join("agent_search.db-wal"),
        ),
        ("generation.json", generation.join("manifest.json")),
        ("coverage.jsonl", sandbox.data().join("coverage.jsonl")),
    ] {
        let same = std::fs::read(file(&sandbox, copy)).unwrap() == std::fs::read(from).unwrap();
        assert!(same, "{copy}");
    }
}

#[test]
fn a_backup_is_for_its_owner_alone_and_the_next_has_the_next_id() {
    let sandbox = indexed();
    back_up(&sandbox).unwrap();
    assert_eq!(back_up(&sandbox).unwrap().backup_id.as_str(), "b00000002");
    let folder = sandbox.data().join("backups");
    let mode = |p: &std::path::Path| std::fs::metadata(p).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(&folder.join("b00000001")), 0o700);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder.join("b00000001")).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(mode(&entry.path()), 0o600);
        names.push(entry.file_name().into_string().unwrap());
    }
    names.sort();
    assert_eq!(
        names,
        [
            "agent_search.db",
            "coverage.jsonl",
            "generation.json",
            "manifest.json"
        ]
    );
}

#[test]
fn the_commands_say_so_and_leave_no_trace() {
    let sandbox = indexed();
    let empty = sandbox.run(&["doctor", "backups", "list"]).expect(0);
    assert_eq!(empty.number("/total"), 0);
    back_up(&sandbox).unwrap();
    let before = snapshot(&sandbox.data());
    let list = sandbox.run(&["doctor", "backups", "list"]).expect(0);
    assert_eq!(list.text("/backups/0/backup_id"), "b00000001");
    assert_eq!(list.text("/backups/0/kind"), "operator");
    assert_eq!(list.text("/backups/0/state"), "unverified");
    assert_eq!(list.text("/backups/0/label"), "before the trip");
    assert_eq!(list.at("/retention_policy/automatic_removal"), false);
    let argv = list.at("/verify_command").as_array().unwrap();
    let words: Vec<&str> = argv.iter().skip(1).map(|w| w.as_str().unwrap()).collect();
    let verified = sandbox.run(&words).expect(0);
    assert_eq!(verified.text("/backup_verification"), "verified");
    assert_eq!(verified.text("/sidecar_completeness"), "not-needed");
    assert_eq!(verified.at("/restore_rehearsal_allowed"), true);
    assert_eq!(verified.number("/checksum_status_counts/matched"), 3);
    let deep = sandbox
        .run(&["doctor", "backups", "verify", "b00000001", "--deep"])
        .expect(0);
    assert_eq!(deep.number("/rows/findings_total"), 0);
    for missing in ["b00000002", "g00000001", "../b00000001", "x"] {
        let run = sandbox.run(&["doctor", "backups", "verify", missing]);
        assert_eq!(run.expect(3).text("/err/kind"), "not-found", "{missing}");
    }
    let out = sandbox
        .command(&["doctor", "backups", "list"])
        .output()
        .unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    assert!(text.contains("before the trip"), "{text}");
    assert_eq!(snapshot(&sandbox.data()), before);
}

/// The archive may be gone: that is when backups are looked for.
#[test]
fn backups_are_found_when_everything_else_is_lost() {
    let sandbox = indexed();
    back_up(&sandbox).unwrap();
    for lost in ["CURRENT", "coverage.jsonl"] {
        std::fs::remove_file(sandbox.data().join(lost)).unwrap();
    }
    for lost in ["generations", "raw-mirror", "derived"] {
        std::fs::remove_dir_all(sandbox.data().join(lost)).unwrap();
    }
    let list = sandbox.run(&["doctor", "backups", "list"]).expect(0);
    assert_eq!(list.number("/total"), 1);
    sandbox
        .run(&["doctor", "backups", "verify", "b00000001", "--deep"])
        .expect(0);
}

#[test]
fn a_damaged_archive_is_not_backed_up() {
    let sandbox = indexed();
    let db = sandbox.data().join("generations/g00000001/agent_search.db");
    let conn = rusqlite::Connection::open(db).unwrap();
    conn.execute(
        "UPDATE messages SET text='x' WHERE id=(SELECT min(id) FROM messages)",
        [],
    )
    .unwrap();
    drop(conn);
    let e = back_up(&sandbox).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ArchiveCorrupt, "{e}");
    let left: Vec<_> = std::fs::read_dir(sandbox.data().join("backups"))
        .unwrap()
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn what_a_killed_or_ended_one_left_is_no_backup_and_goes_with_the_next() {
    let sandbox = indexed();
    let staging = sandbox.data().join("backups/.staging");
    std::fs::create_dir_all(&staging).unwrap();
    std::fs::write(staging.join("agent_search.db"), "half").unwrap();
    let list = sandbox.run(&["doctor", "backups", "list"]).expect(0);
    assert_eq!(list.number("/total"), 0);
    let check = sandbox
        .run(&["doctor", "check", "--only", "backup.freshness"])
        .expect(0);
    assert_eq!(check.at("/findings").as_array().unwrap().len(), 0);
    let interrupt = Interrupt::new();
    interrupt.raise(Signal::Term);
    let ended = locked(&sandbox, |cap| {
        let making = Making {
            generation: &live(cap.root()),
            label: None,
            run_id: None,
            now_ms: 0,
        };
        backup::create(cap, &making, &interrupt).unwrap_err()
    });
    assert_eq!(ended.kind(), ErrorKind::Terminated);
    assert!(!staging.exists());
    back_up(&sandbox).unwrap();
    assert!(!staging.exists());
}

/// Needs the right to mount; without it, it says so.
#[test]
fn without_room_nothing_is_made() {
    let sandbox = indexed();
    let at = sandbox.path().join("disk");
    std::fs::create_dir(&at).unwrap();
    let bytes: u64 = snapshot(&sandbox.data())
        .keys()
        .filter_map(|p| std::fs::metadata(sandbox.data().join(p)).ok())
        .filter(std::fs::Metadata::is_file)
        .map(|m| m.len().div_ceil(4096) * 4096)
        .sum();
    let mounted = Command::new("mount")
        .args([
            "-t",
            "tmpfs",
            "-o",
            &format!("size={}", bytes + (256 << 10)),
            "tmpfs",
        ])
        .arg(&at)
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success());
    if !mounted {
        println!("passed over: a file system in memory can't be mounted here");
        return;
    }
    let data = at.join("data");
    let copied = Command::new("cp")
        .arg("-r")
        .arg(sandbox.data())
        .arg(&data)
        .status();
    let e = copied.is_ok_and(|s| s.success()).then(|| {
        let root = Root::open(&data).unwrap().unwrap();
        let lock = cass::disk::WriterLock::acquire(root, "test", 0).unwrap();
        let cap = cass::disk::Capture::new(&lock);
        let making = Making {
            generation: &live(cap.root()),
            label: None,
            run_id: None,
            now_ms: 0,
        };
        let made = backup::create(cap, &making, &Interrupt::new());
        (made.map(|b| b.backup_id), data.join("backups").exists())
    });
    let gone = Command::new("umount").arg(&at).status();
    assert!(gone.is_ok_and(|s| s.success()));
    let (made, exists) = e.expect("the data directory fits");
    let e = made.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NoSpace, "{e}");
    assert!(e.context().contains_key("required_bytes") && e.context().contains_key("free_bytes"));
    assert!(!exists, "nothing was begun");
    let _: &Sandbox = &sandbox;
}
