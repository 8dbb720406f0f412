//! Delivers the outbox of the store to an outside provider, behind the turns.
//!
//! Every process that uses the provider runs this. The store decides which process delivers what. A delivery may come
//! twice; [`Delivery::is_repeated`] says when. While the provider is down, one delivery at a time finds out whether it
//! is back.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use herma_model::Timestamp;
use herma_store::{Delivery, DeliveryOutcome, Store, StoreError};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// How many deliveries run at once, each about another session key.
const AT_ONCE: usize = 4;
/// How often the outbox is looked at for what other processes have written.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a delivery may take. It ends before another process may take it over.
const LONGEST_DELIVERY: Duration = Delivery::LEASE.saturating_sub(Duration::from_secs(30));
/// The first and the longest pause after a failure. It doubles in between.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);
/// The longest pause while the provider works on something.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// The longest pause of the whole process, after which it tries whether the provider is back.
const LONGEST_BREAK: Duration = Duration::from_secs(30);

/// A delivery that the provider has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivered {
    /// The provider has done what was asked.
    Done,
    /// The provider cannot forget this conversation before its whole key is erased.
    Held,
}

/// Why a delivery failed. No message says what was said.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryProblem {
    /// The provider does not answer, or cannot serve anyone now.
    #[error("{message}")]
    Down {
        /// What happened.
        message: String,
        /// How long the provider wants us to wait.
        retry_after: Option<Duration>,
    },
    /// The provider does not want this, now or later.
    #[error("{0}")]
    Refused(String),
    /// The provider works on it.
    #[error("{0}")]
    NotYet(String),
}

impl From<StoreError> for DeliveryProblem {
    fn from(error: StoreError) -> Self {
        Self::Down { message: error.to_string(), retry_after: None }
    }
}

/// A provider that is told what was said, and what to forget.
#[async_trait]
pub trait Recorder: Send + Sync + 'static {
    /// Delivers something. May be repeated, and then must not have a second effect if the provider allows to find out.
    async fn deliver(&self, delivery: &Delivery) -> Result<Delivered, DeliveryProblem>;
}

/// The outbox of one process.
#[derive(Clone)]
pub struct Outbox {
    store: Arc<dyn Store>,
    recorder: Arc<dyn Recorder>,
    wake: Arc<Notify>,
    clock: fn() -> Timestamp,
}

impl Outbox {
    /// An outbox that [`Outbox::run`] delivers. From now on, commits of this process write to it.
    pub fn new(store: Arc<dyn Store>, recorder: Arc<dyn Recorder>, clock: fn() -> Timestamp) -> Self {
        store.use_outbox();
        Self { store, recorder, wake: Arc::default(), clock }
    }

    /// Says that something may have been written, so that it is delivered at once.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Delivers until the future is dropped or the store is closed. What is on its way is then repeated later.
    pub async fn run(self) {
        let mut running = JoinSet::new();
        let mut failed = 0_u32;
        let mut pause: Option<Instant> = None;
        loop {
            let places = if failed > 0 { 1 } else { AT_ONCE };
            while running.len() < places && pause.is_none_or(|until| until <= Instant::now()) {
                match self.store.next_delivery((self.clock)()).await {
                    Ok(Some(delivery)) => drop(running.spawn(self.clone().deliver(delivery))),
                    Ok(None) => break,
                    Err(StoreError::Closed) => return,
                    Err(error) => {
                        tracing::warn!(%error, "the outbox of memory cannot be read; this is tried again");
                        break;
                    }
                }
            }
            tokio::select! {
                Some(ended) = running.join_next(), if !running.is_empty() => match ended {
                    Ok(ProviderState::Up) => (failed, pause) = (0, None),
                    Ok(ProviderState::Down) | Err(_) => {
                        failed = failed.saturating_add(1);
                        pause = Some(Instant::now() + doubled(FIRST_PAUSE, failed - 1, LONGEST_BREAK));
                    }
                },
                () = self.wake.notified() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// Delivers one thing and writes how that ended.
    async fn deliver(self, delivery: Delivery) -> ProviderState {
        let delivered = match tokio::time::timeout(LONGEST_DELIVERY, self.recorder.deliver(&delivery)).await {
            Ok(delivered) => delivered,
            Err(_) => {
                let message = "the memory provider takes too long".to_owned();
                Err(DeliveryProblem::Down { message, retry_after: None })
            }
        };
        let now = (self.clock)();
        let pause = doubled(FIRST_PAUSE, delivery.failures, LONGEST_PAUSE);
        let (outcome, state) = match delivered {
            Ok(Delivered::Done) => (DeliveryOutcome::Done, ProviderState::Up),
            Ok(Delivered::Held) => (DeliveryOutcome::Held, ProviderState::Up),
            Err(problem) => {
                let message = problem.to_string();
                match problem {
                    DeliveryProblem::Down { retry_after, .. } => {
                        tracing::warn!(
                            problem = message,
                            failures = delivery.failures + 1,
                            "the memory provider was not told; this is tried again"
                        );
                        let at = now.plus(pause.max(retry_after.unwrap_or_default()));
                        (DeliveryOutcome::Later(at, message), ProviderState::Down)
                    }
                    DeliveryProblem::Refused(_) => {
                        tracing::warn!(problem = message, "the memory provider refuses what it is told");
                        (DeliveryOutcome::Refused(now.plus(LONGEST_PAUSE), message), ProviderState::Up)
                    }
                    DeliveryProblem::NotYet(_) => {
                        (DeliveryOutcome::Later(now.plus(pause.min(LONGEST_WAIT)), message), ProviderState::Up)
                    }
                }
            }
        };
        match self.store.settle_delivery(delivery.claim, outcome, now).await {
            Ok(true) => {}
            Ok(false) => tracing::warn!("another process has taken a delivery over"),
            Err(error) => tracing::warn!(%error, "a delivery could not be noted; it is repeated"),
        }
        state
    }
}

/// Whether the provider can be told anything.
enum ProviderState {
    Up,
    Down,
}

fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(times)).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let seconds: Vec<u64> =
            [0, 1, 2, 8, 9, 40].map(|times| doubled(FIRST_PAUSE, times, LONGEST_PAUSE).as_secs()).into();
        assert_eq!(seconds, [1, 2, 4, 256, 300, 300]);
    }
}
