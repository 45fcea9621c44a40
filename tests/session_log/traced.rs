//! The program under strace, with faults injected into its calls.

use std::fs;
use std::process::{Command, Stdio};

use crate::repairing::Home;

const TRACE: &str = "trace";

/// The program with these words in a home, tracing one call and doing what is injected.
pub fn command(home: &Home, words: &[&str], call: &str, inject: Option<&str>) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-o", TRACE, "-e", &format!("trace={call}")]);
    if let Some(inject) = inject {
        command.args(["-e", &format!("inject={call}:{inject}")]);
    }
    command
        .arg(env!("CARGO_BIN_EXE_cass"))
        .args(words)
        .env_clear()
        .env("HOME", home.dir.path())
        .env("PATH", "/usr/bin:/bin")
        .current_dir(home.dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// What was traced so far.
pub fn trace(home: &Home) -> String {
    fs::read_to_string(home.dir.path().join(TRACE)).unwrap_or_default()
}
