//! The promise that a change which is already decided also reached the disk.

use tokio::sync::oneshot;

use crate::error::StoreError;

/// Resolves when the transaction behind it is durable, or says that it never will be.
#[derive(Debug)]
pub struct Receipt(Option<oneshot::Receiver<Result<(), StoreError>>>);

/// What an engine uses to answer a [`Receipt`].
pub type ReceiptSender = oneshot::Sender<Result<(), StoreError>>;

/// A receipt that is still open.
pub fn receipt() -> (ReceiptSender, Receipt) {
    let (sender, receiver) = oneshot::channel();
    (sender, Receipt(Some(receiver)))
}

impl Receipt {
    /// A receipt of what is durable already.
    pub const fn durable() -> Self {
        Self(None)
    }

    /// Waits for the outcome. Cancel-safe; asking again after the outcome is known says `Ok`.
    pub async fn wait(&mut self) -> Result<(), StoreError> {
        let Some(receiver) = self.0.as_mut() else { return Ok(()) };
        let outcome = receiver.await.unwrap_or(Err(StoreError::Closed));
        self.0 = None;
        outcome
    }
}
