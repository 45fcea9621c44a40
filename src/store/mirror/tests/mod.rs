//! The mirror as a whole, on real files.

mod crash;
mod damage;
mod growth;
mod index;
mod round_trip;

use std::io::Read;
use std::path::{Path, PathBuf};

use super::*;
use crate::disk::{Capture, Root, WriterLock};
use crate::model::digest::Digest;
use crate::model::provider::Provider;

/// A data directory of its own.
struct Data {
    dir: tempfile::TempDir,
}

/// Bytes that compress about as well as a session does, the same for the same seed.
fn lines(seed: u64, count: usize) -> Vec<u8> {
    const WORDS: [&str; 16] = [
        "the",
        "error",
        "function",
        "returns",
        "src/main.rs",
        "let",
        "value",
        "because",
        "\\n",
        "test",
        "file",
        "should",
        "assistant",
        "content",
        "run",
        "it",
    ];
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut out = Vec::new();
    for i in 0..count {
        out.extend_from_slice(
            format!(
                "{{\"type\":\"message\",\"uuid\":\"{:016x}{:016x}\",\"n\":{i},\"text\":\"",
                next(),
                next()
            )
            .as_bytes(),
        );
        for _ in 0..next() % 120 {
            let r = next();
            out.extend_from_slice(WORDS[(r % 16) as usize].as_bytes());
            if r % 7 == 0 {
                out.extend_from_slice(format!("{:x}", r >> 40).as_bytes());
            }
            out.push(b' ');
        }
        out.extend_from_slice(b"\"}\n");
    }
    out
}

/// Bytes that do not compress.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut out = vec![0u8; len];
    blake3::Hasher::new()
        .update(&seed.to_le_bytes())
        .finalize_xof()
        .fill(&mut out);
    out
}

fn ident(name: &str) -> SourceIdent {
    SourceIdent::new(
        "local",
        Provider::Claude,
        PathBuf::from(format!("/home/x/{name}.jsonl")),
    )
}

fn meta(at_ms: i64, len: usize) -> CaptureMeta {
    CaptureMeta {
        gate: StatGate {
            dev: 64768,
            ino: 1_234_567,
            size: len as u64,
            mtime_ns: 1_732_900_000_000_000_000 + at_ms,
            extra: String::new(),
        },
        at_ms: 1_732_900_000_000 + at_ms,
        ..CaptureMeta::default()
    }
}

impl Data {
    fn new() -> Self {
        // In memory where that is possible: these tests sync thousands of times.
        let memory = Path::new("/dev/shm");
        let dir = if memory.is_dir() {
            tempfile::tempdir_in(memory)
        } else {
            tempfile::tempdir()
        };
        Data { dir: dir.unwrap() }
    }

    fn path(&self, rel: &str) -> PathBuf {
        self.dir.path().join(rel)
    }

    fn lock(&self) -> WriterLock {
        // A process that another test starts holds copies of all descriptors for a moment.
        for _ in 0..5000 {
            let root = Root::open_or_create(self.dir.path()).unwrap();
            match WriterLock::acquire(root, "test", 0) {
                Ok(lock) => return lock,
                Err(e) => assert_eq!(e.kind(), crate::error::ErrorKind::LockBusy),
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        panic!("the writer lock stays held");
    }

    /// Runs `f` with a writer, which is dropped without a flush.
    fn write<T>(&self, f: impl FnOnce(&mut MirrorWriter<'_>) -> T) -> T {
        let lock = self.lock();
        let mut writer = MirrorWriter::open(Capture::new(&lock), 0).unwrap();
        f(&mut writer)
    }

    fn add(&self, name: &str, bytes: &[u8]) -> Added {
        self.write(|w| {
            let added = add(w, name, bytes);
            w.flush().unwrap();
            added
        })
    }

    fn root(&self) -> Root {
        Root::open(self.dir.path()).unwrap().unwrap()
    }

    /// The content of a capture.
    fn get(&self, name: &str, seq: u64) -> crate::error::Result<Vec<u8>> {
        let root = self.root();
        let reader = MirrorReader::open(&root)?.unwrap();
        let line = reader
            .capture(ident(name).key, seq)?
            .unwrap_or_else(|| panic!("no capture {seq} of {name}"));
        let bytes = read(reader.open_content(line.recipe, line.len)?)?;
        assert_eq!(Digest::of(&bytes), line.hash);
        Ok(bytes)
    }

    fn captures(&self, name: &str) -> u64 {
        let root = self.root();
        let reader = MirrorReader::open(&root).unwrap().unwrap();
        let mut n = 0;
        reader
            .captures(ident(name).key, &mut |_| {
                n += 1;
                Ok(())
            })
            .unwrap();
        n
    }

    fn verify(&self, deep: bool) -> Vec<MirrorProblem> {
        let root = self.root();
        let reader = MirrorReader::open(&root).unwrap().unwrap();
        let mut found = Vec::new();
        let summary = reader
            .verify(deep, &mut || false, &mut |p| found.push(p))
            .unwrap();
        assert!(summary.complete);
        assert_eq!(summary.problems, found.len() as u64);
        found
    }

    /// Bytes of packs and ledgers.
    fn size(&self) -> u64 {
        ["raw-mirror/packs", "raw-mirror/sources"]
            .iter()
            .map(|d| folder(&self.path(d)))
            .sum()
    }

    /// A copy, for damage.
    fn copy(&self) -> Data {
        let copy = Data::new();
        for entry in walkdir::WalkDir::new(self.dir.path()) {
            let entry = entry.unwrap();
            let to = copy
                .dir
                .path()
                .join(entry.path().strip_prefix(self.dir.path()).unwrap());
            if entry.file_type().is_dir() {
                std::fs::create_dir_all(to).unwrap();
            } else {
                std::fs::copy(entry.path(), to).unwrap();
            }
        }
        copy
    }
}

fn folder(path: &Path) -> u64 {
    walkdir::WalkDir::new(path)
        .into_iter()
        .map(|e| e.unwrap().metadata().unwrap())
        .filter(std::fs::Metadata::is_file)
        .map(|m| m.len())
        .sum()
}

fn add(w: &mut MirrorWriter<'_>, name: &str, bytes: &[u8]) -> Added {
    let ident = ident(name);
    let head = w.head(ident.key).unwrap();
    let at = head
        .as_ref()
        .map_or(1, |h| i64::try_from(h.seq).unwrap() + 1);
    let prepared = MirrorWriter::prepare(bytes.to_vec(), Shape::Text, head.as_ref()).unwrap();
    w.add(&ident, prepared, meta(at, bytes.len())).unwrap()
}

fn stream(w: &mut MirrorWriter<'_>, name: &str, bytes: &[u8], shape: Shape) -> Added {
    let ident = ident(name);
    let at = w
        .head(ident.key)
        .unwrap()
        .map_or(1, |h| i64::try_from(h.seq).unwrap() + 1);
    w.add_stream(&ident, &mut &bytes[..], shape, meta(at, bytes.len()))
        .unwrap()
}

fn read(mut content: ContentReader<'_>) -> crate::error::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match content.read_to_end(&mut bytes) {
        Ok(_) => Ok(bytes),
        Err(e) => {
            let cause = ContentReader::cause(&e).unwrap();
            Err(crate::error::Error::new(cause.kind(), cause.message()))
        }
    }
}
