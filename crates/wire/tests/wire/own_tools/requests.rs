//! What requests say of Herma's own tools.

use herma_wire::responses::{KeptItems, Known, ResponsesRequest, items_of, parse, parse_with, references};
use serde_json::{Value, json};

use super::{asking, calling, id, said};

/// Reads a request to a Herma that runs two servers.
fn read(body: &Value) -> ResponsesRequest {
    let known = Known { servers: vec!["files".to_owned(), "web".to_owned()], ..Known::default() };
    parse_with(body.to_string().as_bytes(), &known).unwrap()
}

fn payloads(request: &ResponsesRequest) -> Vec<&str> {
    request.messages.iter().map(|said| said.payload.as_json()).collect()
}

/// A stored question, and its id.
fn question() -> (KeptItems, String) {
    let step = said(10, &calling(None, &["call_7"]), &[asking("call_7")]);
    let items = items_of(step.stored_message().unwrap());
    let question = items[0].id().to_owned();
    (items.into_iter().map(|item| (item.id().to_owned(), item)).collect(), question)
}

#[test]
fn a_listed_server_is_asked_for_and_repeated_but_never_passed_on() {
    let request = read(&json!({"input": "hi", "tool_choice": "auto", "tools": [
        {"type": "mcp", "server_label": "files", "require_approval": "always", "allowed_tools": ["read"],
         "headers": {"Authorization": "secret"}, "authorization": "secret"},
        {"type": "mcp", "server_label": "web", "server_url": "https://web"},
    ]}));
    assert_eq!(request.servers, ["files", "web"]);
    assert_eq!(request.params.0, []);
    assert_eq!(request.own_tool_params.get("tool_choice"), Some("\"auto\""));
    let echo: Value = serde_json::from_str(&request.echo.to_json()).unwrap();
    let server = |label: &str, url: Value, allowed: Value, approval: Value| {
        json!({
            "type": "mcp", "server_label": label, "server_url": url, "server_description": null, "connector_id": null,
            "allowed_tools": allowed, "require_approval": approval, "headers": null,
        })
    };
    let expected = json!([
        server("files", Value::Null, json!(["read"]), json!("always")),
        server("web", json!("https://web"), Value::Null, Value::Null),
    ]);
    assert_eq!(echo["tools"], expected);
    let both = read(&json!({"input": "hi", "tool_choice": "required", "tools": [
        {"type": "function", "name": "f"}, {"type": "mcp", "server_label": "files"}]}));
    assert_eq!(both.params.get("tools"), Some(r#"[{"type":"function","function":{"name":"f"}}]"#));
    assert_eq!(both.params.get("tool_choice"), Some("\"required\""));
    assert_eq!((both.own_tool_params.0, both.servers), (vec![], vec!["files".to_owned()]));
}

#[test]
fn a_server_needs_a_label() {
    let bad = parse(br#"{"input":"hi","tools":[{"type":"mcp","server_url":"https://a"}]}"#).unwrap_err();
    assert_eq!(bad.param.as_deref(), Some("tools[0].server_label"));
}

#[test]
fn an_answer_to_a_question_leads_to_the_call() {
    let (kept, question) = question();
    assert_eq!(question, format!("mcpr_{}_0", id(10).uuid().simple()));
    for approve in [true, false] {
        let body = json!({"input": [
            {"type": "mcp_approval_response", "approval_request_id": question, "approve": approve, "reason": "so"}]});
        let body = body.to_string();
        assert_eq!(references(body.as_bytes()).unwrap(), std::slice::from_ref(&question));
        let request = parse_with(body.as_bytes(), &kept.clone().into()).unwrap();
        assert_eq!((request.messages, request.approvals), (vec![], vec![("call_7".into(), approve)]));
    }
}

#[test]
fn an_answer_that_leads_nowhere_is_refused_by_name() {
    let (kept, question) = question();
    let response = |id: &str| json!({"type": "mcp_approval_response", "approval_request_id": id, "approve": true});
    let refusal = |items: Value| {
        let bad = parse_with(json!({ "input": items }).to_string().as_bytes(), &kept.clone().into()).unwrap_err();
        format!("{} — {}", bad.param.unwrap_or_default(), bad.message)
    };
    insta::assert_snapshot!([
        refusal(json!([response("mcpr_1")])),
        refusal(json!([response(&question), response(&question)])),
        refusal(json!([{"type": "mcp_approval_response", "approve": true}])),
        refusal(json!([{"type": "mcp_approval_response", "approval_request_id": question}])),
        refusal(json!([{"type": "mcp_approval_response", "approval_request_id": question, "approve": "yes"}])),
    ].join("\n"), @r"
    input[0].approval_request_id — `input[0].approval_request_id` is not the id of an approval request that is kept here
    input[1].approval_request_id — `input[1].approval_request_id` is answered by an earlier item
    input[0].approval_request_id — `input[0].approval_request_id` is required
    input[0].approve — `input[0].approve` is required
    input[0].approve — `input[0].approve` must be true or false
    ");
}

#[test]
fn an_answer_that_is_sent_again_is_one_message_without_its_calls() {
    let call = json!({"type": "mcp_call", "id": "mcp_1", "server_label": "s", "name": "t", "arguments": "{}"});
    let text = |text: &str| json!({"type": "message", "role": "assistant", "content": text});
    let request = read(&json!({"input": [
        {"role": "user", "content": "hi"},
        {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "s", "tools": []},
        text("One."), call, call, text("Two."),
        {"role": "user", "content": "and?"},
        call, text("Three."), text("Four."),
        {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "s", "name": "t", "arguments": "{}"},
    ]}));
    insta::assert_snapshot!(payloads(&request).join("\n"), @r#"
    {"role":"user","content":"hi"}
    {"role":"assistant","content":"One.\n\nTwo."}
    {"role":"user","content":"and?"}
    {"role":"assistant","content":"Three."}
    {"role":"assistant","content":"Four."}
    "#);
    let both = read(&json!({"input": [
        {"role": "user", "content": "hi"}, text("One."), call,
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
    ]}));
    assert_eq!(both.messages.len(), 2);
    assert!(payloads(&both)[1].contains(r#""content":"One.","tool_calls":[{"id":"c""#), "{:?}", payloads(&both));
}
