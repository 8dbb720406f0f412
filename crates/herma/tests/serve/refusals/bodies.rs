//! Bodies that are no valid request: not JSON, not an object, too deep, too large, wrong content type.

use herma_testkit::Answer;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::nothing_is_left;
use crate::support::{CHAT, TestGateway, chat, error, user};

#[tokio::test]
async fn what_is_not_a_json_object_is_refused() {
    let gateway = TestGateway::start().await;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let twice = r#"{"messages":[{"role":"user","content":"x"}]}{"#;
    for body in [
        "",
        " ",
        "{",
        "{]",
        "[]",
        "[{}]",
        "null",
        "1",
        "true",
        "\"x\"",
        "{'a':1}",
        "{\"messages\":[}",
        "\u{feff}{}",
        "nul",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"\\ud800\"}]}",
        "{\"messages\":NaN}",
        twice,
        &deep,
        "data: {}",
    ] {
        let answer = gateway.in_session("s").post_bytes(CHAT, body.to_owned()).await;
        assert_eq!(error(&answer, 400)["code"], "invalid_request", "{:.40}", body);
    }
    for body in [&b"\xff\xfe{}"[..], b"{\"messages\":\"\xff\"}", b"\x1f\x8b\x08\x00", b"{\"a\":\"\x00\"}"] {
        let answer = gateway.in_session("s").post_bytes(CHAT, body.to_vec()).await;
        assert_eq!(error(&answer, 400)["code"], "invalid_request", "{body:?}");
    }
    for body in [json!({}), json!({"messages": null}), json!({"messages": []}), json!({"Messages": [user("x")]})] {
        let error = error(&gateway.in_session("s").post_json(CHAT, &body).await, 400);
        assert_eq!(error["param"], "messages", "{body}");
    }
    nothing_is_left(gateway).await;
}

#[tokio::test]
async fn deep_nesting_is_refused_wherever_it_hides() {
    let gateway = TestGateway::start().await;
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    for levels in [97, 1_000, 100_000] {
        let deep = deep(levels);
        for body in [
            format!(r#"{{"messages":[{{"role":"user","content":"x"}}],"x":{deep}}}"#),
            format!(r#"{{"messages":[{{"role":"user","content":"x"}}],"tools":[{{"a":{deep}}}]}}"#),
            format!(r#"{{"messages":[{{"role":"user","content":"x","x":{deep}}}]}}"#),
            format!(r#"{{"messages":[{{"role":"user","content":[{{"type":"odd","x":{deep}}}]}}]}}"#),
            format!(r#"{{"messages":[{{"role":"user","content":{deep}}}]}}"#),
            format!(r#"{{"messages":{deep}}}"#),
        ] {
            let answer = gateway.in_session("s").post_bytes(CHAT, body).await;
            assert_eq!(error(&answer, 400)["code"], "invalid_request");
        }
    }
    nothing_is_left(gateway).await;
}

#[tokio::test]
async fn too_many_messages_or_fields_are_refused() {
    let gateway = TestGateway::start().await;
    let many = chat(&vec![user("x"); 10_001]);
    assert_eq!(error(&gateway.in_session("s").post_json(CHAT, &many).await, 400)["param"], "messages");
    let mut wide = chat(&[user("x")]);
    (0..200).for_each(|number| wide[format!("x{number}")] = json!(1));
    assert_eq!(error(&gateway.in_session("s").post_json(CHAT, &wide).await, 400)["code"], "invalid_request");
    nothing_is_left(gateway).await;
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused_and_told_the_limit() {
    let gateway = TestGateway::start().await;
    let large = chat(&[user(&"x".repeat(11_000_000))]);
    // Repeated, because a refusal that closes the connection while the client still writes is lost only sometimes.
    for _ in 0..5 {
        let refused = error(&gateway.in_session("s").post_json(CHAT, &large).await, 413);
        assert_eq!(refused["code"], "body_too_large");
        assert!(refused["message"].as_str().is_some_and(|message| message.contains("10000000")), "{refused}");
    }
    nothing_is_left(gateway).await;
}

#[tokio::test]
async fn a_body_that_does_not_say_how_long_it_is_has_the_same_limit() {
    let gateway = TestGateway::start().await;
    let mut body = Vec::new();
    for _ in 0..11 {
        body.extend_from_slice(format!("{:x}\r\n", 1_000_000).as_bytes());
        body.extend_from_slice(&[b' '; 1_000_000]);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"0\r\n\r\n");
    let headers = b"content-type: application/json\r\ntransfer-encoding: chunked\r\n";
    assert_eq!(gateway.raw_chat(headers, &body).await.error(413)["code"], "body_too_large");
    nothing_is_left(gateway).await;
}

#[tokio::test]
async fn a_large_body_within_the_limit_is_taken() {
    let gateway = TestGateway::start().await;
    gateway.upstream.push(herma_testkit::Reply::text("long"));
    let answer = gateway.in_session("s").post_json(CHAT, &chat(&[user(&"x".repeat(9_900_000))])).await;
    assert_eq!(answer.content(), "long");
}

#[tokio::test]
async fn another_content_type_than_json_is_refused() {
    let gateway = TestGateway::start().await;
    let body = chat(&[user("hello")]).to_string();
    let send = async |kind: &str| {
        let headers = format!("content-type: {kind}\r\ncontent-length: {}\r\n", body.len());
        gateway.raw_chat(headers.as_bytes(), body.as_bytes()).await
    };
    for kind in
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json5", "x"]
    {
        assert_eq!(send(kind).await.error(415)["code"], "unsupported_media_type", "{kind}");
    }
    assert!(gateway.sessions().await.is_empty());
    for kind in ["application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.api+json"] {
        assert_eq!(send(kind).await.status, 200, "{kind}");
    }
    let headers = format!("content-length: {}\r\n", body.len());
    assert_eq!(gateway.raw_chat(headers.as_bytes(), body.as_bytes()).await.status, 200, "no type is JSON");
}

#[tokio::test]
async fn a_body_that_breaks_off_leaves_nothing() {
    let gateway = TestGateway::start().await;
    let body = chat(&[user("hello")]).to_string();
    for framing in [format!("content-length: {}", body.len() + 1), "transfer-encoding: chunked".to_owned()] {
        let headers = format!("content-type: application/json\r\nx-hermes-session-id: s\r\n{framing}\r\n");
        let sent =
            if framing.starts_with('t') { format!("{:x}\r\n{body}\r\nzz\r\n", body.len()) } else { body.clone() };
        gateway.hang_up_after(headers.as_bytes(), sent.as_bytes()).await;
    }
    nothing_is_left(gateway).await;
}

/// Sends a part of a body and keeps the connection open.
async fn unfinished(gateway: &TestGateway, announced: usize, sent: usize) -> TcpStream {
    let address = gateway.herma.base_url().trim_start_matches("http://");
    let mut socket = TcpStream::connect(address).await.expect("a connection");
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: herma\r\nauthorization: Bearer test-key\r\ncontent-length: {announced}\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).await.expect("a gateway that reads");
    socket.write_all(&vec![b' '; sent]).await.expect("a gateway that reads");
    socket
}

/// Repeats a request until it is answered with this status.
async fn until_status(gateway: &TestGateway, body: &Value, status: u16) -> Answer {
    let sending = async {
        loop {
            let answer = gateway.client().post_json(CHAT, body).await;
            if answer.status == status {
                return answer;
            }
        }
    };
    tokio::time::timeout(herma_testkit::PATIENCE, sending).await.expect("this status in time")
}

#[tokio::test]
async fn bodies_being_read_share_a_budget() {
    let gateway = TestGateway::with_settings(&[("HERMA_SERVER__BODY_BUDGET", "1000000")]).await;
    let large = chat(&[user(&"x".repeat(300_000))]);
    gateway.client().post_json(CHAT, &large).await.expect(200);
    let held = unfinished(&gateway, 900_000, 800_000).await;
    let refused = until_status(&gateway, &large, 429).await;
    assert_eq!(refused.header("retry-after"), Some("1"));
    let refused = error(&refused, 429);
    assert_eq!(refused["code"], "overloaded");
    assert!(refused["message"].as_str().is_some_and(|message| message.contains("1000000 bytes")), "{refused}");
    gateway.say("s", "short").await.expect(200);
    drop(held);
    until_status(&gateway, &large, 200).await;
}
