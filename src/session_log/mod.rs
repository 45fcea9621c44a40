//! Session logs of DSH: what is in one, what is wrong with it, and what may be done about it.
//!
//! ```text
//! bytes -> lines (frame) -> event -> walk (replay, closers, kept) -> examine -> Diagnosis
//!                                                                          \-> mend -> a new log
//! ```
//!
//! - [`examine`] reads a log once, holding a few buffers, and gives a [`Diagnosis`]. Its verdict is
//!   one of a closed list; everything else that is wrong is in its findings.
//! - A [`Diagnosis`] that may be repaired has a [`Repair`]: ranges of the text that are left out and
//!   events that close an open turn. Nothing in it is made up but these closers, which follow from
//!   what was open; no event is renumbered, and a row is rewritten only where it loses events that
//!   are there already.
//! - [`mend`] writes the log so repaired. Frames in which nothing changes are copied byte for byte.
//!   It takes the source again and expects the bytes that were examined: the caller compares
//!   digests before and after.
//! - [`left_out`] names what a repair leaves out, row by row.
//! - [`rebuild`] looks whether an older version of a log has what is missing in it, and agrees with it
//!   on both sides.
//! - [`append`] adds events to a log for a caller who holds its lock and knows its end; a batch that
//!   does not follow is refused, and one that can't be written whole is taken back.
//! - [`look`] reads the folders around a log, which say more than the log itself.
//!
//! A choice between two versions of an event is made by replay alone: one of them must follow from
//! what was open before it, and the log must replay with the one choice and not with the other.

mod append;
mod bytes;
mod calls;
mod check;
mod closers;
mod event;
mod examine;
mod excerpt;
mod fault;
mod folder;
mod frame;
mod header;
mod json;
mod kept;
mod left_out;
mod lines;
mod mend;
mod name;
mod queues;
mod rebuild;
mod replay;
mod retries;
mod store;
mod store_row;
mod surface;
mod verdict;
mod vocabulary;
mod walk;

pub use append::{
    AppendError, Medium, Prepared, Refusal, Revision, append, begins_with, first_bytes, lines_from,
    prepare, revision,
};
pub use bytes::{ReadAt, Seeking};
pub use check::{Checked, Evidence, check, check_store, digests};
pub use closers::Closer;
pub use examine::examine;
pub use excerpt::{SeenLine, around};
pub use fault::{CallPlace, Fault, FaultKind, Role};
pub use folder::{Entry, Kind, Looked, Sibling, identity, look};
pub use header::{Header, header_of, read_header};
pub use left_out::{LeftOut, left_out, store_left_out};
pub use lines::Spot;
pub use mend::mend;
pub use name::{Form, LogName, is_project_folder, project_folder, session_folder};
pub use rebuild::{Rebuilt, rebuild};
pub use store::{mend_store, sessions, store_fault, store_repairs, store_text};
pub use store_row::{StoreRow, store_row};
pub use verdict::{Candidate, Diagnosis, Edit, Finding, FirstBad, Repair, Verdict};
pub use vocabulary::is_type;
