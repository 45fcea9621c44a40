//! The formats on disk: mirror, archive, ledgers. Reading is open; writing needs a `Capture`.

pub mod accepted;
pub mod archive;
pub mod attestation;
pub mod backup;
pub mod coverage;
pub mod derived;
pub mod file_list;
pub mod file_state;
pub mod foreign;
pub mod generation;
pub mod layout;
pub mod lexical;
pub mod mirror;
pub mod named;
pub mod promises;
pub mod run;
pub mod salvage;
pub mod seal;
pub mod session_files;
pub mod sqlite;
pub mod version;
pub mod wal;
