#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../data.rs"]
#[allow(dead_code)]
mod data;

fuzz_target!(|bytes: &[u8]| {
    data::generation(bytes);
});
