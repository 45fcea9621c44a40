//! R10: a migration that there is no room for, or that is not permitted. What is new is captured all the
//! same, and the command that met it goes on when the obstacle is gone.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use super::disk::Disk;
use super::frozen::exported;
use super::lab::{current, db};
use super::sandbox::{Ran, Sandbox, snapshot};
use super::{archive, count, holds, older, present, same, schema, sources};

/// What tells that a migration was begun: generations, intents, marker.
fn begun(s: &Sandbox) -> (usize, usize, bool) {
    let entries = |rel: &str| fs::read_dir(s.data().join(rel)).unwrap().count();
    let marker = s.data().join("doctor/failures/marker.json");
    (
        entries("generations"),
        entries("doctor/intents"),
        marker.exists(),
    )
}

#[track_caller]
fn captured(ran: &Ran) -> u64 {
    ran.number("/captured/captures")
}

/// The same command, with nothing in its way any more.
#[track_caller]
fn goes_on(index: Ran, s: &Sandbox, then: &Value) {
    assert!(index.expect(0).at("/migrated").is_object());
    assert_eq!(schema(&db(s)), present());
    let now = exported(s);
    holds(&now, then);
    assert_eq!(count(&now), count(then) + 3);
    let check = s.run(&["doctor", "check", "--deep"]);
    let all = check.at("/findings").as_array().unwrap();
    // A small disk is told of, and nothing else is wrong.
    let is_wrong = |f: &&Value| f["severity"] == "error" && f["code"] != "nearly-full";
    assert_eq!(all.iter().find(is_wrong), None, "{}", check.stdout);
}

#[test]
fn without_room_an_index_captures_and_leaves_the_old_archive_as_it_is() {
    for (_, frozen) in older() {
        let s = frozen.copied();
        s.put(sources::NEW, &sources::new());
        let (state, before) = (begun(&s), archive(&s));
        let Some(disk) = Disk::below(s.data(), &s.path().join("aside"), 32) else {
            return;
        };
        for (n, mib) in [4, 12, 16].into_iter().enumerate() {
            disk.leave(mib << 20);
            let index = s.run(&["index"]).expect(21);
            assert_eq!(index.text("/err/kind"), "no-space", "{}", index.stdout);
            let told = |of: &str| -> u64 {
                let text = index.text(&format!("/err/context/{of}"));
                text.parse().unwrap()
            };
            assert!(told("required_bytes") > told("free_bytes"));
            assert!(told("free_bytes") <= mib << 20);
            assert_eq!(captured(&index), u64::from(n == 0));
            assert_eq!(begun(&s), state, "{mib} MiB");
            assert_eq!(archive(&s), before, "{mib} MiB");
            let search = s.run(&["search", "lighthouse"]).expect(0);
            assert_eq!(search.at("/hits").as_array().unwrap().len(), 8);
        }
        disk.make_room();
        goes_on(s.run(&["index"]), &s, &frozen.export());
    }
}

#[test]
fn on_a_disk_that_is_read_only_an_old_archive_is_read_and_left_as_it_is() {
    for (_, frozen) in older() {
        let s = frozen.copied();
        s.put(sources::NEW, &sources::new());
        let Some(disk) = Disk::below(s.data(), &s.path().join("aside"), 32) else {
            return;
        };
        disk.read_only(true);
        let before = snapshot(&s.data());
        let index = s.run(&["index"]);
        assert_eq!(
            index.text("/err/kind"),
            "permission-denied",
            "{}",
            index.stdout
        );
        same(&exported(&s), &frozen.export());
        assert!(before == snapshot(&s.data()));
        disk.read_only(false);
        goes_on(s.run(&["index"]), &s, &frozen.export());
    }
}

#[test]
fn what_is_not_permitted_is_told_and_is_no_failure_that_somebody_has_to_clear() {
    for (_, frozen) in older() {
        let s = frozen.copied();
        s.put(sources::NEW, &sources::new());
        let Some(_) = s.run_as_nobody(&["doctor", "check"]) else {
            println!("passed over: nobody else can be made to run it");
            return;
        };
        let (id, before) = (current(&s), archive(&s));
        let folder = s.data().join("generations");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o500)).unwrap();
        for n in 0..2 {
            let index = s.run_as_nobody(&["index"]).unwrap();
            let kind = index.text("/err/kind");
            assert_eq!(kind, "permission-denied", "{}", index.stdout);
            assert!(index.text("/err/hint").contains("chmod u+"));
            assert_eq!(captured(&index), u64::from(n == 0));
            assert_eq!((begun(&s).0, begun(&s).2), (2, false));
            assert_eq!((current(&s), archive(&s)), (id.clone(), before.clone()));
        }
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        let index = s.run_as_nobody(&["index"]).unwrap();
        goes_on(index, &s, &frozen.export());
    }
}
