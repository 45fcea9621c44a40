//! Paths as bytes: what the file system holds, and the two forms in which a document shows it.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A path in a document: readable text, and the exact bytes in hex when the text can't hold them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct PathText {
    /// The path; bytes that are not UTF-8 appear as U+FFFD.
    pub path: String,
    /// The exact bytes in hex; present only when `path` is not exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_hex: Option<String>,
}

impl PathText {
    /// The document form of `path`.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        let bytes = path.as_os_str().as_bytes();
        match std::str::from_utf8(bytes) {
            Ok(text) => PathText {
                path: text.to_owned(),
                path_hex: None,
            },
            Err(_) => PathText {
                path: String::from_utf8_lossy(bytes).into_owned(),
                path_hex: Some(hex(bytes)),
            },
        }
    }

    /// The path itself; `None` when `path_hex` is not hex.
    #[must_use]
    pub fn to_path(&self) -> Option<PathBuf> {
        match &self.path_hex {
            None => Some(PathBuf::from(&self.path)),
            Some(h) => unhex(h).map(|b| PathBuf::from(OsString::from_vec(b))),
        }
    }
}

/// `path` without `.` and `..`, by its text alone.
#[must_use]
pub fn normalise(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

/// Lowercase hex of `bytes`.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for b in bytes {
        for nibble in [b >> 4, b & 15] {
            out.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0'));
        }
    }
    out
}

/// The bytes of lowercase or uppercase hex; `None` for anything else.
#[must_use]
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits
        .chunks_exact(2)
        .map(|pair| {
            let hi = char::from(pair[0]).to_digit(16)?;
            let lo = char::from(pair[1]).to_digit(16)?;
            u8::try_from(hi * 16 + lo).ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_not_utf8_comes_back_exactly() {
        let path = PathBuf::from(OsString::from_vec(b"/a/\xff\xfe".to_vec()));
        let text = PathText::new(&path);
        assert!(text.path_hex.is_some());
        assert_eq!(text.to_path(), Some(path));
        assert_eq!(PathText::new(Path::new("/a b")).path_hex, None);
        assert_eq!(unhex("0g"), None);
        assert_eq!(unhex("abc"), None);
    }
}
