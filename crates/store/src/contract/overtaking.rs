//! Requests that were overtaken by their own retry.

use herma_model::TurnState;
use herma_model::limits::RETRY_WINDOW;
use std::time::Duration;

use super::World;
use super::fixture::{joined, running};
use super::sdk_retries::{attempt, deliver};
use crate::{Admission, AdmitOutcome, ClientConnection, Store};

/// A request whose client has hung up.
fn abandoned(admission: Admission) -> Admission {
    Admission { client: ClientConnection::watched(|| true), ..admission }
}

pub async fn a_request_whose_client_is_gone_joins_the_retry_that_overtook_it<S: Store>(world: &World<S>) {
    let retry = running(world.admit(&world.one, attempt(2, world.ask("trip", "hello"))).await);
    let late = |number| abandoned(attempt(number, world.ask("trip", "hello")));
    assert_eq!(joined(world.admit(&world.two, late(0)).await), retry.turn, "while it runs");
    world.answer(&world.one, &retry, "hi").await;
    deliver(world, retry.turn).await;
    assert_eq!(joined(world.admit(&world.two, late(1)).await), retry.turn, "when it was delivered");
    assert_eq!(world.row("trip").await.unwrap().turn_count, 1);
    assert_ne!(running(world.admit(&world.two, late(0)).await).turn, retry.turn, "each number joins once");
}

pub async fn a_request_that_a_failed_retry_overtook_is_another_attempt_of_it<S: Store>(world: &World<S>) {
    let failed = running(world.admit(&world.one, attempt(1, world.ask_anew("hello"))).await);
    world.leave(&world.one, &failed, TurnState::Failed, None).await;
    let outcome = world.admit(&world.two, abandoned(attempt(0, world.ask_anew("hello")))).await;
    assert!(matches!(outcome, AdmitOutcome::RetryIn(there, _) if there == failed.facts.id), "{outcome:?}");
}

pub async fn a_request_whose_client_still_waits_joins_nothing<S: Store>(world: &World<S>) {
    let retry = running(world.admit(&world.one, attempt(1, world.ask_anew("hello"))).await);
    for client in [ClientConnection::default(), ClientConnection::watched(|| false)] {
        let waits = Admission { client, ..attempt(0, world.ask_anew("hello")) };
        assert_ne!(running(world.admit(&world.two, waits).await).turn, retry.turn);
    }
}

pub async fn a_request_that_was_not_overtaken_joins_nothing<S: Store>(world: &World<S>) {
    let first = running(world.admit(&world.one, attempt(0, world.ask_anew("hello"))).await);
    assert_eq!(joined(world.admit(&world.two, attempt(1, world.ask_anew("hello"))).await), first.turn);
    let late = running(world.admit(&world.two, abandoned(attempt(0, world.ask_anew("hello")))).await);
    assert_ne!(late.turn, first.turn, "that retry had already joined its original");
}

pub async fn another_request_whose_client_is_gone_joins_nothing<S: Store>(world: &World<S>) {
    let retry = running(world.admit(&world.one, attempt(1, world.ask_anew("hello"))).await);
    let mut other = abandoned(attempt(0, world.ask_anew("hello")));
    other.retry.fingerprint = [8; 16];
    assert_ne!(running(world.admit(&world.two, other).await).turn, retry.turn);
    let theirs = Admission { scope: world.stranger.clone(), ..abandoned(attempt(0, world.ask_anew("hello"))) };
    assert_ne!(running(world.admit(&world.two, theirs).await).turn, retry.turn);
}

pub async fn a_retry_is_remembered_for_a_while<S: Store>(world: &World<S>) {
    let retry = running(world.admit(&world.one, attempt(1, world.ask("trip", "hello"))).await);
    world.answer(&world.one, &retry, "hi").await;
    world.advance_clock(RETRY_WINDOW + Duration::from_secs(1));
    let late = abandoned(attempt(0, world.ask("trip", "hello")));
    assert_ne!(running(world.admit(&world.two, late).await).turn, retry.turn);
}
