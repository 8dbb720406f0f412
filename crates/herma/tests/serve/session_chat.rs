//! Hermes' routes for turns of a session: `…/chat` and `…/chat/stream`.

use herma_testkit::Reply;
use serde_json::json;

use crate::support::{TestGateway, error};

const CHAT: &str = "/api/sessions/trip/chat";

#[tokio::test]
async fn a_message_is_answered_in_the_conversation_that_any_name_leads_to() {
    let gateway = TestGateway::start().await;
    let unknown = gateway.client().post_json(CHAT, &json!({"message": "one"})).await;
    error(&unknown, 404);
    gateway.say("trip", "one").await;
    let body = json!({"message": "two", "system_message": "Be brief."});
    let answer = gateway.client().post_json(CHAT, &body).await;
    assert_eq!(answer.header("x-hermes-session-id"), Some("trip"));
    let answer = answer.expect(200);
    assert_eq!(answer["object"], "hermes.session.chat.completion");
    assert_eq!((&answer["session_id"], &answer["message"]["content"]), (&json!("trip"), &json!("reply to: two")));
    assert!(answer["usage"]["total_tokens"].as_u64().unwrap() > 0);
    assert_eq!(gateway.context(), ["system: Be brief.", "user: one", "assistant: reply to: one", "user: two"]);
    gateway.say("trip", "three").await;
    assert_eq!(gateway.context()[0], "user: one", "the system message was for one message alone");
}

#[tokio::test]
async fn a_stream_tells_the_session_in_every_event() {
    let gateway = TestGateway::start().await;
    gateway.say("trip", "one").await;
    gateway.upstream.push(Reply::chunks(["so ", "it is"]));
    let mut stream = gateway.client().post_stream(&format!("{CHAT}/stream"), &json!({"input": "two"})).await;
    let events = stream.rest().await;
    let named: Vec<_> = events.iter().filter_map(|event| event.name.as_deref()).collect();
    let expected = [
        "run.started",
        "message.started",
        "assistant.delta",
        "assistant.delta",
        "assistant.completed",
        "run.completed",
        "done",
    ];
    assert_eq!(named, expected);
    for (number, event) in events.iter().filter(|event| event.name.is_some()).enumerate() {
        let data = event.json();
        assert_eq!((data["seq"].as_u64(), &data["session_id"]), (Some(number as u64), &json!("trip")));
        assert!(data["run_id"].as_str().unwrap().starts_with("run_") && data["ts"].is_f64());
    }
    assert_eq!(events[5].json()["messages"][0]["content"], "so it is");
    gateway.upstream.push(Reply::error_after(1, "no more"));
    let events = gateway.client().post_stream(&format!("{CHAT}/stream"), &json!({"input": "three"})).await.rest().await;
    let named: Vec<_> = events.iter().filter_map(|event| event.name.as_deref()).collect();
    assert_eq!(named[named.len() - 2..], ["error", "done"]);
}

#[tokio::test]
async fn what_is_malformed_is_refused_by_name() {
    let gateway = TestGateway::start().await;
    gateway.say("trip", "one").await;
    for (body, param) in [
        (json!({}), "input"),
        (json!({"message": 7}), "input"),
        (json!({"message": "x", "input": "y"}), "message"),
        (json!({"message": "x", "system_message": 7}), "instructions"),
    ] {
        assert_eq!(error(&gateway.client().post_json(CHAT, &body).await, 400)["param"], param, "{body}");
    }
    assert_eq!(gateway.rows("trip").await.len(), 2);
}
