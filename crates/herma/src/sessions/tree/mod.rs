//! `herma sessions tree`: draws the ancestors and descendants of a conversation.

mod line;

use std::collections::HashMap;

use herma_gateway::{GatewayError, Sessions, now, rows};
use herma_model::limits::MAX_PAGE;
use herma_model::{Alias, ParentRelation, SessionId};
use herma_store::{ConversationRow, LineageEdge, LineageNode, LineageRange, LineageSide};

use self::line::TreeLine;
use super::id_prefix::short_id;
use crate::arguments::SessionName;
use crate::terminal::Stream;
use crate::{excerpt, output, table};

/// The most characters of a title. A terminal may be narrower.
const TITLE: usize = 40;

/// The whole graph around a conversation.
struct Graph {
    nodes: Vec<LineageNode>,
    edges: Vec<LineageEdge>,
}

/// Prints the graph around a conversation.
pub(super) async fn print(sessions: &Sessions<'_>, alias: &Alias, session: &SessionName) -> anyhow::Result<()> {
    let graph = read(sessions, alias).await?;
    if session.shared.json {
        output::answer(&serde_json::to_string(&rows::graph(&graph.nodes, &graph.edges))?)?;
    } else {
        let (width, has_colours) = (Stream::Stdout.width(), Stream::Stdout.has_colours());
        let lines = draw(&graph, alias).into_iter().map(|line| line.fitted(width, has_colours));
        output::answer(&lines.collect::<Vec<_>>().join("\n"))?;
    }
    Ok(())
}

async fn read(sessions: &Sessions<'_>, alias: &Alias) -> Result<Graph, GatewayError> {
    let mut graph = Graph { nodes: Vec::new(), edges: Vec::new() };
    let mut after = None;
    loop {
        let page = sessions.lineage(alias, LineageRange { after, limit: MAX_PAGE }).await?;
        graph.nodes.extend(page.nodes);
        graph.edges.extend(page.edges);
        after = page.next;
        if after.is_none() {
            return Ok(graph);
        }
    }
}

/// Draws the graph with box characters. Continuations stand below the first session of their conversation, all at the
/// same depth. So a conversation with many of them is a list and not a staircase.
fn draw(graph: &Graph, named: &Alias) -> Vec<TreeLine> {
    let named = named_session(graph, named);
    let edges: HashMap<&SessionId, &LineageEdge> = graph.edges.iter().map(|edge| (&edge.to, edge)).collect();
    let above = graph.nodes.iter().filter(|node| node.side == LineageSide::Ancestor).rev();
    let downwards = above.chain(graph.nodes.iter().filter(|node| node.side != LineageSide::Ancestor));
    let mut firsts: HashMap<&SessionId, &SessionId> = HashMap::new();
    let mut hanging: HashMap<&SessionId, Vec<&LineageNode>> = HashMap::new();
    let mut rest = Vec::new();
    for node in downwards {
        let id = &node.row.session.id;
        let parent = edges.get(id).filter(|edge| edge.has_node).map(|edge| (&edge.from, edge.relation));
        let first = match parent {
            Some((from, ParentRelation::Continuation)) => firsts.get(from).copied().unwrap_or(from),
            _ => id,
        };
        firsts.insert(id, first);
        match parent {
            Some((_, ParentRelation::Continuation)) => hanging.entry(first).or_default().push(node),
            Some((from, _)) => hanging.entry(from).or_default().push(node),
            None => rest.push((node, String::new(), origin(edges.get(id).copied()), String::new())),
        }
    }
    rest.reverse();
    let mut lines = Vec::new();
    while let Some((node, branches, relation, below)) = rest.pop() {
        let id = &node.row.session.id;
        lines.push(TreeLine { branches, relation, is_named: Some(id) == named, ..of_session(&node.row) });
        let mut corners = ("└─", "   ");
        for child in hanging.remove(id).unwrap_or_default().into_iter().rev() {
            let relation = edges.get(&child.row.session.id).map(|edge| format!("{}: ", edge.relation.as_str()));
            let (branches, further) = (format!("{below}{} ", corners.0), format!("{below}{}", corners.1));
            rest.push((child, branches, relation.unwrap_or_default(), further));
            corners = ("├─", "│  ");
        }
    }
    lines
}

/// The session with exactly this name, else the head of the conversation.
fn named_session<'a>(graph: &'a Graph, named: &Alias) -> Option<&'a SessionId> {
    let own = || graph.nodes.iter().filter(|node| node.side == LineageSide::Own);
    let exact = own().map(|node| &node.row.session.id).find(|id| id.as_str() == named.as_str());
    exact.or_else(|| own().next().map(|node| &node.row.facts.head.id))
}

/// Describes a parent that is not in the graph.
fn origin(edge: Option<&LineageEdge>) -> String {
    let told = |edge: &LineageEdge| format!("({} of {}, which is gone) ", edge.relation.as_str(), edge.from);
    edge.map(told).unwrap_or_default()
}

/// A session: what people call it, what it is, and what became of it. A continuation has only its id and its age.
fn of_session(row: &ConversationRow) -> TreeLine {
    let line = TreeLine {
        age: age(row),
        is_live: row.session.id == row.facts.head.id,
        name: row.session.id.to_string(),
        ..TreeLine::default()
    };
    if row.session.id != row.facts.root {
        return line;
    }
    let messages = if row.message_count == 1 { "message" } else { "messages" };
    TreeLine {
        name: row.facts.name().map_or_else(|| short_id(row.facts.id), output::printable),
        kind: Some(row.session.kind.as_str()),
        title: row.title.as_deref().map(|title| excerpt::line(title, TITLE)),
        messages: Some(format!("{} {messages}", row.message_count)),
        tokens: Some(row.usage.total()).filter(|tokens| *tokens > 0).map(|tokens| format!("{tokens} tokens")),
        is_running: row.running,
        ..line
    }
}

fn age(row: &ConversationRow) -> String {
    match table::age(row.created_at, now()).as_str() {
        "now" => "now".to_owned(),
        age if age.contains('-') => age.to_owned(),
        age => format!("{age} ago"),
    }
}
