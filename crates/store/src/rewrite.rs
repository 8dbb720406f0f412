//! Taking something out of what was said: all of a message, or part of it.

use std::sync::Arc;

use herma_model::{Alias, Message, Timestamp, TurnId, Utterance};

use crate::snapshot::Scope;

/// A message that is to say less, or nothing.
#[derive(Debug, Clone)]
pub struct Rewrite {
    /// Who asks.
    pub scope: Scope,
    /// A name of the conversation.
    pub alias: Alias,
    /// The message as the caller has read it. If it says something else by now, what is left of it was worked out wrongly.
    pub seen: Arc<Message>,
    /// What is left of it; nothing if it goes.
    pub said: Option<Utterance>,
    /// The clock.
    pub now: Timestamp,
}

/// What came of rewriting a message. Only `Done` changed anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewriteOutcome {
    /// It is as asked for.
    Done,
    /// The name leads nowhere the caller can go, or nothing of this id was said there.
    NotFound,
    /// It does not say any more what the caller has read; read it again.
    Stale,
    /// A turn is running.
    Busy(TurnId),
    /// A branch inherits it, or it is inherited.
    Shared,
}
