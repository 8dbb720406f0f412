//! Ids of front ends' chats limit the search to the conversations that came under them.

use herma_testkit::Reply;
use serde_json::json;

use super::{OPEN_WEBUI, RESPONSES, Thread, item, kinds, session};
use crate::support::{CHAT, SESSION_KEY, TestGateway, assistant, chat, user};

#[tokio::test]
async fn an_edited_opening_is_a_branch_without_inherited_messages() {
    let mut gateway = TestGateway::start().await;
    let mut thread = Thread::of_chat("c1");
    let first = thread.say(&gateway, "one", "two").await;
    let mut edited = Thread::of_chat("c1");
    let branch = edited.say(&gateway, "ONE", "TWO").await;
    assert_eq!(session(&branch).1, "branched");
    assert_eq!(gateway.context(), ["user: ONE"]);
    gateway.restart().await;
    let regenerated = Thread::of_chat("c1").say(&gateway, "one", "other").await;
    assert_eq!(session(&regenerated).1, "branched");
    let next = edited.say(&gateway, "more", "yes").await;
    assert_eq!(session(&next), (session(&branch).0, "head"));
    let next = thread.say(&gateway, "more", "yes").await;
    assert_eq!(session(&next), (session(&first).0, "head"));
    assert_eq!(kinds(&gateway).await, ["branch", "branch", "main"]);
    let parent = gateway.client().get(&format!("/api/sessions/{}", session(&branch).0)).await.expect(200);
    assert_eq!(parent["parent_session_id"], first["session"]["session_id"]);
}

#[tokio::test]
async fn equal_histories_of_different_chats_stay_apart() {
    let gateway = TestGateway::start().await;
    for header in [OPEN_WEBUI, "session-id", "thread-id", "chatui-conversation-id", "x-conversation-id"] {
        let of_chat = |id: &str| Thread { headers: vec![(header, id.to_owned())], ..Thread::default() };
        let (mut one, mut two) = (of_chat("c1"), of_chat("c2"));
        let first = one.say(&gateway, "hello", "hi").await;
        let second = two.say(&gateway, "hello", "hi").await;
        let third = one.say(&gateway, "more", "yes").await;
        let fourth = two.say(&gateway, "more", "yes").await;
        assert_eq!((session(&third).0, session(&fourth).0), (session(&first).0, session(&second).0), "{header}");
        let mut other = Thread { history: one.history.clone(), ..of_chat("c3") };
        assert_eq!(session(&other.say(&gateway, "more", "yes").await).1, "created", "this chat has no such history");
    }
}

#[tokio::test]
async fn a_chat_id_beside_a_name_decides_nothing() {
    let gateway = TestGateway::start().await;
    let named = gateway.in_session("trip").header(OPEN_WEBUI, "c1");
    let first = named.post_json(CHAT, &chat(&[user("one")])).await.expect(200);
    let unnamed = Thread::of_chat("c1").say(&gateway, "one", "two").await;
    assert_ne!(session(&first).0, session(&unnamed).0);
    assert_eq!(session(&unnamed).1, "created");
}

#[tokio::test]
async fn a_failed_opening_of_a_chat_is_tried_again() {
    let gateway = TestGateway::with_settings(&[("HERMA_UPSTREAM__RETRIES", "0")]).await;
    let mut thread = Thread::of_chat("c1");
    thread.history.push(user("one"));
    gateway.upstream.push(Reply::status(400, "no"));
    assert_eq!(thread.send(&gateway).await.status, 502);
    let again = thread.ask(&gateway, "two").await;
    assert_eq!(gateway.sessions().await.len(), 1);
    let next = thread.say(&gateway, "three", "four").await;
    assert_eq!(session(&next), (session(&again).0, "head"));
}

#[tokio::test]
async fn a_response_that_is_not_stored_is_kept_in_its_chat() {
    let gateway = TestGateway::start().await;
    let codex = gateway.client().header("session-id", "s").header("thread-id", "t");
    let respond = async |input: serde_json::Value| {
        codex.post_json(RESPONSES, &json!({"model": "m", "input": input, "store": false})).await.expect(200)
    };
    gateway.upstream.push(Reply::text("two"));
    let first = respond(json!([item("user", "context"), item("user", "one")])).await;
    let path = format!("{RESPONSES}/{}", first["id"].as_str().unwrap());
    assert_eq!(gateway.client().get(&path).await.status, 404, "it cannot be fetched");
    let next = json!([item("user", "context"), item("user", "one"), item("assistant", "two"), item("user", "three")]);
    let second = respond(next).await;
    assert_eq!(session(&second), (session(&first).0, "head"));
    assert_eq!(gateway.rows(&session(&first).0).await.len(), 5);
}

#[tokio::test]
async fn other_headers_can_be_configured() {
    let gateway = TestGateway::with_settings(&[("HERMA_SERVER__CHAT_HEADERS", "x-room")]).await;
    let mut thread = Thread { headers: vec![("x-room", "1".to_owned())], ..Thread::default() };
    thread.say(&gateway, "one", "two").await;
    let edited = Thread { history: Vec::new(), ..thread.clone() }.say(&gateway, "ONE", "two").await;
    assert_eq!(session(&edited).1, "branched");
    let other = Thread::of_chat("1").say(&gateway, "one", "two").await;
    assert_eq!(session(&other).1, "created", "this header is not in the list");
}

#[tokio::test]
async fn an_edited_opening_after_a_greeting_is_a_branch_too() {
    let gateway = TestGateway::start().await;
    let greeted = Thread { history: vec![assistant("Hello, I am Herma.")], ..Thread::of_chat("c1") };
    greeted.clone().say(&gateway, "one", "two").await;
    let edited = greeted.clone().say(&gateway, "ONE", "TWO").await;
    assert_eq!(session(&edited).1, "branched");
    assert_eq!(gateway.context(), ["assistant: Hello, I am Herma.", "user: ONE"]);
}

#[tokio::test]
async fn a_chat_under_another_session_key_is_another_chat() {
    let gateway = TestGateway::start().await;
    let keyed = |key: &str| {
        let mut thread = Thread::of_chat("c1");
        thread.headers.push((SESSION_KEY, key.to_owned()));
        thread
    };
    for mut thread in [keyed("ann"), keyed("bob"), Thread::of_chat("c1")] {
        let first = thread.say(&gateway, "one", "two").await;
        assert_eq!(session(&first).1, "created");
        let second = thread.say(&gateway, "three", "four").await;
        assert_eq!(session(&second), (session(&first).0, "head"));
    }
}

#[tokio::test]
async fn equal_openings_of_two_chats_are_two_requests() {
    let gateway = TestGateway::with_settings(&[("HERMA_UPSTREAM__RETRIES", "0")]).await;
    gateway.upstream.push(Reply::status(400, "no"));
    let opening = |chat: &str| Thread { history: vec![user("one")], ..Thread::of_chat(chat) };
    assert_eq!(opening("c1").send(&gateway).await.status, 502);
    let second = opening("c2").ask(&gateway, "two").await;
    assert_eq!(session(&second).1, "created", "the opening of another chat failed");
    let mut retry = opening("c3");
    retry.headers.push(("x-stainless-retry-count", "1".to_owned()));
    assert_eq!(session(&retry.ask(&gateway, "two").await).1, "created", "an SDK repeats a request of its own chat");
    let again = opening("c1").ask(&gateway, "two").await;
    assert_eq!(session(&again).1, "head", "another attempt of the turn that failed");
}

#[tokio::test]
async fn an_idempotency_key_belongs_to_its_chat() {
    let gateway = TestGateway::start().await;
    let keyed = |chat: &str| {
        let mut thread = Thread::of_chat(chat);
        thread.headers.push(("idempotency-key", "k".to_owned()));
        thread
    };
    let first = keyed("c1").say(&gateway, "one", "two").await;
    let second = keyed("c2").say(&gateway, "one", "TWO").await;
    assert_ne!(session(&first).0, session(&second).0, "equal bodies of two chats are two requests");
    let third = keyed("c3").say(&gateway, "other words", "three").await;
    assert_eq!(session(&third).1, "created");
    let again = Thread { history: vec![user("one")], ..keyed("c1") };
    assert_eq!(again.send(&gateway).await.expect(200)["choices"], first["choices"], "the first outcome");
    let other = Thread { history: vec![user("another body")], ..keyed("c1") };
    assert_eq!(other.send(&gateway).await.status, 422);
}

#[tokio::test]
async fn items_that_wait_outside_a_chat_are_not_answered_in_it() {
    let gateway = TestGateway::start().await;
    let posted = json!({"items": [item("user", "one")]});
    let made = gateway.client().post_json("/v1/conversations", &posted).await.expect(200);
    let in_chat = Thread::of_chat("c1").say(&gateway, "one", "two").await;
    let headers = vec![("x-hermes-session-kind", "auxiliary".to_owned())];
    let helper = Thread { headers, ..Thread::default() }.say(&gateway, "one", "two").await;
    assert_eq!((session(&in_chat).1, session(&helper).1), ("created", "created"));
    let unnamed = Thread::default().say(&gateway, "one", "two").await;
    assert_eq!(session(&unnamed), (made["id"].as_str().unwrap().to_owned(), "head"));
}

#[tokio::test]
async fn a_history_leaves_the_conversation_that_it_follows_furthest() {
    let gateway = TestGateway::start().await;
    let mut thread = Thread::of_chat("c1");
    thread.say(&gateway, "one", "two").await;
    let mut edited = thread.clone();
    let second = thread.say(&gateway, "three", "four").await;
    thread.say(&gateway, "five", "six").await;
    edited.say(&gateway, "THREE", "FOUR").await;
    thread.history[5] = assistant("six, edited");
    let branch = thread.say(&gateway, "seven", "eight").await;
    assert_eq!(session(&branch).1, "branched");
    let inherited: Vec<_> =
        gateway.rows(&session(&branch).0).await.iter().map(|row| row["session_id"].clone()).collect();
    let source = &second["session"]["session_id"];
    assert_eq!(inherited.iter().filter(|session| *session == source).count(), 4, "{inherited:?}");
}
