//! Where a list of hits goes on.
//!
//! A cursor names the newest message that there was at the first page, and the hits that were shown.
//! When everything that is ranked together was shown, it names the newest message behind that
//! instead, and no hits. So no hit comes twice and none is left out, whatever is added to the index,
//! taken out of it, or made anew meanwhile; only the order of what is still to come may move.

use std::collections::BTreeSet;

use crate::model::digest::Digest;

const VERSION: u8 = 2;
const CHECK: usize = 4;
const BOUND_TO: usize = 8;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Where a list of hits goes on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cursor {
    /// What it belongs to: the query, its filters and the archive's generation.
    pub bound_to: [u8; BOUND_TO],
    /// Row number of the newest message that may still come.
    pub newest: i64,
    /// Hits that were shown, all of them newer.
    pub earlier: u64,
    /// Row numbers of the other hits that were shown.
    pub seen: BTreeSet<i64>,
}

impl Cursor {
    /// What a cursor is bound to, from the texts that must not change.
    #[must_use]
    pub fn bind(parts: &[&str]) -> [u8; BOUND_TO] {
        let mut bytes = Vec::new();
        for part in parts {
            bytes.extend((part.len() as u64).to_le_bytes());
            bytes.extend(part.as_bytes());
        }
        let digest = Digest::of(&bytes);
        let mut bound = [0; BOUND_TO];
        bound.copy_from_slice(digest.0.split_at(BOUND_TO).0);
        bound
    }

    /// How many hits were shown.
    #[must_use]
    pub fn shown(&self) -> u64 {
        let seen = u64::try_from(self.seen.len()).unwrap_or(u64::MAX);
        self.earlier.saturating_add(seen)
    }

    /// Goes on with messages older than `row`, when nothing newer is left. Older ones were shown
    /// where the index was so small, then, that more of it was ranked together.
    pub fn go_behind(&mut self, row: i64) {
        let shown = self.shown();
        self.seen.retain(|id| *id < row);
        let older = u64::try_from(self.seen.len()).unwrap_or(u64::MAX);
        self.earlier = shown.saturating_sub(older);
        self.newest = row.saturating_sub(1);
    }

    /// The text for people and programs to hand back.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut bytes = vec![VERSION];
        bytes.extend(self.bound_to);
        put(&mut bytes, self.newest.cast_unsigned());
        put(&mut bytes, self.earlier);
        let mut last = 0;
        for id in &self.seen {
            put(&mut bytes, id.wrapping_sub(last).cast_unsigned());
            last = *id;
        }
        let check = Digest::of(&bytes);
        bytes.extend(check.0.split_at(CHECK).0);
        encode(&bytes)
    }

    /// Reads what [`Cursor::encode`] gave; `None` for anything else.
    #[must_use]
    pub fn decode(text: &str) -> Option<Cursor> {
        let bytes = decode(text)?;
        let (bytes, check) = bytes.split_at_checked(bytes.len().checked_sub(CHECK)?)?;
        if Digest::of(bytes).0.split_at(CHECK).0 != check {
            return None;
        }
        let (version, rest) = bytes.split_first()?;
        let (bound, mut rest) = rest.split_at_checked(BOUND_TO)?;
        if *version != VERSION {
            return None;
        }
        let newest = take(&mut rest)?.cast_signed();
        let earlier = take(&mut rest)?;
        let mut seen = BTreeSet::new();
        let mut last = 0i64;
        while !rest.is_empty() {
            last = last.wrapping_add(take(&mut rest)?.cast_signed());
            seen.insert(last);
        }
        Some(Cursor {
            bound_to: bound.try_into().ok()?,
            newest,
            earlier,
            seen,
        })
    }
}

fn put(bytes: &mut Vec<u8>, mut n: u64) {
    while n > 0x7F {
        bytes.push((n & 0x7F) as u8 | 0x80);
        n >>= 7;
    }
    bytes.push(n as u8);
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut n = 0u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        n |= u64::from(first & 0x7F) << shift;
        if first & 0x80 == 0 {
            return Some(n);
        }
    }
    None
}

fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 4 / 3 + 2);
    for three in bytes.chunks(3) {
        let n = three
            .iter()
            .chain([0u8, 0].iter())
            .take(3)
            .fold(0u32, |n, b| (n << 8) | u32::from(*b));
        for i in 0..=three.len() {
            let six = (n >> (18 - 6 * i)) & 63;
            out.push(char::from(ALPHABET[six as usize]));
        }
    }
    out
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    for four in text.as_bytes().chunks(4) {
        let mut n = 0u32;
        for i in 0..4 {
            let six = match four.get(i) {
                Some(b) => ALPHABET.iter().position(|a| a == b)?,
                None => 0,
            };
            n = (n << 6) | u32::try_from(six).ok()?;
        }
        let whole = n.to_be_bytes();
        out.extend(whole.iter().skip(1).take(four.len().checked_sub(1)?));
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn what_is_encoded_is_decoded(
            newest: i64,
            earlier: u64,
            seen: BTreeSet<i64>,
            bound_to: [u8; 8],
        ) {
            let cursor = Cursor { bound_to, newest, earlier, seen };
            assert_eq!(Cursor::decode(&cursor.encode()), Some(cursor));
        }

        #[test]
        fn nothing_else_is_a_cursor(text in "[A-Za-z0-9_-]{0,60}|\\PC*") {
            assert_eq!(Cursor::decode(&text), None);
        }
    }

    #[test]
    fn a_page_more_costs_little() {
        let seen = (0..100).map(|n| (n * 37) << 24).collect();
        let cursor = Cursor {
            seen,
            ..Cursor::default()
        };
        assert!(cursor.encode().len() < 900, "{}", cursor.encode().len());
    }
}
