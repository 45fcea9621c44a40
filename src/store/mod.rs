//! The formats on disk: mirror, archive, ledgers. Reading is open; writing needs a `Capture`.

pub mod archive;
pub mod attestation;
pub mod coverage;
pub mod derived;
pub mod foreign;
pub mod generation;
pub mod layout;
pub mod lexical;
pub mod mirror;
pub mod session_files;
pub mod sqlite;
pub mod wal;
