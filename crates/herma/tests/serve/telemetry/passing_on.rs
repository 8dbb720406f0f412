//! `traceparent` goes from the client to the model server and to tools, also if no telemetry is sent.

use herma_testkit::{McpServer, Reply, ToolCall};
use serde_json::{Value, json};

use super::{Observed, PARENT, TRACE};
use crate::support::{CHAT, TestGateway, chat, user};

const STATE: &str = "vendor=1,other=x";

#[tokio::test]
async fn without_an_endpoint_the_callers_place_is_passed_on_unchanged() {
    let gateway = TestGateway::with_settings(&[("HERMA_TELEMETRY__FORMAT", "json")]).await;
    let client = gateway.client().header("traceparent", PARENT).header("tracestate", STATE);
    let client = client.header("x-request-id", "req-traced");
    client.post_json(CHAT, &chat(&[user("hello")])).await.expect(200);
    let sent = gateway.upstream.last_request();
    assert_eq!((sent.header("traceparent"), sent.header("tracestate")), (Some(PARENT), Some(STATE)));
    assert_eq!(sent.messages(), [user("hello")], "it is no model input");
    gateway.herma.until_stderr("req-traced").await;
    let line = gateway.herma.stderr().lines().find(|line| line.contains("req-traced")).expect("a line").to_owned();
    assert_eq!(serde_json::from_str::<Value>(&line).expect("JSON")["trace_id"], TRACE);
    // What is passed on by itself has no trace either.
    let body = json!({"model": "scripted", "input": "x"});
    client.post_json("/v1/embeddings", &body).await;
    assert_eq!(gateway.upstream.last_request().header("traceparent"), Some(PARENT));
}

#[tokio::test]
async fn a_call_that_is_repeated_stays_in_its_trace() {
    let gateway = TestGateway::start().await;
    gateway.upstream.push(Reply::status(503, "later"));
    let client = gateway.client().header("traceparent", PARENT);
    client.post_json(CHAT, &chat(&[user("hello")])).await.expect(200);
    let sent = gateway.upstream.requests();
    assert_eq!(sent.iter().map(|request| request.header("traceparent")).collect::<Vec<_>>(), [Some(PARENT); 2]);
}

#[tokio::test]
async fn no_place_or_a_malformed_one_is_none() {
    let gateway = TestGateway::start().await;
    for client in [gateway.client(), gateway.client().header("traceparent", "00-nonsense-01")] {
        client.post_json(CHAT, &chat(&[user("hello")])).await.expect(200);
        assert_eq!(gateway.upstream.last_request().header("traceparent"), None);
    }
}

#[tokio::test]
async fn passing_on_can_be_turned_off() {
    let observed = Observed::start(&[("HERMA_TELEMETRY__PASS_ON_TRACEPARENT", "false")]).await;
    let client = observed.herma.client().header("traceparent", PARENT).header("tracestate", STATE);
    client.post_json(CHAT, &chat(&[user("hello")])).await.expect(200);
    let sent = observed.upstream.last_request();
    assert_eq!((sent.header("traceparent"), sent.header("tracestate")), (None, None));
}

#[tokio::test]
async fn a_caller_that_records_nothing_is_followed() {
    let mut observed = Observed::start(&[]).await;
    let unsampled = PARENT.replace("-01", "-00");
    let client = observed.herma.client().header("traceparent", &unsampled);
    client.post_json(CHAT, &chat(&[user("hello")])).await.expect(200);
    assert_eq!(observed.upstream.last_request().header("traceparent"), Some(unsampled.as_str()));
    observed.stop().await;
    assert_eq!(observed.collector.received().spans, []);
}

#[tokio::test]
async fn a_tool_server_is_told_of_the_trace_in_meta() {
    let server = McpServer::stdio();
    let data = tempfile::TempDir::new().expect("a directory");
    let config = json!({"tools": {"mcp": {"kit": {
        "command": server.command(), "args": server.args(), "approval": "auto",
    }}}});
    let file = data.path().join("herma.toml");
    std::fs::write(&file, toml::to_string(&config).expect("TOML")).expect("a file");
    let path = file.to_str().expect("a path");
    let gateway = TestGateway::with_settings(&[("HERMA_CONFIG", path)]).await;
    gateway.upstream.push(Reply::tool_calls([ToolCall::new("call_1", "kit__echo", r#"{"text":"x"}"#)]));
    let client = gateway.client().header("traceparent", PARENT);
    client.post_json(CHAT, &chat(&[user("call it")])).await.expect(200);
    assert_eq!(server.logged(&format!("traceparent {PARENT}")), 1, "{:?}", server.log());
}
