//! Answers as streams.

use bytes::Bytes;
use herma_model::generation::{Delta, ToolCallDelta};
use herma_model::{TextRun, Usage};
use herma_wire::chat::{delta_chunk, finish_chunk, role_chunk, usage_chunk, whole_answer_deltas, write_text_chunks};
use herma_wire::error::ErrorBody;
use herma_wire::sse;
use serde_json::{Map, json};

use crate::{HEAD, map, rich_answer, session, text_answer};

fn frames(frames: impl IntoIterator<Item = Bytes>) -> String {
    frames.into_iter().map(|frame| String::from_utf8(frame.to_vec()).unwrap()).collect()
}

#[test]
fn a_text_stream_is_role_deltas_finish_and_usage() {
    let delta = Delta { content: Some("Grüß \"dich\"\n".into()), ..Delta::default() };
    let usage = Usage { input: 3, output: 2, cached: 1, reasoning: 0, ..Usage::default() };
    insta::assert_snapshot!(frames([
        role_chunk(&HEAD),
        delta_chunk(&HEAD, &delta),
        finish_chunk(&HEAD, &text_answer("").finish, Some(&session())),
        usage_chunk(&HEAD, Some(&usage)),
        Bytes::from_static(sse::DONE),
    ]), @r#"
    data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1772582400,"model":"gpt-5","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

    data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1772582400,"model":"gpt-5","choices":[{"index":0,"delta":{"content":"Grüß \"dich\"\n"},"finish_reason":null}]}

    data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1772582400,"model":"gpt-5","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"session":{"conversation_id":"conv_00000000000000000000000000000001","session_id":"s2","requested_id":"s1","resolution":"moved","rotated":false,"provenance":{"session_id":"s2","conversation_id":"conv_00000000000000000000000000000001","root_session_id":"s2","kind":"main","origin_kind":"main","creator_kind":"api","compression_depth":0,"compaction_count":0,"is_user_facing":true}}}

    data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1772582400,"model":"gpt-5","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,"prompt_tokens_details":{"cached_tokens":1},"completion_tokens_details":{"reasoning_tokens":0}}}

    data: [DONE]
    "#);
}

#[test]
fn texts_that_are_written_together_are_the_chunks_of_each() {
    let pieces = ["Grüß ", "\"dich\"\n", "\u{1}"];
    let chunks = pieces.map(|piece| delta_chunk(&HEAD, &Delta { content: Some(piece.into()), ..Delta::default() }));
    let mut together = b"before".to_vec();
    write_text_chunks(&HEAD, &TextRun::from_iter(pieces), &mut together);
    assert_eq!(String::from_utf8(together).unwrap(), "before".to_owned() + &frames(chunks));
}

#[test]
fn usage_that_was_not_counted_is_null() {
    insta::assert_snapshot!(frames([usage_chunk(&HEAD, None)]), @r#"data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1772582400,"model":"gpt-5","choices":[],"usage":null}"#);
}

#[test]
fn a_tool_call_begins_with_its_id_and_goes_on_with_arguments_alone() {
    let first = ToolCallDelta { index: 1, id: Some("c".into()), name: Some("f".into()), ..ToolCallDelta::default() };
    let next = ToolCallDelta {
        index: 1,
        arguments: Some("{\"a\":".into()),
        extra: map(json!({"extra_content": 1, "type": "x"})),
        ..ToolCallDelta::default()
    };
    insta::assert_snapshot!(frames([first, next].map(|call| {
        delta_chunk(&HEAD, &Delta { tool_calls: vec![call], ..Delta::default() })
    })), @r#"
    data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1772582400,"model":"gpt-5","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"c","type":"function","function":{"name":"f","arguments":""}}]},"finish_reason":null}]}

    data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1772582400,"model":"gpt-5","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"{\"a\":"},"extra_content":1}]},"finish_reason":null}]}
    "#);
}

#[test]
fn extras_of_a_delta_are_passed_on_and_overwrite_nothing() {
    let delta = Delta {
        extra: map(json!({"reasoning_content": "Hm.", "role": "system"})),
        choice_extra: map(json!({"logprobs": {"content": []}, "delta": 1, "finish_reason": "stop"})),
        ..Delta::default()
    };
    insta::assert_snapshot!(frames([delta_chunk(&HEAD, &delta)]), @r#"data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1772582400,"model":"gpt-5","choices":[{"index":0,"delta":{"reasoning_content":"Hm."},"logprobs":{"content":[]},"finish_reason":null}]}"#);
}

#[test]
fn a_stored_answer_streams_again_piece_by_piece() {
    let answer = rich_answer();
    let deltas = whole_answer_deltas(&answer);
    insta::assert_snapshot!(
        frames(deltas.iter().map(|delta| delta_chunk(&HEAD, delta)).chain([finish_chunk(&HEAD, &answer.finish, None)])),
        @r#"
    data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1772582400,"model":"gpt-5","choices":[{"index":0,"delta":{"reasoning_content":"Hm.","annotations":[]},"finish_reason":null}]}

    data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1772582400,"model":"gpt-5","choices":[{"index":0,"delta":{},"logprobs":{"content":null,"refusal":null},"stop_reason":7,"finish_reason":null}]}

    data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1772582400,"model":"gpt-5","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Köln\"}"},"extra_content":{"signature":"s"}}]},"finish_reason":null}]}

    data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1772582400,"model":"gpt-5","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}],"system_fingerprint":"fp_1","service_tier":"default"}
    "#);
}

#[test]
fn an_empty_answer_streams_nothing_between_role_and_finish() {
    assert_eq!(whole_answer_deltas(&text_answer("")), []);
    let mut answer = text_answer("hi");
    answer.extra = Map::new();
    assert_eq!(whole_answer_deltas(&answer), [Delta { content: Some("hi".into()), ..Delta::default() }]);
}

#[test]
fn a_stream_fails_with_an_error_frame() {
    let error = ErrorBody {
        message: "the model server answered 500".into(),
        kind: "server_error".into(),
        param: None,
        code: "upstream_error".into(),
    };
    insta::assert_snapshot!(frames([sse::error_frame(&error)]), @r#"data: {"error":{"message":"the model server answered 500","type":"server_error","param":null,"code":"upstream_error"}}"#);
}

#[test]
fn comments_are_whole_frames() {
    assert_eq!(sse::KEEP_ALIVE, b": keep-alive\n\n");
}
