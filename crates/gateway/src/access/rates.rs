//! How many requests an API key may make: each process counts by itself.
//!
//! A key has as many requests in hand as its rate names, and gets one back after each interval. So a key with `60/min`
//! may ask sixty times at once, and then once a second.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use herma_model::{ApiKeyId, Rate};

/// Entries above this number are looked through for keys that have all their requests in hand.
const MANY_KEYS: usize = 1024;

/// The requests that keys have made.
#[derive(Default)]
pub(super) struct RequestRates(Mutex<HashMap<ApiKeyId, Instant>>);

impl RequestRates {
    /// Takes a request of a key. If it has none in hand, the error says how long to wait for one.
    pub(super) fn take(&self, key: ApiKeyId, rate: Rate, now: Instant) -> Result<(), Duration> {
        let mut full_at = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if full_at.len() >= MANY_KEYS {
            full_at.retain(|_, full_at| *full_at > now);
        }
        // The moment at which the key has all its requests in hand again.
        let entry = full_at.entry(key).or_insert(now);
        let interval = rate.interval();
        let next = (*entry).max(now) + interval;
        let wait = next.saturating_duration_since(now + interval * rate.requests());
        if !wait.is_zero() {
            return Err(wait);
        }
        *entry = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_key_asks_as_often_as_its_rate_says_and_then_once_an_interval() {
        let (rates, key, rate) = (RequestRates::default(), ApiKeyId::from_uuid(Uuid::nil()), "3/s".parse().unwrap());
        let begin = Instant::now();
        for _ in 0..3 {
            assert_eq!(rates.take(key, rate, begin), Ok(()));
        }
        let wait = rates.take(key, rate, begin).unwrap_err();
        assert!(wait > Duration::from_millis(333) && wait < Duration::from_millis(334), "{wait:?}");
        assert_eq!(rates.take(key, rate, begin + wait), Ok(()));
        assert!(rates.take(key, rate, begin + wait).is_err(), "a wait gives one request back");
        let later = begin + Duration::from_secs(60);
        for _ in 0..3 {
            assert_eq!(rates.take(key, rate, later), Ok(()));
        }
        assert!(rates.take(key, rate, later).is_err(), "a long pause gives no more than the rate");
    }

    #[test]
    fn each_key_has_its_own_requests() {
        let (rates, rate) = (RequestRates::default(), "1/h".parse().unwrap());
        let now = Instant::now();
        for number in 0..2 {
            assert_eq!(rates.take(ApiKeyId::from_uuid(Uuid::from_u128(number)), rate, now), Ok(()));
        }
        assert!(rates.take(ApiKeyId::from_uuid(Uuid::nil()), rate, now).is_err());
    }
}
