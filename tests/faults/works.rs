//! The works of the plan engine under faults: a data directory in the state that a plan is for, the
//! approved argument vector, and what must hold whatever happens to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use cass::store::archive::SCHEMA_VERSION;
use serde_json::Value;

use super::harness::{
    CASS, Call, Idle, NAMES, OPENS, READS, SYNCS, WRITES, thread_name_path, walk,
};
use super::is_long;
use super::second_sync::{ALSO, no_second_sync};
use super::tracer::{Ended, thread_name, under_strace};

const CLAUDE: &str = ".claude/projects/-src-a/00000000-0000-4000-8000-000000000001.jsonl";
const SECOND: &str = ".claude/projects/-src-a/00000000-0000-4000-8000-000000000002.jsonl";
/// An index that leaves out what is derived: that has tests of its own.
pub const INDEX: &[&str] = &["index", "--skip-lexical", "--json"];

/// What is put right, made or taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plan {
    /// `repair`: `CURRENT` is gone.
    RePoint,
    /// `repair`: the log lost commits.
    Recover,
    /// `repair`: a row is damaged.
    Rebuild,
    /// `repair`: the first page of the archive is lost, and with it the mirror.
    Salvage,
    /// The same, and `CURRENT` is gone: what names it is the ledger alone.
    SalvageUnnamed,
    /// `repair`: only a backup is left.
    FromBackup,
    /// `repair`: the coverage ledger is damaged.
    Ledger,
    /// `backups create`.
    Create,
    /// `backups restore`, not yet approved.
    Rehearse,
    /// `backups restore`, rehearsed and approved.
    Restore,
    /// `runs undo` of a repair.
    Undo,
    /// `doctor --fix`: the lexical index is damaged.
    Fix,
    /// `repair`: the lexical index is noise.
    Derived,
    /// `repair`: what nothing holds is put on record as lost.
    Accept,
    /// `runs undo` of that: it is promised again.
    Withdraw,
    /// `repair`: nothing can be read anywhere, and a new archive is begun.
    Begin,
    /// `index`: the archive is of the first schema.
    Migrate,
}

/// Those that are tried at every kind of call; a salvage without `CURRENT` has a test of its own.
const PLANS: [Plan; 16] = [
    Plan::RePoint,
    Plan::Recover,
    Plan::Rebuild,
    Plan::Salvage,
    Plan::FromBackup,
    Plan::Ledger,
    Plan::Create,
    Plan::Rehearse,
    Plan::Restore,
    Plan::Undo,
    Plan::Fix,
    Plan::Derived,
    Plan::Accept,
    Plan::Withdraw,
    Plan::Begin,
    Plan::Migrate,
];

/// Those of [`PLANS`] that are asked for.
pub fn plans() -> Vec<Plan> {
    let mut plans = PLANS.to_vec();
    plans.retain(|p| p.is_asked_for());
    plans
}

impl Plan {
    /// Whether `CASS_FAULTS_PLANS` names it, or is not set.
    pub fn is_asked_for(self) -> bool {
        let only = std::env::var("CASS_FAULTS_PLANS").unwrap_or_default();
        only.is_empty() || only.split(',').any(|o| o == format!("{self:?}"))
    }

    /// Whether the command that is broken plans and applies at once, and nobody approves anything.
    fn is_unasked(self) -> bool {
        matches!(self, Plan::Rehearse | Plan::Fix | Plan::Migrate)
    }

    fn is_undo(self) -> bool {
        matches!(self, Plan::Undo | Plan::Withdraw)
    }
}

fn session(number: usize, turns: usize) -> Vec<u8> {
    let mut text = String::new();
    let mut parent = "null".to_owned();
    for i in 0..turns {
        let uuid = format!("00000000-0000-4000-8000-{:012x}", i + 1000 * number);
        let (kind, content) = if i % 2 == 0 {
            ("user", format!("\"question {i} about the harbour\""))
        } else {
            let answer = format!("answer {i}: the tide is at {i}");
            (
                "assistant",
                format!("[{{\"type\":\"text\",\"text\":\"{answer}\"}}]"),
            )
        };
        text.push_str(&format!(
            "{{\"parentUuid\":{parent},\"isSidechain\":false,\"cwd\":\"/src/a\",\"sessionId\":\
             \"00000000-0000-4000-8000-{number:012}\",\"version\":\"2.1.0\",\"type\":\"{kind}\",\
             \"message\":{{\"role\":\"{kind}\",\"content\":{content}}},\"uuid\":\"{uuid}\",\
             \"timestamp\":\"2026-06-01T00:00:{i:02}.000Z\"}}\n"
        ));
        parent = format!("\"{uuid}\"");
    }
    text.into_bytes()
}

/// Names without what is drawn anew in each run.
pub fn without_ids(path: &str) -> String {
    let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    let bytes = path.as_bytes();
    let mut out = String::new();
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes[at..]
            .iter()
            .take_while(|b| is_hex(**b) || **b == b'-');
        let long = hex.count();
        if long >= 32 {
            out.push('#');
            at += long;
        } else {
            out.push(char::from(bytes[at]));
            at += 1;
        }
    }
    out
}

/// A state, and the command that is broken in it.
pub struct Bench {
    dir: tempfile::TempDir,
    pub plan: Plan,
    folders: Vec<PathBuf>,
    files: BTreeMap<PathBuf, Vec<u8>>,
    argv: Vec<String>,
    /// The words that made the plan.
    words: Vec<String>,
    /// What people get out of the archive when all is well.
    truth: BTreeMap<String, Value>,
    /// Database of the generation that was live when the plan was made, or would be.
    old: String,
    old_db: Vec<u8>,
    /// For an undo: the generation that is live again, and its database.
    back: Option<(String, Vec<u8>)>,
    /// How an index ends in the state as it is.
    index_exit: i32,
    generations: BTreeSet<String>,
}

pub struct Ran {
    pub code: i32,
    pub json: Value,
    pub text: String,
}

impl Bench {
    pub fn new(plan: Plan) -> Bench {
        let shm = Path::new("/dev/shm");
        let dir = if shm.is_dir() {
            tempfile::tempdir_in(shm).or_else(|_| tempfile::tempdir())
        } else {
            tempfile::tempdir()
        }
        .expect("a folder");
        let mut b = Bench {
            dir,
            plan,
            folders: Vec::new(),
            files: BTreeMap::new(),
            argv: Vec::new(),
            words: Vec::new(),
            truth: BTreeMap::new(),
            old: String::new(),
            old_db: Vec::new(),
            back: None,
            index_exit: 0,
            generations: BTreeSet::new(),
        };
        b.fill();
        b.damage();
        b.old = b.current().unwrap_or_else(|| "g00000001".to_owned());
        b.old_db = fs::read(b.db(&b.old)).unwrap_or_default();
        b.generations = b.listed("generations");
        if plan.is_unasked() {
            b.argv = b.words.clone();
        } else {
            let planned = b.plan(false);
            assert_eq!(planned.code, 0, "{plan:?}: {}", planned.text);
            b.argv = applies(&planned.json).expect("a plan to apply");
        }
        let (mut folders, mut files) = (Vec::new(), Vec::new());
        walk(&b.data(), &mut folders, &mut files);
        (b.folders, b.files) = (folders, files.into_iter().collect());
        b.index_exit = b.cass(INDEX).code;
        b.put_back();
        b
    }

    /// Makes the data directory, with all well.
    fn fill(&self) {
        if self.plan == Plan::Migrate {
            // As the program that released the schema left it; its sources are gone.
            let frozen =
                Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/archives/schema-1/data");
            let (mut folders, mut files) = (Vec::new(), Vec::new());
            walk(&frozen, &mut folders, &mut files);
            let here = |p: PathBuf| self.data().join(p.strip_prefix(&frozen).expect("below it"));
            let folders: Vec<PathBuf> = folders.into_iter().map(here).collect();
            let files = files.into_iter().map(|(p, bytes)| (here(p), bytes));
            self.put_back_to(&folders, &files.collect());
            return;
        }
        self.put(CLAUDE, &session(1, 12));
        self.put(SECOND, &session(2, 4));
        self.good(INDEX);
        self.put(CLAUDE, &session(1, 16));
        if matches!(self.plan, Plan::Fix | Plan::Derived) {
            self.good(&["index", "--json"]);
        } else {
            self.good(INDEX);
        }
    }

    /// Brings the data directory into the state that the plan is for.
    fn damage(&mut self) {
        let words = |w: &[&str]| w.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        self.words = words(&["doctor", "repair"]);
        let live = self.current().expect("CURRENT");
        self.truth = self.exported("before the damage");
        match self.plan {
            Plan::RePoint => fs::remove_file(self.data().join("CURRENT")).expect("CURRENT"),
            Plan::Recover => {
                // A reader keeps the commits of the next run in the log.
                let lock = fs::File::open(self.data().join("locks/archive.lock")).expect("a lock");
                lock.lock_shared().expect("the lock");
                self.put(CLAUDE, &session(1, 20));
                self.good(INDEX);
                lock.unlock().expect("the lock");
                self.truth = self.exported("commits in the log");
                let wal = self.db(&live).with_file_name("agent_search.db-wal");
                let mut bytes = fs::read(&wal).expect("a log");
                bytes[60] ^= 1;
                fs::write(&wal, bytes).expect("a log");
            }
            Plan::Rebuild => self.tamper(),
            Plan::Salvage | Plan::SalvageUnnamed => {
                fs::remove_dir_all(self.data().join("raw-mirror")).expect("the mirror");
                let path = self.db(&live);
                let mut bytes = fs::read(&path).expect("the database");
                bytes[..4096].fill(0);
                fs::write(path, bytes).expect("the database");
                if self.plan == Plan::SalvageUnnamed {
                    fs::remove_file(self.data().join("CURRENT")).expect("CURRENT");
                }
            }
            Plan::FromBackup => {
                self.backup();
                fs::remove_dir_all(self.data().join("raw-mirror")).expect("the mirror");
                fs::write(self.db(&live), [0u8; 4096]).expect("the database");
            }
            Plan::Ledger => {
                let ledger = self.data().join("coverage.jsonl");
                let text = fs::read_to_string(&ledger).expect("the ledger");
                let rest = text.split_once('\n').expect("lines").1;
                fs::write(&ledger, format!("{{\"kind\":\"comm\n{rest}")).expect("the ledger");
            }
            Plan::Create => self.words = words(&["doctor", "backups", "create"]),
            Plan::Migrate => self.words = words(INDEX),
            Plan::Rehearse | Plan::Restore => {
                let id = self.backup();
                self.tamper();
                self.words = words(&["doctor", "backups", "restore", &id]);
            }
            Plan::Undo => {
                self.tamper();
                let damaged = fs::read(self.db(&live)).expect("the database");
                let planned = self.plan(false);
                let ran = self.argv(&applies(&planned.json).expect("a plan"));
                assert_eq!(ran.code, 0, "{}", ran.text);
                self.back = Some((live, damaged));
                self.words = words(&["doctor", "runs", "undo", "latest"]);
            }
            Plan::Accept | Plan::Withdraw => {
                // Evidence, of which no row was made.
                let line = b"{\"display\":\"a\",\"timestamp\":1780000000000,\"project\":\"/\"}\n";
                self.put(".claude/history.jsonl", line);
                self.good(INDEX);
                fs::remove_dir_all(self.dir.path().join(".claude")).expect("the sources");
                let pack = self.data().join("raw-mirror/packs/00000001.pack");
                fs::remove_file(pack).expect("a pack");
                if self.plan == Plan::Withdraw {
                    let planned = self.plan(false);
                    let ran = self.argv(&applies(&planned.json).expect("a plan"));
                    assert_eq!(ran.code, 0, "{}", ran.text);
                    self.words = words(&["doctor", "runs", "undo", "latest"]);
                }
            }
            Plan::Begin => {
                fs::remove_dir_all(self.dir.path().join(".claude")).expect("the sources");
                fs::remove_dir_all(self.data().join("raw-mirror")).expect("the mirror");
                fs::write(self.db(&live), [9u8; 50_000]).expect("the database");
                self.truth = BTreeMap::new();
            }
            Plan::Fix | Plan::Derived => {
                if self.plan == Plan::Fix {
                    self.words = words(&["doctor", "--fix"]);
                }
                let pointer = self.data().join("derived/lexical/CURRENT");
                let name = fs::read_to_string(&pointer).expect("an index");
                let folder = self.data().join("derived/lexical").join(name.trim());
                let file = fs::read_dir(&folder)
                    .expect("an index")
                    .map(|e| e.expect("an entry").path())
                    .max_by_key(|p| fs::metadata(p).map_or(0, |m| m.len()))
                    .expect("a file");
                if self.plan == Plan::Fix {
                    fs::remove_file(file).expect("a file of the index");
                } else {
                    fs::write(file, [7u8; 30_000]).expect("a file of the index");
                }
            }
        }
    }

    fn tamper(&self) {
        let path = self.db(&self.current().expect("CURRENT"));
        let (mut bytes, text) = (fs::read(&path).expect("the database"), b"answer 7:");
        let places: Vec<usize> = bytes
            .windows(text.len())
            .enumerate()
            .filter_map(|(at, w)| (w == text).then_some(at))
            .collect();
        assert!(!places.is_empty());
        for at in places {
            bytes[at] ^= 1;
        }
        fs::write(path, bytes).expect("the database");
    }

    fn backup(&self) -> String {
        let planned = self.cass(&["doctor", "backups", "create", "--json"]);
        let made = self.argv(&applies(&planned.json).expect("a plan"));
        assert_eq!(made.code, 0, "{}", made.text);
        made.json["backup_id"].as_str().expect("its id").to_owned()
    }

    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn db(&self, id: &str) -> PathBuf {
        self.data()
            .join("generations")
            .join(id)
            .join("agent_search.db")
    }

    pub fn current(&self) -> Option<String> {
        let text = fs::read_to_string(self.data().join("CURRENT")).ok()?;
        Some(text.trim().to_owned())
    }

    /// Names in a folder of the data directory.
    pub fn listed(&self, rel: &str) -> BTreeSet<String> {
        fs::read_dir(self.data().join(rel))
            .into_iter()
            .flatten()
            .map(|e| e.expect("an entry").file_name().to_string_lossy().into())
            .collect()
    }

    fn put(&self, rel: &str, bytes: &[u8]) {
        let path = self.dir.path().join(rel);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, bytes).expect("a file");
    }

    /// Puts the data directory back to the state that the plan is for.
    pub fn put_back(&self) {
        self.put_back_to(&self.folders, &self.files);
    }

    pub fn put_back_to(&self, folders: &[PathBuf], files: &BTreeMap<PathBuf, Vec<u8>>) {
        if self.data().exists() {
            fs::remove_dir_all(self.data()).expect("the data directory can go");
        }
        for folder in folders {
            let mut builder = fs::DirBuilder::new();
            builder.mode(0o700).create(folder).expect("a folder");
        }
        for (path, bytes) in files {
            fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)
                .and_then(|mut f| f.write_all(bytes))
                .expect("a file");
        }
    }

    pub fn state(&self) -> (Vec<PathBuf>, BTreeMap<PathBuf, Vec<u8>>) {
        let (mut folders, mut files) = (Vec::new(), Vec::new());
        walk(&self.data(), &mut folders, &mut files);
        (folders, files.into_iter().collect())
    }

    fn command(&self, program: &str, before: &[String], args: &[String]) -> Command {
        let mut command = Command::new(program);
        command.args(before);
        if program != CASS {
            command.arg(CASS);
        }
        command
            // In front: words may end in names.
            .arg("--json")
            .args(args.iter().filter(|a| *a != "--json"))
            .env_clear()
            .env("CASS_DATA_DIR", self.data())
            .env("HOME", self.dir.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("RAYON_NUM_THREADS", "1")
            .current_dir("/")
            .stdin(Stdio::null());
        command
    }

    fn argv(&self, args: &[String]) -> Ran {
        ran(self.command(CASS, &[], args).output().expect("it starts"))
    }

    pub fn cass(&self, args: &[&str]) -> Ran {
        let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
        self.argv(&args)
    }

    fn good(&self, args: &[&str]) -> Ran {
        let ran = self.cass(args);
        assert_eq!(ran.code, 0, "cass {}: {}", args.join(" "), ran.text);
        ran
    }

    fn exported(&self, when: &str) -> BTreeMap<String, Value> {
        let list = self.cass(&["sessions", "list", "--limit", "1000", "--json"]);
        assert_eq!(list.code, 0, "{when}: {}", list.text);
        let sessions = list.json["sessions"].as_array().expect("sessions").clone();
        sessions
            .iter()
            .map(|s| {
                let id = s["id"].as_str().expect("an id");
                let whole = self.cass(&["export", id, "--format", "json", "--json"]);
                assert_eq!(whole.code, 0, "{when}: {}", whole.text);
                (id.to_owned(), whole.json["messages"].clone())
            })
            .collect()
    }

    /// The dry run that made the plan.
    pub fn plan(&self, allow_repeat: bool) -> Ran {
        let mut words = self.words.clone();
        if allow_repeat {
            words.push("--allow-repeated-repair".to_owned());
        }
        self.argv(&words)
    }

    /// The command that is broken, as strace is to run it.
    pub fn traced(&self, args: &[String], options: &[String]) -> Ended {
        under_strace(self.dir.path(), options, |strace| {
            self.command("strace", strace, args)
        })
    }

    pub fn work(&self) -> &[String] {
        &self.argv
    }

    pub fn index() -> Vec<String> {
        INDEX.iter().map(|w| (*w).to_owned()).collect()
    }

    /// Every call of a run without faults from the state as it is; `changes` marks those that can
    /// change something. Reads are of the long run only, for tracing them takes as long again.
    pub fn calls(&self, args: &[String]) -> Option<Vec<Call>> {
        if Command::new("strace").arg("-V").output().is_err() {
            println!("passed over: strace is missing");
            return None;
        }
        let (mut folders, mut before) = (Vec::new(), Vec::new());
        walk(&self.data(), &mut folders, &mut before);
        let before: Vec<PathBuf> = before.into_iter().map(|f| f.0).collect();
        let reads = if is_long() { READS } else { &[] };
        let names = [WRITES, SYNCS, NAMES, OPENS, reads].concat();
        let ended = self.traced(
            args,
            &[
                "-s".to_owned(),
                "8".to_owned(),
                "-e".to_owned(),
                format!("trace=?{}", names.join(",?")),
            ],
        );
        if ended.log.is_empty() {
            println!("passed over: processes can't be traced here");
            return None;
        }
        let home = self.dir.path().to_string_lossy().into_owned();
        let mut of_names: BTreeMap<(String, String), u64> = BTreeMap::new();
        let mut seen: BTreeMap<(String, String), u64> = BTreeMap::new();
        let mut calls = Vec::new();
        let mut idle = Idle::new(before.iter());
        for line in ended.log.lines() {
            let Some((thread, name)) = thread_name(line) else {
                continue;
            };
            let idle = idle.is(&name, line);
            let of_name = of_names.entry((thread, name)).or_default();
            *of_name += 1;
            let of_name = *of_name;
            let Some((_, name, path)) = thread_name_path(line, &home) else {
                continue;
            };
            let changes = !READS.contains(&name.as_str())
                && (!OPENS.contains(&name.as_str()) || line.contains("O_CREAT"));
            let path = without_ids(&path.replace(&home, "~"));
            let k = seen.entry((name.clone(), path.clone())).or_default();
            *k += 1;
            calls.push(Call {
                k: *k,
                of_name,
                name,
                path,
                changes,
                idle,
            });
        }
        Some(calls)
    }

    /// One fault at one call, from the state as it is; demands that it met that call. A call is
    /// counted within its name, for the names of runs differ from run to run.
    pub fn fault(&self, args: &[String], call: &Call, fault: &str, when: &str) -> Option<Ended> {
        let counted = format!("{}:{fault}:when={}", call.name, call.of_name);
        self.injected(args, call, &[], &counted, when)
    }

    /// The same with the approved words. Where another thread came to the same number first, the call
    /// is counted at its path instead, from the state that the plan is for.
    fn fault_of_work(&self, call: &Call, fault: &str, when: &str) -> Option<Ended> {
        self.put_back();
        let met = self.fault(&self.argv, call, fault, when);
        if met.is_some() || call.path.contains('#') || call.is_one_of(SYNCS) {
            return met;
        }
        self.put_back();
        let home = self.dir.path().to_string_lossy();
        let at = ["-P".to_owned(), call.path.replace('~', &home)];
        let counted = format!("{}:{fault}:when={}", call.name, call.k);
        self.injected(&self.argv, call, &at, &counted, when)
    }

    fn injected(
        &self,
        args: &[String],
        call: &Call,
        at: &[String],
        inject: &str,
        when: &str,
    ) -> Option<Ended> {
        let also = if call.is_one_of(SYNCS) {
            format!(",{ALSO}")
        } else {
            String::new()
        };
        let mut options = at.to_vec();
        options.extend([
            "-s".to_owned(),
            "8".to_owned(),
            "-e".to_owned(),
            format!("trace={}{also}", call.name),
            "-e".to_owned(),
            format!("inject={inject}"),
        ]);
        let ended = self.traced(args, &options);
        let home = self.dir.path().to_string_lossy().into_owned();
        let hit = if inject.contains(":signal=") {
            assert!(ended.killed, "{when}: not killed: {}", ended.log);
            ended
                .log
                .lines()
                .rev()
                .find_map(|l| thread_name_path(l, &home).filter(|c| c.1 == call.name))
        } else {
            ended
                .log
                .lines()
                .find(|l| l.contains("(INJECTED)"))
                .and_then(|l| thread_name_path(l, &home))
        };
        let hit = hit.map(|(_, _, path)| without_ids(&path.replace(&home, "~")));
        (hit.as_deref() == Some(call.path.as_str())).then_some(ended)
    }

    /// What holds right after a fault.
    pub fn explained(&self, when: &str) {
        // What was promised is there to the byte, whatever may be behind it.
        for (path, bytes) in &self.files {
            let name = path.to_string_lossy();
            let is_ledger = name.ends_with("/coverage.jsonl") && self.plan != Plan::Ledger;
            let kept = name.contains("/packs/") || name.contains("/raw-mirror/sources/");
            // What the archive holds stays where it is, damage included; the log of the live one may
            // be written back into it.
            if kept || is_ledger || name.contains("/backups/b0") {
                let now = fs::read(path).unwrap_or_else(|e| panic!("{when}: {name}: {e}"));
                assert!(now.starts_with(bytes), "{when}: {name} has changed");
            }
        }
        if !self.old_db.is_empty() {
            let now = fs::read(self.db(&self.old)).unwrap_or_default();
            assert!(now == self.old_db, "{when}: the archive has changed");
        }
        let more = self.listed("generations");
        assert!(
            more.difference(&self.generations).count() <= 1,
            "{when}: {more:?}"
        );
        let check = self.cass(&["doctor", "check", "--json"]);
        assert_eq!(
            check.json["operation_outcome"]["exit_code"].as_i64(),
            Some(i64::from(check.code)),
            "{when}: {}",
            check.text
        );
        self.is_named(&check, when);
        // A run that began and did not end is told.
        if !self.open().is_empty() {
            assert!(
                check.text.contains("interrupted") || check.text.contains("killed"),
                "{when}: a killed run is not told: {}",
                check.text
            );
        }
    }

    /// The check names the old archive or the new one, and where the ledger does not end in the one that
    /// is live, that a run is to be finished.
    fn is_named(&self, check: &Ran, when: &str) {
        let (Some(live), Some(named)) = (
            self.current(),
            check
                .json
                .pointer("/archive/generation")
                .and_then(Value::as_str),
        ) else {
            return;
        };
        assert_eq!(named, live, "{when}: {}", check.text);
        if self.plan == Plan::Ledger {
            return;
        }
        let ledger = fs::read_to_string(self.data().join("coverage.jsonl")).unwrap_or_default();
        let last = ledger
            .lines()
            .rev()
            .find_map(|l| serde_json::from_str::<Value>(l).ok());
        let promised = last.as_ref().and_then(|l| l["generation"].as_str());
        assert!(
            promised == Some(named) || !self.open().is_empty(),
            "{when}: {named} is live, the ledger ends in {promised:?}, and no run is open"
        );
    }

    /// Runs that have an intent and no receipt.
    pub fn open(&self) -> BTreeSet<String> {
        let whole = |rel: &str| -> BTreeSet<String> {
            let all = self.listed(rel).into_iter();
            all.filter(|n| n.starts_with("run-")).collect()
        };
        let (intents, receipts) = (whole("doctor/intents"), whole("doctor/receipts"));
        intents.difference(&receipts).cloned().collect()
    }

    /// One argument vector ends clean, and then either the plan can still be applied or it has taken
    /// effect.
    pub fn ends_clean(&self, when: &str) {
        let before = self.open();
        let index = self.cass(INDEX);
        assert!(
            index.code == 0 || index.code == self.index_exit || self.waits(&index),
            "{when}: index ended with {}: {}",
            index.code,
            index.text
        );
        assert_eq!(self.open(), BTreeSet::new(), "{when}: {}", index.text);
        self.nothing_lies_about(when);
        let check = self.cass(&["doctor", "check", "--json"]);
        assert!(
            check.json["operation_outcome"].is_object(),
            "{when}: {}",
            check.text
        );
        // An undo that took effect, and so on: the approved words once more.
        let took_effect = before.iter().any(|run| self.status(run) == "applied");
        let again = self.argv(&self.argv);
        let state = again.json["status"].as_str().unwrap_or_default().to_owned();
        if took_effect {
            // The first receipt, or nothing to do: never twice.
            assert!(
                again.code == 20
                    || again.code == 3
                    // An undo that took effect has nothing left to take back.
                    || (again.code == 21 && self.plan.is_undo())
                    || ["already-applied", "no-op", "verified", "applied"]
                        .contains(&state.as_str()),
                "{when}: {}",
                again.text
            );
        }
        if again.code != 0 {
            self.plan_anew(&again, when);
        }
        self.reached(when);
        self.nothing_lies_about(when);
    }

    /// Whether a migration that failed waits for somebody to look at it.
    fn waits(&self, index: &Ran) -> bool {
        let is_blocked = index.code == 21 && index.json["err"]["kind"] == "blocked";
        self.plan == Plan::Migrate && is_blocked && self.is_marked()
    }

    /// Whether a failed run left its marker.
    fn is_marked(&self) -> bool {
        self.data().join("doctor/failures/marker.json").exists()
    }

    fn status(&self, run: &str) -> String {
        let text = fs::read(self.data().join("doctor/receipts").join(run)).unwrap_or_default();
        let json: Value = serde_json::from_slice(&text).unwrap_or_default();
        json["receipt"]["status"]
            .as_str()
            .unwrap_or_default()
            .into()
    }

    /// The state moved (a marker, a finished run): a new plan is made and applied, if there is any to
    /// make.
    fn plan_anew(&self, refused: &Ran, when: &str) {
        assert!(
            [20, 21, 3].contains(&refused.code),
            "{when}: the approved words ended with {}: {}",
            refused.code,
            refused.text
        );
        if self.plan == Plan::Undo && self.current() == self.back.as_ref().map(|b| b.0.clone()) {
            return;
        }
        if self.plan == Plan::Withdraw && self.accepted() == 0 {
            return;
        }
        if self.plan == Plan::Migrate {
            assert!(self.waits(refused), "{when}: {}", refused.text);
            let words = ["doctor", "repair", "--allow-repeated-repair"];
            let argv = applies(&self.good(&words).json).expect("a plan that clears the marker");
            let applied = self.argv(&argv);
            assert_eq!(applied.code, 0, "{when}: {}", applied.text);
            self.good(INDEX);
            return;
        }
        let mut planned = self.plan(false);
        if planned.code == 21 && self.plan == Plan::Fix {
            // An automatic run never repeats what failed; the repair does, when it is told to.
            planned = self.cass(&["doctor", "repair", "--allow-repeated-repair"]);
        } else if planned.code == 21 {
            planned = self.plan(true);
        }
        assert_eq!(planned.code, 0, "{when}: no new plan: {}", planned.text);
        if let Some(argv) = applies(&planned.json) {
            let applied = self.argv(&argv);
            assert_eq!(applied.code, 0, "{when}: {}", applied.text);
        }
    }

    /// The state that the plan is for.
    fn reached(&self, when: &str) {
        match self.plan {
            Plan::Undo => {
                let (id, db) = self.back.as_ref().expect("an undo");
                assert_eq!(self.current().as_ref(), Some(id), "{when}");
                let now = fs::read(self.db(id)).expect("the database");
                assert!(&now == db, "{when}: the damage is not back as it was");
                return;
            }
            Plan::Rehearse => {
                assert_eq!(self.listed("generations"), self.generations, "{when}");
                return;
            }
            Plan::Create => {
                let verified = self.cass(&["doctor", "backups", "verify", "b00000001", "--json"]);
                assert_eq!(verified.code, 0, "{when}: {}", verified.text);
                assert!(self.listed("backups").len() <= 2, "{when}");
            }
            Plan::Withdraw => {
                assert_eq!(self.accepted(), 0, "{when}");
                let check = self.cass(&["doctor", "check", "--json"]);
                assert_eq!(check.code, 1, "{when}: {}", check.text);
                assert!(check.text.contains("promise-not-kept"), "{when}");
                assert_eq!(self.exported(when), self.truth, "{when}");
                return;
            }
            Plan::Accept | Plan::Begin => assert_eq!(self.accepted(), 1, "{when}"),
            Plan::Migrate => {
                let live = self.current().expect("CURRENT");
                let manifest = self.db(&live).with_file_name("manifest.json");
                let manifest = fs::read(manifest).expect("a manifest");
                let manifest: Value = serde_json::from_slice(&manifest).expect("JSON");
                assert_eq!(manifest["schema_version"], SCHEMA_VERSION, "{when}");
                assert_ne!(live, self.old, "{when}");
                let seal = self.db(&self.old).with_file_name("seal.json");
                assert!(seal.exists(), "{when}: {} is not sealed", self.old);
            }
            _ => {}
        }
        assert_eq!(
            self.exported(when),
            self.truth,
            "{when}: not what was there"
        );
        let mut check = self.cass(&["doctor", "check", "--deep", "--json"]);
        let without_mirror = [Plan::Salvage, Plan::SalvageUnnamed, Plan::FromBackup];
        if check.code != 0 && without_mirror.contains(&self.plan) {
            // The mirror is gone too; the check names the one command that fills it again.
            let words = &check.json["recommended_commands"][0]["argv"];
            assert_eq!(
                words,
                &serde_json::json!(["cass", "index", "--full"]),
                "{when}"
            );
            self.good(&["index", "--full", "--skip-lexical", "--json"]);
            check = self.cass(&["doctor", "check", "--deep", "--json"]);
        }
        assert_eq!(check.code, 0, "{when}: {}", check.text);
    }

    /// Accepted losses in force, by their own files and by the receipts.
    fn accepted(&self) -> usize {
        let receipts: Vec<Value> = self
            .listed("doctor/receipts")
            .iter()
            .map(|name| fs::read(self.data().join("doctor/receipts").join(name)))
            .map(|bytes| serde_json::from_slice(&bytes.expect("a receipt")).expect("JSON"))
            .collect();
        let applied = |r: &&Value| r["receipt"]["status"] == "applied";
        let of = |run: &str, key: &str| {
            receipts
                .iter()
                .filter(applied)
                .any(|r| r["receipt"][key] == run)
        };
        self.listed("doctor/accepted")
            .iter()
            .filter_map(|name| name.strip_suffix(".json"))
            .filter(|run| of(run, "run_id") && !of(run, "undoes"))
            .count()
    }

    /// Nothing half made is left, and no generation but those that something names.
    fn nothing_lies_about(&self, when: &str) {
        let (mut folders, mut files) = (Vec::new(), Vec::new());
        walk(&self.data(), &mut folders, &mut files);
        let paths = folders.iter().chain(files.iter().map(|f| &f.0));
        let half: Vec<&PathBuf> = paths
            .filter(|p| !p.starts_with(self.data().join("derived")))
            .filter(|p| {
                let name = p.file_name().unwrap_or_default().to_string_lossy();
                // One of a name that never changes is written over by the next who needs it.
                name.starts_with('.') && (name.contains("run-") || !name.ends_with(".tmp"))
            })
            .collect();
        assert!(half.is_empty(), "{when}: half made: {half:?}");
        for id in self.listed("generations").difference(&self.generations) {
            let folder = self.data().join("generations").join(id);
            assert!(
                self.current().as_ref() == Some(id) || folder.join("seal.json").exists(),
                "{when}: {id} is left over"
            );
        }
    }

    pub fn killed_at(&self, call: &Call) -> bool {
        let when = format!("{:?}: killed at {call}", self.plan);
        if self.fault_of_work(call, "signal=SIGKILL", &when).is_none() {
            return false;
        }
        // A kill is nobody's failure: what was begun is begun again.
        assert!(!self.is_marked(), "{when}");
        self.explained(&when);
        self.ends_clean(&when);
        true
    }

    /// How long its work takes when nobody stops it.
    pub fn undisturbed(&self) -> Duration {
        self.put_back();
        let begun = Instant::now();
        let ran = self.argv(&self.argv);
        assert_eq!(ran.code, 0, "{:?}: {}", self.plan, ran.text);
        begun.elapsed()
    }

    /// Kills its work after a while; whether it had not ended by then.
    pub fn killed_after(&self, delay: Duration, when: &str) -> bool {
        self.put_back();
        let mut command = self.command(CASS, &[], &self.argv);
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = quiet.spawn().expect("it starts");
        std::thread::sleep(delay);
        child.kill().expect("it can be killed");
        let code = child.wait().expect("it ends").code();
        self.explained(when);
        match code {
            None => self.ends_clean(when),
            Some(0) if self.plan == Plan::Rehearse => {}
            // What was acknowledged is there without another run.
            Some(0) => self.reached(when),
            Some(code) => panic!("{when}: exit {code}"),
        }
        code.is_none()
    }

    pub fn fails_at(&self, call: &Call, error: &str) -> bool {
        let when = format!("{:?}: {error} at {call}", self.plan);
        let Some(ended) = self.fault_of_work(call, &format!("error={error}"), &when) else {
            return false;
        };
        let code = ended.out.status.code();
        assert!(code.is_some(), "{when}: died: {ended:?}");
        let mute = call.path.ends_with("/out.json");
        match serde_json::from_slice::<Value>(&ended.document) {
            Ok(document) => assert_eq!(
                document["operation_outcome"]["exit_code"].as_i64(),
                code.map(i64::from),
                "{when}: the document tells another exit"
            ),
            Err(e) => assert!(mute, "{when}: no document (I8): {e}: {ended:?}"),
        }
        if call.is_one_of(SYNCS) && error != "EINTR" {
            no_second_sync(&ended, &when);
        }
        self.explained(&when);
        if code == Some(0) && self.plan != Plan::Rehearse {
            // What was acknowledged is there without another run.
            self.reached(&when);
        }
        self.ends_clean(&when);
        true
    }
}

/// Those that can change something.
pub fn changing(mut calls: Vec<Call>) -> Vec<Call> {
    calls.retain(|c| c.changes);
    calls
}

/// The argument vector that applies the plan of a document.
pub fn applies(document: &Value) -> Option<Vec<String>> {
    let parts = document.as_object()?;
    let argv = parts
        .values()
        .find_map(|v| v.get("apply_argv")?.as_array())?;
    Some(
        argv.iter()
            .skip(1)
            .map(|w| w.as_str().expect("a word").to_owned())
            .collect(),
    )
}

fn ran(out: Output) -> Ran {
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    Ran {
        code: out.status.code().unwrap_or(-1),
        json: serde_json::from_str(&text).unwrap_or_else(|e| panic!("no document: {e}: {out:?}")),
        text,
    }
}
