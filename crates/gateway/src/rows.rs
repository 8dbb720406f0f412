//! Conversations of the store as the rows that every front door lists. Their JSON is in `wire`.

use herma_store::{ConversationRow, ErasureReceipt, Hit, LineageEdge, LineageNode, LineageSide, Removed};
use herma_tools::Status;
use herma_wire::conversations::ConversationObject;
use herma_wire::resource::{
    ErasureObject, GraphEdge, GraphNode, LineageGraph, Marks, SearchRow, SessionRow, ToolRow, metadata,
};

/// The receipt of an erasure.
pub fn erasure(receipt: &ErasureReceipt) -> ErasureObject<Removed> {
    let mut object = ErasureObject::new(receipt.id, receipt.removed);
    object.conversation_id = receipt.conversation;
    (object.left, object.kept, object.pending) = (receipt.left, receipt.kept, receipt.pending);
    object
}

/// A conversation or one of its sessions, as a row of its own.
pub fn session(row: &ConversationRow) -> SessionRow<'_> {
    SessionRow {
        conversation: &row.facts,
        session: &row.session,
        title: row.title.as_deref(),
        source: Some(&row.source),
        metadata: row.metadata.as_deref().and_then(metadata),
        cwd: row.editor.cwd.as_deref(),
        archived: row.archived,
        created_at: row.created_at,
        updated_at: row.updated_at,
        ended_at: row.ended.map(|(at, _)| at),
        end_reason: row.ended.map(|(_, reason)| reason),
        message_count: row.message_count,
        turn_count: row.turn_count,
        usage: row.usage,
        usage_tree: row.usage_tree,
        cost: row.cost,
        parent_tool_call_id: row.parent_tool_call_id.as_deref(),
    }
}

/// A conversation as OpenAI's API shows it.
pub fn conversation(row: &ConversationRow) -> ConversationObject<'_> {
    ConversationObject {
        conversation: &row.facts,
        created_at: row.created_at,
        metadata: row.metadata.as_deref(),
        title: row.title.as_deref(),
    }
}

/// A part of the graph around a conversation.
pub fn graph<'a>(nodes: &'a [LineageNode], edges: &'a [LineageEdge]) -> LineageGraph<'a> {
    let nodes = nodes.iter().map(|node| GraphNode { row: session(&node.row), side: side(node.side) }).collect();
    let edge = |edge: &'a LineageEdge| {
        let LineageEdge { from, to, relation, has_node } = edge;
        GraphEdge { from, to, relation: *relation, has_node: *has_node }
    };
    LineageGraph::new(nodes, edges.iter().map(edge).collect())
}

const fn side(side: LineageSide) -> &'static str {
    match side {
        LineageSide::Ancestor => "ancestor",
        LineageSide::Own => "own",
        LineageSide::Descendant => "descendant",
    }
}

/// A tool that Herma runs, or a server that shows none.
pub fn tool(row: &herma_tools::ToolRow) -> ToolRow<'_> {
    let tool = row.tool.as_deref();
    let (status, error) = match &row.status {
        Status::Ready => ("ready", None),
        Status::Starting => ("starting", None),
        Status::Failed(why) => ("failed", Some(why.as_str())),
        Status::Idle => ("idle", None),
    };
    ToolRow {
        name: tool.map(|tool| &*tool.name),
        server: &row.server,
        description: tool.map(|tool| &*tool.description),
        input_schema: tool.and_then(|tool| serde_json::from_str(&tool.input_schema).ok()),
        approval: tool.map(|tool| tool.approval.as_str()),
        status,
        error,
    }
}

/// A match of a search.
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
        rewound: hit.message.is_some_and(|message| message.rewound),
        created_at: hit.created_at,
    }
}
