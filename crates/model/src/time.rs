//! Moments as integers, written as RFC 3339. This module does not read the clock.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Whole seconds since the Unix epoch.
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// This moment minus a span, saturating.
    pub fn minus(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }

    /// This moment plus a span, saturating.
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }

    /// The time since `earlier`; zero if `earlier` is later than this moment.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// A text is not a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a moment as RFC 3339, such as 2026-03-04T05:06:07.089Z")]
pub struct InvalidMoment;

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC with milliseconds. A moment beyond the calendar is shown as the calendar's first or last one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = if self.0 < 0 { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX };
        let moment = jiff::Timestamp::from_millisecond(self.0).unwrap_or(limit);
        write!(f, "{moment:.3}")
    }
}

impl FromStr for Timestamp {
    type Err = InvalidMoment;

    fn from_str(text: &str) -> Result<Self, InvalidMoment> {
        let moment: jiff::Timestamp = text.parse().map_err(|_| InvalidMoment)?;
        Ok(Self(moment.as_millisecond()))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::text::parsed(deserializer, str::parse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_moment_has_a_date() {
        assert_eq!(Timestamp(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Timestamp(1_772_582_400_050).to_string(), "2026-03-04T00:00:00.050Z");
        assert!(Timestamp(i64::MAX).to_string().starts_with("9999-"));
        assert!(Timestamp(i64::MIN).to_string().starts_with('-'));
    }

    #[test]
    fn a_date_reads_back() {
        for moment in [Timestamp(0), Timestamp(-1), Timestamp(1_772_582_400_050)] {
            assert_eq!(moment.to_string().parse(), Ok(moment));
        }
        assert_eq!("1970-01-01T00:00:00".parse::<Timestamp>(), Err(InvalidMoment));
    }
}
