//! Compacting a conversation while no turn is running.

use std::collections::HashSet;

use herma_model::provenance::CompactionMode::{InPlace, Split};
use herma_model::{CreatorKind, EndReason, ParentRelation, Resolution, Seq, SessionKind, TurnId, TurnState};

use super::World;
use super::fixture::{answer_of, name, noted, running};
use super::summaries::{compacted, shown};
use crate::{Admission, CompactOutcome, Extent, NewCompaction, Pin, Store, TurnPolicy};

pub async fn a_split_ends_the_session_and_starts_its_continuation<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    world.talk(&world.one, "trip", "second", "two").await;
    let (before, row) = (world.read("trip").await.unwrap(), world.row("trip").await.unwrap());
    let plan = world.plan("trip", Split, 1, "so far").await;
    let done = compacted(world.one.compact(plan.clone()).await.unwrap());
    let after = world.read("trip").await.unwrap();
    assert_eq!((&after.facts, after.version), (&done.facts, done.version));
    assert!(done.version > before.version);
    let head = &done.facts.head;
    assert_eq!((&head.id, head.kind, head.depth), (&plan.session, SessionKind::Continuation, 1));
    assert_eq!(head.parent, Some((before.facts.head.id.clone(), ParentRelation::Continuation)));
    assert_eq!((head.creator, head.reason.as_deref()), (CreatorKind::Compression, Some("compression")));
    let facts = &done.facts;
    assert_eq!((facts.id, facts.origin_kind, &facts.root), (before.facts.id, SessionKind::Main, &before.facts.root));
    assert_eq!(facts.previous.as_ref(), Some(&before.facts.head.id));
    assert_eq!((facts.compaction_mode, facts.compaction_count), (Some(Split), 1));
    let ended = world.two.conversation(&world.scope, &name("trip"), Pin::Exact).await.unwrap().unwrap();
    assert_eq!(ended.session, before.facts.head);
    assert_eq!(ended.ended, Some((plan.now, EndReason::Compression)));
    let live = world.row("trip").await.unwrap();
    assert_eq!((live.ended, live.message_count, live.turn_count), (None, row.message_count, row.turn_count));
    assert_eq!((live.usage, live.created_at, &live.source), (row.usage, row.created_at, &row.source));
    assert!(live.updated_at > row.updated_at);
}

pub async fn every_older_id_leads_to_the_head<S: Store>(world: &World<S>) {
    let mut ids = vec!["trip".to_owned()];
    for depth in 1..=5 {
        world.talk(&world.one, "trip", "more", "yes").await;
        let done = world.compact(&world.two, "trip", Split, "so far").await;
        assert_eq!((done.facts.head.depth, done.facts.compaction_count), (depth, depth));
        ids.push(done.facts.head.id.to_string());
        let (head, older) = ids.split_last().unwrap();
        for id in older {
            let turn = world.talk(&world.one, id, "via an older id", "here").await;
            assert_eq!((turn.resolution, turn.facts.head.id.as_str()), (Resolution::Moved, head.as_str()));
            assert_eq!(turn.messages[0].session, turn.facts.head.id);
        }
        for id in [head, &done.facts.id.to_string()] {
            let turn = world.talk(&world.two, id, "via the head", "here").await;
            assert_eq!((turn.resolution, turn.facts.head.id.as_str()), (Resolution::Head, head.as_str()));
        }
    }
}

pub async fn a_hundred_splits_later_every_id_still_leads_to_the_head<S: Store>(world: &World<S>) {
    let turn = world.talk(&world.one, "trip", "first", "one").await;
    let mut ids = vec!["trip".to_owned()];
    for _ in 0..100 {
        ids.push(world.compact(&world.one, "trip", Split, "so far").await.facts.head.id.to_string());
    }
    world.talk(&world.two, &ids[50], "second", "two").await;
    for id in &ids {
        let view = world.read(id).await.unwrap();
        assert_eq!((view.facts.id, view.facts.head.id.as_str()), (turn.facts.id, ids[100].as_str()));
        assert_eq!(shown(&view), ["[so far]", "one", "second", "two"]);
    }
}

pub async fn in_place_keeps_the_head<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let before = world.read("trip").await.unwrap().facts;
    let done = world.compact(&world.one, "trip", InPlace, "so far").await;
    assert_eq!((&done.facts.head, &done.facts.previous), (&before.head, &None));
    assert_eq!((done.facts.compaction_mode, done.facts.compaction_count), (Some(InPlace), 1));
    assert_eq!(done.summary().unwrap().session, before.head.id);
    let turn = world.talk(&world.two, "trip", "second", "two").await;
    assert_eq!(turn.resolution, Resolution::Head);
    let split = world.compact(&world.one, "trip", Split, "further").await;
    let done = world.compact(&world.one, "trip", InPlace, "furthest").await;
    assert_eq!((&done.facts.head, &done.facts.previous), (&split.facts.head, &split.facts.previous));
    assert_eq!((done.facts.compaction_mode, done.facts.compaction_count), (Some(InPlace), 3));
}

pub async fn no_message_is_copied_or_moved<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    world.talk(&world.one, "trip", "second", "two").await;
    let before = world.entries(&world.scope, "trip", Pin::Exact).await;
    let done = world.compact(&world.one, "trip", Split, "so far").await;
    world.talk(&world.one, "trip", "third", "three").await;
    assert_eq!(world.entries(&world.scope, "trip", Pin::Exact).await, before);
    assert_eq!(world.said(done.facts.head.id.as_str(), Pin::Exact).await, ["[so far]", "third", "three"]);
    assert_eq!(world.said(&done.facts.id.to_string(), Pin::Exact).await, ["[so far]", "third", "three"]);
}

pub async fn the_model_is_shown_the_summary_what_is_carried_and_the_rest<S: Store>(world: &World<S>) {
    for mode in [Split, InPlace] {
        let to = mode.as_str();
        world.talk(&world.one, to, "first", "one").await;
        world.talk(&world.one, to, "second", "two").await;
        world.talk(&world.one, to, "third", "three").await;
        let plan = NewCompaction { carried: vec![Seq(1), Seq(3)], ..world.plan(to, mode, 2, "so far").await };
        let done = compacted(world.one.compact(plan).await.unwrap());
        assert_eq!((done.record.first, done.record.through), (Seq(1), Seq(4)));
        let view = world.read(to).await.unwrap();
        assert_eq!(shown(&view), ["[so far]", "(first)", "(second)", "third", "three"]);
        assert_eq!((view.whole, view.counted, view.auto_compaction_paused), (false, None, false));
        assert_eq!(view.base.as_ref().map(|base| &base.summary), done.summary());
        world.talk(&world.two, to, "fourth", "four").await;
        let plan = NewCompaction { carried: vec![Seq(3), Seq(6)], ..world.plan(to, mode, 1, "further").await };
        let done = compacted(world.one.compact(plan).await.unwrap());
        assert_eq!((done.record.first, done.record.through), (Seq(5), Seq(8)));
        let view = world.read(to).await.unwrap();
        assert_eq!(shown(&view), ["[further]", "(second)", "(three)", "four"]);
    }
}

pub async fn the_full_view_has_everything_once_with_its_boundaries<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let split = world.compact(&world.one, "trip", Split, "so far").await;
    world.talk(&world.one, "trip", "second", "two").await;
    let in_place = world.compact(&world.one, "trip", InPlace, "further").await;
    world.talk(&world.one, "trip", "third", "three").await;
    let all = ["first", "one", "[so far]", "second", "two", "[further]", "third", "three"];
    assert_eq!(world.said("trip", Pin::Head).await, all);
    assert_eq!((split.summary().unwrap().seq, in_place.summary().unwrap().seq), (Seq(3), Seq(6)));
    let whole = world.read_as("trip", Extent::Whole).await.unwrap();
    assert!(whole.whole);
    assert_eq!(shown(&whole), ["[further]", "first", "one", "second", "two", "third", "three"]);
}

pub async fn an_earlier_session_is_read_as_it_ended<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let first = world.compact(&world.one, "trip", Split, "so far").await;
    world.talk(&world.one, "trip", "second", "two").await;
    let second = world.compact(&world.one, "trip", Split, "further").await;
    world.talk(&world.one, "trip", "third", "three").await;
    let (middle, handle) = (first.facts.head.id.to_string(), second.facts.id.to_string());
    let head = ["[further]", "two", "third", "three"];
    for (to, seen) in [
        ("trip", ["first", "one"].as_slice()),
        (&middle, &["[so far]", "one", "second", "two"]),
        (second.facts.head.id.as_str(), &head),
        (&handle, &head),
    ] {
        let view = world.read_as(to, Extent::Session).await.unwrap();
        assert_eq!(shown(&view), seen, "{to}");
        assert_eq!((view.whole, &view.facts), (to == "trip", &second.facts));
    }
    let without = world.read_as("trip", Extent::Without(second.record.id)).await.unwrap();
    assert_eq!(shown(&without), ["[so far]", "one", "second", "two", "third", "three"]);
    assert!(world.read_as("trip", Extent::Without(first.record.id)).await.is_none(), "it is not the head's base");
}

pub async fn a_plan_on_another_base_is_stale<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let early = world.plan("trip", Split, 1, "too early").await;
    let done = world.compact(&world.one, "trip", InPlace, "so far").await;
    world.talk(&world.one, "trip", "second", "two").await;
    let late = world.plan("trip", Split, 1, "too late").await;
    let version = world.read("trip").await.unwrap().version;
    let outcome = world.two.compact(early.clone()).await.unwrap();
    assert!(matches!(outcome, CompactOutcome::Stale), "{outcome:?}");
    assert_eq!(world.read("trip").await.unwrap().version, version);
    assert!(world.read(early.session.as_str()).await.is_none());
    world.undo(&world.one, "trip", done.record.id).await;
    let outcome = world.two.compact(late).await.unwrap();
    assert!(matches!(outcome, CompactOutcome::Stale), "{outcome:?}");
    world.talk(&world.one, "trip", "third", "three").await;
    let done = compacted(world.two.compact(early).await.unwrap());
    assert_eq!(done.record.through, Seq(1), "later messages do not make a plan stale");
    assert_eq!(shown(&world.read("trip").await.unwrap()), ["[too early]", "one", "second", "two", "third", "three"]);
}

pub async fn a_plan_that_covers_what_was_taken_back_is_stale<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let turn = world.start(&world.one, "trip", "too long").await;
    let plan = world.plan("trip", Split, 0, "so far").await;
    world.one.retract(turn.lease).await.unwrap();
    assert!(matches!(world.one.compact(plan.clone()).await.unwrap(), CompactOutcome::Stale));
    world.talk(&world.one, "trip", "second", "two").await;
    assert!(matches!(world.one.compact(plan).await.unwrap(), CompactOutcome::Stale), "another message has this place");
    assert_eq!(shown(&world.read("trip").await.unwrap()), ["first", "one", "second", "two"]);
}

pub async fn of_two_compactions_at_once_one_happens<S: Store>(world: &World<S>) {
    for number in 0..5 {
        world.talk(&world.one, "trip", "more", "yes").await;
        let (one, two) = (world.plan("trip", Split, 1, "by one").await, world.plan("trip", Split, 1, "by two").await);
        let (one, two) = tokio::join!(world.one.compact(one), world.two.compact(two));
        let outcomes = [one.unwrap(), two.unwrap()];
        let happened = outcomes.iter().filter(|outcome| matches!(outcome, CompactOutcome::Compacted(_))).count();
        let stale = outcomes.iter().filter(|outcome| matches!(outcome, CompactOutcome::Stale)).count();
        assert_eq!((happened, stale), (1, 1), "{outcomes:?}");
        assert_eq!(world.row("trip").await.unwrap().facts.compaction_count, number + 1);
    }
}

pub async fn a_busy_conversation_is_not_compacted<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let turn = world.start(&world.one, "trip", "second").await;
    for store in [&world.one, &world.two] {
        let outcome = store.compact(world.plan("trip", Split, 1, "so far").await).await.unwrap();
        assert!(matches!(outcome, CompactOutcome::Busy(busy) if busy == turn.turn), "{outcome:?}");
    }
    assert_eq!(world.read("trip").await.unwrap().version, turn.version);
    world.answer(&world.one, &turn, "two").await;
    world.compact(&world.two, "trip", Split, "so far").await;
}

pub async fn a_turn_of_a_gone_owner_blocks_no_compaction<S: Store>(world: &World<S>) {
    world.talk(&world.two, "trip", "first", "one").await;
    let turn = world.start(&world.one, "trip", "second").await;
    world.one.journal(turn.lease, noted("tw"));
    world.one.close().await;
    world.compact(&world.two, "trip", Split, "so far").await;
    let view = shown(&world.read("trip").await.unwrap());
    assert_eq!((view.first().unwrap().as_str(), view.last().unwrap().as_str()), ("[so far]", "tw"));
    let whole = world.read_as("trip", Extent::Whole).await.unwrap();
    assert_eq!(shown(&whole)[1..], ["first", "one", "second", "tw"]);
    assert!(whole.unanswered.contains_key(&turn.turn));
}

pub async fn waiting_turns_start_in_the_new_head<S: Store>(world: &World<S>) {
    let mut first = world.start(&world.one, "trip", "first").await;
    let waiting = world.queue(&world.two, world.ask("trip", "second")).await;
    world.compact_during(&world.one, &mut first, Split, "so far").await;
    world.answer(&world.one, &first, "one").await;
    let done = world.compact(&world.one, "trip", Split, "further").await;
    let second = running(world.admit(&world.two, waiting).await);
    assert_eq!((&second.facts, second.resolution), (&done.facts, Resolution::Moved));
    let committed = world.answer(&world.two, &second, "two").await;
    let record = world.turn(second.turn).await.unwrap();
    assert_eq!((answer_of(&record), record.rotated), (committed.messages, false));
}

pub async fn unanswered_turns_are_known_in_whatever_order_they_went<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "first").await;
    let patient = world.queue(&world.one, world.ask("trip", "patient")).await;
    let interrupt = Admission { policy: TurnPolicy::Interrupt, ..world.ask("trip", "impatient") };
    let interrupt = world.queue(&world.one, interrupt).await;
    world.leave(&world.one, &first, TurnState::Interrupted, None).await;
    for ask in [interrupt.clone(), patient.clone()] {
        let turn = running(world.admit(&world.one, ask).await);
        world.leave(&world.one, &turn, TurnState::Failed, None).await;
    }
    let plan = world.plan("trip", Split, 2, "so far").await;
    compacted(world.one.compact(plan).await.unwrap());
    let view = world.read("trip").await.unwrap();
    assert_eq!(shown(&view), ["[so far]", "impatient", "patient"]);
    let unanswered: HashSet<TurnId> = view.unanswered.keys().copied().collect();
    assert_eq!(unanswered, HashSet::from([interrupt.turn, patient.turn]));
}

pub async fn a_missing_conversation_is_not_compacted<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let plan = world.plan("trip", Split, 1, "so far").await;
    let nowhere = NewCompaction { authority: world.idle_authority("nowhere"), ..plan };
    assert!(matches!(world.one.compact(nowhere).await.unwrap(), CompactOutcome::NotFound));
}
