//! Whether the store can be written, checked without a durable write for every client that asks.

use std::time::{Duration, Instant};

use herma_store::{Store, StoreError};
use tokio::sync::Mutex;

/// How long an answer of the store is used again.
const VALID_FOR: Duration = Duration::from_secs(1);

/// The last answer of the store, and when it came.
#[derive(Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, Result<(), StoreError>)>>);

impl Readiness {
    /// Checks whether the store can be written, at most once a second. Callers at the same time share one check.
    /// Cancel-safe.
    pub(crate) async fn of(&self, store: &dyn Store) -> Result<(), StoreError> {
        let mut last = self.0.lock().await;
        if let Some((_, outcome)) = last.as_ref().filter(|(at, _)| at.elapsed() < VALID_FOR) {
            return outcome.clone();
        }
        let outcome = store.check().await;
        *last = Some((Instant::now(), outcome.clone()));
        outcome
    }
}
