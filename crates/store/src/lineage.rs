//! The typed graph around a conversation: its ancestors, its own sessions, and its descendants.

use std::fmt;

use herma_model::{ConversationId, ParentRelation, SessionId};

use crate::list::InvalidCursor;
use crate::listing::ConversationRow;

/// Which part of a graph to read. Ancestors come first, from the nearest to the first. Then come the conversation's
/// first session and its descendants: parents before children, siblings by age.
#[derive(Debug, Clone, Copy)]
pub struct LineageRange {
    /// Only nodes after this one.
    pub after: Option<LineageCursor>,
    /// The maximum number of nodes.
    pub limit: usize,
}

/// Where a page of a graph begins. Only the engine that gave it can interpret it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineageCursor {
    /// The conversation whose graph it is.
    pub conversation: ConversationId,
    /// The last node of the page before.
    pub after: LineagePlace,
}

/// A node of a graph, by the engine's own key of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineagePlace {
    /// An ancestor.
    Above(i64),
    /// A session of the conversation, or a descendant.
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
    /// Parses a cursor that a client sent. The store checks that it belongs to the graph.
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

/// The outcome of reading a graph.
#[derive(Debug, Clone)]
pub enum LineageOutcome {
    /// A page of it.
    Page(LineagePage),
    /// The name leads nowhere for the caller.
    NotFound,
    /// The cursor belongs to another graph, or its node is gone. Begin again.
    CursorGone,
}

/// A page of a graph.
#[derive(Debug, Clone)]
pub struct LineagePage {
    /// The sessions. No session is on two pages.
    pub nodes: Vec<LineageNode>,
    /// The edges to these nodes from their parents, in the same order.
    pub edges: Vec<LineageEdge>,
    /// Where the next page begins; `None` on the last page.
    pub next: Option<LineageCursor>,
}

/// A session of a graph.
#[derive(Debug, Clone)]
pub struct LineageNode {
    /// The session, with its own times and the counts of its conversation.
    pub row: ConversationRow,
    /// Its relation to the conversation whose graph it is.
    pub side: LineageSide,
}

/// The relation of a session to a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineageSide {
    /// The conversation descends from it.
    Ancestor,
    /// It belongs to the conversation.
    Own,
    /// It descends from the conversation.
    Descendant,
}

/// An edge of the graph, from a parent to a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineageEdge {
    /// The parent, by name.
    pub from: SessionId,
    /// The session.
    pub to: SessionId,
    /// The relation between them.
    pub relation: ParentRelation,
    /// Whether the parent is a node of the graph. If not, it was deleted or the caller may not see it. Another session
    /// may have its name now.
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
