//! Traces of `herma chat` and `herma acp`. Both send the last spans when they end, and wait little for that.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use herma_testkit::ScriptedUpstream;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::collector::{Collector, Manner, attribute, hex};
use super::{PARENT, PARENT_SPAN, TRACE};

/// More than a command takes on a busy machine, and less than a request to the collector may take.
const SOON: Duration = Duration::from_secs(8);

/// A command whose model is scripted, and whose traces go to the collector.
fn command(arguments: &[&str], data: &TempDir, upstream: &ScriptedUpstream, collector: &Collector) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_herma"));
    command.args(arguments).arg("--data").arg(data.path());
    command.env("HERMA_UPSTREAM", upstream.base_url()).env("HERMA_MODEL", "scripted");
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url());
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_in_the_terminal_is_a_trace() {
    let (upstream, collector) = (ScriptedUpstream::start().await, Collector::start().await);
    let data = TempDir::new().expect("a directory");
    let mut chat = command(&["chat", "the password is swordfish"], &data, &upstream, &collector);
    let said = tokio::task::block_in_place(|| chat.output()).expect("a chat");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let received = collector.received();
    let (turn, call) = (received.span("turn"), received.span("chat scripted"));
    assert_eq!(call.parent_span_id, turn.span_id);
    assert_eq!(attribute(turn, "herma.outcome"), "completed");
    let sent = upstream.last_request().header("traceparent").map(str::to_owned);
    assert_eq!(sent, Some(format!("00-{}-{}-01", hex(&turn.trace_id), hex(&call.span_id))));
    assert!(received.heads.iter().all(|head| head.starts_with("POST /v1/traces ")), "a command has no metrics");
    assert!(!String::from_utf8_lossy(&received.bytes).contains("swordfish"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_hangs_keeps_nobody_at_the_terminal() {
    let (upstream, collector) = (ScriptedUpstream::start().await, Collector::start().await);
    collector.answers_by(Manner::Hangs);
    let data = TempDir::new().expect("a directory");
    let began = Instant::now();
    let mut chat = command(&["chat", "hello"], &data, &upstream, &collector);
    let said = tokio::task::block_in_place(|| chat.output()).expect("a chat");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    let told = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success() && told.contains("not all traces could be sent to the collector"), "{told}");
    assert!(!told.contains("WARN"), "no line of the log stands between prompts\n{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_of_an_editor_is_a_span_of_the_editors_trace() {
    let (upstream, collector) = (ScriptedUpstream::start().await, Collector::start().await);
    let data = TempDir::new().expect("a directory");
    let mut acp = command(&["acp"], &data, &upstream, &collector);
    tokio::task::block_in_place(|| {
        let mut agent = acp.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("an agent");
        let mut stdin = agent.stdin.take().expect("stdin");
        let mut lines = BufReader::new(agent.stdout.take().expect("stdout")).lines();
        let mut call = |method: &str, params: Value| -> Value {
            writeln!(stdin, "{}", json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params})).unwrap();
            loop {
                let message: Value = serde_json::from_str(&lines.next().expect("an answer").unwrap()).unwrap();
                if message["id"] == method {
                    return message["result"].clone();
                }
            }
        };
        call("initialize", json!({"protocolVersion": 1, "clientCapabilities": {}}));
        let session = call("session/new", json!({"cwd": data.path(), "mcpServers": []}))["sessionId"].clone();
        let prompt = json!([{"type": "text", "text": "hello"}]);
        let meta = json!({"traceparent": PARENT});
        let answer = call("session/prompt", json!({"sessionId": session, "prompt": prompt, "_meta": meta}));
        assert_eq!(answer["stopReason"], "end_turn");
        drop(stdin);
        assert!(agent.wait().expect("an end").success());
    });
    let received = collector.received();
    let (prompt, turn, call) = (received.span("session/prompt"), received.span("turn"), received.span("chat scripted"));
    assert_eq!((hex(&prompt.trace_id).as_str(), hex(&prompt.parent_span_id).as_str()), (TRACE, PARENT_SPAN));
    assert_eq!((&turn.parent_span_id, &call.parent_span_id), (&prompt.span_id, &turn.span_id));
}
