//! How fast a session log of DSH is examined: `cargo run --release --example session_log_rate -- LOG`,
//! a raw log or one in zstd frames. Prints megabytes (10^6) of the file a second, the best of five
//! rounds, beside those of reading it with BLAKE3, and the most memory that was held.
#![allow(clippy::print_stdout, clippy::cast_precision_loss)]

use std::fs::File;
use std::time::Instant;

use cass::session_log::{Form, ReadAt, examine};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("name a log")?;
    let file = File::open(&path)?;
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
    println!("read     {:.0} MB/s", bytes / 1e6 / read);
    println!("examined {:.0} MB/s", bytes / 1e6 / examined);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if let Some(line) = status.lines().find(|l| l.starts_with("VmHWM")) {
        println!("{line}");
    }
    Ok(())
}
