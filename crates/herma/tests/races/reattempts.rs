//! A failed turn that is asked for again at once: one turn, one user message, no note.

use herma_testkit::Reply;

use crate::support::{CHAT, Cluster, ask, ask_streamed, history, retry, transcript};

#[tokio::test]
async fn a_retry_of_a_failed_turn_is_its_next_attempt() {
    let cluster = Cluster::start().await;
    for client in [cluster.session("s"), cluster.herma.client()] {
        let before = cluster.stored().all_turns();
        cluster.upstream.push(Reply::status(400, "no"));
        cluster.upstream.push(Reply::status(400, "still no"));
        client.post_json(CHAT, &ask("one")).await.expect(502);
        retry(&client, 1).post_json(CHAT, &ask("one")).await.expect(502);
        let answered = retry(&client, 2).post_json(CHAT, &ask("one")).await.expect(200);
        assert_eq!(cluster.upstream.last_request().transcript(), ["user: one"]);
        let id = answered["session"]["session_id"].as_str().unwrap();
        assert_eq!(transcript(&cluster.herma.client(), id).await, ["user: one", "assistant: reply to: one"]);
        assert_eq!(cluster.stored().all_turns(), before + 1);
    }
    assert_eq!((cluster.stored().conversations(), cluster.stored().attempts()), (2, 6));
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn what_a_failed_attempt_showed_stays_in_the_full_view_alone() {
    let cluster = Cluster::start().await;
    cluster.upstream.push(Reply::cut_off_after(2));
    cluster.session("s").post_stream(CHAT, &ask_streamed("one")).await.rest().await;
    let answered = retry(&cluster.session("s"), 1).post_stream(CHAT, &ask_streamed("one")).await.text().await;
    assert_eq!(answered, "reply to: one");
    assert_eq!(cluster.upstream.last_request().transcript(), ["user: one"]);
    cluster.session("s").post_json(CHAT, &ask("two")).await.expect(200);
    let context = cluster.upstream.last_request().transcript();
    assert_eq!(context, ["user: one", "assistant: reply to: one", "user: two"]);
    let said = transcript(&cluster.herma.client(), "s").await;
    assert_eq!(said[..3], ["user: one", "assistant (partial): chunk1 chunk2 ", "assistant: reply to: one"]);
}

#[tokio::test]
async fn a_client_with_its_whole_history_sends_the_failed_message_again() {
    let mut cluster = Cluster::start().await;
    cluster.session("s").post_json(CHAT, &ask("one")).await.expect(200);
    let whole = history(&["one", "reply to: one", "two"]);
    for restarted in [false, true] {
        cluster.upstream.push(Reply::status(400, "no"));
        cluster.session("s").post_json(CHAT, &whole).await.expect(502);
        if restarted {
            cluster.restart().await;
        }
    }
    cluster.session("s").post_json(CHAT, &whole).await.expect(200);
    let context = cluster.upstream.last_request().transcript();
    assert_eq!(context, ["user: one", "assistant: reply to: one", "user: two"]);
    assert_eq!(transcript(&cluster.herma.client(), "s").await.len(), 4);
    assert_eq!((cluster.stored().all_turns(), cluster.stored().attempts()), (2, 4));
}

#[tokio::test]
async fn a_failed_turn_that_is_not_tried_again_leaves_its_message_and_a_note() {
    let cluster = Cluster::start().await;
    cluster.upstream.push(Reply::status(400, "no"));
    cluster.session("s").post_json(CHAT, &ask("one")).await.expect(502);
    cluster.session("s").post_json(CHAT, &ask("two")).await.expect(200);
    let context = cluster.upstream.last_request().transcript();
    assert_eq!(context, ["user: one", "assistant: [No reply was given: the model server failed.]", "user: two"]);
    assert_eq!(cluster.stored().turns("failed"), 1);
}

#[tokio::test]
async fn the_last_failed_turn_is_tried_again_although_an_older_one_said_the_same() {
    let cluster = Cluster::start().await;
    for text in ["x", "y", "x"] {
        cluster.upstream.push(Reply::status(400, "no"));
        cluster.session("s").post_json(CHAT, &ask(text)).await.expect(502);
    }
    cluster.session("s").post_json(CHAT, &ask("x")).await.expect(200);
    let said = transcript(&cluster.herma.client(), "s").await;
    assert_eq!(said, ["user: x", "user: y", "user: x", "assistant: reply to: x"]);
    assert_eq!((cluster.stored().all_turns(), cluster.stored().attempts()), (3, 4));
}

#[tokio::test]
async fn a_cancelled_turn_that_is_asked_for_again_is_its_next_attempt() {
    let cluster = Cluster::start().await;
    let (_gate, asked) =
        cluster.hold(cluster.session("s").header("x-hermes-on-disconnect", "cancel"), ask("one")).await;
    asked.abort();
    cluster.stored().until_turns("cancelled", 1).await;
    retry(&cluster.session("s"), 1).post_json(CHAT, &ask("one")).await.expect(200);
    assert_eq!(cluster.upstream.last_request().transcript(), ["user: one"]);
    assert_eq!((cluster.stored().all_turns(), cluster.stored().attempts()), (1, 2));
}
