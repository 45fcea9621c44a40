//! The lines around a place.

use std::collections::VecDeque;
use std::io;

use super::bytes::ReadAt;
use super::event::{self, Row};
use super::lines::{Lines, Spot};
use super::name::Form;

/// Bytes of a line's text that are kept.
const SHOWN: usize = 1000;

/// One line, seen from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenLine {
    /// Number of the line, from 1.
    pub line: u64,
    /// Its bytes, without the newline.
    pub bytes: u64,
    /// What it is: the type of its event, or that it is none.
    pub kind: String,
    /// The numbers of its events, first and last.
    pub events: Option<(u64, u64)>,
    /// The begin of its text; bytes that are no UTF-8 appear as U+FFFD.
    pub text: String,
}

/// Reads the lines from `before` lines before number `line` to as many behind it.
///
/// # Errors
/// What the medium says, and a line that is too long to be read.
pub fn around<S: ReadAt + ?Sized>(
    source: &S,
    form: Form,
    line: u64,
    before: u64,
) -> io::Result<Vec<SeenLine>> {
    let mut near: VecDeque<Spot> = VecDeque::new();
    let mut lines = Lines::new(source, form.packed);
    while let Some(next) = lines.next()? {
        near.push_back(next.spot);
        if next.spot.line >= line {
            break;
        }
        if near.len() as u64 > before {
            near.pop_front();
        }
    }
    let Some(first) = near.front() else {
        return Ok(Vec::new());
    };
    let mut lines = Lines::at(source, form.packed, *first);
    let mut out = Vec::new();
    while let Some(next) = lines.next()? {
        if next.spot.line > line + before {
            break;
        }
        out.push(seen(next.bytes, next.spot.line, next.whole));
    }
    Ok(out)
}

fn seen(bytes: &[u8], line: u64, whole: bool) -> SeenLine {
    // Which version it is changes nothing that is shown.
    let (kind, events) = match event::decode(bytes, 0) {
        Row::Event(e) => (
            String::from_utf8_lossy(&e.kind).into_owned(),
            Some((e.seq, e.seq)),
        ),
        Row::Packed(p) => (
            String::from_utf8_lossy(&p.kind).into_owned(),
            Some((p.first, p.first + p.len() - 1)),
        ),
        Row::Header => ("session header".to_owned(), None),
        Row::Bad(why) => (why.to_owned(), None),
    };
    let kind: String = kind.chars().take(60).collect();
    let shown = bytes.get(..SHOWN).unwrap_or(bytes);
    SeenLine {
        line,
        bytes: bytes.len() as u64,
        kind: if whole {
            kind
        } else {
            format!("{kind}, without a newline")
        },
        events,
        text: String::from_utf8_lossy(shown).into_owned(),
    }
}
