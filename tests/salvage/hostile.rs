use proptest::prelude::*;

use crate::lab::{Dice, Truth, in_file, none, salvaged, sized, small};

#[test]
fn bytes_that_are_no_archive_give_no_row() {
    let mut noise = vec![0u8; 300_000];
    Dice(1).fill(&mut noise);
    let mut header = vec![0u8; 100_000];
    header[..16].copy_from_slice(b"SQLite format 3\0");
    for bytes in [
        Vec::new(),
        vec![0],
        vec![13; 200_000],
        vec![5; 200_000],
        noise,
        header,
    ] {
        assert_eq!(salvaged(bytes.clone(), Vec::new()), none());
        assert_eq!(salvaged(Vec::new(), bytes.clone()), none());
        assert_eq!(salvaged(bytes.clone(), bytes), none());
    }
}

/// Leaves whose every pointer names one long row, whose pages go round in a circle.
#[test]
fn a_file_made_to_have_endless_rows_ends() {
    let mut db = vec![0u8; 4096 * 400];
    for (n, page) in db.chunks_exact_mut(4096).enumerate() {
        page[0] = 13;
        page[3..5].copy_from_slice(&1500u16.to_be_bytes());
        for at in (8..3008).step_by(2) {
            page[at..at + 2].copy_from_slice(&3500u16.to_be_bytes());
        }
        // 1.5 MB of payload in a record that looks like a message's.
        let mut cell = vec![0xdb, 0xc6, 0x00, 1, 13, 0, 1, 1, 1];
        // Text of 1,500,000 bytes less header and hash.
        let total: u64 = 0x5b << 14 | 0x46 << 7;
        let kind = (total - 13 - 32 - 4) * 2 + 13;
        for shift in [21, 14, 7] {
            cell.push(0x80 | (kind >> shift) as u8);
        }
        cell.push((kind & 0x7f) as u8);
        cell.extend([0, 0, 0, 76]);
        page[3500..3500 + cell.len()].copy_from_slice(&cell);
        page[..4].copy_from_slice(&[13, 0, 0, (n % 250) as u8]);
        page[4092..].copy_from_slice(&2u32.to_be_bytes());
    }
    assert_eq!(salvaged(db, Vec::new()), none());
}

/// Lengths of 2^60 and pointers that lead outside cost the cells they stand in.
#[test]
fn cells_that_lie_cost_themselves() {
    for size in [512, 4096, 65536] {
        let sound = sized(small(), size);
        let truth = Truth::of(&sound);
        let mut db = sound.clone();
        let mut lost = std::collections::BTreeSet::new();
        for (_, leaf, _) in truth.rows.iter().filter(|r| r.0 == "records").step_by(5) {
            let page = &mut db[(*leaf as usize - 1) * size..*leaf as usize * size];
            if !lost.insert(*leaf) {
                continue;
            }
            let cell = usize::from(u16::from_be_bytes([page[8], page[9]]));
            match lost.len() % 3 {
                0 => page[cell..cell + 9]
                    .copy_from_slice(&[0x90, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0]),
                1 => page[8..10].copy_from_slice(&[0xff, 0xff]),
                _ => page[8..10].copy_from_slice(&[0, 9]),
            }
        }
        let found = salvaged(db, Vec::new());
        let all = truth.total();
        for (table, n) in &found {
            let most = if table == "records" {
                lost.len() as u64
            } else {
                0
            };
            assert!(
                *n <= all[table] && n + most >= all[table],
                "{size}: {table}: {n}"
            );
        }
    }
}

/// The same pages five times over: each row is counted once.
#[test]
fn copies_of_pages_give_no_row_twice() {
    let mut db = small().to_vec();
    for _ in 0..4 {
        db.extend_from_slice(small());
    }
    db[..4096].fill(0);
    assert_eq!(salvaged(db, Vec::new()), Truth::of(small()).total());
}

/// A table's freed pages keep their rows, and what is newer wins.
#[test]
fn freed_rows_are_found_where_nothing_newer_has_their_id() {
    let truth = Truth::of(small()).total();
    let freed = in_file(small(), |path, conn| {
        conn.execute_batch(
            "PRAGMA journal_mode=DELETE; PRAGMA secure_delete=OFF; DELETE FROM messages; \
             DELETE FROM records WHERE id%2=0;",
        )
        .unwrap();
        std::fs::read(path).unwrap()
    });
    let found = salvaged(freed, Vec::new());
    // SQLite overwrites the begin of what it frees, and of a list of free pages one page in many.
    assert!(found["messages"] > truth["messages"] * 2 / 3, "{found:?}");
    assert!(found["messages"] <= truth["messages"]);
    assert!(found["records"] >= truth["records"] / 2);
    assert_eq!(found["conversations"], truth["conversations"]);
}

/// Of a freed row and a live one with the same id, the live one counts, and the row counts once.
#[test]
fn a_freed_row_never_takes_the_place_of_a_newer_one() {
    let text = |bytes: &[u8]| {
        in_file(bytes, |_, conn| {
            conn.query_row("SELECT count(*) FROM messages", [], |r| r.get::<_, u32>(0))
                .unwrap()
        })
    };
    let truth = Truth::of(small()).total();
    // Every row of messages is freed and put back: its old bytes are still in the file.
    let both = in_file(small(), |path, conn| {
        conn.execute_batch(
            "PRAGMA journal_mode=DELETE; PRAGMA secure_delete=OFF; \
             CREATE TEMP TABLE kept AS SELECT * FROM messages; DELETE FROM messages; \
             CREATE TABLE filler(x); INSERT INTO filler VALUES(zeroblob(4000)); \
             INSERT INTO messages SELECT * FROM kept; DROP TABLE filler;",
        )
        .unwrap();
        std::fs::read(path).unwrap()
    });
    assert!(both.len() >= small().len());
    assert_eq!(u64::from(text(&both)), truth["messages"]);
    assert_eq!(salvaged(both, Vec::new()), truth);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_are_too_odd(db in prop::collection::vec(any::<u8>(), 0..3000), wal in prop::collection::vec(any::<u8>(), 0..3000)) {
        salvaged(db, wal);
    }

    #[test]
    fn nor_is_any_damage(seed in any::<u64>(), changes in 1usize..200) {
        let mut dice = Dice(seed);
        let mut db = small().to_vec();
        // Headers and pointers, where it hurts, as often as anything else.
        for _ in 0..changes {
            let page = dice.below(db.len() / 4096) * 4096;
            let at = page + if dice.next().is_multiple_of(2) { dice.below(40) } else { dice.below(4096) };
            db[at] = dice.next() as u8;
        }
        let cut = db.len() - dice.below(5000);
        db.truncate(cut);
        let found = salvaged(db, Vec::new());
        static TOTAL: std::sync::OnceLock<crate::lab::Counts> = std::sync::OnceLock::new();
        let total = TOTAL.get_or_init(|| Truth::of(small()).total());
        for (table, n) in found {
            prop_assert!(n <= total[&table]);
        }
    }
}
