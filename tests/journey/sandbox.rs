//! A machine of its own for each test: home, data directory, and the program run as its user runs
//! it, with nothing of the surrounding environment.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

pub struct Sandbox {
    dir: TempDir,
}

/// What a run printed and how it ended.
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    pub json: Value,
}

impl Ran {
    #[track_caller]
    pub fn expect(self, code: i32) -> Ran {
        assert_eq!(
            self.code, code,
            "stdout: {}\nstderr: {}",
            self.stdout, self.stderr
        );
        self
    }

    /// The value at a JSON pointer.
    #[track_caller]
    pub fn at(&self, pointer: &str) -> &Value {
        self.json
            .pointer(pointer)
            .unwrap_or_else(|| panic!("no {pointer} in {}", self.stdout))
    }

    #[track_caller]
    pub fn number(&self, pointer: &str) -> u64 {
        self.at(pointer)
            .as_u64()
            .unwrap_or_else(|| panic!("{pointer} is no number in {}", self.stdout))
    }

    #[track_caller]
    pub fn text(&self, pointer: &str) -> &str {
        self.at(pointer)
            .as_str()
            .unwrap_or_else(|| panic!("{pointer} is no text in {}", self.stdout))
    }
}

/// A sample, by its path below the folder of all samples.
pub fn sample(rel: &str) -> Vec<u8> {
    let path = fixtures().join(rel);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/sessions")
}

impl Sandbox {
    pub fn new() -> Sandbox {
        Sandbox::below(&std::env::temp_dir())
    }

    /// On a file system in memory, where there is one: for tests with very many runs or sources,
    /// which would wait for the disk all the time.
    pub fn in_memory() -> Sandbox {
        let memory = Path::new("/dev/shm");
        if memory.is_dir() {
            Sandbox::below(memory)
        } else {
            Sandbox::new()
        }
    }

    fn below(folder: &Path) -> Sandbox {
        let dir = tempfile::Builder::new()
            .prefix("cass-journey-")
            .tempdir_in(folder)
            .unwrap();
        std::fs::create_dir(dir.path().join("home")).unwrap();
        Sandbox { dir }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut c = Command::new(env!("CARGO_BIN_EXE_cass"));
        c.env_clear()
            .env("HOME", self.home())
            .env("PATH", "/usr/bin:/bin")
            .env("CASS_DATA_DIR", self.data())
            .args(args)
            .stdin(Stdio::null());
        c
    }

    /// Runs with `--json`; the output must be one document, whatever the outcome.
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Ran {
        let mut c = self.command(args);
        c.arg("--json");
        ran(c.output().unwrap())
    }

    /// Runs as somebody who is not root, for whom modes mean something; `None` where that can't be
    /// done.
    #[track_caller]
    pub fn run_as_nobody(&self, args: &[&str]) -> Option<Ran> {
        if !rustix::process::geteuid().is_root() {
            return Some(self.run(args));
        }
        let cass = self.command(args);
        // The program lies where nobody else may go: it is started from a copy.
        let copy = self.path().join("cass");
        if !copy.exists() {
            std::fs::copy(cass.get_program(), &copy).unwrap();
            for entry in walkdir::WalkDir::new(self.path()) {
                let nobody = (
                    rustix::fs::Uid::from_raw(65534),
                    rustix::fs::Gid::from_raw(65534),
                );
                let entry = entry.unwrap();
                rustix::fs::chown(entry.path(), Some(nobody.0), Some(nobody.1)).unwrap();
            }
        }
        let mut nobody = Command::new("setpriv");
        nobody
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
            .arg(&copy)
            .args(args)
            .arg("--json")
            .env_clear()
            .envs(cass.get_envs().filter_map(|(k, v)| Some((k, v?))));
        nobody.output().ok().map(ran)
    }

    /// Puts `bytes` at `rel` below the home folder, with a modification time well in the past, so
    /// that no gate is in doubt.
    pub fn put(&self, rel: &str, bytes: &[u8]) -> PathBuf {
        let path = self.home().join(rel);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        age(&path, 3600);
        path
    }

    /// One captured version, handed out by `mirror get`.
    #[track_caller]
    pub fn get(&self, source: &Path, seq: u64) -> Vec<u8> {
        self.get_with(source, &["--seq", &seq.to_string()])
    }

    #[track_caller]
    pub fn get_with(&self, source: &Path, more: &[&str]) -> Vec<u8> {
        let out = self.path().join("handed-out");
        let mut c = self.command(&["mirror", "get"]);
        c.arg(source).args(more).arg("-o").arg(&out).arg("--json");
        ran(c.output().unwrap()).expect(0);
        let bytes = std::fs::read(&out).unwrap();
        std::fs::remove_file(&out).unwrap();
        bytes
    }

    /// The captures of a source, the oldest first.
    #[track_caller]
    pub fn captures(&self, source: &Path) -> Vec<Value> {
        let mut c = self.command(&["mirror", "list", "--limit", "100000", "--json"]);
        let list = ran(c.arg(source).output().unwrap()).expect(0);
        let mut captures = list.at("/captures").as_array().unwrap().clone();
        captures.reverse();
        captures
    }

    /// Every session, as `sessions list` has it.
    #[track_caller]
    pub fn sessions(&self) -> Vec<Value> {
        let list = self
            .run(&["sessions", "list", "--limit", "100000"])
            .expect(0);
        list.at("/sessions").as_array().unwrap().clone()
    }

    /// The sessions with this id of the harness.
    #[track_caller]
    pub fn named(&self, native: &str) -> Vec<Value> {
        self.sessions()
            .into_iter()
            .filter(|s| s["native_id"] == native)
            .collect()
    }

    /// The messages of a session, as the export has them.
    #[track_caller]
    pub fn messages(&self, id: &str) -> Vec<Value> {
        let exported = self.run(&["export", id, "--format", "json"]).expect(0);
        exported.at("/messages").as_array().unwrap().clone()
    }

    /// Bytes of the packs and of the capture ledgers, by the sizes of the files.
    pub fn mirror_bytes(&self) -> u64 {
        let mirror = self.data().join("raw-mirror");
        let below = |name: &str| files_below(&mirror.join(name));
        below("packs")
            .into_iter()
            .chain(below("sources"))
            .map(|p| std::fs::metadata(p).unwrap().len())
            .sum()
    }

    /// Lays out every Claude and Codex sample as the harnesses would; returns the files of
    /// sessions, by path.
    pub fn lay_out_samples(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut laid = BTreeMap::new();
        let claude = fixtures().join("claude");
        for file in files_below(&claude) {
            let rel = file.strip_prefix(&claude).unwrap();
            let mut parts: Vec<String> = rel
                .iter()
                .map(|p| p.to_string_lossy().into_owned())
                .collect();
            let group = parts.remove(0);
            // Versions of one session at several times are laid out as the newest alone.
            if parts.first().is_some_and(|p| p.starts_with("growth")) {
                if parts[1] != "t5" {
                    continue;
                }
                parts.drain(0..2);
            }
            if parts.first().map(String::as_str) == Some("projects") {
                parts.drain(0..2);
            }
            let to = format!(".claude/projects/-src-{group}/{}", parts.join("/"));
            let bytes = std::fs::read(&file).unwrap();
            let path = self.put(&to, &bytes);
            if path.extension().is_some_and(|e| e == "jsonl") {
                laid.insert(path, bytes);
            }
        }
        let codex = fixtures().join("codex");
        for file in files_below(&codex) {
            let rel = file.strip_prefix(&codex).unwrap();
            let text = rel.to_string_lossy().into_owned();
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            if text.contains("growth/t1") {
                continue;
            }
            let to = if name.ends_with(".sqlite") {
                format!(".codex/{name}")
            } else if text.contains("archived_sessions") {
                format!(".codex/archived_sessions/{name}")
            } else {
                format!(".codex/sessions/2026/06/01/{name}")
            };
            let bytes = std::fs::read(&file).unwrap();
            let path = self.put(&to, &bytes);
            if !name.ends_with(".sqlite") {
                laid.insert(path, bytes);
            }
        }
        assert!(laid.len() > 30);
        laid
    }
}

#[track_caller]
pub fn ran(output: Output) -> Ran {
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let json = serde_json::from_str(&stdout)
        .unwrap_or_else(|e| panic!("not one document: {e}\nstdout: {stdout}\nstderr: {stderr}"));
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout,
        stderr,
        json,
    }
}

/// Names of the sources that were captured, by the ledgers' own words.
pub fn ledgers(sandbox: &Sandbox) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = heads(sandbox).into_iter().map(|(_, path)| path).collect();
    paths.sort();
    paths
}

/// The harness and the path of every source that was captured, by the ledgers' own words.
pub fn heads(sandbox: &Sandbox) -> Vec<(String, PathBuf)> {
    let head = |file: &PathBuf| {
        let text = std::fs::read_to_string(file).unwrap();
        let head: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        let path = match head["path_hex"].as_str() {
            Some(hex) => {
                let bytes: Vec<u8> = (0..hex.len())
                    .step_by(2)
                    .map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap())
                    .collect();
                PathBuf::from(OsStr::from_bytes(&bytes))
            }
            None => PathBuf::from(head["path"].as_str().unwrap()),
        };
        (head["provider"].as_str().unwrap().to_owned(), path)
    };
    files_below(&sandbox.data().join("raw-mirror/sources"))
        .iter()
        .map(head)
        .collect()
}

/// Sets the mode of a file or folder.
pub fn mode(path: &Path, bits: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(bits)).unwrap();
}

/// Sets the modification time to `seconds` ago.
pub fn age(path: &Path, seconds: u64) {
    let then = std::time::SystemTime::now() - std::time::Duration::from_secs(seconds);
    std::fs::File::open(path)
        .unwrap()
        .set_modified(then)
        .unwrap();
}

pub fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = walkdir::WalkDir::new(dir)
        .into_iter()
        .filter_map(Result::ok)
        .filter(|e| e.file_type().is_file())
        .map(|e| e.into_path())
        .collect();
    files.sort();
    files
}

/// Everything about a tree that a command could have changed: names, kinds, modes, times, bytes.
pub fn snapshot(dir: &Path) -> BTreeMap<PathBuf, (u32, i64, i64, u64, String)> {
    walkdir::WalkDir::new(dir)
        .into_iter()
        .filter_map(Result::ok)
        .map(|e| {
            let meta = std::fs::symlink_metadata(e.path()).unwrap();
            let hash = if meta.is_file() {
                blake3::hash(&std::fs::read(e.path()).unwrap())
                    .to_hex()
                    .to_string()
            } else {
                String::new()
            };
            let facts = (
                meta.permissions().mode(),
                meta.mtime(),
                meta.mtime_nsec(),
                meta.len(),
                hash,
            );
            (e.into_path(), facts)
        })
        .collect()
}

/// The bytes of every file that means something: locks and SQLite's shared memory are left out.
pub fn content(dir: &Path) -> BTreeMap<PathBuf, String> {
    snapshot(dir)
        .into_iter()
        .filter(|(path, facts)| {
            let name = path.to_string_lossy();
            !facts.4.is_empty() && !name.contains("/locks/") && !name.ends_with("-shm")
        })
        .map(|(path, facts)| (path, facts.4))
        .collect()
}
