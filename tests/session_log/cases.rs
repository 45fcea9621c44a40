//! The cases: a tree that is read, and what must be said of it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// One case, copied to a folder of its own.
pub struct Case {
    pub name: String,
    pub expected: Value,
    folder: PathBuf,
    copy: tempfile::TempDir,
}

pub fn all() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/session_logs");
    let mut out: Vec<Case> = fs::read_dir(folder)
        .expect("the cases")
        .map(|e| e.expect("an entry").path())
        .filter(|p| p.is_dir())
        .map(|p| Case::at(&p))
        .collect();
    out.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(out.len(), 144);
    out
}

/// The case of this name.
pub fn named(name: &str) -> Case {
    Case::at(
        &Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures/session_logs")
            .join(name),
    )
}

impl Case {
    fn at(folder: &Path) -> Case {
        let copy = tempfile::tempdir().expect("a folder");
        for inner in ["sessions", "sessions.db"] {
            if folder.join(inner).exists() {
                copy_tree(&folder.join(inner), &copy.path().join(inner));
            }
        }
        let expected = fs::read(folder.join("expected.json")).expect("expected.json");
        Case {
            name: folder
                .file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned(),
            expected: serde_json::from_slice(&expected).expect("JSON"),
            folder: folder.to_owned(),
            copy,
        }
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        self.expected[key].as_str()
    }

    /// The log itself, in the copy.
    pub fn log(&self) -> PathBuf {
        self.copy.path().join(self.text("log").expect("a log"))
    }

    /// What is to be checked: the tree, or the store.
    pub fn root(&self) -> PathBuf {
        let tree = self.copy.path().join("sessions");
        if tree.exists() { tree } else { self.log() }
    }

    pub fn repaired(&self) -> Option<Vec<u8>> {
        let path = self.folder.join(self.text("repaired_log")?);
        Some(fs::read(path).expect("the repaired log"))
    }

    pub fn batch(&self) -> Option<Vec<u8>> {
        let path = self.folder.join(self.text("append")?);
        Some(fs::read(path).expect("the batch"))
    }
}

pub fn copy_tree(from: &Path, to: &Path) {
    for entry in walkdir::WalkDir::new(from) {
        let entry = entry.expect("an entry");
        let rel = entry.path().strip_prefix(from).expect("below");
        let target = if rel.as_os_str().is_empty() {
            to.to_owned()
        } else {
            to.join(rel)
        };
        if entry.file_type().is_dir() {
            fs::create_dir_all(target).expect("a folder");
        } else {
            fs::write(target, fs::read(entry.path()).expect("read")).expect("written");
        }
    }
}
