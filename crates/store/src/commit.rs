//! Ending a turn: everything it did becomes part of the transcript, or nothing does.

use std::sync::Arc;

use herma_model::generation::Finish;
use herma_model::{
    Fence, Message, NewMessage, Payload, SessionId, TenantId, Timestamp, TurnFailure, TurnId, TurnState,
};

use crate::conversations::MadeTitle;
use crate::snapshot::{Revision, Version};

/// Proof of a lease. Opaque but for the engine that gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// Whose conversation.
    pub tenant: TenantId,
    /// The engine's own key of the conversation.
    pub conversation: i64,
    /// The engine's own key of the turn.
    pub turn: i64,
    /// The number this lease was given.
    pub fence: Fence,
    /// The turn's id.
    pub id: TurnId,
    /// Which attempt of it.
    pub attempt: u32,
    /// The unbroken series of renewals in which it was given or last confirmed.
    pub renewal_series: u64,
}

/// Steps of a running turn, written before the turn goes on. The turn keeps its lease.
#[derive(Debug, Clone)]
pub struct Append {
    /// The lease.
    pub lease: Lease,
    /// The session the messages belong to.
    pub session: SessionId,
    /// The messages, in order.
    pub messages: Vec<NewMessage>,
    /// In what pieces all messages of the turn up to here were shown, if that may be asked for again. Opaque. It
    /// replaces what was written down before; what is written down later simply follows.
    pub record: Option<String>,
    /// The clock.
    pub now: Timestamp,
}

/// How a turn ends.
#[derive(Debug, Clone)]
pub enum TurnOutcome {
    /// With an answer.
    Completed {
        /// The last messages of the answer, in order: those that were not appended before.
        messages: Vec<NewMessage>,
        /// How the model ended it.
        finish: Finish,
    },
    /// Without one.
    Unanswered {
        /// `Failed`, `Cancelled` or `Interrupted`.
        state: TurnState,
        /// Why.
        failure: TurnFailure,
        /// What had been shown.
        partial: Option<NewMessage>,
    },
}

/// The end of a turn under its lease: its last append.
#[derive(Debug, Clone)]
pub struct Commit {
    /// The lease, which this ends.
    pub lease: Lease,
    /// The session the messages belong to.
    pub session: SessionId,
    /// How the turn ends.
    pub outcome: TurnOutcome,
    /// System and developer messages that hold from this turn on, if it brought any.
    pub system: Option<Arc<[Payload]>>,
    /// In what pieces the answer was shown, if that may be asked for again. Opaque.
    pub record: Option<String>,
    /// What the conversation is to be called from now on if it has no title and nobody has taken it away.
    pub title: Option<MadeTitle>,
    /// The clock.
    pub now: Timestamp,
}

/// What a running turn has shown since this was last written down.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamedOutput {
    /// Text of the answer.
    pub text: String,
    /// In what pieces, and what else. Opaque; what is written later is simply appended.
    pub record: String,
}

impl StreamedOutput {
    /// Adds what was written later.
    pub fn add(&mut self, later: &Self) {
        self.text.push_str(&later.text);
        self.record.push_str(&later.record);
    }
}

/// What a turn has written, durably.
#[derive(Debug, Clone)]
pub struct Committed {
    /// The version after it.
    pub version: Version,
    /// The revision after it.
    pub revision: Revision,
    /// The messages as stored.
    pub messages: Vec<Arc<Message>>,
}
