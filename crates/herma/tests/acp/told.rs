//! What a prompt tells beside the text of its answer: thoughts, titles, costs, why it ended, delegated work.

use herma_testkit::{Completion, Gate, Reply, ScriptedUpstream, ToolCall};
use serde_json::{Value, json};

use crate::support::{herma, statuses};
use crate::{Agent, text_of, updates_of};

/// The updates of one kind.
fn of_kind<'a>(updates: &'a [Value], kind: &str) -> Vec<&'a Value> {
    updates.iter().filter(|update| update["sessionUpdate"] == kind).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_title_of_a_model_is_told_when_it_is_made_without_provenance() {
    let upstream = ScriptedUpstream::start().await;
    let gate = Gate::new();
    upstream.push(Reply::text("hello"));
    upstream.push(Reply::text("A short greeting").held(&gate));
    let mut agent = Agent::scripted(&upstream, "[titles]\nby = \"model\"\n");
    let session = agent.new_session();
    let (updates, answer) = agent.prompt(&session, "hi");
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(of_kind(&updates, "session_info_update"), Vec::<&Value>::new());
    gate.until_waiting(1).await;
    gate.open();
    let told = updates_of(&[agent.next()]);
    assert_eq!(told, [json!({ "sessionUpdate": "session_info_update", "title": "A short greeting" })]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cost_is_told_if_the_currency_is_set_beside_the_prices() {
    let upstream = ScriptedUpstream::start().await;
    for (currency, cost) in [("currency = \"EUR\"\n", json!({ "amount": 0.003, "currency": "EUR" })), ("", Value::Null)]
    {
        let prices = format!("[models.scripted.price]\ninput = 10.0\noutput = 20.0\n{currency}");
        let mut agent = Agent::scripted(&upstream, &format!("[upstream]\ncontext_window = 9000\n{prices}"));
        let session = agent.new_session();
        upstream.push(Completion::text("hello").usage(100, 100).into());
        let (updates, _) = agent.prompt(&session, "hi");
        let usage = of_kind(&updates, "usage_update");
        assert_eq!((&usage[0]["size"], &usage[0]["cost"]), (&json!(9000), &cost), "{currency}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_end_of_a_turn_has_its_stop_reason() {
    let upstream = ScriptedUpstream::start().await;
    let mut agent = Agent::in_project(&upstream, "[tools]\nmax_rounds = 2\n");
    let session = agent.new_session();
    for (finish, stop) in [("length", "max_tokens"), ("content_filter", "refusal"), ("stop", "end_turn")] {
        upstream.push(Completion::text("so far").finish_reason(finish).into());
        assert_eq!(agent.prompt(&session, "go").1["result"]["stopReason"], stop);
    }
    upstream.push(Reply::tool_calls([ToolCall::new("c1", "editor__read_text_file", r#"{"path":"a"}"#)]));
    upstream.push(Reply::text("no more calls"));
    let id = agent.ask_prompt(&session, "go");
    let (_, request) = agent.until_asked("fs/read_text_file");
    agent.reply(&request, json!({ "content": "a" }));
    assert_eq!(agent.until(id).1["result"]["stopReason"], "max_turn_requests");
}

#[tokio::test(flavor = "multi_thread")]
async fn thoughts_have_the_same_ids_live_and_in_a_replay() {
    let upstream = ScriptedUpstream::start().await;
    let piece = |delta: Value, finish: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        format!("data: {}\n\n", json!({ "id": "x", "object": "chat.completion.chunk", "choices": [choice] }))
    };
    let stream = [
        piece(json!({ "role": "assistant", "reasoning_content": "Hm, " }), Value::Null),
        piece(json!({ "reasoning_content": "yes." }), Value::Null),
        piece(json!({ "content": "42" }), json!("stop")),
        "data: [DONE]\n\n".to_owned(),
    ];
    upstream.push(Reply::garbage(stream.concat()));
    let mut agent = Agent::scripted(&upstream, "");
    let session = agent.new_session();
    let (live, _) = agent.prompt(&session, "think");
    let mut later = agent.another();
    let id = later.take_up("session/load", &session);
    let replayed = updates_of(&later.until(id).0);
    for kind in ["agent_thought_chunk", "agent_message_chunk"] {
        let ids = |updates: &[Value]| of_kind(updates, kind).first().map(|update| update["messageId"].clone());
        assert_eq!((text_of(&live, kind), ids(&live)), (text_of(&replayed, kind), ids(&replayed)), "{kind}");
    }
    assert_eq!(text_of(&live, "agent_thought_chunk"), "Hm, yes.");
}

#[tokio::test(flavor = "multi_thread")]
async fn delegated_work_is_shown_as_a_tool_call() {
    let upstream = ScriptedUpstream::start().await;
    let mut agent = Agent::scripted(&upstream, "[tools]\nbuiltin = [\"delegate_task\"]\n");
    let session = agent.new_session();
    let tasks = json!({ "tasks": [{ "goal": "Count the files" }] }).to_string();
    upstream.push(Reply::tool_calls([ToolCall::new("c1", "delegate_task", tasks)]));
    upstream.push(Reply::text("there are seven"));
    upstream.push(Reply::text("seven it is"));
    let (updates, answer) = agent.prompt(&session, "go");
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    let shown = of_kind(&updates, "tool_call");
    assert_eq!(shown[0]["title"], "Delegate: Count the files");
    assert_eq!(statuses(&updates).last().map(|(_, status)| status.as_str()), Some("completed"));
    assert!(updates.iter().any(|update| update["content"].to_string().contains("there are seven")), "{updates:?}");
    assert_eq!(text_of(&updates, "agent_message_chunk"), "seven it is", "the child's words are not the agent's");
    assert_eq!(agent.call("session/list", json!({}))["sessions"].as_array().map(Vec::len), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_is_refused_before_the_model_is_called_says_why() {
    let upstream = ScriptedUpstream::start().await;
    let mut agent = Agent::scripted(&upstream, "[budgets]\nconversation_tokens = 1\n");
    let session = agent.new_session();
    agent.prompt(&session, "one");
    let (_, answer) = agent.prompt(&session, "two");
    let code = |answer: &Value| (answer["error"]["code"].clone(), answer["error"]["data"]["code"].clone());
    assert_eq!(code(&answer), (json!(-32603), json!("budget_exceeded")), "{answer}");
    herma(agent.data.path(), &["sessions", "end", &session]);
    let (_, answer) = agent.prompt(&session, "three");
    assert_eq!(code(&answer), (json!(-32603), json!("session_ended")), "{answer}");
    assert_eq!(upstream.requests().len(), 1);
}
