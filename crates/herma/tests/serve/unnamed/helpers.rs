//! Helpers of front ends: titles, tags and the like are auxiliary turns that never touch the chat.

use herma_testkit::Reply;
use serde_json::{Value, json};

use super::{OPEN_WEBUI, RESPONSES, Thread, item, session};
use crate::support::{CHAT, TestGateway, chat, data, user};

const TASK: &str = "### Task:\nGenerate a title for this chat.";
/// How LibreChat asks for a title.
const LIBRECHAT_TITLE: &str = "Provide a concise, 5-word-or-less title for this: User: one AI: two";

async fn auxiliary(gateway: &TestGateway) -> Vec<Value> {
    data(&gateway.client().get("/api/sessions?origin_kind=auxiliary").await)
}

#[tokio::test]
async fn helpers_of_a_chat_are_linked_to_it_and_hidden_from_people() {
    for (header, task) in [(OPEN_WEBUI, TASK), ("x-conversation-id", LIBRECHAT_TITLE)] {
        let gateway = TestGateway::start().await;
        let mut thread = Thread { headers: vec![(header, "c1".to_owned())], ..Thread::default() };
        let first = thread.say(&gateway, "one", "two").await;
        let helper = gateway.client().header(header, "c1").post_json(CHAT, &chat(&[user(task)])).await.expect(200);
        assert_eq!(helper["session"]["provenance"]["kind"], "auxiliary");
        assert_eq!(helper["session"]["provenance"]["parent_session_id"], first["session"]["session_id"]);
        let second = thread.say(&gateway, "three", "four").await;
        assert_eq!(session(&second), (session(&first).0, "head"), "the chat is untouched");
        let shown = data(&gateway.client().get("/api/sessions?user_facing=true").await);
        assert_eq!((shown.len(), auxiliary(&gateway).await.len()), (1, 1));
    }
}

#[tokio::test]
async fn a_task_is_a_helper_without_a_chat_id_too_unless_a_person_asks_for_it() {
    let gateway = TestGateway::start().await;
    gateway.client().post_json(CHAT, &chat(&[user(TASK)])).await.expect(200);
    assert_eq!(auxiliary(&gateway).await.len(), 1);
    let named = gateway.in_session("mine").post_json(CHAT, &chat(&[user(TASK)])).await.expect(200);
    assert_eq!(named["session"]["provenance"]["kind"], "main");
}

#[tokio::test]
async fn names_of_tasks_count_as_the_kind_of_a_session() {
    let gateway = TestGateway::start().await;
    for task in ["title_generation", "query_generation", "function_calling", "auxiliary"] {
        let client = gateway.client().header("x-hermes-session-kind", task);
        let body = client.post_json(CHAT, &chat(&[user("do it")])).await.expect(200);
        assert_eq!(body["session"]["provenance"]["kind"], "auxiliary", "{task}");
    }
    let refused = gateway.client().header("x-hermes-session-kind", "branch").post_json(CHAT, &chat(&[user("x")])).await;
    assert_eq!(refused.status, 400);
}

#[tokio::test]
async fn a_helper_with_a_history_continues_its_own_conversation() {
    let gateway = TestGateway::start().await;
    let headers = vec![("x-hermes-session-kind", "auxiliary".to_owned())];
    let mut helper = Thread { headers, ..Thread::default() };
    let first = helper.say(&gateway, "one", "two").await;
    let second = helper.say(&gateway, "three", "four").await;
    assert_eq!(session(&second), (session(&first).0, "head"));
    let mut person = Thread { history: helper.history.clone(), ..Thread::default() };
    assert_eq!(session(&person.say(&gateway, "five", "six").await).1, "created", "people do not continue a helper");
}

#[tokio::test]
async fn a_request_for_a_summary_is_auxiliary() {
    let gateway = TestGateway::start().await;
    let codex = || gateway.client().header("session-id", "s");
    let respond = |input: Value| json!({"model": "m", "input": input, "store": false});
    gateway.upstream.push(Reply::text("two"));
    let first = codex().post_json(RESPONSES, &respond(json!([item("user", "one")]))).await.expect(200);
    let asks = codex().header("x-codex-turn-metadata", r#"{"request_kind":"compaction"}"#);
    let input = json!([item("user", "one"), item("assistant", "two"), item("user", "Summarise all of it.")]);
    let summary = asks.post_json(RESPONSES, &respond(input)).await.expect(200);
    assert_eq!(summary["session"]["provenance"]["kind"], "auxiliary");
    assert_eq!(summary["session"]["provenance"]["parent_session_id"], first["session"]["session_id"]);
    assert_eq!(gateway.rows(&session(&first).0).await.len(), 2);
}

#[tokio::test]
async fn a_helper_that_is_faster_than_the_first_question_is_linked_too() {
    let gateway = TestGateway::start().await;
    let mut thread = Thread::of_chat("c1");
    let title = gateway.client().header(OPEN_WEBUI, "c1");
    let asked = chat(&[user(TASK)]);
    let (helper, first) = tokio::join!(title.post_json(CHAT, &asked), thread.say(&gateway, "one", "two"));
    let helper = helper.expect(200);
    assert_eq!(helper["session"]["provenance"]["parent_session_id"], first["session"]["session_id"]);
}
