//! The server's log on stderr: one line per request, a warning for each failure, and never message text.

use herma_testkit::{Client, Completion, Herma, Reply};
use serde_json::{Value, json};

use crate::support::{CHAT, CONVERSATION_ID, TestGateway, chat, error, streamed, user};

const JSON: &[(&str, &str)] = &[("HERMA_TELEMETRY__FORMAT", "json")];
/// A prompt that must not be in any log.
const PROMPT: &str = "the password of the safe is swordfish";

/// The log line of the request with this id; waits until it is written.
async fn line(herma: &Herma, request_id: &str) -> Value {
    herma.until_stderr(request_id).await;
    let lines: Vec<Value> = events(herma).into_iter().filter(|event| event["request_id"] == request_id).collect();
    let [line] = lines.as_slice() else { panic!("one line was to be written: {lines:?}") };
    line.clone()
}

/// Everything that was logged so far.
fn events(herma: &Herma) -> Vec<Value> {
    herma.stderr().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn warnings(herma: &Herma) -> Vec<Value> {
    events(herma).into_iter().filter(|event| event["level"] == "WARN").collect()
}

fn identified(client: Client, id: &str) -> Client {
    client.header("x-request-id", id)
}

#[tokio::test]
async fn every_request_is_one_line_with_what_it_was_and_cost() {
    let gateway = TestGateway::with_settings(JSON).await;
    gateway.upstream.push(Completion::text("fine").usage(7, 3).into());
    let client = identified(gateway.in_session("trip"), "req-whole");
    let answer = client.post_json(CHAT, &chat(&[user(PROMPT)])).await;
    let whole = line(&gateway.herma, "req-whole").await;
    assert_eq!(
        whole,
        json!({
            "timestamp": whole["timestamp"], "level": "INFO", "target": "herma_http::request_log", "message": "request",
            "method": "POST", "route": "/v1/chat/completions", "status": 200,
            "conversation": answer.header(CONVERSATION_ID),
            "model": "scripted", "milliseconds": whole["milliseconds"], "input_tokens": 7, "output_tokens": 3,
            "request_id": "req-whole",
        })
    );
    assert!(whole["milliseconds"].is_u64() && whole["timestamp"].as_str().is_some_and(|time| time.ends_with('Z')));

    identified(gateway.client(), "req-row").get("/api/sessions/trip").await.expect(200);
    let row = line(&gateway.herma, "req-row").await;
    assert_eq!((&row["route"], &row["conversation"]), (&json!("/api/sessions/{alias}"), &whole["conversation"]));
    identified(gateway.client(), "req-none").get("/nowhere/swordfish").await.expect(404);
    let none = line(&gateway.herma, "req-none").await;
    assert_eq!((&none["route"], &none["status"], &none["error"]), (&json!("none"), &json!(404), &json!("not_found")));
    assert!(!gateway.herma.stderr().contains("swordfish"), "{}", gateway.herma.stderr());
}

#[tokio::test]
async fn a_stream_is_logged_when_it_ends() {
    let gateway = TestGateway::with_settings(JSON).await;
    let gate = herma_testkit::Gate::new();
    let pace = herma_testkit::upstream::Pace::Gated(gate.clone());
    gateway.upstream.push(Completion::chunks(["a ", "b"]).usage(5, 2).pace(pace).into());
    gate.release(1);
    let client = identified(gateway.in_session("s"), "req-stream");
    let mut stream = client.post_stream(CHAT, &streamed(chat(&[user(PROMPT)]))).await;
    stream.next().await.expect("the first chunk");
    identified(gateway.client(), "req-after").get("/health").await.expect(200);
    gateway.herma.until_stderr("req-after").await;
    assert!(!gateway.herma.stderr().contains("req-stream"), "{}", gateway.herma.stderr());
    gate.release(1);
    stream.rest().await;
    let line = line(&gateway.herma, "req-stream").await;
    assert_eq!((&line["status"], &line["input_tokens"], &line["output_tokens"]), (&json!(200), &json!(5), &json!(2)));
    assert!(line["conversation"].is_string() && line["disconnected"].is_null(), "{line}");
}

#[tokio::test]
async fn a_client_that_leaves_its_stream_is_logged_as_such() {
    let gateway = TestGateway::with_settings(JSON).await;
    gateway.upstream.push(Reply::hang_after(1));
    let client = identified(gateway.in_session("s"), "req-left");
    let mut stream = client.post_stream(CHAT, &streamed(chat(&[user(PROMPT)]))).await;
    stream.next().await.expect("the first chunk");
    drop(stream);
    assert_eq!(line(&gateway.herma, "req-left").await["disconnected"], true);
}

#[tokio::test]
async fn a_failing_model_server_is_a_warning_that_does_not_repeat_the_prompt() {
    let retries = |count| [("HERMA_TELEMETRY__FORMAT", "json"), ("HERMA_UPSTREAM__RETRIES", count)];
    let gateway = TestGateway::with_settings(&retries("0")).await;
    let says = format!("cannot answer: {PROMPT}");
    for reply in [
        Reply::status(400, &says),
        Reply::garbage(json!({"choices": PROMPT}).to_string()),
        Reply::garbage(PROMPT),
        Reply::error_after(1, &says),
    ] {
        let before = warnings(&gateway.herma).len();
        gateway.upstream.push(reply);
        let answer = identified(gateway.in_session("s"), &format!("req-{before}"));
        let answer = answer.post_json(CHAT, &chat(&[user(PROMPT)])).await;
        error(&answer, 502);
        let line = line(&gateway.herma, &format!("req-{before}")).await;
        assert_eq!((&line["status"], &line["error"]), (&json!(502), &json!("upstream_error")));
        let warned = warnings(&gateway.herma);
        assert!(warned.len() > before, "{}", gateway.herma.stderr());
        assert_eq!(warned.last().map(|warning| &warning["model"]), Some(&json!("scripted")), "{warned:?}");
        assert!(warned.last().is_some_and(|warning| warning["conversation"].is_string()), "{warned:?}");
    }
    let TestGateway { herma, upstream, .. } = TestGateway::with_settings(&retries("1")).await;
    upstream.stop().await;
    let answer = herma.client().header("x-request-id", "req-dead").post_json(CHAT, &chat(&[user(PROMPT)])).await;
    error(&answer, 502);
    line(&herma, "req-dead").await;
    let told = warnings(&herma);
    assert_eq!(told.len(), 2, "one warning for the first try, one for the last: {told:?}");
    assert!(told[1]["why"].as_str().is_some_and(|why| why.contains("cannot be reached")), "{told:?}");
    for herma in [&gateway.herma, &herma] {
        assert!(!herma.stderr().contains("swordfish"), "{}", herma.stderr());
    }
}

#[tokio::test]
async fn a_refused_key_is_a_warning_without_the_key() {
    let gateway = TestGateway::start().await;
    let stranger = Client::new(gateway.herma.base_url().to_owned()).key("hk-not-a-key-swordfish");
    identified(stranger, "req-refused").get("/v1/models").await.expect(401);
    gateway.herma.until_stderr("req-refused").await;
    let stderr = gateway.herma.stderr();
    assert!(stderr.contains("WARN") && stderr.contains("an API key was refused"), "{stderr}");
    assert!(stderr.contains("status=401") && stderr.contains(r#"error="invalid_api_key""#), "{stderr}");
    assert!(!stderr.contains("swordfish") && !stderr.contains("test-key"), "{stderr}");
}

#[tokio::test]
async fn a_server_that_is_to_log_warnings_alone_is_silent_about_requests() {
    let gateway = TestGateway::with_settings(&[("HERMA_LOG", "warn")]).await;
    gateway.say("s", PROMPT).await.expect(200);
    identified(Client::new(gateway.herma.base_url().to_owned()), "req-x").get("/v1/models").await.expect(401);
    gateway.herma.until_stderr("an API key was refused").await;
    assert!(!gateway.herma.stderr().contains("INFO"), "{}", gateway.herma.stderr());
}
