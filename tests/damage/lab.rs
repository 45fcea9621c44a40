//! A home with sessions and a data directory made of them by the product itself, to be copied and
//! damaged. Each kind is built once.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use cass::disk::{ArchiveShared, Root};
use cass::doctor::check::{CheckRequest, Checked, check};
use cass::env::{Clock, Env};
use cass::ingest::index::{Ask, IndexOutcome, index};
use cass::model::finding::{CheckId, Finding, Severity};
use cass::model::interrupt::Interrupt;
use cass::model::progress::Silent;
use cass::model::watch::Watch;
use serde_json::Value;
use tempfile::TempDir;

use crate::sessions;

/// The checks that read the archive.
pub const ARCHIVE: [CheckId; 6] = [
    CheckId::LayoutCurrent,
    CheckId::ArchiveOpen,
    CheckId::ArchiveSchema,
    CheckId::ArchiveIntegrity,
    CheckId::ArchiveRows,
    CheckId::ArchiveCommits,
];
/// The checks that read the mirror.
pub const MIRROR: [CheckId; 2] = [CheckId::MirrorLedgers, CheckId::MirrorObjects];

pub struct Lab {
    dir: Dir,
}

/// Where a lab lies: a copy goes with its test, the originals lie in the build folder.
enum Dir {
    Copy(TempDir),
    Base(PathBuf),
}

/// What one run of the binary printed.
pub struct Ran {
    pub code: i32,
    pub json: Value,
    pub stderr: String,
}

impl Ran {
    #[track_caller]
    pub fn expect(self, code: i32) -> Ran {
        assert_eq!(self.code, code, "{}\n{}", self.json, self.stderr);
        self
    }

    pub fn text(&self, pointer: &str) -> &str {
        self.json
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_else(|| {
                panic!("no text at {pointer} in {}", self.json);
            })
    }

    /// The codes of all findings with at least this severity.
    pub fn codes(&self, severities: &[&str]) -> Vec<&str> {
        self.json["findings"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|f| severities.contains(&f["severity"].as_str().unwrap_or_default()))
            .filter_map(|f| f["code"].as_str())
            .collect()
    }

    pub fn errors(&self) -> Vec<&str> {
        self.codes(&["error"])
    }
}

/// The folder of an original, in the build folder. Those of processes that are gone are removed.
fn base(kind: &str) -> PathBuf {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for entry in std::fs::read_dir(tmp).unwrap().filter_map(Result::ok) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(pid) = name
            .strip_prefix("damage-")
            .and_then(|n| n.split('-').next())
            && !Path::new("/proc").join(pid).exists()
        {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    tmp.join(format!("damage-{}-{kind}", std::process::id()))
}

/// Copies a tree as `cp -a` does.
pub fn copy_tree(from: &Path, to: &Path) {
    let status = Command::new("cp")
        .arg("-a")
        .arg(from)
        .arg(to)
        .status()
        .unwrap();
    assert!(
        status.success(),
        "cp -a {} {}",
        from.display(),
        to.display()
    );
}

/// A folder in memory, where there is one: sweeps would wait for the disk most of the time.
fn in_memory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = tempfile::Builder::new()
        .prefix("cass-damage-")
        .tempdir_in(memory);
    made.unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

impl Lab {
    fn made(kind: &str) -> Lab {
        let dir = base(kind);
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(dir.join("home")).unwrap();
        Lab {
            dir: Dir::Base(dir),
        }
    }

    /// A home of its own without anything in it.
    pub fn empty() -> Lab {
        let dir = in_memory();
        std::fs::create_dir(dir.path().join("home")).unwrap();
        Lab {
            dir: Dir::Copy(dir),
        }
    }

    /// A few short sessions, indexed, in a home of its own that may be changed.
    pub fn own() -> Lab {
        let lab = Lab::empty();
        lab.few();
        lab
    }

    fn few(&self) {
        for i in 0..3 {
            let (path, text) = sessions::claude(100 + i, 12);
            self.put(&path, text.as_bytes());
            let (path, text) = sessions::codex(100 + i, 12);
            self.put(&path, text.as_bytes());
        }
        self.index(false);
    }

    /// Real and generated sessions of nine harnesses, 2,000 messages and more, indexed twice: some
    /// sources have several captures. Everything is folded into the database file.
    pub fn full() -> Lab {
        static BASE: OnceLock<Lab> = OnceLock::new();
        BASE.get_or_init(|| Lab::make_full("full")).copy()
    }

    /// As [`Lab::full`], and the harnesses have pruned all of their files since.
    pub fn full_pruned() -> Lab {
        static BASE: OnceLock<Lab> = OnceLock::new();
        BASE.get_or_init(|| Lab::make_full("full-pruned").pruned())
            .copy()
    }

    fn make_full(kind: &str) -> Lab {
        let lab = Lab::made(kind);
        for (to, from) in sessions::samples() {
            lab.put(&to, &std::fs::read(from).unwrap());
        }
        lab.others();
        let mut grown = Vec::new();
        for i in 0..10 {
            grown.push(sessions::claude(i, 40));
            grown.push(sessions::codex(i, 40));
        }
        for (path, text) in &grown {
            let bytes = text.as_bytes();
            let half = bytes.len() / 2;
            let half = half + bytes[half..].iter().position(|b| *b == b'\n').unwrap() + 1;
            lab.put(path, &bytes[..half]);
        }
        lab.index(false);
        for (path, text) in &grown {
            lab.put(path, text.as_bytes());
        }
        lab.index(false);
        lab
    }

    fn pruned(self) -> Lab {
        std::fs::remove_dir_all(self.home()).unwrap();
        std::fs::create_dir(self.home()).unwrap();
        self
    }

    /// A few short sessions: an archive small enough to damage each of its pages.
    pub fn small() -> Lab {
        static BASE: OnceLock<Lab> = OnceLock::new();
        BASE.get_or_init(|| {
            let lab = Lab::made("small");
            lab.few();
            lab
        })
        .copy()
    }

    /// As [`Lab::small`], with the commits of more sessions still in the WAL: a reader was in the
    /// archive while they were made.
    pub fn pending() -> Lab {
        static BASE: OnceLock<Lab> = OnceLock::new();
        BASE.get_or_init(|| {
            let lab = Lab::made("pending");
            lab.few();
            for i in 0..3 {
                let (path, text) = sessions::claude(200 + i, 2);
                lab.put(&path, text.as_bytes());
                let (path, text) = sessions::codex(200 + i, 2);
                lab.put(&path, text.as_bytes());
            }
            {
                let root = Root::open(&lab.data()).unwrap().unwrap();
                let _reader = ArchiveShared::acquire(&root, Duration::ZERO).unwrap();
                lab.index(false);
            }
            assert!(std::fs::metadata(lab.wal()).unwrap().len() > 32 + 24 + 4096);
            lab
        })
        .copy()
    }

    /// Sessions of nine harnesses, some in databases, in an archive of pages of this size; some
    /// sources have two captures.
    pub fn mixed(page_size: u32) -> Lab {
        static BASE: OnceLock<Lab> = OnceLock::new();
        let lab = BASE.get_or_init(|| Lab::make_mixed("mixed")).copy();
        lab.with_pages_of(page_size);
        lab
    }

    /// As [`Lab::mixed`], and the harnesses have pruned all of their files since: what a repair
    /// leaves to the next index would not come back.
    pub fn mixed_pruned(page_size: u32) -> Lab {
        static BASE: OnceLock<Lab> = OnceLock::new();
        let lab = BASE
            .get_or_init(|| Lab::make_mixed("mixed-pruned").pruned())
            .copy();
        lab.with_pages_of(page_size);
        lab
    }

    fn make_mixed(kind: &str) -> Lab {
        let lab = Lab::made(kind);
        lab.others();
        for i in 0..4 {
            let (path, text) = sessions::claude(300 + i, 6);
            lab.put(&path, text.as_bytes());
        }
        lab.index(false);
        for i in 0..4 {
            let (path, text) = sessions::claude(300 + i, 12);
            lab.put(&path, text.as_bytes());
            let (path, text) = sessions::codex(300 + i, 8);
            lab.put(&path, text.as_bytes());
        }
        lab.index(false);
        lab
    }

    /// Samples of the harnesses beside Claude and Codex.
    fn others(&self) {
        for (to, from) in sessions::others() {
            self.put(&to, &std::fs::read(from).unwrap());
        }
        let bot = std::fs::canonicalize(self.home()).unwrap().join("src/bot");
        let list = format!(
            r#"{{"projects":[{{"path":"{0}","data_dir":"{0}/.crush"}}]}}"#,
            bot.display()
        );
        self.put(".local/share/crush/projects.json", list.as_bytes());
    }

    /// Puts the rows of the archive into pages of another size.
    pub fn with_pages_of(&self, size: u32) {
        let other = self.path().join("other.db");
        {
            let conn = rusqlite::Connection::open(self.db()).unwrap();
            conn.pragma_update(None, "page_size", size).unwrap();
            conn.execute("VACUUM INTO ?1", [other.to_str().unwrap()])
                .unwrap();
        }
        for suffix in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(
                self.data()
                    .join(format!("generations/g00000001/agent_search.db{suffix}")),
            );
        }
        {
            let conn = rusqlite::Connection::open(&other).unwrap();
            let now: u32 = conn
                .pragma_query_value(None, "page_size", |r| r.get(0))
                .unwrap();
            assert_eq!(now, size);
            conn.query_row("PRAGMA journal_mode=WAL", [], |_| Ok(()))
                .unwrap();
        }
        let mode = std::fs::metadata(self.db()).unwrap().permissions();
        std::fs::set_permissions(&other, mode).unwrap();
        std::fs::rename(&other, self.db()).unwrap();
    }

    /// A copy of home and data directory. The data directory still knows the sources by the paths
    /// of the original home, so that is shared: nothing here writes to it.
    pub fn copy(&self) -> Lab {
        let dir = in_memory();
        let lab = Lab {
            dir: Dir::Copy(dir),
        };
        copy_tree(&self.data(), &lab.data());
        std::os::unix::fs::symlink(std::fs::canonicalize(self.home()).unwrap(), lab.home())
            .unwrap();
        lab
    }

    pub fn path(&self) -> &Path {
        match &self.dir {
            Dir::Copy(dir) => dir.path(),
            Dir::Base(dir) => dir,
        }
    }

    pub fn home(&self) -> PathBuf {
        self.path().join("home")
    }

    pub fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    pub fn db(&self) -> PathBuf {
        self.data().join("generations/g00000001/agent_search.db")
    }

    pub fn wal(&self) -> PathBuf {
        self.data()
            .join("generations/g00000001/agent_search.db-wal")
    }

    pub fn file(&self, rel: &str) -> PathBuf {
        self.data().join(rel)
    }

    /// Puts a source into the home, with a modification time well in the past.
    pub fn put(&self, rel: &str, bytes: &[u8]) -> PathBuf {
        let path = self.home().join(rel);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        let then = SystemTime::now() - Duration::from_secs(3600);
        std::fs::File::open(&path)
            .unwrap()
            .set_modified(then)
            .unwrap();
        path
    }

    pub fn env(&self) -> Env {
        // The real home: sources are named by their path.
        let home = std::fs::canonicalize(self.home()).unwrap();
        let vars: BTreeMap<OsString, OsString> = BTreeMap::from([
            ("HOME".into(), home.into_os_string()),
            ("CASS_DATA_DIR".into(), self.data().into_os_string()),
        ]);
        Env::new(Clock::System, vars, None).unwrap()
    }

    /// Indexes in this process; nothing may fail.
    pub fn index(&self, full: bool) -> IndexOutcome {
        let outcome = self.try_index(full).unwrap();
        assert!(
            outcome.archive_error.is_none(),
            "{:?}",
            outcome.archive_error
        );
        outcome
    }

    pub fn try_index(&self, full: bool) -> cass::error::Result<IndexOutcome> {
        let watch = Watch {
            progress: &Silent,
            interrupt: &Interrupt::new(),
        };
        let ask = Ask {
            full,
            lexical: true,
        };
        index(&self.env(), ask, &|_| panic!("it is of this schema"), watch)
    }

    /// `doctor check --deep` in this process, these checks alone; all when empty.
    pub fn check(&self, only: &[CheckId]) -> Checked {
        let request = CheckRequest {
            only: only.to_vec(),
            deep: true,
            ..CheckRequest::default()
        };
        check(&self.env(), &request, &Interrupt::new())
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut c = Command::new(env!("CARGO_BIN_EXE_cass"));
        c.env_clear()
            .env("HOME", std::fs::canonicalize(self.home()).unwrap())
            .env("PATH", "/usr/bin:/bin")
            .env("CASS_DATA_DIR", self.data())
            .args(args)
            .stdin(Stdio::null());
        c
    }

    /// The binary, with `--json`: one document, whatever the outcome.
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Ran {
        let mut c = self.command(args);
        c.arg("--json");
        ran(c.output().unwrap())
    }
}

#[track_caller]
pub fn ran(output: std::process::Output) -> Ran {
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let json = serde_json::from_str(&stdout)
        .unwrap_or_else(|e| panic!("not one document: {e}\nstdout: {stdout}\nstderr: {stderr}"));
    assert!(!stderr.contains("a bug at"), "{stderr}");
    Ran {
        code: output.status.code().unwrap_or(-1),
        json,
        stderr,
    }
}

/// Every finding of a run.
pub fn findings(checked: &Checked) -> Vec<&Finding> {
    checked.results.iter().flat_map(|r| &r.findings).collect()
}

/// The findings that make the exit 1.
pub fn errors(checked: &Checked) -> Vec<&Finding> {
    findings(checked)
        .into_iter()
        .filter(|f| f.severity == Severity::Error)
        .collect()
}

/// Whether the run says that something is wrong: exit 1 or a refusal. A panic inside a check is
/// caught there and told as "unknown", so tests look for that too.
pub fn alarmed(checked: &Checked) -> bool {
    checked.refusal.is_some() || !errors(checked).is_empty()
}

pub fn has(checked: &Checked, code: &str) -> bool {
    findings(checked).iter().any(|f| f.code == code)
}

/// Makes a panic in any thread of the product fail the test, though the product catches it.
pub fn count_panics() -> impl Fn() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static PANICS: AtomicU64 = AtomicU64::new(0);
    static HOOK: OnceLock<()> = OnceLock::new();
    HOOK.get_or_init(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // Tests themselves panic in files of this folder.
            if info
                .location()
                .is_none_or(|l| !l.file().starts_with("tests/"))
            {
                PANICS.fetch_add(1, Ordering::Relaxed);
            }
            before(info);
        }));
    });
    let begun = PANICS.load(Ordering::Relaxed);
    move || PANICS.load(Ordering::Relaxed) - begun
}
