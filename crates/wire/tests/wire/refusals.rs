//! Requests that are refused, and what the refusal says.

use herma_wire::chat::parse;

fn refusal(body: &str) -> String {
    let bad = parse(body.as_bytes()).unwrap_err();
    format!("{} — {}", bad.param.as_deref().unwrap_or("-"), bad.message)
}

fn with_message(message: &str) -> String {
    format!(r#"{{"messages":[{{"role":"user","content":"hi"}},{message}]}}"#)
}

fn refusals<'a>(bodies: impl IntoIterator<Item = &'a str>) -> String {
    bodies.into_iter().map(refusal).collect::<Vec<_>>().join("\n")
}

fn message_refusals<'a>(messages: impl IntoIterator<Item = &'a str>) -> String {
    messages.into_iter().map(|message| refusal(&with_message(message))).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_body_that_is_not_an_object_is_refused() {
    insta::assert_snapshot!(refusals(["", "[]", "\"hi\"", "null", "{\"messages\":", "{} {}", "{\"a\":\"\u{1}\"}"]), @r#"
    - — the request body is not valid JSON: EOF while parsing a value at line 1 column 0
    - — the request body must be a JSON object
    - — the request body must be a JSON object
    - — the request body must be a JSON object
    - — the request body is not valid JSON: EOF while parsing a value at line 1 column 12
    - — the request body is not valid JSON: trailing characters at line 1 column 4
    - — the request body is not valid JSON: control character (\u0000-\u001F) found while parsing a string at line 1 column 6
    "#);
}

#[test]
fn a_body_that_is_not_utf8_is_refused() {
    let bad = parse(b"{\"model\":\"\xff\"}").unwrap_err();
    assert_eq!(bad.param, None);
    assert!(bad.message.contains("UTF-8"), "{bad}");
}

#[test]
fn messages_must_be_a_list_with_something_in_it() {
    insta::assert_snapshot!(refusals([
        r#"{"model":"x"}"#,
        r#"{"messages":null}"#,
        r#"{"messages":"hi"}"#,
        r#"{"messages":[]}"#,
        r#"{"messages":["hi"]}"#,
        r#"{"messages":[null]}"#,
    ]), @r#"
    messages — `messages` is required
    messages — `messages` is required
    messages — `messages` must be an array
    messages — `messages` must not be empty
    messages[0] — `messages[0]` must be an object
    messages[0] — `messages[0]` must be an object
    "#);
}

#[test]
fn too_many_messages_are_refused_with_the_limit() {
    let body = format!(r#"{{"messages":[{}]}}"#, vec!["0"; 10_001].join(","));
    assert_eq!(refusal(&body), "messages — `messages` must not have more than 10000 elements");
}

#[test]
fn roles_that_no_transcript_has_are_refused() {
    insta::assert_snapshot!(message_refusals([
        r#"{"content":"x"}"#,
        r#"{"role":7,"content":"x"}"#,
        r#"{"role":"narrator","content":"x"}"#,
        r#"{"role":"function","name":"f","content":"x"}"#,
    ]), @r#"
    messages[1].role — `messages[1].role` is required
    messages[1].role — `messages[1].role` must be a string
    messages[1].role — `messages[1].role` must be system, developer, user, assistant or tool
    messages[1].role — `messages[1].role` must not be function: send results as role tool with a tool_call_id
    "#);
}

#[test]
fn contents_are_refused_where_they_are_wrong() {
    insta::assert_snapshot!(message_refusals([
        r#"{"role":"user"}"#,
        r#"{"role":"system","content":null}"#,
        r#"{"role":"user","content":7}"#,
        r#"{"role":"user","content":"\ud83d"}"#,
        r#"{"role":"user","content":["x"]}"#,
        r#"{"role":"user","content":[{"text":"x"}]}"#,
        r#"{"role":"user","content":[{"type":"text","text":"x"},{"type":"text"}]}"#,
        r#"{"role":"user","content":[{"type":"image_url"}]}"#,
        r#"{"role":"user","content":[{"type":"image_url","image_url":"https://x"}]}"#,
        r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":7}}]}"#,
        r#"{"role":"user","content":"x","name":7}"#,
    ]), @r#"
    messages[1].content — `messages[1].content` is required
    messages[1].content — `messages[1].content` is required
    messages[1].content — `messages[1].content` must be a string or an array of parts
    messages[1].content — `messages[1].content` has an escape that is not Unicode
    messages[1].content[0] — `messages[1].content[0]` must be an object
    messages[1].content[0].type — `messages[1].content[0].type` is required
    messages[1].content[1].text — `messages[1].content[1].text` is required
    messages[1].content[0].image_url — `messages[1].content[0].image_url` is required
    messages[1].content[0].image_url — `messages[1].content[0].image_url` must be an object
    messages[1].content[0].image_url.url — `messages[1].content[0].image_url.url` must be a string
    messages[1].name — `messages[1].name` must be a string
    "#);
}

#[test]
fn tool_calls_and_results_are_refused_where_they_are_wrong() {
    insta::assert_snapshot!(message_refusals([
        r#"{"role":"tool","content":"x"}"#,
        r#"{"role":"tool","content":"x","tool_call_id":""}"#,
        r#"{"role":"tool","tool_call_id":"c"}"#,
        r#"{"role":"assistant","tool_calls":{}}"#,
        r#"{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}"#,
        r#"{"role":"assistant","tool_calls":[{"id":"c"}]}"#,
        r#"{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"","arguments":"{}"}}]}"#,
        r#"{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":{}}}]}"#,
        r#"{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f"}}]}"#,
        r#"{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":""}},{"id":"c","function":{"name":"g","arguments":""}}]}"#,
        r#"{"role":"assistant","function_call":{"name":"f","arguments":"{}"}}"#,
    ]), @r#"
    messages[1].tool_call_id — `messages[1].tool_call_id` is required
    messages[1].tool_call_id — `messages[1].tool_call_id` must not be empty
    messages[1].content — `messages[1].content` is required
    messages[1].tool_calls — `messages[1].tool_calls` must be an array
    messages[1].tool_calls[0].id — `messages[1].tool_calls[0].id` is required
    messages[1].tool_calls[0].function — `messages[1].tool_calls[0].function` is required
    messages[1].tool_calls[0].function.name — `messages[1].tool_calls[0].function.name` must not be empty
    messages[1].tool_calls[0].function.arguments — `messages[1].tool_calls[0].function.arguments` must be a string
    messages[1].tool_calls[0].function.arguments — `messages[1].tool_calls[0].function.arguments` is required
    messages[1].tool_calls[1].id — `messages[1].tool_calls[1].id` is the id of an earlier call in the same message
    messages[1].function_call — `messages[1].function_call` is not supported: use tool_calls
    "#);
}

#[test]
fn sampling_fields_are_refused_by_name() {
    let bodies = [
        r#""model":7"#,
        r#""stream":"yes""#,
        r#""stream_options":true"#,
        r#""stream_options":{"include_usage":1}"#,
        r#""n":2"#,
        r#""user":7"#,
        r#""temperature":"0.5""#,
        r#""top_p":1e999"#,
        r#""presence_penalty":[]"#,
        r#""frequency_penalty":true"#,
        r#""max_tokens":0"#,
        r#""max_completion_tokens":1.5"#,
        r#""stop":7"#,
        r#""stop":["a",7]"#,
        r#""tools":{}"#,
        r#""tools":[{},"x"]"#,
        r#""tool_choice":7"#,
        r#""response_format":"json""#,
        r#""logprobs":5"#,
        r#""seed":1.5"#,
        r#""parallel_tool_calls":"no""#,
        r#""metadata":[]"#,
        r#""store":1"#,
        r#""functions":[]"#,
    ]
    .map(|field| format!(r#"{{"messages":[{{"role":"user","content":"hi"}}],{field}}}"#));
    insta::assert_snapshot!(refusals(bodies.iter().map(String::as_str)), @r#"
    model — `model` must be a string
    stream — `stream` must be true or false
    stream_options — `stream_options` must be an object
    stream_options.include_usage — `stream_options.include_usage` must be true or false
    n — `n` must be 1: one choice per turn is kept
    user — `user` must be a string
    temperature — `temperature` must be a number
    top_p — `top_p` must be a number
    presence_penalty — `presence_penalty` must be a number
    frequency_penalty — `frequency_penalty` must be a number
    max_tokens — `max_tokens` must be a positive integer
    max_completion_tokens — `max_completion_tokens` must be a positive integer
    stop — `stop` must be a string or an array of strings
    stop[1] — `stop[1]` must be a string
    tools — `tools` must be an array of tools
    tools[1] — `tools[1]` must be an object
    tool_choice — `tool_choice` must be a string or an object
    response_format — `response_format` must be an object
    logprobs — `logprobs` must be true or false
    seed — `seed` must be an integer
    parallel_tool_calls — `parallel_tool_calls` must be true or false
    metadata — `metadata` must be an object
    store — `store` must be true or false
    functions — `functions` is not supported: use tools and tool_choice
    "#);
}

#[test]
fn deep_nesting_is_refused_wherever_it_is() {
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    for (body, param) in [
        (format!(r#"{{"messages":[{{"role":"user","content":"hi"}}],"x":{deep}}}"#), "x"),
        (with_message(&format!(r#"{{"role":"user","content":"x","y":{deep}}}"#)), "messages[1].y"),
        (
            with_message(&format!(r#"{{"role":"user","content":[{{"type":"z","z":{deep}}}]}}"#)),
            "messages[1].content[0]",
        ),
        (with_message(&deep), "messages[1]"),
    ] {
        assert_eq!(parse(body.as_bytes()).unwrap_err().param.as_deref(), Some(param));
    }
    assert_eq!(parse(deep.as_bytes()).unwrap_err().param, None);
}
