//! What a reader sees of one conversation at one moment.

use std::collections::HashMap;
use std::sync::Arc;

use herma_model::{
    Base, CompactionId, ConversationFacts, ConversationId, Fence, KeyScope, Message, Payload, Principal, Seq, TenantId,
    TurnId, Unanswered,
};

pub use herma_model::tokens::Counted;

use crate::error::StoreError;

/// What a caller can reach: one tenant, and within it the session keys it may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Nothing crosses it.
    pub tenant: TenantId,
    /// Conversations with other keys do not exist for the caller.
    pub keys: KeyScope,
    /// The revision at which the conversation that an operation names has to be. Absent: any.
    pub expected: Option<ExpectedRevision>,
}

impl Scope {
    /// What a principal can reach.
    pub fn of(principal: &Principal) -> Self {
        Self { tenant: principal.tenant, keys: principal.session_keys.clone(), expected: None }
    }

    /// The same, for an operation that may only happen while its conversation is at an expected revision. Otherwise it
    /// fails with [`StoreError::VersionMismatch`] and changes nothing.
    #[must_use]
    pub fn expecting(self, expected: Option<ExpectedRevision>) -> Self {
        Self { expected, ..self }
    }

    /// [`StoreError::VersionMismatch`] unless a conversation is at the expected revision.
    pub fn check(&self, conversation: ConversationId, revision: Revision) -> Result<(), StoreError> {
        match &self.expected {
            Some(expected) if !expected.allows(conversation, revision) => Err(StoreError::VersionMismatch),
            _ => Ok(()),
        }
    }
}

/// Counts every change of a conversation that a turn could notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub i64);

/// What a client knows a conversation's version by: its `ETag`. Two revisions of a conversation are equal only if nothing
/// that a client can see was changed in between by a client or by a turn.
///
/// It counts turns by their fences, which are never given twice. So the revision after a turn is known when the turn
/// begins, and a turn that is taken back leaves the revision as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Revision {
    /// The fence of the last turn that ended.
    pub last_turn: Fence,
    /// How often anything but a turn changed the conversation.
    pub changes: i64,
    /// The turn that runs: its fence, and the place after the last message. So each step that it writes counts.
    pub running: Option<(Fence, Seq)>,
}

impl Revision {
    /// The revision when the turn with this fence has ended, if nothing else changes the conversation until then.
    pub const fn after_turn(fence: Fence, changes: i64) -> Self {
        Self { last_turn: fence, changes, running: None }
    }

    /// The tag that clients are given for this revision of a conversation. It begins with the last digits of the
    /// conversation's id, because a name that a client chose may lead to another conversation later.
    pub fn tag(self, conversation: ConversationId) -> String {
        let id = conversation.to_string();
        let (id, Fence(turn), changes) = (&id[id.len().saturating_sub(8)..], self.last_turn, self.changes);
        match self.running {
            Some((Fence(running), Seq(next))) => format!("{id}.{turn}.{changes}.{running}.{next}"),
            None => format!("{id}.{turn}.{changes}"),
        }
    }
}

/// The revisions at which a caller lets an operation happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpectedRevision {
    /// Every one, as long as the conversation exists.
    Any,
    /// Those with one of these tags.
    OneOf(Arc<[String]>),
}

impl ExpectedRevision {
    /// Whether the operation may happen at a revision.
    pub fn allows(&self, conversation: ConversationId, revision: Revision) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(expected) => expected.contains(&revision.tag(conversation)),
        }
    }
}

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
    /// Messages of the same part of the transcript that rewinds have taken out of the model's view. A client that does
    /// not know of a rewind still sends them.
    pub rewound: Vec<Arc<Message>>,
    /// Whether `messages` begins with the conversation's first.
    pub whole: bool,
    /// What the model server last counted of this view.
    pub counted: Option<Counted>,
    /// How often something was taken out of what was said; of what a branch is to begin with, never.
    pub rewrites: u32,
    /// Whether the last compaction was undone: the next one by itself waits until nothing else helps.
    pub auto_compaction_paused: bool,
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
