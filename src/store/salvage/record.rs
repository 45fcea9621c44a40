//! A record: a header of types, and the values behind it.

use rusqlite::types::ValueRef;

use super::cell::varint;

/// Type of a value of 32 bytes, which every row ends in.
const DIGEST_TYPE: u64 = 12 + 2 * 32;
/// Longest header: every table has fewer columns, and a type takes 9 bytes at most.
const HEADER_MAX: usize = 9 * 64;

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
    /// It can be a row of one of the tables.
    Fits,
    /// It is none.
    No,
    /// Its header goes on behind these bytes.
    Longer,
}

/// Looks at a record's header alone: a row id column that is stored as nothing, a width that some
/// table has, a hash at the end, and values that fill the payload exactly.
pub(super) fn look(start: &[u8], payload: usize, has_width: impl Fn(usize) -> bool) -> Look {
    let mut at = 0;
    let Some(header) = varint(start, &mut at).and_then(|n| usize::try_from(n).ok()) else {
        return Look::No;
    };
    if header > payload || !(3..=HEADER_MAX).contains(&header) {
        return Look::No;
    }
    let Some(types) = start.get(..header) else {
        return Look::Longer;
    };
    if types.get(at) != Some(&0) {
        return Look::No;
    }
    let (mut columns, mut total, mut last) = (0, header, 0);
    while at < header {
        let Some(kind) = varint(types, &mut at) else {
            return Look::No;
        };
        let Some(sum) = width(kind).and_then(|n| total.checked_add(n)) else {
            return Look::No;
        };
        (columns, total, last) = (columns + 1, sum, kind);
    }
    if last == DIGEST_TYPE && total == payload && has_width(columns) {
        Look::Fits
    } else {
        Look::No
    }
}

/// The values of a record. A first value of nothing is the row id. `None` when they don't fill it.
pub(super) fn values<'a>(payload: &'a [u8], rowid: i64, out: &mut Vec<ValueRef<'a>>) -> Option<()> {
    out.clear();
    let mut at = 0;
    let header = usize::try_from(varint(payload, &mut at)?).ok()?;
    let types = payload.get(..header.min(HEADER_MAX))?;
    let mut body = header;
    while at < header {
        let kind = varint(types, &mut at)?;
        let end = body.checked_add(width(kind)?)?;
        let bytes = payload.get(body..end)?;
        body = end;
        out.push(match kind {
            0 if out.is_empty() => ValueRef::Integer(rowid),
            0 => ValueRef::Null,
            7 => ValueRef::Real(f64::from_bits(u64::from_be_bytes(bytes.try_into().ok()?))),
            8 => ValueRef::Integer(0),
            9 => ValueRef::Integer(1),
            1..=6 => ValueRef::Integer(integer(bytes)),
            n if n % 2 == 0 => ValueRef::Blob(bytes),
            _ => ValueRef::Text(bytes),
        });
    }
    (body == payload.len()).then_some(())
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
}
