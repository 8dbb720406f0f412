//! Deleting a message, or a part of it.

use std::sync::Arc;

use herma_model::{Alias, Message, Timestamp, TurnId, Utterance};

use crate::snapshot::Scope;

/// A request to delete a message, or a part of it.
#[derive(Debug, Clone)]
pub struct Rewrite {
    /// Who asks.
    pub scope: Scope,
    /// A name of the conversation.
    pub alias: Alias,
    /// The message as the caller has read it. If it is different now, the outcome is `Stale`, because `said` was
    /// computed from the old text.
    pub seen: Arc<Message>,
    /// What is left of the message; `None` deletes it.
    pub said: Option<Utterance>,
    /// The clock.
    pub now: Timestamp,
}

/// The outcome of a rewrite. Only `Done` changed anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewriteOutcome {
    /// The message is as asked for.
    Done,
    /// The name leads nowhere for the caller, or the conversation has no such message.
    NotFound,
    /// The message has changed since the caller read it. Read it again.
    Stale,
    /// A turn is running.
    Busy(TurnId),
    /// A branch inherits the message, or this conversation inherits it from its source.
    Shared,
}
