//! Contents: the pieces of a recipe as one stream of bytes.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};

use super::pack::{Loc, Packs};
use super::recipe::Segment;
use crate::disk::Root;
use crate::error::Error;

/// A piece and where its object lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed {
    pub segment: Segment,
    pub loc: Loc,
}

/// One content, read from its start or from any offset, in flat memory. Every object is checked
/// as it is read; what does not verify is an error that names object, pack and offset
/// (an [`std::io::Error`] around the library's [`Error`], see [`ContentReader::cause`]).
pub struct ContentReader<'r> {
    packs: Packs<'r>,
    pieces: Vec<Placed>,
    ends: Vec<u64>,
    len: u64,
    at: u64,
    /// The object read last: its place among the pieces and its plain bytes.
    held: Option<(usize, Vec<u8>)>,
}

impl fmt::Debug for ContentReader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContentReader")
            .field("pieces", &self.pieces.len())
            .field("len", &self.len)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

impl<'r> ContentReader<'r> {
    pub(super) fn new(root: &'r Root, pieces: Vec<Placed>) -> Self {
        let mut len = 0u64;
        let ends = pieces
            .iter()
            .map(|p| {
                len += u64::from(p.segment.len);
                len
            })
            .collect();
        ContentReader {
            packs: Packs::new(root),
            pieces,
            ends,
            len,
            at: 0,
            held: None,
        }
    }

    /// Bytes of the content.
    #[must_use]
    pub fn content_len(&self) -> u64 {
        self.len
    }

    /// The library's error inside an error of [`Read::read`], if it came from here.
    #[must_use]
    pub fn cause(e: &io::Error) -> Option<&Error> {
        e.get_ref()?.downcast_ref()
    }

    /// The rest of the piece at the current offset; empty at the end.
    fn piece(&mut self) -> Result<&[u8], Error> {
        let i = self.ends.partition_point(|end| *end <= self.at);
        let Some(placed) = self.pieces.get(i) else {
            return Ok(&[]);
        };
        let segment = placed.segment;
        let skip = self.at - (self.ends[i] - u64::from(segment.len));
        let same = self
            .held
            .as_ref()
            .is_some_and(|(held, _)| self.pieces[*held].segment.object == segment.object);
        if !same {
            self.held = None;
            self.held = Some((i, self.packs.read(&segment.object, &placed.loc)?));
        }
        let plain = self.held.as_ref().map_or(&[][..], |(_, plain)| plain);
        let from = u64::from(segment.offset) + skip;
        let to = u64::from(segment.offset) + u64::from(segment.len);
        let range =
            usize::try_from(from).unwrap_or(usize::MAX)..usize::try_from(to).unwrap_or(usize::MAX);
        plain.get(range).ok_or_else(|| {
            Error::new(
                crate::error::ErrorKind::VerifyFailed,
                format!("object {} is shorter than its recipe says", segment.object),
            )
            .with_context("object", segment.object.to_hex())
        })
    }
}

impl Read for ContentReader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let piece = self.piece().map_err(io::Error::other)?;
        let n = piece.len().min(buf.len());
        buf[..n].copy_from_slice(&piece[..n]);
        self.at += n as u64;
        Ok(n)
    }
}

impl Seek for ContentReader<'_> {
    fn seek(&mut self, pos: SeekFrom) -> io::Result<u64> {
        let to = match pos {
            SeekFrom::Start(n) => Some(n),
            SeekFrom::End(n) => self.len.checked_add_signed(n),
            SeekFrom::Current(n) => self.at.checked_add_signed(n),
        };
        self.at = to.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.at)
    }
}
