//! Temporary failures of the model server: the gateway retries while it has no output. Its error says how long to
//! wait.

use herma_testkit::Reply;
use serde_json::json;

use super::{check, fails_at_once, one_good_turn};
use crate::support::{CHAT, TestGateway, chat, error, streamed, user};

/// How often the gateway sends a request in all.
const TRIES: usize = 3;

#[tokio::test]
async fn a_server_error_is_tried_again_and_then_told() {
    let answer = fails_at_once(Reply::status(500, "oh no"), TRIES, 502, "upstream_error", "answered 500: oh no").await;
    assert_eq!((answer.header("retry-after"), answer.header("x-should-retry")), (None, None));
}

#[tokio::test]
async fn an_overloaded_server_is_tried_again_and_then_told() {
    fails_at_once(Reply::status(503, "overloaded"), TRIES, 502, "upstream_error", "answered 503: overloaded").await;
}

#[tokio::test]
async fn a_server_that_hangs_up_is_tried_again_and_then_told() {
    fails_at_once(Reply::CloseBeforeHeaders, TRIES, 502, "upstream_error", "cannot be reached").await;
}

#[tokio::test]
async fn a_failure_that_passes_is_never_seen() {
    let gateway = TestGateway::start().await;
    for body in [chat(&[user("hello")]), streamed(chat(&[user("hello")]))] {
        for reply in [Reply::status(503, "wait"), Reply::CloseBeforeHeaders] {
            gateway.upstream.push(reply);
        }
        gateway.client().post_json(CHAT, &body).await;
        assert_eq!(gateway.context(), ["user: hello"]);
    }
    assert_eq!(gateway.upstream.requests().len(), 2 * TRIES);
    for row in gateway.sessions().await {
        assert_eq!((row["message_count"].as_u64(), row["turn_count"].as_u64()), (Some(2), Some(1)));
    }
}

#[tokio::test]
async fn a_short_wait_that_the_server_asks_for_is_waited() {
    let gateway = TestGateway::start().await;
    gateway.upstream.push(Reply::rate_limited("0.05"));
    assert_eq!(gateway.say("s", "hello").await.content(), "reply to: hello");
    assert_eq!(gateway.transcript("s").await, ["user: hello", "assistant: reply to: hello"]);
}

#[tokio::test]
async fn a_long_wait_is_the_clients_to_wait() {
    let says = "answered 429: Rate limit reached";
    let answer = fails_at_once(Reply::rate_limited("3600"), 1, 502, "upstream_error", says).await;
    assert_eq!((answer.header("retry-after"), answer.header("x-should-retry")), (Some("3600"), None));
}

#[tokio::test]
async fn a_limit_that_does_not_lift_is_told_with_its_wait() {
    let gateway = one_good_turn().await;
    (0..TRIES).for_each(|_| gateway.upstream.push(Reply::rate_limited("0.01")));
    let answer = gateway.say("s", "broken").await;
    check(&error(&answer, 502), "upstream_error", "429");
    assert_eq!(answer.header("retry-after"), Some("1"));
}

#[tokio::test]
async fn a_client_that_retries_by_itself_has_each_failing_call_made_once() {
    let gateway = TestGateway::start().await;
    for body in [chat(&[user("hello")]), streamed(chat(&[user("hello")]))] {
        let before = gateway.upstream.requests().len();
        (0..TRIES + 2).for_each(|_| gateway.upstream.push(Reply::status(500, "oh no")));
        for (retry, calls) in [("0", TRIES), ("1", TRIES + 1), ("2", TRIES + 2)] {
            let client = gateway.in_session("s").header("x-stainless-retry-count", retry);
            error(&client.post_json(CHAT, &body).await, 502);
            assert_eq!(gateway.upstream.requests().len() - before, calls, "after retry {retry}");
        }
    }
    let stateless = json!({"input": "hello", "store": false});
    let before = gateway.upstream.requests().len();
    gateway.upstream.push(Reply::status(500, "oh no"));
    let client = gateway.client().header("x-stainless-retry-count", "1");
    error(&client.post_json("/v1/responses", &stateless).await, 502);
    assert_eq!(gateway.upstream.requests().len() - before, 1);
}

#[tokio::test]
async fn codex_retries_by_itself_and_has_each_failing_call_made_once() {
    let gateway = TestGateway::start().await;
    let body = json!({"input": "hello", "store": false, "stream": true});
    for (name, value) in [("originator", "codex_exec"), ("x-codex-window-id", "thread:0")] {
        let before = gateway.upstream.requests().len();
        (0..2).for_each(|_| gateway.upstream.push(Reply::status(500, "oh no")));
        for calls in 1..=2 {
            error(&gateway.client().header(name, value).post_json("/v1/responses", &body).await, 502);
            assert_eq!(gateway.upstream.requests().len() - before, calls, "{name}");
        }
    }
}
