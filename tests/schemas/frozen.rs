//! Data directories as the programs that released each schema left them, in
//! `tests/fixtures/archives/`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::lab::copy;
use super::sandbox::{Sandbox, files_below, heads, mode};

/// The home of the frozen sources: below the folder that a program runs in.
pub const HOME: &str = "/proc/self/cwd/home";

pub fn folder(version: i64) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/archives/schema-{version}"))
}

/// One of them.
pub struct Frozen {
    pub folder: PathBuf,
}

impl Frozen {
    pub fn of(version: i64) -> Frozen {
        Frozen {
            folder: folder(version),
        }
    }

    /// Puts a copy at `to`, with the modes that its program gave it: git keeps none.
    pub fn copy_to(&self, to: &Path) {
        fs::create_dir_all(to).unwrap();
        copy(&self.folder.join("data"), to);
        for entry in walkdir::WalkDir::new(to) {
            let entry = entry.unwrap();
            let bits = if entry.file_type().is_dir() {
                0o700
            } else {
                0o600
            };
            mode(entry.path(), bits);
        }
    }

    /// A sandbox whose data directory is a copy; its home is empty, as that of somebody whose
    /// harnesses pruned everything.
    pub fn copied(&self) -> Sandbox {
        let s = Sandbox::in_memory();
        self.copy_to(&s.data());
        s
    }

    /// Every session with its messages, as it was exported then.
    pub fn export(&self) -> Value {
        let text = fs::read_to_string(self.folder.join("export.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// Lines of a list: a name and the columns behind it.
    fn list(&self, name: &str) -> Vec<Vec<String>> {
        let text = fs::read_to_string(self.folder.join(name)).unwrap();
        text.lines()
            .map(|l| l.split('\t').map(str::to_owned).collect())
            .collect()
    }

    /// The captures: path, number, length, BLAKE3.
    pub fn captures(&self) -> Vec<Vec<String>> {
        self.list("captures.tsv")
    }

    /// The files of the data directory: path, length, BLAKE3.
    pub fn files(&self) -> Vec<Vec<String>> {
        self.list("files.tsv")
    }
}

/// What people get out of a session; what is told about it beside that may grow.
pub fn exported(s: &Sandbox) -> Value {
    let sessions: BTreeMap<String, Value> = s
        .sessions()
        .into_iter()
        .map(|session| {
            let id = session["id"].as_str().unwrap().to_owned();
            let told = json!({
                "native_id": session["native_id"],
                "provider": session["provider"],
                "title": session["title"],
                "messages": s.messages(&id),
            });
            (id, told)
        })
        .collect();
    json!(sessions)
}

/// Every capture that the mirror gives back, as [`Frozen::captures`] has them.
pub fn captured(s: &Sandbox) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for (_, path) in heads(s) {
        for capture in s.captures(&path) {
            let seq = capture["seq"].as_u64().unwrap();
            let bytes = s.get(&path, seq);
            all.push(vec![
                path.to_str().unwrap().to_owned(),
                seq.to_string(),
                bytes.len().to_string(),
                blake3::hash(&bytes).to_hex().to_string(),
            ]);
        }
    }
    all.sort();
    all
}

/// The files below `folder`, as [`Frozen::files`] has them.
pub fn listed(folder: &Path) -> Vec<Vec<String>> {
    files_below(folder)
        .iter()
        .map(|path| {
            let bytes = fs::read(path).unwrap();
            let rel = path.strip_prefix(folder).unwrap();
            vec![
                rel.to_str().unwrap().to_owned(),
                bytes.len().to_string(),
                blake3::hash(&bytes).to_hex().to_string(),
            ]
        })
        .collect()
}

/// Writes what is compared later beside a data directory that was just made.
pub fn write_texts(s: &Sandbox, folder: &Path) {
    let table = |rows: Vec<Vec<String>>| {
        rows.iter().fold(String::new(), |mut text, row| {
            let _ = writeln!(text, "{}", row.join("\t"));
            text
        })
    };
    let files = listed(&folder.join("data"));
    fs::write(folder.join("files.tsv"), table(files)).unwrap();
    let export = serde_json::to_string_pretty(&exported(s)).unwrap();
    fs::write(folder.join("export.json"), export + "\n").unwrap();
    fs::write(folder.join("captures.tsv"), table(captured(s))).unwrap();
}
