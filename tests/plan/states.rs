//! The states that plans are made for, each with one plan that applies to it.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use super::lab::{apply_argv, back_up, copy, db, fingerprint, flip, indexed, killed, plan, tamper};
use super::place::Place;
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

    /// Words that name files of its home, as they are in a copy.
    pub fn words_at(&self, p: &Place, words: &[String]) -> Vec<String> {
        let (home, there) = (self.sandbox.home(), p.home());
        let (home, there) = (home.to_str().unwrap(), there.to_str().unwrap());
        words.iter().map(|w| w.replace(home, there)).collect()
    }
}

/// What plans are made for, with what makes another data directory like it.
pub struct Kind {
    pub state: &'static LazyLock<State>,
    pub anew: fn() -> State,
}

macro_rules! kinds {
    ($($name:ident $make:ident),* $(,)?) => {
        /// Every state.
        pub static KINDS: &[Kind] = &[$(Kind { state: &$name, anew: $make }),*];
    };
}

kinds! {
    REPAIR repair,
    REPAIR_FROM repair_from,
    REPAIR_NOISE repair_noise,
    REPAIR_AGAIN repair_again,
    REPAIR_ROWS repair_rows,
    RECOVER recover,
    RE_POINT re_point,
    LEDGER ledger,
    ORPHANS orphans,
    CREATE create,
    RESTORE restore,
    RESTORE_KEEP restore_keep,
    UNDO undo,
    BACKUP backup,
    BEGIN begin,
    DERIVED derived,
    ACCEPT accept,
    WITHDRAW withdraw,
    FRESH fresh,
    FINISH finish,
    CLOSE close,
    CREATE_OPEN create_open,
    UNDO_OPEN undo_open,
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
pub static REPAIR: LazyLock<State> = LazyLock::new(repair);

fn repair() -> State {
    let s = indexed();
    into_the_wal(&s);
    tamper(&s);
    State::of(s, &["doctor", "repair"])
}

/// The same, with an archive of the operator's.
pub static REPAIR_FROM: LazyLock<State> = LazyLock::new(repair_from);

fn repair_from() -> State {
    let s = indexed();
    let named = s.path().join("home/named.db");
    fs::copy(db(&s), &named).unwrap();
    tamper(&s);
    let named = named.to_str().unwrap().to_owned();
    State::of(s, &["doctor", "repair", "--from", &named])
}

/// No file of the archive can be read: an index beside it only captures.
pub static REPAIR_NOISE: LazyLock<State> = LazyLock::new(repair_noise);

fn repair_noise() -> State {
    let s = indexed();
    fs::write(db(&s), [7u8; 70_000]).unwrap();
    State::of(s, &["doctor", "repair"])
}

/// After a failure, repeated.
pub static REPAIR_AGAIN: LazyLock<State> = LazyLock::new(repair_again);

fn repair_again() -> State {
    let s = indexed();
    tamper(&s);
    fs::create_dir_all(s.data().join("doctor/failures")).unwrap();
    fs::write(s.data().join("doctor/failures/marker.json"), b"{ torn").unwrap();
    State::of(s, &["doctor", "repair", "--allow-repeated-repair"])
}

/// A mirror that lost all of one source: rows are taken from the archive and a backup.
pub static REPAIR_ROWS: LazyLock<State> = LazyLock::new(repair_rows);

fn repair_rows() -> State {
    let s = indexed();
    back_up(&s, "first");
    tamper(&s);
    let ledgers = super::sandbox::files_below(&s.data().join("raw-mirror/sources"));
    fs::remove_file(&ledgers[0]).unwrap();
    State::of(s, &["doctor", "repair"])
}

/// A WAL that lost commits: rung 1.
pub static RECOVER: LazyLock<State> = LazyLock::new(recover);

fn recover() -> State {
    let s = indexed();
    into_the_wal(&s);
    flip(&db(&s).with_file_name("agent_search.db-wal"), 60);
    State::of(s, &["doctor", "repair"])
}

/// `CURRENT` is gone: rung 0.
pub static RE_POINT: LazyLock<State> = LazyLock::new(re_point);

fn re_point() -> State {
    let s = indexed();
    fs::remove_file(s.data().join("CURRENT")).unwrap();
    State::of(s, &["doctor", "repair"])
}

/// A damaged coverage ledger.
pub static LEDGER: LazyLock<State> = LazyLock::new(ledger);

fn ledger() -> State {
    let s = indexed();
    let ledger = s.data().join("coverage.jsonl");
    let text = fs::read_to_string(&ledger).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines[1] = "{\"kind\":\"comm";
    fs::write(&ledger, lines.join("\n") + "\n").unwrap();
    State::of(s, &["doctor", "repair"])
}

/// Generations that nothing names.
pub static ORPHANS: LazyLock<State> = LazyLock::new(orphans);

fn orphans() -> State {
    let s = indexed();
    let live = s.data().join("generations/g00000001");
    for id in ["g00000004", "g00000005"] {
        let orphan = s.data().join("generations").join(id);
        fs::create_dir(&orphan).unwrap();
        copy(&live, &orphan);
    }
    State::of(s, &["doctor", "repair"])
}

/// A backup of a sound archive, of which there is one already.
pub static CREATE: LazyLock<State> = LazyLock::new(create);

fn create() -> State {
    let s = indexed();
    back_up(&s, "first");
    State::of(s, &["doctor", "backups", "create", "--label", "second"])
}

/// A backup of the commit that the archive is at.
pub static RESTORE: LazyLock<State> = LazyLock::new(restore);

fn restore() -> State {
    let s = indexed();
    back_up(&s, "first");
    State::of(s, &["doctor", "backups", "restore", "b00000001"])
}

/// An older backup, with what came since.
pub static RESTORE_KEEP: LazyLock<State> = LazyLock::new(restore_keep);

fn restore_keep() -> State {
    let s = indexed();
    back_up(&s, "first");
    grow(&s, 64);
    s.run(&["index"]).expect(0);
    State::of(
        s,
        &["doctor", "backups", "restore", "--keep-newer", "b00000001"],
    )
}

/// A repair to undo.
pub static UNDO: LazyLock<State> = LazyLock::new(undo);

fn undo() -> State {
    let s = indexed();
    back_up(&s, "first");
    tamper(&s);
    super::lab::repair(&s);
    State::of(s, &["doctor", "runs", "undo", "latest"])
}

/// Nothing but a backup is left: rung 5.
pub static BACKUP: LazyLock<State> = LazyLock::new(backup);

fn backup() -> State {
    let s = indexed();
    back_up(&s, "first");
    fs::write(db(&s), [7u8; 50_000]).unwrap();
    fs::remove_dir_all(s.data().join("raw-mirror")).unwrap();
    State::of(s, &["doctor", "repair"])
}

/// Nothing is left: a new archive is begun.
pub static BEGIN: LazyLock<State> = LazyLock::new(begin);

fn begin() -> State {
    let s = indexed();
    fs::write(db(&s), [7u8; 50_000]).unwrap();
    fs::remove_dir_all(s.data().join("raw-mirror")).unwrap();
    State::of(s, &["doctor", "repair"])
}

/// The lexical index is noise: rung 2.
pub static DERIVED: LazyLock<State> = LazyLock::new(derived);

fn derived() -> State {
    let s = indexed();
    break_lexical(&s);
    State::of(s, &["doctor", "repair"])
}

pub fn break_lexical(s: &Sandbox) {
    let files = super::sandbox::files_below(&s.data().join("derived/lexical"));
    for file in files.iter().filter(|f| f.ends_with("index.db")) {
        fs::write(file, [7u8; 30_000]).unwrap();
    }
}

/// A capture that no row was made of, and its bytes are gone.
fn lost() -> Sandbox {
    let s = indexed();
    s.put(
        ".claude/history.jsonl",
        b"{\"display\":\"a\",\"timestamp\":1780000000000,\"project\":\"/\"}\n",
    );
    s.run(&["index"]).expect(0);
    for folder in [".claude", ".codex"] {
        fs::remove_dir_all(s.home().join(folder)).unwrap();
    }
    fs::remove_file(s.data().join("raw-mirror/packs/00000001.pack")).unwrap();
    s
}

/// A loss that can only be accepted.
pub static ACCEPT: LazyLock<State> = LazyLock::new(accept);

fn accept() -> State {
    let state = State::of(lost(), &["doctor", "repair"]);
    let action = state.planned.text("/repair_plan/actions/0/action");
    assert_eq!(action, "accept-loss");
    state
}

/// A loss that was accepted.
pub static WITHDRAW: LazyLock<State> = LazyLock::new(withdraw);

fn withdraw() -> State {
    let s = lost();
    super::lab::repair(&s);
    State::of(s, &["doctor", "runs", "undo", "latest"])
}

/// A recovered database, and no data directory yet.
pub static FRESH: LazyLock<State> = LazyLock::new(fresh);

fn fresh() -> State {
    let s = indexed();
    let named = s.path().join("home/named.db");
    fs::copy(db(&s), &named).unwrap();
    fs::remove_dir_all(s.data()).unwrap();
    let named = named.to_str().unwrap().to_owned();
    State::of(s, &["doctor", "repair", "--from", &named])
}

/// A repair that was killed after it took effect.
pub static FINISH: LazyLock<State> = LazyLock::new(finish);

fn finish() -> State {
    let s = indexed();
    tamper(&s);
    killed(&s, true);
    State::of(s, &["doctor", "repair"])
}

/// A repair that was killed before it took effect.
pub static CLOSE: LazyLock<State> = LazyLock::new(close);

fn close() -> State {
    let s = indexed();
    tamper(&s);
    killed(&s, false);
    State::of(s, &["doctor", "repair"])
}

/// A backup that is planned while a killed repair lies open.
pub static CREATE_OPEN: LazyLock<State> = LazyLock::new(create_open);

fn create_open() -> State {
    let s = indexed();
    tamper(&s);
    killed(&s, true);
    State::of(s, &["doctor", "backups", "create"])
}

/// The undo of a repair, while a later one lies open that was killed before it took effect.
pub static UNDO_OPEN: LazyLock<State> = LazyLock::new(undo_open);

fn undo_open() -> State {
    let s = indexed();
    tamper(&s);
    super::lab::repair(&s);
    tamper(&s);
    killed(&s, false);
    State::of(s, &["doctor", "runs", "undo", "latest"])
}
