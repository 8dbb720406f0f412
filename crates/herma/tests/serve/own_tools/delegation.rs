//! Work that a turn delegates, what trees cost, and what a model may read.

use herma_testkit::{Reply, ToolCall};
use serde_json::{Value, json};

use super::ToolGateway;
use crate::support::{CHAT, SESSION_KEY, chat, data, error, user};

const DELEGATE: &str = "builtin = [\"delegate_task\"]\n[tools.delegate]\nmax_children = 2";

fn tasks(goals: &[&str]) -> String {
    json!({"tasks": goals.iter().map(|goal| json!({"goal": goal, "context": "be brief"})).collect::<Vec<_>>()})
        .to_string()
}

#[tokio::test]
async fn children_are_auxiliary_conversations_that_name_the_call_that_made_them() {
    let gateway = ToolGateway::with(DELEGATE, "").await;
    gateway.calls(&[("delegate_task", &tasks(&["one", "two"]))]);
    gateway.upstream.otherwise(|request| match request.last_user_text().as_str() {
        "plan" => Reply::text("both are done"),
        text => Reply::text(format!("child of {}", text.lines().next().unwrap_or_default())),
    });
    let keyed = gateway.in_session("p").header(SESSION_KEY, "me");
    assert_eq!(keyed.post_json(CHAT, &chat(&[user("plan")])).await.content(), "both are done");
    let context = gateway.context();
    let result: Value = serde_json::from_str(context[2].trim_start_matches("tool call_0: ")).unwrap();
    let answers: Vec<_> = result.as_array().unwrap().iter().map(|child| &child["answer"]).collect();
    assert_eq!(answers, ["child of one", "child of two"]);
    let children = data(&gateway.client().header(SESSION_KEY, "me").get("/api/sessions?kind=auxiliary").await);
    assert_eq!(children.len(), 2);
    for child in &children {
        let provenance = &child["provenance"];
        assert_eq!(
            (&child["kind"], &provenance["parent_relation"], &provenance["creator_kind"]),
            (&json!("auxiliary"), &json!("delegate"), &json!("delegate_task"))
        );
        assert_eq!((&child["parent_session_id"], &child["parent_tool_call_id"]), (&json!("p"), &json!("call_0")));
        assert_eq!((&child["session_key"], &provenance["is_user_facing"]), (&json!("me"), &json!(false)));
        let id = child["conversation_id"].as_str().unwrap();
        let said = gateway.rows(id).await;
        assert!(said[0]["content"].as_str().unwrap().ends_with("\n\nbe brief"), "{said:?}");
    }
    let parent = gateway.client().get("/api/sessions/p").await.expect(200);
    let below: u64 = children.iter().map(|child| child["usage"]["input_tokens"].as_u64().unwrap()).sum();
    let own = parent["usage"]["input_tokens"].as_u64().unwrap();
    assert_eq!(parent["usage_tree"]["input_tokens"], json!(own + below));
}

#[tokio::test]
async fn a_call_with_too_many_children_is_refused_as_a_whole_and_children_cannot_delegate() {
    let gateway = ToolGateway::with(DELEGATE, "").await;
    gateway.calls(&[("delegate_task", &tasks(&["one", "two", "three"]))]);
    gateway.upstream.push(Reply::text("too many"));
    gateway.say("p", "plan").await.expect(200);
    assert!(gateway.context()[2].contains("at most 2 children"), "{:?}", gateway.context());
    assert_eq!(gateway.sessions().await.len(), 1);
    gateway.calls(&[("delegate_task", &tasks(&["one"]))]);
    gateway.say("p", "again").await.expect(200);
    let child = gateway.upstream.requests().into_iter().find(|request| request.last_user_text().starts_with("one"));
    let offered = child.unwrap().body["tools"].to_string();
    assert!(offered.contains("test__echo") && !offered.contains("delegate_task"), "{offered}");
}

#[tokio::test]
async fn a_loop_of_delegations_ends() {
    let limits = "builtin = [\"delegate_task\"]\nmax_rounds = 4\n\
                  [tools.delegate]\nmax_depth = 2\nmax_children = 2\nmax_rounds = 3";
    let gateway = ToolGateway::with(limits, "").await;
    let goals = tasks(&["go on"]);
    gateway.upstream.otherwise(move |request| {
        let is_last = request.body["tool_choice"] == "none";
        let may_delegate = request.body["tools"].to_string().contains("delegate_task");
        match may_delegate && !is_last {
            true => Reply::tool_calls([ToolCall::new("call_0", "delegate_task", goals.as_str())]),
            false => Reply::text("enough"),
        }
    });
    assert_eq!(gateway.say("p", "go on").await.content(), "enough");
    // Each turn that may delegate has two children, and is told of each further one that there are too many.
    let kinds = gateway.sessions().await.iter().filter(|row| row["kind"] == "auxiliary").count();
    assert_eq!(kinds, 2 + 2 * 2);
    let rows = gateway.rows("p").await;
    let refused = rows.iter().filter(|row| row["content"].as_str().is_some_and(|text| text.contains("at most 2")));
    assert_eq!(refused.count(), 1, "{rows:?}");
}

#[tokio::test]
async fn cancelling_the_parent_cancels_its_children() {
    let gateway = ToolGateway::with(DELEGATE, "").await;
    gateway.calls(&[("delegate_task", &tasks(&["one", "two"]))]);
    gateway.upstream.otherwise(|_| Reply::Hang);
    let body = json!({"model": "scripted", "input": "plan", "session_id": "p"});
    let run = gateway.client().post_json("/v1/runs", &body).await.expect(202)["run_id"].as_str().unwrap().to_owned();
    gateway.upstream.until_requests(3).await;
    let stopped = gateway.client().post_json(&format!("/v1/runs/{run}/stop"), &json!({})).await.expect(200);
    assert_eq!(stopped["status"], "cancelled");
    gateway.upstream.until_open(0).await;
    let children = data(&gateway.client().get("/api/sessions?kind=auxiliary").await);
    assert_eq!(children.len(), 2);
    for child in children {
        let rows = gateway.rows(child["conversation_id"].as_str().unwrap()).await;
        assert_eq!(rows[0]["turn_status"], "cancelled", "{rows:?}");
    }
}

#[tokio::test]
async fn after_a_cancelled_delegation_the_next_turn_is_told_what_the_children_had_answered() {
    let gateway = ToolGateway::with(DELEGATE, "").await;
    gateway.calls(&[("delegate_task", &tasks(&["one", "two"]))]);
    gateway.upstream.otherwise(|request| match request.last_user_text().as_str() {
        "two\n\nbe brief" => Reply::Hang,
        text => Reply::text(format!("answer to {text}")),
    });
    let body = json!({"model": "scripted", "input": "plan", "session_id": "p"});
    let run = gateway.client().post_json("/v1/runs", &body).await.expect(202)["run_id"].as_str().unwrap().to_owned();
    gateway.upstream.until_requests(3).await;
    let began = std::time::Instant::now();
    loop {
        let children = data(&gateway.client().get("/api/sessions?kind=auxiliary&answered=true").await);
        if children.len() == 1 {
            break;
        }
        assert!(began.elapsed() < herma_testkit::PATIENCE, "one child was to answer: {children:?}");
        tokio::task::yield_now().await;
    }
    gateway.client().post_json(&format!("/v1/runs/{run}/stop"), &json!({})).await.expect(200);
    gateway.say("p", "and?").await.expect(200);
    let context = gateway.context();
    let told = context[2].strip_prefix("tool call_0: ").unwrap_or_else(|| panic!("{context:?}"));
    let told: Vec<Value> = serde_json::from_str(told).unwrap_or_else(|error| panic!("{error}: {told}"));
    let told: Vec<_> = told.iter().map(|child| (child["status"].as_str().unwrap(), &child["answer"])).collect();
    assert_eq!(told, [("completed", &json!("answer to one\n\nbe brief")), ("cancelled", &Value::Null)]);
}

#[tokio::test]
async fn a_failing_child_is_told_to_its_parent() {
    let gateway = ToolGateway::with(DELEGATE, "").await;
    gateway.calls(&[("delegate_task", &tasks(&["one"]))]);
    gateway.upstream.otherwise(|request| match request.last_user_text().as_str() {
        "plan" => Reply::text("it failed"),
        _ => Reply::status(400, "no"),
    });
    assert_eq!(gateway.say("p", "plan").await.content(), "it failed");
    let context = gateway.context();
    assert!(context[2].contains(r#""status":"failed""#), "{context:?}");
    let child = data(&gateway.client().get("/api/sessions?kind=auxiliary").await)[0]["conversation_id"].clone();
    assert!(context[2].contains(child.as_str().unwrap()), "{context:?}");
}

#[tokio::test]
async fn a_budget_that_is_used_up_ends_the_turn_with_a_clear_reason() {
    let budget = "[budgets]\nturn_tokens = 5";
    let gateway = ToolGateway::with_sections("", "approval = \"auto\"", budget).await;
    gateway.calls(&[("test__count", "{}")]);
    let failed = gateway.say("s", "one two three four five six").await;
    assert_eq!(error(&failed, 400)["code"], "budget_exceeded");
    assert_eq!(gateway.executions(), 1, "the last complete step stays");
    let rows = gateway.rows("s").await;
    assert_eq!((rows.len(), &rows[0]["turn_status"]), (3, &json!("failed")));
    let budget = "[budgets]\nconversation_tokens = 5";
    let gateway = ToolGateway::with_sections("", "approval = \"auto\"", budget).await;
    gateway.say("s", "one two three four five six").await.expect(200);
    let refused = gateway.say("s", "seven").await;
    assert_eq!(error(&refused, 400)["code"], "budget_exceeded");
    assert_eq!(gateway.rows("s").await.len(), 2, "a refused turn leaves nothing behind");
}

#[tokio::test]
async fn prices_become_a_cost() {
    let price = "[models.scripted.price]\ninput = 1000000\noutput = 2000000";
    let gateway = ToolGateway::with_sections("", "", price).await;
    gateway.upstream.push(Reply::Completion(herma_testkit::Completion::text("yes").usage(3, 2)));
    gateway.say("s", "hi").await.expect(200);
    let row = gateway.client().get("/api/sessions/s").await.expect(200);
    assert_eq!(row["cost"], json!(7.0), "{row}");
}

#[tokio::test]
async fn a_model_finds_and_reads_what_its_session_key_may_see() {
    let gateway = ToolGateway::with("builtin = [\"session_search\", \"session_read\"]", "").await;
    for (session, key) in [("mine", Some("me")), ("theirs", Some("them")), ("nobodys", None)] {
        let client = gateway.in_session(session);
        let client = key.map_or(client.clone(), |key| client.header(SESSION_KEY, key));
        client.post_json(CHAT, &chat(&[user(&format!("the zebra of {session}"))])).await.expect(200);
    }
    for (key, seen) in [(Some("me"), "mine"), (None, "nobodys")] {
        let client = gateway.in_session(&format!("asks-{seen}"));
        let client = key.map_or(client.clone(), |key| client.header(SESSION_KEY, key));
        gateway
            .calls(&[("session_search", r#"{"query":"zebra"}"#), ("session_read", &json!({"id": seen}).to_string())]);
        gateway.upstream.push(Reply::text("found"));
        client.post_json(CHAT, &chat(&[user("which animal?")])).await.expect(200);
        let results = gateway.context()[2..].join("\n");
        assert!(results.contains(&format!("the zebra of {seen}")), "{results}");
        for other in ["mine", "theirs", "nobodys"].into_iter().filter(|other| *other != seen) {
            assert!(!results.contains(&format!("zebra of {other}")), "{seen} sees {other}: {results}");
        }
        gateway.calls(&[("session_read", r#"{"id":"theirs"}"#)]);
        gateway.upstream.push(Reply::text("no"));
        client.post_json(CHAT, &chat(&[user("and theirs?")])).await.expect(200);
        assert!(gateway.context().last().unwrap().contains("There is no conversation"), "{:?}", gateway.context());
    }
}
