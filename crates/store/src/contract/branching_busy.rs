//! A turn that continues in a branch, because its conversation is busy.

use herma_model::alias::Namespace;
use herma_model::{ParentRelation, Resolution, SessionKey, SessionKind, TurnState};

use super::World;
use super::fixture::{joined, name, queued, refused, running};
use super::idempotency::with_key;
use super::summaries::shown;
use crate::{Admission, AdmitOutcome, Extent, Refusal, Seen, Store, TurnPolicy};

fn with_branch_policy(ask: Admission) -> Admission {
    Admission { policy: TurnPolicy::Branch, ..ask }
}

pub async fn a_second_prompt_becomes_a_branch<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let busy = world.start(&world.one, "trip", "second").await;
    let end = world.read_as("trip", Extent::Completed).await.unwrap();
    assert_eq!(shown(&end), ["first", "one"], "a caller can read what the branch will inherit");
    let (before, row) = (world.read("trip").await.unwrap(), world.row("trip").await.unwrap());
    let ask = with_branch_policy(world.ask("trip", "instead"));
    let branch = running(world.admit(&world.two, ask.clone()).await);
    assert_eq!((branch.resolution, branch.turn), (Resolution::Branched, ask.turn));
    assert_eq!((branch.facts.id, branch.facts.origin_kind), (ask.creation.conversation, SessionKind::Branch));
    assert_eq!(branch.facts.head.parent, Some((busy.facts.head.id.clone(), ParentRelation::Branch)));
    let after = world.read("trip").await.unwrap();
    assert_eq!((after.version, after.messages), (before.version, before.messages));
    assert_eq!(format!("{:?}", world.row("trip").await.unwrap()), format!("{row:?}"));
    world.answer(&world.two, &branch, "fine").await;
    world.answer(&world.one, &busy, "two").await;
    assert_eq!(shown(&world.read("trip").await.unwrap()), ["first", "one", "second", "two"]);
    let to = branch.facts.id.to_string();
    assert_eq!(shown(&world.read(&to).await.unwrap()), ["first", "one", "instead", "fine"]);
}

pub async fn a_turn_in_an_idle_conversation_makes_no_branch<S: Store>(world: &World<S>) {
    let first = running(world.admit(&world.one, with_branch_policy(world.ask("trip", "first"))).await);
    assert_eq!(first.resolution, Resolution::Created);
    world.answer(&world.one, &first, "one").await;
    let second = running(world.admit(&world.one, with_branch_policy(world.ask("trip", "second"))).await);
    assert_eq!((second.resolution, second.facts.id), (Resolution::Head, first.facts.id));
    world.one.close().await;
    let third = running(world.admit(&world.two, with_branch_policy(world.ask("trip", "third"))).await);
    assert_eq!(third.resolution, Resolution::Head, "a turn of a gone owner does not count as busy");
    world.answer(&world.two, &third, "three").await;
}

pub async fn a_branch_of_an_unanswered_conversation_inherits_nothing<S: Store>(world: &World<S>) {
    let busy = world.start(&world.one, "trip", "first").await;
    let branch = running(world.admit(&world.two, with_branch_policy(world.ask("trip", "instead"))).await);
    world.answer(&world.two, &branch, "fine").await;
    world.one.retract(busy.lease).await.unwrap();
    world.leads_nowhere("trip").await;
    let to = branch.facts.id.to_string();
    assert_eq!(shown(&world.read(&to).await.unwrap()), ["instead", "fine"]);
    assert_eq!(world.row(&to).await.unwrap().facts, branch.facts, "it keeps the name of its parent");
}

pub async fn a_conversation_with_waiting_turns_counts_as_busy<S: Store>(world: &World<S>) {
    let busy = world.start(&world.one, "trip", "first").await;
    let waiting = world.queue(&world.one, world.ask("trip", "second")).await;
    world.answer(&world.one, &busy, "one").await;
    let branch = running(world.admit(&world.two, with_branch_policy(world.ask("trip", "instead"))).await);
    assert_eq!(branch.resolution, Resolution::Branched);
    world.answer(&world.two, &branch, "fine").await;
    let second = running(world.admit(&world.one, waiting).await);
    world.answer(&world.one, &second, "two").await;
    assert_eq!(shown(&world.read(&branch.facts.id.to_string()).await.unwrap()), ["first", "one", "instead", "fine"]);
}

pub async fn a_further_attempt_waits_where_it_belongs<S: Store>(world: &World<S>) {
    let failed = world.start(&world.one, "trip", "first").await;
    world.leave(&world.one, &failed, TurnState::Failed, None).await;
    let busy = world.start(&world.one, "trip", "second").await;
    let again = Admission { retry_of: Some(failed.turn), messages: Vec::new(), ..world.ask("trip", "") };
    queued(world.admit(&world.two, with_branch_policy(again)).await);
    world.answer(&world.one, &busy, "two").await;
}

pub async fn a_busy_conversation_that_changed_is_stale<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let mut ask = with_branch_policy(world.ask("trip", "instead"));
    ask.seen = world.seen(&world.two, &ask).await;
    let busy = world.start(&world.one, "trip", "second").await;
    assert!(matches!(world.two.admit(ask.clone()).await.unwrap(), AdmitOutcome::Stale));
    ask.seen = Seen::Nothing;
    assert!(matches!(world.two.admit(ask).await.unwrap(), AdmitOutcome::Stale));
    assert_eq!(world.all(&world.scope).await.len(), 1);
    world.answer(&world.one, &busy, "two").await;
}

pub async fn a_branch_keeps_to_its_sources_key<S: Store>(world: &World<S>) {
    let key = |text| SessionKey::parse(text).ok();
    let first = Admission { session_key: key("mine"), ..world.ask("trip", "first") };
    let busy = running(world.admit(&world.one, first).await);
    let other = Admission { session_key: key("other"), ..with_branch_policy(world.ask("trip", "instead")) };
    assert_eq!(refused(world.admit(&world.two, other).await), Refusal::SessionKeyConflict);
    let branch = running(world.admit(&world.two, with_branch_policy(world.ask("trip", "instead"))).await);
    assert_eq!(branch.facts.session_key, key("mine"));
    world.answer(&world.two, &branch, "fine").await;
    world.answer(&world.one, &busy, "one").await;
}

pub async fn a_repeated_prompt_finds_its_branch<S: Store>(world: &World<S>) {
    let busy = world.start(&world.one, "trip", "first").await;
    let ask = || with_key(with_branch_policy(world.ask("trip", "instead")), 1);
    let branch = running(world.admit(&world.two, ask()).await);
    assert_eq!(joined(world.admit(&world.one, ask()).await), branch.turn);
    world.leave(&world.two, &branch, TurnState::Failed, None).await;
    let outcome = world.admit(&world.one, ask()).await;
    assert!(
        matches!(outcome, AdmitOutcome::RetryIn(to, turn) if (to, turn) == (branch.facts.id, branch.turn)),
        "{outcome:?}"
    );
    let to = name(&branch.facts.id.to_string());
    let target = crate::Target::Alias { alias: to, namespace: Namespace::Session, must_exist: true };
    let again = Admission { target, retry_of: Some(branch.turn), messages: Vec::new(), ..ask() };
    let again = running(world.admit(&world.one, again).await);
    assert_eq!((again.turn, again.attempt, again.facts.id), (branch.turn, 2, branch.facts.id));
    world.answer(&world.one, &again, "fine").await;
    world.answer(&world.one, &busy, "one").await;
    assert_eq!(world.all(&world.scope).await.len(), 2);
}

pub async fn simultaneous_prompts_never_wait<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..8 {
        let world = world.clone();
        clients.spawn(async move {
            let store = if number % 2 == 0 { &world.one } else { &world.two };
            let turn = running(world.admit(store, with_branch_policy(world.ask("trip", "at once"))).await);
            world.answer(store, &turn, "yes").await;
            turn.facts.id
        });
    }
    let ids = clients.join_all().await;
    for id in ids {
        let view = shown(&world.read(&id.to_string()).await.unwrap());
        assert_eq!((&view[..2], view.len() % 2), (["first".to_owned(), "one".to_owned()].as_slice(), 0));
    }
}
