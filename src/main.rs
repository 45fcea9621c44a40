//! `cass`: see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(cass::cli::run(std::env::args_os().collect()))
}
