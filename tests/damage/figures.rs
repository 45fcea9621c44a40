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

/// Does `f` for every number below `n`, on as many threads as there are cores. Not on the pool that
/// the product uses: a thread of it that waits takes up other work, and this work waits for locks.
pub fn spread<T: Send>(n: usize, f: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        let work = || {
            let mut mine = Vec::new();
            loop {
                let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                if at >= n {
                    return mine;
                }
                mine.push(f(at));
            }
        };
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        all.into_iter().flat_map(|t| t.join().unwrap()).collect()
    })
}
