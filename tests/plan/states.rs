//! The states that plans are made for, each with one plan that applies to it.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use super::lab::{apply_argv, back_up, db, fingerprint, flip, indexed, plan, tamper};
use super::place::copy;
use super::sandbox::{Ran, Sandbox};

/// A data directory and a plan for it.
pub struct State {
    pub sandbox: Sandbox,
    /// The words of the dry run.
    pub words: Vec<String>,
    pub planned: Ran,
    pub fingerprint: String,
    /// The words that apply it.
    pub apply: Vec<String>,
}

impl State {
    #[track_caller]
    fn of(sandbox: Sandbox, words: &[&str]) -> State {
        // A rehearsal writes its receipt; every other dry run writes nothing.
        let planned = if words.contains(&"restore") {
            sandbox.run(words)
        } else {
            plan(&sandbox, words)
        };
        let planned = planned.expect(0);
        assert_eq!(planned.text("/status"), "planned", "{}", planned.stdout);
        State {
            fingerprint: fingerprint(&planned),
            apply: apply_argv(&planned),
            words: words.iter().map(|w| (*w).to_owned()).collect(),
            sandbox,
            planned,
        }
    }

    pub fn path(&self) -> PathBuf {
        self.sandbox.path().to_owned()
    }
}

const CLAUDE: &str = ".claude/projects/-src-a/00000000-0000-4000-8000-000000000001.jsonl";

pub fn grow(s: &Sandbox, n: usize) {
    s.put(CLAUDE, &super::lab::claude(n));
}

pub const SOURCE: &str = CLAUDE;

/// An index whose commits stay in the WAL, because a reader is in the archive.
fn into_the_wal(s: &Sandbox) {
    let lock = fs::File::open(s.data().join("locks/archive.lock")).unwrap();
    lock.lock_shared().unwrap();
    grow(s, 66);
    s.run(&["index", "--skip-lexical"]).expect(0);
}

/// A damaged row and commits in the WAL: rung 4.
pub static REPAIR: LazyLock<State> = LazyLock::new(|| {
    let s = indexed();
    into_the_wal(&s);
    tamper(&s);
    State::of(s, &["doctor", "repair"])
});

/// The same, with an archive of the operator's.
pub static REPAIR_FROM: LazyLock<State> = LazyLock::new(|| {
    let s = indexed();
    let named = s.path().join("home/named.db");
    fs::copy(db(&s), &named).unwrap();
    tamper(&s);
    let named = named.to_str().unwrap().to_owned();
    State::of(s, &["doctor", "repair", "--from", &named])
});

/// No file of the archive can be read: an index beside it only captures.
pub static REPAIR_NOISE: LazyLock<State> = LazyLock::new(|| {
    let s = indexed();
    fs::write(db(&s), [7u8; 70_000]).unwrap();
    State::of(s, &["doctor", "repair"])
});

/// After a failure, repeated.
pub static REPAIR_AGAIN: LazyLock<State> = LazyLock::new(|| {
    let s = indexed();
    tamper(&s);
    fs::create_dir_all(s.data().join("doctor/failures")).unwrap();
    fs::write(s.data().join("doctor/failures/marker.json"), b"{ torn").unwrap();
    State::of(s, &["doctor", "repair", "--allow-repeated-repair"])
});

/// A mirror that lost all of one source: rows are taken from the archive and a backup.
pub static REPAIR_ROWS: LazyLock<State> = LazyLock::new(|| {
    let s = indexed();
    back_up(&s, "first");
    tamper(&s);
    let ledgers = super::sandbox::files_below(&s.data().join("raw-mirror/sources"));
    fs::remove_file(&ledgers[0]).unwrap();
    State::of(s, &["doctor", "repair"])
});

/// A WAL that lost commits: rung 1.
pub static RECOVER: LazyLock<State> = LazyLock::new(|| {
    let s = indexed();
    into_the_wal(&s);
    flip(&db(&s).with_file_name("agent_search.db-wal"), 60);
    State::of(s, &["doctor", "repair"])
});

/// `CURRENT` is gone: rung 0.
pub static RE_POINT: LazyLock<State> = LazyLock::new(|| {
    let s = indexed();
    fs::remove_file(s.data().join("CURRENT")).unwrap();
    State::of(s, &["doctor", "repair"])
});

/// A damaged coverage ledger.
pub static LEDGER: LazyLock<State> = LazyLock::new(|| {
    let s = indexed();
    let ledger = s.data().join("coverage.jsonl");
    let text = fs::read_to_string(&ledger).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines[1] = "{\"kind\":\"comm";
    fs::write(&ledger, lines.join("\n") + "\n").unwrap();
    State::of(s, &["doctor", "repair"])
});

/// Generations that nothing names.
pub static ORPHANS: LazyLock<State> = LazyLock::new(|| {
    let s = indexed();
    let live = s.data().join("generations/g00000001");
    for id in ["g00000004", "g00000005"] {
        let orphan = s.data().join("generations").join(id);
        fs::create_dir(&orphan).unwrap();
        copy(&live, &orphan);
    }
    State::of(s, &["doctor", "repair"])
});

/// A backup of a sound archive, of which there is one already.
pub static CREATE: LazyLock<State> = LazyLock::new(|| {
    let s = indexed();
    back_up(&s, "first");
    State::of(s, &["doctor", "backups", "create", "--label", "second"])
});

/// A backup of the commit that the archive is at.
pub static RESTORE: LazyLock<State> = LazyLock::new(|| {
    let s = indexed();
    back_up(&s, "first");
    State::of(s, &["doctor", "backups", "restore", "b00000001"])
});

/// An older backup, with what came since.
pub static RESTORE_KEEP: LazyLock<State> = LazyLock::new(|| {
    let s = indexed();
    back_up(&s, "first");
    grow(&s, 64);
    s.run(&["index"]).expect(0);
    State::of(
        s,
        &["doctor", "backups", "restore", "--keep-newer", "b00000001"],
    )
});

/// A repair to undo.
pub static UNDO: LazyLock<State> = LazyLock::new(|| {
    let s = indexed();
    back_up(&s, "first");
    tamper(&s);
    super::lab::repair(&s);
    State::of(s, &["doctor", "runs", "undo", "latest"])
});
