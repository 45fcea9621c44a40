//! A database as a source: its session tables are a stream of rows.
//!
//! A row's raw record is its canonical form ([`crate::model::row::Row::canonical`]). The pieces tile
//! the canonical forms one after another, in the order in which the harness's reader asks for them;
//! rows that it never asks for (orphans, and what a damaged index hides) come last, so that every
//! row of a session table is accounted for. Where a harness keeps many records in one row, each is a
//! part of the row's canonical form.

use std::collections::BTreeMap;

use super::Method;
use crate::error::{Error, Result};
use crate::ingest::provider::{Reader, Reading, RowPart, TableReader, Visit};
use crate::model::digest::Digest;
use crate::model::record::{ParsedRecord, Piece, Recovery, ResumePoint, SkipReason, Span};
use crate::model::row::Row;
use crate::store::foreign::{ForeignDb, MAX_VALUE, RowRead};

/// What reading a database gave beside its pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    /// Where the stream of rows ends.
    pub resume: ResumePoint,
    /// Rows and tables that could not be read, the first of them in words.
    pub damaged: u64,
    /// What the first damage was.
    pub first_damage: Option<String>,
}

/// Reads every row of the session tables.
///
/// # Errors
/// What `each` returns; `internal` when the method is no database's.
pub fn database(
    method: Method,
    db: &ForeignDb,
    each: &mut dyn FnMut(Piece) -> Result<()>,
) -> Result<Rows> {
    let Reader::Tables(mut reader) = method.0 else {
        return Err(super::not_so("database"));
    };
    let mut walk = Walk {
        db,
        each,
        seen: BTreeMap::new(),
        offset: 0,
        number: 0,
        damaged: 0,
        first_damage: None,
        failed: None,
    };
    // Which of them can be trusted is known before any is read.
    for table in reader.tables() {
        let _ = db.has(table);
    }
    if let Err(e) = reader.visit(&mut walk)
        && walk.failed.is_none()
    {
        walk.damage(e.message());
    }
    if let Some(e) = walk.failed.take() {
        return Err(e);
    }
    walk.others(&mut *reader)?;
    Ok(Rows {
        resume: ResumePoint {
            offset: walk.offset,
            line: walk.number.saturating_add(1),
            state: Vec::new(),
        },
        damaged: walk.damaged,
        first_damage: walk.first_damage,
    })
}

struct Walk<'a> {
    db: &'a ForeignDb,
    each: &'a mut dyn FnMut(Piece) -> Result<()>,
    /// Rows that were handed on, by table.
    seen: BTreeMap<&'static str, Seen>,
    offset: u64,
    number: u64,
    damaged: u64,
    first_damage: Option<String>,
    /// The error of `each`, which ends the walk.
    failed: Option<Error>,
}

/// Row ids, one bit each where they are dense.
#[derive(Default)]
struct Seen(BTreeMap<i64, u64>);

impl Seen {
    /// Notes a row id; false when it was noted before.
    fn insert(&mut self, id: i64) -> bool {
        let bit = 1u64 << id.rem_euclid(64);
        let word = self.0.entry(id.div_euclid(64)).or_default();
        let fresh = *word & bit == 0;
        *word |= bit;
        fresh
    }
}

impl Walk<'_> {
    fn damage(&mut self, what: &str) {
        self.damaged += 1;
        self.first_damage.get_or_insert_with(|| what.to_owned());
    }

    fn row(&mut self, reader: &mut dyn TableReader, table: &'static str, id: i64) -> Result<()> {
        if !self.seen.entry(table).or_default().insert(id) {
            return Ok(());
        }
        self.number += 1;
        let (offset, line) = (self.offset, self.number);
        let piece = match self.db.row(table, id)? {
            RowRead::Row(row) => {
                if let Some(parts) = reader.parts(table, &row) {
                    return self.parts(table, &row, parts, line);
                }
                let bytes = row.canonical();
                let reading = reader.read(table, &row);
                record(table, &bytes, offset, line, reading)
            }
            RowRead::TooLong => Piece::Skipped {
                span: Span {
                    offset,
                    len: u64::try_from(MAX_VALUE).unwrap_or(0),
                },
                line,
                reason: SkipReason::Oversized,
            },
            RowRead::Damaged(what) => {
                self.damage(&format!("row {id} of {table}: {what}"));
                // Its length is not known; one byte stands for it in the accounts.
                Piece::Skipped {
                    span: Span { offset, len: 1 },
                    line,
                    reason: SkipReason::Fragment,
                }
            }
            RowRead::Gone => return Ok(()),
        };
        self.offset = match &piece {
            Piece::Record(r) => r.span.end(),
            Piece::Skipped { span, .. } | Piece::Separator(span) => span.end(),
        };
        (self.each)(piece)
    }

    /// The records in one row. They and what is between them tile its canonical form.
    fn parts(
        &mut self,
        table: &'static str,
        row: &Row,
        parts: Vec<RowPart>,
        line: u64,
    ) -> Result<()> {
        let bytes = row.canonical();
        let begins = self.offset;
        let mut at = 0;
        for part in parts {
            let Some(place) = row.canonical_place(part.column) else {
                continue;
            };
            let (from, to) = (place + part.range.start, place + part.range.end);
            let Some(raw) = bytes.get(from..to).filter(|_| from >= at) else {
                continue;
            };
            self.gap(begins, at, from)?;
            let offset = begins + from as u64;
            (self.each)(record(table, raw, offset, line, part.reading))?;
            at = to;
        }
        self.gap(begins, at, bytes.len())?;
        self.offset = begins + bytes.len() as u64;
        Ok(())
    }

    fn gap(&mut self, begins: u64, from: usize, to: usize) -> Result<()> {
        if from == to {
            return Ok(());
        }
        (self.each)(Piece::Separator(Span {
            offset: begins + from as u64,
            len: (to - from) as u64,
        }))
    }

    /// The rows that were not asked for.
    fn others(&mut self, reader: &mut dyn TableReader) -> Result<()> {
        for table in reader.tables() {
            if !self.db.has(table) {
                continue;
            }
            let only = reader.only(table);
            let mut after = None;
            loop {
                match self.db.next_row_id(table, after, only) {
                    // A tree whose cells are out of order gives the same rows again, without end.
                    Ok(Some(id)) if after.is_some_and(|after| id <= after) => {
                        self.damage(&format!("the rows of {table} are out of order at {id}"));
                        break;
                    }
                    Ok(Some(id)) => {
                        after = Some(id);
                        self.row(reader, table, id)?;
                    }
                    Ok(None) => break,
                    Err(e) => {
                        self.damage(e.message());
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}

fn record(table: &str, bytes: &[u8], offset: u64, line: u64, reading: Reading) -> Piece {
    let record_type = if reading.record_type.is_empty() {
        table.to_owned()
    } else {
        format!("{table}/{}", reading.record_type)
    };
    Piece::Record(Box::new(ParsedRecord {
        span: Span {
            offset,
            len: bytes.len() as u64,
        },
        line,
        hash: Digest::of(bytes),
        recovery: Recovery::Clean,
        session: reading.session,
        native_id: reading.native_id,
        native_parent: reading.native_parent,
        record_type,
        time_ms: reading.time_ms,
        disposition: reading.disposition,
        facts: reading.facts,
    }))
}

impl Visit for Walk<'_> {
    fn has(&self, table: &str) -> bool {
        self.db.has(table)
    }

    fn has_column(&self, table: &str, column: &str) -> bool {
        self.db.has_column(table, column)
    }

    fn keys(&mut self, sql: &str, params: &[&str]) -> Result<Vec<String>> {
        let mut out = Vec::new();
        if let Err(e) = self.db.keys(sql, params, &mut out) {
            self.damage(e.message());
        }
        Ok(out)
    }

    fn rows(
        &mut self,
        reader: &mut dyn TableReader,
        table: &'static str,
        rest: &str,
        params: &[&str],
    ) -> Result<()> {
        let mut ids = Vec::new();
        if let Err(e) = self.db.row_ids(table, rest, params, &mut ids) {
            self.damage(e.message());
        }
        for id in ids {
            if let Err(e) = self.row(reader, table, id) {
                let again = Error::new(e.kind(), e.message().to_owned());
                self.failed = Some(e);
                return Err(again);
            }
        }
        Ok(())
    }
}
