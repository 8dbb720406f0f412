//! The revision of a conversation, which clients see as its ETag, and operations that expect one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use herma_model::provenance::CompactionMode::InPlace;
use herma_model::{EndReason, TurnState};

use super::World;
use super::fixture::{joined, name, running};
use super::idempotency::with_key;
use super::summaries::undone;
use crate::{
    Admission, AdmitOutcome, BranchPoint, Change, Children, Creation, ExpectedRevision, MadeTitle, NewBranch,
    NewConversation, Revision, Rewrite, Scope, Store, StoreError, TurnPolicy,
};

async fn revision<S: Store>(world: &World<S>, to: &str) -> Revision {
    world.row(to).await.unwrap().revision
}

/// The world's scope, with a conversation's present revision as the expected one.
async fn expecting<S: Store>(world: &World<S>, to: &str, revision: Revision) -> Scope {
    let id = world.row(to).await.unwrap().facts.id;
    world.scope.clone().expecting(Some(ExpectedRevision::OneOf([revision.tag(id)].into())))
}

/// Asks for a turn with an expected revision, as a gateway does.
async fn ask_at<S: Store>(world: &World<S>, ask: Admission, scope: &Scope) -> Result<AdmitOutcome, StoreError> {
    let seen = world.seen(&world.one, &ask).await;
    world.one.admit(Admission { seen, scope: scope.clone(), ..ask }).await
}

pub async fn every_change_that_a_client_can_see_makes_another_revision<S: Store>(world: &World<S>) {
    let first = world.talk(&world.one, "trip", "first", "one").await;
    let mut revisions = vec![revision(world, "trip").await];
    let mut changed = async |what: &str| {
        let now = revision(world, "trip").await;
        assert!(!revisions.contains(&now), "{what}: {now:?} was there before");
        revisions.push(now);
    };
    let turn = world.start(&world.one, "trip", "second").await;
    changed("a turn that runs").await;
    let step = world.append(&world.one, &turn, 1, "let me look").await.unwrap();
    assert_eq!(step.revision, revision(world, "trip").await);
    changed("a step of a turn that runs").await;
    let committed = world.answer(&world.one, &turn, "two").await;
    assert_eq!((committed.revision, turn.revision), (revision(world, "trip").await, revision(world, "trip").await));
    changed("a turn that has ended").await;
    let failed = world.start(&world.one, "trip", "third").await;
    world.leave(&world.one, &failed, TurnState::Failed, None).await;
    changed("a turn that failed").await;
    let change = Change { archived: Some(true), ..Change::default() };
    let row = world.one.update(&world.scope, &name("trip"), change, world.now()).await.unwrap().unwrap();
    assert_eq!(row.revision, revision(world, "trip").await);
    changed("a change of its description").await;
    for pinned in [true, false] {
        world.one.pin(&world.scope, &name("trip"), first.messages[0].id, pinned).await.unwrap();
        changed("a pin").await;
    }
    let done = world.compact(&world.one, "trip", InPlace, "so far").await;
    assert_eq!(done.revision, revision(world, "trip").await);
    changed("a compaction").await;
    let back = undone(world.undo(&world.one, "trip", done.record.id).await);
    assert_eq!(back.revision, revision(world, "trip").await);
    changed("an undo").await;
    let seen = world.one.message(&world.scope, &name("trip"), failed.messages[0].id).await.unwrap().unwrap();
    let rewrite = Rewrite { scope: world.scope.clone(), alias: name("trip"), seen, said: None, now: world.now() };
    world.rewritten.store(true, Ordering::Relaxed);
    world.one.rewrite(rewrite).await.unwrap();
    changed("a message that was deleted").await;
    world.one.end(&world.scope, &name("trip"), EndReason::Ended, world.now()).await.unwrap();
    changed("an end").await;
    world.one.reopen(&world.scope, &name("trip"), world.now()).await.unwrap();
    changed("a reopening").await;
}

pub async fn what_changes_nothing_for_a_client_leaves_the_revision<S: Store>(world: &World<S>) {
    let first = world.talk(&world.one, "trip", "first", "one").await;
    let before = revision(world, "trip").await;
    let turn = world.start(&world.one, "trip", "second").await;
    let while_running = revision(world, "trip").await;
    let waiting = world.queue(&world.two, world.ask("trip", "third")).await;
    world.withdraw(&world.two, &world.scope, waiting.turn).await;
    assert_eq!(revision(world, "trip").await, while_running, "a waiting turn");
    world.one.retract(turn.lease).await.unwrap();
    assert_eq!(revision(world, "trip").await, before, "a retracted turn");
    world.one.pin(&world.scope, &name("trip"), first.messages[0].id, false).await.unwrap();
    world.one.reopen(&world.scope, &name("trip"), world.now()).await.unwrap();
    let title = MadeTitle::Model("A trip".to_owned());
    world.one.make_title(world.scope.tenant, first.facts.id, title, world.now()).await.unwrap();
    world.one.mark_delivered(world.scope.tenant, first.turn);
    world.settle(&world.one).await;
    assert_eq!(revision(world, "trip").await, before);
    let again = world.talk(&world.one, "trip", "second", "two").await;
    assert_ne!(again.revision, turn.revision, "the revision of the retracted turn is not used again");
}

pub async fn only_the_expected_revision_is_changed<S: Store>(world: &World<S>) {
    let said = world.talk(&world.one, "trip", "first", "one").await;
    let old = revision(world, "trip").await;
    world.talk(&world.one, "trip", "second", "two").await;
    let (stale, now) = (expecting(world, "trip", old).await, world.now());
    let before = revision(world, "trip").await;
    let message = world.one.message(&world.scope, &name("trip"), said.messages[0].id).await.unwrap().unwrap();
    let (trip, one) = (name("trip"), &world.one);
    let mut plan = world.plan("trip", InPlace, 0, "so far").await;
    plan.authority = crate::Authority::Idle { scope: stale.clone(), alias: trip.clone() };
    let branch = |scope: &Scope| NewBranch {
        scope: scope.clone(),
        source: name("trip"),
        at: BranchPoint::End,
        alias: None,
        creation: Creation { conversation: world.ask_anew("").creation.conversation, ..world.ask_anew("").creation },
        title: None,
        metadata: None,
        cwd: None,
        now,
    };
    let rewrite = Rewrite { scope: stale.clone(), alias: trip.clone(), seen: message, said: None, now };
    let refusals = [
        one.update(&stale, &trip, Change { archived: Some(true), ..Change::default() }, now).await.map(drop),
        one.end(&stale, &trip, EndReason::Ended, now).await.map(drop),
        one.reopen(&stale, &trip, now).await.map(drop),
        one.pin(&stale, &trip, said.messages[0].id, true).await.map(drop),
        one.compact(plan.clone()).await.map(drop),
        one.rewrite(rewrite).await.map(drop),
        one.branch(branch(&stale)).await.map(drop),
        one.delete(&stale, &trip, Children::Keep, now).await.map(drop),
        ask_at(world, world.ask("trip", "third"), &stale).await.map(drop),
        ask_at(world, world.ask_branch(said.turn, "third"), &stale).await.map(drop),
    ];
    for (at, refusal) in refusals.iter().enumerate() {
        assert_eq!(*refusal, Err(StoreError::VersionMismatch), "operation {at}");
    }
    assert_eq!(revision(world, "trip").await, before);
    assert_eq!((world.all(&world.scope).await.len(), world.ledger("trip").await.rows.len()), (1, 0));
    for scope in [expecting(world, "trip", before).await, world.scope.clone().expecting(Some(ExpectedRevision::Any))] {
        one.branch(branch(&scope)).await.unwrap();
        let turn = running(ask_at(world, world.ask("trip", "third"), &scope).await.unwrap());
        one.retract(turn.lease).await.unwrap();
    }
}

pub async fn what_does_not_exist_is_at_no_revision<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let current = expecting(world, "trip", revision(world, "trip").await).await;
    for scope in [current.clone(), world.scope.clone().expecting(Some(ExpectedRevision::Any))] {
        for ask in [world.ask("new", "first"), world.ask_anew("first")] {
            assert_eq!(ask_at(world, ask, &scope).await.map(drop), Err(StoreError::VersionMismatch));
        }
    }
    world.one.delete(&world.scope, &name("trip"), Children::Keep, world.now()).await.unwrap();
    world.talk(&world.one, "trip", "first", "one").await;
    let mismatch = ask_at(world, world.ask("trip", "second"), &current).await.map(drop);
    assert_eq!(mismatch, Err(StoreError::VersionMismatch), "the same name, but another conversation");
    assert_eq!(world.all(&world.scope).await.len(), 1);
}

pub async fn of_many_that_expect_one_revision_one_is_let_in<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    for round in 0..5 {
        let scope = expecting(world, "trip", revision(world, "trip").await).await;
        let mut clients = tokio::task::JoinSet::new();
        for at in 0..8 {
            let store = Arc::clone(if at % 2 == 0 { &world.one } else { &world.two });
            let (ask, change) = (world.ask("trip", "next"), Change { archived: Some(true), ..Change::default() });
            let (world, scope) = (world.clone(), scope.clone());
            clients.spawn(async move {
                if at % 4 < 2 {
                    return store.update(&scope, &name("trip"), change, world.now()).await.map(|_| None);
                }
                let seen = world.seen(&store, &ask).await;
                match store.admit(Admission { seen, scope, ..ask }).await {
                    Ok(AdmitOutcome::Running(turn)) => Ok(Some((store, turn))),
                    // Another turn was faster, so the version that was read is old.
                    Ok(_) | Err(StoreError::VersionMismatch) => Err(StoreError::VersionMismatch),
                    Err(error) => panic!("{error}"),
                }
            });
        }
        let winners: Vec<_> = clients.join_all().await.into_iter().filter_map(Result::ok).collect();
        assert_eq!(winners.len(), 1, "round {round}");
        if let Some((store, turn)) = winners.into_iter().flatten().next() {
            world.answer(&store, &turn, "done").await;
        }
    }
}

pub async fn a_turn_that_would_have_to_wait_is_refused_at_once<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let idle = revision(world, "trip").await;
    let turn = world.start(&world.one, "trip", "second").await;
    for expected in [idle, revision(world, "trip").await] {
        let scope = expecting(world, "trip", expected).await;
        for policy in [TurnPolicy::Queue, TurnPolicy::Interrupt, TurnPolicy::Branch] {
            let ask = Admission { policy, ..world.ask("trip", "third") };
            assert_eq!(ask_at(world, ask, &scope).await.map(drop), Err(StoreError::VersionMismatch));
        }
    }
    world.answer(&world.one, &turn, "two").await;
}

pub async fn a_request_that_comes_again_was_at_its_revision_when_it_first_came<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let scope = expecting(world, "trip", revision(world, "trip").await).await;
    let ask = with_key(world.ask("trip", "second"), 1);
    let turn = running(ask_at(world, ask.clone(), &scope).await.unwrap());
    let again = || Admission { turn: world.ask("trip", "").turn, ..ask.clone() };
    assert_eq!(joined(ask_at(world, again(), &scope).await.unwrap()), turn.turn, "while it runs");
    world.leave(&world.one, &turn, TurnState::Failed, None).await;
    let retry = Admission { retry_of: Some(turn.turn), messages: Vec::new(), ..again() };
    // The store says which turn the request repeats. Then the gateway asks for another attempt of that turn.
    let Ok(AdmitOutcome::RetryIn(_, failed)) = ask_at(world, again(), &scope).await else { panic!("a retry") };
    assert_eq!(failed, turn.turn);
    let second = running(ask_at(world, retry.clone(), &scope).await.unwrap());
    assert_eq!((second.turn, second.attempt), (turn.turn, 2));
    world.answer(&world.one, &second, "two").await;
    assert_eq!(joined(ask_at(world, again(), &scope).await.unwrap()), turn.turn, "when it was answered");
}

pub async fn a_conversation_that_is_made_has_a_revision<S: Store>(world: &World<S>) {
    let Admission { creation, .. } = world.ask_anew("");
    let new = NewConversation {
        scope: world.scope.clone(),
        alias: Some(name("trip")),
        creation,
        session_key: None,
        title: None,
        metadata: None,
        cwd: None,
        now: world.now(),
    };
    let crate::CreateOutcome::Made(row) = world.one.create(new).await.unwrap() else { panic!("made") };
    let scope = expecting(world, "trip", row.revision).await;
    let turn = running(ask_at(world, world.ask("trip", "first"), &scope).await.unwrap());
    world.answer(&world.one, &turn, "one").await;
}

pub async fn a_conversation_that_comes_back_has_new_revisions<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let mut revisions = vec![revision(world, "trip").await];
    world.branch_named("trip", "twig").await;
    world.copy_delete_restore("trip").await;
    for text in ["second", "third"] {
        revisions.push(revision(world, "trip").await);
        world.talk(&world.one, "trip", text, "well").await;
        let now = revision(world, "trip").await;
        assert!(!revisions.contains(&now), "{now:?} was there before");
    }
}
