//! What must hold for any bytes of a session or a database. The fuzz targets run these on what the
//! fuzzer makes up, the test `fuzz_corpus` on what is kept in `corpus/`.

use std::io::{Cursor, Read};
use std::path::Path;

use cass::ingest::parse::{SourceName, open, open_limited};
use cass::model::provider::Provider;
use cass::model::record::{Piece, ResumePoint};

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
    // A row has a hash of 16 bytes at least, and each is counted once.
    let rows: u64 = once.values().sum();
    assert!(rows * 16 <= bytes.len() as u64, "{once:?}");
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
