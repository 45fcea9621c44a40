//! What the sweeps count, as lines of a table; `scripts/damage-sweep.sh` gathers them.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// One row of the table.
#[derive(Default)]
pub struct Figures {
    /// Damages done.
    pub tried: u64,
    /// Reported.
    pub found: u64,
    /// Not reported, and nothing had changed.
    pub harmless: u64,
    /// Not reported although something had changed; empty when all is well.
    pub undetected: Vec<String>,
    /// Alarms over an undamaged state.
    pub false_alarms: Vec<String>,
    /// Undamaged runs.
    pub sound_runs: u64,
}

impl Figures {
    /// Prints the row, then fails if there is anything to fail for.
    #[track_caller]
    pub fn end(&self, what: &str) {
        let mut row = String::new();
        let _ = write!(
            row,
            "damage | {what} | {} | {} | {} | {} | {} | {} |",
            self.tried,
            self.found,
            self.harmless,
            self.undetected.len(),
            self.sound_runs,
            self.false_alarms.len(),
        );
        println!(
            "damage | what | damages | found | changed nothing | undetected | sound runs | false alarms |"
        );
        println!("{row}");
        let some = |all: &[String]| all.iter().take(10).cloned().collect::<BTreeSet<_>>();
        assert!(
            self.undetected.is_empty(),
            "{what}: undetected: {:#?}",
            some(&self.undetected)
        );
        assert!(
            self.false_alarms.is_empty(),
            "{what}: false alarms: {:#?}",
            some(&self.false_alarms)
        );
        assert!(self.found > 0, "{what}: nothing was found at all");
    }
}

/// How many, unless the environment variable says otherwise.
pub fn count(variable: &str, usual: u64) -> u64 {
    std::env::var(variable)
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(usual)
}

/// Numbers that look random and are the same in every run.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }
}
