//! A conversation as a reader sees it at one version.

use std::collections::HashMap;
use std::sync::Arc;

use herma_model::{
    Base, CompactionId, ConversationFacts, ConversationId, Fence, HistoryDigest, KeyScope, Message, Payload, Principal,
    Recall, Seq, TenantId, TurnId, Unanswered,
};

pub use herma_model::tokens::Counted;

use crate::error::StoreError;

/// What a caller can reach: one tenant, and in it the session keys that it may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// The tenant. Rows of other tenants cannot be reached.
    pub tenant: TenantId,
    /// The session keys. Conversations with other keys do not exist for the caller.
    pub keys: KeyScope,
    /// The revisions at which the named conversation may be for the operation. `None` allows all.
    pub expected: Option<ExpectedRevision>,
}

impl Scope {
    /// The scope of a principal.
    pub fn of(principal: &Principal) -> Self {
        Self { tenant: principal.tenant, keys: principal.session_keys.clone(), expected: None }
    }

    /// The same scope with an expected revision. At another revision the operation fails with
    /// [`StoreError::VersionMismatch`] and changes nothing.
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

/// The version of a conversation that clients see as its `ETag`. Two revisions of a conversation are equal only if no
/// client and no turn has made a visible change in between.
///
/// It counts turns by their fences, and no fence is given twice. So the revision after a turn is known when the turn
/// begins, and a retracted turn leaves the revision as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Revision {
    /// The fence of the last turn that ended.
    pub last_turn: Fence,
    /// How many changes were made by anything but a turn.
    pub changes: i64,
    /// The running turn: its fence, and the place after the last message. So each step of the turn changes the
    /// revision.
    pub running: Option<(Fence, Seq)>,
}

impl Revision {
    /// The revision after the turn with this fence has ended, if nothing else changes the conversation before that.
    pub const fn after_turn(fence: Fence, changes: i64) -> Self {
        Self { last_turn: fence, changes, running: None }
    }

    /// The tag that clients get for this revision. It begins with the last digits of the conversation's id, because a
    /// name that a client chose may lead to another conversation later.
    pub fn tag(self, conversation: ConversationId) -> String {
        let id = conversation.to_string();
        let (id, Fence(turn), changes) = (&id[id.len().saturating_sub(8)..], self.last_turn, self.changes);
        match self.running {
            Some((Fence(running), Seq(next))) => format!("{id}.{turn}.{changes}.{running}.{next}"),
            None => format!("{id}.{turn}.{changes}"),
        }
    }
}

/// The revisions at which a caller allows an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpectedRevision {
    /// Every revision, as long as the conversation exists.
    Any,
    /// Revisions with one of these tags.
    OneOf(Arc<[String]>),
}

impl ExpectedRevision {
    /// Whether the operation may happen at this revision.
    pub fn allows(&self, conversation: ConversationId, revision: Revision) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(expected) => expected.contains(&revision.tag(conversation)),
        }
    }
}

/// Which part of a conversation is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// What the model is shown at the head: the base and the messages after it.
    View,
    /// Every message up to the head.
    Whole,
    /// What the model was shown at the end of the session with exactly this name. For names that are not a session's
    /// id, the head.
    Session,
    /// What the model was shown at the end of this completed turn. A branch that begins there inherits this.
    At(TurnId),
    /// What the model was shown after the last answer. A branch at the end inherits this. Later turns that failed or
    /// are running are left out.
    Completed,
    /// What the model would be shown without this compaction, which is the head's base.
    Without(CompactionId),
}

/// A conversation at one version, read in one transaction.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Ids, kinds and lineage.
    pub facts: Arc<ConversationFacts>,
    /// The version at which all of this was read.
    pub version: Version,
    /// System and developer messages in force, in order.
    pub system: Arc<[Payload]>,
    /// The compaction base, which replaces the messages up to its end; `None` if there is none.
    pub base: Option<Arc<Base>>,
    /// Messages in order: those after the base. If the whole conversation was read, also those before it.
    pub messages: Vec<Arc<Message>>,
    /// Messages of the same part of the transcript that rewinds have removed from the model's view. A client that does
    /// not know of a rewind still sends them.
    pub rewound: Vec<Arc<Message>>,
    /// Whether `messages` begins with the conversation's first message.
    pub whole: bool,
    /// The token count that the model server last reported for this view.
    pub counted: Option<Counted>,
    /// How many rewrites the conversation has had; 0 if this was read for a new branch.
    pub rewrites: u32,
    /// True if the last compaction was undone. Auto-compaction is then paused until the context fits in no other way.
    pub auto_compaction_paused: bool,
    /// True if it has no title and no client has removed one, so that a title may be generated. Always true if this was
    /// read for a new branch.
    pub untitled: bool,
    /// The turns of these messages that have no answer.
    pub unanswered: HashMap<TurnId, Unanswered>,
    /// The turns of these messages that began anew at a later place, with the number of the first attempt there. The
    /// model is not shown what earlier attempts said.
    pub begun_anew: HashMap<TurnId, u32>,
    /// Whether the conversation was ended.
    pub ended: bool,
    /// The history that clients have seen at the end of this. `None` if it is not known.
    pub history: Option<HistoryDigest>,
    /// What memory did for the turn of the last message. `None` without a session key.
    pub recall: Option<Arc<Recall>>,
}
