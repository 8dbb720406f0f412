//! `herma sessions tree`: draws the ancestors and descendants of a conversation.

use std::collections::HashMap;

use herma_gateway::{GatewayError, Sessions, now, rows};
use herma_model::limits::MAX_PAGE;
use herma_model::{Alias, CreatorKind, ParentRelation, SessionId};
use herma_store::{ConversationRow, LineageEdge, LineageNode, LineageRange, LineageSide};

use crate::arguments::SessionName;
use crate::{excerpt, output, table};

/// The most characters of a title.
const TITLE: usize = 40;
const MARK: &str = "  ◀";

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
        output::answer(&draw(&graph, alias))?;
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
fn draw(graph: &Graph, named: &Alias) -> String {
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
            None => rest.push((node, origin(edges.get(id).copied()), String::new())),
        }
    }
    rest.reverse();
    let mut lines = Vec::new();
    while let Some((node, lead, below)) = rest.pop() {
        let id = &node.row.session.id;
        let mark = if Some(id) == named { MARK } else { "" };
        lines.push(format!("{lead}{}{mark}", label(node)));
        let mut corners = ("└─", "   ");
        for child in hanging.remove(id).unwrap_or_default().into_iter().rev() {
            let relation = edges.get(&child.row.session.id).map_or("", |edge| edge.relation.as_str());
            rest.push((child, format!("{below}{} {relation}: ", corners.0), format!("{below}{}", corners.1)));
            corners = ("├─", "│  ");
        }
    }
    lines.join("\n")
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

fn label(node: &LineageNode) -> String {
    let row = &node.row;
    let mut label = row.session.id.to_string();
    if row.session.id == row.facts.root {
        label.push_str(&format!(" [{}]", row.session.kind.as_str()));
        if let Some(title) = &row.title {
            label.push_str(&format!(" {}", excerpt::line(title, TITLE)));
        }
        if row.session.creator == CreatorKind::DelegateTask {
            label.push_str(&format!(" ({})", work(row)));
        }
    }
    label
}

/// What delegated work has come to: its age, its messages and its tokens.
fn work(row: &ConversationRow) -> String {
    let running = if row.running { "running, " } else { "" };
    let age = match table::age(row.created_at, now()).as_str() {
        "now" => "now".to_owned(),
        age => format!("{age} ago"),
    };
    format!(
        "{} {age}, {running}{} messages, {} tokens",
        row.session.creator.as_str(),
        row.message_count,
        row.usage.total()
    )
}
