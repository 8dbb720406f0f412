//! What the store knows, as the JSON that clients see. The terminal prints the same rows.

use herma_model::ConversationId;
use herma_store::{ConversationRow, Hit, LineageEdge, LineageNode, LineageSide};
use herma_wire::resource::{Marks, SearchRow, SessionRow};
use serde::Serialize;
use serde_json::{Value, json};

/// A conversation or one of its sessions, as `GET /api/sessions` lists it.
pub fn session(row: &ConversationRow) -> SessionRow<'_> {
    SessionRow {
        conversation: &row.facts,
        session: &row.session,
        title: row.title.as_deref(),
        source: Some(&row.source),
        metadata: row.metadata.as_deref().and_then(|text| serde_json::from_str(text).ok()),
        archived: row.archived,
        created_at: row.created_at,
        updated_at: row.updated_at,
        ended_at: row.ended.map(|(at, _)| at),
        end_reason: row.ended.map(|(_, reason)| reason),
        message_count: row.message_count,
        turn_count: row.turn_count,
        usage: row.usage,
    }
}

/// The same as a value.
pub(crate) fn session_value(row: &ConversationRow) -> Value {
    serde_json::to_value(session(row)).unwrap_or_default()
}

/// A node of a graph: its session's row, and what it is to the conversation.
pub fn node(node: &LineageNode) -> Value {
    let mut row = session_value(&node.row);
    row["side"] = json!(match node.side {
        LineageSide::Ancestor => "ancestor",
        LineageSide::Own => "own",
        LineageSide::Descendant => "descendant",
    });
    row
}

/// An edge of a graph.
pub fn edge(edge: &LineageEdge) -> Value {
    json!({ "from": edge.from, "to": edge.to, "relation": edge.relation, "has_node": edge.has_node })
}

/// Something that was found, as `GET /api/search` lists it.
pub fn hit(hit: &Hit, marks: Marks) -> SearchRow<'_> {
    SearchRow {
        snippet: marks.write(hit.snippet.iter().map(|piece| (piece.text.as_str(), piece.found))),
        conversation: hit.conversation,
        session: &hit.session,
        kind: hit.kind,
        origin_kind: hit.origin_kind,
        title: hit.title.as_deref(),
        message: hit.message.map(|message| (message.id, message.role, message.status)),
        created_at: hit.created_at,
    }
}

/// That a conversation is gone.
#[derive(Debug, Serialize)]
pub struct Deleted {
    id: ConversationId,
    object: &'static str,
    deleted: bool,
}

impl Deleted {
    /// This one.
    pub const fn new(id: ConversationId) -> Self {
        Self { id, object: "session.deleted", deleted: true }
    }
}
