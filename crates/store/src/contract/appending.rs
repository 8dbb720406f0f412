//! Steps that a turn writes while it runs.

use std::time::Duration;

use herma_model::provenance::CompactionMode;
use herma_model::{MessageId, MessageStatus, NewMessage, Role, Step, TurnState, Utterance};

use super::World;
use super::fixture::{answer_of, cancelled, finish, message, noted, running, text_of, texts};
use crate::{
    Admission, Append, Commit, Running, StopOutcome, Store, StoreError, StreamedOutput, TurnOutcome, TurnRecord,
};

/// The steps of a turn as text: the content of messages, and `(compaction)`.
fn steps(record: &TurnRecord) -> Vec<String> {
    let step = |step: &Step| match step {
        Step::Compacted(_) => "(compaction)".to_owned(),
        Step::Said(message) | Step::ToolResult(message) => text_of(message.said.payload.as_json()),
        Step::Answered(call, answer) => format!("({} {})", call.id, answer.choice.as_str()),
    };
    record.steps.iter().map(step).collect()
}

/// Ends a turn with its `nth` message.
async fn end<S: Store>(world: &World<S>, turn: &Running, nth: usize, text: &str) {
    let id = MessageId::answered(turn.turn, turn.attempt, nth);
    let messages = vec![NewMessage { id, ..message(Role::Assistant, text) }];
    let session = world.turn(turn.turn).await.unwrap().facts.head.id.clone();
    let outcome = TurnOutcome::Completed { messages, finish: finish() };
    world.one.commit(Commit { session, ..world.commit(turn, outcome) }).await.unwrap();
}

pub async fn what_a_turn_appends_is_part_of_its_answer<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "hello", "hi").await;
    let turn = world.start(&world.one, "trip", "question").await;
    let first = world.append(&world.one, &turn, 0, "let me look").await.unwrap();
    assert_eq!(first.version.0, turn.version.0 + 1);
    let running = world.turn(turn.turn).await.unwrap();
    assert_eq!((running.state, answer_of(&running)), (TurnState::Running, first.messages.clone()));
    assert_eq!(running.input, turn.messages);
    world.append(&world.one, &turn, 1, "and there").await.unwrap();
    assert_eq!(world.row("trip").await.unwrap().message_count, 5, "other instances see appended messages");
    end(world, &turn, 2, "found").await;
    let ended = world.turn(turn.turn).await.unwrap();
    assert_eq!(
        (ended.state, steps(&ended)),
        (TurnState::Completed, vec!["let me look".into(), "and there".into(), "found".into()])
    );
    assert_eq!(ended.input, turn.messages);
    let said = texts(&world.read("trip").await.unwrap());
    assert_eq!(said, ["hello", "hi", "question", "let me look", "and there", "found"]);
    world.talk(&world.two, "trip", "next", "fine").await;
}

pub async fn compactions_and_messages_of_a_turn_keep_their_order<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "hello", "hi").await;
    let mut turn = world.start(&world.one, "trip", "question").await;
    world.compact_during(&world.one, &mut turn, CompactionMode::InPlace, "so far").await;
    world.append(&world.one, &turn, 0, "let me look").await.unwrap();
    world.compact_during(&world.one, &mut turn, CompactionMode::Split, "further").await;
    end(world, &turn, 1, "found").await;
    let record = world.turn(turn.turn).await.unwrap();
    assert_eq!(steps(&record), ["(compaction)", "let me look", "(compaction)", "found"]);
    assert_eq!(record.compactions().count(), 2);
}

pub async fn a_turn_whose_process_dies_keeps_what_it_appended<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "question").await;
    world.one.journal(turn.lease, noted("let me")).wait().await.unwrap();
    world.append(&world.one, &turn, 0, "let me look").await.unwrap();
    world.one.journal(turn.lease, noted("I have")).wait().await.unwrap();
    let seen = world.turn(turn.turn).await.unwrap();
    assert_eq!((seen.shown.text.as_str(), steps(&seen)), ("I have", vec!["let me look".to_owned()]));
    world.one.close().await;
    world.talk(&world.two, "trip", "next", "fine").await;
    let record = world.turn(turn.turn).await.unwrap();
    assert_eq!((record.state, steps(&record)), (TurnState::Interrupted, vec!["let me look".into(), "I have".into()]));
    let said = answer_of(&record);
    assert_eq!(
        said.iter().map(|message| message.said.status).collect::<Vec<_>>(),
        [MessageStatus::Complete, MessageStatus::Partial]
    );
    assert_eq!(said[1].id, MessageId::answered(turn.turn, 1, 1));
}

pub async fn a_further_attempt_goes_on_after_what_was_appended<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "question").await;
    let (id, usage) = (MessageId::answered(turn.turn, 1, 0), finish().usage);
    let messages = vec![NewMessage { id, ..message(Role::Assistant, "let me look") }];
    let (lease, session, now) = (turn.lease, turn.facts.head.id.clone(), world.now());
    world
        .one
        .append(Append { lease, session, messages, usage, cost: None, record: None, recall: None, now })
        .await
        .unwrap();
    let id = MessageId::answered(turn.turn, 1, 1);
    let messages = vec![NewMessage { id, said: Utterance::partial_text("I ha") }];
    let failure = cancelled();
    world
        .one
        .commit(world.commit(&turn, TurnOutcome::Unanswered { state: TurnState::Cancelled, failure, messages }))
        .await
        .unwrap();
    let again = Admission { retry_of: Some(turn.turn), messages: Vec::new(), ..world.ask("trip", "") };
    let second = running(world.admit(&world.one, again).await);
    assert_eq!((second.turn, second.attempt), (turn.turn, 2));
    assert_eq!((turn.usage, second.usage), (None, usage), "what the first attempt has used");
    assert_eq!(steps(&world.turn(turn.turn).await.unwrap()), ["let me look"]);
    end(world, &second, 0, "found").await;
    let record = world.turn(turn.turn).await.unwrap();
    assert_eq!((steps(&record), record.input.len()), (vec!["let me look".into(), "found".into()], 1));
}

pub async fn streamed_output_of_an_attempt_is_not_part_of_the_next<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "question").await;
    let failure = cancelled();
    let outcome = TurnOutcome::Unanswered { state: TurnState::Cancelled, failure, messages: Vec::new() };
    let commit = Commit { record: Some("first".to_owned()), ..world.commit(&turn, outcome) };
    world.one.commit(commit).await.unwrap();
    let again = Admission { retry_of: Some(turn.turn), messages: Vec::new(), ..world.ask("trip", "") };
    let second = running(world.admit(&world.one, again).await);
    assert_eq!(world.turn(turn.turn).await.unwrap().shown.record, "");
    let id = MessageId::answered(turn.turn, 2, 0);
    let messages = vec![NewMessage { id, ..message(Role::Assistant, "look") }];
    let (session, record) = (turn.facts.head.id.clone(), Some("second".to_owned()));
    let append = Append {
        lease: second.lease,
        session,
        messages,
        usage: None,
        cost: None,
        record,
        recall: None,
        now: world.now(),
    };
    world.one.append(append).await.unwrap();
    let more = StreamedOutput { text: "x".to_owned(), record: " and more".to_owned() };
    world.one.journal(second.lease, more).wait().await.unwrap();
    assert_eq!(world.turn(turn.turn).await.unwrap().shown.record, "second and more");
    world.one.close().await;
    world.talk(&world.two, "trip", "next", "fine").await;
    assert_eq!(world.turn(turn.turn).await.unwrap().shown.record, "second and more");
}

pub async fn what_a_refused_turn_appended_is_taken_back<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "hello", "hi").await;
    let turn = world.start(&world.one, "trip", "question").await;
    world.append(&world.one, &turn, 0, "let me look").await.unwrap();
    world.one.retract(turn.lease).await.unwrap();
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["hello", "hi"]);
    assert_eq!(world.row("trip").await.unwrap().message_count, 2);
    world.talk(&world.two, "trip", "next", "fine").await;
}

pub async fn a_turn_without_its_lease_or_asked_to_stop_appends_nothing<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "question").await;
    let stopped = world.two.stop(&world.scope, turn.turn, Duration::from_secs(9), world.now()).await.unwrap();
    assert_eq!(stopped, StopOutcome::Asked);
    let refused = world.append(&world.one, &turn, 0, "let me look").await;
    assert!(matches!(refused, Err(StoreError::StopRequested(_))), "{refused:?}");
    world.leave(&world.one, &turn, TurnState::Cancelled, None).await;
    let id = MessageId::answered(turn.turn, 1, 0);
    let messages = vec![NewMessage { id, ..message(Role::Assistant, "late") }];
    let late = Append {
        recall: None,
        lease: turn.lease,
        session: turn.facts.head.id.clone(),
        messages,
        usage: None,
        cost: None,
        record: None,
        now: world.now(),
    };
    assert!(matches!(world.one.append(late).await, Err(StoreError::Fenced)));
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["question"]);
}
