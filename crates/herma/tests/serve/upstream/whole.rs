//! Failures of the model server before the client has got any part of the answer.

use herma_testkit::{Reply, ScriptedUpstream};

use super::{SECRET, check, check_continues, fails_at_once, one_good_turn};
use crate::support::{CHAT, TestGateway, chat, error, streamed, user};

const HTML: &str = "<html><body><h1>Welcome to the captive portal</h1></body></html>";

#[tokio::test]
async fn a_server_that_is_down_is_said_to_be_and_can_come_back() {
    let mut gateway = one_good_turn().await;
    let address = gateway.upstream.address();
    let running = std::mem::replace(&mut gateway.upstream, ScriptedUpstream::start().await);
    running.stop().await;
    for body in [chat(&[user("broken 1")]), streamed(chat(&[user("broken 2")]))] {
        let answer = gateway.in_session("s").post_json(CHAT, &body).await;
        check(&error(&answer, 502), "upstream_error", "cannot be reached");
        assert_eq!(answer.header("x-should-retry"), None);
    }
    gateway.upstream = ScriptedUpstream::start_at(address).await;
    check_continues(&gateway).await;
}

#[tokio::test]
async fn a_refusal_is_told_with_its_status_and_is_not_tried_again() {
    for status in [400, 401, 403, 404, 422] {
        let said = format!("No such thing, says key {SECRET}");
        let says = format!("answered {status}: No such thing, says key [redacted]");
        let answer = fails_at_once(Reply::status(status, &said), 1, 502, "upstream_error", &says).await;
        assert_eq!(answer.header("x-should-retry"), Some("false"), "{status}");
    }
}

#[tokio::test]
async fn a_web_page_is_no_answer() {
    fails_at_once(Reply::garbage(HTML), 1, 502, "upstream_error", "the model server").await;
}

#[tokio::test]
async fn nonsense_is_no_answer() {
    for garbage in ["]]]", "{\"choices\":{}}", "{\"choices\":[]}", "null", "[1]", "\u{0}\u{1}\u{2}"] {
        let gateway = TestGateway::start().await;
        gateway.upstream.push(Reply::garbage(garbage));
        let answer = gateway.say("s", "hello").await;
        check(&error(&answer, 502), "upstream_error", "the model server");
        gateway.upstream.push(Reply::garbage(format!("data: {garbage}\n\n")));
        let answer = gateway.in_session("s").post_json(CHAT, &streamed(chat(&[user("hello")]))).await;
        check(&error(&answer, 502), "upstream_error", "the model server");
        assert_eq!(gateway.transcript("s").await, ["user: hello"], "{garbage}");
    }
}

#[tokio::test]
async fn an_answer_that_says_nothing_is_a_failure() {
    fails_at_once(Reply::empty(), 1, 502, "upstream_error", "answered nothing").await;
}

#[tokio::test]
async fn an_empty_body_is_a_failure() {
    fails_at_once(Reply::garbage(""), 1, 502, "upstream_error", "the model server").await;
}

#[tokio::test]
async fn a_json_answer_that_breaks_off_shows_nothing_of_itself() {
    let gateway = one_good_turn().await;
    gateway.upstream.push(Reply::cut_off_after(2));
    check(&error(&gateway.say("s", "broken 1").await, 502), "upstream_error", "broke its answer off");
    gateway.upstream.push(Reply::cut_off_after(0));
    let streamed = streamed(chat(&[user("broken 2")]));
    check(
        &error(&gateway.in_session("s").post_json(CHAT, &streamed).await, 502),
        "upstream_error",
        "broke its answer off",
    );
    check_continues(&gateway).await;
}

#[tokio::test]
async fn a_failed_first_turn_leaves_a_conversation_that_can_go_on() {
    let mut gateway = TestGateway::start().await;
    gateway.upstream.push(Reply::status(400, "no"));
    error(&gateway.say("s", "broken").await, 502);
    let row = gateway.client().get("/api/sessions/s").await.expect(200);
    assert_eq!((row["message_count"].as_u64(), row["turn_count"].as_u64()), (Some(1), Some(1)));
    gateway.restart().await;
    assert_eq!(gateway.say("s", "after").await.expect(200)["session"]["resolution"], "head");
    assert_eq!(gateway.context(), ["user: broken", crate::support::NO_REPLY, "user: after"]);
}

#[tokio::test]
async fn a_failed_message_that_is_sent_again_is_stored_once_and_leaves_no_note() {
    let mut gateway = one_good_turn().await;
    for restart in [false, true] {
        gateway.upstream.push(Reply::status(400, "no"));
        error(&gateway.say("s", "try this").await, 502);
        if restart {
            gateway.restart().await;
        }
    }
    assert_eq!(gateway.say("s", "try this").await.content(), "reply to: try this");
    let transcript = ["user: before", "assistant: reply to: before", "user: try this", "assistant: reply to: try this"];
    assert_eq!(gateway.context(), transcript[..3]);
    assert_eq!(gateway.transcript("s").await, transcript);
    assert_eq!(gateway.model_view("s").await, transcript);
    let row = gateway.client().get("/api/sessions/s").await.expect(200);
    assert_eq!((row["message_count"].as_u64(), row["turn_count"].as_u64()), (Some(4), Some(2)));
}

#[tokio::test]
async fn system_messages_of_a_failed_turn_hold_for_the_next() {
    let gateway = TestGateway::start().await;
    gateway.upstream.push(Reply::status(400, "no"));
    let first = chat(&[crate::support::system("Be brief."), user("broken")]);
    error(&gateway.in_session("s").post_json(CHAT, &first).await, 502);
    gateway.say("s", "after").await.expect(200);
    assert_eq!(gateway.context()[0], "system: Be brief.");
}
