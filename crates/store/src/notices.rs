//! Notices: what happened to which turn or conversation, so that only those wake up who wait for it.
//!
//! A notice carries no state. It says that a read or a question has another answer now than it had before. So
//! several notices that were not taken yet become one, and one too many does no harm.
//!
//! No change is missed if the caller subscribes first and reads after that: a change that the read does not show gives
//! a notice. The caller waits, reads again, and waits again on the same subscription.

use herma_model::{ConversationId, TurnId};
use tokio::sync::watch;

use crate::error::StoreError;

/// What a caller can wait for. Changes of every process count, those of the caller's own process too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Notice {
    /// The first turn in line of this conversation may ask for the lease, and that turn waits in this process
    /// ([`Notice::WaitEnded`] is subscribed for it). Also if the conversation is gone.
    ConversationFree(ConversationId),
    /// This turn waited and does not any more: it was cancelled, forgotten, or has the lease.
    WaitEnded(TurnId),
    /// [`crate::Store::turn`] has more to say about this turn: it began, showed more, ended, waits again or is gone.
    /// Comes once for every new subscription too.
    TurnChanged(TurnId),
    /// [`crate::Store::stop_requests`] may name a turn that it did not name before.
    StopRequested,
}

/// Waits for one notice, as often as it comes.
#[derive(Debug)]
pub struct Subscription(watch::Receiver<()>);

impl Subscription {
    /// Made by an engine, which sends when the notice is due. The end of the sender is the end of the store.
    pub const fn new(notices: watch::Receiver<()>) -> Self {
        Self(notices)
    }

    /// Waits for the next notice. [`StoreError::Closed`] if none will come. Cancel-safe.
    pub async fn notified(&mut self) -> Result<(), StoreError> {
        self.0.changed().await.map_err(|_| StoreError::Closed)
    }
}
