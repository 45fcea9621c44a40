#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../session_logs.rs"]
#[allow(dead_code)]
mod session_logs;

fuzz_target!(|bytes: &[u8]| session_logs::rows(bytes));
