//! What is missing in a log, found in an older version of it.
//!
//! A log only grows. An older version that is sound and agrees with the log before and behind what
//! is damaged, byte for byte, has what was there: no row is made, moved or chosen.

use std::collections::{HashMap, HashSet};
use std::io;

use super::event::{self, Row};
use super::frame::{self, Found, MAGIC};
use super::kept::without_zeros;
use super::mend::decode;
use super::name::Form;

/// A log made of its older version and of itself: the first `taken` bytes of the older version, and
/// the log's own bytes from `from` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rebuilt {
    /// Bytes of the older version.
    pub taken: u64,
    /// Where the log goes on.
    pub from: u64,
}

/// Lines or frames: each begins where the one before it ends.
type Units = Vec<(usize, usize)>;

/// Looks whether an older version has what a log lost. `None` when the two don't agree on both sides
/// of it, or the log has a row there that the older version has not. What comes of it still has to
/// be examined.
///
/// # Errors
/// Frames that can't be decoded by the system.
pub fn rebuild(log: &[u8], older: &[u8], form: Form) -> io::Result<Option<Rebuilt>> {
    let Some(units) = units(older, form.packed)? else {
        return Ok(None);
    };
    let same = log.iter().zip(older).take_while(|(a, b)| a == b).count();
    let first = units.partition_point(|(_, to)| *to <= same);
    let gap = units.get(first).map_or(older.len(), |u| u.0);
    if gap == older.len() {
        // All of it is in the log.
        return Ok(None);
    }
    let places = places(log, gap, form.packed)?;
    let behind = units.iter().skip(first).find_map(|(from, to)| {
        let place = places.get(older.get(*from..*to)?)?;
        Some((*from, *place))
    });
    let Some((taken, from)) = behind else {
        return Ok(None);
    };
    let (a, b) = (
        older.get(taken..).unwrap_or_default(),
        log.get(from..).unwrap_or_default(),
    );
    let common = a.len().min(b.len());
    if a.get(..common) != b.get(..common) {
        return Ok(None);
    }
    let lost = log.get(gap..from).unwrap_or_default();
    let instead = older.get(gap..taken).unwrap_or_default();
    if !holds_all(instead, lost, form.packed)? {
        return Ok(None);
    }
    Ok(Some(Rebuilt {
        taken: taken as u64,
        from: from as u64,
    }))
}

/// The lines or frames of a whole log.
fn units(log: &[u8], packed: bool) -> io::Result<Option<Units>> {
    let mut out = Units::new();
    let mut at = 0;
    if !packed {
        for end in memchr::memchr_iter(b'\n', log) {
            out.push((at, end + 1));
            at = end + 1;
        }
        return Ok((at == log.len()).then_some(out));
    }
    loop {
        match frame::look(log, at as u64)? {
            Found::Frame { to, .. } => {
                let to = usize::try_from(to).unwrap_or(usize::MAX);
                out.push((at, to));
                at = to;
            }
            Found::End => return Ok(Some(out)),
            _ => return Ok(None),
        }
    }
}

/// Where lines or frames of a log begin that come behind `gap`, by their bytes.
fn places(log: &[u8], gap: usize, packed: bool) -> io::Result<HashMap<&[u8], usize>> {
    let mut out = HashMap::new();
    let rest = log.get(gap..).unwrap_or_default();
    if !packed {
        let mut at = gap;
        for end in memchr::memchr_iter(b'\n', rest).map(|n| gap + n + 1) {
            if let Some(line) = log.get(at..end) {
                out.entry(line).or_insert(at);
            }
            at = end;
        }
        return Ok(out);
    }
    // The four bytes occur in data as well: a place is one only if the bytes of a known frame are there.
    for at in memchr::memmem::find_iter(rest, &MAGIC).map(|n| gap + n) {
        if let Found::Frame { to, .. } = frame::look(log, at as u64)?
            && let Some(bytes) = log.get(at..usize::try_from(to).unwrap_or(usize::MAX))
        {
            out.entry(bytes).or_insert(at);
        }
    }
    Ok(out)
}

/// Whether every row that can be read in `lost` is in `instead`.
fn holds_all(instead: &[u8], lost: &[u8], packed: bool) -> io::Result<bool> {
    let (there, gone) = (texts(instead, packed)?, texts(lost, packed)?);
    let lines = |text: &[u8]| -> Vec<Vec<u8>> {
        text.split(|b| *b == b'\n')
            .map(|l| without_zeros(l).1.to_vec())
            .collect()
    };
    let known: HashSet<Vec<u8>> = there.iter().flat_map(|t| lines(t)).collect();
    Ok(gone.iter().flat_map(|t| lines(t)).all(|line| {
        // The oldest version has every kind of row.
        let is_row = matches!(
            event::decode(&line, 0),
            Row::Event(_) | Row::Packed(_) | Row::Header
        );
        !is_row || known.contains(&line)
    }))
}

/// The text of a piece of a log, as far as its frames can be decoded.
fn texts(piece: &[u8], packed: bool) -> io::Result<Vec<Vec<u8>>> {
    if !packed {
        return Ok(vec![piece.to_vec()]);
    }
    let mut out = Vec::new();
    for at in memchr::memmem::find_iter(piece, &MAGIC) {
        if let Found::Frame { to, .. } = frame::look(piece, at as u64)? {
            let mut text = Vec::new();
            let whole = decode(piece, at as u64, to, true, &mut |bytes| {
                text.extend_from_slice(bytes);
                Ok(())
            });
            if whole.is_ok() {
                out.push(text);
            }
        }
    }
    Ok(out)
}
