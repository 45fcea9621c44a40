//! Time stamps in documents.

/// RFC 3339 in UTC, always with three digits of milliseconds, so that times sort as texts; `None`
/// when `ms` is outside of what a calendar holds.
#[must_use]
pub fn rfc3339(ms: i64) -> Option<String> {
    jiff::Timestamp::from_millisecond(ms)
        .ok()
        .map(|t| format!("{t:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_of_one_width_and_sort_as_texts() {
        let times = [0, 5, 120, 1000, 1_767_225_600_500].map(|ms| rfc3339(ms).unwrap());
        assert_eq!(times[0], "1970-01-01T00:00:00.000Z");
        assert_eq!(times[2], "1970-01-01T00:00:00.120Z");
        assert_eq!(times[4], "2026-01-01T00:00:00.500Z");
        assert!(times.is_sorted() && times.iter().all(|t| t.len() == 24));
        assert_eq!(rfc3339(i64::MAX), None);
    }
}
