//! Branches and their sources are independent. Branches whose first turn fails or is retracted.

use herma_model::provenance::CompactionMode::{InPlace, Split};
use herma_model::{KeyScope, MessageId, Resolution, SessionKey, TurnId, TurnState};
use uuid::Uuid;

use super::World;
use super::fixture::{joined, name, noted, refused, running};
use super::summaries::{shown, undone};
use crate::admission::Idempotency;
use crate::{Admission, AdmitOutcome, Extent, Refusal, Scope, Store, Target, UndoOutcome};

pub async fn an_undo_in_the_source_changes_no_branch<S: Store>(world: &World<S>) {
    for mode in [Split, InPlace] {
        let to = mode.as_str();
        world.talk(&world.one, to, "first", "one").await;
        let done = world.compact(&world.one, to, mode, "so far").await;
        let source = world.talk(&world.one, to, "second", "two").await;
        let branch = world.branch(&world.two, source.turn, "instead", "fine").await.facts.id.to_string();
        undone(world.undo(&world.one, to, done.record.id).await);
        assert_eq!(shown(&world.read(to).await.unwrap()), ["first", "one", "second", "two"]);
        assert_eq!(shown(&world.read(&branch).await.unwrap()), ["[so far]", "one", "second", "two", "instead", "fine"]);
        let own = world.compact(&world.one, &branch, mode, "further").await;
        undone(world.undo(&world.one, &branch, own.record.id).await);
        assert_eq!(shown(&world.read(&branch).await.unwrap())[0], "[so far]");
        let late = world.branch(&world.two, source.turn, "late", "fine").await.facts.id.to_string();
        assert_eq!(shown(&world.read(&late).await.unwrap()), ["first", "one", "second", "two", "late", "fine"]);
    }
}

pub async fn a_branch_never_undoes_what_it_inherited<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let done = world.compact(&world.one, "trip", Split, "so far").await;
    let source = world.talk(&world.one, "trip", "second", "two").await;
    let branch = world.branch(&world.two, source.turn, "instead", "fine").await.facts.id.to_string();
    let outcome = world.undo(&world.two, &branch, done.record.id).await;
    assert!(matches!(outcome, UndoOutcome::NotFound), "{outcome:?}");
    assert!(world.ledger(&branch).await.rows.is_empty());
    assert_eq!(shown(&world.read("trip").await.unwrap())[0], "[so far]");
}

pub async fn what_is_no_answer_is_not_branched<S: Store>(world: &World<S>) {
    let failed = world.start(&world.one, "trip", "first").await;
    world.leave(&world.one, &failed, TurnState::Failed, Some("on")).await;
    let runs = world.start(&world.one, "trip", "second").await;
    let waits = world.queue(&world.two, world.ask("trip", "third")).await;
    let answered = world.talk(&world.one, "train", "first", "one").await;
    for source in [failed.turn, runs.turn, waits.turn, TurnId::from_uuid(Uuid::now_v7())] {
        let ask = world.ask_branch(source, "instead");
        assert_eq!(refused(world.admit(&world.two, ask.clone()).await), Refusal::NotFound);
        assert!(world.read_as("trip", Extent::At(source)).await.is_none());
        assert!(world.read(&ask.creation.conversation.to_string()).await.is_none());
    }
    let theirs = Admission { scope: world.stranger.clone(), ..world.ask_branch(answered.turn, "instead") };
    assert_eq!(refused(world.admit(&world.two, theirs).await), Refusal::NotFound);
    assert!(world.read_as("trip", Extent::At(answered.turn)).await.is_none(), "it is another conversation's");
    assert_eq!(world.all(&world.scope).await.len(), 2);
    assert!(world.all(&world.stranger).await.is_empty());
}

pub async fn a_source_that_has_changed_is_stale<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let done = world.compact(&world.one, "trip", Split, "so far").await;
    let source = world.talk(&world.one, "trip", "second", "two").await;
    let mut ask = world.ask_branch(source.turn, "instead");
    ask.seen = world.seen(&world.one, &ask).await;
    undone(world.undo(&world.one, "trip", done.record.id).await);
    assert!(matches!(world.two.admit(ask.clone()).await.unwrap(), AdmitOutcome::Stale));
    assert!(world.read(&ask.creation.conversation.to_string()).await.is_none());
    running(world.admit(&world.two, ask).await);
}

pub async fn a_branch_has_the_session_key_of_its_source<S: Store>(world: &World<S>) {
    let key = |text| SessionKey::parse(text).ok();
    let keyed = |ask, text| Admission { session_key: key(text), ..ask };
    let source = running(world.admit(&world.one, keyed(world.ask("trip", "first"), "mine")).await);
    world.answer(&world.one, &source, "one").await;
    let branch = world.branch(&world.one, source.turn, "instead", "fine").await;
    assert_eq!(branch.facts.session_key, key("mine"));
    let conflict = keyed(world.ask_branch(source.turn, "instead"), "yours");
    assert_eq!(refused(world.admit(&world.one, conflict).await), Refusal::SessionKeyConflict);
    let same = running(world.admit(&world.one, keyed(world.ask_branch(source.turn, "instead"), "mine")).await);
    assert_eq!(same.facts.session_key, key("mine"));
    let keys = KeyScope::parse(Some("yours"));
    let scope = Scope { keys, ..world.scope.clone() };
    let hidden = Admission { scope: scope.clone(), ..world.ask_branch(source.turn, "instead") };
    assert_eq!(refused(world.admit(&world.one, hidden).await), Refusal::NotFound);
    assert_eq!(world.all(&scope).await.len(), 0);
    let plain = world.talk(&world.one, "train", "first", "one").await;
    let brings = running(world.admit(&world.one, keyed(world.ask_branch(plain.turn, "instead"), "mine")).await);
    assert_eq!(brings.facts.session_key, key("mine"));
    assert_eq!(world.row("train").await.unwrap().facts.session_key, None);
}

pub async fn a_retracted_first_turn_leaves_nothing_of_a_branch<S: Store>(world: &World<S>) {
    let source = world.talk(&world.one, "trip", "first", "one").await;
    assert!(pin(world, "trip", source.messages[0].id).await);
    let before = world.read("trip").await.unwrap();
    for mode in [None, Some(Split), Some(InPlace)] {
        let mut branch = running(world.admit(&world.two, world.ask_branch(source.turn, "too long")).await);
        let to = branch.facts.id.to_string();
        let own = pin(world, &to, branch.messages[0].id).await;
        assert!(own && pin(world, &to, before.messages[1].id).await);
        if let Some(mode) = mode {
            world.compact_during(&world.two, &mut branch, mode, "so far").await;
        }
        world.two.retract(branch.lease).await.unwrap();
        for gone in [to.as_str(), branch.facts.head.id.as_str(), branch.facts.root.as_str()] {
            assert!(world.read(gone).await.is_none());
        }
        assert!(world.turn(branch.turn).await.is_none());
        assert_eq!(world.all(&world.scope).await.len(), 1);
    }
    let after = world.read("trip").await.unwrap();
    assert_eq!((after.version, after.messages), (before.version, before.messages));
}

async fn pin<S: Store>(world: &World<S>, to: &str, message: MessageId) -> bool {
    world.one.pin(&world.scope, &name(to), message, true).await.unwrap() == crate::PinOutcome::Done
}

pub async fn turns_that_waited_in_a_branch_make_it<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    world.compact(&world.one, "trip", Split, "so far").await;
    let source = world.talk(&world.one, "trip", "second", "two").await;
    for mode in [None, Some(Split), Some(InPlace)] {
        let mut branch = running(world.admit(&world.two, world.ask_branch(source.turn, "too long")).await);
        let to = branch.facts.id.to_string();
        let waiting = world.queue(&world.one, world.ask(&to, "shorter")).await;
        if let Some(mode) = mode {
            world.compact_during(&world.two, &mut branch, mode, "further").await;
        }
        world.two.retract(branch.lease).await.unwrap();
        let next = running(world.admit(&world.one, waiting).await);
        assert_eq!((next.resolution, &next.facts.root), (Resolution::Branched, &branch.facts.root));
        assert_eq!(next.facts.head.id, branch.facts.root);
        world.answer(&world.one, &next, "fine").await;
        let view = world.read(&to).await.unwrap();
        assert_eq!(shown(&view), ["[so far]", "one", "second", "two", "shorter", "fine"]);
        assert_eq!(world.row(&to).await.unwrap().message_count, 6);
    }
}

pub async fn a_later_turn_of_a_branch_is_retracted_alone<S: Store>(world: &World<S>) {
    let source = world.talk(&world.one, "trip", "first", "one").await;
    let to = world.branch(&world.one, source.turn, "instead", "fine").await.facts.id.to_string();
    let before = world.read(&to).await.unwrap();
    let turn = world.start(&world.one, &to, "too long").await;
    world.one.retract(turn.lease).await.unwrap();
    assert_eq!(world.read(&to).await.unwrap().messages, before.messages);
    let turn = world.talk(&world.one, &to, "more", "yes").await;
    assert_eq!(turn.messages[0].seq.0, 5);
}

pub async fn a_branch_that_failed_is_tried_again<S: Store>(world: &World<S>) {
    let source = world.talk(&world.one, "trip", "first", "one").await;
    let branch = running(world.admit(&world.two, world.ask_branch(source.turn, "instead")).await);
    world.leave(&world.two, &branch, TurnState::Failed, Some("fi")).await;
    let to = branch.facts.id.to_string();
    let again = |turn| Admission { retry_of: Some(turn), messages: Vec::new(), ..world.ask(&to, "again") };
    let mut other = again(source.turn);
    other.seen = world.seen(&world.one, &other).await;
    assert!(matches!(world.one.admit(other).await.unwrap(), AdmitOutcome::Stale), "it is not the last");
    let second = running(world.admit(&world.one, again(branch.turn)).await);
    assert_eq!((second.turn, second.attempt, second.facts.id), (branch.turn, 2, branch.facts.id));
    world.one.retract(second.lease).await.unwrap();
    assert!(world.read(&to).await.unwrap().unanswered.contains_key(&branch.turn));
    let third = running(world.admit(&world.one, again(branch.turn)).await);
    world.answer(&world.one, &third, "fine").await;
    assert_eq!(shown(&world.read(&to).await.unwrap()), ["first", "one", "instead", "fi", "fine"]);
}

pub async fn a_repeated_branch_is_recognised<S: Store>(world: &World<S>) {
    let source = world.talk(&world.one, "trip", "first", "one").await;
    let idempotency = Idempotency { scopes: [[1; 16], [2; 16]], body: [3; 16], with_stored_key: None };
    for by_key in [true, false] {
        let repeat = |sdk_attempt| {
            let mut ask = world.ask_branch(source.turn, "instead");
            ask.retry.fingerprint = [9; 16];
            ask.retry.sdk_attempt = if by_key { 0 } else { sdk_attempt };
            ask.retry.idempotency = by_key.then_some(idempotency);
            ask
        };
        let first = running(world.admit(&world.one, repeat(0)).await);
        assert_eq!(joined(world.admit(&world.two, repeat(1)).await), first.turn);
        world.leave(&world.one, &first, TurnState::Failed, None).await;
        let outcome = world.admit(&world.two, repeat(2)).await;
        assert!(
            matches!(outcome, AdmitOutcome::RetryIn(there, turn) if (there, turn) == (first.facts.id, first.turn)),
            "{outcome:?}"
        );
        let alias = name(&first.facts.id.to_string());
        let there = Target::Alias { alias, namespace: herma_model::alias::Namespace::Session, must_exist: true };
        let again = Admission { target: there, retry_of: Some(first.turn), messages: Vec::new(), ..repeat(2) };
        let second = running(world.admit(&world.two, again).await);
        assert_eq!((second.turn, second.attempt), (first.turn, 2));
        world.answer(&world.two, &second, "fine").await;
        assert_eq!(joined(world.admit(&world.one, repeat(3)).await), first.turn);
        world.one.mark_delivered(world.scope.tenant, first.turn);
        world.settle(&world.one).await;
    }
    assert_eq!(world.all(&world.scope).await.len(), 3);
}

pub async fn a_branch_whose_owner_is_gone_goes_on<S: Store>(world: &World<S>) {
    let source = world.talk(&world.two, "trip", "first", "one").await;
    let branch = running(world.admit(&world.one, world.ask_branch(source.turn, "instead")).await);
    world.one.journal(branch.lease, noted("fi"));
    world.one.close().await;
    let to = branch.facts.id.to_string();
    world.talk(&world.two, &to, "more", "yes").await;
    assert_eq!(shown(&world.read(&to).await.unwrap()), ["first", "one", "instead", "fi", "more", "yes"]);
}
