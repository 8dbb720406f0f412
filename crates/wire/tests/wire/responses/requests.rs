//! Requests, and the chat messages that they become.

use std::fmt::Write;

use herma_model::Utterance;
use herma_wire::chat;
use herma_wire::responses::{ResponsesRequest, Truncation, parse};
use serde_json::{Value, json};

fn read(body: &Value) -> ResponsesRequest {
    parse(body.to_string().as_bytes()).unwrap()
}

fn shown(request: &ResponsesRequest) -> String {
    let mut text = String::new();
    for payload in request.instructions.iter().chain(&request.system) {
        writeln!(text, "system {}", payload.as_json()).unwrap();
    }
    for (said, index) in request.messages.iter().zip(&request.indices) {
        writeln!(text, "[{index}] {}", said.payload.as_json()).unwrap();
        if let Some(extra) = &said.extra {
            writeln!(text, "    extra {extra}").unwrap();
        }
    }
    for (name, json) in &request.params.0 {
        writeln!(text, "{name} = {json}").unwrap();
    }
    text
}

#[test]
fn items_become_the_messages_of_a_chat() {
    let request = read(&json!({
        "instructions": "Be terse.",
        "input": [
            {"role": "developer", "content": "Be kind."},
            {"role": "user", "content": [
                {"type": "input_text", "text": "What is this?"},
                {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "low", "file_id": null},
                {"type": "input_file", "filename": "a.pdf", "file_data": "data:x"},
                {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}},
            ]},
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "A cat?"}], "encrypted_content": "x"},
            {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
             "content": [{"type": "output_text", "text": "Let me see.", "annotations": [], "logprobs": []}]},
            {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": "{}", "status": "completed"},
            {"type": "function_call", "call_id": "c2", "name": "smell", "arguments": "{\"n\":1}"},
            {"type": "compaction", "id": "cmp_1", "encrypted_content": "x"},
            {"type": "function_call_output", "call_id": "c1", "output": "a cat"},
            {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
            {"role": "user", "content": [{"type": "input_text", "text": "Go on."}]},
        ],
    }));
    insta::assert_snapshot!(shown(&request), @r#"
    system {"role":"system","content":"Be terse."}
    system {"role":"developer","content":"Be kind."}
    [1] {"role":"user","content":[{"type":"text","text":"What is this?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA","detail":"low"}},{"type":"file","file":{"filename":"a.pdf","file_data":"data:x"}},{"type":"input_audio","input_audio":{"data":"UklG","format":"wav"}}]}
    [3] {"role":"assistant","content":"Let me see.","tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{}"}},{"id":"c2","type":"function","function":{"name":"smell","arguments":"{\"n\":1}"}}]}
        extra {"message":{"reasoning_content":"A cat?"}}
    [7] {"role":"tool","content":"a cat","tool_call_id":"c1"}
    [8] {"role":"tool","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"tool_call_id":"c2"}
    [9] {"role":"assistant","content":null,"refusal":"No."}
    [10] {"role":"user","content":"Go on."}
    "#);
}

#[test]
fn a_message_is_the_same_in_both_apis() {
    let ours = read(&json!({"input": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Hello"}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{\"a\": 1}"},
        {"type": "function_call_output", "call_id": "c", "output": "r"},
        {"role": "assistant", "content": "Done"},
        {"role": "user", "content": [{"type": "input_text", "text": "x"}, {"type": "input_image", "image_url": "https://a"}]},
    ]}));
    let theirs = json!({"messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "Hello", "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "r"},
        {"role": "assistant", "content": "Done"},
        {"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": "https://a"}}]},
    ]});
    assert_eq!(ours.messages, chat::parse(theirs.to_string().as_bytes()).unwrap().messages);
    let said = |request: ResponsesRequest| -> Vec<Utterance> { request.messages };
    assert_eq!(said(read(&json!({"input": "hi"}))), [chat::simple_user("hi")]);
}

#[test]
fn settings_go_to_the_model_server_by_the_names_of_chat() {
    let request = read(&json!({
        "input": "hi", "temperature": 0.5, "top_p": 1, "max_output_tokens": 100, "max_tool_calls": 3,
        "tools": [
            {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": true},
            {"type": "function", "name": "g", "description": null, "parameters": null, "strict": null},
        ],
        "tool_choice": {"type": "function", "name": "f"}, "parallel_tool_calls": false,
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": true}, "verbosity": "low"},
        "reasoning": {"effort": "low", "summary": "auto"}, "top_logprobs": 2, "include": ["message.output_text.logprobs"],
        "user": "u", "prompt_cache_key": "p", "safety_identifier": "s", "service_tier": "flex",
        "metadata": {"a": "b"}, "store": true, "truncation": "auto", "background": false, "client_metadata": {"x": 1},
        "context_management": [{"type": "compaction", "compact_threshold": 5000}], "stream_options": {"include_obfuscation": false},
    }));
    insta::assert_snapshot!(shown(&request), @r#"
    [0] {"role":"user","content":"hi"}
    temperature = 0.5
    top_p = 1
    max_completion_tokens = 100
    user = "u"
    prompt_cache_key = "p"
    safety_identifier = "s"
    service_tier = "flex"
    response_format = {"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"},"strict":true}}
    verbosity = "low"
    reasoning_effort = "low"
    tools = [{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"},"strict":true}},{"type":"function","function":{"name":"g"}}]
    tool_choice = {"type":"function","function":{"name":"f"}}
    parallel_tool_calls = false
    logprobs = true
    top_logprobs = 2
    "#);
    assert_eq!((request.compact_threshold, request.truncation), (Some(5000), Truncation::Auto));
    assert_eq!(request.user.as_deref(), Some("u"));
}

#[test]
fn fields_about_tools_need_tools() {
    let request = read(
        &json!({"input": "hi", "tools": [], "tool_choice": "auto", "parallel_tool_calls": true, "top_logprobs": 0}),
    );
    assert_eq!(request.params.0, []);
    let allowed = json!({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]});
    let request = read(&json!({"input": "hi", "tools": [{"type": "function", "name": "f"}], "tool_choice": allowed}));
    assert_eq!(
        request.params.get("tool_choice"),
        Some(
            r#"{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}}"#
        )
    );
    let modeless = json!({"type": "allowed_tools", "tools": [{"type": "function", "name": "f"}]});
    let same = read(&json!({"input": "hi", "tools": [{"type": "function", "name": "f"}], "tool_choice": modeless}));
    assert_eq!((same.params, same.echo), (request.params, request.echo), "any of them may be called, or none");
}

#[test]
fn fields_that_are_null_are_absent() {
    let nulls = json!({
        "input": "hi", "conversation": null, "previous_response_id": null, "instructions": null, "model": null, "store": null,
        "stream": null, "background": null, "tools": null, "tool_choice": null, "text": null, "reasoning": null, "prompt": null,
        "metadata": null, "include": null, "truncation": null, "context_management": null, "user": null, "temperature": null,
    });
    let request = read(&nulls);
    assert_eq!(request, read(&json!({"input": "hi"})));
    assert!(request.store && !request.stream && !request.background);
}

#[test]
fn a_conversation_is_named_in_two_ways() {
    for conversation in [json!("daily"), json!({"id": "daily", "object": "conversation"})] {
        assert_eq!(read(&json!({"input": "hi", "conversation": conversation})).conversation.as_deref(), Some("daily"));
    }
}
