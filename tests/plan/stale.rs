//! R14: whatever a plan covers may change between dry run and apply, and the apply is refused
//! without a byte being changed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Mutex;

use super::lab::{copy, damage_text};
use super::place::{Place, each};
use super::sandbox::files_below;
use super::states::{
    CLOSE, CREATE, CREATE_OPEN, FINISH, FRESH, KINDS, LEDGER, ORPHANS, RE_POINT, RECOVER, REPAIR,
    REPAIR_AGAIN, REPAIR_FROM, REPAIR_ROWS, RESTORE, RESTORE_KEEP, SOURCE, State, UNDO, UNDO_OPEN,
};

type Change = Box<dyn Fn(&Place) + Send + Sync>;

struct Case {
    name: String,
    state: &'static State,
    change: Change,
    /// Words that are added to those of the apply.
    more: Vec<&'static str>,
    /// How it may end, beside `plan-mismatch`.
    or: &'static [i32],
}

struct Cases(Vec<Case>);

impl Cases {
    fn add(
        &mut self,
        state: &'static State,
        name: impl Into<String>,
        or: &'static [i32],
        change: impl Fn(&Place) + Send + Sync + 'static,
    ) {
        self.0.push(Case {
            name: name.into(),
            state,
            change: Box::new(change),
            more: Vec::new(),
            or,
        });
    }

    /// One byte in each of `regions` parts of the file at `rel`, and its ends.
    fn regions(
        &mut self,
        state: &'static State,
        rel: &'static str,
        regions: usize,
        or: &'static [i32],
    ) {
        for i in 0..regions {
            self.add(state, format!("{rel} byte in part {i}"), or, move |p| {
                edit(&p.find(rel), |bytes| {
                    let at = i * bytes.len() / regions + bytes.len() / regions / 2;
                    bytes[at] ^= 1;
                });
            });
        }
        self.add(state, format!("{rel} first byte"), or, move |p| {
            edit(&p.find(rel), |bytes| bytes[0] ^= 1);
        });
        self.add(state, format!("{rel} last byte"), or, move |p| {
            edit(&p.find(rel), |bytes| *bytes.last_mut().unwrap() ^= 1);
        });
        self.add(state, format!("{rel} cut"), or, move |p| {
            edit(&p.find(rel), |bytes| bytes.truncate(bytes.len() / 2));
        });
        self.add(state, format!("{rel} gone"), or, move |p| {
            fs::remove_file(p.find(rel)).unwrap();
        });
    }

    fn options(&mut self, state: &'static State, more: &[&'static str]) {
        self.add(state, format!("with {more:?}"), &[], |_| {});
        self.0.last_mut().unwrap().more = more.to_vec();
    }
}

fn edit(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    let before = bytes.clone();
    change(&mut bytes);
    assert_ne!(before, bytes);
    fs::write(path, bytes).unwrap();
}

fn lines(p: &Place, change: impl FnOnce(&mut Vec<String>)) {
    let path = p.data().join("coverage.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    change(&mut lines);
    fs::write(&path, lines.join("\n") + "\n").unwrap();
}

const DB: &str = "generations/g00000001/agent_search.db";
const WAL: &str = "generations/g00000001/agent_search.db-wal";
const MANIFEST: &str = "generations/g00000001/manifest.json";
const BACKUP: &str = "backups/b00000001";

fn grow(p: &Place, n: usize) {
    let path = p.home().join(SOURCE);
    fs::write(&path, super::lab::claude(n)).unwrap();
    super::sandbox::age(&path, 1800);
}

fn new_session(p: &Place) {
    let folder = p.home().join(".claude/projects/-src-b");
    fs::create_dir_all(&folder).unwrap();
    let text = String::from_utf8(super::lab::claude(2)).unwrap();
    let text = text.replace("8000-000000000001", "8000-0000000000ff");
    fs::write(
        folder.join("00000000-0000-4000-8000-0000000000ff.jsonl"),
        text,
    )
    .unwrap();
}

fn back_up(p: &Place) {
    let planned = p.run(&["doctor", "backups", "create", "--label", "third"]);
    p.run(&super::lab::apply_argv(&planned)).expect(0);
}

/// The runs that were ever begun.
fn intents(p: &Place) -> Vec<String> {
    let found = fs::read_dir(p.data().join("doctor/intents"));
    let mut names: Vec<String> = found
        .into_iter()
        .flatten()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn cases() -> Vec<Case> {
    let mut c = Cases(Vec::new());
    // The archive that is repaired, by its bytes.
    c.regions(&REPAIR, DB, 20, &[]);
    c.regions(&REPAIR, WAL, 8, &[]);
    c.regions(&REPAIR, MANIFEST, 4, &[6]);
    c.add(&REPAIR, "a byte behind the database", &[], |p| {
        edit(&p.find(DB), |b| b.push(0));
    });
    c.add(&REPAIR, "a manifest of another minute", &[], |p| {
        edit(&p.find(MANIFEST), |b| {
            let text = String::from_utf8(b.clone()).unwrap();
            *b = text
                .replace("\"created_ms\": 1", "\"created_ms\": 2")
                .into();
        });
    });
    for (what, bytes) in [
        ("another generation", &b"g00000002\n"[..]),
        ("no generation", b"g0000\n"),
        ("nothing", b""),
        ("one more line", b"g00000001\n\n"),
    ] {
        c.add(&REPAIR, format!("CURRENT names {what}"), &[], move |p| {
            fs::write(p.data().join("CURRENT"), bytes).unwrap();
        });
    }
    c.add(&REPAIR, "CURRENT gone", &[], |p| {
        fs::remove_file(p.data().join("CURRENT")).unwrap();
    });
    // What was promised.
    for line in 0..3 {
        c.add(&REPAIR, format!("ledger line {line} gone"), &[], move |p| {
            lines(p, |l| drop(l.remove(line)));
        });
        c.add(
            &REPAIR,
            format!("ledger line {line} damaged"),
            &[],
            move |p| {
                lines(p, |l| l[line] = l[line].replacen('"', "'", 1));
            },
        );
    }
    c.add(&REPAIR, "ledger's last line gone", &[], |p| {
        lines(p, |l| drop(l.pop()));
    });
    c.add(&REPAIR, "ledger's last line twice", &[], |p| {
        lines(p, |l| l.push(l.last().unwrap().clone()));
    });
    c.add(&REPAIR, "ledger gone", &[], |p| {
        fs::remove_file(p.data().join("coverage.jsonl")).unwrap();
    });
    // The marker.
    c.add(&REPAIR, "a marker", &[21], |p| {
        fs::create_dir_all(p.data().join("doctor/failures")).unwrap();
        fs::write(p.data().join("doctor/failures/marker.json"), "{}").unwrap();
    });
    c.regions(&REPAIR_AGAIN, "doctor/failures/marker.json", 2, &[]);
    // The mirror.
    // Behind them lies the record that ends the batch, which no capture needs.
    for i in 0..7 {
        c.add(
            &REPAIR,
            format!("an object damaged in part {i}"),
            &[],
            move |p| {
                edit(&p.find("raw-mirror/packs/*.pack"), |bytes| {
                    let at = i * bytes.len() / 8 + bytes.len() / 16;
                    bytes[at] ^= 1;
                });
            },
        );
    }
    c.add(&REPAIR, "no packs", &[], |p| {
        fs::remove_dir_all(p.data().join("raw-mirror/packs")).unwrap();
    });
    c.add(&REPAIR, "no mirror", &[], |p| {
        fs::remove_dir_all(p.data().join("raw-mirror")).unwrap();
    });
    for i in 0..2 {
        c.add(&REPAIR, format!("capture ledger {i} gone"), &[], move |p| {
            let all = files_below(&p.data().join("raw-mirror/sources"));
            fs::remove_file(&all[i]).unwrap();
        });
        c.add(
            &REPAIR,
            format!("capture ledger {i} without its last line"),
            &[],
            move |p| {
                let all = files_below(&p.data().join("raw-mirror/sources"));
                edit(&all[i], |b| {
                    b.pop();
                    let end = b.iter().rposition(|b| *b == b'\n').unwrap();
                    b.truncate(end + 1);
                });
            },
        );
    }
    c.add(&REPAIR, "a mirror of a newer version", &[6], |p| {
        fs::write(p.data().join("raw-mirror/FORMAT"), "cass-mirror 99\n").unwrap();
    });
    // News.
    c.add(&REPAIR, "a grown session, indexed", &[], |p| {
        grow(p, 70);
        p.run(&["index"]).expect(0);
    });
    c.add(&REPAIR, "a new session, indexed", &[], |p| {
        new_session(p);
        p.run(&["index"]).expect(0);
    });
    c.add(&REPAIR, "repaired by another plan", &[], |p| {
        let other = p.run(&["doctor", "repair", "--allow-repeated-repair"]);
        p.run(&super::lab::apply_argv(&other)).expect(0);
    });
    c.add(&REPAIR, "an orphan", &[], |p| {
        let orphan = p.data().join("generations/g00000009");
        fs::create_dir(&orphan).unwrap();
        copy(&p.data().join("generations/g00000001"), &orphan);
    });
    // The request.
    c.options(&REPAIR, &["--allow-repeated-repair"]);
    c.options(&CREATE, &["--label", "third"]);
    c.options(&CREATE, &["--label", "first"]);
    c.options(&RESTORE, &["--keep-newer"]);
    // The archive that the operator named.
    c.regions(&REPAIR_FROM, "../home/named.db", 8, &[2, 3, 23]);
    // Rows of archive and backup.
    c.regions(&REPAIR_ROWS, DB, 3, &[]);
    c.regions(&REPAIR_ROWS, "backups/b00000001/agent_search.db", 3, &[]);
    c.add(&REPAIR_ROWS, "a new backup that holds rows", &[], |p| {
        let to = p.data().join("backups/b00000002");
        fs::create_dir(&to).unwrap();
        copy(&p.data().join(BACKUP), &to);
    });
    // The WAL that is recovered.
    c.regions(&RECOVER, WAL, 4, &[]);
    c.regions(&RECOVER, DB, 4, &[]);
    c.regions(&RECOVER, MANIFEST, 2, &[6]);
    c.add(&RECOVER, "the mirror loses what it should give", &[], |p| {
        fs::remove_dir_all(p.data().join("raw-mirror/packs")).unwrap();
    });
    // The generation that is pointed to.
    c.regions(&RE_POINT, DB, 4, &[]);
    c.regions(&RE_POINT, MANIFEST, 2, &[6]);
    c.add(&RE_POINT, "CURRENT is there again", &[], |p| {
        fs::write(p.data().join("CURRENT"), "g00000001\n").unwrap();
    });
    c.add(&RE_POINT, "the ledger ends earlier", &[], |p| {
        lines(p, |l| drop(l.pop()));
    });
    // The ledger that is renewed.
    c.regions(&LEDGER, "coverage.jsonl", 6, &[]);
    // Orphans.
    c.regions(&ORPHANS, "generations/g00000004/agent_search.db", 3, &[]);
    c.regions(&ORPHANS, "generations/g00000004/manifest.json", 1, &[]);
    c.add(&ORPHANS, "one orphan less", &[], |p| {
        fs::remove_dir_all(p.data().join("generations/g00000005")).unwrap();
    });
    c.add(&ORPHANS, "an orphan is named", &[], |p| {
        fs::write(p.data().join("CURRENT"), "g00000004\n").unwrap();
    });
    // What is backed up.
    c.add(&CREATE, "a damaged row", &[23], |p| {
        damage_text(&p.find(DB), b"answer 9:");
    });
    c.add(&CREATE, "no database", &[1], |p| {
        fs::remove_file(p.find(DB)).unwrap();
    });
    c.regions(&CREATE, MANIFEST, 3, &[1, 6]);
    c.add(&CREATE, "a new backup", &[], back_up);
    c.add(&CREATE, "a backup less", &[], |p| {
        fs::remove_dir_all(p.data().join(BACKUP)).unwrap();
    });
    c.add(&CREATE, "a backup's manifest is damaged", &[], |p| {
        edit(&p.data().join(BACKUP).join("manifest.json"), |b| b[40] ^= 1);
    });
    c.add(&CREATE, "news", &[], |p| {
        new_session(p);
        p.run(&["index"]).expect(0);
    });
    // What is restored, and what it replaces.
    for file in ["agent_search.db", "generation.json", "coverage.jsonl"] {
        let rel: &'static str = format!("{BACKUP}/{file}").leak();
        c.regions(&RESTORE, rel, 2, &[23]);
    }
    c.regions(&RESTORE, "backups/b00000001/manifest.json", 3, &[23]);
    c.add(&RESTORE, "a sidecar beside the backup", &[23], |p| {
        fs::write(p.data().join(BACKUP).join("agent_search.db-wal"), "x").unwrap();
    });
    c.add(&RESTORE, "no backup", &[3], |p| {
        fs::remove_dir_all(p.data().join(BACKUP)).unwrap();
    });
    c.add(&RESTORE, "no rehearsal", &[21], |p| {
        fs::remove_dir_all(p.data().join("doctor/receipts")).unwrap();
        fs::remove_dir_all(p.data().join("doctor/intents")).unwrap();
    });
    c.add(&RESTORE, "a damaged row", &[], |p| {
        damage_text(&p.find(DB), b"answer 9:");
    });
    c.add(&RESTORE, "news", &[21], |p| {
        grow(p, 71);
        p.run(&["index"]).expect(0);
    });
    c.add(&RESTORE, "CURRENT gone", &[], |p| {
        fs::remove_file(p.data().join("CURRENT")).unwrap();
    });
    c.regions(&RESTORE, MANIFEST, 2, &[6, 21]);
    c.add(
        &RESTORE_KEEP,
        "the mirror lost what was promised",
        &[],
        |p| {
            fs::remove_dir_all(p.data().join("raw-mirror/packs")).unwrap();
        },
    );
    c.add(&RESTORE_KEEP, "a capture ledger gone", &[], |p| {
        fs::remove_file(&files_below(&p.data().join("raw-mirror/sources"))[0]).unwrap();
    });
    c.add(&RESTORE_KEEP, "a damaged row", &[], |p| {
        damage_text(&p.find(DB), b"answer 9:");
    });
    c.add(&RESTORE_KEEP, "a byte of the live database", &[], |p| {
        edit(&p.find(DB), |b| {
            let end = b.len() - 10;
            b[end] ^= 1;
        });
    });
    // What an undo puts back, and what it replaces.
    c.regions(&UNDO, DB, 4, &[23]);
    c.regions(&UNDO, MANIFEST, 2, &[23, 6]);
    c.add(&UNDO, "no seal", &[21, 23], |p| {
        let all = files_below(&p.data().join("generations/g00000001"));
        let seal = all
            .iter()
            .find(|f| f.to_string_lossy().contains("seal"))
            .unwrap();
        fs::remove_file(seal).unwrap();
    });
    c.add(&UNDO, "news", &[21], |p| {
        grow(p, 72);
        p.run(&["index"]).expect(0);
    });
    c.add(&UNDO, "CURRENT names what is put back", &[21], |p| {
        fs::write(p.data().join("CURRENT"), "g00000001\n").unwrap();
    });
    c.add(&UNDO, "the live archive is damaged", &[], |p| {
        edit(&p.find("generations/g00000002/agent_search.db"), |b| {
            b[..4000].fill(9);
        });
    });
    c.add(&UNDO, "the live archive is gone", &[], |p| {
        fs::remove_file(p.find("generations/g00000002/agent_search.db")).unwrap();
    });
    c.regions(&UNDO, "generations/g00000002/manifest.json", 2, &[21, 6, 1]);
    // A killed run that is finished or closed by plan.
    c.regions(&FINISH, "doctor/intents/*.json", 4, &[]);
    c.regions(&FINISH, "generations/g00000002/agent_search.db", 4, &[]);
    c.regions(&FINISH, "generations/g00000002/manifest.json", 1, &[6]);
    c.regions(&CLOSE, "doctor/intents/*.json", 4, &[]);
    c.regions(&CLOSE, DB, 2, &[]);
    for state in [&FINISH, &CLOSE] {
        c.add(state, "the ledger's last line gone", &[], |p| {
            lines(p, |l| drop(l.pop()));
        });
        c.add(state, "CURRENT gone", &[], |p| {
            fs::remove_file(p.data().join("CURRENT")).unwrap();
        });
        c.add(state, "finished by an index", &[], |p| {
            p.run(&["index"]);
        });
        c.add(state, "one more killed run", &[], |p| {
            let intent = p.find("doctor/intents/*.json");
            let text = fs::read_to_string(&intent).unwrap();
            let run = intent.file_stem().unwrap().to_str().unwrap();
            let other = "run-01ffffff-ffff-7fff-8fff-ffffffffffff";
            fs::write(
                intent.with_file_name(format!("{other}.json")),
                text.replace(run, other),
            )
            .unwrap();
        });
    }
    c.add(&FINISH, "CURRENT names the old archive", &[], |p| {
        fs::write(p.data().join("CURRENT"), "g00000001\n").unwrap();
    });
    c.add(&CLOSE, "CURRENT names the candidate", &[], |p| {
        fs::write(p.data().join("CURRENT"), "g00000002\n").unwrap();
    });
    // Plans that were made while a killed run lay open.
    c.add(&CREATE_OPEN, "CURRENT names the old archive", &[], |p| {
        fs::write(p.data().join("CURRENT"), "g00000001\n").unwrap();
    });
    c.add(&CREATE_OPEN, "the live database is damaged", &[23], |p| {
        damage_text(
            &p.find("generations/g00000002/agent_search.db"),
            b"answer 9:",
        );
    });
    c.add(&CREATE_OPEN, "news", &[], |p| {
        new_session(p);
        p.run(&["index"]).expect(0);
    });
    c.options(&CREATE_OPEN, &["--label", "third"]);
    c.regions(&UNDO_OPEN, DB, 2, &[23]);
    c.add(&UNDO_OPEN, "news", &[21], |p| {
        new_session(p);
        p.run(&["index"]);
    });
    c.add(&UNDO_OPEN, "CURRENT names the candidate", &[21], |p| {
        fs::write(p.data().join("CURRENT"), "g00000003\n").unwrap();
    });
    // What a data directory is begun with.
    c.regions(&FRESH, "../home/named.db", 4, &[2, 3, 23]);
    c.add(&FRESH, "an index came first", &[], |p| {
        p.run(&["index"]).expect(0);
    });
    c.add(&UNDO, "its receipt is gone", &[3], |p| {
        fs::remove_dir_all(p.data().join("doctor/receipts")).unwrap();
        fs::remove_dir_all(p.data().join("doctor/intents")).unwrap();
    });
    c.0
}

#[test]
fn a_hundred_kinds_of_change_are_refused_and_nothing_is_written() {
    let cases = cases();
    assert!(cases.len() >= 100, "{}", cases.len());
    let failures = Mutex::new(Vec::new());
    let codes = Mutex::new(BTreeMap::new());
    each(cases.len(), 4, |i| {
        let case = &cases[i];
        let p = Place::copy_of(&case.state.path());
        (case.change)(&p);
        let before = p.bytes();
        let runs = intents(&p);
        let mut words: Vec<&str> = case.state.apply.iter().map(String::as_str).collect();
        // Options come before the name that ends the words.
        if let Some(at) = words.iter().position(|w| *w == "--") {
            words.splice(at..at, case.more.iter().copied());
        } else {
            words.retain(|w| !(case.more.contains(&"--label") && w.starts_with("--label=")));
            words.extend(&case.more);
        }
        let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        let refused = p.run(&case.state.words_at(&p, &words));
        let kind = case.state.words.join(" ");
        let mut wrong = Vec::new();
        if refused.code != 20 && !case.or.contains(&refused.code) {
            wrong.push(format!("exit {}", refused.code));
        }
        let after = p.bytes();
        if refused.json.pointer("/err/context/finished_runs").is_some() {
            // Whoever has the lock finishes what was killed, and says so; nothing else was begun.
            if !refused.text("/err/hint").contains("finished first") {
                wrong.push("tells nothing of what it finished".to_owned());
            }
            if runs != intents(&p) {
                wrong.push("began".to_owned());
            }
            let left = p.run(&["doctor", "check"]);
            if left.stdout.contains("\"interrupted-operation\"") {
                wrong.push("finished nothing".to_owned());
            }
        } else if before != after {
            let names: Vec<_> = after
                .iter()
                .filter(|(k, v)| before.get(*k) != Some(v))
                .map(|(k, _)| k.display().to_string())
                .chain(
                    before
                        .keys()
                        .filter(|k| !after.contains_key(*k))
                        .map(|k| format!("-{}", k.display())),
                )
                .take(4)
                .collect();
            wrong.push(format!("wrote {names:?}"));
        }
        *codes.lock().unwrap().entry(refused.code).or_insert(0) += 1;
        if !wrong.is_empty() {
            failures.lock().unwrap().push(format!(
                "{kind}: {}: {} ({})",
                case.name,
                wrong.join(", "),
                refused
                    .json
                    .pointer("/err/message")
                    .or(refused.json.pointer("/status"))
                    .unwrap_or_default()
            ));
        }
    });
    println!("{} changes, exits {:?}", cases.len(), codes.lock().unwrap());
    let (all, bad) = (cases.len(), failures.lock().unwrap().len());
    println!(
        "torture | R14 changes between plan and apply | {all} | {} | {bad} |",
        all - bad
    );
    let failures = failures.into_inner().unwrap();
    assert!(
        failures.is_empty(),
        "{}:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn without_a_change_each_of_the_plans_applies() {
    each(KINDS.len(), 4, |i| {
        let state: &State = KINDS[i].state;
        let p = Place::copy_of(&state.path());
        let applied = p.run(&state.apply);
        let context = applied.json.pointer("/failure_context_path");
        let context = context
            .and_then(|c| c.as_str())
            .map(|c| fs::read_to_string(p.data().join(c)).unwrap_or_default());
        let kind = state.words.join(" ");
        assert_eq!(applied.code, 0, "{i} {kind}: {context:?}");
        assert_eq!(applied.text("/status"), "applied", "{}", applied.stdout);
        // Once more: the first receipt, and nothing happens.
        let before = p.bytes();
        let again = p.run(&state.apply).expect(0);
        assert_eq!(again.text("/status"), "already-applied", "{kind}");
        assert_eq!(
            again.text("/receipt/run_id"),
            applied.text("/receipt/run_id")
        );
        assert_eq!(before, p.bytes(), "{kind}");
    });
}

#[test]
fn a_refusal_with_the_plan_file_names_what_moved_and_no_content() {
    for (state, expected) in [
        (&*REPAIR, "/promises/commit"),
        (&*CREATE, "/archive/head"),
        (&*RESTORE, "/archive/commit"),
        (&*UNDO, "/archive/head"),
    ] {
        let p = Place::copy_of(&state.path());
        let file = p.path().join("plan.json");
        fs::write(&file, &state.planned.stdout).unwrap();
        grow(&p, 75);
        p.run(&["index"]).expect(0);
        let mut words: Vec<String> = state.apply.clone();
        let at = words.iter().position(|w| w == "--").unwrap_or(words.len());
        words.insert(at, format!("--plan-file={}", file.display()));
        let refused = p.run(&words).expect(20);
        let moved = refused.text("/err/context/moved");
        assert!(moved.split(' ').any(|m| m == expected), "{moved}");
        for text in [
            "harbour",
            "tide",
            "answer",
            "question",
            p.home().to_str().unwrap(),
        ] {
            let said = refused.stdout.to_lowercase();
            assert!(!said.contains(text), "{text}: {}", refused.stdout);
            assert!(!refused.stderr.contains(text), "{}", refused.stderr);
        }
        // A file with another plan can't tell what moved, and its text is not shown.
        fs::write(
            &file,
            "{\"repair_plan\":{\"covered\":{\"the harbour of /home/me\":1}}}",
        )
        .unwrap();
        let before = p.bytes();
        let refused = p.run(&words).expect(2);
        assert!(!refused.stdout.contains("harbour"), "{}", refused.stdout);
        assert_eq!(before, p.bytes());
    }
}
