//! Session logs: what is said of sound and damaged ones, and what a repair makes of them.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods
)]

mod appending;
mod cases;
mod command;
mod edits;
mod in_place;
mod invented;
mod killed;
mod meanwhile;
mod memory;
mod others;
mod others_held;
mod others_kinds;
mod rebuilding;
mod repairing;
mod rules;
mod stores;
mod table;
mod targets;
mod traced;
mod writing;
mod writing_faults;
mod writing_store;
