//! Rows and their hashes: written and verified by the same code.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Row, Statement};

use super::schema::Table;
use crate::model::digest::{Digest, DigestSum};

/// Rows up to this many bytes are hashed in one go, which is faster than feeding a hasher.
const WHOLE: usize = 64 << 10;

/// Collects the encoding of a row: of each column a type tag, then a number's 8 bytes or a text's
/// length and bytes, so that no two rows have the same encoding.
#[derive(Debug, Default)]
pub(super) struct RowHasher {
    buffer: Vec<u8>,
    long: Option<Box<blake3::Hasher>>,
}

impl RowHasher {
    /// Begins a row of `table`.
    pub fn begin(&mut self, table: &str) {
        self.buffer.clear();
        self.long = None;
        self.value(ValueRef::Text(table.as_bytes()));
    }

    /// The next column.
    pub fn value(&mut self, value: ValueRef<'_>) {
        match value {
            ValueRef::Null => self.buffer.push(0),
            ValueRef::Integer(n) => {
                self.tagged(1, n.to_le_bytes());
            }
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
        } else {
            let hasher = self.long.get_or_insert_default();
            hasher.update(&self.buffer);
            hasher.update(bytes);
            self.buffer.clear();
        }
    }

    /// Whether the hash of a row with these columns is `stored`.
    pub fn agrees(&mut self, table: &Table, columns: &[ValueRef<'_>], stored: Digest) -> bool {
        self.begin(table.name);
        columns.iter().for_each(|value| self.value(*value));
        self.finish() == stored
    }

    /// The hash of the row.
    pub fn finish(&mut self) -> Digest {
        match self.long.take() {
            None => Digest::of(&self.buffer),
            Some(mut hasher) => hasher.update(&self.buffer).finalize().into(),
        }
    }
}

/// The hash of a row, given all its columns but `row_hash`.
pub(super) fn row_hash(table: &Table, values: &[ValueRef<'_>]) -> Digest {
    let mut hasher = RowHasher::default();
    hasher.buffer.reserve(1024);
    hasher.begin(table.name);
    for value in values {
        hasher.value(*value);
    }
    hasher.finish()
}

/// Binds a row with its hash to an insert or update of its table, runs it, and returns the hash.
pub(super) fn put(
    statement: &mut Statement<'_>,
    table: &Table,
    values: &[ValueRef<'_>],
) -> rusqlite::Result<Digest> {
    debug_assert_eq!(values.len(), table.columns.len());
    let hash = row_hash(table, values);
    let mut at = 0;
    for value in values {
        at += 1;
        statement.raw_bind_parameter(at, ToSqlOutput::Borrowed(*value))?;
    }
    statement.raw_bind_parameter(at + 1, ToSqlOutput::Borrowed(ValueRef::Blob(&hash.0)))?;
    let changed = statement.raw_execute()?;
    if changed != 1 {
        return Err(rusqlite::Error::StatementChangedRows(changed));
    }
    Ok(hash)
}

/// What a read row's hash says.
pub(super) struct Checked {
    pub stored: Option<Digest>,
    pub good: bool,
}

/// Compares a row, read with all its columns and `row_hash` behind them, with its hash.
pub(super) fn check(
    hasher: &mut RowHasher,
    table: &Table,
    row: &Row<'_>,
) -> rusqlite::Result<Checked> {
    check_from(hasher, table, row, 0)
}

/// [`check`] of a row of a join whose columns begin at column `first`.
pub(super) fn check_from(
    hasher: &mut RowHasher,
    table: &Table,
    row: &Row<'_>,
    first: usize,
) -> rusqlite::Result<Checked> {
    let n = first + table.columns.len();
    hasher.begin(table.name);
    for i in first..n {
        hasher.value(row.get_ref(i)?);
    }
    let stored = match row.get_ref(n)? {
        ValueRef::Blob(b) => <[u8; 32]>::try_from(b).ok().map(Digest),
        _ => None,
    };
    Ok(Checked {
        stored,
        good: stored == Some(hasher.finish()),
    })
}

pub(super) fn text(value: &str) -> ValueRef<'_> {
    ValueRef::Text(value.as_bytes())
}

pub(super) fn opt_text(value: Option<&str>) -> ValueRef<'_> {
    value.map_or(ValueRef::Null, text)
}

pub(super) fn int(value: u64) -> ValueRef<'static> {
    ValueRef::Integer(to_i64(value))
}

pub(super) fn opt_int(value: Option<i64>) -> ValueRef<'static> {
    value.map_or(ValueRef::Null, ValueRef::Integer)
}

pub(super) fn blob(digest: &Digest) -> ValueRef<'_> {
    ValueRef::Blob(&digest.0)
}

pub(super) fn opt_blob(digest: Option<&Digest>) -> ValueRef<'_> {
    digest.map_or(ValueRef::Null, blob)
}

/// Sizes and counts fit: 2^63 bytes is beyond any file.
pub(super) fn to_i64(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A count or offset column.
pub(super) fn get_u64(row: &Row<'_>, i: usize) -> rusqlite::Result<u64> {
    let n: i64 = row.get(i)?;
    u64::try_from(n).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(i, n))
}

/// A digest column.
pub(super) fn get_digest(row: &Row<'_>, i: usize) -> rusqlite::Result<Digest> {
    Ok(Digest(row.get::<_, [u8; 32]>(i)?))
}

/// A digest column that may be NULL.
pub(super) fn get_opt_digest(row: &Row<'_>, i: usize) -> rusqlite::Result<Option<Digest>> {
    Ok(row.get::<_, Option<[u8; 32]>>(i)?.map(Digest))
}

/// A sum column.
pub(super) fn get_sum(row: &Row<'_>, i: usize) -> rusqlite::Result<DigestSum> {
    get_digest(row, i).map(|d| DigestSum::from_digest(&d))
}

/// The element of the coverage sum that stands for one key.
pub(super) fn coverage_element(hash: &Digest, occurrence: u64) -> Digest {
    let mut buf = [0u8; 40];
    buf[..32].copy_from_slice(&hash.0);
    buf[32..].copy_from_slice(&occurrence.to_le_bytes());
    Digest::of(&buf)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::archive::schema::META;

    #[test]
    fn long_and_short_rows_are_hashed_by_one_rule() {
        let long = vec![7u8; WHOLE + 1];
        for len in [0, 1, 1000, WHOLE - 100, WHOLE, WHOLE + 1] {
            let values = [
                ValueRef::Integer(1),
                ValueRef::Text(&long[..len]),
                ValueRef::Null,
            ];
            let mut by_hand = blake3::Hasher::new();
            for (tag, bytes) in [(3u8, META.name.as_bytes()), (3, &long[..len])] {
                if bytes.len() == len {
                    by_hand.update(&[1]).update(&1i64.to_le_bytes());
                }
                by_hand
                    .update(&[tag])
                    .update(&(bytes.len() as u64).to_le_bytes())
                    .update(bytes);
            }
            by_hand.update(&[0]);
            assert_eq!(
                row_hash(&META, &values),
                Digest::from(by_hand.finalize()),
                "{len}"
            );
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
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
    }
}
