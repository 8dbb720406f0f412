//! The Runs API: the conversation of a run, the run object, and its events.

use herma_testkit::{Launch, Reply, ToolCall};
use serde_json::{Value, json};

use crate::support::{CHAT, CONVERSATION_ID, SESSION_ID, SESSION_KEY, TestGateway, chat, data, error, user, with};

const RUNS: &str = "/v1/runs";

fn asked(text: &str) -> Value {
    json!({"model": "scripted", "input": text})
}

fn on(session: &str, text: &str) -> Value {
    with(asked(text), "session_id", json!(session))
}

fn path(run: &Value) -> String {
    format!("{RUNS}/{}", run["run_id"].as_str().unwrap_or_else(|| panic!("no run in {run}")))
}

/// Starts a run and reads its events to the end. Returns the run and the events.
async fn run(gateway: &TestGateway, body: &Value) -> (Value, Vec<Value>) {
    let begun = gateway.client().post_json(RUNS, body).await.expect(202);
    let events = gateway.client().get_stream(&format!("{}/events", path(&begun))).await.chunks().await;
    (gateway.client().get(&path(&begun)).await.expect(200), events)
}

/// The event stream of a run as text, without the parts that differ between runs.
async fn frames(gateway: &TestGateway, body: &Value) -> String {
    let begun = gateway.client().post_json(RUNS, body).await.expect(202);
    let text = gateway.client().get(&format!("{}/events", path(&begun))).await.text();
    let conversation = begun["conversation_id"].as_str().unwrap();
    let upstream = gateway.upstream.base_url();
    let address = upstream.trim_start_matches("http://").split('/').next().unwrap();
    let mut shown = text
        .replace(begun["run_id"].as_str().unwrap(), "run_<hex>")
        .replace(conversation, "conv_<hex>")
        .replace(&format!("\"created_at\":{}", begun["created_at"]), "\"created_at\":<now>")
        .replace(address, "<address>");
    while let Some(from) = shown.find("\"provenance\"") {
        let to = from + shown[from..].find('}').unwrap() + 1;
        shown.replace_range(from..to, "…");
    }
    shown
}

#[tokio::test]
async fn a_run_on_a_session_sees_its_history() {
    let mut gateway = TestGateway::start().await;
    gateway.say("trip", "by chat").await.expect(200);
    let (done, _) = run(&gateway, &on("trip", "by run")).await;
    assert_eq!(gateway.context(), ["user: by chat", "assistant: reply to: by chat", "user: by run"]);
    assert_eq!((&done["status"], &done["output"]), (&json!("completed"), &json!("reply to: by run")));
    assert_eq!((&done["session"]["session_id"], &done["session"]["resolution"]), (&json!("trip"), &json!("head")));
    gateway.restart().await;
    let after = gateway.in_session(done["run_id"].as_str().unwrap());
    after.post_json(CHAT, &chat(&[user("by its id")])).await.expect(200);
    assert_eq!(gateway.context().len(), 5, "a run's id leads to its conversation");
    assert_eq!(gateway.sessions().await.len(), 1);
}

#[tokio::test]
async fn a_run_is_answered_with_its_id_its_status_and_its_session() {
    let gateway = TestGateway::start().await;
    let answer = gateway.client().post_json(RUNS, &with(on("trip", "one"), "metadata", json!({"a": "b"}))).await;
    let begun = answer.expect(202);
    let id = begun["run_id"].as_str().unwrap();
    assert!(id.starts_with("run_") && id.len() == 36 && begun["id"] == id, "{begun}");
    assert_eq!(begun["object"], "hermes.run");
    assert_eq!((&begun["model"], &begun["metadata"]), (&json!("scripted"), &json!({"a": "b"})));
    let session = &begun["session"];
    assert_eq!((&session["requested_id"], &session["resolution"]), (&json!("trip"), &json!("created")));
    assert_eq!((&begun["session_id"], &begun["conversation_id"]), (&json!("trip"), &session["conversation_id"]));
    assert_eq!(answer.header(SESSION_ID), Some("trip"));
    assert_eq!(answer.header(CONVERSATION_ID), session["conversation_id"].as_str());
    let unnamed = gateway.client().post_json(RUNS, &asked("two")).await.expect(202);
    assert_eq!((unnamed["session"].get("requested_id"), gateway.sessions().await.len()), (None, 2));
}

#[tokio::test]
async fn every_name_of_a_conversation_names_it_for_a_run() {
    let gateway = TestGateway::start().await;
    let (first, _) = run(&gateway, &with(asked("one"), "conversation", json!("trip"))).await;
    let handle = first["conversation_id"].clone();
    let named = [
        on("trip", "two"),
        on(handle.as_str().unwrap(), "three"),
        with(on("trip", "four"), "conversation", json!({"id": handle})),
        with(asked("five"), "conversation", json!("trip")),
    ];
    for body in named {
        assert_eq!(run(&gateway, &body).await.0["conversation_id"], handle, "{body}");
    }
    for client in [gateway.in_session("trip"), gateway.client().header(CONVERSATION_ID, handle.as_str().unwrap())] {
        let begun = client.post_json(RUNS, &on("trip", "by header and by body")).await.expect(202);
        assert_eq!(begun["conversation_id"], handle);
        gateway.client().get_stream(&format!("{}/events", path(&begun))).await.rest().await;
    }
    assert_eq!((gateway.sessions().await.len(), gateway.rows("trip").await.len()), (1, 14));
    let response = gateway.client().post_json("/v1/responses", &json!({"model": "scripted", "input": "hi"})).await;
    let after = with(asked("and then"), "previous_response_id", response.expect(200)["id"].clone());
    run(&gateway, &after).await;
    assert_eq!(gateway.context(), ["user: hi", "assistant: reply to: hi", "user: and then"]);
}

#[tokio::test]
async fn names_that_lead_apart_are_refused() {
    let gateway = TestGateway::start().await;
    gateway.say("here", "hi").await.expect(200);
    gateway.say("there", "hi").await.expect(200);
    for (client, body, param) in [
        (gateway.in_session("here"), on("there", "x"), "session_id"),
        (gateway.in_session("here"), on("nowhere", "x"), "session_id"),
        (gateway.in_session("nowhere"), on("neither", "x"), "session_id"),
        (gateway.client(), with(on("here", "x"), "conversation", json!("there")), "conversation"),
    ] {
        assert_eq!(error(&client.post_json(RUNS, &body).await, 400)["param"], param, "{body}");
    }
    let keyed = gateway.client().header(SESSION_KEY, "agent:1");
    let other = with(asked("x"), "session_key", json!("agent:2"));
    assert_eq!(error(&keyed.post_json(RUNS, &other).await, 400)["param"], "session_key");
    assert_eq!(gateway.sessions().await.len(), 2);
}

#[tokio::test]
async fn a_key_in_the_body_is_the_key_in_the_header() {
    let gateway = TestGateway::start().await;
    let keyed = with(on("trip", "one"), "session_key", json!("agent:1"));
    let begun = gateway.client().post_json(RUNS, &keyed).await;
    begun.expect(202);
    assert_eq!(begun.header(SESSION_KEY), Some("agent:1"));
    assert_eq!(gateway.sessions().await[0]["session_key"], "agent:1");
    let other = gateway.client().header(SESSION_KEY, "agent:2").post_json(RUNS, &on("trip", "two")).await;
    assert_eq!(error(&other, 409)["code"], "session_key_conflict");
    let same =
        gateway.client().header(SESSION_KEY, "agent:1").post_json(RUNS, &with(keyed, "input", json!("two"))).await;
    same.expect(202);
}

#[tokio::test]
async fn a_run_says_what_the_conversation_is_that_it_makes() {
    let mut gateway = TestGateway::start().await;
    for (kind, user_facing) in [("background", false), ("auxiliary", false), ("main", true)] {
        let (done, _) = run(&gateway, &with(on(kind, "one"), "kind", json!(kind))).await;
        let provenance = &done["session"]["provenance"];
        assert_eq!((&provenance["kind"], &provenance["is_user_facing"]), (&json!(kind), &json!(user_facing)));
        let (done, _) = run(&gateway, &with(on(kind, "two"), "kind", json!("background"))).await;
        assert_eq!(done["session"]["provenance"]["kind"], kind, "what exists stays what it is");
    }
    gateway.restart().await;
    let rows = gateway.sessions().await;
    let row = rows.iter().find(|row| row["id"] == "background").expect("no kind is hidden");
    assert_eq!((&row["kind"], &row["origin_kind"]), (&json!("background"), &json!("background")));
    assert_eq!(row["provenance"]["is_user_facing"], false);
    let only = data(&gateway.client().get("/api/sessions?kind=background").await);
    assert_eq!(only.len(), 1);
}

#[tokio::test]
async fn instructions_hold_for_their_own_run_alone() {
    let gateway = TestGateway::start().await;
    let system = json!([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "one"}]);
    run(&gateway, &with(on("trip", ""), "input", system)).await;
    let (done, _) = run(&gateway, &with(on("trip", "two"), "instructions", json!("Be brief."))).await;
    assert_eq!((gateway.context()[0].as_str(), &done["instructions"]), ("system: Be brief.", &json!("Be brief.")));
    run(&gateway, &on("trip", "three")).await;
    assert_eq!(gateway.context()[0], "system: Be kind.");
}

#[tokio::test]
async fn the_events_of_a_text() {
    let gateway = TestGateway::start().await;
    gateway.upstream.push(Reply::chunks(["so ", "it is"]));
    insta::assert_snapshot!(frames(&gateway, &on("trip", "one")).await, @r#"
    id: 0
    data: {"event":"run.started","run_id":"run_<hex>","created_at":<now>,"session":{"conversation_id":"conv_<hex>","session_id":"trip","requested_id":"trip","resolution":"created","rotated":false,…}}

    id: 1
    data: {"event":"message.delta","run_id":"run_<hex>","delta":"so "}

    id: 2
    data: {"event":"message.delta","run_id":"run_<hex>","delta":"it is"}

    id: 3
    data: {"event":"run.completed","run_id":"run_<hex>","output":"so it is","usage":{"input_tokens":2,"output_tokens":3,"total_tokens":5},"session":{"conversation_id":"conv_<hex>","session_id":"trip","requested_id":"trip","resolution":"created","rotated":false,…}}

    : stream closed
    "#);
}

#[tokio::test]
async fn the_events_of_a_tool_call_and_of_its_result() {
    let gateway = TestGateway::start().await;
    gateway.upstream.push(Reply::tool_calls([ToolCall::new("c1", "find", "{\"a\":1}")]));
    let tools = json!([{"type": "function", "name": "find", "parameters": {"type": "object"}}]);
    insta::assert_snapshot!(frames(&gateway, &with(on("trip", "look"), "tools", tools)).await, @r#"
    id: 0
    data: {"event":"run.started","run_id":"run_<hex>","created_at":<now>,"session":{"conversation_id":"conv_<hex>","session_id":"trip","requested_id":"trip","resolution":"created","rotated":false,…}}

    id: 1
    data: {"event":"run.completed","run_id":"run_<hex>","output":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"find","arguments":"{\"a\":1}"}}],"usage":{"input_tokens":2,"output_tokens":1,"total_tokens":3},"session":{"conversation_id":"conv_<hex>","session_id":"trip","requested_id":"trip","resolution":"created","rotated":false,…}}

    : stream closed
    "#);
    let results = json!([{"type": "function_call_output", "call_id": "c1", "output": "found"}]);
    let (done, _) = run(&gateway, &with(on("trip", ""), "input", results)).await;
    assert_eq!(gateway.context(), ["user: look", "assistant c1=find({\"a\":1})", "tool c1: found"]);
    assert_eq!((&done["status"], done.get("tool_calls")), (&json!("completed"), None));
}

#[tokio::test]
async fn the_events_of_a_failure() {
    let gateway = TestGateway::start().await;
    gateway.upstream.push(Reply::error_after(2, "no more"));
    insta::assert_snapshot!(frames(&gateway, &on("trip", "one")).await, @r#"
    id: 0
    data: {"event":"run.started","run_id":"run_<hex>","created_at":<now>,"session":{"conversation_id":"conv_<hex>","session_id":"trip","requested_id":"trip","resolution":"created","rotated":false,…}}

    id: 1
    data: {"event":"message.delta","run_id":"run_<hex>","delta":"chunk1 "}

    id: 2
    data: {"event":"message.delta","run_id":"run_<hex>","delta":"chunk2 "}

    id: 3
    data: {"event":"run.failed","run_id":"run_<hex>","error":"the model server at <address> reported an error: no more","code":"upstream_error"}

    : stream closed
    "#);
    gateway.upstream.push(Reply::status(400, "no"));
    let (failed, events) = run(&gateway, &on("trip", "two")).await;
    assert_eq!((&failed["status"], &failed["error_code"]), (&json!("failed"), &json!("upstream_error")));
    let last = events.last().unwrap();
    assert_eq!((&last["event"], &last["error"]), (&json!("run.failed"), &failed["error"]));
}

#[tokio::test]
async fn a_run_that_is_asked_for_again_after_a_failure_is_another_run() {
    let gateway = TestGateway::start().await;
    gateway.upstream.push(Reply::status(400, "no"));
    let (failed, _) = run(&gateway, &on("trip", "one")).await;
    let (done, _) = run(&gateway, &on("trip", "one")).await;
    assert_ne!(done["run_id"], failed["run_id"]);
    assert_eq!(gateway.client().get(&path(&failed)).await.expect(200), failed, "what has ended stays so");
    gateway.upstream.push(Reply::status(400, "no"));
    gateway.say("talk", "one").await.expect(502);
    let (done, _) = run(&gateway, &on("talk", "one")).await;
    assert_eq!(done["status"], "completed", "a chat that failed does not swallow a run");
    gateway.upstream.push(Reply::status(400, "no"));
    let (failed, _) = run(&gateway, &on("third", "one")).await;
    let response = json!({"model": "scripted", "conversation": "third", "input": "one"});
    gateway.client().post_json("/v1/responses", &response).await.expect(200);
    assert_eq!(gateway.client().get(&path(&failed)).await.expect(200), failed, "nor does a response take a run over");
}

#[tokio::test]
async fn only_a_run_is_a_run() {
    let gateway = TestGateway::start().await;
    let response = gateway.client().post_json("/v1/responses", &json!({"model": "scripted", "input": "hi"})).await;
    let id = response.expect(200)["id"].as_str().unwrap().replace("resp_", "run_");
    let (done, _) = run(&gateway, &on("trip", "one")).await;
    let as_response = done["run_id"].as_str().unwrap().replace("run_", "resp_");
    assert_eq!(error(&gateway.client().get(&format!("/v1/responses/{as_response}")).await, 404)["code"], "not_found");
    for id in [id, format!("run_{}", "0".repeat(32)), "run_daily".to_owned(), as_response, "%ff".to_owned()] {
        for path in [format!("{RUNS}/{id}"), format!("{RUNS}/{id}/events")] {
            assert_eq!(error(&gateway.client().get(&path).await, 404)["code"], "not_found", "{path}");
        }
        for (path, body) in [("stop", json!({})), ("approval", json!({"choice": "once"}))] {
            let answer = gateway.client().post_json(&format!("{RUNS}/{id}/{path}"), &body).await;
            assert_eq!(error(&answer, 404)["code"], "not_found", "{path}");
        }
    }
}

#[tokio::test]
async fn what_a_run_cannot_be_is_refused_by_name_and_leaves_nothing() {
    let gateway = TestGateway::start().await;
    for (body, status, param) in [
        (json!({"model": "scripted"}), 400, Some("input")),
        (with(asked("x"), "input", json!([])), 400, Some("input")),
        (with(asked("x"), "input", json!(7)), 400, Some("input")),
        (with(asked("x"), "input", json!([{"role": "system", "content": "Be kind."}])), 400, Some("input")),
        (with(asked("x"), "session_id", json!(7)), 400, Some("session_id")),
        (on("a/b", "x"), 400, Some("session_id")),
        (on("a\nb", "x"), 400, Some("session_id")),
        (on(&"x".repeat(257), "x"), 400, Some("session_id")),
        (on(&format!("conv_{}", "0".repeat(32)), "x"), 404, None),
        (on(&format!("run_{}", "0".repeat(32)), "x"), 404, None),
        (with(asked("x"), "conversation", json!("..")), 400, Some("conversation")),
        (with(asked("x"), "conversation", json!(7)), 400, Some("conversation")),
        (with(asked("x"), "session_key", json!("a\u{0}b")), 400, Some("session_key")),
        (with(asked("x"), "session_key", json!([])), 400, Some("session_key")),
        (with(asked("x"), "kind", json!("branch")), 400, Some("kind")),
        (with(asked("x"), "kind", json!("continuation")), 400, Some("kind")),
        (with(asked("x"), "kind", json!(7)), 400, Some("kind")),
        (with(asked("x"), "instructions", json!(7)), 400, Some("instructions")),
        (with(asked("x"), "store", json!(false)), 400, Some("store")),
        (with(asked("x"), "conversation_history", json!([{}])), 400, Some("conversation_history")),
        (with(asked("x"), "previous_response_id", json!("resp_1")), 404, Some("previous_response_id")),
        (
            with(asked("x"), "input", json!([{"type": "function_call_output", "call_id": "c9", "output": "x"}])),
            400,
            Some("input[0].call_id"),
        ),
    ] {
        let refused = error(&gateway.client().post_json(RUNS, &body).await, status);
        assert_eq!(refused["param"].as_str(), param, "{body}");
    }
    for body in ["", "{", "[]", "\"x\""] {
        error(&gateway.client().post_bytes(RUNS, body).await, 400);
    }
    assert!(gateway.sessions().await.is_empty() && gateway.upstream.requests().is_empty());
}

#[tokio::test]
async fn a_number_that_is_none_does_not_resume_a_run() {
    let gateway = TestGateway::start().await;
    let (done, events) = run(&gateway, &on("trip", "one")).await;
    let events_path = format!("{}/events", path(&done));
    for id in ["x", "-1", "1.5", "18446744073709551616"] {
        let refused = error(&gateway.client().header("last-event-id", id).get(&events_path).await, 400);
        assert_eq!((&refused["code"], &refused["param"]), (&json!("invalid_header"), &json!("Last-Event-ID")));
        let refused = error(&gateway.client().get(&format!("{events_path}?starting_after={id}")).await, 400);
        assert_eq!(refused["param"], "starting_after");
    }
    let both =
        gateway.client().header("last-event-id", "1").get_stream(&format!("{events_path}?starting_after=0")).await;
    assert_eq!({ both }.chunks().await, events[2..], "the header counts");
    let all = gateway.client().header("last-event-id", "").get_stream(&events_path).await;
    assert_eq!({ all }.chunks().await, events, "an empty header is an absent one");
    assert_eq!(error(&gateway.client().get(&format!("{events_path}?after=1")).await, 400)["param"], "after");
}

#[tokio::test]
async fn an_approval_that_no_run_waits_for_is_refused() {
    let gateway = TestGateway::start().await;
    let (done, _) = run(&gateway, &on("trip", "one")).await;
    let approval = format!("{}/approval", path(&done));
    for (body, param) in [
        (json!({}), Some("choice")),
        (json!({"choice": "maybe"}), Some("choice")),
        (json!({"choice": true}), Some("choice")),
        (json!({"choice": "once", "all": "yes"}), Some("all")),
        (json!({"choice": "once", "resolve_all": 1}), Some("resolve_all")),
        (json!([]), None),
    ] {
        assert_eq!(error(&gateway.client().post_json(&approval, &body).await, 400)["param"].as_str(), param, "{body}");
    }
    for choice in ["once", "session", "always", "deny", "approve", "approved", "allow"] {
        let answer = gateway.client().post_json(&approval, &json!({"choice": choice, "all": true})).await;
        assert_eq!(error(&answer, 409)["code"], "approval_not_pending");
        assert_eq!(answer.header("x-should-retry"), Some("false"));
    }
}

#[tokio::test]
async fn a_run_that_is_not_authenticated_names_no_session() {
    let herma = Launch::serve(env!("CARGO_BIN_EXE_herma")).without_key().arg("--no-auth").start().await;
    for (name, value) in [("session_id", "trip"), ("session_key", "agent:1")] {
        let refused = error(&herma.client().post_json(RUNS, &with(asked("x"), name, json!(value))).await, 403);
        assert_eq!((&refused["code"], &refused["param"]), (&json!("session_headers_need_auth"), &json!(name)));
    }
    herma.client().post_json(RUNS, &json!({"input": "x"})).await.expect(202);
}
