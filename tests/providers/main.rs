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

mod aider;
mod amp;
mod anew;
mod cline;
mod copilot;
mod crush;
mod cursor;
mod damage;
mod droid;
mod dsh;
mod every_harness;
mod gemini;
mod goose;
mod home;
mod hostile;
mod iflow;
mod kimi;
mod openclaw;
mod opencode;
mod pi;
mod qwen;
mod rebuild;
mod renamed;
mod rescue;
#[path = "../journey/sandbox.rs"]
mod sandbox;
