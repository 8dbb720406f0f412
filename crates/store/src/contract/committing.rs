//! What a turn stores when it ends.

use std::sync::Arc;

use herma_model::turn::FailureCode;
use herma_model::{MessageStatus, Payload, Role, Seq, TurnState, Usage};

use super::World;
use super::fixture::{answer_of, finish, message, noted, running, texts};
use crate::{Admission, AdmitOutcome, Commit, Lease, Running, Seen, Store, StoreError, TurnOutcome};

pub async fn a_turn_is_read_back_as_it_was_said<S: Store>(world: &World<S>) {
    let mut ask = world.ask("trip", "hello");
    ask.messages.push(message(Role::User, "anybody there?"));
    let turn = running(world.admit(&world.one, ask.clone()).await);
    let during = world.read("trip").await.unwrap();
    assert_eq!((during.version, &during.messages), (turn.version, &turn.messages));
    assert!(world.row("trip").await.unwrap().running);
    let committed = world.answer(&world.one, &turn, "hi").await;
    let snapshot = world.read("trip").await.unwrap();
    assert_eq!(snapshot.version, committed.version);
    assert!(committed.version > turn.version);
    assert_eq!(snapshot.facts, turn.facts);
    assert_eq!(texts(&snapshot), ["hello", "anybody there?", "hi"]);
    assert_eq!(snapshot.messages[..2], turn.messages[..]);
    assert_eq!(snapshot.messages[2..], committed.messages[..]);
    assert_eq!(snapshot.messages[1].said, ask.messages[1].said);
    assert_eq!(snapshot.messages[2].seq, Seq(3));
    assert_eq!((snapshot.messages[2].turn, snapshot.messages[2].session.as_str()), (turn.turn, "trip"));
    let record = world.turn(turn.turn).await.unwrap();
    assert_eq!((record.state, record.attempt, record.rotated), (TurnState::Completed, 1, false));
    assert_eq!((record.resolution, record.started_at), (turn.resolution, turn.started_at));
    assert_eq!(record.finish, Some(finish()));
    assert_eq!(answer_of(&record), committed.messages);
    let row = world.row("trip").await.unwrap();
    assert_eq!(row.usage, Usage { input: 10, output: 3, cached: 2, reasoning: 1, ..Usage::default() });
    assert_eq!((row.turn_count, row.message_count, row.running), (1, 3, false));
    assert_eq!((&*row.source, row.archived, row.ended), ("contract", false, None));
    assert!(row.updated_at > row.created_at);
}

pub async fn the_newest_system_messages_hold<S: Store>(world: &World<S>) {
    let system = |text: &str| -> Arc<[Payload]> { Arc::from([Payload::from_json(text)]) };
    let said = || TurnOutcome::Completed { messages: vec![message(Role::Assistant, "yes")], finish: finish() };
    for (brought, in_force) in [(Some("{\"a\":1}"), "{\"a\":1}"), (None, "{\"a\":1}"), (Some("{\"b\":2}"), "{\"b\":2}")]
    {
        let turn = world.start(&world.one, "trip", "go on").await;
        let commit = Commit { system: brought.map(system), ..world.commit(&turn, said()) };
        world.one.commit(commit).await.unwrap();
        assert_eq!(world.read("trip").await.unwrap().system, system(in_force));
    }
}

pub async fn a_commit_frees_the_lease_before_it_is_on_disk<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "hello").await;
    let said = TurnOutcome::Completed { messages: vec![message(Role::Assistant, "hi")], finish: finish() };
    let (committed, mut durable) = world.one.commit_visibly(world.commit(&turn, said)).await.unwrap();
    // Whether it is on disk by now or not: every process sees it.
    assert_eq!(world.read("trip").await.unwrap().version, committed.version);
    let next = world.start(&world.two, "trip", "more").await;
    durable.wait().await.unwrap();
    assert_eq!(answer_of(&world.turn(turn.turn).await.unwrap()), committed.messages);
    let again = TurnOutcome::Completed { messages: vec![message(Role::Assistant, "again")], finish: finish() };
    let refused = world.one.commit_visibly(world.commit(&turn, again)).await;
    assert!(matches!(refused, Err(StoreError::Fenced)), "{refused:?}");
    world.answer(&world.two, &next, "yes").await;
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["hello", "hi", "more", "yes"]);
}

pub async fn an_answer_of_several_messages_is_read_back_whole<S: Store>(world: &World<S>) {
    let mut ask = world.ask("trip", "hello");
    ask.messages.insert(0, message(Role::Assistant, "brought along"));
    ask.messages.push(message(Role::Assistant, "brought along too"));
    let turn = running(world.admit(&world.one, ask).await);
    let messages =
        vec![message(Role::Assistant, "let me see"), message(Role::Tool, "12"), message(Role::Assistant, "it is 12")];
    let committed =
        world.one.commit(world.commit(&turn, TurnOutcome::Completed { messages, finish: finish() })).await.unwrap();
    assert_eq!(committed.messages.len(), 3);
    assert_eq!(answer_of(&world.turn(turn.turn).await.unwrap()), committed.messages);
}

pub async fn history_that_has_changed_is_stale<S: Store>(world: &World<S>) {
    let ask = world.ask("trip", "second");
    let before = world.seen(&world.one, &ask).await;
    assert_eq!(before, Seen::Nothing);
    let first = world.talk(&world.two, "trip", "first", "one").await;
    let outcome = world.one.admit(Admission { seen: before, ..ask.clone() }).await.unwrap();
    assert!(matches!(outcome, AdmitOutcome::Stale), "{outcome:?}");
    let during = Seen::At(first.facts.id, first.version);
    let outcome = world.one.admit(Admission { seen: during, ..ask.clone() }).await.unwrap();
    assert!(matches!(outcome, AdmitOutcome::Stale), "{outcome:?}");
    assert!(world.turn(ask.turn).await.is_none());
    assert_eq!(world.row("trip").await.unwrap().message_count, 2);
    let elsewhere = Admission { seen: during, ..world.ask("elsewhere", "hello") };
    assert!(matches!(world.one.admit(elsewhere).await.unwrap(), AdmitOutcome::Stale));
    assert!(world.read("elsewhere").await.is_none());
    running(world.admit(&world.one, ask).await);
}

pub async fn a_commit_under_an_old_fence_changes_nothing<S: Store>(world: &World<S>) {
    let old = world.talk(&world.one, "trip", "first", "one").await;
    assert_eq!(world.try_answer(&world.one, &old, "twice").await.unwrap_err(), StoreError::Fenced);
    let failed = world.start(&world.one, "trip", "second").await;
    world.leave(&world.one, &failed, TurnState::Failed, None).await;
    let retry = Admission { retry_of: Some(failed.turn), messages: Vec::new(), ..world.ask("trip", "second") };
    let current = running(world.admit(&world.two, retry).await);
    assert_eq!(current.turn, failed.turn);
    let before = world.read("trip").await.unwrap();
    for lease in [
        old.lease,
        failed.lease,
        Lease { fence: old.lease.fence, ..current.lease },
        World::<S>::older_lease(current.lease),
    ] {
        let late = Running { lease, ..copy_of(&current) };
        assert_eq!(world.try_answer(&world.one, &late, "late").await.unwrap_err(), StoreError::Fenced);
        assert_eq!(world.one.retract(lease).await.unwrap_err(), StoreError::Fenced);
        world.one.journal(lease, noted("late"));
    }
    let after = world.read("trip").await.unwrap();
    assert_eq!((after.version, after.messages), (before.version, before.messages));
    world.answer(&world.two, &current, "two").await;
}

/// A copy of the turn, for a test to put another lease into.
fn copy_of(turn: &Running) -> Running {
    Running {
        turn: turn.turn,
        attempt: turn.attempt,
        lease: turn.lease,
        facts: Arc::clone(&turn.facts),
        version: turn.version,
        revision: turn.revision,
        messages: turn.messages.clone(),
        resolution: turn.resolution,
        started_at: turn.started_at,
        usage: turn.usage,
        memory: turn.memory,
        durable: crate::Receipt::durable(),
    }
}

pub async fn an_unanswered_turn_keeps_its_partial_answer<S: Store>(world: &World<S>) {
    let states = [TurnState::Failed, TurnState::Cancelled, TurnState::Interrupted];
    for (state, shown) in states.into_iter().zip([Some("well, I"), None, Some("so")]) {
        let turn = world.start(&world.one, "trip", "question").await;
        let committed = world.leave(&world.one, &turn, state, shown).await;
        assert_eq!(committed.messages.len(), usize::from(shown.is_some()));
        let snapshot = world.read("trip").await.unwrap();
        let unanswered = snapshot.unanswered[&turn.turn];
        assert_eq!((unanswered.state, unanswered.attempt), (state, 1));
        if let Some(shown) = shown {
            let last = snapshot.messages.last().unwrap();
            assert_eq!((last.said.status, last.said.role), (MessageStatus::Partial, Role::Assistant));
            assert_eq!(texts(&snapshot).last().unwrap(), shown);
        }
        let record = world.turn(turn.turn).await.unwrap();
        assert_eq!((record.state, &record.finish, record.said().count()), (state, &None, usize::from(shown.is_some())));
        let failure = record.failure.unwrap();
        assert_eq!(failure.message, "it was not to be");
        assert_eq!(failure.code == FailureCode::UpstreamError, state == TurnState::Failed);
    }
    assert_eq!(world.read("trip").await.unwrap().unanswered.len(), 3);
}
