//! Retracting a turn that was refused after its admission leaves nothing.

use herma_model::{Resolution, SessionKey, TurnState};

use super::World;
use super::fixture::{noted, running, texts};
use super::retrying::again;
use crate::{Admission, Store, StoreError};

pub async fn a_retracted_first_turn_leaves_nothing<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "too long").await;
    world.one.retract(turn.lease).await.unwrap();
    assert!(world.read("trip").await.is_none());
    assert!(world.read(&turn.facts.id.to_string()).await.is_none());
    assert!(world.turn(turn.turn).await.is_none());
    assert!(world.all(&world.scope).await.is_empty());
    let afresh = world.start(&world.two, "trip", "shorter").await;
    assert_eq!(afresh.resolution, Resolution::Created);
    assert_ne!(afresh.facts.id, turn.facts.id);
    assert_eq!(world.one.retract(turn.lease).await.unwrap_err(), StoreError::Fenced);
}

pub async fn a_retracted_later_turn_leaves_the_conversation_as_it_was<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let (before, row) = (world.read("trip").await.unwrap(), world.row("trip").await.unwrap());
    let turn = world.start(&world.one, "trip", "too long").await;
    world.one.journal(turn.lease, noted("never shown"));
    world.one.retract(turn.lease).await.unwrap();
    let (after, row_after) = (world.read("trip").await.unwrap(), world.row("trip").await.unwrap());
    assert_eq!(after.messages, before.messages);
    assert!(after.unanswered.is_empty() && world.turn(turn.turn).await.is_none());
    assert_eq!((row_after.turn_count, row_after.message_count), (row.turn_count, row.message_count));
    assert_eq!((row_after.updated_at, row_after.usage, row_after.running), (row.updated_at, row.usage, false));
    world.talk(&world.two, "trip", "second", "two").await;
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["first", "one", "second", "two"]);
}

pub async fn a_retracted_turn_takes_its_session_key_along<S: Store>(world: &World<S>) {
    let key = |text| SessionKey::parse(text).ok();
    world.talk(&world.one, "trip", "first", "one").await;
    let ask = |text| Admission { session_key: key(text), ..world.ask("trip", "keyed") };
    let turn = running(world.admit(&world.one, ask("mine")).await);
    assert_eq!(turn.facts.session_key, key("mine"));
    world.one.retract(turn.lease).await.unwrap();
    assert_eq!(world.row("trip").await.unwrap().facts.session_key, None);
    let turn = running(world.admit(&world.one, ask("other")).await);
    world.leave(&world.one, &turn, TurnState::Failed, None).await;
    let attempt = running(world.admit(&world.two, again(world, turn.turn)).await);
    world.two.retract(attempt.lease).await.unwrap();
    assert_eq!(world.row("trip").await.unwrap().facts.session_key, key("other"), "an earlier attempt brought it");
}

pub async fn a_retracted_attempt_is_the_unanswered_turn_again<S: Store>(world: &World<S>) {
    let key = SessionKey::parse("mine").ok();
    for state in [TurnState::Failed, TurnState::Cancelled, TurnState::Interrupted] {
        let turn = world.start(&world.one, "trip", "question").await;
        world.leave(&world.one, &turn, state, Some("we")).await;
        let (before, record) = (world.read("trip").await.unwrap(), world.turn(turn.turn).await.unwrap());
        let retry = Admission { session_key: key.clone(), ..again(world, turn.turn) };
        let attempt = running(world.admit(&world.two, retry).await);
        world.two.journal(attempt.lease, noted("never shown"));
        world.two.retract(attempt.lease).await.unwrap();
        let after = world.read("trip").await.unwrap();
        assert_eq!((&after.messages, &after.unanswered), (&before.messages, &before.unanswered));
        assert_eq!(after.unanswered[&turn.turn].state, state);
        let restored = world.turn(turn.turn).await.unwrap();
        assert_eq!((restored.attempt, restored.failure), (record.attempt, record.failure));
        assert_eq!(world.row("trip").await.unwrap().facts.session_key, None);
    }
}

pub async fn a_conversation_goes_with_the_last_turn_that_wanted_it<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "too long").await;
    let second = world.queue(&world.two, world.ask("trip", "too long as well")).await;
    let third = world.queue(&world.one, world.ask("trip", "given up")).await;
    world.one.retract(first.lease).await.unwrap();
    let second = running(world.admit(&world.two, second).await);
    assert_eq!(second.resolution, Resolution::Created, "it is the first turn of the conversation");
    world.two.retract(second.lease).await.unwrap();
    world.withdraw(&world.one, &world.scope, third.turn).await;
    assert!(world.read("trip").await.is_none());
    assert!(world.all(&world.scope).await.is_empty());
    world.talk(&world.one, "trip", "afresh", "fine").await;
}

pub async fn turns_that_waited_for_a_retracted_turn_go_on<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "too long").await;
    let second = world.queue(&world.two, world.ask("trip", "second")).await;
    let third = world.queue(&world.one, world.ask("trip", "third")).await;
    world.one.retract(first.lease).await.unwrap();
    let second = running(world.admit(&world.two, second).await);
    world.answer(&world.two, &second, "two").await;
    let third = running(world.admit(&world.one, third).await);
    assert_eq!(third.resolution, Resolution::Head);
    world.one.retract(third.lease).await.unwrap();
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["second", "two"]);
}

pub async fn a_retraction_under_an_old_fence_changes_nothing<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "question").await;
    assert_eq!(world.two.retract(World::<S>::older_lease(turn.lease)).await.unwrap_err(), StoreError::Fenced);
    world.answer(&world.one, &turn, "answer").await;
    assert_eq!(world.one.retract(turn.lease).await.unwrap_err(), StoreError::Fenced);
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["question", "answer"]);
}
