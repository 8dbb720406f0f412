//! A turn as it is stored, for those who join it or ask for it later.

use std::sync::Arc;

use herma_model::generation::Finish;
use herma_model::{ConversationFacts, Message, Resolution, Timestamp, TurnFailure, TurnId, TurnState};

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
    /// When it was admitted or queued.
    pub started_at: Timestamp,
    /// How its answer ended, if it has one.
    pub finish: Option<Finish>,
    /// Why it has none.
    pub failure: Option<TurnFailure>,
    /// The messages it answered with.
    pub answer: Vec<Arc<Message>>,
}
