//! Turns from which messages were removed.

use std::sync::Arc;

use herma_model::provenance::CompactionMode::Split;
use herma_model::{Seq, TurnId, TurnState};

use super::World;
use super::fixture::{answer_of, message, refused, running, text_of, texts};
use super::retrying::again;
use crate::{Admission, DeleteOutcome, Extent, NewResponse, Refusal, Store};

/// The texts of a record's input and answer.
async fn record<S: Store>(world: &World<S>, turn: TurnId) -> (Vec<String>, Vec<String>) {
    let record = world.turn(turn).await.unwrap();
    let said = |messages: &[Arc<herma_model::Message>]| {
        messages.iter().map(|message| text_of(message.said.payload.as_json())).collect()
    };
    (said(&record.input), said(&answer_of(&record)))
}

fn of(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

pub async fn a_turn_is_what_is_left_of_it<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "before", "yes").await;
    let mut ask = world.ask("trip", "a");
    ask.messages.extend(["b", "c"].map(|text| message(herma_model::Role::User, text)));
    ask.response = Some(NewResponse { echo: Arc::from("{}"), kept: true, visible_while_queued: false });
    let mut turn = running(world.admit(&world.one, ask).await);
    world.compact_during(&world.one, &mut turn, Split, "so far").await;
    world.answer(&world.one, &turn, "answer").await;
    world.talk(&world.one, "trip", "after", "yes").await;
    for (nth, input, answer) in
        [(3, &["a", "c"][..], &["answer"][..]), (2, &["c"], &["answer"]), (2, &[], &["answer"]), (2, &[], &[])]
    {
        world.remove("trip", nth).await;
        assert_eq!(record(world, turn.turn).await, (of(input), of(answer)));
    }
    assert_eq!(texts(&world.read_as("trip", Extent::Whole).await.unwrap()), ["before", "yes", "after", "yes"]);
    let left = world.turn(turn.turn).await.unwrap();
    assert_eq!(
        (left.state, left.kept, left.rotated),
        (TurnState::Completed, true, true),
        "state and head of the turn stay"
    );
    assert_eq!(left.facts.compaction_count, 1);
    assert!(world.read(&turn.turn.as_response().to_string()).await.is_some());
}

pub async fn a_turn_of_which_nothing_is_left_is_no_place_to_branch<S: Store>(world: &World<S>) {
    let first = world.talk(&world.one, "trip", "first", "one").await;
    world.talk(&world.one, "trip", "second", "two").await;
    world.remove("trip", 1).await;
    let branch = world.branch(&world.one, first.turn, "instead", "fine").await;
    assert_eq!(texts(&world.read(&branch.facts.id.to_string()).await.unwrap()), ["first", "instead", "fine"]);
    assert!(matches!(world.delete(&branch.facts.id.to_string()).await, DeleteOutcome::Deleted(_)));
    world.remove("trip", 0).await;
    assert!(world.read_as("trip", Extent::At(first.turn)).await.is_none());
    assert_eq!(refused(world.admit(&world.one, world.ask_branch(first.turn, "no")).await), Refusal::NotFound);
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["second", "two"]);
}

pub async fn places_are_not_given_again<S: Store>(world: &World<S>) {
    let first = world.talk(&world.one, "trip", "first", "one").await;
    world.remove("trip", 1).await;
    let next = world.start(&world.one, "trip", "second").await;
    assert_eq!(next.messages[0].seq, Seq(3));
    world.one.retract(next.lease).await.unwrap();
    let next = world.talk(&world.one, "trip", "second", "two").await;
    assert_eq!(next.messages[0].seq, Seq(3), "only places of a retracted turn are given again");
    assert_eq!(record(world, first.turn).await, (of(&["first"]), of(&[])));
    let at = world.read_as("trip", Extent::At(first.turn)).await.unwrap();
    assert_eq!(texts(&at), ["first"]);
    world.remove("trip", 2).await;
    let mut turn = world.start(&world.one, "trip", "third").await;
    world.compact_during(&world.one, &mut turn, Split, "so far").await;
    world.one.retract(turn.lease).await.unwrap();
    let next = world.talk(&world.one, "trip", "third", "three").await;
    assert_eq!(next.messages[0].seq, Seq(7), "the summary is the sixth");
}

pub async fn places_are_not_given_again_to_a_further_attempt<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "first").await;
    world.leave(&world.one, &first, TurnState::Failed, Some("we")).await;
    let second = world.talk(&world.one, "trip", "second", "two").await;
    world.remove("trip", 3).await;
    world.remove("trip", 2).await;
    let attempt = running(world.admit(&world.one, again(world, first.turn)).await);
    assert_eq!((attempt.turn, attempt.attempt), (first.turn, 2), "it is the last of which anything is left");
    world.one.retract(attempt.lease).await.unwrap();
    let with_more = Admission { messages: world.ask("trip", "more").messages, ..again(world, first.turn) };
    let attempt = running(world.admit(&world.one, with_more).await);
    assert_eq!(attempt.messages[0].seq, Seq(5));
    world.answer(&world.one, &attempt, "one").await;
    assert_eq!(record(world, second.turn).await, (of(&[]), of(&[])));
    assert_eq!(record(world, first.turn).await, (of(&["first", "more"]), of(&["one"])));
    world.remove("trip", 0).await;
    assert_eq!(record(world, first.turn).await, (of(&["more"]), of(&["one"])));
}

pub async fn a_branch_counts_what_is_left<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let second = world.talk(&world.one, "trip", "second", "two").await;
    world.remove("trip", 0).await;
    let branch = world.branch(&world.one, second.turn, "instead", "fine").await;
    let to = branch.facts.id.to_string();
    assert_eq!(branch.messages[0].seq, Seq(5));
    assert_eq!(world.row(&to).await.unwrap().message_count, 5);
    world.remove(&to, 3).await;
    assert_eq!(world.row(&to).await.unwrap().message_count, 4);
    assert_eq!(texts(&world.read(&to).await.unwrap()), ["one", "second", "two", "fine"]);
}

pub async fn a_rewritten_conversation_is_deleted_whole<S: Store>(world: &World<S>) {
    let first = world.talk(&world.one, "trip", "first", "one").await;
    let second = world.talk(&world.one, "trip", "second", "two").await;
    let third = world.talk(&world.one, "trip", "third", "three").await;
    world.remove("trip", 0).await;
    world.remove("trip", 0).await;
    world.remove("trip", 1).await;
    let branch = world.branch(&world.one, second.turn, "instead", "fine").await;
    assert!(matches!(world.delete("trip").await, DeleteOutcome::Deleted(_)));
    for turn in [first.turn, second.turn, third.turn] {
        assert!(world.turn(turn).await.is_none());
        world.leads_nowhere(&turn.to_string()).await;
    }
    let to = branch.facts.id.to_string();
    assert_eq!(texts(&world.read(&to).await.unwrap()), ["second", "instead", "fine"]);
    assert!(matches!(world.delete(&to).await, DeleteOutcome::Deleted(_)));
    assert!(world.all(&world.scope).await.is_empty());
}
