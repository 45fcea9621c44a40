//! The session back in a person's hands: read, handed out as a page, put back where its harness
//! finds it, counted.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    missing_debug_implementations
)]

#[path = "../journey/sandbox.rs"]
#[allow(dead_code)]
mod sandbox;

mod every_harness;
mod memory;
mod pages;
mod restore;
mod stats;
mod terminal;
mod view;
