//! What conversations have used, each with everything below it.
//!
//! Each conversation stores its own sums. The sum of a tree is made when it is read, so that a turn writes nothing to
//! its ancestors. Only conversations that have children pay for it.

use std::collections::HashMap;
use std::ops::AddAssign;

use herma_model::{ConversationId, Cost, KeyScope, TenantId, Usage};
use herma_store::{MOST_DESCENDANTS, Spent};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::failure::{StoreResult, Translate};
use crate::rows;

/// Columns of [`Spending::read`], from `conversations c`.
pub(crate) const SPENDING: &str = "c.input_tokens, c.output_tokens, c.cached_tokens, c.reasoning_tokens, \
     c.side_input_tokens, c.side_output_tokens, c.cost";

/// How many columns [`SPENDING`] has.
pub(crate) const SPENDING_WIDTH: usize = 7;

/// A column that says whether conversation `c` has children.
pub(crate) const HAS_CHILDREN: &str = "EXISTS (SELECT 1 FROM conversations d WHERE d.parent_pk = c.pk)";

/// What one or several conversations have used, and what Herma itself has used for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Spending {
    pub(crate) usage: Usage,
    pub(crate) cost: Option<Cost>,
}

impl Spending {
    /// Reads [`SPENDING`] from a column on.
    pub(crate) fn read(row: &Row<'_>, from: usize) -> rusqlite::Result<Self> {
        let mut usage = rows::usage(row, from)?;
        usage += side_usage(row, from + 4)?;
        Ok(Self { usage, cost: cost(row, from + 6)? })
    }
}

impl AddAssign for Spending {
    fn add_assign(&mut self, other: Self) {
        self.usage += other.usage;
        self.cost = Cost::sum(self.cost, other.cost);
    }
}

/// Reads the tokens that Herma itself has used, from a column on.
pub(crate) fn side_usage(row: &Row<'_>, from: usize) -> rusqlite::Result<Usage> {
    Ok(Usage { input: rows::count(row, from)?, output: rows::count(row, from + 1)?, ..Usage::default() })
}

/// Reads a cost.
pub(crate) fn cost(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Cost>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Cost::from_micros))
}

/// Sums of trees, for rows that are read in one transaction.
pub(crate) struct Trees<'c> {
    connection: &'c Connection,
    /// Which conversations count. What is below one that does not count, does not count either.
    keys: &'c KeyScope,
    /// The sums that are known, by the topmost conversation. A page often shows several conversations of one tree.
    sums: HashMap<i64, Spending>,
}

impl<'c> Trees<'c> {
    pub(crate) fn of(connection: &'c Connection, keys: &'c KeyScope) -> Self {
        Self { connection, keys, sums: HashMap::new() }
    }

    /// What a conversation that has children has used, with everything below it.
    pub(crate) fn sum(&mut self, conversation: i64, own: Spending) -> StoreResult<Spending> {
        if let Some(known) = self.sums.get(&conversation) {
            return Ok(*known);
        }
        let Tree { mut nodes, is_whole } = Tree::read(self.connection, self.keys, conversation, own)?;
        // Parents come before their children, so each sum is complete before it is added to the one above.
        for at in (1..nodes.len()).rev() {
            let Node { parent, spending, .. } = nodes[at];
            nodes[parent].spending += spending;
        }
        // The sums of the lower ones are complete only if nothing was left out.
        let known = if is_whole { nodes.len() } else { 1 };
        self.sums.extend(nodes[..known].iter().map(|node| (node.key, node.spending)));
        Ok(nodes[0].spending)
    }
}

/// A conversation and its descendants, each after its parent.
struct Tree {
    nodes: Vec<Node>,
    /// Whether all descendants are there.
    is_whole: bool,
}

#[derive(Clone, Copy)]
struct Node {
    key: i64,
    /// The index of its parent.
    parent: usize,
    spending: Spending,
}

impl Tree {
    fn read(connection: &Connection, keys: &KeyScope, conversation: i64, own: Spending) -> StoreResult<Self> {
        let mut select = connection.prepare_cached(&children_sql()).translated()?;
        let mut nodes = vec![Node { key: conversation, parent: 0, spending: own }];
        let mut next = 0;
        while let Some(Node { key, .. }) = nodes.get(next).copied() {
            let mut children = select.query([key]).translated()?;
            while let Some(child) = children.next().translated()? {
                if nodes.len() > MOST_DESCENDANTS {
                    return Ok(Self { nodes, is_whole: false });
                }
                let session_key = rows::session_key(child, SPENDING_WIDTH + 1).translated()?;
                if !keys.sees(session_key.as_ref()) {
                    continue;
                }
                let key = child.get(0).translated()?;
                nodes.push(Node { key, parent: next, spending: Spending::read(child, 1).translated()? });
            }
            next += 1;
        }
        Ok(Self { nodes, is_whole: true })
    }
}

fn children_sql() -> String {
    format!("SELECT c.pk, {SPENDING}, c.session_key FROM conversations c WHERE c.parent_pk = ?1")
}

/// What a conversation and the whole tree around it have used, under any session key.
pub(crate) fn spent(connection: &Connection, tenant: TenantId, conversation: ConversationId) -> StoreResult<Spent> {
    let Some(key) = key_of(connection, tenant, conversation)? else { return Ok(Spent::default()) };
    let own = spending(connection, key)?;
    let top = topmost(connection, key)?;
    let all = Trees::of(connection, &KeyScope::All).sum(top, spending(connection, top)?)?;
    Ok(Spent { conversation: own.usage.total(), tree: all.usage.total().max(own.usage.total()) })
}

fn spending(connection: &Connection, conversation: i64) -> StoreResult<Spending> {
    connection
        .prepare_cached(&format!("SELECT {SPENDING} FROM conversations c WHERE c.pk = ?1"))
        .and_then(|mut select| select.query_row([conversation], |row| Spending::read(row, 0)))
        .translated()
}

/// The ancestor of a conversation that has no parent; the conversation itself if it has none.
fn topmost(connection: &Connection, conversation: i64) -> StoreResult<i64> {
    let mut select = connection.prepare_cached("SELECT parent_pk FROM conversations WHERE pk = ?1").translated()?;
    let mut top = conversation;
    for _ in 0..MOST_DESCENDANTS {
        let parent: Option<i64> = select.query_row([top], |row| row.get(0)).translated()?;
        let Some(parent) = parent else { break };
        top = parent;
    }
    Ok(top)
}

/// The key of a conversation that is not deleted.
pub(crate) fn key_of(
    connection: &Connection,
    tenant: TenantId,
    conversation: ConversationId,
) -> StoreResult<Option<i64>> {
    connection
        .prepare_cached("SELECT pk FROM conversations WHERE id = ?1 AND tenant_pk = ?2 AND deleted = 0")
        .and_then(|mut select| {
            select.query_row(params![conversation.uuid().as_bytes(), tenant.0], |row| row.get(0)).optional()
        })
        .translated()
}

/// Adds what Herma itself has used for a conversation.
pub(crate) fn add_side(
    connection: &Connection,
    tenant: TenantId,
    conversation: ConversationId,
    usage: Usage,
    cost: Option<Cost>,
) -> StoreResult<()> {
    connection
        .prepare_cached(
            "UPDATE conversations SET side_input_tokens = side_input_tokens + ?3,
             side_output_tokens = side_output_tokens + ?4, cost = coalesce(cost + ?5, ?5, cost)
             WHERE id = ?1 AND tenant_pk = ?2 AND deleted = 0",
        )
        .and_then(|mut update| {
            update.execute(params![
                conversation.uuid().as_bytes(),
                tenant.0,
                usage.input as i64,
                usage.output as i64,
                cost.map(Cost::micros)
            ])
        })
        .map(drop)
        .translated()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migrations;

    #[test]
    fn trees_are_read_along_indexes() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrations::run(&mut connection).unwrap();
        let has_children = format!("SELECT {HAS_CHILDREN} FROM conversations c WHERE c.pk = ?1");
        for sql in [children_sql(), has_children] {
            let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let steps: Vec<String> =
                explain.query_map([1], |row| row.get(3)).unwrap().collect::<Result<_, _>>().unwrap();
            assert!(steps.iter().all(|step| !step.contains("SCAN c") && !step.contains("SCAN d")), "{steps:?}");
            assert!(steps.iter().any(|step| step.contains("INDEX conversations_by_parent (parent_pk=?)")), "{steps:?}");
        }
    }
}
