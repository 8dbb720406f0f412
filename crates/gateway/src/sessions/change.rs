//! Changes a conversation: its title and metadata, ended or open.

use herma_model::{Alias, EndReason};
use herma_store::{Change, ConversationRow, EndOutcome};

use super::Sessions;
use crate::error::GatewayError;
use crate::mint;

impl Sessions<'_> {
    /// Changes title, metadata or archived state of a conversation. Durable when it returns.
    pub async fn change(&self, alias: &Alias, change: Change) -> Result<ConversationRow, GatewayError> {
        let changed = self.store.update(&self.scope, alias, change, mint::now()).await?;
        changed.ok_or(GatewayError::unknown())
    }

    /// Ends a conversation: it takes no turns until it is opened again. One that was ended before stays as it is.
    /// Durable when it returns.
    pub async fn end(&self, alias: &Alias) -> Result<ConversationRow, GatewayError> {
        ended(self.store.end(&self.scope, alias, EndReason::Ended, mint::now()).await?)
    }

    /// Opens an ended conversation again. One that is open stays as it is. Durable when it returns.
    pub async fn reopen(&self, alias: &Alias) -> Result<ConversationRow, GatewayError> {
        ended(self.store.reopen(&self.scope, alias, mint::now()).await?)
    }
}

fn ended(outcome: EndOutcome) -> Result<ConversationRow, GatewayError> {
    match outcome {
        EndOutcome::Done(row) => Ok(*row),
        EndOutcome::Busy(running) => Err(GatewayError::busy(running)),
        EndOutcome::NotFound => Err(GatewayError::unknown()),
    }
}
