//! Every harness: its sessions laid out as it lays them out, indexed, and accounted for.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    missing_debug_implementations,
    dead_code
)]

mod amp;
mod cline;
mod crush;
mod cursor;
mod gemini;
mod goose;
mod home;
mod opencode;
#[path = "../journey/sandbox.rs"]
mod sandbox;
