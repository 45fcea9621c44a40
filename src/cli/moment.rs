//! Points in time as people write them.

use std::fmt;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

/// A point in time that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Milliseconds before now.
    Ago(i64),
    /// A day, UTC: its beginning, and that of the next one.
    Day(i64, i64),
    /// Milliseconds since the Unix epoch.
    At(i64),
}

/// As it can be read again.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Moment::Ago(ms) => {
                let units = [(604_800_000, 'w'), (86_400_000, 'd'), (3_600_000, 'h')];
                let fits = units.into_iter().find(|(unit, _)| ms % unit == 0);
                let (unit, name) = fits.unwrap_or((60_000, 'm'));
                write!(f, "{}{name}", ms / unit)
            }
            Moment::Day(first, _) => {
                let text = Timestamp::from_millisecond(first).unwrap_or_default();
                f.write_str(text.to_string().get(..10).unwrap_or_default())
            }
            Moment::At(ms) => {
                let at = Timestamp::from_millisecond(ms).unwrap_or_default();
                write!(f, "{at}")
            }
        }
    }
}

impl Moment {
    /// Reads `2026-01-31`, `2026-01-31T12:00:00Z`, `2026-01-31T12:00` (UTC), `36h`, `7d`, `2w`.
    ///
    /// # Errors
    /// A sentence that says what may be written.
    pub fn parse(text: &str) -> Result<Moment, String> {
        if let Some(ms) = ago(text) {
            return Ok(Moment::Ago(ms));
        }
        if let Ok(at) = text.parse::<Timestamp>() {
            return Ok(Moment::At(at.as_millisecond()));
        }
        let ms = |time: DateTime| {
            TimeZone::UTC
                .to_timestamp(time)
                .map(Timestamp::as_millisecond)
        };
        let begin = |date: Date| ms(date.to_datetime(Time::MIN));
        if let Ok(date) = text.parse::<Date>()
            && text.len() <= 10
            && let Ok(next) = date.checked_add(Span::new().days(1))
            && let (Ok(first), Ok(next)) = (begin(date), begin(next))
        {
            return Ok(Moment::Day(first, next));
        }
        if let Ok(time) = text.parse::<DateTime>()
            && let Ok(ms) = ms(time)
        {
            return Ok(Moment::At(ms));
        }
        Err(
            "write a day (2026-01-31), a time (2026-01-31T12:00:00Z), or how long ago: \
             30m, 36h, 7d, 2w"
                .to_owned(),
        )
    }

    /// As a first moment, milliseconds since the Unix epoch.
    #[must_use]
    pub fn since(self, now_ms: i64) -> i64 {
        match self {
            Moment::Ago(ms) => now_ms.saturating_sub(ms),
            Moment::Day(first, _) => first,
            Moment::At(ms) => ms,
        }
    }

    /// As the moment behind the last one: a day counts whole.
    #[must_use]
    pub fn until(self, now_ms: i64) -> i64 {
        match self {
            Moment::Day(_, next) => next,
            other => other.since(now_ms),
        }
    }
}

fn ago(text: &str) -> Option<i64> {
    let unit = text.chars().last()?;
    let ms: i64 = match unit {
        'm' => 60_000,
        'h' => 3_600_000,
        'd' => 86_400_000,
        'w' => 604_800_000,
        _ => return None,
    };
    let n: u32 = text.strip_suffix(unit)?.parse().ok()?;
    i64::from(n).checked_mul(ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_as_the_same() {
        for text in [
            "30m",
            "36h",
            "0m",
            "7d",
            "2w",
            "4294967295w",
            "2026-01-31",
            "2026-01-31T12:00:00.25Z",
        ] {
            let moment = Moment::parse(text).unwrap();
            assert_eq!(Moment::parse(&moment.to_string()), Ok(moment), "{text}");
        }
    }

    #[test]
    fn what_people_write() {
        let day = 86_400_000;
        for (text, since, until) in [
            ("1970-01-02", day, 2 * day),
            ("1970-01-02T00:00:00Z", day, day),
            ("1970-01-02T01:00:00+01:00", day, day),
            ("1970-01-02T00:00", day, day),
            ("1d", 9 * day, 9 * day),
            ("1w", 3 * day, 3 * day),
            ("24h", 9 * day, 9 * day),
            ("1440m", 9 * day, 9 * day),
        ] {
            let moment = Moment::parse(text).unwrap();
            assert_eq!(
                (moment.since(10 * day), moment.until(10 * day)),
                (since, until),
                "{text}"
            );
        }
        for text in [
            "",
            "d",
            "7",
            "-1d",
            "1y",
            "yesterday",
            "2026-13-01",
            "2026-02-30",
            "日d",
        ] {
            assert!(Moment::parse(text).is_err(), "{text}");
        }
    }
}
