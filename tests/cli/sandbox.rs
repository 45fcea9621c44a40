//! A place of its own for every run: home, data directory, environment.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::Value;

/// What a run gave.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Run {
    /// The one document on stdout, valid by the schema that it names.
    pub fn document(&self) -> Value {
        let value: Value = serde_json::from_slice(&self.stdout).unwrap_or_else(|e| {
            panic!(
                "no document ({e}): {:?} {}",
                String::from_utf8_lossy(&self.stdout),
                self.stderr
            )
        });
        assert!(self.stdout.ends_with(b"\n"));
        validate(&value);
        let outcome = &value["operation_outcome"];
        assert_eq!(outcome["exit_code"], self.code, "{value}");
        value
    }
}

/// Fails when `value` is not what its schema says.
pub fn validate(value: &Value) {
    static SCHEMAS: LazyLock<BTreeMap<String, Validator>> = LazyLock::new(|| {
        cass::report::registry::schemas()
            .into_iter()
            .map(|(name, schema)| {
                let full = jsonschema::draft202012::new(&schema).unwrap();
                drop(full);
                // Also unknown fields fail here: what is printed must be described.
                (name, jsonschema::draft202012::new(&closed(schema)).unwrap())
            })
            .collect()
    });
    let name = value["schema"]["name"]
        .as_str()
        .unwrap_or_else(|| panic!("no schema: {value}"));
    let schema = SCHEMAS
        .get(name)
        .unwrap_or_else(|| panic!("unknown schema {name}"));
    let errors: Vec<String> = schema
        .iter_errors(value)
        .map(|e| format!("{} at {}", e, e.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{name}: {errors:?}\n{value}");
}

/// `schema` that refuses fields it does not name.
fn closed(mut schema: Value) -> Value {
    if let Some(map) = schema.as_object_mut() {
        map.insert("unevaluatedProperties".to_owned(), Value::Bool(false));
    }
    schema
}

/// A home and a data directory that nothing else uses.
#[derive(Debug)]
pub struct Sandbox {
    dir: tempfile::TempDir,
}

impl Sandbox {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("home")).unwrap();
        std::fs::create_dir(dir.path().join("cwd")).unwrap();
        Sandbox { dir }
    }

    /// Makes the first backup and restores it, so that there are a sealed generation and runs.
    pub fn back_up_and_restore(&self) {
        for words in [
            &["doctor", "backups", "create", "--json"][..],
            &["doctor", "backups", "restore", "b00000001", "--json"],
        ] {
            let planned = self.run(words).document();
            let plan = planned
                .as_object()
                .unwrap()
                .values()
                .find_map(|v| v["apply_argv"].as_array())
                .unwrap_or_else(|| panic!("{planned}"));
            let argv = plan.iter().skip(1).map(|w| w.as_str().unwrap());
            let applied = self.run(["--json"].into_iter().chain(argv));
            assert_eq!(applied.code, 0, "{}", applied.document());
        }
        // The search index serves the restored generation.
        let indexed = self.run(["index", "--json"]);
        assert_eq!(indexed.code, 0, "{}", indexed.document());
    }

    pub fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    /// Absent until a test or the program makes it.
    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub fn cwd(&self) -> PathBuf {
        self.dir.path().join("cwd")
    }

    pub fn command<I, S>(&self, args: I) -> Command
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cass"));
        command
            .args(args)
            .env_clear()
            .env("HOME", self.home())
            .env("CASS_DATA_DIR", self.data())
            .env("TZ", "UTC")
            .current_dir(self.cwd())
            .stdin(Stdio::null());
        command
    }

    pub fn run<I, S>(&self, args: I) -> Run
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        finish(self.command(args).output().unwrap())
    }

    /// Every name below the sandbox: nothing was made when this is unchanged.
    pub fn names(&self) -> Vec<PathBuf> {
        let mut names = Vec::new();
        walk(self.dir.path(), &mut names);
        names.sort();
        names
    }
}

pub fn finish(output: std::process::Output) -> Run {
    use std::os::unix::process::ExitStatusExt;
    Run {
        code: output
            .status
            .code()
            .unwrap_or_else(|| -output.status.signal().unwrap_or(999)),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn walk(dir: &Path, names: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        names.push(entry.path());
        if entry.file_type().unwrap().is_dir() {
            walk(&entry.path(), names);
        }
    }
}

/// Every command that does something, as the program itself lists them.
pub fn leaves() -> BTreeSet<String> {
    fn walk(node: &Value, path: &str, all: &mut BTreeSet<String>) {
        for sub in node["commands"].as_array().into_iter().flatten() {
            let path = format!("{path} {}", sub["name"].as_str().unwrap());
            let path = path.trim_start();
            if sub["schema"].is_string() {
                all.insert(path.to_owned());
            }
            walk(sub, path, all);
        }
    }
    let tree = Sandbox::new()
        .run(["introspect", "--commands", "--json"])
        .document();
    let mut all = BTreeSet::new();
    walk(&tree["commands"], "", &mut all);
    assert!(!all.is_empty(), "{tree}");
    all
}

/// One working command line for every command of the program, without `--json`.
pub fn every_command() -> Vec<Vec<OsString>> {
    [
        &["index"][..],
        &["doctor"],
        &["doctor", "check"],
        &["doctor", "archive-scan"],
        &["doctor", "archive-scan", "--detail", "full"],
        &["doctor", "backups", "list"],
        &["doctor", "backups", "create"],
        &["doctor", "backups", "verify", "b00000001"],
        &["doctor", "backups", "verify", "g00000001", "--deep"],
        &["doctor", "backups", "restore", "b00000001"],
        &["doctor", "runs", "show", "latest"],
        &["doctor", "runs", "undo", "latest"],
        &["doctor", "repair"],
        &["doctor", "repair", "--dry-run", "--deterministic"],
        &["doctor", "--fix"],
        &["doctor", "runs", "list"],
        &["doctor", "session-log", "check", "."],
        &["doctor", "session-log", "check", ".", "--show-content"],
        &["doctor", "session-log", "repair", "."],
        &["sessions", "list"],
        &["sessions", "show", "0011"],
        &["search", "b"],
        &["models", "status"],
        &[
            "sessions",
            "list",
            "--all",
            "--agent",
            "claude",
            "--since",
            "2020-01-01",
        ],
        &["sessions", "restore", "0011"],
        &["sessions", "restore", "0011", "--to", "out-restored"],
        &["sessions", "restore", "0011", "--into-harness"],
        &["stats"],
        &["stats", "--session", "0011", "--by", "day"],
        &["view", "0011"],
        &[
            "view", "0011", "--raw", "--all", "--from", "1", "--count", "2",
        ],
        &["export", "0011", "--format", "raw", "-o", "out-raw"],
        &["export", "0011", "--format", "json", "-o", "out.json"],
        &["export", "0011", "--format", "json"],
        &["export", "0011", "--format", "markdown", "-o", "out.md"],
        &["export", "0011", "--format", "html", "-o", "out.html"],
        &["mirror", "verify"],
        &["mirror", "list", "/no/such"],
        &["mirror", "get", "/no/such@1", "-o", "got"],
        &["health"],
        &["introspect"],
        &["introspect", "--commands"],
        &["introspect", "--schema", "error"],
        &["--version"],
        &["--help"],
        &["mirror", "get", "--help"],
    ]
    .iter()
    .map(|words| words.iter().map(OsString::from).collect())
    .collect()
}
