//! Answers survive a database that another program holds locked, and processes that are stopped for a while.

use std::time::{Duration, Instant};

use herma_testkit::upstream::Pace;
use herma_testkit::{Completion, Gate};

use crate::support::{CHAT, Cluster, ask, ask_streamed, named, next_text, stream_error, transcript, until};

/// Longer than a writer waits for a transaction of another process.
const LOCKED: Duration = Duration::from_millis(6_500);

#[tokio::test]
async fn answers_are_written_after_another_process_held_the_database_locked() {
    let cluster = Cluster::start().await;
    let (answered, asked) = cluster.hold(cluster.session("json"), ask("one")).await;
    let gate = Gate::new();
    cluster.upstream.push(Completion::chunks(["half ", "whole"]).pace(Pace::Gated(gate.clone())).into());
    gate.release(1);
    let mut stream = cluster.session("streamed").post_stream(CHAT, &ask_streamed("two")).await;
    assert_eq!(next_text(&mut stream).await, "half ");
    cluster.stored().until_turns("running", 2).await;

    let lock = cluster.stored().lock();
    answered.open();
    gate.open();
    assert_eq!(next_text(&mut stream).await, "whole");
    tokio::time::sleep(LOCKED).await;
    assert!(!asked.is_finished());
    drop(lock);

    assert_eq!(asked.await.unwrap().content(), "reply to: one");
    stream.rest().await;
    assert!(!stream.is_broken());
    let client = cluster.herma.client();
    assert_eq!(transcript(&client, "json").await, ["user: one", "assistant: reply to: one"]);
    assert_eq!(transcript(&client, "streamed").await, ["user: two", "assistant: half whole"]);
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn what_was_shown_while_the_database_was_locked_is_journaled_when_it_is_free() {
    let mut cluster = Cluster::start().await;
    let gate = Gate::new();
    cluster
        .upstream
        .push(Completion::chunks(["one ", "two ", "three ", "four"]).pace(Pace::Gated(gate.clone())).into());
    gate.release(1);
    let mut stream = cluster.session("s").post_stream(CHAT, &ask_streamed("count")).await;
    assert_eq!(next_text(&mut stream).await, "one ");
    let stored = cluster.stored();
    until("the first piece was to be journaled", async || stored.journaled() == 4).await;

    let lock = stored.lock();
    gate.release(1);
    assert_eq!(next_text(&mut stream).await, "two ");
    tokio::time::sleep(LOCKED).await;
    gate.release(1);
    assert_eq!(next_text(&mut stream).await, "three ");
    drop(lock);
    until("all that was shown was to be journaled", async || stored.journaled() == 14).await;

    cluster.restart().await;
    until("the turn was to be ended", async || stored.turns("running") == 0).await;
    assert_eq!(transcript(&cluster.herma.client(), "s").await, ["user: count", "assistant (partial): one two three "]);
}

#[tokio::test]
async fn a_process_that_was_stopped_shows_nothing_after_its_turn_was_taken_over() {
    let cluster = Cluster::start().await;
    let other = cluster.another().await;
    let gate = Gate::new();
    cluster.upstream.push(Completion::chunks(["half ", "never ", "shown"]).pace(Pace::Gated(gate.clone())).into());
    gate.release(1);
    let mut stream = cluster.session("s").post_stream(CHAT, &ask_streamed("one")).await;
    assert_eq!(next_text(&mut stream).await, "half ");
    let stored = cluster.stored();
    until("the piece was to be journaled", async || stored.journaled() == 5).await;

    cluster.herma.pause();
    gate.release(1);
    stored.until_turns("interrupted", 1).await;
    named(other.client(), "s").post_json(CHAT, &ask("two")).await.expect(200);
    let resumed = Instant::now();
    cluster.herma.resume();
    let events = stream.rest().await;
    assert!(resumed.elapsed() < Duration::from_secs(5), "it ends as soon as there is something to show");
    let shown: Vec<_> = events.iter().filter(|event| event.data.contains("never")).collect();
    assert!(shown.is_empty(), "{shown:?}");
    assert_eq!(stream_error(&events)["code"], "interrupted");
    assert_eq!(
        transcript(&other.client(), "s").await,
        ["user: one", "assistant (partial): half ", "user: two", "assistant: reply to: two"]
    );
    gate.open();
    stored.until_settled().await;
}
