//! Long-term memory: facts about a session key, and what a turn recalled.
//!
//! Memory belongs to a tenant and a session key, never to a transcript. Nothing here knows how a recall is made.

use std::sync::Arc;

use crate::ids::{ConversationId, MemoryId};
use crate::kind::stored_enum;
use crate::session_key::SessionKey;
use crate::time::Timestamp;

stored_enum!(
    /// Where a fact comes from.
    MemorySource {
        /// A model added it with the tool `memory`.
        Tool = "tool",
        /// A client or a person at the terminal added it.
        Api = "api",
        /// A compaction's summary lists it.
        Summary = "summary",
        /// A model that reads finished conversations found it.
        Model = "model",
    }
);

stored_enum!(
    /// How the recall of a turn ended.
    RecallStatus {
        /// Something was recalled. The model is shown it.
        Recalled = "recalled",
        /// Nothing matched.
        Nothing = "nothing",
        /// It took too long, so the turn went on without it.
        Late = "late",
        /// The provider failed, so the turn went on without it.
        Failed = "failed",
        /// Memory was off for the turn.
        Off = "off",
    }
);

/// A fact in long-term memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// Its id.
    pub id: MemoryId,
    /// Whom it is about.
    pub session_key: SessionKey,
    /// What is remembered.
    pub text: Arc<str>,
    /// Where it comes from.
    pub source: MemorySource,
    /// The conversation it comes from, if it comes from one that still exists.
    pub conversation: Option<ConversationId>,
    /// When it was added.
    pub created_at: Timestamp,
    /// When its text was last changed.
    pub updated_at: Timestamp,
}

/// What memory did for one turn. It is stored with the turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recall {
    /// How it ended.
    pub status: RecallStatus,
    /// Whether later recalls may find what the turn says.
    pub recorded: bool,
    /// The text that the model is shown before the newest user message.
    pub block: Option<Arc<str>>,
    /// The conversations that the block quotes.
    pub conversations: Vec<ConversationId>,
    /// The facts that the block quotes.
    pub memories: Vec<MemoryId>,
    /// Whether the block has what an outside provider concluded, without saying from which conversations.
    pub derived: bool,
    /// How many changes of any key's memory there had been when the turn began. What the block quotes has changed since
    /// if its own number is higher. 0 if it is not known.
    pub as_of: i64,
}

impl Recall {
    /// A recall without a block.
    pub const fn without_block(status: RecallStatus, recorded: bool) -> Self {
        Self {
            status,
            recorded,
            block: None,
            conversations: Vec::new(),
            memories: Vec::new(),
            derived: false,
            as_of: 0,
        }
    }
}
