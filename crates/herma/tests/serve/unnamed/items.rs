//! Clients that add items to a conversation and then ask without naming it, as the Agents SDK does.

use herma_testkit::{Reply, ToolCall};
use serde_json::{Value, json};

use super::{RESPONSES, item, session};
use crate::support::{TestGateway, lines};

const CONVERSATIONS: &str = "/v1/conversations";

#[tokio::test]
async fn items_that_were_added_are_answered_by_a_request_that_repeats_them() {
    let mut gateway = TestGateway::start().await;
    let made = gateway.client().post_json(CONVERSATIONS, &json!({"items": []})).await.expect(200);
    let items = format!("{CONVERSATIONS}/{}/items", made["id"].as_str().unwrap());
    let mut history: Vec<Value> = Vec::new();
    for (question, answer) in [("one", "two"), ("three", "four")] {
        let asked = item("user", question);
        gateway.client().post_json(&items, &json!({"items": [asked]})).await.expect(200);
        history.push(asked);
        gateway.upstream.push(Reply::text(answer));
        let body = gateway.client().post_json(RESPONSES, &json!({"model": "m", "input": history})).await.expect(200);
        assert_eq!(session(&body), (made["id"].as_str().unwrap().to_owned(), "head"));
        let answered = item("assistant", answer);
        let added = gateway.client().post_json(&items, &json!({"items": [answered]})).await.expect(200);
        assert_eq!(added["data"][0]["id"], body["output"][0]["id"], "that item is there already");
        history.push(answered);
        gateway.restart().await;
    }
    let said = ["user: one", "assistant: two", "user: three", "assistant: four"];
    assert_eq!(gateway.transcript(made["id"].as_str().unwrap()).await, said);
    assert_eq!(gateway.sessions().await.len(), 1);
}

#[tokio::test]
async fn calls_and_results_that_were_added_are_known() {
    let gateway = TestGateway::start().await;
    let made = gateway.client().post_json(CONVERSATIONS, &json!({"items": [item("user", "go")]})).await.expect(200);
    let items = format!("{CONVERSATIONS}/{}/items", made["id"].as_str().unwrap());
    gateway.upstream.push(Reply::tool_calls([ToolCall::new("x", "look", "{}")]));
    let tools = json!([{"type": "function", "name": "look", "parameters": {"type": "object"}}]);
    let ask = |input: Value| json!({"model": "m", "input": input, "tools": tools});
    let first = gateway.client().post_json(RESPONSES, &ask(json!([item("user", "go")]))).await.expect(200);
    assert_eq!(session(&first).0, made["id"].as_str().unwrap());
    let call = json!({"type": "function_call", "call_id": "x", "name": "look", "arguments": "{}"});
    let output = json!({"type": "function_call_output", "call_id": "x", "output": "found"});
    gateway.client().post_json(&items, &json!({"items": [call, output]})).await.expect(200);
    gateway.upstream.push(Reply::text("done"));
    let input = json!([item("user", "go"), call, output]);
    let second = gateway.client().post_json(RESPONSES, &ask(input)).await.expect(200);
    assert_eq!(session(&second), (made["id"].as_str().unwrap().to_owned(), "head"));
    let said = ["user: go", "assistant x=look({})", "tool x: found", "assistant: done"];
    assert_eq!(gateway.transcript(made["id"].as_str().unwrap()).await, said);
    assert_eq!(lines(gateway.upstream.last_request().messages()).len(), 3);
}
