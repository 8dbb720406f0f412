//! What goes wrong behind the gateway: the error the client gets, what stays of the turn, and what the model is shown next.

mod context_length;
mod retried;
mod streams;
mod whole;

use herma_testkit::{Answer, Reply};
use serde_json::Value;

use crate::support::{CHAT, NO_REPLY, World, chat, error, streamed, user};

/// A key that every failing server quotes, and no client may ever see.
const SECRET: &str = "sk-proj-abcdef0123456789";

/// A conversation with one good turn, in which the next one is about to fail.
async fn one_good_turn() -> World {
    let world = World::start().await;
    world.say("s", "before").await.expect(200);
    world
}

/// Checks an error of the model server's: its code, what it says, and what it does not.
fn check(error: &Value, code: &str, says: &str) {
    let message = error["message"].as_str().expect("a message");
    assert_eq!(error["code"], code, "{error}");
    assert!(message.contains(says), "{says:?} is to be in {message:?}");
    assert!(!message.contains("abcdef") && !message.contains("panicked"), "{message}");
}

/// Sends a message that fails before anything of an answer is seen, whole and as a stream, and checks that the failure is the
/// one expected, that it is recorded, and that the conversation goes on.
async fn fails_at_once(reply: Reply, tries: usize, status: u16, code: &str, says: &str) -> Answer {
    let world = one_good_turn().await;
    let mut failed = None;
    for (number, body) in [(1, chat(&[user("broken 1")])), (2, streamed(chat(&[user("broken 2")])))] {
        (0..tries).for_each(|_| world.upstream.push(reply.clone()));
        let asked = world.upstream.requests().len();
        let answer = world.in_session("s").post_json(CHAT, &body).await;
        check(&error(&answer, status), code, says);
        assert_eq!(world.upstream.requests().len() - asked, tries, "attempt {number}");
        failed = Some(answer);
    }
    goes_on(&world).await;
    failed.expect("an answer")
}

/// Two turns of this conversation failed and showed nothing: both messages are there, and the model is told what happened.
async fn goes_on(world: &World) {
    let broken = ["user: before", "assistant: reply to: before", "user: broken 1", "user: broken 2"];
    assert_eq!(world.transcript("s").await, broken);
    let context =
        ["user: before", "assistant: reply to: before", "user: broken 1", NO_REPLY, "user: broken 2", NO_REPLY];
    assert_eq!(world.model_view("s").await, context);
    assert_eq!(world.say("s", "after").await.content(), "reply to: after");
    let sent = world.context();
    assert_eq!((&sent[..6], sent[6..].join("")), (&context.map(str::to_owned)[..], "user: after".to_owned()));
}
