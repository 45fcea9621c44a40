//! R1 to R3: bits, pages and the length of the archive's file.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;

use crate::figures::{Figures, Rng, count};
use crate::lab::{ARCHIVE, Lab, alarmed, copy_tree, count_panics, errors, findings};
use crate::truth::{exported, said};

/// Sizes of pages that the sweeps go over.
const SIZES: [u64; 2] = [4096, 1024];

/// Whether the sweeps take all of the large archive: `scripts/damage-sweep.sh long` does.
fn is_long() -> bool {
    count("CASS_DAMAGE_FLIPS", 0) > 1000
}

/// An archive of pages of this size, and every how many of its pages are damaged.
fn paged(size: u64) -> (Lab, usize) {
    let (lab, step) = match (is_long(), size) {
        (true, _) => (Lab::full(), 1),
        (false, 4096) => (Lab::small(), 1),
        (false, _) => (Lab::small(), 9),
    };
    if size != 4096 {
        lab.with_pages_of(u32::try_from(size).unwrap());
    }
    (lab, step)
}

/// Writes bytes in place.
fn put(lab: &Lab, at: u64, bytes: &[u8]) {
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(lab.db())
        .unwrap();
    file.write_all_at(bytes, at).unwrap();
}

/// What the sweeps over the archive share: one damage is done, judged and undone.
struct Sweep {
    lab: Lab,
    original: Vec<u8>,
    sound: crate::truth::Said,
    figures: Figures,
    /// What was reported, by code.
    codes: BTreeMap<&'static str, u64>,
    /// Damages that nothing was said about: their exports are compared, too.
    silent: Vec<(u64, Vec<u8>)>,
}

impl Sweep {
    fn new(lab: Lab) -> Sweep {
        let original = std::fs::read(lab.db()).unwrap();
        let sound = said(&lab).unwrap();
        Sweep {
            lab,
            original,
            sound,
            figures: Figures::default(),
            codes: BTreeMap::new(),
            silent: Vec::new(),
        }
    }

    fn judge(&mut self, what: impl Fn() -> String) -> bool {
        self.figures.tried += 1;
        let checked = self.lab.check(&ARCHIVE);
        for f in errors(&checked) {
            *self.codes.entry(f.code).or_default() += 1;
        }
        if alarmed(&checked) {
            self.figures.found += 1;
            return true;
        }
        if said(&self.lab) == Some(self.sound.clone()) {
            self.figures.harmless += 1;
        } else {
            self.figures.undetected.push(what());
        }
        false
    }

    fn restore(&self, at: u64, len: usize) {
        let from = usize::try_from(at).unwrap();
        put(&self.lab, at, &self.original[from..from + len]);
    }

    /// A run on the undamaged archive.
    fn sound(&mut self) {
        self.figures.sound_runs += 1;
        let checked = self.lab.check(&ARCHIVE);
        if alarmed(&checked) || checked.results.iter().any(|r| !r.findings.is_empty()) {
            self.figures
                .false_alarms
                .push(format!("{:?}", findings(&checked)));
        }
    }
}

#[test]
fn r1_no_single_bit_flip_changes_the_archive_unnoticed() {
    let flips = count("CASS_DAMAGE_FLIPS", 1000);
    flipped(Lab::full(), 4096, flips);
    let lab = Lab::full();
    lab.with_pages_of(1024);
    flipped(lab, 1024, if is_long() { flips } else { flips / 8 });
}

fn flipped(lab: Lab, size: u64, flips: u64) {
    let panics = count_panics();
    let mut s = Sweep::new(lab);
    let messages: u64 = s.lab.check(&ARCHIVE).facts.archive.messages.unwrap();
    assert!(messages >= 2000, "{messages}");
    assert!(
        !alarmed(&s.lab.check(&[])),
        "{:?}",
        errors(&s.lab.check(&[]))
    );
    let pages = s.original.len() as u64 / size;
    let mut rng = Rng(1);
    for n in 0..flips {
        // In turn, so that many flips reach every page's header.
        let in_turn = (n / 4) % pages;
        let at = match n % 4 {
            // The database's own header.
            0 if n % 32 == 0 => rng.below(100),
            // The header of a page and the first pointers behind it.
            0 => {
                let page = in_turn;
                page * size + if page == 0 { 100 } else { 0 } + rng.below(40)
            }
            _ => rng.below(s.original.len() as u64),
        };
        let bit = rng.below(8);
        let was = s.original[usize::try_from(at).unwrap()];
        let now = [was ^ (1 << bit)];
        put(&s.lab, at, &now);
        if !s.judge(|| format!("flip {n}: bit {bit} of byte {at}"))
            && s.silent.len() < 3
            && at > 100
        {
            s.silent.push((at, now.to_vec()));
        }
        s.restore(at, 1);
        if n % 20 == 0 {
            s.sound();
        }
    }
    // What was called sound exports what the original exports.
    let before = exported(&s.lab);
    assert!(before.len() > 20);
    for (at, bytes) in std::mem::take(&mut s.silent) {
        put(&s.lab, at, &bytes);
        assert!(
            exported(&s.lab) == before,
            "a flip at {at} changed an export"
        );
        s.restore(at, 1);
    }
    println!("damage codes: {:?}", s.codes);
    s.figures.end(&format!(
        "R1 bit flips, {} KiB, {messages} messages, pages of {size}",
        s.original.len() >> 10
    ));
    assert_eq!(panics(), 0);
}

#[test]
fn r1_no_alarm_over_what_is_sound() {
    let runs = count("CASS_DAMAGE_SOUND", 50);
    let full = Lab::full();
    let pending = Lab::pending();
    let elsewhere = full.path().join("copy");
    let mut alarms = Vec::new();
    for n in 0..runs {
        // As it is; copied to another place; with commits in the WAL; the same, copied.
        let (name, lab) = match n % 4 {
            0 => ("as it is", &full),
            1 => {
                // I10: a copied data directory checks clean.
                let _ = std::fs::remove_dir_all(&elsewhere);
                copy_tree(&full.data(), &elsewhere);
                let moved = full.path().join("moved");
                std::fs::rename(full.data(), &moved).unwrap();
                std::fs::rename(&elsewhere, full.data()).unwrap();
                std::fs::rename(&moved, &elsewhere).unwrap();
                ("copied", &full)
            }
            2 => ("with a WAL", &pending),
            _ => {
                let copy = pending.path().join("copy");
                let _ = std::fs::remove_dir_all(&copy);
                copy_tree(&pending.data(), &copy);
                std::fs::remove_dir_all(pending.data()).unwrap();
                std::fs::rename(&copy, pending.data()).unwrap();
                ("with a WAL, copied", &pending)
            }
        };
        let checked = lab.check(&[]);
        let unsure = checked.results.iter().any(|r| {
            matches!(
                r.outcome,
                cass::model::finding::CheckOutcome::Unknown { .. }
            )
        });
        let warned = findings(&checked)
            .iter()
            .any(|f| f.severity > cass::model::finding::Severity::Info);
        if alarmed(&checked) || warned || unsure {
            alarms.push(format!("{name}: {:?}", findings(&checked)));
        }
    }
    println!(
        "damage | R1 undamaged: as is, copied, WAL pending, WAL copied | 0 | 0 | 0 | 0 | {runs} | {} |",
        alarms.len()
    );
    assert!(alarms.is_empty(), "{:#?}", alarms.first());
}

#[test]
fn r2_no_lost_noisy_stale_or_swapped_page_goes_unnoticed() {
    SIZES.into_iter().for_each(spoiled);
}

fn spoiled(size: u64) {
    let panics = count_panics();
    let (lab, step) = paged(size);
    let mut s = Sweep::new(lab);
    let page = usize::try_from(size).unwrap();
    let pages = s.original.len() / page;
    let mut rng = Rng(2);
    let all = s.original.clone();
    let of = |n: usize| &all[n * page..(n + 1) * page];
    for n in (0..pages).step_by(step) {
        let other = (n + 1 + usize::try_from(rng.below(pages as u64 - 1)).unwrap()) % pages;
        let noise: Vec<u8> = (0..page).map(|_| rng.next().to_le_bytes()[0]).collect();
        for (how, bytes) in [
            ("zeroed", &vec![0; page][..]),
            ("noise", &noise[..]),
            ("a copy of another", of(other)),
        ] {
            put(&s.lab, n as u64 * size, bytes);
            s.judge(|| format!("page {n}: {how} ({other})"));
            s.restore(n as u64 * size, page);
        }
        put(&s.lab, n as u64 * size, of(other));
        put(&s.lab, other as u64 * size, of(n));
        s.judge(|| format!("pages {n} and {other} swapped"));
        s.restore(n as u64 * size, page);
        s.restore(other as u64 * size, page);
        if n % 10 == 0 {
            s.sound();
        }
    }
    println!("damage codes: {:?}", s.codes);
    s.figures.end(&format!(
        "R2 pages zeroed, noise, copied, swapped; {pages} pages of {size}"
    ));
    assert_eq!(panics(), 0);
}

#[test]
fn r3_no_cut_goes_unnoticed() {
    SIZES.into_iter().for_each(cut_off);
}

fn cut_off(size: u64) {
    let panics = count_panics();
    let (lab, step) = paged(size);
    let mut s = Sweep::new(lab);
    let len = s.original.len() as u64;
    let mut lengths = vec![0, 1, 15, 16, 99, 100, 101, 511, 512];
    for page in (1..=len / size).step_by(step) {
        lengths.extend([page * size - 1, page * size, page * size + 1]);
    }
    for cut in lengths {
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(s.lab.db())
            .unwrap();
        file.set_len(cut).unwrap();
        drop(file);
        s.judge(|| format!("{cut} bytes of {len}"));
        std::fs::write(s.lab.db(), &s.original).unwrap();
    }
    s.sound();
    println!("damage codes: {:?}", s.codes);
    s.figures.end(&format!(
        "R3 cut at every page boundary, and one byte off; pages of {size}"
    ));
    assert_eq!(panics(), 0);
}

/// The binary says the same as the library, with the exit that belongs to it.
#[test]
fn the_binary_names_the_table_and_counts_its_rows() {
    let lab = Lab::full();
    let calm = lab.run(&["doctor", "check", "--deep"]).expect(0);
    assert_eq!(
        calm.text("/source_authority/authority_level"),
        "verified-archive"
    );
    assert_eq!(calm.text("/raw_mirror/status"), "ok");
    assert_eq!(calm.text("/coverage_risk/status"), "ok");

    // The text of one message, changed where it lies: no structure is touched.
    let bytes = std::fs::read(lab.db()).unwrap();
    let needle = b"every row holds";
    let places: Vec<usize> = (0..bytes.len() - needle.len())
        .filter(|i| bytes[*i..].starts_with(needle))
        .collect();
    assert!(!places.is_empty());
    for at in places.iter().take(3) {
        put(&lab, *at as u64, b"EVERY");
    }
    let ran = lab.run(&["doctor", "check", "--deep"]).expect(1);
    assert_eq!(ran.text("/status"), "error");
    assert_eq!(ran.text("/risk_level"), "high");
    let found = ran.json["findings"].as_array().unwrap();
    let row = found.iter().find(|f| f["code"] == "row-damaged").unwrap();
    assert_eq!(row["subject"], "messages");
    assert!(row["count"].as_u64().unwrap() >= 1);
    assert_ne!(
        ran.text("/source_authority/authority_level"),
        "verified-archive"
    );
    assert_ne!(ran.text("/coverage_risk/status"), "ok");
    assert_eq!(ran.text("/raw_mirror/status"), "ok");
}
