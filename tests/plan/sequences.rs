//! R17: random sequences of captures, losses, damage and cures, beside a model that only knows which
//! records were acknowledged and which undamaged holder still has them. Whatever the model can still
//! read is in the archive after a cure, and no command but an undo takes a record away. Every fourth
//! sequence begins in a data directory that a program of the oldest schema left, whose harnesses have
//! pruned everything since.
//!
//! `CASS_PLAN_SEED=N` runs one sequence again; what fails is shrunk and printed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::frozen::Frozen;
use super::lab::{apply_argv, copy};
use super::place::each;
use super::sandbox::{Ran, Sandbox, age, files_below};

type Tokens = BTreeSet<String>;

#[derive(Debug, Clone, Copy)]
pub enum Op {
    New(u8),
    Grow(u8),
    Rewrite(u8),
    Prune(u8),
    Row(u8),
    Page(u8),
    WalHot(u8),
    Current,
    Database,
    Object(u8),
    Backup,
    Repair,
    Restore(u8),
    Undo,
    Redo,
    Fix(bool),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => (0..3u8).prop_map(Op::New),
        3 => (0..3u8).prop_map(Op::Grow),
        2 => (0..3u8).prop_map(Op::Rewrite),
        1 => (0..3u8).prop_map(Op::Prune),
        2 => any::<u8>().prop_map(Op::Row),
        1 => any::<u8>().prop_map(Op::Page),
        1 => (0..3u8).prop_map(Op::WalHot),
        1 => Just(Op::Current),
        1 => Just(Op::Database),
        2 => any::<u8>().prop_map(Op::Object),
        1 => Just(Op::Backup),
        5 => Just(Op::Repair),
        2 => any::<u8>().prop_map(Op::Restore),
        2 => Just(Op::Undo),
        1 => Just(Op::Redo),
        1 => any::<bool>().prop_map(Op::Fix),
    ]
}

/// One archive, as the model knows it.
#[derive(Debug, Clone, Default)]
struct Holder {
    tokens: Tokens,
    damaged: Tokens,
    /// Nothing can be said about what it still gives.
    blind: bool,
}

impl Holder {
    fn readable(&self) -> Tokens {
        if self.blind {
            return Tokens::new();
        }
        self.tokens.difference(&self.damaged).cloned().collect()
    }

    fn is_sound(&self) -> bool {
        !self.blind && self.damaged.is_empty()
    }
}

/// A capture that was acknowledged.
struct Version {
    path: PathBuf,
    seq: u64,
    hash: blake3::Hash,
    tokens: Tokens,
}

pub struct World {
    s: Sandbox,
    /// What each session's file holds now.
    files: BTreeMap<u8, Vec<u32>>,
    next: u32,
    versions: Vec<Version>,
    mirror_damaged: bool,
    live: Holder,
    sealed: BTreeMap<String, Holder>,
    backups: BTreeMap<String, Holder>,
    repaired: Option<Vec<String>>,
}

fn token(session: u8, n: u32) -> String {
    format!("tok{session}x{n:05}")
}

/// A session whose every record is one user message with one token.
pub fn session(session: u8, records: &[u32]) -> Vec<u8> {
    let mut text = String::new();
    let mut parent = "null".to_owned();
    for n in records {
        let uuid = format!("00000000-0000-4000-8{session:03x}-{n:012x}");
        text.push_str(&format!(
            "{{\"parentUuid\":{parent},\"isSidechain\":false,\"userType\":\"external\",\"cwd\":\"/src/a\",\"sessionId\":\"00000000-0000-4000-8000-{session:012x}\",\"version\":\"2.1.0\",\"type\":\"user\",\"message\":{{\"role\":\"user\",\"content\":\"{} {}\"}},\"uuid\":\"{uuid}\",\"timestamp\":\"2026-06-01T00:00:{:02}.000Z\"}}\n",
            token(session, *n),
            "weather at the harbour ".repeat(1 + (*n as usize) % 9),
            n % 60
        ));
        parent = format!("\"{uuid}\"");
    }
    text.into_bytes()
}

pub fn source(session: u8) -> String {
    format!(".claude/projects/-src-a/00000000-0000-4000-8000-{session:012x}.jsonl")
}

/// The tokens of all messages of the live archive, read from a copy by SQLite alone.
pub fn held(data: &Path) -> Option<Tokens> {
    let current = fs::read_to_string(data.join("CURRENT")).ok()?;
    let from = data.join("generations").join(current.trim_end());
    let tokens = told(&from, "SELECT text, NULL FROM messages")?;
    Some(tokens.into_iter().map(|(token, _)| token).collect())
}

/// The tokens of messages of the archive in this folder, and the paths beside them.
fn told(folder: &Path, select: &str) -> Option<Vec<(String, Option<Vec<u8>>)>> {
    let dir = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    copy(folder, dir.path());
    let _ = fs::remove_file(dir.path().join("agent_search.db-shm"));
    let conn = rusqlite::Connection::open(dir.path().join("agent_search.db")).ok()?;
    let mut all = conn.prepare(select).ok()?;
    let rows = all
        .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))
        .ok()?;
    // Of a text without a token, all of it is its token.
    rows.map(|row| {
        row.map(|(text, path)| match text.split_once(' ') {
            Some((first, _)) if is_token(first) => (first.to_owned(), path),
            _ => (text, path),
        })
    })
    .collect::<Result<_, _>>()
    .ok()
}

fn is_token(word: &str) -> bool {
    word.starts_with("tok")
}

impl World {
    fn empty(s: Sandbox) -> World {
        World {
            s,
            files: BTreeMap::new(),
            next: 0,
            versions: Vec::new(),
            mirror_damaged: false,
            live: Holder::default(),
            sealed: BTreeMap::new(),
            backups: BTreeMap::new(),
            repaired: None,
        }
    }

    fn new() -> World {
        let mut world = World::empty(Sandbox::in_memory());
        world.write(0, false, 6);
        world.index();
        world
    }

    /// What a program of the oldest schema left, and then this one's first index.
    fn upgraded() -> World {
        let frozen = Frozen::of(1);
        let mut world = World::empty(frozen.copied());
        let data = world.s.data();
        world.live.tokens = held(&data).unwrap();
        let generations = data.join("generations");
        let live = world.generation().unwrap();
        for (folder, holders) in [
            (&generations, &mut world.sealed),
            (&data.join("backups"), &mut world.backups),
        ] {
            for entry in fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                let id = entry.file_name().into_string().unwrap();
                let all = told(&entry.path(), "SELECT text, NULL FROM messages").unwrap();
                let tokens = all.into_iter().map(|(token, _)| token).collect();
                holders.insert(
                    id,
                    Holder {
                        tokens,
                        ..Holder::default()
                    },
                );
            }
        }
        world.sealed.remove(&live);
        assert!(!world.sealed.is_empty() && !world.backups.is_empty());
        let texts = told(
            &generations.join(live),
            "SELECT text, path FROM messages JOIN records ON records.id = messages.id >> 24 JOIN sources ON sources.id = records.source",
        )
        .unwrap();
        let captures = frozen.captures();
        for capture in &captures {
            let path = PathBuf::from(&capture[0]);
            let seq = capture[1].parse().unwrap();
            let bytes = world.s.get(&path, seq);
            // Of a source with several captures, a token is in those that have it as a word.
            let is_alone = captures.iter().filter(|c| c[0] == capture[0]).count() == 1;
            let tokens = texts
                .iter()
                .filter(|(token, from)| {
                    let is_of = from.as_deref() == Some(capture[0].as_bytes());
                    match is_token(token) {
                        true => memchr::memmem::find(&bytes, token.as_bytes()).is_some(),
                        false => is_of && is_alone,
                    }
                })
                .map(|(token, _)| token.clone())
                .collect();
            world.versions.push(Version {
                path,
                seq,
                hash: blake3::hash(&bytes),
                tokens,
            });
        }
        let known: Tokens = world
            .versions
            .iter()
            .flat_map(|v| v.tokens.clone())
            .collect();
        assert!(known.len() > 40 && world.live.tokens.is_superset(&known));
        world.write(0, false, 6);
        world.index();
        world
    }

    fn run(&self, words: &[String]) -> Ran {
        super::lab::run_argv(&self.s, words)
    }

    fn generation(&self) -> Option<String> {
        let text = fs::read_to_string(self.s.data().join("CURRENT")).ok()?;
        Some(text.trim_end().to_owned())
    }

    fn db(&self) -> Option<PathBuf> {
        let path = self
            .s
            .data()
            .join("generations")
            .join(self.generation()?)
            .join("agent_search.db");
        path.exists().then_some(path)
    }

    fn write(&mut self, id: u8, rewrite: bool, more: u32) {
        let records = self.files.entry(id).or_default();
        if rewrite {
            records.truncate(records.len() / 2);
        }
        records.extend(self.next..self.next + more);
        self.next += more;
        let bytes = session(id, records);
        let path = self.s.put(&source(id), &bytes);
        age(&path, u64::from(4000 - self.next.min(3000)));
    }

    fn index(&mut self) {
        let ran = self.s.run(&["index"]);
        if ran.code != 0 {
            assert!([1, 8].contains(&ran.code), "index: {}", ran.stdout);
            assert!(
                !self.live.is_sound() || self.mirror_damaged || self.db().is_none(),
                "a sound archive was refused: {}",
                ran.stdout
            );
            return;
        }
        for (id, records) in &self.files {
            let path = self.s.home().join(source(*id));
            if !path.exists() {
                continue;
            }
            let bytes = fs::read(&path).unwrap();
            let tokens: Tokens = records.iter().map(|n| token(*id, *n)).collect();
            self.live.tokens.extend(tokens.iter().cloned());
            let hash = blake3::hash(&bytes);
            let known = self.versions.iter().rev().find(|v| v.path == path);
            if known.is_none_or(|v| v.hash != hash) {
                let seq = self.s.captures(&path).last().unwrap()["seq"]
                    .as_u64()
                    .unwrap();
                self.versions.push(Version {
                    path,
                    seq,
                    hash,
                    tokens,
                });
            }
        }
    }

    /// What the mirror gives of what was acknowledged.
    fn mirrored(&mut self) -> Tokens {
        if self.mirror_damaged {
            let (s, out) = (&self.s, self.s.path().join("handed-out"));
            self.versions.retain(|v| {
                let mut c = s.command(&["mirror", "get", "--seq", &v.seq.to_string(), "--json"]);
                let got = c.arg(&v.path).arg("-o").arg(&out).output().unwrap();
                let same = got.status.success() && blake3::hash(&fs::read(&out).unwrap()) == v.hash;
                let _ = fs::remove_file(&out);
                same
            });
        }
        self.versions
            .iter()
            .flat_map(|v| v.tokens.clone())
            .collect()
    }

    fn readable(&mut self) -> Tokens {
        let mut all = self.mirrored();
        all.extend(self.live.readable());
        for holder in self.sealed.values().chain(self.backups.values()) {
            all.extend(holder.readable());
        }
        all
    }

    /// What a replaced generation becomes.
    fn replaced(&mut self, before: Option<String>) {
        let after = self.generation();
        if before != after
            && let Some(before) = before
            && self.s.data().join("generations").join(&before).exists()
        {
            self.sealed.insert(before, self.live.clone());
        }
        if let Some(after) = after {
            self.sealed.remove(&after);
        }
    }

    fn cured(&mut self, what: &str, expected: &Tokens, before: Option<String>) {
        let now = held(&self.s.data()).unwrap_or_else(|| panic!("{what}: can't be read"));
        let lost: Vec<_> = expected.difference(&now).take(9).collect();
        assert!(
            lost.is_empty(),
            "{what} lost {lost:?} of {}",
            expected.len()
        );
        self.replaced(before);
        self.live = Holder {
            tokens: now,
            ..Holder::default()
        };
        let check = self.s.run(&["doctor", "check", "--deep"]);
        assert!(
            check.code == 0 || (self.mirror_damaged && check.code == 1),
            "{what}: {}",
            check.stdout
        );
    }

    /// Applies and returns whether it was applied.
    fn apply(&mut self, what: &str, words: &[String]) -> bool {
        let expected = self.readable();
        let before = self.generation();
        let ran = self.run(words);
        let status = ran.text("/status").to_owned();
        assert!(
            ran.code == 0 && (status == "applied" || status == "already-applied"),
            "{what}: {}",
            ran.stdout
        );
        if status == "applied" {
            self.cured(what, &expected, before);
        }
        status == "applied"
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::New(i) => {
                if !self.files.contains_key(&i) {
                    self.write(i, false, 3);
                }
                self.index();
            }
            Op::Grow(i) => {
                self.write(i, false, 2);
                self.index();
            }
            Op::Rewrite(i) => {
                self.write(i, true, 2);
                self.index();
            }
            Op::WalHot(i) => {
                let lock = self.s.data().join("locks/archive.lock");
                let lock = fs::File::open(lock).unwrap();
                lock.lock_shared().unwrap();
                self.write(i, false, 2);
                self.index();
            }
            Op::Prune(i) => {
                let _ = fs::remove_file(self.s.home().join(source(i)));
                self.files.remove(&i);
            }
            Op::Row(pick) => self.damage_row(pick),
            Op::Page(pick) => {
                if let Some(db) = self.db() {
                    let mut bytes = fs::read(&db).unwrap();
                    let pages = bytes.len() / 4096;
                    if pages > 0 {
                        let at = usize::from(pick) % pages * 4096;
                        bytes[at..at + 4096].fill(0x5a);
                        fs::write(&db, bytes).unwrap();
                        self.live.blind = true;
                    }
                }
            }
            Op::Current => {
                let _ = fs::remove_file(self.s.data().join("CURRENT"));
            }
            Op::Database => {
                if let Some(db) = self.db() {
                    fs::remove_file(db).unwrap();
                    self.live.blind = true;
                }
            }
            Op::Object(pick) => {
                let packs = files_below(&self.s.data().join("raw-mirror/packs"));
                let pack = &packs[usize::from(pick) % packs.len()];
                let mut bytes = fs::read(pack).unwrap();
                let at = usize::from(pick) * bytes.len() / 256;
                bytes[at] ^= 0x10;
                fs::write(pack, bytes).unwrap();
                self.mirror_damaged = true;
            }
            Op::Backup => self.back_up(),
            Op::Repair => self.repair(),
            Op::Restore(pick) => self.restore(pick),
            Op::Undo => self.undo(),
            Op::Fix(force) => self.fix(force),
            Op::Redo => {
                if let Some(words) = self.repaired.clone() {
                    let expected = self.readable();
                    let before = self.generation();
                    let ran = self.run(&words);
                    if ran.code == 0 && ran.text("/status") == "applied" {
                        self.cured("redo", &expected, before);
                    } else {
                        assert!([0, 20, 21].contains(&ran.code), "redo: {}", ran.stdout);
                    }
                }
            }
        }
    }

    fn damage_row(&mut self, pick: u8) {
        let mut all: Vec<String> = self.live.readable().into_iter().collect();
        // Other texts need not lie in one piece.
        all.retain(|token| is_token(token));
        let (Some(db), false) = (self.db(), all.is_empty()) else {
            return;
        };
        let token = all[usize::from(pick) % all.len()].clone();
        let wal = db.with_file_name("agent_search.db-wal");
        // A frame of the WAL has a sum of its own, and a changed one ends what is read of it.
        if fs::metadata(&wal).is_ok_and(|m| m.len() > 0) {
            let mut bytes = fs::read(&wal).unwrap();
            let at = usize::from(pick) * bytes.len() / 256;
            bytes[at] ^= 1;
            fs::write(&wal, bytes).unwrap();
            self.live.blind = true;
            return;
        }
        let mut bytes = fs::read(&db).unwrap();
        for at in memchr::memmem::find_iter(&bytes.clone(), token.as_bytes()) {
            bytes[at] ^= 1;
        }
        fs::write(&db, bytes).unwrap();
        self.live.damaged.insert(token);
    }

    fn back_up(&mut self) {
        let planned = self.s.run(&["doctor", "backups", "create"]);
        let sound = self.live.is_sound() && self.db().is_some();
        if planned.code != 0 {
            assert!(!sound, "{}", planned.stdout);
            return;
        }
        let made = self.run(&apply_argv(&planned));
        if sound || made.code == 0 {
            // One that lost commits may be copied, and says so; a damaged row may not.
            assert_eq!(made.code, 0, "{}", made.stdout);
            assert!(self.live.damaged.is_empty() || self.live.blind);
            assert!(sound || planned.stdout.contains("was promised") || self.live.blind);
            let tokens = held(&self.s.data()).unwrap();
            let id = made.text("/backup_id").to_owned();
            self.backups.insert(
                id,
                Holder {
                    tokens,
                    ..Holder::default()
                },
            );
        }
    }

    fn repair(&mut self) {
        // Without its pointer, the archive is still whatever it was.
        let planned = self.s.run(&["doctor", "repair"]);
        match planned.code {
            0 if planned.text("/status") == "no-op" => {
                // Without a word about it, nothing may be wrong.
                assert!(self.live.damaged.is_empty(), "{}", planned.stdout);
            }
            0 => {
                let words = apply_argv(&planned);
                if self.apply("repair", &words) {
                    self.repaired = Some(words);
                }
            }
            _ => {
                let readable = self.readable();
                assert_eq!(planned.code, 21, "{}", planned.stdout);
                assert!(readable.is_empty(), "{readable:?} {}", planned.stdout);
            }
        }
    }

    fn restore(&mut self, pick: u8) {
        let all: Vec<String> = self
            .backups
            .keys()
            .chain(self.sealed.keys())
            .cloned()
            .collect();
        if all.is_empty() {
            return;
        }
        let id = &all[usize::from(pick) % all.len()];
        let planned = self
            .s
            .run(&["doctor", "backups", "restore", "--keep-newer", id]);
        let holder = self.backups.get(id).or(self.sealed.get(id)).unwrap();
        if planned.code != 0 {
            assert!(!holder.is_sound(), "{id}: {}", planned.stdout);
            return;
        }
        self.apply(&format!("restore of {id}"), &apply_argv(&planned));
    }

    /// Derived data alone: of the archive and its ledger every byte stays.
    fn fix(&mut self, force: bool) {
        let precious = |s: &Sandbox| -> BTreeMap<PathBuf, Vec<u8>> {
            let mut files = files_below(&s.data().join("generations"));
            files.extend([s.data().join("CURRENT"), s.data().join("coverage.jsonl")]);
            files.retain(|f| f.is_file() && f.extension().is_none_or(|e| e != "db-shm"));
            let bytes = |f: PathBuf| (f.clone(), fs::read(f).unwrap());
            files.into_iter().map(bytes).collect()
        };
        let before = precious(&self.s);
        let mut words = vec!["doctor", "--fix"];
        words.extend(force.then_some("--force-rebuild"));
        let ran = self.s.run(&words);
        assert!(before == precious(&self.s), "a fix changed the archive");
        // What an operator must see is left to him; so is damage that shows when an index is made of it.
        if ran.code != 5 {
            assert!([0, 21].contains(&ran.code), "fix: {}", ran.stdout);
            return;
        }
        assert!(!self.live.is_sound(), "fix: {}", ran.stdout);
        let repair = ["doctor", "repair", "--allow-repeated-repair"];
        let planned = self.s.run(&repair);
        if planned.code == 0 && planned.text("/status") != "no-op" {
            self.apply("repair after a fix that failed", &apply_argv(&planned));
        }
    }

    fn undo(&mut self) {
        let planned = self.s.run(&["doctor", "runs", "undo", "latest"]);
        if planned.code != 0 {
            assert!([3, 20, 21].contains(&planned.code), "{}", planned.stdout);
            return;
        }
        let before = self.generation();
        let ran = self.run(&apply_argv(&planned));
        assert_eq!(ran.code, 0, "{}", ran.stdout);
        let after = self.generation();
        if before != after {
            let back = after.and_then(|g| self.sealed.get(&g).cloned());
            self.replaced(before);
            self.live = back.unwrap_or(Holder {
                blind: true,
                ..Holder::default()
            });
        }
    }

    /// No command but an undo takes away what can be read.
    fn keeps(&self, op: Op, before: &Tokens) {
        if matches!(
            op,
            Op::Undo | Op::Row(_) | Op::Page(_) | Op::Current | Op::Database | Op::Object(_)
        ) {
            return;
        }
        if let Some(now) = held(&self.s.data()) {
            let lost: Vec<_> = before.difference(&now).take(5).collect();
            assert!(lost.is_empty(), "{op:?} took away {lost:?}");
        }
    }
}

fn play(mut world: World, ops: &[Op]) {
    for op in ops {
        let before = match world.generation() {
            Some(_) if world.db().is_some() => world.live.readable(),
            _ => Tokens::new(),
        };
        world.step(*op);
        world.keeps(*op, &before);
    }
    // Whatever happened, one repair ends it.
    world.repair();
}

#[test]
fn no_sequence_of_losses_and_cures_loses_a_record_that_can_be_read() {
    let one = std::env::var("CASS_PLAN_SEED")
        .ok()
        .and_then(|s| s.parse::<u64>().ok());
    let seeds: Vec<u64> = match one {
        Some(seed) => vec![seed],
        None if super::is_long() => (0..2000).collect(),
        None => (0..24).collect(),
    };
    let failures = std::sync::Mutex::new(Vec::new());
    each(seeds.len(), 2, |i| {
        let seed = seeds[i];
        let mut bytes = [0u8; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let config = Config {
            cases: 1,
            failure_persistence: None,
            max_shrink_iters: 40,
            ..Config::default()
        };
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut runner = TestRunner::new_with_rng(config, rng);
        let ops = prop::collection::vec(op(), 3..10);
        if let Err(e) = runner.run(&ops, |ops| {
            let world = match seed % 4 {
                3 => World::upgraded(),
                _ => World::new(),
            };
            play(world, &ops);
            Ok(())
        }) {
            let failure = format!("CASS_PLAN_SEED={seed}: {e}");
            println!("{failure}");
            failures.lock().unwrap().push(failure);
        }
    });
    let failures = failures.into_inner().unwrap();
    let (all, bad) = (seeds.len(), failures.len());
    println!(
        "torture | R17 sequences of damage and cures | {all} | {} | {bad} |",
        all - bad
    );
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// What such runs found, shrunk.
#[test]
fn sequences_that_once_failed_lose_nothing() {
    // What an undo took back is alone in holding a promised capture, and a newer one beside it.
    let ops = [
        Op::WalHot(2),
        Op::Database,
        Op::Grow(2),
        Op::Repair,
        Op::Object(92),
        Op::Undo,
    ];
    play(World::new(), &ops);
    play(World::upgraded(), &ops);
    // What an undo would take back has a damaged table of sessions.
    let ops = [
        Op::Database,
        Op::Repair,
        Op::New(1),
        Op::Page(124),
        Op::Undo,
    ];
    play(World::upgraded(), &ops);
}
