//! Many at once over an archive of an older schema.

use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use super::frozen::exported;
use super::lab::current;
use super::sandbox::{Ran, Sandbox, ran};
use super::{archive, older, same, sound};

const AT_ONCE: usize = 8;
const ROUNDS: usize = 3;
const STOPS: u32 = 8;

fn begun(s: &Sandbox) -> Child {
    let mut c = s.command(&["index", "--json"]);
    c.stdout(Stdio::piped()).stderr(Stdio::piped());
    c.spawn().unwrap()
}

fn count(s: &Sandbox, rel: &str, wanted: impl Fn(&std::path::Path) -> bool) -> usize {
    let all = std::fs::read_dir(s.data().join(rel)).unwrap();
    all.filter(|e| wanted(&e.as_ref().unwrap().path())).count()
}

/// One new generation, one that is sealed for it, one run with its receipt.
#[track_caller]
fn migrated_once(s: &Sandbox, (id, before): (&str, &[Vec<String>]), runs: usize) {
    assert_ne!(current(s), id);
    assert_eq!(count(s, "generations", |_| true), 3);
    assert_eq!(count(s, "generations", |p| p.join("seal.json").exists()), 2);
    let of_runs = |rel: &str| {
        let is_run = |p: &std::path::Path| p.to_string_lossy().contains("/run-");
        count(s, rel, is_run)
    };
    assert_eq!(of_runs("doctor/intents"), runs + 1);
    assert_eq!(of_runs("doctor/receipts"), runs + 1);
    let live = current(s);
    let pointer = s.data().join("CURRENT");
    std::fs::write(&pointer, format!("{id}\n")).unwrap();
    assert_eq!(archive(s), before, "the old archive has changed");
    std::fs::write(&pointer, format!("{live}\n")).unwrap();
    sound(s);
}

#[test]
fn of_many_indexes_at_once_one_migrates() {
    for (_, frozen) in older() {
        for round in 0..ROUNDS {
            let s = frozen.copied();
            let (id, before) = (current(&s), archive(&s));
            let runs = count(&s, "doctor/intents", |_| true);
            let all: Vec<Child> = (0..AT_ONCE).map(|_| begun(&s)).collect();
            let all = all.into_iter().map(|c| ran(c.wait_with_output().unwrap()));
            let all: Vec<Ran> = all.collect();
            let mut migrated = 0;
            for ran in &all {
                match ran.code {
                    0 if ran.at("/migrated").is_object() => migrated += 1,
                    0 => assert_eq!(ran.text("/status"), "no-op", "{}", ran.stdout),
                    _ => {
                        assert_eq!(ran.text("/err/kind"), "lock-busy", "{}", ran.stdout);
                        assert!(ran.number("/err/retry_after_ms") > 0, "{}", ran.stdout);
                    }
                }
            }
            assert_eq!(migrated, 1, "round {round}");
            migrated_once(&s, (&id, &before), runs);
            same(&exported(&s), &frozen.export());
        }
    }
}

/// Whoever reads gets all of the old archive or all of the new one, at every moment.
#[test]
fn readers_go_on_while_an_index_migrates() {
    for (_, frozen) in older() {
        let export = frozen.export();
        for round in 0..ROUNDS {
            let s = frozen.copied();
            let (id, before) = (current(&s), archive(&s));
            let runs = count(&s, "doctor/intents", |_| true);
            let is_done = AtomicBool::new(false);
            let read = |which: usize| {
                let mut n = which;
                while !is_done.load(Ordering::Relaxed) || n < which + 2 {
                    let ids: Vec<&String> = export.as_object().unwrap().keys().collect();
                    let session = ids[n % ids.len()];
                    n += 1;
                    match which {
                        0 => {
                            let found = s.run(&["search", "lighthouse"]);
                            match found.code {
                                0 => assert_eq!(found.at("/hits").as_array().unwrap().len(), 8),
                                // The index that is searched is made behind the archive, and who
                                // asks before is told so.
                                _ => assert_eq!(
                                    found.expect(8).text("/err/kind"),
                                    "lexical-unavailable"
                                ),
                            }
                        }
                        1 => assert_eq!(s.sessions().len(), ids.len()),
                        _ => {
                            let then = export[session]["messages"].as_array().unwrap();
                            assert_eq!(s.messages(session).len(), then.len(), "{session}");
                        }
                    }
                }
            };
            std::thread::scope(|scope| {
                let readers: Vec<_> = (0..3).map(|n| scope.spawn(move || read(n))).collect();
                let index = ran(begun(&s).wait_with_output().unwrap());
                is_done.store(true, Ordering::Relaxed);
                for reader in readers {
                    assert!(reader.join().is_ok(), "round {round}: a reader failed");
                }
                assert!(index.expect(0).at("/migrated").is_object());
            });
            migrated_once(&s, (&id, &before), runs);
            same(&exported(&s), &export);
        }
    }
}

/// A reader that takes its time holds nothing up, and the commits it keeps in the log are migrated.
#[test]
fn an_index_migrates_beside_a_reader_that_does_not_end() {
    for (_, frozen) in older() {
        let s = frozen.copied();
        let (id, before) = (current(&s), archive(&s));
        let runs = count(&s, "doctor/intents", |_| true);
        let lock = std::fs::File::open(s.data().join("locks/archive.lock")).unwrap();
        lock.lock_shared().unwrap();
        let index = s.run(&["index"]).expect(0);
        assert!(index.at("/migrated").is_object());
        migrated_once(&s, (&id, &before), runs);
        drop(lock);
        assert_eq!(s.run(&["index"]).expect(0).text("/status"), "no-op");
        same(&exported(&s), &frozen.export());
    }
}

/// Which moment a signal meets depends on the machine; what must hold does not.
#[test]
fn an_index_that_is_told_to_stop_leaves_nothing_half_made() {
    for (_, frozen) in older() {
        let s = frozen.copied();
        let (begin, whole) = (Instant::now(), begun(&s).wait_with_output().unwrap());
        assert!(whole.status.success());
        let whole = begin.elapsed();
        let mut stopped = 0;
        for part in 1..=STOPS {
            let signal = [Signal::INT, Signal::TERM][usize::from(part % 2 == 0)];
            let s = frozen.copied();
            let (id, before) = (current(&s), archive(&s));
            let child = begun(&s);
            std::thread::sleep(whole * part / STOPS);
            let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
            let _ = kill_process(pid, signal);
            let out = child.wait_with_output().unwrap();
            assert!(!s.data().join("doctor/failures/marker.json").exists());
            let is_migrated = s.data().exists() && current(&s) != id;
            if !is_migrated {
                stopped += usize::from(!out.status.success());
                assert_eq!(archive(&s), before);
                assert_eq!(count(&s, "generations", |_| true), 2, "{out:?}");
            }
            let index = s.run(&["index"]).expect(0);
            assert_eq!(index.at("/migrated").is_null(), is_migrated, "{out:?}");
            assert_eq!(count(&s, "generations", |_| true), 3);
            same(&exported(&s), &frozen.export());
            sound(&s);
        }
        println!("{stopped} of {STOPS} were stopped before the new archive was live");
    }
}
