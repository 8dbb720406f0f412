//! What a reader sees of one conversation at one moment.

use std::collections::HashMap;
use std::sync::Arc;

use herma_model::{ConversationFacts, KeyScope, Message, Payload, TenantId, TurnId, Unanswered};

/// What a caller can reach: one tenant, and within it the session keys it may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Nothing crosses it.
    pub tenant: TenantId,
    /// Conversations with other keys do not exist for the caller.
    pub keys: KeyScope,
}

/// Counts every change of a conversation that a turn could notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub i64);

/// A conversation as it stood at one version. Consistent: read in one transaction.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Ids, kinds and lineage.
    pub facts: Arc<ConversationFacts>,
    /// The version all of this was read at.
    pub version: Version,
    /// System and developer messages in force, in order.
    pub system: Arc<[Payload]>,
    /// Every message of the chain, in order.
    pub messages: Vec<Arc<Message>>,
    /// The turns among them that have no answer.
    pub unanswered: HashMap<TurnId, Unanswered>,
    /// Whether the conversation was ended.
    pub ended: bool,
}
