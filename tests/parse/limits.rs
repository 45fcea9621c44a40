//! Sizes: flat memory, a limit for one line, and no quadratic time.

use std::io::Read;
use std::path::Path;

use cass::ingest::parse::{MAX_LINE, SourceName, open, open_limited};
use cass::model::provider::Provider;
use cass::model::record::{Disposition, Piece, SkipReason};

use crate::support::*;

/// A stream that is made as it is read.
struct Made<F> {
    next: F,
    held: Vec<u8>,
    at: usize,
}

impl<F: FnMut() -> Option<Vec<u8>>> Read for Made<F> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        while self.at == self.held.len() {
            let Some(next) = (self.next)() else {
                return Ok(0);
            };
            (self.held, self.at) = (next, 0);
        }
        let n = buf.len().min(self.held.len() - self.at);
        buf[..n].copy_from_slice(&self.held[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

fn made<'r>(parts: impl Iterator<Item = Vec<u8>> + 'r) -> Box<dyn Read + 'r> {
    let mut parts = parts;
    Box::new(Made {
        next: move || parts.next(),
        held: Vec::new(),
        at: 0,
    })
}

fn name() -> SourceName<'static> {
    SourceName {
        provider: Provider::Claude,
        path: Path::new("/s/x.jsonl"),
    }
}

const SMALL: &str = "{\"type\":\"user\",\"uuid\":\"a\",\"message\":{\"content\":\"x\"}}\n";

#[test]
fn a_line_over_the_limit_is_passed_over_and_the_ones_behind_it_are_read() {
    // 80 MB in one line, made as it is read, between two small records.
    let block = vec![b'x'; 1 << 20];
    let long = std::iter::once(b"{\"type\":\"user\",\"x\":\"".to_vec())
        .chain(std::iter::repeat_n(block, 80))
        .chain(std::iter::once(b"\"}\n".to_vec()));
    let small = || std::iter::once(SMALL.as_bytes().to_vec());
    let mut parser = open(name(), made(small().chain(long).chain(small())), b"", None);
    let pieces = drain(&mut parser);
    assert_eq!(records(&pieces).len(), 2);
    let (begin, len) = (SMALL.len() as u64, (80 << 20) + 22);
    assert!(pieces.iter().any(|p| matches!(
        p,
        Piece::Skipped { span, line: 2, reason: SkipReason::Oversized }
            if span.offset == begin && span.len == len
    )));
    assert_eq!(records(&pieces)[1].line, 3);
    assert_eq!(parser.total(), parser.resume().offset);
}

#[test]
fn an_unfinished_line_over_the_limit_is_a_torn_tail() {
    let text = format!("{SMALL}{{\"type\":\"{}", "x".repeat(500));
    let content = Box::new(text.as_bytes());
    let mut parser = open_limited(name(), content, b"", None, 100);
    let pieces = drain(&mut parser);
    check_tiles(&pieces, 0, text.as_bytes(), 1);
    assert_eq!(torn_start(pieces.last().unwrap()), Some(SMALL.len() as u64));
    assert_eq!(parser.resume().offset, SMALL.len() as u64);
    assert_eq!(parser.resume().line, 2);
    let (finished, cut) = (format!("{text}\"}}\n{SMALL}"), SMALL.len());
    let mut parser = open_limited(
        name(),
        Box::new(&finished.as_bytes()[cut..]),
        b"",
        Some(parser.resume()),
        100,
    );
    let pieces = drain(&mut parser);
    check_tiles(&pieces, cut as u64, finished.as_bytes(), 2);
    assert!(matches!(
        pieces[0],
        Piece::Skipped {
            reason: SkipReason::Oversized,
            ..
        }
    ));
    assert_eq!(records(&pieces).len(), 1);
}

#[test]
fn a_line_under_the_limit_is_parsed_and_its_payload_is_not_kept() {
    let payload = "QUFB".repeat(5 << 20);
    let line = format!(
        r#"{{"type":"user","message":{{"content":[{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{payload}"}}}},{{"type":"text","text":"see data:image/png;base64,{payload} here"}}]}}}}"#
    );
    assert!(line.len() > 40_000_000 && line.len() < MAX_LINE);
    let mut parser = open(name(), Box::new(line.as_bytes()), b"", None);
    let pieces = drain(&mut parser);
    let hash = blake3::hash(&vec![b'A'; 15 << 20]);
    let description = format!("[image/png, {} bytes, blake3 {hash}]", 15 << 20);
    let Disposition::Messages(m) = &records(&pieces)[0].disposition else {
        panic!()
    };
    assert_eq!(m[0].text, description);
    assert_eq!(m[1].text, format!("see {description} here"));
}

#[test]
fn three_hundred_thousand_small_records() {
    let parts = (0..300_000).map(|n| {
        format!("{{\"type\":\"user\",\"uuid\":\"{n}\",\"message\":{{\"content\":\"{n}\"}}}}\n")
            .into_bytes()
    });
    let mut parser = open(name(), made(parts), b"", None);
    let (mut n, mut end) = (0u32, 0);
    while let Some(piece) = parser.next().unwrap() {
        assert_eq!(span(&piece).offset, end);
        end = span(&piece).end();
        n += u32::from(matches!(piece, Piece::Record(_)));
    }
    assert_eq!(n, 300_000);
    assert!(parser.resume().state.len() < 16 * 1024);
}

#[test]
fn many_values_on_one_line_and_many_begins_of_records_take_linear_time() {
    // Each of these took minutes if a step looked through the rest of the line for every value.
    let glued = SMALL.trim_end().repeat(40_000);
    let pieces = parse(Provider::Claude, Path::new("/s/x.jsonl"), glued.as_bytes());
    assert_eq!(records(&pieces).len(), 40_000);
    for text in [
        "{\"type\":\"user\",".repeat(100_000) + "\n",
        "{\"type\":\"user\",\"x\":\"".repeat(100_000) + "\n",
        "{\"type\":\"user\"} ".repeat(100_000) + "\n",
        ("{\"type\":".repeat(250) + "{\"type\":\"user\"}{}").repeat(300) + "\n",
        "{\"type\":\"user\"}x".repeat(100_000) + "\n",
        format!("{}\n", "{\"type\":\"\n".repeat(50_000)),
        ";base64,data:".repeat(100_000),
    ] {
        parse(Provider::Claude, Path::new("/s/x.jsonl"), text.as_bytes());
    }
}

#[test]
fn a_failing_read_is_an_error_behind_everything_whole() {
    struct Failing(u32);
    impl Read for Failing {
        fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
            self.0 += 1;
            match self.0 {
                1 => {
                    let text = format!("{SMALL}{SMALL}{{\"type\"");
                    buf[..text.len()].copy_from_slice(text.as_bytes());
                    Ok(text.len())
                }
                2 => Err(std::io::ErrorKind::Interrupted.into()),
                _ => Err(std::io::Error::other("gone")),
            }
        }
    }
    let mut parser = open(name(), Box::new(Failing(0)), b"", None);
    let mut n = 0;
    let error = loop {
        match parser.next() {
            Ok(Some(Piece::Record(_))) => n += 1,
            Ok(Some(Piece::Separator(_))) => {}
            Ok(other) => panic!("{other:?}"),
            Err(e) => break e,
        }
    };
    assert_eq!(n, 2);
    assert!(error.message().contains("/s/x.jsonl"));
    // It does not turn into an end.
    assert!(parser.next().is_err());
    assert_eq!(parser.resume().offset, 2 * SMALL.len() as u64);
}
