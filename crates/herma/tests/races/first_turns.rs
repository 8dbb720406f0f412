//! First turns that fail, of clients that name no session and do not mark their retries.

use herma_testkit::Reply;
use serde_json::json;

use crate::support::{CHAT, Cluster, ask, ask_streamed, history, transcript};

/// How often the gateway calls the model server before a turn fails.
const CALLS: usize = 3;

fn fail(cluster: &Cluster) {
    (0..CALLS).for_each(|_| cluster.upstream.push(Reply::status(500, "oh no")));
}

#[tokio::test]
async fn a_first_turn_that_fails_again_and_again_leaves_one_conversation() {
    let cluster = Cluster::start().await;
    let other = cluster.another().await;
    for (nth, body) in [ask("one"), ask_streamed("two"), history(&["a", "b", "three"])].iter().enumerate() {
        for herma in [&cluster.herma, &other, &cluster.herma] {
            fail(&cluster);
            herma.client().post_json(CHAT, body).await.expect(502);
        }
        let answer = other.client().post_json(CHAT, body).await;
        let conversations = i64::try_from(nth).unwrap() + 1;
        assert_eq!((cluster.stored().conversations(), cluster.stored().all_turns()), (conversations, conversations));
        assert_eq!(cluster.stored().attempts(), 4 * conversations);
        assert_eq!(answer.status, 200);
        assert_eq!(cluster.upstream.last_request().messages().len(), body["messages"].as_array().unwrap().len());
        let id = answer.header("x-hermes-conversation-id").unwrap();
        assert_eq!(transcript(&other.client(), id).await.len(), body["messages"].as_array().unwrap().len() + 1);
    }
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn a_failed_response_that_is_asked_for_again_keeps_its_id() {
    let cluster = Cluster::start().await;
    let client = cluster.herma.client();
    let body = json!({"input": "one", "stream": true});
    fail(&cluster);
    client.post_json("/v1/responses", &body).await;
    assert_eq!(client.post_json("/v1/responses", &body).await.status, 200);
    assert_eq!((cluster.stored().all_turns(), cluster.stored().attempts()), (1, 2));
}

#[tokio::test]
async fn what_is_not_the_same_first_turn_makes_a_conversation_of_its_own() {
    let cluster = Cluster::start().await;
    let client = cluster.herma.client();
    fail(&cluster);
    client.post_json(CHAT, &ask("one")).await.expect(502);
    client.clone().header("x-hermes-session-key", "agent:main").post_json(CHAT, &ask("one")).await.expect(200);
    client.clone().header("x-hermes-session-kind", "auxiliary").post_json(CHAT, &ask("one")).await.expect(200);
    client.post_json(CHAT, &ask("other")).await.expect(200);
    cluster.session("s").post_json(CHAT, &ask("one")).await.expect(200);
    assert_eq!(cluster.stored().conversations(), 5);
    client.post_json(CHAT, &ask("one")).await.expect(200);
    assert_eq!(cluster.stored().conversations(), 5, "that was the next attempt");
    client.post_json(CHAT, &ask("one")).await.expect(200);
    assert_eq!(cluster.stored().conversations(), 6, "after an answer the same words are a new conversation");
}

#[tokio::test]
async fn one_of_two_requests_at_once_is_the_next_attempt() {
    let cluster = Cluster::start().await;
    let client = cluster.herma.client();
    fail(&cluster);
    client.post_json(CHAT, &ask("one")).await.expect(502);
    let (gate, attempt) = cluster.hold(client.clone(), ask("one")).await;
    client.post_json(CHAT, &ask("one")).await.expect(200);
    assert_eq!((cluster.stored().conversations(), cluster.stored().attempts()), (2, 3));
    gate.open();
    assert_eq!(attempt.await.unwrap().content(), "reply to: one");
    cluster.stored().until_settled().await;
}
