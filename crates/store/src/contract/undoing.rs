//! Undoing compactions.

use herma_model::Seq;
use herma_model::compaction::{CompactionAction, CompactionOutcome, CompactionTrigger};
use herma_model::provenance::CompactionMode::{InPlace, Split};

use super::World;
use super::fixture::name;
use super::summaries::{compacted, new_id, not_undone, shown, undone};
use crate::{CompactOutcome, Extent, NewCompaction, Pin, Store, Undo, UndoOutcome, UndoRefusal, Version};

pub async fn an_undo_gives_the_range_back_and_keeps_what_was_said_since<S: Store>(world: &World<S>) {
    for mode in [Split, InPlace] {
        let to = mode.as_str();
        world.talk(&world.one, to, "first", "one").await;
        world.talk(&world.one, to, "second", "two").await;
        let done = world.compact(&world.one, to, mode, "so far").await;
        world.talk(&world.one, to, "third", "three").await;
        let would_be = world.read_as(to, Extent::Without(done.record.id)).await.unwrap();
        let (before, row) = (world.read(to).await.unwrap(), world.row(to).await.unwrap());
        let back = undone(world.undo(&world.two, to, done.record.id).await);
        assert_eq!(back.facts, before.facts, "head, count and mode stay");
        assert!(back.version > before.version && back.summary().is_none());
        let view = world.read(to).await.unwrap();
        assert_eq!(shown(&view), ["first", "one", "second", "two", "third", "three"]);
        assert_eq!((&view.messages, view.whole), (&would_be.messages, would_be.whole));
        assert_eq!((view.auto_compaction_paused, view.version), (true, back.version));
        let after = world.row(to).await.unwrap();
        assert_eq!((after.message_count, after.turn_count), (row.message_count, row.turn_count));
        let all = ["first", "one", "second", "two", "[so far]", "third", "three"];
        assert_eq!(world.said(to, Pin::Head).await, all);
        assert_eq!(world.talk(&world.one, to, "fourth", "four").await.facts, before.facts);
    }
}

pub async fn an_undo_is_a_row_of_the_ledger<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let done = world.compact(&world.one, "trip", Split, "so far").await;
    let ask = world.undo_request("trip", done.record.id).await;
    let back = undone(world.one.undo(ask.clone()).await.unwrap());
    let ledger = world.ledger("trip").await.rows;
    assert_eq!(ledger.len(), 2);
    assert_eq!(ledger[0], back.record);
    let row = &ledger[0];
    assert_eq!((row.id, row.action, row.outcome), (ask.id, CompactionAction::Undo, CompactionOutcome::Applied));
    assert_eq!((row.mode, row.trigger, row.sizes), (Split, CompactionTrigger::Manual, ask.sizes));
    assert_eq!((row.first, row.through), (done.record.first, done.record.through));
    assert_eq!((&row.session_before, &row.session_after), (&done.facts.head.id, &done.facts.head.id));
    assert_eq!((row.undoes, row.undone_by, row.turn), (Some(done.record.id), None, None));
    assert_eq!((ledger[1].outcome, ledger[1].undone_by), (CompactionOutcome::Undone, Some(ask.id)));
    assert_eq!(ledger[1].summary, done.record.summary, "what was written stays readable");
}

pub async fn compactions_are_undone_from_the_last_to_the_first<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let a = world.compact(&world.one, "trip", Split, "a").await;
    world.talk(&world.one, "trip", "second", "two").await;
    let b = world.compact(&world.one, "trip", InPlace, "b").await;
    world.talk(&world.one, "trip", "third", "three").await;
    let c = world.compact(&world.one, "trip", Split, "c").await;
    let covered = not_undone(world.undo(&world.one, "trip", a.record.id).await);
    assert_eq!(covered, UndoRefusal::Covered(c.record.id));
    for (id, seen) in [
        (c.record.id, ["[b]", "two", "third", "three"].as_slice()),
        (b.record.id, &["[a]", "one", "second", "two", "third", "three"]),
        (a.record.id, &["first", "one", "second", "two", "third", "three"]),
    ] {
        undone(world.undo(&world.two, "trip", id).await);
        assert_eq!(shown(&world.read("trip").await.unwrap()), seen);
    }
    let middle = world.read_as(a.facts.head.id.as_str(), Extent::Session).await.unwrap();
    assert_eq!(shown(&middle), ["[b]", "two", "third", "three"], "an earlier session keeps its view");
    assert_eq!(world.row("trip").await.unwrap().facts, c.facts);
}

pub async fn what_cannot_be_undone_is_refused_and_changes_nothing<S: Store>(world: &World<S>) {
    let turn = world.talk(&world.one, "trip", "first", "one").await;
    let failed = world.failed(&turn);
    world.one.record_failed(failed.clone());
    world.settle(&world.one).await;
    let a = world.compact(&world.one, "trip", Split, "a").await;
    let b = world.compact(&world.one, "trip", InPlace, "b").await;
    let back = undone(world.undo(&world.one, "trip", b.record.id).await);
    let c = world.compact(&world.one, "trip", InPlace, "c").await;
    let version = world.read("trip").await.unwrap().version;
    for (target, refusal) in [
        (failed.id, UndoRefusal::NeverApplied),
        (a.record.id, UndoRefusal::Covered(c.record.id)),
        (b.record.id, UndoRefusal::AlreadyUndone),
        (back.record.id, UndoRefusal::IsAnUndo),
    ] {
        assert_eq!(not_undone(world.undo(&world.two, "trip", target).await), refusal);
    }
    for ask in [
        world.undo_request("trip", new_id()).await,
        Undo { alias: name("nowhere"), ..world.undo_request("trip", c.record.id).await },
    ] {
        assert!(matches!(world.one.undo(ask).await.unwrap(), UndoOutcome::NotFound));
    }
    let old = Undo { seen: Version(version.0 - 1), ..world.undo_request("trip", c.record.id).await };
    assert!(matches!(world.one.undo(old).await.unwrap(), UndoOutcome::Stale));
    let running = world.start(&world.one, "trip", "second").await;
    let busy = world.undo(&world.two, "trip", c.record.id).await;
    assert!(matches!(busy, UndoOutcome::Busy(turn) if turn == running.turn), "{busy:?}");
    world.answer(&world.one, &running, "two").await;
    assert_eq!(world.ledger("trip").await.rows.len(), 5);
    assert_eq!(shown(&world.read("trip").await.unwrap()), ["[c]", "one", "second", "two"]);
}

pub async fn a_compaction_can_follow_an_undo<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let done = world.compact(&world.one, "trip", Split, "so far").await;
    let stale = world.plan("trip", Split, 1, "on what is gone").await;
    undone(world.undo(&world.one, "trip", done.record.id).await);
    world.talk(&world.one, "trip", "second", "two").await;
    assert!(world.read("trip").await.unwrap().auto_compaction_paused, "a turn does not end the pause");
    assert!(matches!(world.one.compact(stale).await.unwrap(), CompactOutcome::Stale));
    let plan = NewCompaction { carried: vec![Seq(1)], ..world.plan("trip", Split, 1, "again").await };
    let again = compacted(world.two.compact(plan).await.unwrap());
    assert_eq!((again.record.first.0, again.facts.compaction_count, again.facts.head.depth), (1, 2, 2));
    let view = world.read("trip").await.unwrap();
    assert_eq!(
        (shown(&view), view.auto_compaction_paused),
        (vec!["[again]".into(), "(first)".into(), "two".into()], false)
    );
    undone(world.undo(&world.two, "trip", again.record.id).await);
    assert_eq!(shown(&world.read("trip").await.unwrap()), ["first", "one", "second", "two"]);
}

pub async fn of_two_undos_at_once_one_happens<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let done = world.compact(&world.one, "trip", Split, "so far").await;
    let one = world.undo_request("trip", done.record.id).await;
    let two = world.undo_request("trip", done.record.id).await;
    let (one, two) = tokio::join!(world.one.undo(one), world.two.undo(two));
    let outcomes = [one.unwrap(), two.unwrap()];
    let happened = outcomes.iter().filter(|outcome| matches!(outcome, UndoOutcome::Undone(_))).count();
    let stale = outcomes.iter().filter(|outcome| matches!(outcome, UndoOutcome::Stale)).count();
    assert_eq!((happened, stale), (1, 1), "{outcomes:?}");
}
