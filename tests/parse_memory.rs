//! Memory while parsing does not grow with the source. One test in a process of its own, since the
//! mark that it reads is the whole process'.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::Read;
use std::path::Path;

use cass::ingest::parse::{MAX_LINE, SourceName, open};
use cass::model::provider::Provider;
use cass::model::record::{Piece, SkipReason};

/// The high-water mark of this process' memory, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
    line.split_ascii_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        * 1024
}

/// `head`, then `block` so often, then `tail`, made as it is read.
struct Made {
    parts: Vec<(Vec<u8>, u64)>,
    at: usize,
}

impl Read for Made {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let Some((part, times)) = self.parts.first_mut() else {
            return Ok(0);
        };
        let n = buf.len().min(part.len() - self.at);
        buf[..n].copy_from_slice(&part[self.at..self.at + n]);
        self.at += n;
        if self.at == part.len() {
            self.at = 0;
            *times -= 1;
            if *times == 0 {
                self.parts.remove(0);
            }
        }
        Ok(n)
    }
}

const SMALL: &[u8] = b"{\"type\":\"user\",\"uuid\":\"a\",\"message\":{\"content\":\"x\"}}\n";

/// Records, skips by reason, and how far the mark rose.
fn parse(parts: Vec<(Vec<u8>, u64)>) -> (u64, Vec<SkipReason>, u64) {
    let before = peak();
    let len: u64 = parts
        .iter()
        .map(|(part, times)| part.len() as u64 * times)
        .sum();
    let name = SourceName {
        provider: Provider::Claude,
        path: Path::new("/s/x.jsonl"),
    };
    let mut parser = open(name, Box::new(Made { parts, at: 0 }), b"", None);
    let (mut records, mut skips) = (0, Vec::new());
    while let Some(piece) = parser.next().unwrap() {
        match piece {
            Piece::Record(_) => records += 1,
            Piece::Separator(_) => {}
            Piece::Skipped { reason, .. } => skips.push(reason),
        }
    }
    assert_eq!(parser.total(), len);
    (records, skips, peak() - before)
}

#[test]
fn memory_is_bounded_by_the_longest_line_that_is_parsed() {
    const MIB: u64 = 1 << 20;
    let one = |b: &[u8]| (b.to_vec(), 1);

    // 20 MB in small records.
    let (records, skips, rise) = parse(vec![(SMALL.to_vec(), 400_000)]);
    assert_eq!((records, skips.len()), (400_000, 0));
    assert!(rise < 4 * MIB, "{rise}");

    // 256 MiB of zeros on the line of a record.
    let zeros = (vec![0; 1 << 20], 256);
    let (records, skips, rise) = parse(vec![one(b"{\"type\":\"user\"}"), zeros, one(SMALL)]);
    assert_eq!((records, &*skips), (2, &[SkipReason::NulBlock][..]));
    assert!(rise < 4 * MIB, "{rise}");

    // 256 MiB on one line: the limit, and the copy that made room for it.
    let long = (vec![b'x'; 1 << 20], 256);
    let (records, skips, rise) = parse(vec![one(b"{\"type\":\""), long, one(b"\"}\n"), one(SMALL)]);
    assert_eq!((records, &*skips), (1, &[SkipReason::Oversized][..]));
    assert!(rise < MAX_LINE as u64 * 2, "{rise}");
}
