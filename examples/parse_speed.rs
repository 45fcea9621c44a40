//! How fast sessions are parsed: `cargo run --release --example parse_speed -- FILE...`, each file
//! read several times from memory. Prints megabytes (10^6) a second, the best of the rounds.
#![allow(clippy::print_stdout)]

use std::io::{Cursor, Read};
use std::path::PathBuf;
use std::time::Instant;

use cass::ingest::parse::{MAX_HEAD, SourceName, decoded, open};
use cass::model::provider::Provider;
use cass::model::record::Piece;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut bytes_all, mut seconds_all) = (0.0, 0.0);
    for path in std::env::args_os().skip(1).map(PathBuf::from) {
        let mut bytes = Vec::new();
        decoded(&path, Box::new(std::fs::File::open(&path)?))?.read_to_end(&mut bytes)?;
        let provider = if path.to_string_lossy().contains("codex") {
            Provider::Codex
        } else {
            Provider::Claude
        };
        let mut best = f64::INFINITY;
        let mut records = 0u32;
        for _ in 0..7 {
            records = 0;
            let begin = Instant::now();
            let head = bytes.get(..MAX_HEAD).unwrap_or(&bytes);
            let name = SourceName {
                provider,
                path: &path,
            };
            let mut parser = open(name, Box::new(Cursor::new(&bytes)), head, None);
            while let Some(piece) = parser.next()? {
                records += u32::from(matches!(piece, Piece::Record(_)));
            }
            best = best.min(begin.elapsed().as_secs_f64());
        }
        #[allow(clippy::cast_precision_loss)]
        let size = bytes.len() as f64;
        bytes_all += size;
        seconds_all += best;
        println!(
            "{:8.1} MB/s {records:7} records  {}",
            size / best / 1e6,
            path.display()
        );
    }
    println!("{:8.1} MB/s over all", bytes_all / seconds_all / 1e6);
    Ok(())
}
