//! Rows and their hashes: written and verified by the same code.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Row, Statement};

use super::schema::Table;
use crate::model::digest::{Digest, DigestSum};

/// Feeds one column into a row hash: type tag, then a number's 8 bytes or a text's length and
/// bytes, so that no two rows have the same encoding.
pub(super) fn hash_value(hasher: &mut blake3::Hasher, value: ValueRef<'_>) {
    match value {
        ValueRef::Null => {
            hasher.update(&[0]);
        }
        ValueRef::Integer(n) => {
            let mut buf = [1u8; 9];
            buf[1..].copy_from_slice(&n.to_le_bytes());
            hasher.update(&buf);
        }
        ValueRef::Real(x) => {
            hasher.update(&[2]);
            hasher.update(&x.to_bits().to_le_bytes());
        }
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            let tag = if matches!(value, ValueRef::Text(_)) {
                3u8
            } else {
                4u8
            };
            let mut buf = [tag; 9];
            let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            buf[1..].copy_from_slice(&len.to_le_bytes());
            hasher.update(&buf);
            hasher.update(bytes);
        }
    }
}

/// The hash of a row, given all its columns but `row_hash`.
pub(super) fn row_hash(table: &Table, values: &[ValueRef<'_>]) -> Digest {
    let mut hasher = blake3::Hasher::new();
    hash_value(&mut hasher, ValueRef::Text(table.name.as_bytes()));
    for value in values {
        hash_value(&mut hasher, *value);
    }
    hasher.finalize().into()
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
pub(super) fn check(table: &Table, row: &Row<'_>) -> rusqlite::Result<Checked> {
    let n = table.columns.len();
    let mut hasher = blake3::Hasher::new();
    hash_value(&mut hasher, ValueRef::Text(table.name.as_bytes()));
    for i in 0..n {
        hash_value(&mut hasher, row.get_ref(i)?);
    }
    let stored = match row.get_ref(n)? {
        ValueRef::Blob(b) => <[u8; 32]>::try_from(b).ok().map(Digest),
        _ => None,
    };
    let actual = Digest::from(hasher.finalize());
    Ok(Checked {
        stored,
        good: stored == Some(actual),
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
