//! What the spans of a turn are, and what they do not say.

use herma_testkit::{Completion, Launch, Reply, ToolCall};
use serde_json::json;

use super::collector::{Collector, attribute, hex};
use super::{Observed, PARENT, PARENT_SPAN, TRACE};
use crate::support::{CHAT, CONVERSATION_ID, SESSION_ID, SESSION_KEY, chat, error, streamed, user};

/// What must not be in any span.
const SECRETS: [&str; 5] = ["swordfish", "halibut", "test-key", "a title of mine", "agent:main:secret"];

#[tokio::test]
async fn a_turn_is_a_tree_of_spans_under_the_callers_own() {
    let mut observed =
        Observed::start(&[("OTEL_SERVICE_NAME", "gate"), ("OTEL_RESOURCE_ATTRIBUTES", "team=a%20b")]).await;
    observed.upstream.push(Completion::text("the halibut is fine").usage(7, 3).into());
    let client = observed.herma.client().header("traceparent", PARENT).header(SESSION_ID, "trip");
    let client = client.header(SESSION_KEY, "agent:main:secret");
    let answer = client.post_json(CHAT, &chat(&[user("the password is swordfish")])).await;
    answer.expect(200);
    observed.stop().await;
    let received = observed.collector.received();
    let request = received.span("POST /v1/chat/completions");
    let [turn, admission, recall, call, commit] =
        ["turn", "admission", "recall", "chat scripted", "commit"].map(|name| received.span(name));
    assert_eq!(hex(&request.parent_span_id), PARENT_SPAN);
    assert_eq!(turn.parent_span_id, request.span_id);
    for child in [admission, recall, call, commit] {
        assert_eq!(child.parent_span_id, turn.span_id, "{}", child.name);
        assert!(child.start_time_unix_nano >= turn.start_time_unix_nano, "{child:?}");
        assert!(child.end_time_unix_nano <= turn.end_time_unix_nano, "{child:?}");
    }
    assert!(received.spans.iter().all(|span| hex(&span.trace_id) == TRACE));
    assert_eq!((request.kind, turn.kind, call.kind), (2, 1, 3));
    assert_eq!(attribute(request, "http.response.status_code"), "200");
    let conversation = answer.header(CONVERSATION_ID).expect("a conversation");
    assert_eq!(attribute(turn, "gen_ai.conversation.id"), conversation);
    assert!(attribute(turn, "herma.turn.id").starts_with("turn_"), "{turn:?}");
    assert_eq!(attribute(turn, "herma.outcome"), "completed");
    for (name, value) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.request.model", "scripted"),
        ("gen_ai.usage.input_tokens", "7"),
        ("gen_ai.usage.output_tokens", "3"),
        ("gen_ai.response.finish_reasons", "1 values"),
        ("gen_ai.conversation.id", conversation),
        ("server.address", "127.0.0.1"),
        ("herma.purpose", "turn"),
    ] {
        assert_eq!(attribute(call, name), value, "{name}");
    }
    let of_resource = |name: &str| received.resource.iter().find(|(known, _)| known == name).map(|(_, value)| &**value);
    assert_eq!((of_resource("service.name"), of_resource("team")), (Some("gate"), Some("a b")));
    // The server is called with the place of the span of the call.
    let sent = format!("00-{TRACE}-{}-01", hex(&call.span_id));
    assert_eq!(observed.upstream.last_request().header("traceparent"), Some(sent.as_str()));
    let text = String::from_utf8_lossy(&received.bytes);
    for secret in SECRETS {
        assert!(!text.contains(secret), "{secret}");
    }
}

#[tokio::test]
async fn a_tool_call_is_a_span_and_its_children_keep_the_trace() {
    let mut observed = Observed::start(&[("HERMA_TOOLS__BUILTIN", "delegate_task")]).await;
    let arguments = json!({"tasks": [{"goal": "catch a halibut"}]}).to_string();
    observed.upstream.push(Reply::tool_calls([ToolCall::new("call_1", "delegate_task", arguments)]));
    observed.upstream.push(Reply::text("caught the swordfish"));
    observed.upstream.push(Reply::text("done"));
    let client = observed.herma.client().header("traceparent", PARENT);
    client.post_json(CHAT, &chat(&[user("delegate it")])).await.expect(200);
    observed.stop().await;
    let received = observed.collector.received();
    let tool = received.span("execute_tool delegate_task");
    assert_eq!(
        (attribute(tool, "gen_ai.tool.call.id"), attribute(tool, "herma.tool.status")),
        ("call_1".into(), "done".into())
    );
    let turns: Vec<_> = received.spans.iter().filter(|span| span.name == "turn").collect();
    let child = turns.iter().find(|turn| turn.parent_span_id == tool.span_id).expect("the child's turn");
    let parent = turns.iter().find(|turn| turn.span_id == tool.parent_span_id).expect("the parent's turn");
    assert_eq!((turns.len(), hex(&child.trace_id), hex(&parent.trace_id)), (2, TRACE.to_owned(), TRACE.to_owned()));
    let calls: Vec<_> = received.spans.iter().filter(|span| span.name == "chat scripted").collect();
    assert_eq!(calls.iter().filter(|call| call.parent_span_id == child.span_id).count(), 1);
    for request in observed.upstream.requests() {
        assert!(request.header("traceparent").is_some_and(|sent| sent.contains(TRACE)), "{request:?}");
    }
    let text = String::from_utf8_lossy(&received.bytes);
    assert!(SECRETS.iter().all(|secret| !text.contains(secret)));
}

#[tokio::test]
async fn a_compaction_and_its_summary_are_spans() {
    let collector = Collector::start().await;
    let launch = Launch::serve(env!("CARGO_BIN_EXE_herma")).args(["--context-window", "1500"]);
    let mut herma = launch.env("HERMA_TELEMETRY__OTLP_ENDPOINT", collector.url()).start().await;
    let client = herma.client().header(SESSION_ID, "trip");
    let long = |number: usize| format!("swordfish {number}: {}", "we saw one more thing. ".repeat(60));
    for number in 1..=6 {
        let mut body = chat(&[user(&long(number))]);
        body["model"] = json!("offline");
        client.post_json(CHAT, &body).await.expect(200);
    }
    herma.terminate();
    assert!(herma.wait().await.success());
    let received = collector.received();
    let compactions: Vec<_> = received.spans.iter().filter(|span| span.name == "compaction").collect();
    assert!(!compactions.is_empty(), "no compaction");
    let turns: Vec<_> = received.spans.iter().filter(|span| span.name == "turn").collect();
    for compaction in &compactions {
        assert_eq!(attribute(compaction, "herma.compaction.outcome"), "applied");
        assert!(turns.iter().any(|turn| turn.span_id == compaction.parent_span_id), "{compaction:?}");
    }
    // A summary is made within the compaction, or was prepared after the turn before it.
    let summaries: Vec<_> =
        received.spans.iter().filter(|span| attribute(span, "herma.purpose") == "summary").collect();
    assert!(!summaries.is_empty() && summaries.iter().all(|span| attribute(span, "gen_ai.provider.name") == "herma"));
    assert!(!String::from_utf8_lossy(&received.bytes).contains("swordfish"));
}

#[tokio::test]
async fn a_failure_is_a_word_and_not_the_servers_message() {
    let mut observed = Observed::start(&[("HERMA_UPSTREAM__RETRIES", "0")]).await;
    observed.upstream.push(Reply::status(500, "the halibut exploded"));
    let answer = observed.herma.client().post_json(CHAT, &chat(&[user("swordfish")])).await;
    error(&answer, 502);
    observed.stop().await;
    let received = observed.collector.received();
    for (name, code) in
        [("chat scripted", "status"), ("turn", "upstream_error"), ("POST /v1/chat/completions", "upstream_error")]
    {
        let span = received.span(name);
        assert_eq!(
            (attribute(span, "error.type").as_str(), span.status.as_ref().map(|status| status.code)),
            (code, Some(2)),
            "{name}"
        );
    }
    assert_eq!(attribute(received.span("chat scripted"), "http.response.status_code"), "500");
    let text = String::from_utf8_lossy(&received.bytes);
    assert!(SECRETS.iter().all(|secret| !text.contains(secret)));
}

#[tokio::test]
async fn a_stream_and_a_turn_that_waits_in_the_queue_keep_their_traces() {
    let mut observed = Observed::start(&[]).await;
    let gate = herma_testkit::Gate::new();
    observed.upstream.push(Reply::text("first").held(&gate));
    observed.upstream.push(Reply::text("second"));
    let client = observed.herma.client().header(SESSION_ID, "trip");
    let first = {
        let client = client.clone();
        tokio::spawn(async move { client.post_json(CHAT, &chat(&[user("one")])).await })
    };
    observed.upstream.until_requests(1).await;
    let second = client.header("traceparent", PARENT);
    let second =
        tokio::spawn(async move { second.post_stream(CHAT, &streamed(chat(&[user("two")]))).await.rest().await });
    let waiting = async {
        loop {
            let metrics = observed.herma.client().get("/metrics").await.text();
            if metrics.contains("herma_waiting_turns 1") {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(herma_testkit::PATIENCE, waiting).await.expect("a turn that waits");
    gate.open();
    first.await.expect("an answer").expect(200);
    second.await.expect("a stream");
    observed.stop().await;
    let received = observed.collector.received();
    let of_trace = |name: &str| received.spans.iter().find(|span| span.name == name && hex(&span.trace_id) == TRACE);
    let (admission, call) = (of_trace("admission").expect("a wait"), of_trace("chat scripted").expect("a call"));
    assert!(admission.end_time_unix_nano <= call.start_time_unix_nano);
    assert!(received.spans.iter().filter(|span| span.name == "turn").count() == 2);
    assert!(received.spans.iter().all(|span| !span.name.contains("/metrics")), "metrics are not traced");
}
