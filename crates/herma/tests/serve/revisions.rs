//! `ETag` on answers about a conversation, and `If-Match` on requests that change it.

use herma_testkit::{Answer, Client, Reply};
use serde_json::{Value, json};

use crate::support::{CHAT, TestGateway, chat, error, streamed, user};

fn tag(answer: &Answer) -> String {
    assert!(answer.status < 300, "{}", answer.text());
    answer.header("etag").unwrap_or_else(|| panic!("no ETag: {}", answer.text())).to_owned()
}

async fn current(gateway: &TestGateway) -> String {
    tag(&gateway.client().get("/api/sessions/trip").await)
}

fn expecting(gateway: &TestGateway, tag: &str) -> Client {
    gateway.in_session("trip").header("if-match", tag)
}

fn mismatch(answer: &Answer) {
    let error = error(answer, 412);
    assert_eq!((error["code"].as_str(), error["param"].as_str()), (Some("version_mismatch"), Some("If-Match")));
}

#[tokio::test]
async fn every_answer_about_a_conversation_has_its_etag() {
    let gateway = TestGateway::start().await;
    let client = gateway.client();
    let mut last = tag(&gateway.say("trip", "one").await);
    assert!(last.starts_with('"') && last.ends_with('"') && last.len() > 4, "{last}");
    let message = gateway.rows("trip").await[0]["id"].as_str().unwrap().to_owned();
    let requests = [
        ("POST", CHAT.to_owned(), chat(&[user("two")])),
        ("POST", "/v1/responses".to_owned(), json!({"model": "scripted", "input": "three"})),
        ("POST", "/api/sessions/trip/chat".to_owned(), json!({"message": "four"})),
        ("POST", "/v1/conversations/trip/items".to_owned(), json!({"items": [user("five")]})),
        ("PATCH", "/api/sessions/trip".to_owned(), json!({"title": "A trip"})),
        ("POST", "/v1/conversations/trip".to_owned(), json!({"metadata": {"to": "Rome"}})),
        ("POST", "/api/sessions/trip/compactions".to_owned(), json!({})),
        ("POST", "/api/sessions/trip/end".to_owned(), json!({})),
        ("POST", "/api/sessions/trip/reopen".to_owned(), json!({})),
    ];
    for (method, path, body) in requests {
        if path.ends_with("compactions") {
            for _ in 0..3 {
                gateway.say("trip", &"a long way to go. ".repeat(200)).await.expect(200);
            }
            gateway.upstream.push(Reply::text("They went a long way."));
            last = current(&gateway).await;
        }
        let named = gateway.in_session("trip");
        let client = if path.starts_with("/v1/conv") || path.starts_with("/api") { &client } else { &named };
        let changed = tag(&client.send_json(method, &path, &body).await);
        assert_ne!(changed, last, "{path}");
        assert_eq!(current(&gateway).await, changed, "{path}");
        assert_eq!(tag(&gateway.client().get("/v1/conversations/trip").await), changed);
        last = changed;
    }
    client.send_json("PUT", &format!("/api/sessions/trip/messages/{message}/pin"), &json!({})).await.expect(200);
    assert_ne!(current(&gateway).await, last, "a pin is a change");
}

#[tokio::test]
async fn a_stream_tells_the_etag_that_the_conversation_has_after_its_turn() {
    let gateway = TestGateway::start().await;
    for text in ["one", "two"] {
        let mut stream = gateway.in_session("trip").post_stream(CHAT, &streamed(chat(&[user(text)]))).await;
        let told = stream.header("etag").expect("an ETag").to_owned();
        stream.rest().await;
        assert_eq!(current(&gateway).await, told);
    }
    let told = current(&gateway).await;
    let body = streamed(chat(&[user("three")]));
    let mut stream = expecting(&gateway, &told).post_stream(CHAT, &body).await;
    assert_eq!(stream.status, 200);
    stream.rest().await;
    mismatch(&expecting(&gateway, &told).post_json(CHAT, &body).await);
    assert_eq!(gateway.upstream.requests().len(), 3, "what is refused asks no model");
}

#[tokio::test]
async fn what_expects_another_etag_does_nothing() {
    let gateway = TestGateway::start().await;
    let old = tag(&gateway.say("trip", "one").await);
    let body = json!({"model": "scripted", "input": "two"});
    let answer = gateway.in_session("trip").post_json("/v1/responses", &body).await.expect(200);
    let response = answer["id"].as_str().unwrap().to_owned();
    let message = gateway.rows("trip").await[0]["id"].as_str().unwrap().to_owned();
    let now = current(&gateway).await;
    let rows = gateway.rows("trip").await;
    let asked = gateway.upstream.requests().len();
    let unknown = "\"never-given\"";
    for stale in [old.as_str(), unknown, &format!("W/{now}"), &format!("{old}, {unknown}")] {
        let named = expecting(&gateway, stale);
        let client = gateway.client().header("if-match", stale);
        let next = json!({"model": "scripted", "input": "three"});
        let after = json!({"model": "scripted", "input": "three", "previous_response_id": response});
        let run = json!({"input": "three", "session_id": "trip"});
        mismatch(&named.post_json(CHAT, &chat(&[user("three")])).await);
        mismatch(&named.post_json(CHAT, &streamed(chat(&[user("three")]))).await);
        mismatch(&named.post_json("/v1/responses", &next).await);
        mismatch(&client.post_json("/v1/responses", &after).await);
        mismatch(&client.post_json("/v1/runs", &run).await);
        for path in ["chat", "chat/stream"] {
            let path = format!("/api/sessions/trip/{path}");
            mismatch(&client.post_json(&path, &json!({"message": "three"})).await);
        }
        mismatch(&client.post_json("/v1/conversations/trip/items", &json!({"items": [user("three")]})).await);
        mismatch(&client.delete(&format!("/v1/conversations/trip/items/{message}")).await);
        mismatch(&client.send_json("PATCH", "/api/sessions/trip", &json!({"title": "A trip"})).await);
        mismatch(&client.post_json("/v1/conversations/trip", &json!({"metadata": {}})).await);
        for path in ["compactions", "branch", "fork", "end", "reopen"] {
            mismatch(&client.post_json(&format!("/api/sessions/trip/{path}"), &json!({})).await);
        }
        let pin = format!("/api/sessions/trip/messages/{message}/pin");
        mismatch(&client.send_json("PUT", &pin, &json!({})).await);
        mismatch(&client.delete(&pin).await);
        mismatch(&client.delete("/api/sessions/trip").await);
        mismatch(&client.delete("/v1/conversations/trip").await);
    }
    assert_eq!((current(&gateway).await, gateway.rows("trip").await), (now.clone(), rows));
    assert_eq!((gateway.sessions().await.len(), gateway.upstream.requests().len()), (1, asked));
    let both = format!("{old}, {now}");
    expecting(&gateway, &both).post_json(CHAT, &chat(&[user("three")])).await.expect(200);
    expecting(&gateway, "*").post_json(CHAT, &chat(&[user("four")])).await.expect(200);
    expecting(&gateway, "").post_json(CHAT, &chat(&[user("five")])).await.expect(200);
}

#[tokio::test]
async fn a_conversation_that_is_not_there_has_no_etag_to_match() {
    let gateway = TestGateway::start().await;
    let create: [(&str, Value); 4] = [
        (CHAT, chat(&[user("one")])),
        ("/v1/responses", json!({"model": "scripted", "input": "one", "store": false})),
        ("/api/sessions", json!({"id": "new"})),
        ("/v1/conversations", json!({})),
    ];
    for if_match in ["*", "\"1\""] {
        let client = gateway.client().header("if-match", if_match);
        mismatch(&expecting(&gateway, if_match).post_json(CHAT, &chat(&[user("one")])).await);
        for (path, body) in &create {
            mismatch(&client.post_json(path, body).await);
        }
    }
    assert!(gateway.sessions().await.is_empty() && gateway.upstream.requests().is_empty());
    let bad = error(&expecting(&gateway, "1").post_json(CHAT, &chat(&[user("one")])).await, 400);
    assert_eq!((bad["code"].as_str(), bad["param"].as_str()), (Some("invalid_header"), Some("If-Match")));
}

#[tokio::test]
async fn a_retry_of_a_request_that_met_its_etag_is_not_refused_for_its_own_turn() {
    let gateway = TestGateway::start().await;
    let first = tag(&gateway.say("trip", "one").await);
    let keyed = expecting(&gateway, &first).header("idempotency-key", "k");
    gateway.upstream.push(Reply::status(400, "no"));
    let failed = keyed.post_json(CHAT, &chat(&[user("two")])).await;
    assert_eq!(failed.status, 502, "{}", failed.text());
    let answered = keyed.post_json(CHAT, &chat(&[user("two")])).await;
    answered.expect(200);
    assert_eq!(keyed.post_json(CHAT, &chat(&[user("two")])).await.text(), answered.text());
    assert_eq!(gateway.transcript("trip").await.len(), 4);
    mismatch(&expecting(&gateway, &first).post_json(CHAT, &chat(&[user("two")])).await);
}
