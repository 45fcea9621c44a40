//! Every wrong way to apply each command: a clear error, its documented exit, the next step, and not a
//! byte changed. Right afterwards the right way still works.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, Mutex};

use serde_json::Value;

use super::place::{Place, each};
use super::sandbox::{Ran, Sandbox, ran, snapshot};
use super::states::{
    self, ACCEPT, BACKUP, BEGIN, CREATE, DERIVED, FRESH, KINDS, LEDGER, ORPHANS, RE_POINT, RECOVER,
    REPAIR, REPAIR_AGAIN, REPAIR_FROM, REPAIR_NOISE, REPAIR_ROWS, RESTORE, RESTORE_KEEP, SOURCE,
    State, UNDO, WITHDRAW,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Misuse {
    /// `--yes` alone, a fingerprint without `--yes`, or with `--dry-run`.
    Unapproved,
    Malformed,
    Truncated,
    OfAnotherCommand,
    OfAnotherPlace,
    AfterAChange,
    /// It belongs to somebody else, who lets everybody read.
    NotTheOwner,
    /// The owner may only read.
    NoRight,
    ReadOnlyMount,
    BesideAnIndex,
    BesideADoctor,
}

use Misuse::{
    AfterAChange, BesideADoctor, BesideAnIndex, Malformed, NoRight, NotTheOwner, OfAnotherCommand,
    OfAnotherPlace, ReadOnlyMount, Truncated, Unapproved,
};

const MISUSES: [Misuse; 11] = [
    Unapproved,
    Malformed,
    Truncated,
    OfAnotherCommand,
    OfAnotherPlace,
    NotTheOwner,
    NoRight,
    ReadOnlyMount,
    BesideAnIndex,
    BesideADoctor,
    // The last: afterwards another plan is the right one.
    AfterAChange,
];

/// One command in a state in which it has something to do.
pub struct Row {
    pub name: &'static str,
    /// `None`: it runs at once and takes no plan.
    pub state: Option<&'static LazyLock<State>>,
    /// What its plan covers is changed.
    change: fn(&Place),
    /// How it may end after the change, beside `plan-mismatch`.
    or: &'static [i32],
}

const fn row(
    name: &'static str,
    state: &'static LazyLock<State>,
    or: &'static [i32],
    change: fn(&Place),
) -> Row {
    Row {
        name,
        state: Some(state),
        change,
        or,
    }
}

const fn at_once(name: &'static str) -> Row {
    Row {
        name,
        state: None,
        change: |_| {},
        or: &[],
    }
}

const DB: &str = "generations/g00000001/agent_search.db";

fn damage(p: &Place, rel: &str) {
    let path = p.find(rel);
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

fn damage_db(p: &Place) {
    damage(p, DB);
}

fn news(p: &Place) {
    let path = p.home().join(SOURCE);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, super::lab::claude(75)).unwrap();
    p.run(&["index"]);
}

pub const ROWS: &[Row] = &[
    at_once("index"),
    at_once("doctor --fix"),
    row("repair, rung 0", &RE_POINT, &[], damage_db),
    row("repair, rung 1", &RECOVER, &[], damage_db),
    row("repair, rung 2", &DERIVED, &[], news),
    row("repair, rung 3", &REPAIR_ROWS, &[], damage_db),
    row("repair, rung 4", &REPAIR, &[], damage_db),
    row("repair, rung 4, noise", &REPAIR_NOISE, &[], damage_db),
    row("repair, rung 5", &BACKUP, &[], |p| {
        damage(p, "backups/b00000001/agent_search.db");
    }),
    row("repair, rung 6", &BEGIN, &[], damage_db),
    row("repair, repeated", &REPAIR_AGAIN, &[], damage_db),
    row("repair of the ledger", &LEDGER, &[], |p| {
        damage(p, "coverage.jsonl");
    }),
    row("repair of orphans", &ORPHANS, &[], |p| {
        damage(p, "generations/g00000004/agent_search.db");
    }),
    row("repair, accept-loss", &ACCEPT, &[], damage_db),
    row("repair --from", &REPAIR_FROM, &[], |p| {
        damage(p, "../home/named.db");
    }),
    row("repair --from into nothing", &FRESH, &[], |p| {
        damage(p, "../home/named.db");
    }),
    row("backups create", &CREATE, &[], news),
    row("backups restore", &RESTORE, &[23], |p| {
        damage(p, "backups/b00000001/agent_search.db");
    }),
    row("backups restore --keep-newer", &RESTORE_KEEP, &[], news),
    row("runs undo", &UNDO, &[21], news),
    row("runs undo of accept-loss", &WITHDRAW, &[], news),
];

/// Why a misuse can't be made of a command.
fn impossible(row: &Row, misuse: Misuse) -> Option<&'static str> {
    let needs_plan = [
        Unapproved,
        Malformed,
        Truncated,
        OfAnotherPlace,
        AfterAChange,
    ];
    if row.state.is_none() && needs_plan.contains(&misuse) {
        return Some("it takes no fingerprint: any is a wrong argument, as one of another command");
    }
    let beside = [BesideAnIndex, BesideADoctor].contains(&misuse);
    if beside && row.name == "repair --from into nothing" {
        return Some("there is no data directory that anybody could have the lock of");
    }
    None
}

/// The program where everybody may run it.
static PROGRAM: LazyLock<(tempfile::TempDir, PathBuf)> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let path = dir.path().join("cass");
    fs::copy(env!("CARGO_BIN_EXE_cass"), &path).unwrap();
    (dir, path)
});

const NOBODY: u32 = 65534;

/// Whether a command ends well; its absence is a no.
fn works(words: &[&str]) -> bool {
    Command::new(words[0])
        .args(&words[1..])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

/// Runs as a user without more rights than modes give.
fn as_a_user(p: &Place, words: &[String]) -> Ran {
    if !rustix::process::geteuid().is_root() {
        return p.run(words);
    }
    let of = p.command();
    let mut c = Command::new("setpriv");
    c.args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&PROGRAM.1)
        .env_clear()
        .envs(of.get_envs().filter_map(|(k, v)| Some((k, v?))))
        .arg("--json")
        .args(words)
        .stdin(Stdio::null());
    ran(c.output().unwrap())
}

fn each_below(p: &Place, mut change: impl FnMut(&Path, u32)) {
    for entry in walkdir::WalkDir::new(p.path()).contents_first(true) {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().mode();
        change(entry.path(), mode);
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Where root can let nobody run something, and mount.
static CAN_BE_NOBODY: LazyLock<bool> = LazyLock::new(|| {
    !rustix::process::geteuid().is_root()
        || works(&["setpriv", "--reuid=65534", "--clear-groups", "true"])
});

const MOUNT: &str =
    r#"mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@""#;

static CAN_MOUNT: LazyLock<bool> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().to_str().unwrap();
    works(&["unshare", "--mount", "sh", "-c", MOUNT, "sh", at, "true"])
});

fn on_a_read_only_mount(p: &Place, words: &[String]) -> Ran {
    let of = p.command();
    let mut c = Command::new("unshare");
    c.args(["--mount", "sh", "-c", MOUNT, "sh"])
        .arg(p.path())
        .arg(of.get_program())
        .env_clear()
        .envs(of.get_envs().filter_map(|(k, v)| Some((k, v?))))
        .arg("--json")
        .args(words)
        .stdin(Stdio::null());
    ran(c.output().unwrap())
}

/// Another process that has the writer lock, as `command` would. None of ours ever has it: what a
/// test beside this one starts could have a copy of it for a moment.
struct Holder(Child);

impl Holder {
    fn of(p: &Place, command: &str) -> Holder {
        let info = p.data().join("locks/writer.info");
        let mut owner: Value = serde_json::from_slice(&fs::read(&info).unwrap()).unwrap();
        owner["command"] = command.into();
        fs::write(&info, owner.to_string()).unwrap();
        let mut child = Command::new("flock")
            .arg("--no-fork")
            .arg(p.data().join("locks/writer.lock"))
            .args(["sh", "-c", "echo held; exec sleep 600"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0; 5];
        let out = child.stdout.as_mut().unwrap();
        std::io::Read::read_exact(out, &mut said).unwrap();
        Holder(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// A row at work.
struct Bench {
    p: Place,
    row: &'static Row,
    apply: Vec<String>,
    fingerprint: String,
    /// Of the same command, for another data directory like this one.
    elsewhere: String,
    /// Of another command, for this one.
    other: String,
}

/// A data directory in which what runs at once has something to do.
static AT_ONCE: LazyLock<Sandbox> = LazyLock::new(|| {
    let s = super::lab::indexed();
    s.put(SOURCE, &super::lab::claude(90));
    states::break_lexical(&s);
    s
});

impl Row {
    /// A copy of its state, and the words that do its work there.
    pub fn at_work(&self) -> (Place, Vec<String>) {
        match self.state {
            None => {
                let words = self.name.split(' ').map(str::to_owned).collect();
                (Place::copy_of(AT_ONCE.path()), words)
            }
            Some(state) => {
                let p = Place::copy_of(&state.path());
                let apply = state.words_at(&p, &state.apply);
                (p, apply)
            }
        }
    }
}

impl Bench {
    fn new(row: &'static Row) -> Bench {
        let (p, apply) = row.at_work();
        let (words, fingerprint, elsewhere) = match row.state {
            None => (apply.clone(), String::new(), String::new()),
            Some(state) => {
                let kind = KINDS.iter().find(|k| std::ptr::eq(k.state, state));
                let words = state.words_at(&p, &state.words);
                let elsewhere = (kind.unwrap().anew)().fingerprint;
                assert_ne!(elsewhere, state.fingerprint, "{}", row.name);
                (words, state.fingerprint.clone(), elsewhere)
            }
        };
        // Where nothing else can be planned, the same command with another request has to do.
        let others: [&[&str]; 3] = [
            &["doctor", "backups", "create", "--label=other"],
            &["doctor", "repair"],
            &["doctor", "repair", "--allow-repeated-repair"],
        ];
        let other = others
            .iter()
            .filter(|o| !o.iter().eq(words.iter()))
            .filter_map(|o| fingerprint_in(&p.run(o)))
            .find(|fp| *fp != fingerprint)
            .unwrap_or_else(|| panic!("{}: no other plan", row.name));
        Bench {
            p,
            row,
            apply,
            fingerprint,
            elsewhere,
            other,
        }
    }

    /// The words with another fingerprint.
    fn with(&self, fingerprint: &str) -> Vec<String> {
        let mut words = self.apply.clone();
        match words.iter_mut().find(|w| **w == self.fingerprint) {
            Some(word) => *word = fingerprint.to_owned(),
            None => words.extend(["--yes", "--plan-fingerprint", fingerprint].map(str::to_owned)),
        }
        words
    }

    fn without(&self, flags: &[&str]) -> Vec<String> {
        let mut words = self.apply.clone();
        words.retain(|w| !flags.contains(&w.as_str()));
        words
    }

    /// Misuses it, in every form of the misuse; gives what was wrong with the answers.
    fn misuse(&self, misuse: Misuse) -> Vec<String> {
        let fp = self.fingerprint.as_str();
        let usage = |words: Vec<String>| self.refused(&words, &Answer::usage(), |w| self.p.run(w));
        match misuse {
            Unapproved => {
                let mut dry = self.apply.clone();
                dry.insert(0, "--quiet".to_owned());
                let at = dry.iter().position(|w| w == "--yes").unwrap();
                dry.insert(at, "--dry-run".to_owned());
                [
                    self.without(&["--plan-fingerprint", fp]),
                    self.without(&["--yes"]),
                    dry,
                ]
                .into_iter()
                .flat_map(usage)
                .collect()
            }
            Malformed => {
                let upper = fp.to_uppercase();
                let forms = ["", &fp[8..], &upper, &format!("{fp} ")];
                forms.iter().flat_map(|f| usage(self.with(f))).collect()
            }
            Truncated => {
                let forms = [&fp[..fp.len() - 1], "plan-v1-"];
                forms.iter().flat_map(|f| usage(self.with(f))).collect()
            }
            OfAnotherCommand if self.row.state.is_none() => usage(self.with(&self.other)),
            OfAnotherCommand => self.mismatch(&self.other),
            OfAnotherPlace => self.mismatch(&self.elsewhere),
            NotTheOwner | NoRight => self.without_rights(misuse == NoRight),
            ReadOnlyMount => self.refused(
                &self.apply,
                &Answer::permission("mounted read-only"),
                |words| on_a_read_only_mount(&self.p, words),
            ),
            BesideAnIndex => self.beside("index"),
            BesideADoctor => self.beside("doctor repair"),
            AfterAChange => {
                (self.row.change)(&self.p);
                let mut or = vec![20];
                or.extend(self.row.or);
                let answer = Answer {
                    codes: or,
                    ..Answer::mismatch()
                };
                self.refused(&self.apply, &answer, |words| self.p.run(words))
            }
        }
    }

    fn mismatch(&self, fingerprint: &str) -> Vec<String> {
        let words = self.with(fingerprint);
        self.refused(&words, &Answer::mismatch(), |w| self.p.run(w))
    }

    fn without_rights(&self, owner: bool) -> Vec<String> {
        let root = rustix::process::geteuid().is_root();
        let give = |path: &Path, uid: u32| {
            if root {
                let (uid, gid) = (
                    rustix::fs::Uid::from_raw(uid),
                    rustix::fs::Gid::from_raw(uid),
                );
                rustix::fs::chown(path, Some(uid), Some(gid)).unwrap();
            }
        };
        if !owner && !root {
            return Vec::new();
        }
        let mut modes = Vec::new();
        each_below(&self.p, |path, mode| {
            modes.push((path.to_owned(), mode));
            give(path, if owner { NOBODY } else { 0 });
            set_mode(path, if mode & 0o100 == 0 { 0o444 } else { 0o555 });
        });
        let told = if owner { "chmod u+rw" } else { "chown 65534" };
        let wrong = self.refused(&self.apply, &Answer::permission(told), |words| {
            as_a_user(&self.p, words)
        });
        for (path, mode) in modes.iter().rev() {
            give(path, 0);
            set_mode(path, *mode);
        }
        wrong
    }

    fn beside(&self, command: &str) -> Vec<String> {
        let holder = Holder::of(&self.p, command);
        let answer = Answer {
            told: Some(format!("cass {command} (pid ")),
            ..Answer::busy()
        };
        let wrong = self.refused(&self.apply, &answer, |words| self.p.run(words));
        drop(holder);
        wrong
    }

    /// None of the misuses left anything behind.
    fn still_applies(&self) {
        let p = Place::copy_of(self.p.path());
        let words = match self.row.state {
            Some(state) => state.words_at(&p, &state.apply),
            None => self.apply.clone(),
        };
        let applied = p.run(&words);
        assert_eq!(applied.code, 0, "{}: {}", self.row.name, applied.stdout);
    }

    /// Runs words that must be refused.
    fn refused(
        &self,
        words: &[String],
        answer: &Answer,
        run: impl Fn(&[String]) -> Ran,
    ) -> Vec<String> {
        let before = snapshot(self.p.path());
        let refused = run(words);
        let mut wrong = Vec::new();
        let after = snapshot(self.p.path());
        let moved = |path: &PathBuf| {
            // Who last had the lock is for messages, and so is SQLite's shared memory.
            let name = path.to_string_lossy();
            let free = name.ends_with("locks/writer.info") || name.ends_with("-shm");
            !free && before.get(path) != after.get(path)
        };
        let all = before.keys().chain(after.keys());
        let changed: Vec<&PathBuf> = all.filter(|path| moved(path)).take(4).collect();
        if !changed.is_empty() {
            wrong.push(format!("changed {changed:?}"));
        }
        let err = &refused.json["err"];
        wrong.extend(answer.wrong_in(&refused));
        if answer.shows_plan && refused.code == answer.codes[0] {
            wrong.extend(self.follow(&err["hint_argv"]));
        }
        wrong
            .into_iter()
            .map(|w| format!("{}: {words:?}: {w}: {err}", self.row.name))
            .collect()
    }

    /// Runs the command that a refusal names: it shows the plan, or how the command is used.
    fn follow(&self, argv: &Value) -> Option<String> {
        let Some(argv) = argv.as_array() else {
            return Some("names no command".to_owned());
        };
        let words: Vec<&str> = argv.iter().skip(1).map(|w| w.as_str().unwrap()).collect();
        let shown = self.p.run(&words);
        let shows = words.contains(&"--help") || fingerprint_in(&shown).is_some();
        // After a change the plan may be shut, and says why.
        (![0, 21].contains(&shown.code) || !shows)
            .then(|| format!("{words:?} shows no plan: {}", shown.stdout))
    }
}

/// How a refusal must look.
pub struct Answer {
    pub codes: Vec<i32>,
    /// With the first code.
    pub kind: Option<&'static str>,
    pub told: Option<String>,
    /// Whether it names the command that shows the plan.
    pub shows_plan: bool,
}

impl Answer {
    /// What is wrong with a refusal, the plan that it names aside.
    pub fn wrong_in(&self, refused: &Ran) -> Vec<String> {
        let err = &refused.json["err"];
        let mut wrong = Vec::new();
        if !self.codes.contains(&refused.code) {
            wrong.push(format!("exit {}", refused.code));
        }
        if let Some(kind) = self.kind.filter(|_| refused.code == self.codes[0])
            && err["kind"] != kind
        {
            wrong.push(format!("kind {}", err["kind"]));
        }
        if err["message"].as_str().is_none_or(|m| m.len() < 20) {
            wrong.push("no message".to_owned());
        }
        if err["hint"].as_str().is_none_or(|h| h.len() < 10) {
            wrong.push("no hint".to_owned());
        }
        if let Some(told) = &self.told
            && !err.to_string().contains(told)
        {
            wrong.push(format!("says nothing of {told:?}"));
        }
        wrong
    }

    pub fn busy() -> Answer {
        Answer {
            codes: vec![7],
            kind: Some("lock-busy"),
            told: None,
            shows_plan: false,
        }
    }

    fn usage() -> Answer {
        Answer {
            codes: vec![2],
            kind: Some("usage"),
            told: None,
            shows_plan: true,
        }
    }

    pub fn mismatch() -> Answer {
        Answer {
            codes: vec![20],
            kind: Some("plan-mismatch"),
            told: None,
            shows_plan: true,
        }
    }

    fn permission(told: &str) -> Answer {
        Answer {
            codes: vec![9],
            kind: Some("permission-denied"),
            told: Some(told.to_owned()),
            shows_plan: false,
        }
    }
}

fn fingerprint_in(ran: &Ran) -> Option<String> {
    let values = ran.json.as_object()?.values();
    let found = values.filter_map(|v| v.get("plan_fingerprint")?.as_str());
    found.map(str::to_owned).next()
}

#[test]
fn every_wrong_use_of_every_command_is_refused_and_changes_nothing() {
    for (can, what) in [
        (*CAN_BE_NOBODY, "nobody else can be made to run it"),
        (*CAN_MOUNT, "nothing can be mounted here"),
    ] {
        if !can {
            println!("passed over: {what}");
        }
    }
    let wrong = Mutex::new(Vec::new());
    let counts = Mutex::new((0, 0));
    each(ROWS.len(), 4, |i| {
        let bench = Bench::new(&ROWS[i]);
        for misuse in MISUSES {
            let can = match misuse {
                NotTheOwner | NoRight => *CAN_BE_NOBODY,
                ReadOnlyMount => *CAN_MOUNT,
                _ => true,
            };
            if misuse == AfterAChange {
                bench.still_applies();
            }
            if !can || impossible(bench.row, misuse).is_some() {
                continue;
            }
            let found = bench.misuse(misuse);
            let mut counts = counts.lock().unwrap();
            counts.0 += 1;
            counts.1 += usize::from(!found.is_empty());
            drop(counts);
            let found = found.into_iter().map(|w| format!("{misuse:?}: {w}"));
            wrong.lock().unwrap().extend(found);
        }
    });
    let (all, bad) = counts.into_inner().unwrap();
    println!(
        "torture | wrong uses of what changes something | {all} | {} | {bad} |",
        all - bad
    );
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn nothing_is_made_where_nothing_was() {
    let s = Sandbox::new();
    let planned = s.run(&["doctor", "repair"]).expect(0);
    assert_eq!(planned.text("/status"), "no-op");
    let fp = fingerprint_in(&planned).unwrap();
    let words = ["doctor", "repair", "--yes", "--plan-fingerprint", &fp];
    let refused = s.run(&words).expect(3);
    assert_eq!(refused.text("/err/hint_argv/1"), "index");
    s.run(&["doctor", "--fix"]).expect(0);
    for words in [
        &["doctor", "backups", "create"][..],
        &["doctor", "backups", "restore", "b00000001"],
        &["doctor", "runs", "show", "latest"],
        &["doctor", "runs", "undo", "latest"],
        &["doctor", "repair", "--from", "/nonexistent/archive.db"],
    ] {
        let refused = s.run(words).expect(3);
        assert!(refused.at("/err/hint").is_string(), "{}", refused.stdout);
    }
    s.run(&["doctor", "runs", "list"]).expect(0);
    assert!(!s.data().exists());
}
