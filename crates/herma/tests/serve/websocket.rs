//! `/v1/responses` as a WebSocket: the same turns and events as with `POST`, one turn after the other.

use herma_testkit::{Client, Reply, Said, Socket, ToolCall, check_response_stream};
use serde_json::{Value, json};

use crate::support::{SESSION_ID, TestGateway, error, with};

const RESPONSES: &str = "/v1/responses";

fn create(text: &str) -> Value {
    json!({"type": "response.create", "model": "scripted", "input": text})
}

fn after(previous: &Value, text: &str) -> Value {
    with(create(text), "previous_response_id", previous["id"].clone())
}

async fn connect(client: Client) -> Socket {
    client.websocket(RESPONSES).await.expect("an upgrade")
}

async fn ask(socket: &mut Socket, message: &Value) -> Vec<Value> {
    socket.send(message).await;
    let events = socket.turn().await;
    if events.iter().all(|event| event["type"] != "error") {
        check_response_stream(&events);
    }
    events
}

/// The response of a turn that must be completed.
async fn response(socket: &mut Socket, message: &Value) -> Value {
    let events = ask(socket, message).await;
    let last = events.last().expect("an event");
    assert_eq!(last["type"], "response.completed", "{last}");
    last["response"].clone()
}

/// The status and code of the error in place of a turn. Checks its form.
async fn refusal(socket: &mut Socket, message: &Value) -> (u64, Value) {
    let events = ask(socket, message).await;
    assert_eq!(events.len(), 1, "{events:?}");
    error_of(&events[0])
}

fn error_of(event: &Value) -> (u64, Value) {
    let names: Vec<&str> = event.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!((names, &event["type"]), (vec!["type", "status", "error"], &json!("error")));
    let error = &event["error"];
    assert!(error["message"].is_string() && error["type"].is_string() && error.get("param").is_some(), "{error}");
    (event["status"].as_u64().expect("a status"), error["code"].clone())
}

fn text(response: &Value) -> &str {
    response["output"][0]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {response}"))
}

/// An event without the values that differ between turns, such as ids and times.
fn shape(event: &Value) -> (Value, Value, Vec<String>) {
    let names = event.as_object().expect("an object").keys().cloned().collect();
    (event["type"].clone(), event["sequence_number"].clone(), names)
}

#[tokio::test]
async fn a_turn_has_the_events_of_a_stream_and_no_others() {
    let gateway = TestGateway::start().await;
    let mut socket = connect(gateway.client()).await;
    let events = ask(&mut socket, &create("hello")).await;
    let body = json!({"model": "scripted", "input": "hello", "stream": true});
    let streamed = gateway.client().post_stream(RESPONSES, &body).await.chunks().await;
    assert_eq!(events.iter().map(shape).collect::<Vec<_>>(), streamed.iter().map(shape).collect::<Vec<_>>());
    let last = &events.last().unwrap()["response"];
    assert_eq!((text(last), &last["status"]), ("reply to: hello", &json!("completed")));
    let path = format!("{RESPONSES}/{}", last["id"].as_str().unwrap());
    assert_eq!(gateway.client().get(&path).await.expect(200)["output"], last["output"], "it is stored like any other");
}

#[tokio::test]
async fn turns_follow_each_other_and_chain_by_the_response_before() {
    let gateway = TestGateway::start().await;
    let mut socket = connect(gateway.client()).await;
    let one = response(&mut socket, &create("one")).await;
    let two = response(&mut socket, &after(&one, "two")).await;
    assert_eq!((&two["previous_response_id"], &two["session"]["resolution"]), (&one["id"], &json!("head")));
    assert_eq!(gateway.context(), ["user: one", "assistant: reply to: one", "user: two"]);
    let other = response(&mut socket, &create("three")).await;
    assert_ne!(other["session"]["conversation_id"], one["session"]["conversation_id"]);
}

#[tokio::test]
async fn what_is_asked_while_a_turn_runs_waits_for_it() {
    let gateway = TestGateway::start().await;
    let mut socket = connect(gateway.client()).await;
    for text in ["one", "two", "three"] {
        socket.send(&with(create(text), "conversation", json!("trip"))).await;
    }
    for text in ["one", "two", "three"] {
        let events = socket.turn().await;
        let kinds: Vec<_> = events.iter().filter(|event| event["type"] == "response.created").collect();
        assert_eq!((kinds.len(), kinds[0]), (1, &events[0]), "turns never mix");
        assert_eq!(self::text(&events.last().unwrap()["response"]), format!("reply to: {text}"));
    }
    assert_eq!(gateway.rows("trip").await.len(), 6);
}

#[tokio::test]
async fn a_tool_call_is_answered_by_the_next_message() {
    let gateway = TestGateway::start().await;
    let mut socket = connect(gateway.client()).await;
    let tools = json!([{"type": "function", "name": "weather", "parameters": {"type": "object"}}]);
    gateway.upstream.push(Reply::tool_calls([ToolCall::new("call_1", "weather", r#"{"city":"Oslo"}"#)]));
    let asked = response(&mut socket, &with(create("weather?"), "tools", tools)).await;
    assert_eq!(
        (&asked["output"][0]["type"], &asked["output"][0]["call_id"]),
        (&json!("function_call"), &json!("call_1"))
    );
    let output = json!([{"type": "function_call_output", "call_id": "call_1", "output": "rain"}]);
    let answered = response(&mut socket, &with(after(&asked, ""), "input", output)).await;
    assert_eq!(answered["status"], "completed");
    assert_eq!(gateway.context().last().map(String::as_str), Some("tool call_1: rain"));
}

#[tokio::test]
async fn an_error_ends_its_turn_and_not_the_connection() {
    let gateway = TestGateway::start().await;
    let mut socket = connect(gateway.client()).await;
    let unknown = with(create("x"), "previous_response_id", json!("resp_00000000000000000000000000000000"));
    let cases = [
        (unknown, 400, "previous_response_not_found"),
        (with(create("x"), "conversation", json!("conv_unknown")), 404, "not_found"),
        (json!({"type": "response.create", "model": "scripted"}), 400, "invalid_request"),
        (json!({"type": "session.update"}), 400, "invalid_request"),
        (with(create("x"), "background", json!(true)), 400, "invalid_request"),
        (with(create("x"), "generate", json!(false)), 400, "invalid_request"),
    ];
    for (message, status, code) in cases {
        assert_eq!(refusal(&mut socket, &message).await, (status, json!(code)), "{message}");
    }
    socket.send_text("not JSON").await;
    assert_eq!(error_of(&socket.json().await), (400, json!("invalid_request")));
    gateway.upstream.push(Reply::status(400, "no"));
    assert_eq!(refusal(&mut socket, &create("fails")).await, (502, json!("upstream_error")));
    assert_eq!(text(&response(&mut socket, &create("works")).await), "reply to: works");
    assert_eq!(gateway.upstream.requests().len(), 2, "what was refused reached no model");
}

#[tokio::test]
async fn session_headers_of_the_upgrade_hold_for_every_turn() {
    let gateway = TestGateway::start().await;
    let mut socket = connect(gateway.in_session("desk").header("x-hermes-session-key", "me")).await;
    response(&mut socket, &create("one")).await;
    let two = response(&mut socket, &with(create("two"), "store", json!(false))).await;
    assert_eq!((&two["session"]["session_id"], &two["store"]), (&json!("desk"), &json!(false)));
    assert_eq!(gateway.rows("desk").await.len(), 4);
    assert_eq!(gateway.sessions().await[0]["session_key"], "me");
    let (status, code) = refusal(&mut socket, &after(&two, "three")).await;
    assert_eq!((status, code), (400, json!("previous_response_not_found")), "it was not stored");
}

#[tokio::test]
async fn an_unstored_response_can_be_continued_on_its_own_connection() {
    let gateway = TestGateway::start().await;
    let unstored = |message: Value| with(message, "store", json!(false));
    let mut socket = connect(gateway.client()).await;
    let one = response(&mut socket, &unstored(create("one"))).await;
    response(&mut socket, &with(create("between"), "conversation", json!("other"))).await;
    let two = response(&mut socket, &unstored(after(&one, "two"))).await;
    assert_eq!(gateway.context(), ["user: one", "assistant: reply to: one", "user: two"]);
    assert_eq!((&two["previous_response_id"], two.get("session")), (&one["id"], None));
    let three = response(&mut socket, &unstored(after(&two, "three"))).await;
    assert_eq!(gateway.context().len(), 5);
    assert_eq!(gateway.sessions().await.len(), 1, "only what was said elsewhere is kept");

    let not_found = (400, json!("previous_response_not_found"));
    assert_eq!(refusal(&mut socket, &unstored(after(&one, "x"))).await, not_found, "one is remembered");
    let mut other = connect(gateway.client()).await;
    assert_eq!(refusal(&mut other, &unstored(after(&three, "x"))).await, not_found, "by its own connection");
    let stray = json!([{"type": "function_call_output", "call_id": "call_none", "output": "x"}]);
    let failed = refusal(&mut socket, &unstored(with(after(&three, ""), "input", stray))).await;
    assert_eq!(failed, (400, json!("invalid_request")));
    assert_eq!(refusal(&mut socket, &unstored(after(&three, "x"))).await, not_found, "what failed is forgotten");
    let four = response(&mut socket, &unstored(create("four"))).await;
    assert_eq!(refusal(&mut socket, &after(&four, "x")).await, not_found, "what is kept goes on from what is kept");
    let five = response(&mut socket, &unstored(create("five"))).await;
    let malformed = refusal(&mut socket, &unstored(with(after(&five, ""), "input", json!(5)))).await;
    assert_eq!(malformed, (400, json!("invalid_request")));
    assert_eq!(refusal(&mut socket, &unstored(after(&five, "x"))).await, not_found, "it failed, if only in being read");
}

#[tokio::test]
async fn an_upgrade_is_looked_at_like_any_request() {
    let gateway = TestGateway::with_settings(&[("HERMA_SERVER__CORS_ORIGINS", "https://good.example")]).await;
    let stranger = Client::new(gateway.herma.base_url());
    let cases = [
        (stranger.clone(), 401, "invalid_api_key"),
        (stranger.key("wrong"), 401, "invalid_api_key"),
        (gateway.client().header("origin", "https://evil.example"), 403, "origin_not_allowed"),
        (gateway.client().header("origin", "null"), 403, "origin_not_allowed"),
        (gateway.in_session("a/b"), 400, "invalid_header"),
        (gateway.client().header("idempotency-key", "once"), 400, "invalid_header"),
    ];
    for (client, status, code) in cases {
        let refused = client.websocket(RESPONSES).await.expect_err("a refusal");
        assert_eq!((refused.status, &refused.body["error"]["code"]), (status, &json!(code)), "{refused:?}");
    }
    let mut socket = connect(gateway.client().header("origin", "https://good.example")).await;
    response(&mut socket, &create("hello")).await;
}

#[tokio::test]
async fn pages_may_not_connect_unless_they_are_configured() {
    let gateway = TestGateway::start().await;
    let refused =
        gateway.client().header("origin", gateway.herma.base_url()).websocket(RESPONSES).await.expect_err("no");
    assert_eq!((refused.status, &refused.body["error"]["param"]), (403, &json!("Origin")));
}

#[tokio::test]
async fn a_plain_get_is_told_to_upgrade() {
    let gateway = TestGateway::start().await;
    let answer = gateway.client().get(RESPONSES).await;
    assert_eq!(answer.header("upgrade"), Some("websocket"));
    assert_eq!(error(&answer, 426)["code"], "upgrade_required");
}

#[tokio::test]
async fn what_is_too_large_or_no_text_is_told_and_ends_the_connection() {
    let gateway = TestGateway::with_settings(&[("HERMA_SERVER__MAX_BODY_BYTES", "2000")]).await;
    let mut socket = connect(gateway.client()).await;
    socket.send(&create(&"x".repeat(2_000))).await;
    assert_eq!(error_of(&socket.json().await), (413, json!("body_too_large")));
    assert_eq!(socket.said().await, Said::Closed(1009, "the message is too large".to_owned()));

    let mut socket = connect(gateway.client()).await;
    socket.send(&create(&"x".repeat(4_000))).await;
    assert_eq!(socket.said().await, Said::Closed(1009, "the message is too large".to_owned()));

    let mut socket = connect(gateway.client()).await;
    socket.send_bytes(create("x").to_string().as_bytes()).await;
    assert_eq!(error_of(&socket.json().await), (400, json!("invalid_request")));
    assert_eq!(socket.said().await, Said::Closed(1003, "a message must be text".to_owned()));
    assert_eq!(gateway.sessions().await.len(), 0);
}

#[tokio::test]
async fn open_connections_are_counted_and_bounded() {
    let gateway = TestGateway::with_settings(&[("HERMA_SERVER__MAX_WEBSOCKETS", "1")]).await;
    let mut first = connect(gateway.client()).await;
    response(&mut first, &create("one")).await;
    let metrics = gateway.client().get("/metrics").await.text();
    assert!(metrics.contains("herma_websockets 1\n") && metrics.contains("herma_live_turns 0\n"), "{metrics}");
    assert!(metrics.contains("herma_turns_total{outcome=\"completed\"} 1\n"), "{metrics}");
    let mut second = connect(gateway.client()).await;
    assert_eq!(error_of(&second.json().await), (429, json!("websocket_connection_limit_reached")));
    assert_eq!(second.said().await, Said::Closed(1013, "too many WebSockets are open".to_owned()));
    first.close().await;
    let mut third = connect(gateway.client()).await;
    response(&mut third, &create("two")).await;
}

#[tokio::test]
async fn a_connection_that_was_open_long_enough_is_closed_between_turns() {
    let gateway = TestGateway::with_settings(&[("HERMA_SERVER__WEBSOCKET_LIFETIME", "300ms")]).await;
    let mut socket = connect(gateway.client()).await;
    assert_eq!(error_of(&socket.json().await), (400, json!("websocket_connection_limit_reached")));
    let Said::Closed(code, _) = socket.said().await else { panic!("a goodbye was to come") };
    assert_eq!(code, 1000);
}

#[tokio::test]
async fn capabilities_name_the_websocket_and_its_limits() {
    let gateway = TestGateway::start().await;
    let capabilities = gateway.client().get("/v1/capabilities").await.expect(200);
    assert_eq!(capabilities["features"]["responses_websocket"], true);
    let limits = &capabilities["limits"];
    assert_eq!((&limits["websockets"], &limits["websocket_seconds"]), (&json!(1024), &json!(3600)));
    assert_eq!(capabilities["endpoints"]["connect_responses"], json!({"method": "GET", "path": RESPONSES}));
    assert!(
        gateway.client().header(SESSION_ID, "").websocket(RESPONSES).await.is_ok(),
        "an empty header is an absent one"
    );
}
