//! A queued request is sent again to another process, and then its first process dies.

use herma_testkit::{Herma, Reply};

use crate::support::{CHAT, Cluster, RetryMark, ask, ask_streamed, named, retry, send, transcript, until};

/// Waits until a process has so many live turns: running, queued, or joined in another process.
async fn until_live(herma: &Herma, wanted: usize) {
    let line = format!("herma_live_turns {wanted}");
    let has_line = async || herma.client().get("/metrics").await.text().lines().any(|found| found == line);
    until(&format!("{wanted} turns were to be live"), has_line).await;
}

#[tokio::test]
async fn a_retry_in_another_process_outlives_the_waiting_turn_that_it_joined() {
    for again in [RetryMark::Sdk, RetryMark::Key] {
        let mut cluster = Cluster::start().await;
        let other = cluster.another().await;
        let (gate, running) = cluster.hold(named(other.client(), "s"), ask("one")).await;
        let given_up = send(again.first(cluster.session("s")), ask("two"));
        cluster.stored().until_turns("queued", 1).await;
        given_up.abort();
        let retried = send(again.second(named(other.client(), "s")), ask("two"));
        match again {
            RetryMark::Sdk => cluster.stored().until_joined(1).await,
            RetryMark::Key => until_live(&other, 2).await,
        }
        other.client().post_json("/api/sessions", &serde_json::json!({})).await.expect(201);
        let lost = cluster.stored().last_waiting();
        cluster.herma.kill();
        // The queued turn of the dead process is removed, and the retry is queued on its own.
        let has_moved = async || retried.is_finished() || cluster.stored().last_waiting() > lost;
        until("the retry was to wait by itself", has_moved).await;
        gate.open();
        assert_eq!(running.await.unwrap().content(), "reply to: one");
        assert_eq!(retried.await.unwrap().content(), "reply to: two");
        let said = transcript(&other.client(), "s").await;
        assert_eq!(said, ["user: one", "assistant: reply to: one", "user: two", "assistant: reply to: two"]);
        assert_eq!(cluster.stored().all_turns(), 2);
        cluster.stored().until_settled().await;
    }
}

#[tokio::test]
async fn a_further_retry_finds_the_failed_turn_behind_a_waiting_attempt_that_was_lost() {
    for (again, next) in [(RetryMark::Sdk, 2), (RetryMark::Key, 0)] {
        let mut cluster = Cluster::start().await;
        let other = cluster.another().await;
        cluster.upstream.push(Reply::status(400, "no"));
        again.first(cluster.session("s")).post_json(CHAT, &ask("one")).await.expect(502);
        let (gate, running) = cluster.hold(named(other.client(), "s"), ask("two")).await;
        let lost = send(again.second(cluster.session("s")), ask("one"));
        cluster.stored().until_turns("queued", 1).await;
        lost.abort();
        cluster.herma.kill();
        let waited = cluster.stored().last_waiting();
        let further = retry(&again.first(named(other.client(), "s")), next);
        let retried = send(further, ask("one"));
        until("the retry was to wait by itself", async || cluster.stored().last_waiting() > waited).await;
        gate.open();
        running.await.unwrap().expect(200);
        assert_eq!(retried.await.unwrap().content(), "reply to: one");
        let context = cluster.upstream.last_request().transcript();
        assert_eq!(context, ["user: two", "assistant: reply to: two", "user: one"]);
        let row = other.client().get("/api/sessions/s").await.expect(200);
        assert_eq!(row["turn_count"], 2, "the first turn and the other one");
        cluster.stored().until_settled().await;
    }
}

#[tokio::test]
async fn a_stream_outlives_the_waiting_turn_that_it_joined() {
    let mut cluster = Cluster::start().await;
    let other = cluster.another().await;
    let (gate, running) = cluster.hold(named(other.client(), "s"), ask("one")).await;
    let first = cluster.session("s");
    let given_up = tokio::spawn(async move { first.post_stream(CHAT, &ask_streamed("two")).await });
    cluster.stored().until_turns("queued", 1).await;
    given_up.abort();
    let again = retry(&named(other.client(), "s"), 1);
    let retried = tokio::spawn(async move { again.post_stream(CHAT, &ask_streamed("two")).await.text().await });
    cluster.stored().until_joined(1).await;
    cluster.herma.kill();
    gate.open();
    assert_eq!(running.await.unwrap().content(), "reply to: one");
    assert_eq!(retried.await.unwrap(), "reply to: two");
    assert_eq!(transcript(&other.client(), "s").await.len(), 4);
    cluster.stored().until_settled().await;
}
