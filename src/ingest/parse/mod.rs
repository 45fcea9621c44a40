//! From the bytes of a source to pieces that tile it, in flat memory.
//!
//! ```text
//! bytes -> window (streaming) -> ladder (which bytes are a record) -> provider (what it says)
//! ```
//!
//! What a piece is depends only on the bytes up to its end and on the rest of its segment, so a
//! source that is read in two parts gives the pieces of one that is read at once; only a run of NUL
//! bytes or of separators may be cut in two where the first part ended.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::ingest::provider::{self, LogReader, Place, RawRecord, Reader, Reading, Start};
use crate::model::digest::Digest;
use crate::model::provider::Provider;
use crate::model::record::{ParsedRecord, Piece, Recovery, ResumePoint, SkipReason, Span};

mod database;
mod document;
mod frames;
pub(crate) mod json;
mod ladder;
pub(crate) mod line;
mod nested;
mod packing;
pub(crate) mod payload;
mod scan;
mod shape;
mod transcript;
mod window;

pub use database::{Rows, database};
pub use document::Content;
use ladder::{Join, Value};
pub use packing::{decoded, is_packed};
use window::{Stop, Window, len64};

/// Bytes of the longest line that is parsed; a longer one is passed over and reported.
pub const MAX_LINE: usize = 64 * 1024 * 1024;

/// Bytes of a source's head that [`open`] looks at.
pub const MAX_HEAD: usize = 256 * 1024;

/// Version of what the parsers make of bytes: rows say which version made them.
pub const VERSION: u32 = 1;

/// A source as its harness names it.
#[derive(Debug, Clone, Copy)]
pub struct SourceName<'a> {
    /// Who wrote it.
    pub provider: Provider,
    /// Its path; the file stem and a `subagents` folder carry meaning.
    pub path: &'a Path,
}

/// What else is known of a source when its parse begins.
#[derive(Debug, Clone, Copy)]
pub struct Beginning<'a> {
    /// The source.
    pub name: SourceName<'a>,
    /// The beginning of the whole source, at most [`MAX_HEAD`] bytes of it; it names the session of
    /// records that come before the first that names it.
    pub head: &'a [u8],
    /// Beginnings of the files that [`siblings`] named, as captured.
    pub siblings: &'a BTreeMap<PathBuf, Vec<u8>>,
}

/// How the bytes of a source are read, decided by its harness, its name and its beginning.
#[derive(Debug)]
pub struct Method(Reader);

/// How a container's bytes change when its harness writes to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Container {
    /// Lines: grows at its end, and is the whole of a session.
    Log,
    /// One JSON document: written anew as a whole.
    Document,
    /// Plain text: grows at its end, but what its last block is may change with what follows, so
    /// it is read anew as a whole.
    Text,
    /// A database: rows change in place.
    Database,
}

impl Method {
    /// The kind of container.
    #[must_use]
    pub fn container(&self) -> Container {
        match self.0 {
            Reader::Log(_) => Container::Log,
            Reader::Document(_) => Container::Document,
            Reader::Text(_) => Container::Text,
            Reader::Tables(_) => Container::Database,
        }
    }

    /// The tables of a database whose rows are records.
    #[must_use]
    pub fn tables(&self) -> &'static [&'static str] {
        match &self.0 {
            Reader::Tables(reader) => reader.tables(),
            Reader::Log(_) | Reader::Document(_) | Reader::Text(_) => &[],
        }
    }
}

/// The kind of container of a source that is read from its first byte. Only logs are packed.
#[must_use]
pub fn container(beginning: &Beginning<'_>, packed: bool) -> Container {
    if packed {
        Container::Log
    } else {
        method(beginning, None).container()
    }
}

/// How the source is read from `from` (from byte 0 when there is none). Of a source that is read
/// anew as a whole, `from` is where reading the capture before ended.
#[must_use]
pub fn method(beginning: &Beginning<'_>, from: Option<&ResumePoint>) -> Method {
    let state: State = from
        .and_then(|point| serde_json::from_slice(&point.state).ok())
        .unwrap_or_default();
    Method(provider::reader(
        Start {
            provider: beginning.name.provider,
            path: beginning.name.path,
            head: beginning.head.get(..MAX_HEAD).unwrap_or(beginning.head),
            siblings: beginning.siblings,
        },
        state.reader,
    ))
}

/// Other files whose beginnings say something about the sessions of a source.
#[must_use]
pub fn siblings(name: SourceName<'_>, head: &[u8]) -> Vec<PathBuf> {
    provider::siblings(name.provider, name.path, head)
}

/// Reads a log to its end, from `from` on, where `content` then begins. Pieces tile what is read.
/// Where it ends with an error, the resume point lies behind what was handed out.
///
/// # Errors
/// What `each` returns; `io` when the content can't be read. `internal` when the source is no log.
pub fn log<'r>(
    name: SourceName<'_>,
    method: Method,
    content: Box<dyn Read + 'r>,
    from: Option<ResumePoint>,
    each: &mut dyn FnMut(Piece) -> Result<()>,
) -> (Result<()>, ResumePoint) {
    let Reader::Log(reader) = method.0 else {
        return (Err(not_so("log")), at_the_begin());
    };
    let mut parser = SourceParser::new(name.path, reader, content, from, MAX_LINE);
    let result = loop {
        match parser.next() {
            Ok(Some(piece)) => match each(piece) {
                Ok(()) => {}
                Err(e) => break Err(e),
            },
            Ok(None) => break Ok(()),
            Err(e) => break Err(e),
        }
    };
    (result, parser.resume())
}

/// Reads a document whole. Pieces tile it.
///
/// # Errors
/// As [`log`].
pub fn document(
    name: SourceName<'_>,
    method: Method,
    content: &mut dyn Content,
    each: &mut dyn FnMut(Piece) -> Result<()>,
) -> (Result<()>, ResumePoint) {
    let Reader::Document(reader) = method.0 else {
        return (Err(not_so("document")), at_the_begin());
    };
    document::read(name.path, reader, content, MAX_LINE, each)
}

/// Reads a transcript whole. Pieces tile it.
///
/// # Errors
/// As [`log`].
pub fn text(
    name: SourceName<'_>,
    method: Method,
    content: &mut dyn Content,
    each: &mut dyn FnMut(Piece) -> Result<()>,
) -> (Result<()>, ResumePoint) {
    let Reader::Text(mut reader) = method.0 else {
        return (Err(not_so("transcript")), at_the_begin());
    };
    transcript::read(name.path, &mut *reader, content, MAX_LINE, each)
}

/// What is kept for the reader of a later capture of a source that is read anew as a whole.
fn state_of(reader: Option<serde_json::Value>) -> Vec<u8> {
    let state = State {
        reader,
        ..State::default()
    };
    serde_json::to_vec(&state).unwrap_or_default()
}

fn not_so(kind: &str) -> Error {
    Error::new(
        ErrorKind::Internal,
        format!("a source that is no {kind} was read as one"),
    )
}

/// Where a source that was not read begins.
#[must_use]
pub fn at_the_begin() -> ResumePoint {
    ResumePoint {
        offset: 0,
        line: 1,
        state: Vec::new(),
    }
}

/// Starts to parse the log `content`, which begins at `from` (at byte 0 when there is none).
/// `head` is the beginning of the whole source, at most [`MAX_HEAD`] bytes of it. A source that is
/// no log is read as lines of unknown records.
#[must_use]
pub fn open<'r>(
    name: SourceName<'_>,
    content: Box<dyn Read + 'r>,
    head: &[u8],
    from: Option<ResumePoint>,
) -> SourceParser<'r> {
    open_limited(name, content, head, from, MAX_LINE)
}

/// [`open`] with another limit for the length of a line, in bytes.
#[must_use]
pub fn open_limited<'r>(
    name: SourceName<'_>,
    content: Box<dyn Read + 'r>,
    head: &[u8],
    from: Option<ResumePoint>,
    max_line: usize,
) -> SourceParser<'r> {
    let beginning = Beginning {
        name,
        head,
        siblings: &BTreeMap::new(),
    };
    let reader = match method(&beginning, from.as_ref()).0 {
        Reader::Log(reader) => reader,
        Reader::Document(_) | Reader::Text(_) | Reader::Tables(_) => {
            provider::unknown_lines(name.path)
        }
    };
    SourceParser::new(name.path, reader, content, from, max_line)
}

/// A source being parsed.
pub struct SourceParser<'r> {
    path: PathBuf,
    reader: Box<dyn LogReader>,
    window: Window<'r>,
    line: u64,
    /// Something other than white space and NUL bytes came before on this line.
    mid_line: bool,
    /// Only NUL bytes (and white space) came before on this line.
    after_nul: bool,
    /// End and stop of the segment at hand, so that a line of many values is looked through once.
    segment: Option<Segment>,
    torn: Option<Torn>,
    /// Pieces of one line that are still to be handed out, and where that line begins.
    nested: VecDeque<Piece>,
    nested_from: Option<Torn>,
    max_line: usize,
}

/// A segment that is being parsed.
#[derive(Debug, Clone, Copy)]
struct Segment {
    end: u64,
    stop: Stop,
    /// Bytes that may still be looked through for a record inside a broken one.
    search: usize,
}

/// A value that was read: what its bytes are.
#[derive(Debug, Clone, Copy)]
struct Found {
    len: usize,
    recovery: Recovery,
    line_feeds: u64,
    /// Where in it other records are.
    inside: Option<&'static [&'static str]>,
}

/// The torn tail: where it begins, and what counted there.
#[derive(Debug, Clone, Copy)]
struct Torn {
    offset: u64,
    line: u64,
}

/// What must be known to go on, beside offset and line.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct State {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    mid_line: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    after_nul: bool,
    reader: Option<serde_json::Value>,
}

impl fmt::Debug for SourceParser<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceParser")
            .field("path", &self.path)
            .field("window", &self.window)
            .field("line", &self.line)
            .field("torn", &self.torn)
            .finish_non_exhaustive()
    }
}

impl<'r> SourceParser<'r> {
    fn new(
        path: &Path,
        reader: Box<dyn LogReader>,
        content: Box<dyn Read + 'r>,
        from: Option<ResumePoint>,
        max_line: usize,
    ) -> SourceParser<'r> {
        let (offset, line, state) = match from {
            Some(point) => (
                point.offset,
                point.line,
                serde_json::from_slice(&point.state).unwrap_or_default(),
            ),
            None => (0, 1, State::default()),
        };
        SourceParser {
            path: path.to_owned(),
            reader,
            window: Window::new(content, offset),
            line,
            mid_line: state.mid_line,
            after_nul: state.after_nul,
            segment: None,
            torn: None,
            nested: VecDeque::new(),
            nested_from: None,
            max_line: max_line.max(1),
        }
    }

    /// The next piece; `None` behind the last one. Pieces tile the content. A torn tail is the last
    /// piece, and the only one that [`SourceParser::resume`] does not lie behind.
    ///
    /// # Errors
    /// `io` when the content can't be read; everything whole before that was handed out.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Piece>> {
        if let Some(piece) = self.nested.pop_front() {
            return Ok(Some(piece));
        }
        self.nested_from = None;
        let Some(first) = self.window.first() else {
            return self.readable_so_far().map(|()| None);
        };
        if first == 0 {
            return Ok(Some(self.nul_block()));
        }
        if is_gap(first) || self.at_byte_order_mark() {
            return Ok(Some(self.separator()));
        }
        self.segment().map(Some)
    }

    /// Where to go on when the source has grown: behind the pieces handed out so far, a torn tail
    /// excepted. A line that holds several records is gone through as a whole.
    #[must_use]
    pub fn resume(&self) -> ResumePoint {
        let unfinished = self.nested_from.filter(|_| !self.nested.is_empty());
        let (offset, line) = match self.torn.or(unfinished) {
            Some(torn) => (torn.offset, torn.line),
            None => (self.window.offset(), self.line),
        };
        let state = State {
            mid_line: self.mid_line && unfinished.is_none(),
            after_nul: self.after_nul,
            reader: self.reader.state(),
        };
        ResumePoint {
            offset,
            line,
            state: serde_json::to_vec(&state).unwrap_or_default(),
        }
    }

    /// The end of the last piece: bytes of the source seen.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.window.offset()
    }

    /// The error that ended the content, if one did.
    fn readable_so_far(&mut self) -> Result<()> {
        match self.window.error() {
            None => Ok(()),
            Some(e) => {
                let path = self.path.display();
                Err(
                    Error::new(ErrorKind::Io, format!("cannot read {path}: {e}"))
                        .with_context("path", path.to_string())
                        .with_context("offset", self.window.offset().to_string())
                        .with_source(e),
                )
            }
        }
    }

    fn nul_block(&mut self) -> Piece {
        let (offset, line) = (self.window.offset(), self.line);
        let len = self.window.pass_while(|b| b == 0);
        self.after_nul = true;
        self.segment = None;
        Piece::Skipped {
            span: Span { offset, len },
            line,
            reason: SkipReason::NulBlock,
        }
    }

    fn at_byte_order_mark(&mut self) -> bool {
        if self.window.offset() != 0 {
            return false;
        }
        while self.window.rest().len() < 3 && self.window.fill() {}
        self.window.rest().starts_with(b"\xef\xbb\xbf")
    }

    fn separator(&mut self) -> Piece {
        let offset = self.window.offset();
        if self.at_byte_order_mark() {
            self.window.consume(3);
        }
        let mut lines = 0u64;
        self.window.pass_while(|b| {
            lines += u64::from(b == b'\n');
            is_gap(b)
        });
        if lines > 0 {
            self.mid_line = false;
            self.after_nul = false;
            self.segment = None;
        }
        self.line = self.line.saturating_add(lines);
        Piece::Separator(Span {
            offset,
            len: self.window.offset() - offset,
        })
    }

    /// The piece at the begin of a segment: from a byte that is no gap to a line feed, a NUL byte
    /// or the end.
    fn segment(&mut self) -> Result<Piece> {
        let offset = self.window.offset();
        let mut segment = match self.segment {
            Some(segment) if segment.end > offset => segment,
            _ => {
                let (len, stop) = self.window.segment(0, self.max_line);
                let search = len.saturating_mul(4).saturating_add(64 * 1024);
                Segment {
                    end: offset.saturating_add(len64(len)),
                    stop,
                    search,
                }
            }
        };
        self.segment = Some(segment);
        let stop = segment.stop;
        let len = usize::try_from(segment.end - offset).unwrap_or(usize::MAX);
        if stop == Stop::Limit {
            return self.oversized();
        }
        let bytes = trimmed(self.window.rest().get(..len).unwrap_or_default());
        let place = Place {
            at_line_start: !self.mid_line,
            terminated: stop != Stop::End,
        };
        // Behind a first value the whole segment is not looked through again: a line may hold
        // millions of values.
        if place.at_line_start
            && let Some((line, len)) = ladder::well_formed(bytes)
        {
            let hash = Digest::of(bytes.get(..len).unwrap_or_default());
            let reading = self.reader.read(RawRecord {
                text: std::str::from_utf8(bytes.get(..len).unwrap_or_default()).unwrap_or_default(),
                line: Some(&line),
                offset,
                hash: &hash,
            });
            let inside = self.reader.records_inside(&line);
            let value = Found {
                len,
                recovery: Recovery::Clean,
                line_feeds: 0,
                inside,
            };
            return Ok(self.record(value, hash, reading));
        }
        if let Some(value) = ladder::first_value(bytes, place) {
            return Ok(self.repaired(value));
        }
        if stop == Stop::End {
            return self.torn_tail(len64(len));
        }
        let inside = ladder::record_inside(&*self.reader, bytes, &mut segment.search);
        if let Some(at) = inside {
            self.segment = Some(segment);
            return Ok(self.fragment(at));
        }
        let whole = bytes.len();
        if stop == Stop::Newline && shape::extent(bytes) == shape::Extent::InString {
            match ladder::join(&*self.reader, &mut self.window, len, self.max_line) {
                Join::Record(value) => return Ok(self.repaired(value)),
                Join::Pending => {
                    let rest = self.window.rest().len();
                    return self.torn_tail(len64(rest));
                }
                Join::No => {}
            }
        }
        Ok(self.fragment(whole))
    }

    fn repaired(&mut self, value: Value) -> Piece {
        let raw = self.window.rest().get(..value.len).unwrap_or_default();
        let hash = Digest::of(raw);
        let text = match &value.text {
            Some(text) => text.as_str(),
            // A value without a text of its own was read from these very bytes.
            None => std::str::from_utf8(raw).unwrap_or_default(),
        };
        let line = serde_json::from_str(text).ok();
        let reading = self.reader.read(RawRecord {
            text,
            line: line.as_ref(),
            offset: self.window.offset(),
            hash: &hash,
        });
        let inside = line.as_ref().and_then(|l| self.reader.records_inside(l));
        let value = Found {
            len: value.len,
            recovery: value.recovery,
            line_feeds: value.line_feeds,
            inside,
        };
        self.record(value, hash, reading)
    }

    fn record(&mut self, value: Found, hash: Digest, reading: Reading) -> Piece {
        let Found {
            len,
            recovery,
            line_feeds,
            inside,
        } = value;
        let recovery = match recovery {
            Recovery::Clean if self.mid_line => Recovery::Glued,
            Recovery::Clean if self.after_nul => Recovery::NulTrimmed,
            recovery => recovery,
        };
        let begins = Torn {
            offset: self.window.offset(),
            line: self.line,
        };
        let record = ParsedRecord {
            span: Span {
                offset: begins.offset,
                len: len64(len),
            },
            line: begins.line,
            hash,
            recovery,
            session: reading.session,
            native_id: reading.native_id,
            native_parent: reading.native_parent,
            record_type: reading.record_type,
            time_ms: reading.time_ms,
            disposition: reading.disposition,
            facts: reading.facts,
        };
        self.line = self.line.saturating_add(line_feeds);
        self.mid_line = true;
        if line_feeds > 0 {
            self.segment = None;
        }
        let bytes = self.window.rest().get(..len).unwrap_or_default();
        let first = match inside.and_then(|path| nested::elements(bytes, path)) {
            Some(elements) => {
                let (first, rest) = nested::pieces(&mut *self.reader, record, bytes, &elements);
                self.nested = rest;
                self.nested_from = Some(begins);
                first
            }
            None => Piece::Record(Box::new(record)),
        };
        self.window.consume(len);
        first
    }

    fn fragment(&mut self, len: usize) -> Piece {
        let span = Span {
            offset: self.window.offset(),
            len: len64(len),
        };
        self.window.consume(len);
        self.mid_line = true;
        Piece::Skipped {
            span,
            line: self.line,
            reason: SkipReason::Fragment,
        }
    }

    /// Everything from here to the end, which is unfinished.
    fn torn_tail(&mut self, len: u64) -> Result<Piece> {
        // After a failed read nobody knows whether this is the end.
        self.readable_so_far()?;
        let (offset, line) = (self.window.offset(), self.line);
        self.torn = Some(Torn { offset, line });
        self.window
            .consume(usize::try_from(len).unwrap_or(usize::MAX));
        Ok(Piece::Skipped {
            span: Span { offset, len },
            line,
            reason: SkipReason::TornTail,
        })
    }

    fn oversized(&mut self) -> Result<Piece> {
        let (offset, line) = (self.window.offset(), self.line);
        self.segment = None;
        let (len, stop) = self.window.pass_line();
        if stop == Stop::End {
            self.readable_so_far()?;
            self.torn = Some(Torn { offset, line });
        }
        let reason = if stop == Stop::End {
            SkipReason::TornTail
        } else {
            SkipReason::Oversized
        };
        if stop != Stop::End {
            self.mid_line = true;
        }
        Ok(Piece::Skipped {
            span: Span { offset, len },
            line,
            reason,
        })
    }
}

/// White space between records, line feeds included.
fn is_gap(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// `bytes` without the white space at its end.
fn trimmed(bytes: &[u8]) -> &[u8] {
    let end = bytes
        .iter()
        .rposition(|b| !is_gap(*b))
        .map_or(0, |at| at + 1);
    bytes.get(..end).unwrap_or_default()
}

/// The lines of `head` that are objects, with their texts; broken ones and one that `head` cuts off
/// are left out.
pub(crate) fn first_objects(head: &[u8]) -> impl Iterator<Item = (usize, &str)> {
    head.split(|b| *b == b'\n')
        .map(|l| l.strip_prefix(b"\xef\xbb\xbf").unwrap_or(l))
        .map(|l| trimmed(l).trim_ascii_start())
        .map(|l| {
            l.get(l.iter().take_while(|b| **b == 0).count()..)
                .unwrap_or_default()
        })
        .filter(|l| !l.is_empty())
        .enumerate()
        .filter_map(|(n, l)| {
            Some((
                n,
                std::str::from_utf8(l).ok().filter(|t| t.starts_with('{'))?,
            ))
        })
}
