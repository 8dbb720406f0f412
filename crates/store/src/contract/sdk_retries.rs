//! Requests that an SDK repeats by itself, without a key.

use herma_model::limits::RETRY_WINDOW;
use herma_model::{TurnId, TurnState};
use std::time::Duration;

use super::World;
use super::fixture::{joined, running};
use crate::{Admission, AdmitOutcome, Store};

/// The same request, as this retry of an SDK.
pub(super) fn attempt(number: u32, mut admission: Admission) -> Admission {
    admission.retry.fingerprint = [9; 16];
    admission.retry.sdk_attempt = number;
    admission
}

pub(super) async fn deliver<S: Store>(world: &World<S>, turn: TurnId) {
    world.one.mark_delivered(world.scope.tenant, turn);
    world.settle(&world.one).await;
}

pub async fn a_retry_joins_a_running_turn<S: Store>(world: &World<S>) {
    let first = running(world.admit(&world.one, attempt(0, world.ask_anew("hello"))).await);
    assert_eq!(joined(world.admit(&world.two, attempt(1, world.ask_anew("hello"))).await), first.turn);
    world.answer(&world.one, &first, "hi").await;
    let other = running(world.admit(&world.two, attempt(0, world.ask_anew("hello"))).await);
    assert_ne!(other.turn, first.turn, "a request that is no retry makes a new turn");
}

pub async fn a_retry_joins_an_answer_that_was_not_delivered<S: Store>(world: &World<S>) {
    let first = running(world.admit(&world.one, attempt(0, world.ask("trip", "hello"))).await);
    world.answer(&world.one, &first, "hi").await;
    world.advance_clock(RETRY_WINDOW - Duration::from_secs(1));
    assert_eq!(joined(world.admit(&world.two, attempt(1, world.ask("trip", "hello"))).await), first.turn);
    assert_eq!(world.row("trip").await.unwrap().turn_count, 1);
}

pub async fn every_attempt_number_joins_once<S: Store>(world: &World<S>) {
    let first = running(world.admit(&world.one, attempt(0, world.ask("trip", "hello"))).await);
    world.answer(&world.one, &first, "hi").await;
    for number in [1, 2] {
        assert_eq!(joined(world.admit(&world.two, attempt(number, world.ask("trip", "hello"))).await), first.turn);
    }
    let another = running(world.admit(&world.one, attempt(1, world.ask("trip", "hello"))).await);
    assert_ne!(another.turn, first.turn);
    world.answer(&world.one, &another, "hi again").await;
    assert_eq!(joined(world.admit(&world.two, attempt(3, world.ask("trip", "hello"))).await), another.turn);
}

pub async fn a_delivered_turn_is_not_joined_by_a_retry_that_shows_nothing<S: Store>(world: &World<S>) {
    let first = running(world.admit(&world.one, attempt(0, world.ask("trip", "hello"))).await);
    world.answer(&world.one, &first, "hi").await;
    deliver(world, first.turn).await;
    let second = running(world.admit(&world.two, attempt(1, world.ask("trip", "hello"))).await);
    assert_ne!(second.turn, first.turn);
}

pub async fn a_run_whose_id_was_delivered_is_joined_while_it_runs<S: Store>(world: &World<S>) {
    let first = running(world.admit(&world.one, attempt(0, world.ask("trip", "hello"))).await);
    deliver(world, first.turn).await;
    assert_eq!(joined(world.admit(&world.two, attempt(1, world.ask("trip", "hello"))).await), first.turn);
    world.answer(&world.one, &first, "hi").await;
    assert_ne!(running(world.admit(&world.two, attempt(2, world.ask("trip", "hello"))).await).turn, first.turn);
}

pub async fn a_delivered_turn_is_joined_once_by_a_retry_that_has_not_seen_the_answer<S: Store>(world: &World<S>) {
    let first = running(world.admit(&world.one, attempt(0, world.ask("trip", "hello"))).await);
    world.answer(&world.one, &first, "hi").await;
    deliver(world, first.turn).await;
    let unseen = |number| {
        let mut retry = attempt(number, world.ask("trip", "hello"));
        retry.retry.unseen = true;
        retry
    };
    assert_eq!(joined(world.admit(&world.two, unseen(1)).await), first.turn);
    assert_eq!(joined(world.admit(&world.one, unseen(2)).await), first.turn);
    assert_ne!(running(world.admit(&world.two, unseen(1)).await).turn, first.turn);
}

pub async fn a_delivered_turn_is_not_joined_after_the_window<S: Store>(world: &World<S>) {
    let first = running(world.admit(&world.one, attempt(0, world.ask("trip", "hello"))).await);
    world.answer(&world.one, &first, "hi").await;
    deliver(world, first.turn).await;
    world.advance_clock(RETRY_WINDOW + Duration::from_secs(1));
    let mut late = attempt(1, world.ask("trip", "hello"));
    late.retry.unseen = true;
    assert_ne!(running(world.admit(&world.two, late).await).turn, first.turn);
}

pub async fn nothing_is_joined_after_the_window<S: Store>(world: &World<S>) {
    let first = running(world.admit(&world.one, attempt(0, world.ask("trip", "hello"))).await);
    world.answer(&world.one, &first, "hi").await;
    world.advance_clock(RETRY_WINDOW + Duration::from_secs(1));
    let second = running(world.admit(&world.two, attempt(1, world.ask("trip", "hello"))).await);
    assert_ne!(second.turn, first.turn);
}

pub async fn another_request_joins_nothing<S: Store>(world: &World<S>) {
    let first = running(world.admit(&world.one, attempt(0, world.ask_anew("hello"))).await);
    let mut other = attempt(1, world.ask_anew("something else"));
    other.retry.fingerprint = [8; 16];
    assert_ne!(running(world.admit(&world.two, other).await).turn, first.turn);
}

pub async fn another_tenants_turn_is_never_joined<S: Store>(world: &World<S>) {
    let mine = running(world.admit(&world.one, attempt(0, world.ask_anew("hello"))).await);
    let theirs = Admission { scope: world.stranger.clone(), ..attempt(1, world.ask_anew("hello")) };
    let theirs = running(world.admit(&world.two, theirs).await);
    assert_ne!(theirs.turn, mine.turn);
    // A tenant marks only its own turns as delivered.
    world.one.mark_delivered(world.stranger.tenant, mine.turn);
    world.settle(&world.one).await;
    assert_eq!(joined(world.admit(&world.two, attempt(1, world.ask_anew("hello"))).await), mine.turn);
}

pub async fn an_unanswered_turn_of_no_name_is_tried_again_where_it_was<S: Store>(world: &World<S>) {
    let first = running(world.admit(&world.one, attempt(0, world.ask_anew("hello"))).await);
    world.leave(&world.one, &first, TurnState::Failed, None).await;
    let outcome = world.admit(&world.two, attempt(1, world.ask_anew("hello"))).await;
    assert!(
        matches!(outcome, AdmitOutcome::RetryIn(there, turn) if (there, turn) == (first.facts.id, first.turn)),
        "{outcome:?}"
    );
}

pub async fn a_request_with_its_own_history_alone_does_not_begin_anew_behind_others<S: Store>(world: &World<S>) {
    let failed = running(world.admit(&world.one, attempt(0, world.ask("trip", "a"))).await);
    world.leave(&world.one, &failed, TurnState::Failed, None).await;
    let retry = |alone| Admission { own_history_alone: alone, ..attempt(1, world.ask_anew("a")) };
    let outcome = world.two.admit(retry(true)).await.unwrap();
    assert!(matches!(outcome, AdmitOutcome::RetryIn(_, turn) if turn == failed.turn), "{outcome:?}");
    world.talk(&world.one, "trip", "b", "c").await;
    let outcome = world.two.admit(retry(false)).await.unwrap();
    assert!(matches!(outcome, AdmitOutcome::RetryIn(_, turn) if turn == failed.turn), "{outcome:?}");
    let own = running(world.two.admit(retry(true)).await.unwrap());
    assert_ne!(own.facts.id, failed.facts.id);
    world.answer(&world.two, &own, "d").await;
}

pub async fn a_retry_behind_waiting_turns_is_an_attempt_of_the_turn_whose_owner_is_gone<S: Store>(world: &World<S>) {
    let first = running(world.admit(&world.one, attempt(0, world.ask("trip", "a"))).await);
    let waiting = world.queue(&world.two, world.ask("trip", "b")).await;
    world.one.close().await;
    let mut retry = attempt(1, world.ask("trip", "a"));
    retry.seen = world.seen(&world.two, &retry).await;
    let outcome = world.two.admit(retry.clone()).await.unwrap();
    assert!(matches!(outcome, AdmitOutcome::Stale | AdmitOutcome::RetryIn(..)), "{outcome:?}");
    let outcome = world.two.admit(retry).await.unwrap();
    assert!(matches!(outcome, AdmitOutcome::RetryIn(_, turn) if turn == first.turn), "{outcome:?}");
    let next = running(world.admit(&world.two, waiting).await);
    world.answer(&world.two, &next, "c").await;
}
