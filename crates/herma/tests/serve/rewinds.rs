//! `POST /api/sessions/{alias}/rewind` and `…/restore`.

use herma_testkit::{Answer, Reply, ToolCall};
use serde_json::{Value, json};

use crate::support::{CHAT, TestGateway, assistant, chat, data, error, result, user};

async fn rewind(gateway: &TestGateway, body: Value) -> Answer {
    gateway.client().post_json("/api/sessions/trip/rewind", &body).await
}

async fn restore(gateway: &TestGateway) -> Answer {
    gateway.client().post_json("/api/sessions/trip/restore", &json!({})).await
}

/// A conversation with three turns.
async fn trip() -> TestGateway {
    let gateway = TestGateway::start().await;
    for text in ["one", "two", "three"] {
        gateway.say("trip", text).await.expect(200);
    }
    gateway
}

async fn id_of(gateway: &TestGateway, content: &str) -> String {
    let rows = gateway.rows("trip").await;
    let row = rows.iter().find(|row| row["content"] == content).unwrap_or_else(|| panic!("no {content}"));
    row["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_models_view_ends_there_and_the_full_view_keeps_everything() {
    let mut gateway = trip().await;
    let before = gateway.client().get("/api/sessions/trip").await;
    let row = rewind(&gateway, json!({"turns": 2})).await;
    assert_ne!(row.header("etag").expect("an ETag"), before.header("etag").unwrap());
    let row = row.expect(200);
    assert_eq!((&row["id"], &row["message_count"]), (&json!("trip"), &json!(6)));
    assert_eq!(gateway.model_view("trip").await, ["user: one", "assistant: reply to: one"]);
    let marks: Vec<bool> = gateway.rows("trip").await.iter().map(|row| row["rewound"] == true).collect();
    assert_eq!(marks, [false, false, true, true, true, true]);
    gateway.restart().await;
    gateway.say("trip", "four").await.expect(200);
    assert_eq!(gateway.context(), ["user: one", "assistant: reply to: one", "user: four"]);
    assert_eq!(gateway.transcript("trip").await.len(), 8);
    let nothing = error(&restore(&gateway).await, 409);
    assert_eq!(nothing["code"], "nothing_to_restore");
    let found = data(&gateway.client().get("/api/search?q=three").await);
    assert!(!found.is_empty() && found.iter().all(|hit| hit["rewound"] == true), "{found:?}");
    let found = data(&gateway.client().get("/api/search?q=four").await);
    assert!(!found.is_empty() && found.iter().all(|hit| hit.get("rewound").is_none()), "{found:?}");
}

#[tokio::test]
async fn a_rewind_is_taken_back_until_the_next_turn() {
    let gateway = trip().await;
    let whole = gateway.model_view("trip").await;
    let to = id_of(&gateway, "reply to: one").await;
    rewind(&gateway, json!({"to": to})).await.expect(200);
    assert_eq!(gateway.model_view("trip").await, whole[..2]);
    restore(&gateway).await.expect(200);
    assert_eq!(gateway.model_view("trip").await, whole);
    gateway.say("trip", "four").await.expect(200);
    assert_eq!(gateway.context().len(), 7);
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused() {
    let gateway = trip().await;
    let gone = id_of(&gateway, "three").await;
    for (body, param) in [
        (json!({}), None),
        (json!({"turns": 4}), Some("turns")),
        (json!({"turns": 0}), Some("turns")),
        (json!({"to": "msg_1"}), Some("to")),
        (json!({"to": "msg_0190000000007000800000000000ffff"}), Some("to")),
        (json!({"to": gone, "turns": 1}), Some("turns")),
    ] {
        assert_eq!(error(&rewind(&gateway, body.clone()).await, 400)["param"].as_str(), param, "{body}");
    }
    rewind(&gateway, json!({"turns": 1})).await.expect(200);
    gateway.say("trip", "four").await.expect(200);
    assert_eq!(error(&rewind(&gateway, json!({"to": gone})).await, 400)["param"], "to");
    error(&gateway.client().post_json("/api/sessions/nowhere/rewind", &json!({"turns": 1})).await, 404);
    gateway.client().post_json("/api/sessions/trip/end", &json!({})).await.expect(200);
    assert_eq!(error(&rewind(&gateway, json!({"turns": 1})).await, 409)["code"], "session_ended");
}

#[tokio::test]
async fn a_client_may_send_the_history_with_what_was_rewound_or_without() {
    let gateway = trip().await;
    let history = |texts: &[&str], new: &str| {
        let said = texts.iter().flat_map(|text| [user(text), assistant(&format!("reply to: {text}"))]);
        chat(&said.chain([user(new)]).collect::<Vec<_>>())
    };
    let send = async |body: &Value| gateway.in_session("trip").post_json(CHAT, body).await.expect(200);
    rewind(&gateway, json!({"turns": 1})).await.expect(200);
    send(&history(&["one", "two", "three"], "four")).await;
    let reply = |text: &str| format!("assistant: reply to: {text}");
    let kept = ["user: one".to_owned(), reply("one"), "user: two".to_owned(), reply("two")];
    assert_eq!(gateway.context(), [&kept[..], &["user: four".to_owned()]].concat());
    rewind(&gateway, json!({"turns": 1})).await.expect(200);
    send(&history(&["one", "two"], "five")).await;
    assert_eq!(gateway.context(), [&kept[..], &["user: five".to_owned()]].concat());
    rewind(&gateway, json!({"turns": 1})).await.expect(200);
    send(&history(&["one", "two"], "five")).await;
    assert_eq!(gateway.context(), [&kept[..], &["user: five".to_owned()]].concat(), "the same question is asked again");
    rewind(&gateway, json!({"turns": 3})).await.expect(200);
    send(&history(&["one", "two", "three"], "six")).await;
    assert_eq!(gateway.context(), ["user: six"], "nothing of what was rewound reaches the model");
    assert_eq!(gateway.transcript("trip").await.len(), 14, "nothing is stored twice");
}

#[tokio::test]
async fn a_call_whose_results_were_rewound_gets_true_ones() {
    let gateway = TestGateway::start().await;
    gateway.upstream.push(Reply::tool_calls([ToolCall::new("a", "look", "{}"), ToolCall::new("b", "look", "{}")]));
    gateway.say("trip", "look").await.expect(200);
    let results = chat(&[result("a", "1"), result("b", "2")]);
    gateway.in_session("trip").post_json(CHAT, &results).await.expect(200);
    rewind(&gateway, json!({"turns": 1})).await.expect(200);
    gateway.in_session("trip").post_json(CHAT, &chat(&[result("a", "3"), result("b", "4")])).await.expect(200);
    assert_eq!(gateway.context()[2..], ["tool a: 3", "tool b: 4"], "the conversation waits for them again");
    rewind(&gateway, json!({"turns": 1})).await.expect(200);
    gateway.say("trip", "never mind").await.expect(200);
    let not_executed = ["tool a: [This call was not executed.]", "tool b: [This call was not executed.]"];
    assert_eq!(gateway.context()[2..4], not_executed);
}

#[tokio::test]
async fn a_response_that_was_rewound_is_an_earlier_one() {
    let gateway = TestGateway::start().await;
    let mut ids = Vec::new();
    for text in ["one", "two"] {
        let body = json!({"model": "scripted", "input": text});
        let response = gateway.in_session("trip").post_json("/v1/responses", &body).await.expect(200);
        ids.push(response["id"].as_str().unwrap().to_owned());
    }
    let ask = async |previous: &str, text: &str| {
        let body = json!({"model": "scripted", "input": text, "previous_response_id": previous});
        gateway.client().post_json("/v1/responses", &body).await.expect(200)["session"]["resolution"].clone()
    };
    let question = id_of(&gateway, "two").await;
    rewind(&gateway, json!({"to": question})).await.expect(200);
    assert_eq!(ask(&ids[1], "after two").await, "branched", "its answer is not shown any more");
    rewind(&gateway, json!({"turns": 1})).await.expect(200);
    assert_eq!(ask(&ids[1], "after two").await, "branched");
    assert_eq!(gateway.context().len(), 5);
    assert_eq!(ask(&ids[0], "instead").await, "head", "it is the last one again");
    assert_eq!(gateway.context(), ["user: one", "assistant: reply to: one", "user: instead"]);
    let items = data(&gateway.client().get("/v1/conversations/trip/items?order=asc").await);
    let texts: Vec<&str> = items.iter().filter_map(|item| item["content"][0]["text"].as_str()).collect();
    assert_eq!(texts, ["one", "reply to: one", "instead", "reply to: instead"]);
}

#[tokio::test]
async fn a_retry_of_what_was_rewound_gets_its_answer_and_a_running_turn_is_in_the_way() {
    let gateway = trip().await;
    let keyed = gateway.in_session("trip").header("idempotency-key", "k");
    let first = keyed.post_json(CHAT, &chat(&[user("four")])).await;
    rewind(&gateway, json!({"turns": 1})).await.expect(200);
    assert_eq!(keyed.post_json(CHAT, &chat(&[user("four")])).await.text(), first.text());
    let gate = herma_testkit::Gate::new();
    gateway.upstream.push(Reply::text("later").held(&gate));
    let running = {
        let client = gateway.in_session("trip");
        tokio::spawn(async move { client.post_json(CHAT, &chat(&[user("five")])).await })
    };
    gate.until_waiting(1).await;
    assert_eq!(error(&rewind(&gateway, json!({"turns": 1})).await, 409)["code"], "conversation_busy");
    gate.open();
    running.await.unwrap().expect(200);
}
