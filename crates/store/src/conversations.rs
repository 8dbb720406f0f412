//! Conversations as things of their own: made, described, ended and deleted without a turn.

mod rewind;

use std::sync::Arc;

use herma_model::{Alias, ConversationId, InvalidDeclaration, MessageId, SessionKey, Timestamp, TurnId};

use crate::admission::Creation;
use crate::listing::ConversationRow;
use crate::snapshot::Scope;

pub use rewind::{Rewind, RewindOutcome, RewindPoint};

/// A conversation in which nothing was said yet. One whose kind is `branch` begins with what was said in its parent up to its end.
#[derive(Debug, Clone)]
pub struct NewConversation {
    /// Whose it is.
    pub scope: Scope,
    /// The name the client chose, which becomes the first session's id.
    pub alias: Option<Alias>,
    /// What to make.
    pub creation: Creation,
    /// Its session key. A branch has its source's.
    pub session_key: Option<SessionKey>,
    /// What people call it. Need not be unique.
    pub title: Option<String>,
    /// What the client attaches, as a JSON object. Opaque.
    pub metadata: Option<Arc<str>>,
    /// The clock.
    pub now: Timestamp,
}

/// What came of making a conversation. Only `Made` changed anything.
#[derive(Debug, Clone)]
pub enum CreateOutcome {
    /// It is there.
    Made(Box<ConversationRow>),
    /// The name leads somewhere already, perhaps where the caller cannot go.
    Exists,
    /// The name is of a form that only Herma gives.
    Reserved,
    /// The parent does not exist for the caller.
    NoParent,
    /// It cannot be what it says.
    Undeclarable(InvalidDeclaration),
    /// What it is a branch of has another session key.
    SessionKeyConflict,
}

/// Where a branch leaves its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BranchPoint {
    /// After the last answer, and after the summary if one was made since. What failed or still runs after it is not part of the branch.
    End,
    /// After the answer that this message belongs to: the message itself if it is one, else the first answer after it, so that a question is
    /// never left without an answer, nor a call without its results. Where a turn ended without words, say with a call of a client's own
    /// tool, that end counts as its answer.
    Message(MessageId),
}

/// A branch that begins without a turn. Its source never notices.
#[derive(Debug, Clone)]
pub struct NewBranch {
    /// Who asks.
    pub scope: Scope,
    /// Any name of the source.
    pub source: Alias,
    /// Where it is left.
    pub at: BranchPoint,
    /// The name the client chose for the branch, which becomes its first session's id.
    pub alias: Option<Alias>,
    /// What to make. Kind, creator and parent are a branch's own, whatever this says.
    pub creation: Creation,
    /// What people call it.
    pub title: Option<String>,
    /// What the client attaches, as a JSON object. Opaque.
    pub metadata: Option<Arc<str>>,
    /// The clock.
    pub now: Timestamp,
}

/// What came of branching. Only `Made` changed anything.
#[derive(Debug, Clone)]
pub enum BranchOutcome {
    /// It is there.
    Made(Box<ConversationRow>),
    /// The source does not exist for the caller.
    NotFound,
    /// Nothing of this id was said there. Summaries are not said.
    NoSuchMessage,
    /// No answer follows the message yet: its turn runs, or was the last and failed.
    Unanswered,
    /// The name leads somewhere already, perhaps where the caller cannot go.
    Exists,
    /// The name is of a form that only Herma gives.
    Reserved,
}

/// What is to be different about a conversation. What is absent stays as it is.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// What the client attaches from now on, as a JSON object. Opaque.
    pub metadata: Option<Arc<str>>,
    /// What people call it from now on; nothing if there is to be no title.
    pub title: Option<Option<String>>,
    /// Whether it is put away from now on.
    pub archived: Option<bool>,
}

/// A title that was made for a conversation that nobody gave one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MadeTitle {
    /// The beginning of what was said first. A search finds it there, and nowhere else.
    FirstWords(String),
    /// What a model calls it.
    Model(String),
}

/// What came of ending a conversation or opening it again. One that was so already is left as it is.
#[derive(Debug, Clone)]
pub enum EndOutcome {
    /// It is as it was asked to be.
    Done(Box<ConversationRow>),
    /// This turn runs or waits in it.
    Busy(TurnId),
    /// The name leads nowhere the caller can go.
    NotFound,
}

/// What becomes of the conversations that come from a deleted one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Children {
    /// They stay, and say where they came from.
    #[default]
    Keep,
    /// Branches, delegates and background children go too, with their own, as far as the caller can see them.
    Delete,
}

/// What came of deleting a conversation. Only `Deleted` changed anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteOutcome {
    /// It is gone.
    Deleted(ConversationId),
    /// This turn runs or waits in it, or in a child that was to go with it.
    Busy(TurnId),
    /// The name leads nowhere the caller can go.
    NotFound,
}
