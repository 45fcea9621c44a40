//! R1 to R5 and R22, repaired: with the mirror everything comes back, without it everything that is
//! physically left, and a second repair finds nothing to do.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::FileExt;
use std::path::Path;

use cass::disk::Root;
use cass::doctor::repair::RepairPlanner;
use cass::error::Result;
use cass::ingest::index::{Ask, index};
use cass::model::interrupt::Interrupt;
use cass::model::progress::Silent;
use cass::model::watch::Watch;
use cass::plan::{Approval, Ended, Plan, apply, plan};
use cass::report::export::ExportMessage;
use cass::store::archive::{ArchiveReader, Listing};

use crate::figures::{Rng, count};
use crate::lab::{ARCHIVE, Lab, alarmed, copy_tree, count_panics, errors};
use crate::physical::{Key, Physical};

/// Every message that people get, as the export writes it.
pub fn exported(lab: &Lab) -> Result<BTreeMap<Key, String>> {
    let mut all = BTreeMap::new();
    let Some(root) = Root::open(&lab.data())? else {
        return Ok(all);
    };
    let Some(archive) = ArchiveReader::open(&root)? else {
        return Ok(all);
    };
    let mut ids = Vec::new();
    archive.conversations(&Listing::default(), &mut |c| {
        ids.push(c.id);
        Ok(())
    })?;
    for id in ids {
        archive.messages(&id, &mut |message| {
            let message = ExportMessage::from(message);
            let text = serde_json::to_string(&message).unwrap();
            all.insert((id.clone(), message.id), text);
            Ok(())
        })?;
    }
    Ok(all)
}

/// What a message says, without where it was read from and whether another took its place: rows
/// that are lost may have said that.
pub fn said(line: &str) -> String {
    let mut value: serde_json::Value = serde_json::from_str(line).unwrap();
    for key in ["locator", "superseded", "native_id", "native_parent"] {
        value.as_object_mut().unwrap().remove(key);
    }
    value.to_string()
}

/// What a message says, and nothing of where: as its row says it.
fn content(line: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(line).unwrap();
    let keys = ["role", "kind", "text", "tool_name", "call_id", "model"];
    let parts: Vec<&serde_json::Value> = keys.iter().map(|key| &value[*key]).collect();
    format!("{parts:?} {}", value["is_error"])
}

/// What is wrong with what came back of the messages of `before`, given which were left with all
/// that says where they belong, and which with their own row alone.
pub fn judged(
    before: &BTreeMap<Key, String>,
    after: &BTreeMap<Key, String>,
    placed: &BTreeSet<Key>,
    rows: &BTreeSet<Key>,
) -> Option<String> {
    if let Some(gone) = placed.iter().find(|k| !after.contains_key(*k)) {
        let n = placed.iter().filter(|k| !after.contains_key(*k)).count();
        return Some(format!("{n} of {} are missing, {gone:?}", placed.len()));
    }
    let (mut had, mut left, mut have) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for (key, line) in before {
        *had.entry(content(line)).or_insert(0u64) += 1;
        *left.entry(content(line)).or_insert(0u64) += u64::from(rows.contains(key));
    }
    for (key, line) in after {
        *have.entry(content(line)).or_insert(0u64) += 1;
        match before.get(key) {
            Some(b) if said(b) != said(line) => return Some(format!("{key:?} says {line}")),
            Some(_) => {}
            // Its conversation or its record is made up.
            None => {}
        }
    }
    let of = |all: &BTreeMap<String, u64>, key: &String| all.get(key).copied().unwrap_or(0);
    let gone: Vec<&String> = left
        .iter()
        .filter(|(key, n)| of(&have, key) < **n)
        .map(|(key, _)| key)
        .collect();
    if let Some(first) = gone.first() {
        return Some(format!(
            "{} of {} rows did not come back: {first}",
            gone.len(),
            rows.len()
        ));
    }
    let odd = have.iter().find(|(key, n)| of(&had, key) < **n);
    odd.map(|(key, n)| format!("{n} times: {key}"))
}

pub fn planned(lab: &Lab, planner: &RepairPlanner) -> Result<Plan> {
    let interrupt = Interrupt::new();
    let watch = Watch {
        progress: &Silent,
        interrupt: &interrupt,
    };
    plan(&lab.env(), planner, watch)
}

/// Applies the plan by its fingerprint.
pub fn approved(
    lab: &Lab,
    planner: &RepairPlanner,
    plan: &Plan,
) -> std::result::Result<(), String> {
    let interrupt = Interrupt::new();
    let watch = Watch {
        progress: &Silent,
        interrupt: &interrupt,
    };
    let approval = Approval::Shown {
        fingerprint: plan.fingerprint().clone(),
        covered: None,
    };
    match apply(&lab.env(), planner, &approval, watch) {
        Ok(done) => match done.ended {
            Ended::Applied { .. } | Ended::NoOp | Ended::AlreadyApplied { .. } => Ok(()),
            Ended::Failed { error, .. } => Err(format!("failed: {error}")),
        },
        Err(e) => Err(format!("refused: {e}")),
    }
}

/// Without a search index, which no repair needs.
fn indexed(lab: &Lab) {
    let interrupt = Interrupt::new();
    let watch = Watch {
        progress: &Silent,
        interrupt: &interrupt,
    };
    let ask = Ask {
        full: false,
        lexical: false,
    };
    let _ = index(&lab.env(), ask, &|_| panic!("it is of this schema"), watch);
}

/// One row of the table of repairs.
#[derive(Default)]
pub struct Repairs {
    pub damages: u64,
    pub repaired: u64,
    pub harmless: u64,
    pub not_back: Vec<String>,
    pub not_once: Vec<String>,
    /// Plans that are refused because nothing is left to be repaired from.
    pub blocked: u64,
    /// Messages that had to come back and did.
    pub messages: u64,
}

impl Repairs {
    /// Plans once more: there must be nothing to do.
    fn again(&mut self, lab: &Lab, planner: &RepairPlanner, what: &str) {
        match planned(lab, planner) {
            Ok(plan) if plan.is_empty() => {}
            Ok(plan) => self
                .not_once
                .push(format!("{what}: {:?}", plan.body().actions)),
            Err(e) => self.not_once.push(format!("{what}: {e}")),
        }
    }

    #[track_caller]
    pub fn end(&self, what: &str) {
        println!(
            "repairs | what | damages | repaired | changed nothing | refused: nothing is left | messages to come back | not all came back | second repair does anything |"
        );
        println!(
            "repairs | {what} | {} | {} | {} | {} | {} | {} | {} |",
            self.damages,
            self.repaired,
            self.harmless,
            self.blocked,
            self.messages,
            self.not_back.len(),
            self.not_once.len()
        );
        let some = |all: &[String]| all.iter().take(8).cloned().collect::<Vec<_>>();
        assert!(
            self.not_back.is_empty(),
            "{what}: {:#?}",
            some(&self.not_back)
        );
        assert!(
            self.not_once.is_empty(),
            "{what}: {:#?}",
            some(&self.not_once)
        );
        assert!(self.repaired > 0, "{what}");
    }
}

/// Files by their paths in the data directory; `None` for one that is taken away.
pub type Files = Vec<(String, Option<Vec<u8>>)>;

/// Every damage of the sweeps, as bytes of files.
pub fn damages(lab: &Lab, each: u64, rng: &mut Rng) -> Vec<(String, Files)> {
    const DB: &str = "generations/g00000001/agent_search.db";
    let whole = std::fs::read(lab.db()).unwrap();
    let size = match u16::from_be_bytes([whole[16], whole[17]]) {
        1 => 65536,
        n => usize::from(n),
    };
    let pages = whole.len() / size;
    let mut out: Vec<(String, Files)> = Vec::new();
    let mut db = |what: String, bytes: Vec<u8>| {
        out.push((what, vec![(DB.to_owned(), Some(bytes))]));
    };
    let some = |rng: &mut Rng, n: usize| usize::try_from(rng.below(n as u64)).unwrap();
    for n in 0..each * 2 {
        let mut bytes = whole.clone();
        let at = if n % 2 == 0 {
            some(rng, pages) * size + some(rng, 40)
        } else {
            some(rng, whole.len())
        };
        bytes[at] ^= 1 << rng.below(8);
        db(format!("bit of byte {at}"), bytes);
    }
    for n in 0..each {
        // The first page is always among them.
        let page = if n == 0 { 0 } else { some(rng, pages) };
        let other = (page + 1 + some(rng, pages - 1)) % pages;
        let range = page * size..(page + 1) * size;
        let of_other = whole[other * size..(other + 1) * size].to_vec();
        let mut bytes = whole.clone();
        bytes[range.clone()].fill(0);
        db(format!("page {page} zeroed"), bytes);
        let mut bytes = whole.clone();
        bytes[range.clone()]
            .iter_mut()
            .for_each(|b| *b = rng.next().to_le_bytes()[0]);
        db(format!("page {page} noise"), bytes);
        let mut bytes = whole.clone();
        bytes[range.clone()].copy_from_slice(&of_other);
        db(format!("page {page} a copy of {other}"), bytes);
        let mut bytes = whole.clone();
        bytes[other * size..(other + 1) * size].copy_from_slice(&whole[range.clone()]);
        bytes[range].copy_from_slice(&of_other);
        db(format!("pages {page} and {other} swapped"), bytes);
        let cut = (some(rng, pages) * size + some(rng, 3)).saturating_sub(1);
        db(format!("cut at {cut}"), whole[..cut].to_vec());
    }
    for percent in [5, 25, 50] {
        let mut bytes = whole.clone();
        for page in 0..pages {
            if rng.below(100) < percent {
                let range = page * size..(page + 1) * size;
                bytes[range]
                    .iter_mut()
                    .for_each(|b| *b = rng.next().to_le_bytes()[0]);
            }
        }
        db(format!("{percent} % of the pages noise"), bytes);
    }
    let noise = |rng: &mut Rng, n: usize| -> Vec<u8> {
        (0..n).map(|_| rng.next().to_le_bytes()[0]).collect()
    };
    let mut files = |what: &str, all: Vec<(&str, Option<Vec<u8>>)>| {
        let all = all
            .into_iter()
            .map(|(rel, b)| (rel.to_owned(), b))
            .collect();
        out.push((what.to_owned(), all));
    };
    let wal = format!("{DB}-wal");
    let shm = format!("{DB}-shm");
    files("no database", vec![(DB, None)]);
    files("an empty database", vec![(DB, Some(Vec::new()))]);
    files("a foreign WAL", vec![(&wal, Some(noise(rng, 9000)))]);
    files("a foreign shm", vec![(&shm, Some(noise(rng, 32768)))]);
    for rel in [
        "CURRENT",
        "generations/g00000001/manifest.json",
        "coverage.jsonl",
        "raw-mirror/index/mirror.db",
    ] {
        let bytes = std::fs::read(lab.file(rel)).unwrap();
        files(&format!("no {rel}"), vec![(rel, None)]);
        files(&format!("an empty {rel}"), vec![(rel, Some(Vec::new()))]);
        for _ in 0..each.min(20) {
            let at = some(rng, bytes.len());
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << rng.below(8);
            files(
                &format!("bit of byte {at} of {rel}"),
                vec![(rel, Some(flipped))],
            );
            let cut = some(rng, bytes.len());
            files(
                &format!("{rel} cut at {cut}"),
                vec![(rel, Some(bytes[..cut].to_vec()))],
            );
        }
    }
    let mut torn = whole.clone();
    torn[size..3 * size].fill(0);
    files(
        "two pages, CURRENT and the mirror's index",
        vec![
            (DB, Some(torn.clone())),
            ("CURRENT", None),
            ("raw-mirror/index/mirror.db", Some(noise(rng, 5000))),
        ],
    );
    files(
        "two pages and the coverage ledger",
        vec![(DB, Some(torn)), ("coverage.jsonl", None)],
    );
    out
}

pub fn do_damage(lab: &Lab, files: &[(String, Option<Vec<u8>>)]) {
    for (rel, bytes) in files {
        match bytes {
            Some(bytes) => std::fs::write(lab.file(rel), bytes).unwrap(),
            None => std::fs::remove_file(lab.file(rel)).unwrap(),
        }
    }
}

pub fn put_back(lab: &Lab, original: &Path) {
    std::fs::remove_dir_all(lab.data()).unwrap();
    copy_tree(original, &lab.data());
}

#[test]
fn with_the_mirror_everything_comes_back() {
    let panics = count_panics();
    let each = count("CASS_DAMAGE_REPAIRS", 1);
    for size in [4096, 1024] {
        let lab = Lab::mixed(size);
        let original = lab.path().join("original");
        copy_tree(&lab.data(), &original);
        assert!(!alarmed(&lab.check(&[])), "{:?}", errors(&lab.check(&[])));
        let before = exported(&lab).unwrap();
        let providers: BTreeSet<&str> = before
            .values()
            .filter_map(|m| m.split("\"source\":\"").nth(1)?.get(..8))
            .collect();
        assert!(
            before.len() > 400 && providers.len() > 12,
            "{}",
            before.len()
        );
        let mut row = Repairs::default();
        let planner = RepairPlanner::default();
        for (what, files) in damages(&lab, each, &mut Rng(u64::from(size))) {
            do_damage(&lab, &files);
            row.damages += 1;
            let found = alarmed(&lab.check(&[]));
            let mut say = |why: String| row.not_back.push(format!("{size}: {what}: {why}"));
            match planned(&lab, &planner) {
                Ok(first) if first.is_empty() && !found => {
                    // What a crash leaves is put right by the next index.
                    indexed(&lab);
                    row.harmless += 1;
                }
                // Sound, but for a ledger that the next index writes anew: the check says so.
                Ok(first) if first.is_empty() => {
                    indexed(&lab);
                    row.repaired += 1;
                }
                Ok(first) => match approved(&lab, &planner, &first) {
                    Ok(()) => row.repaired += 1,
                    Err(e) => say(e),
                },
                Err(e) => say(format!("no plan: {e}")),
            }
            let mut say = |why: String| row.not_back.push(format!("{size}: {what}: {why}"));
            match exported(&lab) {
                Ok(after) if after == before => row.messages += after.len() as u64,
                Ok(after) => say(format!("{} of {} messages", after.len(), before.len())),
                Err(e) => say(format!("not readable: {e}")),
            }
            let checked = lab.check(&[]);
            if alarmed(&checked) {
                say(format!("{:?}", errors(&checked)));
            }
            row.again(&lab, &planner, &what);
            put_back(&lab, &original);
        }
        row.end(&format!("mirror intact, pages of {size} bytes"));
    }
    assert_eq!(panics(), 0);
}

/// Which pages of the file a damage changed; all behind a cut.
pub fn changed(before: &[u8], after: &[u8], size: usize) -> BTreeSet<u32> {
    let page = |bytes: &[u8], n: usize| -> Option<Vec<u8>> {
        bytes.get(n * size..(n + 1) * size).map(<[u8]>::to_vec)
    };
    (0..before.len() / size)
        .filter(|n| page(before, *n) != page(after, *n))
        .map(|n| u32::try_from(n + 1).unwrap())
        .collect()
}

#[test]
fn without_the_mirror_whatever_is_physically_left_comes_back() {
    let panics = count_panics();
    let each = count("CASS_DAMAGE_REPAIRS", 1);
    for size in [4096, 1024] {
        let lab = Lab::mixed_pruned(size);
        std::fs::remove_dir_all(lab.file("raw-mirror/packs")).unwrap();
        let original = lab.path().join("original");
        copy_tree(&lab.data(), &original);
        let before = exported(&lab).unwrap();
        let whole = std::fs::read(lab.db()).unwrap();
        let physical = Physical::of(&lab.db());
        assert_eq!(
            physical.without(&BTreeSet::new()),
            before.keys().cloned().collect()
        );
        put_back(&lab, &original);
        let mut row = Repairs::default();
        let planner = RepairPlanner::default();
        let mut rng = Rng(99 + u64::from(size));
        for (what, files) in damages(&lab, each, &mut rng) {
            let [(rel, Some(bytes))] = &files[..] else {
                continue;
            };
            if !rel.ends_with(".db") || rel.contains("mirror") || bytes.is_empty() {
                continue;
            }
            let lost = changed(&whole, bytes, size as usize);
            let expected = physical.without(&lost);
            let rows = physical.rows_without(&lost);
            do_damage(&lab, &files);
            row.damages += 1;
            let mut say = |why: String| row.not_back.push(format!("{size}: {what}: {why}"));
            match planned(&lab, &planner) {
                // Nothing is left: told, and nothing is changed.
                Ok(first) if first.blocked().is_some() => {
                    row.blocked += 1;
                    if !rows.is_empty() {
                        say(format!("blocked, and {} are left", rows.len()));
                    }
                    put_back(&lab, &original);
                    continue;
                }
                Ok(first) if first.is_empty() => row.harmless += 1,
                Ok(first) => match approved(&lab, &planner, &first) {
                    Ok(()) => row.repaired += 1,
                    Err(e) => {
                        say(format!("{e}; {} left", expected.len()));
                        put_back(&lab, &original);
                        continue;
                    }
                },
                Err(e) => {
                    say(format!("no plan: {e}"));
                    put_back(&lab, &original);
                    continue;
                }
            }
            let after = match exported(&lab) {
                Ok(after) => after,
                Err(e) => {
                    say(format!("not readable: {e}"));
                    put_back(&lab, &original);
                    continue;
                }
            };
            if let Some(why) = judged(&before, &after, &expected, &rows) {
                say(format!("{why}; {} came", after.len()));
            }
            row.messages += rows.len() as u64;
            let checked = lab.check(&ARCHIVE);
            if alarmed(&checked) {
                say(format!("{:?}", errors(&checked)));
            }
            row.again(&lab, &planner, &what);
            put_back(&lab, &original);
        }
        row.end(&format!("no packs of the mirror, pages of {size} bytes"));
    }
    assert_eq!(panics(), 0);
}

/// Receipts, intents, failure contexts, events and the seal of the archive that was replaced:
/// damaging them neither hides damage nor makes any, and what they say is not believed.
#[test]
fn damaged_records_of_runs_never_harm_the_archive() {
    let panics = count_panics();
    let rounds = count("CASS_DAMAGE_RECORDS", 1);
    let lab = Lab::small();
    let planner = RepairPlanner::default();
    let before = exported(&lab).unwrap();
    let whole = std::fs::read(lab.db()).unwrap();
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(lab.db())
        .unwrap();
    file.write_all_at(&[0; 4096], 4096).unwrap();
    drop(file);
    approved(&lab, &planner, &planned(&lab, &planner).unwrap()).unwrap();
    assert_eq!(exported(&lab).unwrap(), before);
    assert!(whole.len() > 4096);
    let original = lab.path().join("original");
    copy_tree(&lab.data(), &original);
    let mut records: Vec<String> = walkdir::WalkDir::new(lab.file("doctor"))
        .into_iter()
        .chain(walkdir::WalkDir::new(lab.file("generations/g00000001")))
        .filter_map(std::result::Result::ok)
        .filter(|e| e.file_type().is_file() && e.metadata().unwrap().len() > 0)
        .map(|e| {
            e.path()
                .strip_prefix(lab.data())
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        })
        .filter(|rel| !rel.ends_with("-shm") && !rel.ends_with("-wal"))
        .collect();
    records.sort();
    assert!(
        records.iter().any(|r| r.contains("receipts")),
        "{records:?}"
    );
    let mut rng = Rng(77);
    let (mut done, mut told, mut wrong) = (0u64, 0u64, Vec::new());
    for _ in 0..rounds {
        for rel in &records {
            for how in ["flip", "cut", "empty", "delete", "one more byte"] {
                let path = lab.file(rel);
                let mut bytes = std::fs::read(&path).unwrap();
                let at = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
                match how {
                    "flip" => bytes[at] ^= 1 << rng.below(8),
                    "cut" => bytes.truncate(at),
                    "empty" => bytes.clear(),
                    "one more byte" => bytes.push(b'x'),
                    _ => {}
                }
                if how == "delete" {
                    std::fs::remove_file(&path).unwrap();
                } else {
                    std::fs::write(&path, bytes).unwrap();
                }
                done += 1;
                let what = format!("{how} of {rel} at {at}");
                let checked = lab.check(&[]);
                let all = checked.results.iter().flat_map(|r| &r.findings);
                told += u64::from(all.count() > 0);
                if checked.refusal.is_some()
                    || errors(&checked).iter().any(|f| f.subject.contains(".db"))
                {
                    wrong.push(format!("{what}: {:?}", errors(&checked)));
                }
                for args in [
                    &["doctor", "runs", "list"][..],
                    &["doctor", "backups", "verify", "g00000001"],
                ] {
                    if rng.below(4) == 0 || rel.contains("receipts") {
                        let ran = lab.run(args);
                        if ran.code == 9 {
                            wrong.push(format!("{what}: {args:?}: {}", ran.json));
                        }
                    }
                }
                // Whatever is planned now, nothing of the archive is lost by it.
                if let Ok(plan) = planned(&lab, &planner)
                    && !plan.is_empty()
                {
                    let _ = approved(&lab, &planner, &plan);
                }
                indexed(&lab);
                match exported(&lab) {
                    Ok(after) if after == before => {}
                    other => wrong.push(format!("{what}: {:?}", other.map(|a| a.len()))),
                }
                put_back(&lab, &original);
            }
        }
    }
    println!(
        "records | receipts, intents, events, failure contexts, seals, sealed databases: {done} damages, {told} told by the check, {} harmed the archive |",
        wrong.len()
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(panics(), 0);
}
