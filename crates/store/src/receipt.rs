//! The outcome of a change that the caller does not wait for.

use tokio::sync::oneshot;

use crate::error::StoreError;

/// Resolves when the change was made, or with the error. Each operation says whether this means committed or durable.
#[derive(Debug)]
pub struct Receipt(Option<oneshot::Receiver<Result<(), StoreError>>>);

/// What an engine uses to answer a [`Receipt`].
pub type ReceiptSender = oneshot::Sender<Result<(), StoreError>>;

/// Makes a receipt that is still open.
pub fn receipt() -> (ReceiptSender, Receipt) {
    let (sender, receiver) = oneshot::channel();
    (sender, Receipt(Some(receiver)))
}

impl Receipt {
    /// A receipt for a change that is durable already.
    pub const fn durable() -> Self {
        Self(None)
    }

    /// Waits for the outcome. Cancel-safe. A further call after the outcome returns `Ok`.
    pub async fn wait(&mut self) -> Result<(), StoreError> {
        let Some(receiver) = self.0.as_mut() else { return Ok(()) };
        let outcome = receiver.await.unwrap_or(Err(StoreError::Closed));
        self.0 = None;
        outcome
    }
}
