//! Commits, the coverage ledger, and what crashes and damaged WALs leave.

use super::*;
use crate::error::ErrorKind;
use crate::store::coverage::{self, Line};

fn s(n: &str) -> Raw {
    msg("s", n, n)
}

fn ledger(lab: &Lab) -> PathBuf {
    lab.path().join("coverage.jsonl")
}

/// Every line; a ledger with any problem fails.
fn lines(lab: &Lab) -> Vec<Line> {
    let mut found = Vec::new();
    coverage::for_each(
        &lab.root(),
        &mut |_, line| {
            found.push(line);
            Ok(())
        },
        &mut |p| panic!("line {}: {}", p.line, p.what),
    )
    .unwrap();
    found
}

fn commits(lab: &Lab) -> Vec<CommitLine> {
    lines(lab)
        .into_iter()
        .filter_map(|l| match l {
            Line::Commit(c) => Some(c),
            Line::Promote(_) => None,
        })
        .collect()
}

#[test]
fn the_ledger_says_what_was_committed() {
    let lab = Lab::new();
    let one = lab.index("a", &[s("1")]).unwrap();
    let two = lab.index("a", &[s("1"), s("2")]).unwrap();
    assert!(matches!(&lines(&lab)[0], Line::Promote(p) if p.commit == 0 && p.reason == "created"));
    let mut written = commits(&lab);
    written.iter_mut().for_each(|c| c.prev.clear());
    assert_eq!(written, [one.clone(), two.clone()]);
    assert_eq!((one.commit, two.commit), (1, 2));
    assert_eq!(two.captures, [(key("a"), 2)]);
    let c = &lab.list()[0];
    assert_eq!(two.conversations, [(c.id.clone(), 2, c.coverage_sum)]);
    let reader = lab.reader();
    assert_eq!(reader.head().unwrap().head, two.head);
    assert!(reader.holds_commit(1, one.head).unwrap());
    assert!(!reader.holds_commit(1, two.head).unwrap());
    assert!(!reader.holds_commit(3, two.head).unwrap());
    let tail = coverage::tail(&lab.root()).unwrap().unwrap();
    assert_eq!(tail.line.promise(), (&two.generation, two.commit, two.head));
}

#[test]
fn nothing_new_commits_nothing() {
    let lab = Lab::new();
    lab.index("a", &[s("1")]).unwrap();
    let before = (
        std::fs::read(lab.db()).unwrap(),
        std::fs::read(ledger(&lab)).unwrap(),
    );
    let wal = lab.db().with_extension("db-wal");
    let wal_len = std::fs::metadata(&wal).unwrap().len();
    assert_eq!(lab.index("a", &[s("1")]), None);
    assert_eq!(
        before,
        (
            std::fs::read(lab.db()).unwrap(),
            std::fs::read(ledger(&lab)).unwrap()
        )
    );
    assert_eq!(std::fs::metadata(&wal).unwrap().len(), wal_len);
    // A torn tail that is still the same is nothing new either; one that grew is.
    let torn = |text: &str, seq| {
        lab.writing(|w| {
            let mut append = w
                .begin(capture("a", seq, 100 + text.len() as u64, false))
                .unwrap();
            let (pieces, resume) = pieces(&[s("1")], 1, Some(text));
            for p in &pieces {
                append.piece(p).unwrap();
            }
            append.finish(resume, 0).unwrap()
        })
    };
    assert!(torn("{\"half", 2).is_some());
    assert!(torn("{\"half", 2).is_none());
    assert!(torn("{\"half, more", 3).is_some());
    let source = lab.reader().source(key("a")).unwrap().unwrap();
    assert_eq!(source.accounting.tail.unwrap().len, 12);
    assert_eq!(source.accounting.accounted(), source.accounting.length);
    // The finished line then begins where the tail was.
    assert!(lab.index("a", &[s("1"), s("2")]).is_some());
    assert_eq!(
        lab.reader()
            .source(key("a"))
            .unwrap()
            .unwrap()
            .accounting
            .tail,
        None
    );
    lab.assert_sound();
}

#[test]
fn a_dropped_append_leaves_nothing() {
    let lab = Lab::new();
    lab.index("a", &[s("1")]).unwrap();
    lab.writing(|w| {
        let head = w.head();
        let (all, resume) = pieces(&[s("1"), s("2")], 0, None);
        let mut append = w.begin(capture("b", 1, 10, false)).unwrap();
        append.piece(&all[0]).unwrap();
        drop(append);
        assert_eq!(w.head(), head);
        assert!(w.cursor(key("b")).unwrap().is_none());
        // The writer goes on with the same row ids.
        let mut append = w.begin(capture("c", 1, 10, false)).unwrap();
        for p in &all {
            append.piece(p).unwrap();
        }
        append.finish(resume, 0).unwrap().unwrap();
    });
    lab.assert_sound();
}

#[test]
fn pieces_must_tile_the_file() {
    let lab = Lab::new();
    lab.writing(|w| {
        let (all, resume) = pieces(&[s("1"), s("2")], 0, None);
        let mut append = w.begin(capture("a", 1, 10, false)).unwrap();
        append.piece(&all[0]).unwrap();
        assert_eq!(
            append.piece(&all[2]).unwrap_err().kind(),
            ErrorKind::Internal
        );
        drop(append);
        let mut append = w.begin(capture("a", 1, 10, false)).unwrap();
        append.piece(&all[0]).unwrap();
        assert_eq!(
            append.finish(resume, 0).unwrap_err().kind(),
            ErrorKind::Internal
        );
        assert_eq!(w.head().commit, 0);
    });
}

#[test]
fn a_commit_compares_the_revision_and_the_chain() {
    let lab = Lab::new();
    lab.index("a", &[s("1")]).unwrap();
    lab.writing(|w| {
        let (all, resume) = pieces(&[s("1"), s("2")], 1, None);
        let mut append = w.begin(capture("a", 2, 10, false)).unwrap();
        for p in &all {
            append.piece(p).unwrap();
        }
        append
            .conn
            .execute_batch("UPDATE conversations SET revision=revision+1")
            .unwrap();
        assert_eq!(
            append.finish(resume, 0).unwrap_err().kind(),
            ErrorKind::Internal
        );
        assert_eq!(w.head().commit, 1);
        // Another writer has been here although this one holds the lock.
        w.conn
            .execute_batch(
                "INSERT INTO commits SELECT 2, prev_head, body, head, at_ms, row_hash FROM commits",
            )
            .unwrap();
        assert!(w.begin(capture("a", 2, 10, false)).is_err());
    });
}

#[test]
fn two_writers_from_one_revision_commit_once() {
    let lab = Lab::new();
    lab.index("a", &[s("1")]).unwrap();
    let lock = WriterLock::acquire(lab.root(), "test", 0).unwrap();
    let e = WriterLock::acquire(lab.root(), "test", 0).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::LockBusy);
    let cap = Capture::new(&lock);
    let mut one = ArchiveWriter::open_or_create(cap, 0).unwrap();
    let mut two = ArchiveWriter::open_or_create(cap, 0).unwrap();
    assert!(
        feed(&mut one, "a", &[s("1"), s("2")], false)
            .unwrap()
            .is_some()
    );
    assert!(feed(&mut two, "a", &[s("1"), s("2")], false).is_err());
    assert!(
        feed(&mut one, "a", &[s("1"), s("2")], false)
            .unwrap()
            .is_none()
    );
}

#[test]
fn a_crash_between_commit_and_ledger_line_is_filled_in() {
    let lab = Lab::new();
    lab.index("a", &[s("1")]).unwrap();
    let one = std::fs::read(ledger(&lab)).unwrap();
    lab.index("a", &[s("1"), s("2")]).unwrap();
    lab.index("b", &[msg("t", "1", "x"), msg("u", "1", "y")])
        .unwrap();
    let whole = std::fs::read(ledger(&lab)).unwrap();
    // No line of the last two commits, or every torn form of the first of them.
    for cut in [0usize, 1, 20, 200] {
        std::fs::write(ledger(&lab), &whole[..one.len() + cut]).unwrap();
        let tail = coverage::tail(&lab.root()).unwrap();
        let agreement = lab.reader().agreement(tail.as_ref()).unwrap();
        assert_eq!(agreement, Agreement::Ahead { commits: 2 });
        let found = lab.writing(|w| w.found());
        assert_eq!(found.backfilled, 2);
        assert_eq!(found.torn_bytes, cut as u64);
        assert_eq!(
            std::fs::read(ledger(&lab)).unwrap(),
            whole,
            "the same lines as before"
        );
    }
    assert_eq!(lab.writing(|w| w.found()), WriterState::default());
    // A ledger that is gone is written anew, and says so.
    std::fs::remove_file(ledger(&lab)).unwrap();
    assert_eq!(
        lab.reader().agreement(None).unwrap(),
        Agreement::NoLedger { found: 3 }
    );
    let found = lab.writing(|w| w.found());
    assert!(found.ledger_rebuilt);
    assert_eq!(commits(&lab).len(), 3);
    lab.assert_sound();
}

#[test]
fn a_damaged_ledger_is_reported_by_line() {
    let lab = Lab::new();
    for i in 1..4 {
        lab.index("a", &["1", "2", "3"].map(s)[..i]).unwrap();
    }
    let whole = std::fs::read(ledger(&lab)).unwrap();
    let problems = |bytes: &[u8]| {
        std::fs::write(ledger(&lab), bytes).unwrap();
        let mut found = Vec::new();
        coverage::for_each(&lab.root(), &mut |_, _| Ok(()), &mut |p| {
            found.push(p.line);
            Ok(())
        })
        .unwrap();
        found
    };
    assert_eq!(problems(&whole), Vec::<u64>::new());
    let starts: Vec<usize> = std::iter::once(0)
        .chain(memchr::memchr_iter(b'\n', &whole).map(|i| i + 1))
        .collect();
    let mut flipped = whole.clone();
    flipped[starts[1] + 3] ^= 1;
    assert!(!problems(&flipped).is_empty());
    let mut digit = whole.clone();
    let at = starts[1] + memchr::memmem::find(&whole[starts[1]..], b"\"commit\":1").unwrap() + 9;
    digit[at] = b'7';
    assert_eq!(problems(&digit), [3], "the line after does not follow it");
    let mut dropped = whole[..starts[1]].to_vec();
    dropped.extend(&whole[starts[2]..]);
    assert_eq!(problems(&dropped), [2]);
    // A damaged last line is never cut off by a writer.
    let mut last = whole.clone();
    last[starts[3] + 3] ^= 1;
    std::fs::write(ledger(&lab), &last).unwrap();
    assert_eq!(
        lab.try_writing(|_| ()).unwrap_err().kind(),
        ErrorKind::ArchiveCorrupt
    );
    assert_eq!(std::fs::read(ledger(&lab)).unwrap(), last);
}

/// What a damaged WAL does: SQLite opens without an error, at an older commit.
#[test]
fn lost_commits_are_noticed_and_never_written_over() {
    let lab = Lab::new();
    lab.index("a", &[s("1")]).unwrap();
    lab.checkpoint();
    for n in 2..12 {
        let all: Vec<Raw> = (1..=n).map(|i| s(&i.to_string())).collect();
        lab.index("a", &all).unwrap();
    }
    let (wal, shm) = (
        lab.db().with_extension("db-wal"),
        lab.db().with_extension("db-shm"),
    );
    let original = std::fs::read(&wal).unwrap();
    let promised = coverage::tail(&lab.root()).unwrap().unwrap();
    let (_, commit, head) = promised.line.promise();
    assert!(lab.reader().holds_commit(commit, head).unwrap());

    let mut state = 3u64;
    let (mut lost, mut tried) = (0, 0);
    for n in 0..120u64 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let at = (state >> 20) as usize % original.len();
        let mut bytes = original.clone();
        match n % 3 {
            0 => bytes.truncate(at),
            1 => bytes[at] ^= 1 << (n % 8),
            _ => bytes.clear(),
        }
        if n % 40 == 2 {
            std::fs::remove_file(&wal).unwrap();
        } else {
            std::fs::write(&wal, &bytes).unwrap();
        }
        let _ = std::fs::remove_file(&shm);
        tried += 1;
        let reader = lab.reader();
        let there = reader.holds_commit(commit, head).unwrap();
        let now = reader.head().unwrap().commit;
        assert_eq!(there, now == commit);
        let expected = match there {
            true => Agreement::Equal,
            false => Agreement::Lost {
                promised: commit,
                found: now,
            },
        };
        assert_eq!(reader.agreement(Some(&promised)).unwrap(), expected);
        drop(reader);
        if there {
            continue;
        }
        lost += 1;
        if n < 12 {
            // A committed prefix is sound by itself: only the ledger knows.
            assert_eq!(lab.findings(), vec![]);
            let ledger_before = std::fs::read(ledger(&lab)).unwrap();
            let e = lab.try_writing(|_| ()).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::LostCommits);
            assert_eq!(std::fs::read(ledger(&lab)).unwrap(), ledger_before);
            if n % 40 != 2 {
                assert!(
                    std::fs::read(&wal).unwrap() == bytes,
                    "the WAL is kept as it is"
                );
            }
            let _ = std::fs::remove_file(&shm);
        }
    }
    assert!(lost > tried / 2, "{lost} of {tried}");
    // The undamaged WAL: all is there again.
    std::fs::write(&wal, &original).unwrap();
    let _ = std::fs::remove_file(&shm);
    lab.writing(|w| assert_eq!(w.head().commit, commit));
}

#[test]
fn a_ledger_of_another_generation_or_archive_stops_the_writer() {
    let lab = Lab::new();
    lab.index("a", &[s("1")]).unwrap();
    let other = Lab::new();
    other.index("a", &[s("1")]).unwrap();
    std::fs::copy(ledger(&other), ledger(&lab)).unwrap();
    let tail = coverage::tail(&lab.root()).unwrap();
    let agreement = lab.reader().agreement(tail.as_ref()).unwrap();
    assert!(matches!(agreement, Agreement::Elsewhere { .. }));
    assert_eq!(
        lab.try_writing(|_| ()).unwrap_err().kind(),
        ErrorKind::LostCommits
    );
}

#[test]
fn the_end_of_a_long_ledger_is_found_without_reading_it() {
    let lab = Lab::new();
    // One commit with so many conversations that its line is longer than the first look.
    let many: Vec<Raw> = (0..1500)
        .map(|i| msg(&format!("session {i}"), "1", "x"))
        .collect();
    let line = lab.index("a", &many).unwrap();
    assert!(std::fs::metadata(ledger(&lab)).unwrap().len() > 128 << 10);
    let tail = coverage::tail(&lab.root()).unwrap().unwrap();
    assert!(matches!(tail.line, Line::Commit(c) if c.conversations == line.conversations));
    lab.index("b", &[s("1")]).unwrap();
    assert_eq!(commits(&lab).len(), 2);
}

#[test]
fn a_checkpoint_waits_for_readers() {
    let lab = Lab::new();
    lab.index("a", &[s("1")]).unwrap();
    let lock = WriterLock::acquire(lab.root(), "test", 0).unwrap();
    let mut writer = ArchiveWriter::open_or_create(Capture::new(&lock), 0).unwrap();
    assert!(writer.wal_bytes() > 0);
    let reader = lab.reader();
    assert!(!writer.checkpoint_if_free(&lock).unwrap());
    assert!(writer.wal_bytes() > 0);
    drop(reader);
    assert!(writer.checkpoint_if_free(&lock).unwrap());
    assert_eq!(writer.wal_bytes(), 0);
}

#[test]
fn commits_of_a_batch_are_acknowledged_together() {
    let lab = Lab::new();
    lab.writing(|w| {
        w.acknowledge_every(3).unwrap();
        for n in 1..=7 {
            let mine: Vec<Raw> = (1..=n).map(|i| s(&i.to_string())).collect();
            feed(w, "a", &mine, false).unwrap().unwrap();
            assert_eq!(commits(&lab).len(), n / 3 * 3, "after {n}");
        }
        // A process that ends here leaves the commit without its line.
        assert_eq!(lab.reader().head().unwrap().commit, 7);
        w.acknowledge().unwrap();
        assert_eq!(commits(&lab).len(), 7);
        w.acknowledge_every(100).unwrap();
        feed(w, "b", &[s("1")], false).unwrap().unwrap();
        assert_eq!(commits(&lab).len(), 7);
    });
    assert_eq!(commits(&lab).len(), 8);
    lab.assert_sound();
}

/// A killed writer, in the middle of a batch: what it committed is there, the lines follow.
#[test]
fn a_killed_batch_is_filled_in() {
    let lab = Lab::new();
    lab.writing(|_| ());
    let lock = WriterLock::acquire(lab.root(), "test", 0).unwrap();
    let mut writer = ArchiveWriter::open_or_create(Capture::new(&lock), 0).unwrap();
    writer.acknowledge_every(100).unwrap();
    for n in 0..5 {
        feed(
            &mut writer,
            &format!("f{n}"),
            &[msg(&format!("s{n}"), "1", "x")],
            false,
        )
        .unwrap();
    }
    // The files as a kill leaves them.
    let copy = Lab::new();
    let status = std::process::Command::new("cp")
        .arg("-a")
        .args([lab.path(), copy.path()])
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(commits(&copy).len(), 0);
    assert_eq!(copy.writing(|w| w.found().backfilled), 5);
    assert_eq!(commits(&copy).len(), 5);
    copy.assert_sound();
}
