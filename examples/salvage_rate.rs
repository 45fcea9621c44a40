//! How fast an archive is read page by page: `cargo run --release --example salvage_rate -- FILE`.
//! A line for each figure, tab separated: name, megabytes (10^6) a second, the best of the rounds.
//!
//! - `read+blake3`: the same file from the cache, in pieces of 1 MiB, by one thread.
//! - `read+blake3 threads`: by as many threads as read the pages.
//! - `salvage`: every page looked at, every row verified.
//!
//! The last line is the most memory that was held, in MiB.
#![allow(clippy::print_stdout, clippy::cast_precision_loss)]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use cass::disk::{ArchiveShared, Root};
use cass::store::archive::Rescued;

const PIECE: u64 = 1 << 20;

/// Reads the file with this many threads and hashes it, a megabyte at a time.
fn read_and_hash(path: &Path, len: u64, threads: u64) -> io::Result<()> {
    let file = File::open(path)?;
    let file = &file;
    std::thread::scope(|scope| {
        let reads: Vec<_> = (0..threads)
            .map(|n| {
                scope.spawn(move || -> io::Result<()> {
                    let mut buf = vec![0u8; 1 << 20];
                    let mut at = n * PIECE;
                    while at < len {
                        let got = file.read_at(&mut buf, at)?;
                        let bytes = buf.get(..got).unwrap_or_default();
                        std::hint::black_box(blake3::hash(bytes));
                        at += threads * PIECE;
                    }
                    Ok(())
                })
            })
            .collect();
        reads.into_iter().try_for_each(|read| {
            read.join()
                .unwrap_or_else(|_| Err(io::Error::other("a thread ended early")))
        })
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arg = std::env::args_os().nth(1).ok_or("name a database file")?;
    let path = Path::new(&arg).canonicalize()?;
    let folder = path.parent().ok_or("a file has a folder")?;
    let name = path
        .file_name()
        .and_then(|n| n.to_str())
        .ok_or("a file has a name")?;
    let root = Root::open(folder)?.ok_or("nothing is there")?;
    let lock = ArchiveShared::acquire(&root, Duration::ZERO)?;
    let bytes = std::fs::metadata(&path)?.len();
    let threads = std::thread::available_parallelism()?.get() as u64;
    let names = ["read+blake3", "read+blake3 threads", "salvage"];
    let mut best = [f64::INFINITY; 3];
    for _ in 0..5 {
        for (n, best) in best.iter_mut().enumerate() {
            let begin = Instant::now();
            match n {
                0 => read_and_hash(&path, bytes, 1)?,
                1 => read_and_hash(&path, bytes, threads)?,
                _ => drop(std::hint::black_box(Rescued::salvage(&root, name, &lock)?)),
            }
            *best = best.min(begin.elapsed().as_secs_f64());
        }
    }
    for (name, seconds) in names.iter().zip(best) {
        println!("{name}\t{:.0}", bytes as f64 / seconds / 1e6);
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let most = status
        .lines()
        .find_map(|l| l.strip_prefix("VmHWM:"))
        .and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok())
        .unwrap_or(0);
    println!("memory\t{}", most / 1024);
    Ok(())
}
