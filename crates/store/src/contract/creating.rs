//! First uses of names, which make conversations.

use herma_model::alias::Namespace;
use herma_model::{Resolution, SessionKind};

use super::World;
use super::fixture::{name, refused, running};
use crate::{Admission, AdmitOutcome, Refusal, Store, Target};

pub async fn the_first_use_of_a_name_makes_a_conversation_with_that_session_id<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "hello").await;
    assert_eq!(turn.resolution, Resolution::Created);
    assert_eq!((turn.facts.head.id.as_str(), turn.facts.root.as_str()), ("trip", "trip"));
    assert_eq!((turn.facts.head.kind, turn.facts.origin_kind), (SessionKind::Main, SessionKind::Main));
    assert_eq!(turn.attempt, 1);
    world.answer(&world.one, &turn, "hi").await;
    let again = world.start(&world.two, "trip", "more").await;
    assert_eq!(again.resolution, Resolution::Head);
    assert_eq!(again.facts.id, turn.facts.id);
}

pub async fn every_id_of_a_conversation_leads_to_it<S: Store>(world: &World<S>) {
    let turn = world.talk(&world.one, "trip", "hello", "hi").await;
    let by_handle = world.start(&world.two, &turn.facts.id.to_string(), "more").await;
    assert_eq!(by_handle.facts.id, turn.facts.id);
    assert_eq!(by_handle.resolution, Resolution::Head);
    assert_eq!(world.row("trip").await.unwrap().message_count, 3);
}

pub async fn simultaneous_first_uses_of_a_name_make_one_conversation<S: Store>(world: &World<S>) {
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..32 {
        let world = world.clone();
        clients.spawn(async move {
            let store = if client % 2 == 0 { &world.one } else { &world.two };
            let mut ask = world.ask("storm", &format!("from {client}"));
            loop {
                match world.admit(store, ask.clone()).await {
                    AdmitOutcome::Running(turn) => {
                        world.answer(store, &turn, "yes").await;
                        return turn.resolution;
                    }
                    AdmitOutcome::Queued { ticket, .. } => ask.ticket = Some(ticket),
                    other => panic!("{other:?}"),
                }
                tokio::task::yield_now().await;
            }
        });
    }
    let made = clients.join_all().await.into_iter().filter(|how| *how == Resolution::Created).count();
    assert_eq!(made, 1);
    let rows = world.all(&world.scope).await;
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].turn_count, rows[0].message_count), (32, 64));
}

pub async fn a_turn_without_a_name_makes_a_conversation_of_its_own<S: Store>(world: &World<S>) {
    let first = running(world.admit(&world.one, world.ask_anew("hello")).await);
    let second = running(world.admit(&world.one, world.ask_anew("hello")).await);
    assert_ne!(first.facts.id, second.facts.id);
    assert_eq!(first.resolution, Resolution::Created);
    world.answer(&world.one, &first, "hi").await;
    assert_eq!(world.row(first.facts.head.id.as_str()).await.unwrap().facts.id, first.facts.id);
}

pub async fn an_unknown_name_that_must_exist_is_not_found_and_leaves_nothing<S: Store>(world: &World<S>) {
    let target = Target::Alias { alias: name("trip"), namespace: Namespace::Session, must_exist: true };
    let ask = Admission { target, ..world.ask("trip", "hello") };
    assert_eq!(refused(world.admit(&world.one, ask.clone()).await), Refusal::NotFound);
    assert!(world.all(&world.scope).await.is_empty());
    assert!(world.turn(ask.turn).await.is_none());
}

pub async fn a_name_of_our_own_form_is_never_created<S: Store>(world: &World<S>) {
    let hex = "0123456789abcdef0123456789abcdef";
    for unknown in [format!("conv_{hex}"), format!("sess_{hex}"), format!("run_{hex}"), "conv_x".to_owned()] {
        assert_eq!(refused(world.admit(&world.one, world.ask(&unknown, "hello")).await), Refusal::NotFound);
    }
    assert!(world.all(&world.scope).await.is_empty());
    world.talk(&world.one, "run_daily", "hello", "hi").await;
}

pub async fn chat_ids_are_names_of_their_own<S: Store>(world: &World<S>) {
    let by_name = world.talk(&world.one, "chat-1", "hello", "hi").await;
    let target = Target::Alias { alias: name("chat-1"), namespace: Namespace::ChatId, must_exist: false };
    let ask = || Admission { target: target.clone(), ..world.ask_anew("hello") };
    let by_chat_id = running(world.admit(&world.two, ask()).await);
    assert_eq!(by_chat_id.resolution, Resolution::Created);
    assert_ne!(by_chat_id.facts.id, by_name.facts.id);
    assert_ne!(by_chat_id.facts.head.id.as_str(), "chat-1");
    world.answer(&world.two, &by_chat_id, "hi").await;
    let again = running(world.admit(&world.one, ask()).await);
    assert_eq!(again.facts.id, by_chat_id.facts.id);
    assert_eq!(world.row("chat-1").await.unwrap().facts.id, by_name.facts.id);
}
