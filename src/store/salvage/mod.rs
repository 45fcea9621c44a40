//! Rows of an SQLite file read without SQLite: every page is looked at by itself, so that header,
//! schema, interior pages and lists of free pages may all be lost. Nothing in the file is believed;
//! whoever asks says by a row's own hash which table it belongs to.
//!
//! Layout as SQLite's file format document gives it: numbers are big-endian, pages are counted from
//! 1, a table leaf holds cells of payload length, row id, and a record whose end may lie in a chain
//! of overflow pages.

mod book;
mod cell;
mod edges;
mod found;
mod index;
mod medium;
mod overflow;
mod page;
mod reader;
mod record;
mod wal;
mod walk;

use rusqlite::types::ValueRef;

pub use book::Book;
pub use found::{Found, Place, Run};
pub use index::text_entries;
pub use medium::Medium;
pub use reader::{Reader, Wanted};
pub use wal::Log;
pub use walk::find;

/// The tables whose rows are looked for.
pub trait Tables: Sync {
    /// What one thread keeps from row to row.
    type Scratch: Default;

    /// How many tables there are.
    fn count(&self) -> usize;

    /// Whether a table has this many columns, the hash included.
    fn has_width(&self, columns: usize) -> bool;

    /// The table whose row this is, by its hash; `None` when it agrees with none.
    fn table_of(&self, columns: &[ValueRef<'_>], scratch: &mut Self::Scratch) -> Option<usize>;

    /// What tells a newer state of a row that is updated from an older one.
    fn version(&self, table: usize, columns: &[ValueRef<'_>]) -> (i64, i64);

    /// Whether rows of the table are ever updated.
    fn is_updated(&self, table: usize) -> bool;
}

/// Page sizes that SQLite has.
pub const PAGE_SIZES: [usize; 8] = [4096, 512, 1024, 2048, 8192, 16384, 32768, 65536];
