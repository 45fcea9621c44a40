//! Rows with their hashes, as they are written and read.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Row, Statement};

use super::row_hash::{RowHash, RowHasher, row_hash};
use super::schema::Table;
use crate::model::digest::{Digest, DigestSum};

/// Binds a row with its hash to an insert or update of its table, runs it, and returns the hash.
pub(super) fn put(
    statement: &mut Statement<'_>,
    table: &Table,
    values: &[ValueRef<'_>],
) -> rusqlite::Result<RowHash> {
    debug_assert_eq!(values.len(), table.columns.len());
    let hash = row_hash(table, values);
    let mut at = 0;
    for value in values {
        at += 1;
        statement.raw_bind_parameter(at, ToSqlOutput::Borrowed(*value))?;
    }
    statement.raw_bind_parameter(at + 1, ToSqlOutput::Borrowed(hash.column()))?;
    let changed = statement.raw_execute()?;
    if changed != 1 {
        return Err(rusqlite::Error::StatementChangedRows(changed));
    }
    Ok(hash)
}

/// What a read row's hash says.
pub(super) struct Checked {
    pub stored: Option<RowHash>,
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
    let stored = RowHash::of_column(row.get_ref(n)?);
    let Some(like) = stored else {
        return Ok(Checked {
            stored,
            good: false,
        });
    };
    hasher.begin_by(table.name, like);
    for i in first..n {
        hasher.value(row.get_ref(i)?);
    }
    Ok(Checked {
        stored,
        good: hasher.finish() == like,
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
