//! What was said, and what opens doors, is in no log, no metric and no error, even with the most talkative log.

use herma_testkit::{Client, Completion, Reply};
use serde_json::json;

use crate::support::{CHAT, TestGateway, chat, streamed, user};

/// In every message, title, name of metadata, tool argument and key of this test.
const SECRET: &str = "swordfish";

#[tokio::test]
async fn no_log_no_metric_and_no_error_has_text_or_keys() {
    let settings = [
        ("HERMA_TELEMETRY__LOG", "trace"),
        ("HERMA_UPSTREAM_API_KEY", "sk-swordfish-upstream-key"),
        ("HERMA_UPSTREAM__RETRIES", "0"),
        ("HERMA_TITLES__BY", "model"),
    ];
    let gateway = TestGateway::with_settings(&settings).await;
    gateway.upstream.otherwise(|_| Reply::text("the swordfish answers"));
    let client = || gateway.in_session("trip");
    let mut answers = Vec::new();
    client().post_json(CHAT, &chat(&[user("a swordfish?")])).await.expect(200);
    gateway.upstream.push(Completion::chunks(["sword", "fish swordfish"]).into());
    client().post_stream(CHAT, &streamed(chat(&[user("swordfish again")]))).await.rest().await;
    client()
        .post_json("/v1/responses", &json!({"input": "swordfish", "metadata": {"a": "swordfish"}}))
        .await
        .expect(200);
    client().post_json("/v1/runs", &json!({"input": "swordfish"})).await;
    for reply in [
        Reply::status(400, "cannot say swordfish to sk-swordfish-upstream-key"),
        Reply::status(401, "the key sk-swordfish-upstream-key is wrong"),
        Reply::status(500, "swordfish"),
        Reply::garbage("swordfish"),
        Reply::error_after(1, "swordfish"),
        Reply::cut_off_after(1),
        Reply::context_too_long(),
    ] {
        gateway.upstream.push(reply);
        answers.push(gateway.in_session("failing").post_json(CHAT, &chat(&[user("a swordfish?")])).await.text());
    }
    gateway.client().send_json("PATCH", "/api/sessions/trip", &json!({"title": "swordfish"})).await.expect(200);
    gateway.client().get("/api/search?q=swordfish").await.expect(200);
    gateway.client().post_json("/api/sessions/trip/compactions", &json!({})).await;
    let stranger = Client::new(gateway.herma.base_url()).key("hk-swordfish-guess");
    for refused in [
        stranger.get("/api/sessions").await,
        gateway.client().post_bytes(CHAT, "{\"messages\": [{\"role\": \"user\", \"content\": \"swordfish\"").await,
        gateway.client().post_json(CHAT, &json!({"messages": [{"role": "fisher", "content": "swordfish"}]})).await,
        gateway.client().post_json("/v1/responses", &json!({"input": [{"type": "swordfish"}]})).await,
    ] {
        assert!(refused.status >= 400, "{}", refused.text());
    }
    gateway.client().header("x-request-id", "req-last").delete("/api/sessions/trip").await.expect(200);
    gateway.herma.until_stderr("req-last").await;
    let metrics = gateway.client().get("/metrics").await.text();
    assert!(metrics.contains("herma_"), "{metrics}");
    assert!(!metrics.contains(SECRET), "{metrics}");
    for answer in &answers {
        assert!(!answer.contains("upstream-key"), "{answer}");
    }
    let stderr = gateway.herma.stderr();
    let told: Vec<&str> =
        stderr.lines().filter(|line| line.contains(SECRET) || line.contains("test-key")).take(5).collect();
    assert!(told.is_empty(), "{told:#?}");
    assert!(stderr.contains("TRACE") || stderr.contains("DEBUG"), "the log is as talkative as it gets");
}
