//! Numbers with the word that goes with them.

use std::fmt::Display;

/// `n` and its word: `1 capture`, `2 captures`.
#[must_use]
pub fn count<N: Display + PartialEq + From<u8>>(n: N, one: &str, many: &str) -> String {
    let word = if n == N::from(1) { one } else { many };
    format!("{n} {word}")
}
