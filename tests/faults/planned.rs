//! R6, R7, R10, R11, R12, R16 for what goes through the plan engine.
//!
//! An ordinary run samples: it kills a rebuild at the first and the last of each kind of call at each
//! path (ids of runs left out), an undo and a migration at the last of each, and lets the syncs of a
//! migration fail; of the other plans, and of calls that fail, it takes only kinds and paths that were
//! not met before. `CASS_FAULTS=long` takes every call of every plan, with `EIO` and `ENOSPC`; the other
//! errors that a call may return (only those in `CASS_FAULTS_ERRORS`, if it is set), and what only reads
//! or opens to read, at the last of each kind at each path.
//!
//! `CASS_FAULTS_PLANS=Migrate,Undo` takes these plans alone, here and in R8.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::harness::{Call, NAMES, OPENS, SYNCS, WRITES};
use super::shelf::Shelf;
use super::works::{Bench, INDEX, Plan, applies, changing, plans, without_ids};
use super::{ERRORS, is_long};

/// What one case does to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Kill,
    Error(&'static str),
}

/// A plan, and what is done to its calls.
type Cases = Vec<(Plan, Vec<(Call, Fault)>)>;

/// Which times of a kind of call at a path are taken.
fn sampled(calls: &[Call], times: usize) -> Vec<Call> {
    let mut kinds: BTreeMap<(&str, &str), Vec<&Call>> = BTreeMap::new();
    for call in calls {
        kinds
            .entry((&call.name, &call.path))
            .or_default()
            .push(call);
    }
    let mut out: Vec<Call> = Vec::new();
    for all in kinds.values() {
        let n = all.len();
        let places: BTreeSet<usize> = match times {
            1 => [n - 1].into(),
            _ => [0, n - 1].into(),
        };
        out.extend(places.into_iter().map(|at| all[at].clone()));
    }
    out
}

/// In place of a call that changes nothing the next that does: a kill leaves the same.
fn moved_on(calls: &[Call], sampled: Vec<Call>) -> Vec<Call> {
    let places = sampled.iter().map(|call| {
        let at = calls.iter().position(|c| c == call).expect("one of them");
        let moves = calls[at..].iter().position(|c| !c.idle);
        moves.map_or(at, |n| at + n)
    });
    let places: BTreeSet<usize> = places.collect();
    places.into_iter().map(|at| calls[at].clone()).collect()
}

/// The plans that are killed at all of their sampled calls in an ordinary run; of the others, and of
/// calls that fail, only what was not met before.
const WHOLE: [Plan; 3] = [Plan::Rebuild, Plan::Undo, Plan::Migrate];

/// Every case of one way to fail: plan, call, fault.
fn cases(shelf: &Arc<Shelf>, faults: &[(&[&str], Fault)]) -> Option<Cases> {
    let mut known: BTreeSet<(Fault, String, String)> = BTreeSet::new();
    let mut out = Vec::new();
    let mut asked = plans();
    asked.sort_by_key(|p| !WHOLE.contains(p));
    for plan in asked {
        let calls = shelf.calls(plan)?;
        let changes = changing(calls.clone());
        let idle = |names: &[&str]| -> Vec<Call> {
            let idle = calls.iter().filter(|c| !c.changes && c.is_one_of(names));
            idle.cloned().collect()
        };
        let mut mine = Vec::new();
        for (names, fault) in faults {
            let named = |c: &&Call| c.is_one_of(names);
            let wanted: Vec<Call> = changes.iter().filter(named).cloned().collect();
            let wanted = match fault {
                Fault::Kill if is_long() => wanted,
                Fault::Kill => {
                    let times = if plan == Plan::Rebuild { 2 } else { 1 };
                    moved_on(&changes, sampled(&wanted, times))
                }
                Fault::Error(_) if !is_long() => sampled(&wanted, 1),
                // A disk that is broken or full: at every call that can change something. The other
                // errors, and what only reads: at the last of each kind at each path.
                Fault::Error("ENOSPC") => wanted,
                Fault::Error("EIO") => [wanted, sampled(&idle(names), 1)].concat(),
                Fault::Error("EROFS") => sampled(&wanted, 1),
                Fault::Error(_) => [sampled(&wanted, 1), sampled(&idle(names), 1)].concat(),
            };
            for call in wanted {
                let kind = (*fault, call.name.clone(), short(&call.path));
                let whole = match fault {
                    Fault::Kill => WHOLE.contains(&plan),
                    // An index goes on after its migration failed, and must not.
                    Fault::Error(_) => plan == Plan::Migrate && *names == SYNCS,
                };
                if is_long() || known.insert(kind) || whole {
                    mine.push((call, *fault));
                }
            }
        }
        out.push((plan, mine));
    }
    Some(out)
}

/// A path below its home, without the numbers of generations.
fn short(path: &str) -> String {
    path.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// Runs all cases of one table on the machine's cores, and tells how many there were.
fn all(what: &str, faults: &[(&[&str], Fault)]) {
    let shelf = Shelf::shared();
    let Some(cases) = cases(&shelf, faults) else {
        return;
    };
    let pieces: Cases = cases
        .iter()
        .flat_map(|(plan, cases)| cases.chunks(30).map(|c| (*plan, c.to_vec())))
        .collect();
    let total: usize = cases.iter().map(|c| c.1.len()).sum();
    println!("{what}: {total} cases");
    let (done, elsewhere) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let wrong: Vec<String> = pieces
        .par_iter()
        .flat_map_iter(|(plan, cases)| {
            let bench = shelf.take(*plan);
            let mut wrong = Vec::new();
            for (call, fault) in cases {
                let went = catch_unwind(AssertUnwindSafe(|| match fault {
                    Fault::Kill => bench.killed_at(call),
                    Fault::Error(e) => bench.fails_at(call, e),
                }));
                match went {
                    Ok(true) => done.fetch_add(1, Ordering::Relaxed),
                    Ok(false) => elsewhere.fetch_add(1, Ordering::Relaxed),
                    Err(_) => {
                        wrong.push(format!("{plan:?} {fault:?} {call}"));
                        0
                    }
                };
            }
            wrong
        })
        .collect();
    let (done, elsewhere) = (done.into_inner(), elsewhere.into_inner());
    println!("torture | {what} | {total} | {done} | {} |", wrong.len());
    assert!(wrong.is_empty(), "{} cases: {wrong:#?}", wrong.len());
    // Threads that race for a number are met elsewhere now and then.
    assert!(
        elsewhere * 20 <= total,
        "{elsewhere} of {total} were not met where they were named"
    );
}

fn changes() -> Vec<&'static str> {
    [WRITES, SYNCS, NAMES, OPENS].concat()
}

#[test]
fn a_plan_killed_at_calls_that_change_something() {
    all("R7 killed", &[(&changes(), Fault::Kill)]);
}

#[test]
fn a_plan_meets_a_broken_or_full_disk() {
    let names = [NAMES, OPENS].concat();
    let mut faults: Vec<(&[&str], Fault)> = vec![
        (WRITES, Fault::Error("ENOSPC")),
        (&names, Fault::Error("EIO")),
    ];
    if is_long() {
        let only = std::env::var("CASS_FAULTS_ERRORS").unwrap_or_default();
        let wanted = |e: &str| only.is_empty() || only.split(',').any(|o| o == e);
        faults.clear();
        for (names, errors) in ERRORS {
            // A sync that fails with EIO has a test of its own.
            let left = errors.iter().filter(|e| names != SYNCS || **e != "EIO");
            faults.extend(left.filter(|e| wanted(e)).map(|e| (names, Fault::Error(e))));
        }
    }
    all("R6 a call fails", &faults);
}

#[test]
fn a_plan_meets_a_failing_sync() {
    all("R12 a sync fails", &[(SYNCS, Fault::Error("EIO"))]);
}

/// R11: a fault within a repair, and a second one within the run that finishes it.
#[test]
fn a_second_fault_where_the_first_is_finished() {
    let mut asked = plans();
    if !is_long() {
        asked.retain(|p| WHOLE.contains(p));
    }
    let (first, second) = if is_long() { (60, 8) } else { (5, 2) };
    let shelf = Shelf::shared();
    let pairs = AtomicUsize::new(0);
    let wrong: Vec<String> = asked
        .par_iter()
        .flat_map_iter(|plan| {
            let mut wrong = Vec::new();
            let Some(calls) = shelf.changes(*plan) else {
                return wrong;
            };
            let bench = shelf.take(*plan);
            // Half of them behind the replacement of CURRENT, where there is something to finish.
            let turn = calls
                .iter()
                .position(|c| c.name.starts_with("rename") && c.path.contains(".CURRENT."))
                .unwrap_or(0);
            let mut firsts = spread(&calls[..turn], first / 2);
            firsts.extend(spread(&calls[turn + 1..], first - first / 2));
            for (n, one) in firsts.iter().enumerate() {
                bench.put_back();
                let name = format!("{plan:?}: killed at {one}");
                if bench
                    .fault(bench.work(), one, "signal=SIGKILL", &name)
                    .is_none()
                {
                    continue;
                }
                let (folders, files) = bench.state();
                let later = changing(bench.calls(&Bench::index()).unwrap_or_default());
                for (m, two) in spread(&later, second).iter().enumerate() {
                    bench.put_back_to(&folders, &files);
                    let fault = match (n + m) % 3 {
                        0 => "error=EIO",
                        1 => "error=ENOSPC",
                        _ => "signal=SIGKILL",
                    };
                    let name = format!("{name}, then {fault} at {two}");
                    let went = catch_unwind(AssertUnwindSafe(|| {
                        let _ = bench.fault(&Bench::index(), two, fault, &name);
                        bench.explained(&name);
                        bench.ends_clean(&name);
                    }));
                    pairs.fetch_add(1, Ordering::Relaxed);
                    if went.is_err() {
                        wrong.push(name);
                    }
                }
            }
            wrong
        })
        .collect();
    let pairs = pairs.into_inner();
    println!(
        "torture | R11 pairs of faults | {pairs} | {} | {} |",
        pairs - wrong.len(),
        wrong.len()
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// `n` of them, evenly spread.
fn spread(calls: &[Call], n: usize) -> Vec<Call> {
    if calls.len() <= n {
        return calls.to_vec();
    }
    (0..n)
        .map(|i| calls[(2 * i + 1) * calls.len() / (2 * n)].clone())
        .collect()
}

/// R10: what fails over and over leaves nothing that grows but its small records.
#[test]
fn ten_failed_repairs_leave_what_one_leaves() {
    let shelf = Shelf::shared();
    let Some(calls) = shelf.changes(Plan::Rebuild) else {
        return;
    };
    let bench = shelf.take(Plan::Rebuild);
    let writes: Vec<Call> = calls
        .iter()
        .filter(|c| c.name == "pwrite64" && c.path.contains("/g00000002/agent_search.db"))
        .cloned()
        .collect();
    bench.put_back();
    let mut footprints = BTreeSet::new();
    for (n, call) in spread(&writes, 10).iter().enumerate() {
        let planned = bench.plan(n > 0);
        let argv = applies(&planned.json).unwrap_or_else(|| panic!("{n}: {}", planned.text));
        bench
            .fault(&argv, call, "error=EIO", "ten")
            .unwrap_or_else(|| panic!("{n}: {call} was not met"));
        assert!(bench.open().is_empty());
        let (_, files) = bench.state();
        let kept: Vec<(String, usize)> = files
            .iter()
            .map(|(p, b)| (without_ids(&p.to_string_lossy()), b.len()))
            .filter(|(p, _)| {
                ["/generations/", "/backups/", "/quarantine/"]
                    .iter()
                    .any(|f| p.contains(f))
            })
            .collect();
        footprints.insert(kept);
        let records = ["doctor/receipts", "doctor/failures", "doctor/intents"];
        for rel in records {
            assert!(
                bench.listed(rel).len() <= n + 2,
                "{n}: {:?}",
                bench.listed(rel)
            );
        }
    }
    assert_eq!(footprints.len(), 1, "{footprints:#?}");
    assert_eq!(bench.cass(INDEX).code, 0);
    bench.ends_clean("after ten failed repairs");
}

/// R16: what is published is synced before it gets its name, the name before what follows.
#[test]
fn an_apply_syncs_in_order() {
    let shelf = Shelf::shared();
    for plan in plans() {
        if shelf.calls(plan).is_none() {
            return;
        }
        let bench = shelf.take(plan);
        let ended = bench.traced(
            bench.work(),
            &[
                "-s".to_owned(),
                "8".to_owned(),
                "-e".to_owned(),
                "trace=write,pwrite64,writev,fsync,fdatasync,rename,renameat,renameat2,mkdirat,\
                 unlinkat,unlink,openat"
                    .to_owned(),
            ],
        );
        assert!(ended.out.status.success(), "{plan:?}: {ended:?}");
        in_order(plan, &ended.log, &bench.data().to_string_lossy());
    }
}

fn in_order(plan: Plan, log: &str, data: &str) {
    // What is written, or has a new name in it, and is not synced.
    let mut dirty: BTreeSet<String> = BTreeSet::new();
    let (mut renamed_current, mut receipts, mut intents, mut printed) = (0, 0, 0, 0);
    for line in log.lines() {
        let fail =
            |what: &str, dirty: &BTreeSet<String>| panic!("{plan:?}: {what}: {line}\n{dirty:#?}");
        let Some((_, call)) = line.split_once(' ') else {
            continue;
        };
        let call = call.trim_start();
        let name = call.split('(').next().unwrap_or_default();
        let of_fd = call
            .split_once('<')
            .and_then(|(_, rest)| rest.split_once('>'))
            .map_or("", |p| p.0);
        let quoted: Vec<&str> = call.split('"').skip(1).step_by(2).collect();
        let at = |n: usize| -> String {
            let text = quoted.get(n).copied().unwrap_or_default();
            if text.starts_with('/') {
                return text.to_owned();
            }
            // The folder that is named right before the text.
            let before = call
                .split(&format!("\"{text}\""))
                .next()
                .unwrap_or_default();
            let folder = before.rsplit_once('<').and_then(|(_, f)| f.split_once('>'));
            format!("{}/{text}", folder.map_or("", |f| f.0))
        };
        let inside = |p: &str| {
            p.strip_prefix(data).is_some_and(|rel| {
                !rel.starts_with("/locks") && !rel.starts_with("/derived") && !rel.contains("-shm")
            })
        };
        let folder = |p: &str| p.rsplit_once('/').map_or(String::new(), |f| f.0.to_owned());
        match name {
            "fsync" | "fdatasync" => {
                dirty.remove(of_fd);
            }
            "mkdirat" if call.ends_with("= 0") => {
                let path = at(0);
                if path.contains("/generations/g")
                    && !dirty_below(&dirty, "/doctor/intents").is_empty()
                {
                    fail("an effect before the intent was synced", &dirty);
                }
                if inside(&path) {
                    dirty.insert(folder(&path));
                }
            }
            "write" | "writev" | "pwrite64" => {
                if of_fd.ends_with("/out.json") {
                    printed += 1;
                    let left: Vec<&String> = dirty
                        .iter()
                        // The log of the live archive is synced with its next commit that counts.
                        .filter(|p| !p.ends_with("-wal") && !p.contains("/index/"))
                        .collect();
                    if !left.is_empty() {
                        panic!("{plan:?}: answered before it was synced: {left:#?}");
                    }
                } else if inside(of_fd) {
                    dirty.insert(of_fd.to_owned());
                }
            }
            "rename" | "renameat" | "renameat2" if call.ends_with("= 0") => {
                let (from, to) = (at(0), at(1));
                if dirty.contains(&from) {
                    fail("named before it was synced", &dirty);
                }
                // That of the lexical index is another.
                if to.ends_with("/CURRENT") && inside(&to) {
                    renamed_current += 1;
                    let left = dirty_below(&dirty, "/generations");
                    if !left.is_empty() {
                        fail("CURRENT before the candidate was synced", &dirty);
                    }
                }
                if to.contains("/doctor/receipts/") {
                    receipts += 1;
                    // The folder of the receipts may just have been made.
                    let left: Vec<&String> = dirty
                        .iter()
                        .filter(|p| !p.ends_with("-wal") && !p.contains("/index/"))
                        .collect();
                    if !left.is_empty() {
                        fail("a receipt before all of it was synced", &dirty);
                    }
                }
                if to.contains("/doctor/intents/") {
                    intents += 1;
                }
                if inside(&to) {
                    dirty.insert(folder(&to));
                    dirty.insert(folder(&from));
                }
            }
            _ => {}
        }
    }
    assert_eq!((intents, receipts), (1, 1), "{plan:?}: {log}");
    assert!(printed > 0, "{plan:?}");
    let promotes = [
        Plan::RePoint,
        Plan::Recover,
        Plan::Rebuild,
        Plan::Salvage,
        Plan::FromBackup,
        Plan::Restore,
        Plan::Undo,
        Plan::Begin,
        Plan::Migrate,
    ];
    assert_eq!(
        renamed_current,
        usize::from(promotes.contains(&plan)),
        "{plan:?}"
    );
}

fn dirty_below<'d>(dirty: &'d BTreeSet<String>, part: &str) -> Vec<&'d String> {
    dirty
        .iter()
        .filter(|p| p.contains(part) && !p.ends_with("-shm"))
        .collect()
}

/// A probe fails where a killed repair is finished, so that the old archive is made live again, and
/// that is killed as well, at each sync.
#[test]
fn going_back_killed_at_every_sync() {
    let shelf = Shelf::shared();
    let Some(calls) = shelf.changes(Plan::Rebuild) else {
        return;
    };
    let bench = shelf.take(Plan::Rebuild);
    let turn = calls
        .iter()
        .position(|c| c.name.starts_with("rename") && c.path.contains(".CURRENT."))
        .expect("CURRENT is replaced");
    bench.put_back();
    bench
        .fault(
            bench.work(),
            &calls[turn + 1],
            "signal=SIGKILL",
            "the repair",
        )
        .expect("it was met");
    let (folders, files) = bench.state();
    let later = changing(bench.calls(&Bench::index()).expect("it was traced before"));
    let open = later
        .iter()
        .find(|c| c.is_one_of(OPENS) && c.path.contains("/g00000002/agent_search.db"))
        .expect("the write probe opens the archive");
    let mut killed = 0;
    for sync in 1..60 {
        bench.put_back_to(&folders, &files);
        let ended = bench.traced(
            &Bench::index(),
            &[
                "-e".to_owned(),
                format!("trace={},fsync", open.name),
                "-e".to_owned(),
                format!("inject={}:error=EACCES:when={}", open.name, open.of_name),
                "-e".to_owned(),
                format!("inject=fsync:signal=SIGKILL:when={sync}"),
            ],
        );
        let name = format!("going back, killed at sync {sync}");
        if ended.killed {
            killed += 1;
            bench.explained(&name);
            bench.ends_clean(&name);
            continue;
        }
        assert_eq!(bench.current().as_deref(), Some("g00000001"), "{name}");
        bench.explained(&name);
        bench.ends_clean(&name);
        break;
    }
    println!("torture | R11 going back, killed | {killed} | {killed} | 0 |");
    assert!(killed > 5, "{killed}");
}

/// R16: a killed run made a folder and did not come to sync its entry. Who uses it next does, before
/// anything is put into it.
#[test]
fn a_folder_that_a_killed_run_left_empty_is_synced_in_its_parent_before_it_is_used() {
    let options = ["-e", "trace=write,pwrite64,writev,fsync,fdatasync"].map(str::to_owned);
    let shelf = Shelf::shared();
    if shelf.calls(Plan::Create).is_none() {
        return;
    }
    let bench = shelf.take(Plan::Create);
    for rel in [
        "doctor",
        "doctor/events",
        "doctor/intents",
        "doctor/receipts",
        "backups",
    ] {
        bench.put_back();
        let folder = bench.data().join(rel);
        assert!(!folder.exists(), "{rel} is made by this plan");
        std::fs::create_dir_all(&folder).unwrap();
        let ended = bench.traced(bench.work(), &options);
        assert!(ended.out.status.success(), "{rel}: {ended:?}");
        synced_before_use(&ended.log, &folder);
    }
    let home = super::harness::Home::new(super::harness::Work::First);
    for rel in [
        "",
        "raw-mirror",
        "raw-mirror/packs",
        "raw-mirror/sources",
        "generations",
    ] {
        home.put_back();
        let folder = home.data().join(rel);
        std::fs::create_dir_all(&folder).unwrap();
        let ended = home.traced(&options);
        assert!(ended.out.status.success(), "{rel}: {ended:?}");
        let folder = if rel.is_empty() { home.data() } else { folder };
        synced_before_use(&ended.log, &folder);
    }
}

fn synced_before_use(log: &str, folder: &std::path::Path) {
    let above = folder.parent().unwrap().to_string_lossy().into_owned();
    let (folder, locks) = (
        folder.to_string_lossy(),
        format!("{}/locks/", folder.display()),
    );
    for line in log.lines() {
        let path = line
            .split_once('<')
            .and_then(|(_, rest)| rest.split_once('>'));
        let Some((path, _)) = path else { continue };
        if line.contains("sync(") && path == above {
            return;
        }
        let inside = path.starts_with(&*folder) && !path.starts_with(&locks);
        assert!(
            !inside,
            "{folder} is used before its entry is synced: {line}"
        );
    }
    panic!("the entry of {folder} is never synced");
}
