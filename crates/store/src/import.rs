//! Bringing in conversations that were held with another program.
//!
//! They come whole, session by session, with the ids they had there. What is brought again is recognised by its origin: the file, and
//! the numbers that rows have in it.

use std::sync::Arc;

use herma_model::compaction::Sizes;
use herma_model::provenance::CompactionMode;
use herma_model::{
    Alias, ConversationId, FinishReason, ParentRelation, SessionId, SessionKey, SessionKind, TenantId, Timestamp,
    Usage, Utterance,
};

/// Conversations that are brought in together: all of them, or none.
#[derive(Debug, Clone)]
pub struct Import {
    /// Whose they become.
    pub tenant: TenantId,
    /// The file they come from. Origins are unique in it.
    pub file: Arc<str>,
    /// The conversations.
    pub conversations: Vec<ImportedConversation>,
    /// The clock.
    pub now: Timestamp,
}

/// One conversation as it was held elsewhere.
#[derive(Debug, Clone)]
pub struct ImportedConversation {
    /// Its handle, if it is new here.
    pub id: ConversationId,
    /// What its first session is; the others are continuations.
    pub kind: SessionKind,
    /// Where its first session comes from.
    pub parent: Option<(SessionId, ParentRelation)>,
    /// Which door it came through there.
    pub source: Arc<str>,
    /// Its session key.
    pub session_key: Option<SessionKey>,
    /// Its title.
    pub title: Option<String>,
    /// Where it was held, of an agent that works in directories.
    pub cwd: Option<String>,
    /// What else is known of it, as a JSON object.
    pub metadata: Option<Arc<str>>,
    /// Whether it was put away.
    pub archived: bool,
    /// The model that answered.
    pub model: Option<String>,
    /// Tokens of all its turns.
    pub usage: Usage,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Its sessions from the first to the head. There is at least one.
    pub sessions: Vec<ImportedSession>,
    /// Further names that lead to it.
    pub names: Vec<Alias>,
}

/// One session of such a conversation.
#[derive(Debug, Clone)]
pub struct ImportedSession {
    /// Its id in the file.
    pub origin: Arc<str>,
    /// Its id here, if it is new: the same, if it can be one.
    pub id: SessionId,
    /// When it began.
    pub created_at: Timestamp,
    /// When it was compacted into the next one; of the head, without meaning.
    pub ended_at: Timestamp,
    /// What happened in it, in order.
    pub entries: Vec<ImportedEntry>,
}

/// Something that happened in such a session.
#[derive(Debug, Clone)]
pub enum ImportedEntry {
    /// Something was said.
    Said(ImportedMessage),
    /// It was compacted.
    Compacted(ImportedCompaction),
}

/// A message that was said elsewhere.
#[derive(Debug, Clone)]
pub struct ImportedMessage {
    /// Its number in the file.
    pub origin: i64,
    /// The number of the first message of its turn. A turn's messages follow each other, what a user said before what was answered, and
    /// its answer lies in one session without a compaction in it.
    pub turn: i64,
    /// What was said.
    pub said: Utterance,
    /// Of an answer, how it ended.
    pub finish: FinishReason,
    /// When.
    pub created_at: Timestamp,
}

/// A compaction that was made elsewhere.
#[derive(Debug, Clone)]
pub struct ImportedCompaction {
    /// The number of its summary in the file.
    pub origin: i64,
    /// Whether the session began with it.
    pub mode: CompactionMode,
    /// The number of the last message that the summary stands for; absent if none of them is there.
    pub through: Option<i64>,
    /// Messages up to there that were kept word for word, in order.
    pub carried: Vec<i64>,
    /// The summary.
    pub summary: Utterance,
    /// Estimated tokens of the context.
    pub sizes: Sizes,
    /// When.
    pub created_at: Timestamp,
}

/// What came of bringing conversations in, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportOutcome {
    /// One for each.
    pub arrivals: Vec<Arrival>,
}

/// What came of one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// What was done with it.
    pub fate: Fate,
    /// Names that lead somewhere else already, and still do.
    pub names_taken: Vec<Alias>,
}

/// What was done with a conversation that was brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It is new.
    Made,
    /// It was there, and got what had been said since: so many messages.
    Extended(u64),
    /// It was there, and was brought anew, because something in it had been taken back since.
    Replaced,
    /// It was there as it is.
    Unchanged,
    /// It was left as it is here.
    Left(Leaving),
}

/// Why a conversation that was brought was left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leaving {
    /// This id leads to a conversation that did not come from the same place.
    Taken(SessionId),
    /// Something has happened to it here.
    Touched,
    /// What was taken back there is inherited by a branch here.
    Inherited,
    /// Sessions that were brought before are missing, or belong to others now.
    Rearranged,
}
