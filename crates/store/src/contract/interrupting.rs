//! A turn that interrupts the running one and goes next.

use std::time::Duration;

use herma_model::{StopKind, TurnState};

use super::World;
use super::fixture::{noted, queued, refused, running, texts};
use crate::{Admission, AdmitOutcome, Refusal, Store, StoreError, TurnPolicy};

fn interrupt<S: Store>(world: &World<S>, text: &str) -> Admission {
    Admission { policy: TurnPolicy::Interrupt, ..world.ask("trip", text) }
}

pub async fn an_interrupted_turn_learns_of_it_and_cannot_complete<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "first").await;
    assert!(world.one.stop_requests().await.unwrap().is_empty());
    let second = world.queue(&world.two, interrupt(world, "second")).await;
    assert_eq!(world.one.stop_requests().await.unwrap(), [(first.turn, StopKind::Interrupt)]);
    assert!(world.two.stop_requests().await.unwrap().is_empty(), "the turn runs in the other instance");
    assert_eq!(
        world.try_answer(&world.one, &first, "one").await.unwrap_err(),
        StoreError::StopRequested(StopKind::Interrupt)
    );
    assert_eq!(world.turn(first.turn).await.unwrap().state, TurnState::Running, "it has not ended yet");
    queued(world.admit(&world.two, second.clone()).await);
    world.leave(&world.one, &first, TurnState::Interrupted, Some("on")).await;
    assert!(world.one.stop_requests().await.unwrap().is_empty());
    let second = running(world.admit(&world.two, second).await);
    world.answer(&world.two, &second, "two").await;
    let snapshot = world.read("trip").await.unwrap();
    assert_eq!(texts(&snapshot), ["first", "on", "second", "two"]);
    assert_eq!(snapshot.unanswered[&first.turn].state, TurnState::Interrupted);
}

pub async fn an_interrupting_turn_goes_before_waiting_turns<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "first").await;
    let patient = world.queue(&world.one, world.ask("trip", "patient")).await;
    let urgent = world.queue(&world.two, interrupt(world, "urgent")).await;
    let second_urgent = world.queue(&world.one, interrupt(world, "urgent too")).await;
    world.leave(&world.one, &first, TurnState::Interrupted, None).await;
    queued(world.admit(&world.one, patient.clone()).await);
    queued(world.admit(&world.one, second_urgent.clone()).await);
    let urgent = running(world.admit(&world.two, urgent).await);
    world.answer(&world.two, &urgent, "-").await;
    queued(world.admit(&world.one, patient.clone()).await);
    let second_urgent = running(world.admit(&world.one, second_urgent).await);
    world.answer(&world.one, &second_urgent, "-").await;
    let patient = running(world.admit(&world.one, patient).await);
    world.answer(&world.one, &patient, "-").await;
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["first", "urgent", "-", "urgent too", "-", "patient", "-"]);
}

pub async fn an_interrupting_turn_goes_at_once_when_no_turn_runs<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "first").await;
    let patient = world.queue(&world.one, world.ask("trip", "patient")).await;
    world.answer(&world.one, &first, "one").await;
    let urgent = running(world.admit(&world.two, interrupt(world, "urgent")).await);
    queued(world.admit(&world.one, patient.clone()).await);
    world.answer(&world.two, &urgent, "two").await;
    running(world.admit(&world.one, patient).await);
}

pub async fn an_interrupting_turn_behind_another_names_no_running_turn<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "first").await;
    let urgent = world.queue(&world.one, interrupt(world, "urgent")).await;
    world.leave(&world.one, &first, TurnState::Interrupted, None).await;
    let outcome = world.admit(&world.two, interrupt(world, "urgent too")).await;
    assert!(matches!(outcome, AdmitOutcome::Queued { running: None, .. }), "{outcome:?}");
    let urgent = running(world.admit(&world.one, urgent).await);
    world.answer(&world.one, &urgent, "two").await;
}

pub async fn a_turn_that_does_not_yield_is_cut_off_and_commits_nothing<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "first").await;
    world.one.journal(first.lease, noted("on"));
    world.one.journal(first.lease, noted("e"));
    world.settle(&world.one).await;
    let grace = Duration::from_millis(500);
    let ask = Admission { interrupt_grace: grace, ..interrupt(world, "second") };
    let ask = world.queue(&world.two, ask).await;
    queued(world.admit(&world.two, ask.clone()).await);
    world.advance_clock(grace + Duration::from_millis(1));
    let second = running(world.admit(&world.two, ask).await);
    assert_eq!(world.try_answer(&world.one, &first, "one").await.unwrap_err(), StoreError::Fenced);
    let late = world.try_leave(&world.one, &first, TurnState::Interrupted, Some("one")).await;
    assert_eq!(late.unwrap_err(), StoreError::Fenced);
    world.one.journal(first.lease, noted("more"));
    world.answer(&world.two, &second, "two").await;
    let snapshot = world.read("trip").await.unwrap();
    assert_eq!(texts(&snapshot), ["first", "one", "second", "two"], "the partial answer is kept");
    assert_eq!(snapshot.unanswered[&first.turn].state, TurnState::Interrupted);
}

pub async fn a_refused_interrupt_asks_no_turn_to_stop<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "first").await;
    let ask = Admission { queue_limit: 0, ..interrupt(world, "second") };
    assert_eq!(refused(world.admit(&world.two, ask).await), Refusal::QueueFull { limit: 0 });
    assert!(world.one.stop_requests().await.unwrap().is_empty());
    world.answer(&world.one, &first, "one").await;
}
