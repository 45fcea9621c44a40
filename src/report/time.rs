//! Time stamps in documents.

/// RFC 3339 in UTC with milliseconds as needed; `None` when `ms` is outside of what a calendar
/// holds.
#[must_use]
pub fn rfc3339(ms: i64) -> Option<String> {
    jiff::Timestamp::from_millisecond(ms)
        .ok()
        .map(|t| t.to_string())
}
