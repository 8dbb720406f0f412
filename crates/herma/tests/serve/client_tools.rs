//! Tools of the client that are no plain functions: namespaces, custom tools and hosted tools, over HTTP.

use herma_testkit::{Reply, ToolCall, check_response_stream};
use serde_json::{Value, json};

use crate::support::{SESSION_ID, TestGateway, data, error, with};

const RESPONSES: &str = "/v1/responses";

/// The tools of a coding agent: a function, a namespace with a function and a custom tool, and a hosted tool.
fn tools() -> Value {
    json!([
        {"type": "function", "name": "run", "description": "Runs a command.", "strict": false,
         "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}},
        {"type": "namespace", "name": "agents", "description": "Other agents.", "tools": [
            {"type": "function", "name": "close", "description": "Ends one.", "strict": false, "parameters": {"type": "object"}},
            {"type": "custom", "name": "script", "description": "Runs a script.",
             "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}},
        ]},
        {"type": "web_search", "external_web_access": false},
    ])
}

/// A request as a coding agent sends it, with everything that it sends by default.
fn request(input: &Value) -> Value {
    json!({
        "model": "scripted", "input": input, "tools": tools(), "tool_choice": "auto", "parallel_tool_calls": true,
        "instructions": "You write code.", "store": false, "stream": true, "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "thread-1", "client_metadata": {"installation": "1"}, "text": {"verbosity": "low"},
        "reasoning": {"effort": "low", "summary": "auto", "context": "all_turns"},
    })
}

fn said(text: &str) -> Value {
    json!({"type": "message", "id": "msg_1", "role": "user", "content": [{"type": "input_text", "text": text}]})
}

/// The model calls a namespaced function, a custom tool and a plain function.
fn three_calls() -> Reply {
    Reply::tool_calls([
        ToolCall::new("c1", "agents__close", r#"{"target": "a"}"#),
        ToolCall::new("c2", "agents__script", r#"{"input": "let a = 1;\nprint(a)"}"#),
        ToolCall::new("c3", "run", r#"{"command": "ls"}"#),
    ])
}

fn results() -> Vec<Value> {
    vec![
        json!({"type": "function_call_output", "call_id": "c1", "output": "closed"}),
        json!({"type": "custom_tool_call_output", "call_id": "c2", "output": [
            {"type": "input_text", "text": "Done."}, {"type": "input_text", "text": "1"}]}),
        json!({"type": "function_call_output", "call_id": "c3", "output": "a.txt"}),
    ]
}

/// The items of three calls without what the gateway adds, as the client sends them back.
fn sent_back(items: &Value) -> Vec<Value> {
    let mut items = items.as_array().unwrap().clone();
    for item in &mut items {
        item.as_object_mut().unwrap().retain(|name, _| !matches!(name.as_str(), "id" | "status"));
    }
    items
}

fn expected_calls() -> Vec<Value> {
    vec![
        json!({"type": "function_call", "call_id": "c1", "name": "close", "namespace": "agents", "arguments": r#"{"target": "a"}"#}),
        json!({"type": "custom_tool_call", "call_id": "c2", "name": "script", "namespace": "agents", "input": "let a = 1;\nprint(a)"}),
        json!({"type": "function_call", "call_id": "c3", "name": "run", "arguments": r#"{"command": "ls"}"#}),
    ]
}

async fn stream(client: &herma_testkit::Client, body: &Value) -> Vec<Value> {
    let events = client.post_stream(RESPONSES, body).await.rest().await;
    let events: Vec<Value> = events.iter().filter(|event| event.data != "[DONE]").map(|event| event.json()).collect();
    check_response_stream(&events);
    events
}

fn response(events: &[Value]) -> Value {
    events.last().unwrap()["response"].clone()
}

#[tokio::test]
async fn a_coding_agent_that_sends_its_whole_history_gets_its_calls_in_its_own_form() {
    let gateway = TestGateway::start().await;
    gateway.upstream.push(three_calls());
    let first = stream(&gateway.client(), &request(&json!([said("tidy up")]))).await;
    let response_1 = response(&first);
    assert_eq!(sent_back(&response_1["output"]), expected_calls());
    let listed: Vec<&Value> = response_1["tools"].as_array().unwrap().iter().map(|tool| &tool["type"]).collect();
    assert_eq!(listed, ["function", "namespace"], "the web search was left out");
    let sent = gateway.upstream.last_request();
    let offered: Vec<&Value> =
        sent.body["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
    assert_eq!(offered, ["run", "agents__close", "agents__script"]);
    for field in ["client_metadata", "include", "store", "reasoning", "text"] {
        assert_eq!(sent.body.get(field), None, "model servers do not know {field}");
    }

    let reasoning =
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "content": null, "encrypted_content": null});
    let history = [vec![said("tidy up"), reasoning], sent_back(&response_1["output"]), results()].concat();
    let second = stream(&gateway.client(), &request(&json!(history))).await;
    assert_eq!(response(&second)["status"], "completed");
    assert_eq!(
        gateway.context()[1..],
        [
            "user: tidy up".to_owned(),
            r#"assistant c1=agents__close({"target": "a"}) c2=agents__script({"input":"let a = 1;\nprint(a)"}) c3=run({"command": "ls"})"#.to_owned(),
            "tool c1: closed".to_owned(),
            r#"tool c2: [{"type":"text","text":"Done."},{"type":"text","text":"1"}]"#.to_owned(),
            "tool c3: a.txt".to_owned(),
        ]
    );
}

#[tokio::test]
async fn a_stored_call_has_the_clients_form_wherever_it_is_read_and_after_a_restart() {
    let mut gateway = TestGateway::start().await;
    let stored = |input: &Value| with(with(request(input), "store", json!(true)), "conversation", json!("work"));
    gateway.upstream.push(three_calls());
    let first = stream(&gateway.client(), &stored(&json!([said("tidy up")]))).await;
    gateway.restart().await;
    let path = format!("{RESPONSES}/{}", response(&first)["id"].as_str().unwrap());
    let fetched = gateway.client().get(&path).await.expect(200);
    assert_eq!((&fetched["output"], &fetched["tools"]), (&response(&first)["output"], &response(&first)["tools"]));
    let replay = gateway.client().get_stream(&format!("{path}?stream=true")).await.rest().await;
    let replayed: Vec<Value> = replay.iter().filter(|event| event.data != "[DONE]").map(|event| event.json()).collect();
    let without_objects = |events: &[Value]| -> Vec<Value> {
        events.iter().filter(|event| event.get("response").is_none()).cloned().collect()
    };
    assert_eq!(without_objects(&replayed), without_objects(&first));

    let second = with(stored(&json!(results())), "stream", json!(false));
    let second = gateway.client().post_json(RESPONSES, &second).await.expect(200);
    assert_eq!(second["status"], "completed");
    let call = r#"c2=agents__script({"input": "let a = 1;\nprint(a)"})"#;
    assert!(gateway.context()[2].contains(call), "the model sees its own words: {:?}", gateway.context());
    let page = |path: String| {
        let client = gateway.client();
        async move { sent_back(&client.get(&format!("{path}?order=asc")).await.expect(200)["data"]) }
    };
    assert_eq!(page(format!("{RESPONSES}/{}/input_items", second["id"].as_str().unwrap())).await, results());
    let conversation = second["conversation"]["id"].as_str().unwrap();
    let items = page(format!("/v1/conversations/{conversation}/items")).await;
    assert_eq!((&items[1..4], &items[4..7]), (&expected_calls()[..], &results()[..]));
}

#[tokio::test]
async fn a_whole_history_with_such_calls_is_known_in_its_session() {
    let gateway = TestGateway::start().await;
    let client = gateway.client().header(SESSION_ID, "work");
    gateway.upstream.push(three_calls());
    let first = stream(&client, &request(&json!([said("tidy up")]))).await;
    let history = [vec![said("tidy up")], sent_back(&response(&first)["output"]), results()].concat();
    stream(&client, &request(&json!(history))).await;
    let transcript = gateway.transcript("work").await;
    assert_eq!(transcript.len(), 6, "nothing is stored twice: {transcript:?}");
    let body = json!({"items": sent_back(&response(&first)["output"])});
    let made = gateway.client().post_json("/v1/conversations", &body).await.expect(200);
    let path = format!("/v1/conversations/{}/items?order=asc", made["id"].as_str().unwrap());
    assert_eq!(sent_back(&gateway.client().get(&path).await.expect(200)["data"]), expected_calls());
}

#[tokio::test]
async fn tools_that_come_as_an_input_item_are_tools() {
    let gateway = TestGateway::start().await;
    gateway.upstream.push(three_calls());
    let item = json!({"type": "additional_tools", "id": "at_1", "role": "developer", "tools": tools()});
    let mut body = request(&json!([item, said("tidy up")]));
    body.as_object_mut().unwrap().remove("tools");
    let events = stream(&gateway.client(), &body).await;
    assert_eq!(sent_back(&response(&events)["output"]), expected_calls());
    assert_eq!(gateway.context(), ["system: You write code.", "user: tidy up"]);
    assert_eq!(gateway.upstream.last_request().body["tools"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_reference_to_a_custom_call_is_that_call() {
    let gateway = TestGateway::start().await;
    gateway.upstream.push(three_calls());
    let body = with(with(request(&json!([said("tidy up")])), "store", json!(true)), "stream", json!(false));
    let first = gateway.client().post_json(RESPONSES, &body).await.expect(200);
    let referred = first["output"].as_array().unwrap().iter();
    let referred: Vec<Value> = referred.map(|item| json!({"type": "item_reference", "id": item["id"]})).collect();
    let history = [vec![said("tidy up")], referred, results()].concat();
    stream(&gateway.client(), &request(&json!(history))).await;
    assert!(gateway.context()[2].contains("c1=agents__close("), "{:?}", gateway.context());
}

#[tokio::test]
async fn hosted_tools_are_handled_as_the_operator_says() {
    let body = |choice: Value| with(with(request(&json!("hi")), "stream", json!(false)), "tool_choice", choice);
    let gateway = TestGateway::start().await;
    let refused = error(&gateway.client().post_json(RESPONSES, &body(json!({"type": "web_search"}))).await, 400);
    assert_eq!((&refused["param"], &refused["code"]), (&json!("tool_choice"), &json!("invalid_request")));
    assert!(refused["message"].as_str().unwrap().contains("responses.hosted_tools"), "{refused}");
    assert!(gateway.sessions().await.is_empty());

    let gateway = TestGateway::with_settings(&[("HERMA_RESPONSES__HOSTED_TOOLS", "refuse")]).await;
    let refused = error(&gateway.client().post_json(RESPONSES, &body(json!("auto"))).await, 400);
    assert_eq!(refused["param"], "tools[2].type");

    let gateway = TestGateway::with_settings(&[("HERMA_RESPONSES__HOSTED_TOOLS", "pass_on")]).await;
    let answer = gateway.client().post_json(RESPONSES, &body(json!({"type": "web_search"}))).await.expect(200);
    let hosted = json!({"type": "web_search", "external_web_access": false});
    assert_eq!(answer["tools"][2], hosted);
    let sent = gateway.upstream.last_request();
    assert_eq!((&sent.body["tools"][3], &sent.body["tool_choice"]), (&hosted, &json!({"type": "web_search"})));
}

#[tokio::test]
async fn the_offline_model_calls_such_tools_too() {
    let offline = herma_testkit::Launch::serve(env!("CARGO_BIN_EXE_herma")).start().await;
    let body = with(request(&json!(r#"use agents__script {"input":"1+1"}"#)), "model", json!("offline"));
    let events = stream(&offline.client(), &body).await;
    let call = &response(&events)["output"][0];
    assert_eq!((&call["type"], &call["input"]), (&json!("custom_tool_call"), &json!("1+1")));
    assert_eq!(data(&offline.client().get("/api/sessions").await), Vec::<Value>::new(), "it was not to be stored");
}

#[tokio::test]
async fn the_operator_decides_whether_an_agents_thread_is_kept_although_it_is_not_to_be_stored() {
    for (keep, conversations) in [("true", 1), ("false", 0)] {
        let gateway = TestGateway::with_settings(&[("HERMA_RESPONSES__KEEP_CHATS", keep)]).await;
        stream(&gateway.client().header("session-id", "thread-1"), &request(&json!([said("tidy up")]))).await;
        assert_eq!(gateway.sessions().await.len(), conversations, "keep_chats = {keep}");
    }
}

#[tokio::test]
async fn an_agents_thread_with_such_calls_is_one_conversation() {
    let gateway = TestGateway::start().await;
    let client = gateway.client().header("session-id", "thread-1");
    gateway.upstream.push(three_calls());
    let first = stream(&client, &request(&json!([said("tidy up")]))).await;
    let history = [vec![said("tidy up")], sent_back(&response(&first)["output"]), results()].concat();
    let second = stream(&client, &request(&json!(history))).await;
    let answer = json!({"type": "message", "role": "assistant", "content": response(&second)["output"][0]["content"]});
    let history = [history, vec![answer, said("thanks")]].concat();
    stream(&client, &request(&json!(history))).await;
    let sessions = gateway.sessions().await;
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    assert_eq!(gateway.rows(sessions[0]["conversation_id"].as_str().unwrap()).await.len(), 8);
}
