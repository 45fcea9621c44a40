//! The archive: one SQLite database a generation, every row hashed, every commit chained.

mod append;
mod figures;
mod holding;
mod identity;
mod ids;
mod listing;
mod names;
mod place;
mod reader;
mod reading;
mod rows;
mod schema;
mod session_name;
mod state;
#[cfg(test)]
mod tests;
mod texts;
mod verify;
mod writer;

use std::path::PathBuf;

use rusqlite::Connection;

use crate::error::Error;
use crate::store::sqlite;

pub use append::{CaptureRef, Cursor, SourceAppend, SourceKind};
pub use figures::{Figures, Group, Spoken};
pub use holding::HeldRecord;
pub use identity::conversation_id;
pub use listing::Listing;
pub use reader::{Agreement, ArchiveReader, Counts};
pub use reading::MessagePlace;
pub use schema::{APPLICATION_ID, SCHEMA_VERSION};
pub use session_name::{MAX_CANDIDATES, Named, PREFIX_MIN};
pub use texts::{NumberedConversation, PlacedMessage, TextRow};
pub use verify::{ArchiveFinding, FindingKind, VerifySummary, verify_deep, verify_generation};
pub use writer::{ArchiveWriter, Head, WriterState, unnamed_generation};

/// Bits of a message id that hold the part's number.
const PART_BITS: u32 = 24;

fn failed(conn: &Connection, doing: &str, e: rusqlite::Error) -> Error {
    let path = conn.path().map(PathBuf::from).unwrap_or_default();
    sqlite::failed(doing, &path, e)
}
