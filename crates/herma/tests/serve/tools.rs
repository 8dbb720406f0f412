//! Tools of the client: a call ends the turn, and its results are the input of the next turn.

use herma_testkit::{Completion, Reply, ToolCall};
use serde_json::{Value, json};

use crate::support::{CHAT, TestGateway, assistant, chat, error, result, streamed, user, with};

const NOT_EXECUTED: &str = "[This call was not executed.]";

fn tools() -> Value {
    json!([{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}])
}

fn calls(ids: &[&str]) -> Reply {
    Reply::tool_calls(ids.iter().map(|id| ToolCall::new(id, "look", format!("{{\"q\": \"{id}\"}}"))))
}

fn call_json(id: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "look", "arguments": format!("{{\"q\": \"{id}\"}}")}})
}

/// A conversation in which the model has made these tool calls.
async fn with_open_calls(ids: &[&str]) -> TestGateway {
    let gateway = TestGateway::start().await;
    gateway.upstream.push(calls(ids));
    gateway.say("s", "look around").await.expect(200);
    gateway
}

async fn send(gateway: &TestGateway, messages: &[Value]) -> herma_testkit::Answer {
    gateway.in_session("s").post_json(CHAT, &chat(messages)).await
}

#[tokio::test]
async fn a_call_ends_the_turn_and_its_result_goes_on() {
    let mut gateway = TestGateway::start().await;
    gateway.upstream.push(calls(&["call_1"]));
    let body = with(with(chat(&[user("look around")]), "tools", tools()), "tool_choice", json!("auto"));
    let answer = gateway.in_session("s").post_json(CHAT, &body).await.expect(200);
    assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls");
    let message = json!({"role": "assistant", "content": null, "refusal": null, "tool_calls": [call_json("call_1")]});
    assert_eq!(answer["choices"][0]["message"], message);
    assert_eq!(gateway.upstream.last_request().body["tools"], tools());
    assert_eq!(gateway.upstream.last_request().body["tool_choice"], "auto");

    gateway.restart().await;
    assert_eq!(send(&gateway, &[result("call_1", "a tree")]).await.content(), "reply to: look around");
    assert_eq!(
        gateway.upstream.last_request().body["messages"],
        json!([
            user("look around"),
            {"role": "assistant", "content": null, "tool_calls": [call_json("call_1")]},
            {"role": "tool", "content": "a tree", "tool_call_id": "call_1"},
        ])
    );
    assert_eq!(
        gateway.transcript("s").await,
        [
            "user: look around",
            r#"assistant call_1=look({"q": "call_1"})"#,
            "tool call_1: a tree",
            "assistant: reply to: look around",
        ]
    );
    assert_eq!(gateway.client().get("/api/sessions/s").await.expect(200)["turn_count"], 2);
}

#[tokio::test]
async fn streamed_calls_are_the_calls_that_are_stored() {
    let gateway = TestGateway::start().await;
    let said = Completion {
        calls: vec![ToolCall::new("a", "look", "{\"q\": 1}"), ToolCall::new("b", "listen", "")],
        ..Completion::text("One moment.")
    };
    for session in ["whole", "s"] {
        gateway.upstream.push(Reply::Completion(said.clone()));
        let body = chat(&[user("look around")]);
        if session == "whole" {
            gateway.in_session(session).post_json(CHAT, &body).await.expect(200);
            continue;
        }
        let chunks = gateway.in_session(session).post_stream(CHAT, &streamed(body)).await.chunks().await;
        let deltas: Vec<&Value> = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]).collect();
        let pieces: Vec<&Value> = deltas.iter().filter_map(|delta| delta["tool_calls"].as_array()).flatten().collect();
        let (mut heads, mut arguments) = (Vec::new(), [String::new(), String::new()]);
        for piece in pieces {
            let index = piece["index"].as_u64().expect("an index") as usize;
            if let Some(id) = piece["id"].as_str() {
                assert_eq!(piece["type"], "function");
                heads.push((index, id.to_owned(), piece["function"]["name"].as_str().expect("a name").to_owned()));
            }
            arguments[index].push_str(piece["function"]["arguments"].as_str().expect("arguments"));
        }
        let expected =
            [(0, "a", "look"), (1, "b", "listen")].map(|(at, id, name)| (at, id.to_owned(), name.to_owned()));
        assert_eq!(heads, expected);
        assert_eq!(arguments, ["{\"q\": 1}", ""]);
        assert_eq!(chunks.last().expect("chunks")["choices"][0]["finish_reason"], "tool_calls");
    }
    let stored = gateway.transcript("s").await;
    assert_eq!(stored, ["user: look around", r#"assistant a=look({"q": 1}) b=listen(): One moment."#]);
    assert_eq!(gateway.transcript("whole").await, stored);
}

#[tokio::test]
async fn several_results_may_come_in_any_order_and_with_more_to_say() {
    let gateway = with_open_calls(&["a", "b", "c"]).await;
    send(&gateway, &[result("c", "3"), result("a", "1"), result("b", "2"), user("and?")]).await.expect(200);
    assert_eq!(gateway.context()[2..], ["tool c: 3", "tool a: 1", "tool b: 2", "user: and?"]);
}

#[tokio::test]
async fn calls_without_a_result_are_said_not_to_have_been_executed() {
    let mut gateway = with_open_calls(&["a", "b"]).await;
    send(&gateway, &[result("b", "2")]).await.expect(200);
    assert_eq!(gateway.context()[2..], ["tool b: 2".to_owned(), format!("tool a: {NOT_EXECUTED}")]);
    gateway.restart().await;
    gateway.say("s", "go on").await.expect(200);
    assert_eq!(
        gateway.context()[2..],
        ["tool b: 2", &format!("tool a: {NOT_EXECUTED}"), "assistant: reply to: look around", "user: go on"]
    );
    assert_eq!(
        gateway.transcript("s").await[2..4],
        ["tool b: 2", "assistant: reply to: look around"],
        "nobody said it"
    );
}

#[tokio::test]
async fn a_message_in_place_of_all_results_closes_every_call() {
    let gateway = with_open_calls(&["a", "b"]).await;
    gateway.say("s", "never mind").await.expect(200);
    let not_executed = |id: &str| format!("tool {id}: {NOT_EXECUTED}");
    assert_eq!(gateway.context()[2..], [not_executed("a"), not_executed("b"), "user: never mind".to_owned()]);
    let late = error(&send(&gateway, &[result("a", "1")]).await, 400);
    assert_eq!(late["param"], "messages[0].tool_call_id");
}

#[tokio::test]
async fn a_result_of_no_open_call_is_refused_by_its_place() {
    let gateway = with_open_calls(&["a", "b"]).await;
    let whole = json!({"role": "assistant", "content": null, "tool_calls": [call_json("a"), call_json("b")]});
    let system = json!({"role": "system", "content": "x"});
    for (messages, place) in [
        (vec![result("unknown", "1")], 0),
        (vec![result("a", "1"), result("a", "1")], 1),
        (vec![result("a", "1"), user("and?"), result("b", "2")], 2),
        (vec![system, user("look around"), whole, result("a", "1"), result("nope", "2")], 4),
    ] {
        for body in [chat(&messages), streamed(chat(&messages))] {
            let refused = error(&gateway.in_session("s").post_json(CHAT, &body).await, 400);
            assert_eq!(refused["code"], "invalid_request", "{refused}");
            assert_eq!(refused["param"], format!("messages[{place}].tool_call_id"), "{refused}");
        }
    }
    assert_eq!((gateway.transcript("s").await.len(), gateway.upstream.requests().len()), (2, 1));
    send(&gateway, &[result("a", "1"), result("b", "2")]).await.expect(200);
    let again = error(&send(&gateway, &[result("a", "1")]).await, 400);
    assert_eq!(again["param"], "messages[0].tool_call_id");
}

#[tokio::test]
async fn a_result_without_a_conversation_is_refused_and_makes_none() {
    let gateway = TestGateway::start().await;
    for client in [gateway.client(), gateway.in_session("s")] {
        let refused = error(&client.post_json(CHAT, &chat(&[user("x"), result("a", "1")])).await, 400);
        assert_eq!(refused["param"], "messages[1].tool_call_id");
    }
    assert_eq!((gateway.sessions().await.len(), gateway.upstream.requests().len()), (0, 0));
}

#[tokio::test]
async fn a_whole_history_with_calls_starts_a_conversation() {
    let gateway = TestGateway::start().await;
    let called = json!({"role": "assistant", "content": "", "tool_calls": [call_json("a"), call_json("b")]});
    let messages = [user("look"), called, result("a", "1"), assistant("done"), user("more")];
    send(&gateway, &messages).await.expect(200);
    let not_executed = format!("tool b: {NOT_EXECUTED}");
    assert_eq!(gateway.context()[2..], ["tool a: 1", &not_executed, "assistant: done", "user: more"]);
    assert_eq!(gateway.transcript("s").await.len(), 6);
}

#[tokio::test]
async fn results_of_a_failed_turn_can_be_sent_again() {
    let gateway = with_open_calls(&["a"]).await;
    gateway.upstream.push(Reply::status(400, "no"));
    error(&send(&gateway, &[result("a", "1")]).await, 502);
    send(&gateway, &[result("a", "1")]).await.expect(200);
    let context = ["user: look around", r#"assistant a=look({"q": "a"})"#, "tool a: 1"];
    assert_eq!(gateway.context(), context);
    assert_eq!(gateway.transcript("s").await[..3], context);
    assert_eq!(gateway.transcript("s").await.len(), 4);
}

#[tokio::test]
async fn arguments_that_are_no_json_are_kept_as_they_are() {
    let gateway = TestGateway::start().await;
    gateway.upstream.push(Reply::tool_calls([ToolCall::new("a", "look", "{\"q\": oops\n")]));
    let answer = gateway.say("s", "look").await.expect(200);
    assert_eq!(answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"], "{\"q\": oops\n");
    send(&gateway, &[result("a", "bad arguments")]).await.expect(200);
    let sent = gateway.upstream.last_request();
    assert_eq!(sent.messages()[1]["tool_calls"][0]["function"]["arguments"], "{\"q\": oops\n");
}

#[tokio::test]
async fn calls_that_share_an_id_can_still_be_answered_by_every_client() {
    for streaming in [false, true] {
        let gateway = TestGateway::start().await;
        gateway.upstream.push(calls(&["call_0", "call_0"]));
        let body = chat(&[user("look around")]);
        if streaming {
            gateway.in_session("s").post_stream(CHAT, &streamed(body)).await.rest().await;
        } else {
            gateway.in_session("s").post_json(CHAT, &body).await.expect(200);
        }
        let called = gateway.rows("s").await[1]["tool_calls"].clone();
        let ids = [0, 1].map(|at: usize| called[at]["id"].as_str().expect("an id").to_owned());
        assert!(ids[0] == "call_0" && ids[1] != ids[0], "{ids:?}");
        let message = json!({"role": "assistant", "content": null, "tool_calls": called});
        let whole = [user("look around"), message, result(&ids[0], "1"), result(&ids[1], "2")];
        send(&gateway, &whole).await.expect(200);
        assert_eq!(gateway.context()[2..], [format!("tool {}: 1", ids[0]), format!("tool {}: 2", ids[1])]);
    }
}

#[tokio::test]
async fn a_call_of_a_custom_tool_comes_back_as_one_and_is_known_again() {
    let call = |pieces: Value| json!({"choices": [{"index": 0, "delta": {"tool_calls": [pieces]}}]}).to_string();
    let stream = [
        call(json!({"index": 0, "id": "a", "type": "custom", "custom": {"name": "shell", "input": ""}})),
        call(json!({"index": 0, "custom": {"input": "ls"}})),
        call(json!({"index": 0, "custom": {"input": " -l"}})),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}).to_string(),
        "[DONE]".to_owned(),
    ];
    let stream = stream.map(|data| format!("data: {data}\n\n")).concat();
    let made = json!({"id": "a", "type": "custom", "custom": {"name": "shell", "input": "ls -l"}});
    let message = json!({"role": "assistant", "content": null, "tool_calls": [made]});
    let whole = json!({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}).to_string();
    let body = with(chat(&[user("look around")]), "tools", json!([{"type": "custom", "custom": {"name": "shell"}}]));
    for (session, reply) in [("whole", whole), ("s", stream)] {
        let gateway = TestGateway::start().await;
        gateway.upstream.push(Reply::garbage(reply));
        let client = gateway.in_session(session);
        if session == "whole" {
            let answer = client.post_json(CHAT, &body).await.expect(200);
            assert_eq!(answer["choices"][0]["message"]["tool_calls"], json!([made]));
        } else {
            let chunks = client.post_stream(CHAT, &streamed(body.clone())).await.chunks().await;
            let pieces =
                chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].as_array()).flatten();
            let input: String = pieces.clone().map(|piece| piece["custom"]["input"].as_str().unwrap()).collect();
            let first = pieces.clone().next().unwrap();
            assert_eq!((&first["type"], &first["custom"]["name"]), (&json!("custom"), &json!("shell")));
            assert_eq!((&*input, pieces.filter(|piece| piece.get("function").is_some()).count()), ("ls -l", 0));
        }
        let history = [user("look around"), message.clone(), result("a", "a tree")];
        client.post_json(CHAT, &chat(&history)).await.expect(200);
        assert_eq!(gateway.upstream.last_request().messages()[1], message);
        assert_eq!(gateway.rows(session).await.len(), 4, "the call is known again");
    }
}
