//! Adding events to a log: only by one who knows its end.
//!
//! The caller holds the lock that keeps other writers of the session away, from before the log is
//! read until after [`append`] ends. What was read to make the batch is told by a [`Revision`]; it
//! is compared under the lock, and where anything differs nothing is written. The caller reads the
//! log anew then and decides; a batch is never renumbered.

use std::io;

use sha2::{Digest, Sha256};

use super::bytes::{ReadAt, read_full, sha256};
use super::event::{self, Row};
use super::examine::examine;
use super::fault::Fault;
use super::frame;
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
    /// Somebody who holds no lock wrote at the same time. The batch is not in the log, or it was
    /// taken out again; what they wrote is untouched.
    Overtaken,
    /// Writing failed, and so did going back: the log may end with a part of the batch.
    Torn(io::Error),
}

/// A log that can be written at its end.
pub trait Medium: ReadAt {
    /// Writes bytes behind whatever is there: never over what another writer just added.
    ///
    /// # Errors
    /// What the medium says; a part may be written.
    fn write_at_end(&mut self, bytes: &[u8]) -> io::Result<()>;

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
    Ok(hashed(source, form)?.map(|(revision, _)| revision))
}

/// A revision, and the hash of the log so far, which can go on.
fn hashed<S: ReadAt + ?Sized>(
    source: &S,
    form: Form,
) -> io::Result<Result<(Revision, Sha256), Verdict>> {
    let d = examine(source, form)?;
    let Some(next_seq) = d.valid_prefix_events.filter(|_| d.is_sound()) else {
        return Ok(Err(d.verdict));
    };
    let (bytes, hasher) = sha256(source, u64::MAX)?;
    let revision = Revision {
        bytes,
        sha256: hasher.clone().finalize().into(),
        next_seq,
    };
    Ok(Ok((revision, hasher)))
}

/// Whether a log still begins with what it was at a revision, byte for byte.
///
/// # Errors
/// What the medium says.
pub fn begins_with<S: ReadAt + ?Sized>(source: &S, seed: &Revision) -> io::Result<bool> {
    let (bytes, hasher) = sha256(source, seed.bytes)?;
    let found: [u8; 32] = hasher.finalize().into();
    Ok(bytes == seed.bytes && found == seed.sha256)
}

/// Gives the whole lines of a log from an offset on, at which a revision of it ended.
///
/// # Errors
/// What the medium says.
pub fn lines_from<S: ReadAt + ?Sized>(
    source: &S,
    form: Form,
    from: u64,
    each: &mut dyn FnMut(&[u8]),
) -> io::Result<()> {
    let mut lines = Lines::new(source, form.packed);
    while let Some(line) = lines.next()? {
        if line.whole && line.spot.file >= from {
            each(line.bytes);
        }
    }
    Ok(())
}

/// The bytes of a log that is its header alone. `header` is a line without its newline.
///
/// # Errors
/// What packing says.
pub fn first_bytes(packed: bool, header: &[u8]) -> io::Result<Vec<u8>> {
    let mut line = header.to_vec();
    line.push(b'\n');
    if packed {
        frame::encode(&line)
    } else {
        Ok(line)
    }
}

/// A batch that may be appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// What is written behind the log: lines, or one frame.
    pub bytes: Vec<u8>,
    /// What the log is then.
    pub after: Revision,
}

/// Whether a batch may be appended: lines with events, each with a newline or as the last without.
///
/// # Errors
/// What the medium says.
pub fn prepare<S: ReadAt + ?Sized>(
    source: &S,
    form: Form,
    expected: &Revision,
    batch: &[u8],
) -> io::Result<Result<Prepared, Refusal>> {
    let (found, mut hasher) = match hashed(source, form)? {
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
        // The harness reads such a row, with other bytes in their place; nobody writes one.
        if std::str::from_utf8(line).is_err() {
            return Ok(Err(Refusal::NoEvent("it holds bytes that are no UTF-8")));
        }
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
    let mut bytes = Vec::with_capacity(batch.len() + 1);
    for line in lines {
        bytes.extend_from_slice(line);
        bytes.push(b'\n');
    }
    if form.packed {
        bytes = frame::encode(&bytes)?;
    }
    hasher.update(&bytes);
    let after = Revision {
        bytes: found.bytes + bytes.len() as u64,
        sha256: hasher.finalize().into(),
        next_seq: walk.count(),
    };
    Ok(Ok(Prepared { bytes, after }))
}

/// Appends a batch whole or not at all, and gives the new revision.
///
/// # Errors
/// [`AppendError`]; only [`AppendError::Torn`] leaves anything of the batch in the log.
pub fn append<M: Medium>(
    medium: &mut M,
    form: Form,
    expected: &Revision,
    batch: &[u8],
) -> Result<Revision, AppendError> {
    let Prepared { bytes, after } = prepare(medium, form, expected, batch)
        .map_err(AppendError::Unread)?
        .map_err(AppendError::Refused)?;
    let written = medium.write_at_end(&bytes).and_then(|()| medium.sync());
    let end = match behind(medium, expected.bytes, &bytes) {
        Ok(end) => end,
        Err(e) => return Err(AppendError::Torn(written.err().unwrap_or(e))),
    };
    match (written, end) {
        (Ok(()), End::Whole) => Ok(after),
        (Ok(()), End::Part) => Err(back(
            medium,
            expected.bytes,
            io::Error::other("less is there than was written"),
        )),
        (Err(e), End::Whole | End::Part) => Err(back(medium, expected.bytes, e)),
        (_, End::Theirs(at)) => Err(
            match back(
                medium,
                at,
                io::Error::other("others wrote at the same time"),
            ) {
                AppendError::TakenBack(_) => AppendError::Overtaken,
                torn => torn,
            },
        ),
        (Ok(()), End::Mixed) => Err(AppendError::Torn(io::Error::other(
            "others wrote at the same time, behind or into the batch",
        ))),
        (Err(e), End::Mixed) => Err(AppendError::Torn(e)),
    }
}

/// What lies behind the old end of a log after a batch was written.
enum End {
    /// The batch.
    Whole,
    /// A first part of it, or nothing.
    Part,
    /// What others wrote, and then the batch, from here on.
    Theirs(u64),
    /// Something else.
    Mixed,
}

fn behind<S: ReadAt + ?Sized>(source: &S, at: u64, bytes: &[u8]) -> io::Result<End> {
    let mut there = vec![0; bytes.len() + 1];
    let n = read_full(source, &mut there, at)?;
    let there = there.get(..n).unwrap_or_default();
    if there == bytes {
        return Ok(End::Whole);
    }
    if bytes.starts_with(there) {
        return Ok(End::Part);
    }
    let (len, _) = sha256(source, u64::MAX)?;
    let begins = len.saturating_sub(bytes.len() as u64);
    let mut tail = vec![0; bytes.len()];
    let n = read_full(source, &mut tail, begins)?;
    if begins > at && tail.get(..n) == Some(bytes) {
        return Ok(End::Theirs(begins));
    }
    Ok(End::Mixed)
}

/// Goes back to a length, durably.
fn back<M: Medium>(medium: &mut M, len: u64, why: io::Error) -> AppendError {
    let restored = medium
        .truncate(len)
        .and_then(|()| medium.sync())
        .and_then(|()| medium.read_at(&mut [0], len));
    match restored {
        Ok(0) => AppendError::TakenBack(why),
        _ => AppendError::Torn(why),
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
