//! Going back to an earlier place of a conversation, and taking that back.

use herma_model::{Alias, MessageId, Timestamp, TurnId};

use crate::listing::ConversationRow;
use crate::snapshot::Scope;

/// Where the model's view ends after a rewind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewindPoint {
    /// With this message.
    Message(MessageId),
    /// Before the last so many turns that the model is shown. Turns without an answer count.
    Turns(u32),
}

/// A conversation that is to go back.
#[derive(Debug, Clone)]
pub struct Rewind {
    /// Who asks.
    pub scope: Scope,
    /// A name of the conversation.
    pub alias: Alias,
    /// How far back.
    pub to: RewindPoint,
    /// The clock.
    pub now: Timestamp,
}

/// What came of a rewind, or of taking one back. Only `Done` changed anything.
#[derive(Debug, Clone)]
pub enum RewindOutcome {
    /// The model's view is as asked for. If it was so already, nothing has changed.
    Done(Box<ConversationRow>),
    /// Nothing of this id was said in the conversation. Summaries are not said.
    NoSuchMessage,
    /// The message was rewound before, and there was a turn since.
    AlreadyRewound,
    /// The model is shown only so many turns.
    TooFewTurns(u32),
    /// There was no rewind since the last turn.
    NothingToRestore,
    /// A turn is running.
    Busy(TurnId),
    /// The conversation was ended.
    Ended,
    /// The name leads nowhere the caller can go.
    NotFound,
}
