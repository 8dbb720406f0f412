//! Unknown routes and methods.

use herma_testkit::Client;
use serde_json::json;

use crate::support::{TestGateway, error};

#[tokio::test]
async fn an_unknown_route_is_not_found_in_the_envelope() {
    let gateway = TestGateway::start().await;
    for path in [
        "/v1",
        "/v1/",
        "/v1/chat",
        "/v1/chat/completions/",
        "/v1/chat/completions/chatcmpl-1",
        "/v2/models",
        "/api",
        "/api/sessions/",
        "/api/sessions/a/b",
        "/api/sessions/a/messages/1",
        "/health/",
        "/%2e%2e/etc/passwd",
        "//health",
        "/v1/runs/a/b",
        "/dashboard",
        "/favicon.ico",
    ] {
        for client in [gateway.client(), Client::new(gateway.herma.base_url())] {
            assert_eq!(error(&client.get(path).await, 404)["code"], "not_found", "{path}");
        }
    }
}

#[tokio::test]
async fn a_base_url_without_v1_or_with_two_of_them_is_told_the_route() {
    let gateway = TestGateway::start().await;
    for path in ["/chat/completions", "/v1/v1/chat/completions"] {
        let refused = gateway.client().post_json(path, &json!({})).await;
        let message = error(&refused, 404)["message"].as_str().unwrap().to_owned();
        assert!(message.contains("; /v1/chat/completions is one"), "{path}: {message}");
    }
}

#[tokio::test]
async fn a_name_that_cannot_be_one_leads_nowhere() {
    let gateway = TestGateway::start().await;
    for name in
        ["nobody", "%00", "%ff", "%c3%28", "a%2Fb", "..%2f..", "%0d%0a", "conv_", "%F0%9F%92%A9", &"x".repeat(3_000)]
    {
        for path in [format!("/api/sessions/{name}"), format!("/api/sessions/{name}/messages")] {
            let answer = gateway.client().get(&path).await;
            assert_eq!(error(&answer, 404)["code"], "not_found", "{path:.60}");
        }
    }
    assert_eq!(error(&gateway.client().get("/v1/models/%ff").await, 404)["code"], "not_found");
}

#[tokio::test]
async fn an_unknown_method_is_not_allowed_in_the_envelope() {
    let gateway = TestGateway::start().await;
    let client = gateway.client();
    for (method, path) in [
        ("GET", "/v1/chat/completions"),
        ("PUT", "/v1/chat/completions"),
        ("DELETE", "/v1/chat/completions"),
        ("POST", "/v1/models"),
        ("PATCH", "/v1/capabilities"),
        ("POST", "/health"),
        ("DELETE", "/metrics"),
        ("PUT", "/api/sessions"),
        ("POST", "/openapi.json"),
        ("BREW", "/health"),
        ("OPTIONS", "/v1/chat/completions"),
    ] {
        let answer = client.send_json(method, path, &json!({})).await;
        assert_eq!(error(&answer, 405)["code"], "method_not_allowed", "{method} {path}");
        assert!(answer.header("allow").is_some_and(|allowed| !allowed.is_empty()), "{method} {path}");
        assert!(answer.header("x-request-id").is_some());
    }
}

#[tokio::test]
async fn what_is_no_http_is_refused_in_the_envelope_too() {
    let gateway = TestGateway::start().await;
    let long = format!("GET /{} HTTP/1.1\r\nhost: herma\r\n\r\n", "a".repeat(65_535));
    let many = format!("GET /health HTTP/1.1\r\nhost: herma\r\n{}\r\n", "x-a: b\r\n".repeat(300));
    for (request, status, code) in [
        ("nonsense\r\n\r\n", 400, "invalid_request"),
        ("GET /health HTTP/9.9\r\n\r\n", 400, "invalid_request"),
        ("GET /health HTTP/1.1\r\nbad name: x\r\n\r\n", 400, "invalid_request"),
        (&long, 414, "address_too_long"),
        (&many, 431, "headers_too_large"),
    ] {
        assert_eq!(gateway.raw(request.as_bytes()).await.error(status)["code"], code, "{request:.40}");
    }
}
