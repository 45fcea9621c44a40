//! How fast an archive is read page by page: `cargo run --release --example salvage_rate -- FILE`.
//! Prints megabytes (10^6) a second, the best of the rounds, beside those of reading the same file
//! from the cache with BLAKE3, and the most memory that was held.
#![allow(clippy::print_stdout, clippy::cast_precision_loss)]

use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use cass::disk::{ArchiveShared, Root};
use cass::store::archive::Rescued;

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
    let bytes = std::fs::metadata(&path)?.len() as f64;
    let (mut read, mut salvaged) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..5 {
        let begin = Instant::now();
        let mut file = std::fs::File::open(&path)?;
        let mut hasher = blake3::Hasher::new();
        let mut buf = vec![0u8; 1 << 20];
        loop {
            let n = file.read(&mut buf)?;
            if n == 0 {
                break;
            }
            hasher.update(buf.get(..n).unwrap_or_default());
        }
        std::hint::black_box(hasher.finalize());
        read = read.min(begin.elapsed().as_secs_f64());
        let begin = Instant::now();
        std::hint::black_box(Rescued::salvage(&root, name, &lock)?);
        salvaged = salvaged.min(begin.elapsed().as_secs_f64());
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let most = status.lines().find(|l| l.starts_with("VmHWM"));
    println!(
        "read and hash {:.0} MB/s, page by page {:.0} MB/s, ratio {:.2}; {}",
        bytes / read / 1e6,
        bytes / salvaged / 1e6,
        read / salvaged,
        most.unwrap_or_default()
    );
    Ok(())
}
