//! How fast a session log of DSH is examined.
//!
//! ```text
//! session_log_rate make LOG MEGABYTES   writes a sound log with so many of text, the same everywhere
//! session_log_rate LOG                  "what MB/s" of reading it with BLAKE3 and of examining it
//! ```
//!
//! A name that ends with `.zstd` is a log in zstd frames. Megabytes are 10^6 bytes, of the file where it is read; rounds are
//! five, the best counts; the most memory that was held is told in KiB.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::cast_precision_loss
)]

use std::fs::File;
use std::io::BufWriter;
use std::time::Instant;

use cass::session_log::{Form, ReadAt, examine};

#[path = "../tests/session_log/invented.rs"]
mod invented;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["make", path, megabytes] => {
            let mut out = BufWriter::new(File::create(path)?);
            let bytes = megabytes.parse::<u64>()? * 1_000_000;
            invented::write(&mut out, bytes, path.ends_with(".zstd"))?;
            out.into_inner()?;
            Ok(())
        }
        [path] => rate(path),
        _ => Err("use: session_log_rate make LOG MEGABYTES | session_log_rate LOG".into()),
    }
}

fn rate(path: &str) -> Result<(), Box<dyn std::error::Error>> {
    let file = File::open(path)?;
    let bytes = file.metadata()?.len() as f64;
    let form = Form {
        packed: path.ends_with(".zstd"),
        generation: None,
    };
    let (mut read, mut examined) = (f64::INFINITY, f64::INFINITY);
    let mut verdict = "";
    for _ in 0..5 {
        let begin = Instant::now();
        let mut hasher = blake3::Hasher::new();
        let mut buf = vec![0u8; 1 << 18];
        let mut at = 0;
        loop {
            let n = ReadAt::read_at(&file, &mut buf, at)?;
            if n == 0 {
                break;
            }
            hasher.update(buf.get(..n).unwrap_or_default());
            at += n as u64;
        }
        std::hint::black_box(hasher.finalize());
        read = read.min(begin.elapsed().as_secs_f64());
        let begin = Instant::now();
        verdict = examine(&file, form)?.verdict.name();
        examined = examined.min(begin.elapsed().as_secs_f64());
    }
    println!("{verdict}");
    println!("read\t{:.0}", bytes / 1e6 / read);
    println!("examined\t{:.0}", bytes / 1e6 / examined);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if let Some(line) = status.lines().find(|l| l.starts_with("VmHWM")) {
        println!("{line}");
    }
    Ok(())
}
