//! The main job as its user does it: the program on a home of its own, real sessions, real files.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    missing_debug_implementations
)]

mod big;
mod damage;
mod damaged_mirror;
mod first_run;
mod formats;
mod full_disk;
mod gates;
mod growth;
mod handing_out;
mod health;
mod identity;
mod lost_ledger;
mod moving;
mod naming;
mod no_archive;
mod odd_files;
mod packed;
mod roots;
mod sandbox;
mod unsafe_places;
mod versions;
