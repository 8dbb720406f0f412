//! `/v1/conversations`: conversations as OpenAI's API shows them. Each can be addressed by any of its names.

mod items;
mod resource;

use axum::response::Response;
use herma_gateway::rows;
use herma_store::ConversationRow;

use crate::json::from_bytes;
use crate::revision::with_revision;

pub(crate) use items::{add, list as list_items, remove, show as show_item};
pub(crate) use resource::{create, delete, list, show, update};

/// The route name that is stored with each turn.
const ROUTE: &str = "conversations";

fn row_response(row: &ConversationRow) -> Response {
    with_revision(from_bytes(rows::conversation(row).to_json()), row)
}
