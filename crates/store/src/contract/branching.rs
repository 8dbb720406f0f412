//! Branches that begin with a turn, where a turn of another conversation ended.

use std::collections::HashSet;
use std::sync::Arc;

use herma_model::provenance::CompactionMode::{InPlace, Split};
use herma_model::{CreatorKind, ParentRelation, Payload, Resolution, Role, Seq, SessionKind, TurnState, Usage};

use super::World;
use super::fixture::{finish, message, name, running};
use super::pinning::with_calls;
use super::summaries::{compacted, shown, undone};
use crate::{Commit, Extent, NewCompaction, Pin, PinOutcome, Store, TurnOutcome};

pub async fn a_branch_has_what_was_said_up_to_its_point<S: Store>(world: &World<S>) {
    let first = world.talk(&world.one, "trip", "first", "one").await;
    let second = world.talk(&world.one, "trip", "second", "two").await;
    world.talk(&world.one, "trip", "third", "three").await;
    let at = world.read_as("trip", Extent::At(first.turn)).await.unwrap();
    assert_eq!((shown(&at), at.whole, at.counted), (vec!["first".into(), "one".into()], true, None));
    let branch = world.branch(&world.two, first.turn, "instead", "fine").await;
    assert_eq!(branch.messages[0].seq, Seq(3), "places continue after the inherited ones");
    let to = branch.facts.id.to_string();
    let all = ["first", "one", "instead", "fine"];
    assert_eq!(shown(&world.read(&to).await.unwrap()), all);
    world.talk(&world.one, "trip", "fourth", "four").await;
    for extent in [Extent::View, Extent::Whole, Extent::Session] {
        let view = world.read_as(branch.facts.head.id.as_str(), extent).await.unwrap();
        assert_eq!((shown(&view), view.whole), (all.map(str::to_owned).to_vec(), true), "{extent:?}");
    }
    world.branch(&world.one, second.turn, "or else", "fine").await;
    world.talk(&world.one, &to, "more", "yes").await;
    assert_eq!(shown(&world.read(&to).await.unwrap()), ["first", "one", "instead", "fine", "more", "yes"]);
    assert!(world.read_as(&to, Extent::At(first.turn)).await.is_none(), "the turn belongs to the source");
    let at = world.read_as(&to, Extent::At(branch.turn)).await.unwrap();
    assert_eq!(shown(&at), all);
}

pub async fn a_branch_says_what_it_is<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "first").await;
    let system: Arc<[Payload]> = Arc::from([Payload::from_json("{\"role\":\"system\",\"content\":\"be brief\"}")]);
    let outcome = TurnOutcome::Completed { messages: vec![message(Role::Assistant, "one")], finish: finish() };
    let commit = Commit { system: Some(Arc::clone(&system)), ..world.commit(&first, outcome) };
    world.one.commit(commit).await.unwrap();
    world.talk(&world.one, "trip", "second", "two").await;
    let mut ask = world.ask_branch(first.turn, "instead");
    ask.creation.reason = Some(Arc::from("previous_response"));
    let branch = running(world.admit(&world.two, ask.clone()).await);
    assert_eq!((branch.resolution, branch.turn, branch.attempt), (Resolution::Branched, ask.turn, 1));
    let (facts, head) = (&branch.facts, &branch.facts.head);
    assert_eq!((facts.id, &facts.root, &facts.previous), (ask.creation.conversation, &ask.creation.session, &None));
    assert_eq!((facts.origin_kind, facts.compaction_count), (SessionKind::Branch, 0));
    assert_eq!((&head.id, head.kind, head.depth), (&ask.creation.session, SessionKind::Branch, 0));
    assert_eq!(head.parent, Some((first.facts.head.id.clone(), ParentRelation::Branch)));
    assert_eq!((head.creator, &head.reason), (CreatorKind::Branch, &ask.creation.reason));
    world.answer(&world.two, &branch, "fine").await;
    for to in [ask.creation.session.to_string(), ask.creation.conversation.to_string()] {
        let view = world.read(&to).await.unwrap();
        assert_eq!((&view.facts, &view.system), (&branch.facts, &system));
        let row = world.row(&to).await.unwrap();
        let usage = Usage { cache_write: 0, ..finish().usage.unwrap() };
        assert_eq!((row.message_count, row.turn_count, row.usage), (4, 1, usage));
    }
}

pub async fn the_source_of_a_branch_never_notices<S: Store>(world: &World<S>) {
    let first = world.talk(&world.one, "trip", "first", "one").await;
    let second = world.start(&world.one, "trip", "second").await;
    let (before, row) = (world.read("trip").await.unwrap(), world.row("trip").await.unwrap());
    let branch = running(world.admit(&world.two, world.ask_branch(first.turn, "instead")).await);
    let (after, row_after) = (world.read("trip").await.unwrap(), world.row("trip").await.unwrap());
    assert_eq!((after.version, &after.facts, &after.messages), (before.version, &before.facts, &before.messages));
    assert_eq!((row_after.updated_at, row_after.message_count), (row.updated_at, row.message_count));
    world.answer(&world.one, &second, "two").await;
    let to = branch.facts.id.to_string();
    world.compact(&world.one, "trip", Split, "so far").await;
    world.answer(&world.two, &branch, "fine").await;
    assert_eq!(shown(&world.read(&to).await.unwrap()), ["first", "one", "instead", "fine"]);
    assert_eq!(shown(&world.read("trip").await.unwrap()), ["[so far]", "two"]);
    assert_eq!(world.said("trip", Pin::Head).await, ["first", "one", "second", "two", "[so far]"]);
}

pub async fn a_branch_may_be_branched<S: Store>(world: &World<S>) {
    let mut turn = world.talk(&world.one, "trip", "0", "0!").await;
    let mut all = vec!["0".to_owned(), "0!".to_owned()];
    for depth in 1..6 {
        let (question, answer) = (depth.to_string(), format!("{depth}!"));
        let branch = world.branch(&world.two, turn.turn, &question, &answer).await;
        world.talk(&world.one, &turn.facts.id.to_string(), "elsewhere", "yes").await;
        assert_eq!(branch.facts.head.parent, Some((turn.facts.head.id.clone(), ParentRelation::Branch)));
        all.extend([question, answer]);
        let to = branch.facts.id.to_string();
        assert_eq!(shown(&world.read(&to).await.unwrap()), all);
        assert_eq!(world.said(&to, Pin::Head).await, all);
        assert_eq!(world.row(&to).await.unwrap().message_count, all.len() as u64);
        turn = branch;
    }
}

pub async fn a_branch_before_a_compaction_has_the_messages_one_after_it_the_summary<S: Store>(world: &World<S>) {
    for mode in [Split, InPlace] {
        let to = mode.as_str();
        world.talk(&world.one, to, "first", "one").await;
        let before = world.talk(&world.one, to, "second", "two").await;
        let plan = NewCompaction { carried: vec![Seq(1)], ..world.plan(to, mode, 1, "so far").await };
        compacted(world.one.compact(plan).await.unwrap());
        let after = world.talk(&world.one, to, "third", "three").await;
        world.compact(&world.one, to, mode, "further").await;
        world.talk(&world.one, to, "fourth", "four").await;
        for (source, inherited) in [
            (&before, ["first", "one", "second", "two"].as_slice()),
            (&after, &["[so far]", "(first)", "two", "third", "three"]),
        ] {
            let at = world.read_as(to, Extent::At(source.turn)).await.unwrap();
            assert_eq!(shown(&at), inherited);
            let branch = world.branch(&world.two, source.turn, "instead", "fine").await;
            let view = world.read(&branch.facts.id.to_string()).await.unwrap();
            assert_eq!(shown(&view), [inherited, &["instead", "fine"]].concat());
            assert_eq!((&view.base, view.whole), (&at.base, at.base.is_none()));
        }
    }
}

pub async fn a_turn_that_compacted_is_branched_after_it<S: Store>(world: &World<S>) {
    for mode in [Split, InPlace] {
        let to = mode.as_str();
        world.talk(&world.one, to, "first", "one").await;
        let mut turn = world.start(&world.one, to, "second").await;
        world.compact_during(&world.one, &mut turn, mode, "so far").await;
        world.answer(&world.one, &turn, "two").await;
        let branch = world.branch(&world.two, turn.turn, "instead", "fine").await;
        assert_eq!(branch.facts.head.parent, Some((turn.facts.head.id.clone(), ParentRelation::Branch)));
        let view = world.read(&branch.facts.id.to_string()).await.unwrap();
        assert_eq!(shown(&view), ["[so far]", "second", "two", "instead", "fine"]);
        assert_eq!((branch.facts.head.depth, branch.facts.compaction_count), (0, 0));
    }
}

pub async fn a_branch_is_compacted_and_that_undone<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let source = world.talk(&world.one, "trip", "second", "two").await;
    for mode in [Split, InPlace] {
        let branch = world.branch(&world.two, source.turn, "instead", "fine").await;
        let to = branch.facts.id.to_string();
        let version = world.read("trip").await.unwrap().version;
        let plan = NewCompaction { carried: vec![Seq(1)], ..world.plan(&to, mode, 3, "within").await };
        let within = compacted(world.one.compact(plan).await.unwrap());
        assert_eq!((within.record.first, within.record.through), (Seq(1), Seq(3)));
        let view = world.read(&to).await.unwrap();
        assert_eq!(shown(&view), ["[within]", "(first)", "two", "instead", "fine"]);
        let beyond = world.compact(&world.one, &to, mode, "beyond").await;
        assert_eq!((beyond.record.first, beyond.record.through), (Seq(4), Seq(5)));
        world.talk(&world.one, &to, "more", "yes").await;
        assert_eq!(shown(&world.read(&to).await.unwrap()), ["[beyond]", "fine", "more", "yes"]);
        assert_eq!(world.ledger(&to).await.rows.len(), 2);
        undone(world.undo(&world.one, &to, beyond.record.id).await);
        undone(world.undo(&world.two, &to, within.record.id).await);
        assert_eq!(
            shown(&world.read(&to).await.unwrap()),
            ["first", "one", "second", "two", "instead", "fine", "more", "yes"]
        );
        assert_eq!(world.read("trip").await.unwrap().version, version);
        assert!(world.ledger("trip").await.rows.is_empty());
    }
}

pub async fn a_branch_of_a_compacted_branch_goes_along_its_lineage<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    world.compact(&world.one, "trip", Split, "a").await;
    let source = world.talk(&world.one, "trip", "second", "two").await;
    let middle = world.branch(&world.one, source.turn, "third", "three").await;
    let to = middle.facts.id.to_string();
    let plan = world.plan(&to, Split, 3, "b").await;
    let done = compacted(world.one.compact(plan).await.unwrap());
    let turn = world.talk(&world.one, &to, "fourth", "four").await;
    assert_eq!(turn.facts.head.id, done.facts.head.id);
    let early = world.branch(&world.two, middle.turn, "early", "yes").await.facts.id.to_string();
    assert_eq!(
        shown(&world.read(&early).await.unwrap()),
        ["[a]", "one", "second", "two", "third", "three", "early", "yes"]
    );
    let late = world.branch(&world.two, turn.turn, "late", "yes").await.facts.id.to_string();
    assert_eq!(
        shown(&world.read(&late).await.unwrap()),
        ["[b]", "two", "third", "three", "fourth", "four", "late", "yes"]
    );
    let all = ["first", "one", "[a]", "second", "two", "third", "three", "[b]", "fourth", "four", "late", "yes"];
    assert_eq!(world.said(&late, Pin::Head).await, all);
    let done = world.compact(&world.two, &late, InPlace, "c").await;
    assert_eq!(shown(&world.read(&late).await.unwrap()), ["[c]", "yes"]);
    undone(world.undo(&world.two, &late, done.record.id).await);
    assert_eq!(shown(&world.read(&late).await.unwrap())[..2], ["[b]", "two"]);
}

pub async fn inherited_messages_are_carried_and_pinned<S: Store>(world: &World<S>) {
    let first = world.talk(&world.one, "trip", "first", "one").await;
    let source = world.talk(&world.one, "trip", "second", "two").await;
    let later = world.talk(&world.one, "trip", "third", "three").await;
    let pin = async |to: &str, id, pinned| world.one.pin(&world.scope, &name(to), id, pinned).await.unwrap();
    for said in [&first.messages[0], &later.messages[0]] {
        assert_eq!(pin("trip", said.id, true).await, PinOutcome::Done);
    }
    let branch = world.branch(&world.two, source.turn, "instead", "fine").await;
    let to = branch.facts.id.to_string();
    let pinned = async |id| {
        let kept = world.two.pinned(world.scope.tenant, id).await.unwrap();
        kept.iter().map(|said| said.seq).collect::<Vec<_>>()
    };
    assert_eq!(pinned(branch.facts.id).await, [Seq(1)], "earlier pins are inherited");
    assert_eq!(pin(&to, source.messages[0].id, true).await, PinOutcome::Done);
    assert_eq!(pin(&to, later.messages[0].id, true).await, PinOutcome::NotFound);
    assert_eq!(pinned(branch.facts.id).await, [Seq(1), Seq(3)]);
    assert_eq!(pinned(first.facts.id).await, [Seq(1), Seq(5)], "later pins are not shared");
    let plan = NewCompaction { carried: pinned(branch.facts.id).await, ..world.plan(&to, Split, 1, "so far").await };
    compacted(world.one.compact(plan).await.unwrap());
    assert_eq!(shown(&world.read(&to).await.unwrap()), ["[so far]", "(first)", "(second)", "fine"]);
    assert_eq!(pin(&to, first.messages[0].id, false).await, PinOutcome::Done);
    assert_eq!(pinned(first.facts.id).await, [Seq(1), Seq(5)]);
}

pub async fn a_call_and_its_results_belong_together_across_the_point<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "look").await;
    let messages = vec![with_calls(Role::Assistant, "calling", &["a", "b"])];
    world.one.commit(world.commit(&turn, TurnOutcome::Completed { messages, finish: finish() })).await.unwrap();
    world.talk(&world.one, "trip", "never mind", "fine").await;
    let mut ask = world.ask_branch(turn.turn, "");
    ask.messages = vec![with_calls(Role::Tool, "A", &["a"]), with_calls(Role::Tool, "B", &["b"])];
    let branch = running(world.admit(&world.two, ask).await);
    world.answer(&world.two, &branch, "done").await;
    let to = name(&branch.facts.id.to_string());
    for pinned in [world.read_as(to.as_str(), Extent::View).await.unwrap().messages[1].id, branch.messages[1].id] {
        assert_eq!(world.one.pin(&world.scope, &to, pinned, true).await.unwrap(), PinOutcome::Done);
        let kept = world.two.pinned(world.scope.tenant, branch.facts.id).await.unwrap();
        assert_eq!(kept.iter().map(|said| said.seq.0).collect::<Vec<_>>(), [2, 3, 4]);
        assert_eq!(world.one.pin(&world.scope, &to, pinned, false).await.unwrap(), PinOutcome::Done);
        assert!(world.two.pinned(world.scope.tenant, branch.facts.id).await.unwrap().is_empty());
    }
}

pub async fn the_full_view_of_a_branch_has_everything_once<S: Store>(world: &World<S>) {
    for number in 0..5 {
        world.talk(&world.one, "trip", &number.to_string(), "yes").await;
    }
    let split = world.compact(&world.one, "trip", Split, "so far").await;
    let source = world.talk(&world.one, "trip", "last", "yes").await;
    let branch = world.branch(&world.two, source.turn, "instead", "fine").await;
    world.talk(&world.one, "trip", "later", "yes").await;
    let to = branch.facts.id.to_string();
    let entries = world.entries(&world.scope, &to, Pin::Head).await;
    assert_eq!(entries[..13], world.entries(&world.scope, "trip", Pin::Head).await[..13]);
    assert_eq!(entries.len(), 15);
    let places: HashSet<Seq> = entries.iter().map(crate::Entry::seq).collect();
    assert_eq!(places.len(), 15);
    for exact in [to.as_str(), branch.facts.head.id.as_str()] {
        assert_eq!(world.said(exact, Pin::Exact).await, ["instead", "fine"]);
    }
    assert_eq!(world.said(split.facts.head.id.as_str(), Pin::Exact).await.len(), 5);
}

pub async fn unanswered_turns_are_inherited<S: Store>(world: &World<S>) {
    let failed = world.start(&world.one, "trip", "first").await;
    world.leave(&world.one, &failed, TurnState::Failed, Some("on")).await;
    let source = world.talk(&world.one, "trip", "second", "two").await;
    let later = world.start(&world.one, "trip", "third").await;
    world.leave(&world.one, &later, TurnState::Failed, None).await;
    let at = world.read_as("trip", Extent::At(source.turn)).await.unwrap();
    let branch = world.branch(&world.two, source.turn, "instead", "fine").await;
    let view = world.read(&branch.facts.id.to_string()).await.unwrap();
    assert_eq!(shown(&view), ["first", "on", "second", "two", "instead", "fine"]);
    for unanswered in [at.unanswered, view.unanswered] {
        assert_eq!(unanswered.into_keys().collect::<Vec<_>>(), [failed.turn]);
    }
}

pub async fn simultaneous_branches_are_two_conversations<S: Store>(world: &World<S>) {
    let source = world.talk(&world.one, "trip", "first", "one").await;
    world.talk(&world.one, "trip", "second", "two").await;
    let (one, two) = tokio::join!(
        world.branch(&world.one, source.turn, "this way", "yes"),
        world.branch(&world.two, source.turn, "that way", "yes")
    );
    assert_ne!(one.facts.id, two.facts.id);
    for (branch, said) in [(one, "this way"), (two, "that way")] {
        let view = world.read(&branch.facts.id.to_string()).await.unwrap();
        assert_eq!(shown(&view), ["first", "one", said, "yes"]);
    }
    assert_eq!(world.all(&world.scope).await.len(), 3);
}
