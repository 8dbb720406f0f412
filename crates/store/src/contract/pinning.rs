//! Pinned messages, which every compaction keeps word for word.

use std::collections::HashSet;
use std::sync::Arc;

use herma_model::limits::MAX_PINNED;
use herma_model::provenance::CompactionMode::{InPlace, Split};
use herma_model::{CallId, Message, MessageId, NewMessage, Role, Seq};

use super::World;
use super::fixture::{finish, message, name, running};
use super::summaries::{compacted, shown};
use crate::{Extent, MessageRange, NewCompaction, Order, Pin, PinOutcome, Store, TurnOutcome};

async fn pin<S: Store>(world: &World<S>, said: &Message, pinned: bool) -> PinOutcome {
    world.one.pin(&world.scope, &name("trip"), said.id, pinned).await.unwrap()
}

async fn pinned<S: Store>(world: &World<S>) -> Vec<i64> {
    let row = world.row("trip").await.unwrap();
    let kept = world.two.pinned(world.scope.tenant, row.facts.id).await.unwrap();
    let places: Vec<i64> = kept.iter().map(|said| said.seq.0).collect();
    let range = MessageRange { order: Order::OldestFirst { after: None }, limit: 1000, pin: Pin::Head };
    let page = world.two.messages(&world.scope, &name("trip"), range).await.unwrap().unwrap();
    let marked: HashSet<Seq> = places.iter().copied().map(Seq).collect();
    assert_eq!(page.pinned, marked, "the full view says the same");
    places
}

pub(super) fn with_calls(role: Role, text: &str, calls: &[&str]) -> NewMessage {
    let mut message = message(role, text);
    message.said.calls = calls.iter().map(|call| CallId::from(*call)).collect();
    message
}

pub async fn a_message_is_pinned_until_it_is_let_go<S: Store>(world: &World<S>) {
    let turn = world.talk(&world.one, "trip", "first", "one").await;
    let version = world.read("trip").await.unwrap().version;
    let first = Arc::clone(&turn.messages[0]);
    for _ in 0..2 {
        assert_eq!(pin(world, &first, true).await, PinOutcome::Done);
        assert_eq!(pinned(world).await, [1]);
    }
    let range = MessageRange { order: Order::OldestFirst { after: Some(Seq(1)) }, limit: 10, pin: Pin::Head };
    let page = world.two.messages(&world.scope, &name("trip"), range).await.unwrap().unwrap();
    assert!(page.pinned.is_empty(), "a page has only its own pins");
    for _ in 0..2 {
        assert_eq!(pin(world, &first, false).await, PinOutcome::Done);
        assert!(pinned(world).await.is_empty());
    }
    assert_eq!(world.read("trip").await.unwrap().version, version);
}

pub async fn what_was_not_said_is_not_pinned<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let elsewhere = world.talk(&world.one, "train", "second", "two").await;
    let summary = world.compact(&world.one, "trip", Split, "so far").await.summary().unwrap().id;
    for id in [elsewhere.messages[0].id, summary, MessageId::from_uuid(uuid::Uuid::now_v7())] {
        for asked in [true, false] {
            let outcome = world.one.pin(&world.scope, &name("trip"), id, asked).await.unwrap();
            assert_eq!(outcome, PinOutcome::NotFound);
        }
    }
    let outcome = world.one.pin(&world.scope, &name("nowhere"), elsewhere.messages[0].id, true).await.unwrap();
    assert_eq!(outcome, PinOutcome::NotFound);
}

pub async fn a_call_and_its_results_are_pinned_together<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "look").await;
    let messages = vec![with_calls(Role::Assistant, "calling", &["a", "b"])];
    world.one.commit(world.commit(&turn, TurnOutcome::Completed { messages, finish: finish() })).await.unwrap();
    world.compact(&world.one, "trip", Split, "so far").await;
    let mut ask = world.ask("trip", "");
    ask.messages = vec![with_calls(Role::Tool, "A", &["a"]), with_calls(Role::Tool, "B", &["b"])];
    let turn = running(world.admit(&world.one, ask).await);
    let messages = vec![
        with_calls(Role::Assistant, "once more", &["a"]),
        with_calls(Role::Tool, "A again", &["a"]),
        message(Role::Assistant, "done"),
    ];
    world.one.commit(world.commit(&turn, TurnOutcome::Completed { messages, finish: finish() })).await.unwrap();
    let whole = world.read_as("trip", Extent::Whole).await.unwrap().messages;
    let places: Vec<i64> = whole.iter().map(|said| said.seq.0).collect();
    assert_eq!(places, [1, 2, 4, 5, 6, 7, 8]);
    for (number, group) in
        [(0, [1].as_slice()), (1, &[2, 4, 5]), (2, &[2, 4, 5]), (3, &[2, 4, 5]), (4, &[6, 7]), (5, &[6, 7]), (6, &[8])]
    {
        assert_eq!(pin(world, &whole[number], true).await, PinOutcome::Done);
        assert_eq!(pinned(world).await, group);
        assert_eq!(pin(world, &whole[number], false).await, PinOutcome::Done);
        assert!(pinned(world).await.is_empty());
    }
}

pub async fn only_so_many_are_pinned<S: Store>(world: &World<S>) {
    let mut ask = world.ask("trip", "0");
    ask.messages.extend((1..MAX_PINNED).map(|number| message(Role::User, &number.to_string())));
    let turn = running(world.admit(&world.one, ask).await);
    let messages = vec![with_calls(Role::Assistant, "calling", &["a"]), with_calls(Role::Tool, "A", &["a"])];
    let finish = finish();
    let answer = world.one.commit(world.commit(&turn, TurnOutcome::Completed { messages, finish })).await.unwrap();
    for said in &turn.messages[1..] {
        assert_eq!(pin(world, said, true).await, PinOutcome::Done);
    }
    let full = PinOutcome::TooMany { limit: MAX_PINNED };
    assert_eq!(pin(world, &answer.messages[0], true).await, full, "only half of the group would fit");
    assert_eq!(pinned(world).await.len(), MAX_PINNED - 1);
    assert_eq!(pin(world, &turn.messages[0], true).await, PinOutcome::Done);
    assert_eq!(pin(world, &answer.messages[1], true).await, full);
    assert_eq!(pin(world, &turn.messages[5], true).await, PinOutcome::Done, "it is pinned already");
    for said in &turn.messages[..2] {
        pin(world, said, false).await;
    }
    assert_eq!(pin(world, &answer.messages[1], true).await, PinOutcome::Done);
    assert_eq!(pinned(world).await.len(), MAX_PINNED);
}

pub async fn what_was_cut_off_is_not_pinned<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "first").await;
    let left = world.leave(&world.one, &turn, herma_model::TurnState::Failed, Some("part of")).await;
    assert_eq!(pin(world, &left.messages[0], true).await, PinOutcome::NotWhole);
    assert_eq!(pin(world, &left.messages[0], false).await, PinOutcome::Done);
    assert!(pinned(world).await.is_empty());
}

pub async fn what_is_pinned_stays_so_through_compactions<S: Store>(world: &World<S>) {
    let turn = world.talk(&world.one, "trip", "first", "one").await;
    pin(world, &turn.messages[0], true).await;
    for mode in [Split, InPlace, Split] {
        world.talk(&world.one, "trip", "more", "yes").await;
        let carried = pinned(world).await.into_iter().map(Seq).collect();
        let plan = NewCompaction { carried, ..world.plan("trip", mode, 1, "so far").await };
        compacted(world.one.compact(plan).await.unwrap());
        assert_eq!(shown(&world.read("trip").await.unwrap()), ["[so far]", "(first)", "yes"]);
        assert_eq!(pinned(world).await, [1]);
    }
}
