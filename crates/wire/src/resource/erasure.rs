//! The receipt of an erasure as JSON.

use herma_model::{ConversationId, ErasureId};
use serde::Serialize;

/// What became of an erasure: numbers only.
#[derive(Debug, Serialize)]
pub struct ErasureObject<R> {
    object: &'static str,
    /// The id of the receipt.
    pub id: ErasureId,
    /// The conversation that was erased by its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<ConversationId>,
    /// How many rows of each kind were removed.
    pub removed: R,
    /// How many rows a second reading still found.
    pub left: u64,
    /// How many messages branches still inherit.
    pub kept: u64,
    /// How many places still have to lose the text.
    pub pending: u64,
}

impl<R> ErasureObject<R> {
    /// A receipt of which nothing is left, kept or pending.
    pub const fn new(id: ErasureId, removed: R) -> Self {
        Self { object: "erasure", id, conversation_id: None, removed, left: 0, kept: 0, pending: 0 }
    }
}
