//! What a harness's own settings say about how long it keeps sessions.

use std::path::Path;

use serde::Deserialize;

use crate::model::provider::Provider;
use crate::sources::file::read_small;

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
    match provider {
        Provider::Claude => {
            #[derive(Deserialize)]
            struct Settings {
                #[serde(rename = "cleanupPeriodDays")]
                days: Option<u64>,
            }
            let days = read_small(&root.join("settings.json"), 1 << 20)
                .ok()
                .and_then(|text| serde_json::from_str::<Settings>(&text).ok())
                .and_then(|s| s.days);
            Retention {
                days: Some(days.unwrap_or(30)),
                configured: days.is_some(),
            }
        }
        _ => Retention {
            days: None,
            configured: false,
        },
    }
}
