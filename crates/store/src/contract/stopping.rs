//! Cancelling a turn, whichever instance runs it.

use std::time::Duration;

use herma_model::turn::FailureCode;
use herma_model::{KeyScope, SessionKey, StopKind, TurnId, TurnState};

use super::World;
use super::fixture::{noted, refused, running, texts};
use crate::{Admission, Refusal, Scope, StopOutcome, Store, StoreError};

const GRACE: Duration = Duration::from_secs(2);

async fn stop<S: Store>(world: &World<S>, store: &S, turn: TurnId, grace: Duration) -> StopOutcome {
    store.stop(&world.scope, turn, grace, world.now()).await.unwrap()
}

pub async fn a_running_turn_that_is_cancelled_learns_of_it_and_cannot_complete<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "first").await;
    assert!(!world.turn(turn.turn).await.unwrap().stopping);
    assert_eq!(stop(world, &world.two, turn.turn, GRACE).await, StopOutcome::Asked);
    assert!(world.turn(turn.turn).await.unwrap().stopping, "every instance sees that it was asked to stop");
    assert_eq!(world.one.stop_requests().await.unwrap(), [(turn.turn, StopKind::Cancel)]);
    assert_eq!(world.two.stop_requests().await.unwrap(), [], "the turn runs in the other instance");
    let completed = world.try_answer(&world.one, &turn, "one").await;
    assert_eq!(completed.unwrap_err(), StoreError::StopRequested(StopKind::Cancel));
    world.leave(&world.one, &turn, TurnState::Cancelled, Some("on")).await;
    assert_eq!(stop(world, &world.two, turn.turn, GRACE).await, StopOutcome::Ended);
    let record = world.turn(turn.turn).await.unwrap();
    assert_eq!((record.state, record.stopping), (TurnState::Cancelled, false));
    world.talk(&world.two, "trip", "second", "two").await;
}

pub async fn a_turn_that_does_not_end_is_ended<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "first").await;
    world.one.journal(turn.lease, noted("on"));
    world.settle(&world.one).await;
    assert_eq!(stop(world, &world.two, turn.turn, GRACE).await, StopOutcome::Asked);
    assert_eq!(stop(world, &world.two, turn.turn, GRACE).await, StopOutcome::Asked, "it has time to end by itself");
    let later = world.now().plus(GRACE + GRACE);
    assert_eq!(world.two.stop(&world.scope, turn.turn, GRACE, later).await.unwrap(), StopOutcome::Ended);
    let record = world.turn(turn.turn).await.unwrap();
    assert_eq!((record.state, record.cut_off), (TurnState::Cancelled, true));
    assert_eq!(record.failure.map(|failure| failure.code), Some(FailureCode::Cancelled));
    assert_eq!(world.try_answer(&world.one, &turn, "one").await.unwrap_err(), StoreError::Fenced);
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["first", "on"]);
}

pub async fn a_waiting_turn_that_is_cancelled_ends_at_once<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "first").await;
    let waiting = world.queue(&world.one, world.ask("trip", "second")).await;
    assert_eq!(stop(world, &world.two, waiting.turn, GRACE).await, StopOutcome::Ended);
    assert_eq!(refused(world.admit(&world.one, waiting).await), Refusal::Withdrawn);
    world.answer(&world.one, &first, "one").await;
    let third = world.start(&world.two, "trip", "third").await;
    world.answer(&world.two, &third, "three").await;
}

pub async fn a_turn_that_has_ended_stays_as_it_is<S: Store>(world: &World<S>) {
    let turn = world.talk(&world.one, "trip", "first", "one").await;
    assert_eq!(stop(world, &world.two, turn.turn, GRACE).await, StopOutcome::Ended);
    assert_eq!(world.turn(turn.turn).await.unwrap().state, TurnState::Completed);
}

pub async fn no_caller_cancels_a_turn_that_it_cannot_see<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "first").await;
    let outcome = world.one.stop(&world.stranger, turn.turn, GRACE, world.now()).await.unwrap();
    assert_eq!(outcome, StopOutcome::NotFound);
    world.answer(&world.one, &turn, "one").await;
    let ask = Admission { session_key: SessionKey::parse("agent:one").ok(), ..world.ask("keyed", "first") };
    let turn = running(world.admit(&world.one, ask).await);
    let other_key = Scope { keys: KeyScope::parse(Some("agent:two")), ..world.scope.clone() };
    let outcome = world.one.stop(&other_key, turn.turn, GRACE, world.now()).await.unwrap();
    assert_eq!(outcome, StopOutcome::NotFound);
    world.answer(&world.one, &turn, "one").await;
}
