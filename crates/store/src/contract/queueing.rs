//! One turn runs at a time. The others wait in order, or are refused.

use herma_model::TurnState;

use super::World;
use super::fixture::{queued, refused, running, texts};
use crate::{Admission, AdmitOutcome, Refusal, Store, TurnPolicy};

pub async fn a_second_turn_waits_while_one_runs<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "first").await;
    let ask = world.ask("trip", "second");
    let outcome = world.admit(&world.two, ask.clone()).await;
    let AdmitOutcome::Queued { ticket, facts, running: ahead, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!((facts.id, ahead), (first.facts.id, Some(first.turn)));
    assert_eq!(world.turn(ask.turn).await.unwrap().state, TurnState::Queued);
    let ask = Admission { ticket: Some(ticket), ..ask };
    assert_eq!(queued(world.admit(&world.two, ask.clone()).await), ticket, "asking again keeps the place");
    assert_eq!(world.row("trip").await.unwrap().message_count, 1, "a waiting turn has written nothing");
    world.answer(&world.one, &first, "one").await;
    let second = running(world.admit(&world.two, ask).await);
    assert!(second.lease.fence > first.lease.fence);
    world.answer(&world.two, &second, "two").await;
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["first", "one", "second", "two"]);
}

pub async fn waiting_turns_go_in_order_of_arrival_across_instances<S: Store>(world: &World<S>) {
    let mut turn = world.start(&world.one, "trip", "0").await;
    let mut waiting = Vec::new();
    for (place, store) in [&world.two, &world.one, &world.two, &world.one].into_iter().enumerate() {
        waiting.push((store, world.queue(store, world.ask("trip", &(place + 1).to_string())).await));
    }
    let mut owner = &world.one;
    while !waiting.is_empty() {
        world.answer(owner, &turn, "-").await;
        for (store, ask) in waiting.iter().skip(1).rev() {
            queued(world.admit(store, ask.clone()).await);
        }
        let (store, ask) = waiting.remove(0);
        turn = running(world.admit(store, ask).await);
        owner = store;
    }
    world.answer(owner, &turn, "-").await;
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["0", "-", "1", "-", "2", "-", "3", "-", "4", "-"]);
}

pub async fn no_turn_overtakes_waiting_turns<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "first").await;
    let waiting = world.queue(&world.one, world.ask("trip", "second")).await;
    world.answer(&world.one, &first, "one").await;
    let late = world.queue(&world.two, world.ask("trip", "third")).await;
    let reject = Admission { policy: TurnPolicy::Reject, ..world.ask("trip", "fourth") };
    assert_eq!(refused(world.admit(&world.two, reject).await), Refusal::Busy(waiting.turn));
    let second = running(world.admit(&world.one, waiting).await);
    world.answer(&world.one, &second, "two").await;
    running(world.admit(&world.two, late).await);
}

pub async fn a_turn_that_will_not_wait_is_refused_and_leaves_nothing<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "first").await;
    let before = world.read("trip").await.unwrap();
    let ask = Admission { policy: TurnPolicy::Reject, ..world.ask("trip", "second") };
    assert_eq!(refused(world.admit(&world.two, ask.clone()).await), Refusal::Busy(first.turn));
    assert!(world.turn(ask.turn).await.is_none());
    let after = world.read("trip").await.unwrap();
    assert_eq!((after.version, after.messages), (before.version, before.messages));
    world.answer(&world.one, &first, "one").await;
    running(world.admit(&world.two, ask).await);
}

pub async fn a_full_queue_refuses_says_its_limit_and_leaves_nothing<S: Store>(world: &World<S>) {
    let ask = |text| Admission { queue_limit: 2, ..world.ask("trip", text) };
    world.start(&world.one, "trip", "first").await;
    let second = world.queue(&world.one, ask("second")).await;
    world.queue(&world.two, ask("third")).await;
    let fourth = ask("fourth");
    assert_eq!(refused(world.admit(&world.two, fourth.clone()).await), Refusal::QueueFull { limit: 2 });
    assert!(world.turn(fourth.turn).await.is_none());
    queued(world.admit(&world.one, second.clone()).await);
    world.withdraw(&world.one, &world.scope, second.turn).await;
    queued(world.admit(&world.two, fourth).await);
}

pub async fn a_withdrawn_turn_leaves_its_place_to_the_next<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "first").await;
    let second = world.queue(&world.two, world.ask("trip", "second")).await;
    let third = world.queue(&world.one, world.ask("trip", "third")).await;
    world.withdraw(&world.two, &world.scope, second.turn).await;
    assert!(world.turn(second.turn).await.is_none());
    assert_eq!(refused(world.admit(&world.two, second).await), Refusal::Withdrawn);
    world.answer(&world.one, &first, "one").await;
    let third = running(world.admit(&world.one, third).await);
    world.answer(&world.one, &third, "three").await;
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["first", "one", "third", "three"]);
    world.talk(&world.two, "trip", "fourth", "four").await;
}

pub async fn withdrawing_a_turn_that_does_not_wait_changes_nothing<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "first").await;
    world.withdraw(&world.one, &world.scope, first.turn).await;
    world.withdraw(&world.one, &world.scope, world.ask("trip", "never asked").turn).await;
    assert_eq!(world.turn(first.turn).await.unwrap().state, TurnState::Running);
    world.answer(&world.one, &first, "one").await;
    world.withdraw(&world.one, &world.scope, first.turn).await;
    assert_eq!(world.turn(first.turn).await.unwrap().state, TurnState::Completed);
}
