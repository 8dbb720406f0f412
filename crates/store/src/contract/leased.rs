//! Compacting during a turn, which continues in the new head.

use herma_model::generation::Finish;
use herma_model::provenance::CompactionMode::{InPlace, Split};
use herma_model::{MessageStatus, Resolution, Role, Seq, StopKind, TurnState};

use super::World;
use super::fixture::{answer_of, finish, message, name, noted, running};
use super::retrying::again;
use super::summaries::{compacted, shown, undone};
use crate::{
    Admission, AdmitOutcome, Authority, Counted, Extent, Lease, NewCompaction, Pin, PinOutcome, Store, StoreError,
    TurnOutcome, TurnPolicy,
};

pub async fn the_turn_that_compacted_goes_on_in_the_new_head<S: Store>(world: &World<S>) {
    for mode in [Split, InPlace] {
        let to = mode.as_str();
        world.talk(&world.one, to, "first", "one").await;
        let mut turn = world.start(&world.one, to, "second").await;
        let before = turn.facts.head.id.clone();
        let done = world.compact_during(&world.one, &mut turn, mode, "so far").await;
        assert_eq!(done.record.turn, Some(turn.turn));
        assert_eq!((&done.record.session_before, &done.record.session_after), (&before, &done.facts.head.id));
        assert_eq!(done.facts.head.id != before, mode == Split);
        let committed = world.answer(&world.one, &turn, "two").await;
        assert_eq!((committed.messages[0].seq, &committed.messages[0].session), (Seq(5), &done.facts.head.id));
        let record = world.turn(turn.turn).await.unwrap();
        assert_eq!((record.state, record.rotated), (TurnState::Completed, mode == Split));
        assert_eq!((answer_of(&record), &record.facts), (committed.messages, &done.facts));
        let view = world.read(to).await.unwrap();
        assert_eq!(
            (view.version, shown(&view)),
            (committed.version, vec!["[so far]".into(), "second".into(), "two".into()])
        );
        assert_eq!(world.said(to, Pin::Head).await, ["first", "one", "second", "[so far]", "two"]);
    }
}

pub async fn a_turn_may_compact_more_than_once<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let mut turn = world.start(&world.one, "trip", "second").await;
    for (mode, summary) in [(Split, "a"), (InPlace, "b"), (Split, "c")] {
        world.compact_during(&world.one, &mut turn, mode, summary).await;
    }
    world.answer(&world.one, &turn, "two").await;
    assert!(world.turn(turn.turn).await.unwrap().rotated);
    assert_eq!(shown(&world.read("trip").await.unwrap()), ["[c]", "second", "two"]);
}

pub async fn a_lost_lease_compacts_nothing<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let turn = world.start(&world.one, "trip", "second").await;
    let leases = [World::<S>::older_lease(turn.lease), Lease { tenant: world.stranger.tenant, ..turn.lease }];
    let plan = world.plan("trip", Split, 1, "so far").await;
    let version = world.read("trip").await.unwrap().version;
    for lease in leases {
        let plan = NewCompaction { authority: Authority::Lease(lease), ..plan.clone() };
        assert_eq!(world.two.compact(plan).await.unwrap_err(), StoreError::Fenced);
    }
    assert_eq!(world.read("trip").await.unwrap().version, version);
    world.answer(&world.one, &turn, "two").await;
    let late = NewCompaction { authority: Authority::Lease(turn.lease), ..plan.clone() };
    assert_eq!(world.one.compact(late).await.unwrap_err(), StoreError::Fenced);
    assert_eq!(world.row("trip").await.unwrap().facts.compaction_count, 0);
    assert!(world.read(plan.session.as_str()).await.is_none());
    assert!(world.ledger("trip").await.rows.is_empty());
}

pub async fn a_turn_that_failed_after_a_split_is_tried_again<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let mut turn = world.start(&world.one, "trip", "second").await;
    world.compact_during(&world.one, &mut turn, Split, "so far").await;
    world.leave(&world.one, &turn, TurnState::Failed, None).await;
    let second = running(world.admit(&world.two, again(world, turn.turn)).await);
    assert_eq!((second.turn, second.attempt, second.resolution), (turn.turn, 2, Resolution::Moved));
    assert!(!world.turn(turn.turn).await.unwrap().rotated, "nothing moved during this attempt");
    world.leave(&world.two, &second, TurnState::Failed, Some("tw")).await;
    let done = world.compact(&world.one, "trip", Split, "further").await;
    assert!(world.read("trip").await.unwrap().unanswered.contains_key(&turn.turn));
    let third = running(world.admit(&world.two, again(world, turn.turn)).await);
    assert_eq!((third.turn, third.attempt, &third.facts), (turn.turn, 3, &done.facts));
    let committed = world.answer(&world.two, &third, "two").await;
    assert_eq!(answer_of(&world.turn(turn.turn).await.unwrap()), committed.messages);
    assert_eq!(shown(&world.read("trip").await.unwrap()), ["[further]", "tw", "two"]);
    let mut late = again(world, turn.turn);
    late.seen = world.seen(&world.one, &late).await;
    assert!(matches!(world.one.admit(late).await.unwrap(), AdmitOutcome::Stale), "it was answered");
}

pub async fn a_turn_retracted_after_a_compaction_leaves_only_that<S: Store>(world: &World<S>) {
    for mode in [Split, InPlace] {
        let to = mode.as_str();
        world.talk(&world.one, to, "first", "one").await;
        let mut turn = world.start(&world.one, to, "too long").await;
        let own = turn.messages[0].clone();
        assert_eq!(world.one.pin(&world.scope, &name(to), own.id, true).await.unwrap(), PinOutcome::Done);
        let plan = world.plan(to, mode, 0, "so far").await;
        let plan = NewCompaction { authority: Authority::Lease(turn.lease), carried: vec![Seq(1), own.seq], ..plan };
        let done = compacted(world.one.compact(plan).await.unwrap());
        turn.facts = done.facts.clone();
        world.one.retract(turn.lease).await.unwrap();
        assert_eq!(world.said(to, Pin::Head).await, ["first", "one", "[so far]"]);
        assert!(world.turn(turn.turn).await.is_none());
        assert!(world.two.pinned(world.scope.tenant, done.facts.id).await.unwrap().is_empty());
        let row = world.row(to).await.unwrap();
        assert_eq!((row.message_count, row.turn_count, &row.facts), (2, 1, &done.facts));
        world.talk(&world.two, to, "second", "two").await;
        assert_eq!(shown(&world.read(to).await.unwrap()), ["[so far]", "(first)", "second", "two"]);
        assert_eq!(world.ledger(to).await.rows[0].turn, None);
    }
}

pub async fn an_attempt_retracted_after_a_split_is_the_unanswered_turn_again<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let turn = world.start(&world.one, "trip", "second").await;
    world.leave(&world.one, &turn, TurnState::Failed, Some("tw")).await;
    let mut attempt = running(world.admit(&world.two, again(world, turn.turn)).await);
    world.compact_during(&world.two, &mut attempt, Split, "so far").await;
    world.two.retract(attempt.lease).await.unwrap();
    let view = world.read("trip").await.unwrap();
    assert_eq!((shown(&view), view.unanswered[&turn.turn].attempt), (vec!["[so far]".into(), "tw".into()], 1));
    let retried = running(world.admit(&world.two, again(world, turn.turn)).await);
    world.answer(&world.two, &retried, "two").await;
    assert_eq!(shown(&world.read("trip").await.unwrap()), ["[so far]", "tw", "two"]);
}

pub async fn a_retracted_first_turn_takes_its_compaction_along<S: Store>(world: &World<S>) {
    for waits in [false, true] {
        let mut ask = world.ask("trip", "a long story");
        ask.messages.push(message(Role::User, "too long"));
        let mut turn = running(world.admit(&world.one, ask).await);
        let waiting = if waits { Some(world.queue(&world.two, world.ask("trip", "second")).await) } else { None };
        let done = world.compact_during(&world.one, &mut turn, Split, "so far").await;
        world.one.record_failed(world.failed(&turn));
        world.settle(&world.one).await;
        world.one.retract(turn.lease).await.unwrap();
        assert!(world.read(done.facts.head.id.as_str()).await.is_none());
        let Some(waiting) = waiting else {
            assert!(world.all(&world.scope).await.is_empty());
            continue;
        };
        let second = running(world.admit(&world.two, waiting).await);
        assert_eq!((second.resolution, second.facts.compaction_count), (Resolution::Created, 0));
        assert_eq!((second.facts.head.id.as_str(), second.messages[0].seq), ("trip", Seq(1)));
        world.answer(&world.two, &second, "two").await;
        assert_eq!(shown(&world.read("trip").await.unwrap()), ["second", "two"]);
    }
}

pub async fn the_partial_answer_of_a_gone_owner_is_in_the_head_it_moved_to<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let mut turn = world.start(&world.one, "trip", "second").await;
    let done = world.compact_during(&world.one, &mut turn, Split, "so far").await;
    world.one.journal(turn.lease, noted("tw"));
    world.one.close().await;
    world.talk(&world.two, "trip", "third", "three").await;
    let view = world.read("trip").await.unwrap();
    assert_eq!(shown(&view), ["[so far]", "second", "tw", "third", "three"]);
    let partial = &view.messages[1];
    assert_eq!((partial.said.status, &partial.session), (MessageStatus::Partial, &done.facts.head.id));
    assert!(view.unanswered.contains_key(&turn.turn));
}

pub async fn what_the_server_counted_holds_until_the_view_changes<S: Store>(world: &World<S>) {
    let counted = async || world.read("trip").await.unwrap().counted;
    let turn = world.start(&world.one, "trip", "first").await;
    assert_eq!(counted().await, None);
    world.answer(&world.one, &turn, "one").await;
    assert_eq!(counted().await, Some(Counted { through: Seq(2), tokens: 12 }));
    let turn = world.start(&world.one, "trip", "second").await;
    let uncounted = Finish { usage: None, ..finish() };
    let outcome = TurnOutcome::Completed { messages: vec![message(Role::Assistant, "two")], finish: uncounted };
    world.one.commit(world.commit(&turn, outcome)).await.unwrap();
    assert_eq!(counted().await, Some(Counted { through: Seq(2), tokens: 12 }), "there is no newer count");
    assert_eq!(world.read_as("trip", Extent::Whole).await.unwrap().counted, counted().await);
    assert_eq!(world.read_as("trip", Extent::Session).await.unwrap().counted, None);
    let done = world.compact(&world.one, "trip", InPlace, "so far").await;
    assert_eq!(counted().await, None);
    world.talk(&world.one, "trip", "third", "three").await;
    assert_eq!(counted().await, Some(Counted { through: Seq(7), tokens: 12 }));
    undone(world.undo(&world.one, "trip", done.record.id).await);
    assert_eq!(counted().await, None);
}

pub async fn a_turn_that_was_asked_to_stop_may_still_compact<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let mut turn = world.start(&world.one, "trip", "second").await;
    let ask = Admission { policy: TurnPolicy::Interrupt, ..world.ask("trip", "third") };
    let waiting = world.queue(&world.two, ask).await;
    world.compact_during(&world.one, &mut turn, Split, "so far").await;
    assert_eq!(
        world.try_answer(&world.one, &turn, "two").await.unwrap_err(),
        StoreError::StopRequested(StopKind::Interrupt)
    );
    world.leave(&world.one, &turn, TurnState::Interrupted, None).await;
    let third = running(world.admit(&world.two, waiting).await);
    world.answer(&world.two, &third, "three").await;
    assert_eq!(shown(&world.read("trip").await.unwrap()), ["[so far]", "second", "third", "three"]);
}
