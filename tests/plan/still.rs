//! What must not move a plan: an agent's own log grows while it runs the doctor, time passes, and the
//! data directory may be copied to another machine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Mutex;

use super::lab::fingerprint;
use super::place::{Place, each};
use super::sandbox::{Ran, age, files_below};
use super::states::{
    CREATE, RECOVER, REPAIR, REPAIR_AGAIN, REPAIR_NOISE, RESTORE, SOURCE, State, UNDO,
};

type Change = fn(&Place);

fn plan(p: &Place, state: &State) -> Ran {
    p.run(&state.words)
}

fn grow(p: &Place) {
    fs::write(p.home().join(SOURCE), super::lab::claude(90)).unwrap();
}

fn touch_all(p: &Place, seconds: u64) {
    for file in files_below(&p.data()) {
        age(&file, seconds);
    }
}

const CHANGES: &[(&str, Change)] = &[
    ("a copy elsewhere", |_| {}),
    ("the live source grows", grow),
    ("the live source is pruned", |p| {
        fs::remove_dir_all(p.home().join(".claude")).unwrap();
    }),
    ("a new source", |p| {
        let to = p.home().join(".claude/projects/-src-a/other.jsonl");
        fs::write(to, super::lab::claude(1)).unwrap();
    }),
    ("an index without news", |p| {
        p.index_without_news();
    }),
    ("all files seem old", |p| touch_all(p, 400 * 86400)),
    ("all files seem new", |p| touch_all(p, 0)),
    ("other modes", |p| {
        for file in files_below(&p.data()) {
            fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        }
    }),
    ("reads in between", |p| {
        for words in [
            &["doctor", "check"][..],
            &["doctor", "check", "--deep"],
            &["sessions", "list"],
            &["search", "harbour"],
            &["stats"],
            &["doctor", "runs", "list"],
            &["doctor", "backups", "list"],
            &["mirror", "verify"],
            &["health"],
        ] {
            p.run(words);
        }
    }),
    ("a recorded attestation", |p| {
        p.run(&["doctor", "check", "--deep", "--record"]);
    }),
    ("no shared memory", |p| {
        for file in files_below(&p.data()) {
            if file.to_string_lossy().ends_with("-shm") {
                fs::remove_file(file).unwrap();
            }
        }
    }),
    ("shared memory of another process", |p| {
        fs::write(
            p.data().join("generations/g00000001/agent_search.db-shm"),
            [3u8; 32768],
        )
        .unwrap();
    }),
    ("no lexical index", |p| {
        let _ = fs::remove_dir_all(p.data().join("derived"));
    }),
    ("no locks", |p| {
        fs::remove_dir_all(p.data().join("locks")).unwrap();
    }),
    ("a torn end of the coverage ledger", |p| {
        use std::io::Write;
        fs::OpenOptions::new()
            .append(true)
            .open(p.data().join("coverage.jsonl"))
            .unwrap()
            .write_all(b"{\"kind\":\"commit\",\"gen")
            .unwrap();
    }),
    ("a torn end of the event log", |p| {
        fs::create_dir_all(p.data().join("doctor/events")).unwrap();
        let log = files_below(&p.data().join("doctor/events"));
        if let Some(log) = log.first() {
            let mut bytes = fs::read(log).unwrap();
            bytes.extend(b"{\"run_id\":");
            fs::write(log, bytes).unwrap();
        }
    }),
    ("an annotation", |p| {
        fs::write(p.data().join("annotations.jsonl"), "").unwrap();
    }),
    ("a file that nobody knows", |p| {
        fs::write(p.data().join("notes.txt"), "mine").unwrap();
    }),
];

#[test]
fn what_a_plan_does_not_cover_does_not_move_it() {
    let states: [&State; 7] = [
        &REPAIR,
        &RECOVER,
        &REPAIR_AGAIN,
        &REPAIR_NOISE,
        &CREATE,
        &RESTORE,
        &UNDO,
    ];
    let failures = Mutex::new(Vec::new());
    each(states.len() * CHANGES.len(), 4, |i| {
        let state = states[i / CHANGES.len()];
        let (name, change) = CHANGES[i % CHANGES.len()];
        let p = Place::copy_of(&state.path());
        // Shared memory lies where the live archive is; a sealed one has none.
        if name.starts_with("shared memory") && state.words.contains(&"undo".to_owned()) {
            return;
        }
        change(&p);
        let again = plan(&p, state);
        let moved = again.code != 0 || fingerprint(&again) != state.fingerprint;
        if moved {
            failures.lock().unwrap().push(format!(
                "{}: {name}: exit {} {}",
                state.words.join(" "),
                again.code,
                again.json.pointer("/err/message").unwrap_or_default()
            ));
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_plan_for_an_archive_with_commits_in_its_log_applies_after_an_index_without_news() {
    for state in [&*REPAIR, &*RECOVER] {
        let p = Place::copy_of(&state.path());
        let before = p.bytes();
        for _ in 0..2 {
            p.index_without_news();
        }
        let archive = |(path, _): &(&std::path::PathBuf, &String)| path.starts_with("generations");
        let after = p.bytes();
        let is_shm = |path: &Path| path.to_string_lossy().ends_with("-shm");
        for (path, bytes) in before.iter().filter(archive) {
            assert!(
                is_shm(path) || after.get(path) == Some(bytes),
                "{} has changed",
                path.display()
            );
        }
        let applied = p.run(&state.apply).expect(0);
        assert_eq!(applied.text("/status"), "applied", "{}", applied.stdout);
        p.run(&["doctor", "check", "--deep"]).expect(0);
    }
}

#[test]
fn captures_that_no_ledger_promises_do_not_move_a_plan_and_come_into_the_repaired_archive() {
    let p = Place::copy_of(&REPAIR_NOISE.path());
    grow(&p);
    super::sandbox::age(&p.home().join(SOURCE), 100);
    // The archive is damaged: captured, and an error.
    p.run(&["index"]).expect(1);
    let applied = p.run(&REPAIR_NOISE.apply).expect(0);
    assert_eq!(applied.text("/status"), "applied", "{}", applied.stdout);
    let after = applied.number("/coverage_summary/after/messages");
    let sound = Place::copy_of(&CREATE.path());
    let before = sound.run(&["doctor", "backups", "create"]);
    let before = before.number("/coverage_summary/before/messages");
    assert_eq!(after, before + 30);
}

#[test]
fn another_machine_makes_the_same_plan() {
    for state in [&*REPAIR, &*CREATE, &*RESTORE, &*UNDO] {
        let p = Place::copy_of(&state.path());
        let deep = p.path().join("a folder/with spaces/and \u{e4}\u{1f600}");
        fs::create_dir_all(&deep).unwrap();
        fs::rename(p.data(), deep.join("data")).unwrap();
        let mut c = std::process::Command::new(env!("CARGO_BIN_EXE_cass"));
        let ran = c
            .env_clear()
            .env("HOME", "/nonexistent")
            .env("USER", "somebody")
            .env("HOSTNAME", "elsewhere")
            .env("LANG", "tr_TR.UTF-8")
            .env("LC_ALL", "C")
            .env("TZ", "Pacific/Kiritimati")
            .env("TMPDIR", "/var/tmp")
            .env("COLUMNS", "20")
            .env("SOURCE_DATE_EPOCH", "1")
            .env("CASS_DATA_DIR", deep.join("data"))
            .arg("--json")
            .args(&state.words)
            .current_dir("/")
            .output()
            .unwrap();
        let again = super::sandbox::ran(ran).expect(0);
        assert_eq!(fingerprint(&again), state.fingerprint);
    }
}

/// Answers every question about the time of day with a moment of the environment, and about the user
/// with another.
const ELSEWHEN: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
static time_t now(void) { return (time_t)atoll(getenv("ELSEWHEN")); }
int clock_gettime(clockid_t id, struct timespec *t) {
  int done = syscall(SYS_clock_gettime, id, t);
  if (done == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) t->tv_sec = now();
  return done;
}
int gettimeofday(struct timeval *t, void *zone) { t->tv_sec = now(); t->tv_usec = 0; return 0; }
time_t time(time_t *t) { if (t) *t = now(); return now(); }
int gethostname(char *name, size_t n) { name[0] = 'z'; if (n > 1) name[1] = 0; return 0; }
"#;

#[test]
fn another_time_and_another_user_make_the_same_plan() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (source, library) = (dir.path().join("e.c"), dir.path().join("e.so"));
    fs::write(&source, ELSEWHEN).unwrap();
    let built = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status();
    if !built.is_ok_and(|s| s.success()) {
        println!("passed over: no C compiler");
        return;
    }
    let program = dir.path().join("cass");
    fs::copy(env!("CARGO_BIN_EXE_cass"), &program).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    for state in [&*REPAIR, &*RECOVER, &*CREATE, &*UNDO] {
        let p = Place::copy_of(&state.path());
        let run = |words: &[String], moment: &str, user: Option<u32>| {
            let of = p.command();
            let mut c = std::process::Command::new("setpriv");
            match user {
                Some(id) => c.args([
                    format!("--reuid={id}"),
                    format!("--regid={id}"),
                    "--clear-groups".to_owned(),
                ]),
                None => &mut c,
            };
            let c = c.arg(&program).arg("--json").args(words).env_clear();
            c.envs(of.get_envs().filter_map(|(k, v)| Some((k, v?))))
                .env("LD_PRELOAD", &library)
                .env("ELSEWHEN", moment);
            super::sandbox::ran(c.output().unwrap())
        };
        for moment in ["0", "86400", "951782400", "4102444799"] {
            let again = run(&state.words, moment, None).expect(0);
            assert_eq!(fingerprint(&again), state.fingerprint, "{moment}");
        }
        if is_root {
            let all = walkdir::WalkDir::new(p.path()).into_iter();
            for entry in all.map(Result::unwrap) {
                let owner = (
                    rustix::fs::Uid::from_raw(65534),
                    rustix::fs::Gid::from_raw(65534),
                );
                rustix::fs::chown(entry.path(), Some(owner.0), Some(owner.1)).unwrap();
            }
            let again = run(&state.words, "1800000000", Some(65534)).expect(0);
            assert_eq!(fingerprint(&again), state.fingerprint, "another user");
        }
        // The clock is believed: what is applied then is dated then, and it is the same plan.
        let user = is_root.then_some(65534);
        let applied = run(&state.apply, "86400", user).expect(0);
        assert_eq!(applied.text("/status"), "applied", "{}", applied.stdout);
        let begun = applied.text("/receipt/begun_at");
        assert!(begun.starts_with("1970-01-02T00:00:"), "{begun}");
    }
}
