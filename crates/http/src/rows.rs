//! What the store knows, as the JSON that clients see. The terminal prints the same rows.

use herma_model::{ConversationId, ParentRelation, SessionId};
use herma_store::{ConversationRow, Hit, LineageEdge, LineageNode, LineageSide};
use herma_wire::resource::{Marks, SearchRow, SessionRow};
use serde::Serialize;

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

/// A part of a graph, as `GET /api/sessions/{alias}/lineage` lists it.
#[derive(Debug, Serialize)]
pub struct Graph<'a> {
    object: &'static str,
    nodes: Vec<Node<'a>>,
    edges: Vec<Edge<'a>>,
}

impl<'a> Graph<'a> {
    /// These nodes and edges.
    pub fn of(nodes: &'a [LineageNode], edges: &'a [LineageEdge]) -> Self {
        let nodes = nodes.iter().map(|node| Node { row: session(&node.row), side: side(node.side) }).collect();
        let edge = |edge: &'a LineageEdge| {
            let LineageEdge { from, to, relation, has_node } = edge;
            Edge { from, to, relation: *relation, has_node: *has_node }
        };
        Self { object: "lineage", nodes, edges: edges.iter().map(edge).collect() }
    }
}

/// Its session's row, and what it is to the conversation.
#[derive(Debug, Serialize)]
struct Node<'a> {
    #[serde(flatten)]
    row: SessionRow<'a>,
    side: &'static str,
}

const fn side(side: LineageSide) -> &'static str {
    match side {
        LineageSide::Ancestor => "ancestor",
        LineageSide::Own => "own",
        LineageSide::Descendant => "descendant",
    }
}

#[derive(Debug, Serialize)]
struct Edge<'a> {
    from: &'a SessionId,
    to: &'a SessionId,
    relation: ParentRelation,
    has_node: bool,
}

/// Something that was found, as `GET /api/search` lists it.
pub fn hit(hit: &Hit, marks: Marks) -> SearchRow<'_> {
    SearchRow {
        snippet: marks.write(hit.snippet.iter().map(|piece| (piece.text.as_str(), piece.found))),
        conversation: hit.conversation,
        session: &hit.session,
        name: hit.root.chosen(),
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
