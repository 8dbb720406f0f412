//! How often a server may be started: a pure account of its starts.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// So many starts are allowed within [`WINDOW`].
const MOST: usize = 5;
const WINDOW: Duration = Duration::from_secs(60);
/// How long a server rests that was started too often.
const REST: Duration = Duration::from_secs(60);

/// The recent starts of one server.
#[derive(Debug, Default)]
pub(crate) struct Starts {
    recent: VecDeque<Instant>,
    failures: u32,
}

impl Starts {
    /// Counts a start, or says until when there must be none.
    pub(crate) fn begin(&mut self, now: Instant) -> Result<(), Instant> {
        while self.recent.front().is_some_and(|&start| now.duration_since(start) >= WINDOW) {
            self.recent.pop_front();
        }
        if self.recent.len() >= MOST {
            self.recent.clear();
            return Err(now + REST);
        }
        self.recent.push_back(now);
        Ok(())
    }

    /// The last start failed: when the next one may be tried. Waits longer after each failure.
    pub(crate) fn failed(&mut self, now: Instant) -> Instant {
        let wait = Duration::from_secs(1 << self.failures.min(6)).min(REST);
        self.failures = self.failures.saturating_add(1);
        now + wait
    }

    /// The last start led to a server that answers.
    pub(crate) fn succeeded(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sixth_start_within_a_minute_has_to_wait_a_minute() {
        let (mut starts, begin) = (Starts::default(), Instant::now());
        for second in 0..5 {
            assert_eq!(starts.begin(begin + Duration::from_secs(second)), Ok(()));
        }
        let now = begin + Duration::from_secs(10);
        assert_eq!(starts.begin(now), Err(now + REST));
        assert_eq!(starts.begin(now + REST), Ok(()));
    }

    #[test]
    fn starts_that_are_a_minute_old_do_not_count() {
        let (mut starts, begin) = (Starts::default(), Instant::now());
        for round in 0..20 {
            assert_eq!(starts.begin(begin + Duration::from_secs(15 * round)), Ok(()), "{round}");
        }
    }

    #[test]
    fn failures_wait_longer_each_time_until_one_succeeds() {
        let (mut starts, now) = (Starts::default(), Instant::now());
        let waits: Vec<u64> = (0..8).map(|_| starts.failed(now).duration_since(now).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        starts.succeeded();
        assert_eq!(starts.failed(now).duration_since(now).as_secs(), 1);
    }
}
