//! Measures what a command of `cass` can at best cost, part by part, and the commands themselves,
//! so that a figure is a ratio inside one run and never a number of one machine.
//!
//! ```text
//! parts tree TREE SCRATCH      walk, read, hash, compress, decompress, parse, insert: seconds each
//! parts integrity DB SCRATCH   PRAGMA integrity_check alone, on a copy of DB and its -wal
//! parts fts DB SCRATCH         FTS5's own rebuild of the messages of DB, and an insert of each
//! parts searches FILE CMD...   CMD with each line of FILE: "median-seconds p95-seconds peak-KiB hits"
//! parts run OUT CMD...         one run of CMD, stdout to OUT: "exit seconds peak-KiB"
//! parts spawn N CMD...         N runs of CMD, output dropped: "median-seconds p95-seconds"
//! ```
//!
//! Peak memory is the kernel's own high-water mark (`VmHWM`), read while the command runs: it only
//! grows, so what a reading can miss is growth in the last millisecond.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::exit
)]

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rayon::prelude::*;
use serde_json::value::RawValue;
use twox_hash::XxHash3_128;

const CHUNK: usize = 1 << 20;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["tree", tree, scratch] => tree_parts(Path::new(tree), Path::new(scratch)),
        ["integrity", db, scratch] => integrity(Path::new(db), Path::new(scratch)),
        ["fts", db, scratch] => fts(Path::new(db), Path::new(scratch)),
        ["searches", file, command @ ..] if !command.is_empty() => {
            searches(Path::new(file), command);
        }
        ["run", out, command @ ..] if !command.is_empty() => run(Path::new(out), command),
        ["spawn", n, command @ ..] if !command.is_empty() => spawn(n.parse().unwrap(), command),
        _ => {
            eprintln!(
                "use: parts tree TREE SCRATCH | integrity DB SCRATCH | fts DB SCRATCH | searches FILE CMD... | run OUT CMD... | spawn N CMD..."
            );
            std::process::exit(2);
        }
    }
}

fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let begun = Instant::now();
    let out = work();
    (begun.elapsed().as_secs_f64(), out)
}

fn best<T>(times: usize, mut work: impl FnMut() -> T) -> f64 {
    (0..times)
        .map(|_| timed(&mut work).0)
        .fold(f64::MAX, f64::min)
}

fn say(part: &str, seconds: f64, amount: u64, unit: &str) {
    println!("{part}\t{seconds:.6}\t{amount}\t{unit}");
}

/// A walk with one stat a file: what finding out that nothing changed can at best cost.
fn walk(tree: &Path) -> (Vec<PathBuf>, u64) {
    let mut bytes = 0;
    let mut files = Vec::new();
    for entry in walkdir::WalkDir::new(tree) {
        let entry = entry.expect("the tree can be read");
        if entry.file_type().is_file() {
            bytes += entry.metadata().expect("stat").len();
            files.push(entry.into_path());
        }
    }
    (files, bytes)
}

fn tree_parts(tree: &Path, scratch: &Path) {
    let (files, bytes) = walk(tree);
    let count = files.len() as u64;
    say("walk+stat", best(5, || walk(tree)), count, "files");

    let mut buffer = vec![0u8; CHUNK];
    let seconds = best(2, || {
        for path in &files {
            let mut file = File::open(path).expect("open");
            while file.read(&mut buffer).expect("read") > 0 {}
        }
    });
    say("read", seconds, bytes, "bytes");

    let each = |work: &(dyn Fn(&[u8]) + Sync)| {
        files.par_iter().for_each(|path| {
            let content = fs::read(path).expect("read");
            content.chunks(CHUNK).for_each(work);
        });
    };
    say(
        "read+blake3",
        best(2, || {
            each(&|c| {
                std::hint::black_box(blake3::hash(c));
            })
        }),
        bytes,
        "bytes",
    );
    let (seconds, ()) = timed(|| {
        each(&|c| {
            std::hint::black_box((blake3::hash(c), zstd::bulk::compress(c, 3).expect("zstd")));
        });
    });
    say("read+blake3+zstd3", seconds, bytes, "bytes");

    // What verifying stored objects can at best cost: decompress and hash.
    let frames: Vec<Vec<u8>> = files
        .par_iter()
        .flat_map_iter(|path| {
            let content = fs::read(path).expect("read");
            let frames: Vec<Vec<u8>> = content
                .chunks(CHUNK)
                .map(|c| zstd::bulk::compress(c, 3).expect("zstd"))
                .collect();
            frames
        })
        .collect();
    let stored: u64 = frames.iter().map(|f| f.len() as u64).sum();
    let seconds = best(2, || {
        frames.par_iter().for_each(|f| {
            let plain = zstd::bulk::decompress(f, CHUNK).expect("zstd");
            std::hint::black_box((blake3::hash(&plain), blake3::hash(f)));
        });
    });
    say("decompress+blake3", seconds, stored, "bytes");
    drop(frames);

    let parse_all = || -> u64 {
        files
            .par_iter()
            .map(|path| {
                let content = fs::read(path).expect("read");
                lines(&content)
                    .map(|l| u64::from(Row::of(l).is_some()))
                    .sum::<u64>()
            })
            .sum()
    };
    let (first, rows) = timed(parse_all);
    say("parse", first.min(best(1, parse_all)), rows, "rows");

    let (seconds, rows) = timed(|| insert(&files, &scratch.join("parts.db")));
    say("insert", seconds, rows, "rows");
    for end in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(scratch.join(format!("parts.db{end}")));
    }
}

fn lines(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    content.split(|b| *b == b'\n').filter(|l| !l.is_empty())
}

/// The few fields that any reader of these files needs; what is large stays raw.
#[derive(serde::Deserialize)]
struct Row<'a> {
    #[serde(borrow)]
    timestamp: std::borrow::Cow<'a, str>,
    #[serde(borrow, rename = "type")]
    kind: std::borrow::Cow<'a, str>,
    #[serde(borrow, default)]
    uuid: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    payload: Option<&'a RawValue>,
}

impl<'a> Row<'a> {
    fn of(line: &'a [u8]) -> Option<Row<'a>> {
        serde_json::from_slice(line).ok()
    }

    fn body(&self) -> &'a str {
        self.message.or(self.payload).map_or("", RawValue::get)
    }
}

/// The rows that an archive needs at least: one for each raw record with its place and hash, one
/// for each message with its text, each row with its own hash. One transaction a source.
fn insert(files: &[PathBuf], db: &Path) -> u64 {
    let mut conn = rusqlite::Connection::open(db).expect("open");
    conn.execute_batch(
        "pragma page_size=4096; pragma journal_mode=wal; pragma synchronous=full;
         pragma foreign_keys=on; pragma wal_autocheckpoint=0; pragma cache_size=-32768;
         create table sources(id integer primary key, path text not null unique, offset integer not null) strict;
         create table records(id integer primary key, source integer not null references sources(id),
           offset integer not null, len integer not null, line integer not null, type text not null,
           native_id text, hash blob not null, occurrence integer not null, time text, row_hash blob not null,
           unique(source, hash, occurrence)) strict;
         create table messages(id integer primary key, record integer not null references records(id),
           part integer not null, role text not null, text text not null, time text, row_hash blob not null,
           unique(record, part)) strict;",
    )
    .expect("schema");
    let mut rows = 0;
    for path in files {
        let content = fs::read(path).expect("read");
        let tx = conn.transaction().expect("begin");
        {
            let mut record = tx
                .prepare_cached("insert into records(source,offset,len,line,type,native_id,hash,occurrence,time,row_hash) values(?,?,?,?,?,?,?,0,?,?)")
                .expect("prepare");
            let mut message = tx
                .prepare_cached(
                    "insert into messages(record,part,role,text,time,row_hash) values(?,0,?,?,?,?)",
                )
                .expect("prepare");
            tx.execute(
                "insert into sources(path, offset) values(?, ?)",
                rusqlite::params![path.to_string_lossy(), content.len() as i64],
            )
            .expect("insert");
            let source = tx.last_insert_rowid();
            let mut offset = 0i64;
            for (n, line) in (1i64..).zip(content.split(|b| *b == b'\n')) {
                if let Some(row) = Row::of(line) {
                    let hash = blake3::hash(line);
                    let row_hash = XxHash3_128::oneshot(hash.as_bytes()).to_be_bytes();
                    record
                        .execute(rusqlite::params![
                            source,
                            offset,
                            line.len() as i64,
                            n,
                            row.kind,
                            row.uuid,
                            hash.as_bytes().as_slice(),
                            row.timestamp,
                            row_hash.as_slice()
                        ])
                        .expect("insert");
                    let id = tx.last_insert_rowid();
                    let body = row.body();
                    let row_hash = XxHash3_128::oneshot(body.as_bytes()).to_be_bytes();
                    message
                        .execute(rusqlite::params![
                            id,
                            row.kind,
                            body,
                            row.timestamp,
                            row_hash.as_slice()
                        ])
                        .expect("insert");
                    rows += 2;
                }
                offset += line.len() as i64 + 1;
            }
        }
        tx.commit().expect("commit");
    }
    conn.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()))
        .expect("checkpoint");
    rows
}

fn integrity(db: &Path, scratch: &Path) {
    let copy = scratch.join("integrity.db");
    fs::copy(db, &copy).expect("copy");
    let mut wal = db.as_os_str().to_owned();
    wal.push("-wal");
    if Path::new(&wal).exists() {
        fs::copy(&wal, scratch.join("integrity.db-wal")).expect("copy");
    }
    let bytes = fs::metadata(&copy).expect("stat").len();
    let conn = rusqlite::Connection::open(&copy).expect("open");
    let seconds = best(2, || {
        let verdict: String = conn
            .query_row("pragma integrity_check", [], |r| r.get(0))
            .expect("integrity_check");
        assert_eq!(verdict, "ok");
    });
    say("integrity_check", seconds, bytes, "bytes");
    drop(conn);
    for end in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(scratch.join(format!("integrity.db{end}")));
    }
}

/// The same texts in a table of their own, indexed by FTS5 as it comes: `unicode61`, external
/// content, one rebuild.
fn fts(db: &Path, scratch: &Path) {
    let path = scratch.join("fts.db");
    let conn = rusqlite::Connection::open(&path).expect("open");
    conn.execute_batch(&format!(
        "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-32768;
         ATTACH 'file:{}?mode=ro' AS a;
         CREATE TABLE t(id INTEGER PRIMARY KEY, text TEXT);
         INSERT INTO t SELECT id, text FROM a.messages;
         CREATE VIRTUAL TABLE f USING fts5(text, content='t', content_rowid='id');
         DETACH a;",
        db.display()
    ))
    .expect("the archive's texts");
    let bytes: i64 = conn
        .query_row("SELECT sum(length(CAST(text AS BLOB))) FROM t", [], |r| {
            r.get(0)
        })
        .expect("sum");
    let (seconds, ()) = timed(|| {
        conn.execute_batch("PRAGMA journal_mode=DELETE; INSERT INTO f(f) VALUES ('rebuild')")
            .expect("rebuild");
    });
    say("fts5 rebuild", seconds, bytes.unsigned_abs(), "bytes");
    drop(conn);
    let _ = fs::remove_file(&path);
}

fn searches(file: &Path, command: &[&str]) {
    let queries = fs::read_to_string(file).expect("queries");
    let (mut times, mut peak, mut found) = (Vec::new(), 0u64, 0u64);
    for query in queries.lines() {
        let begun = Instant::now();
        let mut child = Command::new(command[0])
            .args(&command[1..])
            .args(["--", query])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let status_file = format!("/proc/{}/status", child.id());
        let mut out = String::new();
        let mut pipe = child.stdout.take().expect("stdout");
        // Its document comes at the end; until then its memory is looked at.
        let reader = std::thread::spawn(move || {
            pipe.read_to_string(&mut out).expect("a document");
            out
        });
        while !reader.is_finished() {
            peak = peak.max(high_water(&status_file).unwrap_or(0));
            std::thread::sleep(Duration::from_micros(500));
        }
        let out = reader.join().expect("the reader ends");
        assert!(child.wait().expect("wait").success(), "{query}");
        times.push(begun.elapsed().as_secs_f64());
        found += u64::from(!out.contains("\"total\":0,"));
    }
    times.sort_by(f64::total_cmp);
    println!(
        "{:.6}\t{:.6}\t{peak}\t{found}",
        times[times.len() / 2],
        times[times.len() * 95 / 100]
    );
}

fn run(out: &Path, command: &[&str]) {
    let begun = Instant::now();
    let mut child = Command::new(command[0])
        .args(&command[1..])
        .stdin(Stdio::null())
        .stdout(File::create(out).expect("output file"))
        .stderr(Stdio::inherit())
        .spawn()
        .expect("the command starts");
    let status_file = format!("/proc/{}/status", child.id());
    let mut peak = 0u64;
    let code = loop {
        if let Some(kib) = high_water(&status_file) {
            peak = peak.max(kib);
        }
        if let Some(status) = child.try_wait().expect("wait") {
            break status.code().unwrap_or(-1);
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    println!("{code}\t{:.6}\t{peak}", begun.elapsed().as_secs_f64());
}

fn high_water(status_file: &str) -> Option<u64> {
    let text = fs::read_to_string(status_file).ok()?;
    let line = text.lines().find(|l| l.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn spawn(times: usize, command: &[&str]) {
    let mut all: Vec<f64> = (0..times.max(1))
        .map(|_| {
            timed(|| {
                Command::new(command[0])
                    .args(&command[1..])
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .status()
                    .expect("the command starts")
            })
            .0
        })
        .collect();
    all.sort_by(f64::total_cmp);
    println!(
        "{:.6}\t{:.6}",
        all[all.len() / 2],
        all[all.len() * 95 / 100]
    );
}
