//! Wrong types and values in the body, at every depth.

use serde_json::{Value, json};

use super::nothing_is_left;
use crate::support::{CHAT, TestGateway, chat, error, streamed, user, with};

/// Values of every JSON type, and a few that are almost valid.
fn one_of_each() -> Vec<Value> {
    vec![
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(1e300),
        json!(""),
        json!("x"),
        json!([]),
        json!([null]),
        json!(["x"]),
        json!([[]]),
        json!([{}]),
        json!({}),
        json!({"x": 1}),
        json!({"type": 1}),
    ]
}

/// Sends a body. It must be accepted or refused with a proper error. Returns the `param` of the error.
async fn refused_param(gateway: &TestGateway, body: &Value) -> Option<String> {
    let answer = gateway.in_session("s").post_json(CHAT, body).await;
    assert!(answer.status == 200 || (400..500).contains(&answer.status), "{body}: {}", answer.text());
    if answer.status == 200 {
        return None;
    }
    let error = error(&answer, 400);
    assert_eq!(
        (error["code"].as_str(), error["type"].as_str()),
        (Some("invalid_request"), Some("invalid_request_error"))
    );
    let param = error["param"].as_str().unwrap_or_else(|| panic!("{body}: {error}")).to_owned();
    assert!(error["message"].as_str().is_some_and(|message| message.contains(&param)), "{error}");
    Some(param)
}

#[tokio::test]
async fn every_known_field_refuses_what_it_cannot_be_and_says_which_it_is() {
    let gateway = TestGateway::start().await;
    // The numbers are positions in `one_of_each` of the values that a field accepts.
    for (name, taken) in [
        ("messages", &[][..]),
        ("model", &[0, 6, 7]),
        ("stream", &[0, 1]),
        ("stream_options", &[0, 13, 14, 15]),
        ("n", &[0]),
        ("temperature", &[0, 2, 3, 4, 5]),
        ("top_p", &[0, 2, 3, 4, 5]),
        ("presence_penalty", &[0, 2, 3, 4, 5]),
        ("frequency_penalty", &[0, 2, 3, 4, 5]),
        ("max_tokens", &[0]),
        ("max_completion_tokens", &[0]),
        ("seed", &[0, 2, 3]),
        ("stop", &[0, 6, 7, 8, 10]),
        ("user", &[0, 6, 7]),
        ("tools", &[0, 8, 12]),
        ("tool_choice", &[0, 6, 7, 13, 14, 15]),
        ("response_format", &[0, 13, 14, 15]),
        ("logprobs", &[0, 1]),
        ("parallel_tool_calls", &[0, 1]),
        ("store", &[0, 1]),
        ("metadata", &[0, 13, 14, 15]),
        ("functions", &[0]),
        ("function_call", &[0]),
    ] {
        for (place, value) in one_of_each().into_iter().enumerate() {
            let body = with(chat(&[user("hello")]), name, value.clone());
            match refused_param(&gateway, &body).await {
                None => assert!(taken.contains(&place), "{name}: {value} was taken"),
                Some(param) => {
                    assert!(!taken.contains(&place), "{name}: {value} was refused");
                    assert!(
                        param == name || param.starts_with(&format!("{name}[")),
                        "{name}: {value} refused as {param}"
                    );
                }
            }
        }
    }
}

#[tokio::test]
async fn a_wrong_value_inside_a_message_is_named_by_its_path() {
    let gateway = TestGateway::start().await;
    let call = |call: Value| json!({"role": "assistant", "tool_calls": [call]});
    let function = |function: Value| call(json!({"id": "a", "type": "function", "function": function}));
    let part = |part: Value| json!({"role": "user", "content": [{"type": "text", "text": "x"}, part]});
    for (message, path) in [
        (json!("hello"), ""),
        (json!(null), ""),
        (json!(7), ""),
        (json!([]), ""),
        (json!({}), ".role"),
        (json!({"content": "x"}), ".role"),
        (json!({"role": null, "content": "x"}), ".role"),
        (json!({"role": 1, "content": "x"}), ".role"),
        (json!({"role": "", "content": "x"}), ".role"),
        (json!({"role": "human", "content": "x"}), ".role"),
        (json!({"role": "User", "content": "x"}), ".role"),
        (json!({"role": "function", "name": "f", "content": "x"}), ".role"),
        (json!({"role": "user"}), ".content"),
        (json!({"role": "user", "content": null}), ".content"),
        (json!({"role": "user", "content": 1}), ".content"),
        (json!({"role": "user", "content": true}), ".content"),
        (json!({"role": "user", "content": {"type": "text"}}), ".content"),
        (json!({"role": "user", "content": ["x"]}), ".content[0]"),
        (json!({"role": "user", "content": [null]}), ".content[0]"),
        (json!({"role": "user", "content": "x", "name": 1}), ".name"),
        (json!({"role": "system"}), ".content"),
        (json!({"role": "developer", "content": 1}), ".content"),
        (part(json!({})), ".content[1].type"),
        (part(json!({"type": 1})), ".content[1].type"),
        (part(json!({"type": "text"})), ".content[1].text"),
        (part(json!({"type": "text", "text": 1})), ".content[1].text"),
        (part(json!({"type": "image_url"})), ".content[1].image_url"),
        (part(json!({"type": "image_url", "image_url": "http://x"})), ".content[1].image_url"),
        (part(json!({"type": "image_url", "image_url": {}})), ".content[1].image_url.url"),
        (part(json!({"type": "image_url", "image_url": {"url": 1}})), ".content[1].image_url.url"),
        (json!({"role": "tool", "content": "x"}), ".tool_call_id"),
        (json!({"role": "tool", "content": "x", "tool_call_id": 1}), ".tool_call_id"),
        (json!({"role": "tool", "content": "x", "tool_call_id": ""}), ".tool_call_id"),
        (json!({"role": "tool", "tool_call_id": "a"}), ".content"),
        (json!({"role": "assistant", "content": 1}), ".content"),
        (json!({"role": "assistant", "refusal": 1}), ".refusal"),
        (json!({"role": "assistant", "function_call": {"name": "f"}}), ".function_call"),
        (json!({"role": "assistant", "tool_calls": {}}), ".tool_calls"),
        (json!({"role": "assistant", "tool_calls": "x"}), ".tool_calls"),
        (call(json!(null)), ".tool_calls[0]"),
        (call(json!({})), ".tool_calls[0].id"),
        (call(json!({"id": 1})), ".tool_calls[0].id"),
        (call(json!({"id": ""})), ".tool_calls[0].id"),
        (call(json!({"id": "a", "type": 1})), ".tool_calls[0].type"),
        (call(json!({"id": "a"})), ".tool_calls[0].function"),
        (function(json!("f")), ".tool_calls[0].function"),
        (function(json!({})), ".tool_calls[0].function.name"),
        (function(json!({"name": 1})), ".tool_calls[0].function.name"),
        (function(json!({"name": "f"})), ".tool_calls[0].function.arguments"),
        (function(json!({"name": "f", "arguments": {}})), ".tool_calls[0].function.arguments"),
    ] {
        for body in [chat(&[user("x"), message.clone()]), streamed(chat(&[user("x"), message.clone()]))] {
            assert_eq!(refused_param(&gateway, &body).await, Some(format!("messages[1]{path}")), "{message}");
        }
    }
    for (field, value, path) in [
        ("stop", json!(["a", 1]), "stop[1]"),
        ("tools", json!([{}, "x"]), "tools[1]"),
        ("stream_options", json!({"include_usage": "yes"}), "stream_options.include_usage"),
    ] {
        assert_eq!(refused_param(&gateway, &with(chat(&[user("x")]), field, value)).await.as_deref(), Some(path));
    }
    nothing_is_left(gateway).await;
}

#[tokio::test]
async fn surprising_values_of_unknown_fields_are_passed_on_or_refused_but_never_break_anything() {
    let gateway = TestGateway::start().await;
    for value in one_of_each() {
        refused_param(&gateway, &with(chat(&[user("x")]), "x_unknown", value.clone())).await;
        refused_param(&gateway, &chat(&[json!({"role": "user", "content": "x", "x_unknown": value})])).await;
        refused_param(&gateway, &chat(&[json!({"role": "user", "content": [{"type": "x_unknown", "x": value}]})]))
            .await;
    }
}
