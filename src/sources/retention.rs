//! What a harness's own settings say about how long it keeps sessions.

use std::path::Path;

use crate::model::provider::Provider;
use crate::sources::harness::harness;

/// How long a harness keeps a session file after its last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Days; `None` when the harness never prunes.
    pub days: Option<u64>,
    /// Whether a setting says so; else it is the harness's default.
    pub configured: bool,
}

/// Reads the retention of the harness whose root is `root`. An unreadable or odd settings file
/// means the default: the harness would say the same.
#[must_use]
pub fn retention(provider: Provider, root: &Path) -> Retention {
    harness(provider).retention(root)
}
