//! Damage on purpose: bits, pages, lengths, logs, files. Whatever changes what the data directory
//! says must be found by `doctor check --deep`; what changes nothing must not be called damage.
//!
//! Whether something changed is decided by readers of this test's own: every row of every table
//! by plain SQLite on a copy, every file of a captured session by its bytes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    missing_debug_implementations
)]

mod archive;
mod budget;
mod figures;
mod hostile;
mod lab;
mod mirror;
mod pairs;
mod peers;
mod physical;
mod repairs;
mod sessions;
mod states;
mod tables;
mod truth;
mod wal;
