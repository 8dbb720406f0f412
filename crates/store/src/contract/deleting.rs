//! Deleting a conversation leaves nothing behind.

use std::sync::Arc;

use herma_model::alias::Namespace;
use herma_model::provenance::CompactionMode::{InPlace, Split};
use herma_model::{KeyScope, Resolution, SessionKey, TurnState};

use super::World;
use super::fixture::{name, noted, queued, running, texts};
use super::idempotency::with_key;
use crate::{
    Admission, AdmitOutcome, Children, DeleteOutcome, Extent, ListFilter, NewResponse, Pin, Refusal, Running, Scope,
    Store, StoreError, Target,
};

impl<S: Store> World<S> {
    /// Deletes a conversation and keeps its children.
    pub async fn delete(&self, to: &str) -> DeleteOutcome {
        self.one.delete(&self.scope, &name(to), Children::Keep, self.now()).await.unwrap()
    }

    /// Checks that every way of reading by this name finds nothing.
    pub async fn leads_nowhere(&self, to: &str) {
        for extent in [Extent::View, Extent::Whole, Extent::Session] {
            assert!(self.read_as(to, extent).await.is_none(), "{to}");
        }
        assert!(self.row(to).await.is_none(), "{to}");
        assert!(self.two.compactions(&self.scope, &name(to), None, 10).await.unwrap().is_none(), "{to}");
    }
}

fn as_response(ask: Admission) -> Admission {
    Admission { response: Some(NewResponse { echo: Arc::from("{}"), kept: true, visible_while_queued: false }), ..ask }
}

/// Makes a conversation of two sessions, with a response that failed and one that was answered.
async fn eventful_conversation<S: Store>(world: &World<S>, to: &str) -> [Running; 2] {
    let failed = running(world.admit(&world.one, as_response(world.ask(to, "first"))).await);
    world.leave(&world.one, &failed, TurnState::Failed, Some("we")).await;
    let answered = running(world.admit(&world.one, as_response(world.ask(to, "second"))).await);
    world.answer(&world.one, &answered, "two").await;
    let pinned = world.one.pin(&world.scope, &name(to), answered.messages[0].id, true).await.unwrap();
    assert_eq!(pinned, crate::PinOutcome::Done);
    world.compact(&world.one, to, Split, "so far").await;
    world.talk(&world.two, to, "third", "three").await;
    let done = world.compact(&world.one, to, InPlace, "and then").await;
    super::summaries::undone(world.undo(&world.one, to, done.record.id).await);
    [failed, answered]
}

pub async fn a_deleted_conversation_leaves_nothing<S: Store>(world: &World<S>) {
    let turns = eventful_conversation(world, "trip").await;
    world.talk(&world.one, "train", "hello", "hi").await;
    let kept = world.row("train").await.unwrap();
    let row = world.row("trip").await.unwrap();
    assert_eq!(world.delete("trip").await, DeleteOutcome::Deleted(row.facts.id));
    for to in ["trip", row.facts.head.id.as_str(), &row.facts.id.to_string()] {
        world.leads_nowhere(to).await;
    }
    for turn in turns {
        for to in [turn.turn.to_string(), turn.turn.as_response().to_string(), turn.turn.as_run().to_string()] {
            world.leads_nowhere(&to).await;
        }
        assert!(world.turn(turn.turn).await.is_none());
        assert!(!world.two.forget_response(&world.scope, turn.turn).await.unwrap());
        assert!(world.two.pinned(world.scope.tenant, turn.facts.id).await.unwrap().is_empty());
    }
    let rows = world.all(&world.scope).await;
    assert_eq!(format!("{rows:?}"), format!("{:?}", [kept]), "the other one is as it was");
    assert_eq!(world.delete("trip").await, DeleteOutcome::NotFound);
}

pub async fn what_a_client_named_starts_afresh<S: Store>(world: &World<S>) {
    eventful_conversation(world, "trip").await;
    let old = world.row("trip").await.unwrap();
    let chat = Target::Alias { alias: name("chat"), namespace: Namespace::ChatId, must_exist: false };
    let chatted = running(world.admit(&world.one, Admission { target: chat.clone(), ..world.ask_anew("a") }).await);
    world.answer(&world.one, &chatted, "b").await;
    for id in [old.facts.head.id.as_str(), chatted.facts.head.id.as_str()] {
        assert!(matches!(world.delete(id).await, DeleteOutcome::Deleted(_)));
    }
    let fresh = world.talk(&world.two, "trip", "hello", "hi").await;
    assert_eq!(fresh.resolution, Resolution::Created);
    assert_ne!(fresh.facts.id, old.facts.id);
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["hello", "hi"]);
    let row = world.row("trip").await.unwrap();
    assert_eq!((row.facts.compaction_count, row.turn_count, row.message_count), (0, 1, 2));
    let again = running(world.admit(&world.one, Admission { target: chat, ..world.ask_anew("c") }).await);
    assert_eq!((again.resolution, again.facts.id == chatted.facts.id), (Resolution::Created, false));
    world.leads_nowhere(&old.facts.id.to_string()).await;
    world.leads_nowhere(old.facts.head.id.as_str()).await;
}

pub async fn an_empty_conversation_is_deleted<S: Store>(world: &World<S>) {
    for alias in [Some("trip"), None] {
        let row = world.make(&world.one, alias).await;
        assert_eq!(world.delete(row.facts.head.id.as_str()).await, DeleteOutcome::Deleted(row.facts.id));
        world.leads_nowhere(row.facts.head.id.as_str()).await;
    }
    world.make(&world.two, Some("trip")).await;
    assert_eq!(world.all(&world.scope).await.len(), 1);
}

pub async fn a_busy_conversation_is_not_deleted<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let turn = world.start(&world.two, "trip", "second").await;
    let before = world.read("trip").await.unwrap();
    assert_eq!(world.delete("trip").await, DeleteOutcome::Busy(turn.turn));
    let after = world.read("trip").await.unwrap();
    assert_eq!((after.version, &after.messages), (before.version, &before.messages));
    world.answer(&world.two, &turn, "two").await;
    assert_eq!(world.delete("trip").await, DeleteOutcome::Deleted(turn.facts.id));
    assert_eq!(world.try_answer(&world.two, &turn, "late").await.unwrap_err(), StoreError::Fenced);
    assert_eq!(world.two.retract(turn.lease).await.unwrap_err(), StoreError::Fenced);
    world.two.journal(turn.lease, noted("late"));
    world.two.mark_delivered(world.scope.tenant, turn.turn);
    world.settle(&world.two).await;
    assert!(world.all(&world.scope).await.is_empty());
}

pub async fn waiting_turns_keep_a_conversation_from_being_deleted<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "first").await;
    let second = world.queue(&world.two, world.ask("trip", "second")).await;
    world.answer(&world.one, &first, "one").await;
    assert_eq!(world.delete("trip").await, DeleteOutcome::Busy(second.turn));
    let second = running(world.admit(&world.two, second).await);
    world.answer(&world.two, &second, "two").await;
    let third = world.start(&world.one, "trip", "third").await;
    let given_up = world.queue(&world.two, world.ask("trip", "given up")).await;
    world.answer(&world.one, &third, "three").await;
    world.withdraw(&world.two, &world.scope, given_up.turn).await;
    assert_eq!(world.delete("trip").await, DeleteOutcome::Deleted(first.facts.id));
    assert!(world.all(&world.scope).await.is_empty());
}

pub async fn a_gone_owners_turns_go_with_their_conversation<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "first").await;
    world.one.journal(first.lease, noted("it was"));
    let waiting = world.queue(&world.one, world.ask("trip", "second")).await;
    world.queue(&world.one, world.ask("trip", "third")).await;
    world.one.close().await;
    let outcome = world.two.delete(&world.scope, &name("trip"), Children::Keep, world.now()).await.unwrap();
    assert_eq!(outcome, DeleteOutcome::Deleted(first.facts.id));
    for turn in [first.turn, waiting.turn] {
        assert!(world.turn(turn).await.is_none());
    }
    assert_eq!(world.try_answer(&world.two, &first, "late").await.unwrap_err(), StoreError::Fenced);
    assert!(world.all(&world.scope).await.is_empty());
    let fresh = world.start(&world.two, "trip", "afresh").await;
    assert_eq!(fresh.resolution, Resolution::Created);
}

pub async fn what_is_not_there_is_not_deleted<S: Store>(world: &World<S>) {
    let key = Admission { session_key: SessionKey::parse("mine").ok(), ..world.ask("trip", "first") };
    let turn = running(world.admit(&world.one, key).await);
    world.answer(&world.one, &turn, "one").await;
    assert_eq!(world.delete("nowhere").await, DeleteOutcome::NotFound);
    let none = Scope { keys: KeyScope::parse(Some("other")), ..world.scope.clone() };
    for scope in [&world.stranger, &none] {
        for to in ["trip", &turn.facts.id.to_string(), &turn.turn.to_string()] {
            let outcome = world.one.delete(scope, &name(to), Children::Keep, world.now()).await.unwrap();
            assert_eq!(outcome, DeleteOutcome::NotFound);
        }
    }
    let own = Admission { scope: world.stranger.clone(), ..world.ask("trip", "theirs") };
    let own = running(world.admit(&world.one, own).await);
    world.answer(&world.one, &own, "fine").await;
    assert_eq!(world.delete("trip").await, DeleteOutcome::Deleted(turn.facts.id));
    let row = world.two.conversation(&world.stranger, &name("trip"), Pin::Head).await.unwrap().unwrap();
    assert_eq!((row.facts.id, row.message_count), (own.facts.id, 2));
}

pub async fn idempotency_keys_of_deleted_turns_are_free<S: Store>(world: &World<S>) {
    for inherited in [false, true] {
        let first = running(world.admit(&world.one, with_key(world.ask("trip", "pay"), 1)).await);
        world.answer(&world.one, &first, "paid").await;
        if inherited {
            world.branch(&world.one, first.turn, "instead", "fine").await;
        }
        world.delete("trip").await;
        let other = with_key(world.ask("trip", "pay something else"), 2);
        let second = running(world.admit(&world.two, other).await);
        assert_eq!(second.resolution, Resolution::Created);
        world.answer(&world.two, &second, "paid").await;
        world.delete("trip").await;
    }
}

pub async fn a_retry_joins_nothing_that_was_deleted<S: Store>(world: &World<S>) {
    for (answered, inherited) in [(true, false), (false, false), (true, true)] {
        let ask = world.ask_anew("hello");
        let first = running(world.admit(&world.one, ask.clone()).await);
        if answered {
            world.answer(&world.one, &first, "hi").await;
        } else {
            world.leave(&world.one, &first, TurnState::Failed, None).await;
        }
        if inherited {
            world.branch(&world.one, first.turn, "instead", "fine").await;
        }
        world.delete(&first.facts.id.to_string()).await;
        let mut again = Admission { turn: world.ask_anew("").turn, ..ask };
        again.retry.sdk_attempt = 1;
        again.creation = world.ask_anew("").creation;
        let again = running(world.admit(&world.two, again).await);
        assert_ne!((again.turn, again.facts.id), (first.turn, first.facts.id));
    }
}

pub async fn history_that_was_deleted_is_stale<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let mut ask = world.ask("trip", "second");
    ask.seen = world.seen(&world.two, &ask).await;
    world.delete("trip").await;
    assert!(matches!(world.two.admit(ask.clone()).await.unwrap(), AdmitOutcome::Stale));
    world.talk(&world.one, "trip", "other", "one").await;
    assert!(matches!(world.two.admit(ask.clone()).await.unwrap(), AdmitOutcome::Stale));
    world.delete("trip").await;
    let strict = Target::Alias { alias: name("trip"), namespace: Namespace::Session, must_exist: true };
    let strict = Admission { target: strict, ..world.ask("trip", "third") };
    assert_eq!(super::fixture::refused(world.admit(&world.two, strict).await), Refusal::NotFound);
    let fresh = running(world.admit(&world.two, ask).await);
    assert_eq!(fresh.resolution, Resolution::Created);
}

pub async fn of_simultaneous_deletions_one_happens<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..16 {
        let world = world.clone();
        clients.spawn(async move {
            let store = if number % 2 == 0 { &world.one } else { &world.two };
            store.delete(&world.scope, &name("trip"), Children::Keep, world.now()).await.unwrap()
        });
    }
    let outcomes = clients.join_all().await;
    let deleted = outcomes.iter().filter(|outcome| matches!(outcome, DeleteOutcome::Deleted(_))).count();
    let not_found = outcomes.iter().filter(|outcome| **outcome == DeleteOutcome::NotFound).count();
    assert_eq!((deleted, not_found), (1, 15));
}

pub async fn deletions_and_turns_at_once_leave_whole_conversations<S: Store>(world: &World<S>) {
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..8 {
        let world = world.clone();
        clients.spawn(async move {
            let store = if number % 2 == 0 { &world.one } else { &world.two };
            for _ in 0..5 {
                if number < 6 {
                    let ask = Admission { policy: crate::TurnPolicy::Reject, ..world.ask("trip", "question") };
                    match world.admit(store, ask).await {
                        AdmitOutcome::Running(turn) => drop(world.answer(store, &turn, "answer").await),
                        AdmitOutcome::Refused(Refusal::Busy(_)) => {}
                        other => panic!("{other:?}"),
                    }
                } else {
                    store.delete(&world.scope, &name("trip"), Children::Keep, world.now()).await.unwrap();
                }
            }
        });
    }
    clients.join_all().await;
    let filter = ListFilter { limit: 10, ..ListFilter::default() };
    let rows = world.one.conversations(&world.scope, filter).await.unwrap().rows;
    assert!(rows.len() <= 1, "a name leads to one conversation");
    let last = world.start(&world.one, "trip", "last").await;
    assert_eq!(last.resolution == Resolution::Created, rows.is_empty());
    queued(world.admit(&world.two, world.ask("trip", "and more")).await);
}
