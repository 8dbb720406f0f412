//! Importing conversations from another program.
//!
//! Sessions keep the ids that they had there. A second import recognises rows by their origin: the file, and their
//! numbers in it.

use std::sync::Arc;

use herma_model::compaction::Sizes;
use herma_model::provenance::CompactionMode;
use herma_model::{
    Alias, ConversationId, FinishReason, ParentRelation, SessionId, SessionKey, SessionKind, TenantId, Timestamp,
    Usage, Utterance,
};

/// Conversations that are imported together: all of them, or none.
#[derive(Debug, Clone)]
pub struct Import {
    /// The tenant that will own them.
    pub tenant: TenantId,
    /// The file they come from. Origins are unique in it.
    pub file: Arc<str>,
    /// The conversations.
    pub conversations: Vec<ImportedConversation>,
    /// The clock.
    pub now: Timestamp,
}

/// One conversation of the other program.
#[derive(Debug, Clone)]
pub struct ImportedConversation {
    /// Its id, if it is new here.
    pub id: ConversationId,
    /// The kind of its first session; the other sessions are continuations.
    pub kind: SessionKind,
    /// Where its first session comes from.
    pub parent: Option<(SessionId, ParentRelation)>,
    /// The front door it came through in that program.
    pub source: Arc<str>,
    /// Its session key.
    pub session_key: Option<SessionKey>,
    /// Its title.
    pub title: Option<String>,
    /// The working directory of the agent, if it had one.
    pub cwd: Option<String>,
    /// Further data about it, as a JSON object.
    pub metadata: Option<Arc<str>>,
    /// Whether it was archived.
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

/// One session of an imported conversation.
#[derive(Debug, Clone)]
pub struct ImportedSession {
    /// Its id in the file.
    pub origin: Arc<str>,
    /// Its id here, if it is new. The same as in the file, if that is a valid id.
    pub id: SessionId,
    /// When it began.
    pub created_at: Timestamp,
    /// When it was compacted into the next session. Not used for the head.
    pub ended_at: Timestamp,
    /// What happened in it, in order.
    pub entries: Vec<ImportedEntry>,
}

/// An entry of an imported session.
#[derive(Debug, Clone)]
pub enum ImportedEntry {
    /// A message.
    Said(ImportedMessage),
    /// A compaction.
    Compacted(ImportedCompaction),
}

/// An imported message.
#[derive(Debug, Clone)]
pub struct ImportedMessage {
    /// Its number in the file.
    pub origin: i64,
    /// The number of the first message of its turn. A turn's messages are contiguous, user messages before the answer.
    /// The answer lies in one session, with no compaction inside it.
    pub turn: i64,
    /// Its content.
    pub said: Utterance,
    /// How the answer ended, if the message is part of one.
    pub finish: FinishReason,
    /// When.
    pub created_at: Timestamp,
}

/// An imported compaction.
#[derive(Debug, Clone)]
pub struct ImportedCompaction {
    /// The number of its summary in the file.
    pub origin: i64,
    /// Whether it began a new session or compacted in place.
    pub mode: CompactionMode,
    /// The number of the last message that the summary covers; `None` if the file has none of them.
    pub through: Option<i64>,
    /// Numbers of earlier messages that were kept word for word, in order.
    pub carried: Vec<i64>,
    /// The summary.
    pub summary: Utterance,
    /// Estimated tokens of the context.
    pub sizes: Sizes,
    /// When.
    pub created_at: Timestamp,
}

/// The outcome of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportOutcome {
    /// One for each conversation, in the order of the import.
    pub arrivals: Vec<Arrival>,
}

/// The outcome for one conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// What was done with it.
    pub fate: Fate,
    /// Names that led to other conversations before, and still do.
    pub names_taken: Vec<Alias>,
}

/// What the import did with a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It is new.
    Made,
    /// It was known, and got this many new messages.
    Extended(u64),
    /// It was known, and was imported anew, because earlier messages had changed in the file.
    Replaced,
    /// It was known, and the file had nothing new.
    Unchanged,
    /// The store kept its own state of it.
    Left(Leaving),
}

/// Why an import left a conversation as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leaving {
    /// This id leads to a conversation that has another origin.
    Taken(SessionId),
    /// It was changed here.
    Touched,
    /// It would have to be imported anew, but a branch here inherits from it.
    Inherited,
    /// Sessions that were imported before are missing in the file, or belong to other conversations there now.
    Rearranged,
}
