//! The output contract: documents and their schemas. One file a command; every type here exists to
//! be serialised, holds sorted lists and no floats, and is registered in [`registry`].

pub mod backups;
pub mod check;
mod check_build;
pub mod envelope;
pub mod export;
pub mod health;
pub mod index;
mod index_of;
pub mod introspect;
pub mod log_health;
pub mod mirror;
mod mirror_of;
pub mod models;
pub mod mutation;
pub mod mutation_of;
pub mod registry;
pub mod restore;
pub mod scan;
mod scan_build;
pub mod search;
pub mod session_log;
pub mod session_log_repair;
mod session_of;
pub mod sessions;
pub mod stats;
pub mod time;
pub mod view;

pub use check_build::{CheckRun, MAX_BYTES, check_report};
pub use scan_build::{MAX_BYTES as MAX_SCAN_BYTES, ScanRun, scan_report};
