//! What an API key may not do, beyond the tenant and the session keys that it is limited to.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::time::Timestamp;

/// The limits of an API key. By default there are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyLimits {
    /// Whether it may only read.
    pub read_only: bool,
    /// From when on it is not valid.
    pub expires_at: Option<Timestamp>,
    /// How many requests it may make in a period.
    pub rate: Option<Rate>,
    /// How many turns it may have at the same time. Delegated turns do not count.
    pub max_turns: Option<u32>,
}

impl KeyLimits {
    /// Whether the key is not valid any more.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }
}

/// A number of requests in a period, such as `60/min`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    requests: u32,
    period: Period,
}

impl Rate {
    /// The number of requests that may come at once, after a pause.
    pub const fn requests(self) -> u32 {
        self.requests
    }

    /// The time between two requests at an even pace.
    pub fn interval(self) -> Duration {
        self.period.length() / self.requests
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Period {
    Second,
    Minute,
    Hour,
    Day,
}

impl Period {
    const ALL: [Self; 4] = [Self::Second, Self::Minute, Self::Hour, Self::Day];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Second => "s",
            Self::Minute => "min",
            Self::Hour => "h",
            Self::Day => "d",
        }
    }

    const fn length(self) -> Duration {
        Duration::from_secs(match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3_600,
            Self::Day => 86_400,
        })
    }
}

/// A rate is not a number above zero and a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a number of requests and a period: '5/s', '60/min', '1000/h' or '10000/d'")]
pub struct InvalidRate;

impl FromStr for Rate {
    type Err = InvalidRate;

    fn from_str(text: &str) -> Result<Self, InvalidRate> {
        let (requests, period) = text.split_once('/').ok_or(InvalidRate)?;
        let requests = requests.parse().ok().filter(|requests| *requests > 0).ok_or(InvalidRate)?;
        let period = Period::ALL.into_iter().find(|known| known.as_str() == period).ok_or(InvalidRate)?;
        Ok(Self { requests, period })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.requests, self.period.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_above_zero_and_a_period() {
        for (text, interval) in [("5/s", 200), ("60/min", 1_000), ("1000/h", 3_600), ("100/d", 864_000)] {
            let rate: Rate = text.parse().unwrap();
            assert_eq!((rate.to_string().as_str(), rate.interval().as_millis()), (text, interval));
        }
        for text in ["", "60", "0/min", "-1/min", "60/minute", "60/ min", "1.5/s", "99999999999/s"] {
            assert_eq!(text.parse::<Rate>(), Err(InvalidRate), "{text}");
        }
    }

    #[test]
    fn a_key_is_valid_until_the_moment_it_expires() {
        let limits = KeyLimits { expires_at: Some(Timestamp(1_000)), ..KeyLimits::default() };
        assert!(!limits.is_expired(Timestamp(999)));
        assert!(limits.is_expired(Timestamp(1_000)));
        assert!(!KeyLimits::default().is_expired(Timestamp(i64::MAX)));
    }
}
