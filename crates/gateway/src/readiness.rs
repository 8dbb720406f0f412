//! Whether turns can be taken, without a durable write for every client that asks.

use std::time::{Duration, Instant};

use herma_store::{Store, StoreError};
use tokio::sync::Mutex;

/// How long an answer of the store holds.
const HOLDS: Duration = Duration::from_secs(1);

/// What the store last said, and when.
#[derive(Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, Result<(), StoreError>)>>);

impl Readiness {
    /// Whether the store can be written, asked at most once a second. Those who ask at the same time wait for one
    /// answer. Cancel-safe.
    pub(crate) async fn of(&self, store: &dyn Store) -> Result<(), StoreError> {
        let mut last = self.0.lock().await;
        if let Some((_, outcome)) = last.as_ref().filter(|(at, _)| at.elapsed() < HOLDS) {
            return outcome.clone();
        }
        let outcome = store.check().await;
        *last = Some((Instant::now(), outcome.clone()));
        outcome
    }
}
