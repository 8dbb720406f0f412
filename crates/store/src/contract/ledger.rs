//! The ledger of compactions.

use herma_model::alias::Namespace;
use herma_model::compaction::{CompactionAction, CompactionOutcome, CompactionTrigger, Sizes};
use herma_model::provenance::CompactionMode::{InPlace, Split};
use herma_model::{KeyScope, Seq, SessionKey};

use super::World;
use super::fixture::{name, running};
use super::summaries::{compacted, new_id, shown, undone};
use crate::{
    Admission, Authority, CompactOutcome, Extent, FailedCompaction, NewCompaction, PinOutcome, Scope, Store, Undo,
    UndoOutcome,
};

pub async fn a_compaction_is_a_row_of_the_ledger<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let plan = NewCompaction { carried: vec![Seq(1)], ..world.plan("trip", Split, 0, "so far").await };
    let done = compacted(world.one.compact(plan.clone()).await.unwrap());
    let row = world.two.compaction(&world.scope, &name("trip"), plan.id).await.unwrap().unwrap();
    assert_eq!(row, done.record);
    assert_eq!(world.ledger("trip").await.rows, std::slice::from_ref(&row));
    assert_eq!((row.id, row.action, row.outcome), (plan.id, CompactionAction::Compact, CompactionOutcome::Applied));
    assert_eq!((row.mode, row.trigger, row.created_at), (plan.mode, plan.trigger, plan.now));
    assert_eq!((row.session_before.as_str(), &row.session_after), ("trip", &plan.session));
    assert_eq!((row.first, row.through, &row.carried), (Seq(1), plan.through, &plan.carried));
    assert_eq!((&row.model, row.sizes, row.usage), (&plan.model, plan.sizes, plan.usage));
    assert_eq!((row.duration_ms, row.failure, row.turn), (plan.duration_ms, None, None));
    assert_eq!((row.undoes, row.undone_by), (None, None));
    let summary = row.summary.unwrap();
    assert_eq!((summary.id, summary.seq, &summary.said), (plan.summary.id, Seq(3), &plan.summary.said));
    assert_eq!((summary.session, summary.compaction, summary.created_at), (plan.session, plan.id, plan.now));
}

pub async fn a_range_without_a_summary_is_a_row_of_its_own_kind_and_can_be_undone<S: Store>(world: &World<S>) {
    for mode in [Split, InPlace] {
        let to = mode.as_str();
        world.talk(&world.one, to, "first", "one").await;
        let why = Some("the summary is empty".to_owned());
        let plan = NewCompaction { trimmed: why.clone(), ..world.plan(to, mode, 1, "left out").await };
        let done = compacted(world.one.compact(plan.clone()).await.unwrap());
        assert_eq!((done.record.outcome, &done.record.failure), (CompactionOutcome::Trimmed, &why));
        assert_eq!((done.record.first, done.record.through), (Seq(1), plan.through));
        assert_eq!(world.ledger(to).await.rows, std::slice::from_ref(&done.record));
        assert_eq!(shown(&world.read(to).await.unwrap()), ["[left out]", "one"]);
        undone(world.undo(&world.two, to, plan.id).await);
        assert_eq!(shown(&world.read(to).await.unwrap()), ["first", "one"]);
        let row = &world.ledger(to).await.rows[1];
        assert_eq!((row.outcome, &row.failure), (CompactionOutcome::Undone, &why));
    }
}

pub async fn a_failure_changes_nothing_but_the_ledger<S: Store>(world: &World<S>) {
    let turn = world.talk(&world.one, "trip", "first", "one").await;
    let done = world.compact(&world.one, "trip", InPlace, "so far").await;
    let (before, row) = (world.read("trip").await.unwrap(), world.row("trip").await.unwrap());
    let failed = world.failed(&turn);
    world.one.record_failed(failed.clone());
    world.one.record_failed(FailedCompaction { id: new_id(), tenant: world.stranger.tenant, ..failed.clone() });
    world.settle(&world.one).await;
    let (after, row_after) = (world.read("trip").await.unwrap(), world.row("trip").await.unwrap());
    assert_eq!((after.version, &after.base, &after.messages), (before.version, &before.base, &before.messages));
    assert_eq!((row_after.updated_at, row_after.message_count), (row.updated_at, row.message_count));
    assert_eq!(row_after.facts, done.facts);
    let ledger = world.ledger("trip").await.rows;
    assert_eq!(ledger.len(), 2, "a record of another tenant is ignored");
    let note = &ledger[0];
    assert_eq!(
        (note.id, note.outcome, note.trigger),
        (failed.id, CompactionOutcome::Failed, CompactionTrigger::Threshold)
    );
    assert_eq!((&note.session_before, &note.session_after), (&done.facts.head.id, &done.facts.head.id));
    assert_eq!((note.first, note.through, &note.summary), (failed.first, failed.through, &None));
    assert_eq!((note.sizes, note.usage), (Sizes { before: 1000, after: 1000 }, failed.usage));
    assert_eq!((note.failure.as_deref(), note.turn), (Some("it said nothing"), Some(turn.turn)));
    assert_eq!((note.duration_ms, note.created_at), (failed.duration_ms, failed.now));
}

pub async fn the_ledger_is_read_a_page_at_a_time_newest_first<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    world.talk(&world.one, "train", "first", "one").await;
    let mut made = Vec::new();
    for number in 0..7 {
        let mode = if number % 2 == 0 { Split } else { InPlace };
        made.insert(0, world.compact(&world.one, "trip", mode, "so far").await.record.id);
        world.compact(&world.one, "train", mode, "so far").await;
    }
    let (mut before, mut seen) = (None, Vec::new());
    loop {
        let page = world.two.compactions(&world.scope, &name("trip"), before, 3).await.unwrap().unwrap();
        assert!(page.rows.len() <= 3);
        seen.extend(page.rows.iter().map(|row| row.id));
        world.compact(&world.one, "trip", InPlace, "meanwhile").await;
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    assert_eq!(seen, made);
    let other = world.ledger("train").await.rows[0].id;
    assert!(world.two.compaction(&world.scope, &name("trip"), other).await.unwrap().is_none());
    assert!(world.two.compactions(&world.scope, &name("nowhere"), None, 3).await.unwrap().is_none());
}

pub async fn a_ledger_is_hidden_from_other_callers<S: Store>(world: &World<S>) {
    let ask = Admission { session_key: SessionKey::parse("team/a").ok(), ..world.ask("trip", "first") };
    let turn = running(world.admit(&world.one, ask).await);
    world.answer(&world.one, &turn, "one").await;
    let done = world.compact(&world.one, "trip", Split, "so far").await;
    let before = world.read("trip").await.unwrap();
    let said = before.messages[0].id;
    let blind = Scope { keys: KeyScope::parse(Some("team/b")), ..world.scope.clone() };
    let handle = done.facts.id.to_string();
    for scope in [&world.stranger, &blind] {
        for to in ["trip", done.facts.head.id.as_str(), &handle] {
            let alias = name(to);
            assert!(world.two.compactions(scope, &alias, None, 3).await.unwrap().is_none());
            assert!(world.two.compaction(scope, &alias, done.record.id).await.unwrap().is_none());
            assert_eq!(world.two.pin(scope, &alias, said, true).await.unwrap(), PinOutcome::NotFound);
            let authority = Authority::Idle { scope: scope.clone(), alias: alias.clone() };
            let plan = NewCompaction { authority, ..world.plan("trip", Split, 1, "stolen").await };
            assert!(matches!(world.two.compact(plan).await.unwrap(), CompactOutcome::NotFound));
            let undo = Undo { scope: scope.clone(), ..world.undo_request(to, done.record.id).await };
            assert!(matches!(world.two.undo(undo).await.unwrap(), UndoOutcome::NotFound));
            for extent in [Extent::Whole, Extent::Session, Extent::Without(done.record.id)] {
                assert!(world.two.open(scope, &alias, Namespace::Session, extent).await.unwrap().is_none());
            }
        }
    }
    assert!(world.two.pinned(world.stranger.tenant, done.facts.id).await.unwrap().is_empty());
    assert_eq!(world.read("trip").await.unwrap().version, before.version);
    let seeing = Scope { keys: KeyScope::parse(Some("team/*")), ..world.scope.clone() };
    assert_eq!(world.two.compactions(&seeing, &name("trip"), None, 3).await.unwrap().unwrap().rows.len(), 1);
}
