//! Permission requests: what the person is asked, and what each answer does.

use herma_testkit::{McpServer, Reply, ScriptedUpstream, ToolCall};
use serde_json::{Value, json};

use crate::support::{files, statuses};
use crate::{Agent, text_of, updates_of};

/// A call of a tool that is not marked read-only.
fn write(id: &str) -> Reply {
    Reply::tool_calls([ToolCall::new(id, "files__echo", r#"{"text":"x"}"#)])
}

fn selected(option: &str) -> Value {
    json!({ "outcome": { "outcome": "selected", "optionId": option } })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_needs_consent_asks_with_four_options_and_is_made_when_it_is_allowed() {
    let (upstream, server) = (ScriptedUpstream::start().await, McpServer::stdio());
    let mut agent = Agent::scripted(&upstream, &files(&server));
    let session = agent.new_session();
    upstream.push(write("c1"));
    upstream.push(Reply::text("done"));
    let id = agent.ask_prompt(&session, "write");
    let (before, request) = agent.until_asked("session/request_permission");
    let shown = statuses(&updates_of(&before));
    let params = &request["params"];
    assert_eq!((&params["sessionId"], &params["toolCall"]["rawInput"]), (&json!(session), &json!({ "text": "x" })));
    assert_eq!(shown, [(params["toolCall"]["toolCallId"].as_str().unwrap().to_owned(), "pending".to_owned())]);
    let options: Vec<_> = params["options"].as_array().unwrap().iter().map(|option| &option["kind"]).collect();
    assert_eq!(options, ["allow_once", "allow_always", "allow_always", "reject_once"]);
    assert_eq!(server.logged("call echo"), 0, "nothing is called before the answer");
    agent.reply(&request, selected("once"));
    let (after, answer) = agent.until(id);
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    let after = updates_of(&after);
    let ended: Vec<_> = statuses(&after).into_iter().map(|(_, status)| status).collect();
    assert_eq!(ended, ["in_progress", "completed"]);
    assert_eq!(text_of(&after, "agent_message_chunk"), "done");
    assert_eq!(server.logged("call echo"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn once_asks_again_and_a_permission_for_the_session_does_not() {
    let (upstream, server) = (ScriptedUpstream::start().await, McpServer::stdio());
    let mut agent = Agent::scripted(&upstream, &files(&server));
    let session = agent.new_session();
    for (call, option) in [("c1", "once"), ("c2", "session")] {
        upstream.push(write(call));
        upstream.push(Reply::text("done"));
        let id = agent.ask_prompt(&session, "write");
        let (_, request) = agent.until_asked("session/request_permission");
        agent.reply(&request, selected(option));
        assert_eq!(agent.until(id).1["result"]["stopReason"], "end_turn");
    }
    upstream.push(write("c3"));
    upstream.push(Reply::text("done"));
    let id = agent.ask_prompt(&session, "write");
    let (before, _) = agent.until(id);
    assert!(before.iter().all(|message| message["method"] == "session/update"), "{before:?}");
    assert_eq!(server.logged("call echo"), 3);
    let other = agent.new_session();
    upstream.push(write("c4"));
    upstream.push(Reply::text("not done"));
    let id = agent.ask_prompt(&other, "write");
    let (_, request) = agent.until_asked("session/request_permission");
    agent.reply(&request, selected("deny"));
    agent.until(id);
    assert_eq!(server.logged("call echo"), 3, "another session asks");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_calls_of_one_message_are_asked_one_after_the_other_unless_the_first_answer_holds_for_both() {
    let (upstream, server) = (ScriptedUpstream::start().await, McpServer::stdio());
    let mut agent = Agent::scripted(&upstream, &files(&server));
    let session = agent.new_session();
    let two = || {
        let call = |id: &str| ToolCall::new(id, "files__echo", r#"{"text":"x"}"#);
        Reply::tool_calls([call("c1"), call("c2")])
    };
    upstream.push(two());
    upstream.push(Reply::text("done"));
    let id = agent.ask_prompt(&session, "write");
    for option in ["once", "deny"] {
        let (_, request) = agent.until_asked("session/request_permission");
        agent.reply(&request, selected(option));
    }
    agent.until(id);
    assert_eq!(server.logged("call echo"), 1);
    upstream.push(two());
    upstream.push(Reply::text("done"));
    let id = agent.ask_prompt(&session, "write");
    let (_, request) = agent.until_asked("session/request_permission");
    agent.reply(&request, selected("session"));
    let (after, _) = agent.until(id);
    assert!(after.iter().all(|message| message["method"] == "session/update"), "{after:?}");
    assert_eq!(server.logged("call echo"), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_and_cancelled_deny_the_call_and_the_turn_goes_on() {
    let (upstream, server) = (ScriptedUpstream::start().await, McpServer::stdio());
    let mut agent = Agent::scripted(&upstream, &files(&server));
    let session = agent.new_session();
    for (call, outcome) in
        [("c1", selected("deny")), ("c2", json!({ "outcome": { "outcome": "cancelled" } })), ("c3", json!("nonsense"))]
    {
        upstream.push(write(call));
        upstream.push(Reply::text("as you like"));
        let id = agent.ask_prompt(&session, "write");
        let (_, request) = agent.until_asked("session/request_permission");
        agent.reply(&request, outcome);
        let (after, answer) = agent.until(id);
        assert_eq!(answer["result"]["stopReason"], "end_turn");
        let after = updates_of(&after);
        assert_eq!(statuses(&after).last().map(|(_, status)| status.as_str()), Some("failed"), "{after:?}");
        assert_eq!(text_of(&after, "agent_message_chunk"), "as you like");
        assert!(upstream.last_request().body.to_string().contains("[This call was denied"), "the model is told");
    }
    assert_eq!(server.logged("call echo"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_takes_the_question_back_ends_the_turn_and_leaves_the_next_one_alone() {
    let (upstream, server) = (ScriptedUpstream::start().await, McpServer::stdio());
    let mut agent = Agent::scripted(&upstream, &files(&server));
    let session = agent.new_session();
    upstream.push(write("c1"));
    let id = agent.ask_prompt(&session, "write");
    let (_, request) = agent.until_asked("session/request_permission");
    let waiting = agent.ask_prompt(&session, "and then");
    agent.notify("session/cancel", json!({ "sessionId": session }));
    agent.notify("session/cancel", json!({ "sessionId": session }));
    let (mut before, taken_back) = agent.until_asked("$/cancel_request");
    assert_eq!(taken_back["params"]["requestId"], request["id"]);
    agent.reply(&request, json!({ "outcome": { "outcome": "cancelled" } }));
    let (more, first) = agent.until(id);
    before.extend(more);
    let second = before.extract_if(.., |message| message["id"] == waiting).next();
    let second = second.unwrap_or_else(|| agent.until(waiting).1);
    for answer in [&first, &second] {
        assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    }
    let (updates, answer) = agent.prompt(&session, "hello");
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(text_of(&updates, "agent_message_chunk"), "reply to: hello");
    assert_eq!(server.logged("call echo"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mode_that_is_set_while_a_turn_runs_holds_for_its_next_call() {
    let (upstream, server) = (ScriptedUpstream::start().await, McpServer::stdio());
    let mut agent = Agent::scripted(&upstream, &files(&server));
    let session = agent.new_session();
    upstream.push(write("c1"));
    upstream.push(write("c2"));
    upstream.push(Reply::text("done"));
    let id = agent.ask_prompt(&session, "write");
    let (_, request) = agent.until_asked("session/request_permission");
    agent.call("session/set_mode", json!({ "sessionId": session, "modeId": "auto" }));
    agent.reply(&request, selected("once"));
    let (after, _) = agent.until(id);
    assert!(after.iter().all(|message| message["method"] == "session/update"), "{after:?}");
    assert_eq!(server.logged("call echo"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_nobody_answers_is_taken_back_and_denied_in_time() {
    let (upstream, server) = (ScriptedUpstream::start().await, McpServer::stdio());
    let config = format!("[tools]\napproval_timeout = \"1s\"\n{}", files(&server));
    let mut agent = Agent::scripted(&upstream, &config);
    let session = agent.new_session();
    upstream.push(write("c1"));
    upstream.push(Reply::text("nobody was there"));
    let id = agent.ask_prompt(&session, "write");
    let (_, request) = agent.until_asked("session/request_permission");
    let (_, taken_back) = agent.until_asked("$/cancel_request");
    assert_eq!(taken_back["params"]["requestId"], request["id"]);
    let (after, answer) = agent.until(id);
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(text_of(&updates_of(&after), "agent_message_chunk"), "nobody was there");
    assert_eq!(server.logged("call echo"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_streams_piece_by_piece_after_a_question_too() {
    let (upstream, server) = (ScriptedUpstream::start().await, McpServer::stdio());
    let mut agent = Agent::scripted(&upstream, &files(&server));
    let session = agent.new_session();
    upstream.push(write("c1"));
    upstream.push(Reply::chunks(["one ", "two ", "three"]));
    let id = agent.ask_prompt(&session, "write");
    let (_, request) = agent.until_asked("session/request_permission");
    agent.reply(&request, selected("once"));
    let after = updates_of(&agent.until(id).0);
    let pieces: Vec<_> = after.iter().filter(|update| update["sessionUpdate"] == "agent_message_chunk").collect();
    assert_eq!(text_of(&after, "agent_message_chunk"), "one two three");
    assert_eq!(pieces.len(), 3, "{pieces:?}");
}
