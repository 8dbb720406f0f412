//! Rounds of tool calls inside one turn.

use herma_testkit::{Client, Completion, Event, Gate, Reply, ToolCall, check_response_stream};
use serde_json::{Value, json};

use super::{ToolGateway, lines};
use crate::support::{CHAT, chat, user, with};

#[tokio::test]
async fn the_model_calls_a_tool_and_answers_with_its_result_in_one_turn() {
    let gateway = ToolGateway::start().await;
    gateway.calls(&[("test__add", r#"{"a":1,"b":2}"#)]);
    gateway.upstream.push(Reply::text("It is 3."));
    let answer = gateway.say("s", "add them").await;
    assert_eq!(answer.content(), "It is 3.");
    assert!(answer.expect(200)["choices"][0]["message"].get("tool_calls").is_none(), "the client has nothing to call");
    assert_eq!(gateway.context(), ["user: add them", r#"assistant call_0=test__add({"a":1,"b":2})"#, "tool call_0: 3"]);
    assert_eq!(lines(&gateway.rows("s").await), ["user: add them", "assistant: -", "tool: 3", "assistant: It is 3."]);
    let sessions = gateway.sessions().await;
    assert_eq!((sessions.len(), &sessions[0]["turn_count"]), (1, &json!(1)));
}

#[tokio::test]
async fn usage_is_the_sum_of_the_turns_model_calls() {
    let gateway = ToolGateway::start().await;
    let call = ToolCall::new("c", "test__add", r#"{"a":1,"b":2}"#);
    gateway.upstream.push(Reply::Completion(Completion { calls: vec![call], ..Completion::default() }.usage(100, 10)));
    gateway.upstream.push(Reply::Completion(Completion::text("3").usage(200, 20)));
    let answer = gateway.say("s", "add").await.expect(200);
    assert_eq!((&answer["usage"]["prompt_tokens"], &answer["usage"]["completion_tokens"]), (&json!(300), &json!(30)));
    let row = gateway.client().get("/api/sessions/s").await.expect(200);
    assert_eq!((&row["usage"]["input_tokens"], &row["usage"]["output_tokens"]), (&json!(300), &json!(30)));
}

#[tokio::test]
async fn the_usage_of_a_further_attempt_counts_the_calls_of_the_attempt_before() {
    let gateway = ToolGateway::start().await;
    let call = ToolCall::new("c", "test__count", "{}");
    gateway.upstream.push(Reply::Completion(Completion { calls: vec![call], ..Completion::default() }.usage(100, 10)));
    gateway.upstream.push(Reply::status(400, "no"));
    let body = json!({"model": "scripted", "input": "count it", "conversation": "c"});
    gateway.client().post_json("/v1/responses", &body).await.expect(502);
    gateway.upstream.push(Reply::Completion(Completion::text("done").usage(200, 20)));
    let done = gateway.client().post_json("/v1/responses", &body).await.expect(200);
    assert_eq!((&done["usage"]["input_tokens"], &done["usage"]["output_tokens"]), (&json!(300), &json!(30)));
    let stored = gateway.client().get(&format!("/v1/responses/{}", done["id"].as_str().unwrap())).await.expect(200);
    assert_eq!(stored["usage"], done["usage"]);
    assert_eq!(gateway.executions(), 1);
}

#[tokio::test]
async fn texts_of_one_turn_are_one_message_and_a_history_that_repeats_it_aligns() {
    let gateway = ToolGateway::start().await;
    for stream in [false, true] {
        let session = format!("s{stream}");
        let call = ToolCall::new("c", "test__echo", r#"{"text":"x"}"#);
        gateway.upstream.push(Reply::Completion(Completion { calls: vec![call], ..Completion::text("Let me see.") }));
        gateway.upstream.push(Reply::text("It is x."));
        let client = gateway.in_session(&session);
        let body = with(chat(&[user("look")]), "stream", json!(stream));
        let text = match stream {
            true => client.post_stream(CHAT, &body).await.text().await,
            false => client.post_json(CHAT, &body).await.content(),
        };
        assert_eq!(text, "Let me see.\n\nIt is x.", "{stream}");
        let history = chat(&[user("look"), json!({"role": "assistant", "content": text}), user("thanks")]);
        client.post_json(CHAT, &history).await.expect(200);
        let said = lines(&gateway.rows(&session).await);
        assert_eq!(said[3..5], ["assistant: It is x.", "user: thanks"], "{stream}: nothing is stored twice");
        assert_eq!(said.len(), 6, "{stream}");
    }
}

#[tokio::test]
async fn a_client_of_responses_that_leaves_out_the_calls_between_texts_continues_its_conversation() {
    let gateway = ToolGateway::start().await;
    let call = |id: &str| vec![ToolCall::new(id, "test__echo", r#"{"text":"x"}"#)];
    let says = |text: &str, id: &str| Reply::Completion(Completion { calls: call(id), ..Completion::text(text) });
    let respond = async |input: &[Value]| {
        let body = json!({"model": "scripted", "input": input});
        gateway.client().post_json("/v1/responses", &body).await.expect(200)
    };
    let mut input = vec![json!({"role": "user", "content": "look"})];
    gateway.upstream.push(says("Let me see.", "a"));
    gateway.upstream.push(says("And once more.", "b"));
    gateway.upstream.push(Reply::text("It is x."));
    let first = respond(&input).await;
    for next in ["again", "and now?"] {
        let texts = first["output"].as_array().unwrap().iter().filter(|item| item["type"] == "message");
        input.extend(texts.cloned());
        input.push(json!({"role": "user", "content": next}));
        gateway.upstream.push(says("Let me see.", "a"));
        gateway.upstream.push(says("And once more.", "b"));
        gateway.upstream.push(Reply::text("It is x."));
        let body = respond(&input).await;
        assert_eq!(body["session"]["conversation_id"], first["session"]["conversation_id"], "{next}");
        assert_eq!(body["session"]["resolution"], "head", "{next}");
    }
    assert_eq!(gateway.sessions().await.len(), 1);
    assert_eq!(gateway.rows(first["session"]["session_id"].as_str().unwrap()).await.len(), 3 * 6);
}

#[tokio::test]
async fn with_a_json_format_only_the_last_text_is_shown() {
    let gateway = ToolGateway::start().await;
    for stream in [false, true] {
        let call = ToolCall::new("c", "test__echo", r#"{"text":"x"}"#);
        gateway.upstream.push(Reply::Completion(Completion { calls: vec![call], ..Completion::text("Let me see.") }));
        gateway.upstream.push(Reply::text(r#"{"x":1}"#));
        let body = with(chat(&[user("look")]), "response_format", json!({"type": "json_object"}));
        let (client, body) = (gateway.in_session(&format!("j{stream}")), with(body, "stream", json!(stream)));
        let text = match stream {
            true => client.post_stream(CHAT, &body).await.text().await,
            false => client.post_json(CHAT, &body).await.content(),
        };
        assert_eq!(text, r#"{"x":1}"#, "{stream}");
    }
}

#[tokio::test]
async fn several_calls_of_one_message_run_at_the_same_time() {
    let gateway = ToolGateway::start().await;
    // The first turn starts the server, which takes its own time.
    gateway.say("first", "hello").await.expect(200);
    gateway.calls(&[("test__slow", r#"{"seconds":2}"#); 3]);
    gateway.upstream.push(Reply::text("done"));
    let began = std::time::Instant::now();
    assert_eq!(gateway.say("s", "wait").await.content(), "done");
    assert!(began.elapsed() < std::time::Duration::from_millis(5_500), "{:?}", began.elapsed());
    assert_eq!(gateway.rows("s").await.len(), 6);
}

#[tokio::test]
async fn calls_of_hermas_and_the_clients_tools_in_one_answer() {
    let gateway = ToolGateway::start().await;
    let tool = json!([{"type": "function", "function": {"name": "ask_user", "parameters": {"type": "object"}}}]);
    for stream in [false, true] {
        let session = format!("m{stream}");
        gateway.calls(&[("test__count", "{}"), ("ask_user", r#"{"q":"sure?"}"#)]);
        let client = gateway.in_session(&session);
        let body = with(with(chat(&[user("both")]), "tools", tool.clone()), "stream", json!(stream));
        let calls: Vec<Value> = match stream {
            false => {
                let answer = client.post_json(CHAT, &body).await.expect(200);
                assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls");
                answer["choices"][0]["message"]["tool_calls"].as_array().unwrap().clone()
            }
            true => {
                let chunks = client.post_stream(CHAT, &body).await.chunks().await;
                let delta = |chunk: &Value| chunk["choices"][0]["delta"]["tool_calls"].as_array().cloned();
                chunks.iter().filter_map(delta).flatten().collect()
            }
        };
        let names: Vec<_> = calls.iter().map(|call| call["function"]["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["ask_user"], "{stream}: Herma's own call is not the client's to make");
        let result = json!({"role": "tool", "tool_call_id": "call_1", "content": "yes"});
        client.post_json(CHAT, &with(chat(&[result]), "tools", tool.clone())).await.expect(200);
        let context = gateway.context();
        assert_eq!(context[0], "user: both");
        assert_eq!(context[context.len() - 1], "tool call_1: yes", "{stream}: {context:?}");
        assert_eq!(context.len(), 4, "{stream}");
    }
    assert_eq!(gateway.executions(), 2);
}

#[tokio::test]
async fn what_goes_wrong_is_told_to_the_model_and_the_turn_goes_on() {
    let gateway = ToolGateway::with("max_output = 100", "approval = \"auto\"\ntimeout = \"1s\"").await;
    for (name, arguments, told) in [
        ("test__unheard_of", "{}", "[This call was not made: there is no tool named 'test__unheard_of'.]"),
        ("test__echo", "{broken", "[This call was not made:"),
        ("test__broken", "{}", ""),
        ("test__slow", r#"{"seconds":30}"#, "[It is not known whether this call was carried out.]"),
        ("test__crash", "{}", "[It is not known whether this call was carried out.]"),
        ("test__babble", "{}", "[It is not known whether this call was carried out.]"),
        ("test__misshape", "{}", "[It is not known whether this call was carried out.]"),
        ("test__flood", r#"{"megabytes":1}"#, "characters are shown.]"),
        ("test__image", "{}", "image"),
    ] {
        gateway.calls(&[(name, arguments)]);
        gateway.upstream.push(Reply::text("so it is"));
        assert_eq!(gateway.say("s", name).await.content(), "so it is", "{name}");
        let context = gateway.context();
        let result = context.last().unwrap();
        assert!(result.starts_with("tool call_0: ") && result.contains(told), "{name}: {result}");
    }
}

#[tokio::test]
async fn a_model_that_never_stops_calling_is_stopped() {
    let gateway = ToolGateway::with("max_rounds = 3", "approval = \"auto\"").await;
    gateway.upstream.otherwise(|request| match request.body["tool_choice"].as_str() {
        Some("none") => Reply::text("enough"),
        _ => Reply::tool_calls([ToolCall::new("c", "test__count", "{}")]),
    });
    assert_eq!(gateway.say("s", "go").await.content(), "enough");
    assert_eq!((gateway.upstream.requests().len(), gateway.executions()), (3, 2));
}

#[tokio::test]
async fn what_is_offered_depends_on_the_request_and_the_configuration() {
    let gateway = ToolGateway::with("", "approval = \"auto\"\nallow = [\"a*\", \"echo\"]\ndeny = [\"ask\"]").await;
    gateway.say("s", "hi").await.expect(200);
    assert_eq!(gateway.offered(), ["test__add", "test__echo"]);
    let none = with(chat(&[user("hi")]), "tool_choice", json!("none"));
    gateway.in_session("s").post_json(CHAT, &none).await.expect(200);
    assert!(gateway.offered().is_empty());
    let sent = gateway.upstream.last_request().body;
    assert!(sent.get("tool_choice").is_none(), "some model servers refuse it without tools: {sent}");
    let off = gateway.in_session("s").header("x-hermes-tools", "off");
    off.post_json(CHAT, &chat(&[user("hi again")])).await.expect(200);
    assert!(gateway.offered().is_empty());
    let own = json!([{"type": "function", "function": {"name": "test__add", "description": "the client's"}}]);
    gateway.in_session("s").post_json(CHAT, &with(chat(&[user("mine")]), "tools", own)).await.expect(200);
    let request = gateway.upstream.last_request();
    assert_eq!(request.body["tools"][0]["function"]["description"], "the client's", "the client's tool wins");
    assert_eq!(gateway.offered(), ["test__add", "test__echo"]);
}

#[tokio::test]
async fn a_result_that_is_too_large_for_the_context_window_is_cut_and_the_turn_goes_on() {
    let gateway = ToolGateway::with_sections("", "approval = \"auto\"", "[upstream]\ncontext_window = 4000").await;
    gateway.calls(&[("test__flood", r#"{"megabytes":1}"#)]);
    gateway.upstream.push(Reply::text("that was long"));
    assert_eq!(gateway.say("s", "flood").await.content(), "that was long");
    assert!(gateway.context().last().unwrap().ends_with("characters are shown.]"));
}

#[tokio::test]
async fn a_turn_that_is_not_streamed_has_the_same_stream_while_it_runs_and_after_its_end() {
    let gateway = ToolGateway::start().await;
    let (call, gate) = (ToolCall::new("c", "test__echo", r#"{"text":"x"}"#), Gate::new());
    gateway.upstream.push(Reply::Completion(Completion { calls: vec![call], ..Completion::text("Let me see.") }));
    gateway.upstream.push(Reply::text("It is x.").held(&gate));
    let client = gateway.in_session("s");
    let body = json!({"model": "scripted", "input": "look"});
    let asked = tokio::spawn(async move { client.post_json("/v1/responses", &body).await });
    gate.until_waiting(1).await;
    let turn = gateway.rows("s").await[0]["turn_id"].as_str().unwrap().to_owned();
    let stream = format!("/v1/responses/{}?stream=true", turn.replace("turn_", "resp_"));
    let read = |client: Client, stream: String| async move {
        let events = client.get_stream(&stream).await.rest().await;
        events[..events.len() - 1].iter().map(Event::json).collect::<Vec<Value>>()
    };
    let live = tokio::spawn(read(gateway.client(), stream.clone()));
    // The stream opens with the turn's end. The gateway answers this after it has got that request.
    gateway.rows("s").await;
    gate.open();
    asked.await.unwrap().expect(200);
    let live = live.await.unwrap();
    check_response_stream(&live);
    let types: Vec<_> = live.iter().filter_map(|event| event["item"]["type"].as_str()).collect();
    assert_eq!(types, ["message", "message", "mcp_call", "mcp_call", "message", "message"]);
    assert_eq!(live, read(gateway.client(), stream).await);
}

#[tokio::test]
async fn a_clients_tool_in_a_namespace_wins_over_a_tool_of_the_same_name() {
    let gateway = ToolGateway::start().await;
    gateway.calls(&[("test__add", r#"{"a":1,"b":2}"#), ("test__echo", r#"{"text":"x"}"#)]);
    let namespace = json!({"type": "namespace", "name": "test", "tools": [{"type": "function", "name": "add"}]});
    let body = json!({"model": "scripted", "input": "add them", "tools": [namespace], "conversation": "c"});
    let answer = gateway.client().post_json("/v1/responses", &body).await.expect(200);
    let offered = gateway.offered();
    assert_eq!(offered.iter().filter(|name| *name == "test__add").count(), 1, "{offered:?}");
    let items: Vec<_> =
        answer["output"].as_array().unwrap().iter().map(|item| (&item["type"], &item["name"])).collect();
    assert_eq!(items, [(&json!("mcp_call"), &json!("echo")), (&json!("function_call"), &json!("add"))]);
    assert_eq!(answer["output"][1]["namespace"], "test");
    let stored = gateway.client().get(&format!("/v1/responses/{}", answer["id"].as_str().unwrap())).await.expect(200);
    assert_eq!(stored["output"], answer["output"]);
}

#[tokio::test]
async fn after_other_turns_a_retry_shows_the_model_its_message_once_and_the_calls_that_were_made() {
    let gateway = ToolGateway::start().await;
    let keyed = || gateway.in_session("s").header("idempotency-key", "k");
    gateway.calls(&[("test__count", "{}")]);
    gateway.upstream.push(Reply::status(400, "no"));
    keyed().post_json(CHAT, &chat(&[user("count it")])).await.expect(502);
    gateway.upstream.push(Reply::text("fine"));
    gateway.say("s", "something else").await.expect(200);
    gateway.upstream.push(Reply::text("done"));
    let done = keyed().post_json(CHAT, &chat(&[user("count it")])).await;
    assert_eq!(done.content(), "done");
    let seen = ["user: something else", "assistant: fine", "user: count it", "assistant: -", "tool call_0: counted"];
    let context = lines(gateway.upstream.last_request().messages());
    assert_eq!(context, seen.map(|line| line.replace("tool call_0", "tool")));
    assert_eq!(gateway.executions(), 1, "the call is not made again");
    let rows = gateway.rows("s").await;
    let states: Vec<_> = rows.iter().map(|row| row["turn_status"].as_str().unwrap()).collect();
    assert_eq!(states, ["failed", "failed", "failed", "completed", "completed", "completed", "completed"]);
}

#[tokio::test]
async fn a_turn_that_began_anew_and_failed_again_goes_on_with_its_own_words_alone() {
    let gateway = ToolGateway::start().await;
    let body = json!({"model": "scripted", "input": "count it", "conversation": "s"});
    let ask = async || gateway.client().header("idempotency-key", "k").post_json("/v1/responses", &body).await;
    gateway.calls(&[("test__count", "{}")]);
    gateway.upstream.push(Reply::status(400, "no"));
    ask().await.expect(502);
    gateway.upstream.push(Reply::text("fine"));
    gateway.say("s", "something else").await.expect(200);
    gateway.upstream.push(Reply::status(400, "no"));
    ask().await.expect(502);
    gateway.upstream.push(Reply::text("done"));
    let done = ask().await.expect(200);
    assert_eq!(done["output"].as_array().map(Vec::len), Some(1), "{done}");
    assert_eq!(done["output"][0]["content"][0]["text"], "done", "{done}");
    let stored = gateway.client().get(&format!("/v1/responses/{}", done["id"].as_str().unwrap())).await.expect(200);
    assert_eq!(stored["output"], done["output"]);
    assert_eq!(gateway.executions(), 1);
}
