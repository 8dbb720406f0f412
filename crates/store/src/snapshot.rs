//! What a reader sees of one conversation at one moment.

use std::collections::HashMap;
use std::sync::Arc;

use herma_model::{
    Base, CompactionId, ConversationFacts, KeyScope, Message, Payload, Principal, TenantId, TurnId, Unanswered,
};

pub use herma_model::tokens::Counted;

/// What a caller can reach: one tenant, and within it the session keys it may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Nothing crosses it.
    pub tenant: TenantId,
    /// Conversations with other keys do not exist for the caller.
    pub keys: KeyScope,
}

impl Scope {
    /// What a principal can reach.
    pub fn of(principal: &Principal) -> Self {
        Self { tenant: principal.tenant, keys: principal.session_keys.clone() }
    }
}

/// Counts every change of a conversation that a turn could notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub i64);

/// How far back a conversation is read, and from where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// At its head, what the model is shown: the base and what was said since.
    View,
    /// At its head, every message from the first on.
    Whole,
    /// What the model was shown at the end of the very session that has this name; the head for names that are no session's.
    Session,
    /// What the model was shown at the end of this completed turn of the conversation: what a branch that begins there inherits.
    At(TurnId),
    /// What the model was shown after the last answer: what a branch inherits that is made at the end. What failed or runs since is left out.
    Completed,
    /// What the model would be shown if this compaction, on which the head stands, had not been made.
    Without(CompactionId),
}

/// A conversation as it stood at one version. Consistent: read in one transaction.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Ids, kinds and lineage.
    pub facts: Arc<ConversationFacts>,
    /// The version all of this was read at.
    pub version: Version,
    /// System and developer messages in force, in order.
    pub system: Arc<[Payload]>,
    /// What stands for the messages up to its end; absent if nothing was ever compacted away.
    pub base: Option<Arc<Base>>,
    /// Messages in order: those after the base, and if the conversation was read whole, those before it as well.
    pub messages: Vec<Arc<Message>>,
    /// Whether `messages` begins with the conversation's first.
    pub whole: bool,
    /// What the model server last counted of this view.
    pub counted: Option<Counted>,
    /// How often something was taken out of what was said; of what a branch is to begin with, never.
    pub rewrites: u32,
    /// Whether the last compaction was undone: the next one by itself waits until nothing else helps.
    pub held_back: bool,
    /// Whether nobody has said yet what it is called, so that a title may be made for it; of what a branch is to begin with, always.
    pub untitled: bool,
    /// The turns among them that have no answer.
    pub unanswered: HashMap<TurnId, Unanswered>,
    /// The turns among them that began anew at a later place, and the first attempt there. The model is not shown what
    /// earlier attempts of them said.
    pub begun_anew: HashMap<TurnId, u32>,
    /// Whether the conversation was ended.
    pub ended: bool,
}
