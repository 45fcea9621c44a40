//! `doctor archive-scan` as its user runs it: each state of a source, each set of holders made by
//! hand, and numbers compared with numbers that were counted in another way.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    missing_debug_implementations
)]

mod budget;
mod history;
mod holders;
mod made;
mod numbers;
mod paging;
#[allow(dead_code)]
#[path = "../journey/sandbox.rs"]
mod sandbox;
mod states;
mod trace;
