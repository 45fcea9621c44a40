//! Two writers of one session, on the real file system and in real SQLite: exactly one of two that
//! read the same end may go on from it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::time::Duration;

use cass::error::ErrorKind;
use cass::session_writer::{Refusal, Revision, Sessions, WriteError};

use crate::cases;
use crate::table::text_of;

pub const PATIENCE: Duration = Duration::from_secs(20);
pub const ID: &str = "one/session";
pub const WHO: &str = "CASS_TEST_WRITER";

/// A data directory and a sessions root.
pub struct Place {
    pub folder: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Place {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("sessions")).expect("a root");
        Place { folder }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("sessions")
    }

    pub fn sessions(&self) -> Sessions {
        at(self.folder.path(), PATIENCE)
    }

    /// Every file below the root with its bytes, but locks.
    pub fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut out = Vec::new();
        walk(&self.root(), &mut out);
        out.sort();
        out
    }
}

pub fn at(folder: &Path, patience: Duration) -> Sessions {
    Sessions::open(&folder.join("data"), &folder.join("sessions"), patience).expect("open")
}

fn walk(folder: &Path, out: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            walk(&path, out);
        } else if path.extension().is_none_or(|e| e != "lock") {
            let bytes = fs::read(&path).expect("a file");
            out.push((path, bytes));
        }
    }
}

pub fn header(version: u64, cwd: &str) -> String {
    let seeded = if version >= 2 {
        r#","isSeeded":false"#
    } else {
        ""
    };
    format!(
        r#"{{"type":"session","version":{version},"id":"{ID}","createdAt":1,"cwd":"{cwd}","delegationDepth":0{seeded}}}"#
    )
}

/// A turn in which nothing is said: two events.
pub fn turn(seq: u64, turn: u64) -> Vec<u8> {
    format!(
        "{{\"type\":\"turn/start\",\"seq\":{seq},\"time\":1,\"data\":{{\"turn\":{turn}}}}}\n\
         {{\"type\":\"turn/end\",\"seq\":{},\"time\":1,\"data\":{{\"turn\":{turn},\"reason\":{{\"kind\":\"completed\"}}}}}}\n",
        seq + 1
    )
    .into_bytes()
}

/// The next turn of a log that holds nothing but such turns.
pub fn next(revision: &Revision) -> Vec<u8> {
    turn(revision.next_seq, revision.next_seq / 2 + 1)
}

/// The numbers in a log's text, read by other means than the code under test.
fn numbers(text: &[u8]) -> Vec<u64> {
    text.split(|b| *b == b'\n')
        .filter(|l| !l.is_empty())
        .skip(1)
        .map(|l| serde_json::from_slice::<serde_json::Value>(l).expect("JSON"))
        .map(|v| v["seq"].as_u64().expect("a number"))
        .collect()
}

pub fn assert_dense(text: &[u8], events: u64) {
    assert_eq!(numbers(text), (0..events).collect::<Vec<_>>());
}

#[test]
fn a_session_is_published_and_goes_on_in_every_form() {
    for (version, packed) in [(0, false), (0, true), (1, false), (2, true), (4, false)] {
        let place = Place::new();
        let sessions = place.sessions();
        let head = header(version, "/w/garden");
        let (log, mut revision) = sessions
            .create(packed, head.as_bytes(), &turn(0, 1))
            .expect("created");
        for _ in 0..5 {
            revision = log.append(&revision, &next(&revision)).expect("appended");
        }
        assert_eq!(revision, log.revision().expect("read"));
        assert_eq!(revision.next_seq, 12);
        let files = place.files();
        assert_eq!(files.len(), 1);
        let (path, bytes) = &files[0];
        assert_eq!(*path, log.path());
        let name = match (version, packed) {
            (0, false) => "session.jsonl".to_owned(),
            (0, true) => "session.jsonl.zstd".to_owned(),
            (n, false) => format!("session.v{n}.jsonl"),
            (n, true) => format!("session.v{n}.jsonl.zstd"),
        };
        assert!(path.ends_with(format!("--w-garden--/one~002Fsession/{name}")));
        let text = text_of(bytes, packed);
        assert!(text.starts_with(format!("{head}\n").as_bytes()));
        assert_dense(&text, 12);
        let mode = |p: &Path| fs::metadata(p).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode(path), 0o600);
        assert_eq!(mode(path.parent().expect("a folder")), 0o700);
    }
}

#[test]
fn of_many_threads_from_one_revision_one_commits() {
    for packed in [false, true] {
        let place = Place::new();
        let sessions = place.sessions();
        let (log, start) = sessions
            .create(packed, header(1, "/w").as_bytes(), &turn(0, 1))
            .expect("created");
        let barrier = Barrier::new(8);
        let won: Vec<bool> = std::thread::scope(|s| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    s.spawn(|| {
                        let log = sessions.find(ID).expect("found").expect("there");
                        barrier.wait();
                        match log.append(&start, &next(&start)) {
                            Ok(_) => true,
                            Err(WriteError::Refused(Refusal::Changed { .. })) => false,
                            Err(e) => panic!("{e}"),
                        }
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|t| t.join().expect("it ends"))
                .collect()
        });
        assert_eq!(won.iter().filter(|w| **w).count(), 1);
        assert_eq!(log.revision().expect("read").next_seq, 4);
        assert_dense(&text_of(&place.files()[0].1, packed), 4);
    }
}

/// Runs one test of this file in a process of its own.
pub fn other_process(test: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command
        .args(["--exact", "--nocapture", test])
        .env(WHO, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Where this process has to write, if it is one that others began.
pub fn folder_of_this() -> Option<PathBuf> {
    std::env::var_os(WHO).map(PathBuf::from)
}

/// Ten turns, each from what is there: who loses reads what came and goes on.
#[test]
fn a_process_that_writes_ten_turns() {
    let Some(folder) = folder_of_this() else {
        return;
    };
    let sessions = at(&folder, Duration::from_secs(60));
    let log = sessions.find(ID).expect("found").expect("there");
    let mut known = log.revision().expect("read");
    let (mut wrote, mut lost) = (0, 0);
    while wrote < 10 {
        match log.append(&known, &next(&known)) {
            Ok(now) => {
                known = now;
                wrote += 1;
            }
            Err(WriteError::Refused(Refusal::Changed { expected, .. })) => {
                assert_eq!(*expected, known);
                lost += 1;
                let mut behind = Vec::new();
                let now = log
                    .since(&known, &mut |line| behind.push(line.to_vec()))
                    .expect("what this process knew is still there");
                assert_eq!(behind.len() as u64, now.next_seq - known.next_seq);
                known = now;
            }
            Err(e) => panic!("{e}"),
        }
    }
    println!("lost {lost}");
}

#[test]
fn processes_that_write_one_session_leave_one_dense_log() {
    for packed in [false, true] {
        let place = Place::new();
        place
            .sessions()
            .create(packed, header(1, "/w").as_bytes(), b"")
            .expect("created");
        let children: Vec<_> = (0..4)
            .map(|_| {
                let test = "writing::a_process_that_writes_ten_turns";
                other_process(test, place.folder.path())
                    .spawn()
                    .expect("a process")
            })
            .collect();
        for child in children {
            let out = child.wait_with_output().expect("it ends");
            let told = String::from_utf8_lossy(&out.stdout).into_owned();
            assert!(out.status.success() && told.contains("1 passed"), "{told}");
        }
        assert_dense(&text_of(&place.files()[0].1, packed), 80);
    }
}

#[test]
fn a_writer_that_is_behind_is_refused_again_and_again() {
    let place = Place::new();
    let sessions = place.sessions();
    let (log, old) = sessions
        .create(false, header(0, "/w").as_bytes(), &turn(0, 1))
        .expect("created");
    let newer = log.append(&old, &next(&old)).expect("appended");
    let now = log.append(&newer, &next(&newer)).expect("appended");
    assert_eq!(now.next_seq, old.next_seq + 4);
    let before = place.files();
    for _ in 0..20 {
        let refused = log.append(&old, &next(&old));
        assert!(matches!(
            refused,
            Err(WriteError::Refused(Refusal::Changed { .. }))
        ));
        // The same batch by one who claims to know the end.
        let stale = log.append(&now, &next(&old));
        assert!(matches!(
            stale,
            Err(WriteError::Refused(Refusal::Stale { first: 2, next: 6 }))
        ));
    }
    assert_eq!(place.files(), before);
}

#[test]
fn a_live_session_that_another_process_adopts_goes_on_as_one() {
    let place = Place::new();
    let sessions = place.sessions();
    let (live, mut known_to_live) = sessions
        .create(true, header(1, "/w").as_bytes(), &turn(0, 1))
        .expect("created");
    let adopter = sessions.find(ID).expect("found").expect("there");
    let seed = adopter.revision().expect("read");
    known_to_live = live
        .append(&known_to_live, &next(&known_to_live))
        .expect("the live writer is first");
    let lost = adopter.append(&seed, &next(&seed));
    assert!(matches!(
        lost,
        Err(WriteError::Refused(Refusal::Changed { .. }))
    ));
    let mut came = Vec::new();
    let now = adopter
        .since(&seed, &mut |line| came.push(line.to_vec()))
        .expect("its seed is still there");
    assert_eq!(now, known_to_live);
    assert_eq!(came.join(&b'\n'), next(&seed).trim_ascii_end());
    adopter.append(&now, &next(&now)).expect("it goes on");
    // The seed of a log that was put in its place by other means is no seed.
    let path = live.path();
    let bytes = fs::read(&path).expect("the log");
    fs::remove_file(&path).expect("removed");
    fs::write(&path, &bytes[..bytes.len() - 1]).expect("a shorter one");
    assert!(matches!(
        adopter.since(&now, &mut |_| {}),
        Err(WriteError::Refused(
            Refusal::Damaged(_) | Refusal::Changed { .. }
        ))
    ));
}

#[test]
fn a_stale_closer_does_not_replace_a_newer_one() {
    for name in [
        "interrupted_calls_not_started__raw",
        "interrupted_calls_not_started__zstd",
    ] {
        let case = cases::named(name);
        let folder = tempfile::tempdir().expect("a folder");
        let sessions =
            Sessions::open(&folder.path().join("data"), &case.root(), PATIENCE).expect("open");
        let id = case.text("session_id").expect("an id");
        let log = sessions.find(id).expect("found").expect("there");
        let seen = log.revision().expect("an open turn can go on");
        let whole = case.repaired().expect("the closed log");
        let packed = name.ends_with("zstd");
        let old = text_of(&fs::read(case.log()).expect("the log"), packed);
        let closers = &text_of(&whole, packed)[old.len()..];
        log.append(&seen, closers).expect("the turn is closed");
        let closed = fs::read(case.log()).expect("the log");
        let stale = log.append(&seen, closers);
        assert!(matches!(
            stale,
            Err(WriteError::Refused(Refusal::Changed { .. }))
        ));
        assert_eq!(fs::read(case.log()).expect("the log"), closed);
    }
}

#[test]
fn one_of_many_first_publications_wins() {
    let place = Place::new();
    let sessions = place.sessions();
    let barrier = Barrier::new(8);
    let won: Vec<bool> = std::thread::scope(|s| {
        let threads: Vec<_> = (0..8_u64)
            .map(|n| {
                let (sessions, barrier) = (&sessions, &barrier);
                s.spawn(move || {
                    // Other projects, other packing, other generations: still one session.
                    let head = header(n % 3, &format!("/w/{}", n % 4));
                    barrier.wait();
                    match sessions.create(n % 2 == 0, head.as_bytes(), &turn(0, 1)) {
                        Ok(_) => true,
                        Err(WriteError::Unreached(e)) if e.kind() == ErrorKind::TargetExists => {
                            false
                        }
                        Err(e) => panic!("{e}"),
                    }
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|t| t.join().expect("it ends"))
            .collect()
    });
    assert_eq!(won.iter().filter(|w| **w).count(), 1);
    assert_eq!(place.files().len(), 1);
}

#[test]
fn a_lock_that_others_hold_is_waited_for_and_never_taken() {
    let place = Place::new();
    let (log, start) = {
        let sessions = place.sessions();
        let (log, start) = sessions
            .create(false, header(1, "/w").as_bytes(), b"")
            .expect("created");
        (log.path(), start)
    };
    let before = place.files();
    let impatient = at(place.folder.path(), Duration::from_millis(50));
    let busy = |why: &str| {
        let log = impatient.find(ID).expect("found").expect("there");
        match log.append(&start, &next(&start)) {
            Err(WriteError::Unreached(e)) => {
                assert_eq!(e.kind(), ErrorKind::LockBusy, "{why}");
                e.to_string()
            }
            other => panic!("{why}: {other:?}"),
        }
    };
    let beside = log.with_file_name("session.lock");
    let held = fs::File::open(&beside).expect("the lock");
    held.lock().expect("held");
    assert!(busy("the harness holds it").contains("session.lock"));
    drop(held);
    let other = place.root().join("one~002Fsession.lock");
    fs::write(&other, b"4711\n").expect("a lock of the other kind");
    assert!(busy("of the other kind").contains("process 4711"));
    assert!(other.exists());
    fs::remove_file(&other).expect("removed");
    assert_eq!(place.files(), before);
    let log = impatient.find(ID).expect("found").expect("there");
    log.append(&start, &next(&start)).expect("nobody holds it");
}

#[test]
fn a_log_that_is_not_the_sessions_any_more_is_not_written() {
    let place = Place::new();
    let sessions = place.sessions();
    let (log, start) = sessions
        .create(false, header(0, "/w").as_bytes(), b"")
        .expect("created");
    // The harness wrote the session in a newer form.
    let newer = log.path().with_file_name("session.v1.jsonl");
    fs::write(&newer, format!("{}\n", header(1, "/w"))).expect("a newer form");
    match log.append(&start, &next(&start)) {
        Err(WriteError::Unreached(e)) => assert_eq!(e.kind(), ErrorKind::NotFound),
        other => panic!("{other:?}"),
    }
    let found = sessions.find(ID).expect("found").expect("there");
    assert_eq!(found.path(), newer);
    // Packed and raw of one generation, or two projects: nobody can say which it is.
    fs::write(newer.with_file_name("session.v1.jsonl.zstd"), b"").expect("a twin");
    let twins = sessions.find(ID).expect_err("two logs");
    assert_eq!(twins.kind(), ErrorKind::AmbiguousName);
}

#[test]
fn a_link_in_the_place_of_a_log_or_a_lock_is_not_followed() {
    let place = Place::new();
    let sessions = place.sessions();
    let (log, start) = sessions
        .create(false, header(1, "/w").as_bytes(), b"")
        .expect("created");
    let path = log.path();
    let elsewhere = place.folder.path().join("elsewhere");
    fs::rename(&path, &elsewhere).expect("moved");
    std::os::unix::fs::symlink(&elsewhere, &path).expect("a link");
    match log.append(&start, &next(&start)) {
        Err(WriteError::Unreached(e)) => assert_eq!(e.kind(), ErrorKind::UnsafeTarget, "{e}"),
        other => panic!("{other:?}"),
    }
    fs::remove_file(&path).expect("removed");
    fs::rename(&elsewhere, &path).expect("back");
    let lock = path.with_file_name("session.lock");
    fs::remove_file(&lock).expect("removed");
    std::os::unix::fs::symlink(&elsewhere, &lock).expect("a link");
    match log.append(&start, &next(&start)) {
        Err(WriteError::Unreached(e)) => assert_eq!(e.kind(), ErrorKind::UnsafeTarget, "{e}"),
        other => panic!("{other:?}"),
    }
    assert!(!elsewhere.exists());
}
