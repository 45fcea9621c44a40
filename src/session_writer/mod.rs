//! Writing to the sessions of DSH, for harnesses and for repairs: one writer at a time, and only one
//! who knows what is there.
//!
//! ```text
//! Sessions (a root, and where the locks are) -> SessionLog -> append(expected revision, batch)
//! an open store                              -> append_to_store(expected revision, batch)
//! ```
//!
//! A writer reads a session, gets its [`Revision`], and gives that back with every batch. It is
//! compared and the batch written under one lock, which is the session's: above folder, name and
//! packing. Who loses reads what came behind the events that it knows ([`SessionLog::since`]) and
//! decides anew; a batch is never renumbered, and one that failed can be tried again as it is.
//!
//! Each append reads the log three times, since neither size nor time of a file shows that it is
//! what it was. `examples/session_writer.rs` shows a harness at work.

mod error;
mod log;
mod place;
mod store;

pub use crate::session_log::{LogName, Refusal, Revision, Verdict};
pub use error::WriteError;
pub use log::SessionLog;
pub use place::Sessions;
pub use store::{StoreRevision, append_to_store, store_revision};
