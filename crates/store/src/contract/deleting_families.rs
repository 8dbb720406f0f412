//! Deleting a conversation together with its children, or without them.

use herma_model::provenance::CompactionMode::Split;
use herma_model::{SessionKey, SessionKind};

use super::World;
use super::deleting_sources::everything;
use super::describing::{keyed, made};
use super::fixture::{name, running};
use crate::BranchPoint::End;
use crate::{Admission, Children, DeleteOutcome, NewConversation, Scope, Store};

impl<S: Store> World<S> {
    /// Deletes a conversation and its children.
    pub async fn delete_all(&self, scope: &Scope, to: &str) -> DeleteOutcome {
        self.two.delete(scope, &name(to), Children::Delete, self.now()).await.unwrap()
    }
}

/// Makes a tree: a conversation with a branch and a helper, each with children of its own, and an unrelated
/// conversation. [`PARENTS`] has the parent of each.
async fn tree<S: Store>(world: &World<S>, round: usize) -> Vec<String> {
    let root = format!("root {round}");
    world.talk(&world.one, &root, "first", "one").await;
    world.compact(&world.one, &root, Split, "so far").await;
    world.talk(&world.one, &root, "second", "two").await;
    let branch = world.make_branch(&root, End).await.facts.id.to_string();
    world.talk(&world.one, &branch, "third", "three").await;
    let helper = world.child(None, SessionKind::Auxiliary, &root).await;
    world.talk(&world.one, &helper, "look", "found").await;
    world.compact(&world.one, &helper, Split, "found it").await;
    let twig = world.make_branch(&branch, End).await.facts.id.to_string();
    let job = world.child(None, SessionKind::Background, &branch).await;
    let under = world.make_branch(&helper, End).await.facts.id.to_string();
    world.talk(&world.one, &under, "fourth", "four").await;
    let other = world.make(&world.one, None).await.facts.id.to_string();
    vec![root, branch, helper, twig, job, under, other]
}

const PARENTS: [Option<usize>; 7] = [None, Some(0), Some(0), Some(1), Some(1), Some(2), None];

fn is_below(mut node: usize, top: usize) -> bool {
    while let Some(parent) = PARENTS[node] {
        if parent == top {
            return true;
        }
        node = parent;
    }
    false
}

pub async fn each_node_goes_alone_or_with_all_below_it<S: Store>(world: &World<S>) {
    for children in [Children::Keep, Children::Delete] {
        for top in 0..PARENTS.len() {
            let names = tree(world, top).await;
            let mut before = Vec::new();
            for to in &names {
                before.push(everything(world, to).await);
            }
            let id = world.row(&names[top]).await.unwrap().facts.id;
            let outcome = world.one.delete(&world.scope, &name(&names[top]), children, world.now()).await.unwrap();
            assert_eq!(outcome, DeleteOutcome::Deleted(id));
            for (node, to) in names.iter().enumerate() {
                if node == top || (children == Children::Delete && is_below(node, top)) {
                    world.leads_nowhere(to).await;
                } else {
                    assert_eq!(everything(world, to).await, before[node], "{children:?} {top}: {node}");
                }
            }
            for to in &names {
                world.delete(to).await;
            }
            assert!(world.all(&world.scope).await.is_empty());
        }
    }
}

pub async fn nothing_goes_if_any_of_them_is_busy<S: Store>(world: &World<S>) {
    let names = tree(world, 0).await;
    let turn = world.start(&world.one, &names[5], "busy").await;
    let waits = world.start(&world.one, &names[3], "busy").await;
    let waiting = world.queue(&world.one, world.ask(&names[3], "waits")).await;
    world.answer(&world.one, &waits, "done").await;
    for (top, busy) in [(2, turn.turn), (1, waiting.turn)] {
        assert_eq!(world.delete_all(&world.scope, &names[top]).await, DeleteOutcome::Busy(busy));
    }
    assert!(matches!(world.delete_all(&world.scope, &names[0]).await, DeleteOutcome::Busy(_)));
    assert_eq!(world.all(&world.scope).await.len(), names.len());
    world.one.close().await;
    let id = world.row(&names[0]).await.unwrap().facts.id;
    assert_eq!(world.delete_all(&world.scope, &names[0]).await, DeleteOutcome::Deleted(id), "its owner is gone");
    assert_eq!(world.all(&world.scope).await.len(), 1);
}

pub async fn what_the_caller_cannot_see_stays<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let hidden = NewConversation {
        session_key: SessionKey::parse("theirs").ok(),
        ..world.declared(Some("hidden"), SessionKind::Auxiliary, Some("trip"))
    };
    made(world.one.create(hidden).await.unwrap());
    let below = world.child(Some("below"), SessionKind::Auxiliary, "hidden").await;
    world.child(Some("seen"), SessionKind::Auxiliary, "trip").await;
    let before = [everything(world, "hidden").await, everything(world, &below).await];
    let narrow = keyed("mine", &world.scope);
    assert_eq!(world.delete_all(&world.stranger, "trip").await, DeleteOutcome::NotFound);
    assert!(matches!(world.delete_all(&narrow, "trip").await, DeleteOutcome::Deleted(_)));
    world.leads_nowhere("seen").await;
    assert_eq!([everything(world, "hidden").await, everything(world, &below).await], before);
}

pub async fn a_parents_name_that_is_taken_again_has_no_children<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let helper = world.child(None, SessionKind::Auxiliary, "trip").await;
    let branch = world.make_branch("trip", End).await.facts.id.to_string();
    let before = [everything(world, &helper).await, everything(world, &branch).await];
    assert!(matches!(world.delete("trip").await, DeleteOutcome::Deleted(_)));
    world.talk(&world.one, "trip", "another", "trip").await;
    assert_eq!([everything(world, &helper).await, everything(world, &branch).await], before);
    assert!(matches!(world.delete_all(&world.scope, "trip").await, DeleteOutcome::Deleted(_)));
    assert_eq!(
        [everything(world, &helper).await, everything(world, &branch).await],
        before,
        "children of the deleted parent are not children of the new conversation"
    );
}

pub async fn families_that_grow_while_they_are_deleted_are_whole<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..8 {
        let world = world.clone();
        clients.spawn(async move {
            for _ in 0..4 {
                if number == 0 {
                    world.delete_all(&world.scope, "trip").await;
                    continue;
                }
                let new = world.declared(None, SessionKind::Auxiliary, Some("trip"));
                drop(world.one.create(new).await.unwrap());
                drop(world.two.branch(world.new_branch("trip", End)).await.unwrap());
                let ask = Admission { policy: crate::TurnPolicy::Branch, ..world.ask("trip", "more") };
                let turn = running(world.admit(&world.one, ask).await);
                world.answer(&world.one, &turn, "yes").await;
            }
        });
    }
    clients.join_all().await;
    world.delete_all(&world.scope, "trip").await;
    world.leads_nowhere("trip").await;
}
