//! A record: a header of types, and the values behind it.

use rusqlite::types::ValueRef;

use super::cell::varint;

/// Types of the hash that every row ends in: 16 bytes, and 32 in schema 1. Each takes one byte.
pub(super) const HASH_TYPES: [u8; 2] = [12 + 2 * 16, 12 + 2 * 32];
/// More columns than any table has.
pub(super) const COLUMNS_MAX: usize = 32;
/// Longest header: a type takes 9 bytes at most, as does the header's own length.
const HEADER_MAX: usize = 9 * (COLUMNS_MAX + 1);

/// The values of one record.
pub(super) type Values<'a> = [ValueRef<'a>; COLUMNS_MAX];

/// Bytes of a value of this type.
fn width(kind: u64) -> Option<usize> {
    Some(match kind {
        0 | 8 | 9 => 0,
        n @ 1..=4 => usize::try_from(n).ok()?,
        5 => 6,
        6 | 7 => 8,
        10 | 11 => return None,
        n => usize::try_from((n - 12) / 2).ok()?,
    })
}

/// What the begin of a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// Its values fill it exactly.
    Fits,
    /// It is no record.
    No,
    /// Its header goes on behind these bytes.
    Longer,
}

/// The types of a record's values.
#[derive(Debug)]
pub(super) struct Header {
    kinds: [u64; COLUMNS_MAX],
    columns: usize,
    len: usize,
}

impl Default for Header {
    fn default() -> Self {
        Header {
            kinds: [0; COLUMNS_MAX],
            columns: 0,
            len: 0,
        }
    }
}

impl Header {
    /// Reads the header of a record of `payload` bytes that begins with `start`.
    pub fn read(&mut self, start: &[u8], payload: usize) -> Look {
        let mut at = 0;
        let Some(len) = varint(start, &mut at).and_then(|n| usize::try_from(n).ok()) else {
            return Look::No;
        };
        if len > payload || !(3..=HEADER_MAX).contains(&len) {
            return Look::No;
        }
        let Some(types) = start.get(..len) else {
            return Look::Longer;
        };
        let (mut columns, mut total) = (0, len);
        while let Some(first) = types.get(at) {
            let kind = if *first < 0x80 {
                at += 1;
                u64::from(*first)
            } else {
                match varint(types, &mut at) {
                    Some(kind) => kind,
                    None => return Look::No,
                }
            };
            let sum = width(kind).and_then(|n| total.checked_add(n));
            let (Some(sum), Some(slot)) = (sum, self.kinds.get_mut(columns)) else {
                return Look::No;
            };
            *slot = kind;
            (columns, total) = (columns + 1, sum);
        }
        (self.columns, self.len) = (columns, len);
        if total == payload {
            Look::Fits
        } else {
            Look::No
        }
    }

    fn kinds(&self) -> &[u64] {
        self.kinds.get(..self.columns).unwrap_or_default()
    }

    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Whether a row can have it: a row id column that is stored as nothing, and a hash at the end.
    pub fn is_of_row(&self) -> bool {
        let is_hash = |kind: &u64| HASH_TYPES.iter().any(|t| u64::from(*t) == *kind);
        self.kinds().first() == Some(&0) && self.kinds().last().is_some_and(is_hash)
    }

    /// Whether it is of a text and a number: an index over one column of texts.
    pub fn is_text_and_number(&self) -> bool {
        matches!(*self.kinds(), [text, 1..=6 | 8 | 9] if text >= 13 && text % 2 == 1)
    }

    /// The values of the record whose header was read. A first value of nothing is the row id.
    pub fn values<'v, 'a>(
        &self,
        payload: &'a [u8],
        rowid: i64,
        out: &'v mut Values<'a>,
    ) -> Option<&'v [ValueRef<'a>]> {
        let mut body = self.len;
        for (kind, slot) in self.kinds().iter().zip(out.iter_mut()) {
            let end = body.checked_add(width(*kind)?)?;
            let bytes = payload.get(body..end)?;
            body = end;
            *slot = match *kind {
                0 => ValueRef::Null,
                7 => ValueRef::Real(f64::from_bits(u64::from_be_bytes(bytes.try_into().ok()?))),
                8 => ValueRef::Integer(0),
                9 => ValueRef::Integer(1),
                1..=6 => ValueRef::Integer(integer(bytes)),
                n if n % 2 == 0 => ValueRef::Blob(bytes),
                _ => ValueRef::Text(bytes),
            };
        }
        if self.kinds().first() == Some(&0) {
            *out.first_mut()? = ValueRef::Integer(rowid);
        }
        out.get(..self.columns)
    }
}

fn integer(bytes: &[u8]) -> i64 {
    let sign = if bytes.first().is_some_and(|b| b & 0x80 != 0) {
        -1i64
    } else {
        0
    };
    bytes.iter().fold(sign, |n, b| (n << 8) | i64::from(*b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_keep_their_sign() {
        assert_eq!(integer(&[0xff]), -1);
        assert_eq!(integer(&[0x80, 0]), -32768);
        assert_eq!(integer(&[0, 0x80, 0]), 32768);
        assert_eq!(integer(&i64::MIN.to_be_bytes()), i64::MIN);
    }

    #[test]
    fn lengths_that_no_file_has_are_no_record() {
        let read = |start: &[u8], payload| Header::default().read(start, payload);
        // A text of 2^60 bytes, alone and so often that the sum overflows.
        let long = [0x90, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 13];
        let mut header = vec![10];
        header.extend(long);
        assert_eq!(read(&header, 4000), Look::No);
        assert_eq!(read(&header, usize::MAX), Look::No);
        let mut header = vec![0x81, 19];
        (0..17).for_each(|_| header.extend([0xff; 9]));
        assert_eq!(read(&header, usize::MAX), Look::No);
        // A header of 2^60 bytes, one behind the payload, one that goes on elsewhere.
        assert_eq!(read(&long, usize::MAX), Look::No);
        assert_eq!(read(&[30, 1], 20), Look::No);
        assert_eq!(read(&[30, 1], 40), Look::Longer);
        // More columns than any table has.
        let mut header = vec![40];
        header.resize(40, 8);
        assert_eq!(read(&header, 40), Look::No);
        assert_eq!(read(&[3, 8, 9], 3), Look::Fits);
        assert_eq!(read(&[3, 8, 10], 3), Look::No);
    }
}
