//! Writing what a turn did, while it runs and when it ends. Each write is stored as a whole or not at all.

use std::sync::Arc;

use herma_model::generation::Finish;
use herma_model::{
    Cost, Fence, HistoryEnd, Message, NewMessage, Payload, Recall, SessionId, TenantId, Timestamp, TurnFailure, TurnId,
    TurnState, Usage,
};

use crate::conversations::MadeTitle;
use crate::snapshot::{Revision, Version};

/// Proof of a lease. Only the engine that gave it can interpret it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The tenant of the conversation.
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
    /// The uninterrupted series of renewals in which the lease was given or last confirmed.
    pub renewal_series: u64,
    /// Whether it was given to a turn that had been parked. Only such a turn can have answered questions.
    pub resumed: bool,
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
    /// The tokens of the model call that said them, if the model server counted them.
    pub usage: Option<Usage>,
    /// What that model call cost, if its model has a price.
    pub cost: Option<Cost>,
    /// The pieces in which all messages of the turn so far were streamed, if clients may ask for them again. Opaque.
    /// Replaces the record written before; later records are appended to it.
    pub record: Option<String>,
    /// What memory did for the turn, if that is not written yet.
    pub recall: Option<Arc<Recall>>,
    /// The clock.
    pub now: Timestamp,
}

/// How a turn ends.
#[derive(Debug, Clone)]
pub enum TurnOutcome {
    /// With an answer.
    Completed {
        /// The last messages of the answer, in order. Messages that were appended before are not among them.
        messages: Vec<NewMessage>,
        /// How the model ended the answer. The usage is that of the last model call; appends have counted the others.
        finish: Finish,
    },
    /// Without an answer.
    Unanswered {
        /// `Failed`, `Cancelled` or `Interrupted`.
        state: TurnState,
        /// Why.
        failure: TurnFailure,
        /// The last messages, in order: results of tool calls that were cut off, and the partial answer that was
        /// streamed.
        messages: Vec<NewMessage>,
    },
}

/// The end of a turn under its lease. It is the turn's last append.
#[derive(Debug, Clone)]
pub struct Commit {
    /// The lease. The commit frees it.
    pub lease: Lease,
    /// The session the messages belong to.
    pub session: SessionId,
    /// How the turn ends.
    pub outcome: TurnOutcome,
    /// System and developer messages in force from this turn on, if it brought any.
    pub system: Option<Arc<[Payload]>>,
    /// The pieces in which the answer was streamed, if clients may ask for them again. Opaque.
    pub record: Option<String>,
    /// What the last model call cost, if its model has a price. Appends have counted the others.
    pub cost: Option<Cost>,
    /// The history that the client has seen when it has the answer. `None` if it is not known, or without an answer.
    pub history: Option<HistoryEnd>,
    /// A generated title, used if the conversation has none and no client has removed its title.
    pub title: Option<MadeTitle>,
    /// What memory did for the turn, if that is not written yet.
    pub recall: Option<Arc<Recall>>,
    /// The clock.
    pub now: Timestamp,
}

/// Streamed output of a running turn since the journal was last written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamedOutput {
    /// Text of the answer.
    pub text: String,
    /// The pieces in which it was streamed, and other events. Opaque; later records are appended to it.
    pub record: String,
}

impl StreamedOutput {
    /// Appends later output.
    pub fn add(&mut self, later: &Self) {
        self.text.push_str(&later.text);
        self.record.push_str(&later.record);
    }
}

/// What a turn has durably written.
#[derive(Debug, Clone)]
pub struct Committed {
    /// The version after the write.
    pub version: Version,
    /// The revision after the write.
    pub revision: Revision,
    /// The messages as stored.
    pub messages: Vec<Arc<Message>>,
}
