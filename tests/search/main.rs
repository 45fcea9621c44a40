//! Search as its user meets it: what is found, in every script and style of identifier; filters and
//! cursors; and an index that may be broken in any way without anything being lost.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout
)]

mod broken;
mod cursors;
mod filters;
mod killed;
mod opened;
mod ranks;
mod samples;
#[path = "../journey/sandbox.rs"]
#[allow(dead_code)]
mod sandbox;
mod talk;
mod words;
