//! `cass` keeps the sessions of coding agents safe.
//!
//! ```text
//! cli -> report -> { doctor, ingest, store, model }
//! doctor -> { store, model }    ingest -> { store, model }
//! store -> { disk, model }      disk, model -> nothing
//! error, exit, env: leaves for all
//! ```

pub mod cli;
pub mod disk;
pub mod doctor;
pub mod env;
pub mod error;
pub mod exit;
pub mod ingest;
pub mod model;
pub mod plan;
pub mod report;
pub mod session_log;
pub mod session_writer;
pub mod sources;
pub mod store;
