//! The `session` object, which every answer of the agent endpoints has.

use herma_model::{ConversationId, Provenance, Resolution, SessionId};
use serde::Serialize;

/// The state of a turn's conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionObject {
    /// Never changes while the conversation exists.
    pub conversation_id: ConversationId,
    /// The head after the turn.
    pub session_id: SessionId,
    /// The name that the client sent. Absent if it sent none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_id: Option<String>,
    /// How that name led to this session.
    pub resolution: Resolution,
    /// Whether the head moved during this turn.
    pub rotated: bool,
    /// What the session is and where it comes from.
    pub provenance: Provenance,
}
