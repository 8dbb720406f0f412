//! A branch does not change when its source is deleted.

use std::collections::BTreeMap;

use herma_model::alias::Namespace;
use herma_model::provenance::CompactionMode::{InPlace, Split};
use herma_model::{Seq, TurnState};

use super::World;
use super::fixture::{name, refused, running};
use super::spending::without_tree;
use super::summaries::{compacted, shown, undone};
use crate::{
    DeleteOutcome, Extent, MessageRange, NewCompaction, Order, Pin, PinOutcome, Refusal, Running, Snapshot, Store,
    StoreError,
};

/// A snapshot as text, with its maps in a fixed order.
fn snapshot_text(snapshot: &Snapshot) -> String {
    let unanswered: BTreeMap<_, _> = snapshot.unanswered.iter().collect();
    let begun_anew: BTreeMap<_, _> = snapshot.begun_anew.iter().collect();
    let snapshot = Snapshot { unanswered: Default::default(), begun_anew: Default::default(), ..snapshot.clone() };
    format!("{snapshot:?} {unanswered:?} {begun_anew:?}")
}

/// Everything that can be read of a conversation, as text.
pub async fn everything<S: Store>(world: &World<S>, to: &str) -> Vec<String> {
    let mut all = vec![format!("{:?}", without_tree(world.row(to).await.unwrap()))];
    all.push(format!("{:?}", world.ledger(to).await));
    for extent in [Extent::View, Extent::Whole, Extent::Session] {
        all.push(snapshot_text(&world.read_as(to, extent).await.unwrap()));
    }
    for pin in [Pin::Head, Pin::Exact] {
        all.push(format!("{:?}", world.entries(&world.scope, to, pin).await));
    }
    let range = MessageRange { order: Order::OldestFirst { after: None }, limit: 1000, pin: Pin::Head };
    let page = world.two.messages(&world.scope, &name(to), range).await.unwrap().unwrap();
    let turn_states: BTreeMap<_, _> = page.turn_states.iter().collect();
    let mut pinned: Vec<_> = page.pinned.iter().collect();
    pinned.sort();
    all.push(format!("{turn_states:?} {pinned:?}"));
    let conversation = world.row(to).await.unwrap().facts.id;
    all.push(format!("{:?}", world.two.pinned(world.scope.tenant, conversation).await.unwrap()));
    for message in world.read_as(to, Extent::Whole).await.unwrap().messages {
        let found = world.two.message(&world.scope, &name(to), message.id).await.unwrap();
        assert_eq!(found, Some(message));
    }
    all
}

async fn delete_and_check<S: Store>(world: &World<S>, to: &str) {
    let outcome = world.delete(to).await;
    assert!(matches!(outcome, DeleteOutcome::Deleted(_)), "{to}: {outcome:?}");
    world.leads_nowhere(to).await;
}

async fn pin<S: Store>(world: &World<S>, to: &str, turn: &Running) {
    let outcome = world.one.pin(&world.scope, &name(to), turn.messages[0].id, true).await.unwrap();
    assert_eq!(outcome, PinOutcome::Done);
}

/// Compacts all but the last message, and carries the pinned messages.
async fn compact<S: Store>(world: &World<S>, to: &str, mode: herma_model::provenance::CompactionMode) {
    let id = world.row(to).await.unwrap().facts.id;
    let pinned = world.two.pinned(world.scope.tenant, id).await.unwrap();
    let plan = world.plan(to, mode, 1, "so far").await;
    let carried: Vec<Seq> = pinned.iter().map(|said| said.seq).filter(|seq| *seq <= plan.through).collect();
    compacted(world.one.compact(NewCompaction { carried, ..plan }).await.unwrap());
}

/// Makes a conversation with failures, pins and compactions, a branch of it, and a branch of the branch. Returns their
/// names.
pub async fn family<S: Store>(world: &World<S>, root: &str) -> [String; 3] {
    let first = world.talk(&world.one, root, "first", "one").await;
    pin(world, root, &first).await;
    let failed = world.start(&world.one, root, "failed").await;
    world.leave(&world.one, &failed, TurnState::Failed, Some("we")).await;
    world.talk(&world.one, root, "second", "two").await;
    compact(world, root, Split).await;
    let third = world.talk(&world.one, root, "third", "three").await;
    compact(world, root, InPlace).await;
    world.talk(&world.one, root, "fourth", "four").await;
    let middle = world.branch(&world.one, third.turn, "instead", "fine").await;
    let to = middle.facts.id.to_string();
    pin(world, &to, &middle).await;
    let broken = world.start(&world.one, &to, "broken").await;
    world.leave(&world.one, &broken, TurnState::Interrupted, None).await;
    compact(world, &to, Split).await;
    let further = world.talk(&world.one, &to, "further", "on").await;
    let leaf = world.branch(&world.one, further.turn, "leaf", "falls").await;
    compact(world, &leaf.facts.id.to_string(), InPlace).await;
    world.talk(&world.one, &to, "later", "yes").await;
    [root.to_owned(), to, leaf.facts.id.to_string()]
}

pub async fn a_branch_goes_on_as_before<S: Store>(world: &World<S>) {
    let first = world.talk(&world.one, "trip", "first", "one").await;
    world.talk(&world.one, "trip", "second", "two").await;
    let branch = world.branch(&world.two, first.turn, "instead", "fine").await;
    let to = branch.facts.id.to_string();
    let before = everything(world, &to).await;
    delete_and_check(world, "trip").await;
    assert_eq!(everything(world, &to).await, before);
    assert_eq!(world.all(&world.scope).await.len(), 1);
    world.talk(&world.one, &to, "more", "yes").await;
    assert_eq!(shown(&world.read(&to).await.unwrap()), ["first", "one", "instead", "fine", "more", "yes"]);
    let again = world.branch(&world.two, branch.turn, "or", "so").await;
    assert_eq!(
        shown(&world.read(&again.facts.id.to_string()).await.unwrap()),
        ["first", "one", "instead", "fine", "or", "so"]
    );
}

pub async fn every_order_of_deletion_leaves_the_others_as_they_were<S: Store>(world: &World<S>) {
    for (number, order) in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]].into_iter().enumerate() {
        let root = format!("trip {number}");
        let names = family(world, &root).await;
        for (done, next) in order.iter().enumerate() {
            let others = &order[done + 1..];
            let mut before = Vec::new();
            for other in others {
                before.push(everything(world, &names[*other]).await);
            }
            delete_and_check(world, &names[*next]).await;
            for (other, before) in others.iter().zip(before) {
                assert_eq!(everything(world, &names[*other]).await, before, "{order:?}: {next} before {other}");
            }
            assert_eq!(world.all(&world.scope).await.len(), others.len());
        }
        world.make(&world.one, Some(&root)).await;
        delete_and_check(world, &root).await;
    }
}

pub async fn a_branch_stands_on_what_its_deleted_source_compacted<S: Store>(world: &World<S>) {
    let first = world.talk(&world.one, "trip", "first", "one").await;
    pin(world, "trip", &first).await;
    let second = world.talk(&world.one, "trip", "second", "two").await;
    compact(world, "trip", Split).await;
    let third = world.talk(&world.one, "trip", "third", "three").await;
    compact(world, "trip", InPlace).await;
    let fourth = world.talk(&world.one, "trip", "fourth", "four").await;
    let mut branches = Vec::new();
    for (turn, view) in [
        (&first, vec!["first", "one", "else", "fine"]),
        (&second, vec!["first", "one", "second", "two", "else", "fine"]),
        (&third, vec!["[so far]", "(first)", "two", "third", "three", "else", "fine"]),
        (&fourth, vec!["[so far]", "(first)", "three", "fourth", "four", "else", "fine"]),
    ] {
        let branch = world.branch(&world.one, turn.turn, "else", "fine").await;
        branches.push((branch.facts.id.to_string(), view));
    }
    delete_and_check(world, "trip").await;
    while let Some((last, _)) = branches.last() {
        for (to, view) in &branches {
            assert_eq!(shown(&world.read(to).await.unwrap()), *view);
        }
        delete_and_check(world, last).await;
        branches.pop();
    }
    assert!(world.all(&world.scope).await.is_empty());
}

pub async fn a_branch_goes_on_to_compact_and_undo<S: Store>(world: &World<S>) {
    let [root, middle, leaf] = family(world, "trip").await;
    let before = shown(&world.read(&leaf).await.unwrap());
    delete_and_check(world, &root).await;
    delete_and_check(world, &middle).await;
    compact(world, &leaf, Split).await;
    world.talk(&world.one, &leaf, "more", "yes").await;
    compact(world, &leaf, InPlace).await;
    for _ in 0..2 {
        let last = world.read(&leaf).await.unwrap().base.unwrap().summary.compaction;
        undone(world.undo(&world.one, &leaf, last).await);
    }
    let mut expected = before;
    expected.extend(["more".to_owned(), "yes".to_owned()]);
    assert_eq!(shown(&world.read(&leaf).await.unwrap()), expected);
}

pub async fn what_was_deleted_is_not_branched<S: Store>(world: &World<S>) {
    let first = world.talk(&world.one, "trip", "first", "one").await;
    let mut late = world.ask_branch(first.turn, "late");
    late.seen = world.seen(&world.two, &late).await;
    let branch = world.branch(&world.one, first.turn, "instead", "fine").await;
    let to = branch.facts.id.to_string();
    delete_and_check(world, "trip").await;
    assert!(world.turn(first.turn).await.is_none());
    for names in [first.turn.to_string(), first.turn.as_response().to_string(), first.facts.id.to_string()] {
        world.leads_nowhere(&names).await;
        assert_eq!(world.delete(&names).await, DeleteOutcome::NotFound);
    }
    for to in [to.as_str(), "trip"] {
        let at = world.two.open(&world.scope, &name(to), Namespace::Session, Extent::At(first.turn)).await.unwrap();
        assert!(at.is_none());
    }
    for ask in [late, world.ask_branch(first.turn, "new")] {
        assert_eq!(refused(world.two.admit(ask).await.unwrap()), Refusal::NotFound);
    }
    assert_eq!(world.try_answer(&world.one, &first, "late").await.unwrap_err(), StoreError::Fenced);
}

pub async fn a_name_that_is_taken_again_is_not_the_parent<S: Store>(world: &World<S>) {
    let first = world.talk(&world.one, "trip", "first", "one").await;
    let branch = world.branch(&world.one, first.turn, "instead", "fine").await;
    let to = branch.facts.id.to_string();
    let before = everything(world, &to).await;
    delete_and_check(world, "trip").await;
    let other = world.talk(&world.one, "trip", "another", "trip").await;
    let further = world.branch(&world.one, other.turn, "else", "fine").await;
    assert_eq!(everything(world, &to).await, before);
    assert_eq!(further.facts.head.parent, branch.facts.head.parent, "both have the same parent name");
    let further = further.facts.id.to_string();
    assert_eq!(shown(&world.read(&further).await.unwrap()), ["another", "trip", "else", "fine"]);
    delete_and_check(world, "trip").await;
    assert_eq!(everything(world, &to).await, before);
    delete_and_check(world, &to).await;
    assert_eq!(shown(&world.read(&further).await.unwrap()), ["another", "trip", "else", "fine"]);
}

pub async fn a_deleted_branch_changes_nothing_in_its_source<S: Store>(world: &World<S>) {
    let first = world.talk(&world.one, "trip", "first", "one").await;
    world.talk(&world.one, "trip", "second", "two").await;
    let before = everything(world, "trip").await;
    let branch = world.branch(&world.one, first.turn, "instead", "fine").await;
    delete_and_check(world, &branch.facts.id.to_string()).await;
    assert_eq!(everything(world, "trip").await, before);
    assert_eq!(world.turn(first.turn).await.unwrap().said().count(), 1);
    world.branch(&world.one, first.turn, "once more", "fine").await;
}

pub async fn a_branch_that_waits_to_be_made_keeps_what_it_inherits<S: Store>(world: &World<S>) {
    let first = world.talk(&world.one, "trip", "first", "one").await;
    let branch = running(world.admit(&world.one, world.ask_branch(first.turn, "instead")).await);
    let to = branch.facts.id.to_string();
    let waiting = world.queue(&world.two, world.ask(&to, "waits")).await;
    world.one.retract(branch.lease).await.unwrap();
    assert_eq!(world.delete(&to).await, DeleteOutcome::NotFound, "the branch does not exist yet");
    delete_and_check(world, "trip").await;
    let waiting = running(world.admit(&world.two, waiting).await);
    world.answer(&world.two, &waiting, "fine").await;
    assert_eq!(shown(&world.read(&to).await.unwrap()), ["first", "one", "waits", "fine"]);
}
