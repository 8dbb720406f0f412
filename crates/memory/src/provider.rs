//! The port of memory providers.

use std::sync::Arc;

use async_trait::async_trait;
use herma_model::{ConversationId, MemoryId, MessageId, Role, SessionKey, TenantId, Timestamp};
use herma_store::{MemoryVersion, Shown};

/// What a turn wants to remember.
#[derive(Debug, Clone)]
pub struct RecallRequest {
    /// The tenant.
    pub tenant: TenantId,
    /// Whose memory is asked. A provider whose own names allow fewer characters must encode the tenant and the key so
    /// that two of them never fall together.
    pub session_key: SessionKey,
    /// What the person says now.
    pub text: String,
    /// What the conversation of the turn still shows its model. It is not to be recalled.
    pub shown: Shown,
    /// Messages that the conversation shows, but inherited from another one.
    pub inherited: Vec<MessageId>,
    /// The version of the store's memory that the admission of the turn has seen.
    pub as_of: Option<MemoryVersion>,
}

/// One thing that is remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recollection {
    /// Whose words they are. `None` if it is a fact.
    pub speaker: Option<Speaker>,
    /// The text. It may have any number of lines.
    pub text: Arc<str>,
    /// When it was said or learnt.
    pub at: Timestamp,
    /// The conversation that it quotes, if it is one of Herma's.
    pub conversation: Option<ConversationId>,
    /// The fact that it quotes, if it is one of Herma's.
    pub memory: Option<MemoryId>,
}

impl Recollection {
    /// Whether an outside provider concluded it, without saying from which conversations.
    pub(crate) const fn is_derived(&self) -> bool {
        self.conversation.is_none() && self.memory.is_none()
    }
}

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// The person.
    User,
    /// The model.
    Assistant,
}

impl From<Role> for Speaker {
    fn from(role: Role) -> Self {
        match role {
            Role::User => Self::User,
            Role::Assistant | Role::Tool => Self::Assistant,
        }
    }
}

/// Why a provider could not answer.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The store failed.
    #[error("{0}")]
    Store(#[from] herma_store::StoreError),
    /// An outside provider did not answer, or its answer cannot be used. Says nothing that was asked or answered.
    #[error("{0}")]
    Outside(String),
}

/// Remembers what was said under session keys, for all tenants.
#[async_trait]
pub trait MemoryProvider: Send + Sync + 'static {
    /// Its name, for the log.
    fn name(&self) -> &'static str;

    /// Providers that are asked at the same time. What one of them finds is recalled even if others are late or fail.
    fn beside(&self) -> Vec<&dyn MemoryProvider> {
        Vec::new()
    }

    /// What is remembered that fits to what the person says, best first. Nothing of another tenant or another session
    /// key, and nothing that the conversation still shows.
    ///
    /// The caller bounds the time by dropping the future, and the length by leaving out the last ones. Cancel-safe.
    async fn recall(&self, request: &RecallRequest) -> Result<Vec<Recollection>, MemoryError>;
}
