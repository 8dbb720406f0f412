//! Whole answers of different servers, and bodies that are not answers.

use herma_model::Usage;
use serde_json::json;

use super::*;

fn decode(body: &Value) -> Result<Answer, DecodeError> {
    decode_answer(body.to_string().as_bytes())
}

#[test]
fn everything_a_server_says_is_kept_where_it_belongs() {
    let answer = decode(&json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-x",
        "choices": [
            {"index": 0, "logprobs": {"content": []}, "stop_reason": null, "finish_reason": "tool_calls", "message": {
                "role": "assistant", "content": "Hi", "refusal": null, "annotations": [], "function_call": null,
                "reasoning_content": "hm",
                "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            }},
            {"index": 1, "message": {"content": "other"}, "finish_reason": "stop"},
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
        "system_fingerprint": "fp", "service_tier": null,
    }))
    .unwrap();
    assert_eq!(answer.content.as_deref(), Some("Hi"));
    assert_eq!(answer.refusal, None);
    assert_eq!((answer.tool_calls[0].id.as_str(), answer.tool_calls[0].name.as_str()), ("call_1", "f"));
    assert_eq!(Value::Object(answer.extra), json!({"reasoning_content": "hm"}));
    assert_eq!(Value::Object(answer.choice_extra), json!({"logprobs": {"content": []}}));
    assert_eq!(answer.finish.reason, FinishReason::ToolCalls);
    assert_eq!(answer.finish.usage, Some(Usage { input: 3, output: 4, cached: 0, reasoning: 0, ..Usage::default() }));
    assert_eq!(answer.finish.model.as_deref(), Some("gpt-x"));
    assert_eq!(Value::Object(answer.finish.extra), json!({"system_fingerprint": "fp"}));
}

#[test]
fn content_may_be_a_list_of_parts() {
    let message =
        json!({"content": [{"type": "text", "text": "a"}, {"type": "thinking"}, {"type": "text", "text": "b"}]});
    let answer = decode(&json!({"choices": [{"message": message}]})).unwrap();
    assert_eq!(answer.content.as_deref(), Some("ab"));
}

#[test]
fn an_empty_answer_is_an_error_unless_its_finish_reason_explains_it() {
    let with =
        |message: Value, reason: &str| decode(&json!({"choices": [{"message": message, "finish_reason": reason}]}));
    assert_eq!(with(json!({"content": ""}), "stop"), Err(DecodeError::EmptyAnswer));
    assert_eq!(with(json!({"role": "assistant", "content": null, "tool_calls": []}), "stop").map(|_| ()), {
        Err(DecodeError::EmptyAnswer)
    });
    assert!(with(json!({"content": ""}), "length").is_ok());
    assert!(with(json!({"content": null}), "content_filter").is_ok());
    assert!(with(json!({"refusal": "no"}), "stop").is_ok());
    assert!(with(json!({"content": null, "reasoning": "hm"}), "stop").is_ok());
}

#[test]
fn the_error_describes_a_body_that_is_no_completion() {
    for (body, expected) in [
        ("", "an empty body"),
        ("  <html>busy</html>", "a web page"),
        ("data: {}", "text that is not JSON"),
        ("{\"choices\":[", "text that is not JSON"),
        ("[]", "JSON that is not an object"),
        ("{}", "a completion without choices"),
        ("{\"choices\":[]}", "a completion without choices"),
        ("{\"choices\":[{}]}", "a choice without a message"),
        ("{\"choices\":[{\"message\":{\"content\":7}}]}", "a message whose content is no text"),
        ("{\"choices\":[{\"message\":{\"tool_calls\":[1]}}]}", "a tool call that is no object"),
    ] {
        match decode_answer(body.as_bytes()) {
            Err(DecodeError::Nonsense(what)) => assert!(what.starts_with(expected), "{body}: {what}"),
            other => panic!("{body}: {other:?}"),
        }
    }
}

#[test]
fn an_error_in_the_body_is_an_error_whatever_the_status() {
    for (body, message, status) in [
        (json!({"error": {"message": "m", "code": 429}, "choices": []}), "m", Some(429)),
        (json!({"error": {"message": "m", "code": "x"}}), "m", None),
        (json!({"error": "m"}), "m", None),
        (json!({"object": "error", "message": "m", "code": 400}), "m", Some(400)),
        (json!({"choices": [{"error": {"message": "m", "code": 502}, "message": {}}]}), "m", Some(502)),
    ] {
        match decode(&body) {
            Err(DecodeError::Reported(error)) => assert_eq!((error.message.as_str(), error.status), (message, status)),
            other => panic!("{body}: {other:?}"),
        }
    }
    assert!(decode(&json!({"error": null, "choices": [{"message": {"content": "a"}}]})).is_ok());
}
