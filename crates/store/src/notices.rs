//! Notices: they wake up only the callers that wait for a change of one turn or conversation.
//!
//! A notice carries no state. It says that a read may now give another result. So several pending notices become one,
//! and an unnecessary notice does no harm.
//!
//! A caller that subscribes first and then reads misses no change: a change after the read gives a notice. The caller
//! waits, reads again, and waits again on the same subscription.

use herma_model::{ConversationId, TurnId};
use tokio::sync::watch;

use crate::error::StoreError;

/// What a caller can wait for. Changes of every process count, also those of the caller's own process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Notice {
    /// The first turn in the queue of this conversation may ask for the lease, and it waits in this process
    /// ([`Notice::WaitEnded`] is subscribed for it). Comes also if the conversation is gone.
    ConversationFree(ConversationId),
    /// This turn no longer waits: it was cancelled or forgotten, or it has the lease.
    WaitEnded(TurnId),
    /// [`crate::Store::turn`] has news of this turn: it began, streamed more, was parked, answered or resumed, ended,
    /// waits again or is gone. Every new subscription gets this notice once.
    TurnChanged(TurnId),
    /// [`crate::Store::stop_requests`] may name a turn that it did not name before.
    StopRequested,
}

/// Waits for one notice, as often as it comes.
#[derive(Debug)]
pub struct Subscription(watch::Receiver<()>);

impl Subscription {
    /// Made by an engine, which sends when the notice is due. When the sender is dropped, the store is closed.
    pub const fn new(notices: watch::Receiver<()>) -> Self {
        Self(notices)
    }

    /// Waits for the next notice. [`StoreError::Closed`] if no more will come. Cancel-safe.
    pub async fn notified(&mut self) -> Result<(), StoreError> {
        self.0.changed().await.map_err(|_| StoreError::Closed)
    }
}
