//! The plan engine, seen from outside: the binary on real samples, damaged by hand.

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

mod authorities;
mod backups;
mod disk;
mod failing;
mod fix;
mod full_disk;
mod interrupted;
mod lab;
mod losses;
mod named;
mod no_ids;
mod obstacles;
mod operator;
mod rungs;
mod strays;
