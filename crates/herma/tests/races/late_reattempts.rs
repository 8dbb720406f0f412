//! A failed turn that is asked for again after other turns is still one turn. It moves to the end and keeps its first
//! id.

use futures_util::future::join_all;
use herma_testkit::{Client, Reply};
use serde_json::{Value, json};

use crate::support::{CHAT, Cluster, RetryMark, ask, ask_streamed, history, send, transcript, until};

/// The full view as `turn status: text`, and for each message the number of its turn.
async fn turns(client: &Client, alias: &str) -> (Vec<String>, Vec<usize>) {
    let page = client.get(&format!("/api/sessions/{alias}/messages?limit=200")).await.expect(200);
    let rows = page["data"].as_array().unwrap();
    let mut ids: Vec<&str> = Vec::new();
    let mut numbers = Vec::new();
    for row in rows {
        let id = row["turn_id"].as_str().unwrap();
        numbers.push(ids.iter().position(|known| *known == id).unwrap_or_else(|| {
            ids.push(id);
            ids.len() - 1
        }));
    }
    let text = |row: &Value| format!("{}: {}", row["turn_status"].as_str().unwrap(), row["content"].as_str().unwrap());
    (rows.iter().map(text).collect(), numbers)
}

/// The model view as `role: text`.
async fn shown(client: &Client, alias: &str) -> Vec<String> {
    let page = client.get(&format!("/api/sessions/{alias}/messages?view=model&limit=200")).await.expect(200);
    let rows = page["data"].as_array().unwrap().iter();
    rows.map(|row| format!("{}: {}", row["role"].as_str().unwrap(), row["content"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn a_failed_turn_that_is_asked_for_again_after_another_is_one_turn_at_the_end() {
    for (again, restarted) in
        [(RetryMark::Key, false), (RetryMark::Sdk, false), (RetryMark::Key, true), (RetryMark::Sdk, true)]
    {
        let mut cluster = Cluster::start().await;
        cluster.upstream.push(Reply::cut_off_after(2));
        again.first(cluster.session("s")).post_stream(CHAT, &ask_streamed("one")).await.rest().await;
        cluster.session("s").post_json(CHAT, &ask("two")).await.expect(200);
        if restarted {
            cluster.restart().await;
        }
        let retry = again.second(cluster.session("s"));
        assert_eq!(retry.post_stream(CHAT, &ask_streamed("one")).await.text().await, "reply to: one");
        let context = cluster.upstream.last_request().transcript();
        assert_eq!(context, ["user: two", "assistant: reply to: two", "user: one"]);
        let (said, turns) = turns(&cluster.herma.client(), "s").await;
        let failed = ["failed: one", "failed: chunk1 chunk2 ", "completed: two", "completed: reply to: two"];
        assert_eq!(said, [&failed[..], &["completed: one", "completed: reply to: one"]].concat());
        assert_eq!(turns, [0, 0, 1, 1, 0, 0]);
        let row = cluster.herma.client().get("/api/sessions/s").await.expect(200);
        assert_eq!((row["turn_count"].as_i64(), row["message_count"].as_i64()), (Some(2), Some(6)));
        let context = [&context[..], &["assistant: reply to: one".to_owned()]].concat();
        assert_eq!(shown(&cluster.herma.client(), "s").await, context);
        if restarted {
            cluster.restart().await;
        }
        cluster.session("s").post_json(CHAT, &ask("three")).await.expect(200);
        assert_eq!(cluster.upstream.last_request().transcript(), [&context[..], &["user: three".to_owned()]].concat());
        cluster.stored().until_settled().await;
    }
}

#[tokio::test]
async fn a_retry_that_waits_for_another_turn_is_still_an_attempt_of_the_failed_one() {
    for again in [RetryMark::Key, RetryMark::Sdk] {
        let cluster = Cluster::start().await;
        cluster.upstream.push(Reply::status(400, "no"));
        again.first(cluster.session("s")).post_json(CHAT, &ask("one")).await.expect(502);
        let (gate, other) = cluster.hold(cluster.session("s"), ask("two")).await;
        let retry = send(again.second(cluster.session("s")), ask("one"));
        cluster.stored().until_turns("queued", 1).await;
        gate.open();
        other.await.unwrap().expect(200);
        retry.await.unwrap().expect(200);
        let (said, turns) = turns(&cluster.herma.client(), "s").await;
        let expected = ["failed: one", "completed: two", "completed: reply to: two", "completed: one"];
        assert_eq!(said, [&expected[..], &["completed: reply to: one"]].concat());
        assert_eq!(turns, [0, 1, 1, 0, 0]);
        let context = cluster.upstream.last_request().transcript();
        assert_eq!(context, ["user: two", "assistant: reply to: two", "user: one"]);
        cluster.stored().until_settled().await;
    }
}

#[tokio::test]
async fn a_turn_that_began_anew_is_joined_by_its_key_and_tried_again_in_place() {
    let cluster = Cluster::start().await;
    let client = || RetryMark::Key.first(cluster.session("s"));
    cluster.upstream.push(Reply::status(400, "no"));
    client().post_json(CHAT, &ask("one")).await.expect(502);
    cluster.session("s").post_json(CHAT, &ask("two")).await.expect(200);
    cluster.upstream.push(Reply::status(400, "still no"));
    client().post_json(CHAT, &ask("one")).await.expect(502);
    let answered = client().post_json(CHAT, &ask("one")).await;
    answered.expect(200);
    assert_eq!(client().post_json(CHAT, &ask("one")).await.text(), answered.text());
    let (said, turns) = turns(&cluster.herma.client(), "s").await;
    let expected = ["failed: one", "completed: two", "completed: reply to: two", "completed: one"];
    assert_eq!(said, [&expected[..], &["completed: reply to: one"]].concat());
    assert_eq!(turns, [0, 1, 1, 0, 0]);
    assert_eq!(cluster.upstream.requests().len(), 4);
}

#[tokio::test]
async fn many_retries_at_once_after_another_turn_begin_anew_once() {
    let cluster = Cluster::start().await;
    let other = cluster.another().await;
    let client = || RetryMark::Key.first(cluster.session("s"));
    cluster.upstream.push(Reply::status(400, "no"));
    client().post_json(CHAT, &ask("one")).await.expect(502);
    let (gate, running) = cluster.hold(cluster.session("s"), ask("two")).await;
    let elsewhere = || RetryMark::Key.first(crate::support::named(other.client(), "s"));
    let retries: Vec<_> =
        (0..6).map(|number| send(if number % 2 == 0 { client() } else { elsewhere() }, ask("one"))).collect();
    cluster.stored().until_turns("queued", 6).await;
    gate.open();
    running.await.unwrap().expect(200);
    for retry in join_all(retries).await {
        assert_eq!(retry.unwrap().content(), "reply to: one");
    }
    let said = transcript(&cluster.herma.client(), "s").await;
    let expected = ["user: one", "user: two", "assistant: reply to: two", "user: one", "assistant: reply to: one"];
    assert_eq!(said, expected);
    assert_eq!(turns(&cluster.herma.client(), "s").await.1, [0, 1, 1, 0, 0]);
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn a_client_with_its_whole_history_goes_on_after_a_turn_that_began_anew() {
    let cluster = Cluster::start().await;
    let client = || RetryMark::Key.first(cluster.session("s"));
    cluster.session("s").post_json(CHAT, &ask("zero")).await.expect(200);
    let first = history(&["zero", "reply to: zero", "one"]);
    cluster.upstream.push(Reply::status(400, "no"));
    client().post_json(CHAT, &first).await.expect(502);
    let second = history(&["zero", "reply to: zero", "two"]);
    cluster.session("s").post_json(CHAT, &second).await.expect(200);
    client().post_json(CHAT, &first).await.expect(200);
    let context = ["user: zero", "assistant: reply to: zero", "user: two", "assistant: reply to: two", "user: one"];
    assert_eq!(cluster.upstream.last_request().transcript(), context);
    let whole = ["zero", "reply to: zero", "two", "reply to: two", "one", "reply to: one", "three"];
    cluster.session("s").post_json(CHAT, &history(&whole)).await.expect(200);
    let context = [&context[..], &["assistant: reply to: one", "user: three"]].concat();
    assert_eq!(cluster.upstream.last_request().transcript(), context);
    assert_eq!(transcript(&cluster.herma.client(), "s").await.len(), 9);
}

#[tokio::test]
async fn a_run_that_is_asked_for_again_after_another_turn_keeps_its_id() {
    let cluster = Cluster::start().await;
    let begin = async || {
        let run = json!({"model": "m", "input": "one", "session_id": "s"});
        RetryMark::Key.first(cluster.herma.client()).post_json("/v1/runs", &run).await.expect(202)
    };
    let ended = async |run: &Value, status: &str| {
        let path = format!("/v1/runs/{}", run["run_id"].as_str().unwrap());
        let client = cluster.herma.client();
        until("the run ends", async || client.get(&path).await.expect(200)["status"] == status).await;
    };
    cluster.upstream.push(Reply::status(400, "no"));
    let first = begin().await;
    ended(&first, "failed").await;
    cluster.session("s").post_json(CHAT, &ask("two")).await.expect(200);
    let second = begin().await;
    assert_eq!(second["run_id"], first["run_id"]);
    ended(&second, "completed").await;
    assert_eq!(cluster.upstream.last_request().transcript()[2..], ["user: one"]);
    assert_eq!(turns(&cluster.herma.client(), "s").await.1, [0, 1, 1, 0, 0]);
}

#[tokio::test]
async fn a_reattempted_response_is_fetched_and_continued_under_its_first_id() {
    let cluster = Cluster::start().await;
    let client = cluster.herma.client();
    let respond = async |key: &str, body: Value| {
        client.clone().header("idempotency-key", key).post_json("/v1/responses", &body).await
    };
    let input = |text: &str| json!({"model": "m", "input": text, "conversation": "s"});
    cluster.upstream.push(Reply::status(400, "no"));
    respond("k", input("one")).await.expect(502);
    let (_, numbers) = turns(&client, "s").await;
    assert_eq!(numbers, [0]);
    let page = client.get("/api/sessions/s/messages").await.expect(200);
    let turn = page["data"][0]["turn_id"].as_str().unwrap().strip_prefix("turn_").unwrap().to_owned();
    let two = respond("l", input("two")).await.expect(200);
    let one = respond("k", input("one")).await.expect(200);
    assert_eq!(one["id"], format!("resp_{turn}"));
    let path = format!("/v1/responses/resp_{turn}");
    let stored = client.get(&path).await.expect(200);
    assert_eq!((&stored["status"], &stored["output"]), (&json!("completed"), &one["output"]));
    let items = client.get(&format!("{path}/input_items")).await.expect(200);
    assert_eq!(items["data"].as_array().unwrap().len(), 1);
    let next = json!({"model": "m", "input": "three", "previous_response_id": one["id"]});
    let next = respond("m", next).await.expect(200);
    assert_eq!(next["session"]["conversation_id"], one["session"]["conversation_id"]);
    let instead = json!({"model": "m", "input": "instead", "previous_response_id": two["id"]});
    let branch = respond("n", instead).await.expect(200);
    assert_ne!(branch["session"]["conversation_id"], one["session"]["conversation_id"]);
    let note = "assistant: [No reply was given: the model server failed.]";
    let context = ["user: one", note, "user: two", "assistant: reply to: two", "user: instead"];
    assert_eq!(cluster.upstream.last_request().transcript(), context, "in the branch the first turn stays failed");
}
