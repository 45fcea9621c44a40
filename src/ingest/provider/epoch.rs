//! Times as numbers and texts in databases.

/// Milliseconds since the Unix epoch of a number of seconds, milliseconds or microseconds, told
/// apart by magnitude.
pub(super) fn ms(number: i64) -> Option<i64> {
    Some(match number.unsigned_abs() {
        0..100_000_000_000 => number.checked_mul(1000)?,
        100_000_000_000..100_000_000_000_000 => number,
        _ => number / 1000,
    })
}

/// Milliseconds since the Unix epoch of a time as SQLite writes it (`2026-01-31 12:00:00`, UTC), or
/// in the form of ISO 8601.
pub(super) fn of_text(text: &str) -> Option<i64> {
    let text = text.trim();
    let parsed = text
        .parse::<jiff::Timestamp>()
        .or_else(|_| format!("{}Z", text.replacen(' ', "T", 1)).parse());
    parsed.ok().map(jiff::Timestamp::as_millisecond)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_milliseconds_are_told_apart() {
        assert_eq!(ms(1_754_904_181), Some(1_754_904_181_000));
        assert_eq!(ms(1_754_904_181_123), Some(1_754_904_181_123));
        assert_eq!(ms(1_754_904_181_123_456), Some(1_754_904_181_123));
        assert_eq!(ms(i64::MIN), Some(i64::MIN / 1000));
    }

    #[test]
    fn texts_without_a_zone_are_utc() {
        let want = Some(1_767_268_800_000);
        assert_eq!(of_text("2026-01-01 12:00:00"), want);
        assert_eq!(of_text("2026-01-01T12:00:00Z"), want);
        assert_eq!(of_text("2026-01-01T13:00:00+01:00"), want);
        assert_eq!(of_text("then"), None);
        assert_eq!(of_text(""), None);
    }
}
