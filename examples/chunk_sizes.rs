//! Prints what sizes of pieces cost, for the decision in `docs/adr/0002-mirror-format.md`.
//!
//! `cargo run --release --example chunk_sizes -- FILE.jsonl [DATABASE]`. Without a file it makes
//! one up. Nothing is written.

use std::collections::HashSet;
use std::io::{self, Write};
use std::time::Instant;

use fastcdc::v2020::FastCDC;

/// Bytes a piece costs beside its payload: header of its record and its line in a recipe.
const PER_PIECE: usize = 53 + 36;

fn main() -> io::Result<()> {
    let mut args = std::env::args_os().skip(1);
    let text = match args.next() {
        Some(path) => std::fs::read(path)?,
        None => made_up(60_000),
    };
    let mut out = io::stdout().lock();
    let mut edited = text.clone();
    for part in 1..=4 {
        let at = edited.len() * part / 5;
        edited.splice(at..at, b"{\"type\":\"one line put in\"}\n".iter().copied());
    }
    writeln!(
        out,
        "text of {} bytes; edited: one line put in at four places",
        text.len()
    )?;
    writeln!(
        out,
        "{:>10} {:>12} {:>12} {:>8}",
        "average", "stored", "edited adds", "MB/s"
    )?;
    for avg in [16usize, 64, 128, 256, 512, 1024, 2048] {
        let avg = avg << 10;
        let mut seen = HashSet::new();
        let begun = Instant::now();
        let first = store(text_pieces(&text, avg), &mut seen)?;
        let speed = text.len() as f64 / begun.elapsed().as_secs_f64() / 1e6;
        let more = store(text_pieces(&edited, avg), &mut seen)?;
        writeln!(
            out,
            "{:>7} KiB {first:>12} {more:>12} {speed:>8.0}",
            avg >> 10
        )?;
    }
    if let Some(path) = args.next() {
        let database = std::fs::read(path)?;
        let mut changed = database.clone();
        for page in changed.chunks_mut(4096).step_by(97) {
            if let Some(last) = page.last_mut() {
                *last ^= 1;
            }
        }
        writeln!(
            out,
            "database of {} bytes; changed: one page in 97",
            database.len()
        )?;
        writeln!(
            out,
            "{:>10} {:>12} {:>14} {:>12}",
            "block", "stored", "whole blocks", "pages only"
        )?;
        let pages: Vec<u8> = changed
            .chunks(4096)
            .step_by(97)
            .flatten()
            .copied()
            .collect();
        let pages_only = compressed(&pages)? + pages.len() / 4096 * 8;
        for block in [4usize, 16, 32, 64, 128, 256] {
            let block = block << 10;
            let mut seen = HashSet::new();
            let first = store(database.chunks(block), &mut seen)?;
            let more = store(changed.chunks(block), &mut seen)?;
            writeln!(
                out,
                "{:>7} KiB {first:>12} {more:>14} {pages_only:>12}",
                block >> 10
            )?;
        }
    }
    Ok(())
}

fn text_pieces(bytes: &[u8], avg: usize) -> impl Iterator<Item = &[u8]> {
    let max = (avg * 4).min(4 << 20);
    FastCDC::new(bytes, avg / 4, avg, max).map(|c| &bytes[c.offset..c.offset + c.length])
}

fn store<'b>(
    pieces: impl Iterator<Item = &'b [u8]>,
    seen: &mut HashSet<blake3::Hash>,
) -> io::Result<usize> {
    let mut stored = 0;
    for piece in pieces {
        if seen.insert(blake3::hash(piece)) {
            stored += compressed(piece)? + PER_PIECE;
        }
    }
    Ok(stored)
}

fn compressed(bytes: &[u8]) -> io::Result<usize> {
    Ok(zstd::bulk::compress(bytes, 3)?.len().min(bytes.len()))
}

/// Lines that compress about as well as a session does.
fn made_up(count: u64) -> Vec<u8> {
    let mut out = Vec::new();
    for i in 0..count {
        let id = blake3::hash(&i.to_le_bytes()).to_hex();
        out.extend_from_slice(
            format!(
                "{{\"type\":\"message\",\"uuid\":\"{}\",\"text\":\"",
                &id[..32]
            )
            .as_bytes(),
        );
        for (k, byte) in id.bytes().enumerate().take(40) {
            let word = [
                "the error ",
                "returns ",
                "src/main.rs ",
                "let value ",
                "because ",
            ][usize::from(byte) % 5];
            out.extend_from_slice(word.as_bytes());
            if k % 9 == 0 {
                out.extend_from_slice(&id.as_bytes()[k..k + 6]);
            }
        }
        out.extend_from_slice(b"\"}\n");
    }
    out
}
