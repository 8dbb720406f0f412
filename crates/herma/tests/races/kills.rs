//! `kill -9` at known moments, and how the next process or a second process recovers.

use std::time::{Duration, Instant};

use herma_testkit::upstream::Pace;
use herma_testkit::{Completion, Gate, Herma, Reply};

use crate::support::{CHAT, Cluster, ask, ask_streamed, named, next_text, retry, send, transcript};

/// The longest time until a conversation takes a turn again.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Runs a turn and checks that it ends in time.
async fn takes_a_turn_at_once(herma: &Herma, text: &str) {
    let began = Instant::now();
    named(herma.client(), "s").post_json(CHAT, &ask(text)).await.expect(200);
    assert!(began.elapsed() < AT_ONCE, "the turn took {:?}", began.elapsed());
}

#[tokio::test]
async fn killed_before_the_answer_the_conversation_goes_on_at_once() {
    let mut cluster = Cluster::start().await;
    let (_gate, asked) = cluster.hold(cluster.session("s"), ask("one")).await;
    // The model may be called a moment before the admission is durable.
    cluster.stored().until_turns("running", 1).await;
    asked.abort();
    cluster.restart().await;
    takes_a_turn_at_once(&cluster.herma, "two").await;
    assert_eq!(
        cluster.upstream.last_request().transcript(),
        ["user: one", "assistant: [No reply was given: the request was interrupted.]", "user: two"]
    );
    assert_eq!(cluster.stored().turns("interrupted"), 1);
    cluster.stored().until_settled().await;
    cluster.herma.until_stderr("the owner of a running turn is gone; the turn is taken over").await;
}

/// A stream that has shown `half ` and whose journal has it.
async fn half_journaled(cluster: &Cluster) -> (Gate, herma_testkit::EventStream) {
    let gate = Gate::new();
    cluster.upstream.push(Completion::chunks(["half ", "whole"]).pace(Pace::Gated(gate.clone())).into());
    gate.release(1);
    let mut stream = cluster.session("s").post_stream(CHAT, &ask_streamed("one")).await;
    assert_eq!(next_text(&mut stream).await, "half ");
    let stored = cluster.stored();
    crate::support::until("what was shown was to be journaled", async || stored.journaled() == 5).await;
    (gate, stream)
}

#[tokio::test]
async fn killed_in_the_middle_of_a_stream_what_was_shown_is_kept() {
    let mut cluster = Cluster::start().await;
    let (_gate, mut stream) = half_journaled(&cluster).await;
    cluster.herma.kill();
    stream.rest().await;
    assert!(stream.is_broken());
    cluster.restart().await;
    takes_a_turn_at_once(&cluster.herma, "two").await;
    assert_eq!(
        cluster.upstream.last_request().transcript(),
        ["user: one", "assistant: half \n\n[The reply ends here: it was interrupted.]", "user: two"]
    );
    let said = transcript(&cluster.herma.client(), "s").await;
    assert_eq!(said, ["user: one", "assistant (partial): half ", "user: two", "assistant: reply to: two"]);
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn killed_in_the_middle_of_a_stream_a_retry_is_the_next_attempt() {
    let mut cluster = Cluster::start().await;
    let (_gate, _stream) = half_journaled(&cluster).await;
    cluster.restart().await;
    let mut again = retry(&cluster.session("s"), 1).post_stream(CHAT, &ask_streamed("one")).await;
    assert_eq!(again.text().await, "reply to: one");
    assert_eq!(cluster.upstream.last_request().transcript(), ["user: one"]);
    let said = transcript(&cluster.herma.client(), "s").await;
    assert_eq!(said, ["user: one", "assistant (partial): half ", "assistant: reply to: one"]);
    assert_eq!((cluster.stored().all_turns(), cluster.stored().attempts()), (1, 2));
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn killed_right_after_the_end_of_an_answer_nothing_of_it_is_lost() {
    let mut cluster = Cluster::start().await;
    for number in 0..4 {
        let text = format!("message {number}");
        let answer = if number % 2 == 0 {
            cluster.session("s").post_json(CHAT, &ask(&text)).await.content()
        } else {
            cluster.session("s").post_stream(CHAT, &ask_streamed(&text)).await.text().await
        };
        cluster.restart().await;
        let said = transcript(&cluster.herma.client(), "s").await;
        assert_eq!(said[2 * number..], [format!("user: {text}"), format!("assistant: {answer}")]);
    }
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn queued_turns_of_a_killed_process_block_no_other_turn() {
    let mut cluster = Cluster::start().await;
    let other = cluster.another().await;
    let (gate, running) = {
        let gate = Gate::new();
        cluster.upstream.push(Reply::Echo.held(&gate));
        let running = send(named(other.client(), "s"), ask("one"));
        gate.until_waiting(1).await;
        (gate, running)
    };
    let waiting: Vec<_> = (0..5).map(|number| send(cluster.session("s"), ask(&format!("lost {number}")))).collect();
    cluster.stored().until_turns("queued", 5).await;
    waiting.iter().for_each(|waiting| waiting.abort());
    let last = send(named(other.client(), "s"), ask("two"));
    cluster.stored().until_turns("queued", 6).await;
    cluster.herma.kill();
    let began = Instant::now();
    gate.open();
    assert_eq!(running.await.unwrap().content(), "reply to: one");
    assert_eq!(last.await.unwrap().content(), "reply to: two");
    assert!(began.elapsed() < AT_ONCE, "it took {:?}", began.elapsed());
    assert_eq!(transcript(&other.client(), "s").await.len(), 4);
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn of_two_processes_one_is_killed_and_the_other_takes_its_conversation_over() {
    let mut cluster = Cluster::start().await;
    let other = cluster.another().await;
    let (_lost, killed) = cluster.hold(cluster.session("s"), ask("one")).await;
    let (gate, untouched) = cluster.hold(named(other.client(), "t"), ask("elsewhere")).await;
    cluster.stored().until_turns("running", 2).await;
    killed.abort();
    cluster.herma.kill();
    takes_a_turn_at_once(&other, "two").await;
    assert_eq!(
        cluster.upstream.last_request().transcript(),
        ["user: one", "assistant: [No reply was given: the request was interrupted.]", "user: two"]
    );
    assert!(!untouched.is_finished());
    gate.open();
    assert_eq!(untouched.await.unwrap().content(), "reply to: elsewhere");
    assert_eq!(transcript(&other.client(), "t").await.len(), 2);
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn a_new_process_leaves_the_turns_of_the_old_one_alone() {
    let cluster = Cluster::start().await;
    let (gate, held) = cluster.hold(cluster.session("s"), ask("one")).await;
    let other = cluster.another().await;
    named(other.client(), "t").post_json(CHAT, &ask("elsewhere")).await.expect(200);
    let waiting = send(named(other.client(), "s"), ask("two"));
    cluster.stored().until_turns("queued", 1).await;
    gate.open();
    assert_eq!(held.await.unwrap().content(), "reply to: one");
    assert_eq!(waiting.await.unwrap().content(), "reply to: two");
    assert_eq!(cluster.upstream.last_request().messages().len(), 3);
}

/// A request that joined a turn of another process must end when that process dies.
#[tokio::test]
async fn a_retry_that_joined_the_turn_of_a_killed_process_is_told_to_try_again() {
    let mut cluster = Cluster::start().await;
    let other = cluster.another().await;
    let (_gate, dropped) = cluster.hold(cluster.session("s"), ask("one")).await;
    let joined = send(retry(&named(other.client(), "s"), 1), ask("one"));
    cluster.stored().until_joined(1).await;
    dropped.abort();
    cluster.herma.kill();
    let told = joined.await.unwrap();
    assert_eq!(told.expect(409)["error"]["code"], "interrupted");
    assert_eq!(told.header("x-should-retry"), None);
    assert!(told.header("retry-after").is_some());
    let again = retry(&named(other.client(), "s"), 2).post_json(CHAT, &ask("one")).await;
    assert_eq!(again.content(), "reply to: one");
    assert_eq!(transcript(&other.client(), "s").await, ["user: one", "assistant: reply to: one"]);
    assert_eq!((cluster.stored().all_turns(), cluster.stored().attempts()), (1, 2));
    cluster.stored().until_settled().await;
}
