//! Whether a failed attempt is repeated, and after how long.

use std::time::Duration;

use herma_model::ModelFailure;
use herma_model::generation::ModelFailureKind as Kind;
use http::header::{HeaderMap, RETRY_AFTER};
use uuid::Uuid;

/// The longest wait before a repetition, without jitter. If a server asks for more, the call fails at once, because a
/// person waits.
const MAX_WAIT: Duration = Duration::from_secs(5);
const FIRST_WAIT: Duration = Duration::from_millis(200);

/// An attempt that failed before any part of an answer arrived.
#[derive(Debug)]
pub(super) struct FailedAttempt {
    pub(super) failure: ModelFailure,
    /// How long the server asked to wait.
    pub(super) wait: Option<Duration>,
    /// Whether another attempt is useless: the server says so, or there is no HTTP client.
    pub(super) is_final: bool,
}

impl FailedAttempt {
    /// A failure without advice from the server about retries.
    pub(super) fn plain(failure: ModelFailure) -> Self {
        Self { failure, wait: None, is_final: false }
    }

    /// A failure that another attempt cannot change.
    pub(super) fn permanent(failure: ModelFailure) -> Self {
        Self { failure, wait: None, is_final: true }
    }

    /// A failure with the retry advice in its response headers.
    pub(super) fn with_headers(mut failure: ModelFailure, headers: &HeaderMap) -> Self {
        let wait = asked_wait(headers);
        failure.retry_after_seconds =
            wait.map(|wait| u32::try_from(wait.as_millis().div_ceil(1000)).unwrap_or(u32::MAX));
        let is_final = headers.get("x-should-retry").is_some_and(|value| value == "false");
        Self { failure, wait, is_final }
    }

    /// How long to wait before the next attempt. `None` if there must be none. `attempt` counts from 0.
    pub(super) fn wait_before_next(&self, attempt: u32, retries: u32) -> Option<Duration> {
        let is_temporary = match self.failure.kind {
            Kind::Unreachable => true,
            Kind::Status => matches!(self.failure.status, Some(408 | 429 | 500 | 502 | 503 | 504)),
            Kind::Timeout | Kind::ContextTooLong | Kind::CutOff | Kind::Nonsense => false,
        };
        if !is_temporary || self.is_final || attempt >= retries {
            return None;
        }
        let own = || FIRST_WAIT.saturating_mul(1 << attempt.min(5)).min(MAX_WAIT) + jitter(FIRST_WAIT);
        let wait = self.wait.unwrap_or_else(own);
        (self.wait.is_none() || wait <= MAX_WAIT).then_some(wait)
    }
}

/// The wait that a server asks for, from `Retry-After-Ms` or else `Retry-After` in seconds. A date is ignored.
pub(super) fn asked_wait(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds = number("retry-after-ms").map(|ms| ms / 1000.0).or_else(|| number(RETRY_AFTER.as_str()))?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// A random time from zero to half of `most`. It keeps callers that failed together from retrying together.
fn jitter(most: Duration) -> Duration {
    let [random, ..] = *Uuid::new_v4().as_bytes();
    most * u32::from(random) / 512
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(status: u16, headers: &[(&'static str, &'static str)]) -> FailedAttempt {
        let failure = ModelFailure { status: Some(status), ..ModelFailure::new(Kind::Status, "no") };
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        FailedAttempt::with_headers(failure, &headers)
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
    fn only_temporary_failures_are_tried_again() {
        for status in [408, 429, 500, 502, 503, 504] {
            assert!(refusal(status, &[]).wait_before_next(0, 1).is_some(), "{status}");
        }
        for status in [301, 400, 401, 403, 404, 409, 413, 422, 501] {
            assert!(refusal(status, &[]).wait_before_next(0, 1).is_none(), "{status}");
        }
        let kind = |kind| FailedAttempt::plain(ModelFailure::new(kind, "no")).wait_before_next(0, 1).is_some();
        assert!(kind(Kind::Unreachable));
        assert!(!kind(Kind::Timeout) && !kind(Kind::CutOff) && !kind(Kind::Nonsense) && !kind(Kind::ContextTooLong));
    }

    #[test]
    fn the_servers_own_wait_counts_if_it_is_short() {
        for (headers, wait, reported) in [
            (vec![("retry-after", "2")], Some(2000), Some(2)),
            (vec![("retry-after", "0.25")], Some(250), Some(1)),
            (vec![("retry-after-ms", "1500"), ("retry-after", "9")], Some(1500), Some(2)),
            (vec![("retry-after", "5.5")], None, Some(6)),
            (vec![("retry-after", "3600")], None, Some(3600)),
            (vec![("retry-after", "1"), ("x-should-retry", "false")], None, Some(1)),
        ] {
            let refusal = refusal(429, &headers);
            assert_eq!(refusal.wait_before_next(0, 1), wait.map(Duration::from_millis), "{headers:?}");
            assert_eq!(refusal.failure.retry_after_seconds, reported);
        }
        let odd = refusal(429, &[("retry-after", "-1")]);
        assert!(odd.wait.is_none() && odd.wait_before_next(0, 1).is_some());
    }
}
