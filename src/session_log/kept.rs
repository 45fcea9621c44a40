//! The rows that make up the log so far, and a way back to any of them.

use std::io;

use super::bytes::ReadAt;
use super::event::{self, Row};
use super::lines::{Lines, Spot};

/// Text between two places from which reading can begin.
const STRIDE: u64 = 64 * 1024;
/// Pieces of a log that are told apart.
pub(super) const MAX_SPANS: usize = 100_000;

/// Rows that follow each other in the file and in their numbers.
#[derive(Debug, Clone, Copy)]
struct Span {
    /// Numbers, `to` excluded.
    from: u64,
    to: u64,
    spot: Spot,
    text_to: u64,
}

/// The rows that are kept, as spans.
#[derive(Debug, Default)]
pub(super) struct Kept {
    spans: Vec<Span>,
    spots: Vec<(u64, Spot)>,
}

impl Kept {
    /// Adds a row that holds events from `from` to before `to`. `spot` is where what is kept of it
    /// begins, `text_to` where it ends.
    pub(super) fn push(&mut self, from: u64, to: u64, spot: Spot, text_to: u64) {
        if self
            .spots
            .last()
            .is_none_or(|(_, last)| spot.text >= last.text + STRIDE)
        {
            self.spots.push((from, spot));
        }
        match self.spans.last_mut() {
            Some(last) if last.text_to == spot.text && last.to == from => {
                last.to = to;
                last.text_to = text_to;
            }
            _ => self.spans.push(Span {
                from,
                to,
                spot,
                text_to,
            }),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }

    /// Takes back every row from event `seq` on, which begins at `text`.
    pub(super) fn truncate(&mut self, seq: u64, text: u64) {
        while self.spans.last().is_some_and(|s| s.from >= seq) {
            self.spans.pop();
        }
        if let Some(last) = self.spans.last_mut().filter(|s| s.to > seq) {
            last.to = seq;
            last.text_to = text;
        }
        while self.spots.last().is_some_and(|(n, _)| *n >= seq) {
            self.spots.pop();
        }
    }

    /// The span that holds an event, and the last place before it from which it can be read.
    fn find(&self, seq: u64) -> Option<(Span, Spot)> {
        let n = self.spans.partition_point(|s| s.to <= seq);
        let span = self.spans.get(n).filter(|s| s.from <= seq)?;
        let n = self.spots.partition_point(|(first, _)| *first <= seq);
        let near = n.checked_sub(1).and_then(|n| self.spots.get(n));
        let spot = match near {
            Some((_, spot)) if spot.text >= span.spot.text && spot.text < span.text_to => *spot,
            _ => span.spot,
        };
        Some((*span, spot))
    }
}

/// Reads kept rows again, one after another without searching.
#[derive(Debug)]
pub(super) struct Again<'s, S: ?Sized> {
    source: &'s S,
    packed: bool,
    version: u64,
    lines: Option<(Lines<'s, S>, Span)>,
    first: u64,
    forms: Vec<Vec<u8>>,
    /// Number of the line that was read last.
    pub(super) line: u64,
}

impl<'s, S: ReadAt + ?Sized> Again<'s, S> {
    pub(super) fn new(source: &'s S, packed: bool, version: u64) -> Self {
        Again {
            source,
            packed,
            version,
            lines: None,
            first: 0,
            forms: Vec::new(),
            line: 0,
        }
    }

    /// Forgets where it is.
    pub(super) fn reset(&mut self) {
        self.lines = None;
        self.forms.clear();
    }

    /// A kept event in the form in which events are compared. `None` when it is not there.
    pub(super) fn form(&mut self, kept: &Kept, seq: u64) -> io::Result<Option<&[u8]>> {
        while !self.holds(seq) {
            let next = self.first + self.forms.len() as u64;
            let goes_on = self
                .lines
                .as_ref()
                .is_some_and(|(lines, span)| next == seq && lines.text_at() < span.text_to);
            if !goes_on {
                let Some((span, spot)) = kept.find(seq) else {
                    return Ok(None);
                };
                let lines = Lines::at(self.source, self.packed, spot);
                self.lines = Some((lines, span));
            }
            if !self.advance(seq)? {
                return Ok(None);
            }
        }
        let n = usize::try_from(seq - self.first).unwrap_or(usize::MAX);
        Ok(self.forms.get(n).map(Vec::as_slice))
    }

    fn holds(&self, seq: u64) -> bool {
        seq >= self.first && seq < self.first + self.forms.len() as u64
    }

    /// Reads rows up to the one that holds an event.
    fn advance(&mut self, seq: u64) -> io::Result<bool> {
        let Some((lines, _)) = &mut self.lines else {
            return Ok(false);
        };
        loop {
            let Some(line) = lines.next()? else {
                return Ok(false);
            };
            self.line = line.spot.line;
            match event::decode(without_zeros(line.bytes).1, self.version) {
                Row::Event(e) if e.seq == seq => {
                    self.first = e.seq;
                    self.forms = vec![e.canonical()];
                    return Ok(true);
                }
                Row::Packed(p) if seq >= p.first && seq - p.first < p.len() => {
                    self.first = p.first;
                    self.forms = p.canonical_members();
                    return Ok(true);
                }
                Row::Event(e) if e.seq < seq => {}
                Row::Packed(p) if p.first < seq => {}
                _ => return Ok(false),
            }
        }
    }
}

/// A line without the zero bytes around it, and how many there were before it.
pub(super) fn without_zeros(bytes: &[u8]) -> (usize, &[u8]) {
    let from = bytes.iter().take_while(|b| **b == 0).count();
    let rest = bytes.get(from..).unwrap_or_default();
    let behind = rest.iter().rev().take_while(|b| **b == 0).count();
    (from, rest.get(..rest.len() - behind).unwrap_or_default())
}
