//! The matrix: every command of the command tree in every state, each with the exit, the status
//! and the `err.kind` that it must end with.
//!
//! A command that `introspect` lists and that has no row here fails the first test. Timing decides
//! nothing: who holds a lock was stopped by a signal at a fixed system call, a signal comes at a
//! fixed system call. Both need strace and the right to trace; without them those tests say so and
//! pass over.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::sandbox::{Run, Sandbox, every_command, finish, leaves};

/// A cell is `exit status [err.kind]`. `ID` is the session, `SRC` its file, `OUT` a name that is
/// free. The states: *ok* healthy, with a source that has grown since; *damaged* a byte of the pack
/// flipped and a row of the archive changed; *garbage* the archive is no database; *newer* the
/// mirror has a layout that this program does not know; *denied* the data directory can't be
/// opened; *writer* another process holds the writer lock; *archive* it holds the archive lock too,
/// in a checkpoint; *signal* SIGINT or SIGTERM before the work begins (`sig` is 130 or 143, and its
/// `err.kind`).
const TABLE: &str = "
words                          | ok        | damaged                 | garbage                   | newer                   | denied                     | writer              | archive             | signal
index                          | 0 applied | 0 applied               | 1 partial archive-corrupt | 6 failed mirror-too-new | 9 failed permission-denied | 7 blocked lock-busy | 7 blocked lock-busy | sig partial
index --full                   | 0 applied | 0 applied               | 1 partial archive-corrupt | 6 failed mirror-too-new | 9 failed permission-denied | 7 blocked lock-busy | 7 blocked lock-busy | sig partial
doctor                         | 0 warn    | 0 warn                  | 1 error                   | 6 error mirror-too-new  | 9 unknown permission-denied | 0 warn              | 8 unknown           | sig unknown
doctor check                   | 0 warn    | 0 warn                  | 1 error                   | 6 error mirror-too-new  | 9 unknown permission-denied | 0 warn              | 8 unknown           | sig unknown
doctor check --deep            | 0 warn    | 1 error                 | 1 error                   | 6 error mirror-too-new  | 9 unknown permission-denied | 0 warn              | 8 unknown           | sig unknown
doctor archive-scan            | 0 ok      | 1 error                 | 1 error                   | 6 error mirror-too-new  | 9 error permission-denied  | 0 ok                | 8 unknown           | sig unknown
doctor archive-scan --deep     | 0 ok      | 1 error                 | 1 error                   | 6 error mirror-too-new  | 9 error permission-denied  | 0 ok                | 8 unknown           | sig unknown
doctor backups list            | 0 ok      | 0 ok                    | 0 ok                      | 0 ok                    | 9 error permission-denied  | 0 ok                | 0 ok                | 0 ok
doctor backups verify BACKUP   | 0 ok      | 0 ok                    | 0 ok                      | 0 ok                    | 9 error permission-denied  | 0 ok                | 7 error lock-busy   | sig error
doctor --fix                   | 0 no-op   | 0 no-op                 | 21 blocked blocked        | 6 failed mirror-too-new | 9 failed permission-denied | 0 no-op             | 7 blocked lock-busy | sig partial
doctor repair                  | 0 no-op   | 0 planned               | 0 planned                 | 6 failed mirror-too-new | 9 failed permission-denied | 0 no-op             | 7 blocked lock-busy | sig partial
doctor backups create          | 0 planned | 0 planned               | 1 failed archive-corrupt  | 6 failed mirror-too-new | 9 failed permission-denied | 0 planned           | 7 blocked lock-busy | sig partial
doctor backups restore BACKUP  | 0 planned | 0 planned               | 0 planned                 | 6 failed mirror-too-new | 9 failed permission-denied | 7 blocked lock-busy | 7 blocked lock-busy | sig partial
doctor runs list               | 0 ok      | 0 ok                    | 0 ok                      | 0 ok                    | 9 error permission-denied  | 0 ok                | 0 ok                | 0 ok
doctor runs show latest        | 0 ok      | 0 ok                    | 0 ok                      | 0 ok                    | 9 error permission-denied  | 0 ok                | 0 ok                | 0 ok
doctor runs undo latest        | 0 planned | 0 planned               | 0 planned                 | 6 failed mirror-too-new | 9 failed permission-denied | 0 planned           | 7 blocked lock-busy | sig partial
doctor session-log check SRC   | 0 ok      | 0 ok                    | 0 ok                      | 0 ok                    | 0 ok                       | 0 ok                | 0 ok                | sig error
doctor session-log repair SRC  | 21 blocked blocked | 21 blocked blocked | 21 blocked blocked       | 6 failed mirror-too-new | 9 failed permission-denied | 21 blocked blocked  | 7 blocked lock-busy | sig partial
sessions list                  | 0 ok      | 0 ok                    | 1 error archive-corrupt   | 0 ok                    | 9 error permission-denied  | 0 ok                | 7 error lock-busy   | 0 ok
sessions show ID               | 0 ok      | 0 ok                    | 1 error archive-corrupt   | 6 error mirror-too-new  | 9 error permission-denied  | 0 ok                | 7 error lock-busy   | 0 ok
sessions restore ID --to OUT   | 0 applied | 23 failed verify-failed | 1 failed archive-corrupt  | 6 failed mirror-too-new | 9 failed permission-denied | 0 applied           | 7 blocked lock-busy | sig partial
stats                          | 0 ok      | 0 ok                    | 1 error archive-corrupt   | 6 error mirror-too-new  | 9 error permission-denied  | 0 ok                | 7 error lock-busy   | sig error
search message                 | 0 ok      | 0 ok                    | 1 error archive-corrupt   | 0 ok                    | 9 error permission-denied  | 0 ok                | 7 error lock-busy   | sig error
models status                  | 0 ok      | 0 ok                    | 0 ok                      | 0 ok                    | 0 ok                       | 0 ok                | 0 ok                | 0 ok
view ID                        | 0 ok      | 23 error verify-failed  | 1 error archive-corrupt   | 0 ok                    | 9 error permission-denied  | 0 ok                | 7 error lock-busy   | sig error
export ID --format raw -o OUT  | 0 ok      | 23 failed verify-failed | 1 failed archive-corrupt  | 6 failed mirror-too-new | 9 failed permission-denied | 0 ok                | 7 blocked lock-busy | sig partial
export ID --format json -o OUT | 0 ok      | 23 failed verify-failed | 1 failed archive-corrupt  | 0 ok                    | 9 failed permission-denied | 0 ok                | 7 blocked lock-busy | sig partial
export ID --format json        | 0 ok      | 23 error verify-failed  | 1 error archive-corrupt   | 0 ok                    | 9 error permission-denied  | 0 ok                | 7 error lock-busy   | sig error
export ID --format html -o OUT | 0 ok      | 23 failed verify-failed | 1 failed archive-corrupt  | 0 ok                    | 9 failed permission-denied | 0 ok                | 7 blocked lock-busy | sig partial
mirror verify                  | 0 ok      | 0 ok                    | 0 ok                      | 6 error mirror-too-new  | 9 error permission-denied  | 0 ok                | 7 error lock-busy   | sig error
mirror verify --deep           | 0 ok      | 23 error mirror-damaged | 0 ok                      | 6 error mirror-too-new  | 9 error permission-denied  | 0 ok                | 7 error lock-busy   | sig error
mirror list SRC                | 0 ok      | 0 ok                    | 0 ok                      | 6 error mirror-too-new  | 9 error permission-denied  | 0 ok                | 7 error lock-busy   | sig error
mirror get SRC -o OUT          | 0 ok      | 23 failed verify-failed | 0 ok                      | 6 failed mirror-too-new | 9 failed permission-denied | 0 ok                | 7 blocked lock-busy | sig partial
health                         | 0 ok      | 0 ok                    | 1 error                   | 6 error                 | 9 unknown permission-denied | 0 ok                | 8 unknown           | 0 ok
introspect                     | 0 ok      | 0 ok                    | 0 ok                      | 0 ok                    | 0 ok                       | 0 ok                | 0 ok                | 0 ok
";

/// The session that the world has.
const ID: &str = "0b7a7a3e-1111-4222-8333-444455556666";

/// One command line with its cells by state.
#[derive(Debug)]
struct Row {
    words: Vec<&'static str>,
    cells: BTreeMap<&'static str, Expected>,
}

/// What a run must end with.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Expected {
    /// `None` stands for the code of the signal.
    exit: Option<i32>,
    status: &'static str,
    kind: Option<&'static str>,
}

fn rows() -> Vec<Row> {
    let mut lines = TABLE.lines().filter(|l| !l.is_empty()).map(|line| {
        line.split('|')
            .map(str::trim)
            .collect::<Vec<&'static str>>()
    });
    let head = lines.next().unwrap();
    lines
        .map(|line| {
            assert_eq!(line.len(), head.len(), "{line:?}");
            Row {
                words: line[0].split_whitespace().collect(),
                cells: head[1..]
                    .iter()
                    .zip(&line[1..])
                    .map(|(state, cell)| (*state, expected(cell)))
                    .collect(),
            }
        })
        .collect()
}

fn expected(cell: &'static str) -> Expected {
    let mut parts = cell.split_whitespace();
    let exit = parts.next().unwrap();
    Expected {
        exit: (exit != "sig").then(|| exit.parse().unwrap()),
        status: parts.next().unwrap(),
        kind: parts.next(),
    }
}

/// An indexed home with one session whose file has grown since.
struct World {
    sandbox: Sandbox,
    places: AtomicUsize,
}

/// Where one run works: its own copy of the data directory, its own working folder.
struct Place {
    data: PathBuf,
    cwd: PathBuf,
}

impl World {
    fn new() -> World {
        let sandbox = Sandbox::new();
        let project = sandbox.home().join(".claude/projects/-p");
        std::fs::create_dir_all(&project).unwrap();
        let world = World {
            sandbox,
            places: AtomicUsize::new(0),
        };
        let mut text: String = (0..50).map(line).collect();
        std::fs::write(world.source(), &text).unwrap();
        let run = world.sandbox.run(["index", "--json"]);
        assert_eq!(run.code, 0, "{}", run.document());
        world.sandbox.back_up_and_restore();
        text.push_str(&line(50));
        std::fs::write(world.source(), text).unwrap();
        world
    }

    fn source(&self) -> PathBuf {
        let rel = format!(".claude/projects/-p/{ID}.jsonl");
        self.sandbox.home().join(rel)
    }

    /// An untouched copy of the data directory.
    fn place(&self) -> Place {
        let number = self.places.fetch_add(1, Ordering::SeqCst);
        let dir = self.sandbox.cwd().join(number.to_string());
        let (data, cwd) = (dir.join("data"), dir.join("cwd"));
        std::fs::create_dir_all(&cwd).unwrap();
        copy(&self.sandbox.data(), &data);
        Place { data, cwd }
    }

    fn words(&self, row: &Row, json: bool) -> Vec<OsString> {
        let mut words: Vec<OsString> = row
            .words
            .iter()
            .map(|word| match *word {
                "ID" => ID.into(),
                "BACKUP" => "b00000001".into(),
                "SRC" => self.source().into(),
                "OUT" => "out".into(),
                other => other.into(),
            })
            .collect();
        if json {
            words.push("--json".into());
        }
        words
    }

    fn command(&self, row: &Row, json: bool, place: &Place) -> Command {
        let mut command = self.sandbox.command(self.words(row, json));
        self.placed(&mut command, place);
        command
    }

    fn placed(&self, command: &mut Command, place: &Place) {
        command
            .env("CASS_DATA_DIR", &place.data)
            .current_dir(&place.cwd)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
    }

    /// The command under strace, which does what `inject` says at the system call that it names.
    /// The tracer is the grandchild: the child that is waited for, or killed, is the command.
    fn traced(
        &self,
        row: &Row,
        json: bool,
        place: &Place,
        inject: &str,
        only: &[&Path],
    ) -> Command {
        let mut command = Command::new("strace");
        command.args(["-D", "-f", "-qq", "-o"]).arg(log(place));
        for path in only {
            command.arg("-P").arg(path);
        }
        command
            .arg("-e")
            .arg(format!("inject={inject}"))
            .arg(env!("CARGO_BIN_EXE_cass"))
            .args(self.words(row, json))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.sandbox.home())
            .env("RAYON_NUM_THREADS", "1")
            .stdin(Stdio::null());
        self.placed(&mut command, place);
        command
    }
}

fn line(n: u32) -> String {
    format!(
        "{{\"type\":\"user\",\"sessionId\":\"{ID}\",\"uuid\":\"u{n}\",\"cwd\":\"/w\",\
         \"timestamp\":\"2026-01-02T03:04:05.000Z\",\"message\":{{\"role\":\"user\",\
         \"content\":\"message {n}\"}}}}\n"
    )
}

fn log(place: &Place) -> PathBuf {
    place.cwd.with_file_name("strace.log")
}

/// Whether the signal was delivered; written before the process that took it went on.
fn came(place: &Place, signal: &str) -> bool {
    let delivered = format!("--- {signal} ");
    std::fs::read_to_string(log(place)).is_ok_and(|text| text.contains(&delivered))
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn archive(data: &Path) -> PathBuf {
    let current = std::fs::read_to_string(data.join("CURRENT")).unwrap();
    data.join("generations")
        .join(current.trim_end())
        .join("agent_search.db")
}

/// Whether processes can be traced here.
fn can_trace() -> bool {
    let out = Command::new("strace")
        .args(["-D", "-qq", "-o", "/dev/null", "true"])
        .output();
    let can = cfg!(target_os = "linux") && out.is_ok_and(|o| o.status.success());
    if !can {
        println!("passed over: strace is missing or may not trace");
    }
    can
}

/// Cells that do not hold, collected: one run shows all of them.
#[derive(Default)]
struct Wrong(Vec<String>);

impl Wrong {
    /// One document that says what the cell says, or in the form for people the same exit.
    fn compare(
        &mut self,
        run: &Run,
        expected: &Expected,
        json: bool,
        signal: Option<(i32, &str)>,
        what: &str,
    ) {
        let exit = expected.exit.or(signal.map(|s| s.0)).unwrap();
        if run.stderr.contains("a bug") || !json && run.code != exit {
            let text = format!("{what} (for people): exit {} {}", run.code, run.stderr);
            self.0.push(text);
        }
        if !json {
            return;
        }
        let value = run.document();
        let kind = match expected.exit {
            None => signal.map(|s| s.1),
            Some(_) => expected.kind,
        };
        let status = value["status"].as_str().unwrap();
        let found = (run.code, status, value["err"]["kind"].as_str());
        if found != (exit, expected.status, kind) {
            self.0.push(format!("{what}: {found:?}"));
        }
    }

    fn demand(&mut self, holds: bool, what: String) {
        if !holds {
            self.0.push(what);
        }
    }
}

impl Drop for Wrong {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(self.0.is_empty(), "\n{}", self.0.join("\n"));
        }
    }
}

/// Every row in a state that is made in each run's own data directory.
fn column(state: &'static str, prepare: impl Fn(&Path)) {
    let world = World::new();
    let mut wrong = Wrong::default();
    for row in rows() {
        for json in [true, false] {
            let place = world.place();
            prepare(&place.data);
            let run = finish(world.command(&row, json, &place).output().unwrap());
            let what = format!("{state}: {:?}", row.words);
            wrong.compare(&run, &row.cells[state], json, None, &what);
        }
    }
}

#[test]
fn every_command_of_the_tree_has_a_row_and_every_row_a_command() {
    let leaves = leaves();
    let mut named = BTreeSet::new();
    for row in rows() {
        let leaf = leaves
            .iter()
            .filter(|leaf| row.words.starts_with(&leaf.split(' ').collect::<Vec<_>>()))
            .max_by_key(|leaf| leaf.len())
            .unwrap_or_else(|| panic!("{:?} is no command", row.words));
        named.insert(leaf.clone());
    }
    let without: Vec<_> = leaves.difference(&named).collect();
    assert!(without.is_empty(), "no row in the matrix: {without:?}");
    // The other states, nothing ever done and no home among them, go through this list.
    for leaf in &leaves {
        let words: Vec<OsString> = leaf.split(' ').map(OsString::from).collect();
        let listed = every_command().iter().any(|c| c.starts_with(&words));
        assert!(listed, "{leaf} is not in every_command");
    }
}

#[test]
fn state_ok() {
    column("ok", |_| {});
}

#[test]
fn state_damaged() {
    column("damaged", |data| {
        let pack = data.join("raw-mirror/packs/00000001.pack");
        let mut bytes = std::fs::read(&pack).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
        std::fs::write(&pack, bytes).unwrap();
        let db = rusqlite::Connection::open(archive(data)).unwrap();
        let changed = db
            .execute(
                "UPDATE messages SET text = 'tampered' \
                 WHERE id = (SELECT min(id) FROM messages)",
                [],
            )
            .unwrap();
        assert_eq!(changed, 1);
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .unwrap();
    });
}

#[test]
fn state_garbage() {
    column("garbage", |data| {
        let mut bytes = std::fs::read(archive(data)).unwrap();
        bytes[..512].fill(b'!');
        std::fs::write(archive(data), bytes).unwrap();
    });
}

#[test]
fn state_newer() {
    column("newer", |data| {
        std::fs::write(data.join("raw-mirror/FORMAT"), "cass-mirror 99\n").unwrap();
    });
}

/// The refusal is injected: root may open everything.
#[test]
fn state_denied() {
    if !can_trace() {
        return;
    }
    let world = World::new();
    let mut wrong = Wrong::default();
    for row in rows() {
        for json in [true, false] {
            let place = world.place();
            let inject = "open,openat,openat2:error=EACCES";
            let mut command = world.traced(&row, json, &place, inject, &[&place.data]);
            let run = finish(command.output().unwrap());
            let what = format!("denied: {:?}", row.words);
            wrong.compare(&run, &row.cells["denied"], json, None, &what);
        }
    }
}

/// A real `index`, stopped at a fixed system call while it holds its locks.
struct Holder(Child);

impl Holder {
    fn stopped_at(world: &World, place: &Place, call: &str, only: &[&Path]) -> Holder {
        let index = Row {
            words: vec!["index"],
            cells: BTreeMap::new(),
        };
        let inject = format!("{call}:signal=SIGSTOP:when=1");
        let mut command = world.traced(&index, true, place, &inject, only);
        let holder = Holder(command.stdout(Stdio::null()).spawn().unwrap());
        let begun = Instant::now();
        while !std::fs::read_to_string(log(place)).is_ok_and(|t| t.contains("stopped by SIGSTOP")) {
            assert!(begun.elapsed() < Duration::from_secs(60), "it did not stop");
            std::thread::sleep(Duration::from_millis(2));
        }
        holder
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Every row beside a holder, all at once: those that wait do so together.
fn beside(world: &World, data: &Path, holder: &Holder, state: &'static str) {
    let rows = rows();
    let mut wrong = Wrong::default();
    let mut children = Vec::new();
    for row in &rows {
        for json in [true, false] {
            let place = Place {
                data: data.to_path_buf(),
                ..world.place()
            };
            let child = world.command(row, json, &place).spawn().unwrap();
            children.push((row, json, child));
        }
    }
    for (row, json, child) in children {
        let run = finish(child.wait_with_output().unwrap());
        let what = format!("{state} lock: {:?}", row.words);
        let cell = &row.cells[state];
        wrong.compare(&run, cell, json, None, &what);
        if json && cell.kind == Some("lock-busy") {
            let err = &run.document()["err"];
            assert_eq!(err["context"]["owner_pid"], holder.pid(), "{what}: {err}");
            assert_eq!(err["context"]["owner_command"], "index", "{what}: {err}");
            let age = err["context"]["held_for_ms"].as_str().unwrap();
            assert!(age.parse::<u64>().is_ok(), "{what}: {err}");
            assert!(err["retry_after_ms"].is_u64(), "{what}: {err}");
        }
        if json && row.words == ["health"] {
            let value = run.document();
            let pid = value["owner"]["pid"].to_string();
            assert_eq!(pid, holder.pid(), "{what}: {value}");
        }
    }
}

#[test]
fn state_writer_lock_held() {
    if !can_trace() {
        return;
    }
    let world = World::new();
    let place = world.place();
    let holder = Holder::stopped_at(&world, &place, "fsync,fdatasync", &[]);
    beside(&world, &place.data, &holder, "writer");
}

#[test]
fn state_archive_lock_held() {
    if !can_trace() {
        return;
    }
    let world = World::new();
    let place = world.place();
    // Rows go to the WAL: the database file itself is written by a checkpoint alone.
    let db = archive(&place.data);
    let holder = Holder::stopped_at(&world, &place, "pwrite64", &[&db]);
    let lock = std::fs::File::open(place.data.join("locks/archive.lock")).unwrap();
    assert!(lock.try_lock_shared().is_err(), "nobody holds it");
    beside(&world, &place.data, &holder, "archive");
    // Who waits for the lock is ended by a signal, and the document says so.
    let mut wrong = Wrong::default();
    for row in rows() {
        let cell = &row.cells["archive"];
        if cell.kind != Some("lock-busy") || row.words[0] == "index" {
            continue;
        }
        for (name, exit, kind) in SIGNALS {
            let place = Place {
                data: place.data.clone(),
                ..world.place()
            };
            let inject = format!("ioctl:signal={name}:when=1");
            let mut command = world.traced(&row, true, &place, &inject, &[]);
            let run = finish(command.output().unwrap());
            let what = format!("{name} while it waits: {:?}", row.words);
            let ended = Expected {
                exit: None,
                status: if cell.status == "blocked" {
                    "partial"
                } else {
                    "error"
                },
                kind: None,
            };
            wrong.compare(&run, &ended, true, Some((exit, kind)), &what);
        }
    }
}

const SIGNALS: [(&str, i32, &str); 2] = [
    ("SIGINT", 130, "interrupted"),
    ("SIGTERM", 143, "terminated"),
];

/// The first question to a descriptor is asked right after the handlers were set.
#[test]
fn state_signal_before_the_work() {
    if !can_trace() {
        return;
    }
    let world = World::new();
    let mut wrong = Wrong::default();
    for row in rows() {
        for (name, exit, kind) in SIGNALS {
            for json in [true, false] {
                let place = world.place();
                let inject = format!("ioctl:signal={name}:when=1");
                let mut command = world.traced(&row, json, &place, &inject, &[]);
                let run = finish(command.output().unwrap());
                let what = format!("{name} before the work: {:?}", row.words);
                let cell = &row.cells["signal"];
                wrong.compare(&run, cell, json, Some((exit, kind)), &what);
                if cell.exit.is_none() {
                    assert!(!place.cwd.join("out").exists(), "{what} left something");
                }
                // What was begun is no hindrance to the next run.
                if cell.exit.is_none() && json {
                    let again = finish(world.command(&row, json, &place).output().unwrap());
                    let what = format!("{what}, again");
                    wrong.compare(&again, &row.cells["ok"], json, None, &what);
                }
            }
        }
    }
}

/// When the document is on its way the work is done: it comes whole, with its own exit.
// Elsewhere the standard library's first look at its descriptors is the same system call.
#[cfg(target_arch = "x86_64")]
#[test]
fn state_signal_at_the_document() {
    if !can_trace() {
        return;
    }
    let world = World::new();
    let mut wrong = Wrong::default();
    for row in rows() {
        for (name, ..) in SIGNALS {
            let place = world.place();
            // Before the first byte it asks whether there is room; nothing else asks that.
            let inject = format!("ppoll:signal={name}:when=1");
            let mut command = world.traced(&row, true, &place, &inject, &[]);
            let run = finish(command.output().unwrap());
            let what = format!("{name} at the document: {:?}", row.words);
            assert!(came(&place, name), "{what} did not come");
            wrong.compare(&run, &row.cells["ok"], true, None, &what);
        }
    }
}

/// At every file that it opens: the whole document, or the one of an interrupted command.
#[test]
fn state_signal_anywhere() {
    if !can_trace() {
        return;
    }
    let world = World::new();
    let mut wrong = Wrong::default();
    for row in rows() {
        let mut k = 1;
        loop {
            let place = world.place();
            let inject = format!("openat2:signal=SIGTERM:when={k}");
            let mut command = world.traced(&row, true, &place, &inject, &[]);
            let run = finish(command.output().unwrap());
            let what = format!("SIGTERM at openat2 {k}: {:?}", row.words);
            if run.code == 143 {
                let value = run.document();
                let (kind, status) = (&value["err"]["kind"], value["status"].as_str().unwrap());
                // The doctor says the worst of what it saw; nobody says that all is done.
                let open = ["partial", "error", "unknown", "warn"].contains(&status);
                wrong.demand(*kind == "terminated" && open, format!("{what}: {value}"));
            } else {
                wrong.compare(&run, &row.cells["ok"], true, None, &what);
            }
            if !came(&place, "SIGTERM") {
                break;
            }
            assert!(k < 500, "{what}: it never ends");
            // Dense where the commands differ, then ever wider.
            k += 1 + k / 6;
        }
    }
}

/// A reader that is gone, from the start or after one byte, changes no exit and hears no complaint;
/// neither does a descriptor that was never open.
#[test]
fn state_closed_stdout() {
    let world = World::new();
    let mut wrong = Wrong::default();
    for row in rows() {
        for (json, first) in [(true, false), (true, true), (false, false), (false, true)] {
            let place = world.place();
            let (reader, writer) = std::io::pipe().unwrap();
            let mut reader = Some(reader).filter(|_| first);
            let mut command = world.command(&row, json, &place);
            let child = command.stdout(OwnedFd::from(writer)).spawn().unwrap();
            drop(command);
            if let Some(reader) = &mut reader {
                reader.read_exact(&mut [0]).unwrap();
            }
            drop(reader);
            let run = finish(child.wait_with_output().unwrap());
            let what = format!("{:?}, json: {json}, first byte read: {first}", row.words);
            let ok = &row.cells["ok"];
            // What is refused is told on stderr too.
            let fine = Some(run.code) == ok.exit && (run.stderr.is_empty() || ok.kind.is_some());
            wrong.demand(fine, format!("{what}: {} {}", run.code, run.stderr));
        }
        for json in [true, false] {
            let place = world.place();
            let mut command = Command::new("/bin/sh");
            command
                .args(["-c", "exec \"$0\" \"$@\" >&-"])
                .arg(env!("CARGO_BIN_EXE_cass"))
                .args(world.words(&row, json))
                .env_clear()
                .env("HOME", world.sandbox.home())
                .stdin(Stdio::null());
            world.placed(&mut command, &place);
            let run = finish(command.output().unwrap());
            let what = format!("{:?} (json: {json}) with no stdout", row.words);
            let ok = &row.cells["ok"];
            let fine = Some(run.code) == ok.exit && (run.stderr.is_empty() || ok.kind.is_some());
            wrong.demand(fine, format!("{what}: {} {}", run.code, run.stderr));
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn state_full_stdout() {
    let world = World::new();
    let mut wrong = Wrong::default();
    for row in rows() {
        for json in [true, false] {
            let place = world.place();
            let full = std::fs::File::options()
                .write(true)
                .open("/dev/full")
                .unwrap();
            let mut command = world.command(&row, json, &place);
            let child = command.stdout(full).spawn().unwrap();
            let run = finish(child.wait_with_output().unwrap());
            let what = format!("{:?} (json: {json}): {}", row.words, run.stderr);
            let told = run.stderr.contains("stdout could not be written");
            wrong.demand(run.code == 9 && told, what);
        }
    }
}

/// Open and silent for as long as the command runs: who read from it would never end.
#[test]
fn state_silent_stdin() {
    let world = World::new();
    let mut wrong = Wrong::default();
    for row in rows() {
        for json in [true, false] {
            let place = world.place();
            let (reader, writer) = std::io::pipe().unwrap();
            let mut command = world.command(&row, json, &place);
            let mut child = command.stdin(OwnedFd::from(reader)).spawn().unwrap();
            let begun = Instant::now();
            // Read beside, so that no pipe fills; far above what it needs is a wait.
            let (sender, receiver) = std::sync::mpsc::channel();
            let mut stdout = child.stdout.take().unwrap();
            std::thread::spawn(move || {
                let mut all = Vec::new();
                let _ = stdout.read_to_end(&mut all);
                let _ = sender.send(all);
            });
            let what = format!("{:?} with a silent stdin", row.words);
            let Ok(stdout) = receiver.recv_timeout(Duration::from_secs(60)) else {
                let _ = child.kill();
                panic!("{what} waits since {:?}", begun.elapsed());
            };
            let mut run = finish(child.wait_with_output().unwrap());
            run.stdout = stdout;
            wrong.compare(&run, &row.cells["ok"], json, None, &what);
            drop(writer);
        }
    }
}
