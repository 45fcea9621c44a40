//! R20: a data directory of every schema that was ever released, made by the program that released it.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used
)]

#[path = "../journey/sandbox.rs"]
#[allow(dead_code)]
mod sandbox;

#[path = "../repair/lab.rs"]
#[allow(dead_code)]
mod lab;

#[path = "../repair/disk.rs"]
mod disk;

mod again;
mod freeze;
mod frozen;
mod hostile;
mod lossy;
mod migration;
mod racing;
mod reading;
mod room;
mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use cass::store::archive::SCHEMA_VERSION;
use rusqlite::Connection;
use serde_json::Value;

use frozen::{Frozen, captured, exported, listed};
use lab::{apply, current, db};
use sandbox::{Ran, Sandbox, ran, snapshot};

fn every() -> impl Iterator<Item = Frozen> {
    (1..=SCHEMA_VERSION).map(Frozen::of)
}

/// Of every released schema but the present one.
fn older() -> impl Iterator<Item = (i64, Frozen)> {
    (1..SCHEMA_VERSION).map(|v| (v, Frozen::of(v)))
}

/// The schema of a database: its version and the text of every table and index.
fn schema(db: &Path) -> (i64, BTreeSet<String>) {
    let copy = tempfile::tempdir().unwrap();
    let path = copy.path().join("copy.db");
    fs::copy(db, &path).unwrap();
    let conn = Connection::open(&path).unwrap();
    let version = conn
        .pragma_query_value(None, "user_version", |r| r.get(0))
        .unwrap();
    let mut all = conn
        .prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")
        .unwrap();
    let texts = all.query_map([], |r| r.get(0)).unwrap();
    (version, texts.map(Result::unwrap).collect())
}

/// The schema that this program gives a new archive.
fn present() -> (i64, BTreeSet<String>) {
    let s = Sandbox::in_memory();
    s.put(sources::LATE, &sources::late(1));
    s.run(&["index"]).expect(0);
    let made = schema(&db(&s));
    assert_eq!(made.0, SCHEMA_VERSION);
    assert!(made.1.len() > 9);
    made
}

/// Where the records of all sources lie: path, epoch, offset, length, number of the line.
fn places(s: &Sandbox) -> Vec<(Vec<u8>, u32, u32, u32, u32)> {
    let copy = tempfile::tempdir_in(s.path()).unwrap();
    let path = copy.path().join("copy.db");
    fs::copy(db(s), &path).unwrap();
    let conn = Connection::open(&path).unwrap();
    let select = "SELECT path, records.epoch, offset, len, line FROM records \
                  JOIN sources ON sources.id = records.source ORDER BY 1, 2, 3";
    let mut all = conn.prepare(select).unwrap();
    let rows = all.query_map([], |r| {
        Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?, r.get(4)?))
    });
    rows.unwrap().map(Result::unwrap).collect()
}

/// Whether `now` has every session and message of `then`, each with all that was told of it.
#[track_caller]
fn holds(now: &Value, then: &Value) {
    for (id, session) in then.as_object().unwrap() {
        let found = &now[id];
        for key in ["native_id", "provider", "title"] {
            assert_eq!(found[key], session[key], "{key} of session {id}");
        }
        let messages: BTreeMap<&str, &Value> = found["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| (m["id"].as_str().unwrap(), m))
            .collect();
        for old in session["messages"].as_array().unwrap() {
            let new = messages.get(old["id"].as_str().unwrap());
            let new = new.unwrap_or_else(|| panic!("session {id} lost {old}"));
            for (key, value) in old.as_object().unwrap() {
                assert_eq!(&new[key], value, "{key} of {old}");
            }
        }
    }
}

fn count(export: &Value) -> usize {
    let sessions = export.as_object().unwrap().values();
    sessions
        .map(|s| s["messages"].as_array().unwrap().len())
        .sum()
}

/// `now` has what `then` has, and nothing beside it.
#[track_caller]
fn same(now: &Value, then: &Value) {
    holds(now, then);
    assert_eq!(count(now), count(then));
    assert_eq!(
        now.as_object().unwrap().len(),
        then.as_object().unwrap().len()
    );
}

#[track_caller]
fn sound(s: &Sandbox) {
    let check = s.run(&["doctor", "check", "--deep"]).expect(0);
    assert_ne!(check.text("/status"), "error", "{}", check.stdout);
}

/// Plans and applies.
#[track_caller]
fn applied(s: &Sandbox, args: &[&str]) -> Ran {
    let planned = s.run(args).expect(0);
    let done = apply(s, &planned).expect(0);
    assert_eq!(done.text("/status"), "applied", "{}", done.stdout);
    done
}

/// The last run is undone: the generation `id` is live again, and its files are as they were.
#[track_caller]
fn undone(s: &Sandbox, id: &str, before: &[Vec<String>]) {
    applied(s, &["doctor", "runs", "undo", "latest"]);
    assert_eq!(current(s), id);
    assert_eq!(archive(s), before);
}

/// The files of the live generation, without the memory of SQLite, a log that holds nothing, and what
/// says that it was superseded.
fn archive(s: &Sandbox) -> Vec<Vec<String>> {
    let mut files = listed(db(s).parent().unwrap());
    files.retain(|f| f[1] != "0" && !f[0].ends_with("-shm") && f[0] != "seal.json");
    files
}

/// A schema that is raised without a data directory of the one that is released then would leave
/// nothing to migrate in a test.
#[test]
fn a_data_directory_of_every_released_schema_is_kept() {
    for version in 1..=SCHEMA_VERSION {
        let frozen = Frozen::of(version);
        let what = frozen.folder.display();
        assert!(
            frozen.folder.join("README.md").exists(),
            "no {what}: made with CASS_FREEZE=1 cargo test --test schemas freeze"
        );
        assert_eq!(
            listed(&frozen.folder.join("data")),
            frozen.files(),
            "{what}"
        );
        let s = frozen.copied();
        assert_eq!(schema(&db(&s)).0, version);
        assert!(count(&frozen.export()) > 40 && frozen.captures().len() > 8);
    }
    let kept = fs::read_dir(frozen::folder(1).parent().unwrap()).unwrap();
    // What follows a second dash is a special one of that schema.
    let is_plain = |name: &str| name.matches('-').count() == 1;
    let folders = kept
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|name| is_plain(name))
        .count();
    assert_eq!(i64::try_from(folders).unwrap(), SCHEMA_VERSION);
}

#[test]
fn an_old_archive_reads_as_it_did_and_is_left_as_it_is() {
    for frozen in every() {
        let s = frozen.copied();
        let before = snapshot(&s.data());
        sound(&s);
        same(&exported(&s), &frozen.export());
        assert_eq!(captured(&s), frozen.captures());
        assert!(before == snapshot(&s.data()));
        // The index that is searched is derived, and made anew where it can't be read.
        s.run(&["index"]).expect(0);
        let hits = s.run(&["search", "lighthouse"]).expect(0);
        assert_eq!(hits.at("/hits").as_array().unwrap().len(), 8);
    }
}

/// Every source is where it was, one has grown, and one is new: nothing is read twice.
#[test]
fn an_index_goes_on_where_the_old_program_ended() {
    if !Path::new("/proc/self/cwd").exists() {
        println!("passed over: the sources can't be put back where they were without /proc");
        return;
    }
    for frozen in every() {
        let s = frozen.copied();
        let (home, before) = (Path::new(frozen::HOME), places(&s));
        let mut last: BTreeMap<String, (u64, Vec<u8>)> = BTreeMap::new();
        for capture in frozen.captures() {
            let seq = capture[1].parse().unwrap();
            last.insert(
                capture[0].clone(),
                (seq, s.get(Path::new(&capture[0]), seq)),
            );
        }
        for (path, (_, bytes)) in &last {
            let rel = Path::new(path).strip_prefix(home).unwrap();
            s.put(rel.to_str().unwrap(), bytes);
        }
        let mut grown = last[&format!("{}/{}", frozen::HOME, sources::CLAUDE)]
            .1
            .clone();
        grown.extend(sources::two_more());
        s.put(sources::CLAUDE, &grown);
        s.put(sources::NEW, &sources::new());
        let mut c = s.command(&["index", "--json"]);
        let index = ran(c.env("HOME", home).current_dir(s.path()).output().unwrap()).expect(0);
        let now = exported(&s);
        holds(&now, &frozen.export());
        let after = places(&s);
        assert!(before.iter().all(|place| after.contains(place)));
        let more: Vec<_> = after.iter().filter(|p| !before.contains(p)).collect();
        assert_eq!((after.len(), more.len()), (before.len() + 5, 5));
        for (path, _, offset, len, line) in more {
            let (from, to) = (*offset as usize, (offset + len) as usize);
            let rel = path.strip_prefix(frozen::HOME.as_bytes()).unwrap();
            let text = fs::read(s.home().join(str::from_utf8(&rel[1..]).unwrap())).unwrap();
            let lines = text[..from].iter().filter(|b| **b == b'\n').count();
            assert_eq!(*line as usize, lines + 1);
            assert_eq!(text[to], b'\n');
        }
        assert_eq!(
            count(&now),
            count(&frozen.export()) + 2 + 3,
            "{}",
            index.stdout
        );
        assert_eq!(sandbox::heads(&s).len(), last.len() + 1);
        assert_eq!(captured(&s).len(), frozen.captures().len() + 2);
        assert_eq!(schema(&db(&s)), present());
        sound(&s);
    }
}

#[test]
fn an_old_backup_is_restored_in_the_present_schema() {
    let present = present();
    for frozen in every() {
        let s = frozen.copied();
        let (id, before) = (current(&s), archive(&s));
        applied(
            &s,
            &["doctor", "backups", "restore", "--keep-newer", "b00000001"],
        );
        assert_ne!(current(&s), id);
        assert_eq!(schema(&db(&s)), present);
        same(&exported(&s), &frozen.export());
        sound(&s);
        undone(&s, &id, &before);
    }
}

#[test]
fn an_old_archive_alone_gives_a_new_data_directory() {
    for frozen in every() {
        let old = frozen.copied();
        let s = Sandbox::in_memory();
        let named = s.path().join("old.db");
        fs::copy(db(&old), &named).unwrap();
        applied(&s, &["doctor", "repair", "--from", named.to_str().unwrap()]);
        assert_eq!(schema(&db(&s)), present());
        same(&exported(&s), &frozen.export());
    }
}

/// What was captured is parsed anew. A parser that comes to read a frozen record otherwise has to say
/// here which one.
#[test]
fn an_old_mirror_alone_gives_the_archive_again() {
    for frozen in every() {
        let s = frozen.copied();
        for gone in ["generations", "backups"] {
            fs::remove_dir_all(s.data().join(gone)).unwrap();
        }
        applied(&s, &["doctor", "repair"]);
        assert_eq!(schema(&db(&s)), present());
        same(&exported(&s), &frozen.export());
    }
}

/// Nothing but the pages of the old archive is left, and the first of them, which says what the others
/// are, is gone: the walker knows the tables of every schema.
#[test]
fn pages_of_an_old_archive_are_read_one_by_one() {
    for frozen in every() {
        let s = frozen.copied();
        for gone in ["raw-mirror/packs", "raw-mirror/index", "backups"] {
            fs::remove_dir_all(s.data().join(gone)).unwrap();
        }
        for entry in fs::read_dir(s.data().join("generations")).unwrap() {
            let path = entry.unwrap().path();
            if !path.ends_with(current(&s)) {
                fs::remove_dir_all(path).unwrap();
            }
        }
        let mut pages = fs::read(db(&s)).unwrap();
        pages[..4096].fill(0);
        fs::write(db(&s), pages).unwrap();
        let (id, before) = (current(&s), archive(&s));
        applied(&s, &["doctor", "repair"]);
        assert_ne!(current(&s), id);
        assert_eq!(schema(&db(&s)), present());
        same(&exported(&s), &frozen.export());
        undone(&s, &id, &before);
    }
}
