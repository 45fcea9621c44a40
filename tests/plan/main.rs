//! Plans: what moves a fingerprint and what does not, what a refusal leaves behind, and that no
//! sequence or crowd of commands loses a record.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used
)]

#[path = "../journey/sandbox.rs"]
#[allow(dead_code)]
mod sandbox;

#[path = "../repair/lab.rs"]
#[allow(dead_code)]
mod lab;

#[path = "../repair/disk.rs"]
mod disk;

mod beside;
#[path = "../schemas/frozen.rs"]
#[allow(dead_code)]
mod frozen;

mod crowd;
mod fingerprints;
mod full_disk;
mod kills;
mod place;
mod racing;
mod same;
mod sequences;
mod sizes;
mod stale;
mod states;
mod still;
mod wrong_uses;

/// Whether the long form of a test was asked for: `CASS_PLAN=long`.
fn is_long() -> bool {
    std::env::var_os("CASS_PLAN").is_some_and(|v| v == "long")
}
