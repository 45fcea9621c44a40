//! A home whose data directory is put back before each case, strace with one fault, and what must
//! hold afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use cass::disk::Root;
use cass::model::provider::Provider;
use cass::model::source::SourceKey;
use cass::store::mirror::MirrorReader;
use serde_json::Value;

use super::second_sync::{ALSO, no_second_sync};
use super::tracer::{Ended, thread_name, under_strace};

pub const CASS: &str = env!("CARGO_BIN_EXE_cass");
const GROWS: &str = ".claude/projects/-home-user-p/cc432c40-914a-4c1a-a972-0103199a736a.jsonl";
const GOES: &str = ".claude/projects/-home-user-p/68d61609-708d-431d-b552-dc582ffc947b.jsonl";
const COMES: &str = ".codex/sessions/2026/11/29/\
                     rollout-2026-11-29T16-09-03-01a22811-2cde-7e10-9e32-fe7e55d5b169.jsonl";

pub const WRITES: &[&str] = &["write", "pwrite64", "writev", "pwritev"];
pub const SYNCS: &[&str] = &["fsync", "fdatasync", "sync_file_range", "syncfs", "msync"];
pub const NAMES: &[&str] = &[
    "mkdirat",
    "mkdir",
    "renameat",
    "renameat2",
    "rename",
    "linkat",
    "link",
    "symlinkat",
    "symlink",
    "unlinkat",
    "unlink",
    "rmdir",
    "ftruncate",
    "truncate",
    "fallocate",
    "copy_file_range",
    "fchown",
    "fchmod",
    "fchmodat",
    "utimensat",
];
pub const OPENS: &[&str] = &["open", "openat", "openat2", "creat"];
pub const READS: &[&str] = &["read", "pread64", "getdents64"];

fn fixture(rel: &str, lines: usize) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/sessions")
        .join(rel);
    let whole = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    // A few lines of a real session: each case costs a run, and the number of cases is the number
    // of pages written.
    whole
        .split_inclusive(|b| *b == b'\n')
        .take(lines)
        .flatten()
        .copied()
        .collect()
}

fn grown(lines: usize) -> Vec<u8> {
    fixture(
        "claude/entireio-cli/growth-cc432c40/t5/cc432c40-914a-4c1a-a972-0103199a736a.jsonl",
        lines,
    )
}

fn gone() -> Vec<u8> {
    fixture(
        "claude/entireio-cli/68d61609-708d-431d-b552-dc582ffc947b.jsonl",
        6,
    )
}

fn come() -> Vec<u8> {
    fixture(
        &format!("codex/harness-0.171.0/{}", &COMES[".codex/".len()..]),
        8,
    )
}

const OLD: usize = 8;
const NEW: usize = 14;

/// What the run that meets the fault has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// The first run of all: nothing is there, not even the data directory.
    First,
    /// A run after an acknowledged one: one source has grown, one is new, one is gone.
    Next,
}

/// One call that a run without faults makes, so named that strace finds it again: the `k`-th
/// call of this name on this path, whichever thread makes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    pub name: String,
    /// The path as the call gives it, or that of its file descriptor, as in any home.
    pub path: String,
    pub k: u64,
    /// The how many-th of its name it is in its thread, whatever the path.
    pub of_name: u64,
    /// Whether it can change what is on disk.
    pub changes: bool,
    /// Whether it changed nothing: a kill at it leaves what one at the next that does leaves.
    pub idle: bool,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({}) no. {}", self.name, self.path, self.k)
    }
}

impl Call {
    pub fn is_one_of(&self, names: &[&str]) -> bool {
        names.contains(&self.name.as_str())
    }
}

/// Which calls of a trace change nothing: syncs, what fails, files opened that are there, and owners
/// that are given again, for all is one user's.
pub struct Idle {
    there: BTreeSet<PathBuf>,
}

impl Idle {
    pub fn new<'f>(files: impl Iterator<Item = &'f PathBuf>) -> Idle {
        Idle {
            there: files.cloned().collect(),
        }
    }

    pub fn is(&mut self, name: &str, line: &str) -> bool {
        if SYNCS.contains(&name) || name == "fchown" {
            return true;
        }
        let Some((call, result)) = line.rsplit_once(" = ") else {
            // Its end is on another line.
            return false;
        };
        if result.starts_with("-1") {
            return true;
        }
        if OPENS.contains(&name) {
            let path = result.split_once('<').and_then(|(_, p)| p.split_once('>'));
            let path = PathBuf::from(path.map_or("", |p| p.0));
            return !self.there.insert(path) && !call.contains("O_TRUNC");
        }
        if ["unlink", "rename", "link"]
            .iter()
            .any(|n| name.starts_with(n))
        {
            for part in call.split('"').skip(1).step_by(2) {
                let last = Path::new(part).file_name();
                self.there.retain(|p| p.file_name() != last);
            }
        }
        false
    }
}

/// Of calls in their order, those at which a kill leaves a state that no other of them leaves.
pub fn without_idle(calls: &[Call]) -> Vec<Call> {
    let last = calls.iter().rposition(|c| !c.idle);
    let kept = |(n, c): &(usize, &Call)| !c.idle || last.is_none_or(|last| *n == last + 1);
    let kept = calls.iter().enumerate().filter(kept);
    kept.map(|(_, c)| c.clone()).collect()
}

/// A home folder with sources, and its data directory as it was before the run with the fault.
#[derive(Debug)]
pub struct Home {
    dir: tempfile::TempDir,
    work: Work,
    folders: Vec<PathBuf>,
    files: Vec<(PathBuf, Vec<u8>)>,
    /// What is called otherwise in each home, and its name in all: the home, and the ledgers.
    own: Vec<(String, &'static str)>,
}

impl Home {
    pub fn new(work: Work) -> Home {
        // What a kill leaves does not depend on the medium, and thousands of runs sync.
        let shm = Path::new("/dev/shm");
        let dir = if shm.is_dir() {
            tempfile::tempdir_in(shm).or_else(|_| tempfile::tempdir())
        } else {
            tempfile::tempdir()
        }
        .expect("a folder");
        let mut home = Home {
            dir,
            work,
            folders: Vec::new(),
            files: Vec::new(),
            own: Vec::new(),
        };
        home.own = vec![(home.path().to_string_lossy().into_owned(), "~")];
        for (rel, provider, any) in [
            (GROWS, Provider::Claude, "{grows}"),
            (GOES, Provider::Claude, "{goes}"),
            (COMES, Provider::Codex, "{comes}"),
        ] {
            let key = SourceKey::derive("local", provider, &home.path().join(rel));
            home.own.push((key.to_string(), any));
        }
        if work == Work::Next {
            home.put(GROWS, &grown(OLD));
            home.put(GOES, &gone());
            home.good(&["index", "--json"], "the acknowledged run");
            let (mut folders, mut files) = (Vec::new(), Vec::new());
            walk(&home.data(), &mut folders, &mut files);
            (home.folders, home.files) = (folders, files);
            fs::remove_file(home.path().join(GOES)).expect("it was there");
        }
        home.put(GROWS, &grown(NEW));
        home.put(COMES, &come());
        home
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    fn put(&self, rel: &str, bytes: &[u8]) {
        let path = self.path().join(rel);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, bytes).expect("a file");
        // One that changed within 20 ms is read twice: then the calls would depend on the clock.
        let then = SystemTime::now() - Duration::from_secs(3600);
        let file = fs::File::options().write(true).open(&path);
        file.and_then(|f| f.set_modified(then)).expect("its time");
    }

    /// Puts the data directory back to what it was before the run with the fault. The sources
    /// stay as they are, for no run changes them.
    pub fn put_back(&self) {
        if self.data().exists() {
            fs::remove_dir_all(self.data()).expect("the data directory can go");
        }
        for folder in &self.folders {
            fs::DirBuilder::new()
                .mode(0o700)
                .create(folder)
                .expect("a folder");
        }
        for (path, bytes) in &self.files {
            fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)
                .and_then(|mut f| f.write_all(bytes))
                .expect("a file");
        }
    }

    fn command(&self, program: &str, before: &[String], args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(before);
        if program != CASS {
            command.arg(CASS);
        }
        command
            .arg("--data-dir")
            .arg(self.data())
            .args(args)
            .env_clear()
            .env("HOME", self.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("RAYON_NUM_THREADS", "1")
            // A relative path given to strace must not mean a file of the folder it starts in.
            .current_dir("/")
            .stdin(Stdio::null());
        command
    }

    fn cass(&self, args: &[&str]) -> Output {
        self.command(CASS, &[], args)
            .output()
            .expect("the command starts")
    }

    /// Runs and demands exit 0 and one document.
    fn good(&self, args: &[&str], when: &str) -> Value {
        let out = self.cass(args);
        assert!(
            out.status.success(),
            "{when}: cass {} ended with {:?}\n{}\n{}",
            args.join(" "),
            out.status.code(),
            String::from_utf8_lossy(&out.stdout),
            String::from_utf8_lossy(&out.stderr)
        );
        serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{when}: {e}"))
    }

    /// The bytes of the first capture of a source, as people get them.
    fn first_of(&self, rel: &str, when: &str) -> Vec<u8> {
        let target = self.path().join("got");
        let _ = fs::remove_file(&target);
        let source = self.path().join(rel);
        let (source, got) = (source.to_string_lossy(), target.to_string_lossy());
        let args = ["mirror", "get", &source, "--seq", "1", "-o", &got, "--json"];
        self.good(&args, when);
        fs::read(target).expect("it was handed out")
    }

    /// The bytes of all captures of each source below this home, in order. A process for each would
    /// take most of a case's time.
    fn captured(&self, when: &str) -> BTreeMap<String, Vec<Vec<u8>>> {
        let read = || -> cass::error::Result<BTreeMap<String, Vec<Vec<u8>>>> {
            let root = Root::open(&self.data())?.expect("a data directory");
            let reader = MirrorReader::open(&root)?.expect("a mirror");
            let (mut idents, mut out) = (Vec::new(), BTreeMap::new());
            reader.for_each_head(&mut |head| {
                idents.push(head.ident);
                Ok(())
            })?;
            for ident in idents {
                let mut all = Vec::new();
                reader.captures(ident.key, &mut |line| {
                    let mut bytes = Vec::new();
                    let mut content = reader.open_content(line.recipe, line.len)?;
                    content.read_to_end(&mut bytes).expect("its bytes");
                    all.push(bytes);
                    Ok(())
                })?;
                let rel = ident.path.strip_prefix(self.path());
                let rel = rel.map_or(ident.path.as_path(), |rel| rel);
                out.insert(rel.to_string_lossy().into_owned(), all);
            }
            Ok(out)
        };
        read().unwrap_or_else(|e| panic!("{when}: {}", e.message()))
    }

    /// Messages of every session, by id.
    fn messages(&self, when: &str) -> BTreeMap<String, u64> {
        let list = self.good(&["sessions", "list", "--limit", "1000", "--json"], when);
        list["sessions"]
            .as_array()
            .expect("sessions")
            .iter()
            .map(|s| {
                (
                    s["id"].as_str().unwrap().to_owned(),
                    s["messages"].as_u64().unwrap_or(0),
                )
            })
            .collect()
    }

    /// Runs `index` under strace.
    pub fn traced(&self, options: &[String]) -> Ended {
        under_strace(self.path(), options, |strace| {
            // What is derived has tests of its own, in `tests/search/`.
            self.command("strace", strace, &["index", "--skip-lexical", "--json"])
        })
    }

    /// Every call of these names that a run without faults makes below this home, in order.
    /// `None` where nothing can be traced.
    pub fn calls(&self, names: &[&str]) -> Option<Vec<Call>> {
        if Command::new("strace").arg("-V").output().is_err() {
            println!("passed over: strace is missing");
            return None;
        }
        self.put_back();
        let ended = self.traced(&[
            "-s".to_owned(),
            "8".to_owned(),
            "-e".to_owned(),
            // A `?` lets a name pass that this machine's kernel does not have.
            format!("trace=?{}", names.join(",?")),
        ]);
        if !ended.out.status.success() {
            let said = String::from_utf8_lossy(&ended.out.stderr).into_owned();
            assert!(
                said.contains("ptrace") || said.contains("PTRACE"),
                "index under strace ended with {:?}: {said}",
                ended.out.status.code()
            );
            println!("passed over: processes can't be traced here");
            return None;
        }
        let home = self.path().to_string_lossy().into_owned();
        // strace counts in each thread by itself and fires in the first that comes to `k`.
        let mut seen: BTreeMap<(String, String, String), u64> = BTreeMap::new();
        let mut calls: Vec<Call> = Vec::new();
        let mut of_names: BTreeMap<(String, String), u64> = BTreeMap::new();
        let mut idle = Idle::new(self.files.iter().map(|f| &f.0));
        for line in ended.log.lines() {
            let Some((thread, name)) = thread_name(line) else {
                continue;
            };
            let idle = idle.is(&name, line);
            let of_name = of_names.entry((thread, name)).or_default();
            *of_name += 1;
            let Some((thread, name, path)) = thread_name_path(line, &home) else {
                continue;
            };
            let k = seen
                .entry((thread, name.clone(), path.clone()))
                .or_default();
            *k += 1;
            let changes = if READS.contains(&name.as_str()) {
                false
            } else {
                !OPENS.contains(&name.as_str()) || line.contains("O_CREAT")
            };
            let path = self
                .own
                .iter()
                .fold(path, |path, (own, any)| path.replace(own, any));
            let call = Call {
                k: *k,
                of_name: *of_name,
                name,
                path,
                changes,
                idle,
            };
            let same = |c: &&Call| (&c.name, &c.path, c.k) == (&call.name, &call.path, call.k);
            if calls.iter().any(|c| same(&c)) {
                assert!(!changes, "strace can't hit {call}: two threads make it");
            } else {
                calls.push(call);
            }
        }
        Some(calls)
    }

    /// The path of a call in this home.
    fn place(&self, call: &Call) -> String {
        let own = |path: String, (own, any): &(String, &str)| path.replace(any, own);
        self.own.iter().fold(call.path.clone(), own)
    }

    /// One fault at one call, from the state before. Demands that the call came.
    pub fn fault(&self, call: &Call, fault: &str, more: &[&str]) -> Ended {
        self.put_back();
        let mut options = vec![
            "-P".to_owned(),
            self.place(call),
            "-e".to_owned(),
            format!("trace={}", call.name),
            "-e".to_owned(),
            format!("inject={}:{fault}:when={}", call.name, call.k),
        ];
        options.extend(more.iter().map(|s| (*s).to_owned()));
        self.traced(&options)
    }

    /// Kills at the entry of a call, so that it is the first that did not happen.
    pub fn killed_at(&self, call: &Call) {
        let when = format!("{:?}: killed at {call}", self.work);
        let ended = self.fault(call, "signal=SIGKILL", &[]);
        assert!(ended.killed, "{when}: not killed: {ended:?}");
        let home = self.path().to_string_lossy().into_owned();
        // When the killed thread is the first of its process, strace shows its call a second time,
        // as one of a thread that made none.
        let threads: Vec<String> = ended
            .log
            .lines()
            .filter_map(|l| thread_name_path(l, &home).map(|(thread, ..)| thread))
            .collect();
        let came = threads
            .iter()
            .map(|t| threads.iter().filter(|other| *other == t).count())
            .max()
            .unwrap_or(0);
        assert_eq!(
            came as u64, call.k,
            "{when}: at another call\n{}",
            ended.log
        );
        self.holds(&when);
    }

    /// Kills in the middle of a write: some of its bytes have arrived.
    pub fn torn_at(&self, call: &Call, part: impl Fn(usize) -> usize) {
        let ended = self.fault(call, "signal=SIGKILL", &["-xx", "-s", "10000000"]);
        assert!(ended.killed, "{call}: not killed");
        let last = ended
            .log
            .lines()
            .rfind(|l| l.contains(&format!("{}(", call.name)))
            .unwrap_or_else(|| panic!("{call}: not in the log"));
        // The last quoted string is the data; strace writes each byte as \x and two digits.
        let data: Vec<u8> = last
            .split('"')
            .rev()
            .nth(1)
            .expect("the data")
            .split("\\x")
            .skip(1)
            .map(|b| u8::from_str_radix(b, 16).expect("a byte"))
            .collect();
        let length = part(data.len());
        let when = format!("{:?}: {length} bytes of {call}", self.work);
        let file = fs::OpenOptions::new()
            .write(true)
            .open(self.place(call))
            .unwrap_or_else(|e| panic!("{when}: {e}"));
        let offset = if call.name == "pwrite64" {
            last.rsplit("\", ")
                .next()
                .and_then(|rest| rest.split([',', ')', ' ']).filter(|s| !s.is_empty()).nth(1))
                .and_then(|n| n.parse().ok())
                .unwrap_or_else(|| panic!("{when}: no offset in {last}"))
        } else {
            file.metadata().expect("its length").len()
        };
        file.write_all_at(&data[..length], offset).expect("a write");
        drop(file);
        self.holds(&when);
    }

    /// One call fails.
    pub fn fails_at(&self, call: &Call, error: &str) {
        let when = format!("{:?}: {error} at {call}", self.work);
        let (mut more, also) = (Vec::new(), format!("trace={ALSO}"));
        if call.is_one_of(SYNCS) {
            more.extend(["-e", &also]);
        }
        let ended = self.fault(call, &format!("error={error}"), &more);
        assert!(
            ended.log.contains("(INJECTED)"),
            "{when}: did not happen: {ended:?}"
        );
        if call.is_one_of(SYNCS) && error != "EINTR" {
            no_second_sync(&ended, &when);
        }
        self.answered(&ended, call.path.ends_with("/out.json"), &when);
        self.holds(&when);
    }

    /// One call fails, and from then on every call of its name on any path, in that thread: what a
    /// full or a broken disk does.
    pub fn fails_from(&self, call: &Call, error: &str) {
        let when = format!("{:?}: {error} at {call} and all after", self.work);
        self.put_back();
        let ended = self.traced(&[
            "-e".to_owned(),
            format!("trace={}", call.name),
            "-e".to_owned(),
            format!("inject={}:error={error}:when={}+", call.name, call.of_name),
        ]);
        assert!(
            ended.log.contains("(INJECTED)"),
            "{when}: did not happen: {ended:?}"
        );
        // 127: the count was reached before the program had begun, by its loader.
        let mute = call.name == "write" || ended.out.status.code() == Some(127);
        self.answered(&ended, mute, &when);
        self.holds(&when);
    }

    /// A run that failed inside ends in a document (I8), and what it acknowledges it has done.
    fn answered(&self, ended: &Ended, mute: bool, when: &str) {
        assert!(ended.out.status.code().is_some(), "{when}: died: {ended:?}");
        match serde_json::from_slice::<Value>(&ended.document) {
            Ok(document) => assert_eq!(
                document["operation_outcome"]["exit_code"].as_i64(),
                ended.out.status.code().map(i64::from),
                "{when}: the document tells another exit"
            ),
            Err(e) => assert!(mute, "{when}: no document (I8): {e}: {ended:?}"),
        }
        if ended.out.status.success() {
            self.newest(&self.captured(when), when);
            let sessions = if self.work == Work::Next { 3 } else { 2 };
            assert_eq!(self.messages(when).len(), sessions, "{when}: not done");
        }
    }

    /// What holds after any fault, and after one more run (I13).
    fn holds(&self, when: &str) {
        let before = if self.work == Work::Next {
            // I3: what was promised is there to the byte, with something behind it at most.
            for (path, bytes) in &self.files {
                let name = path.to_string_lossy();
                if ["/packs/", "/sources/", "/coverage.jsonl"]
                    .iter()
                    .any(|part| name.contains(part))
                {
                    let now = fs::read(path).unwrap_or_else(|e| panic!("{when}: {name}: {e}"));
                    assert!(now.starts_with(bytes), "{when}: {name} has changed");
                }
            }
            // Every promise in the mirror, those of the broken run too, can be kept.
            self.good(&["mirror", "verify", "--deep", "--json"], when);
            self.acknowledged(&self.captured(when), when);
            self.messages(when)
        } else {
            BTreeMap::new()
        };
        // Whatever it thinks of this state, it says so in a document.
        let check = self.cass(&["doctor", "check", "--json"]);
        let document: Value = serde_json::from_slice(&check.stdout)
            .unwrap_or_else(|e| panic!("{when}: doctor check: {e}: {check:?}"));
        assert_eq!(
            document["operation_outcome"]["exit_code"].as_i64(),
            check.status.code().map(i64::from),
            "{when}"
        );
        self.good(&["index", "--json"], when);
        self.good(&["doctor", "check", "--deep", "--json"], when);
        let captured = self.captured(when);
        self.acknowledged(&captured, when);
        self.newest(&captured, when);
        if self.work == Work::Next {
            assert_eq!(self.first_of(GROWS, when), grown(OLD), "{when}");
        }
        let after = self.messages(when);
        for (id, n) in before {
            assert!(
                after.get(&id).is_some_and(|m| *m >= n),
                "{when}: {id} lost messages (I2)"
            );
        }
        let sessions = if self.work == Work::Next { 3 } else { 2 };
        assert_eq!(after.len(), sessions, "{when}: every session is archived");
    }

    fn acknowledged(&self, captured: &BTreeMap<String, Vec<Vec<u8>>>, when: &str) {
        if self.work == Work::Next {
            assert_eq!(
                captured[GROWS][0],
                grown(OLD),
                "{when}: an acknowledged capture has changed"
            );
            assert_eq!(
                captured[GOES],
                [gone()],
                "{when}: a capture of a deleted source has changed"
            );
        }
    }

    fn newest(&self, captured: &BTreeMap<String, Vec<Vec<u8>>>, when: &str) {
        assert_eq!(
            captured[GROWS].last(),
            Some(&grown(NEW)),
            "{when}: not done"
        );
        assert_eq!(captured[COMES].last(), Some(&come()), "{when}: not done");
    }
}

pub fn walk(folder: &Path, folders: &mut Vec<PathBuf>, files: &mut Vec<(PathBuf, Vec<u8>)>) {
    folders.push(folder.to_owned());
    for entry in fs::read_dir(folder).expect("a folder") {
        let entry = entry.expect("an entry");
        if entry.file_type().expect("its type").is_dir() {
            walk(&entry.path(), folders, files);
        } else {
            files.push((entry.path(), fs::read(entry.path()).expect("its bytes")));
        }
    }
}

/// Thread and name of a call, and the path that `strace -P` finds the call by: the first that it names, else that
/// of its file descriptor. `None` for calls outside `home`.
pub fn thread_name_path(line: &str, home: &str) -> Option<(String, String, String)> {
    let (thread, name) = thread_name(line)?;
    let (_, args) = line.split_once('(')?;
    let of_fd = args
        .split_once('<')
        .filter(|(fd, _)| !fd.contains('"'))
        .and_then(|(_, rest)| rest.split_once('>'))
        .map(|(path, _)| path);
    let by_fd = [WRITES, SYNCS, READS].concat().contains(&name.as_str())
        || [
            "ftruncate",
            "fallocate",
            "copy_file_range",
            "fchown",
            "fchmod",
        ]
        .contains(&name.as_str());
    let path = if by_fd {
        of_fd?
    } else {
        args.split('"').nth(1)?
    };
    let inside = path.starts_with(home)
        || (!path.starts_with('/') && of_fd.is_some_and(|p| p.starts_with(home)));
    inside.then(|| (thread, name, path.to_owned()))
}
