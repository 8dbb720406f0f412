//! The rules of the Open Responses specification, checked on the gateway's streams for turns of every shape.

use herma_testkit::{Completion, Event, Reply, ToolCall, check_response_stream};
use serde_json::{Value, json};

use crate::support::{TestGateway, data, error, with};

const RESPONSES: &str = "/v1/responses";

fn asked(text: &str) -> Value {
    json!({"model": "scripted", "input": text, "stream": true})
}

/// A stream of chat chunks with these deltas.
fn deltas(deltas: &[Value], finish: &str) -> Reply {
    let chunk = |delta: &Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        format!("data: {}\n\n", json!({"id": "c", "created": 1, "model": "m", "choices": [choice]}))
    };
    let mut bytes: String = deltas.iter().map(|delta| chunk(delta, Value::Null)).collect();
    bytes.push_str(&chunk(&json!({}), json!(finish)));
    bytes.push_str("data: [DONE]\n\n");
    Reply::garbage(bytes)
}

fn called(name: &str) -> Reply {
    Reply::tool_calls([ToolCall::new("call_1", name, r#"{"city":"Oslo"}"#)])
}

fn tools(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"type": "function", "name": name, "parameters": {"type": "object"}})).collect()
}

/// The events of a stream. Checks their framing and the rules of the specification.
fn checked(events: &[Event]) -> Vec<Value> {
    let (done, events) = events.split_last().expect("an end");
    assert_eq!((done.data.as_str(), &done.name), ("[DONE]", &None), "the last frame says that nothing follows");
    let events: Vec<&Event> = events.iter().filter(|event| event.comment.is_empty()).collect();
    for event in &events {
        assert_eq!(event.id, None, "the number of an event is in its data");
        assert_eq!(event.name.as_deref(), event.json()["type"].as_str(), "an event is named after its type");
    }
    let events: Vec<Value> = events.into_iter().map(Event::json).collect();
    check_response_stream(&events);
    events
}

async fn stream(gateway: &TestGateway, body: &Value) -> Vec<Value> {
    let mut stream = gateway.client().post_stream(RESPONSES, body).await;
    assert_eq!(stream.headers["content-type"], "text/event-stream");
    checked(&stream.rest().await)
}

/// The status of a response, and the types and statuses of its items.
fn end(events: &[Value]) -> String {
    let response = &events.last().expect("an event")["response"];
    let items = response["output"].as_array().expect("a list").iter();
    let items = items.map(|item| format!(" {}:{}", item["type"].as_str().unwrap(), item["status"].as_str().unwrap()));
    format!("{}{}", response["status"].as_str().expect("a status"), items.collect::<String>())
}

#[tokio::test]
async fn a_stream_of_every_shape_keeps_the_rules_and_can_be_read_again() {
    let gateway = TestGateway::start().await;
    let thought = json!({"reasoning_content": "Hm."});
    let cases = [
        (Reply::text("one two"), "completed message:completed"),
        (called("weather"), "completed function_call:completed"),
        (
            deltas(&[thought.clone(), json!({"content": "Hi"})], "stop"),
            "completed reasoning:completed message:completed",
        ),
        (deltas(&[json!({"refusal": "I can"}), json!({"refusal": "not."})], "stop"), "completed message:completed"),
        (Completion::text("half").finish_reason("length").into(), "incomplete message:incomplete"),
        (deltas(&[thought], "length"), "incomplete reasoning:incomplete"),
        (Reply::cut_off_after(2), "failed message:incomplete"),
        (Reply::error_after(1, "broken"), "failed message:incomplete"),
    ];
    for (number, (reply, expected)) in cases.into_iter().enumerate() {
        gateway.upstream.push(reply);
        let events = stream(&gateway, &with(asked("weather?"), "tools", tools(&["weather"]))).await;
        assert_eq!(end(&events), expected, "{number}");
        let path = format!("{RESPONSES}/{}", events[0]["response"]["id"].as_str().unwrap());
        let again = gateway.client().get_stream(&format!("{path}?stream=true")).await.rest().await;
        assert_eq!(checked(&again), events, "{number}");
        let stored = gateway.client().get(&path).await.expect(200);
        assert_eq!(stored["output"], events.last().unwrap()["response"]["output"], "{number}");
    }
}

#[tokio::test]
async fn a_compaction_and_a_response_in_the_background_keep_the_rules() {
    let gateway = TestGateway::start().await;
    let in_trip = |text: &str| with(asked(text), "conversation", json!("trip"));
    for text in ["one", "two", "three", "four"] {
        stream(&gateway, &in_trip(&format!("{text} {}", "word ".repeat(300)))).await;
    }
    gateway.upstream.push(Reply::text("Numbers were said."));
    let threshold = json!([{"type": "compaction", "compact_threshold": 1000}]);
    let events = stream(&gateway, &with(in_trip("now"), "context_management", threshold)).await;
    assert_eq!(end(&events), "completed compaction:completed message:completed");

    let events = stream(&gateway, &with(asked("later"), "background", json!(true))).await;
    assert_eq!((&events[1]["type"], end(&events).as_str()), (&json!("response.queued"), "completed message:completed"));
}

#[tokio::test]
async fn a_cancelled_stream_keeps_the_rules() {
    let gateway = TestGateway::start().await;
    gateway.upstream.push(Reply::hang_after(2));
    let mut stream = gateway.client().post_stream(RESPONSES, &with(asked("one"), "background", json!(true))).await;
    let mut events = Vec::new();
    while events.iter().filter(|event: &&Event| event.name.as_deref() == Some("response.output_text.delta")).count() < 2
    {
        events.push(stream.next().await.expect("an event"));
    }
    let id = events[0].json()["response"]["id"].as_str().expect("an id").to_owned();
    gateway.client().post_json(&format!("{RESPONSES}/{id}/cancel"), &json!({})).await.expect(200);
    events.extend(stream.rest().await);
    assert_eq!(end(&checked(&events)), "cancelled message:incomplete");
}

#[tokio::test]
async fn a_tool_that_is_not_allowed_is_never_called() {
    let gateway = TestGateway::start().await;
    let only_look = json!({"type": "allowed_tools", "tools": [{"type": "function", "name": "look"}]});
    let body = with(with(asked("go"), "tools", tools(&["look", "touch"])), "tool_choice", only_look);
    let echo = json!({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "look"}]});
    gateway.upstream.push(called("look"));
    let events = stream(&gateway, &body).await;
    assert_eq!(end(&events), "completed function_call:completed");
    assert_eq!(events[0]["response"]["tool_choice"], echo);
    let offered = &gateway.upstream.last_request().body["tools"];
    assert_eq!(offered.as_array().map(Vec::len), Some(2), "the model is shown all of them");

    for store in [true, false] {
        let body = with(body.clone(), "store", json!(store));
        gateway
            .upstream
            .push(Completion { calls: vec![ToolCall::new("call_1", "touch", "{}")], ..Completion::text("So") }.into());
        let events = stream(&gateway, &body).await;
        assert_eq!(end(&events), "failed message:incomplete");
        assert!(events.iter().all(|event| event["item"]["type"] != "function_call"), "{events:#?}");
        assert_eq!(events.last().unwrap()["response"]["error"]["code"], "upstream_error");
        gateway.upstream.push(called("touch"));
        let whole = gateway.client().post_json(RESPONSES, &with(body, "stream", json!(false))).await;
        let refused = error(&whole, 502);
        assert!(refused["message"].as_str().unwrap().contains("'touch'"), "{refused}");
    }
}

#[tokio::test]
async fn what_a_client_calls_its_messages_is_kept_and_shown_to_no_model() {
    let gateway = TestGateway::start().await;
    let said =
        |phase: &str, text: &str| json!({"type": "message", "role": "assistant", "phase": phase, "content": text});
    let input = json!([
        {"type": "message", "role": "user", "content": "How many?"},
        said("commentary", "Let me count."),
        said("final_answer", "Four."),
        {"type": "message", "role": "user", "content": "Sure?"},
    ]);
    let body = json!({"model": "scripted", "input": input, "conversation": "count"});
    gateway.client().post_json(RESPONSES, &body).await.expect(200);
    let shown = gateway.upstream.last_request().messages().to_vec();
    assert!(shown.iter().all(|message| message.get("phase").is_none()), "{shown:?}");
    let items = data(&gateway.client().get("/v1/conversations/count/items?order=asc").await);
    let phases: Vec<&Value> = items.iter().map(|item| &item["phase"]).collect();
    let (none, commentary, answer) = (&Value::Null, &json!("commentary"), &json!("final_answer"));
    assert_eq!(phases, [none, commentary, answer, none, none]);
    let unknown = with(asked(""), "input", json!([said("aside", "x"), {"role": "user", "content": "y"}]));
    let refused = error(&gateway.client().post_json(RESPONSES, &unknown).await, 400);
    assert_eq!(refused["param"], "input[0].phase");
}
