//! A cell: how long a row is, its id, and where its bytes lie.

use super::page::be32;

/// Longest payload that SQLite writes.
const PAYLOAD_MAX: u64 = 2_147_483_645;

/// A number of 1 to 9 bytes at `at`, which is moved behind it.
pub(super) fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut n = 0u64;
    for i in 0..9 {
        let b = *bytes.get(*at)?;
        *at += 1;
        if i == 8 {
            return Some((n << 8) | u64::from(b));
        }
        n = (n << 7) | u64::from(b & 0x7f);
        if b & 0x80 == 0 {
            break;
        }
    }
    Some(n)
}

/// Where a payload lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cell {
    pub rowid: i64,
    /// Length of the payload.
    pub payload: usize,
    /// What of it lies in the page itself: begin and end.
    pub local: (usize, usize),
    /// First page of the rest.
    pub overflow: Option<u32>,
}

impl Cell {
    /// The cell of a table leaf at `at`.
    pub fn of_table(page: &[u8], at: usize) -> Option<Cell> {
        let mut at = at;
        let payload = varint(page, &mut at)?;
        let rowid = varint(page, &mut at)?.cast_signed();
        Self::place(page, at, payload, rowid, page.len().checked_sub(35)?)
    }

    /// The cell of an index page, leaf or interior; it has no row id of its own.
    pub fn of_index(page: &[u8], at: usize, is_leaf: bool) -> Option<Cell> {
        let mut at = if is_leaf { at } else { at.checked_add(4)? };
        let payload = varint(page, &mut at)?;
        let most = (page.len().checked_sub(12)? * 64 / 255).checked_sub(23)?;
        Self::place(page, at, payload, 0, most)
    }

    fn place(page: &[u8], at: usize, payload: u64, rowid: i64, most: usize) -> Option<Cell> {
        if payload == 0 || payload > PAYLOAD_MAX {
            return None;
        }
        let payload = usize::try_from(payload).ok()?;
        let usable = page.len();
        let local = if payload <= most {
            payload
        } else {
            let least = (usable.checked_sub(12)? * 32 / 255).checked_sub(23)?;
            let fit = least + (payload - least) % usable.checked_sub(4)?;
            if fit <= most { fit } else { least }
        };
        let end = at.checked_add(local)?;
        let overflow = if local < payload {
            Some(be32(page, end)?)
        } else {
            None
        };
        (end <= usable).then_some(Cell {
            rowid,
            payload,
            local: (at, end),
            overflow,
        })
    }

    /// Behind its last byte.
    pub fn end(&self) -> usize {
        self.local.1 + if self.overflow.is_some() { 4 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_length_and_none_behind_the_end() {
        let read = |bytes: &[u8]| {
            let mut at = 0;
            varint(bytes, &mut at).map(|n| (n, at))
        };
        assert_eq!(read(&[0x7f]), Some((127, 1)));
        assert_eq!(read(&[0x81, 0]), Some((128, 2)));
        assert_eq!(read(&[0xff; 9]), Some((u64::MAX, 9)));
        assert_eq!(read(&[0xff; 8]), None);
        assert_eq!(read(&[]), None);
    }
}
