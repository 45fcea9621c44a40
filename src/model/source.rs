//! A source: one place from which bytes are captured.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::model::path::{hex, unhex};
use crate::model::provider::Provider;

/// The source id of this machine.
pub const LOCAL: &str = "local";

/// Names one source: the first 16 bytes of BLAKE3(source id ‖ 0 ‖ provider ‖ 0 ‖ path bytes),
/// written as 32 lowercase hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceKey(pub [u8; 16]);

impl SourceKey {
    /// The key of `path` as read by `provider` on machine `source_id`.
    #[must_use]
    pub fn derive(source_id: &str, provider: Provider, path: &Path) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(source_id.as_bytes());
        hasher.update(&[0]);
        hasher.update(provider.as_str().as_bytes());
        hasher.update(&[0]);
        hasher.update(path.as_os_str().as_bytes());
        let mut key = [0u8; 16];
        key.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        SourceKey(key)
    }
}

impl fmt::Display for SourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for SourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not a source key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a source key: expected 32 lowercase hex digits")]
pub struct ParseSourceKeyError;

impl FromStr for SourceKey {
    type Err = ParseSourceKeyError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        if s.bytes().any(|b| b.is_ascii_uppercase()) {
            return Err(ParseSourceKeyError);
        }
        unhex(s)
            .and_then(|b| <[u8; 16]>::try_from(b).ok())
            .map(SourceKey)
            .ok_or(ParseSourceKeyError)
    }
}

impl Serialize for SourceKey {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SourceKey {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
