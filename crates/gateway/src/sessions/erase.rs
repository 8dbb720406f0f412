//! Erases conversations, alone or all of a session key, and says what became of it.

use herma_model::{Alias, ErasureId, SessionKey};
use herma_store::{AskedBy, Children, EraseOutcome, Erasure, ErasureReceipt, Facts};

use super::Sessions;
use crate::error::{GatewayError, Missing};
use crate::mint;

impl Sessions<'_> {
    /// Deletes a conversation, alone or with the conversations that came from it, and the facts that came from it.
    /// Messages that branches inherit stay for them. Durable when it returns.
    pub async fn delete(
        &self,
        alias: &Alias,
        children: Children,
        facts: Facts,
    ) -> Result<ErasureReceipt, GatewayError> {
        self.erase(Erasure::Conversation(alias.clone(), children, facts), Missing::Conversation).await
    }

    /// Deletes all conversations and the memory of a session key. If a turn runs in one of them, nothing or only a part
    /// is deleted. Durable when it returns.
    pub async fn erase_key(&self, key: &SessionKey) -> Result<ErasureReceipt, GatewayError> {
        self.erase(Erasure::SessionKey(key.clone()), Missing::SessionKey).await
    }

    /// The receipt of an earlier erasure, with what is pending now.
    pub async fn erasure(&self, id: ErasureId) -> Result<ErasureReceipt, GatewayError> {
        let found = self.store.erasure(&self.scope, AskedBy(self.owner), id).await?;
        found.ok_or(GatewayError::NotFound(Missing::Erasure))
    }

    async fn erase(&self, what: Erasure, missing: Missing) -> Result<ErasureReceipt, GatewayError> {
        match self.store.erase(&self.scope, what, AskedBy(self.owner), mint::now()).await? {
            EraseOutcome::Erased(receipt) => Ok(receipt),
            EraseOutcome::Busy(running) => Err(GatewayError::busy(running)),
            EraseOutcome::NotFound => Err(GatewayError::NotFound(missing)),
        }
    }
}
