//! The archive: one SQLite database a generation, every row hashed, every commit chained.

mod append;
mod compare;
mod complete;
mod figures;
mod holding;
mod identity;
mod ids;
mod listing;
mod names;
mod paged;
mod place;
mod probe;
mod readable;
mod reader;
mod reading;
mod replay;
mod rescue;
mod row_hash;
mod rows;
mod schema;
mod session_name;
mod stage;
mod state;
mod strays;
#[cfg(test)]
mod tests;
mod texts;
mod verify;
mod writer;

use std::path::PathBuf;

use rusqlite::Connection;

use crate::error::Error;
use crate::store::sqlite;

pub use append::{CaptureRef, Cursor, Retitled, SourceAppend, SourceKind};
pub use compare::{
    Candidate, Missing, MissingTotals, PromiseStanding, Standing, missing, proven, standing,
    unequal,
};
pub use figures::{Figures, Group, Spoken};
pub use holding::HeldRecord;
pub use identity::conversation_id;
pub use listing::Listing;
pub use paged::salvaged_counts;
pub use reader::{Agreement, ArchiveReader, Counts};
pub use reading::MessagePlace;
pub use replay::{RowsReplayed, replay_rows};
pub use rescue::{Rescued, RescuedKey, TableTally, Tally};
pub use schema::{APPLICATION_ID, SCHEMA_VERSION};
pub use session_name::{MAX_CANDIDATES, Named, PREFIX_MIN};
pub use strays::{Stray, replay_strays};
pub use texts::{NumberedConversation, PlacedMessage, TextRow};
pub use verify::{
    ArchiveFinding, FindingKind, VerifySummary, verify_at, verify_deep, verify_generation,
};
pub use writer::{ArchiveWriter, Head, WriterState, promote_line, unnamed_generation};

/// Bits of a message id that hold the part's number.
const PART_BITS: u32 = 24;
/// These bits.
const PART_MASK: i64 = (1 << PART_BITS) - 1;

fn failed(conn: &Connection, doing: &str, e: rusqlite::Error) -> Error {
    let path = conn.path().map(PathBuf::from).unwrap_or_default();
    sqlite::failed(doing, &path, e)
}
