//! A window over a stream: what is read and not yet consumed. It grows to one segment and shrinks
//! again, so memory is bounded by the longest segment that is parsed, not by the source.

use std::fmt;
use std::io::{self, Read};

/// Bytes the window holds when nothing long is in it.
const USUAL: usize = 256 * 1024;

/// What ends a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// A line feed.
    Newline,
    /// A NUL byte: no JSON text holds one, so nothing is parsed across it.
    Nul,
    /// The end of the content.
    End,
    /// The limit: no stop within so many bytes.
    Limit,
}

pub(super) struct Window<'r> {
    content: Box<dyn Read + 'r>,
    buf: Vec<u8>,
    start: usize,
    end: usize,
    offset: u64,
    finished: bool,
    error: Option<io::Error>,
}

impl fmt::Debug for Window<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Window")
            .field("offset", &self.offset)
            .field("unread", &(self.end - self.start))
            .field("finished", &self.finished)
            .finish_non_exhaustive()
    }
}

impl<'r> Window<'r> {
    pub(super) fn new(content: Box<dyn Read + 'r>, offset: u64) -> Self {
        Window {
            content,
            buf: vec![0; USUAL],
            start: 0,
            end: 0,
            offset,
            finished: false,
            error: None,
        }
    }

    /// Offset of the first unread byte.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// What is in memory and unread.
    pub(super) fn rest(&self) -> &[u8] {
        self.buf.get(self.start..self.end).unwrap_or_default()
    }

    /// The first unread byte, read if need be.
    pub(super) fn first(&mut self) -> Option<u8> {
        if self.start == self.end {
            self.fill();
        }
        self.rest().first().copied()
    }

    /// The error that ended the content early, if one did. Its causes are handed out once; later
    /// on only its words are left.
    pub(super) fn error(&mut self) -> Option<io::Error> {
        let words = self
            .error
            .as_ref()
            .map(|e| io::Error::new(e.kind(), e.to_string()));
        std::mem::replace(&mut self.error, words)
    }

    /// Passes `n` unread bytes.
    pub(super) fn consume(&mut self, n: usize) {
        let n = n.min(self.end - self.start);
        self.start += n;
        self.offset = self.offset.saturating_add(len64(n));
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Reads more; `false` at the end.
    pub(super) fn fill(&mut self) -> bool {
        if self.finished {
            return false;
        }
        if self.buf.len() > 4 * USUAL && self.end - self.start < USUAL / 2 {
            // What was long is through: give its room back.
            let mut usual = vec![0; USUAL];
            let unread = self.end - self.start;
            if let (Some(to), Some(from)) =
                (usual.get_mut(..unread), self.buf.get(self.start..self.end))
            {
                to.copy_from_slice(from);
            }
            self.buf = usual;
            self.start = 0;
            self.end = unread;
        }
        if self.end == self.buf.len() {
            if self.start > self.buf.len() / 2 {
                self.buf.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            } else {
                let grown = self.buf.len().saturating_mul(2);
                self.buf.resize(grown, 0);
            }
        }
        loop {
            let Some(room) = self.buf.get_mut(self.end..) else {
                return false;
            };
            match self.content.read(room) {
                Ok(0) => self.finished = true,
                Ok(n) => {
                    // A reader that claims more than it was given room for is not believed.
                    self.end = (self.end + n).min(self.buf.len());
                    return true;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => {
                    self.finished = true;
                    self.error = Some(e);
                }
            }
            return false;
        }
    }

    /// Length of the segment that begins `from` bytes into the window, counted from the window's
    /// begin, and what ends it. Looks no further than `limit` bytes from the window's begin.
    pub(super) fn segment(&mut self, from: usize, limit: usize) -> (usize, Stop) {
        let mut looked = from;
        loop {
            let rest = self.rest();
            let until = rest.len().min(limit);
            if let Some(at) = rest
                .get(looked..until)
                .and_then(|s| memchr::memchr2(b'\n', 0, s))
            {
                let at = looked + at;
                let stop = if rest.get(at) == Some(&0) {
                    Stop::Nul
                } else {
                    Stop::Newline
                };
                return (at, stop);
            }
            looked = looked.max(until);
            if until == limit {
                return (limit, Stop::Limit);
            }
            if !self.fill() {
                return (self.rest().len(), Stop::End);
            }
        }
    }

    /// Passes bytes while `belongs` holds; the number passed. Memory stays flat.
    pub(super) fn pass_while(&mut self, mut belongs: impl FnMut(u8) -> bool) -> u64 {
        let mut passed = 0u64;
        while self.first().is_some() {
            let rest = self.rest();
            let n = rest.iter().position(|b| !belongs(*b)).unwrap_or(rest.len());
            let all = n == rest.len();
            self.consume(n);
            passed = passed.saturating_add(len64(n));
            if !all {
                break;
            }
        }
        passed
    }

    /// Passes bytes up to the next line feed or the end; the number passed and which it was.
    pub(super) fn pass_line(&mut self) -> (u64, Stop) {
        let mut passed = 0u64;
        while self.first().is_some() {
            let rest = self.rest();
            let (n, found) = match memchr::memchr(b'\n', rest) {
                Some(at) => (at, true),
                None => (rest.len(), false),
            };
            self.consume(n);
            passed = passed.saturating_add(len64(n));
            if found {
                return (passed, Stop::Newline);
            }
        }
        (passed, Stop::End)
    }
}

/// A length in memory as a length in a file.
pub(super) fn len64(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}
