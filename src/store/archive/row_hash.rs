//! The hash of a row: what it is made of, and by which of two rules.
//!
//! It is there against damage, not against people: whoever can write a row can also compute its hash.
//! So it is XXH3-128, which is as sure to see a changed bit as any hash of its length and reads a row
//! of a few hundred bytes ten times as fast as BLAKE3 does. An archive of schema 1 has BLAKE3. Which
//! rule a row was hashed by is told by the length of the hash that it holds.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use twox_hash::XxHash3_128;

use super::schema::Table;
use crate::model::digest::{Digest, DigestSum};

/// Rows up to this many bytes are hashed in one go, which is faster than feeding a hasher.
const WHOLE: usize = 64 << 10;

/// The hash of a row, as its last column holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowHash {
    /// XXH3-128 in its canonical form: big-endian.
    Xxh3([u8; 16]),
    /// BLAKE3: of schema 1.
    Blake3([u8; 32]),
}

/// What no row has.
impl Default for RowHash {
    fn default() -> Self {
        RowHash::Xxh3([0; 16])
    }
}

impl RowHash {
    /// The hash that a column holds; `None` for anything else.
    pub fn of_column(value: ValueRef<'_>) -> Option<RowHash> {
        let ValueRef::Blob(bytes) = value else {
            return None;
        };
        let short = <[u8; 16]>::try_from(bytes).map(RowHash::Xxh3);
        short
            .or_else(|_| <[u8; 32]>::try_from(bytes).map(RowHash::Blake3))
            .ok()
    }

    pub fn bytes(&self) -> &[u8] {
        match self {
            RowHash::Xxh3(bytes) => bytes,
            RowHash::Blake3(bytes) => bytes,
        }
    }

    /// The hash as a column.
    pub fn column(&self) -> ValueRef<'_> {
        ValueRef::Blob(self.bytes())
    }

    /// Adds it to the sum over a set of rows; a short one counts as followed by zeros.
    pub fn add_to(&self, sum: &mut DigestSum) {
        let mut element = [0; 32];
        for (to, from) in element.iter_mut().zip(self.bytes()) {
            *to = *from;
        }
        sum.add(&Digest(element));
    }
}

impl FromSql for RowHash {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        RowHash::of_column(value).ok_or(FromSqlError::InvalidType)
    }
}

/// A hash of one rule in the making.
enum Long {
    Xxh3(Box<XxHash3_128>),
    Blake3(Box<blake3::Hasher>),
}

impl std::fmt::Debug for Long {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Long::Xxh3(_) => "Xxh3",
            Long::Blake3(_) => "Blake3",
        })
    }
}

/// Collects the encoding of a row: of each column a type tag, then a number's 8 bytes or a text's
/// length and bytes, so that no two rows have the same encoding.
#[derive(Debug, Default)]
pub(super) struct RowHasher {
    buffer: Vec<u8>,
    long: Option<Long>,
    is_blake3: bool,
}

impl RowHasher {
    /// Begins a row of `table` by the rule of the present schema.
    pub fn begin(&mut self, table: &str) {
        self.begin_by(table, RowHash::default());
    }

    /// Begins a row of `table` by the rule that `like` was made by.
    pub fn begin_by(&mut self, table: &str, like: RowHash) {
        self.clear(matches!(like, RowHash::Blake3(_)), table);
    }

    /// Begins values of any kind that [`RowHasher::digest`] names for good.
    pub fn begin_digest(&mut self, kind: &str) {
        self.clear(true, kind);
    }

    fn clear(&mut self, is_blake3: bool, name: &str) {
        self.buffer.clear();
        self.long = None;
        self.is_blake3 = is_blake3;
        self.value(ValueRef::Text(name.as_bytes()));
    }

    /// The next column.
    pub fn value(&mut self, value: ValueRef<'_>) {
        match value {
            ValueRef::Null => self.buffer.push(0),
            ValueRef::Integer(n) => self.tagged(1, n.to_le_bytes()),
            ValueRef::Real(x) => self.tagged(2, x.to_bits().to_le_bytes()),
            ValueRef::Text(bytes) => self.bytes(3, bytes),
            ValueRef::Blob(bytes) => self.bytes(4, bytes),
        }
    }

    /// In one piece: a row has many numbers.
    fn tagged(&mut self, tag: u8, number: [u8; 8]) {
        let mut piece = [tag; 9];
        piece[1..].copy_from_slice(&number);
        self.buffer.extend_from_slice(&piece);
    }

    fn bytes(&mut self, tag: u8, bytes: &[u8]) {
        let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.tagged(tag, len.to_le_bytes());
        if self.buffer.len() + bytes.len() <= WHOLE {
            self.buffer.extend_from_slice(bytes);
            return;
        }
        let is_blake3 = self.is_blake3;
        let long = self.long.get_or_insert_with(|| {
            if is_blake3 {
                Long::Blake3(Box::default())
            } else {
                Long::Xxh3(Box::default())
            }
        });
        for part in [&self.buffer, bytes] {
            long.update(part);
        }
        self.buffer.clear();
    }

    /// Whether the hash of a row with these columns is `stored`.
    pub fn agrees(&mut self, table: &Table, columns: &[ValueRef<'_>], stored: RowHash) -> bool {
        self.begin_by(table.name, stored);
        columns.iter().for_each(|value| self.value(*value));
        self.finish() == stored
    }

    /// The hash of the row.
    pub fn finish(&mut self) -> RowHash {
        match self.long.take() {
            Some(mut long) => {
                long.update(&self.buffer);
                long.finish()
            }
            None if self.is_blake3 => RowHash::Blake3(Digest::of(&self.buffer).0),
            None => RowHash::Xxh3(XxHash3_128::oneshot(&self.buffer).to_be_bytes()),
        }
    }

    /// The BLAKE3 of what was collected since [`RowHasher::begin_digest`].
    pub fn digest(&mut self) -> Digest {
        match self.long.take() {
            Some(Long::Blake3(mut hasher)) => hasher.update(&self.buffer).finalize().into(),
            Some(Long::Xxh3(_)) | None => Digest::of(&self.buffer),
        }
    }
}

impl Long {
    fn update(&mut self, bytes: &[u8]) {
        match self {
            Long::Xxh3(hasher) => hasher.write(bytes),
            Long::Blake3(hasher) => {
                hasher.update(bytes);
            }
        }
    }

    fn finish(self) -> RowHash {
        match self {
            Long::Xxh3(hasher) => RowHash::Xxh3(hasher.finish_128().to_be_bytes()),
            Long::Blake3(hasher) => RowHash::Blake3(*hasher.finalize().as_bytes()),
        }
    }
}

/// The hash of a row, given all its columns but `row_hash`.
pub(super) fn row_hash(table: &Table, values: &[ValueRef<'_>]) -> RowHash {
    let mut hasher = RowHasher::default();
    hasher.buffer.reserve(1024);
    hasher.begin(table.name);
    for value in values {
        hasher.value(*value);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::archive::schema::META;

    /// The encoding, written out by hand.
    fn encoded(values: &[ValueRef<'_>]) -> Vec<u8> {
        let mut out = Vec::new();
        let text = |out: &mut Vec<u8>, tag: u8, bytes: &[u8]| {
            out.push(tag);
            out.extend((bytes.len() as u64).to_le_bytes());
            out.extend(bytes);
        };
        text(&mut out, 3, META.name.as_bytes());
        for value in values {
            match value {
                ValueRef::Null => out.push(0),
                ValueRef::Integer(n) => {
                    out.push(1);
                    out.extend(n.to_le_bytes());
                }
                ValueRef::Real(_) => unreachable!(),
                ValueRef::Text(b) => text(&mut out, 3, b),
                ValueRef::Blob(b) => text(&mut out, 4, b),
            }
        }
        out
    }

    #[test]
    fn long_and_short_rows_are_hashed_by_one_rule_of_each_schema() {
        let long = vec![7u8; WHOLE + 1];
        for len in [0, 1, 1000, WHOLE - 100, WHOLE, WHOLE + 1] {
            let values = [
                ValueRef::Integer(1),
                ValueRef::Text(&long[..len]),
                ValueRef::Null,
                ValueRef::Blob(&long[..len]),
            ];
            let bytes = encoded(&values);
            let short = RowHash::Xxh3(XxHash3_128::oneshot(&bytes).to_be_bytes());
            assert_eq!(row_hash(&META, &values), short, "{len}");
            let mut hasher = RowHasher::default();
            let old = RowHash::Blake3(*blake3::hash(&bytes).as_bytes());
            for stored in [short, old] {
                assert!(hasher.agrees(&META, &values, stored), "{len}");
                assert!(!hasher.agrees(&META, &values[1..], stored), "{len}");
                assert_eq!(RowHash::of_column(stored.column()), Some(stored));
            }
        }
    }

    /// As xxHash's own implementation in C has it (through Python's `xxhash` 3), of each length that the
    /// hash has a rule of its own for.
    #[test]
    fn the_hash_is_the_published_one() {
        for (len, hex) in [
            (0, "99aa06d3014798d86001c324468d497f"),
            (3, "4af3603b5bd30dfe3698b80191e625f9"),
            (8, "791e22cdc30880ba073a25812fe4f600"),
            (16, "4ad789329416e4387df51ed58f26bee2"),
            (128, "2420677499e7498929b103324f4df782"),
            (240, "7cf77784002208a5423167d7599e74a5"),
            (1000, "17a0f7b2ab909d68404e1417800eb486"),
            (100_000, "28684b2ad44cd4a402df1e985a776b74"),
        ] {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 31 % 251) as u8).collect();
            assert_eq!(
                format!("{:032x}", XxHash3_128::oneshot(&bytes)),
                hex,
                "{len}"
            );
            let mut pieces = XxHash3_128::default();
            bytes.chunks(777).for_each(|piece| pieces.write(piece));
            assert_eq!(format!("{:032x}", pieces.finish_128()), hex, "{len}");
        }
    }

    #[test]
    fn types_and_borders_of_columns_count() {
        let hash = |values: &[ValueRef<'_>]| row_hash(&META, values);
        let (ab, c) = (ValueRef::Text(b"ab"), ValueRef::Text(b"c"));
        let all = [
            hash(&[ab, c]),
            hash(&[ValueRef::Text(b"a"), ValueRef::Text(b"bc")]),
            hash(&[ValueRef::Blob(b"ab"), c]),
            hash(&[ValueRef::Null, c]),
            hash(&[ValueRef::Text(b""), c]),
            hash(&[ValueRef::Integer(0), c]),
            hash(&[ValueRef::Real(0.0), c]),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b), "{i}");
        }
    }

    /// Every bit of a row counts, in rows of each length that the hash has a rule of its own for.
    #[test]
    fn each_flipped_bit_changes_the_hash() {
        for len in [
            1, 3, 4, 8, 9, 16, 17, 100, 128, 129, 200, 240, 241, 600, 5000,
        ] {
            let mut text: Vec<u8> = (0..len).map(|i| (i * 31 % 251) as u8).collect();
            let before = row_hash(&META, &[ValueRef::Text(&text)]);
            let mut sum = DigestSum::ZERO;
            before.add_to(&mut sum);
            for bit in 0..len * 8 {
                text[bit / 8] ^= 1 << (bit % 8);
                let after = row_hash(&META, &[ValueRef::Text(&text)]);
                assert_ne!(after, before, "bit {bit} of {len} bytes");
                let mut other = DigestSum::ZERO;
                after.add_to(&mut other);
                assert_ne!(other, sum, "bit {bit} of {len} bytes");
                text[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }
}
