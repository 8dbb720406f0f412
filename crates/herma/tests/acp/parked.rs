//! Turns that wait for a permission when the editor goes away.

use herma_testkit::{McpServer, Reply, ScriptedUpstream, ToolCall};
use serde_json::{Value, json};

use crate::support::{files, statuses};
use crate::{Agent, text_of, updates_of};

/// An agent whose prompt waits for a permission, and its session.
fn waiting(upstream: &ScriptedUpstream, server: &McpServer) -> (Agent, String) {
    let mut agent = Agent::scripted(upstream, &files(server));
    let session = agent.new_session();
    upstream.push(Reply::tool_calls([ToolCall::new("c1", "files__echo", r#"{"text":"x"}"#)]));
    agent.ask_prompt(&session, "write");
    agent.until_asked("session/request_permission");
    (agent, session)
}

fn allowed() -> Value {
    json!({ "outcome": { "outcome": "selected", "optionId": "once" } })
}

/// The updates until the model has said this.
fn until_said(agent: &Agent, text: &str) -> Vec<Value> {
    let mut updates = Vec::new();
    while !text_of(&updates, "agent_message_chunk").contains(text) {
        updates.extend(updates_of(&[agent.next()]));
    }
    updates
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_end_of_input_a_load_asks_again_and_the_turn_goes_on() {
    let (upstream, server) = (ScriptedUpstream::start().await, McpServer::stdio());
    let (mut first, session) = waiting(&upstream, &server);
    let begun = std::time::Instant::now();
    assert_eq!(first.end().code(), Some(0));
    assert!(begun.elapsed().as_secs() < 5, "it ends within seconds");
    let mut later = first.another();
    let id = later.take_up("session/load", &session);
    let (before, _) = later.until(id);
    let replayed = statuses(&updates_of(&before));
    assert!(matches!(&replayed[..], [(_, status)] if status == "pending"), "{replayed:?}");
    let (between, request) = later.until_asked("session/request_permission");
    assert!(between.iter().all(|message| message["method"] == "session/update"), "{between:?}");
    assert_eq!(request["params"]["toolCall"]["toolCallId"], *replayed[0].0);
    upstream.push(Reply::text("done now"));
    later.reply(&request, allowed());
    let updates = until_said(&later, "done now");
    let ended = statuses(&updates);
    assert_eq!(ended, [(replayed[0].0.clone(), "in_progress".into()), (replayed[0].0.clone(), "completed".into())]);
    assert_eq!(server.logged("call echo"), 1);
    assert_eq!(later.prompt(&session, "thanks").1["result"]["stopReason"], "end_turn");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_while_the_person_is_asked_loses_nothing_and_a_resume_asks_again() {
    let (upstream, server) = (ScriptedUpstream::start().await, McpServer::stdio());
    let (mut first, session) = waiting(&upstream, &server);
    first.kill();
    let mut later = first.another();
    let id = later.take_up("session/resume", &session);
    assert_eq!(later.until(id).0, Vec::<Value>::new(), "a resume replays nothing");
    let (_, request) = later.until_asked("session/request_permission");
    upstream.push(Reply::text("done now"));
    later.reply(&request, allowed());
    until_said(&later, "done now");
    assert_eq!(server.logged("call echo"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_prompt_denies_what_an_earlier_connection_was_asked() {
    let (upstream, server) = (ScriptedUpstream::start().await, McpServer::stdio());
    let (mut first, session) = waiting(&upstream, &server);
    assert_eq!(first.end().code(), Some(0));
    let mut second = first.another();
    second.take_up("session/resume", &session);
    let (_, request) = second.until_asked("session/request_permission");
    let id = second.ask_prompt(&session, "never mind");
    let (_, taken_back) = second.until_asked("$/cancel_request");
    assert_eq!(taken_back["params"]["requestId"], request["id"]);
    let (updates, answer) = second.until(id);
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(text_of(&updates_of(&updates), "agent_message_chunk"), "reply to: never mind");
    assert!(upstream.last_request().body.to_string().contains("[This call was not executed"), "the model is told");
    assert_eq!(server.logged("call echo"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_of_an_editor_that_has_not_loaded_the_session_denies_too() {
    let (upstream, server) = (ScriptedUpstream::start().await, McpServer::stdio());
    let (mut first, session) = waiting(&upstream, &server);
    first.kill();
    let mut second = first.another();
    let (updates, answer) = second.prompt(&session, "never mind");
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(text_of(&updates, "agent_message_chunk"), "reply to: never mind");
    assert_eq!(server.logged("call echo"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_is_asked_again_can_be_cancelled() {
    let (upstream, server) = (ScriptedUpstream::start().await, McpServer::stdio());
    let (mut first, session) = waiting(&upstream, &server);
    first.kill();
    let mut later = first.another();
    later.take_up("session/resume", &session);
    later.until_asked("session/request_permission");
    later.notify("session/cancel", json!({ "sessionId": session }));
    later.until_asked("$/cancel_request");
    assert_eq!(later.prompt(&session, "hello").1["result"]["stopReason"], "end_turn");
    assert_eq!(server.logged("call echo"), 0);
}
