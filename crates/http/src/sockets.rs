//! The WebSockets that are open: how many there may be, and telling them all to close.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Counts the open WebSockets of this process. One that is open and silent is no turn.
pub(crate) struct Sockets {
    places: Arc<Semaphore>,
    most: usize,
    closing: watch::Sender<bool>,
}

impl Sockets {
    pub(crate) fn new(most: usize) -> Self {
        let most = most.min(Semaphore::MAX_PERMITS).min(u32::MAX as usize);
        Self { places: Arc::new(Semaphore::new(most)), most, closing: watch::Sender::new(false) }
    }

    /// How many may be open.
    pub(crate) const fn most(&self) -> usize {
        self.most
    }

    /// How many are open.
    pub(crate) fn open(&self) -> usize {
        self.most - self.places.available_permits()
    }

    /// A place for another one, if there is one left.
    pub(crate) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// How a socket learns that it is to close as soon as its turn has ended.
    pub(crate) fn closing(&self) -> Closing {
        Closing(self.closing.subscribe())
    }

    /// Tells every socket to close.
    pub(crate) fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Waits until none is open. Cancel-safe.
    pub(crate) async fn closed(&self) {
        let all = u32::try_from(self.most).unwrap_or(u32::MAX);
        let _ = self.places.acquire_many(all).await;
    }
}

/// How one socket learns that all are to close.
#[derive(Clone)]
pub(crate) struct Closing(watch::Receiver<bool>);

impl Closing {
    /// Waits until all are told to close, or were. Cancel-safe.
    pub(crate) async fn told(&mut self) {
        let _ = self.0.wait_for(|closing| *closing).await;
    }
}
