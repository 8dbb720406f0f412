//! Long-term memory in the store: facts, and what earlier conversations of a session key say about some words.

use std::sync::Arc;

use herma_model::{
    ConversationId, Memory, MemoryId, MemorySource, MessageId, Role, Seq, SessionKey, TenantId, Timestamp,
};

use crate::snapshot::Scope;

/// A fact to store.
#[derive(Debug, Clone)]
pub struct NewMemory {
    /// Its id.
    pub id: MemoryId,
    /// The tenant.
    pub tenant: TenantId,
    /// Whom it is about.
    pub session_key: SessionKey,
    /// What is remembered.
    pub text: Arc<str>,
    /// Where it comes from.
    pub source: MemorySource,
    /// The conversation it comes from. One that does not exist counts as none.
    pub conversation: Option<ConversationId>,
    /// The clock.
    pub now: Timestamp,
}

/// Which facts to list.
#[derive(Debug, Clone)]
pub struct MemoryFilter {
    /// Who asks. Facts about other session keys do not exist for the caller.
    pub scope: Scope,
    /// Only facts about this key.
    pub session_key: Option<SessionKey>,
    /// Only facts after this place of the list.
    pub after: Option<i64>,
    /// Most facts on the page.
    pub limit: usize,
}

/// A page of facts, newest first.
#[derive(Debug, Clone, Default)]
pub struct MemoryPage {
    /// The facts.
    pub memories: Vec<Memory>,
    /// Where the next page begins. `None` on the last page. A page with fewer facts than its limit may still not be the
    /// last one.
    pub next: Option<i64>,
}

/// The version of what is remembered about a session key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryVersion {
    /// Changes with its facts, and when something that was said may be recalled no more.
    pub version: i64,
    /// Grows when something was indexed that was said under any key.
    pub indexed: i64,
    /// Grows when the version of any key changes, and is the newest of these versions. So what has a higher version has
    /// changed later.
    pub changes: i64,
}

/// What a turn wants to remember.
#[derive(Debug, Clone)]
pub struct MemoryQuery {
    /// The tenant.
    pub tenant: TenantId,
    /// Whose memory is asked. Nothing about another key is found.
    pub session_key: SessionKey,
    /// The words that are looked for, folded. A text that has more of them, or rarer ones, is better. A word of a
    /// script without spaces is a pair of letters.
    pub words: Vec<String>,
    /// How many passages are wanted.
    pub passages: usize,
    /// How many facts are wanted.
    pub facts: usize,
    /// What the asking conversation still shows its model.
    pub shown: Shown,
    /// The version that the caller's admission has seen. An engine may then answer from memory with what it read at
    /// this version. While others read what was indexed since, it may leave that out. `None`: it reads the store.
    pub as_of: Option<MemoryVersion>,
}

/// The part of a conversation that its model is shown. Nothing of it is recalled.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The conversation.
    pub conversation: ConversationId,
    /// The last place that is not shown any more, if a compaction took something out of the view.
    pub hidden_through: Option<Seq>,
}

/// What the store knows about a [`MemoryQuery`].
#[derive(Debug, Clone, Default)]
pub struct Remembered {
    /// Facts that have some of the words, best first. After them the newest others.
    pub facts: Vec<Memory>,
    /// Messages that have some of the words, best first.
    pub passages: Vec<Passage>,
}

/// A message of an earlier conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage {
    /// The conversation.
    pub conversation: ConversationId,
    /// The message.
    pub message: MessageId,
    /// Whose words they are.
    pub role: Role,
    /// The whole text.
    pub text: Arc<str>,
    /// When it was said.
    pub created_at: Timestamp,
}
