//! The outbox of an outside memory provider: what is handed over, in which order, by whom, and what erasures do to it.

use std::sync::Arc;
use std::time::Duration;

use herma_model::{Recall, RecallStatus, Role, SessionKey, TurnState};

use super::World;
use super::fixture::{finish, message, name, running};
use crate::{
    AskedBy, Children, Commit, Delivery, DeliveryOutcome, DeliveryTask, EraseOutcome, Erasure, ErasureReceipt, Facts,
    Running, Store, TenantName, TurnOutcome,
};

fn key(text: &str) -> SessionKey {
    SessionKey::parse(text).unwrap()
}

/// A turn under a session key, without its end.
async fn begun<S: Store>(world: &World<S>, about: &str, to: &str, question: &str) -> Running {
    let mut admission = world.ask(to, question);
    admission.session_key = Some(key(about));
    running(world.admit(&world.one, admission).await)
}

/// A completed turn under a session key.
async fn said<S: Store>(world: &World<S>, about: &str, to: &str, question: &str, recorded: bool) -> Running {
    let turn = begun(world, about, to, question).await;
    let messages = vec![message(Role::Assistant, "I see")];
    let commit = world.commit(&turn, TurnOutcome::Completed { messages, finish: finish() });
    let recall = Arc::new(Recall::without_block(RecallStatus::Nothing, recorded));
    world.one.commit(Commit { recall: Some(recall), ..commit }).await.unwrap();
    turn
}

async fn next<S: Store>(world: &World<S>, store: &S) -> Option<Delivery> {
    store.next_delivery(world.now()).await.unwrap()
}

/// The texts of a delivery, with their speakers.
fn texts(delivery: &Delivery) -> Vec<(Role, &str)> {
    let DeliveryTask::Record(_, turns) = &delivery.task else { panic!("{delivery:?}") };
    turns.iter().flat_map(|turn| &turn.messages).map(|message| (message.role, message.text.as_str())).collect()
}

async fn settle<S: Store>(world: &World<S>, store: &S, delivery: &Delivery, outcome: DeliveryOutcome) -> bool {
    store.settle_delivery(delivery.claim, outcome, world.now()).await.unwrap()
}

async fn deliver_all<S: Store>(world: &World<S>) -> Vec<Delivery> {
    let mut all = Vec::new();
    while let Some(delivery) = next(world, &world.one).await {
        assert!(settle(world, &world.one, &delivery, DeliveryOutcome::Done).await);
        all.push(delivery);
    }
    all
}

async fn erase<S: Store>(world: &World<S>, what: Erasure) -> ErasureReceipt {
    match world.one.erase(&world.scope, what, AskedBy(None), world.now()).await.unwrap() {
        EraseOutcome::Erased(receipt) => receipt,
        other => panic!("{other:?}"),
    }
}

async fn erase_conversation<S: Store>(world: &World<S>, to: &str) -> ErasureReceipt {
    erase(world, Erasure::Conversation(name(to), Children::Keep, Facts::Erase)).await
}

/// What a receipt says is pending, without the files of the store itself.
async fn pending<S: Store>(world: &World<S>, receipt: ErasureReceipt) -> u64 {
    world
        .one
        .backlog()
        .await
        .map(|backlog| backlog.erasures)
        .unwrap()
        .min(world.two.erasure(&world.scope, AskedBy(None), receipt.id).await.unwrap().unwrap().pending)
}

pub async fn a_completed_turn_is_handed_over_with_its_commit<S: Store>(world: &World<S>) {
    said(world, "ann", "before", "not yet", true).await;
    world.one.use_outbox();
    let turn = said(world, "ann", "trip", "my dog is Bello", true).await;
    said(world, "ann", "secret", "nobody must know", false).await;
    world.talk(&world.one, "keyless", "hello", "hi").await;
    let failed = begun(world, "ann", "failed", "and this?").await;
    world.leave(&world.one, &failed, TurnState::Failed, Some("half an answer")).await;
    let delivery = next(world, &world.two).await.unwrap();
    assert_eq!(texts(&delivery), [(Role::User, "my dog is Bello"), (Role::Assistant, "I see")]);
    let DeliveryTask::Record(conversation, turns) = &delivery.task else { panic!() };
    assert_eq!((*conversation, turns[0].turn), (turn.facts.id, turn.turn));
    assert_eq!((delivery.tenant, delivery.session_key.as_ref()), (world.scope.tenant, Some(&key("ann"))));
    assert!(!delivery.is_repeated && settle(world, &world.two, &delivery, DeliveryOutcome::Done).await);
    assert_eq!(next(world, &world.two).await, None);
    let backlog = world.one.backlog().await.unwrap();
    assert_eq!((backlog.turns, backlog.erasures, backlog.dropped), (0, 0, 0));
    assert!(backlog.delivered_at.is_some());
}

pub async fn what_waits_for_a_key_goes_in_order_and_by_one_process<S: Store>(world: &World<S>) {
    world.one.use_outbox();
    for (to, question) in [("one", "first"), ("one", "second"), ("two", "third"), ("one", "fourth")] {
        said(world, "ann", to, question, true).await;
    }
    said(world, "bob", "bobs", "of another key", true).await;
    let first = next(world, &world.one).await.unwrap();
    assert_eq!(texts(&first).iter().filter(|(role, _)| *role == Role::User).count(), 2, "one conversation at a time");
    let other = next(world, &world.two).await.unwrap();
    assert_eq!(texts(&other)[0].1, "of another key", "keys do not wait for each other");
    assert_eq!(next(world, &world.two).await, None, "the key is being delivered");
    assert_eq!(next(world, &world.one).await, None);
    assert!(settle(world, &world.one, &first, DeliveryOutcome::Done).await);
    assert!(settle(world, &world.two, &other, DeliveryOutcome::Done).await);
    let rest: Vec<String> = deliver_all(world).await.iter().map(|one| texts(one)[0].1.to_owned()).collect();
    assert_eq!(rest, ["third", "fourth"]);
}

pub async fn a_delivery_that_failed_is_repeated_after_its_pause<S: Store>(world: &World<S>) {
    world.one.use_outbox();
    said(world, "ann", "trip", "hello", true).await;
    let first = next(world, &world.one).await.unwrap();
    let at = world.now().plus(Duration::from_secs(60));
    assert!(settle(world, &world.one, &first, DeliveryOutcome::Later(at, "it is down".to_owned())).await);
    said(world, "ann", "trip", "are you there?", true).await;
    assert_eq!(next(world, &world.two).await, None, "what comes later waits too");
    let backlog = world.two.backlog().await.unwrap();
    assert_eq!((backlog.turns, backlog.error.map(|(_, why)| why).as_deref()), (2, Some("it is down")));
    world.advance_clock(Duration::from_secs(90));
    let again = next(world, &world.two).await.unwrap();
    assert_eq!((again.is_repeated, again.failures, &again.task), (true, 1, &first.task));
    assert!(settle(world, &world.two, &again, DeliveryOutcome::Done).await);
    assert_eq!(texts(&deliver_all(world).await[0])[0].1, "are you there?");
    assert_eq!(world.two.backlog().await.unwrap().error, None);
}

pub async fn a_lease_that_was_lost_settles_nothing<S: Store>(world: &World<S>) {
    world.one.use_outbox();
    said(world, "ann", "trip", "hello", true).await;
    let first = next(world, &world.one).await.unwrap();
    world.advance_clock(Delivery::LEASE + Duration::from_secs(1));
    let second = next(world, &world.two).await.unwrap();
    assert!(second.is_repeated);
    assert!(!settle(world, &world.one, &first, DeliveryOutcome::Done).await);
    assert_eq!(world.one.backlog().await.unwrap().turns, 1);
    assert!(settle(world, &world.two, &second, DeliveryOutcome::Done).await);
    assert_eq!(world.one.backlog().await.unwrap().turns, 0);
}

pub async fn a_turn_that_is_refused_is_given_up_and_an_erasure_is_not<S: Store>(world: &World<S>) {
    world.one.use_outbox();
    said(world, "ann", "trip", "hello", true).await;
    let refused = || DeliveryOutcome::Refused(world.now(), "too long".to_owned());
    let delivery = next(world, &world.one).await.unwrap();
    assert!(settle(world, &world.one, &delivery, refused()).await);
    let backlog = world.one.backlog().await.unwrap();
    assert_eq!((backlog.turns, backlog.dropped), (0, 1));
    let receipt = erase_conversation(world, "trip").await;
    let delivery = next(world, &world.one).await.unwrap();
    assert!(settle(world, &world.one, &delivery, refused()).await);
    assert_eq!(pending(world, receipt).await, 1);
    assert_eq!(deliver_all(world).await.len(), 1);
    assert_eq!(pending(world, receipt).await, 0);
}

pub async fn what_is_erased_is_not_delivered_and_its_erasure_is<S: Store>(world: &World<S>) {
    world.one.use_outbox();
    let erased = said(world, "ann", "trip", "my dog is Bello", true).await;
    said(world, "ann", "other", "my cat is Minka", true).await;
    let receipt = erase_conversation(world, "trip").await;
    assert!(receipt.pending > 1, "the files, and the provider: {receipt:?}");
    let unknown = world.two.erased_not_delivered(world.scope.tenant, &key("ann")).await.unwrap();
    assert_eq!((unknown.everything, unknown.conversations), (false, vec![erased.facts.id]));
    let all = deliver_all(world).await;
    assert_eq!(texts(&all[0])[0].1, "my cat is Minka", "nothing of the erased conversation");
    assert_eq!(all[1].task, DeliveryTask::EraseConversation(erased.facts.id));
    assert_eq!((all.len(), pending(world, receipt).await), (2, 0));
    assert_eq!(world.two.erased_not_delivered(world.scope.tenant, &key("ann")).await.unwrap(), Default::default());
    let before = said(world, "ann", "unsent", "hello", false).await;
    erase_conversation(world, "unsent").await;
    assert_eq!(next(world, &world.one).await, None, "the provider does not know {:?}", before.facts.id);
}

pub async fn an_erasure_comes_after_what_is_on_its_way<S: Store>(world: &World<S>) {
    world.one.use_outbox();
    said(world, "ann", "trip", "my dog is Bello", true).await;
    let sending = next(world, &world.two).await.unwrap();
    let receipt = erase_conversation(world, "trip").await;
    assert_eq!(next(world, &world.one).await, None, "the erasure waits for the delivery");
    assert!(settle(world, &world.two, &sending, DeliveryOutcome::Done).await);
    assert_eq!(pending(world, receipt).await, 1);
    assert!(matches!(deliver_all(world).await[0].task, DeliveryTask::EraseConversation(_)));
    assert_eq!(pending(world, receipt).await, 0);
}

pub async fn the_erasure_of_a_key_also_ends_what_was_held<S: Store>(world: &World<S>) {
    world.one.use_outbox();
    for to in ["one", "two"] {
        said(world, "ann", to, "hello", true).await;
    }
    deliver_all(world).await;
    let held = erase_conversation(world, "one").await;
    let delivery = next(world, &world.one).await.unwrap();
    assert!(settle(world, &world.one, &delivery, DeliveryOutcome::Held).await);
    assert_eq!((next(world, &world.one).await, pending(world, held).await), (None, 1));
    erase_conversation(world, "two").await;
    deliver_all(world).await;
    let whole = erase(world, Erasure::SessionKey(key("ann"))).await;
    assert!(world.one.erased_not_delivered(world.scope.tenant, &key("ann")).await.unwrap().everything);
    let all = deliver_all(world).await;
    assert_eq!(all.iter().map(|one| &one.task).collect::<Vec<_>>(), [&DeliveryTask::EraseKey]);
    assert_eq!((pending(world, held).await, pending(world, whole).await), (0, 0));
    let again = world.one.erase(&world.scope, Erasure::SessionKey(key("ann")), AskedBy(None), world.now()).await;
    assert_eq!(again.unwrap(), EraseOutcome::NotFound, "the provider does not know the key any more");
}

pub async fn the_erasure_of_a_tenant_spares_what_is_said_after_it<S: Store>(world: &World<S>) {
    world.one.use_outbox();
    said(world, "ann", "trip", "my dog is Bello", true).await;
    let sending = next(world, &world.two).await.unwrap();
    erase(world, Erasure::Tenant(TenantName::Keep)).await;
    said(world, "bob", "new", "a new beginning", true).await;
    assert_eq!(next(world, &world.one).await, None, "the erasure waits for what is on its way, and new turns for it");
    assert!(settle(world, &world.two, &sending, DeliveryOutcome::Done).await);
    let erasure = next(world, &world.one).await.unwrap();
    assert_eq!((&erasure.task, &erasure.session_key), (&DeliveryTask::EraseTenant, &None));
    assert!(settle(world, &world.one, &erasure, DeliveryOutcome::Done).await);
    world.advance_clock(Duration::from_secs(10));
    assert_eq!(texts(&deliver_all(world).await[0])[0].1, "a new beginning");
}

pub async fn a_store_keeps_its_name<S: Store>(world: &World<S>) {
    let name = world.one.store_name().await.unwrap();
    assert_eq!(world.two.store_name().await.unwrap(), name);
    assert!(name.len() == 16 && name.bytes().all(|letter| letter.is_ascii_hexdigit()), "{name}");
}
