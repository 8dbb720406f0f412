//! First turns that failed and are repeated without a name.

use herma_model::limits::RETRY_WINDOW;
use herma_model::{Alias, SessionKind, TurnState};
use std::sync::Arc;
use std::time::Duration;

use super::World;
use super::fixture::running;
use super::sdk_retries::attempt;
use crate::{Admission, AdmitOutcome, NewResponse, Running, Store};

/// The same request, for a new conversation.
fn opening<S: Store>(world: &World<S>) -> Admission {
    attempt(0, world.ask_anew("hello"))
}

async fn failed<S: Store>(world: &World<S>) -> Running {
    let turn = running(world.admit(&world.one, opening(world)).await);
    world.leave(&world.one, &turn, TurnState::Failed, None).await;
    turn
}

async fn is_new<S: Store>(world: &World<S>, ask: Admission, other: &Running) {
    let turn = running(world.admit(&world.two, ask).await);
    assert_ne!(turn.facts.id, other.facts.id);
    world.answer(&world.two, &turn, "hi").await;
}

pub async fn a_first_turn_that_failed_is_tried_again_by_a_request_without_a_name<S: Store>(world: &World<S>) {
    let first = failed(world).await;
    for _ in 0..2 {
        let outcome = world.admit(&world.two, opening(world)).await;
        assert!(matches!(outcome, AdmitOutcome::Reopen(there) if there == first.facts.id), "{outcome:?}");
        let there = world.ask(&first.facts.id.to_string(), "hello");
        let there = Admission { retry_of: Some(first.turn), messages: Vec::new(), ..attempt(0, there) };
        let again = running(world.admit(&world.two, there).await);
        assert_eq!((again.turn, &again.facts.id), (first.turn, &first.facts.id));
        world.leave(&world.two, &again, TurnState::Interrupted, None).await;
    }
}

pub async fn what_repeats_no_failed_opening_is_a_conversation_of_its_own<S: Store>(world: &World<S>) {
    let first = failed(world).await;
    let mut other_words = opening(world);
    other_words.retry.fingerprint = [8; 16];
    let mut helper = opening(world);
    helper.creation.kind = SessionKind::Auxiliary;
    let mut of_a_session = opening(world);
    of_a_session.creation.kind = SessionKind::Auxiliary;
    of_a_session.creation.parent = Alias::parse(&first.facts.id.to_string()).ok();
    let run = NewResponse { echo: Arc::from("{}"), kept: true, visible_while_queued: true };
    for ask in [
        other_words,
        helper,
        of_a_session,
        Admission { may_reopen: false, ..opening(world) },
        Admission { response: Some(run), ..opening(world) },
        Admission { scope: world.stranger.clone(), ..opening(world) },
        attempt(0, world.ask("trip", "hello")),
    ] {
        is_new(world, ask, &first).await;
    }
    let more = running(world.admit(&world.one, world.ask(&first.facts.id.to_string(), "more")).await);
    world.leave(&world.one, &more, TurnState::Failed, None).await;
    is_new(world, opening(world), &first).await;
}

pub async fn an_opening_that_failed_long_ago_stays_as_it_is<S: Store>(world: &World<S>) {
    let first = failed(world).await;
    world.advance_clock(RETRY_WINDOW + Duration::from_secs(1));
    is_new(world, opening(world), &first).await;
    let answered = running(world.admit(&world.one, attempt(0, world.ask_anew("hello"))).await);
    world.answer(&world.one, &answered, "hi").await;
    is_new(world, opening(world), &answered).await;
}
