//! Finding the conversation of a client that names none: by its history, or by the chat of its front end.

use herma_model::{ChatId, ConversationId, Digest, HistoryEnd, SessionKey, SessionKind, TurnId};

/// Which conversations a search by history may find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryScope {
    /// The session key of the request. Only conversations with this key are found; without a key, only those without.
    pub session_key: Option<SessionKey>,
    /// The chat of the front end. If there is one, only conversations that came under it are found.
    pub chat: Option<ChatId>,
    /// The kind of the request. A person's request finds user-facing conversations; any other finds those of its kind.
    pub kind: SessionKind,
}

/// A place in a conversation up to which the client was shown a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundHistory {
    /// Which of the ends was found.
    pub end: usize,
    /// The conversation.
    pub conversation: ConversationId,
    /// The completed turn with which the history ends.
    pub turn: TurnId,
    /// Whether the conversation is a branch that inherits the turn, and has had none of its own.
    pub is_inherited: bool,
}

/// The turn that a search by history has to find. A caller that has the conversation in memory need not search before
/// it asks for the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedHistory {
    /// Which conversations the search may find.
    pub within: HistoryScope,
    /// The ends to look for.
    pub ends: HistoryEnds,
    /// The turn with which the history in memory ends.
    pub turn: TurnId,
}

/// What to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resembling {
    /// Conversations in which a turn ended with one of these messages.
    Answers(Vec<Digest>),
    /// All conversations of the scope's chat.
    Chat,
}

/// The ends of a history that may be known, the longest first.
pub type HistoryEnds = Vec<HistoryEnd>;

/// How many conversations [`crate::Store::find_resembling`] returns at most.
pub const MOST_RESEMBLING: usize = 4;
