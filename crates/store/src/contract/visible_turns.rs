//! Turns that are visible while queued, and what is kept of their streamed output.

use std::sync::Arc;
use std::time::Duration;

use herma_model::provenance::CompactionMode;
use herma_model::turn::FailureCode;
use herma_model::{MessageStatus, Role, TurnState};

use super::World;
use super::fixture::{finish, message, noted, refused, running, texts};
use crate::{Admission, Commit, NewResponse, Refusal, Store, StreamedOutput, TurnOutcome};

pub fn visible_while_queued(ask: Admission) -> Admission {
    Admission { response: Some(NewResponse { echo: Arc::from("{}"), kept: true, visible_while_queued: true }), ..ask }
}

pub async fn a_visible_turn_that_gives_up_its_place_ends<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "first").await;
    let waiting = world.queue(&world.two, visible_while_queued(world.ask("trip", "second"))).await;
    world.withdraw(&world.two, &world.scope, waiting.turn).await;
    let ended = world.turn(waiting.turn).await.unwrap();
    assert_eq!((ended.state, ended.ended_at.is_some()), (TurnState::Cancelled, true));
    assert_eq!(ended.failure.map(|failure| failure.code), Some(FailureCode::Cancelled));
    let brought: Vec<_> = ended.input.iter().map(|message| message.said.payload.clone()).collect();
    assert_eq!(brought, waiting.messages.iter().map(|message| message.said.payload.clone()).collect::<Vec<_>>());
    assert!(ended.steps.is_empty() && !ended.has_begun, "it never began");
    assert_eq!(refused(world.admit(&world.two, waiting).await), Refusal::Withdrawn);
    world.answer(&world.one, &first, "one").await;
    world.talk(&world.two, "trip", "third", "three").await;
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["first", "one", "third", "three"]);
}

pub async fn a_visible_turn_whose_process_is_gone_ends_where_it_waited<S: Store>(world: &World<S>) {
    let first = world.start(&world.two, "trip", "first").await;
    let waiting = world.queue(&world.one, visible_while_queued(world.ask("trip", "second"))).await;
    world.one.close().await;
    world.answer(&world.two, &first, "one").await;
    world.talk(&world.two, "trip", "third", "three").await;
    let ended = world.turn(waiting.turn).await.unwrap();
    assert_eq!(ended.state, TurnState::Interrupted);
    assert_eq!(ended.failure.map(|failure| failure.code), Some(FailureCode::Abandoned));
}

pub async fn a_visible_turn_keeps_a_conversation_that_no_other_turn_uses<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "first").await;
    let waiting = world.queue(&world.two, visible_while_queued(world.ask("trip", "second"))).await;
    world.one.retract(first.lease).await.unwrap();
    world.withdraw(&world.two, &world.scope, waiting.turn).await;
    assert_eq!(world.turn(waiting.turn).await.unwrap().state, TurnState::Cancelled);
    world.talk(&world.one, "trip", "third", "three").await;
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["third", "three"]);
}

pub async fn a_turn_that_waited_is_as_old_as_its_request<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "first").await;
    let waiting = world.queue(&world.two, visible_while_queued(world.ask("trip", "second"))).await;
    let asked_at = world.turn(waiting.turn).await.unwrap().started_at;
    world.answer(&world.one, &first, "one").await;
    world.advance_clock(Duration::from_secs(1));
    let second = running(world.admit(&world.two, Admission { now: world.now(), ..waiting }).await);
    assert_eq!(second.started_at, asked_at);
    assert_eq!(world.turn(second.turn).await.unwrap().started_at, asked_at);
    world.answer(&world.two, &second, "two").await;
}

pub async fn streamed_output_is_read_while_it_streams_and_afterwards<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "first").await;
    world.one.journal(turn.lease, noted("on"));
    world.one.journal(turn.lease, noted("e"));
    world.settle(&world.one).await;
    let record = world.turn(turn.turn).await.unwrap();
    assert_eq!(record.shown, StreamedOutput { text: "one".to_owned(), record: "[on][e]".to_owned() });
    let outcome = TurnOutcome::Completed { messages: vec![message(Role::Assistant, "one")], finish: finish() };
    let commit = Commit { record: Some("3".to_owned()), ..world.commit(&turn, outcome) };
    world.one.commit(commit).await.unwrap();
    let record = world.turn(turn.turn).await.unwrap();
    assert_eq!((record.shown.record.as_str(), record.cut_off), ("3", false));
}

pub async fn streamed_output_of_a_turn_that_was_cut_off_is_read_as_far_as_it_was_written<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "first").await;
    world.one.journal(turn.lease, noted("on"));
    world.settle(&world.one).await;
    world.one.close().await;
    world.talk(&world.two, "trip", "second", "two").await;
    let record = world.turn(turn.turn).await.unwrap();
    assert_eq!((record.state, record.cut_off), (TurnState::Interrupted, true));
    assert_eq!(record.shown.record, "[on]");
    let shown: Vec<_> = record.said().map(|message| message.said.status).collect();
    assert_eq!(shown, [MessageStatus::Partial], "the text is a message, marked as partial");
}

pub async fn a_turn_remembers_where_it_began<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let mut turn = world.start(&world.one, "trip", "second").await;
    let moved = world.compact_during(&world.one, &mut turn, CompactionMode::Split, "all that was said").await;
    let outcome = TurnOutcome::Completed { messages: vec![message(Role::Assistant, "two")], finish: finish() };
    world.one.commit(world.commit(&turn, outcome)).await.unwrap();
    world.talk(&world.two, "trip", "third", "three").await;
    let record = world.turn(turn.turn).await.unwrap();
    assert_eq!(record.began.head.id.as_str(), "trip");
    assert_eq!((record.began.compaction_count, record.facts.compaction_count), (0, 1));
    assert_eq!(record.facts.head.id, moved.facts.head.id);
}
