//! A time as people type it: a day, a moment, or how long ago.

use std::str::FromStr;

/// A point in time that an argument names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Milliseconds since the Unix epoch.
    At(i64),
    /// So many milliseconds before now.
    Ago(i64),
}

impl Moment {
    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub fn ms(self, now_ms: i64) -> i64 {
        match self {
            Moment::At(ms) => ms,
            Moment::Ago(ms) => now_ms.saturating_sub(ms),
        }
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Moment, String> {
        if let Some(ago) = ago(text) {
            return Ok(Moment::Ago(ago));
        }
        if let Ok(time) = text.parse::<jiff::Timestamp>() {
            return Ok(Moment::At(time.as_millisecond()));
        }
        text.parse::<jiff::civil::Date>()
            .ok()
            .and_then(|day| format!("{day}T00:00:00Z").parse::<jiff::Timestamp>().ok())
            .map(|start| Moment::At(start.as_millisecond()))
            .ok_or_else(|| {
                "expected a day (2026-01-31), a time (2026-01-31T12:00:00Z) or an age (12h, 7d, 2w)"
                    .to_owned()
            })
    }
}

/// Milliseconds of an age such as `12h`.
fn ago(text: &str) -> Option<i64> {
    let unit = text.chars().last()?;
    let number: i64 = text.strip_suffix(unit)?.parse().ok().filter(|n| *n >= 0)?;
    let hours = match unit {
        'h' => 1,
        'd' => 24,
        'w' => 24 * 7,
        _ => return None,
    };
    number.checked_mul(hours * 3_600_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_moments_and_ages_are_read() {
        let ms = |text: &str| text.parse::<Moment>().unwrap().ms(1_000_000_000_000);
        assert_eq!(ms("1970-01-02"), 86_400_000);
        assert_eq!(ms("1970-01-01T01:00:00+01:00"), 0);
        assert_eq!(ms("2h"), 1_000_000_000_000 - 7_200_000);
        assert_eq!(ms("1w"), ms("7d"));
        for bad in [
            "",
            "d",
            "-1d",
            "yesterday",
            "2026-13-01",
            "5",
            "99999999999999999d",
        ] {
            assert!(bad.parse::<Moment>().is_err(), "{bad}");
        }
    }
}
