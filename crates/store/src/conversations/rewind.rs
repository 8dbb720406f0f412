//! Rewinding a conversation to an earlier place, and undoing that.

use herma_model::{Alias, MessageId, Timestamp, TurnId};

use crate::listing::ConversationRow;
use crate::snapshot::Scope;

/// Where the model's view ends after a rewind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewindPoint {
    /// After this message.
    Message(MessageId),
    /// Before the last N turns that the model is shown. Turns without an answer count.
    Turns(u32),
}

/// A request to rewind a conversation.
#[derive(Debug, Clone)]
pub struct Rewind {
    /// Who asks.
    pub scope: Scope,
    /// A name of the conversation.
    pub alias: Alias,
    /// Where the model's view ends.
    pub to: RewindPoint,
    /// The clock.
    pub now: Timestamp,
}

/// The outcome of a rewind, or of undoing one. Only `Done` changed anything.
#[derive(Debug, Clone)]
pub enum RewindOutcome {
    /// The model's view is as asked for. If it was so before, nothing has changed.
    Done(Box<ConversationRow>),
    /// The conversation has no such message. Summaries do not count.
    NoSuchMessage,
    /// The message was rewound before, and a turn has run since.
    AlreadyRewound,
    /// The model is shown only this many turns.
    TooFewTurns(u32),
    /// No rewind was made since the last turn.
    NothingToRestore,
    /// A turn is running.
    Busy(TurnId),
    /// The conversation was ended.
    Ended,
    /// The name leads nowhere for the caller.
    NotFound,
}
