//! A transcript in plain text, read block by block: a run of lines that say one thing.
//!
//! Blocks tile the content together with the blank lines between them. The reader says where a
//! block begins, line by line; memory is bounded by the longest block that is kept whole. What a
//! block is depends on the lines up to its end alone, but where the last one ends is only known
//! when more follows: a transcript that grew is read anew from its begin.

use std::io::Read;
use std::path::Path;

use super::window::{Stop, Window, len64};
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::provider::{Part, TextReader};
use crate::model::digest::Digest;
use crate::model::record::{ParsedRecord, Piece, Recovery, ResumePoint, SkipReason, Span};

/// Bytes from which on a block is cut in two at the end of a line.
const MAX_BLOCK: usize = 4 << 20;

/// Reads a transcript whole.
pub(super) fn read<'r>(
    path: &Path,
    reader: Box<dyn TextReader>,
    content: Box<dyn Read + 'r>,
    max_line: usize,
    each: &mut dyn FnMut(Piece) -> Result<()>,
) -> (Result<()>, ResumePoint) {
    let mut out = Blocks {
        reader,
        each,
        offset: 0,
        line: 1,
        block: Block::default(),
    };
    let mut window = Window::new(content, 0);
    let result = lines(&mut window, max_line, &mut out).and_then(|()| match window.error() {
        None => Ok(()),
        Some(e) => Err(Error::new(
            ErrorKind::Io,
            format!("cannot read {}: {e}", path.display()),
        )
        .with_context("path", path.display().to_string())
        .with_source(e)),
    });
    let resume = ResumePoint {
        offset: out.offset,
        line: out.line,
        state: Vec::new(),
    };
    (result, resume)
}

fn lines(window: &mut Window<'_>, max_line: usize, out: &mut Blocks<'_>) -> Result<()> {
    while let Some(first) = window.first() {
        if first == 0 {
            let len = window.pass_while(|b| b == 0);
            out.skip(len, 0, SkipReason::NulBlock)?;
            continue;
        }
        let (len, stop) = window.segment(0, max_line);
        if stop == Stop::Limit {
            let (len, stop) = window.pass_line();
            out.skip(len, u64::from(stop == Stop::Newline), SkipReason::Oversized)?;
            continue;
        }
        let whole = len + usize::from(stop == Stop::Newline);
        out.line(window.rest().get(..whole).unwrap_or_default())?;
        window.consume(whole);
    }
    out.end_block()
}

/// The block at hand.
#[derive(Debug, Default)]
struct Block {
    kind: Option<&'static str>,
    bytes: Vec<u8>,
    lines: u64,
    /// Blank lines behind it, which are part of it only if it goes on.
    blank: Vec<u8>,
    blank_lines: u64,
}

/// Hands pieces on, and counts.
struct Blocks<'e> {
    reader: Box<dyn TextReader>,
    each: &'e mut dyn FnMut(Piece) -> Result<()>,
    /// End of what was handed on; the block at hand lies behind it.
    offset: u64,
    line: u64,
    block: Block,
}

impl Blocks<'_> {
    /// Takes a line, with its end if it has one.
    fn line(&mut self, line: &[u8]) -> Result<()> {
        // Only the first line may begin with a byte order mark.
        let bare = match line.strip_prefix(b"\xef\xbb\xbf") {
            Some(bare) if self.offset == 0 && self.block.kind.is_none() => bare,
            _ => line,
        };
        let text = String::from_utf8_lossy(bare);
        let text = text.trim_end_matches(['\n', '\r']);
        let part = self.reader.part(text);
        if text.trim().is_empty() {
            self.block.blank.extend_from_slice(line);
            self.block.blank_lines += 1;
            if self.block.blank.len() > MAX_BLOCK {
                self.end_block()?;
            }
            return Ok(());
        }
        let kind = match (part, self.block.kind) {
            (Part::Goes(_), Some(kind)) if self.block.bytes.len() < MAX_BLOCK => kind,
            (Part::Begins(kind) | Part::Goes(kind), _) => {
                self.end_block()?;
                kind
            }
        };
        let block = &mut self.block;
        block.kind = Some(kind);
        block.bytes.append(&mut block.blank);
        block.lines += std::mem::take(&mut block.blank_lines);
        block.bytes.extend_from_slice(line);
        block.lines += u64::from(line.ends_with(b"\n"));
        Ok(())
    }

    /// Hands the block on, and the blank lines behind it.
    fn end_block(&mut self) -> Result<()> {
        let block = std::mem::take(&mut self.block);
        if let Some(kind) = block.kind {
            let text = String::from_utf8_lossy(&block.bytes);
            let recovery = match text {
                std::borrow::Cow::Borrowed(_) => Recovery::Clean,
                std::borrow::Cow::Owned(_) => Recovery::InvalidUtf8,
            };
            let hash = Digest::of(&block.bytes);
            let reading = self.reader.read(kind, &text);
            let record = ParsedRecord {
                span: self.take(len64(block.bytes.len())),
                line: self.line,
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
            self.line += block.lines;
            (self.each)(Piece::Record(Box::new(record)))?;
        }
        if !block.blank.is_empty() {
            let span = self.take(len64(block.blank.len()));
            self.line += block.blank_lines;
            (self.each)(Piece::Separator(span))?;
        }
        Ok(())
    }

    fn skip(&mut self, len: u64, lines: u64, reason: SkipReason) -> Result<()> {
        self.end_block()?;
        let line = self.line;
        let span = self.take(len);
        self.line += lines;
        (self.each)(Piece::Skipped { span, line, reason })
    }

    fn take(&mut self, len: u64) -> Span {
        let span = Span {
            offset: self.offset,
            len,
        };
        self.offset = span.end();
        span
    }
}
