//! When a failed attempt is tried again, and after how long.

use std::time::Duration;

use herma_model::ModelFailure;
use herma_model::generation::ModelFailureKind as Kind;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use uuid::Uuid;

/// Longest wait that a server may ask for; it is not worth keeping a person waiting for more.
const MAX_WAIT: Duration = Duration::from_secs(5);
const FIRST_WAIT: Duration = Duration::from_millis(200);

/// An attempt that brought nothing of an answer.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) failure: ModelFailure,
    /// How long the server asked to wait.
    pub(super) wait: Option<Duration>,
    /// Whether the server said that another attempt is in vain.
    pub(super) is_final: bool,
}

impl Refusal {
    /// A failure of which the server said nothing more.
    pub(super) fn plain(failure: ModelFailure) -> Self {
        Self { failure, wait: None, is_final: false }
    }

    /// A failure that another attempt cannot change.
    pub(super) fn final_one(failure: ModelFailure) -> Self {
        Self { failure, wait: None, is_final: true }
    }

    /// A failure with the headers it came with.
    pub(super) fn with_headers(mut failure: ModelFailure, headers: &HeaderMap) -> Self {
        let wait = asked_wait(headers);
        failure.retry_after_seconds =
            wait.map(|wait| u32::try_from(wait.as_millis().div_ceil(1000)).unwrap_or(u32::MAX));
        let is_final = headers.get("x-should-retry").is_some_and(|value| value == "false");
        Self { failure, wait, is_final }
    }

    /// How long to wait before the next attempt, if there should be one. `attempt` counts from 0.
    pub(super) fn wait_before_next(&self, attempt: u32, retries: u32) -> Option<Duration> {
        let may_pass = match self.failure.kind {
            Kind::Unreachable => true,
            Kind::Status => matches!(self.failure.status, Some(408 | 429 | 500 | 502 | 503 | 504)),
            Kind::Timeout | Kind::ContextTooLong | Kind::CutOff | Kind::Nonsense => false,
        };
        if !may_pass || self.is_final || attempt >= retries {
            return None;
        }
        let own = || FIRST_WAIT.saturating_mul(1 << attempt.min(5)).min(MAX_WAIT) + jitter(FIRST_WAIT);
        let wait = self.wait.unwrap_or_else(own);
        (self.wait.is_none() || wait <= MAX_WAIT).then_some(wait)
    }
}

/// Seconds, possibly with a fraction, or milliseconds in the header that some servers add. Dates are not read.
fn asked_wait(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds = number("retry-after-ms").map(|ms| ms / 1000.0).or_else(|| number(RETRY_AFTER.as_str()))?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Something between nothing and half of `most`, so that callers that failed together do not return together.
fn jitter(most: Duration) -> Duration {
    let [random, ..] = *Uuid::new_v4().as_bytes();
    most * u32::from(random) / 512
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(status: u16, headers: &[(&'static str, &'static str)]) -> Refusal {
        let failure = ModelFailure { status: Some(status), ..ModelFailure::new(Kind::Status, "no") };
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        Refusal::with_headers(failure, &headers)
    }

    #[test]
    fn waits_double_and_are_jittered() {
        for attempt in 0..3 {
            let wait = refusal(503, &[]).wait_before_next(attempt, 3).unwrap();
            let least = Duration::from_millis(200 << attempt);
            assert!(wait >= least && wait <= least + Duration::from_millis(100), "{wait:?}");
        }
        assert_eq!(refusal(503, &[]).wait_before_next(3, 3), None);
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        for status in [408, 429, 500, 502, 503, 504] {
            assert!(refusal(status, &[]).wait_before_next(0, 1).is_some(), "{status}");
        }
        for status in [301, 400, 401, 403, 404, 409, 413, 422, 501] {
            assert!(refusal(status, &[]).wait_before_next(0, 1).is_none(), "{status}");
        }
        let kind = |kind| Refusal::plain(ModelFailure::new(kind, "no")).wait_before_next(0, 1).is_some();
        assert!(kind(Kind::Unreachable));
        assert!(!kind(Kind::Timeout) && !kind(Kind::CutOff) && !kind(Kind::Nonsense) && !kind(Kind::ContextTooLong));
    }

    #[test]
    fn the_servers_own_wait_counts_if_it_is_short() {
        for (headers, wait, told) in [
            (vec![("retry-after", "2")], Some(2000), Some(2)),
            (vec![("retry-after", "0.25")], Some(250), Some(1)),
            (vec![("retry-after-ms", "1500"), ("retry-after", "9")], Some(1500), Some(2)),
            (vec![("retry-after", "5.5")], None, Some(6)),
            (vec![("retry-after", "3600")], None, Some(3600)),
            (vec![("retry-after", "1"), ("x-should-retry", "false")], None, Some(1)),
        ] {
            let refusal = refusal(429, &headers);
            assert_eq!(refusal.wait_before_next(0, 1), wait.map(Duration::from_millis), "{headers:?}");
            assert_eq!(refusal.failure.retry_after_seconds, told);
        }
        let odd = refusal(429, &[("retry-after", "-1")]);
        assert!(odd.wait.is_none() && odd.wait_before_next(0, 1).is_some());
    }
}
