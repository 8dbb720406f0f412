//! Facts in long-term memory: what a caller can read of them, and change.
//!
//! Every operation is for one principal. A fact about a session key that it may not use does not exist for it.

use std::sync::Arc;

use herma_model::{ConversationId, Memory, MemoryId, MemorySource, Principal, SessionKey};
use herma_store::{MemoryFilter, MemoryPage, NewMemory, Scope, Store};

use crate::error::{GatewayError, KeyProblem, Missing};
use crate::mint;

/// The facts that a principal can see.
pub struct Memories<'a> {
    store: &'a dyn Store,
    scope: Scope,
}

impl<'a> Memories<'a> {
    /// The facts of a store that a principal can see.
    pub fn of(store: &'a dyn Store, principal: &Principal) -> Self {
        Self { store, scope: Scope::of(principal) }
    }

    /// A page of facts, newest first: about one key, or about all that the principal may use.
    pub async fn list(
        &self,
        session_key: Option<SessionKey>,
        after: Option<i64>,
        limit: usize,
    ) -> Result<MemoryPage, GatewayError> {
        let filter = MemoryFilter { scope: self.scope.clone(), session_key, after, limit };
        Ok(self.store.memories(filter).await?)
    }

    /// Adds a fact. If the same text is known about the key, that fact is returned. Durable when it returns.
    pub async fn add(
        &self,
        session_key: SessionKey,
        text: &str,
        source: MemorySource,
        conversation: Option<ConversationId>,
    ) -> Result<Memory, GatewayError> {
        if !self.scope.keys.allows(&session_key) {
            return Err(GatewayError::SessionKey(KeyProblem::NotAllowed));
        }
        let new = NewMemory {
            id: mint::memory(),
            tenant: self.scope.tenant,
            session_key,
            text: Arc::from(text),
            source,
            conversation,
            now: mint::now(),
        };
        Ok(self.store.add_memory(new).await?)
    }

    /// One fact.
    pub async fn show(&self, id: MemoryId) -> Result<Memory, GatewayError> {
        self.store.memory(&self.scope, id).await?.ok_or(GatewayError::NotFound(Missing::Memory))
    }

    /// Changes the text of a fact. Durable when it returns.
    pub async fn change(&self, id: MemoryId, text: &str) -> Result<Memory, GatewayError> {
        let changed = self.store.change_memory(&self.scope, id, Arc::from(text), mint::now()).await?;
        changed.ok_or(GatewayError::NotFound(Missing::Memory))
    }

    /// Deletes a fact. Durable when it returns.
    pub async fn forget(&self, id: MemoryId) -> Result<(), GatewayError> {
        let forgotten = self.store.forget_memory(&self.scope, id).await?;
        if forgotten { Ok(()) } else { Err(GatewayError::NotFound(Missing::Memory)) }
    }

    /// Deletes all facts about a key, and returns how many there were. Durable when it returns.
    pub async fn forget_all(&self, session_key: &SessionKey) -> Result<u64, GatewayError> {
        Ok(self.store.forget_memories(&self.scope, session_key).await?)
    }
}
