//! Tools that are not plain functions: how the model server is offered them, and how their calls come back.

use herma_model::generation::ToolCallDelta;
use herma_model::{Answer, Delta, FinishReason, Message, MessageStatus, Seq, SessionId, Timestamp, TurnId, Utterance};
use herma_wire::chat::client_utterance;
use herma_wire::responses::{
    HostedTools, Known, ResponseOutcome, ResponsesRequest, items_of, message_of_item, parse, parse_with, without_item,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{MESSAGE, about, call, data, ending, failed, shown, stream, text};

/// A request in the shape that coding agents send.
fn body(input: &Value) -> Value {
    json!({
        "input": input, "store": false, "stream": true, "parallel_tool_calls": true, "tool_choice": "auto",
        "include": ["reasoning.encrypted_content"], "prompt_cache_key": "thread", "client_metadata": {"n": "1"},
        "reasoning": {"effort": "low", "context": "all_turns"}, "text": {"verbosity": "low"},
        "tools": [
            {"type": "function", "name": "run", "description": "Runs.", "strict": false, "parameters": {"type": "object"}},
            {"type": "namespace", "name": "agents", "description": "Other agents.", "tools": [
                {"type": "function", "name": "close", "description": "Ends one.", "parameters": {"type": "object"}},
                {"type": "custom", "name": "ask", "format": {"type": "grammar", "syntax": "lark", "definition": "\nstart: /.+/\n"}},
                {"type": "web_search"},
            ]},
            {"type": "custom", "name": "patch", "description": "Changes files.", "format": {"type": "text"}},
            {"type": "web_search", "external_web_access": false},
            {"type": "mcp", "server_label": "elsewhere", "server_url": "https://elsewhere"},
        ],
    })
}

fn read(body: &Value) -> ResponsesRequest {
    parse(body.to_string().as_bytes()).unwrap()
}

fn refusal(body: &Value, hosted: HostedTools) -> String {
    let known = Known { hosted, ..Known::default() };
    parse_with(body.to_string().as_bytes(), &known).unwrap_err().message
}

fn echo(request: &ResponsesRequest, field: &str) -> Value {
    let echo: Value = serde_json::from_str(&request.echo.to_json()).unwrap();
    echo[field].clone()
}

/// The names of the functions that the model server is offered.
fn offered(request: &ResponsesRequest) -> Vec<String> {
    let tools: Vec<Value> = serde_json::from_str(request.params.get("tools").unwrap_or("[]")).unwrap();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap_or("not a function").to_owned()).collect()
}

fn calls() -> [Delta; 4] {
    [
        call(0, Some("agents__close"), r#"{"target": "a"}"#),
        call(1, Some("patch"), r#"{"input": "one\n"#),
        call(1, None, r#"two"}"#),
        call(2, Some("run"), "{}"),
    ]
}

fn answer(deltas: &[Delta]) -> Answer {
    let finish = herma_model::generation::Finish {
        reason: FinishReason::ToolCalls,
        usage: None,
        model: None,
        extra: Default::default(),
    };
    let mut answer = Answer::of_nothing(finish);
    for ToolCallDelta { index, id, name, arguments, .. } in deltas.iter().flat_map(|delta| &delta.tool_calls) {
        if *index as usize == answer.tool_calls.len() {
            answer.tool_calls.push(Default::default());
        }
        let call = &mut answer.tool_calls[*index as usize];
        call.id.push_str(id.as_deref().unwrap_or_default());
        call.name.push_str(name.as_deref().unwrap_or_default());
        call.arguments.push_str(arguments.as_deref().unwrap_or_default());
    }
    answer
}

fn stored(said: Utterance) -> Message {
    Message {
        id: MESSAGE,
        seq: Seq(1),
        session: SessionId::from_name("s"),
        turn: TurnId::from_uuid(Uuid::from_u128(1)),
        attempt: 1,
        created_at: Timestamp(0),
        said,
    }
}

fn items(said: &Utterance) -> Vec<Value> {
    items_of(&stored(said.clone())).iter().map(|item| serde_json::to_value(item).unwrap()).collect()
}

#[test]
fn every_tool_is_offered_as_a_function_and_repeated_as_it_came() {
    let request = read(&body(&json!("hi")));
    insta::assert_snapshot!(request.params.get("tools").unwrap().replace("{\"type\":\"function\",\"fun", "\n{\"fun"), @r#"
    [
    {"function":{"name":"run","description":"Runs.","parameters":{"type":"object"},"strict":false}},
    {"function":{"name":"agents__close","description":"Other agents.\n\nEnds one.","parameters":{"type":"object"}}},
    {"function":{"name":"agents__ask","description":"The text of `input` must match this lark grammar:\nstart: /.+/","parameters":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}}},
    {"function":{"name":"patch","description":"Changes files.","parameters":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}}}]
    "#);
    let tools = echo(&request, "tools");
    assert_eq!(tools.as_array().unwrap().len(), 3, "hosted tools are left out: {tools}");
    insta::assert_snapshot!(tools[1], @r#"{"type":"namespace","name":"agents","description":"Other agents.","tools":[{"type":"function","name":"close","description":"Ends one.","parameters":{"type":"object"},"strict":null},{"type":"custom","name":"ask","description":null,"format":{"type":"grammar","syntax":"lark","definition":"\nstart: /.+/\n"}}]}"#);
    insta::assert_snapshot!(tools[2], @r#"{"type":"custom","name":"patch","description":"Changes files.","format":{"type":"text"}}"#);
}

#[test]
fn calls_come_back_in_the_form_that_the_client_knows() {
    let request = body(&json!("hi"));
    let frames = stream(about(&request), None, &calls(), &ending(ResponseOutcome::Completed));
    insta::assert_snapshot!(shown(&frames[2..frames.len() - 1]), @r#"
     2 output_item.added {"output_index":0,"item":{"type":"function_call","id":"fc_<hex>_0","status":"in_progress","call_id":"call_0","name":"close","namespace":"agents","arguments":""}}
     3 function_call_arguments.delta {"item_id":"fc_<hex>_0","output_index":0,"delta":"{\"target\": \"a\"}"}
     4 function_call_arguments.done {"item_id":"fc_<hex>_0","output_index":0,"name":"close","arguments":"{\"target\": \"a\"}"}
     5 output_item.done {"output_index":0,"item":{"type":"function_call","id":"fc_<hex>_0","status":"completed","call_id":"call_0","name":"close","namespace":"agents","arguments":"{\"target\": \"a\"}"}}
     6 output_item.added {"output_index":1,"item":{"type":"custom_tool_call","id":"ctc_<hex>_1","status":"in_progress","call_id":"call_1","name":"patch","input":""}}
     7 custom_tool_call_input.delta {"item_id":"ctc_<hex>_1","output_index":1,"delta":"one\n"}
     8 custom_tool_call_input.delta {"item_id":"ctc_<hex>_1","output_index":1,"delta":"two"}
     9 custom_tool_call_input.done {"item_id":"ctc_<hex>_1","output_index":1,"input":"one\ntwo"}
    10 output_item.done {"output_index":1,"item":{"type":"custom_tool_call","id":"ctc_<hex>_1","status":"completed","call_id":"call_1","name":"patch","input":"one\ntwo"}}
    11 output_item.added {"output_index":2,"item":{"type":"function_call","id":"fc_<hex>_2","status":"in_progress","call_id":"call_2","name":"run","arguments":""}}
    12 function_call_arguments.delta {"item_id":"fc_<hex>_2","output_index":2,"delta":"{}"}
    13 function_call_arguments.done {"item_id":"fc_<hex>_2","output_index":2,"name":"run","arguments":"{}"}
    14 output_item.done {"output_index":2,"item":{"type":"function_call","id":"fc_<hex>_2","status":"completed","call_id":"call_2","name":"run","arguments":"{}"}}
    "#);
    let output = data(frames.last().unwrap())["response"]["output"].clone();
    let request = read(&request);
    let said = client_utterance(&answer(&calls()), MessageStatus::Complete, &request.client_tools);
    assert_eq!(output, json!(items(&said)), "the stream, the response and the transcript have the same items");
}

#[test]
fn a_call_that_is_sent_back_is_the_call_that_the_model_made() {
    let request = read(&body(&json!("hi")));
    let said = client_utterance(&answer(&calls()), MessageStatus::Complete, &request.client_tools);
    let mut input = items(&said);
    for item in &mut input {
        item.as_object_mut().unwrap().shift_remove("id");
        item["internal_chat_message_metadata"] = json!({"n": 1});
    }
    let results = [
        json!({"type": "function_call_output", "call_id": "call_0", "output": "closed"}),
        json!({"type": "custom_tool_call_output", "call_id": "call_1", "output": [
            {"type": "input_text", "text": "Done."}, {"type": "input_text", "text": "2 lines"}]}),
        json!({"type": "custom_tool_call_output", "call_id": "call_2", "output": "ran"}),
    ];
    input.extend(results.clone());
    let again = read(&body(&json!(input)));
    assert_eq!(again.messages[0].digest, said.digest);
    assert_eq!(items(&again.messages[0]), items(&said));
    let name = r#""name":"agents__close""#;
    assert!(again.messages[0].payload.as_json().contains(name) && said.payload.as_json().contains(name));
    for (said, result) in again.messages[1..].iter().zip(results) {
        let item = &items(said)[0];
        for field in ["type", "call_id", "output"] {
            assert_eq!(item[field], result[field]);
        }
    }
}

#[test]
fn a_call_is_known_again_however_the_model_wrote_the_text_of_a_custom_tool() {
    let request = read(&body(&json!("hi")));
    for (arguments, input) in [
        (r#" {"input" : "a\u00e4"} "#, "aä"),
        (r#"{"input":"a","why":"b"}"#, "a"),
        (r#"{"code":"a"}"#, r#"{"code":"a"}"#),
        ("a plain text", "a plain text"),
        ("", ""),
    ] {
        let said = client_utterance(
            &answer(&[call(0, Some("patch"), arguments)]),
            MessageStatus::Complete,
            &request.client_tools,
        );
        assert_eq!(items(&said)[0]["input"], input);
        let sent = json!({"type": "custom_tool_call", "call_id": "call_0", "name": "patch", "input": input});
        let again = read(&body(&json!([sent])));
        assert_eq!(again.messages[0].digest, said.digest, "{arguments}");
    }
}

#[test]
fn a_call_is_read_without_the_tools_of_its_request() {
    let call =
        json!({"type": "function_call", "call_id": "c", "name": "close", "namespace": "agents", "arguments": "{}"});
    let with = read(&body(&json!([call])));
    let without = read(&json!({ "input": [call] }));
    assert_eq!(with.messages, without.messages);
    assert_eq!(items(&without.messages[0])[0]["namespace"], "agents");
}

#[test]
fn the_text_of_a_custom_tool_is_streamed_even_if_it_is_known_at_the_end_only() {
    let request = body(&json!("hi"));
    let deltas = [text("So."), call(0, Some("agents__ask"), "no "), call(0, None, "JSON")];
    let frames = stream(about(&request), None, &deltas, &ending(ResponseOutcome::Completed));
    let kinds: Vec<Value> = frames.iter().map(|frame| data(frame)["type"].clone()).collect();
    assert_eq!(kinds[kinds.len() - 4], "response.custom_tool_call_input.delta");
    let item = &data(frames.last().unwrap())["response"]["output"][1];
    assert_eq!(
        (&item["input"], &item["name"], &item["namespace"]),
        (&json!("no JSON"), &json!("ask"), &json!("agents"))
    );
}

#[test]
fn a_custom_call_that_was_cut_off_never_ends() {
    let request = body(&json!("hi"));
    let frames = stream(about(&request), None, &calls()[..2], &ending(failed()));
    let done = frames.iter().map(data).filter(|event| event["type"] == "response.output_item.done");
    let done: Vec<Value> = done.map(|event| event["item"]["type"].clone()).collect();
    assert_eq!(done, ["function_call"], "clients execute calls that end");
}

#[test]
fn tools_in_the_input_count_as_tools_and_are_no_message() {
    let tools = body(&json!("hi"))["tools"].take();
    let item = json!({"type": "additional_tools", "id": "at_1", "role": "developer", "tools": tools});
    let request = read(&json!({"input": [
        item,
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be terse."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
    ]}));
    let same = read(&body(&json!("hi")));
    assert_eq!(request.params.get("tools"), same.params.get("tools"));
    assert_eq!(echo(&request, "tools"), echo(&same, "tools"));
    assert_eq!(request.client_tools, same.client_tools);
    assert_eq!((request.system.len(), request.messages.len(), request.indices), (1, 1, vec![2]));
    let alone = json!({"input": [{"type": "additional_tools", "tools": []}]});
    assert_eq!(parse(alone.to_string().as_bytes()).unwrap_err().param.as_deref(), Some("input"));
    let wrong = json!({"input": ["x", {"type": "additional_tools", "tools": [{"type": "namespace", "name": "n", "tools": [
        {"type": "function"}]}]}]});
    let bad = parse(wrong.to_string().as_bytes()).unwrap_err();
    assert_eq!(bad.param.as_deref(), Some("input[1].tools[0].tools[0].name"));
}

#[test]
fn of_two_tools_with_one_name_the_last_one_counts() {
    let tool = |description: &str| json!({"type": "function", "name": "f", "description": description});
    let request = read(&json!({"input": "hi", "tools": [tool("old"), {"type": "function", "name": "g"}, tool("new")]}));
    assert_eq!(offered(&request), ["f", "g"]);
    assert!(request.params.get("tools").unwrap().contains("new"));
    let inside = |tool: Value| json!({"type": "namespace", "name": "n", "tools": [tool]});
    let request = read(
        &json!({"input": "hi", "tools": [tool("mine"), inside(tool("theirs")), {"type": "function", "name": "n__f"}]}),
    );
    let names = offered(&request);
    assert_eq!((&*names[0], &*names[2]), ("f", "n__f"));
    assert!(names[1].starts_with("n__f_"), "{names:?}");
}

#[test]
fn hosted_tools_are_refused_or_passed_on_if_the_operator_says_so() {
    let body = json!({"input": "hi", "tool_choice": {"type": "web_search"}, "tools": [
        {"type": "function", "name": "f"}, {"type": "web_search", "user_location": null}]});
    insta::assert_snapshot!(refusal(&body, HostedTools::Refuse), @r#"`tools[1].type` must be function, custom, namespace, or mcp with a server of this gateway: the operator refuses tools that the model server does not have"#);
    let known = Known { hosted: HostedTools::PassOn, ..Known::default() };
    let passed = parse_with(body.to_string().as_bytes(), &known).unwrap();
    assert_eq!(
        passed.params.get("tools"),
        Some(r#"[{"type":"function","function":{"name":"f"}},{"type":"web_search","user_location":null}]"#)
    );
    assert_eq!(passed.params.get("tool_choice"), Some(r#"{"type":"web_search"}"#));
    assert_eq!(echo(&passed, "tools")[1], json!({"type": "web_search", "user_location": null}));
}

#[test]
fn a_choice_that_demands_a_tool_that_was_left_out_is_refused() {
    let with = |tools: Value, choice: Value| json!({"input": "hi", "tools": tools, "tool_choice": choice});
    let search = json!([{"type": "web_search"}, {"type": "file_search", "vector_store_ids": []}]);
    let both = json!([{"type": "web_search"}, {"type": "function", "name": "f"}]);
    let allowed = |mode: &str, tools: Value| json!({"type": "allowed_tools", "mode": mode, "tools": tools});
    insta::assert_snapshot!([
        with(search.clone(), json!("required")),
        with(search.clone(), json!({"type": "web_search"})),
        with(both.clone(), json!({"type": "web_search_preview"})),
        with(both.clone(), allowed("required", json!([{"type": "web_search"}]))),
        with(both.clone(), json!({"type": "mcp", "server_label": "elsewhere"})),
    ].map(|body| refusal(&body, HostedTools::LeaveOut)).join("\n"), @r#"
    `tool_choice` must not be required: the model server does not have web_search, file_search. Choose auto or a function, or let the operator set responses.hosted_tools to pass_on
    `tool_choice` must not name a tool that was left out: the model server does not have web_search. Choose auto or a function, or let the operator set responses.hosted_tools to pass_on
    `tool_choice` must not name a tool that was left out: the model server does not have web_search_preview. Choose auto or a function, or let the operator set responses.hosted_tools to pass_on
    `tool_choice.mode` must not be required: the model server does not have web_search. Choose auto or a function, or let the operator set responses.hosted_tools to pass_on
    `tool_choice` must not name a tool that was left out: the model server does not have mcp. Choose auto or a function, or let the operator set responses.hosted_tools to pass_on
    "#);
    assert_eq!(read(&with(search, json!("auto"))).params.0, []);
    assert_eq!(read(&with(both.clone(), json!("required"))).params.get("tool_choice"), Some("\"required\""));
    let none = read(&with(both.clone(), allowed("auto", json!([{"type": "web_search"}]))));
    assert_eq!(none.params.get("tool_choice"), Some("\"none\""), "nothing else may be called");
    let rest = read(&with(both, allowed("auto", json!([{"type": "web_search"}, {"type": "function", "name": "f"}]))));
    assert_eq!(echo(&rest, "tool_choice"), allowed("auto", json!([{"type": "function", "name": "f"}])));
}

#[test]
fn a_choice_names_a_tool_as_the_client_knows_it() {
    let choose = |choice: Value| {
        let mut body = body(&json!("hi"));
        body["tool_choice"] = choice;
        body
    };
    let forced = |name: &str| json!({"type": "function", "function": {"name": name}}).to_string();
    for (choice, name) in [
        (json!({"type": "function", "name": "close"}), "agents__close"),
        (json!({"type": "function", "name": "close", "namespace": "agents"}), "agents__close"),
        (json!({"type": "custom", "name": "ask"}), "agents__ask"),
        (json!({"type": "function", "name": "patch"}), "patch"),
        (json!({"type": "function", "name": "files__read"}), "files__read"),
    ] {
        assert_eq!(read(&choose(choice)).params.get("tool_choice"), Some(&*forced(name)));
    }
    let allowed = json!({"type": "allowed_tools", "mode": "auto", "tools": [
        {"type": "namespace", "name": "agents"}, {"type": "custom", "name": "patch"}]});
    insta::assert_snapshot!(read(&choose(allowed)).params.get("tool_choice").unwrap(), @r#"{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"agents__close"}},{"type":"function","function":{"name":"agents__ask"}},{"type":"function","function":{"name":"patch"}}]}}"#);
    let bad = refusal(&choose(json!({"type": "custom", "name": "x"})), HostedTools::LeaveOut);
    assert_eq!(bad, "`tool_choice.name` is not the name of a tool of this request");
    let mut twice = choose(json!({"type": "function", "name": "close"}));
    let other = json!({"type": "namespace", "name": "doors", "tools": [{"type": "function", "name": "close"}]});
    twice["tools"].as_array_mut().unwrap().push(other);
    let bad = refusal(&twice, HostedTools::LeaveOut);
    assert_eq!(bad, "`tool_choice.name` is the name of several tools: add their namespace");
}

#[test]
fn calls_of_hosted_tools_in_a_history_make_no_messages() {
    let request = read(&json!({"input": [
        {"role": "user", "content": "hi"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": null, "encrypted_content": null},
        {"type": "message", "role": "assistant", "id": null, "phase": null, "content": [{"type": "output_text", "text": "Hello"}]},
        {"role": "user", "content": "again"},
    ]}));
    let texts: Vec<_> = request.messages.iter().map(|said| said.payload.text().unwrap()).collect();
    assert_eq!(texts, ["hi", "Hello", "again"]);
}

#[test]
fn a_custom_call_can_be_removed_from_its_message() {
    let request = read(&body(&json!("hi")));
    let said = client_utterance(&answer(&calls()), MessageStatus::Complete, &request.client_tools);
    let id = items(&said)[1]["id"].as_str().unwrap().to_owned();
    assert_eq!(message_of_item(&id), Some(MESSAGE));
    let rest = without_item(&said, MESSAGE, &id).flatten().unwrap();
    let kinds: Vec<_> = items(&rest).iter().map(|item| item["name"].clone()).collect();
    assert_eq!(kinds, ["close", "run"]);
}
