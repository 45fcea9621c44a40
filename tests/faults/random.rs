//! R8 for what goes through the plan engine: an apply is killed at a moment that is drawn, where R7
//! names the call. Which moment a seed hits depends on the machine; what must hold does not.
//!
//! `CASS_PLAN=long` kills 500 times; `CASS_FAULTS_SEED=N` draws one moment again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::shelf::Shelf;
use super::works::plans;

/// Draws a part of 1,000 (splitmix64).
fn part(seed: u64) -> u32 {
    let mut z = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    u32::try_from((z ^ (z >> 31)) % 1000).expect("below 1,000")
}

#[test]
fn a_plan_killed_at_random_moments() {
    let one = std::env::var("CASS_FAULTS_SEED")
        .ok()
        .and_then(|s| s.parse::<u64>().ok());
    let long = std::env::var_os("CASS_PLAN").is_some_and(|v| v == "long");
    let seeds: Vec<u64> = match one {
        Some(seed) => vec![seed],
        None => (0..if long { 500 } else { 20 }).collect(),
    };
    let (shelf, plans) = (Shelf::shared(), plans());
    let ended = AtomicUsize::new(0);
    let wrong: Vec<String> = (0..plans.len())
        .into_par_iter()
        .flat_map_iter(|n| {
            let of_plan = |seed: &&u64| **seed % plans.len() as u64 == n as u64;
            let mine: Vec<u64> = seeds.iter().filter(of_plan).copied().collect();
            let mut wrong = Vec::new();
            if mine.is_empty() {
                return wrong;
            }
            let bench = shelf.take(plans[n]);
            let whole = bench.undisturbed();
            for seed in mine {
                let mut delay = whole * part(seed) / 1000;
                let what = format!("CASS_FAULTS_SEED={seed}: {:?}", plans[n]);
                let went = catch_unwind(AssertUnwindSafe(|| {
                    // One that was done before is killed earlier the next time.
                    while !bench.killed_after(delay, &format!("{what}, killed after {delay:?}")) {
                        ended.fetch_add(1, Ordering::Relaxed);
                        delay = delay * 2 / 3;
                    }
                }));
                if went.is_err() {
                    wrong.push(format!("{what}, killed after {delay:?}"));
                }
            }
            wrong
        })
        .collect();
    let (all, ended) = (seeds.len(), ended.into_inner());
    println!(
        "torture | R8 plans killed at random ({ended} ended before) | {all} | {} | {} |",
        all - wrong.len(),
        wrong.len()
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
}
