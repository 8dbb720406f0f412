//! A part of a graph of sessions, as `GET /api/sessions/{alias}/lineage` lists it.

use herma_model::{ParentRelation, SessionId};
use serde::Serialize;

use super::SessionRow;

/// A part of a graph.
#[derive(Debug, Serialize)]
pub struct LineageGraph<'a> {
    object: &'static str,
    nodes: Vec<GraphNode<'a>>,
    edges: Vec<GraphEdge<'a>>,
}

impl<'a> LineageGraph<'a> {
    /// Makes a graph of these nodes and edges.
    pub const fn new(nodes: Vec<GraphNode<'a>>, edges: Vec<GraphEdge<'a>>) -> Self {
        Self { object: "lineage", nodes, edges }
    }
}

/// A session's row, and its relation to the conversation.
#[derive(Debug, Serialize)]
pub struct GraphNode<'a> {
    /// The row.
    #[serde(flatten)]
    pub row: SessionRow<'a>,
    /// `ancestor`, `own` or `descendant`.
    pub side: &'static str,
}

/// How a session is related to its parent.
#[derive(Debug, Serialize)]
pub struct GraphEdge<'a> {
    /// The parent.
    pub from: &'a SessionId,
    /// The session.
    pub to: &'a SessionId,
    /// How they are related.
    pub relation: ParentRelation,
    /// Whether the parent is a node of the graph. If not, it was deleted or the caller may not see it.
    pub has_node: bool,
}
