//! When this process last renewed its leases, for other parts of the process.
//!
//! A renewal is published only after its transaction was committed. Times are of the monotonic clock, so changes of the
//! wall clock have no effect.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often an owner renews.
pub(crate) const RENEWAL: Duration = Duration::from_secs(3);
/// How long after a renewal no other process can have taken over a lease. It is well below [`crate::instance::LEASE`],
/// so that there is time to act on the answer.
const FRESH: Duration = Duration::from_secs(7);

/// A monotonic clock.
pub(crate) type Clock = Arc<dyn Fn() -> Instant + Send + Sync>;

/// One committed renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Renewal {
    /// When it was written, before its commit.
    pub(crate) at: Instant,
    /// Which unbroken series it belongs to.
    pub(crate) series: u64,
}

impl Renewal {
    /// The renewal after this one. It begins another series if the leases may have been lost in between.
    pub(crate) fn next(self, at: Instant) -> Self {
        let series = if at.duration_since(self.at) < FRESH { self.series } else { self.series + 1 };
        Self { at, series }
    }
}

/// The last committed renewal of this process, and its key as an owner.
pub(crate) struct Renewals {
    clock: Clock,
    last: Mutex<Option<(i64, Renewal)>>,
}

impl Renewals {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, last: Mutex::default() }
    }

    pub(crate) fn publish(&self, renewal: Option<(i64, Renewal)>) {
        *self.lock() = renewal;
    }

    /// This process's key, if it has ever had a lease.
    pub(crate) fn owner(&self) -> Option<i64> {
        self.lock().map(|(owner, _)| owner)
    }

    /// The current series of renewals, or `None` if the last renewal is so old that leases may have been lost since.
    pub(crate) fn fresh_series(&self) -> Option<u64> {
        let renewal = self.last()?;
        ((self.clock)().duration_since(renewal.at) < FRESH).then_some(renewal.series)
    }

    /// Whether the leases of this process should be renewed now.
    pub(crate) fn is_due(&self) -> bool {
        self.last().is_some_and(|renewal| (self.clock)().duration_since(renewal.at) >= RENEWAL)
    }

    fn last(&self) -> Option<Renewal> {
        self.lock().map(|(_, renewal)| renewal)
    }

    fn lock(&self) -> MutexGuard<'_, Option<(i64, Renewal)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
