//! R13: indexers, readers, a doctor and a backup at once, some of them killed at any moment. What an
//! index acknowledged stays, and nobody is told of damage.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::lab::apply_argv;
use super::sandbox::{Ran, Sandbox, age, ran};
use super::sequences::{held, session, source};

/// A generator that needs nothing: what is killed when.
fn random(state: &AtomicU64) -> u64 {
    let mut x = state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

struct Crowd {
    s: Sandbox,
    stop: AtomicBool,
    random: AtomicU64,
    acknowledged: Mutex<BTreeSet<String>>,
    /// How the runs ended, by command.
    ends: Mutex<BTreeMap<String, u64>>,
    wrong: Mutex<Vec<String>>,
}

impl Crowd {
    /// Runs a command to its end, or kills it; `None` when it was killed.
    fn run(&self, words: &[&str]) -> Option<Ran> {
        let mut c = self.s.command(&["--json"]);
        c.args(words)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        let mut child = c.spawn().unwrap();
        if random(&self.random).is_multiple_of(4) {
            std::thread::sleep(Duration::from_micros(random(&self.random) % 80_000));
            child.kill().unwrap();
        }
        let out = child.wait_with_output().unwrap();
        let name = words[..words.len().min(3)].join(" ");
        if out.status.code().is_none() {
            *self
                .ends
                .lock()
                .unwrap()
                .entry(format!("{name}: killed"))
                .or_insert(0) += 1;
            return None;
        }
        let ran = ran(out);
        *self
            .ends
            .lock()
            .unwrap()
            .entry(format!("{name}: {}", ran.code))
            .or_insert(0) += 1;
        let said = format!("{} {}", ran.stdout, ran.stderr).to_lowercase();
        let busy = ran.code == 7;
        if said.contains("malformed")
            || said.contains("not a database")
            || said.contains("panicked")
            || [5, 6, 9, 22, 23].contains(&ran.code)
            || busy && ran.json["err"]["retry_after_ms"].as_u64().is_none()
        {
            self.wrong.lock().unwrap().push(format!(
                "{words:?}: {} {}",
                ran.code,
                said.chars().take(1500).collect::<String>()
            ));
        }
        Some(ran)
    }

    fn going(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    fn indexer(&self, id: u8) {
        let mut n = 0;
        while self.going() {
            n += 2;
            let records: Vec<u32> = (0..n).collect();
            let path = self.s.home().join(source(id));
            let aside = path.with_extension("new");
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&aside, session(id, &records)).unwrap();
            age(&aside, u64::from(100_000 - n));
            fs::rename(&aside, &path).unwrap();
            if self.run(&["index"]).is_some_and(|r| r.code == 0) {
                let tokens = records.iter().map(|n| format!("tok{id}x{n:05}"));
                self.acknowledged.lock().unwrap().extend(tokens);
            }
            std::thread::sleep(Duration::from_millis(random(&self.random) % 200));
        }
    }

    /// As a person would: again, while somebody else holds the lock.
    fn insist(&self, words: &[&str]) -> Option<Ran> {
        for _ in 0..50 {
            match self.run(words) {
                Some(busy) if busy.code == 7 && self.going() => {
                    std::thread::sleep(Duration::from_millis(random(&self.random) % 20));
                }
                other => return other,
            }
        }
        None
    }

    fn apply(&self, dry: &[&str]) {
        let Some(planned) = self.insist(dry).filter(|r| r.code == 0) else {
            return;
        };
        if planned.json["status"] != "planned" {
            return;
        }
        let words = apply_argv(&planned);
        self.insist(&words.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

#[test]
fn a_crowd_with_kills_loses_nothing_that_was_acknowledged() {
    let time = Duration::from_secs(if super::is_long() { 60 } else { 8 });
    let s = Sandbox::in_memory();
    s.put(&source(9), &session(9, &[1, 2, 3]));
    s.run(&["index"]).expect(0);
    super::lab::back_up(&s, "first");
    let seed = std::env::var("CASS_PLAN_SEED").ok();
    let crowd = Crowd {
        s,
        stop: AtomicBool::new(false),
        random: AtomicU64::new(seed.and_then(|s| s.parse().ok()).unwrap_or(1)),
        acknowledged: Mutex::default(),
        ends: Mutex::default(),
        wrong: Mutex::default(),
    };
    std::thread::scope(|scope| {
        let c = &crowd;
        for id in 1..=4 {
            scope.spawn(move || c.indexer(id));
        }
        for _ in 0..2 {
            scope.spawn(|| {
                while c.going() {
                    c.run(&["doctor", "check"]);
                    c.run(&["search", "harbour"]);
                }
            });
            scope.spawn(|| {
                while c.going() {
                    let list = c.run(&["sessions", "list"]);
                    let id =
                        list.and_then(|l| Some(l.json["sessions"][0]["id"].as_str()?.to_owned()));
                    if let Some(id) = id {
                        c.run(&["view", &id]);
                    }
                }
            });
        }
        scope.spawn(|| {
            while c.going() {
                c.apply(&["doctor", "backups", "restore", "--keep-newer", "b00000001"]);
                c.apply(&["doctor", "repair"]);
                c.apply(&["doctor", "runs", "undo", "latest"]);
                c.insist(&["doctor", "--fix", "--force-rebuild"]);
            }
        });
        scope.spawn(|| {
            while c.going() {
                c.apply(&["doctor", "backups", "create"]);
                std::thread::sleep(Duration::from_millis(300));
            }
        });
        let begun = Instant::now();
        while begun.elapsed() < time {
            std::thread::sleep(Duration::from_millis(50));
        }
        crowd.stop.store(true, Ordering::Relaxed);
    });
    println!("{:#?}", crowd.ends.lock().unwrap());
    let wrong = crowd.wrong.into_inner().unwrap();
    let runs: u64 = crowd.ends.lock().unwrap().values().sum();
    println!(
        "torture | R13 runs of a crowd, a quarter killed | {runs} | {} | {} |",
        runs - wrong.len() as u64,
        wrong.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let s = &crowd.s;
    // One command ends whatever a killed one left.
    s.run(&["index"]).expect(0);
    let planned = s.run(&["doctor", "repair"]).expect(0);
    if planned.text("/status") == "planned" {
        super::lab::run_argv(s, &apply_argv(&planned)).expect(0);
    }
    s.run(&["doctor", "check", "--deep"]).expect(0);
    let acknowledged = crowd.acknowledged.into_inner().unwrap();
    let held = held(&s.data()).unwrap();
    let lost: Vec<_> = acknowledged.difference(&held).take(9).collect();
    assert!(lost.is_empty(), "{lost:?}");
}
