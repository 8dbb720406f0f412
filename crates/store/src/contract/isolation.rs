//! Isolation of tenants.

use herma_model::TurnState;
use herma_model::alias::Namespace;

use super::World;
use super::fixture::{name, refused, running, texts};
use crate::{Admission, Extent, Lease, MessageRange, Order, Pin, Refusal, Running, Store, StoreError, Target};

pub async fn the_same_name_is_another_conversation_for_another_tenant<S: Store>(world: &World<S>) {
    let mine = world.start(&world.one, "trip", "mine").await;
    let theirs = Admission { scope: world.stranger.clone(), ..world.ask("trip", "theirs") };
    let theirs = running(world.admit(&world.two, theirs).await);
    assert_ne!(theirs.facts.id, mine.facts.id);
    world.answer(&world.two, &theirs, "yes").await;
    world.answer(&world.one, &mine, "no").await;
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["mine", "no"]);
    assert_eq!(world.all(&world.scope).await.len(), 1);
    assert_eq!(world.all(&world.stranger).await.len(), 1);
}

pub async fn nothing_is_read_across_tenants<S: Store>(world: &World<S>) {
    let turn = world.talk(&world.one, "trip", "secret", "kept").await;
    let handle = turn.facts.id.to_string();
    for alias in ["trip", &handle].map(name) {
        for store in [&world.one, &world.two] {
            for namespace in [Namespace::Session, Namespace::ChatId] {
                assert!(store.open(&world.stranger, &alias, namespace, Extent::View).await.unwrap().is_none());
            }
            for pin in [Pin::Head, Pin::Exact] {
                assert!(store.conversation(&world.stranger, &alias, pin).await.unwrap().is_none());
            }
            let range = MessageRange { order: Order::OldestFirst { after: None }, limit: 10, pin: Pin::Head };
            assert!(store.messages(&world.stranger, &alias, range).await.unwrap().is_none());
            assert!(store.turn(&world.stranger, turn.turn).await.unwrap().is_none());
        }
    }
    assert!(world.all(&world.stranger).await.is_empty());
    let target = Target::Alias { alias: name(&handle), namespace: Namespace::Session, must_exist: true };
    let ask = Admission { scope: world.stranger.clone(), target, ..world.ask_anew("who is there") };
    assert_eq!(refused(world.admit(&world.two, ask).await), Refusal::NotFound);
}

pub async fn nothing_is_written_across_tenants<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "first").await;
    let waiting = world.queue(&world.one, world.ask("trip", "second")).await;
    let lease = Lease { tenant: world.stranger.tenant, ..first.lease };
    let before = world.read("trip").await.unwrap();
    let theirs = Running {
        lease,
        facts: first.facts.clone(),
        messages: Vec::new(),
        durable: crate::Receipt::durable(),
        ..first
    };
    assert_eq!(world.try_answer(&world.two, &theirs, "not yours").await.unwrap_err(), StoreError::Fenced);
    assert_eq!(world.two.retract(lease).await.unwrap_err(), StoreError::Fenced);
    world.withdraw(&world.two, &world.stranger, waiting.turn).await;
    assert_eq!(world.turn(waiting.turn).await.unwrap().state, TurnState::Queued);
    let after = world.read("trip").await.unwrap();
    assert_eq!((after.version, after.messages), (before.version, before.messages));
    let mine = Running { lease: Lease { tenant: world.scope.tenant, ..lease }, ..theirs };
    world.answer(&world.one, &mine, "one").await;
    running(world.admit(&world.one, waiting).await);
}
