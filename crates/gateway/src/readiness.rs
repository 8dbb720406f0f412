//! Whether turns can be taken, without a durable write for every client that asks.

use std::time::{Duration, Instant};

use herma_store::StoreError;
use tokio::sync::Mutex;

use crate::gateway::Gateway;

/// How long an answer of the store holds.
const HOLDS: Duration = Duration::from_secs(1);

/// What the store last said, and when.
#[derive(Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, Result<(), StoreError>)>>);

impl Gateway {
    /// Whether the store can be written, asked at most once a second. Those who ask at the same time wait for one
    /// answer. Cancel-safe.
    pub async fn check_store(&self) -> Result<(), StoreError> {
        let mut last = self.readiness.0.lock().await;
        if let Some((_, outcome)) = last.as_ref().filter(|(at, _)| at.elapsed() < HOLDS) {
            return outcome.clone();
        }
        let outcome = self.store.check().await;
        *last = Some((Instant::now(), outcome.clone()));
        outcome
    }
}
