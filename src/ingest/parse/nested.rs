//! A record of a log that holds other records: they are read as records of their own, and its own
//! bytes before and behind them are two more.

use std::collections::VecDeque;
use std::ops::Range;

use super::ladder;
use super::scan::{Ended, Scan};
use super::window::len64;
use crate::ingest::provider::{LogReader, RawRecord};
use crate::model::digest::Digest;
use crate::model::record::{Disposition, Facts, ParsedRecord, Piece, SkipReason, Span};

/// Where the elements of the array lie to which the members in `path` lead, one inside the other.
/// `None` when there is no such array, or nothing in it.
pub(super) fn elements(bytes: &[u8], path: &[&str]) -> Option<Vec<Range<usize>>> {
    let mut scan = Scan::new(bytes);
    for name in path {
        if scan.peek() != Some(b'{') {
            return None;
        }
        scan.bump();
        loop {
            scan.pass_separators();
            if scan.peek() != Some(b'"') {
                return None;
            }
            let mut text = Vec::new();
            if scan.value(&mut text, bytes.len()) != Ended::Whole {
                return None;
            }
            scan.pass_separators();
            if serde_json::from_slice::<String>(&text).is_ok_and(|key| key == *name) {
                break;
            }
            if scan.value(&mut Vec::new(), bytes.len()) != Ended::Whole {
                return None;
            }
        }
    }
    if scan.peek() != Some(b'[') {
        return None;
    }
    scan.bump();
    let mut found = Vec::new();
    loop {
        scan.pass_separators();
        if scan.peek() == Some(b']') {
            return Some(found).filter(|all| !all.is_empty());
        }
        let from = usize::try_from(scan.offset()).ok()?;
        if scan.value(&mut Vec::new(), bytes.len()) != Ended::Whole {
            return None;
        }
        found.push(from..usize::try_from(scan.offset()).ok()?);
    }
}

/// The pieces of the record `whole`, whose bytes are `bytes` and hold records at `elements`: the
/// first says what the whole record says, without a message.
pub(super) fn pieces(
    reader: &mut dyn LogReader,
    whole: ParsedRecord,
    bytes: &[u8],
    elements: &[Range<usize>],
) -> (Piece, VecDeque<Piece>) {
    let mut out = Pieces {
        bytes,
        offset: whole.span.offset,
        line: whole.line,
        at: 0,
        rest: VecDeque::with_capacity(elements.len() * 2),
    };
    let first = elements.first().map_or(bytes.len(), |e| e.start);
    let end = ParsedRecord {
        native_id: None,
        native_parent: None,
        record_type: format!("{}/end", whole.record_type),
        disposition: Disposition::Known,
        facts: Facts::default(),
        ..whole.clone()
    };
    let begin = out.record(first, whole);
    for element in elements {
        out.separator(element.start);
        out.element(element.end, reader);
    }
    let end = out.record(bytes.len(), end);
    out.rest.push_back(end);
    (begin, out.rest)
}

/// Tiles the bytes of a record.
struct Pieces<'b> {
    bytes: &'b [u8],
    /// Where the bytes begin in the source, and the line of the next one.
    offset: u64,
    line: u64,
    /// How many of the bytes belong to a piece.
    at: usize,
    rest: VecDeque<Piece>,
}

impl<'b> Pieces<'b> {
    /// The bytes up to `end`, and their place.
    fn take(&mut self, end: usize) -> (&'b [u8], Span, u64) {
        let bytes = self.bytes.get(self.at..end).unwrap_or_default();
        let span = Span {
            offset: self.offset + len64(self.at),
            len: len64(bytes.len()),
        };
        let line = self.line;
        self.line += len64(memchr::memchr_iter(b'\n', bytes).count());
        self.at = end;
        (bytes, span, line)
    }

    fn record(&mut self, end: usize, what: ParsedRecord) -> Piece {
        let (bytes, span, line) = self.take(end);
        Piece::Record(Box::new(ParsedRecord {
            span,
            line,
            hash: Digest::of(bytes),
            ..what
        }))
    }

    fn separator(&mut self, end: usize) {
        if end > self.at {
            let (_, span, _) = self.take(end);
            self.rest.push_back(Piece::Separator(span));
        }
    }

    fn element(&mut self, end: usize, reader: &mut dyn LogReader) {
        let (bytes, span, line) = self.take(end);
        let Some(value) = ladder::document_value(bytes) else {
            self.rest.push_back(Piece::Skipped {
                span,
                line,
                reason: SkipReason::Fragment,
            });
            return;
        };
        let text = match &value.text {
            Some(text) => text.as_str(),
            None => std::str::from_utf8(bytes).unwrap_or_default(),
        };
        let hash = Digest::of(bytes);
        let reading = reader.read(RawRecord {
            text,
            line: serde_json::from_str(text).ok().as_ref(),
            offset: span.offset,
            hash: &hash,
        });
        self.rest.push_back(Piece::Record(Box::new(ParsedRecord {
            span,
            line,
            hash,
            recovery: value.recovery,
            session: reading.session,
            native_id: reading.native_id,
            native_parent: reading.native_parent,
            record_type: reading.record_type,
            time_ms: reading.time_ms,
            disposition: reading.disposition,
            facts: reading.facts,
        })));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_found_behind_other_members_and_inside_them() {
        let path = &["$set", "messages"];
        let text = br#"{"a":[{"$set":1}],"$set":{"x":"]","messages":[ {"id":"]"}, 2 ],"y":1}}"#;
        let found = elements(text, path).unwrap();
        let texts: Vec<&[u8]> = found.iter().map(|r| &text[r.clone()]).collect();
        assert_eq!(texts, [&br#"{"id":"]"}"#[..], b"2"]);
        for none in [
            &b"{}"[..],
            b"[]",
            br#"{"$set":{"messages":[]}}"#,
            br#"{"$set":{"messages":{}}}"#,
            br#"{"$set":[{"messages":[1]}]}"#,
            br#"{"$set":{"messages":[1"#,
        ] {
            assert_eq!(elements(none, path), None);
        }
    }
}
