//! Two editors on one store.

use herma_testkit::{Gate, McpServer, Reply, ScriptedUpstream, ToolCall};
use serde_json::json;

use crate::support::files;
use crate::{Agent, text_of, updates_of};

#[tokio::test(flavor = "multi_thread")]
async fn two_editors_work_side_by_side_and_one_ends_without_the_other() {
    let upstream = ScriptedUpstream::start().await;
    let mut first = Agent::scripted(&upstream, "");
    let mut second = first.another();
    let (a, b) = (first.new_session(), second.new_session());
    let gate = Gate::new();
    upstream.push(Reply::text("of the first").held(&gate));
    let id = first.ask_prompt(&a, "one");
    gate.until_waiting(1).await;
    upstream.push(Reply::text("of the second"));
    let (updates, _) = second.prompt(&b, "two");
    assert_eq!(text_of(&updates, "agent_message_chunk"), "of the second");
    assert_eq!(second.end().code(), Some(0));
    gate.open();
    let (before, answer) = first.until(id);
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(text_of(&updates_of(&before), "agent_message_chunk"), "of the first");
    assert_eq!(first.call("session/list", json!({}))["sessions"].as_array().map(Vec::len), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_of_two_editors_in_one_session_are_answered_one_after_the_other() {
    let upstream = ScriptedUpstream::start().await;
    let mut first = Agent::scripted(&upstream, "");
    let mut second = first.another();
    let session = first.new_session();
    second.take_up("session/resume", &session);
    let gate = Gate::new();
    upstream.push(Reply::text("first").held(&gate));
    upstream.push(Reply::text("second"));
    let one = first.ask_prompt(&session, "one");
    gate.until_waiting(1).await;
    let two = second.ask_prompt(&session, "two");
    first.call("session/list", json!({}));
    gate.open();
    assert_eq!(first.until(one).1["result"]["stopReason"], "end_turn");
    let (before, answer) = second.until(two);
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(text_of(&updates_of(&before), "agent_message_chunk"), "second");
    assert_eq!(upstream.last_request().transcript().len(), 3, "the second prompt sees the first answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_the_other_editor_answers_is_taken_back() {
    let (upstream, server) = (ScriptedUpstream::start().await, McpServer::stdio());
    let mut first = Agent::scripted(&upstream, &files(&server));
    let session = first.new_session();
    upstream.push(Reply::tool_calls([ToolCall::new("c1", "files__echo", r#"{"text":"x"}"#)]));
    upstream.push(Reply::text("done"));
    let id = first.ask_prompt(&session, "write");
    let (_, asked) = first.until_asked("session/request_permission");
    let mut second = first.another();
    second.take_up("session/resume", &session);
    let (_, question) = second.until_asked("session/request_permission");
    second.reply(&question, json!({ "outcome": { "outcome": "selected", "optionId": "once" } }));
    let (_, taken_back) = first.until_asked("$/cancel_request");
    assert_eq!(taken_back["params"]["requestId"], asked["id"]);
    let (before, answer) = first.until(id);
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(text_of(&updates_of(&before), "agent_message_chunk"), "done");
    assert_eq!(server.logged("call echo"), 1);
}
