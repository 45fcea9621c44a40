//! What must hold for any bytes in the files of a data directory. Each check gives which of them
//! were read as whole, so that the test of the corpus can tell that it holds some of each.

use std::cell::Cell;
use std::path::Path;

use cass::disk::{Capture, Root, WriterLock, writer_owner};
use cass::error::ErrorKind;
use cass::model::digest::Digest;
use cass::model::interrupt::Interrupt;
use cass::model::source::SourceKey;
use cass::plan::{Fingerprint, covered_in, moved};
use cass::sources::config::Config;
use cass::store::accepted::{self, Accepted};
use cass::store::attestation::{self, Attestation};
use cass::store::backup::{self, BackupId};
use cass::store::coverage::CoverageWriter;
use cass::store::generation::{self, GenerationId};
use cass::store::lexical::{Cursor, LexicalReader};
use cass::store::mirror::{MirrorReader, MirrorWriter, begins_with};
use cass::store::run::{EventLog, MarkerState, RunId};
use cass::store::{coverage, layout, run, seal, version};

/// A source's ledger of captures: its key, then its lines.
pub fn capture_ledger(bytes: &[u8]) -> [bool; 1] {
    let Some((key, lines)) = bytes.split_first_chunk::<16>() else {
        return [false];
    };
    let key = SourceKey(*key);
    in_folder(&[(&layout::ledger(key), lines)], |root| {
        let Ok(Some(mirror)) = MirrorReader::open(root) else {
            return [false];
        };
        let read = || {
            let mut found = Vec::new();
            let ended = mirror.captures(key, &mut |line| {
                found.push(format!("{line:?}"));
                Ok(())
            });
            (found, ended.is_ok())
        };
        let (found, _) = read();
        assert_eq!(read().0, found);
        assert!(found.len() <= lines.split(|b| *b == b'\n').count());
        drop(mirror.verify(true, &mut || false, &mut |_| ()));
        drop(mirror.for_each_head(&mut |_| Ok(())));
        [!found.is_empty()]
    })
}

/// The coverage ledger.
pub fn coverage(bytes: &[u8]) -> [bool; 1] {
    in_folder(&[(layout::COVERAGE, bytes)], |root| {
        let read = |len: Option<u64>| {
            let (mut lines, mut problems) = (Vec::new(), 0u64);
            let mut on_line = |n: u64, line: coverage::Line| {
                lines.push((n, format!("{line:?}")));
                Ok(())
            };
            let mut on_problem = |_| {
                problems += 1;
                Ok(())
            };
            let whole = match len {
                None => coverage::for_each(root, &mut on_line, &mut on_problem),
                Some(len) => coverage::for_each_within(root, len, &mut on_line, &mut on_problem),
            };
            (lines, whole.unwrap(), problems)
        };
        let (lines, whole, problems) = read(None);
        let ends = bytes.iter().filter(|b| **b == b'\n').count() as u64;
        assert!(whole <= ends && lines.len() as u64 <= whole);
        assert!(lines.len() as u64 + problems >= whole);
        // What is there already stays as it is when the ledger grows.
        let (begun, ..) = read(Some(bytes.len() as u64 / 2));
        assert!(lines.starts_with(&begun));
        if let Ok(Some(tail)) = coverage::tail(root) {
            assert_eq!(tail.whole_len + tail.torn_len, bytes.len() as u64);
        }
        // A writer drops what is torn, and nothing else.
        if written(root, |cap| CoverageWriter::open(cap).is_ok()) {
            assert_eq!(read(None), (lines.clone(), whole, problems));
        }
        [!lines.is_empty()]
    })
}

/// Three files of a generation: manifest, seal, and what names it.
pub fn generation(bytes: &[u8]) -> [bool; 3] {
    let id = GenerationId::numbered(1);
    let [manifest, seal, current] = parts(bytes);
    let folder = format!("{}/{}", layout::GENERATIONS, id.as_str());
    let files = [
        (format!("{folder}/{}", layout::MANIFEST), manifest),
        (format!("{folder}/{}", layout::SEAL), seal),
        (layout::CURRENT.to_owned(), current),
    ];
    in_folder(&files, |root| {
        let made = generation::manifest(root, &id);
        assert!(!matches!(made, Ok(None)));
        drop(generation::locate(root));
        drop(version::refuse_newer(root));
        let names = generation::current(root).is_ok_and(|c| c.is_some());
        let is_read = [made.is_ok(), seal::read(root, &id).is_ok(), names];
        // The live one is never told as sealed.
        let live = generation::current(root).ok().flatten();
        let sealed = seal::is_sealed(root, &id).unwrap() && live.as_ref() != Some(&id);
        assert_eq!(seal::list(root).unwrap().len(), usize::from(sealed));
        is_read
    })
}

/// Three files of a run: receipt, intent, and the log of events.
pub fn run(bytes: &[u8]) -> [bool; 3] {
    let [receipt, intent, log] = parts(bytes);
    let id = run_in(bytes);
    let files = [
        (run::path_of(&id), receipt),
        (format!("{}/{id}.json", layout::INTENTS), intent),
        (layout::EVENT_LOG.to_owned(), log),
    ];
    in_folder(&files, |root| {
        let read = run::read_receipt(root, &id);
        if let Ok(Some(receipt)) = &read {
            assert_eq!(receipt.run_id, id);
            let found = run::receipt_of(root, &receipt.fingerprint).unwrap();
            assert!(found.is_none_or(|found| found == *receipt));
        }
        let begun = run::read_intent(root, &id);
        drop(run::receipts(root));
        drop(run::open_intents(root));
        drop(version::refuse_newer(root));
        let count = || {
            let mut seen = 0u64;
            let bad = run::events(root, &mut |_| {
                seen += 1;
                Ok(())
            });
            (seen, bad.unwrap())
        };
        let (seen, bad) = count();
        let ends = log.iter().filter(|b| **b == b'\n').count() as u64;
        assert!(seen <= ends && bad <= ends);
        // A writer drops what is torn, and goes on behind the rest.
        if written(root, |cap| {
            EventLog::open(cap).is_ok_and(|mut log| log.add(&id, 0, "begun", "").is_ok())
        }) {
            assert_eq!(count(), (seen + 1, bad));
        }
        let is_begun = begun.is_ok_and(|i| i.is_some());
        [read.is_ok(), is_begun, seen > 0]
    })
}

/// A plan's document: its fingerprint stands for what it says and not for how it is written.
pub fn plan(bytes: &[u8]) -> [bool; 2] {
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(bytes) else {
        return [false; 2];
    };
    // As `--plan-file` reads it.
    let found = covered_in(&value);
    assert!(found.as_ref().is_none_or(serde_json::Value::is_object));
    if value.is_object() {
        let document = serde_json::json!({"status": "planned", "plan": {"covered": value}});
        assert_eq!(covered_in(&document).as_ref(), Some(&value));
    }
    assert!(moved(&value, &value, 10).is_empty());
    let Ok(fingerprint) = Fingerprint::of_covered(&value) else {
        return [found.is_some(), false];
    };
    let spaced = serde_json::to_string_pretty(&value).unwrap();
    let again: serde_json::Value = serde_json::from_str(&spaced).unwrap();
    assert!(Fingerprint::of_covered(&again).is_ok_and(|f| f == fingerprint));
    if let Some(fields) = value.as_object() {
        for name in fields.keys() {
            let mut less = fields.clone();
            less.remove(name);
            let less = serde_json::Value::Object(less);
            assert!(Fingerprint::of_covered(&less).is_ok_and(|f| f != fingerprint));
            assert!(!moved(&value, &less, 10).is_empty());
        }
    }
    [found.is_some(), true]
}

/// What the doctor keeps beside receipts: the context of a failure, the marker, an accepted loss, an
/// attestation; and who says to hold the writer's lock.
pub fn doctor(bytes: &[u8]) -> [bool; 5] {
    let [failure, marker, loss, attested, owner] = parts(bytes);
    let id = run_in(bytes);
    let files = [
        (format!("{}/{id}.json", layout::FAILURES), failure),
        (layout::MARKER.to_owned(), marker),
        (accepted::path_of(&id), loss),
        (
            format!("{}/000000000000001-1.json", layout::ATTESTATIONS),
            attested,
        ),
    ];
    in_folder(&files, |root| {
        let context = run::read_failure(root, &id);
        assert!(!matches!(context, Ok(None)));
        let mark = run::marker(root);
        if let Ok(mark) = &mark {
            assert_eq!(mark.digest(), Some(Digest::of(marker)));
        }
        let of_none = Accepted::read(root).unwrap();
        assert_eq!(
            of_none,
            Accepted::default(),
            "no receipt says that it was applied"
        );
        drop(version::refuse_newer(root));
        let lock = WriterLock::acquire(again(root), "fuzz", 0).unwrap();
        write_receipt(Capture::new(&lock), &id);
        let said = Accepted::read(root);
        if let Ok(said) = &said {
            assert_eq!(said.in_force.len() + said.damaged.len(), 1);
            for a in &said.in_force {
                assert_eq!(a.run_id, id);
                assert_eq!(digest_in(loss), hex_of(serde_json::to_vec(a)));
            }
        }
        let checked = attestation::newest(root).unwrap();
        if checked.is_some() {
            let value: serde_json::Value = serde_json::from_slice(attested).unwrap();
            let told: Attestation = serde_json::from_value(value["attestation"].clone()).unwrap();
            assert_eq!(digest_in(attested), hex_of(serde_json::to_vec(&told)));
        }
        // Whatever is said of its owner, a lock that is held is held.
        std::fs::write(root.full(OWNER), owner).unwrap();
        let busy = WriterLock::acquire(again(root), "fuzz", 0).unwrap_err();
        assert_eq!(busy.kind(), ErrorKind::LockBusy);
        let told = writer_owner(root).unwrap().unwrap();
        [
            context.is_ok(),
            matches!(mark, Ok(MarkerState::Present { .. })),
            said.is_ok_and(|s| !s.in_force.is_empty()),
            checked.is_some(),
            told.pid != 0,
        ]
    })
}

/// Two files of a backup: its manifest and its generation's.
pub fn backup(bytes: &[u8]) -> [bool; 2] {
    let [manifest, of_generation] = parts(bytes);
    let id = BackupId::parse("b00000001").unwrap();
    let folder = id.folder();
    let files = [
        (format!("{folder}/{}", backup::MANIFEST), manifest),
        (
            format!("{folder}/{}", backup::GENERATION_MANIFEST),
            of_generation,
        ),
        (backup::database_of(&id), b"no database".as_slice()),
    ];
    in_folder(&files, |root| {
        drop(version::refuse_newer(root));
        assert_eq!(backup::list(root).unwrap().len(), 1);
        assert_eq!(backup::next_id(root).unwrap().as_str(), "b00000002");
        let Ok(read) = backup::read(root, &id) else {
            return [false; 2];
        };
        let read = read.unwrap();
        assert_eq!(read.backup_id, id);
        assert_eq!(digest_in(manifest), hex_of(serde_json::to_vec(&read)));
        // The database is none, whatever is listed.
        if let Ok(Some(verified)) = backup::verify(root, &id, true, &Interrupt::default()) {
            assert!(!verified.is_sound());
        }
        [true, backup::generation_manifest(root, &read).is_ok()]
    })
}

/// A source's key, the lengths of the first two, then three files of the mirror: its format, the
/// source's ledger, a pack.
pub fn pack(bytes: &[u8]) -> [bool; 3] {
    let Some((head, rest)) = bytes.split_first_chunk::<19>() else {
        return [false; 3];
    };
    let ([key @ .., _, _, _], [.., format, low, high]) = (head, head);
    let key = SourceKey(*key);
    let (format, rest) = rest.split_at(usize::from(*format).min(rest.len()));
    let ledger = usize::from(u16::from_le_bytes([*low, *high]));
    let (ledger, pack) = rest.split_at(ledger.min(rest.len()));
    let files = [
        (layout::MIRROR_FORMAT.to_owned(), format),
        (layout::ledger(key), ledger),
        (layout::pack(1), pack),
    ];
    in_folder(&files, |root| {
        let read = || {
            let mirror = MirrorReader::open(root).ok()??;
            let mut lines = Vec::new();
            drop(mirror.captures(key, &mut |line| {
                lines.push(line);
                Ok(())
            }));
            lines.retain(|line| {
                let content = mirror.open_content(line.recipe, line.len);
                content.is_ok_and(|mut c| begins_with(&mut c, line.len, line.hash).unwrap_or(false))
            });
            let mut found = 0u64;
            drop(mirror.verify(true, &mut || false, &mut |_| found += 1));
            Some((lines, found))
        };
        let before = read();
        let is_known = before.is_some();
        let (whole, _) = before.unwrap_or_default();
        let mut is_sound = false;
        // What could be read can be read when a writer has mended what a killed one left.
        if written(root, |cap| {
            MirrorWriter::open(cap, 0).is_ok_and(|mirror| mirror.finish().is_ok())
        }) {
            let (after, left) = read().unwrap();
            assert!(whole.iter().all(|line| after.contains(line)));
            is_sound = left == 0;
        }
        [is_known, !whole.is_empty(), is_sound]
    })
}

/// What a search is handed back: the name of its index, and where a list of hits goes on.
pub fn search(bytes: &[u8]) -> [bool; 2] {
    let [current, cursor] = parts(bytes);
    let files = [
        (layout::LEXICAL_CURRENT, current),
        ("locks/archive.lock", b""),
    ];
    in_folder(&files, |root| {
        let named = std::str::from_utf8(current).is_ok_and(|t| t == "l00000001\n");
        assert!(LexicalReader::open(root).unwrap().is_none());
        let on = std::str::from_utf8(cursor).ok().and_then(Cursor::decode);
        if let Some(on) = &on {
            assert_eq!(Cursor::decode(&on.encode()).as_ref(), Some(on));
        }
        [named, on.is_some()]
    })
}

/// `config.toml`: what can't be understood is refused, and never taken for no rule.
pub fn config(bytes: &[u8]) -> [bool; 1] {
    in_folder(&[("config.toml", bytes)], |root| {
        match Config::load(root.path(), Path::new("/home/a")) {
            Ok(config) => {
                for path in ["/home/a/private/x.jsonl", "/", "/a\u{0301}/*"] {
                    assert_eq!(
                        config.rule_for(Path::new(path)).is_some(),
                        config.excludes(Path::new(path))
                    );
                }
                [true]
            }
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::ConfigInvalid);
                [false]
            }
        }
    })
}

/// Who holds the writer's lock.
const OWNER: &str = "locks/writer.info";

/// The run that is named first, or any: files of a run are believed under its name alone.
fn run_in(bytes: &[u8]) -> RunId {
    const ANY: &str = "run-01a22ad6-d503-7017-bf58-d8df50cc552b";
    let named = bytes.windows(ANY.len()).find_map(|text| {
        let text = std::str::from_utf8(text).ok()?;
        RunId::parse(text)
    });
    named.unwrap_or_else(|| RunId::parse(ANY).unwrap())
}

/// The digest that a document tells of itself, and that of what it says.
fn digest_in(bytes: &[u8]) -> String {
    let value: serde_json::Value = serde_json::from_slice(bytes).unwrap();
    value["digest"].as_str().unwrap().to_owned()
}

fn hex_of(json: serde_json::Result<Vec<u8>>) -> String {
    Digest::of(&json.unwrap()).to_hex()
}

/// Says that a run was applied.
fn write_receipt(cap: Capture<'_>, id: &RunId) {
    let receipt = serde_json::json!({
        "format": run::RECEIPT_FORMAT, "run_id": id, "kind": "repair", "fingerprint": "", "status": "applied",
        "begun_ms": 0, "ended_ms": 0, "cass_version": "", "actions": [], "before": null,
        "after": null, "backup_id": null, "moved": [], "coverage_before": null,
        "coverage_after": null, "probes": [], "missing": 0, "undoes": null, "error": null,
        "closed_by_later_run": false,
    });
    let receipt = serde_json::from_value(receipt).unwrap();
    run::write_receipt(cap, &mut EventLog::open(cap).unwrap(), &receipt).unwrap();
}

/// The bytes in `N` parts: the first bytes say where each but the last ends, in 256ths.
fn parts<const N: usize>(bytes: &[u8]) -> [&[u8]; N] {
    let Some((ends, rest)) = bytes.split_at_checked(N - 1) else {
        return [bytes; N];
    };
    let mut ends: Vec<usize> = ends
        .iter()
        .map(|n| usize::from(*n) * rest.len() / 256)
        .collect();
    ends.sort_unstable();
    ends.push(rest.len());
    let begin = Cell::new(0);
    std::array::from_fn(|i| &rest[begin.replace(ends[i])..ends[i]])
}

/// Whether a writer of the data directory came through.
fn written(root: &Root, f: impl FnOnce(Capture<'_>) -> bool) -> bool {
    let lock = WriterLock::acquire(again(root), "fuzz", 0).unwrap();
    f(Capture::new(&lock))
}

fn again(root: &Root) -> Root {
    Root::open(root.path()).unwrap().unwrap()
}

/// A data directory with these files.
fn in_folder<T>(files: &[(impl AsRef<str>, &[u8])], f: impl FnOnce(&Root) -> T) -> T {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let memory = Path::new("/dev/shm");
    let above = if memory.is_dir() {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    };
    let path = above.join(format!("cass-fuzz-{}-{number}", std::process::id()));
    for (name, bytes) in files {
        let file = path.join(name.as_ref());
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, bytes).unwrap();
    }
    let found = f(&Root::open(&path).unwrap().unwrap());
    std::fs::remove_dir_all(&path).unwrap();
    found
}
