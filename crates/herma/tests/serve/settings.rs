//! Settings of the operator: origins, authentication, time limits, the context window.

use std::time::Duration;

use herma_testkit::{Client, Gate, Launch, Reply, ScriptedUpstream};
use serde_json::json;

use crate::support::{CHAT, SESSION_ID, chat, error, lines, user};

const RESPONSES: &str = "/v1/responses";

fn serve(upstream: &ScriptedUpstream) -> Launch {
    Launch::serve(env!("CARGO_BIN_EXE_herma")).upstream(&upstream.base_url())
}

/// Every header that a page may send to Herma, and one that SDKs add.
const REQUEST_HEADERS: &str = "authorization,content-type,x-hermes-session-id,x-hermes-conversation-id,\
x-hermes-session-key,x-hermes-turn-policy,x-hermes-memory,x-hermes-tools,x-hermes-session-kind,\
x-hermes-on-disconnect,x-hermes-events,idempotency-key,x-request-id,traceparent,if-match,last-event-id,\
x-stainless-lang";

#[tokio::test]
async fn pages_of_configured_origins_can_send_and_read_every_header() {
    let upstream = ScriptedUpstream::start().await;
    let herma = serve(&upstream).env("HERMA_SERVER__CORS_ORIGINS", "http://app.example").start().await;
    let preflight = |origin: &'static str| {
        Client::new(herma.base_url())
            .header("origin", origin)
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", REQUEST_HEADERS)
    };
    let allowed = preflight("http://app.example").send_json("OPTIONS", CHAT, &json!({})).await;
    assert_eq!(allowed.header("access-control-allow-origin"), Some("http://app.example"));
    let headers = allowed.header("access-control-allow-headers").unwrap();
    for name in REQUEST_HEADERS.split(',') {
        assert!(headers.contains(name), "{name} in {headers}");
    }
    let methods = allowed.header("access-control-allow-methods").unwrap();
    assert!(methods.contains("PUT") && methods.contains("DELETE"), "{methods}");
    let other = preflight("http://evil.example").send_json("OPTIONS", CHAT, &json!({})).await;
    assert_eq!(other.header("access-control-allow-origin"), None);

    let page = herma.client().header("origin", "http://app.example").header(SESSION_ID, "trip");
    let answer = page.post_json(CHAT, &chat(&[user("hi")])).await;
    answer.expect(200);
    let exposed = answer.header("access-control-expose-headers").unwrap();
    for name in [
        "x-hermes-session-id",
        "x-hermes-conversation-id",
        "x-hermes-session-key",
        "x-request-id",
        "etag",
        "retry-after",
        "x-should-retry",
    ] {
        assert!(exposed.contains(name), "{name} in {exposed}");
    }
}

#[tokio::test]
async fn every_answer_tells_browsers_not_to_cache_guess_frame_or_run_it() {
    let upstream = ScriptedUpstream::start().await;
    let herma = serve(&upstream).start().await;
    let client = herma.client();
    let answers = [
        client.post_json(CHAT, &chat(&[user("hi")])).await,
        client.get("/api/sessions").await,
        client.get("/openapi.json").await,
        client.get("/metrics").await,
        client.get("/health").await,
        client.get("/nowhere").await,
        client.send_json("PATCH", CHAT, &json!({})).await,
        Client::new(herma.base_url()).get("/api/sessions").await,
    ];
    for answer in answers {
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{}", answer.status);
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{}", answer.status);
        assert_eq!(answer.header("x-frame-options"), Some("DENY"), "{}", answer.status);
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"), "{}", answer.status);
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'"), "{policy}");
    }
    let stream = client.post_stream(CHAT, &crate::support::streamed(chat(&[user("hi")]))).await;
    assert_eq!(stream.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(stream.header("cache-control"), Some("no-cache"), "proxies must not hold a stream back");
}

#[tokio::test]
async fn a_configured_key_that_can_be_guessed_is_refused() {
    let upstream = ScriptedUpstream::start().await;
    for key in ["hunter2", "aaaaaaaaaaaaaaaa"] {
        let Err(ended) = serve(&upstream).key(key).try_start().await else { panic!("it started with {key}") };
        assert!(ended.stderr.contains("HERMA_API_KEY can be guessed: it needs at least 8"), "{}", ended.stderr);
        assert!(!ended.stderr.contains(key), "{}", ended.stderr);
    }
}

#[tokio::test]
async fn without_authentication_chat_works_and_session_headers_are_refused() {
    let upstream = ScriptedUpstream::start().await;
    let herma = serve(&upstream).without_key().arg("--no-auth").start().await;
    let anybody = Client::new(herma.base_url());
    anybody.post_json(CHAT, &chat(&[user("hi")])).await.expect(200);
    for name in ["x-hermes-session-id", "x-hermes-session-key", "x-hermes-conversation-id"] {
        let refused = anybody.clone().header(name, "trip").post_json(CHAT, &chat(&[user("hi")])).await;
        assert_eq!(error(&refused, 403)["code"], "session_headers_need_auth", "{name}");
    }
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn a_model_server_that_says_nothing_is_a_timeout_and_the_conversation_goes_on() {
    let upstream = ScriptedUpstream::start().await;
    let herma = serve(&upstream).env("HERMA_UPSTREAM__TIMEOUT", "200ms").start().await;
    let client = herma.client().header(SESSION_ID, "trip");
    upstream.push(Reply::Hang);
    let late = client.post_json(CHAT, &chat(&[user("hi")])).await;
    assert_eq!(error(&late, 504)["code"], "upstream_timeout");
    upstream.push(Reply::hang_after(1));
    let mut request = chat(&[user("hi")]);
    request["stream"] = json!(true);
    let events = client.post_stream(CHAT, &request).await.rest().await;
    let failed = events.iter().find(|event| event.data.contains("\"error\"")).expect("the stream's error");
    assert!(failed.data.contains("upstream_timeout"), "{}", failed.data);
    let rows = client.get("/api/sessions/trip/messages").await.expect(200)["data"].clone();
    let told: Vec<_> = rows.as_array().unwrap().iter().map(|row| row["turn_status"].as_str()).collect();
    assert_eq!(told, [Some("failed"); 2], "the full view says that the turn failed: {rows}");
    client.post_json(CHAT, &chat(&[user("and now?")])).await.expect(200);
}

#[tokio::test]
async fn what_cannot_fit_the_window_is_refused_and_leaves_nothing() {
    let upstream = ScriptedUpstream::start().await;
    let herma = serve(&upstream).args(["--context-window", "100"]).start().await;
    let client = herma.client();
    let long = client.clone().header(SESSION_ID, "trip").post_json(CHAT, &chat(&[user(&"word ".repeat(200))])).await;
    let refusal = error(&long, 400);
    assert_eq!(refusal["code"], "context_length_exceeded");
    assert!(refusal["message"].as_str().unwrap().contains("100"), "{refusal}");
    assert_eq!(client.get("/api/sessions").await.expect(200)["data"], json!([]));
    assert_eq!(upstream.requests().len(), 0);
}

#[tokio::test]
async fn a_drain_that_takes_too_long_interrupts_what_still_runs() {
    let upstream = ScriptedUpstream::start().await;
    let mut herma = serve(&upstream).env("HERMA_SERVER__DRAIN_TIMEOUT", "200ms").start().await;
    let gate = Gate::new();
    upstream.push(Reply::text("never").held(&gate));
    let client = herma.client().header(SESSION_ID, "trip");
    let running = tokio::spawn(async move { client.post_json(CHAT, &chat(&[user("hi")])).await });
    upstream.until_requests(1).await;
    herma.terminate();
    let cut_off = running.await.unwrap();
    assert_eq!(error(&cut_off, 409)["code"], "interrupted");
    assert_eq!(
        (cut_off.header("x-should-retry"), cut_off.header("retry-after")),
        (None, Some("1")),
        "it can be sent again"
    );
    assert!(herma.wait().await.success());
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_can_read_the_database() {
    use std::os::unix::fs::PermissionsExt as _;
    let upstream = ScriptedUpstream::start().await;
    let herma = serve(&upstream).start().await;
    herma.client().post_json(CHAT, &chat(&[user("hi")])).await.expect(200);
    for name in ["herma.db", "herma.db-wal"] {
        let mode = std::fs::metadata(herma.data().join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{name}");
    }
}

#[tokio::test]
async fn responses_are_kept_as_long_as_the_operator_says_and_their_slug_for_ever() {
    let upstream = ScriptedUpstream::start().await;
    let herma = serve(&upstream).env("HERMA_RETENTION__RESPONSES", "1s").start().await;
    let client = herma.client();
    let ask = |text: &str| json!({"model": "scripted", "conversation": "trip", "input": text});
    let first = client.post_json(RESPONSES, &ask("one")).await.expect(200);
    let stored = format!("{RESPONSES}/{}", first["id"].as_str().unwrap());
    client.get(&stored).await.expect(200);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while client.get(&stored).await.status != 404 {
        assert!(tokio::time::Instant::now() < deadline, "it is to be forgotten some time");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let after = json!({"model": "scripted", "previous_response_id": first["id"], "input": "x"});
    assert_eq!(error(&client.post_json(RESPONSES, &after).await, 404)["code"], "previous_response_not_found");
    let second = client.post_json(RESPONSES, &ask("two")).await.expect(200);
    assert_eq!(second["session"]["conversation_id"], first["session"]["conversation_id"]);
    assert_eq!(lines(upstream.last_request().messages()), ["user: one", "assistant: reply to: one", "user: two"]);
}
