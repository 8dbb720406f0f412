//! Hands over to an outside memory provider what was said, behind the turns.

use herma_store::{Backlog, StoreError};
use tokio::sync::oneshot;

use crate::gateway::Gateway;
use crate::memory::Remembering;

/// Keeps the delivery running. It ends when this is dropped.
pub(crate) struct Delivering {
    _alive: oneshot::Sender<()>,
}

/// Starts to deliver the outbox, if an outside provider is used. Must be called inside a Tokio runtime.
pub(crate) fn start(remembering: &Remembering) -> Option<Delivering> {
    let outbox = remembering.outbox.clone()?;
    let (alive, ended) = oneshot::channel();
    tokio::spawn(async move {
        tokio::select! {
            () = outbox.run() => {}
            _ = ended => {}
        }
    });
    Some(Delivering { _alive: alive })
}

impl Gateway {
    /// Notes that a turn was committed, so that it is delivered at once.
    pub(crate) fn note_commit(&self) {
        if let Some(outbox) = &self.memory.outbox {
            outbox.wake();
        }
    }

    /// What an outside memory provider has still to be told, from all processes. `None` if there is no such provider.
    pub async fn memory_backlog(&self) -> Result<Option<Backlog>, StoreError> {
        match self.memory.outbox {
            Some(_) => self.store.backlog().await.map(Some),
            None => Ok(None),
        }
    }
}
