//! Automatic retries of the official SDKs, without an idempotency key.

use futures_util::future::join_all;
use herma_testkit::upstream::Pace;
use herma_testkit::{Client, Completion, Gate, Reply, ToolCall};
use serde_json::json;
use tokio::io::AsyncReadExt;

use crate::support::{
    CHAT, Cluster, ask, ask_streamed, history, named, next_text, retry, send, send_only, streamed, transcript,
};

const RESPONSES: &str = "/v1/responses";

#[tokio::test]
async fn a_retry_after_a_dropped_connection_joins_the_running_turn() {
    for named in [true, false] {
        let cluster = Cluster::start().await;
        let client = if named { cluster.session("s") } else { cluster.herma.client() };
        let (gate, dropped) = cluster.hold(client.clone(), ask("one")).await;
        dropped.abort();
        let retried = send(retry(&client, 1), ask("one"));
        cluster.stored().until_joined(1).await;
        gate.open();
        assert_eq!(retried.await.unwrap().content(), "reply to: one");
        assert_eq!(cluster.upstream.requests().len(), 1);
        assert_eq!((cluster.stored().all_turns(), cluster.stored().conversations()), (1, 1));
        cluster.stored().until_settled().await;
    }
}

#[tokio::test]
async fn a_retried_stream_begins_again_from_its_first_word() {
    let cluster = Cluster::start().await;
    let gate = Gate::new();
    cluster.upstream.push(Completion::chunks(["half ", "whole"]).pace(Pace::Gated(gate.clone())).into());
    gate.release(1);
    let mut dropped = cluster.session("s").post_stream(CHAT, &ask_streamed("one")).await;
    assert_eq!(next_text(&mut dropped).await, "half ");
    drop(dropped);
    let mut joined = retry(&cluster.session("s"), 1).post_stream(CHAT, &ask_streamed("one")).await;
    assert_eq!(next_text(&mut joined).await, "half ");
    gate.open();
    assert_eq!(joined.text().await, "whole");
    assert_eq!(cluster.stored().all_turns(), 1);
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn a_retry_gets_the_answer_that_was_never_delivered() {
    let mut cluster = Cluster::start().await;
    for client in [cluster.session("s"), cluster.herma.client()] {
        let before = cluster.stored().turns("completed");
        let (gate, dropped) = cluster.hold(client.clone(), ask("one")).await;
        dropped.abort();
        assert!(dropped.await.is_err());
        // The server must notice that the client has left before the model answers. It has noticed when a second
        // request to the same server is answered.
        cluster.herma.client().get("/health").await.expect(200);
        gate.open();
        cluster.stored().until_turns("completed", before + 1).await;
        let retried = retry(&client, 1).post_json(CHAT, &ask("one")).await;
        assert_eq!(retried.content(), "reply to: one");
    }
    let (gate, dropped) = cluster.hold(cluster.session("t"), ask("one")).await;
    dropped.abort();
    gate.open();
    cluster.stored().until_turns("completed", 3).await;
    cluster.restart().await;
    assert_eq!(retry(&cluster.session("t"), 1).post_json(CHAT, &ask("one")).await.content(), "reply to: one");
    assert_eq!(cluster.upstream.requests().len(), 3);
    assert_eq!(cluster.stored().all_turns(), 3);
}

#[tokio::test]
async fn a_delivered_answer_is_not_given_again_to_a_retry_that_only_brings_its_new_message() {
    let cluster = Cluster::start().await;
    for (client, body) in [(cluster.session("s"), ask("one")), (cluster.session("t"), ask_streamed("one"))] {
        let before = cluster.upstream.requests().len();
        client.post_json(CHAT, &body).await;
        retry(&client, 1).post_json(CHAT, &body).await;
        assert_eq!(cluster.upstream.requests().len(), before + 2);
    }
    assert_eq!((cluster.stored().all_turns(), cluster.stored().conversations()), (4, 2));
}

#[tokio::test]
async fn a_retry_whose_own_history_lacks_the_answer_gets_it_although_it_was_delivered() {
    let cluster = Cluster::start().await;
    let first = cluster.herma.client().post_json(RESPONSES, &json!({"input": "one"})).await.expect(200);
    cluster.session("s").post_json(CHAT, &ask("one")).await.expect(200);
    cluster.session("t").post_json(CHAT, &ask("one")).await.expect(200);
    let after = json!({"input": "two", "previous_response_id": first["id"]});
    for (client, path, body) in [
        (cluster.session("s"), CHAT, history(&["one", "reply to: one", "two"])),
        (cluster.session("t"), CHAT, streamed(history(&["one", "reply to: one", "two"]))),
        (cluster.herma.client(), CHAT, ask("one")),
        (cluster.herma.client(), CHAT, history(&["one", "other", "two"])),
        (cluster.herma.client(), RESPONSES, json!({"input": "three"})),
        (cluster.herma.client(), RESPONSES, after),
    ] {
        let before = cluster.stored().all_turns();
        client.post_json(path, &body).await;
        retry(&client, 1).post_json(path, &body).await;
        retry(&client, 2).post_json(path, &body).await;
        assert_eq!(cluster.stored().all_turns(), before + 1, "{body}");
        retry(&client, 2).post_json(path, &body).await;
        assert_eq!(cluster.stored().all_turns(), before + 2, "each number joins once: {body}");
    }
}

#[tokio::test]
async fn a_client_that_hangs_up_while_the_answer_is_written_and_retries_has_one_turn() {
    let cluster = Cluster::start().await;
    for round in 0..20 {
        let name = format!("s{round}");
        cluster.session(&name).post_json(CHAT, &ask("one")).await.expect(200);
        let body = history(&["one", "reply to: one", "two"]);
        let header = format!("x-hermes-session-id: {name}\r\n");
        let mut dropped = send_only(&cluster.herma, CHAT, &header, &body).await;
        dropped.read_u8().await.unwrap();
        drop(dropped);
        let answer = retry(&cluster.session(&name), 1).post_json(CHAT, &body).await;
        assert_eq!(answer.content(), "reply to: two");
        assert_eq!(cluster.stored().all_turns(), 2 * (round + 1));
    }
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn an_answer_of_which_only_the_beginning_was_written_is_not_delivered() {
    let cluster = Cluster::start().await;
    let long = "a long answer ".repeat(600_000);
    cluster.upstream.push(Completion::chunks([long.clone()]).into());
    let mut dropped = send_only(&cluster.herma, CHAT, "x-hermes-session-id: s\r\n", &ask("one")).await;
    dropped.read_u8().await.unwrap();
    drop(dropped);
    let answer = retry(&cluster.session("s"), 1).post_json(CHAT, &ask("one")).await;
    assert!(answer.content() == long, "another answer");
    assert_eq!((cluster.upstream.requests().len(), cluster.stored().all_turns()), (1, 1));
}

#[tokio::test]
async fn an_answer_that_a_retry_took_is_delivered() {
    let cluster = Cluster::start().await;
    let (gate, dropped) = cluster.hold(cluster.session("s"), ask("one")).await;
    dropped.abort();
    let retried = send(retry(&cluster.session("s"), 1), ask("one"));
    cluster.stored().until_joined(1).await;
    gate.open();
    retried.await.unwrap().expect(200);
    retry(&cluster.session("s"), 2).post_json(CHAT, &ask("one")).await.expect(200);
    assert_eq!(cluster.stored().all_turns(), 2);
}

#[tokio::test]
async fn each_attempt_number_joins_once() {
    let cluster = Cluster::start().await;
    let (gate, first) = cluster.hold(cluster.session("s"), ask("one")).await;
    let joining = [1, 2].map(|count| send(retry(&cluster.session("s"), count), ask("one")));
    cluster.stored().until_joined(2).await;
    let spent = send(retry(&cluster.session("s"), 2), ask("one"));
    cluster.stored().until_turns("queued", 1).await;
    gate.open();
    let first = first.await.unwrap().text();
    for answer in join_all(joining).await {
        assert_eq!(answer.unwrap().text(), first);
    }
    assert_ne!(spent.await.unwrap().text(), first);
    assert_eq!(cluster.stored().all_turns(), 2);
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn only_the_same_request_of_the_same_caller_is_a_retry() {
    let cluster = Cluster::start().await;
    let plain = cluster.session("s");
    let (gate, first) = cluster.hold(plain.clone(), ask("one")).await;
    let mut other_user = ask("one");
    other_user["user"] = json!("somebody");
    let others: Vec<(Client, serde_json::Value)> = vec![
        (plain.clone(), other_user),
        (plain.clone(), ask("two")),
        (plain.clone(), ask_streamed("one")),
        (plain.clone().header("x-hermes-session-key", "agent:main"), ask("one")),
    ];
    let waiting: Vec<_> = others.into_iter().map(|(client, body)| send(retry(&client, 1), body)).collect();
    cluster.stored().until_turns("queued", 4).await;
    for elsewhere in [cluster.session("t"), cluster.herma.client()] {
        retry(&elsewhere, 1).post_json(CHAT, &ask("one")).await.expect(200);
    }
    assert_eq!(cluster.stored().conversations(), 3);
    gate.open();
    first.await.unwrap().expect(200);
    for answer in join_all(waiting).await {
        assert_eq!(answer.unwrap().status, 200);
    }
    assert_eq!(cluster.stored().all_turns(), 7);
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn a_storm_of_retries_makes_one_turn() {
    let cluster = Cluster::start().await;
    let other = cluster.another().await;
    let (gate, first) = cluster.hold(cluster.session("s"), ask("one")).await;
    first.abort();
    let storm = (1..=30).map(|count| {
        let herma = if count % 3 == 0 { &other } else { &cluster.herma };
        send(retry(&named(herma.client(), "s"), count), ask("one"))
    });
    let storm: Vec<_> = storm.collect();
    cluster.stored().until_joined(30).await;
    for dropped in storm.iter().skip(1).step_by(2) {
        dropped.abort();
    }
    let late = send(retry(&cluster.session("s"), 31), ask("one"));
    cluster.stored().until_joined(31).await;
    gate.open();
    assert_eq!(late.await.unwrap().content(), "reply to: one");
    for answer in join_all(storm).await {
        assert!(answer.map_or(true, |answer| answer.content() == "reply to: one"));
    }
    assert_eq!(cluster.upstream.requests().len(), 1);
    assert_eq!(transcript(&cluster.herma.client(), "s").await, ["user: one", "assistant: reply to: one"]);
    assert_eq!(cluster.stored().all_turns(), 1);
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn a_tool_result_is_joined_although_its_call_is_answered() {
    let cluster = Cluster::start().await;
    cluster.upstream.push(Reply::tool_calls([ToolCall::new("call_1", "look", "{}")]));
    cluster.session("s").post_json(CHAT, &ask("one")).await.expect(200);
    let result = json!({"messages": [{"role": "tool", "tool_call_id": "call_1", "content": "found"}]});
    let (gate, dropped) = cluster.hold(cluster.session("s"), result.clone()).await;
    dropped.abort();
    let retried = send(retry(&cluster.session("s"), 1), result);
    cluster.stored().until_joined(1).await;
    gate.open();
    retried.await.unwrap().expect(200);
    assert_eq!(cluster.stored().all_turns(), 2);
}
