//! Erasing a conversation, a session key or a tenant: what goes, what stays, and what the receipt says.

use herma_model::{KeyScope, MemorySource};

use super::World;
use super::fixture::{name, running, texts};
use super::memories::{add, found, key, limited, talk_as};
use crate::{AskedBy, Children, EraseOutcome, Erasure, ErasureReceipt, Facts, NewMemory, Scope, Store, TenantName};

async fn erase<S: Store>(world: &World<S>, scope: &Scope, what: Erasure) -> EraseOutcome {
    world.one.erase(scope, what, AskedBy(None), world.now()).await.unwrap()
}

fn receipt(outcome: EraseOutcome) -> ErasureReceipt {
    match outcome {
        EraseOutcome::Erased(receipt) => receipt,
        other => panic!("not erased: {other:?}"),
    }
}

fn conversation(to: &str, facts: Facts) -> Erasure {
    Erasure::Conversation(name(to), Children::Keep, facts)
}

pub async fn a_receipt_counts_what_was_erased_and_what_is_left<S: Store>(world: &World<S>) {
    talk_as(world, "ann", "trip", "my dog is called Bello", "a fine name").await;
    talk_as(world, "ann", "trip", "and my cat Tom", "yes").await;
    world.talk(&world.one, "other", "hello", "hi").await;
    let trip = world.read("trip").await.unwrap().facts.id;
    let said = receipt(erase(world, &world.scope, conversation("trip", Facts::Erase)).await);
    assert_eq!(said.conversation, Some(trip));
    assert_eq!((said.removed.conversations, said.removed.messages, said.removed.turns), (1, 4, 2));
    assert_eq!((said.left, said.kept), (0, 0));
    assert!(world.read("trip").await.is_none());
    assert_eq!(texts(&world.read("other").await.unwrap()), ["hello", "hi"]);
    assert!(found(world, "ann", &["bello"], "new").await.passages.is_empty());
    let later = world.two.erasure(&world.scope, AskedBy(None), said.id).await.unwrap().unwrap();
    assert_eq!((later.removed, later.left, later.conversation), (said.removed, 0, None));
    assert_eq!(world.two.erasure(&world.stranger, AskedBy(None), said.id).await.unwrap(), None);
    assert_eq!(erase(world, &world.scope, conversation("trip", Facts::Erase)).await, EraseOutcome::NotFound);
}

pub async fn facts_go_with_their_conversation_unless_they_are_kept<S: Store>(world: &World<S>) {
    for (to, facts, removed) in [("gone", Facts::Erase, 1), ("kept", Facts::Keep, 0)] {
        talk_as(world, "ann", to, "hello", "hi").await;
        let source = world.read(to).await.unwrap().facts.id;
        let new = NewMemory {
            id: herma_model::MemoryId::from_uuid(uuid::Uuid::now_v7()),
            tenant: world.scope.tenant,
            session_key: key("ann"),
            text: format!("learnt in {to}").into(),
            source: MemorySource::Tool,
            conversation: Some(source),
            now: world.now(),
        };
        let stored = world.one.add_memory(new).await.unwrap();
        let said = receipt(erase(world, &world.scope, conversation(to, facts)).await);
        assert_eq!((said.removed.memories, said.left), (removed, 0), "{to}");
        let left = world.two.memory(&world.scope, stored.id).await.unwrap();
        assert_eq!(left.map(|fact| fact.conversation), (facts == Facts::Keep).then_some(None), "{to}");
    }
}

pub async fn what_branches_inherit_is_kept_and_counted<S: Store>(world: &World<S>) {
    let source = world.talk(&world.one, "trip", "one", "two").await;
    world.talk(&world.one, "trip", "three", "four").await;
    world.branch(&world.one, source.turn, "five", "six").await;
    let said = receipt(erase(world, &world.scope, conversation("trip", Facts::Erase)).await);
    assert_eq!((said.removed.messages, said.left, said.kept), (2, 0, 2));
    assert!(world.read("trip").await.is_none());
}

pub async fn a_session_key_is_erased_with_its_memory_and_nothing_else_is<S: Store>(world: &World<S>) {
    for to in ["one", "two"] {
        talk_as(world, "ann", to, "my dog is called Bello", "a fine name").await;
    }
    talk_as(world, "bob", "bobs", "my dog is called Rex", "a fine name").await;
    add(world, "ann", "Ann has a dog").await;
    add(world, "bob", "Bob has a dog").await;
    let everything = || Erasure::SessionKey(key("ann"));
    for scope in [&world.stranger, &limited(world, "bob*")] {
        assert_eq!(erase(world, scope, everything()).await, EraseOutcome::NotFound);
    }
    let said = receipt(erase(world, &world.scope, everything()).await);
    assert_eq!((said.removed.conversations, said.removed.messages, said.removed.memories), (2, 4, 1));
    assert_eq!((said.left, said.kept, said.conversation), (0, 0, None));
    let ann = found(world, "ann", &["dog"], "new").await;
    assert!(ann.facts.is_empty() && ann.passages.is_empty());
    let bob = found(world, "bob", &["dog"], "new").await;
    assert_eq!((bob.facts.len(), bob.passages.len()), (1, 1));
    assert_eq!(erase(world, &world.scope, everything()).await, EraseOutcome::NotFound);
}

pub async fn a_tenant_is_erased_and_others_stay<S: Store>(world: &World<S>) {
    talk_as(world, "ann", "trip", "hello", "hi").await;
    add(world, "ann", "Ann has a dog").await;
    let mut foreign = world.ask("theirs", "hello");
    foreign.scope = world.stranger.clone();
    let foreign = running(world.admit(&world.two, foreign).await);
    world.answer(&world.two, &foreign, "hi").await;
    let said = receipt(erase(world, &world.scope, Erasure::Tenant(TenantName::Keep)).await);
    assert_eq!((said.removed.conversations, said.removed.memories, said.left), (1, 1, 0));
    assert!(world.all(&world.scope).await.is_empty());
    assert_eq!(world.all(&world.stranger).await.len(), 1);
    world.talk(&world.one, "trip", "again", "yes").await;
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["again", "yes"], "the tenant is as if it were new");
}

pub async fn what_a_turn_runs_in_is_not_erased<S: Store>(world: &World<S>) {
    talk_as(world, "ann", "done", "hello", "hi").await;
    let mut admission = world.ask("busy", "hello");
    admission.session_key = Some(key("ann"));
    let turn = running(world.admit(&world.two, admission).await);
    for what in [conversation("busy", Facts::Erase), Erasure::SessionKey(key("ann"))] {
        assert_eq!(erase(world, &world.scope, what).await, EraseOutcome::Busy(turn.turn));
    }
    assert_eq!(texts(&world.read("done").await.unwrap()), ["hello", "hi"]);
    world.answer(&world.two, &turn, "hi").await;
    receipt(erase(world, &world.scope, Erasure::SessionKey(key("ann"))).await);
    let everyone = Scope { keys: KeyScope::All, ..world.scope.clone() };
    assert!(world.all(&everyone).await.is_empty());
}
