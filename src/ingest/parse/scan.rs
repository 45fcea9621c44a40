//! A walk over the bytes of a JSON text in flat memory: where values begin and end.

use std::fmt;
use std::io::{self, Read};

/// Bytes read at once.
const BLOCK: usize = 64 << 10;
/// Brackets inside one another; deeper ones count as broken.
const MAX_DEPTH: usize = 1 << 16;

/// How a value ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// At its end.
    Whole,
    /// At its end, but longer than what is kept.
    TooLong,
    /// At a bracket that closes another one, or where no value can begin.
    Broken,
    /// At the end of the content.
    Torn,
}

pub(super) struct Scan<R> {
    content: R,
    buf: Vec<u8>,
    start: usize,
    offset: u64,
    error: Option<io::Error>,
    finished: bool,
}

impl<R> fmt::Debug for Scan<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan")
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

impl<R: Read> Scan<R> {
    pub(super) fn new(content: R) -> Self {
        Scan {
            content,
            buf: Vec::new(),
            start: 0,
            offset: 0,
            error: None,
            finished: false,
        }
    }

    /// Offset of the next byte.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The error that ended the content, if one did.
    pub(super) fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }

    pub(super) fn peek(&mut self) -> Option<u8> {
        if self.start == self.buf.len() {
            self.fill();
        }
        self.buf.get(self.start).copied()
    }

    pub(super) fn bump(&mut self) {
        if self.start < self.buf.len() {
            self.start += 1;
            self.offset += 1;
        }
    }

    fn fill(&mut self) {
        self.start = 0;
        self.buf.resize(BLOCK, 0);
        let mut got = 0;
        while !self.finished && got == 0 {
            match self.content.read(&mut self.buf) {
                Ok(0) => self.finished = true,
                Ok(n) => got = n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    self.finished = true;
                    self.error = Some(e);
                }
            }
        }
        self.buf.truncate(got);
    }

    /// Passes over bytes of one kind and counts the line feeds among them.
    fn pass(&mut self, belongs: fn(u8) -> bool) -> u64 {
        let mut lines = 0;
        while let Some(b) = self.peek() {
            if !belongs(b) {
                break;
            }
            lines += u64::from(b == b'\n');
            self.bump();
        }
        lines
    }

    /// White space, and a byte-order mark at the begin.
    pub(super) fn pass_gap(&mut self) -> u64 {
        if self.offset == 0 && self.peek() == Some(0xef) && self.buf.starts_with(b"\xef\xbb\xbf") {
            for _ in 0..3 {
                self.bump();
            }
        }
        self.pass(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n'))
    }

    /// White space, commas and colons.
    pub(super) fn pass_separators(&mut self) -> u64 {
        self.pass(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n' | b',' | b':'))
    }

    /// Everything to the end.
    pub(super) fn pass_all(&mut self) -> u64 {
        self.pass(|_| true)
    }

    /// The bytes up to offset `to`, at most `limit` of them kept; whether they all were.
    pub(super) fn until(&mut self, to: u64, keep: &mut Vec<u8>, limit: usize) -> bool {
        let mut whole = true;
        while self.offset < to {
            let Some(b) = self.peek() else {
                return false;
            };
            if keep.len() < limit {
                keep.push(b);
            } else {
                whole = false;
            }
            self.bump();
        }
        whole
    }

    /// The closing bracket of the array of records and what follows it, up to the bracket that
    /// closes the document; false when it does not end there or is longer than `limit`.
    pub(super) fn frame_end(&mut self, keep: &mut Vec<u8>, limit: usize) -> bool {
        keep.push(b']');
        self.bump();
        loop {
            let before = self.offset;
            let mut gap = Vec::new();
            while let Some(b) = self.peek() {
                if !matches!(b, b' ' | b'\t' | b'\r' | b'\n' | b',' | b':') {
                    break;
                }
                gap.push(b);
                self.bump();
            }
            keep.extend(gap);
            match self.peek() {
                Some(b'}') => {
                    keep.push(b'}');
                    self.bump();
                    return keep.len() <= limit;
                }
                None => return false,
                Some(_) => {
                    let mut value = Vec::new();
                    let ended = self.value(&mut value, limit);
                    keep.extend(value);
                    if ended != Ended::Whole || keep.len() > limit || self.offset == before {
                        return false;
                    }
                }
            }
        }
    }

    /// Passes over one value, whose bytes are kept up to `limit`.
    pub(super) fn value(&mut self, keep: &mut Vec<u8>, limit: usize) -> Ended {
        let mut open: Vec<bool> = Vec::new();
        let mut too_long = false;
        let mut take = |scan: &mut Self, b: u8| {
            if too_long {
                // What is too long is not kept from its middle on either.
            } else if keep.len() < limit {
                keep.push(b);
            } else {
                too_long = true;
                keep.clear();
                keep.shrink_to_fit();
            }
            scan.bump();
        };
        let ended = loop {
            let Some(b) = self.peek() else {
                break Ended::Torn;
            };
            match b {
                b'{' | b'[' => {
                    if open.len() == MAX_DEPTH {
                        break Ended::Broken;
                    }
                    open.push(b == b'{');
                    take(self, b);
                }
                b'}' | b']' => {
                    if open.pop() != Some(b == b'}') {
                        break Ended::Broken;
                    }
                    take(self, b);
                    if open.is_empty() {
                        break Ended::Whole;
                    }
                }
                b'"' => {
                    take(self, b);
                    let mut escaped = false;
                    let closed = loop {
                        let Some(b) = self.peek() else {
                            break false;
                        };
                        take(self, b);
                        match b {
                            _ if escaped => escaped = false,
                            b'\\' => escaped = true,
                            b'"' => break true,
                            _ => {}
                        }
                    };
                    if !closed {
                        break Ended::Torn;
                    }
                    if open.is_empty() {
                        break Ended::Whole;
                    }
                }
                _ if open.is_empty() => {
                    // A number or a word: to the next byte that can't belong to one.
                    let begun = self.offset;
                    while let Some(b) = self.peek() {
                        if !(b.is_ascii_alphanumeric() || matches!(b, b'-' | b'+' | b'.')) {
                            break;
                        }
                        take(self, b);
                    }
                    break if self.offset == begun {
                        Ended::Broken
                    } else {
                        Ended::Whole
                    };
                }
                _ => take(self, b),
            }
        };
        match ended {
            Ended::Whole if too_long => Ended::TooLong,
            ended => ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> (Ended, String, u64) {
        let mut scan = Scan::new(text.as_bytes());
        let mut keep = Vec::new();
        let ended = scan.value(&mut keep, 1000);
        (ended, String::from_utf8(keep).unwrap(), scan.offset())
    }

    #[test]
    fn a_value_ends_where_its_brackets_do() {
        assert_eq!(
            value(r#"{"a":["}",{}],"b":"\""} x"#),
            (Ended::Whole, r#"{"a":["}",{}],"b":"\""}"#.into(), 23)
        );
        assert_eq!(value("12.5e3,"), (Ended::Whole, "12.5e3".into(), 6));
        assert_eq!(value("\"a\\\"b\" "), (Ended::Whole, "\"a\\\"b\"".into(), 6));
        assert_eq!(value("[1,{]").0, Ended::Broken);
        assert_eq!(value("?").0, Ended::Broken);
        assert_eq!(value("[\"abc").0, Ended::Torn);
        assert_eq!(value("").0, Ended::Torn);
    }

    #[test]
    fn a_long_value_is_passed_over() {
        let text = format!("\"{}\",1", "x".repeat(5000));
        let mut scan = Scan::new(text.as_bytes());
        let mut keep = Vec::new();
        assert_eq!(scan.value(&mut keep, 1000), Ended::TooLong);
        assert!(keep.is_empty());
        assert_eq!(scan.peek(), Some(b','));
    }
}
