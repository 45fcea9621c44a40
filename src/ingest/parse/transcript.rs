//! A transcript in plain text, read block by block: a run of lines that say one thing.
//!
//! Blocks tile the content together with the blank lines between them. The reader says where a
//! block begins, line by line; memory is bounded by the longest block that is kept whole. What a
//! block is depends on the lines up to its end alone, but where the last one ends is only known
//! when more follows: a transcript that grew is read anew from its begin.

use std::io::SeekFrom;
use std::path::Path;

use super::document::Content;
use super::window::{Stop, Window, len64};
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::provider::{Part, TextReader};
use crate::model::digest::Digest;
use crate::model::record::{ParsedRecord, Piece, Recovery, ResumePoint, SkipReason, Span};

/// Bytes from which on a block is cut in two at the end of a line.
const MAX_BLOCK: usize = 4 << 20;

/// Reads a transcript whole.
pub(super) fn read(
    path: &Path,
    reader: &mut dyn TextReader,
    content: &mut dyn Content,
    max_line: usize,
    each: &mut dyn FnMut(Piece) -> Result<()>,
) -> (Result<()>, ResumePoint) {
    if reader.looks_ahead() {
        let (passed, at) = pass(path, reader, content, max_line, &mut |_| Ok(()));
        if passed.is_err() {
            return (passed, at);
        }
        reader.begin_again();
    }
    pass(path, reader, content, max_line, each)
}

/// One way through the content, from its begin.
fn pass(
    path: &Path,
    reader: &mut dyn TextReader,
    content: &mut dyn Content,
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
    let unreadable = |e| {
        Error::new(
            ErrorKind::Io,
            format!("cannot read {}: {e}", path.display()),
        )
        .with_context("path", path.display().to_string())
        .with_source(e)
    };
    let result = match content.seek(SeekFrom::Start(0)) {
        Err(e) => Err(unreadable(e)),
        Ok(_) => {
            let mut window = Window::new(Box::new(content), 0);
            lines(&mut window, max_line, &mut out).and_then(|()| match window.error() {
                None => Ok(()),
                Some(e) => Err(unreadable(e)),
            })
        }
    };
    let resume = ResumePoint {
        offset: out.offset,
        line: out.line,
        state: super::state_of(out.reader.state()),
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
    reader: &'e mut dyn TextReader,
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::{Read, Seek};

    use super::*;
    use crate::ingest::parse::{Beginning, SourceName, method, text};
    use crate::model::provider::Provider;
    use crate::model::record::Disposition;

    /// Parts that are read so often each, a few bytes at a time.
    struct Made {
        all: Vec<(Vec<u8>, u64)>,
        parts: Vec<(Vec<u8>, u64)>,
        at: usize,
        step: usize,
    }

    impl Seek for Made {
        fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
            assert_eq!(to, SeekFrom::Start(0));
            (self.parts, self.at) = (self.all.clone(), 0);
            Ok(0)
        }
    }

    impl Read for Made {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let Some((part, times)) = self.parts.first_mut() else {
                return Ok(0);
            };
            let n = out.len().min(part.len() - self.at).min(self.step);
            out[..n].copy_from_slice(&part[self.at..self.at + n]);
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

    /// Reads what the parts make; the pieces tile it.
    fn each(parts: Vec<(Vec<u8>, u64)>, step: usize, seen: &mut dyn FnMut(Piece)) {
        let parts: Vec<_> = parts
            .into_iter()
            .filter(|(part, times)| !part.is_empty() && *times > 0)
            .collect();
        let total: u64 = parts.iter().map(|(p, n)| p.len() as u64 * n).sum();
        let name = SourceName {
            provider: Provider::Aider,
            path: Path::new("/r/.aider.chat.history.md"),
        };
        let beginning = Beginning {
            name,
            head: b"",
            siblings: &BTreeMap::new(),
        };
        let mut end = 0;
        let mut made = Made {
            all: parts,
            parts: Vec::new(),
            at: 0,
            step,
        };
        let (result, resume) = text(name, method(&beginning, None), &mut made, &mut |piece| {
            let span = match &piece {
                Piece::Record(record) => record.span,
                Piece::Separator(span) | Piece::Skipped { span, .. } => *span,
            };
            assert_eq!(span.offset, end);
            assert!(span.len > 0);
            end = span.end();
            seen(piece);
            Ok(())
        });
        result.unwrap();
        assert_eq!((end, resume.offset), (total, total));
    }

    fn pieces(bytes: &[u8], step: usize) -> Vec<Piece> {
        let mut all = Vec::new();
        each(vec![(bytes.to_vec(), 1)], step, &mut |piece| {
            all.push(piece);
        });
        all
    }

    const SMALL: &str = "\n# aider chat started at 2025-03-01 10:00:00\n\n> Model: m  \n\n\
        #### a  \n#### b  \n\nan answer\n\n```\n> x\n```\n\n> Tokens  \n\n";

    #[test]
    fn pieces_tile_whatever_the_bytes_and_the_steps_are() {
        let whole = SMALL.as_bytes();
        for cut in 0..whole.len() {
            assert_eq!(pieces(&whole[..cut], 1), pieces(&whole[..cut], 1 << 20));
            for odd in [
                &b"\0\0"[..],
                b"\xff",
                b"\r",
                b"\xef\xbb\xbf",
                b"\n\n",
                b"~~~",
            ] {
                let bytes = [&whole[..cut], odd, &whole[cut..]].concat();
                assert_eq!(pieces(&bytes, 5), pieces(&bytes, 1 << 20));
            }
        }
    }

    #[test]
    fn lines_are_counted() {
        let lines: Vec<u64> = pieces(SMALL.as_bytes(), 9)
            .iter()
            .filter_map(|piece| match piece {
                Piece::Record(record) => Some(record.line),
                _ => None,
            })
            .collect();
        assert_eq!(lines, [2, 4, 6, 9, 15]);
    }

    #[test]
    fn no_piece_is_much_longer_than_the_limit_of_a_block() {
        let head = SMALL.as_bytes().to_vec();
        let answer = (b"more of one answer, without an end\n".repeat(4096), 70);
        let blank = (vec![b'\n'; 1 << 20], 9);
        let prompts = (b"#### and of one prompt  \n".repeat(4096), 60);
        let (mut longest, mut messages) = (0, 0);
        let parts = vec![(head, 1), answer, blank, prompts];
        each(parts, usize::MAX, &mut |piece| {
            let span = match &piece {
                Piece::Record(record) => {
                    messages += u64::from(matches!(record.disposition, Disposition::Messages(_)));
                    record.span
                }
                Piece::Separator(span) | Piece::Skipped { span, .. } => *span,
            };
            longest = longest.max(span.len);
        });
        assert!(longest <= 2 * MAX_BLOCK as u64 + 64, "{longest}");
        assert!(messages > 8);
    }
}
