//! The server's log on stderr: one line per request, a warning for each failure, and never message text.

use herma_testkit::{Client, Completion, Herma, Reply};
use serde_json::{Value, json};

use crate::support::{CHAT, CONVERSATION_ID, World, chat, error, streamed, user};

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
    let world = World::with_settings(JSON).await;
    world.upstream.push(Completion::text("fine").usage(7, 3).into());
    let client = identified(world.in_session("trip"), "req-whole");
    let answer = client.post_json(CHAT, &chat(&[user(PROMPT)])).await;
    let whole = line(&world.herma, "req-whole").await;
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

    identified(world.client(), "req-row").get("/api/sessions/trip").await.expect(200);
    let row = line(&world.herma, "req-row").await;
    assert_eq!((&row["route"], &row["conversation"]), (&json!("/api/sessions/{alias}"), &whole["conversation"]));
    identified(world.client(), "req-none").get("/nowhere/swordfish").await.expect(404);
    let none = line(&world.herma, "req-none").await;
    assert_eq!((&none["route"], &none["status"], &none["error"]), (&json!("none"), &json!(404), &json!("not_found")));
    assert!(!world.herma.stderr().contains("swordfish"), "{}", world.herma.stderr());
}

#[tokio::test]
async fn a_stream_is_logged_when_it_ends() {
    let world = World::with_settings(JSON).await;
    let gate = herma_testkit::Gate::new();
    let pace = herma_testkit::upstream::Pace::Gated(gate.clone());
    world.upstream.push(Completion::chunks(["a ", "b"]).usage(5, 2).pace(pace).into());
    gate.release(1);
    let client = identified(world.in_session("s"), "req-stream");
    let mut stream = client.post_stream(CHAT, &streamed(chat(&[user(PROMPT)]))).await;
    stream.next().await.expect("the first chunk");
    identified(world.client(), "req-after").get("/health").await.expect(200);
    world.herma.until_stderr("req-after").await;
    assert!(!world.herma.stderr().contains("req-stream"), "{}", world.herma.stderr());
    gate.release(1);
    stream.rest().await;
    let line = line(&world.herma, "req-stream").await;
    assert_eq!((&line["status"], &line["input_tokens"], &line["output_tokens"]), (&json!(200), &json!(5), &json!(2)));
    assert!(line["conversation"].is_string() && line["disconnected"].is_null(), "{line}");
}

#[tokio::test]
async fn a_client_that_leaves_its_stream_is_logged_as_such() {
    let world = World::with_settings(JSON).await;
    world.upstream.push(Reply::hang_after(1));
    let client = identified(world.in_session("s"), "req-left");
    let mut stream = client.post_stream(CHAT, &streamed(chat(&[user(PROMPT)]))).await;
    stream.next().await.expect("the first chunk");
    drop(stream);
    assert_eq!(line(&world.herma, "req-left").await["disconnected"], true);
}

#[tokio::test]
async fn a_failing_model_server_is_a_warning_that_does_not_repeat_the_prompt() {
    let retries = |count| [("HERMA_TELEMETRY__FORMAT", "json"), ("HERMA_UPSTREAM__RETRIES", count)];
    let world = World::with_settings(&retries("0")).await;
    let says = format!("cannot answer: {PROMPT}");
    for reply in [
        Reply::status(400, &says),
        Reply::garbage(json!({"choices": PROMPT}).to_string()),
        Reply::garbage(PROMPT),
        Reply::error_after(1, &says),
    ] {
        let before = warnings(&world.herma).len();
        world.upstream.push(reply);
        let answer = identified(world.in_session("s"), &format!("req-{before}"));
        let answer = answer.post_json(CHAT, &chat(&[user(PROMPT)])).await;
        error(&answer, 502);
        let line = line(&world.herma, &format!("req-{before}")).await;
        assert_eq!((&line["status"], &line["error"]), (&json!(502), &json!("upstream_error")));
        let warned = warnings(&world.herma);
        assert!(warned.len() > before, "{}", world.herma.stderr());
        assert_eq!(warned.last().map(|warning| &warning["model"]), Some(&json!("scripted")), "{warned:?}");
        assert!(warned.last().is_some_and(|warning| warning["conversation"].is_string()), "{warned:?}");
    }
    let World { herma, upstream, .. } = World::with_settings(&retries("1")).await;
    upstream.stop().await;
    let answer = herma.client().header("x-request-id", "req-dead").post_json(CHAT, &chat(&[user(PROMPT)])).await;
    error(&answer, 502);
    line(&herma, "req-dead").await;
    let told = warnings(&herma);
    assert_eq!(told.len(), 2, "one warning for the first try, one for the last: {told:?}");
    assert!(told[1]["why"].as_str().is_some_and(|why| why.contains("cannot be reached")), "{told:?}");
    for herma in [&world.herma, &herma] {
        assert!(!herma.stderr().contains("swordfish"), "{}", herma.stderr());
    }
}

#[tokio::test]
async fn a_refused_key_is_a_warning_without_the_key() {
    let world = World::start().await;
    let stranger = Client::new(world.herma.base_url().to_owned()).key("hk-not-a-key-swordfish");
    identified(stranger, "req-refused").get("/v1/models").await.expect(401);
    world.herma.until_stderr("req-refused").await;
    let stderr = world.herma.stderr();
    assert!(stderr.contains("WARN") && stderr.contains("an API key was refused"), "{stderr}");
    assert!(stderr.contains("status=401") && stderr.contains(r#"error="invalid_api_key""#), "{stderr}");
    assert!(!stderr.contains("swordfish") && !stderr.contains("test-key"), "{stderr}");
}

#[tokio::test]
async fn a_server_that_is_to_log_warnings_alone_is_silent_about_requests() {
    let world = World::with_settings(&[("HERMA_LOG", "warn")]).await;
    world.say("s", PROMPT).await.expect(200);
    identified(Client::new(world.herma.base_url().to_owned()), "req-x").get("/v1/models").await.expect(401);
    world.herma.until_stderr("an API key was refused").await;
    assert!(!world.herma.stderr().contains("INFO"), "{}", world.herma.stderr());
}
