//! The typed graph around a conversation: what it comes from, how it went on, and what came from it.

use std::fmt;

use herma_model::{ConversationId, ParentRelation, SessionId};

use crate::list::InvalidCursor;
use crate::listing::ConversationRow;

/// Which part of a graph to read. Nodes come in one order: from the nearest ancestor up to the first, then the conversation's first session and
/// all below it, every session before what came from it and siblings by age.
#[derive(Debug, Clone, Copy)]
pub struct LineageRange {
    /// Only after this node.
    pub after: Option<LineageCursor>,
    /// Most nodes.
    pub limit: usize,
}

/// Where a page of a graph begins. Opaque but for the engine that gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineageCursor {
    /// Whose graph it is.
    pub conversation: ConversationId,
    /// The last node.
    pub after: LineagePlace,
}

/// A node of a graph, by the engine's own key of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineagePlace {
    /// An ancestor.
    Above(i64),
    /// A session of the conversation, or below it.
    Below(i64),
}

impl fmt::Display for LineageCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.after {
            LineagePlace::Above(key) => write!(f, "{}.above.{key:x}", self.conversation),
            LineagePlace::Below(key) => write!(f, "{}.below.{key:x}", self.conversation),
        }
    }
}

impl LineageCursor {
    /// Reads what was written for a client. Whose graph it is for, the store checks.
    pub fn parse(text: &str) -> Result<Self, InvalidCursor> {
        let parts: Vec<&str> = text.split('.').collect();
        let [conversation, place, key] = parts[..] else { return Err(InvalidCursor::Malformed) };
        let key = i64::from_str_radix(key, 16).map_err(|_| InvalidCursor::Malformed)?;
        let after = match place {
            "above" => LineagePlace::Above(key),
            "below" => LineagePlace::Below(key),
            _ => return Err(InvalidCursor::Malformed),
        };
        let conversation = conversation.parse().map_err(|_| InvalidCursor::Malformed)?;
        Ok(Self { conversation, after })
    }
}

/// What came of asking for a graph.
#[derive(Debug, Clone)]
pub enum LineageOutcome {
    /// A part of it.
    Page(LineagePage),
    /// The name leads nowhere the caller can go.
    NotFound,
    /// The cursor is of another graph, or its node is there no more: begin again.
    CursorGone,
}

/// A part of a graph.
#[derive(Debug, Clone)]
pub struct LineagePage {
    /// Sessions, every one on one page only.
    pub nodes: Vec<LineageNode>,
    /// How each of them came from its parent, in their order.
    pub edges: Vec<LineageEdge>,
    /// Where the next page begins; absent on the last one.
    pub next: Option<LineageCursor>,
}

/// A session of a graph.
#[derive(Debug, Clone)]
pub struct LineageNode {
    /// The session, with its own times and its conversation's counts.
    pub row: ConversationRow,
    /// What it is to the conversation whose graph it is.
    pub side: LineageSide,
}

/// What a session is to a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineageSide {
    /// The conversation comes from it.
    Ancestor,
    /// It is one of the conversation's.
    Own,
    /// It comes from the conversation.
    Descendant,
}

/// How a session came from its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineageEdge {
    /// The parent, by name.
    pub from: SessionId,
    /// The session.
    pub to: SessionId,
    /// What they are to each other.
    pub relation: ParentRelation,
    /// Whether the parent is a node of the graph. If not it was deleted, or the caller may not see it, and another session may have its name.
    pub has_node: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn a_cursor_reads_back() {
        let conversation = ConversationId::from_uuid(Uuid::from_u128(7));
        for after in [LineagePlace::Above(12), LineagePlace::Below(1_000_000)] {
            let cursor = LineageCursor { conversation, after };
            assert_eq!(LineageCursor::parse(&cursor.to_string()), Ok(cursor));
        }
        for text in ["", "1.2", "conv_1.below.1", "conv_00000000000000000000000000000007.beside.1"] {
            assert_eq!(LineageCursor::parse(text), Err(InvalidCursor::Malformed), "{text}");
        }
    }
}
