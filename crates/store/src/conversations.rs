//! Making, describing, ending and deleting conversations without a turn.

mod rewind;

use std::sync::Arc;

use herma_model::{Alias, ConversationId, InvalidDeclaration, MessageId, SessionKey, Timestamp, ToolMode, TurnId};

use crate::admission::Creation;
use crate::listing::ConversationRow;
use crate::snapshot::Scope;

pub use rewind::{Rewind, RewindOutcome, RewindPoint};

/// A conversation without messages of its own. If its kind is `branch`, it inherits its parent's messages to the end.
#[derive(Debug, Clone)]
pub struct NewConversation {
    /// Whose it is.
    pub scope: Scope,
    /// The name the client chose, which becomes the first session's id.
    pub alias: Option<Alias>,
    /// What to make.
    pub creation: Creation,
    /// Its session key. A branch takes that of its source.
    pub session_key: Option<SessionKey>,
    /// Its title. Need not be unique.
    pub title: Option<String>,
    /// What the client attaches, as a JSON object. Opaque.
    pub metadata: Option<Arc<str>>,
    /// The directory that the person works in. If it is not given, that of the parent.
    pub cwd: Option<Arc<str>>,
    /// The clock.
    pub now: Timestamp,
}

/// The outcome of making a conversation. Only `Made` changed anything.
#[derive(Debug, Clone)]
pub enum CreateOutcome {
    /// It was made.
    Made(Box<ConversationRow>),
    /// The name is taken, possibly by a conversation that the caller cannot reach.
    Exists,
    /// Only Herma gives names of this form.
    Reserved,
    /// The parent does not exist for the caller.
    NoParent,
    /// The declared kind is not possible.
    Undeclarable(InvalidDeclaration),
    /// The source of the branch has another session key.
    SessionKeyConflict,
}

/// Where a branch begins in its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BranchPoint {
    /// After the last answer, or after a later summary. A later turn that failed or is running is not part of the
    /// branch.
    End,
    /// After the answer that this message belongs to: the message itself if it is an answer, else the first answer
    /// after it. So a question keeps its answer and a tool call its results. If a turn ended without text, for example
    /// with a call of a client's tool, its end counts as its answer.
    Message(MessageId),
}

/// A branch that begins without a turn. Its source is not changed.
#[derive(Debug, Clone)]
pub struct NewBranch {
    /// Who asks.
    pub scope: Scope,
    /// Any name of the source.
    pub source: Alias,
    /// Where the branch begins.
    pub at: BranchPoint,
    /// The name the client chose for the branch, which becomes its first session's id.
    pub alias: Option<Alias>,
    /// What to make. The store sets kind, creator and parent of a branch itself.
    pub creation: Creation,
    /// Its title.
    pub title: Option<String>,
    /// What the client attaches, as a JSON object. Opaque.
    pub metadata: Option<Arc<str>>,
    /// The directory that the person works in. If it is not given, that of the source.
    pub cwd: Option<Arc<str>>,
    /// The clock.
    pub now: Timestamp,
}

/// The outcome of branching. Only `Made` changed anything.
#[derive(Debug, Clone)]
pub enum BranchOutcome {
    /// It was made.
    Made(Box<ConversationRow>),
    /// The source does not exist for the caller.
    NotFound,
    /// The conversation has no such message. Summaries do not count.
    NoSuchMessage,
    /// No answer follows the message yet: its turn is running, or was the last one and failed.
    Unanswered,
    /// The name is taken, possibly by a conversation that the caller cannot reach.
    Exists,
    /// Only Herma gives names of this form.
    Reserved,
}

/// A change of a conversation's description. A field that is `None` stays as it is.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// The new metadata of the client, as a JSON object. Opaque.
    pub metadata: Option<Arc<str>>,
    /// The new title; `Some(None)` removes it.
    pub title: Option<Option<String>>,
    /// Whether it is archived.
    pub archived: Option<bool>,
    /// Which tool calls an editor's turns may make.
    pub tool_mode: Option<ToolMode>,
    /// The model that an editor's turns use; `Some(None)` for the default one.
    pub model: Option<Option<String>>,
    /// The session key, for a conversation that has none. Another one keeps its own.
    pub session_key: Option<SessionKey>,
}

/// A generated title, for a conversation that has no title from a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MadeTitle {
    /// An excerpt of the first message. A search finds the message, not the title.
    FirstWords(String),
    /// A title that a model wrote.
    Model(String),
}

/// The outcome of ending or reopening a conversation. If it had that state already, nothing has changed.
#[derive(Debug, Clone)]
pub enum EndOutcome {
    /// It has the state that was asked for.
    Done(Box<ConversationRow>),
    /// This turn is running or waiting in it.
    Busy(TurnId),
    /// The name leads nowhere for the caller.
    NotFound,
}

/// What to do with the children of a deleted conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Children {
    /// They stay, and keep the name of their parent.
    #[default]
    Keep,
    /// Branches, delegates and background children are deleted too, with their own children, if the caller can see
    /// them.
    Delete,
}

/// The outcome of deleting a conversation. Only `Deleted` changed anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteOutcome {
    /// It was deleted.
    Deleted(ConversationId),
    /// This turn is running or waiting in it, or in a child to be deleted with it.
    Busy(TurnId),
    /// The name leads nowhere for the caller.
    NotFound,
}
