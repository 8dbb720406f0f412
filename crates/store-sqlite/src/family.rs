//! Walks the typed graph around a conversation: first up along its ancestors, then down, each session before its
//! children.
//!
//! A step is a look-up by key or the next entry of an index. So a page costs the same wherever it begins and however
//! large the graph is.

use herma_model::{Alias, KeyScope};
use herma_store::{
    LineageCursor, LineageEdge, LineageNode, LineageOutcome, LineagePage, LineagePlace, LineageRange, LineageSide,
    Scope,
};
use rusqlite::{CachedStatement, Connection, OptionalExtension};

use crate::failure::{StoreResult, Translate};
use crate::listing::{Conversations, OneSession};
use crate::parent;
use crate::rows;

/// A page of the graph around the conversation that a name leads to.
pub(crate) fn page(
    connection: &Connection,
    scope: &Scope,
    alias: &Alias,
    range: LineageRange,
) -> StoreResult<LineageOutcome> {
    let Some((state, _)) = parent::source(connection, scope, alias)? else { return Ok(LineageOutcome::NotFound) };
    let root = connection
        .query_row("SELECT root_pk FROM conversations WHERE pk = ?1", [state.key], |row| row.get(0))
        .translated()?;
    let mut graph = Graph::of(connection, &scope.keys, state.key, root)?;
    let mut last = match range.after {
        None => None,
        Some(after) if after.conversation == state.facts.id && graph.has(after.after)? => Some(after.after),
        Some(_) => return Ok(LineageOutcome::CursorGone),
    };
    let mut page = LineagePage { nodes: Vec::new(), edges: Vec::new(), next: None };
    loop {
        let next = match graph.following(last)? {
            NextNode::To(_) if page.nodes.len() == range.limit => {
                page.next = last.map(|after| LineageCursor { conversation: state.facts.id, after });
                break;
            }
            NextNode::To(next) => next,
            NextNode::End => break,
            NextNode::Lost => return Ok(LineageOutcome::CursorGone),
        };
        let (node, edge) = graph.node(next)?;
        page.nodes.push(node);
        page.edges.extend(edge);
        last = Some(next);
    }
    Ok(LineageOutcome::Page(page))
}

/// What comes after a node.
enum NextNode {
    To(LineagePlace),
    End,
    /// The node is no longer in this graph, because an ancestor of it was deleted.
    Lost,
}

struct Graph<'a> {
    keys: &'a KeyScope,
    conversation: i64,
    /// The conversation's first session.
    root: i64,
    parent: CachedStatement<'a>,
    session_key: CachedStatement<'a>,
    children: CachedStatement<'a>,
    session: CachedStatement<'a>,
    conversations: Conversations<'a>,
}

impl<'a> Graph<'a> {
    fn of(connection: &'a Connection, keys: &'a KeyScope, conversation: i64, root: i64) -> StoreResult<Self> {
        let prepared = |sql: &str| connection.prepare_cached(sql).translated();
        Ok(Self {
            keys,
            conversation,
            root,
            parent: prepared("SELECT parent_pk FROM sessions WHERE pk = ?1")?,
            session_key: prepared(
                "SELECT c.session_key FROM sessions s JOIN conversations c ON c.pk = s.conversation_pk AND c.deleted = 0
                 WHERE s.pk = ?1",
            )?,
            children: prepared(
                "SELECT s.pk, c.session_key FROM sessions s JOIN conversations c ON c.pk = s.conversation_pk
                 WHERE s.parent_pk = ?1 AND s.pk > ?2 ORDER BY s.pk",
            )?,
            session: prepared(OneSession::select())?,
            conversations: Conversations::of(connection, keys)?,
        })
    }

    /// Whether a place still exists for the caller.
    fn has(&mut self, place: LineagePlace) -> StoreResult<bool> {
        let (LineagePlace::Above(session) | LineagePlace::Below(session)) = place;
        self.sees(session)
    }

    /// The node after a place, or the first one.
    fn following(&mut self, place: Option<LineagePlace>) -> StoreResult<NextNode> {
        let below = match place {
            None => return self.above(self.root),
            Some(LineagePlace::Above(session)) => return self.above(session),
            Some(LineagePlace::Below(session)) => session,
        };
        if let Some(child) = self.child(below, 0)? {
            return Ok(NextNode::To(LineagePlace::Below(child)));
        }
        let mut session = below;
        while session != self.root {
            let Some(parent) = self.parent(session)? else { return Ok(NextNode::Lost) };
            if let Some(sibling) = self.child(parent, session)? {
                return Ok(NextNode::To(LineagePlace::Below(sibling)));
            }
            session = parent;
        }
        Ok(NextNode::End)
    }

    /// The ancestor above a session. After the last ancestor, the conversation's first session.
    fn above(&mut self, session: i64) -> StoreResult<NextNode> {
        let parent = self.parent(session)?;
        let is_seen = parent.map(|parent| self.sees(parent)).transpose()?.unwrap_or(false);
        let next = parent.filter(|_| is_seen).map_or(LineagePlace::Below(self.root), LineagePlace::Above);
        Ok(NextNode::To(next))
    }

    fn parent(&mut self, session: i64) -> StoreResult<Option<i64>> {
        self.parent.query_row([session], |row| row.get(0)).optional().map(Option::flatten).translated()
    }

    /// Whether a session exists for the caller.
    fn sees(&mut self, session: i64) -> StoreResult<bool> {
        let seen = self.session_key.query_row([session], |row| rows::sees(self.keys, row, 0)).optional();
        seen.map(|seen| seen.unwrap_or(false)).translated()
    }

    /// The next child of a session, after child `after`.
    fn child(&mut self, session: i64, after: i64) -> StoreResult<Option<i64>> {
        let mut children = self.children.query([session, after]).translated()?;
        while let Some(child) = children.next().translated()? {
            if rows::sees(self.keys, child, 1).translated()? {
                return child.get(0).map(Some).translated();
            }
        }
        Ok(None)
    }

    fn node(&mut self, place: LineagePlace) -> StoreResult<(LineageNode, Option<LineageEdge>)> {
        let (LineagePlace::Above(key) | LineagePlace::Below(key)) = place;
        let session = self.session.query_row([key], OneSession::read).translated()?;
        let side = match place {
            LineagePlace::Above(_) => LineageSide::Ancestor,
            LineagePlace::Below(_) if session.conversation == self.conversation => LineageSide::Own,
            LineagePlace::Below(_) => LineageSide::Descendant,
        };
        let has_node = session.parent.map(|parent| self.sees(parent)).transpose()?.unwrap_or(false);
        let edge = session.facts.parent.clone().map(|(from, relation)| LineageEdge {
            from,
            to: session.facts.id.clone(),
            relation,
            has_node,
        });
        let conversation = self.conversations.by_key(session.conversation)?;
        Ok((LineageNode { row: session.row(conversation), side }, edge))
    }
}
