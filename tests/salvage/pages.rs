use std::collections::BTreeSet;

use crate::lab::{Dice, Truth, large, salvaged, sized, small};

fn page(bytes: &mut [u8], size: usize, number: u32) -> &mut [u8] {
    let at = (number as usize - 1) * size;
    &mut bytes[at..at + size]
}

#[test]
fn a_sound_archive_gives_every_row_in_every_page_size() {
    for size in [512, 1024, 4096, 8192, 65536] {
        let db = sized(small(), size);
        let truth = Truth::of(&db);
        assert_eq!(salvaged(db, Vec::new()), truth.total(), "{size}");
    }
    let db = large().to_vec();
    let truth = Truth::of(&db);
    assert_eq!(salvaged(db, Vec::new()), truth.total());
}

#[test]
fn each_page_in_turn_costs_the_rows_that_lie_in_it_and_no_others() {
    for size in [1024usize, 4096, 8192] {
        let sound = sized(small(), size);
        let truth = Truth::of(&sound);
        let mut dice = Dice(7);
        for number in 1..=truth.pages {
            let mut db = sound.clone();
            let other = 1 + dice.below(truth.pages as usize) as u32;
            let from = page(&mut db, size, other).to_vec();
            let lost = BTreeSet::from([number]);
            let place = page(&mut db, size, number);
            let before = place.to_vec();
            let (what, expected) = match number % 4 {
                0 => {
                    place.fill(0);
                    ("zeroed", truth.without(&lost))
                }
                1 => {
                    dice.fill(place);
                    ("noise", truth.without(&lost))
                }
                2 if other != number => {
                    place.copy_from_slice(&from);
                    ("stale copy", truth.without(&lost))
                }
                _ => {
                    place.copy_from_slice(&from);
                    page(&mut db, size, other).copy_from_slice(&before);
                    // A leaf is read wherever it lies; the parts of a long row have their place.
                    let both = BTreeSet::from([number, other]);
                    let moved = number != other;
                    let left = truth.left(|_, chain| !moved || chain.is_disjoint(&both));
                    ("swapped", left)
                }
            };
            let found = salvaged(db, Vec::new());
            assert_eq!(found, expected, "{size}: {what} page {number} ({other})");
        }
    }
}

#[test]
fn any_share_of_the_pages_costs_what_lies_in_them() {
    for (size, shares) in [(1024usize, &[1, 50][..]), (4096, &[5, 25]), (8192, &[10])] {
        let sound = sized(large(), size);
        let truth = Truth::of(&sound);
        let all: u64 = truth.total().values().sum();
        for percent in shares.iter().copied() {
            let mut dice = Dice(percent);
            let mut db = sound.clone();
            // The first page as well.
            let mut lost = BTreeSet::from([1]);
            for number in 2..=truth.pages {
                if dice.next() % 100 < percent {
                    lost.insert(number);
                }
            }
            for number in &lost {
                dice.fill(page(&mut db, size, *number));
            }
            let expected = truth.without(&lost);
            let left: u64 = expected.values().sum();
            assert!(left < all && left > all / 10, "{left} of {all}");
            assert_eq!(salvaged(db, Vec::new()), expected, "{percent} % of {size}");
        }
    }
}

#[test]
fn a_wrong_page_size_in_the_header_is_not_believed() {
    let sound = small().to_vec();
    let expected = Truth::of(&sound).total();
    for said in [512u16, 2048, 8192, 1, 0, 77] {
        let mut db = sound.clone();
        db[16..18].copy_from_slice(&said.to_be_bytes());
        assert_eq!(salvaged(db, Vec::new()), expected, "{said}");
    }
    // Nor are bytes that it says are reserved at the end of each page.
    let mut db = sound;
    db[20] = 40;
    assert_eq!(salvaged(db, Vec::new()), expected);
}

#[test]
fn a_cut_costs_what_lies_behind_it() {
    let size = 4096;
    let sound = small().to_vec();
    let truth = Truth::of(&sound);
    for number in (0..=truth.pages).step_by(5) {
        let at = number as usize * size;
        for cut in [at.saturating_sub(1), at, at + 1] {
            let cut = cut.min(sound.len());
            let found = salvaged(sound[..cut].to_vec(), Vec::new());
            let whole = |last: u32| {
                truth.left(|leaf, chain| leaf <= last && chain.iter().all(|p| *p <= last))
            };
            let (least, most) = (whole((cut / size) as u32), whole(cut.div_ceil(size) as u32));
            for (table, n) in &found {
                let least = least.get(table).copied().unwrap_or(0);
                assert!((least..=most[table]).contains(n), "{table} at {cut}: {n}");
            }
        }
    }
}

#[test]
fn a_page_whose_pointers_are_lost_still_gives_its_rows() {
    let sound = small().to_vec();
    let truth = Truth::of(&sound);
    let leaf = truth.rows.iter().find(|r| r.0 == "messages").unwrap().1;
    let mut db = sound;
    let place = page(&mut db, 4096, leaf);
    // It says that it holds no row.
    place[3..5].fill(0);
    assert_eq!(salvaged(db, Vec::new()), truth.total());
}

#[test]
fn loops_and_lies_in_the_pages_of_a_long_row_cost_that_row() {
    let sound = small().to_vec();
    let truth = Truth::of(&sound);
    let (table, _, chain) = truth.rows.iter().max_by_key(|r| r.2.len()).unwrap().clone();
    assert!(table == "messages" && chain.len() > 10);
    let mut expected = truth.total();
    *expected.get_mut(&table).unwrap() -= 1;
    let pages: Vec<u32> = chain.into_iter().collect();
    for next in [pages[5], pages[0], 1, 0, truth.pages + 1, u32::MAX] {
        let mut db = sound.clone();
        let place = page(&mut db, 4096, pages[5]);
        if place[..4] == next.to_be_bytes() {
            continue;
        }
        place[..4].copy_from_slice(&next.to_be_bytes());
        assert_eq!(salvaged(db, Vec::new()), expected, "{next}");
    }
}

/// Without the schema, without a page that leads to another, without the list of free pages: nothing
/// but leaves and the parts of long rows is left, in every page size that there is.
#[test]
fn leaves_alone_give_every_row_in_every_page_size() {
    for shift in 9..=16 {
        let size = 1usize << shift;
        let mut db = sized(small(), size);
        let truth = Truth::of(&db);
        let kept: BTreeSet<u32> = truth
            .rows
            .iter()
            .flat_map(|(_, leaf, chain)| chain.iter().copied().chain([*leaf]))
            .collect();
        let mut dice = Dice(shift);
        let mut lost = 0;
        for number in 1..=truth.pages {
            if !kept.contains(&number) {
                dice.fill(page(&mut db, size, number));
                lost += 1;
            }
        }
        // The pages of indexes are among them; where all rows fit one page, no other leads to it.
        assert!(lost > 2 && !kept.contains(&1), "{size}: {lost}");
        assert_eq!(salvaged(db, Vec::new()), truth.total(), "{size}");
    }
}
