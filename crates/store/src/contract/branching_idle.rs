//! Branches that begin without a turn, at the end or at any message.

use std::sync::Arc;

use herma_model::provenance::CompactionMode::{InPlace, Split};
use herma_model::{
    ConversationId, CreatorKind, MessageId, NewMessage, ParentRelation, Role, SessionKey, SessionKind, TurnState,
};
use uuid::Uuid;

use super::World;
use super::describing::keyed;
use super::fixture::{finish, message, name, running};
use super::pinning::with_calls;
use super::spending::without_tree;
use super::summaries::{shown, undone};
use crate::BranchPoint::{End, Message};
use crate::{
    Admission, BranchOutcome, BranchPoint, ConversationRow, Extent, NewBranch, PinOutcome, Running, Scope, Store,
    TurnOutcome,
};

impl<S: Store> World<S> {
    /// A branch to be made.
    pub fn new_branch(&self, source: &str, at: BranchPoint) -> NewBranch {
        NewBranch {
            scope: self.scope.clone(),
            source: name(source),
            at,
            alias: None,
            creation: self.ask_anew("").creation,
            title: None,
            metadata: None,
            cwd: None,
            now: self.now(),
        }
    }

    /// Makes a branch.
    pub async fn make_branch(&self, source: &str, at: BranchPoint) -> ConversationRow {
        branched(self.one.branch(self.new_branch(source, at)).await.unwrap())
    }

    /// Makes a branch and returns what the model is shown in it.
    async fn inherited(&self, source: &str, at: BranchPoint) -> Vec<String> {
        let row = self.make_branch(source, at).await;
        let view = self.read(&row.facts.id.to_string()).await.unwrap();
        assert_eq!(
            row.message_count,
            self.read_as(&row.facts.id.to_string(), Extent::Whole).await.unwrap().messages.len() as u64
        );
        shown(&view)
    }

    /// The ids of all messages of a conversation.
    async fn ids(&self, to: &str) -> Vec<MessageId> {
        self.read_as(to, Extent::Whole).await.unwrap().messages.iter().map(|said| said.id).collect()
    }
}

/// Returns the branch; panics on any other outcome.
pub fn branched(outcome: BranchOutcome) -> ConversationRow {
    match outcome {
        BranchOutcome::Made(row) => *row,
        other => panic!("expected a branch, got {other:?}"),
    }
}

/// A turn with these input messages and these answer messages.
pub async fn exchange<S: Store>(
    world: &World<S>,
    to: &str,
    brought: &[NewMessage],
    answered: &[NewMessage],
) -> Running {
    let turn = Admission { messages: brought.to_vec(), ..world.ask(to, "") };
    let turn = running(world.admit(&world.one, turn).await);
    let outcome = TurnOutcome::Completed { messages: answered.to_vec(), finish: finish() };
    world.one.commit(world.commit(&turn, outcome)).await.unwrap();
    turn
}

pub async fn a_branch_at_the_end_has_all_that_was_said<S: Store>(world: &World<S>) {
    let key = SessionKey::parse("mine").ok();
    let first = Admission { session_key: key.clone(), ..world.ask("trip", "first") };
    let first = running(world.admit(&world.one, first).await);
    world.answer(&world.one, &first, "one").await;
    world.one.pin(&world.scope, &name("trip"), first.messages[0].id, true).await.unwrap();
    let (before, row_before) = (world.read("trip").await.unwrap(), world.row("trip").await.unwrap());
    let new = NewBranch {
        alias: Some(name("other way")),
        title: Some("The other way".to_owned()),
        metadata: Some(Arc::from("{\"a\":\"b\"}")),
        ..world.new_branch(&first.turn.to_string(), End)
    };
    let row = branched(world.two.branch(new.clone()).await.unwrap());
    let head = &row.facts.head;
    assert_eq!((head.id.as_str(), head.kind, head.creator), ("other way", SessionKind::Branch, CreatorKind::Branch));
    assert_eq!(head.parent, Some((first.facts.head.id.clone(), ParentRelation::Branch)));
    assert_eq!((row.facts.id, row.facts.origin_kind), (new.creation.conversation, SessionKind::Branch));
    assert_eq!((&row.title, row.metadata.as_deref()), (&new.title, new.metadata.as_deref()));
    assert_eq!((&row.facts.session_key, row.message_count, row.turn_count), (&key, 2, 0));
    let kept = world.two.pinned(world.scope.tenant, row.facts.id).await.unwrap();
    assert_eq!(kept.len(), 1, "the pin is inherited");
    world.talk(&world.one, "other way", "second", "two").await;
    assert_eq!(shown(&world.read("other way").await.unwrap()), ["first", "one", "second", "two"]);
    let (after, row_after) = (world.read("trip").await.unwrap(), world.row("trip").await.unwrap());
    assert_eq!((after.version, after.facts, after.messages), (before.version, before.facts, before.messages));
    assert_eq!(
        format!("{:?}", without_tree(row_after)),
        format!("{:?}", without_tree(row_before)),
        "the source is not changed"
    );
}

pub async fn a_branch_at_a_message_ends_with_the_answer_it_belongs_to<S: Store>(world: &World<S>) {
    let say = |text: &str| message(Role::User, text);
    let answer = |text: &str| message(Role::Assistant, text);
    // Items that a client added at once, a turn with calls and results, a turn that ended with a call, and its results.
    exchange(world, "trip", &[say("1"), answer("2"), say("3")], &[answer("4")]).await;
    let calls = [with_calls(Role::Assistant, "6", &["a", "b"]), with_calls(Role::Tool, "7", &["a"])];
    let rest = [with_calls(Role::Tool, "8", &["b"]), answer("9")];
    exchange(world, "trip", &[say("5")], &[calls, rest].concat()).await;
    exchange(world, "trip", &[say("10")], &[with_calls(Role::Assistant, "11", &["c"])]).await;
    exchange(world, "trip", &[with_calls(Role::Tool, "12", &["c"])], &[answer("13")]).await;
    let ids = world.ids("trip").await;
    let ends = [2, 2, 4, 4, 9, 9, 9, 9, 9, 11, 11, 13, 13];
    assert_eq!(ids.len(), ends.len());
    for (id, end) in ids.iter().zip(ends) {
        let expected: Vec<String> = (1..=end).map(|place| place.to_string()).collect();
        assert_eq!(world.inherited("trip", Message(*id)).await, expected);
    }
    assert_eq!(world.inherited("trip", End).await.len(), 13);
}

pub async fn a_branch_goes_by_the_compactions_of_its_place<S: Store>(world: &World<S>) {
    for mode in [Split, InPlace] {
        let to = mode.as_str();
        world.talk(&world.one, to, "first", "one").await;
        world.talk(&world.one, to, "second", "two").await;
        world.compact(&world.one, to, mode, "so far").await;
        assert_eq!(world.inherited(to, End).await, ["[so far]", "two"]);
        let mut turn = world.start(&world.one, to, "third").await;
        let during = world.compact_during(&world.one, &mut turn, mode, "further").await;
        assert_eq!(world.inherited(to, End).await, ["[so far]", "two"], "the turn may still be retracted");
        world.answer(&world.one, &turn, "three").await;
        world.talk(&world.two, to, "fourth", "four").await;
        let ids = world.ids(to).await;
        for (place, view) in [
            (1, ["first", "one"].as_slice()),
            (2, &["first", "one", "second", "two"]),
            (4, &["[further]", "third", "three"]),
            (7, &["[further]", "third", "three", "fourth", "four"]),
        ] {
            assert_eq!(world.inherited(to, Message(ids[place])).await, view, "{to} {place}");
        }
        undone(world.undo(&world.one, to, during.record.id).await);
        let after = world.inherited(to, End).await;
        assert_eq!(after, ["[so far]", "two", "third", "three", "fourth", "four"]);
        let end = world.read_as(to, Extent::Completed).await.unwrap();
        assert_eq!(shown(&end), after);
    }
}

pub async fn what_has_no_answer_is_no_end<S: Store>(world: &World<S>) {
    let empty = world.make_branch(&world.make(&world.one, None).await.facts.id.to_string(), End).await;
    assert_eq!(empty.message_count, 0);
    let first = world.talk(&world.one, "trip", "first", "one").await;
    let failed = world.start(&world.one, "trip", "second").await;
    world.leave(&world.one, &failed, TurnState::Failed, Some("part")).await;
    let unanswered = async |at: MessageId| {
        let outcome = world.two.branch(world.new_branch("trip", Message(at))).await.unwrap();
        assert!(matches!(outcome, BranchOutcome::Unanswered), "{outcome:?}");
    };
    unanswered(failed.messages[0].id).await;
    assert_eq!(world.inherited("trip", End).await, ["first", "one"]);
    // A summary of a failed turn, which may be tried again, is not inherited.
    let done = world.compact(&world.one, "trip", InPlace, "so far").await;
    assert_eq!(world.inherited("trip", End).await, ["first", "one"]);
    undone(world.undo(&world.one, "trip", done.record.id).await);
    let running = world.start(&world.one, "trip", "third").await;
    unanswered(failed.messages[0].id).await;
    unanswered(running.messages[0].id).await;
    assert_eq!(world.inherited("trip", Message(first.messages[0].id)).await, ["first", "one"]);
    let end = world.read_as("trip", Extent::Completed).await.unwrap();
    assert_eq!((shown(&end), end.version), (vec!["first".to_owned(), "one".to_owned()], running.version));
    world.answer(&world.one, &running, "three").await;
    let all = ["first", "one", "second", "part", "third", "three"];
    assert_eq!(world.inherited("trip", Message(failed.messages[0].id)).await, all);
    assert_eq!(world.inherited("trip", End).await, all);
}

pub async fn a_branch_is_branched_where_it_inherits<S: Store>(world: &World<S>) {
    let first = world.talk(&world.one, "trip", "first", "one").await;
    world.compact(&world.one, "trip", InPlace, "so far").await;
    let second = world.talk(&world.one, "trip", "second", "two").await;
    world.talk(&world.one, "trip", "third", "three").await;
    let middle = world.make_branch("trip", Message(second.messages[0].id)).await;
    let to = middle.facts.id.to_string();
    let parent = Some((middle.facts.root.clone(), ParentRelation::Branch));
    for deleted in [false, true] {
        if deleted {
            world.delete("trip").await;
        }
        for (at, view) in [
            (End, ["[so far]", "one", "second", "two"].as_slice()),
            (Message(second.messages[0].id), &["[so far]", "one", "second", "two"]),
            (Message(first.messages[0].id), &["first", "one"]),
        ] {
            let row = world.make_branch(&to, at).await;
            assert_eq!(row.facts.head.parent, parent, "its parent is the branch");
            let further = row.facts.id.to_string();
            assert_eq!(shown(&world.read(&further).await.unwrap()), view);
            world.talk(&world.two, &further, "more", "yes").await;
            assert_eq!(shown(&world.read(&further).await.unwrap()), [view, &["more", "yes"]].concat());
        }
    }
    world.delete(&to).await;
    assert_eq!(world.all(&world.scope).await.len(), 6);
}

pub async fn a_missing_source_or_message_is_not_branched<S: Store>(world: &World<S>) {
    let key = Admission { session_key: SessionKey::parse("mine").ok(), ..world.ask("trip", "first") };
    let turn = running(world.admit(&world.one, key).await);
    world.answer(&world.one, &turn, "one").await;
    world.talk(&world.one, "train", "other", "one").await;
    let done = world.compact(&world.one, "train", InPlace, "so far").await;
    let outcome = async |scope: &Scope, source: &str, at| {
        let new = NewBranch { scope: scope.clone(), ..world.new_branch(source, at) };
        world.two.branch(new).await.unwrap()
    };
    for (scope, source) in
        [(&world.scope, "nowhere"), (&world.stranger, "trip"), (&keyed("other", &world.scope), "trip")]
    {
        assert!(matches!(outcome(scope, source, End).await, BranchOutcome::NotFound));
    }
    let summary = done.record.summary.unwrap().id;
    for (source, id) in
        [("trip", MessageId::from_uuid(Uuid::now_v7())), ("train", turn.messages[0].id), ("train", summary)]
    {
        assert!(matches!(outcome(&world.scope, source, Message(id)).await, BranchOutcome::NoSuchMessage));
    }
    let reserved = ConversationId::from_uuid(Uuid::now_v7()).to_string();
    for (taken, reserved) in [("train", false), (&*reserved, true)] {
        let new = NewBranch { alias: Some(name(taken)), ..world.new_branch("trip", End) };
        let outcome = world.two.branch(new).await.unwrap();
        assert_eq!(matches!(outcome, BranchOutcome::Reserved), reserved, "{outcome:?}");
        assert_eq!(matches!(outcome, BranchOutcome::Exists), !reserved, "{outcome:?}");
    }
    assert_eq!(world.all(&world.scope).await.len(), 2);
}

pub async fn what_is_inherited_without_a_turn_is_kept<S: Store>(world: &World<S>) {
    let first = world.talk(&world.one, "trip", "first", "one").await;
    let row = world.make_branch("trip", End).await;
    let to = row.facts.id.to_string();
    let second = world.talk(&world.one, "trip", "second", "two").await;
    let seen = world.read("trip").await.unwrap().messages;
    let outcome = world.rewrite(&world.one, "trip", &seen[0], None).await;
    assert_eq!(outcome, crate::RewriteOutcome::Shared);
    world.delete("trip").await;
    assert_eq!(shown(&world.read(&to).await.unwrap()), ["first", "one"]);
    let pinned = world.one.pin(&world.scope, &name(&to), first.messages[0].id, true).await.unwrap();
    assert_eq!(pinned, PinOutcome::Done);
    world.leads_nowhere(&second.turn.to_string()).await;
    let turn = world.start(&world.one, &to, "taken back").await;
    world.one.retract(turn.lease).await.unwrap();
    assert_eq!(world.row(&to).await.unwrap().facts, row.facts, "the branch existed before the turn");
    let branches = tokio::join!(world.make_branch(&to, End), world.make_branch(&to, End));
    assert_ne!(branches.0.facts.id, branches.1.facts.id);
}
