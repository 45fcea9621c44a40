//! R4: the write-ahead log. What is left of it is always a committed prefix, and every commit that
//! is gone is reported.

use std::collections::BTreeMap;

use crate::figures::{Figures, Rng, count};
use crate::lab::{ARCHIVE, Lab, alarmed, count_panics, errors, findings, has};
use crate::truth::{Said, said};

const HEADER: usize = 32;
const FRAME: usize = 24 + 4096;

struct Sweep {
    lab: Lab,
    wal: Vec<u8>,
    db: Vec<u8>,
    /// What the archive says at each commit, as plain SQLite reads it from undamaged prefixes.
    at: BTreeMap<i64, Said>,
    last: i64,
    figures: Figures,
    lost: u64,
}

impl Sweep {
    fn new() -> Sweep {
        let lab = Lab::pending();
        let wal = std::fs::read(lab.wal()).unwrap();
        let db = std::fs::read(lab.db()).unwrap();
        let whole = said(&lab).unwrap();
        let mut at = BTreeMap::new();
        for frames in 0..=(wal.len() - HEADER) / FRAME {
            std::fs::write(lab.wal(), &wal[..HEADER + frames * FRAME]).unwrap();
            let now = said(&lab).unwrap();
            let known = at.entry(now.commit).or_insert_with(|| now.clone());
            assert_eq!(*known, now, "{frames} frames: not a committed prefix");
        }
        std::fs::write(lab.wal(), &wal).unwrap();
        assert_eq!(at.get(&whole.commit), Some(&whole));
        assert!(at.len() > 5, "{} commits in the WAL", at.len());
        Sweep {
            lab,
            wal,
            db,
            at,
            last: whole.commit,
            figures: Figures::default(),
            lost: 0,
        }
    }

    /// One damage to the WAL is there: what plain SQLite makes of it decides what must be said.
    fn judge(&mut self, what: &str) {
        self.figures.tried += 1;
        let truth = said(&self.lab);
        let checked = self.lab.check(&ARCHIVE);
        let alarm = alarmed(&checked);
        match &truth {
            Some(now) if now.commit == self.last && self.at.get(&now.commit) == Some(now) => {
                // All is there, so nothing is lost.
                if alarm {
                    self.figures
                        .false_alarms
                        .push(format!("{what}: {:?}", errors(&checked)));
                } else {
                    self.figures.harmless += 1;
                }
                return;
            }
            Some(now) => {
                let prefix = self.at.get(&now.commit) == Some(now);
                if prefix && !has(&checked, "lost-commits") {
                    self.figures
                        .undetected
                        .push(format!("{what}: at commit {}", now.commit));
                    return;
                }
                if prefix && checked.facts.archive.commit != u64::try_from(now.commit).ok() {
                    self.figures
                        .undetected
                        .push(format!("{what}: another commit than SQLite's"));
                    return;
                }
                self.lost += u64::from(prefix);
            }
            None => {}
        }
        if alarm {
            self.figures.found += 1;
        } else {
            self.figures.undetected.push(what.to_owned());
        }
    }

    fn with(&mut self, what: &str, wal: &[u8]) {
        std::fs::write(self.lab.wal(), wal).unwrap();
        self.judge(what);
        std::fs::write(self.lab.wal(), &self.wal).unwrap();
    }
}

#[test]
fn r4_a_cut_log_is_a_committed_prefix_and_lost_commits_are_told() {
    let panics = count_panics();
    let mut s = Sweep::new();
    let wal = s.wal.clone();
    let mut lengths = vec![1, 31, 32, 33];
    for frame in 0..=(wal.len() - HEADER) / FRAME {
        let at = HEADER + frame * FRAME;
        for off in [0usize, 1, 23, 24, 25, 2000] {
            lengths.extend([at.saturating_sub(off), at + off]);
        }
    }
    lengths.sort_unstable();
    lengths.dedup();
    for len in lengths {
        if len < wal.len() {
            s.with(&format!("{len} bytes of {}", wal.len()), &wal[..len]);
        }
    }
    s.with("empty", b"");
    std::fs::remove_file(s.lab.wal()).unwrap();
    s.judge("missing");
    std::fs::write(s.lab.wal(), &wal).unwrap();
    println!(
        "damage: {} times a prefix of the commits, each time told",
        s.lost
    );
    s.figures.end("R4 WAL cut at every frame, and bytes off");
    assert!(s.lost > 0);
    assert_eq!(panics(), 0);
}

#[test]
fn r4_flips_and_foreign_logs_never_pass_for_what_was_committed() {
    let panics = count_panics();
    let flips = count("CASS_DAMAGE_WAL_FLIPS", 400);
    let mut s = Sweep::new();
    let wal = s.wal.clone();
    let mut rng = Rng(4);
    for n in 0..flips {
        let mut bytes = wal.clone();
        // Every eighth in a header of the log or of a frame.
        let at = if n % 8 == 0 {
            let frame = usize::try_from(rng.below(((wal.len() - HEADER) / FRAME) as u64)).unwrap();
            let off = usize::try_from(rng.below(56)).unwrap();
            if frame == 0 {
                off
            } else {
                HEADER + frame * FRAME + off % 24
            }
        } else {
            usize::try_from(rng.below(wal.len() as u64)).unwrap()
        };
        let bit = rng.below(8);
        bytes[at] ^= 1 << bit;
        s.with(&format!("flip {n}: bit {bit} of byte {at}"), &bytes);
    }
    // The log of another archive, whose checksums are right in themselves.
    let other = Lab::own();
    for i in 0..3 {
        let (path, text) = crate::sessions::claude(300 + i, 4);
        other.put(&path, text.as_bytes());
    }
    {
        let root = cass::disk::Root::open(&other.data()).unwrap().unwrap();
        let _reader = cass::disk::ArchiveShared::acquire(&root, std::time::Duration::ZERO).unwrap();
        other.index(false);
    }
    let foreign = std::fs::read(other.wal()).unwrap();
    assert!(foreign.len() > FRAME);
    s.with("the log of another archive", &foreign);
    // And beside the archive after everything was folded in.
    println!(
        "damage: {} times a prefix of the commits, each time told",
        s.lost
    );
    s.figures.end("R4 WAL flips, WAL of another archive");
    assert_eq!(
        std::fs::read(s.lab.db()).unwrap(),
        s.db,
        "the archive itself was touched"
    );
    assert_eq!(panics(), 0);
}

#[test]
fn r4_the_shared_memory_file_means_nothing() {
    let lab = Lab::pending();
    let whole = said(&lab).unwrap();
    let shm = lab.db().with_extension("db-shm");
    for (how, bytes) in [
        ("missing", None),
        ("empty", Some(vec![])),
        ("zero", Some(vec![0; 32768])),
        ("noise", Some(vec![0xa7; 32768])),
    ] {
        let _ = std::fs::remove_file(&shm);
        if let Some(bytes) = &bytes {
            std::fs::write(&shm, bytes).unwrap();
        }
        let checked = lab.check(&[]);
        assert!(!alarmed(&checked), "{how}: {:?}", findings(&checked));
        assert!(has(&checked, "wal-pending"), "{how}");
        assert_eq!(
            checked.facts.archive.commit,
            u64::try_from(whole.commit).ok(),
            "{how}"
        );
        assert_eq!(
            std::fs::read(&shm).ok(),
            bytes,
            "{how}: reading left a trace"
        );
    }
    // The next index goes on from there and loses nothing.
    lab.index(false);
    let checked = lab.check(&[]);
    assert!(!alarmed(&checked), "{:?}", findings(&checked));
    assert_eq!(said(&lab).unwrap().commit, whole.commit);
}

#[test]
fn r4_nothing_is_committed_on_top_of_lost_commits() {
    let lab = Lab::pending();
    let whole = said(&lab).unwrap();
    let wal = std::fs::read(lab.wal()).unwrap();
    std::fs::write(lab.wal(), &wal[..HEADER + FRAME]).unwrap();
    let ran = lab.run(&["doctor", "check"]).expect(1);
    assert!(ran.errors().contains(&"lost-commits"), "{}", ran.json);
    assert_ne!(
        ran.text("/source_authority/authority_level"),
        "verified-archive"
    );
    assert_ne!(ran.text("/coverage_risk/status"), "ok");
    let refused = lab.run(&["index"]);
    assert_eq!(refused.code, 1, "{}", refused.json);
    let left = said(&lab).unwrap();
    assert!(left.commit < whole.commit);
    // What the log held comes back with it: nothing was written over.
    std::fs::write(lab.wal(), &wal).unwrap();
    assert_eq!(said(&lab).unwrap(), whole);
    lab.run(&["doctor", "check", "--deep"]).expect(0);
}
