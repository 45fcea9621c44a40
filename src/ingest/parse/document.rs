//! A JSON document that its harness writes anew as a whole, read element by element.
//!
//! The bytes before the records and behind them are the frame. They are two records of their own,
//! and what the frame says is known before the first element is read: the document is passed over
//! once for it. A document that is torn or broken gives the elements before the break; one that is
//! whole but no JSON inside gives up that element alone.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use super::ladder;
use super::scan::{Ended, Scan};
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::provider::{DocumentReader, Members, RawRecord, Reading};
use crate::model::digest::Digest;
use crate::model::record::{ParsedRecord, Piece, Recovery, ResumePoint, SkipReason, Span};

/// Bytes of one member of the frame that are kept, and of all of them.
const MAX_MEMBER: usize = 256 << 10;
const MAX_MEMBERS: usize = 1 << 20;
/// Bytes of one piece of the frame: longer ones are passed over as oversized.
const MAX_FRAME: usize = 4 << 20;

/// Content that can be read again.
pub trait Content: Read + Seek {}
impl<T: Read + Seek> Content for T {}

/// Where the records are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// In the outermost array, or in that of a member.
    Array {
        /// Offset of the first byte behind its `[`.
        from: u64,
        /// Whether it is a member's, so that the bytes around it say something.
        framed: bool,
    },
    /// The document is one record.
    Whole,
    /// No JSON value begins here.
    None,
}

/// Reads a document whole.
pub(super) fn read(
    path: &Path,
    mut reader: Box<dyn DocumentReader>,
    content: &mut dyn Content,
    max_record: usize,
    each: &mut dyn FnMut(Piece) -> Result<()>,
) -> (Result<()>, ResumePoint) {
    let mut out = Out {
        each,
        offset: 0,
        line: 1,
    };
    let result = (|| {
        let (shape, members) =
            frame(content, reader.record_members()).map_err(|e| unreadable(path, &e))?;
        content
            .seek(SeekFrom::Start(0))
            .map_err(|e| unreadable(path, &e))?;
        let mut scan = Scan::new(content);
        body(
            &mut scan,
            &mut *reader,
            shape,
            &members,
            max_record,
            &mut out,
        )?;
        match scan.take_error() {
            Some(e) => Err(unreadable(path, &e)),
            None => Ok(()),
        }
    })();
    let resume = ResumePoint {
        offset: out.offset,
        line: out.line,
        state: Vec::new(),
    };
    (result, resume)
}

fn unreadable(path: &Path, e: &io::Error) -> Error {
    Error::new(
        ErrorKind::Io,
        format!("cannot read {}: {e}", path.display()),
    )
    .with_context("path", path.display().to_string())
}

/// Passes over the document once: where the records are, and the other members.
fn frame(content: &mut dyn Content, names: &[&str]) -> io::Result<(Shape, Members)> {
    let mut members = Members::default();
    let mut shape = Shape::None;
    let mut scan = Scan::new(content);
    scan.pass_gap();
    match scan.peek() {
        Some(b'[') => {
            shape = Shape::Array {
                from: scan.offset() + 1,
                framed: false,
            }
        }
        Some(b'{') => {
            shape = Shape::Whole;
            let mut kept = 0;
            scan.bump();
            loop {
                scan.pass_separators();
                if scan.peek() != Some(b'"') {
                    break;
                }
                let mut key = Vec::new();
                if scan.value(&mut key, MAX_MEMBER) != Ended::Whole {
                    break;
                }
                scan.pass_separators();
                let key: String = serde_json::from_slice(&key).unwrap_or_default();
                if names.contains(&key.as_str()) && scan.peek() == Some(b'[') {
                    shape = Shape::Array {
                        from: scan.offset() + 1,
                        framed: true,
                    };
                }
                let mut text = Vec::new();
                let ended = scan.value(&mut text, MAX_MEMBER);
                if ended != Ended::Whole && ended != Ended::TooLong {
                    break;
                }
                if ended == Ended::Whole && kept + text.len() <= MAX_MEMBERS {
                    kept += text.len();
                    members
                        .0
                        .insert(key, String::from_utf8_lossy(&text).into_owned());
                }
            }
        }
        _ => {}
    }
    match scan.take_error() {
        Some(e) => Err(e),
        None => Ok((shape, members)),
    }
}

fn body(
    scan: &mut Scan<&mut dyn Content>,
    reader: &mut dyn DocumentReader,
    shape: Shape,
    members: &Members,
    max_record: usize,
    out: &mut Out<'_>,
) -> Result<()> {
    gaps(scan, out)?;
    match shape {
        Shape::None => rest(scan, SkipReason::Fragment, out),
        Shape::Whole => {
            let begins = scan.offset();
            let mut bytes = Vec::new();
            let ended = scan.value(&mut bytes, max_record);
            element(reader, &bytes, ended, begins, scan, out)?;
            tail(scan, out)
        }
        Shape::Array { framed: false, .. } => {
            let begins = scan.offset();
            scan.bump();
            out.separator(scan.offset() - begins, 0)?;
            if !elements(scan, reader, max_record, out)? {
                return Ok(());
            }
            let begins = scan.offset();
            scan.bump();
            out.separator(scan.offset() - begins, 0)?;
            tail(scan, out)
        }
        Shape::Array { from, framed: true } => {
            let begins = scan.offset();
            let mut head = Vec::new();
            let whole = scan.until(from, &mut head, MAX_FRAME);
            if whole {
                let mut reading = reader.frame(members);
                reading.record_type.push_str("/begin");
                out.record(&head, begins, reading, Recovery::Clean)?;
            } else {
                let len = scan.offset() - begins;
                out.skip(len, SkipReason::Oversized, &head)?;
            }
            if !elements(scan, reader, max_record, out)? {
                return Ok(());
            }
            let begins = scan.offset();
            let mut end = Vec::new();
            let whole = scan.frame_end(&mut end, MAX_FRAME);
            if whole {
                let mut reading = reader.frame(members);
                reading.record_type.push_str("/end");
                if let Some(native) = &mut reading.native_id {
                    native.push_str("#end");
                }
                out.record(&end, begins, reading, Recovery::Clean)?;
            } else {
                let len = scan.offset() - begins;
                out.skip(len, SkipReason::Fragment, &end)?;
            }
            tail(scan, out)
        }
    }
}

/// The elements of the array; false when its end can't be found.
fn elements(
    scan: &mut Scan<&mut dyn Content>,
    reader: &mut dyn DocumentReader,
    max_record: usize,
    out: &mut Out<'_>,
) -> Result<bool> {
    loop {
        commas(scan, out)?;
        match scan.peek() {
            None => return Ok(false),
            Some(b']') => return Ok(true),
            Some(_) => {}
        }
        let begins = scan.offset();
        let mut bytes = Vec::new();
        let ended = scan.value(&mut bytes, max_record);
        if !element(reader, &bytes, ended, begins, scan, out)? {
            return Ok(false);
        }
    }
}

/// Hands one value on; false when nothing can be read behind it.
fn element(
    reader: &mut dyn DocumentReader,
    bytes: &[u8],
    ended: Ended,
    begins: u64,
    scan: &mut Scan<&mut dyn Content>,
    out: &mut Out<'_>,
) -> Result<bool> {
    let len = scan.offset() - begins;
    match ended {
        Ended::Whole => {
            match ladder::document_value(bytes) {
                Some(value) => {
                    let text = match &value.text {
                        Some(text) => text.as_str(),
                        None => std::str::from_utf8(bytes).unwrap_or_default(),
                    };
                    let hash = Digest::of(bytes);
                    let line = serde_json::from_str(text).ok();
                    let reading = reader.read(RawRecord {
                        text,
                        line: line.as_ref(),
                        offset: begins,
                        hash: &hash,
                    });
                    out.record(bytes, begins, reading, value.recovery)?;
                }
                None => {
                    reader.pass_over();
                    out.skip(len, SkipReason::Fragment, bytes)?;
                }
            }
            Ok(true)
        }
        Ended::TooLong => {
            reader.pass_over();
            out.skip(len, SkipReason::Oversized, &[])?;
            Ok(true)
        }
        Ended::Broken | Ended::Torn => {
            // Where the brackets are lost, nothing behind them can be told apart.
            out.skip(len, SkipReason::Fragment, bytes)?;
            rest(scan, SkipReason::Fragment, out)?;
            Ok(false)
        }
    }
}

/// White space and a byte-order mark before a value.
fn gaps(scan: &mut Scan<&mut dyn Content>, out: &mut Out<'_>) -> Result<()> {
    let begins = scan.offset();
    let lines = scan.pass_gap();
    out.separator(scan.offset() - begins, lines)?;
    nuls(scan, out)
}

fn nuls(scan: &mut Scan<&mut dyn Content>, out: &mut Out<'_>) -> Result<()> {
    let begins = scan.offset();
    while scan.peek() == Some(0) {
        scan.bump();
    }
    out.skip(scan.offset() - begins, SkipReason::NulBlock, &[])
}

/// White space and commas between elements.
fn commas(scan: &mut Scan<&mut dyn Content>, out: &mut Out<'_>) -> Result<()> {
    let begins = scan.offset();
    let lines = scan.pass_separators();
    out.separator(scan.offset() - begins, lines)
}

/// What follows a whole document: white space, NUL bytes, or something that does not belong.
fn tail(scan: &mut Scan<&mut dyn Content>, out: &mut Out<'_>) -> Result<()> {
    gaps(scan, out)?;
    let begins = scan.offset();
    let lines = scan.pass_gap();
    out.separator(scan.offset() - begins, lines)?;
    rest(scan, SkipReason::Fragment, out)
}

/// Everything to the end.
fn rest(scan: &mut Scan<&mut dyn Content>, reason: SkipReason, out: &mut Out<'_>) -> Result<()> {
    let begins = scan.offset();
    let lines = scan.pass_all();
    let len = scan.offset() - begins;
    out.skip(len, reason, &[])?;
    out.line += lines;
    Ok(())
}

/// Hands pieces on, and counts.
struct Out<'e> {
    each: &'e mut dyn FnMut(Piece) -> Result<()>,
    offset: u64,
    line: u64,
}

impl Out<'_> {
    fn record(
        &mut self,
        bytes: &[u8],
        offset: u64,
        reading: Reading,
        recovery: Recovery,
    ) -> Result<()> {
        let record = ParsedRecord {
            span: Span {
                offset,
                len: bytes.len() as u64,
            },
            line: self.line,
            hash: Digest::of(bytes),
            recovery,
            session: reading.session,
            native_id: reading.native_id,
            native_parent: reading.native_parent,
            record_type: reading.record_type,
            time_ms: reading.time_ms,
            disposition: reading.disposition,
            facts: reading.facts,
        };
        self.offset = record.span.end();
        self.line += lines_in(bytes);
        (self.each)(Piece::Record(Box::new(record)))
    }

    fn separator(&mut self, len: u64, lines: u64) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let span = Span {
            offset: self.offset,
            len,
        };
        self.offset = span.end();
        self.line += lines;
        (self.each)(Piece::Separator(span))
    }

    fn skip(&mut self, len: u64, reason: SkipReason, bytes: &[u8]) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let span = Span {
            offset: self.offset,
            len,
        };
        let line = self.line;
        self.offset = span.end();
        self.line += lines_in(bytes);
        (self.each)(Piece::Skipped { span, line, reason })
    }
}

fn lines_in(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}
