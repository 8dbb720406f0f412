//! Invalid names and policies in headers: the error names the header.

use super::nothing_is_left;
use crate::support::{CHAT, TestGateway, chat, error, user};

/// Sends a chat request with one extra header, byte for byte.
async fn with_header(gateway: &TestGateway, name: &str, value: &[u8]) -> crate::support::Raw {
    let body = chat(&[user("hello")]).to_string();
    let mut headers =
        format!("content-type: application/json\r\ncontent-length: {}\r\n{name}: ", body.len()).into_bytes();
    headers.extend_from_slice(value);
    headers.extend_from_slice(b"\r\n");
    gateway.raw_chat(&headers, body.as_bytes()).await
}

#[tokio::test]
async fn names_that_cannot_be_are_refused_by_header() {
    let gateway = TestGateway::start().await;
    let long = "x".repeat(257);
    let long_letters = "ü".repeat(129);
    let unusable: [&[u8]; 7] = [
        long.as_bytes(),
        long_letters.as_bytes(),
        b"a\tb",
        b"a\xff",
        b"\xc3\x28",
        "a\u{85}b".as_bytes(),
        "a\u{9f}".as_bytes(),
    ];
    let path_like: [&[u8]; 6] = [b"a/b", b"..", b"../etc/passwd", b"a\\b", b"a..b", b"/"];
    for header in ["X-Hermes-Session-Id", "X-Hermes-Conversation-Id", "X-Hermes-Session-Key", "Idempotency-Key"] {
        let is_id = header.ends_with("-Id");
        for value in unusable.iter().chain(path_like.iter().filter(|_| is_id)) {
            let error = with_header(&gateway, header, value).await.error(400);
            assert_eq!(
                (error["code"].as_str(), error["param"].as_str()),
                (Some("invalid_header"), Some(header)),
                "{value:?}"
            );
        }
    }
    nothing_is_left(gateway).await;
}

#[tokio::test]
async fn control_characters_never_get_through() {
    let gateway = TestGateway::start().await;
    for control in (0_u8..32).chain([127]).filter(|byte| !matches!(byte, b'\t' | b'\n' | b'\r')) {
        let error = with_header(&gateway, "X-Hermes-Session-Id", &[b'a', control, b'b']).await.error(400);
        let named = (error["code"].as_str(), error["param"].as_str());
        assert_eq!(named, (Some("invalid_header"), Some("X-Hermes-Session-Id")), "{control}");
    }
    let smuggled = with_header(&gateway, "X-Hermes-Session-Id", b"a\r\nX-Hermes-Session-Key: /\r\n b").await;
    assert!((400..500).contains(&smuggled.status), "{}", smuggled.status);
    nothing_is_left(gateway).await;
}

#[tokio::test]
async fn the_longest_name_is_taken() {
    let gateway = TestGateway::start().await;
    let name = "x".repeat(256);
    let answer = gateway.in_session(&name).post_json(CHAT, &chat(&[user("hello")])).await;
    assert_eq!((answer.status, answer.header("x-hermes-session-id")), (200, Some(&*name)));
}

#[tokio::test]
async fn policies_that_are_none_are_refused_by_header() {
    let gateway = TestGateway::start().await;
    for (header, values) in [
        ("X-Hermes-Turn-Policy", ["Queue", "wait", "queue,reject", "\u{fc}"]),
        ("X-Hermes-On-Disconnect", ["stop", "Finish", "true", "\u{fc}"]),
        ("X-Hermes-Session-Kind", ["continuation", "Main", "human", "\u{fc}"]),
    ] {
        for value in values {
            let answer = gateway.in_session("s").header(header, value).post_json(CHAT, &chat(&[user("hello")])).await;
            let error = error(&answer, 400);
            assert_eq!(
                (error["code"].as_str(), error["param"].as_str()),
                (Some("invalid_header"), Some(header)),
                "{value}"
            );
        }
    }
    nothing_is_left(gateway).await;
}

#[tokio::test]
async fn a_name_that_is_given_twice_is_refused() {
    let gateway = TestGateway::start().await;
    for header in ["X-Hermes-Session-Id", "X-Hermes-Conversation-Id", "X-Hermes-Session-Key", "X-Hermes-Turn-Policy"] {
        let client = gateway.client().header(header, "queue").header(header, "queue");
        let error = error(&client.post_json(CHAT, &chat(&[user("hello")])).await, 400);
        assert_eq!((error["code"].as_str(), error["param"].as_str()), (Some("invalid_header"), Some(header)));
    }
    nothing_is_left(gateway).await;
}

#[tokio::test]
async fn a_strange_retry_count_or_request_id_is_no_reason_to_refuse() {
    let gateway = TestGateway::start().await;
    for count in ["", "-1", "x", "99999999999999999999", "1.5"] {
        let client =
            gateway.client().header("x-stainless-retry-count", count).header("x-request-id", &"r".repeat(5_000));
        let answer = client.post_json(CHAT, &chat(&[user("hello")])).await;
        assert_eq!(answer.status, 200, "{count}");
        assert!(
            answer.header("x-request-id").is_some_and(|id| id.len() < 200),
            "a request's id does not grow the answer"
        );
    }
}
