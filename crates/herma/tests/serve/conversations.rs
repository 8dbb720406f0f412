//! The Conversations API: creating, describing and deleting conversations and their items.

use herma_testkit::{Reply, ToolCall};
use serde_json::{Value, json};

use crate::support::{TestGateway, data, error, user, with};

const CONVERSATIONS: &str = "/v1/conversations";
const RESPONSES: &str = "/v1/responses";

fn path(conversation: &Value) -> String {
    format!("{CONVERSATIONS}/{}", conversation["id"].as_str().unwrap())
}

async fn respond(gateway: &TestGateway, conversation: &Value, text: &str) -> Value {
    let body = json!({"model": "scripted", "input": text, "conversation": conversation});
    gateway.client().post_json(RESPONSES, &body).await.expect(200)
}

/// The texts of items.
fn texts(items: &[Value]) -> Vec<&str> {
    items.iter().map(|item| item["content"][0]["text"].as_str().unwrap_or_default()).collect()
}

#[tokio::test]
async fn a_conversation_is_made_described_and_read_by_any_name() {
    let mut gateway = TestGateway::start().await;
    let made = gateway.client().post_json(CONVERSATIONS, &json!({"metadata": {"topic": "trip"}})).await.expect(200);
    assert_eq!((&made["object"], &made["metadata"]), (&json!("conversation"), &json!({"topic": "trip"})));
    assert_eq!(made["provenance"]["kind"], "main");
    respond(&gateway, &made["id"], "one").await;
    let changed = gateway.client().post_json(&path(&made), &json!({"metadata": {"topic": "home"}})).await.expect(200);
    assert_eq!(changed["metadata"], json!({"topic": "home"}));
    respond(&gateway, &json!("slug"), "two").await;
    gateway.restart().await;
    assert_eq!(gateway.client().get(&path(&made)).await.expect(200), changed);
    let by_slug = gateway.client().get("/v1/conversations/slug").await.expect(200);
    let listed = data(&gateway.client().get(CONVERSATIONS).await);
    assert_eq!(listed, [by_slug.clone(), changed], "most recently changed first; a slug and its id are one thing");
    let page = gateway.client().get(&format!("{CONVERSATIONS}?limit=1")).await.expect(200);
    assert_eq!((&page["has_more"], &page["last_id"]), (&json!(true), &by_slug["id"]));
    let next = format!("{CONVERSATIONS}?limit=1&cursor={}", page["next_cursor"].as_str().unwrap());
    assert_eq!(gateway.client().get(&next).await.expect(200)["data"][0]["id"], made["id"]);
}

#[tokio::test]
async fn items_are_what_was_said_and_what_is_said_next() {
    let gateway = TestGateway::start().await;
    let begun = json!({"items": [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two"},
    ]});
    let made = gateway.client().post_json(CONVERSATIONS, &begun).await.expect(200);
    let items = format!("{}/items", path(&made));
    let added = gateway.client().post_json(&items, &json!({"items": [user("three"), user("three")]})).await.expect(200);
    assert_eq!(texts(added["data"].as_array().unwrap()), ["three", "three"], "the same twice is two items");
    respond(&gateway, &made["id"], "four").await;
    let context = ["system: Be brief.", "user: one", "assistant: two", "user: three", "user: three", "user: four"];
    assert_eq!(gateway.context(), context);
    let all = data(&gateway.client().get(&format!("{items}?order=asc")).await);
    assert_eq!(texts(&all), ["one", "two", "three", "three", "four", "reply to: four"]);
    let mut walked = Vec::new();
    let mut after = String::new();
    loop {
        let page = gateway.client().get(&format!("{items}?limit=2{after}")).await.expect(200);
        walked.extend(page["data"].as_array().unwrap().clone());
        after = format!("&after={}", page["last_id"].as_str().unwrap());
        if page["has_more"] == false {
            break;
        }
    }
    walked.reverse();
    assert_eq!(walked, all, "pages neither skip nor repeat");
    let one = format!("{items}/{}", all[1]["id"].as_str().unwrap());
    assert_eq!(gateway.client().get(&one).await.expect(200), all[1]);
}

#[tokio::test]
async fn a_created_conversation_is_never_given_to_another_client() {
    let gateway = TestGateway::start().await;
    let begun = json!({"items": [user("one")]});
    let made = gateway.client().post_json(CONVERSATIONS, &begun).await.expect(200);
    // An equal request of another client, whose first attempt never arrived.
    let retried = gateway.client().header("x-stainless-retry-count", "1").post_json(CONVERSATIONS, &begun).await;
    assert_ne!(retried.expect(200)["id"], made["id"]);
    assert_eq!(gateway.sessions().await.len(), 2);
}

#[tokio::test]
async fn an_item_that_is_deleted_is_not_said_any_more() {
    let gateway = TestGateway::start().await;
    gateway.upstream.push(Reply::tool_calls([ToolCall::new("a", "look", "{}"), ToolCall::new("b", "look", "{}")]));
    let response = respond(&gateway, &json!("trip"), "one").await;
    let items = "/v1/conversations/trip/items";
    let second = format!("{items}/{}", response["output"][1]["id"].as_str().unwrap());
    assert_eq!(gateway.client().delete(&second).await.expect(200)["object"], "conversation");
    error(&gateway.client().get(&second).await, 404);
    let result = json!({"items": [{"type": "function_call_output", "call_id": "a", "output": "found"}]});
    gateway.client().post_json(items, &result).await.expect(200);
    respond(&gateway, &json!("trip"), "two").await;
    let sent = gateway.upstream.last_request();
    assert_eq!(sent.messages()[1]["tool_calls"].as_array().unwrap().len(), 1);
    let all = data(&gateway.client().get(&format!("{items}?order=asc")).await);
    let question = format!("{items}/{}", all[3]["id"].as_str().unwrap());
    gateway.client().delete(&question).await.expect(200);
    assert_eq!(data(&gateway.client().get(items).await).len(), all.len() - 1);
}

#[tokio::test]
async fn what_a_branch_shares_is_not_deleted() {
    let gateway = TestGateway::start().await;
    let one = respond(&gateway, &json!("trip"), "one").await;
    respond(&gateway, &json!("trip"), "two").await;
    let branch = json!({"model": "scripted", "input": "other", "previous_response_id": one["id"]});
    let branch = gateway.client().post_json(RESPONSES, &branch).await.expect(200);
    let item = format!("/v1/conversations/trip/items/{}", one["output"][0]["id"].as_str().unwrap());
    assert_eq!(error(&gateway.client().delete(&item).await, 409)["code"], "item_is_shared");
    gateway.client().delete("/v1/conversations/trip").await.expect(200);
    let kept = branch["session"]["conversation_id"].as_str().unwrap();
    let rows = gateway.transcript(kept).await;
    assert_eq!(rows, ["user: one", "assistant: reply to: one", "user: other", "assistant: reply to: other"]);
}

#[tokio::test]
async fn a_deleted_conversation_leaves_nothing_behind_and_its_names_are_free() {
    let mut gateway = TestGateway::start().await;
    let response = respond(&gateway, &json!("trip"), "one").await;
    let id = response["conversation"]["id"].as_str().unwrap().to_owned();
    let gone = gateway.client().delete("/v1/conversations/trip").await.expect(200);
    assert_eq!(gone, json!({"id": id, "object": "conversation.deleted", "deleted": true}));
    gateway.restart().await;
    for path in [
        format!("{CONVERSATIONS}/{id}"),
        format!("{CONVERSATIONS}/trip/items"),
        format!("{RESPONSES}/{}", response["id"].as_str().unwrap()),
        "/api/sessions/trip".to_owned(),
    ] {
        error(&gateway.client().get(&path).await, 404);
    }
    let after = json!({"model": "scripted", "input": "two", "previous_response_id": response["id"]});
    let refused = gateway.client().post_json(RESPONSES, &after).await;
    assert_eq!(error(&refused, 404)["code"], "previous_response_not_found");
    let named = json!({"model": "scripted", "input": "two", "conversation": id});
    error(&gateway.client().post_json(RESPONSES, &named).await, 404);
    let again = respond(&gateway, &json!("trip"), "two").await;
    assert_eq!(
        (gateway.context(), again["session"]["resolution"].as_str()),
        (vec!["user: two".to_owned()], Some("created"))
    );
}

#[tokio::test]
async fn what_cannot_be_is_refused_by_name_and_leaves_nothing() {
    let gateway = TestGateway::start().await;
    respond(&gateway, &json!("trip"), "one").await;
    let items = "/v1/conversations/trip/items";
    let too_many: Vec<Value> = (0..21).map(|_| user("x")).collect();
    let result = json!([{"type": "function_call_output", "call_id": "none", "output": "x"}]);
    for (path, body, param) in [
        (CONVERSATIONS, json!({"items": too_many}), "items"),
        (CONVERSATIONS, json!({"items": result}), "items[0].call_id"),
        (CONVERSATIONS, json!({"metadata": []}), "metadata"),
        ("/v1/conversations/trip", json!({}), "metadata"),
        (items, json!({"items": []}), "items"),
        (items, json!({}), "items"),
        (items, json!({"items": [{"type": "nonsense"}]}), "items[0].type"),
        (items, json!({"items": result}), "items[0].call_id"),
    ] {
        let refused = error(&gateway.client().post_json(path, &body).await, 400);
        assert_eq!(refused["param"], param, "{path} {body}");
    }
    for query in ["limit=0", "limit=101", "order=up", "after=msg_none", "nonsense=1"] {
        let refused = error(&gateway.client().get(&format!("{items}?{query}")).await, 400);
        assert_eq!(refused["param"], query.split('=').next().unwrap());
    }
    let unknown = format!("conv_{}", "0".repeat(32));
    error(&gateway.client().get(&format!("{CONVERSATIONS}/{unknown}")).await, 404);
    error(&gateway.client().delete(&format!("{CONVERSATIONS}/nobody")).await, 404);
    error(
        &gateway.client().post_json(&format!("{CONVERSATIONS}/nobody/items"), &json!({"items": [user("x")]})).await,
        404,
    );
    let stranger = with(json!({}), "metadata", json!({}));
    error(&gateway.client().post_json(&format!("{CONVERSATIONS}/nobody"), &stranger).await, 404);
    assert_eq!(gateway.sessions().await.len(), 1);
    assert_eq!(gateway.rows("trip").await.len(), 2);
}

#[tokio::test]
async fn a_response_whose_answer_was_deleted_is_still_there_without_it() {
    let gateway = TestGateway::start().await;
    let body = json!({"model": "scripted", "input": "one", "conversation": "trip", "stream": true});
    let client = gateway.client().header("idempotency-key", "k");
    let first = client.post_stream(RESPONSES, &body).await.rest().await;
    let response = first[0].json()["response"].clone();
    let path = format!("{RESPONSES}/{}", response["id"].as_str().unwrap());
    let stored = gateway.client().get(&path).await.expect(200);
    let item = format!("/v1/conversations/trip/items/{}", stored["output"][0]["id"].as_str().unwrap());
    gateway.client().delete(&item).await.expect(200);
    let left = gateway.client().get(&path).await.expect(200);
    assert_eq!((&left["status"], &left["output"]), (&json!("completed"), &json!([])));
    for events in [
        gateway.client().get_stream(&format!("{path}?stream=true")).await.rest().await,
        client.post_stream(RESPONSES, &body).await.rest().await,
    ] {
        let names: Vec<_> = events.iter().filter_map(|event| event.name.as_deref()).collect();
        assert_eq!(names, ["response.created", "response.in_progress", "response.completed"]);
    }
    assert_eq!(gateway.upstream.requests().len(), 1);
}
