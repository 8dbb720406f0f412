//! Failures of the model server: the error that the client gets, what is stored of the turn, and the next context.

mod context_length;
mod retried;
mod streams;
pub(crate) mod tls;
mod whole;

use herma_testkit::{Answer, Reply};
use serde_json::Value;

use crate::support::{CHAT, NO_REPLY, TestGateway, chat, error, streamed, user};

/// A secret in the errors of every failing server. No client may see it.
const SECRET: &str = "sk-proj-abcdef0123456789";

/// A conversation with one completed turn.
async fn one_good_turn() -> TestGateway {
    let gateway = TestGateway::start().await;
    gateway.say("s", "before").await.expect(200);
    gateway
}

/// Checks the code of an error, that its message contains `says`, and that it does not contain the secret.
fn check(error: &Value, code: &str, says: &str) {
    let message = error["message"].as_str().expect("a message");
    assert_eq!(error["code"], code, "{error}");
    assert!(message.contains(says), "{says:?} is to be in {message:?}");
    assert!(!message.contains("abcdef") && !message.contains("panicked"), "{message}");
}

/// Sends a message that fails before any output, whole and streamed. Checks the error, that it is recorded, and that
/// the conversation can continue.
async fn fails_at_once(reply: Reply, tries: usize, status: u16, code: &str, says: &str) -> Answer {
    let gateway = one_good_turn().await;
    let mut failed = None;
    for (number, body) in [(1, chat(&[user("broken 1")])), (2, streamed(chat(&[user("broken 2")])))] {
        (0..tries).for_each(|_| gateway.upstream.push(reply.clone()));
        let asked = gateway.upstream.requests().len();
        let answer = gateway.in_session("s").post_json(CHAT, &body).await;
        check(&error(&answer, status), code, says);
        assert_eq!(gateway.upstream.requests().len() - asked, tries, "attempt {number}");
        failed = Some(answer);
    }
    check_continues(&gateway).await;
    failed.expect("an answer")
}

/// Checks the conversation after two failed turns without output: both messages are stored, and a note in the context
/// says that each failed.
async fn check_continues(gateway: &TestGateway) {
    let broken = ["user: before", "assistant: reply to: before", "user: broken 1", "user: broken 2"];
    assert_eq!(gateway.transcript("s").await, broken);
    let context =
        ["user: before", "assistant: reply to: before", "user: broken 1", NO_REPLY, "user: broken 2", NO_REPLY];
    assert_eq!(gateway.model_view("s").await, context);
    assert_eq!(gateway.say("s", "after").await.content(), "reply to: after");
    let sent = gateway.context();
    assert_eq!((&sent[..6], sent[6..].join("")), (&context.map(str::to_owned)[..], "user: after".to_owned()));
}
