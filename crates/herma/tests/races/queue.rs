//! Queued turns: how many there may be, how long they wait, and what a queued stream shows.

use std::time::{Duration, Instant};

use futures_util::future::join_all;

use crate::support::{CHAT, Cluster, ask, ask_streamed, named, retry, send};

#[tokio::test]
async fn a_full_queue_refuses_and_says_the_limit() {
    let cluster = Cluster::start().await;
    let capabilities = cluster.herma.client().get("/v1/capabilities").await.expect(200);
    let limit = capabilities["limits"]["queued_turns_per_conversation"].as_i64().unwrap();
    let (gate, held) = cluster.hold(cluster.session("s"), ask("first")).await;
    let waiting: Vec<_> = (0..limit).map(|number| send(cluster.session("s"), ask(&number.to_string()))).collect();
    cluster.stored().until_turns("queued", limit).await;
    let refused = cluster.session("s").post_json(CHAT, &ask("one too many")).await;
    assert!(refused.header("retry-after").is_some());
    let error = refused.expect(429)["error"].clone();
    assert_eq!(error["code"], "overloaded");
    assert!(error["message"].as_str().unwrap().contains(&limit.to_string()), "{error}");
    gate.open();
    held.await.unwrap().expect(200);
    for answer in join_all(waiting).await {
        answer.unwrap().expect(200);
    }
    cluster.stored().until_settled().await;
}

/// One stream is queued in this process, and a retry in another process has joined it. Turns of another conversation
/// run all the time, so every notice that could wake the two streams is sent.
#[tokio::test]
async fn a_stream_that_waited_ten_seconds_opens_and_goes_on_waiting() {
    let cluster = Cluster::start().await;
    let (gate, held) = cluster.hold(cluster.session("s"), ask("one")).await;
    let whole = send(cluster.session("s"), ask("two"));
    let began = Instant::now();
    let client = cluster.session("s");
    let opening = tokio::spawn(async move { client.post_stream(CHAT, &ask_streamed("three")).await });
    cluster.stored().until_turns("queued", 2).await;
    let other = cluster.another().await;
    let client = retry(&named(other.client(), "s"), 1);
    let joining = tokio::spawn(async move { client.post_stream(CHAT, &ask_streamed("three")).await });
    let elsewhere = cluster.session("elsewhere");
    while began.elapsed() < Duration::from_secs(13) {
        elsewhere.post_json(CHAT, &ask("meanwhile")).await.expect(200);
    }
    let mut streams = Vec::new();
    for opening in [opening, joining] {
        assert!(opening.is_finished(), "the stream was to open while it waits");
        let stream = opening.await.unwrap();
        assert_eq!((stream.status, stream.header("x-hermes-session-id")), (200, Some("s")));
        streams.push(stream);
    }
    assert!(!whole.is_finished());
    gate.open();
    assert_eq!(held.await.unwrap().content(), "reply to: one");
    assert_eq!(whole.await.unwrap().content(), "reply to: two");
    for stream in &mut streams {
        assert_eq!(stream.text().await, "reply to: three");
    }
    cluster.stored().until_settled().await;
}
