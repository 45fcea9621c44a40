//! A candidate archive that is made from the mirror alone says what the live one says.

use std::collections::BTreeMap;

use cass::disk::{Capture, Root, WriterLock};
use cass::env::{Clock, Env};
use cass::ingest::rebuild::{Rebuilt, Replay, replay};
use cass::model::interrupt::Interrupt;
use cass::model::progress::Silent;
use cass::model::watch::Watch;
use cass::store::archive::{ArchiveReader, ArchiveWriter, promote_line, verify_generation};
use cass::store::generation::{self, Generation, GenerationId, Live, Manifest, Provenance};
use cass::store::mirror::MirrorWriter;

use crate::every_harness::everyone;
use crate::home::{index, settled};
use crate::sandbox::{Sandbox, files_below};

fn env_of(s: &Sandbox) -> Env {
    let vars = [("HOME", s.home()), ("CASS_DATA_DIR", s.data())];
    let vars: BTreeMap<_, _> = vars
        .into_iter()
        .map(|(name, value)| (name.into(), value.into_os_string()))
        .collect();
    Env::new(Clock::System, vars, None).unwrap()
}

fn live(root: &Root) -> Generation {
    match generation::locate(root).unwrap() {
        Live::Present(live) => live,
        Live::Never { .. } => panic!("no archive"),
    }
}

/// Makes a candidate: empty, or from a copy of the database of the live generation as it is now or
/// as it was put aside in `copy`. It must verify; then it is promoted.
fn candidate(s: &Sandbox, copy: Option<&std::path::Path>) -> Rebuilt {
    let env = env_of(s);
    let root = Root::open(&s.data()).unwrap().unwrap();
    let old = live(&root);
    let coverage = std::fs::read(s.data().join("coverage.jsonl")).unwrap();
    let id = generation::next_id(&root).unwrap();
    let folder = s.data().join("generations").join(id.as_str());
    let lock = WriterLock::acquire(root, "test", 0).unwrap();
    let cap = Capture::new(&lock);
    let mut mirror = MirrorWriter::open(cap, env.now_ms()).unwrap();
    let watch = Watch {
        progress: &Silent,
        interrupt: &Interrupt::default(),
    };
    let mut archive = match copy {
        None => ArchiveWriter::stage(cap, &id, &old.manifest.archive_id, env.now_ms()).unwrap(),
        Some(from) => {
            std::fs::create_dir(&folder).unwrap();
            for file in files_below(from) {
                std::fs::copy(&file, folder.join(file.file_name().unwrap())).unwrap();
            }
            let generation = Generation {
                id: id.clone(),
                manifest: Manifest::copied(&id, &old.manifest, env.now_ms()),
            };
            ArchiveWriter::open_staged(cap, &generation).unwrap()
        }
    };
    let rebuilt = replay(&env, cap, &mut mirror, &mut archive, watch).unwrap();
    let provenance = Provenance {
        kind: "rebuilt".into(),
        ..Provenance::default()
    };
    let (generation, head) = archive.finish_staged(cap, Some(provenance)).unwrap();
    let mut names: Vec<String> = files_below(&folder)
        .iter()
        .map(|p| p.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["agent_search.db", "manifest.json"]);
    assert_eq!(
        generation::manifest(cap.root(), &id).unwrap().unwrap(),
        generation.manifest
    );
    let mut findings = Vec::new();
    verify_generation(cap.root(), &generation, &|| false, &mut |f| {
        findings.push(f)
    })
    .unwrap();
    assert_eq!(findings, []);
    // Nothing was promised and nothing promoted.
    assert_eq!(live(cap.root()), old);
    assert!(std::fs::read(s.data().join("coverage.jsonl")).unwrap() == coverage);

    generation::set_current(cap, &id).unwrap();
    for _ in 0..2 {
        promote_line(cap, &generation, head, "rebuilt", Some("r-1".into())).unwrap();
    }
    let promised = std::fs::read(s.data().join("coverage.jsonl")).unwrap();
    let lines = |bytes: &[u8]| bytes.iter().filter(|b| **b == b'\n').count();
    assert_eq!(lines(&promised), lines(&coverage) + 1);
    mirror.finish().unwrap();
    rebuilt
}

/// What `export` prints of every session.
fn exports(s: &Sandbox) -> BTreeMap<String, String> {
    s.sessions()
        .iter()
        .map(|x| {
            let id = x["id"].as_str().unwrap().to_owned();
            let ran = s.run(&["export", &id, "--format", "json"]).expect(0);
            (id, ran.stdout)
        })
        .collect()
}

#[track_caller]
fn same(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) {
    let ids = |all: &BTreeMap<String, String>| all.keys().cloned().collect::<Vec<_>>();
    assert_eq!(ids(before), ids(after));
    for (id, text) in before {
        assert!(text == &after[id], "{id} is exported in other words");
    }
}

/// Rebuilds from the mirror alone; everything must be as before, and indexing goes on.
#[track_caller]
fn rebuilt_is_the_same(s: &Sandbox) -> Rebuilt {
    let before = exports(s);
    let rebuilt = candidate(s, None);
    assert_eq!(rebuilt.unread, []);
    assert_eq!(rebuilt.ledger_problems, []);
    same(&before, &exports(s));
    s.run(&["doctor", "check", "--deep", "--json"]).expect(0);
    rebuilt
}

/// Indexing goes on behind a promoted candidate: nothing is read or promised a second time, and
/// only the search index is made anew.
fn goes_on(s: &Sandbox) {
    let ledger = s.data().join("coverage.jsonl");
    let before = std::fs::read(&ledger).unwrap();
    index(s);
    assert!(std::fs::read(&ledger).unwrap() == before);
    settled(s);
}

#[test]
fn the_sessions_of_every_harness_are_the_same_in_a_rebuilt_archive() {
    let s = everyone();
    index(&s);
    // The harnesses are gone: the mirror alone says what there was.
    for entry in std::fs::read_dir(s.home()).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap() != ".config" {
            std::fs::remove_dir_all(path).unwrap();
        }
    }
    let rebuilt = rebuilt_is_the_same(&s);
    assert!(rebuilt.promised > 80, "{}", rebuilt.promised);
    assert_eq!(rebuilt.beyond, 0);
}

fn line(n: u32, text: &str) -> String {
    format!(
        r#"{{"type":"user","sessionId":"s-1","uuid":"u{n}","message":{{"role":"user","content":"{text}"}}}}"#
    ) + "\n"
}

/// A log that grows, is written anew as it was before, and two files that diverge, in three index
/// runs.
fn grown() -> Sandbox {
    let s = Sandbox::new();
    let (a, b) = (
        line(1, "one") + &line(2, "A"),
        line(1, "one") + &line(2, "B"),
    );
    let plain = |text: &str| {
        format!(r#"{{"sessionId":"p-1","projectHash":"x"}}{}"#, "\n")
            + &format!(
                r#"{{"id":"{text}","timestamp":"2026-01-01T00:00:00.000Z","type":"user","content":"{text}"}}{}"#,
                "\n"
            )
    };
    let states: [[(&str, String); 3]; 3] = [
        [
            (".claude/projects/-p/s-1.jsonl", a.clone()),
            (".gemini/tmp/a/chats/session-1-p.jsonl", plain("left")),
            (".claude/projects/-p/s-2.jsonl", line(9, "grows")),
        ],
        [
            (".claude/projects/-p/s-1.jsonl", b),
            (".gemini/tmp/a/chats/session-2-p.jsonl", plain("right")),
            (
                ".claude/projects/-p/s-2.jsonl",
                line(9, "grows") + &line(10, "more"),
            ),
        ],
        [
            (".claude/projects/-p/s-1.jsonl", a),
            (
                ".gemini/tmp/a/chats/session-1-p.jsonl",
                plain("left") + "\n",
            ),
            (
                ".claude/projects/-p/s-2.jsonl",
                line(9, "grows") + &line(10, "more") + &line(11, "on"),
            ),
        ],
    ];
    for files in states {
        for (path, text) in files {
            s.put(path, text.as_bytes());
        }
        index(&s);
    }
    s
}

#[test]
fn growth_rewrites_and_diverging_files_are_the_same_in_a_rebuilt_archive() {
    let s = grown();
    assert!(s.sessions().len() >= 3);
    let rebuilt = rebuilt_is_the_same(&s);
    assert_eq!((rebuilt.promised, rebuilt.beyond), (9, 0));
    goes_on(&s);
    // It grows on, and the one made of it is the same again.
    s.put(
        ".claude/projects/-p/s-2.jsonl",
        (line(9, "grows") + &line(10, "more") + &line(11, "on") + &line(12, "and on")).as_bytes(),
    );
    index(&s);
    let rebuilt = rebuilt_is_the_same(&s);
    assert_eq!(rebuilt.promised, 10);
}

#[test]
fn what_was_captured_and_never_read_comes_behind_what_was_promised() {
    let s = Sandbox::new();
    s.put(".claude/projects/-p/s-1.jsonl", line(1, "one").as_bytes());
    index(&s);
    // An archive that can't be opened keeps nothing from being captured.
    let db = s.data().join("generations/g00000001/agent_search.db");
    let aside = s.path().join("aside");
    std::fs::rename(&db, &aside).unwrap();
    s.put(
        ".claude/projects/-p/s-1.jsonl",
        (line(1, "one") + &line(2, "two")).as_bytes(),
    );
    assert_ne!(s.run(&["index", "--json"]).code, 0);
    std::fs::rename(&aside, &db).unwrap();

    let env = env_of(&s);
    let root = Root::open(&s.data()).unwrap().unwrap();
    let archive_id = live(&root).manifest.archive_id;
    let lock = WriterLock::acquire(root, "test", 0).unwrap();
    let cap = Capture::new(&lock);
    let mut mirror = MirrorWriter::open(cap, 0).unwrap();
    let id = GenerationId::numbered(2);
    let mut archive = ArchiveWriter::stage(cap, &id, &archive_id, 0).unwrap();
    let interrupt = Interrupt::default();
    let watch = Watch {
        progress: &Silent,
        interrupt: &interrupt,
    };
    let covered = |archive: &ArchiveWriter<'_>| {
        let mut all = Vec::new();
        archive
            .for_each_coverage(&mut |_, count, sum| {
                all.push((count, sum));
                Ok(())
            })
            .unwrap();
        all
    };
    let mut replay = Replay::begin(&env, cap, &mut mirror, &archive, watch).unwrap();
    replay.promised(&mut mirror, &mut archive).unwrap();
    let promised = covered(&archive);
    let ledger = std::fs::read_to_string(s.data().join("coverage.jsonl")).unwrap();
    let last: serde_json::Value = serde_json::from_str(ledger.lines().last().unwrap()).unwrap();
    assert_eq!(promised.len(), 1);
    assert_eq!(last["conversations"][0][1], promised[0].0);
    assert_eq!(last["conversations"][0][2], promised[0].1.to_hex());
    replay.rest(&mut mirror, &mut archive).unwrap();
    assert_eq!(covered(&archive)[0].0, 2);
    let rebuilt = replay.end(&mut archive).unwrap();
    assert_eq!((rebuilt.promised, rebuilt.beyond), (1, 1));
    archive.finish_staged(cap, None).unwrap();
}

#[test]
fn a_capture_that_cannot_be_read_is_listed_and_the_others_are_the_same() {
    let s = Sandbox::new();
    // Long enough for an object of its own.
    let long = |name: &str, seed: u64| {
        let mut x = seed;
        let noise: String = (0..40_000)
            .map(|_| {
                x = x
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                char::from(b'a' + u8::try_from((x >> 33) % 26).unwrap())
            })
            .collect();
        line(1, &format!("{noise} {name}")).replace("s-1", name)
    };
    for (name, seed) in [("s-1", 1), ("s-2", 2), ("s-3", 3)] {
        s.put(
            &format!(".claude/projects/-p/{name}.jsonl"),
            long(name, seed).as_bytes(),
        );
        index(&s);
    }
    let before = exports(&s);
    // The second of the three objects, each of which is about a third of the pack.
    let pack = s.data().join("raw-mirror/packs/00000001.pack");
    let mut bytes = std::fs::read(&pack).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    std::fs::write(&pack, bytes).unwrap();
    let rebuilt = candidate(&s, None);
    assert_eq!(rebuilt.unread.len(), 1, "{:?}", rebuilt.unread);
    let unread = &rebuilt.unread[0];
    assert!(unread.path.as_ref().unwrap().ends_with("s-2.jsonl"));
    assert_eq!(
        (unread.seq, unread.promised, unread.held_by),
        (1, true, None)
    );
    assert_eq!(rebuilt.promised, 2);
    let after = exports(&s);
    assert_eq!(after.len(), 2);
    for (id, text) in &after {
        assert!(text == &before[id]);
    }
}

#[test]
fn a_copy_with_a_hot_wal_reads_on_where_it_was_copied() {
    let s = grown();
    // A reader keeps the WAL from being folded in.
    let copy = s.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    let reader = ArchiveReader::open(&Root::open(&s.data()).unwrap().unwrap())
        .unwrap()
        .unwrap();
    s.put(
        ".claude/projects/-p/s-2.jsonl",
        (line(9, "grows") + &line(10, "more") + &line(11, "on") + &line(12, "x")).as_bytes(),
    );
    s.run(&["index", "--skip-lexical", "--json"]).expect(0);
    let folder = s.data().join("generations/g00000001");
    for name in ["agent_search.db", "agent_search.db-wal"] {
        std::fs::copy(folder.join(name), copy.join(name)).unwrap();
    }
    assert!(
        std::fs::metadata(copy.join("agent_search.db-wal"))
            .unwrap()
            .len()
            > 0
    );
    drop(reader);
    s.put(
        ".claude/projects/-p/s-2.jsonl",
        (line(9, "grows") + &line(10, "more") + &line(11, "on") + &line(12, "x") + &line(13, "y"))
            .as_bytes(),
    );
    index(&s);
    let before = exports(&s);
    let rebuilt = candidate(&s, Some(&copy));
    assert_eq!((rebuilt.promised, rebuilt.beyond), (1, 0));
    assert_eq!(rebuilt.unread, []);
    same(&before, &exports(&s));
    goes_on(&s);
    // A copy of a copy names the same origin, and commits go on.
    let folder = s.data().join("generations/g00000002");
    let manifest = std::fs::read_to_string(folder.join("manifest.json")).unwrap();
    assert!(manifest.contains("\"format\": 2") && manifest.contains("\"origin\": \"g00000001\""));
    let again = s.path().join("again");
    std::fs::create_dir(&again).unwrap();
    std::fs::copy(
        folder.join("agent_search.db"),
        again.join("agent_search.db"),
    )
    .unwrap();
    assert_eq!(candidate(&s, Some(&again)).promised, 0);
    same(&before, &exports(&s));
    s.put(
        ".claude/projects/-p/s-3.jsonl",
        line(20, "new").replace("s-1", "s-3").as_bytes(),
    );
    index(&s);
    let before = exports(&s);
    assert_eq!(candidate(&s, None).unread, []);
    same(&before, &exports(&s));
}
