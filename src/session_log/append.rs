//! Adding events to a log: only by one who knows its end.
//!
//! The caller holds the lock that keeps other writers of the session away, from before the log is
//! read until after [`append`] ends. What was read to make the batch is told by a [`Revision`]; it
//! is compared under the lock, and where anything differs nothing is written. The caller reads the
//! log anew then and decides; a batch is never renumbered.

use std::io;

use sha2::{Digest, Sha256};
use zstd::stream::write::Encoder;

use super::bytes::{ReadAt, read_full};
use super::event::{self, Row};
use super::examine::examine;
use super::fault::Fault;
use super::header;
use super::lines::{Lines, Spot};
use super::name::Form;
use super::verdict::Verdict;
use super::walk::Walk;

/// What a log was when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    /// Its bytes.
    pub bytes: u64,
    /// SHA-256 of all of them.
    pub sha256: [u8; 32],
    /// The number that the next event must have.
    pub next_seq: u64,
}

/// Why a batch is refused. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The log is not what it was when the caller read it.
    Changed {
        /// What the caller read.
        expected: Box<Revision>,
        /// What is there.
        found: Box<Revision>,
    },
    /// The log is damaged: it is repaired first, or not at all.
    Damaged(Verdict),
    /// The batch begins with an event that is there already.
    Stale {
        /// Its number.
        first: u64,
        /// The number that is due.
        next: u64,
    },
    /// The batch begins behind the event that is due.
    Gap {
        /// Its number.
        first: u64,
        /// The number that is due.
        next: u64,
    },
    /// An event of the batch does not follow the one before it.
    NotDense {
        /// Its number.
        got: u64,
        /// The number that is due.
        due: u64,
    },
    /// A line of the batch is no event.
    NoEvent(&'static str),
    /// The batch is empty.
    Empty,
    /// An event of the batch breaks a rule.
    Breaks(Box<Fault>),
}

/// How an append failed.
#[derive(Debug)]
pub enum AppendError {
    /// It was refused, and the bytes are untouched.
    Refused(Refusal),
    /// The log could not be read. Nothing was written.
    Unread(io::Error),
    /// Writing failed, and the log has its old length again, synced.
    TakenBack(io::Error),
    /// Writing failed, and so did going back: the log may end with a part of the batch.
    Torn(io::Error),
}

/// A log that can be written at its end.
pub trait Medium: ReadAt {
    /// Writes bytes at an offset, which is the end.
    ///
    /// # Errors
    /// What the medium says; a part may be written.
    fn write_at_end(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes everything durable.
    ///
    /// # Errors
    /// What the medium says.
    fn sync(&mut self) -> io::Result<()>;

    /// Cuts off what is behind `len`.
    ///
    /// # Errors
    /// What the medium says.
    fn truncate(&mut self, len: u64) -> io::Result<()>;
}

/// What a log is now. `None` where it is damaged.
///
/// # Errors
/// What the medium says.
pub fn revision<S: ReadAt + ?Sized>(
    source: &S,
    form: Form,
) -> io::Result<Result<Revision, Verdict>> {
    let d = examine(source, form)?;
    let sound = matches!(
        d.verdict,
        Verdict::Clean | Verdict::InterruptedTurnRecoverable
    );
    let Some(next_seq) = d.valid_prefix_events.filter(|_| sound) else {
        return Ok(Err(d.verdict));
    };
    let (bytes, sha256) = digest(source)?;
    Ok(Ok(Revision {
        bytes,
        sha256,
        next_seq,
    }))
}

/// Whether a batch may be appended: lines with events, each with a newline or as the last without.
/// The bytes that would be written.
///
/// # Errors
/// What the medium says.
pub fn prepare<S: ReadAt + ?Sized>(
    source: &S,
    form: Form,
    expected: &Revision,
    batch: &[u8],
) -> io::Result<Result<Vec<u8>, Refusal>> {
    let found = match revision(source, form)? {
        Ok(found) => found,
        Err(verdict) => return Ok(Err(Refusal::Damaged(verdict))),
    };
    if found != *expected {
        let (expected, found) = (Box::new(expected.clone()), Box::new(found));
        return Ok(Err(Refusal::Changed { expected, found }));
    }
    let lines: Vec<&[u8]> = batch
        .strip_suffix(b"\n")
        .unwrap_or(batch)
        .split(|b| *b == b'\n')
        .collect();
    if batch.is_empty() {
        return Ok(Err(Refusal::Empty));
    }
    let Some(mut walk) = walked(source, form)? else {
        return Ok(Err(Refusal::Damaged(Verdict::HeaderInvalid)));
    };
    let next = walk.count();
    let version = walk.replay.state.version;
    for (n, line) in lines.iter().enumerate() {
        let first = match event::decode(line, version) {
            Row::Event(e) => e.seq,
            Row::Packed(p) => p.first,
            Row::Header => return Ok(Err(Refusal::NoEvent("it is a header"))),
            Row::Bad(why) => return Ok(Err(Refusal::NoEvent(why))),
        };
        let due = walk.count();
        if first != due {
            return Ok(Err(match (n, first < next) {
                (0, true) => Refusal::Stale { first, next },
                (0, false) => Refusal::Gap { first, next },
                _ => Refusal::NotDense { got: first, due },
            }));
        }
        walk.line(line, Spot::default())?;
        let fault = walk.replay.fault().or(walk.replay.unknown());
        if let Some(fault) = fault {
            return Ok(Err(Refusal::Breaks(Box::new(fault.clone()))));
        }
    }
    let mut text = Vec::with_capacity(batch.len() + 1);
    for line in lines {
        text.extend_from_slice(line);
        text.push(b'\n');
    }
    if !form.packed {
        return Ok(Ok(text));
    }
    let mut encoder = Encoder::new(Vec::new(), 3)?;
    encoder.include_checksum(true)?;
    io::Write::write_all(&mut encoder, &text)?;
    Ok(Ok(encoder.finish()?))
}

/// Appends a batch whole or not at all, and gives the new revision.
///
/// # Errors
/// [`AppendError`]; only [`AppendError::Torn`] leaves the log other than it was.
pub fn append<M: Medium>(
    medium: &mut M,
    form: Form,
    expected: &Revision,
    batch: &[u8],
) -> Result<Revision, AppendError> {
    let bytes = prepare(medium, form, expected, batch)
        .map_err(AppendError::Unread)?
        .map_err(AppendError::Refused)?;
    let at = expected.bytes;
    let written = medium
        .write_at_end(at, &bytes)
        .and_then(|()| medium.sync())
        .and_then(|()| reread(medium, at, &bytes))
        .and_then(|()| revision(medium, form));
    match written {
        Ok(Ok(revision)) => Ok(revision),
        Ok(Err(verdict)) => Err(back(
            medium,
            expected,
            io::Error::other(format!("the log is {} behind the batch", verdict.name())),
        )),
        Err(e) => Err(back(medium, expected, e)),
    }
}

/// Goes back to the old length, and looks whether the old bytes are there.
fn back<M: Medium>(medium: &mut M, expected: &Revision, why: io::Error) -> AppendError {
    let restored = medium
        .truncate(expected.bytes)
        .and_then(|()| medium.sync())
        .and_then(|()| digest(medium));
    match restored {
        Ok((bytes, sha256)) if bytes == expected.bytes && sha256 == expected.sha256 => {
            AppendError::TakenBack(why)
        }
        _ => AppendError::Torn(why),
    }
}

fn reread<S: ReadAt + ?Sized>(source: &S, at: u64, bytes: &[u8]) -> io::Result<()> {
    // One byte more than was written: nobody else may have appended.
    let mut there = vec![0; bytes.len() + 1];
    let n = read_full(source, &mut there, at)?;
    if there.get(..n) == Some(bytes) {
        Ok(())
    } else {
        Err(io::Error::other("other bytes are there than were written"))
    }
}

/// Replays a whole log up to its end.
fn walked<S: ReadAt + ?Sized>(source: &S, form: Form) -> io::Result<Option<Walk<'_, S>>> {
    let mut lines = Lines::new(source, form.packed);
    let first = lines.next()?.map(|l| l.bytes.to_vec()).unwrap_or_default();
    let Ok(header) = header::read(&first, form.generation) else {
        return Ok(None);
    };
    let of = (header.version, header.seed_length);
    let mut walk = Walk::new(source, form.packed, of, &first, None);
    while let Some(line) = lines.next()? {
        walk.line(line.bytes, line.spot)?;
    }
    Ok(Some(walk))
}

fn digest<S: ReadAt + ?Sized>(source: &S) -> io::Result<(u64, [u8; 32])> {
    let mut hasher = Sha256::new();
    let mut buf = vec![0; 256 * 1024];
    let mut at = 0;
    loop {
        let n = read_full(source, &mut buf, at)?;
        if n == 0 {
            return Ok((at, hasher.finalize().into()));
        }
        hasher.update(buf.get(..n).unwrap_or_default());
        at += n as u64;
    }
}
