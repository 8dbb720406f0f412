//! API keys that may not do everything: read-only ones, those that expire, and those with limits.

use std::time::{Duration, Instant};

use herma_gateway::access::{KeyGrant, create_key};
use herma_model::{KeyLimits, Timestamp};
use herma_store::Store as _;
use herma_store_sqlite::SqliteStore;
use herma_testkit::{Client, Gate, Reply};
use serde_json::json;

use crate::support::{CHAT, SESSION_ID, TestGateway, chat, user, with};

/// A client with a key of the default tenant that has these limits.
async fn limited(gateway: &TestGateway, limits: KeyLimits) -> Client {
    let store = SqliteStore::open(&gateway.herma.data().join("herma.db")).unwrap();
    let key = create_key(&store, KeyGrant { limits, ..KeyGrant::of("default") }).await.unwrap();
    store.close().await;
    Client::new(gateway.herma.base_url()).key(&key.secret)
}

#[tokio::test]
async fn a_read_only_key_reads_everything_and_changes_nothing() {
    let gateway = TestGateway::start().await;
    gateway.say("trip", "hello").await.expect(200);
    let reader = limited(&gateway, KeyLimits { read_only: true, ..KeyLimits::default() }).await;
    for path in
        ["/api/sessions", "/api/sessions/trip", "/api/sessions/trip/messages", "/api/search?q=hello", "/v1/models"]
    {
        reader.get(path).await.expect(200);
    }
    let counted = json!({"input": "hello", "conversation": "trip"});
    reader.post_json("/v1/responses/input_tokens", &counted).await.expect(200);
    let asked = json!({"input": "hello", "conversation": "trip"});
    let refused = [
        reader.clone().header(SESSION_ID, "trip").post_json(CHAT, &chat(&[user("more")])).await,
        reader.post_json("/v1/responses", &asked).await,
        reader.get("/v1/responses").await,
        reader.post_json("/v1/runs", &asked).await,
        reader.post_json("/v1/embeddings", &json!({"input": "hello"})).await,
        reader.post_json("/api/sessions", &json!({})).await,
        reader.send_json("PATCH", "/api/sessions/trip", &json!({"title": "changed"})).await,
        reader.delete("/api/sessions/trip").await,
    ];
    for answer in refused {
        assert_eq!(answer.expect(403)["error"]["code"], "read_only_key");
    }
    assert_eq!(gateway.transcript("trip").await, ["user: hello", "assistant: reply to: hello"]);
    assert_eq!(gateway.upstream.requests().len(), 1, "no refused request reached the model server");
}

#[tokio::test]
async fn an_expired_key_is_refused_although_it_was_used_a_moment_before() {
    let gateway = TestGateway::start().await;
    let end = herma_gateway::now().0 + 2_000;
    let client = limited(&gateway, KeyLimits { expires_at: Some(Timestamp(end)), ..KeyLimits::default() }).await;
    client.get("/api/sessions").await.expect(200);
    while herma_gateway::now().0 < end {
        client.get("/api/sessions").await;
    }
    assert_eq!(client.get("/api/sessions").await.expect(401)["error"]["code"], "invalid_api_key");
}

#[tokio::test]
async fn a_key_that_asks_too_often_is_told_when_to_ask_again() {
    let gateway = TestGateway::start().await;
    let limits = KeyLimits { rate: Some("3/h".parse().unwrap()), ..KeyLimits::default() };
    let client = limited(&gateway, limits).await;
    for _ in 0..3 {
        client.get("/api/sessions").await.expect(200);
    }
    let refused = client.get("/api/sessions").await;
    let error = &refused.expect(429)["error"];
    assert_eq!(error["code"], "rate_limit_exceeded");
    assert!(error["message"].as_str().unwrap().contains("3/h"), "{error}");
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1_100..=1_200).contains(&wait), "{wait}");
    gateway.client().get("/api/sessions").await.expect(200);
}

#[tokio::test]
async fn a_key_runs_no_more_turns_at_once_than_its_limit() {
    let gateway = TestGateway::start().await;
    let client = limited(&gateway, KeyLimits { max_turns: Some(1), ..KeyLimits::default() }).await;
    let gate = Gate::new();
    gateway.upstream.push(Reply::text("slowly").held(&gate));
    let first = client.clone().header(SESSION_ID, "one");
    let running = tokio::spawn(async move { first.post_json(CHAT, &chat(&[user("hello")])).await });
    gateway.upstream.until_requests(1).await;
    let second = client.clone().header(SESSION_ID, "two");
    let refused = second.post_json(CHAT, &chat(&[user("hello")])).await;
    assert_eq!(refused.expect(429)["error"]["code"], "rate_limit_exceeded");
    assert!(refused.header("retry-after").is_some());
    gateway.say("three", "another key has its own limit").await.expect(200);
    gate.open();
    running.await.unwrap().expect(200);
    second.post_json(CHAT, &chat(&[user("hello")])).await.expect(200);
}

#[tokio::test]
async fn a_client_that_has_read_its_answer_may_ask_again_at_once() {
    let gateway = TestGateway::start().await;
    let client = limited(&gateway, KeyLimits { max_turns: Some(1), ..KeyLimits::default() }).await;
    // Large requests run on other threads than their connections.
    let large = with(chat(&[user(&"word ".repeat(60_000))]), "stream", json!(true));
    for round in 0..20 {
        let session = client.clone().header(SESSION_ID, &format!("large-{round}"));
        session.post_stream(CHAT, &large).await.rest().await;
        client.clone().header(SESSION_ID, "small").post_json(CHAT, &chat(&[user("hello")])).await.expect(200);
    }
}

#[tokio::test]
async fn a_repeated_request_needs_no_turn_beyond_the_limit() {
    let gateway = TestGateway::start().await;
    let client = limited(&gateway, KeyLimits { max_turns: Some(1), ..KeyLimits::default() }).await;
    let hello = chat(&[user("hello")]);
    let done = client.clone().header(SESSION_ID, "done").header("idempotency-key", "done");
    let answered = done.post_json(CHAT, &hello).await.expect(200)["id"].clone();
    let gate = Gate::new();
    gateway.upstream.push(Reply::text("slowly").held(&gate));
    let run = json!({ "input": "hello", "session_id": "one" });
    let once = client.clone().header("idempotency-key", "one");
    let running = once.post_json("/v1/runs", &run).await.expect(202)["run_id"].clone();
    gateway.upstream.until_requests(2).await;
    let retry = client.clone().header("x-stainless-retry-count", "1");
    for _ in 0..3 {
        assert_eq!(done.post_json(CHAT, &hello).await.expect(200)["id"], answered, "a stored outcome");
        assert_eq!(once.post_json("/v1/runs", &run).await.expect(202)["run_id"], running, "a running turn");
    }
    assert_eq!(retry.post_json("/v1/runs", &run).await.expect(202)["run_id"], running, "an SDK's retry");
    for new in ["idempotency-key", "x-stainless-retry-count"] {
        let client = client.clone().header(SESSION_ID, "two").header(new, "1");
        assert_eq!(client.post_json(CHAT, &hello).await.expect(429)["error"]["code"], "rate_limit_exceeded");
    }
    let stateless = json!({ "input": "hello", "store": false });
    once.post_json("/v1/responses", &stateless).await.expect(429);
    gate.open();
    let events = format!("/v1/runs/{}/events", running.as_str().unwrap());
    client.get_stream(&events).await.rest().await;
    assert_eq!(gateway.upstream.requests().len(), 2, "no repeated request reached the model server");
    let other = json!({ "input": "something else", "store": false });
    once.post_json("/v1/responses", &other).await.expect(200);
    assert_eq!(gateway.client().get("/api/sessions").await.expect(200)["data"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn wrong_keys_wait_longer_and_longer_while_a_valid_key_does_not() {
    let gateway = TestGateway::start().await;
    let guesser = Client::new(gateway.herma.base_url()).key("hk-wrong");
    for _ in 0..6 {
        guesser.get("/api/sessions").await.expect(401);
    }
    let began = Instant::now();
    guesser.get("/api/sessions").await.expect(401);
    assert!(began.elapsed() >= Duration::from_millis(200), "{:?}", began.elapsed());
    let waiting = tokio::spawn(async move { guesser.get("/api/sessions").await.expect(401) });
    gateway.client().get("/api/sessions").await.expect(200);
    assert!(!waiting.is_finished(), "a valid key does not wait behind a wrong one");
    waiting.await.unwrap();
}
