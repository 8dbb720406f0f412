//! A repeated request with its idempotency key.

use herma_model::alias::Namespace;
use herma_model::{Resolution, TurnState};

use super::World;
use super::fixture::{joined, name, refused, running};
use crate::admission::Idempotency;
use crate::{Admission, AdmitOutcome, Refusal, Store, Target};

/// Puts a key and a body on a request.
pub fn with_key(mut admission: Admission, body: u8) -> Admission {
    admission.retry.idempotency =
        Some(Idempotency { scopes: [[7; 16], [8; 16]], body: [body; 16], with_stored_key: None });
    admission
}

pub async fn the_same_body_joins_a_running_turn<S: Store>(world: &World<S>) {
    let first = running(world.admit(&world.one, with_key(world.ask_anew("pay"), 1)).await);
    let again = with_key(world.ask_anew("pay"), 1);
    assert_eq!(joined(world.admit(&world.two, again.clone()).await), first.turn);
    assert!(world.turn(again.turn).await.is_none());
    assert_eq!(world.all(&world.scope).await.len(), 1);
    world.answer(&world.one, &first, "paid").await;
}

pub async fn the_same_body_joins_an_answered_turn<S: Store>(world: &World<S>) {
    for target in ["trip", "train"] {
        let key = |ask: Admission| with_key(ask, u8::try_from(target.len()).unwrap());
        let mut ask = key(world.ask(target, "pay"));
        ask.retry.idempotency.as_mut().unwrap().scopes = [[u8::try_from(target.len()).unwrap(); 16]; 2];
        let first = running(world.admit(&world.one, ask.clone()).await);
        world.answer(&world.one, &first, "paid").await;
        world.one.mark_delivered(world.scope.tenant, first.turn);
        world.settle(&world.one).await;
        for store in [&world.one, &world.two] {
            let again = Admission { turn: world.ask(target, "pay").turn, ..ask.clone() };
            assert_eq!(joined(world.admit(store, again).await), first.turn, "however often, delivered or not");
        }
        assert_eq!(world.turn(first.turn).await.unwrap().state, TurnState::Completed);
        assert_eq!(world.row(target).await.unwrap().turn_count, 1);
    }
}

pub async fn the_same_body_joins_a_waiting_turn<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "first").await;
    let waiting = world.queue(&world.one, with_key(world.ask("trip", "pay"), 1)).await;
    assert_eq!(joined(world.admit(&world.two, with_key(world.ask("trip", "pay"), 1)).await), waiting.turn);
    world.answer(&world.one, &first, "one").await;
    let second = running(world.admit(&world.one, waiting).await);
    assert_eq!(joined(world.admit(&world.two, with_key(world.ask("trip", "pay"), 1)).await), second.turn);
    world.answer(&world.one, &second, "paid").await;
}

pub async fn another_body_is_a_mismatch_and_leaves_nothing<S: Store>(world: &World<S>) {
    let first = running(world.admit(&world.one, with_key(world.ask("trip", "pay"), 1)).await);
    for _ in ["while it runs", "when it is answered"] {
        let other = with_key(world.ask("trip", "pay more"), 2);
        assert_eq!(refused(world.admit(&world.two, other.clone()).await), Refusal::IdempotencyMismatch);
        assert!(world.turn(other.turn).await.is_none());
        let _ = world.try_answer(&world.one, &first, "paid").await;
    }
    assert_eq!(world.row("trip").await.unwrap().turn_count, 1);
}

pub async fn an_unanswered_turn_is_tried_again_where_it_was<S: Store>(world: &World<S>) {
    let first = running(world.admit(&world.one, with_key(world.ask_anew("pay"), 1)).await);
    world.leave(&world.one, &first, TurnState::Failed, None).await;
    let again = with_key(world.ask_anew("pay"), 1);
    let outcome = world.admit(&world.two, again.clone()).await;
    let AdmitOutcome::RetryIn(conversation, turn) = outcome else { panic!("{outcome:?}") };
    assert_eq!((conversation, turn), (first.facts.id, first.turn));
    let alias = name(&conversation.to_string());
    let target = Target::Alias { alias, namespace: Namespace::Session, must_exist: true };
    let there = Admission { target, retry_of: Some(first.turn), messages: Vec::new(), ..again };
    let second = running(world.admit(&world.two, there).await);
    assert_eq!((second.turn, second.attempt, second.resolution), (first.turn, 2, Resolution::Head));
    assert_eq!(joined(world.admit(&world.one, with_key(world.ask_anew("pay"), 1)).await), first.turn);
    world.answer(&world.two, &second, "paid").await;
    assert_eq!(joined(world.admit(&world.one, with_key(world.ask_anew("pay"), 1)).await), first.turn);
    assert_eq!(world.all(&world.scope).await.len(), 1);
}

pub async fn a_key_is_another_tenants_own<S: Store>(world: &World<S>) {
    let mine = running(world.admit(&world.one, with_key(world.ask("trip", "pay"), 1)).await);
    world.answer(&world.one, &mine, "paid").await;
    let theirs = Admission { scope: world.stranger.clone(), ..with_key(world.ask("trip", "pay"), 2) };
    let theirs = running(world.admit(&world.two, theirs).await);
    assert_ne!(theirs.turn, mine.turn);
    world.answer(&world.two, &theirs, "paid too").await;
    assert_eq!(joined(world.admit(&world.one, with_key(world.ask("trip", "pay"), 1)).await), mine.turn);
}

pub async fn a_retracted_turn_frees_its_key<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "hello", "hi").await;
    let first = running(world.admit(&world.one, with_key(world.ask("trip", "too long"), 1)).await);
    world.one.retract(first.lease).await.unwrap();
    let second = running(world.admit(&world.two, with_key(world.ask("trip", "shorter"), 2)).await);
    let waiting = world.queue(&world.one, world.ask("trip", "next")).await;
    world.answer(&world.two, &second, "fine").await;
    world.withdraw(&world.one, &world.scope, waiting.turn).await;
}
