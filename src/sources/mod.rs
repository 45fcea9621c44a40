//! Discovery: where harnesses keep their files, what the settings say, and what lies there now.
//! Only looks; never opens a file for writing.

pub mod config;
pub mod database;
pub mod file;
pub mod harness;
pub mod reach;
pub mod retention;
pub mod roots;
pub mod sight;
pub mod usage;
pub mod walk;
