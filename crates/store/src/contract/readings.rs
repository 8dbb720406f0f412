//! Finished conversations that a model reads for facts.

use std::time::Duration;

use herma_model::{EndReason, MemoryId, MemorySource, Recall, RecallStatus, Role};
use uuid::Uuid;

use super::World;
use super::fixture::{finish, message, name, running};
use super::memories::{add, all, key};
use crate::readings::{MOST_READ, QUIET, READING_TIME};
use crate::{Children, Commit, Reading, ReadingEnd, Store, TurnOutcome};

/// A turn under the key `ann`.
async fn say<S: Store>(world: &World<S>, to: &str, question: &str, recorded: bool) {
    let mut admission = world.ask(to, question);
    admission.session_key = Some(key("ann"));
    let turn = running(world.admit(&world.one, admission).await);
    let messages = vec![message(Role::Assistant, "yes")];
    let outcome = TurnOutcome::Completed { messages, finish: finish() };
    let recall = Recall::without_block(RecallStatus::Nothing, recorded);
    let commit = Commit { recall: Some(recall.into()), ..world.commit(&turn, outcome) };
    world.one.commit(commit).await.unwrap();
}

async fn next<S: Store>(world: &World<S>) -> Option<Reading> {
    world.two.next_reading(world.now()).await.unwrap()
}

fn said(reading: &Reading) -> Vec<&str> {
    reading.said.iter().map(|(_, text)| text.as_str()).collect()
}

fn found(text: &str) -> ReadingEnd {
    ReadingEnd::Read(vec![(MemoryId::from_uuid(Uuid::now_v7()), text.into())])
}

pub async fn a_conversation_is_read_once_when_it_was_quiet<S: Store>(world: &World<S>) {
    say(world, "unwanted", "before it was wanted", true).await;
    world.one.want_readings(true).await.unwrap();
    add(world, "ann", "Ann has a cat").await;
    say(world, "trip", "my dog is called Bello", true).await;
    assert!(next(world).await.is_none(), "it may go on");
    world.advance_clock(QUIET);
    let reading = next(world).await.unwrap();
    assert_eq!(said(&reading), ["my dog is called Bello", "yes"]);
    assert_eq!((reading.session_key.as_str(), &*reading.known[0].text), ("ann", "Ann has a cat"));
    assert!(next(world).await.is_none(), "one process reads it");
    assert!(world.one.end_reading(reading.clone(), found("Ann has a dog"), world.now()).await.unwrap());
    let facts = all(world, &world.scope, Some("ann")).await;
    assert_eq!((&*facts[0].text, facts[0].source, facts.len()), ("Ann has a dog", MemorySource::Model, 2));
    assert_eq!(facts[0].conversation, Some(world.read("trip").await.unwrap().facts.id));
    world.advance_clock(QUIET * 10);
    assert!(next(world).await.is_none(), "it is read");
    say(world, "trip", "it is three years old", true).await;
    world.advance_clock(QUIET);
    assert_eq!(said(&next(world).await.unwrap()), ["it is three years old", "yes"], "only what is new is read");
}

pub async fn a_conversation_that_was_ended_is_read_at_once<S: Store>(world: &World<S>) {
    world.one.want_readings(true).await.unwrap();
    say(world, "trip", "my dog is called Bello", true).await;
    world.one.end(&world.scope, &name("trip"), EndReason::Ended, world.now()).await.unwrap();
    assert!(next(world).await.is_some());
}

pub async fn turns_that_are_not_recorded_are_not_read<S: Store>(world: &World<S>) {
    world.one.want_readings(true).await.unwrap();
    say(world, "secret", "nobody may know this", false).await;
    say(world, "mixed", "nobody may know this either", false).await;
    say(world, "mixed", "my dog is called Bello", true).await;
    world.talk(&world.one, "keyless", "hello", "hi").await;
    world.advance_clock(QUIET);
    assert_eq!(said(&next(world).await.unwrap()), ["my dog is called Bello", "yes"]);
    assert!(next(world).await.is_none());
}

pub async fn a_reading_that_was_not_ended_is_made_by_another_process<S: Store>(world: &World<S>) {
    world.one.want_readings(true).await.unwrap();
    say(world, "trip", "my dog is called Bello", true).await;
    world.advance_clock(QUIET);
    let lost = next(world).await.unwrap();
    world.advance_clock(READING_TIME);
    let again = world.one.next_reading(world.now()).await.unwrap().unwrap();
    assert_eq!(said(&again), said(&lost));
    assert!(world.one.end_reading(again, found("Ann has a dog"), world.now()).await.unwrap());
    assert!(!world.two.end_reading(lost, found("Ann has a dog called Bello"), world.now()).await.unwrap());
    assert_eq!(all(world, &world.scope, Some("ann")).await.len(), 1, "the late one changes nothing");
}

pub async fn a_failed_reading_is_made_later<S: Store>(world: &World<S>) {
    world.one.want_readings(true).await.unwrap();
    say(world, "trip", "my dog is called Bello", true).await;
    world.advance_clock(QUIET);
    let reading = next(world).await.unwrap();
    let minute = Duration::from_secs(60);
    assert!(world.one.end_reading(reading, ReadingEnd::Later(minute), world.now()).await.unwrap());
    assert!(next(world).await.is_none());
    world.advance_clock(minute);
    assert_eq!(next(world).await.unwrap().failures, 1);
}

pub async fn a_long_conversation_is_read_in_parts<S: Store>(world: &World<S>) {
    world.one.want_readings(true).await.unwrap();
    say(world, "trip", &"long ".repeat(MOST_READ / 5), true).await;
    say(world, "trip", "my dog is called Bello", true).await;
    world.advance_clock(QUIET);
    let first = next(world).await.unwrap();
    assert_eq!(first.said.len(), 1);
    assert!(world.one.end_reading(first, ReadingEnd::Read(Vec::new()), world.now()).await.unwrap());
    assert_eq!(said(&next(world).await.unwrap()), ["yes", "my dog is called Bello", "yes"]);
}

pub async fn a_deleted_conversation_is_not_read<S: Store>(world: &World<S>) {
    world.one.want_readings(true).await.unwrap();
    for to in ["trip", "other"] {
        say(world, to, "my dog is called Bello", true).await;
    }
    world.advance_clock(QUIET);
    let reading = next(world).await.unwrap();
    for to in ["trip", "other"] {
        world.one.delete(&world.scope, &name(to), Children::Keep, world.now()).await.unwrap();
    }
    assert!(!world.one.end_reading(reading, found("Ann has a dog"), world.now()).await.unwrap());
    assert!(next(world).await.is_none());
    assert!(all(world, &world.scope, None).await.is_empty());
}
