//! Times on the clock of the place where the program runs.

use herma_model::Timestamp;
use jiff::tz::TimeZone;
use jiff::{Zoned, civil};

/// A time to the minute, such as `2026-05-01 14:30`.
pub(crate) fn minute(moment: Timestamp) -> String {
    written(moment, "%Y-%m-%d %H:%M")
}

/// A day, such as `2026-05-01`.
pub(crate) fn day(moment: Timestamp) -> String {
    written(moment, "%Y-%m-%d")
}

/// A moment that a person typed: a day, a moment with its time zone, or how long ago it was, such as `2d`.
pub(crate) fn typed(text: &str, now: Timestamp) -> Option<Timestamp> {
    if let Some(ago) = herma_config::parse_duration(text) {
        return i64::try_from(ago.as_millis()).ok().map(|ago| Timestamp(now.0.saturating_sub(ago)));
    }
    let stamp = match text.parse::<jiff::Timestamp>() {
        Ok(stamp) => stamp,
        Err(_) => text.parse::<civil::Date>().ok()?.to_zoned(TimeZone::system()).ok()?.timestamp(),
    };
    Some(Timestamp(stamp.as_millisecond()))
}

fn written(moment: Timestamp, format: &str) -> String {
    let stamp = jiff::Timestamp::from_millisecond(moment.0).unwrap_or_default();
    Zoned::new(stamp, TimeZone::system()).strftime(format).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_typed_as_an_age_a_day_or_a_time() {
        let now = Timestamp(1_772_582_400_000);
        assert_eq!(typed("2d", now), Some(Timestamp(now.0 - 2 * 86_400_000)));
        assert_eq!(typed("2026-03-04T00:00:00Z", now), Some(now));
        assert!(typed("2026-03-04", now).is_some_and(|day| (day.0 - now.0).abs() <= 14 * 3_600_000));
        assert_eq!(typed("yesterday", now), None);
    }
}
