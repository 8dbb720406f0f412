//! Processes that start and end. A closed instance stands for a process that has ended.

use std::time::Duration;

use herma_model::alias::Namespace;
use herma_model::turn::FailureCode;
use herma_model::{MessageStatus, TurnState};

use super::World;
use super::fixture::{name, noted, queued, running, texts};
use crate::{Admission, AdmitOutcome, Extent, ListFilter, Refusal, Store, StoreError};

pub async fn journal_text_is_what_is_left_of_a_turn_whose_owner_is_gone<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "first").await;
    for text in ["it ", "was ", "so"] {
        world.one.journal(first.lease, noted(text));
    }
    world.one.close().await;
    let second = running(world.admit(&world.two, world.ask("trip", "second")).await);
    world.answer(&world.two, &second, "two").await;
    let snapshot = world.read("trip").await.unwrap();
    assert_eq!(texts(&snapshot), ["first", "it was so", "second", "two"]);
    let partial = &snapshot.messages[1];
    assert_eq!((partial.said.status, partial.turn), (MessageStatus::Partial, first.turn));
    assert_eq!(snapshot.unanswered[&first.turn].state, TurnState::Interrupted);
}

pub async fn a_turn_whose_owner_is_gone_is_recorded_by_the_next_admission<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "first").await;
    world.one.close().await;
    let mut ask = world.ask("trip", "second");
    ask.seen = world.seen(&world.two, &ask).await;
    let outcome = world.two.admit(ask.clone()).await.unwrap();
    assert!(
        matches!(outcome, AdmitOutcome::Stale | AdmitOutcome::Running(_)),
        "a gone owner does not make it wait: {outcome:?}"
    );
    let record = world.turn(first.turn).await.unwrap();
    assert_eq!((record.state, record.failure.unwrap().code), (TurnState::Interrupted, FailureCode::Abandoned));
    if matches!(outcome, AdmitOutcome::Stale) {
        running(world.admit(&world.two, ask).await);
    }
    assert_eq!(world.try_answer(&world.two, &first, "late").await.unwrap_err(), StoreError::Fenced);
}

pub async fn an_instance_that_is_gone_changes_no_turn_of_another<S: Store>(world: &World<S>) {
    let kept = world.start(&world.two, "kept", "hello").await;
    world.start(&world.one, "lost", "hello").await;
    world.one.close().await;
    let next = running(world.admit(&world.two, world.ask("lost", "again")).await);
    assert_eq!(world.turn(kept.turn).await.unwrap().state, TurnState::Running);
    queued(world.admit(&world.two, world.ask("kept", "more")).await);
    world.answer(&world.two, &kept, "hi").await;
    world.answer(&world.two, &next, "hi").await;
}

pub async fn waiting_turns_of_a_gone_process_block_no_turn<S: Store>(world: &World<S>) {
    let first = world.start(&world.two, "trip", "first").await;
    let gone = world.queue(&world.one, world.ask("trip", "gone")).await;
    world.queue(&world.one, world.ask("trip", "gone too")).await;
    let waiting = world.queue(&world.two, world.ask("trip", "second")).await;
    world.one.close().await;
    world.answer(&world.two, &first, "one").await;
    let second = running(world.admit(&world.two, waiting).await);
    world.answer(&world.two, &second, "two").await;
    assert!(world.turn(gone.turn).await.is_none());
    world.talk(&world.two, "trip", "third", "three").await;
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["first", "one", "second", "two", "third", "three"]);
}

pub async fn waiting_turns_of_a_gone_process_do_not_fill_the_queue<S: Store>(world: &World<S>) {
    let ask = |text| Admission { queue_limit: 2, ..world.ask("trip", text) };
    let first = world.start(&world.two, "trip", "first").await;
    world.queue(&world.one, ask("gone")).await;
    world.queue(&world.one, ask("gone too")).await;
    world.one.close().await;
    let second = world.queue(&world.two, ask("second")).await;
    world.queue(&world.two, ask("third")).await;
    let full = world.admit(&world.two, ask("fourth")).await;
    assert!(matches!(full, AdmitOutcome::Refused(Refusal::QueueFull { limit: 2 })), "{full:?}");
    world.answer(&world.two, &first, "one").await;
    running(world.admit(&world.two, second).await);
}

pub async fn a_retry_of_a_turn_whose_owner_is_gone_is_tried_again<S: Store>(world: &World<S>) {
    let mut ask = world.ask_anew("hello");
    ask.retry.fingerprint = [5; 16];
    let first = running(world.admit(&world.one, ask.clone()).await);
    world.one.close().await;
    let mut retry = Admission { turn: world.ask_anew("hello").turn, ..ask };
    retry.retry.sdk_attempt = 1;
    let outcome = world.admit(&world.two, retry).await;
    assert!(
        matches!(outcome, AdmitOutcome::RetryIn(there, turn) if (there, turn) == (first.facts.id, first.turn)),
        "{outcome:?}"
    );
}

pub async fn a_closed_store_says_so<S: Store>(world: &World<S>) {
    let turn = world.talk(&world.one, "trip", "hello", "hi").await;
    world.one.close().await;
    world.one.close().await;
    let (store, scope, alias) = (&world.one, &world.scope, name("trip"));
    assert_eq!(store.open(scope, &alias, Namespace::Session, Extent::View).await.unwrap_err(), StoreError::Closed);
    assert_eq!(store.conversations(scope, ListFilter::default()).await.unwrap_err(), StoreError::Closed);
    assert_eq!(store.admit(world.ask("trip", "more")).await.unwrap_err(), StoreError::Closed);
    assert_eq!(world.try_answer(store, &turn, "more").await.unwrap_err(), StoreError::Closed);
    assert_eq!(store.check().await.unwrap_err(), StoreError::Closed);
    store.journal(turn.lease, noted("nobody hears this"));
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["hello", "hi"]);
}

pub async fn a_step_of_the_wall_clock_ends_no_turn<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "first").await;
    let waiting = world.queue(&world.one, world.ask("trip", "second")).await;
    world.advance_clock(Duration::from_secs(40));
    queued(world.admit(&world.two, world.ask("trip", "third")).await);
    // An instance removes dead owners when it takes its first lease.
    world.advance_clock(Duration::from_secs(3600));
    world.talk(&world.two, "elsewhere", "hello", "hi").await;
    assert_eq!(world.turn(first.turn).await.unwrap().state, TurnState::Running);
    world.answer(&world.one, &first, "one").await;
    let second = running(world.admit(&world.one, waiting).await);
    world.answer(&world.one, &second, "two").await;
}

pub async fn a_lease_is_confirmed_until_it_is_lost<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "first").await;
    assert!(world.one.is_fresh(&first.lease));
    let confirmed = world.one.confirm(first.lease).await.unwrap();
    assert!(world.one.is_fresh(&confirmed));
    world.one.journal(first.lease, noted("it was")).wait().await.unwrap();
    world.one.close().await;
    let second = running(world.admit(&world.two, world.ask("trip", "second")).await);
    assert_eq!(world.two.confirm(first.lease).await.unwrap_err(), StoreError::Fenced);
    assert_eq!(world.two.journal(first.lease, noted("so")).wait().await.unwrap_err(), StoreError::Fenced);
    assert_eq!(world.two.confirm(second.lease).await.unwrap().fence, second.lease.fence);
}
