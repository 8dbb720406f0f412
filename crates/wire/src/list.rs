//! A page of rows.

use herma_model::ConversationId;
use serde::Serialize;

/// One page of a list, and how to get the next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Page<T> {
    object: &'static str,
    data: Vec<T>,
    has_more: bool,
    next_cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<ConversationId>,
}

impl<T> Page<T> {
    /// Makes a page. Without a cursor it is the last one.
    pub fn new(data: Vec<T>, next_cursor: Option<String>) -> Self {
        Self {
            object: "list",
            data,
            has_more: next_cursor.is_some(),
            next_cursor,
            limit: None,
            offset: None,
            current: None,
        }
    }

    /// Adds `limit` and `offset`, which Hermes' clients expect.
    pub fn counted(self, limit: usize, offset: usize) -> Self {
        Self { limit: Some(limit), offset: Some(offset), ..self }
    }

    /// Adds the conversation of a session key that was used last.
    pub fn with_current(self, current: Option<ConversationId>) -> Self {
        Self { current, ..self }
    }
}
