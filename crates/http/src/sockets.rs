//! Counts the open WebSockets, limits them, and tells them to close.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// The open WebSockets of this process. An idle WebSocket does not count as a turn.
pub(crate) struct Sockets {
    permits: Arc<Semaphore>,
    limit: usize,
    closing: watch::Sender<bool>,
}

impl Sockets {
    pub(crate) fn new(limit: usize) -> Self {
        let limit = limit.min(Semaphore::MAX_PERMITS).min(u32::MAX as usize);
        Self { permits: Arc::new(Semaphore::new(limit)), limit, closing: watch::Sender::new(false) }
    }

    /// The limit of open WebSockets.
    pub(crate) const fn limit(&self) -> usize {
        self.limit
    }

    /// How many WebSockets are open.
    pub(crate) fn open(&self) -> usize {
        self.limit - self.permits.available_permits()
    }

    /// A permit to open another WebSocket. `None` if the limit is reached.
    pub(crate) fn try_acquire(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).try_acquire_owned().ok()
    }

    /// By this a socket learns that it must close when its turn has ended.
    pub(crate) fn closing(&self) -> Closing {
        Closing(self.closing.subscribe())
    }

    /// Tells every socket to close.
    pub(crate) fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Waits until no WebSocket is open. Cancel-safe.
    pub(crate) async fn closed(&self) {
        let all = u32::try_from(self.limit).unwrap_or(u32::MAX);
        let _ = self.permits.acquire_many(all).await;
    }
}

/// Tells one socket that all sockets must close.
#[derive(Clone)]
pub(crate) struct Closing(watch::Receiver<bool>);

impl Closing {
    /// Waits until all sockets are told to close; resolves at once if they were told before. Cancel-safe.
    pub(crate) async fn requested(&mut self) {
        let _ = self.0.wait_for(|closing| *closing).await;
    }
}
