//! The lineage graph of a conversation.

use herma_model::provenance::CompactionMode::Split;
use herma_model::{ParentRelation, SessionKey, SessionKind};

use super::World;
use super::describing::{keyed, made};
use super::fixture::name;
use crate::BranchPoint::{End, Message};
use crate::{
    LineageCursor, LineageEdge, LineageNode, LineageOutcome, LineagePage, LineageRange, LineageSide, NewConversation,
    Scope, Store,
};

impl<S: Store> World<S> {
    /// One page of a graph.
    async fn graph(&self, scope: &Scope, to: &str, after: Option<LineageCursor>, limit: usize) -> LineageOutcome {
        self.two.lineage(scope, &name(to), LineageRange { after, limit }).await.unwrap()
    }

    /// A whole graph, read in small pages.
    pub async fn whole_graph(&self, scope: &Scope, to: &str, limit: usize) -> (Vec<LineageNode>, Vec<LineageEdge>) {
        let (mut nodes, mut edges, mut after) = (Vec::new(), Vec::new(), None);
        loop {
            let page = paged(self.graph(scope, to, after, limit).await);
            assert!(page.nodes.len() <= limit);
            nodes.extend(page.nodes);
            edges.extend(page.edges);
            let Some(next) = page.next else { return (nodes, edges) };
            after = Some(LineageCursor::parse(&next.to_string()).unwrap());
        }
    }
}

fn paged(outcome: LineageOutcome) -> LineagePage {
    match outcome {
        LineageOutcome::Page(page) => page,
        other => panic!("expected a page, got {other:?}"),
    }
}

fn ids(nodes: &[LineageNode], side: LineageSide) -> Vec<&str> {
    nodes.iter().filter(|node| node.side == side).map(|node| node.row.session.id.as_str()).collect()
}

/// A root with three sessions, an early branch from its first session, and a branch from its second. That branch has
/// two sessions and a helper, and the helper has a branch.
pub(super) struct Tree {
    pub root: [String; 3],
    pub early: String,
    pub branch: [String; 2],
    pub helper: String,
    pub twig: String,
}

pub(super) async fn tree<S: Store>(world: &World<S>) -> Tree {
    let split = async |to: &str| world.compact(&world.one, to, Split, "so far").await.facts.head.id.to_string();
    let first = world.talk(&world.one, "root", "first", "one").await;
    let second = split("root").await;
    world.talk(&world.one, "root", "second", "two").await;
    let branch = world.make_branch("root", End).await.facts.head.id.to_string();
    let third = split("root").await;
    let early = world.make_branch("root", Message(first.messages[0].id)).await.facts.head.id.to_string();
    world.talk(&world.one, &branch, "third", "three").await;
    let further = split(&branch).await;
    world.child(Some("helper"), SessionKind::Auxiliary, &branch).await;
    world.talk(&world.one, "helper", "look", "found").await;
    let twig = world.make_branch("helper", End).await.facts.head.id.to_string();
    world.child(Some("job"), SessionKind::Background, &first.facts.id.to_string()).await;
    Tree {
        root: ["root".to_owned(), second, third],
        early,
        branch: [branch, further],
        helper: "helper".to_owned(),
        twig,
    }
}

pub async fn a_graph_has_what_is_above_and_below<S: Store>(world: &World<S>) {
    let Tree { root, early, branch, helper, twig } = tree(world).await;
    for limit in [1, 2, 3, 100] {
        let (nodes, edges) = world.whole_graph(&world.scope, &root[1], limit).await;
        assert!(ids(&nodes, LineageSide::Ancestor).is_empty());
        assert_eq!(ids(&nodes, LineageSide::Own), root);
        let below = [&branch[0], &branch[1], &helper, &twig, "job", &early];
        assert_eq!(ids(&nodes, LineageSide::Descendant), below);
        assert_eq!(edges.len(), nodes.len() - 1);
        assert!(edges.iter().all(|edge| edge.has_node));
        let (nodes, edges) = world.whole_graph(&world.scope, &helper, limit).await;
        assert_eq!(ids(&nodes, LineageSide::Ancestor), [&branch[0], &root[1], &root[0]]);
        assert_eq!(
            (ids(&nodes, LineageSide::Own), ids(&nodes, LineageSide::Descendant)),
            (vec!["helper"], vec![&*twig])
        );
        let edge = |from: &str, to: &str| {
            let found = edges.iter().find(|edge| edge.from.as_str() == from && edge.to.as_str() == to);
            found.map(|edge| (edge.relation, edge.has_node))
        };
        assert_eq!(edge(&branch[0], &helper), Some((ParentRelation::Delegate, true)));
        assert_eq!(edge(&root[1], &branch[0]), Some((ParentRelation::Branch, true)));
        assert_eq!(edge(&root[0], &root[1]), Some((ParentRelation::Continuation, true)));
        assert_eq!(edge(&helper, &twig), Some((ParentRelation::Branch, true)));
        assert_eq!(edges.len(), 4);
    }
    let (nodes, edges) = world.whole_graph(&world.scope, "job", 10).await;
    assert_eq!(ids(&nodes, LineageSide::Ancestor), [&root[2], &root[1], &root[0]]);
    let job = edges.iter().find(|edge| edge.to.as_str() == "job").unwrap();
    assert_eq!(job.relation, ParentRelation::Background);
}

pub async fn a_node_is_the_session_it_says<S: Store>(world: &World<S>) {
    tree(world).await;
    world.make(&world.one, Some("alone")).await;
    for to in ["root", "helper", "alone"] {
        for node in world.whole_graph(&world.scope, to, 4).await.0 {
            let raw = crate::ListFilter {
                view: crate::ListView::Sessions,
                root: Some(name(node.row.session.id.as_str())),
                ..Default::default()
            };
            let rows = world.pages(&world.scope, raw).await;
            let row = rows.iter().find(|row| row.session.id == node.row.session.id).unwrap();
            assert_eq!(format!("{row:?}"), format!("{:?}", node.row));
        }
    }
}

pub async fn a_deleted_parent_is_a_name_without_a_node<S: Store>(world: &World<S>) {
    let Tree { root, branch, helper, twig, .. } = tree(world).await;
    world.delete(&branch[0]).await;
    world.make(&world.one, Some("other")).await;
    let (nodes, edges) = world.whole_graph(&world.scope, &helper, 10).await;
    assert_eq!((ids(&nodes, LineageSide::Ancestor), ids(&nodes, LineageSide::Own)), (vec![], vec!["helper"]));
    let gone = edges.iter().find(|edge| edge.to.as_str() == "helper").unwrap();
    assert_eq!((gone.from.as_str(), gone.relation, gone.has_node), (&*branch[0], ParentRelation::Delegate, false));
    let (nodes, _) = world.whole_graph(&world.scope, &root[0], 10).await;
    let below = ids(&nodes, LineageSide::Descendant);
    assert!(!below.contains(&branch[0].as_str()) && !below.contains(&"helper") && below.contains(&"job"));
    world.delete("helper").await;
    world.talk(&world.one, "helper", "another", "one").await;
    let (nodes, edges) = world.whole_graph(&world.scope, &twig, 10).await;
    assert_eq!(
        (nodes.len(), edges[0].from.as_str(), edges[0].has_node),
        (1, "helper", false),
        "another conversation has the parent's name"
    );
    assert_eq!(world.whole_graph(&world.scope, "helper", 10).await.0.len(), 1);
}

pub async fn a_graph_ends_where_the_caller_may_not_see<S: Store>(world: &World<S>) {
    world.talk(&world.one, "root", "first", "one").await;
    let hidden = NewConversation {
        session_key: SessionKey::parse("theirs").ok(),
        ..world.declared(Some("hidden"), SessionKind::Auxiliary, Some("root"))
    };
    made(world.one.create(hidden).await.unwrap());
    let below = NewConversation {
        session_key: SessionKey::parse("mine").ok(),
        ..world.declared(Some("below"), SessionKind::Auxiliary, Some("hidden"))
    };
    made(world.one.create(below).await.unwrap());
    world.child(Some("seen"), SessionKind::Auxiliary, "root").await;
    let narrow = keyed("mine", &world.scope);
    let (nodes, _) = world.whole_graph(&narrow, "root", 1).await;
    assert_eq!(ids(&nodes, LineageSide::Descendant), ["seen"]);
    let (nodes, edges) = world.whole_graph(&narrow, "below", 1).await;
    assert_eq!((nodes.len(), edges[0].from.as_str(), edges[0].has_node), (1, "hidden", false));
    assert_eq!(world.whole_graph(&world.scope, "below", 1).await.0.len(), 3);
    for (scope, to) in [(&world.scope, "nowhere"), (&world.stranger, "root"), (&narrow, "hidden")] {
        assert!(matches!(world.graph(scope, to, None, 10).await, LineageOutcome::NotFound));
    }
}

pub async fn a_cursor_of_another_graph_is_refused<S: Store>(world: &World<S>) {
    let Tree { root, branch, helper, .. } = tree(world).await;
    let next = paged(world.graph(&world.scope, &root[0], None, 6).await).next;
    assert!(matches!(world.graph(&world.scope, &helper, next, 10).await, LineageOutcome::CursorGone));
    assert!(matches!(world.graph(&world.scope, &root[2], next, 10).await, LineageOutcome::Page(_)));
    world.delete(&branch[0]).await;
    assert!(matches!(world.graph(&world.scope, &root[0], next, 10).await, LineageOutcome::CursorGone));
}

pub async fn what_grows_while_it_is_read_is_read_once<S: Store>(world: &World<S>) {
    let Tree { root, helper, .. } = tree(world).await;
    let before = world.whole_graph(&world.scope, &root[0], 100).await.0;
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = paged(world.graph(&world.scope, &root[0], after, 2).await);
        seen.extend(page.nodes.iter().map(|node| node.row.session.id.to_string()));
        for parent in [&root[0], &helper] {
            world.child(None, SessionKind::Auxiliary, parent).await;
        }
        let Some(next) = page.next.filter(|_| seen.len() < 200) else { break };
        after = Some(next);
        if seen.len() > 40 {
            break;
        }
    }
    let mut once = seen.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), seen.len());
    let old: Vec<_> = before.iter().map(|node| node.row.session.id.to_string()).collect();
    let read: Vec<_> = seen.into_iter().filter(|id| old.contains(id)).collect();
    assert!(old.starts_with(&read) && read.len() > 5, "{read:?}");
}
