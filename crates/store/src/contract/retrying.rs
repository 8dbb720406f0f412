//! A further attempt of an unanswered turn.

use herma_model::{MessageStatus, Seq, TurnId, TurnState};

use super::World;
use super::fixture::{answer_of, running, texts};
use crate::{Admission, AdmitOutcome, Store, TurnPolicy};

pub(super) fn again<S: Store>(world: &World<S>, turn: TurnId) -> Admission {
    Admission { retry_of: Some(turn), messages: Vec::new(), ..world.ask("trip", "again") }
}

pub async fn a_further_attempt_is_the_same_turn<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "question").await;
    world.leave(&world.one, &first, TurnState::Failed, Some("we")).await;
    let count = world.row("trip").await.unwrap().message_count;
    let ask = again(world, first.turn);
    let second = running(world.admit(&world.two, ask.clone()).await);
    assert_eq!((second.turn, second.attempt, second.started_at), (first.turn, 2, first.started_at));
    assert!(second.lease.fence > first.lease.fence);
    assert!(second.messages.is_empty());
    assert!(world.turn(ask.turn).await.is_none(), "the request made no new turn");
    let record = world.turn(first.turn).await.unwrap();
    assert_eq!((record.state, record.attempt, record.failure), (TurnState::Running, 2, None));
    let row = world.row("trip").await.unwrap();
    assert_eq!((row.message_count, row.turn_count), (count, 1));
    assert!(world.read("trip").await.unwrap().unanswered.is_empty());
    world.leave(&world.two, &second, TurnState::Failed, None).await;
    assert_eq!(world.read("trip").await.unwrap().unanswered[&first.turn].attempt, 2);
    let third = running(world.admit(&world.one, again(world, first.turn)).await);
    assert_eq!((third.turn, third.attempt), (first.turn, 3));
    let committed = world.answer(&world.one, &third, "well").await;
    let snapshot = world.read("trip").await.unwrap();
    assert!(snapshot.unanswered.is_empty());
    assert_eq!(texts(&snapshot), ["question", "we", "well"]);
    let attempts: Vec<u32> = snapshot.messages.iter().map(|message| message.attempt).collect();
    assert_eq!(attempts, [1, 1, 3]);
    assert_eq!(snapshot.messages[1].said.status, MessageStatus::Partial);
    assert_eq!(committed.messages[0].seq, Seq(3));
    assert_eq!(answer_of(&world.turn(first.turn).await.unwrap()), committed.messages);
}

pub async fn a_turn_that_is_not_the_last_is_not_tried_again<S: Store>(world: &World<S>) {
    let failed = world.start(&world.one, "trip", "first").await;
    world.leave(&world.one, &failed, TurnState::Failed, None).await;
    let answered = world.talk(&world.one, "trip", "second", "two").await;
    let version = world.read("trip").await.unwrap().version;
    for turn in [failed.turn, answered.turn, world.ask("trip", "never asked").turn] {
        let mut ask = again(world, turn);
        ask.seen = world.seen(&world.one, &ask).await;
        let outcome = world.one.admit(ask).await.unwrap();
        assert!(matches!(outcome, AdmitOutcome::Stale), "{outcome:?}");
    }
    let snapshot = world.read("trip").await.unwrap();
    assert_eq!(snapshot.version, version);
    assert_eq!(snapshot.unanswered[&failed.turn].attempt, 1);
}

pub async fn the_last_turn_is_the_one_that_went_last<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "first").await;
    let patient = world.queue(&world.one, world.ask("trip", "patient")).await;
    let urgent = Admission { policy: TurnPolicy::Interrupt, ..world.ask("trip", "urgent") };
    let urgent = world.queue(&world.two, urgent).await;
    world.leave(&world.one, &first, TurnState::Interrupted, None).await;
    let urgent = running(world.admit(&world.two, urgent).await);
    world.leave(&world.two, &urgent, TurnState::Failed, None).await;
    let patient = running(world.admit(&world.one, patient).await);
    world.leave(&world.one, &patient, TurnState::Failed, None).await;
    let mut ask = again(world, urgent.turn);
    ask.seen = world.seen(&world.two, &ask).await;
    assert!(matches!(world.two.admit(ask).await.unwrap(), AdmitOutcome::Stale), "it was queued later but ran earlier");
    let retried = running(world.admit(&world.two, again(world, patient.turn)).await);
    assert_eq!((retried.turn, retried.attempt), (patient.turn, 2));
    world.answer(&world.two, &retried, "done").await;
}

pub async fn a_further_attempt_may_have_waited<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "question").await;
    let waiting = world.queue(&world.two, world.ask("trip", "question")).await;
    let next = world.queue(&world.one, world.ask("trip", "next")).await;
    world.leave(&world.one, &first, TurnState::Failed, None).await;
    let retry = Admission { retry_of: Some(first.turn), messages: Vec::new(), ..waiting.clone() };
    let second = running(world.admit(&world.two, retry).await);
    assert_eq!((second.turn, second.attempt), (first.turn, 2));
    assert!(world.turn(waiting.turn).await.is_none());
    world.answer(&world.two, &second, "answer").await;
    let next = running(world.admit(&world.one, next).await);
    world.answer(&world.one, &next, "more").await;
    world.talk(&world.two, "trip", "and", "so on").await;
    assert_eq!(world.row("trip").await.unwrap().turn_count, 3);
}
