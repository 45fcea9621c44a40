//! `doctor --fix`: derived data is made anew by itself; whatever else is wrong is left to an operator,
//! with the words for it, and not a byte is written.

use std::fs;

use super::lab::{bytes, damage_text, db, exported, indexed, plan, tamper};
use super::sandbox::{Sandbox, files_below};

const SESSION: &str = ".claude/projects/-src-a/00000000-0000-4000-8000-000000000001.jsonl";
const FIX: [&str; 2] = ["doctor", "--fix"];

fn lexical(s: &Sandbox) -> String {
    fs::read_to_string(s.data().join("derived/lexical/CURRENT")).unwrap()
}

fn hits(s: &Sandbox) -> usize {
    let found = s.run(&["search", "harbour"]).expect(0);
    found.at("/hits").as_array().unwrap().len()
}

pub fn spoil_lexical(s: &Sandbox) {
    let files = files_below(&s.data().join("derived/lexical"));
    for file in files.iter().filter(|f| f.ends_with("index.db")) {
        fs::write(file, [7u8; 30_000]).unwrap();
    }
}

#[test]
fn derived_data_is_made_anew_and_the_archive_is_not_touched() {
    let s = indexed();
    let (truth, archive, found) = (exported(&s), fs::read(db(&s)).unwrap(), hits(&s));
    assert!(found > 0);
    s.run(&FIX).expect(0);
    type Damage = fn(&Sandbox);
    let kinds: [(&str, Damage); 3] = [
        ("noise", spoil_lexical),
        ("gone", |s| {
            fs::remove_dir_all(s.data().join("derived")).unwrap()
        }),
        ("the mirror's index", |s| {
            fs::write(s.data().join("raw-mirror/index/mirror.db"), [7u8; 9000]).unwrap();
        }),
    ];
    for (what, damage) in kinds {
        damage(&s);
        let fixed = s.run(&FIX).expect(0);
        assert_eq!(fixed.text("/status"), "applied", "{what}: {}", fixed.stdout);
        assert_eq!(fixed.at("/safe_auto_eligibility"), true, "{what}");
        let receipt = fixed.text("/receipts/0");
        assert!(s.data().join(receipt).exists(), "{what}: {receipt}");
        assert_eq!(hits(&s), found, "{what}");
        assert_eq!(fs::read(db(&s)).unwrap(), archive, "{what}");
        s.run(&["doctor", "check", "--deep"]).expect(0);
        let before = bytes(&s);
        assert_eq!(s.run(&FIX).expect(0).text("/status"), "no-op", "{what}");
        assert_eq!(before, bytes(&s), "{what}");
    }
    assert_eq!(exported(&s), truth);
}

#[test]
fn whatever_an_operator_must_see_is_left_to_him() {
    type Damage = fn(&Sandbox);
    let kinds: [(&str, Damage); 5] = [
        ("CURRENT is gone", |s| {
            fs::remove_file(s.data().join("CURRENT")).unwrap()
        }),
        ("the database is noise", |s| {
            fs::write(db(s), [7u8; 50_000]).unwrap()
        }),
        ("the database is gone", |s| fs::remove_file(db(s)).unwrap()),
        ("commits are lost", |s| {
            let old = fs::read(db(s)).unwrap();
            s.put(SESSION, &super::lab::claude(80));
            s.run(&["index"]).expect(0);
            fs::write(db(s), old).unwrap();
            let _ = fs::remove_file(db(s).with_file_name("agent_search.db-wal"));
        }),
        ("a marker", |s| {
            fs::create_dir_all(s.data().join("doctor/failures")).unwrap();
            fs::write(s.data().join("doctor/failures/marker.json"), "{ torn").unwrap();
        }),
    ];
    for (what, damage) in kinds {
        let s = indexed();
        damage(&s);
        spoil_lexical(&s);
        let before = bytes(&s);
        let left = s.run(&FIX);
        assert_eq!(left.code, 21, "{what}: {}", left.stdout);
        assert_eq!(
            left.text("/operation_outcome/kind"),
            "auto-run-skipped",
            "{what}"
        );
        assert_eq!(left.at("/safe_auto_eligibility"), false, "{what}");
        assert_eq!(left.text("/err/context/gate"), "auto-eligibility", "{what}");
        assert_eq!(before, bytes(&s), "{what}: something was written");
        let argv = left.at("/recommended_commands/0/argv").as_array().unwrap();
        let words: Vec<&str> = argv.iter().skip(1).map(|w| w.as_str().unwrap()).collect();
        assert_eq!(words[..2], ["doctor", "repair"], "{what}");
        // These words lead on: to a plan, or to what opens the gate.
        let next = plan(&s, &["doctor", "repair"]);
        assert!([0, 21].contains(&next.code), "{what}: {}", next.stdout);
    }
}

/// What a killed run left is finished by whoever comes next, this one too, and said.
#[test]
fn a_killed_repair_is_finished_first() {
    let s = indexed();
    let truth = exported(&s);
    tamper(&s);
    let run = super::lab::killed(&s, true);
    spoil_lexical(&s);
    let fixed = s.run(&FIX).expect(0);
    assert_eq!(fixed.text("/finished_runs/0"), run);
    assert!(hits(&s) > 0);
    assert_eq!(exported(&s), truth);
    s.run(&["doctor", "check", "--deep"]).expect(0);
}

/// A row that only `check --deep` can see is none of its business, and stays as it is.
#[test]
fn a_damaged_row_is_not_touched() {
    let s = indexed();
    damage_text(&db(&s), b"answer 9:");
    spoil_lexical(&s);
    let damaged = fs::read(db(&s)).unwrap();
    s.run(&FIX);
    assert_eq!(fs::read(db(&s)).unwrap(), damaged);
    s.run(&["doctor", "check", "--deep"]).expect(1);
}

/// As the receipt says.
#[test]
fn what_is_sound_is_made_anew_when_that_is_asked_for() {
    let s = indexed();
    let (truth, found) = (exported(&s), hits(&s));
    let before = lexical(&s);
    let forced = s.run(&["doctor", "--fix", "--force-rebuild"]).expect(0);
    assert_eq!(forced.text("/status"), "applied", "{}", forced.stdout);
    assert_ne!(lexical(&s), before);
    assert_eq!((hits(&s), exported(&s)), (found, truth));
}

/// What is printed can be pasted: a fix takes no fingerprint.
#[test]
fn the_words_that_a_fix_prints_are_read() {
    let s = indexed();
    spoil_lexical(&s);
    let fixed = s.run(&FIX).expect(0);
    let argv = fixed.at("/fix_plan/apply_argv");
    if let Some(argv) = argv.as_array() {
        let words: Vec<&str> = argv.iter().skip(1).map(|w| w.as_str().unwrap()).collect();
        assert_ne!(s.run(&words).code, 2, "{words:?}");
    }
}
