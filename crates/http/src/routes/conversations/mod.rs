//! `/v1/conversations`: conversations as OpenAI's API shows them, by any of their names.

mod items;
mod resource;

use axum::response::Response;
use herma_store::ConversationRow;
use herma_wire::conversations::ConversationObject;

use crate::json::from_bytes;

pub(crate) use items::{add, list as list_items, remove, show as show_item};
pub(crate) use resource::{create, delete, list, show, update};

/// The name of this door in the store.
const ROUTE: &str = "conversations";

fn object(row: &ConversationRow) -> ConversationObject<'_> {
    ConversationObject {
        conversation: &row.facts,
        created_at: row.created_at,
        metadata: row.metadata.as_deref(),
        title: row.title.as_deref(),
    }
}

fn row_response(row: &ConversationRow) -> Response {
    from_bytes(object(row).to_json())
}
