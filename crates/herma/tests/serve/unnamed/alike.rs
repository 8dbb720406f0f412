//! Threads that are alike in a part of their history, continued while their conversations are in memory.

use serde_json::json;

use super::{OPEN_WEBUI, Thread, session};
use crate::isolation::key_of;
use crate::support::{CHAT, TestGateway, assistant, chat, user};

/// Continues two threads by turns. Each has to stay in its own conversation, and its model is shown nothing else.
async fn check_apart(gateway: &TestGateway, threads: &mut [Thread; 2]) {
    let mut conversations = [String::new(), String::new()];
    for (thread, conversation) in threads.iter_mut().zip(&mut conversations) {
        *conversation = session(&thread.say(gateway, "first", "the same answer").await).0;
    }
    assert_ne!(conversations[0], conversations[1]);
    for (nth, conversation) in [0, 1, 1, 0].map(|nth| (nth, conversations[nth].clone())) {
        let body = threads[nth].say(gateway, "next", "the same answer").await;
        assert_eq!(session(&body), (conversation, "head"));
        let said = threads[nth].history.iter().filter(|said| said["role"] != "system");
        assert_eq!(gateway.context().len() + 1, said.count());
    }
}

#[tokio::test]
async fn threads_that_differ_only_in_the_middle_stay_apart() {
    let gateway = TestGateway::start().await;
    let of = |middle: &str| Thread {
        history: vec![user("hello"), assistant("hello"), user(middle), assistant("yes")],
        ..Thread::default()
    };
    check_apart(&gateway, &mut [of("one"), of("two")]).await;
}

#[tokio::test]
async fn another_tenant_with_the_same_chat_id_and_history_has_a_conversation_of_its_own() {
    let gateway = TestGateway::start().await;
    let mut thread = Thread::of_chat("c1");
    thread.say(&gateway, "one", "two").await;
    let first = session(&thread.say(&gateway, "three", "four").await).0;
    let other = key_of(&gateway, "acme", None).await.header(OPEN_WEBUI, "c1");
    thread.history.push(user("five"));
    let body = other.post_json(CHAT, &chat(&thread.history)).await.expect(200);
    assert_eq!(session(&body).1, "created");
    assert_eq!(session(&thread.ask(&gateway, "six").await), (first, "head"));
}

#[tokio::test]
async fn results_that_come_in_another_order_continue_the_thread_in_memory() {
    let gateway = TestGateway::start().await;
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}});
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": id});
    let calls = json!({"role": "assistant", "content": null, "tool_calls": [call("a"), call("b")]});
    let mut thread = Thread { history: vec![user("look"), calls, result("a"), result("b")], ..Thread::default() };
    let first = session(&thread.ask(&gateway, "found").await).0;
    thread.history.swap(2, 3);
    let body = thread.say(&gateway, "and then?", "nothing").await;
    assert_eq!(session(&body), (first, "head"));
}

#[tokio::test]
async fn thoughts_that_a_client_sends_back_are_shown_to_the_model_again() {
    let gateway = TestGateway::start().await;
    let (plain, thinking) = ("Four.", "<think>\n2 and 2\n</think>\nFour.");
    for (sent, shown) in [
        (json!(thinking), format!("assistant: {thinking}")),
        (json!([{"type": "text", "text": thinking}]), format!("assistant: {thinking}")),
        (json!(plain), format!("assistant: {plain}")),
    ] {
        let mut thread = Thread::default();
        thread.say(&gateway, &format!("2 + 2? {}", sent), thinking).await;
        thread.history[1]["content"] = sent;
        thread.say(&gateway, "sure?", "Yes.").await;
        assert_eq!(gateway.context()[1], shown);
    }
}
