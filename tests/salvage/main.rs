//! Rows of damaged archives, read page by page, against an independent count of what is left.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used
)]

#[path = "../journey/sandbox.rs"]
#[allow(dead_code)]
mod sandbox;

mod hostile;
mod lab;
mod opened;
mod pages;
mod wal;
