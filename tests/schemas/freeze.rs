//! Makes the frozen data directory of the present schema: `CASS_FREEZE=1 cargo test --test schemas
//! freeze`. It is made once, by the program that released the schema, and never again.
//!
//! The home is named `/proc/self/cwd/home`: that is what the sources are called in it, so that nothing
//! of the machine that made it gets in, and a test can put the sources back where the archive says that
//! they were, by running in a folder that has a `home`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cass::store::archive::SCHEMA_VERSION;

use super::frozen::{self, Frozen};
use super::lab::{apply_argv, copy};
use super::sandbox::{Ran, age, files_below, ran};
use super::sources::{self, Stage};

struct Maker {
    dir: tempfile::TempDir,
}

impl Maker {
    fn run<S: AsRef<std::ffi::OsStr>>(&self, args: &[S]) -> Ran {
        let mut c = Command::new(env!("CARGO_BIN_EXE_cass"));
        c.env_clear()
            .env("HOME", frozen::HOME)
            .env("PATH", "/usr/bin:/bin")
            .env("CASS_DATA_DIR", self.data())
            .current_dir(self.dir.path())
            .arg("--json")
            .args(args)
            .stdin(Stdio::null());
        ran(c.output().unwrap()).expect(0)
    }

    fn applied(&self, args: &[&str]) {
        let planned = self.run(args);
        self.run(&apply_argv(&planned));
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn put(&self, rel: &str, bytes: &[u8]) {
        let path = self.dir.path().join("home").join(rel);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        age(&path, 3600);
    }
}

fn made() -> Maker {
    let maker = Maker {
        dir: tempfile::Builder::new()
            .prefix("freeze-")
            .tempdir_in("/tmp")
            .unwrap(),
    };
    maker.put(sources::CLAUDE, &sources::claude(Stage::Begun));
    maker.put(sources::CODEX, &sources::codex(2));
    for (rel, bytes) in sources::shipped() {
        maker.put(rel, &bytes);
    }
    maker.run(&["index"]);
    maker.put(sources::CLAUDE, &sources::claude(Stage::Grown));
    maker.put(sources::FORK, &sources::fork());
    maker.run(&["index"]);
    maker.applied(&[
        "doctor",
        "backups",
        "create",
        "--label",
        "before the rewrite",
    ]);
    maker.put(sources::CLAUDE, &sources::claude(Stage::Rewritten));
    maker.run(&["index"]);
    // The live generation becomes a sealed one.
    maker.applied(&["doctor", "backups", "restore", "--keep-newer", "b00000001"]);
    maker.put(sources::LATE, &sources::late(4));
    maker.put(sources::CODEX, &sources::codex(4));
    maker.run(&["index"]);
    maker
}

#[test]
fn freeze() {
    if std::env::var_os("CASS_FREEZE").is_none() {
        println!("makes nothing: CASS_FREEZE is not set");
        return;
    }
    let folder = frozen::folder(SCHEMA_VERSION);
    if folder.exists() {
        println!("{} is there and is never made again", folder.display());
        return;
    }
    let maker = made();
    copy(&maker.data(), &folder.join("data"));
    for file in files_below(&folder) {
        let name = file.file_name().unwrap().to_str().unwrap();
        // Of no meaning elsewhere: memory of SQLite, words about the process that held a lock.
        if name.ends_with("-shm") || name.ends_with(".info") {
            fs::remove_file(&file).unwrap();
            continue;
        }
        let bytes = fs::read(&file).unwrap();
        for word in [env!("CARGO_MANIFEST_DIR"), &std::env::var("HOME").unwrap()] {
            let found = memchr::memmem::find(&bytes, word.as_bytes());
            assert!(found.is_none(), "{} holds {word}", file.display());
        }
    }
    // Read in a copy, by the program that made it.
    let s = Frozen::of(SCHEMA_VERSION).copied();
    frozen::write_texts(&s, &folder);
    write_readme(&folder);
}

fn write_readme(folder: &Path) {
    let text = format!(
        "# A data directory of schema {SCHEMA_VERSION}\n\n\
         Made by cass {} with `CASS_FREEZE=1 cargo test --test schemas freeze`, once. **It is never made \
         again**: `tests/schemas/` proves with it that a later program still reads, extends, repairs and \
         restores what this one left.\n\n\
         | file | what |\n|---|---|\n\
         | `data/` | the data directory, byte for byte (git keeps neither modes nor empty folders; left out are \
         `-shm` and lock information) |\n\
         | `export.json` | every session with its messages, as `cass export` gave them then |\n\
         | `captures.tsv` | every capture of every source: path, number, length, BLAKE3 |\n\
         | `files.tsv` | length and BLAKE3 of every file of `data/` |\n\n\
         The sources lay below `/proc/self/cwd/home`, so no machine's path is in it and a test can put them back where \
         they were. The sessions are those of `tests/schemas/sources.rs`, two of them from `tests/fixtures/sessions/`: \
         a database of Cursor (`S2thend/cursor-history`, MIT) and a document of Gemini CLI \
         (`jazzyalex/agent-sessions`, MIT).\n",
        env!("CARGO_PKG_VERSION")
    );
    fs::write(folder.join("README.md"), text).unwrap();
}
