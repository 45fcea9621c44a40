//! R10 for every kind of plan, on a disk with almost no room. Each is refused before anything is written
//! and says how many bytes it needs and how many there are, also where a killed run would be finished
//! first, and where there is no archive yet; with room, the same words apply. The disks are small file
//! systems in memory, which need the right to mount.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;

use super::disk::Disk;
use super::place::{Place, each};
use super::states::{KINDS, State};

/// Puts the data directory of a place on a disk of its own.
fn below(p: &Place) -> Option<Disk> {
    fs::create_dir_all(p.data()).unwrap();
    Disk::below(p.data(), &p.path().join("aside"), 40)
}

fn held(p: &Place) -> BTreeMap<PathBuf, String> {
    let mut all = p.bytes();
    // Where nothing is yet, the lock comes first.
    all.retain(|path, _| !path.ends_with("filler") && !path.starts_with("locks"));
    all
}

/// What is wrong with the applies of one state.
fn wrong(state: &State, rooms: &[u64], ends: &Mutex<BTreeMap<String, u32>>) -> Vec<String> {
    let p = Place::copy_of(&state.path());
    let Some(disk) = below(&p) else {
        return Vec::new();
    };
    let words = state.words_at(&p, &state.apply);
    let mut wrong = Vec::new();
    let mut applied = false;
    for kib in rooms {
        disk.leave(kib << 10);
        let before = held(&p);
        let ran = p.run(&words);
        let kind = ran.json["err"]["kind"].as_str().unwrap_or("-").to_owned();
        let end = format!("{} {kind}", ran.code);
        *ends.lock().unwrap().entry(end.clone()).or_insert(0) += 1;
        if ran.code == 0 {
            applied = true;
            break;
        }
        if !ran.json["operation_outcome"].is_object() {
            wrong.push(format!("{kib} KiB: no document"));
        }
        let number =
            |of: &str| -> Option<u64> { ran.json["err"]["context"][of].as_str()?.parse().ok() };
        if end != "21 no-space" || number("required_bytes") <= number("free_bytes") {
            wrong.push(format!("{kib} KiB: {end}: {}", ran.json["err"]));
        }
        if held(&p) != before {
            wrong.push(format!("{kib} KiB: refused, and something was written"));
        }
        if !p.run(&["doctor", "check"]).json["operation_outcome"].is_object() {
            wrong.push(format!("{kib} KiB: check gives no document"));
        }
    }
    disk.make_room();
    if applied {
        return wrong;
    }
    let ran = p.run(&words);
    if ran.code != 0 {
        wrong.push(format!("with room: {} {}", ran.code, ran.json["err"]));
    }
    let check = p.run(&["doctor", "check"]);
    if check.stdout.contains("\"interrupted-operation\"") {
        wrong.push("with room: a run is still open".to_owned());
    }
    wrong
}

#[test]
fn no_kind_of_plan_begins_without_room() {
    let rooms: &[u64] = if super::is_long() {
        &[
            0, 4, 8, 16, 24, 48, 64, 96, 128, 192, 256, 384, 512, 700, 900,
        ]
    } else {
        &[0, 24, 200]
    };
    let (bad, ends) = (Mutex::new(Vec::new()), Mutex::new(BTreeMap::new()));
    each(KINDS.len(), 2, |i| {
        let state: &State = KINDS[i].state;
        let found = wrong(state, rooms, &ends);
        let (kind, action) = (state.words.join(" "), &state.planned.stdout);
        let action = action.split("\"action\":\"").nth(1).unwrap_or_default();
        let action = action.split('"').next().unwrap_or_default();
        let found = found
            .into_iter()
            .map(|w| format!("{i} {kind} ({action}): {w}"));
        bad.lock().unwrap().extend(found);
    });
    let (bad, ends) = (bad.into_inner().unwrap(), ends.into_inner().unwrap());
    let all: u32 = ends.values().sum();
    println!("{ends:?}");
    println!(
        "torture | R10 plans on a disk without room | {all} | {} | {} |",
        all as usize - bad.len().min(all as usize),
        bad.len()
    );
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
