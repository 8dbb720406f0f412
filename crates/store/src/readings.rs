//! Finished conversations that a model reads for facts.

use std::sync::Arc;
use std::time::Duration;

use herma_model::{ConversationId, Memory, MemoryId, Role, SessionKey, TenantId};

/// How long nothing was said in a conversation that counts as finished. One that was ended is finished at once.
pub const QUIET: Duration = Duration::from_secs(10 * 60);
/// How long a process has for a reading. After that another one may read the same.
pub const READING_TIME: Duration = Duration::from_secs(5 * 60);
/// Most characters of one reading. The rest of a longer conversation is read next.
pub const MOST_READ: usize = 24_000;

/// Proof that a process may read a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadingClaim {
    /// The engine's key of the conversation.
    pub conversation: i64,
    /// Which process.
    pub number: i64,
    /// The last place that it reads.
    pub through: i64,
    /// The last turn that it reads. `None` if there is more to read after this.
    pub last_turn: Option<i64>,
}

/// A part of a finished conversation that is to be read.
#[derive(Debug, Clone)]
pub struct Reading {
    /// The right to read it.
    pub claim: ReadingClaim,
    /// The tenant.
    pub tenant: TenantId,
    /// Whom facts are about.
    pub session_key: SessionKey,
    /// The conversation.
    pub conversation: ConversationId,
    /// What was said, without turns that are not recorded, in order.
    pub said: Vec<(Role, String)>,
    /// The newest facts about the key.
    pub known: Vec<Memory>,
    /// How often reading it has failed.
    pub failures: u32,
}

/// How a reading ended.
#[derive(Debug, Clone)]
pub enum ReadingEnd {
    /// It was read, and these are new facts.
    Read(Vec<(MemoryId, Arc<str>)>),
    /// It is to be read again after this time.
    Later(Duration),
}
