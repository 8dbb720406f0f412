//! Prompts: streamed, queued, cancelled, interrupted.

use herma_testkit::{Gate, Reply, ScriptedUpstream};
use serde_json::json;

use crate::support::{files, statuses};
use crate::{Agent, text_of};

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_streams_in_pieces_of_one_message_before_the_end_of_the_prompt() {
    let upstream = ScriptedUpstream::start().await;
    let mut agent = Agent::scripted(&upstream, "");
    let session = agent.new_session();
    let (updates, answer) = agent.prompt(&session, "hello there");
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(text_of(&updates, "agent_message_chunk"), "reply to: hello there");
    let ids: Vec<_> = updates.iter().filter_map(|update| update["messageId"].as_str()).collect();
    assert!(ids.len() > 1 && ids.iter().all(|id| *id == ids[0] && id.starts_with("msg_")), "{ids:?}");
    let titles: Vec<_> = updates.iter().filter(|update| update["sessionUpdate"] == "session_info_update").collect();
    assert!(matches!(titles[..], [told] if told["title"] == "hello there" && told.get("_meta").is_none()));
    assert!(!upstream.last_request().body.to_string().contains("hermes"), "metadata never reaches the model");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_ends_the_running_prompt_and_those_that_wait_and_no_later_one() {
    let upstream = ScriptedUpstream::start().await;
    let gate = Gate::new();
    upstream.push(Reply::text("never shown").held(&gate));
    let mut agent = Agent::scripted(&upstream, "");
    let session = agent.new_session();
    agent.notify("session/cancel", json!({ "sessionId": session }));
    let (first, second) = (agent.ask_prompt(&session, "one"), agent.ask_prompt(&session, "two"));
    upstream.until_requests(1).await;
    agent.notify("session/cancel", json!({ "sessionId": session }));
    agent.notify("session/cancel", json!({ "sessionId": session }));
    let mut ended = [agent.next(), agent.next()];
    ended.sort_by_key(|answer| answer["id"].as_i64());
    for (answer, id) in ended.iter().zip([first, second]) {
        assert_eq!((&answer["id"], &answer["result"]["stopReason"]), (&json!(id), &json!("cancelled")), "{answer}");
    }
    let (updates, answer) = agent.prompt(&session, "three");
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(text_of(&updates, "agent_message_chunk"), "reply to: three");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_not_wanted_fails_with_its_own_code() {
    let upstream = ScriptedUpstream::start().await;
    upstream.push(Reply::Hang);
    let mut agent = Agent::scripted(&upstream, "");
    let session = agent.new_session();
    let id = agent.ask_prompt(&session, "one");
    upstream.until_requests(1).await;
    agent.notify("$/cancel_request", json!({ "requestId": id }));
    assert_eq!(agent.until(id).1["error"]["code"], -32800);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_prompt_is_answered_after_the_first() {
    let upstream = ScriptedUpstream::start().await;
    let gate = Gate::new();
    upstream.push(Reply::text("first").held(&gate));
    upstream.push(Reply::text("second"));
    let mut agent = Agent::scripted(&upstream, "");
    let session = agent.new_session();
    let (first, second) = (agent.ask_prompt(&session, "one"), agent.ask_prompt(&session, "two"));
    gate.until_waiting(1).await;
    gate.open();
    let (before, _) = agent.until(first);
    assert!(before.iter().all(|message| !message.to_string().contains("second")), "{before:?}");
    assert_eq!(agent.until(second).1["result"]["stopReason"], "end_turn");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_call_that_fails_is_an_error_with_its_code_and_the_session_goes_on() {
    let upstream = ScriptedUpstream::start().await;
    upstream.push(Reply::status(400, "no such thing"));
    let mut agent = Agent::scripted(&upstream, "");
    let session = agent.new_session();
    let (_, answer) = agent.prompt(&session, "one");
    assert_eq!(
        (&answer["error"]["code"], &answer["error"]["data"]["code"]),
        (&json!(-32603), &json!("upstream_error"))
    );
    assert_eq!(agent.prompt(&session, "two").1["result"]["stopReason"], "end_turn");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_input_interrupts_a_running_turn_which_stays_stored() {
    let upstream = ScriptedUpstream::start().await;
    upstream.push(Reply::hang_after(1));
    let mut agent = Agent::scripted(&upstream, "");
    let session = agent.new_session();
    agent.ask_prompt(&session, "tell me");
    while agent.next()["params"]["update"]["sessionUpdate"] != "agent_message_chunk" {}
    assert_eq!(agent.end().code(), Some(0));
    let mut later = agent.another();
    let cwd = later.cwd().to_owned();
    let id = later.ask("session/load", json!({ "sessionId": session, "cwd": cwd, "mcpServers": [] }));
    let updates = crate::updates_of(&later.until(id).0);
    assert_eq!(text_of(&updates, "user_message_chunk"), "tell me");
    assert_eq!(text_of(&updates, "agent_message_chunk"), "chunk1 ");
    assert_eq!(later.prompt(&session, "again").1["result"]["stopReason"], "end_turn");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn an_editor_that_floods_reads_nothing_and_leaves_ends_the_agent_and_its_turns() {
    let upstream = ScriptedUpstream::start().await;
    upstream.push(Reply::hang_after(1));
    let mut agent = Agent::scripted(&upstream, "");
    let session = agent.new_session();
    agent.ask_prompt(&session, "tell me");
    while agent.next()["params"]["update"]["sessionUpdate"] != "agent_message_chunk" {}
    let reading = std::sync::Arc::clone(&agent.reading);
    let stopped = reading.lock().unwrap();
    // More answers than the pipe to the editor takes, and the requests that then wait fit into the pipe to the agent.
    for _ in 0..4000 {
        agent.write("no JSON");
    }
    let begun = std::time::Instant::now();
    assert_eq!(agent.end().code(), Some(0));
    assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
    drop(stopped);
    let export = crate::support::herma(agent.data.path(), &["sessions", "export", &session, "--format", "jsonl"]);
    assert!(export.contains(r#""state":"interrupted""#), "{export}");
    let mut later = agent.another();
    let id = later.take_up("session/load", &session);
    assert_eq!(text_of(&crate::updates_of(&later.until(id).0), "agent_message_chunk"), "chunk1 ");
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_calls_are_told_as_they_run_and_a_read_only_session_refuses_those_that_change_something() {
    let upstream = ScriptedUpstream::start().await;
    let server = herma_testkit::McpServer::stdio();
    let call = |id: &str| Reply::tool_calls([herma_testkit::ToolCall::new(id, "files__echo", r#"{"text":"x"}"#)]);
    let mut agent = Agent::scripted(&upstream, &files(&server));
    let session = agent.new_session();
    agent.call("session/set_mode", json!({ "sessionId": session, "modeId": "auto" }));
    upstream.push(call("c1"));
    upstream.push(Reply::text("done"));
    let (live, answer) = agent.prompt(&session, "write");
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    let told = statuses(&live);
    assert_eq!(told.iter().map(|(_, status)| status.as_str()).collect::<Vec<_>>(), ["in_progress", "completed"]);
    assert_eq!(server.logged("call echo"), 1);
    agent.call("session/set_mode", json!({ "sessionId": session, "modeId": "read_only" }));
    upstream.push(call("c1"));
    upstream.push(Reply::text("not done"));
    let refused = statuses(&agent.prompt(&session, "write again").0);
    let last = refused.last().unwrap();
    assert!(last.1 == "failed" && refused.iter().all(|(id, _)| *id == last.0 && *id != told[0].0), "{refused:?}");
    assert_eq!(server.logged("call echo"), 1, "it was not called");
    let mut later = agent.another();
    let cwd = later.cwd().to_owned();
    let id = later.ask("session/load", json!({ "sessionId": session, "cwd": cwd, "mcpServers": [] }));
    let replayed = statuses(&crate::updates_of(&later.until(id).0));
    assert_eq!(replayed, [told, refused].concat(), "the same ids as live");
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_has_a_cost_if_all_prices_have_the_same_currency() {
    let upstream = ScriptedUpstream::start().await;
    let price = |model: &str, currency: &str| {
        let price = format!("[models.{model}.price]\ninput = 1000.0\noutput = 1000.0\n");
        if currency.is_empty() { price } else { format!("{price}currency = \"{currency}\"\n") }
    };
    for (other, currency) in [("EUR", Some("EUR")), ("USD", None), ("", None)] {
        let config = ["[upstream]\ncontext_window = 100000\n", &price("scripted", "EUR"), &price("other", other)];
        let mut agent = Agent::scripted(&upstream, &config.concat());
        let session = agent.new_session();
        let (updates, _) = agent.prompt(&session, "hello");
        let usage = updates.iter().find(|update| update["sessionUpdate"] == "usage_update").unwrap();
        assert_eq!(usage["cost"]["currency"].as_str(), currency, "{usage}");
        assert_eq!(usage["cost"]["amount"].as_f64().is_some_and(|amount| amount > 0.0), currency.is_some(), "{usage}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_can_be_answered_without_memory() {
    let upstream = ScriptedUpstream::start().await;
    let mut agent = Agent::scripted(&upstream, "");
    let cwd = agent.cwd().to_owned();
    let key = json!({ "hermes": { "sessionKey": "ann" } });
    let made = agent.call("session/new", json!({ "cwd": cwd, "mcpServers": [], "_meta": key }));
    let session = made["sessionId"].as_str().unwrap_or_default().to_owned();
    let data = agent.data.path().to_owned();
    crate::support::herma(&data, &["memory", "add", "--session-key", "ann", "Ann is allergic to nuts"]);
    let prompt = |memory: serde_json::Value| {
        let prompt = json!([{ "type": "text", "text": "Suggest a cake" }]);
        json!({ "sessionId": session, "prompt": prompt, "_meta": { "hermes": { "memory": memory } } })
    };
    agent.call("session/prompt", prompt(json!(false)));
    assert_eq!(upstream.last_request().last_user_text(), "Suggest a cake");
    agent.call("session/prompt", prompt(json!(null)));
    assert!(upstream.last_request().last_user_text().contains("Ann is allergic to nuts"));
    assert_eq!(agent.answer("session/prompt", prompt(json!("off")))["error"]["code"], -32602);
}
