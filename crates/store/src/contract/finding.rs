//! Reading one message by its id.

use std::sync::Arc;

use herma_model::provenance::CompactionMode::{InPlace, Split};
use herma_model::{KeyScope, Message, MessageId, NewMessage, Role, SessionKey, TurnState};
use uuid::Uuid;

use super::World;
use super::fixture::{finish, message, name, running};
use crate::{Admission, Extent, Scope, Store, TurnOutcome};

async fn find<S: Store>(world: &World<S>, to: &str, id: MessageId) -> Option<Arc<Message>> {
    world.two.message(&world.scope, &name(to), id).await.unwrap()
}

/// Checks that every message of a conversation is found by its id; returns how many there are.
async fn all_are_found<S: Store>(world: &World<S>, to: &str) -> usize {
    let whole = world.read_as(to, Extent::Whole).await.unwrap().messages;
    for said in &whole {
        assert_eq!(find(world, to, said.id).await.as_ref(), Some(said));
    }
    whole.len()
}

pub async fn a_message_is_found_wherever_it_was_said<S: Store>(world: &World<S>) {
    let first = world.talk(&world.one, "trip", "first", "one").await;
    world.compact(&world.one, "trip", Split, "so far").await;
    let mut turn = world.start(&world.one, "trip", "second").await;
    assert_eq!(all_are_found(world, "trip").await, 3, "also while a turn runs");
    world.compact_during(&world.one, &mut turn, Split, "and then").await;
    world.answer(&world.one, &turn, "two").await;
    world.compact(&world.one, "trip", InPlace, "at last").await;
    world.talk(&world.one, "trip", "third", "three").await;
    assert_eq!(all_are_found(world, "trip").await, 6);
    assert_eq!(all_are_found(world, first.facts.id.to_string().as_str()).await, 6);
}

pub async fn messages_with_random_ids_are_found_too<S: Store>(world: &World<S>) {
    let turn = running(
        world
            .admit(&world.one, Admission { messages: vec![message(Role::User, "first")], ..world.ask("trip", "") })
            .await,
    );
    let messages = vec![message(Role::Assistant, "one"), message(Role::Assistant, "more")];
    world.one.commit(world.commit(&turn, TurnOutcome::Completed { messages, finish: finish() })).await.unwrap();
    world.compact(&world.one, "trip", Split, "so far").await;
    let branch = world.branch(&world.one, turn.turn, "instead", "fine").await;
    assert_eq!(all_are_found(world, "trip").await, 3);
    assert_eq!(all_are_found(world, &branch.facts.id.to_string()).await, 5);
}

pub async fn an_attempt_has_messages_of_its_turn<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "question").await;
    let shown = world.leave(&world.one, &first, TurnState::Failed, Some("we")).await;
    assert_eq!(shown.messages[0].id, MessageId::answered(first.turn, 1, 0));
    let mut ask = Admission { retry_of: Some(first.turn), ..world.ask("trip", "and more") };
    let second = NewMessage { id: MessageId::brought(ask.turn, 1, 1), ..message(Role::User, "even more") };
    ask.messages.push(second);
    let second = running(world.admit(&world.two, ask).await);
    let brought: Vec<MessageId> = second.messages.iter().map(|said| said.id).collect();
    assert_eq!(brought, [MessageId::brought(first.turn, 2, 0), MessageId::brought(first.turn, 2, 1)]);
    assert_eq!(all_are_found(world, "trip").await, 4);
    world.two.retract(second.lease).await.unwrap();
    assert!(find(world, "trip", brought[0]).await.is_none(), "its turn was retracted");
    let third = running(
        world.admit(&world.two, Admission { retry_of: Some(first.turn), ..world.ask("trip", "and more") }).await,
    );
    world.answer(&world.two, &third, "well").await;
    assert_eq!(all_are_found(world, "trip").await, 4);
}

pub async fn the_partial_answer_of_a_gone_owner_has_the_id_of_its_answer<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "first").await;
    world.leave(&world.one, &first, TurnState::Failed, None).await;
    let again = Admission { retry_of: Some(first.turn), messages: Vec::new(), ..world.ask("trip", "") };
    let again = running(world.admit(&world.one, again).await);
    world.one.journal(again.lease, super::fixture::noted("it was"));
    world.one.close().await;
    world.talk(&world.two, "trip", "second", "two").await;
    let whole = world.read_as("trip", Extent::Whole).await.unwrap().messages;
    assert_eq!(whole[1].id, MessageId::answered(first.turn, 2, 0));
    assert_eq!(all_are_found(world, "trip").await, 4);
}

pub async fn a_branch_has_the_messages_it_inherited<S: Store>(world: &World<S>) {
    let first = world.talk(&world.one, "trip", "first", "one").await;
    let second = world.talk(&world.one, "trip", "second", "two").await;
    let branch = world.branch(&world.one, first.turn, "instead", "fine").await;
    let further = world.branch(&world.one, branch.turn, "or", "so").await;
    let (to, further) = (branch.facts.id.to_string(), further.facts.id.to_string());
    assert_eq!(all_are_found(world, &to).await, 4);
    assert_eq!(all_are_found(world, &further).await, 6);
    for id in [second.messages[0].id, MessageId::answered(second.turn, 1, 0)] {
        assert!(find(world, &to, id).await.is_none(), "it comes after the branch point");
    }
    assert!(find(world, "trip", branch.messages[0].id).await.is_none(), "the source has no messages of a branch");
}

pub async fn what_was_not_said_here_is_not_found<S: Store>(world: &World<S>) {
    let turn = world.talk(&world.one, "trip", "first", "one").await;
    let other = world.talk(&world.one, "train", "second", "two").await;
    let summary = world.compact(&world.one, "trip", Split, "so far").await.summary().unwrap().id;
    let unknown = [
        other.messages[0].id,
        summary,
        MessageId::from_uuid(Uuid::now_v7()),
        MessageId::brought(turn.turn, 1, 1),
        MessageId::brought(turn.turn, 2, 0),
        MessageId::from_uuid(turn.turn.uuid()),
    ];
    for id in unknown {
        assert!(find(world, "trip", id).await.is_none(), "{id}");
    }
    assert!(find(world, "nowhere", turn.messages[0].id).await.is_none());
}

pub async fn a_message_is_hidden_from_other_callers<S: Store>(world: &World<S>) {
    let key = SessionKey::parse("mine").ok();
    let ask = Admission { session_key: key, ..world.ask("trip", "first") };
    let turn = running(world.admit(&world.one, ask).await);
    world.answer(&world.one, &turn, "one").await;
    let id = turn.messages[0].id;
    let none = Scope { keys: KeyScope::parse(Some("other")), ..world.scope.clone() };
    for scope in [&world.stranger, &none] {
        assert!(world.two.message(scope, &name("trip"), id).await.unwrap().is_none());
    }
    let own = Admission { scope: world.stranger.clone(), ..world.ask("trip", "first") };
    let own = running(world.admit(&world.one, own).await);
    assert!(world.two.message(&world.stranger, &name("trip"), id).await.unwrap().is_none());
    assert!(world.two.message(&world.stranger, &name("trip"), own.messages[0].id).await.unwrap().is_some());
}
