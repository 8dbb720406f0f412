//! Turns that were visible while queued, failed, and are asked for again while another turn runs. They wait under their
//! first ids.

use std::time::Duration;

use herma_model::turn::FailureCode;
use herma_model::{MessageId, TurnId, TurnState};

use super::World;
use super::fixture::{joined, refused, running, texts};
use super::idempotency::with_key;
use super::visible_turns::visible_while_queued;
use crate::{Admission, AdmitOutcome, Refusal, RetryIdentity, Running, StopOutcome, Store, TurnPolicy};

/// A request that is visible while queued, with a key.
fn ask<S: Store>(world: &World<S>) -> Admission {
    with_key(visible_while_queued(world.ask("trip", "one")), 1)
}

/// The same request, to begin anew at the end.
fn anew<S: Store>(world: &World<S>, turn: TurnId) -> Admission {
    Admission { anew_of: Some(turn), ..ask(world) }
}

/// Returns a visible turn that failed, and a turn that is running now.
async fn fail_and_go_on<S: Store>(world: &World<S>) -> (Running, Running) {
    let failed = running(world.admit(&world.one, ask(world)).await);
    world.leave(&world.one, &failed, TurnState::Failed, Some("we")).await;
    (failed, world.start(&world.one, "trip", "two").await)
}

/// The turn's state, whether it waits again, and why it has no answer.
async fn status_of<S: Store>(world: &World<S>, turn: TurnId) -> (TurnState, bool, Option<FailureCode>) {
    let record = world.turn(turn).await.unwrap();
    (record.state, record.waits_again, record.failure.map(|failure| failure.code))
}

/// Asks by the key and checks that the outcome is `RetryIn`.
async fn expect_retry<S: Store>(world: &World<S>, turn: TurnId) {
    let outcome = world.admit(&world.two, ask(world)).await;
    assert!(matches!(outcome, AdmitOutcome::RetryIn(_, again) if again == turn), "{outcome:?}");
}

pub async fn a_visible_turn_that_failed_waits_again_under_its_id<S: Store>(world: &World<S>) {
    let (failed, two) = fail_and_go_on(world).await;
    let before = world.read("trip").await.unwrap();
    let mut waiting = anew(world, failed.turn);
    let outcome = world.admit(&world.two, waiting.clone()).await;
    let AdmitOutcome::Queued { ticket, since, attempt_of, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!((attempt_of, since), (Some(failed.turn), failed.started_at));
    waiting.ticket = Some(ticket);
    assert!(world.turn(waiting.turn).await.is_none(), "the request made no new turn");
    let record = world.turn(failed.turn).await.unwrap();
    assert_eq!((record.state, record.waits_again), (TurnState::Failed, true));
    let record = record.as_it_stands();
    assert_eq!((record.state, &record.failure, record.ended_at), (TurnState::Queued, &None, None));
    assert_eq!((record.input.len(), record.said().count()), (1, 0));
    let after = world.read("trip").await.unwrap();
    assert_eq!(
        (&after.unanswered, &after.messages),
        (&before.unanswered, &before.messages),
        "no message was written yet"
    );
    for store in [&world.one, &world.two] {
        assert_eq!(joined(world.admit(store, ask(world)).await), failed.turn);
    }
    world.answer(&world.one, &two, "fine").await;
    let second = running(world.admit(&world.two, waiting).await);
    assert_eq!((second.turn, second.attempt, second.started_at), (failed.turn, 2, failed.started_at));
    assert_eq!(second.messages[0].id, MessageId::brought(failed.turn, 2, 0));
    assert_eq!(status_of(world, failed.turn).await, (TurnState::Running, false, None));
    world.answer(&world.two, &second, "well").await;
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["one", "we", "two", "fine", "one", "well"]);
    assert_eq!(joined(world.admit(&world.one, ask(world)).await), failed.turn);
    assert_eq!(world.row("trip").await.unwrap().turn_count, 2);
}

pub async fn a_turn_that_waits_again_goes_on_in_place_if_nothing_came_after_it<S: Store>(world: &World<S>) {
    let (failed, two) = fail_and_go_on(world).await;
    let waiting = world.queue(&world.two, anew(world, failed.turn)).await;
    world.one.retract(two.lease).await.unwrap();
    let in_place = Admission { retry_of: Some(failed.turn), anew_of: None, messages: Vec::new(), ..waiting };
    let second = running(world.admit(&world.two, in_place).await);
    assert_eq!((second.turn, second.attempt), (failed.turn, 2));
    assert_eq!(status_of(world, failed.turn).await, (TurnState::Running, false, None));
    world.answer(&world.two, &second, "well").await;
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["one", "we", "well"]);
}

pub async fn a_turn_that_waits_again_and_gives_up_has_failed_as_before<S: Store>(world: &World<S>) {
    let (failed, two) = fail_and_go_on(world).await;
    let before = status_of(world, failed.turn).await;
    for _ in 0..2 {
        let waiting = world.queue(&world.two, anew(world, failed.turn)).await;
        assert!(status_of(world, failed.turn).await.1);
        world.withdraw(&world.two, &world.scope, waiting.turn).await;
        assert_eq!(status_of(world, failed.turn).await, before);
        assert_eq!(refused(world.admit(&world.two, waiting).await), Refusal::Withdrawn);
        expect_retry(world, failed.turn).await;
    }
    world.answer(&world.one, &two, "fine").await;
    let second = running(world.admit(&world.two, anew(world, failed.turn)).await);
    assert_eq!((second.turn, second.attempt), (failed.turn, 2));
}

pub async fn a_turn_that_waits_again_in_a_process_that_is_gone_has_failed_as_before<S: Store>(world: &World<S>) {
    let failed = running(world.admit(&world.one, ask(world)).await);
    world.leave(&world.one, &failed, TurnState::Failed, None).await;
    let before = status_of(world, failed.turn).await;
    let two = world.start(&world.two, "trip", "two").await;
    world.queue(&world.one, anew(world, failed.turn)).await;
    world.one.close().await;
    expect_retry(world, failed.turn).await;
    let waiting = world.queue(&world.two, anew(world, failed.turn)).await;
    world.withdraw(&world.two, &world.scope, waiting.turn).await;
    world.answer(&world.two, &two, "fine").await;
    world.talk(&world.two, "trip", "three", "good").await;
    assert_eq!(status_of(world, failed.turn).await, before);
    expect_retry(world, failed.turn).await;
}

pub async fn a_turn_that_waits_again_is_cancelled_by_its_id<S: Store>(world: &World<S>) {
    let (failed, two) = fail_and_go_on(world).await;
    let waiting = world.queue(&world.two, anew(world, failed.turn)).await;
    let stop = async || world.one.stop(&world.scope, failed.turn, Duration::ZERO, world.now()).await.unwrap();
    let version = world.read("trip").await.unwrap().version;
    assert_eq!(stop().await, StopOutcome::Ended);
    let cancelled = (TurnState::Cancelled, false, Some(FailureCode::Cancelled));
    assert_eq!(status_of(world, failed.turn).await, cancelled);
    assert_ne!(world.read("trip").await.unwrap().version, version, "the version has changed");
    assert_eq!(refused(world.admit(&world.two, waiting).await), Refusal::Withdrawn);
    world.answer(&world.one, &two, "fine").await;
    assert_eq!(joined(world.admit(&world.two, ask(world)).await), failed.turn, "it stays so");
    assert_eq!(stop().await, StopOutcome::Ended);
    assert_eq!(status_of(world, failed.turn).await, cancelled);
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["one", "we", "two", "fine"]);
}

pub async fn only_a_visible_turn_waits_again_under_its_id<S: Store>(world: &World<S>) {
    let failed = world.start(&world.one, "trip", "one").await;
    world.leave(&world.one, &failed, TurnState::Failed, None).await;
    world.start(&world.one, "trip", "two").await;
    for ask in [anew(world, failed.turn), Admission { anew_of: Some(failed.turn), ..world.ask("trip", "one") }] {
        let outcome = world.admit(&world.two, ask).await;
        assert!(matches!(outcome, AdmitOutcome::Queued { attempt_of: None, .. }), "{outcome:?}");
        assert_eq!(world.turn(failed.turn).await.map(|record| record.waits_again), Some(false));
    }
}

/// Returns a visible turn that gave up its place before it began, and the running turn that it waited for.
async fn give_up<S: Store>(world: &World<S>, ask: Admission) -> (TurnId, Running) {
    let other = world.start(&world.one, "trip", "two").await;
    let waiting = world.queue(&world.one, ask).await;
    world.withdraw(&world.one, &world.scope, waiting.turn).await;
    (waiting.turn, other)
}

/// Asks and checks that the outcome is `NeverBegan`.
async fn expect_never_began<S: Store>(world: &World<S>, ask: Admission, turn: TurnId) {
    let outcome = world.admit(&world.two, ask).await;
    assert!(matches!(outcome, AdmitOutcome::NeverBegan(never) if never == turn), "{outcome:?}");
}

pub async fn a_visible_turn_that_never_began_waits_and_runs_under_its_id<S: Store>(world: &World<S>) {
    let (turn, other) = give_up(world, ask(world)).await;
    let asked_at = world.turn(turn).await.unwrap().started_at;
    world.advance_clock(Duration::from_secs(1));
    expect_never_began(world, ask(world), turn).await;
    let mut again = Admission { turn, takes_over: true, ..ask(world) };
    let outcome = world.admit(&world.two, again.clone()).await;
    let AdmitOutcome::Queued { ticket, since, attempt_of, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!((attempt_of, since), (None, asked_at));
    again.ticket = Some(ticket);
    assert_eq!(status_of(world, turn).await, (TurnState::Queued, false, None));
    assert_eq!(world.turn(turn).await.unwrap().input.len(), 1);
    for store in [&world.one, &world.two] {
        assert_eq!(joined(world.admit(store, ask(world)).await), turn);
    }
    world.answer(&world.one, &other, "fine").await;
    let begun = running(world.admit(&world.two, again).await);
    assert_eq!((begun.turn, begun.attempt, begun.started_at), (turn, 1, asked_at));
    world.answer(&world.two, &begun, "well").await;
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["two", "fine", "one", "well"]);
    assert_eq!(joined(world.admit(&world.one, ask(world)).await), turn);
    assert_eq!(world.row("trip").await.unwrap().turn_count, 2);
}

pub async fn a_visible_turn_whose_process_died_before_it_began_is_taken_over<S: Store>(world: &World<S>) {
    let other = world.start(&world.two, "trip", "two").await;
    let first = visible_while_queued(world.ask("trip", "one"));
    let again = Admission { retry: RetryIdentity { sdk_attempt: 1, ..first.retry.clone() }, ..first.clone() };
    let waiting = world.queue(&world.one, first).await;
    world.one.close().await;
    let again = Admission { turn: world.ask("trip", "one").turn, ..again };
    expect_never_began(world, again.clone(), waiting.turn).await;
    world.answer(&world.two, &other, "fine").await;
    let again = Admission { turn: waiting.turn, takes_over: true, ..again };
    let begun = running(world.admit(&world.two, again.clone()).await);
    assert_eq!((begun.turn, begun.attempt), (waiting.turn, 1));
    assert_eq!(joined(world.admit(&world.two, again).await), waiting.turn, "only one takes it over");
    world.answer(&world.two, &begun, "well").await;
    world.talk(&world.two, "trip", "three", "good").await;
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["two", "fine", "one", "well", "three", "good"]);
}

pub async fn a_visible_turn_that_was_cancelled_before_it_began_is_not_taken_over<S: Store>(world: &World<S>) {
    let other = world.start(&world.one, "trip", "two").await;
    let waiting = world.queue(&world.one, ask(world)).await;
    let stopped = world.two.stop(&world.scope, waiting.turn, Duration::ZERO, world.now()).await.unwrap();
    assert_eq!(stopped, StopOutcome::Ended);
    assert_eq!(joined(world.admit(&world.two, ask(world)).await), waiting.turn);
    let forced = Admission { turn: waiting.turn, takes_over: true, ..ask(world) };
    assert_eq!(joined(world.admit(&world.two, forced).await), waiting.turn);
    assert_eq!(status_of(world, waiting.turn).await.0, TurnState::Cancelled);
    world.answer(&world.one, &other, "fine").await;
}

pub async fn a_refused_request_leaves_a_turn_that_never_began_as_it_was<S: Store>(world: &World<S>) {
    let (turn, other) = give_up(world, ask(world)).await;
    let before = status_of(world, turn).await;
    let policy = TurnPolicy::Reject;
    let again = Admission { turn, takes_over: true, policy, ..ask(world) };
    assert_eq!(refused(world.admit(&world.two, again).await), Refusal::Busy(other.turn));
    assert_eq!(status_of(world, turn).await, before);
    world.answer(&world.one, &other, "fine").await;
}
