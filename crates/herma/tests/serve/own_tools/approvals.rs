//! Calls that a person has to allow.

use herma_testkit::Reply;
use serde_json::{Value, json};

use super::{ToolGateway, lines};
use crate::support::{CHAT, chat, data, user};

const RUNS: &str = "/v1/runs";

async fn start_run(gateway: &ToolGateway, session: &str) -> String {
    let body = json!({"model": "scripted", "input": "count it", "session_id": session});
    let begun = gateway.client().post_json(RUNS, &body).await.expect(202);
    format!("{RUNS}/{}", begun["run_id"].as_str().unwrap())
}

/// Waits until a run has this status.
async fn until(gateway: &ToolGateway, run: &str, status: &str) -> Value {
    let began = std::time::Instant::now();
    loop {
        let now = gateway.client().get(run).await.expect(200);
        if now["status"] == status {
            return now;
        }
        assert!(began.elapsed() < herma_testkit::PATIENCE, "{status}: {now}");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_run_waits_for_an_answer_and_goes_on_with_it() {
    let gateway = ToolGateway::with("", "approval = \"ask\"").await;
    for (choice, result, executions) in [("once", "tool: counted", 1), ("deny", "tool: [This call was denied:", 1)] {
        gateway.calls(&[("test__count", "{}")]);
        let run = start_run(&gateway, choice).await;
        let waiting = until(&gateway, &run, "waiting_for_approval").await;
        assert_eq!(waiting["session"]["session_id"], choice);
        gateway.upstream.push(Reply::text("done"));
        let answered = gateway.client().post_json(&format!("{run}/approval"), &json!({"choice": choice})).await;
        answered.expect(200);
        assert_eq!(until(&gateway, &run, "completed").await["output"], "done");
        let said = lines(&gateway.rows(choice).await);
        assert!(said[2].starts_with(result), "{said:?}");
        assert_eq!(gateway.executions(), executions, "{choice}");
        let again = gateway.client().post_json(&format!("{run}/approval"), &json!({"choice": "once"})).await;
        assert!([404, 409].contains(&again.status), "{}", again.text());
    }
}

#[tokio::test]
async fn an_answer_for_the_session_holds_for_later_calls_of_the_conversation_and_for_no_other() {
    let gateway = ToolGateway::with("", "approval = \"ask\"").await;
    gateway.calls(&[("test__count", "{}")]);
    let run = start_run(&gateway, "s").await;
    until(&gateway, &run, "waiting_for_approval").await;
    gateway.upstream.push(Reply::text("done"));
    gateway.client().post_json(&format!("{run}/approval"), &json!({"choice": "session"})).await.expect(200);
    until(&gateway, &run, "completed").await;
    gateway.calls(&[("test__count", "{}")]);
    gateway.upstream.push(Reply::text("again"));
    assert_eq!(gateway.say("s", "once more").await.content(), "again");
    assert_eq!(gateway.executions(), 2);
    gateway.calls(&[("test__count", "{}")]);
    gateway.upstream.push(Reply::text("elsewhere"));
    gateway.say("other", "count").await.expect(200);
    assert_eq!(gateway.executions(), 2, "another conversation was not asked about");
}

#[tokio::test]
async fn where_nobody_can_be_asked_the_call_is_denied() {
    let gateway = ToolGateway::with("", "approval = \"ask\"").await;
    gateway.calls(&[("test__count", "{}")]);
    gateway.upstream.push(Reply::text("then not"));
    assert_eq!(gateway.say("s", "count it").await.content(), "then not");
    assert!(gateway.context()[2].starts_with("tool call_0: [This call was denied:"), "{:?}", gateway.context());
    assert_eq!(gateway.executions(), 0);
}

#[tokio::test]
async fn a_question_that_nobody_answers_is_denied_after_a_while() {
    let gateway = ToolGateway::with("approval_timeout = \"1s\"", "approval = \"ask\"").await;
    gateway.calls(&[("test__count", "{}")]);
    let run = start_run(&gateway, "s").await;
    until(&gateway, &run, "waiting_for_approval").await;
    gateway.upstream.push(Reply::text("nobody answered"));
    assert_eq!(until(&gateway, &run, "completed").await["output"], "nobody answered");
    let told = "tool call_0: [This call was denied: nobody answered in time whether it is allowed.]";
    assert_eq!(gateway.context()[2], told);
    assert_eq!(gateway.executions(), 0);
}

#[tokio::test]
async fn other_turns_wait_for_a_parked_one_or_interrupt_it() {
    let gateway = ToolGateway::with("", "approval = \"ask\"").await;
    gateway.calls(&[("test__count", "{}")]);
    let run = start_run(&gateway, "s").await;
    until(&gateway, &run, "waiting_for_approval").await;
    let rejecting = gateway.in_session("s").header("x-hermes-turn-policy", "reject");
    let busy = rejecting.post_json(CHAT, &chat(&[user("now?")])).await;
    assert_eq!(busy.expect(409)["error"]["code"], "conversation_busy");
    let interrupting = gateway.in_session("s").header("x-hermes-turn-policy", "interrupt");
    interrupting.post_json(CHAT, &chat(&[user("now!")])).await.expect(200);
    assert_eq!(gateway.client().get(&run).await.expect(200)["status"], "interrupted");
    let context = gateway.context();
    assert!(context[2].contains("not executed"), "{context:?}");
    assert_eq!(gateway.executions(), 0);
    let rows = gateway.rows("s").await;
    assert_eq!((&rows[2]["role"], &rows[2]["tool_status"]), (&json!("tool"), &json!("denied")), "{rows:?}");
    let events = gateway.client().get_stream(&format!("{run}/events")).await.chunks().await;
    let names: Vec<&str> = events.iter().filter_map(|event| event["event"].as_str()).collect();
    assert_eq!(names[names.len() - 2..], ["tool.completed", "run.interrupted"], "{names:?}");
}

#[tokio::test]
async fn a_response_ends_with_the_question_and_the_next_request_answers_it() {
    let gateway = ToolGateway::with("", "approval = \"ask\"").await;
    for (approve, result, executions) in [(true, "counted", 1), (false, "[This call was denied:", 1)] {
        gateway.calls(&[("test__count", "{}")]);
        let tools = json!([{"type": "mcp", "server_label": "test"}]);
        let body = json!({"model": "scripted", "input": "count it", "tools": tools});
        let asked = gateway.client().post_json("/v1/responses", &body).await.expect(200);
        let item = &asked["output"][0];
        assert_eq!((&item["type"], &item["server_label"]), (&json!("mcp_approval_request"), &json!("test")), "{asked}");
        assert_eq!((&item["name"], &asked["status"]), (&json!("count"), &json!("completed")));
        gateway.upstream.push(Reply::text("done"));
        let answer = json!({"type": "mcp_approval_response", "approval_request_id": item["id"], "approve": approve});
        let body = json!({"model": "scripted", "previous_response_id": asked["id"], "input": [answer], "tools": tools});
        let done = gateway.client().post_json("/v1/responses", &body).await.expect(200);
        let call = &done["output"][0];
        assert_eq!((&call["type"], &call["name"]), (&json!("mcp_call"), &json!("count")), "{done}");
        let context = gateway.context();
        assert!(context[2].starts_with(&format!("tool call_0: {result}")), "{context:?}");
        assert_eq!(gateway.executions(), executions);
        let stored = gateway.client().get(&format!("/v1/responses/{}", done["id"].as_str().unwrap())).await;
        assert_eq!(stored.expect(200)["output"], done["output"]);
        let asked_with = format!("/v1/responses/{}/input_items", done["id"].as_str().unwrap());
        let items = data(&gateway.client().get(&asked_with).await);
        assert_eq!(items.len(), 1, "{items:?}");
        assert_eq!((&items[0]["type"], &items[0]["approve"]), (&answer["type"], &answer["approve"]));
        assert_eq!(items[0]["approval_request_id"], item["id"]);
        let answer = json!({"type": "mcp_approval_response", "approval_request_id": item["id"], "approve": true});
        let body = json!({"model": "scripted", "previous_response_id": done["id"], "input": [answer], "tools": tools});
        let again = gateway.client().post_json("/v1/responses", &body).await;
        assert_eq!(again.status, 400, "the question was answered: {}", again.text());
    }
}

#[tokio::test]
async fn without_an_answer_the_call_of_a_response_is_not_executed() {
    let gateway = ToolGateway::with("", "approval = \"ask\"").await;
    gateway.calls(&[("test__count", "{}")]);
    let tools = json!([{"type": "mcp", "server_label": "test"}]);
    let body = json!({"model": "scripted", "input": "count it", "tools": tools, "conversation": "c"});
    gateway.client().post_json("/v1/responses", &body).await.expect(200);
    let body = json!({"model": "scripted", "input": "never mind", "conversation": "c"});
    gateway.client().post_json("/v1/responses", &body).await.expect(200);
    assert_eq!(gateway.context()[2], "tool call_0: [This call was not executed.]");
    assert_eq!(gateway.executions(), 0);
    assert_eq!(data(&gateway.client().get("/api/sessions").await).len(), 1);
}

/// Asks for a call in the conversation `name` and returns the request that allows it, with these further items.
async fn asked_for_a_call(gateway: &ToolGateway, name: &str, more: &[Value]) -> Value {
    gateway.calls(&[("test__count", "{}")]);
    let tools = json!([{"type": "mcp", "server_label": "test"}]);
    let body = json!({"model": "scripted", "input": "count it", "conversation": name, "tools": tools});
    let asked = gateway.client().post_json("/v1/responses", &body).await.expect(200);
    let id = &asked["output"][0]["id"];
    let mut input = vec![json!({"type": "mcp_approval_response", "approval_request_id": id, "approve": true})];
    input.extend_from_slice(more);
    json!({"model": "scripted", "input": input, "conversation": name, "tools": tools})
}

#[tokio::test]
async fn a_failed_turn_that_began_with_an_answer_is_attempted_again_under_its_id() {
    let gateway = ToolGateway::with("", "approval = \"ask\"").await;
    let more = [json!({"role": "user", "content": "go on"})];
    for (nth, (header, more)) in
        [("", &[][..]), ("idempotency-key", &[]), ("x-stainless-retry-count", &[]), ("", &more)].into_iter().enumerate()
    {
        let name = format!("c{nth}");
        let body = asked_for_a_call(&gateway, &name, more).await;
        let client = |count: &str| match header {
            "" => gateway.client(),
            "idempotency-key" => gateway.client().header(header, &name),
            _ => gateway.client().header(header, count),
        };
        gateway.upstream.push(Reply::status(400, "no"));
        let failed = client("0").post_json("/v1/responses", &body).await;
        assert_eq!(failed.status, 502, "{}", failed.text());
        assert_eq!(gateway.executions(), nth + 1);
        let turn = gateway.rows(&name).await.last().unwrap()["turn_id"].clone();
        gateway.upstream.push(Reply::text("done"));
        let done = client("1").post_json("/v1/responses", &body).await.expect(200);
        assert_eq!(done["id"].as_str().unwrap().replace("resp_", "turn_"), turn.as_str().unwrap(), "{header}");
        assert_eq!(gateway.executions(), nth + 1, "no call is made twice");
        let (call, said) = (&done["output"][0], &done["output"][1]);
        assert_eq!((&call["type"], &call["output"]), (&json!("mcp_call"), &json!("counted")), "{done}");
        assert_eq!(said["content"][0]["text"], "done", "{done}");
        let context = gateway.context();
        assert_eq!(context[0..1], ["user: count it"]);
        assert_eq!(context[2], "tool call_0: counted");
        assert_eq!(context.len(), 3 + more.len(), "{context:?}");
        let stored = gateway.client().get(&format!("/v1/responses/{}", done["id"].as_str().unwrap())).await;
        assert_eq!(stored.expect(200)["output"], done["output"]);
    }
}
