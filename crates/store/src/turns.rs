//! A turn as it is stored, for those who join it or ask for it later.

use std::sync::Arc;

use herma_model::generation::Finish;
use herma_model::{CompactionId, ConversationFacts, Message, Resolution, Timestamp, TurnFailure, TurnId, TurnState};

/// All that is needed to show a turn again.
#[derive(Debug, Clone)]
pub struct TurnRecord {
    /// Its id.
    pub id: TurnId,
    /// Where it stands.
    pub state: TurnState,
    /// Its last attempt.
    pub attempt: u32,
    /// The conversation as it is now.
    pub facts: Arc<ConversationFacts>,
    /// How the name it was asked under led to its conversation.
    pub resolution: Resolution,
    /// Whether the head moved while it ran.
    pub rotated: bool,
    /// Which API style asked.
    pub api: Arc<str>,
    /// What the response repeats of its request, if the turn is one and it was not forgotten.
    pub echo: Option<Arc<str>>,
    /// Whether it can be fetched as a response.
    pub kept: bool,
    /// When it was admitted or queued.
    pub started_at: Timestamp,
    /// When it ended, if it has.
    pub ended_at: Option<Timestamp>,
    /// How its answer ended, if it has one.
    pub finish: Option<Finish>,
    /// Why it has none.
    pub failure: Option<TurnFailure>,
    /// The messages it brought.
    pub input: Vec<Arc<Message>>,
    /// The compactions that it made, in order.
    pub compactions: Vec<CompactionId>,
    /// The messages it answered with.
    pub answer: Vec<Arc<Message>>,
}
