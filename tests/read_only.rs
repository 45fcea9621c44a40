//! R15 and I10: reading leaves no trace, whatever state the data directory is in, and a copied
//! data directory is as good as the first.
//!
//! Every reading command runs in every state; names, kinds, modes, modification times and bytes
//! of the whole tree are compared before and after, and strace, where it is there, shows that
//! nothing was opened for writing.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used
)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn fixture(rel: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/sessions")
        .join(rel);
    fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

const CLAUDE: &str = ".claude/projects/-home-user-p/68d61609-708d-431d-b552-dc582ffc947b.jsonl";
const CODEX: &str = ".codex/sessions/2026/11/29/\
                     rollout-2026-11-29T16-09-03-01a22811-2cde-7e10-9e32-fe7e55d5b169.jsonl";

struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    /// Two sessions, not yet indexed.
    fn new() -> Home {
        let home = Home {
            dir: tempfile::tempdir().expect("a folder"),
        };
        home.put(
            CLAUDE,
            &fixture("claude/entireio-cli/68d61609-708d-431d-b552-dc582ffc947b.jsonl"),
        );
        home.put(
            CODEX,
            &fixture(&format!(
                "codex/harness-0.171.0/{}",
                &CODEX[".codex/".len()..]
            )),
        );
        home
    }

    fn indexed() -> Home {
        let home = Home::new();
        let out = home.cass(&["index", "--json"]);
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stdout)
        );
        home
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    fn put(&self, rel: &str, bytes: &[u8]) {
        let path = self.path().join(rel);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, bytes).expect("a file");
    }

    fn generation(&self) -> PathBuf {
        let current = fs::read_to_string(self.data().join("CURRENT")).expect("CURRENT");
        self.data().join("generations").join(current.trim())
    }

    fn archive(&self) -> PathBuf {
        self.generation().join("agent_search.db")
    }

    fn command(&self, before: &[&str], args: &[&str]) -> Output {
        let cass = env!("CARGO_BIN_EXE_cass");
        let mut words: Vec<&str> = before.to_vec();
        words.push(cass);
        Command::new(words[0])
            .args(&words[1..])
            .arg("--data-dir")
            .arg(self.data())
            .args(args)
            .env_clear()
            .env("HOME", self.path())
            .env("TMPDIR", self.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .stdin(Stdio::null())
            .output()
            .expect("the command starts")
    }

    fn cass(&self, args: &[&str]) -> Output {
        self.command(&[], args)
    }

    fn session(&self) -> String {
        let out = self.cass(&["sessions", "list", "--json"]);
        let list: Value = serde_json::from_slice(&out.stdout).unwrap_or_default();
        list["sessions"][0]["id"]
            .as_str()
            .unwrap_or("none")
            .to_owned()
    }

    /// Kind, mode, modification time and content of everything below the home.
    fn tree(&self) -> BTreeMap<PathBuf, (u32, i64, i64, u64, String)> {
        walkdir::WalkDir::new(self.path())
            .into_iter()
            .map(|e| {
                let e = e.expect("the tree can be read");
                let meta = fs::symlink_metadata(e.path()).expect("stat");
                let content = if meta.is_file() {
                    blake3::hash(&fs::read(e.path()).expect("read"))
                        .to_hex()
                        .to_string()
                } else {
                    String::new()
                };
                let state = (
                    meta.mode(),
                    meta.mtime(),
                    meta.mtime_nsec(),
                    meta.len(),
                    content,
                );
                (e.path().to_path_buf(), state)
            })
            .collect()
    }
}

/// Makes rows that are in the WAL alone: what a writer leaves that could not checkpoint because a
/// reader held `archive.lock`.
fn with_hot_wal(home: &Home) {
    home.put(
        ".claude/projects/-home-user-p/c0503e11-7349-4087-b305-3b5ca7e80e57.jsonl",
        &fixture("claude/entireio-skills/c0503e11-7349-4087-b305-3b5ca7e80e57.jsonl"),
    );
    let lock = File::open(home.data().join("locks/archive.lock")).expect("the lock file");
    lock.lock_shared().expect("the lock");
    let out = home.cass(&["index", "--json"]);
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stdout)
    );
    drop(lock);
    let wal = fs::metadata(home.generation().join("agent_search.db-wal")).expect("a WAL");
    assert!(wal.len() > 0, "rows are in the WAL");
}

fn states() -> Vec<(&'static str, Home, Option<File>)> {
    let mut all = Vec::new();
    let mut add = |name: &'static str, home: Home| all.push((name, home, None));

    add("missing", Home::new());

    let home = Home::new();
    fs::create_dir(home.data()).unwrap();
    add("empty", home);

    add("clean", Home::indexed());

    let home = Home::indexed();
    with_hot_wal(&home);
    add("hot WAL", home);

    let home = Home::indexed();
    with_hot_wal(&home);
    let _ = fs::remove_file(home.generation().join("agent_search.db-shm"));
    add("hot WAL without shm", home);

    let home = Home::indexed();
    let mut bytes = fs::read(home.archive()).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 512].fill(0x5a);
    fs::write(home.archive(), bytes).unwrap();
    add("damaged archive", home);

    let home = Home::indexed();
    fs::write(home.archive(), b"not a database at all").unwrap();
    add("archive that is no database", home);

    let home = Home::indexed();
    fs::remove_file(home.archive()).unwrap();
    add("archive missing", home);

    let home = Home::indexed();
    let conn = rusqlite_open(&home.archive());
    conn.pragma_update(None, "user_version", 999).unwrap();
    conn.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()))
        .unwrap();
    drop(conn);
    add("newer schema", home);

    let home = Home::new();
    fs::create_dir(home.data()).unwrap();
    fs::write(home.data().join("agent_search.db"), b"somebody else's").unwrap();
    add("not ours", home);

    let home = Home::indexed();
    fs::write(home.data().join("raw-mirror/FORMAT"), "cass-mirror 99\n").unwrap();
    add("newer mirror", home);

    let home = Home::indexed();
    fs::write(home.data().join("CURRENT"), "g99999999\n").unwrap();
    add("CURRENT names nothing", home);

    let home = Home::indexed();
    fs::remove_dir_all(home.data().join("raw-mirror/index")).unwrap();
    add("no mirror index", home);

    let home = Home::indexed();
    for part in ["packs", "sources"] {
        let file = fs::read_dir(home.data().join("raw-mirror").join(part))
            .unwrap()
            .next()
            .expect("a file")
            .unwrap()
            .path();
        let mut bytes = fs::read(&file).unwrap();
        bytes.extend_from_slice(b"a torn tail");
        fs::write(&file, bytes).unwrap();
    }
    add("torn tails", home);

    add("repaired, a backup, a run that was killed", with_runs());

    // What a program that keeps no WAL would leave: the first page is to be put back.
    let home = Home::indexed();
    let bytes = fs::read(home.archive()).unwrap();
    let journal = home.archive().with_file_name("agent_search.db-journal");
    fs::write(journal, journal_of(&bytes)).unwrap();
    add("a journal beside the archive", home);

    let home = Home::indexed();
    let lock = File::options()
        .read(true)
        .write(true)
        .open(home.data().join("locks/writer.lock"))
        .expect("the lock file");
    lock.lock().expect("the lock");
    all.push(("locked by a writer", home, Some(lock)));
    all
}

/// A hot journal of the database's first page as it is.
fn journal_of(db: &[u8]) -> Vec<u8> {
    let mut journal = vec![0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    let pages = u32::try_from(db.len() / 4096).unwrap();
    for n in [1, 7, pages, 512, 4096] {
        journal.extend(u32::to_be_bytes(n));
    }
    journal.resize(512, 0);
    let page = &db[..4096];
    let sum = (1..4096usize).filter(|at| at % 200 == 4096 % 200 && *at <= 4096 - 200);
    let sum = sum.fold(7u32, |sum, at| sum.wrapping_add(u32::from(page[at])));
    journal.extend(1u32.to_be_bytes());
    journal.extend(page);
    journal.extend(sum.to_be_bytes());
    journal
}

/// A home with a backup, a repair that can be undone, and one that was killed.
fn with_runs() -> Home {
    let home = Home::indexed();
    let apply = |args: &[&str]| {
        let out = home.cass(args);
        let document: Value = serde_json::from_slice(&out.stdout).expect("a document");
        let argv = document
            .as_object()
            .and_then(|o| o.values().find_map(|v| v.get("apply_argv")?.as_array()))
            .unwrap_or_else(|| panic!("{args:?}: no plan to apply in {document}"));
        let argv: Vec<&str> = argv
            .iter()
            .skip(1)
            .filter_map(Value::as_str)
            .filter(|w| !w.starts_with("--data-dir"))
            .collect();
        let out = home.cass(&argv);
        assert!(out.status.success(), "{argv:?}: {out:?}");
    };
    apply(&["doctor", "backups", "create", "--json"]);
    fs::remove_file(home.archive()).unwrap();
    apply(&["doctor", "repair", "--json"]);
    let receipts = home.data().join("doctor/receipts");
    let last = fs::read_dir(&receipts)
        .unwrap()
        .map(|e| e.unwrap().path())
        .max()
        .expect("a receipt");
    let receipt = fs::read(&last).unwrap();
    fs::remove_file(&last).unwrap();
    // The same intent under a name of its own: a run that has no receipt.
    let intent = home
        .data()
        .join("doctor/intents")
        .join(last.file_name().unwrap());
    let text = fs::read_to_string(&intent).unwrap();
    let id = last.file_stem().unwrap().to_string_lossy().into_owned();
    let other = "run-01ffffff-ffff-7fff-8fff-ffffffffffff";
    fs::write(
        intent.with_file_name(format!("{other}.json")),
        text.replace(&id, other),
    )
    .unwrap();
    fs::write(&last, receipt).unwrap();
    home
}

fn rusqlite_open(path: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(path).expect("a database")
}

fn reading(session: &str, source: &str) -> Vec<Vec<String>> {
    let line = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
    vec![
        line(&["doctor", "check", "--json"]),
        line(&["doctor", "check", "--deep", "--json"]),
        line(&["doctor", "check"]),
        line(&["doctor", "archive-scan", "--json"]),
        line(&["doctor", "archive-scan", "--deep", "--json"]),
        line(&["doctor", "repair", "--json"]),
        line(&["doctor", "repair", "--dry-run"]),
        line(&["doctor", "backups", "create", "--json"]),
        line(&["doctor", "backups", "list", "--json"]),
        line(&["doctor", "backups", "verify", "b00000001", "--json"]),
        line(&[
            "doctor",
            "backups",
            "verify",
            "b00000001",
            "--deep",
            "--json",
        ]),
        line(&["doctor", "runs", "list", "--json"]),
        line(&["doctor", "runs", "show", "latest", "--json"]),
        line(&["doctor", "runs", "undo", "latest", "--json"]),
        line(&["health", "--json"]),
        line(&["sessions", "list", "--json"]),
        line(&["sessions", "show", session, "--json"]),
        line(&["sessions", "list"]),
        line(&["search", "the", "--json"]),
        line(&["view", session, "--json"]),
        line(&["stats", "--json"]),
        line(&["models", "status", "--json"]),
        line(&["doctor", "session-log", "check", source, "--json"]),
        line(&["export", session, "--format", "json"]),
        line(&["mirror", "verify", "--json"]),
        line(&["mirror", "verify", "--deep", "--json"]),
        line(&["mirror", "list", source, "--json"]),
        line(&["introspect", "--json"]),
        line(&["--version"]),
    ]
}

#[test]
fn reading_leaves_no_trace_in_any_state() {
    for (state, home, lock) in states() {
        // Old times, so that a touched file shows even within one tick of the clock.
        for entry in walkdir::WalkDir::new(home.path()).contents_first(true) {
            let entry = entry.unwrap();
            let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
            File::open(entry.path()).unwrap().set_modified(old).unwrap();
        }
        let source = home.path().join(CLAUDE).to_string_lossy().into_owned();
        let before = home.tree();
        let session = home.session();
        for args in reading(&session, &source) {
            let words: Vec<&str> = args.iter().map(String::as_str).collect();
            let out = home.cass(&words);
            assert!(
                out.status.code().is_some(),
                "{state}: {words:?} ended by a signal"
            );
            if words.contains(&"--json") {
                let document: Result<Value, _> = serde_json::from_slice(&out.stdout);
                assert!(
                    document.is_ok(),
                    "{state}: {words:?} gave no document: {out:?}"
                );
            }
            let after = home.tree();
            for (path, was) in &before {
                assert_eq!(
                    after.get(path),
                    Some(was),
                    "{state}: {words:?}: {}",
                    path.display()
                );
            }
            let new: Vec<_> = after.keys().filter(|p| !before.contains_key(*p)).collect();
            assert!(new.is_empty(), "{state}: {words:?} made {new:?}");
        }
        drop(lock);
    }
}

/// Runs `script` on the shell in mounts of its own; `None` where that is not permitted.
fn in_mounts(home: &Home, mount: &str, words: &[&str]) -> Option<Output> {
    let script = format!("{mount} || exit 77; shift; exec \"$@\"");
    let data = home.data();
    let before = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        &script,
        "sh",
        data.to_str().unwrap(),
    ];
    let out = home.command(&before, words);
    let said = String::from_utf8_lossy(&out.stderr);
    let may_not = out.status.code() == Some(77) || said.starts_with("unshare:");
    if may_not {
        println!("passed over: nothing can be mounted here: {said}");
    }
    (!may_not).then_some(out)
}

/// Where nothing can be written at all, reading is what it is elsewhere: the same exit, the same
/// document but for what depends on time and room.
#[test]
fn reading_is_the_same_where_nothing_can_be_written() {
    let home = Home::indexed();
    with_hot_wal(&home);
    let (session, source) = (home.session(), home.path().join(CLAUDE));
    let source = source.to_string_lossy().into_owned();
    let read_only = r#"mount --bind "$1" "$1" && mount -o remount,ro,bind "$1""#;
    // The data directory, and on top of it no room and no right to write.
    let full = r#"full=${1%/*}/full; mkdir -p "$full" && mount -t tmpfs -o size=24m tmpfs "$full" &&
        cp -a "$1"/. "$full"/ && { cat /dev/zero >"$full/filler" 2>/dev/null; true; } &&
        mount --bind "$full" "$1""#;
    for args in reading(&session, &source) {
        let words: Vec<&str> = args.iter().map(String::as_str).collect();
        let plain = home.cass(&words);
        for mount in [read_only, full] {
            let Some(out) = in_mounts(&home, mount, &words) else {
                return;
            };
            let said = String::from_utf8_lossy(&out.stderr);
            assert!(out.status.code().is_some(), "{words:?}: {said}");
            let deterministic = ["list", "search", "view", "export", "introspect"];
            if deterministic.iter().any(|d| words.contains(d)) {
                assert_eq!(out.status.code(), plain.status.code(), "{words:?}: {said}");
            }
            if words.contains(&"--json") {
                let document: Value = serde_json::from_slice(&out.stdout)
                    .unwrap_or_else(|e| panic!("{words:?}: {e}: {said}"));
                assert_ne!(
                    document["operation_outcome"]["exit_code"], 9,
                    "{words:?}: {document}"
                );
            }
        }
    }
}

#[test]
fn nothing_is_opened_for_writing_by_a_reader() {
    if Command::new("strace").arg("-V").output().is_err() {
        println!("passed over: strace is missing");
        return;
    }
    let logs = tempfile::tempdir().unwrap();
    let log = logs.path().join("log");
    let log_text = log.to_string_lossy().into_owned();
    let home = Home::indexed();
    with_hot_wal(&home);
    let session = home.session();
    let source = home.path().join(CLAUDE).to_string_lossy().into_owned();
    for args in reading(&session, &source) {
        let words: Vec<&str> = args.iter().map(String::as_str).collect();
        let set = "trace=%file,ftruncate,fchmod,fallocate,write,pwrite64,writev,pwritev";
        let out = home.command(
            &["strace", "-f", "-y", "-qq", "-o", &log_text, "-e", set],
            &words,
        );
        let said = String::from_utf8_lossy(&out.stderr);
        if said.contains("ptrace(") || said.contains("PTRACE_") {
            println!("passed over: processes can't be traced here");
            return;
        }
        let data = home.data().to_string_lossy().into_owned();
        let wrong: Vec<String> = fs::read_to_string(&log)
            .expect("the log")
            .lines()
            .filter(|l| l.contains(&data) && changes_something(l))
            .map(str::to_owned)
            .collect();
        assert!(wrong.is_empty(), "{words:?}:\n{}", wrong.join("\n"));
    }
}

/// Whether a line of strace is a call that changes a file, or opens one to do so. SQLite opens a
/// WAL that exists for reading and writing even where it only reads; that no byte is written to
/// it is what counts.
fn changes_something(line: &str) -> bool {
    let name = line.split_once(' ').map_or("", |x| x.1.trim_start());
    let name = name.split('(').next().unwrap_or("");
    let opens = ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND"];
    let calls = [
        "unlink",
        "rename",
        "mkdir",
        "link",
        "chmod",
        "truncate",
        "utimens",
        "write",
        "fallocate",
    ];
    let opened = opens.iter().any(|o| line.contains(o)) && !line.contains("-wal\"");
    let called = calls.iter().any(|c| name.contains(c)) && !name.starts_with("readlink");
    // Output names paths of the data directory in its text, not in its descriptor.
    let to_output = line.contains("(1<") || line.contains("(2<");
    opened || (called && !to_output)
}

/// I10: nothing that is compared depends on where the directory lies or which inodes it has.
#[test]
fn a_copied_data_directory_checks_clean() {
    let home = Home::indexed();
    let other = Home::new();
    let copied = Command::new("cp")
        .args(["-R", "--"])
        .arg(home.data())
        .arg(other.path())
        .status()
        .expect("cp runs");
    assert!(copied.success());
    // The copy's own sources are equal in bytes and lie elsewhere, so the first ones look pruned.
    let out = other.cass(&["doctor", "check", "--deep", "--json"]);
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stdout)
    );
    let out = other.cass(&["mirror", "verify", "--deep", "--json"]);
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stdout)
    );
}

/// S8: modes follow from how files are made, not from the caller's umask.
#[test]
fn nothing_is_open_to_other_accounts() {
    let home = Home::new();
    let script = format!(
        "umask 000; exec {} --data-dir {} index --json",
        env!("CARGO_BIN_EXE_cass"),
        home.data().display()
    );
    let out = Command::new("sh")
        .args(["-c", &script])
        .env_clear()
        .env("HOME", home.path())
        .output()
        .expect("sh runs");
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stdout)
    );
    for entry in walkdir::WalkDir::new(home.data()) {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        let want = if entry.file_type().is_dir() {
            0o700
        } else {
            0o600
        };
        assert_eq!(mode, want, "{}", entry.path().display());
    }
}
