//! The current conversation of a session key.

use herma_model::alias::Namespace;
use herma_model::{Alias, EndReason, KeyScope, SessionKey, SessionKind};

use super::World;
use super::fixture::{name, queued, refused, running};
use crate::{Admission, Change, Creation, Refusal, Running, Scope, Store, Target};

fn key(text: &str) -> SessionKey {
    SessionKey::parse(text).unwrap()
}

/// A turn for the current conversation of a key.
fn ask_current<S: Store>(world: &World<S>, of: &str, text: &str) -> Admission {
    let alias = Alias::of_key(&key(of));
    let target = Target::Alias { alias, namespace: Namespace::Current, must_exist: false };
    Admission { target, session_key: Some(key(of)), ..world.ask_anew(text) }
}

/// Runs a whole turn in the current conversation of a key.
async fn talk_currently<S: Store>(world: &World<S>, of: &str) -> Running {
    let turn = running(world.admit(&world.one, ask_current(world, of, "hello")).await);
    world.answer(&world.one, &turn, "hi").await;
    turn
}

/// Runs a whole turn under a key in a named conversation.
async fn talk_in<S: Store>(world: &World<S>, to: &str, of: &str) -> Running {
    let ask = Admission { session_key: Some(key(of)), ..world.ask(to, "hello") };
    let turn = running(world.admit(&world.one, ask).await);
    world.answer(&world.one, &turn, "hi").await;
    turn
}

async fn current<S: Store>(world: &World<S>, of: &str) -> Option<herma_model::ConversationId> {
    world.two.current(&world.scope, &key(of)).await.unwrap()
}

pub async fn the_first_conversation_of_a_key_has_no_name_that_a_client_can_take<S: Store>(world: &World<S>) {
    for taken in ["current:ann", "ann", "current"] {
        world.talk(&world.one, taken, "I was here first", "so it seems").await;
    }
    assert_eq!(current(world, "ann").await, None);
    let first = talk_currently(world, "ann").await;
    assert_eq!(first.facts.session_key, Some(key("ann")));
    let row = world.row(&first.facts.id.to_string()).await.unwrap();
    assert_eq!((row.message_count, row.facts.name()), (2, None));
    assert_eq!(current(world, "ann").await, Some(first.facts.id));
    assert_eq!(talk_currently(world, "ann").await.facts.id, first.facts.id);
    assert_ne!(talk_currently(world, "conv_/bob").await.facts.id, first.facts.id);
}

pub async fn simultaneous_first_uses_of_a_key_make_one_conversation<S: Store>(world: &World<S>) {
    let first = running(world.admit(&world.one, ask_current(world, "ann", "hello")).await);
    let second = ask_current(world, "ann", "hello there");
    queued(world.two.admit(second).await.unwrap());
    assert_eq!(current(world, "ann").await, Some(first.facts.id));
    assert_eq!(world.all(&world.scope).await.len(), 1);
}

pub async fn the_current_conversation_is_the_one_that_was_used_last<S: Store>(world: &World<S>) {
    let old = talk_in(world, "old", "ann").await.facts.id;
    let new = talk_in(world, "new", "ann").await.facts.id;
    let change = Change { title: Some(Some("a title".into())), archived: Some(false), ..Change::default() };
    world.one.update(&world.scope, &name("old"), change, world.now()).await.unwrap().unwrap();
    assert_eq!(current(world, "ann").await, Some(new), "a change of the title is no use");
    assert_eq!(talk_currently(world, "ann").await.facts.id, new);
    let ask = Admission { session_key: Some(key("ann")), ..world.ask("old", "more") };
    let turn = running(world.admit(&world.one, ask).await);
    assert_eq!(current(world, "ann").await, Some(old), "a question is a use before its answer");
    world.answer(&world.one, &turn, "hi").await;
    assert_eq!(talk_currently(world, "ann").await.facts.id, old);
    world.delete("old").await;
    assert_eq!(current(world, "ann").await, Some(new));
}

pub async fn an_answer_does_not_make_its_conversation_the_current_one_again<S: Store>(world: &World<S>) {
    let asked = Admission { session_key: Some(key("ann")), ..world.ask("slow", "take your time") };
    let slow = running(world.admit(&world.one, asked).await);
    let fresh = talk_in(world, "fresh", "ann").await.facts.id;
    world.answer(&world.one, &slow, "here it is").await;
    assert_eq!(current(world, "ann").await, Some(fresh));
    assert_eq!(talk_currently(world, "ann").await.facts.id, fresh);
    assert_eq!(talk_in(world, "slow", "ann").await.facts.id, slow.facts.id);
    assert_eq!(current(world, "ann").await, Some(slow.facts.id));
}

pub async fn an_ended_conversation_is_not_the_current_one<S: Store>(world: &World<S>) {
    let first = talk_currently(world, "ann").await.facts.id;
    let id = name(&first.to_string());
    world.one.end(&world.scope, &id, EndReason::Ended, world.now()).await.unwrap();
    assert_eq!(current(world, "ann").await, None);
    let second = talk_currently(world, "ann").await.facts.id;
    assert_ne!(second, first);
    world.one.reopen(&world.scope, &id, world.now()).await.unwrap();
    assert_eq!(talk_currently(world, "ann").await.facts.id, second);
}

pub async fn what_no_person_uses_is_not_current<S: Store>(world: &World<S>) {
    let ask = ask_current(world, "ann", "count the sheep");
    let creation = Creation { kind: SessionKind::Background, ..ask.creation.clone() };
    let turn = running(world.admit(&world.one, Admission { creation, ..ask }).await);
    world.answer(&world.one, &turn, "100").await;
    assert_eq!(current(world, "ann").await, None);
    let own = talk_currently(world, "ann").await.facts;
    assert_ne!(own.id, turn.facts.id);
    assert_eq!(own.origin_kind, SessionKind::Main);
}

pub async fn a_key_that_may_not_be_used_has_no_current_conversation<S: Store>(world: &World<S>) {
    talk_currently(world, "ann").await;
    let blind = Scope { keys: KeyScope::parse(Some("bob")), ..world.scope.clone() };
    assert_eq!(world.two.current(&blind, &key("ann")).await.unwrap(), None);
    let ask = Admission { scope: blind, ..ask_current(world, "ann", "hello") };
    assert_eq!(refused(world.two.admit(ask).await.unwrap()), Refusal::NotFound);
    assert_eq!(world.two.current(&world.stranger, &key("ann")).await.unwrap(), None);
}
