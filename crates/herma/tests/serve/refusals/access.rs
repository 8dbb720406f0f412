//! Without a valid key, only the health endpoints answer.

use futures_util::future::join_all;
use herma_testkit::Client;

use super::nothing_is_left;
use crate::support::{CHAT, TestGateway, chat, error, user};

const GUARDED: [&str; 10] = [
    "/v1/models",
    "/v1/models/scripted",
    "/v1/capabilities",
    "/api/sessions",
    "/api/sessions/s",
    "/api/sessions/s/messages",
    "/api/sessions/s/compactions",
    "/health/detailed",
    "/metrics",
    "/openapi.json",
];

#[tokio::test]
async fn every_guarded_route_wants_a_valid_key() {
    let gateway = TestGateway::start().await;
    let nobody = || Client::new(gateway.herma.base_url());
    let strangers = [
        nobody(),
        nobody().key("wrong"),
        nobody().key("test-key2"),
        nobody().key("test-ke"),
        nobody().key(""),
        nobody().key("TEST-KEY"),
        nobody().header("authorization", "test-key"),
        nobody().header("authorization", "Basic test-key"),
        nobody().header("authorization", "Bearer"),
        nobody().header("x-api-key", "test-key"),
        nobody().key("ünknown"),
    ];
    // All at once, because the refusals of wrong keys wait.
    join_all(strangers.iter().flat_map(|client| GUARDED.map(|path| (client, path))).map(async |(client, path)| {
        let refused = error(&client.get(path).await, 401);
        assert_eq!(
            (refused["code"].as_str(), refused["type"].as_str()),
            (Some("invalid_api_key"), Some("authentication_error"))
        );
    }))
    .await;
    join_all(strangers.iter().map(async |client| {
        let chatting = client.clone().header("x-hermes-session-id", "s");
        let answer = chatting.post_json(CHAT, &chat(&[user("hello")])).await;
        assert_eq!(error(&answer, 401)["code"], "invalid_api_key");
        assert!(!answer.text().contains("test-key"), "{}", answer.text());
        assert_eq!(error(&chatting.post_bytes(CHAT, "not even JSON").await, 401)["code"], "invalid_api_key");
    }))
    .await;
    for path in GUARDED.into_iter().filter(|path| !path.contains("/s")) {
        assert_eq!(gateway.client().get(path).await.status, 200, "{path}");
    }
    nothing_is_left(gateway).await;
}

#[tokio::test]
async fn a_large_body_of_a_stranger_is_not_read() {
    let gateway = TestGateway::start().await;
    let request = b"POST /v1/chat/completions HTTP/1.1\r\nhost: herma\r\nconnection: close\r\n\
          content-type: application/json\r\ncontent-length: 9000000\r\n\r\n{";
    assert_eq!(gateway.raw(request).await.error(401)["code"], "invalid_api_key");
}

#[tokio::test]
async fn the_scheme_may_be_written_in_any_case() {
    let gateway = TestGateway::start().await;
    let client = Client::new(gateway.herma.base_url()).header("authorization", "bearer test-key");
    assert_eq!(client.get("/v1/models").await.status, 200);
}

#[tokio::test]
async fn health_is_for_everybody() {
    let gateway = TestGateway::start().await;
    for client in [Client::new(gateway.herma.base_url()), Client::new(gateway.herma.base_url()).key("wrong")] {
        for path in ["/health", "/v1/health"] {
            assert_eq!(client.get(path).await.expect(200)["status"], "ok");
        }
        assert_eq!(client.get("/health/ready").await.expect(200)["status"], "ready");
    }
}
