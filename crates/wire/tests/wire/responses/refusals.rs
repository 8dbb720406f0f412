//! Requests that are refused, and what the refusal says.

use herma_wire::responses::parse;
use serde_json::{Value, json};

fn refusal(body: &str) -> String {
    let bad = parse(body.as_bytes()).unwrap_err();
    assert_eq!(bad.code, "invalid_request");
    format!("{} — {}", bad.param.as_deref().unwrap_or("-"), bad.message)
}

fn refusals<const N: usize>(bodies: [Value; N]) -> String {
    bodies.map(|body| refusal(&body.to_string())).join("\n")
}

fn item_refusals<const N: usize>(items: [Value; N]) -> String {
    refusals(items.map(|item| json!({"input": [{"role": "user", "content": "hi"}, item]})))
}

fn part_refusals<const N: usize>(parts: [Value; N]) -> String {
    item_refusals(parts.map(|part| json!({"role": "user", "content": [{"type": "input_text", "text": ""}, part]})))
}

fn field_refusals<const N: usize>(fields: [Value; N]) -> String {
    refusals(fields.map(|mut body| {
        body["input"] = json!("hi");
        body
    }))
}

#[test]
fn a_conversation_and_a_response_together_have_a_code_of_their_own() {
    let bad = parse(br#"{"input":"hi","conversation":"a","previous_response_id":"resp_1"}"#).unwrap_err();
    assert_eq!(bad.code, "conversation_and_previous_response");
    assert_eq!(bad.param.as_deref(), Some("previous_response_id"));
}

#[test]
fn a_body_needs_an_input() {
    insta::assert_snapshot!(
        ["", "[]", "{", "{}", r#"{"input":[]}"#, r#"{"input":7}"#, r#"{"input":["hi"]}"#, r#"{"input":[null]}"#]
            .map(refusal).join("\n"), @r#"
    - — the request body is not valid JSON: EOF while parsing a value at line 1 column 0
    - — the request body must be a JSON object
    - — the request body is not valid JSON: EOF while parsing an object at line 1 column 1
    input — `input` is required and must not be empty
    input — `input` is required and must not be empty
    input — `input` must be a string or an array of items
    input[0] — `input[0]` must be an object
    input[0] — `input[0]` must be an object
    "#);
}

#[test]
fn items_that_cannot_be_understood() {
    insta::assert_snapshot!(item_refusals([
        json!({}),
        json!({"type": 7}),
        json!({"type": "message", "content": "x"}),
        json!({"role": "tool", "content": "x"}),
        json!({"role": "user"}),
        json!({"role": "user", "content": 7}),
        json!({"type": "item_reference", "id": "msg_1"}),
        json!({"type": "item_reference"}),
        json!({"type": "hologram", "id": "h_1"}),
        json!({"type": "function_call", "name": "f", "arguments": "{}"}),
        json!({"type": "function_call", "call_id": "c", "arguments": "{}"}),
        json!({"type": "function_call", "call_id": "c", "name": "f"}),
        json!({"type": "custom_tool_call", "call_id": "c", "name": "f"}),
        json!({"type": "custom_tool_call_output", "call_id": "c"}),
        json!({"type": "function_call_output", "output": "x"}),
        json!({"type": "function_call_output", "call_id": "c"}),
        json!({"type": "function_call_output", "call_id": "c", "output": [{"type": "x"}]}),
        json!({"type": "reasoning", "summary": "x"}),
        json!({"type": "reasoning", "summary": [{"text": 7}]}),
        json!({"role": "assistant", "content": [{"type": "input_image", "image_url": "https://a"}]}),
    ]), @r#"
    input[1].type — `input[1].type` is required
    input[1].type — `input[1].type` must be a string
    input[1].role — `input[1].role` is required
    input[1].role — `input[1].role` must be user, assistant, system or developer
    input[1].content — `input[1].content` is required
    input[1].content — `input[1].content` must be a string or an array of parts
    input[1].id — `input[1].id` is not the id of an item that is kept here: send the item itself
    input[1].id — `input[1].id` is required
    input[1].type — `input[1].type` must be message, function_call, function_call_output, custom_tool_call, custom_tool_call_output, reasoning, compaction, additional_tools, item_reference, mcp_approval_response or another mcp item
    input[1].call_id — `input[1].call_id` is required
    input[1].name — `input[1].name` is required
    input[1].arguments — `input[1].arguments` is required
    input[1].input — `input[1].input` is required
    input[1].output — `input[1].output` is required
    input[1].call_id — `input[1].call_id` is required
    input[1].output — `input[1].output` is required
    input[1].output[0].type — `input[1].output[0].type` must be input_text, output_text, input_image, input_file, input_audio or refusal
    input[1].summary — `input[1].summary` must be an array
    input[1].summary[0].text — `input[1].summary[0].text` must be a string
    input[1].content[0].type — `input[1].content[0].type` must be output_text or refusal in an assistant's message
    "#);
    insta::assert_snapshot!(refusal(&json!({"input": [
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": ""},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": ""},
    ]}).to_string()), @r#"input[1].call_id — `input[1].call_id` is the id of an earlier call in the same answer"#);
}

#[test]
fn parts_that_cannot_be_understood() {
    insta::assert_snapshot!(part_refusals([
        json!("x"),
        json!({"text": "x"}),
        json!({"type": "hologram"}),
        json!({"type": "input_text"}),
        json!({"type": "input_text", "text": 7}),
        json!({"type": "input_image"}),
        json!({"type": "input_image", "image_url": {"url": "https://a"}}),
        json!({"type": "input_image", "file_id": "file_1"}),
        json!({"type": "input_file", "file_url": "https://a"}),
        json!({"type": "input_file", "filename": "a"}),
        json!({"type": "input_audio", "input_audio": "x"}),
        json!({"type": "refusal"}),
    ]), @r#"
    input[1].content[1] — `input[1].content[1]` must be an object
    input[1].content[1].type — `input[1].content[1].type` is required
    input[1].content[1].type — `input[1].content[1].type` must be input_text, output_text, input_image, input_file, input_audio or refusal
    input[1].content[1].text — `input[1].content[1].text` is required
    input[1].content[1].text — `input[1].content[1].text` must be a string
    input[1].content[1].image_url — `input[1].content[1].image_url` is required
    input[1].content[1].image_url — `input[1].content[1].image_url` must be a string
    input[1].content[1].file_id — `input[1].content[1].file_id` is not supported: send the image as image_url
    input[1].content[1].file_url — `input[1].content[1].file_url` is not supported: send the file as file_data
    input[1].content[1].file_data — `input[1].content[1].file_data` is required
    input[1].content[1].input_audio — `input[1].content[1].input_audio` must be an object
    input[1].content[1].refusal — `input[1].content[1].refusal` is required
    "#);
}

#[test]
fn fields_that_cannot_be_understood() {
    insta::assert_snapshot!(field_refusals([
        json!({"model": 7}),
        json!({"conversation": ""}),
        json!({"conversation": {}}),
        json!({"conversation": 7}),
        json!({"previous_response_id": ""}),
        json!({"stream": "yes"}),
        json!({"store": 1}),
        json!({"background": 1}),
        json!({"instructions": []}),
        json!({"prompt": {"id": "p"}}),
        json!({"truncation": "maybe"}),
        json!({"context_management": [{"type": "x"}]}),
        json!({"context_management": [{"type": "compaction", "compact_threshold": 0}]}),
        json!({"temperature": "hot"}),
        json!({"max_output_tokens": 0}),
        json!({"max_tool_calls": "x"}),
        json!({"top_logprobs": -1}),
        json!({"include": "x"}),
        json!({"include": [7]}),
        json!({"user": 7}),
        json!({"tools": {}}),
        json!({"tools": [{"type": "function", "name": "f"}, {"type": 7}]}),
        json!({"tools": [{"type": "namespace", "name": "n"}]}),
        json!({"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "function"}]}]}),
        json!({"tools": [{"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": "lark"}}]}),
        json!({"tools": [{"type": "custom", "name": "c", "format": {"type": "xml"}}]}),
        json!({"tools": [{"type": "function"}]}),
        json!({"tools": [{"type": "function", "name": "f", "parameters": "x"}]}),
        json!({"tools": [{"type": "function", "name": "f", "strict": "x"}]}),
        json!({"tool_choice": "always"}),
        json!({"tool_choice": {"type": "web_search"}}),
        json!({"tool_choice": {"type": "function"}}),
        json!({"parallel_tool_calls": 1}),
        json!({"text": "x"}),
        json!({"text": {"format": {"type": "xml"}}}),
        json!({"text": {"format": {"type": "json_schema", "schema": {}}}}),
        json!({"text": {"format": {"type": "json_schema", "name": "n"}}}),
        json!({"text": {"verbosity": 1}}),
        json!({"reasoning": {"effort": 1}}),
        json!({"metadata": "x"}),
        json!({"metadata": {"k": 1}}),
        json!({"metadata": {"k": "v".repeat(513)}}),
        json!({"metadata": {"k".repeat(65): "v"}}),
        json!({"metadata": (0..17).map(|n| (n.to_string(), json!("v"))).collect::<serde_json::Map<_, _>>()}),
    ]), @r#"
    model — `model` must be a string
    conversation — `conversation` must not be empty
    conversation.id — `conversation.id` is required
    conversation — `conversation` must be a string or an object with an id
    previous_response_id — `previous_response_id` must not be empty
    stream — `stream` must be true or false
    store — `store` must be true or false
    background — `background` must be true or false
    instructions — `instructions` must be a string
    prompt — `prompt` is not supported: send the text as instructions and input
    truncation — `truncation` must be auto or disabled
    context_management[0].type — `context_management[0].type` must be compaction
    context_management[0].compact_threshold — `context_management[0].compact_threshold` must be a positive integer
    temperature — `temperature` must be a number
    max_output_tokens — `max_output_tokens` must be a positive integer
    max_tool_calls — `max_tool_calls` must be a positive integer
    top_logprobs — `top_logprobs` must be an integer from 0 on
    include — `include` must be an array
    include[0] — `include[0]` must be a string
    user — `user` must be a string
    tools — `tools` must be an array
    tools[1].type — `tools[1].type` must be a string
    tools[0].tools — `tools[0].tools` is required
    tools[0].tools[0].name — `tools[0].tools[0].name` is required
    tools[0].format.definition — `tools[0].format.definition` is required
    tools[0].format.type — `tools[0].format.type` must be text or grammar
    tools[0].name — `tools[0].name` is required
    tools[0].parameters — `tools[0].parameters` must be an object
    tools[0].strict — `tools[0].strict` must be true or false
    tool_choice — `tool_choice` must be none, auto, required or a tool
    tool_choice — `tool_choice` must not name a tool that was left out: the model server does not have web_search. Choose auto or a function, or let the operator set responses.hosted_tools to pass_on
    tool_choice.name — `tool_choice.name` is required
    parallel_tool_calls — `parallel_tool_calls` must be true or false
    text — `text` must be an object
    text.format.type — `text.format.type` must be text, json_object or json_schema
    text.format.name — `text.format.name` is required
    text.format.schema — `text.format.schema` is required
    text.verbosity — `text.verbosity` must be a string
    reasoning.effort — `reasoning.effort` must be a string
    metadata — `metadata` must be an object
    metadata.k — `metadata.k` must be a string
    metadata.k — `metadata.k` must not be longer than 512 characters
    metadata — `metadata` must not have keys longer than 64 characters
    metadata — `metadata` must not have more than 16 keys
    "#);
}
