//! What a repair leaves out, row by row.

use std::io;

use rusqlite::Connection;
use sha2::{Digest, Sha256};

use super::bytes::{ReadAt, hex};
use super::lines::Lines;
use super::name::Form;
use super::store::StoreText;
use super::verdict::Repair;

/// One row that a repair leaves out, or what the end of the file left of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Its number behind the header, from 1; `None` for what has no end.
    pub row: Option<u64>,
    /// Where it begins in the text: what the frames decode to, or the file itself.
    pub offset: u64,
    /// Its length, without a newline.
    pub bytes: u64,
    /// SHA-256 of these bytes, in hex.
    pub sha256: String,
}

/// Gives what a repair leaves out of a log, in order. The log is read again as far as that needs.
///
/// # Errors
/// What the medium says, and a line that is too long to be read.
pub fn left_out<S: ReadAt + ?Sized>(
    source: &S,
    form: Form,
    repair: &Repair,
    each: &mut dyn FnMut(LeftOut),
) -> io::Result<()> {
    let fragment = |from: u64| repair.cut.is_some() || repair.edits.iter().any(|e| e.from == from);
    let last_edit = repair.edits.last().map_or(0, |e| e.to);
    let mut dropped = repair.dropped.iter().peekable();
    let mut lines = Lines::new(source, form.packed);
    while dropped.peek().is_some() || repair.cut.is_some() || lines.text_at() < last_edit {
        let Some(line) = lines.next()? else { break };
        // The header is the first line.
        let row = line.spot.line - 1;
        while dropped.next_if(|(_, last)| *last < row).is_some() {}
        let is_row = line.whole && dropped.peek().is_some_and(|(first, _)| *first <= row);
        if is_row || !line.whole && fragment(line.spot.text) {
            each(LeftOut {
                row: is_row.then_some(row),
                offset: line.spot.text,
                bytes: line.bytes.len() as u64,
                sha256: hex(Sha256::new().chain_update(line.bytes)),
            });
        }
    }
    Ok(())
}

/// The same of a session in a store: offsets are in the text that its rows make as a log.
///
/// # Errors
/// What SQLite says.
pub fn store_left_out(
    conn: &Connection,
    id: &str,
    repair: &Repair,
    each: &mut dyn FnMut(LeftOut),
) -> io::Result<()> {
    let text = StoreText::open(conn, id).map_err(io::Error::other)?;
    left_out(&text, Form::NAMELESS, repair, each)
}
