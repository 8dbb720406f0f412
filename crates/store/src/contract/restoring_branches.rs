//! Branches that were copied out and restored: their inherited part is the same before and after.

use herma_model::Role;
use herma_model::provenance::CompactionMode::InPlace;

use super::World;
use super::branching_idle::exchange;
use super::fixture::message;
use crate::BranchPoint::{End, Message};
use crate::{ListFilter, RestoreOutcome, Store};

impl<S: Store> World<S> {
    /// Deletes a branch and its source, restores the branch alone, and expects the same copy.
    async fn restore_without_source(&self, branch: &str, source: &str) {
        let copy = self.copy(branch).await;
        self.delete_existing(branch).await;
        self.delete_existing(source).await;
        assert_eq!(self.restore(copy.clone()).await, RestoreOutcome::Made);
        let mut again = self.copy(branch).await;
        // Only the parent may differ, because it does not exist any more.
        again.1.sessions[0].parent.clone_from(&copy.1.sessions[0].parent);
        assert_eq!(again, copy);
    }

    async fn is_answered(&self, conversation: &str) -> bool {
        let filter = ListFilter { answered: Some(true), limit: 100, ..ListFilter::default() };
        let rows = self.pages(&self.scope, filter).await;
        rows.iter().any(|row| row.facts.id.to_string() == conversation)
    }
}

pub async fn a_branch_comes_back_with_a_compaction_whose_turn_left_nothing<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let mut turn = world.start(&world.one, "trip", "second").await;
    world.compact_during(&world.one, &mut turn, InPlace, "so far").await;
    world.answer(&world.one, &turn, "two").await;
    world.remove("trip", 3).await;
    world.remove("trip", 2).await;
    let branch = world.make_branch("trip", End).await.facts.id.to_string();
    let inherited = world.copy(&branch).await.0;
    assert_eq!((inherited[0].compactions.len(), inherited[0].turns.len()), (1, 1));
    world.restore_without_source(&branch, "trip").await;
}

pub async fn a_branch_is_answered_by_the_answers_that_it_inherits<S: Store>(world: &World<S>) {
    // Items that a client added. One of them looks like an answer.
    let added = [message(Role::User, "1"), message(Role::Assistant, "2")];
    let added = exchange(world, "trip", &added, &[]).await.messages[1].id;
    world.talk(&world.one, "trip", "3", "4").await;
    for (at, expected) in [(Message(added), false), (End, true)] {
        let source = world.make_branch("trip", End).await.facts.id.to_string();
        let branch = world.make_branch(&source, at).await.facts.id.to_string();
        assert_eq!(world.is_answered(&branch).await, expected);
        world.restore_without_source(&branch, &source).await;
        assert_eq!(world.is_answered(&branch).await, expected);
    }
    let branch = world.make_branch("trip", Message(added)).await.facts.id.to_string();
    world.restore_without_source(&branch, "trip").await;
    assert!(!world.is_answered(&branch).await, "it inherits no answer");
}

pub async fn an_answer_that_was_removed_was_given<S: Store>(world: &World<S>) {
    let trip = world.talk(&world.one, "trip", "first", "one").await.facts.id.to_string();
    world.remove("trip", 1).await;
    world.remove("trip", 0).await;
    assert!(world.is_answered(&trip).await);
    world.copy_delete_restore("trip").await;
    assert!(world.is_answered(&trip).await);
    let branch = world.make_branch("trip", End).await.facts.id.to_string();
    assert!(!world.is_answered(&branch).await, "nothing is left to be inherited");
    world.restore_without_source(&branch, "trip").await;
    assert!(!world.is_answered(&branch).await);
}
