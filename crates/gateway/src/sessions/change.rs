//! Changes a conversation: its title and metadata, ended or open.

use herma_model::{Alias, EndReason, SessionKey};
use herma_store::{Change, ConversationRow, EndOutcome};

use super::Sessions;
use crate::error::{GatewayError, KeyProblem};
use crate::mint;

impl Sessions<'_> {
    /// Changes title, metadata or archived state of a conversation. Durable when it returns.
    pub async fn change(&self, alias: &Alias, change: Change) -> Result<ConversationRow, GatewayError> {
        let changed = self.store.update(&self.scope, alias, change, mint::now()).await?;
        changed.ok_or(GatewayError::unknown())
    }

    /// Stores the session key of a conversation, as its first use does. Fails if the conversation has another one.
    /// Durable when it returns.
    pub async fn bring_key(&self, alias: &Alias, session_key: SessionKey) -> Result<ConversationRow, GatewayError> {
        if !self.scope.keys.allows(&session_key) {
            return Err(GatewayError::SessionKey(KeyProblem::NotAllowed));
        }
        let row = self.change(alias, Change { session_key: Some(session_key.clone()), ..Change::default() }).await?;
        match row.facts.session_key == Some(session_key) {
            true => Ok(row),
            false => Err(GatewayError::SessionKey(KeyProblem::Conflict)),
        }
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
