//! The sessions resource: creating, changing, ending, branching and deleting conversations, filtered lists, and the
//! lineage graph.

use herma_testkit::Reply;
use serde_json::{Value, json};

use crate::support::{CHAT, TestGateway, chat, data, error, user};

const SESSIONS: &str = "/api/sessions";

async fn make(gateway: &TestGateway, body: &Value) -> Value {
    gateway.client().post_json(SESSIONS, body).await.expect(201)
}

async fn ids(gateway: &TestGateway, query: &str) -> Vec<String> {
    let rows = data(&gateway.client().get(&format!("{SESSIONS}?{query}")).await);
    rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_session_is_what_its_maker_says_and_stays_so() {
    let mut gateway = TestGateway::start().await;
    gateway.say("trip", "one").await;
    let helper =
        json!({"id": "helper", "kind": "auxiliary", "parent": "trip", "title": "Find hotels", "metadata": {"a": "b"}});
    let helper = make(&gateway, &helper).await;
    assert_eq!((&helper["kind"], &helper["title"]), (&json!("auxiliary"), &json!("Find hotels")));
    let job = make(&gateway, &json!({"kind": "background", "session_key": "agent:jobs"})).await;
    assert_eq!((&job["kind"], &job["session_key"]), (&json!("background"), &json!("agent:jobs")));
    gateway.say("helper", "two").await;
    gateway.restart().await;
    let row = gateway.client().get(&format!("{SESSIONS}/helper")).await.expect(200);
    let provenance = &row["provenance"];
    assert_eq!(
        (&provenance["parent_session_id"], &provenance["parent_relation"]),
        (&json!("trip"), &json!("delegate"))
    );
    assert_eq!((&provenance["is_user_facing"], &row["metadata"]), (&json!(false), &json!({"a": "b"})));
    assert_eq!(ids(&gateway, "kind=auxiliary").await, ["helper"]);
    assert_eq!(ids(&gateway, "user_facing=true").await, ["trip"]);
    assert_eq!(ids(&gateway, "parent=trip").await, ["helper"]);
    assert_eq!(ids(&gateway, "title=hotel").await, ["helper"]);
    let of_key = data(&gateway.client().get("/api/session-keys/agent:jobs").await);
    assert_eq!((of_key.len(), &of_key[0]["id"]), (1, &job["id"]));
    let fresh = gateway.client().post_json("/api/session-keys/agent:jobs/new", &json!({})).await.expect(201);
    assert_eq!((&fresh["session_key"], &fresh["kind"]), (&json!("agent:jobs"), &json!("main")));
    assert_eq!(data(&gateway.client().get("/api/session-keys/agent:jobs").await).len(), 2);
    let named = json!({"id": "report", "title": "The report"});
    let named = gateway.client().post_json("/api/session-keys/agent:jobs/new", &named).await.expect(201);
    assert_eq!(
        (&named["id"], &named["title"], &named["session_key"]),
        (&json!("report"), &json!("The report"), &json!("agent:jobs"))
    );
    for wrong in [json!({"bogus": 1}), json!({"session_key": "agent:other"})] {
        gateway.client().post_json("/api/session-keys/agent:jobs/new", &wrong).await.expect(400);
    }
}

#[tokio::test]
async fn a_session_is_renamed_put_away_ended_and_opened_again() {
    let gateway = TestGateway::start().await;
    gateway.say("trip", "one").await;
    let path = format!("{SESSIONS}/trip");
    let changed =
        gateway.client().send_json("PATCH", &path, &json!({"title": "Oslo", "archived": true})).await.expect(200);
    assert_eq!((&changed["title"], &changed["archived"]), (&json!("Oslo"), &json!(true)));
    assert_eq!(ids(&gateway, "").await, Vec::<String>::new());
    assert_eq!(ids(&gateway, "archived=true").await, ["trip"]);
    assert_eq!(ids(&gateway, "archived=any").await, ["trip"]);
    let ended = gateway.client().post_json(&format!("{path}/end"), &json!({})).await.expect(200);
    assert_eq!(ended["end_reason"], "ended");
    assert_eq!(error(&gateway.say("trip", "two").await, 409)["code"], "session_ended");
    gateway.client().post_json(&format!("{path}/reopen"), &json!({})).await.expect(200);
    gateway.say("trip", "two").await.expect(200);
}

#[tokio::test]
async fn a_branch_begins_at_the_end_or_at_any_message_and_its_source_never_notices() {
    let gateway = TestGateway::start().await;
    for text in ["one", "two"] {
        gateway.say("trip", text).await;
    }
    let before = gateway.client().get(&format!("{SESSIONS}/trip")).await.expect(200);
    let first = gateway.rows("trip").await[0]["id"].clone();
    let whole =
        gateway.client().post_json(&format!("{SESSIONS}/trip/branch"), &json!({"id": "whole"})).await.expect(201);
    assert_eq!((&whole["kind"], &whole["parent_session_id"]), (&json!("branch"), &json!("trip")));
    let early = json!({"id": "early", "at": first, "title": "Other"});
    gateway.client().post_json(&format!("{SESSIONS}/trip/fork"), &early).await.expect(201);
    assert_eq!(gateway.client().get(&format!("{SESSIONS}/trip")).await.expect(200), before);
    gateway.say("early", "three").await;
    assert_eq!(gateway.context(), ["user: one", "assistant: reply to: one", "user: three"]);
    gateway.say("whole", "four").await;
    assert_eq!(gateway.context().len(), 5);
    let graph = gateway.client().get(&format!("{SESSIONS}/trip/lineage")).await.expect(200);
    let relations: Vec<_> = graph["edges"].as_array().unwrap().iter().map(|edge| edge["relation"].as_str()).collect();
    assert_eq!((graph["nodes"].as_array().unwrap().len(), relations), (3, vec![Some("branch"), Some("branch")]));
    gateway.client().delete(&format!("{SESSIONS}/trip")).await.expect(200);
    assert_eq!(gateway.transcript("early").await.len(), 4, "a branch keeps what it inherited");
    let row = gateway.client().get(&format!("{SESSIONS}/early")).await.expect(200);
    assert_eq!(row["parent_session_id"], "trip", "and still says where it comes from");
}

#[tokio::test]
async fn children_go_along_if_asked() {
    let gateway = TestGateway::start().await;
    gateway.say("trip", "one").await;
    make(&gateway, &json!({"id": "helper", "kind": "auxiliary", "parent": "trip"})).await;
    gateway.client().post_json(&format!("{SESSIONS}/trip/branch"), &json!({"id": "branch"})).await.expect(201);
    gateway.client().delete(&format!("{SESSIONS}/trip?children=delete")).await.expect(200);
    assert_eq!(gateway.sessions().await.len(), 0);
}

#[tokio::test]
async fn clients_of_hermes_count_rows() {
    let gateway = TestGateway::start().await;
    for name in ["one", "two", "three"] {
        gateway.say(name, "hello").await;
    }
    let page = gateway.client().get(&format!("{SESSIONS}?limit=1&offset=1")).await.expect(200);
    assert_eq!(page["data"][0]["id"], "two");
    assert_eq!((&page["limit"], &page["offset"], &page["has_more"]), (&json!(1), &json!(1), &json!(true)));
    let last = gateway.client().get(&format!("{SESSIONS}?limit=1&offset=2")).await.expect(200);
    assert_eq!((&last["data"][0]["id"], &last["has_more"]), (&json!("one"), &json!(false)));
    assert_eq!(ids(&gateway, "offset=3").await, Vec::<String>::new());
}

#[tokio::test]
async fn what_cannot_be_is_refused_by_name_and_leaves_nothing() {
    let gateway = TestGateway::start().await;
    gateway.say("trip", "one").await;
    let long = "x".repeat(10_000);
    for (body, status, code) in [
        (json!({"kind": "continuation"}), 400, "invalid_request"),
        (json!({"kind": "king"}), 400, "invalid_request"),
        (json!({"kind": "auxiliary", "parent": "nobody"}), 400, "invalid_request"),
        (json!({"kind": "branch"}), 400, "invalid_request"),
        (json!({"parent": "trip"}), 400, "invalid_request"),
        (json!({"title": long}), 400, "invalid_request"),
        (json!({"title": "two\u{2028}lines"}), 400, "invalid_request"),
        (json!({"title": "turned \u{202e}round"}), 400, "invalid_request"),
        (json!({"id": format!("sess_{}", "0".repeat(32))}), 400, "invalid_request"),
        (json!({"id": "trip"}), 409, "session_exists"),
    ] {
        assert_eq!(error(&gateway.client().post_json(SESSIONS, &body).await, status)["code"], code, "{body}");
    }
    for (path, body, param) in [
        ("trip/branch", json!({"at": "msg_none"}), "at"),
        ("trip/branch", json!({"at": format!("msg_{}", "0".repeat(32))}), "at"),
        ("trip/branch", json!({"from": "x"}), "from"),
    ] {
        let refused = gateway.client().post_json(&format!("{SESSIONS}/{path}"), &body).await;
        assert_eq!(error(&refused, 400)["param"], param, "{path} {body}");
    }
    for query in [
        "order=up",
        "view=all",
        "since=yesterday",
        "archived=maybe",
        "user_facing=1",
        "cursor=x",
        "offset=-1",
        "offset=10001",
    ] {
        let refused = error(&gateway.client().get(&format!("{SESSIONS}?{query}")).await, 400);
        assert_eq!(refused["param"], query.split('=').next().unwrap());
    }
    let both = error(&gateway.client().get(&format!("{SESSIONS}?include_children=true&view=sessions")).await, 400);
    assert_eq!(both["param"], "include_children");
    make(&gateway, &json!({})).await;
    let page = gateway.client().get(&format!("{SESSIONS}?limit=1")).await.expect(200);
    let cursor = page["next_cursor"].as_str().unwrap();
    let elsewhere = gateway.client().get(&format!("{SESSIONS}?limit=1&kind=main&cursor={cursor}")).await;
    assert_eq!(error(&elsewhere, 400)["param"], "cursor", "a cursor is good for its own list alone");
    let twice = gateway.client().get(&format!("{SESSIONS}?limit=1&offset=1&cursor={cursor}")).await;
    assert_eq!(error(&twice, 400)["param"], "offset");
    for path in ["nobody/end", "nobody/reopen", "nobody/branch"] {
        error(&gateway.client().post_json(&format!("{SESSIONS}/{path}"), &json!({})).await, 404);
    }
    error(&gateway.client().get(&format!("{SESSIONS}/nobody/lineage")).await, 404);
    assert_eq!(gateway.sessions().await.len(), 2);
}

#[tokio::test]
async fn a_helpers_request_leaves_the_conversation_it_names_alone() {
    let gateway = TestGateway::start().await;
    gateway.say("trip", "one").await;
    let helper = gateway.in_session("trip").header("x-hermes-session-kind", "auxiliary");
    let answer = helper.post_json(CHAT, &chat(&[user("### Task: a title")])).await.expect(200);
    let provenance = &answer["session"]["provenance"];
    assert_eq!((&provenance["kind"], &provenance["parent_relation"]), (&json!("auxiliary"), &json!("delegate")));
    assert_eq!(provenance["parent_session_id"], "trip");
    assert_eq!(gateway.context(), ["user: ### Task: a title"]);
    assert_eq!(gateway.rows("trip").await.len(), 2);
    let job = gateway.client().header("x-hermes-session-kind", "background");
    let body = json!({"model": "scripted", "input": "two"});
    let answer = job.post_json("/v1/responses", &body).await.expect(200);
    assert_eq!(answer["session"]["provenance"]["origin_kind"], "background");
    let run = gateway.in_session("trip").header("x-hermes-session-kind", "background");
    let run = run.post_json("/v1/runs", &json!({"model": "scripted", "input": "three"})).await.expect(202);
    let provenance = &run["session"]["provenance"];
    assert_eq!((&provenance["kind"], &provenance["parent_relation"]), (&json!("background"), &json!("background")));
    assert_eq!(provenance["parent_session_id"], "trip");
    let own = gateway.client().header("x-hermes-session-kind", "auxiliary");
    let refused = own.post_json("/api/sessions/trip/chat", &json!({"message": "four"})).await.expect(400);
    assert_eq!(refused["error"]["param"], "X-Hermes-Session-Kind");
    assert_eq!(gateway.rows("trip").await.len(), 2);
}

#[tokio::test]
async fn lists_tell_what_was_answered_from_what_never_was() {
    let gateway = TestGateway::with_settings(&[("HERMA_UPSTREAM__RETRIES", "0")]).await;
    gateway.say("answered", "hello").await.expect(200);
    gateway.upstream.push(Reply::status(500, "broken"));
    gateway.say("failed", "hello").await.expect(502);
    gateway.client().post_json("/api/sessions", &json!({"id": "empty"})).await.expect(201);
    let items = json!({"items": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "not a model's"}]});
    gateway.client().post_json("/v1/conversations/empty/items", &items).await.expect(200);
    let listed = async |query: &str| -> Vec<String> {
        let rows = data(&gateway.client().get(&format!("/api/sessions?order=created_at{query}")).await);
        rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(listed("&answered=true").await, ["answered"]);
    assert_eq!(listed("&answered=false").await, ["failed", "empty"]);
    assert_eq!(listed("&answered=any").await, ["answered", "failed", "empty"]);
    assert_eq!(listed("").await.len(), 3);
    let refused = error(&gateway.client().get("/api/sessions?answered=maybe").await, 400);
    assert_eq!(refused["param"], "answered");
}

#[tokio::test]
async fn rows_have_the_name_that_a_client_chose() {
    let gateway = TestGateway::start().await;
    gateway.say("trip", "hello").await.expect(200);
    let by_slug = json!({"model": "scripted", "conversation": "recipe", "input": "hello"});
    gateway.client().post_json("/v1/responses", &by_slug).await.expect(200);
    let unnamed = gateway.client().post_json(CHAT, &chat(&[user("hello")])).await.expect(200);
    assert_eq!(gateway.client().get("/api/sessions/trip").await.expect(200)["name"], "trip");
    assert_eq!(gateway.client().get("/api/sessions/recipe").await.expect(200)["name"], "recipe");
    let alias = unnamed["session"]["conversation_id"].as_str().unwrap();
    assert_eq!(gateway.client().get(&format!("/api/sessions/{alias}")).await.expect(200).get("name"), None);
    let found = data(&gateway.client().get("/api/search?q=hello&group=none").await);
    let mut found: Vec<&str> = found.iter().filter_map(|row| row["name"].as_str()).collect();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found, ["recipe", "trip"]);
    let names: Vec<Value> = gateway.sessions().await.iter().map(|row| row["name"].clone()).collect();
    assert_eq!(names.iter().filter(|name| name.is_string()).count(), 2, "{names:?}");
}
