//! A request whose context is too long is refused, and nothing is stored.

use herma_testkit::Reply;

use crate::support::{CHAT, SESSION_KEY, TestGateway, chat, error, streamed, system, user};

#[tokio::test]
async fn a_first_turn_that_does_not_fit_leaves_no_conversation_and_frees_its_id() {
    let mut gateway = TestGateway::start().await;
    for body in [chat(&[user("far too long")]), streamed(chat(&[user("far too long")]))] {
        gateway.upstream.push(Reply::context_too_long());
        let answer = gateway.in_session("s").header(SESSION_KEY, "k").post_json(CHAT, &body).await;
        let error = error(&answer, 400);
        assert_eq!(
            (error["code"].as_str(), error["param"].as_str()),
            (Some("context_length_exceeded"), Some("messages"))
        );
        assert_eq!(gateway.client().get("/api/sessions/s").await.status, 404);
        assert!(gateway.sessions().await.is_empty());
    }
    gateway.restart().await;
    assert!(gateway.sessions().await.is_empty());
    let other = gateway.in_session("s").header(SESSION_KEY, "another").post_json(CHAT, &chat(&[user("short")])).await;
    assert_eq!(other.expect(200)["session"]["resolution"], "created");
    assert_eq!(gateway.context(), ["user: short"]);
}

#[tokio::test]
async fn a_later_turn_that_does_not_fit_changes_nothing() {
    let mut gateway = TestGateway::start().await;
    gateway.in_session("s").post_json(CHAT, &chat(&[system("Be brief."), user("one")])).await.expect(200);
    let before = gateway.client().get("/api/sessions/s").await.expect(200);
    for body in [chat(&[system("Be long."), user("too long")]), streamed(chat(&[system("Be long."), user("too long")]))]
    {
        gateway.upstream.push(Reply::context_too_long());
        let answer = gateway.in_session("s").header(SESSION_KEY, "k").post_json(CHAT, &body).await;
        assert_eq!(error(&answer, 400)["code"], "context_length_exceeded");
        assert_eq!(gateway.client().get("/api/sessions/s").await.expect(200), before);
        assert_eq!(gateway.transcript("s").await, ["user: one", "assistant: reply to: one"]);
    }
    gateway.restart().await;
    gateway.say("s", "two").await.expect(200);
    assert_eq!(gateway.context(), ["system: Be brief.", "user: one", "assistant: reply to: one", "user: two"]);
}

#[tokio::test]
async fn a_retry_that_does_not_fit_leaves_the_failed_turn_as_it_was() {
    let gateway = TestGateway::start().await;
    gateway.upstream.push(Reply::status(400, "no"));
    error(&gateway.say("s", "broken").await, 502);
    let before = gateway.client().get("/api/sessions/s").await.expect(200);
    gateway.upstream.push(Reply::context_too_long());
    assert_eq!(error(&gateway.say("s", "broken").await, 400)["code"], "context_length_exceeded");
    assert_eq!(gateway.client().get("/api/sessions/s").await.expect(200), before);
    gateway.say("s", "after").await.expect(200);
    assert_eq!(gateway.context(), ["user: broken", crate::support::NO_REPLY, "user: after"]);
}

#[tokio::test]
async fn an_idempotency_key_of_a_refused_request_is_free() {
    let gateway = TestGateway::start().await;
    let client = gateway.in_session("s").header("idempotency-key", "i");
    gateway.upstream.push(Reply::context_too_long());
    error(&client.post_json(CHAT, &chat(&[user("far too long")])).await, 400);
    assert_eq!(client.post_json(CHAT, &chat(&[user("short")])).await.content(), "reply to: short");
}
