//! What the rest of the program sees of an archive that is read page by page.

use std::path::Path;
use std::time::Duration;

use cass::disk::{ArchiveShared, Root};
use cass::model::interrupt::Interrupt;
use cass::store::archive::{Rescued, Tally};

use crate::lab::{Truth, frames_of, grown, large, small};

/// Tally, keys and sources, as text.
type Told = (Tally, Vec<String>, Vec<String>);

fn told(rescued: &Rescued<'_>) -> Told {
    let mut keys = Vec::new();
    rescued
        .coverage(&mut |k| {
            keys.push(format!("{k:?}"));
            Ok(())
        })
        .unwrap();
    let sources = rescued.sources().map(|s| format!("{s:?}")).collect();
    (rescued.tally(&Interrupt::new()).unwrap(), keys, sources)
}

fn open<T>(bytes: &[u8], f: impl FnOnce(&Root, &ArchiveShared, &Path) -> T) -> T {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("x.db"), bytes).unwrap();
    let root = Root::open(dir.path()).unwrap().unwrap();
    let lock = ArchiveShared::acquire(&root, Duration::ZERO).unwrap();
    f(&root, &lock, &dir.path().join("x.db"))
}

#[test]
fn a_sound_archive_says_the_same_by_pages_as_by_sqlite() {
    for bytes in [small(), large()] {
        open(bytes, |root, lock, _| {
            let by_sqlite = Rescued::open(root, "x.db", lock).unwrap().unwrap();
            assert!(!by_sqlite.is_by_pages());
            let by_pages = Rescued::salvage(root, "x.db", lock).unwrap().unwrap();
            let (mut tally, keys, sources) = told(&by_pages);
            assert!(tally.by_pages);
            tally.by_pages = false;
            let (expected, their_keys, their_sources) = told(&by_sqlite);
            assert!(expected.is_sound());
            assert_eq!(tally, expected);
            assert!(keys == their_keys && sources == their_sources);
        });
    }
}

/// What is told of a database and its WAL, read page by page.
fn by_pages(db: &[u8], wal: &[u8]) -> Told {
    open(db, |root, lock, path| {
        std::fs::write(path.with_file_name("x.db-wal"), wal).unwrap();
        told(&Rescued::salvage(root, "x.db", lock).unwrap().unwrap())
    })
}

#[test]
fn of_two_states_of_a_row_the_newer_counts_wherever_they_lie() {
    let (old, new) = grown();
    let truth = by_pages(&new, b"");
    assert_ne!(truth.2, by_pages(&old, b"").2);
    // Left-overs of a WAL that was begun anew are older than the database.
    assert_eq!(by_pages(&new, &frames_of(&old, (1, 2))), truth);
    // Frames that were committed are newer, though the checksums of all are broken.
    let (tally, keys, sources) = by_pages(&old, &frames_of(&new, (1, 1)));
    assert_eq!((keys, sources), (truth.1.clone(), truth.2.clone()));
    for (table, t) in &truth.0.tables {
        assert_eq!(tally.tables[table].verified, t.verified, "{table}");
    }
    // Pages that nothing names, before and behind, in a file whose header is lost: the rows say it.
    for (a, b) in [(&old, &new), (&new, &old)] {
        let mut both = [a.as_slice(), b.as_slice()].concat();
        both[..4096].fill(0);
        both[a.len()..a.len() + 4096].fill(0);
        let (tally, keys, sources) = by_pages(&both, b"");
        assert_eq!((&keys, &sources), (&truth.1, &truth.2));
        for (table, t) in &truth.0.tables {
            assert_eq!(tally.tables[table].verified, t.verified, "{table}");
        }
    }
}

#[test]
fn what_sqlite_would_not_miss_is_not_missed() {
    let sound = small();
    let truth = Truth::of(sound);
    let counts = truth.total();
    let messages = truth.rows.iter().find(|r| r.0 == "messages").unwrap().1;
    type Damage<'d> = (&'d str, &'d dyn Fn(&mut Vec<u8>));
    let damage: [Damage<'_>; 4] = [
        ("page 1", &|b| b[..4096].fill(0)),
        ("schema", &|b| {
            let what = b"CREATE TABLE messages";
            for at in 0..b.len() - what.len() {
                if b[at..].starts_with(what) {
                    b[at + 3] = b'_';
                }
            }
        }),
        ("page count", &|b| b[28..32].fill(0xff)),
        // An empty leaf where the tree of messages begins: SQLite says that there are none.
        ("root", &|b| {
            let root = root_of(b, "messages");
            let page = &mut b[(root - 1) * 4096..root * 4096];
            page.fill(0);
            page[0] = 13;
            page[5..7].copy_from_slice(&4096u16.to_be_bytes());
        }),
    ];
    for (what, change) in damage {
        let mut bytes = sound.to_vec();
        change(&mut bytes);
        open(&bytes, |root, lock, _| {
            let rescued = Rescued::open(root, "x.db", lock).unwrap().unwrap();
            assert!(rescued.is_by_pages(), "{what}");
            let (tally, ..) = told(&rescued);
            for (table, n) in &counts {
                let t = &tally.tables[table.as_str()];
                assert_eq!(t.verified, *n, "{what}: {table}");
            }
        });
    }
    // A lost leaf is a range of ids in which something may be missing.
    let mut bytes = sound.to_vec();
    let at = (messages as usize - 1) * 4096;
    bytes[at..at + 4096].fill(0);
    open(&bytes, |root, lock, _| {
        let rescued = Rescued::open(root, "x.db", lock).unwrap().unwrap();
        let (tally, ..) = told(&rescued);
        assert!(tally.tables["messages"].unreadable_ranges > 0);
        assert_eq!(tally.tables["records"].unreadable_ranges, 0);
    });
}

fn root_of(bytes: &[u8], table: &str) -> usize {
    crate::lab::in_file(bytes, |_, conn| {
        conn.query_row(
            "SELECT rootpage FROM sqlite_schema WHERE name=?1",
            [table],
            |r| r.get::<_, i64>(0),
        )
        .unwrap() as usize
    })
}
