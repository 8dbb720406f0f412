//! The `session` object: where a turn's conversation stands, on every answer of the agent endpoints.

use herma_model::{ConversationId, Provenance, Resolution, SessionId};
use serde::Serialize;

/// Where a turn's conversation stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionObject {
    /// Stable handle.
    pub conversation_id: ConversationId,
    /// The head after the turn.
    pub session_id: SessionId,
    /// What the client asked for; absent when it named nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_id: Option<String>,
    /// How that led here.
    pub resolution: Resolution,
    /// Whether the head moved during this turn.
    pub rotated: bool,
    /// What the session is and where it comes from.
    pub provenance: Provenance,
}
