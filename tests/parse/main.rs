//! The parser on real files of harnesses, and on damage made from them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

mod damage;
mod limits;
mod meaning;
mod mutations;
mod resume;
mod samples;
mod support;
