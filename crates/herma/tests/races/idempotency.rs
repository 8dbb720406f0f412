//! `Idempotency-Key`: the same request under the same key is the same turn.

use herma_testkit::{Client, Reply, ToolCall};
use serde_json::{Value, json};

use crate::support::{CHAT, Cluster, ask, ask_streamed, ids, named, send, streamed, transcript};

fn keyed(client: Client, key: &str) -> Client {
    client.header("idempotency-key", key)
}

#[tokio::test]
async fn the_same_key_and_body_get_the_stored_answer_byte_for_byte() {
    let mut cluster = Cluster::start().await;
    let answer = json!({"id": "chatcmpl-x", "object": "chat.completion", "created": 1, "model": "m-2026",
        "system_fingerprint": "fp_1", "choices": [{"index": 0, "finish_reason": "length", "logprobs": null,
        "message": {"role": "assistant", "content": "once", "refusal": null, "reasoning_content": "hm"}}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}});
    cluster.upstream.push(Reply::garbage(answer.to_string()));
    let first = keyed(cluster.session("s"), "k").post_json(CHAT, &ask("one")).await;
    first.expect(200);
    let again = keyed(cluster.session("s"), "k").post_json(CHAT, &ask("one")).await;
    assert_eq!((again.status, again.text()), (200, first.text()));
    cluster.session("s").post_json(CHAT, &ask("two")).await.expect(200);
    let later = keyed(cluster.session("s"), "k").post_json(CHAT, &ask("one")).await;
    assert_eq!((later.status, later.text()), (200, first.text()));
    cluster.restart().await;
    let after_restart = keyed(cluster.session("s"), "k").post_json(CHAT, &ask("one")).await;
    assert_eq!((after_restart.status, after_restart.text()), (200, first.text()));
    assert_eq!(cluster.upstream.requests().len(), 2);
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn a_stream_is_repeated_as_a_stream() {
    let mut cluster = Cluster::start().await;
    let first = keyed(cluster.session("s"), "k").post_stream(CHAT, &ask_streamed("one")).await.chunks().await;
    for restarted in [false, true] {
        if restarted {
            cluster.restart().await;
        }
        let mut stream = keyed(cluster.session("s"), "k").post_stream(CHAT, &ask_streamed("one")).await;
        assert_eq!(stream.header("x-hermes-session-id"), Some("s"));
        let again = stream.chunks().await;
        assert_eq!(ids(&again), ids(&first));
        assert_eq!(text(&again), "reply to: one");
        assert_eq!(again.last(), first.last());
    }
    assert_eq!(cluster.upstream.requests().len(), 1);
}

fn text(chunks: &[Value]) -> String {
    chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect()
}

#[tokio::test]
async fn the_same_key_joins_the_running_turn_in_every_process() {
    let cluster = Cluster::start().await;
    let other = cluster.another().await;
    let (gate, first) = cluster.hold(keyed(cluster.session("s"), "k"), ask("one")).await;
    let here = send(keyed(cluster.session("s"), "k"), ask("one"));
    let there = send(keyed(named(other.client(), "s"), "k"), ask("one"));
    // When this turn is queued, the two requests before it have been processed.
    let waiting = send(cluster.session("s"), ask("two"));
    cluster.stored().until_turns("queued", 1).await;
    gate.open();
    let first = first.await.unwrap().text();
    assert_eq!(here.await.unwrap().text(), first);
    assert_eq!(there.await.unwrap().text(), first);
    waiting.await.unwrap().expect(200);
    assert_eq!(cluster.stored().all_turns(), 2);
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn another_body_under_the_same_key_is_refused_and_leaves_nothing() {
    let cluster = Cluster::start().await;
    keyed(cluster.session("s"), "k").post_json(CHAT, &ask("one")).await.expect(200);
    for body in [ask("two"), streamed(ask("one"))] {
        let error = keyed(cluster.session("s"), "k").post_json(CHAT, &body).await.expect(422);
        assert_eq!(error["error"]["code"], "idempotency_mismatch");
    }
    assert_eq!(transcript(&cluster.herma.client(), "s").await.len(), 2);
    assert_eq!(cluster.stored().all_turns(), 1);
}

#[tokio::test]
async fn the_same_key_on_another_conversation_or_on_none_is_another_request() {
    let cluster = Cluster::start().await;
    let in_s = keyed(cluster.session("s"), "k").post_json(CHAT, &ask("one")).await.expect(200);
    let in_t = keyed(cluster.session("t"), "k").post_json(CHAT, &ask("two")).await.expect(200);
    let in_none = keyed(cluster.herma.client(), "k").post_json(CHAT, &ask("three")).await;
    let again = keyed(cluster.herma.client(), "k").post_json(CHAT, &ask("three")).await;
    assert_ne!(in_s["id"], in_t["id"]);
    assert_eq!(in_none.text(), again.text());
    assert_eq!(cluster.stored().conversations(), 3);
}

#[tokio::test]
async fn after_a_failed_turn_the_key_starts_another_attempt_with_one_user_message() {
    let cluster = Cluster::start().await;
    cluster.upstream.push(Reply::status(400, "no"));
    keyed(cluster.session("s"), "k").post_json(CHAT, &ask("one")).await.expect(502);
    let answered = keyed(cluster.session("s"), "k").post_json(CHAT, &ask("one")).await;
    assert_eq!(answered.content(), "reply to: one");
    assert_eq!(cluster.upstream.last_request().transcript(), ["user: one"]);
    let again = keyed(cluster.session("s"), "k").post_json(CHAT, &ask("one")).await;
    assert_eq!(again.text(), answered.text());
    assert_eq!(transcript(&cluster.herma.client(), "s").await, ["user: one", "assistant: reply to: one"]);
    assert_eq!((cluster.stored().all_turns(), cluster.stored().attempts()), (1, 2));
}

#[tokio::test]
async fn a_failed_turn_without_a_conversation_is_tried_again_where_it_was() {
    let cluster = Cluster::start().await;
    cluster.upstream.push(Reply::status(400, "no"));
    keyed(cluster.herma.client(), "k").post_json(CHAT, &ask("one")).await.expect(502);
    keyed(cluster.herma.client(), "k").post_json(CHAT, &ask("one")).await.expect(200);
    assert_eq!(cluster.upstream.last_request().transcript(), ["user: one"]);
    assert_eq!((cluster.stored().conversations(), cluster.stored().attempts()), (1, 2));
}

#[tokio::test]
async fn a_refused_request_does_not_use_up_its_key() {
    let cluster = Cluster::start().await;
    cluster.upstream.push(Reply::context_too_long());
    keyed(cluster.session("s"), "k").post_json(CHAT, &ask("one")).await.expect(400);
    assert_eq!(cluster.stored().conversations(), 0);
    keyed(cluster.session("s"), "k").post_json(CHAT, &ask("shorter")).await.expect(200);
}

/// When the result comes again, its call already has one. A new request with it would be refused.
#[tokio::test]
async fn a_tool_result_sent_again_gets_the_stored_answer() {
    let cluster = Cluster::start().await;
    cluster.upstream.push(Reply::tool_calls([ToolCall::new("call_1", "look", "{}")]));
    cluster.session("s").post_json(CHAT, &ask("one")).await.expect(200);
    let result = json!({"messages": [{"role": "tool", "tool_call_id": "call_1", "content": "found"}]});
    cluster.upstream.push(Reply::text("done"));
    let first = keyed(cluster.session("s"), "k").post_json(CHAT, &result).await;
    assert_eq!(first.content(), "done");
    let again = keyed(cluster.session("s"), "k").post_json(CHAT, &result).await;
    assert_eq!((again.status, again.text()), (200, first.text()));
    cluster.session("s").post_json(CHAT, &result).await.expect(400);
    assert_eq!(cluster.stored().all_turns(), 2);
}

#[tokio::test]
async fn the_same_key_under_another_name_of_the_conversation_is_the_same_request() {
    let cluster = Cluster::start().await;
    let first = keyed(cluster.session("s"), "k").post_json(CHAT, &ask("one")).await;
    let conversation = first.expect(200)["session"]["conversation_id"].as_str().unwrap().to_owned();
    let by_id = keyed(cluster.session(&conversation), "k").post_json(CHAT, &ask("one")).await;
    let by_handle = keyed(cluster.herma.client(), "k").header("x-hermes-conversation-id", &conversation);
    let by_handle = by_handle.post_json(CHAT, &ask("one")).await;
    assert_eq!(
        [by_id.expect(200)["id"].clone(), by_handle.expect(200)["id"].clone()],
        [&first.json()["id"]; 2].map(Clone::clone)
    );
    assert_eq!(cluster.upstream.requests().len(), 1);
}
