//! The editor's own files as tools.

use herma_testkit::{Reply, ScriptedUpstream, ToolCall};
use serde_json::{Value, json};

use crate::support::statuses;
use crate::{Agent, text_of, updates_of};

fn call(tool: &str, arguments: Value) -> Reply {
    Reply::tool_calls([ToolCall::new("c1", &format!("editor__{tool}"), arguments.to_string())])
}

fn write() -> Reply {
    call("write_text_file", json!({ "path": "src/a.rs", "content": "new" }))
}

/// The names of the tools that the model was offered last.
fn offered(upstream: &ScriptedUpstream) -> Vec<String> {
    let body = upstream.last_request().body;
    let tools = body["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

fn allowed() -> Value {
    json!({ "outcome": { "outcome": "selected", "optionId": "once" } })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_editors_tools_are_offered_without_configuration_where_the_editor_has_them() {
    let upstream = ScriptedUpstream::start().await;
    let mut agent = Agent::scripted(&upstream, "");
    let session = agent.new_session();
    agent.prompt(&session, "hello");
    assert_eq!(offered(&upstream), Vec::<String>::new());
    let mut agent = Agent::in_project(&upstream, "");
    let session = agent.new_session();
    agent.prompt(&session, "hello");
    assert_eq!(offered(&upstream), ["editor__read_text_file", "editor__write_text_file", "editor__terminal"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_read_in_the_editor_without_a_question() {
    let upstream = ScriptedUpstream::start().await;
    let mut agent = Agent::in_project(&upstream, "");
    let session = agent.new_session();
    upstream.push(call("read_text_file", json!({ "path": "src/a.rs", "line": 3, "limit": 2 })));
    upstream.push(Reply::text("seen"));
    let id = agent.ask_prompt(&session, "read");
    let (_, request) = agent.until_asked("fs/read_text_file");
    let path = format!("{}/src/a.rs", agent.cwd());
    assert_eq!(request["params"], json!({ "sessionId": session, "path": path, "line": 3, "limit": 2 }));
    agent.reply(&request, json!({ "content": "fn a() {}" }));
    let (updates, answer) = agent.until(id);
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert!(upstream.last_request().body.to_string().contains("fn a() {}"), "the model sees the file");
    let mut later = agent.another();
    let id = later.take_up("session/load", &session);
    let replayed = updates_of(&later.until(id).0);
    let shown = replayed.iter().find(|update| update["sessionUpdate"] == "tool_call").unwrap();
    assert_eq!((&shown["kind"], &shown["locations"]), (&json!("read"), &json!([{ "path": path, "line": 3 }])));
    assert_eq!(statuses(&replayed).last().map(|(_, status)| status.as_str()), Some("completed"));
    assert!(updates.iter().all(|message| message["method"] == "session/update"), "{updates:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_asks_with_the_change_and_is_made_in_the_editor() {
    let upstream = ScriptedUpstream::start().await;
    let mut agent = Agent::in_project(&upstream, "");
    let session = agent.new_session();
    upstream.push(write());
    upstream.push(Reply::text("written"));
    let id = agent.ask_prompt(&session, "write");
    let (_, read) = agent.until_asked("fs/read_text_file");
    agent.reply(&read, json!({ "content": "old" }));
    let (_, question) = agent.until_asked("session/request_permission");
    let path = format!("{}/src/a.rs", agent.cwd());
    let change = json!([{ "type": "diff", "path": path, "oldText": "old", "newText": "new" }]);
    let shown = &question["params"]["toolCall"];
    assert_eq!((&shown["content"], &shown["kind"]), (&change, &json!("edit")));
    assert_eq!(shown["locations"], json!([{ "path": path }]));
    agent.reply(&question, allowed());
    let (_, request) = agent.until_asked("fs/write_text_file");
    assert_eq!(request["params"], json!({ "sessionId": session, "path": path, "content": "new" }));
    agent.reply(&request, Value::Null);
    let (updates, answer) = agent.until(id);
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    let updates = updates_of(&updates);
    let last = updates.iter().rfind(|update| update["status"] == "completed").unwrap();
    assert_eq!(last["content"], change);
    assert_eq!(text_of(&updates, "agent_message_chunk"), "written");
    assert!(!upstream.last_request().body.to_string().contains("\"old\""), "the model does not see the old text");
    let mut later = agent.another();
    let id = later.take_up("session/load", &session);
    let replayed = updates_of(&later.until(id).0);
    let last = replayed.iter().rfind(|update| update["status"] == "completed").unwrap();
    assert_eq!(last["content"], change, "a replay shows the same");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_in_the_mode_auto_shows_its_change_and_one_in_read_only_is_refused() {
    let upstream = ScriptedUpstream::start().await;
    let mut agent = Agent::in_project(&upstream, "");
    let session = agent.new_session();
    agent.set_mode(&session, "auto");
    upstream.push(write());
    upstream.push(Reply::text("written"));
    let id = agent.ask_prompt(&session, "write");
    let (_, read) = agent.until_asked("fs/read_text_file");
    agent.refuse(&read, "no such file");
    let (_, request) = agent.until_asked("fs/write_text_file");
    agent.reply(&request, json!({}));
    let updates = updates_of(&agent.until(id).0);
    let last = updates.iter().rfind(|update| update["status"] == "completed").unwrap();
    assert_eq!((&last["content"][0]["type"], last["content"][0].get("oldText")), (&json!("diff"), None));
    agent.set_mode(&session, "read_only");
    upstream.push(write());
    upstream.push(Reply::text("not written"));
    let (updates, answer) = agent.prompt(&session, "write");
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(statuses(&updates).last().map(|(_, status)| status.as_str()), Some("failed"));
    assert!(upstream.last_request().body.to_string().contains("the session is read-only"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_editor_refuses_is_told_to_the_model() {
    let upstream = ScriptedUpstream::start().await;
    let mut agent = Agent::in_project(&upstream, "");
    let session = agent.new_session();
    for arguments in [json!({ "path": "gone" }), json!({ "line": "x" })] {
        upstream.push(call("read_text_file", arguments.clone()));
        upstream.push(Reply::text("oh"));
        let id = agent.ask_prompt(&session, "read");
        if arguments["path"].is_string() {
            let (_, request) = agent.until_asked("fs/read_text_file");
            agent.refuse(&request, "there is no such file");
        }
        let updates = updates_of(&agent.until(id).0);
        assert_eq!(statuses(&updates).last().map(|(_, status)| status.as_str()), Some("failed"));
    }
    let told = upstream.last_request().body.to_string();
    assert!(told.contains("there is no such file") && told.contains("arguments cannot be read"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_was_asked_about_before_a_restart_is_made_in_the_editor_that_answers() {
    let upstream = ScriptedUpstream::start().await;
    let mut first = Agent::in_project(&upstream, "");
    let session = first.new_session();
    upstream.push(write());
    first.ask_prompt(&session, "write");
    let (_, read) = first.until_asked("fs/read_text_file");
    first.reply(&read, json!({ "content": "old" }));
    first.until_asked("session/request_permission");
    assert_eq!(first.end().code(), Some(0));
    let mut later = first.another();
    later.take_up("session/resume", &session);
    let (_, read) = later.until_asked("fs/read_text_file");
    later.reply(&read, json!({ "content": "changed since" }));
    let (_, question) = later.until_asked("session/request_permission");
    assert_eq!(question["params"]["toolCall"]["content"][0]["oldText"], "changed since");
    upstream.push(Reply::text("written"));
    later.reply(&question, allowed());
    let (_, request) = later.until_asked("fs/write_text_file");
    later.reply(&request, json!({}));
    while text_of(&updates_of(&[later.next()]), "agent_message_chunk").is_empty() {}
    assert!(offered(&upstream).contains(&"editor__terminal".to_owned()), "the turn goes on with the tools");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_a_kill_cut_off_is_uncertain_and_is_not_repeated() {
    let upstream = ScriptedUpstream::start().await;
    let mut first = Agent::in_project(&upstream, "");
    let session = first.new_session();
    first.set_mode(&session, "auto");
    upstream.push(write());
    first.ask_prompt(&session, "write");
    let (_, read) = first.until_asked("fs/read_text_file");
    first.reply(&read, json!({ "content": "old" }));
    first.until_asked("fs/write_text_file");
    first.kill();
    let mut later = first.another();
    let (updates, answer) = later.prompt(&session, "and now?");
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(text_of(&updates, "agent_message_chunk"), "reply to: and now?");
    let told = upstream.last_request().body.to_string();
    assert!(told.contains("[It is not known whether this call was carried out.]"), "{told}");
}
