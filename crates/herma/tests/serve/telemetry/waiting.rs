//! A turn that waits keeps its trace: in line behind another turn, and parked until a person answers.

use herma_testkit::{Gate, McpServer, Reply, ToolCall};
use serde_json::json;

use super::collector::{attribute, hex};
use super::{Observed, PARENT, PARENT_SPAN, TRACE};
use crate::support::{CHAT, SESSION_ID, chat, user};

const RUNS: &str = "/v1/runs";

/// Asks until the answer is the wanted one.
async fn until(what: &str, mut asked: impl AsyncFnMut() -> bool) {
    let asking = async {
        while !asked().await {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(herma_testkit::PATIENCE, asking).await.unwrap_or_else(|_| panic!("never {what}"));
}

#[tokio::test]
async fn a_turn_that_waits_in_line_and_is_parked_and_resumed_is_one_trace() {
    let server = McpServer::stdio();
    let directory = tempfile::TempDir::new().expect("a directory");
    let config = json!({"tools": {"mcp": {"kit": {
        "command": server.command(), "args": server.args(), "approval": "ask",
    }}}});
    let file = directory.path().join("herma.toml");
    std::fs::write(&file, toml::to_string(&config).expect("TOML")).expect("a file");
    let mut observed = Observed::start(&[("HERMA_CONFIG", file.to_str().expect("a path"))]).await;
    let client = observed.herma.client();
    let gate = Gate::new();
    observed.upstream.push(Reply::text("first").held(&gate));
    observed.upstream.push(Reply::tool_calls([ToolCall::new("call_1", "kit__echo", r#"{"text":"x"}"#)]));
    observed.upstream.push(Reply::text("done"));
    let ahead = {
        let client = client.clone().header(SESSION_ID, "trip");
        tokio::spawn(async move { client.post_json(CHAT, &chat(&[user("one")])).await })
    };
    observed.upstream.until_requests(1).await;
    let body = json!({"model": "scripted", "input": "two", "session_id": "trip"});
    let begun = client.clone().header("traceparent", PARENT).post_json(RUNS, &body).await.expect(202);
    let run = format!("{RUNS}/{}", begun["run_id"].as_str().expect("an id"));
    until("in line", async || client.get("/metrics").await.text().contains("herma_waiting_turns 1")).await;
    gate.open();
    ahead.await.expect("an answer").expect(200);
    let has_status = async |status: &str| client.get(&run).await.expect(200)["status"] == status;
    until("parked", async || has_status("waiting_for_approval").await).await;
    client.post_json(&format!("{run}/approval"), &json!({"choice": "once"})).await.expect(200);
    until("completed", async || has_status("completed").await).await;
    observed.stop().await;

    let received = observed.collector.received();
    let of_trace: Vec<_> = received.spans.iter().filter(|span| hex(&span.trace_id) == TRACE).collect();
    let named = |name: &str| of_trace.iter().copied().filter(move |span| span.name == name).collect::<Vec<_>>();
    let request = named("POST /v1/runs");
    assert_eq!(hex(&request[0].parent_span_id), PARENT_SPAN);
    let turns = named("turn");
    let [parked, resumed] = turns[..] else { panic!("{turns:?}") };
    assert_eq!(parked.parent_span_id, request[0].span_id);
    assert_eq!(attribute(parked, "herma.outcome"), "parked");
    assert_eq!(resumed.parent_span_id, parked.span_id, "the rest of the turn belongs to its beginning");
    assert_eq!(
        (attribute(resumed, "herma.turn.resumed"), attribute(resumed, "herma.outcome")),
        ("true".into(), "completed".into())
    );
    assert_eq!(attribute(resumed, "herma.turn.id"), attribute(parked, "herma.turn.id"));
    let calls = named("chat scripted");
    let [before, after] = calls[..] else { panic!("{calls:?}") };
    assert_eq!((&before.parent_span_id, &after.parent_span_id), (&parked.span_id, &resumed.span_id));
    assert!(named("admission")[0].end_time_unix_nano <= before.start_time_unix_nano, "the wait in line comes first");
    let tools = named("execute_tool echo");
    assert_eq!((tools.len(), &tools[0].parent_span_id), (1, &resumed.span_id));
    assert_eq!(
        server.logged(&format!("traceparent 00-{TRACE}-{}-01", hex(&tools[0].span_id))),
        1,
        "{:?}",
        server.log()
    );
    for request in &observed.upstream.requests()[1..] {
        assert!(request.header("traceparent").is_some_and(|sent| sent.contains(TRACE)), "{request:?}");
    }
}
