//! What must hold for any bytes. The fuzz targets run these on what the fuzzer makes up, the test
//! `fuzz_corpus` on what is kept in `corpus/`.

use std::io::{Cursor, Read};
use std::path::Path;

use cass::disk::Root;
use cass::ingest::parse::{SourceName, open, open_limited};
use cass::model::provider::Provider;
use cass::model::record::{Piece, ResumePoint};
use cass::model::source::SourceKey;
use cass::plan::{Fingerprint, moved};
use cass::store::generation::{self, GenerationId};
use cass::store::mirror::MirrorReader;
use cass::store::{coverage, layout, run, seal};

#[path = "tiles.rs"]
mod tiles;

/// The longest line of the targets: short, so that the limit is met.
const SHORT: usize = 200;

/// One provider: the whole, and the whole in two parts.
pub fn provider(provider: Provider, bytes: &[u8]) {
    let cut = bytes
        .first()
        .map_or(0, |b| usize::from(*b) * bytes.len() / 256);
    let (whole, _) = parse(provider, bytes, 0, None, bytes.len() + 1);
    let (first, resume) = parse(provider, &bytes[..cut], 0, None, bytes.len() + 1);
    let at = usize::try_from(resume.offset).unwrap();
    let (second, _) = parse(provider, bytes, at, Some(resume), bytes.len() + 1);
    let mut both: Vec<Piece> = first;
    both.retain(|p| tiles::span(p).end() <= at as u64);
    both.extend(second);
    let (both, whole) = (tiles::merged(both), tiles::merged(whole));
    assert_eq!(both, whole, "cut at {cut}");
}

/// Both providers with a short limit for lines, read in pieces of one and of seven bytes.
pub fn ladder(bytes: &[u8]) {
    for provider in Provider::ALL {
        let (pieces, _) = parse(provider, bytes, 0, None, SHORT);
        for step in [1, 7] {
            let name = SourceName {
                provider,
                path: Path::new(PATH),
            };
            let content = Steps {
                inner: Cursor::new(bytes),
                step,
            };
            let mut parser = open_limited(name, Box::new(content), bytes, None, SHORT);
            let mut again = Vec::new();
            while let Some(piece) = parser.next().unwrap() {
                again.push(piece);
            }
            assert_eq!(again, pieces, "read {step} at a time");
        }
    }
}

/// A database and its WAL, read page by page: the first two bytes say where the one ends.
pub fn salvage(bytes: &[u8]) {
    let Some((head, rest)) = bytes.split_first_chunk::<2>() else {
        return;
    };
    let (db, wal) = rest.split_at(usize::from(u16::from_le_bytes(*head)).min(rest.len()));
    let once = cass::store::archive::salvaged_counts(db.to_vec(), wal.to_vec());
    let again = cass::store::archive::salvaged_counts(db.to_vec(), wal.to_vec());
    assert_eq!(once, again);
    // A row has a hash of 32 bytes, and each is counted once.
    let rows: u64 = once.values().sum();
    assert!(rows * 32 <= bytes.len() as u64, "{once:?}");
}

const PATH: &str = "/s/7c9e6679-7425-40de-944b-e07fc1f90ae7.jsonl";

struct Steps<'a> {
    inner: Cursor<&'a [u8]>,
    step: usize,
}

impl Read for Steps<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let n = buf.len().min(self.step);
        self.inner.read(&mut buf[..n])
    }
}

fn parse(
    provider: Provider,
    bytes: &[u8],
    at: usize,
    from: Option<ResumePoint>,
    max_line: usize,
) -> (Vec<Piece>, ResumePoint) {
    let name = SourceName {
        provider,
        path: Path::new(PATH),
    };
    let content = Box::new(Cursor::new(&bytes[at..]));
    let line = from.as_ref().map_or(1, |f| f.line);
    let mut parser = if max_line > bytes.len() {
        open(name, content, bytes, from)
    } else {
        open_limited(name, content, bytes, from, max_line)
    };
    let mut pieces = Vec::new();
    while let Some(piece) = parser.next().unwrap() {
        pieces.push(piece);
    }
    tiles::check_tiles(&pieces, at as u64, bytes, line);
    assert_eq!(parser.total(), bytes.len() as u64);
    (pieces, parser.resume())
}

/// A source's ledger of captures: its key, then its lines.
pub fn capture_ledger(bytes: &[u8]) {
    let Some((key, lines)) = bytes.split_first_chunk::<16>() else {
        return;
    };
    let key = SourceKey(*key);
    in_folder(&[(&layout::ledger(key), lines)], |root| {
        let Ok(Some(mirror)) = MirrorReader::open(root) else {
            return;
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
    });
}

/// The coverage ledger.
pub fn coverage(bytes: &[u8]) {
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
    });
}

/// Three files of a generation: manifest, seal, and what names it.
pub fn generation(bytes: &[u8]) {
    let id = GenerationId::numbered(1);
    let [manifest, seal, current] = thirds(bytes);
    let folder = format!("{}/{}", layout::GENERATIONS, id.as_str());
    let files = [
        (format!("{folder}/{}", layout::MANIFEST), manifest),
        (format!("{folder}/{}", layout::SEAL), seal),
        (layout::CURRENT.to_owned(), current),
    ];
    let files = files
        .each_ref()
        .map(|(name, bytes)| (name.as_str(), *bytes));
    in_folder(&files, |root| {
        if let Ok(read) = generation::manifest(root, &id) {
            assert!(read.is_some());
        }
        drop(generation::locate(root));
        drop(generation::current(root));
        drop(seal::read(root, &id));
        // The live one is never told as sealed.
        let live = generation::current(root).ok().flatten();
        let sealed = seal::is_sealed(root, &id).unwrap() && live.as_ref() != Some(&id);
        assert_eq!(seal::list(root).unwrap().len(), usize::from(sealed));
    });
}

/// Three files of a run: receipt, intent, and the log of events.
pub fn run(bytes: &[u8]) {
    let [receipt, intent, log] = thirds(bytes);
    let name = "run-01a22ad6-d503-7017-bf58-d8df50cc552b";
    let id = run::RunId::parse(name).unwrap();
    let files = [
        (run::path_of(&id), receipt),
        (format!("{}/{name}.json", layout::INTENTS), intent),
        (layout::EVENT_LOG.to_owned(), log),
    ];
    let files = files
        .each_ref()
        .map(|(name, bytes)| (name.as_str(), *bytes));
    in_folder(&files, |root| {
        drop(run::read_receipt(root, &id));
        drop(run::read_intent(root, &id));
        drop(run::receipts(root));
        drop(run::open_intents(root));
        let mut seen = 0u64;
        let bad = run::events(root, &mut |_| {
            seen += 1;
            Ok(())
        });
        let ends = log.iter().filter(|b| **b == b'\n').count() as u64;
        assert!(seen <= ends && bad.is_ok_and(|bad| bad <= ends));
    });
}

/// A plan's document: its fingerprint stands for what it says and not for how it is written.
pub fn plan(bytes: &[u8]) {
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(bytes) else {
        return;
    };
    assert!(moved(&value, &value, 10).is_empty());
    let Ok(fingerprint) = Fingerprint::of_covered(&value) else {
        return;
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
}

/// The first two bytes say where the first part and the second end, in 256ths.
fn thirds(bytes: &[u8]) -> [&[u8]; 3] {
    let Some(([a, b], rest)) = bytes.split_first_chunk::<2>() else {
        return [bytes; 3];
    };
    let at = |n: u8| usize::from(n) * rest.len() / 256;
    let (first, behind) = rest.split_at(at((*a).min(*b)));
    let (second, third) = behind.split_at(at((*a).max(*b)) - first.len());
    [first, second, third]
}

/// A data directory with these files.
fn in_folder(files: &[(&str, &[u8])], f: impl FnOnce(&Root)) {
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
        let file = path.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, bytes).unwrap();
    }
    f(&Root::open(&path).unwrap().unwrap());
    std::fs::remove_dir_all(&path).unwrap();
}
