//! The editor's terminal as a tool.

use herma_testkit::{Reply, ScriptedUpstream, ToolCall};
use serde_json::{Value, json};

use crate::support::statuses;
use crate::{Agent, text_of, updates_of};

fn run(arguments: Value) -> Reply {
    Reply::tool_calls([ToolCall::new("c1", "editor__terminal", arguments.to_string())])
}

/// An agent that runs a command without a question, until the terminal is made. The prompt's id is last.
fn running(upstream: &ScriptedUpstream, arguments: Value) -> (Agent, String, i64) {
    let mut agent = Agent::in_project(upstream, "");
    let session = agent.new_session();
    agent.set_mode(&session, "auto");
    upstream.push(run(arguments));
    let id = agent.ask_prompt(&session, "run");
    let (_, create) = agent.until_asked("terminal/create");
    agent.reply(&create, json!({ "terminalId": "t1" }));
    (agent, session, id)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_asks_and_runs_in_the_terminal_which_the_editor_shows() {
    let upstream = ScriptedUpstream::start().await;
    let mut agent = Agent::in_project(&upstream, "");
    let session = agent.new_session();
    upstream.push(run(json!({ "command": "cargo", "args": ["test"], "env": { "CI": "1" } })));
    upstream.push(Reply::text("green"));
    let id = agent.ask_prompt(&session, "test");
    let (_, question) = agent.until_asked("session/request_permission");
    let shown = &question["params"]["toolCall"];
    assert_eq!((&shown["title"], &shown["kind"]), (&json!("cargo test"), &json!("execute")));
    agent.reply(&question, json!({ "outcome": { "outcome": "selected", "optionId": "once" } }));
    let (mut before, create) = agent.until_asked("terminal/create");
    let params = &create["params"];
    assert_eq!((&params["command"], &params["args"]), (&json!("cargo"), &json!(["test"])));
    assert_eq!((&params["cwd"], &params["env"]), (&json!(agent.cwd()), &json!([{ "name": "CI", "value": "1" }])));
    agent.reply(&create, json!({ "terminalId": "t1" }));
    let (more, wait) = agent.until_asked("terminal/wait_for_exit");
    agent.reply(&wait, json!({ "exitCode": 0 }));
    let (still_more, output) = agent.until_asked("terminal/output");
    before.extend(more.into_iter().chain(still_more));
    let terminal = json!([{ "type": "terminal", "terminalId": "t1" }]);
    assert!(updates_of(&before).iter().any(|update| update["content"] == terminal), "{before:?}");
    agent.reply(&output, json!({ "output": "12 passed\n", "truncated": false }));
    let (_, release) = agent.until_asked("terminal/release");
    assert_eq!(release["params"], json!({ "sessionId": session, "terminalId": "t1" }));
    agent.reply(&release, Value::Null);
    let updates = updates_of(&agent.until(id).0);
    let last = updates.iter().rfind(|update| update["status"] == "completed").unwrap();
    assert_eq!(last["content"], terminal);
    assert!(upstream.last_request().body.to_string().contains(r"12 passed\n[Exit code 0]"), "the model sees it");
    let mut later = agent.another();
    let id = later.take_up("session/load", &session);
    let replayed = updates_of(&later.until(id).0);
    let last = replayed.iter().rfind(|update| update["status"] == "completed").unwrap();
    assert_eq!(last["content"][0]["content"]["text"], "12 passed\n[Exit code 0]");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_takes_too_long_is_killed_and_its_output_is_kept() {
    let upstream = ScriptedUpstream::start().await;
    let (mut agent, _, id) = running(&upstream, json!({ "command": "sleep 99; echo", "timeout_seconds": 1 }));
    upstream.push(Reply::text("too long"));
    agent.until_asked("terminal/wait_for_exit");
    let (_, kill) = agent.until_asked("terminal/kill");
    agent.reply(&kill, json!({}));
    let (_, output) = agent.until_asked("terminal/output");
    agent.reply(&output, json!({ "output": "half", "truncated": false }));
    let (_, release) = agent.until_asked("terminal/release");
    agent.reply(&release, json!({}));
    let updates = updates_of(&agent.until(id).0);
    assert_eq!(statuses(&updates).last().map(|(_, status)| status.as_str()), Some("failed"));
    let told = upstream.last_request().body.to_string();
    assert!(told.contains("half") && told.contains("was killed"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_releases_the_terminal_and_the_next_turn_is_untouched() {
    let upstream = ScriptedUpstream::start().await;
    let (mut agent, session, id) = running(&upstream, json!({ "command": "sleep 99" }));
    let (_, wait) = agent.until_asked("terminal/wait_for_exit");
    agent.notify("session/cancel", json!({ "sessionId": session }));
    let (mut before, answer) = agent.until(id);
    assert_eq!(answer["result"]["stopReason"], "cancelled");
    let is_released = |messages: &[Value]| messages.iter().any(|message| message["method"] == "terminal/release");
    while !is_released(&before) {
        before.push(agent.next());
    }
    let taken_back = before.iter().find(|message| message["method"] == "$/cancel_request").unwrap();
    assert_eq!(taken_back["params"]["requestId"], wait["id"]);
    let (updates, answer) = agent.prompt(&session, "hello");
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(text_of(&updates, "agent_message_chunk"), "reply to: hello");
    assert!(upstream.last_request().body.to_string().contains("[It is not known whether"), "the model is told");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_input_while_a_command_runs_ends_the_agent_and_the_turn_is_interrupted() {
    let upstream = ScriptedUpstream::start().await;
    let (mut agent, session, _) = running(&upstream, json!({ "command": "sleep 99" }));
    agent.until_asked("terminal/wait_for_exit");
    let begun = std::time::Instant::now();
    assert_eq!(agent.end().code(), Some(0));
    assert!(begun.elapsed().as_secs() < 8, "it ends within seconds");
    let mut later = agent.another();
    let id = later.take_up("session/load", &session);
    let replayed = statuses(&updates_of(&later.until(id).0));
    assert_eq!(replayed.last().map(|(_, status)| status.as_str()), Some("failed"), "it is uncertain");
    assert_eq!(later.prompt(&session, "hello").1["result"]["stopReason"], "end_turn");
}
